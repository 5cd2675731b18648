//! CREATE, ALTER and DROP ROLE, memberships, and the role that a session acts as.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Cursor, Rest};
use crate::error::Error;
use crate::statement::{
    Assume, Define, Password, RoleName, RoleOptions, RoleStatement, Setting, Statement,
};

const OPTIONS: &str = "SUPERUSER, LOGIN, CREATEROLE, INHERIT, their opposites with NO, CONNECTION LIMIT, \
                       PASSWORD, VALID UNTIL, IN ROLE, ROLE or ADMIN";

/// Further attributes of PostgreSQL's roles, and the next step for users who want them.
const OTHERS: [(&str, &str); 3] = [
    ("CREATEDB", "a database is a directory of its own: cellar init DIR"),
    ("REPLICATION", "leave it out"),
    ("BYPASSRLS", "leave it out: there are no policies"),
];

fn role(statement: RoleStatement) -> Statement {
    Statement::Define(Define::Role(Box::new(statement)))
}

impl<'a> Cursor<'a> {
    /// Whether a statement begins with these words, each of which may be alternatives separated by `|`.
    fn begins(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(at, word)| self.is_word_at(at, word))
    }

    /// A statement about roles; `None`: it is another one.
    pub(super) fn about_roles(&mut self) -> Result<Option<Statement>, Error> {
        const KIND: &str = "ROLE|USER|GROUP";
        let heads: [(&[&str], Rest<'a>); 5] = [
            (&["CREATE", KIND], Self::create_role),
            (&["ALTER", KIND], Self::alter_role),
            (&["DROP", KIND], Self::drop_roles),
            (&["GRANT"], Self::grant),
            (&["REVOKE"], Self::revoke),
        ];
        for (words, read) in heads {
            if self.begins(words) {
                self.at = words.len();
                return read(self).map(Some);
            }
        }
        if self.begins(&["ALTER", "DEFAULT", "PRIVILEGES"]) {
            return Err(Error::not_yet("ALTER DEFAULT PRIVILEGES")
                .next("grant .. on all tables in schema .., after they were made"));
        }
        if let Some(statement) = self.about_owned()? {
            return Ok(Some(statement));
        }
        self.assume()
    }

    /// The name of a role to be created.
    fn new_role(&mut self) -> Result<String, Error> {
        match self.role_name()? {
            RoleName::Named(name) => Ok(name),
            _ => {
                let text = "this name of a role means something else";
                Err(Error::new(1948, "42939", text).next("choose another name"))
            }
        }
    }

    pub(super) fn role_name(&mut self) -> Result<RoleName, Error> {
        let words = [
            ("CURRENT_USER", RoleName::Current),
            ("CURRENT_ROLE", RoleName::Current),
            ("SESSION_USER", RoleName::Session),
            ("PUBLIC", RoleName::Public),
        ];
        for (word, name) in words {
            if self.accept_word(word) {
                return Ok(name);
            }
        }
        Ok(RoleName::Named(self.folded_name("the name of a role")?))
    }

    pub(super) fn role_names(&mut self) -> Result<Vec<RoleName>, Error> {
        let mut names = vec![self.role_name()?];
        while self.accept(&Token::Comma) {
            names.push(self.role_name()?);
        }
        Ok(names)
    }

    fn create_role(&mut self) -> Result<Statement, Error> {
        if self.is_word_at(self.at, "MAPPING") {
            return Err(Error::not_yet("CREATE USER MAPPING"));
        }
        // CREATE USER is CREATE ROLE .. LOGIN.
        let can_login = self.is_word_at(1, "USER");
        let name = self.new_role()?;
        self.accept_word("WITH");
        let mut options = self.role_options(true)?;
        options.can_login = options.can_login.or(can_login.then_some(true));
        Ok(role(RoleStatement::Create { name, options }))
    }

    fn alter_role(&mut self) -> Result<Statement, Error> {
        if self.is_word_at(self.at, "ALL|MAPPING") {
            return Err(Error::not_yet("ALTER ROLE ALL").next("alter each role"));
        }
        let name = self.role_name()?;
        if self.is_word_at(self.at, "SET|RESET") || self.is_word_at(self.at, "IN") {
            return Err(Error::not_yet("settings that go with a role")
                .next("the client says them when it connects: PGOPTIONS='-c name=value'"));
        }
        if self.is_word_at(self.at, "ADD|DROP") {
            return Err(Error::not_yet("ALTER GROUP .. ADD and DROP")
                .next("grant role to other, or revoke role from other"));
        }
        if self.accept_words(&["RENAME", "TO"]) {
            return Ok(role(RoleStatement::Rename { name, to: self.new_role()? }));
        }
        self.accept_word("WITH");
        let options = self.role_options(false)?;
        Ok(role(RoleStatement::Alter { name, options }))
    }

    fn drop_roles(&mut self) -> Result<Statement, Error> {
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let names = self.role_names()?;
        Ok(role(RoleStatement::Drop { names, if_exists }))
    }

    fn role_options(&mut self, is_new: bool) -> Result<RoleOptions, Error> {
        let mut options = RoleOptions::default();
        while !self.is_at_end() {
            if !self.role_option(&mut options, is_new)? {
                // What was found is not shown: it may be a password.
                return Err(Error::syntax(format!("expected {OPTIONS}")));
            }
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions, is_new: bool) -> Result<bool, Error> {
        let flags = [
            ("SUPERUSER", &mut options.is_superuser),
            ("LOGIN", &mut options.can_login),
            ("CREATEROLE", &mut options.creates_roles),
            ("INHERIT", &mut options.inherits),
        ];
        for (word, flag) in flags {
            for (said, value) in [(word.to_owned(), true), (format!("NO{word}"), false)] {
                if self.accept_word(&said) {
                    if flag.replace(value).is_some() {
                        return Err(Error::syntax("conflicting or redundant options"));
                    }
                    return Ok(true);
                }
            }
        }
        for (word, next) in OTHERS {
            if self.accept_word(&format!("NO{word}")) {
                return Ok(true);
            }
            if self.accept_word(word) {
                return Err(Error::not_yet(word).next(next));
            }
        }
        if self.accept_words(&["CONNECTION", "LIMIT"]) {
            options.connections = Some(self.connection_limit()?);
        } else if self.accept_words(&["VALID", "UNTIL"]) {
            options.valid_until = Some(self.text("a point in time")?);
        } else if self.accept_word("UNENCRYPTED") {
            return Err(Error::not_yet("UNENCRYPTED PASSWORD").next("password '..'"));
        } else if self.accept_words(&["ENCRYPTED", "PASSWORD"]) || self.accept_word("PASSWORD") {
            options.password = Some(self.password()?);
        } else if is_new
            && (self.accept_words(&["IN", "ROLE"]) || self.accept_words(&["IN", "GROUP"]))
        {
            options.in_roles = self.role_names()?;
        } else if is_new && (self.accept_word("ROLE") || self.accept_word("USER")) {
            options.members = self.role_names()?;
        } else if is_new && self.accept_word("ADMIN") {
            options.admins = self.role_names()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn connection_limit(&mut self) -> Result<i32, Error> {
        let wrong = self.expected("a number of sessions, -1 for any");
        let sign = if self.accept(&Token::Minus) { "-" } else { "" };
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at).map(|own| &own.token) else {
            return Err(wrong);
        };
        self.at += 1;
        let limit: i32 = format!("{sign}{digits}").parse().map_err(|_| wrong)?;
        match limit >= -1 {
            true => Ok(limit),
            false => Err(Error::new(68, "22023", format!("invalid connection limit: {limit}"))
                .next("-1 is any number")),
        }
    }

    /// A password; `None`: the role is to have none.
    fn password(&mut self) -> Result<Option<Password>, Error> {
        if self.accept_word("NULL") {
            return Ok(None);
        }
        let text = match self.tokens.get(self.at).map(|own| &own.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            // What was found may be a password.
            _ => return Err(Error::syntax("expected a password in 'quotes', or NULL")),
        };
        self.at += 1;
        Ok(Some(Password(text)))
    }

    // --- memberships ---

    fn grant(&mut self) -> Result<Statement, Error> {
        if self.is_on_objects() {
            return self.grant_rights();
        }
        let roles = self.role_names()?;
        self.word("TO")?;
        let to = self.role_names()?;
        let is_admin = self.accept_words(&["WITH", "ADMIN", "OPTION"]);
        self.granted_by()?;
        Ok(role(RoleStatement::Grant { roles, to, is_admin }))
    }

    fn revoke(&mut self) -> Result<Statement, Error> {
        if self.is_on_objects() {
            let options = self.accept_words(&["GRANT", "OPTION", "FOR"]);
            return self.revoke_rights(options);
        }
        let only_admin = self.accept_words(&["ADMIN", "OPTION", "FOR"]);
        let roles = self.role_names()?;
        self.word("FROM")?;
        let from = self.role_names()?;
        self.granted_by()?;
        self.cascades();
        Ok(role(RoleStatement::Revoke { roles, from, only_admin }))
    }

    pub(super) fn granted_by(&mut self) -> Result<(), Error> {
        match self.is_word_at(self.at, "GRANTED") {
            true => Err(Error::not_yet("GRANTED BY").next("leave it out: it is who says it")),
            false => Ok(()),
        }
    }

    // --- the role of a session ---

    /// SET ROLE, SET SESSION AUTHORIZATION, and RESET of them.
    fn assume(&mut self) -> Result<Option<Statement>, Error> {
        let is_reset = self.begins(&["RESET"]);
        if !is_reset && !self.begins(&["SET"]) {
            return Ok(None);
        }
        self.at = 1;
        let is_local = !is_reset && self.accept_word("LOCAL");
        // SET SESSION SESSION AUTHORIZATION, and SET SESSION ROLE.
        if !is_reset && !is_local && self.is_word_at(self.at + 1, "ROLE|SESSION") {
            self.accept_word("SESSION");
        }
        let is_session = self.accept_words(&["SESSION", "AUTHORIZATION"])
            || self.accept_word("SESSION_AUTHORIZATION");
        if !is_session && !self.accept_word("ROLE") {
            self.at = 0;
            return Ok(None);
        }
        let name = match is_reset {
            true => None,
            false => self.assumed(is_session)?,
        };
        let what = if is_session { Assume::Session(name) } else { Assume::Role(name) };
        Ok(Some(Statement::Setting(Setting::Assume { what, is_local })))
    }

    fn assumed(&mut self, is_session: bool) -> Result<Option<String>, Error> {
        if !self.accept(&Token::Eq) {
            self.accept_word("TO");
        }
        if self.accept_word("DEFAULT") || (!is_session && self.accept_word("NONE")) {
            return Ok(None);
        }
        if let Some(Token::SingleQuotedString(text)) = self.tokens.get(self.at).map(|t| &t.token) {
            self.at += 1;
            return Ok(Some(text.clone()).filter(|text| is_session || text != "none"));
        }
        self.folded_name("the name of a role").map(Some)
    }
}
