//! The statement parser: storage statements by recursive descent, everything else by DataFusion's parser
//! with the PostgreSQL dialect.

mod comment;
mod constraints;
mod copy;
pub(crate) mod create_as;
mod disks;
mod enums;
mod explain;
pub(crate) mod foreign_table;
mod identity;
mod joins;
mod like;
mod locks;
mod logfile;
mod no_effect;
mod offline;
mod only;
mod operators;
pub(crate) mod overriding;
mod owner;
mod refused;
mod rights;
mod role;
mod schema;
mod scrub;
mod sequence;
mod sessions;
mod setting;
pub(crate) mod table_kind;
mod table_lock;
mod templates;
mod upkeep;
pub(crate) mod view;

use cellar_diskgroup::Redundancy;
use cellar_instance::administration::Command;
use cellar_instance::parameters::Scope;
use cellar_storage::request::{Contents, DiskRequest, GroupAction, GroupRequest, GroupSelection};
use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use crate::dialect::rewrite;
use crate::error::{Error, Position};
use crate::grammar::CellarDialect;
use crate::names;
use crate::pgcatalog;
use crate::statement::Statement;

/// A query given as text, changed by `change` and turned back into text; `None`: it was not changed.
///
/// # Errors
/// Those of [`parse`]; those of the change.
pub(crate) fn changed_query(
    sql: &str,
    change: impl FnOnce(&mut SqlStatement) -> Result<bool, Error>,
) -> Result<Option<String>, Error> {
    let mut tokens = Tokenizer::new(&CellarDialect, sql)
        .tokenize_with_location()
        .map_err(|e| Error::syntax(e.message.clone()).at(position(e.location)))?;
    split_signs(&mut tokens);
    split_paths(&mut tokens);
    operators::make_plain(&mut tokens);
    let parser = Parser::new(&CellarDialect).with_recursion_limit(RECURSION_MAX);
    let parsed = parser.with_tokens_with_locations(tokens).parse_statement();
    let mut statement = parsed.map_err(|error| Error::syntax(error.to_string()))?;
    Ok(change(&mut statement)?.then(|| statement.to_string()))
}

/// The deepest nesting of parentheses; more would threaten the stack.
const RECURSION_MAX: usize = 64;

/// Parses one statement, with or without its semicolon.
///
/// # Errors
/// 00900 with the position and what was expected there; 03001 for what Oracle has and this version
/// does not.
pub fn parse(sql: &str) -> Result<Statement, Error> {
    let mut tokens = Tokenizer::new(&CellarDialect, sql)
        .tokenize_with_location()
        .map_err(|e| Error::syntax(e.message.clone()).at(position(e.location)))?;
    split_signs(&mut tokens);
    split_paths(&mut tokens);
    operators::make_plain(&mut tokens);
    let mut cursor = Cursor::new(&tokens);
    if let Some(statement) = cursor.own_statement()? {
        return Ok(statement);
    }
    if let Some(copy) = copy::read(&tokens)? {
        return Ok(Statement::Copy(Box::new(copy)));
    }
    let explained = explain::take_out(&mut tokens)?;
    let statement = one_of(tokens)?;
    Ok(match explained {
        Some(options) => Statement::Explain(options, Box::new(statement)),
        None => Statement::Query(Box::new(statement)),
    })
}

/// Whether a COPY is in the binary format.
pub fn is_binary_copy(sql: &str) -> bool {
    matches!(parse(sql), Ok(Statement::Copy(copy)) if copy.is_binary())
}

/// Whether a statement is a COPY FROM STDIN, whose data come separately.
pub fn reads_stream(sql: &str) -> bool {
    // Other statements need not be parsed completely.
    let has = |word: &str| {
        sql.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    has("copy")
        && has("stdin")
        && match parse(sql) {
            Ok(Statement::Copy(copy)) => copy.reads_stream(),
            Ok(_) => false,
            // A statement with an error: its data follow all the same.
            Err(_) => is_copy_from_stdin(sql),
        }
}

fn is_copy_from_stdin(sql: &str) -> bool {
    let words: Vec<String> = sql.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let is_from = |pair: &[String]| pair[0] == "from" && pair[1].trim_end_matches(';') == "stdin";
    words.first().is_some_and(|word| word == "copy") && words.windows(2).any(is_from)
}

/// ABORT, which the parser does not know, is PostgreSQL's synonym of ROLLBACK.
fn abort_is_rollback(tokens: &mut [TokenWithSpan]) {
    let first = tokens.iter_mut().find(|token| !matches!(token.token, Token::Whitespace(_)));
    if let Some(first) = first
        && matches!(&first.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("abort"))
    {
        first.token = Token::make_keyword("ROLLBACK");
    }
}

/// One statement for DataFusion.
fn one_of(mut tokens: Vec<TokenWithSpan>) -> Result<DfStatement, Error> {
    abort_is_rollback(&mut tokens);
    foreign_table::take_out(&mut tokens)?;
    let filled = create_as::take_out(&mut tokens);
    table_kind::take_out(&mut tokens)?;
    locks::take_out(&mut tokens);
    only::take_out(&mut tokens);
    no_effect::take_out(&mut tokens);
    joins::close(&mut tokens);
    let overriding = overriding::take_out(&mut tokens);
    sequence::order_identities(&mut tokens)?;
    let mut statements = DFParserBuilder::new(tokens)
        .with_dialect(&CellarDialect)
        .with_recursion_limit(RECURSION_MAX)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|e| syntax_of(&e))?;
    let more = statements.len() > 1;
    let Some(mut statement) = statements.pop_front() else {
        return Err(Error::syntax("the statement is empty"));
    };
    if more {
        return Err(Error::syntax("more than one statement where one is expected"));
    }
    if let Some(whose) = overriding {
        overriding::put(&mut statement, whose)?;
    }
    if let Some(own) = filled {
        create_as::put(&mut statement, own);
    }
    create_as::into_is_create(&mut statement);
    names::settle_parsed(&mut statement);
    pgcatalog::rewrite(&mut statement);
    rewrite(&mut statement)?;
    Ok(statement)
}

/// Splits the sign of a path from a name, as in `doc#>>'{a}'`: names may end with one. Before a number
/// it is a comparison of such a name.
fn split_paths(tokens: &mut [TokenWithSpan]) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let own = match &tokens[at].token {
            Token::Word(word) if word.quote_style.is_none() => word.value.strip_suffix('#'),
            _ => None,
        };
        let sign = match &tokens[at + 1].token {
            Token::Gt => Some(Token::HashArrow),
            Token::ShiftRight => Some(Token::HashLongArrow),
            _ => None,
        };
        let behind = tokens[at + 2..].iter().find(|own| !matches!(own.token, Token::Whitespace(_)));
        let is_path = match behind.map(|own| &own.token) {
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => true,
            Some(Token::Word(word)) => word.keyword == Keyword::ARRAY,
            _ => false,
        };
        if let (Some(own), Some(sign), true) = (own, sign, is_path) {
            tokens[at].token = Token::make_word(own, None);
            tokens[at + 1].token = sign;
        }
        at += 1;
    }
}

/// Splits trailing signs from operators, as in `a>-1`: as in PostgreSQL, an operator ends with a sign
/// only if it contains a character that no comparison has.
fn split_signs(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        let (span, split) = match &tokens[at].token {
            Token::CustomBinaryOperator(text) => (tokens[at].span, signs_of(text)),
            _ => (tokens[at].span, None),
        };
        if let Some(split) = split {
            let split: Vec<_> =
                split.into_iter().map(|token| TokenWithSpan { token, span }).collect();
            at += split.len() - 1;
            tokens.splice(at + 1 - split.len()..=at + 1 - split.len(), split);
        }
        at += 1;
    }
}

fn signs_of(text: &str) -> Option<Vec<Token>> {
    let head = text.trim_end_matches(['+', '-']);
    let own = match head {
        "<" => Token::Lt,
        ">" => Token::Gt,
        "=" => Token::Eq,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" | "!=" => Token::Neq,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "*" => Token::Mul,
        "/" => Token::Div,
        _ => return None,
    };
    let signs = text[head.len()..].chars();
    let signs = signs.map(|sign| if sign == '-' { Token::Minus } else { Token::Plus });
    Some(std::iter::once(own).chain(signs).collect())
}

fn position(location: Location) -> Position {
    Position { line: location.line, column: location.column }
}

fn syntax_of(error: &datafusion::error::DataFusionError) -> Error {
    use datafusion::error::DataFusionError;
    use datafusion::sql::sqlparser::parser::ParserError;
    match error {
        DataFusionError::SQL(e, _) => match e.as_ref() {
            ParserError::TokenizerError(m) | ParserError::ParserError(m) => {
                Error::syntax(m.clone())
            }
            ParserError::RecursionLimitExceeded => Error::new(
                900,
                "54001",
                format!("the statement nests deeper than {RECURSION_MAX} levels"),
            ),
        },
        DataFusionError::Diagnostic(_, e) | DataFusionError::Context(_, e) => syntax_of(e),
        other => Error::syntax(other.strip_backtrace()),
    }
}

/// Tokens without blanks and comments, and a position among them.
struct Cursor<'a> {
    tokens: Vec<&'a TokenWithSpan>,
    at: usize,
    end: Position,
}

/// Parses the rest of a statement whose first words are known.
type Rest<'a> = fn(&mut Cursor<'a>) -> Result<Statement, Error>;

impl<'a> Cursor<'a> {
    fn new(tokens: &'a [TokenWithSpan]) -> Cursor<'a> {
        let end = tokens.last().map_or(Position { line: 1, column: 1 }, |t| position(t.span.end));
        let tokens = tokens
            .iter()
            .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
            .collect();
        Cursor { tokens, at: 0, end }
    }

    fn own_statement(&mut self) -> Result<Option<Statement>, Error> {
        if let Some(statement) = self.about_roles()? {
            return self.at_its_end(statement).map(Some);
        }
        if self.is_about_setting() {
            let statement = self.setting()?;
            return self.at_its_end(statement).map(Some);
        }
        let own = self.set_schema().or_else(|| self.owner_to());
        if let Some(statement) = own {
            // Only semicolons follow.
            self.at = self.tokens.len();
            return Ok(Some(statement));
        }
        if let Some(statement) = self.create_like()? {
            return self.at_its_end(statement).map(Some);
        }
        if let Some(statement) = self.add_identity()? {
            return self.at_its_end(statement).map(Some);
        }
        let heads: [(&[&str], Rest<'a>); 30] = [
            (&["CREATE", "DISKGROUP"], Self::create_diskgroup),
            (&["DROP", "DISKGROUP"], Self::drop_diskgroup),
            (&["ALTER", "DISKGROUP"], Self::alter_diskgroup),
            (&["ALTER", "SYSTEM"], Self::alter_system),
            (&["ALTER", "DATABASE"], Self::alter_database),
            (&["CREATE", "SEQUENCE"], Self::create_sequence),
            (&["CREATE", "TEMP|TEMPORARY", "SEQUENCE"], Self::create_temporary_sequence),
            (&["ALTER", "SEQUENCE"], Self::alter_sequence),
            (&["CREATE", "SCHEMA"], Self::create_schema),
            (&["DROP", "SCHEMA"], Self::drop_schema),
            (&["ALTER", "SCHEMA"], Self::alter_schema),
            (&["CREATE", "TYPE"], Self::create_type),
            (&["ALTER", "TYPE"], Self::alter_type),
            (&["DROP", "TYPE"], Self::drop_type),
            (&["DROP", "FOREIGN", "TABLE"], Self::drop_foreign),
            (&["CREATE", "DOMAIN"], Self::create_domain),
            (&["COMMENT", "ON"], Self::comment),
            (&["SET", "CONSTRAINTS"], Self::set_constraints),
            (&["CREATE", "RULE"], Self::rule),
            (&["CREATE", "OR", "REPLACE", "RULE"], Self::rule),
            (&["PREPARE", "TRANSACTION"], Self::two_phases),
            (&["COMMIT|ROLLBACK", "PREPARED"], Self::two_phases),
            (&["LISTEN|NOTIFY|UNLISTEN"], Self::notify),
            (&["LOCK"], Self::lock),
            (&["CHECKPOINT"], Self::checkpoint),
            (&["VACUUM"], Self::vacuum),
            (&["REINDEX"], Self::reindex),
            (&["ANALYZE|ANALYSE"], Self::analyze),
            (&["SHOW", "PARAMETER|PARAMETERS"], Self::show_parameter),
            (&["EXPLAIN", "WORK"], Self::explain_work),
        ];
        for (words, read) in heads {
            if words.iter().enumerate().all(|(i, w)| self.is_word_at(self.at + i, w)) {
                self.at += words.len();
                let statement = read(self)?;
                return self.at_its_end(statement).map(Some);
            }
        }
        Ok(None)
    }

    /// A statement, if nothing follows it.
    fn at_its_end(&mut self, statement: Statement) -> Result<Statement, Error> {
        while self.accept(&Token::SemiColon) {}
        match self.at < self.tokens.len() {
            true => Err(self.expected("the end of the statement")),
            false => Ok(statement),
        }
    }

    // --- one token ---

    fn is_word_at(&self, at: usize, words: &str) -> bool {
        match self.tokens.get(at).map(|t| &t.token) {
            Some(Token::Word(Word { value, quote_style: None, .. })) => {
                words.split('|').any(|w| value.eq_ignore_ascii_case(w))
            }
            _ => false,
        }
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is = self.is_word_at(self.at, word);
        self.at += usize::from(is);
        is
    }

    fn accept(&mut self, token: &Token) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|t| t.token == *token);
        self.at += usize::from(is);
        is
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        if self.accept_word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    fn expected(&self, what: &str) -> Error {
        match self.tokens.get(self.at) {
            Some(t) => Error::syntax(format!("expected {what}, found {}", t.token))
                .at(position(t.span.start)),
            None => Error::syntax(format!("expected {what}, found the end of the statement"))
                .at(self.end),
        }
    }

    /// A name, as written.
    fn name(&mut self, what: &str) -> Result<String, Error> {
        match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Word(word)) if !word.value.is_empty() => {
                self.at += 1;
                Ok(word.value.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    /// The name of a group, disk or failure group, in upper case, as stored.
    fn storage_name(&mut self, what: &str) -> Result<String, Error> {
        Ok(self.name(what)?.to_uppercase())
    }

    fn text(&mut self, what: &str) -> Result<String, Error> {
        match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::SingleQuotedString(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.expected(&format!("{what} in 'quotes'"))),
        }
    }

    fn texts(&mut self, what: &str) -> Result<Vec<String>, Error> {
        let mut texts = vec![self.text(what)?];
        while self.accept(&Token::Comma) {
            texts.push(self.text(what)?);
        }
        Ok(texts)
    }

    fn force(&mut self) -> bool {
        !self.accept_word("NOFORCE") && self.accept_word("FORCE")
    }

    /// `64K`, `1 G`, `512`.
    fn size(&mut self) -> Result<u64, Error> {
        const WHAT: &str = "a size such as 512M, 2G or 1T";
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at).map(|t| &t.token) else {
            return Err(self.expected(WHAT));
        };
        let number: Option<u64> = digits.parse().ok();
        let wrong = self.expected(WHAT);
        self.at += 1;
        let shift = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)]
            .into_iter()
            .find_map(|(unit, shift)| self.accept_word(unit).then_some(shift))
            .unwrap_or(0);
        number.and_then(|n| n.checked_mul(1 << shift)).filter(|n| *n > 0).ok_or(wrong)
    }

    // --- CREATE and DROP ---

    fn create_diskgroup(&mut self) -> Result<Statement, Error> {
        let name = self.storage_name("the name of the disk group")?;
        let redundancy = self.redundancy()?;
        let mut disks = Vec::new();
        loop {
            let failgroup = self.failgroup()?;
            if !self.accept_word("DISK") {
                break if failgroup.is_some() || disks.is_empty() {
                    return Err(self.expected("DISK 'path'"));
                };
            }
            disks.push(self.disk(failgroup.as_ref())?);
            while self.accept(&Token::Comma) {
                disks.push(self.disk(failgroup.as_ref())?);
            }
        }
        let mut attributes = Vec::new();
        if self.accept_word("ATTRIBUTE") {
            attributes.push(self.attribute()?);
            while self.accept(&Token::Comma) {
                attributes.push(self.attribute()?);
            }
        } else if self.at < self.tokens.len() && !self.accept(&Token::SemiColon) {
            return Err(self.expected("FAILGROUP, DISK, ATTRIBUTE or the end of the statement"));
        }
        Ok(Statement::Command(Command::CreateDiskgroup(GroupRequest {
            name,
            redundancy,
            disks,
            attributes: attributes.into_iter().collect(),
        })))
    }

    /// `[REGULAR] FAILGROUP name`, or nothing.
    fn failgroup(&mut self) -> Result<Option<String>, Error> {
        if self.accept_word("QUORUM") {
            return Err(Error::not_yet("a QUORUM failure group"));
        }
        self.accept_word("REGULAR");
        match self.accept_word("FAILGROUP") {
            true => Ok(Some(self.storage_name("the name of the failure group")?)),
            false => Ok(None),
        }
    }

    fn redundancy(&mut self) -> Result<Redundancy, Error> {
        for word in ["FLEX", "EXTENDED"] {
            if self.is_word_at(self.at, word) {
                return Err(Error::not_yet(format!("{word} REDUNDANCY"))
                    .next("choose EXTERNAL, NORMAL or HIGH REDUNDANCY"));
            }
        }
        let found = [
            ("EXTERNAL", Redundancy::External),
            ("NORMAL", Redundancy::Normal),
            ("HIGH", Redundancy::High),
        ]
        .into_iter()
        .find_map(|(word, redundancy)| self.accept_word(word).then_some(redundancy));
        match found {
            Some(redundancy) => {
                self.word("REDUNDANCY")?;
                Ok(redundancy)
            }
            None if self.is_word_at(self.at, "DISK|FAILGROUP|REGULAR|QUORUM") => {
                Ok(Redundancy::Normal)
            }
            None => Err(self.expected("EXTERNAL, NORMAL or HIGH REDUNDANCY, FAILGROUP or DISK")),
        }
    }

    fn disk(&mut self, failgroup: Option<&String>) -> Result<DiskRequest, Error> {
        let path = self.text("the path of a disk")?;
        let name = match self.accept_word("NAME") {
            true => Some(self.storage_name("the name of the disk")?),
            false => None,
        };
        let size = self.optional_size()?;
        let force = self.force();
        let erase = match self.accept_word("ERASE") {
            true => Some(self.text("the serial number of the disk")?),
            false => None,
        };
        Ok(DiskRequest { path, name, failgroup: failgroup.cloned(), size, force, erase })
    }

    fn attribute(&mut self) -> Result<(String, String), Error> {
        let name = self.text("the name of an attribute")?.to_lowercase();
        if !self.accept(&Token::Eq) {
            return Err(self.expected("="));
        }
        Ok((name, self.text("the value of the attribute")?))
    }

    fn drop_diskgroup(&mut self) -> Result<Statement, Error> {
        let name = self.storage_name("the name of the disk group")?;
        let force = self.accept_word("FORCE");
        let contents = if self.accept_word("INCLUDING") {
            self.word("CONTENTS")?;
            Contents::Including { force }
        } else if force {
            return Err(self.expected("INCLUDING CONTENTS"));
        } else {
            if self.accept_word("EXCLUDING") {
                self.word("CONTENTS")?;
            }
            Contents::Excluding
        };
        Ok(Statement::Command(Command::DropDiskgroup { name, contents }))
    }

    // --- ALTER DISKGROUP ---

    fn alter_diskgroup(&mut self) -> Result<Statement, Error> {
        let groups = if self.accept_word("ALL") {
            GroupSelection::All
        } else {
            let mut names = vec![self.storage_name("the name of the disk group, or ALL")?];
            while self.accept(&Token::Comma) {
                names.push(self.storage_name("the name of a disk group")?);
            }
            GroupSelection::Named(names)
        };
        let start = self.at;
        let action = self.group_action()?;
        let several = !matches!(&groups, GroupSelection::Named(names) if names.len() == 1);
        let for_several = matches!(
            action,
            GroupAction::Mount { .. }
                | GroupAction::Dismount { .. }
                | GroupAction::UndropDisks(_)
                | GroupAction::Check { .. }
        );
        if several && !for_several {
            self.at = start;
            let what = "MOUNT, DISMOUNT, CHECK or UNDROP DISKS after more than one disk group";
            return Err(self.expected(what));
        }
        Ok(Statement::Command(Command::AlterDiskgroup { groups, action }))
    }

    fn group_action(&mut self) -> Result<GroupAction, Error> {
        const ALLOWED: &str = "MOUNT, DISMOUNT, ADD, DROP, RESIZE, UNDROP, RENAME, REBALANCE, \
                               OFFLINE, ONLINE, REPLACE, SCRUB, SET ATTRIBUTE or CHECK";
        if let Some(action) = self.template_action()? {
            return Ok(action);
        }
        if let Some(action) = self.disk_action()? {
            return Ok(action);
        }
        if let Some(action) = self.away_action()? {
            return Ok(action);
        }
        if let Some(action) = self.scrub_action()? {
            return Ok(action);
        }
        if self.accept_word("MOUNT") {
            if self.accept_word("RESTRICTED") {
                return Err(Error::not_yet("MOUNT RESTRICTED"));
            }
            self.accept_word("NORMAL");
            return Ok(GroupAction::Mount { force: self.force() });
        }
        if self.accept_word("DISMOUNT") {
            return Ok(GroupAction::Dismount { force: self.force() });
        }
        if self.accept_word("CHECK") {
            // Everything is checked, requested or not.
            self.accept_word("ALL");
            let repair = !self.accept_word("NOREPAIR") && self.accept_word("REPAIR");
            return Ok(GroupAction::Check { repair });
        }
        if self.accept_word("SET") {
            self.word("ATTRIBUTE")?;
            let (name, value) = self.attribute()?;
            return Ok(GroupAction::SetAttribute { name, value });
        }
        if let Some(word) = ["ADD", "DROP", "RENAME"].into_iter().find(|w| self.accept_word(w)) {
            return self.entry_action(word);
        }
        const LATER: &str = "MODIFY|CONVERT";
        if self.is_word_at(self.at, LATER) {
            let word = self.name(ALLOWED)?.to_uppercase();
            return Err(Error::not_yet(format!("ALTER DISKGROUP ... {word}"))
                .next(format!("ALTER DISKGROUP takes {ALLOWED}")));
        }
        Err(self.expected(ALLOWED))
    }

    fn entry_action(&mut self, verb: &str) -> Result<GroupAction, Error> {
        const LATER: &str = "VOLUME|USERGROUP|USER";
        if self.is_word_at(self.at, LATER) {
            let word = self.name("DIRECTORY or ALIAS")?.to_uppercase();
            return Err(Error::not_yet(format!("ALTER DISKGROUP ... {verb} {word}")));
        }
        if self.accept_word("DIRECTORY") {
            return match verb {
                "ADD" => Ok(GroupAction::AddDirectory(self.texts("the path of a directory")?)),
                "DROP" => Ok(GroupAction::DropDirectory {
                    path: self.text("the path of a directory")?,
                    force: self.force(),
                }),
                _ => {
                    let (from, to) = self.rename()?;
                    Ok(GroupAction::RenameDirectory { from, to })
                }
            };
        }
        if self.accept_word("ALIAS") {
            return match verb {
                "ADD" => {
                    let alias = self.text("the path of the alias")?;
                    self.word("FOR")?;
                    Ok(GroupAction::AddAlias { alias, file: self.text("the name of a file")? })
                }
                "DROP" => Ok(GroupAction::DropAlias(self.text("the path of the alias")?)),
                _ => {
                    let (from, to) = self.rename()?;
                    Ok(GroupAction::RenameAlias { from, to })
                }
            };
        }
        if verb == "DROP" && self.accept_word("FILE") {
            return Ok(GroupAction::DropFile(self.texts("the name of a file")?));
        }
        let file = if verb == "DROP" { ", FILE" } else { "" };
        Err(self.expected(&format!("DIRECTORY, ALIAS{file} or DISK after {verb}")))
    }

    fn rename(&mut self) -> Result<(String, String), Error> {
        let from = self.text("the present path")?;
        self.word("TO")?;
        Ok((from, self.text("the new path")?))
    }

    // --- ALTER SYSTEM, SHOW PARAMETER ---

    fn alter_system(&mut self) -> Result<Statement, Error> {
        if self.accept_word("FLUSH") {
            let what = self.name("CELL_CACHE or BUFFER_CACHE")?.to_uppercase();
            return Ok(Statement::Command(Command::Flush { what }));
        }
        if let Some(action) = self.redo_of_system()? {
            return Ok(action);
        }
        if let Some(statement) = self.end_of_session()? {
            return Ok(statement);
        }
        if self.accept_word("RESET") {
            let name = self.name("the name of a parameter")?.to_lowercase();
            let scope = self.scope()?;
            return Ok(Statement::Command(Command::ResetParameter { name, scope }));
        }
        if !self.accept_word("SET") {
            return Err(
                self.expected("SET, RESET, FLUSH, SWITCH, CHECKPOINT, ARCHIVE, KILL or DISCONNECT")
            );
        }
        let name = self.name("the name of a parameter")?.to_lowercase();
        if !self.accept(&Token::Eq) {
            return Err(self.expected("="));
        }
        let value = self.parameter_value()?;
        let mut comment = None;
        if self.accept_word("COMMENT") {
            self.accept(&Token::Eq);
            comment = Some(self.text("the comment")?);
        }
        let scope = self.scope()?;
        if comment.is_none() && self.accept_word("COMMENT") {
            self.accept(&Token::Eq);
            comment = Some(self.text("the comment")?);
        }
        Ok(Statement::Command(Command::SetParameter { name, value, scope, comment }))
    }

    /// `4`, `64M`, `-1`, `0.5`, `setall`, `'a text'`, or several of them with commas.
    fn parameter_value(&mut self) -> Result<String, Error> {
        let mut value = self.one_value()?;
        while self.accept(&Token::Comma) {
            value.push(',');
            value.push_str(&self.one_value()?);
        }
        Ok(value)
    }

    fn one_value(&mut self) -> Result<String, Error> {
        let mut value = String::new();
        if self.accept(&Token::Minus) {
            value.push('-');
        }
        match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => {
                value.push_str(digits);
                self.at += 1;
                if self.is_word_at(self.at, "K|M|G|T|KB|MB|GB|TB|MS|S|H|D|US") {
                    value.push_str(&self.name("a unit")?);
                }
            }
            Some(Token::SingleQuotedString(text)) if value.is_empty() => {
                value.push_str(text);
                self.at += 1;
            }
            Some(Token::Word(word)) if value.is_empty() => {
                value.push_str(&word.value);
                self.at += 1;
            }
            _ => return Err(self.expected("a value: a number, a word or a text in 'quotes'")),
        }
        Ok(value)
    }

    fn scope(&mut self) -> Result<Option<Scope>, Error> {
        if !self.accept_word("SCOPE") {
            return Ok(None);
        }
        if !self.accept(&Token::Eq) {
            return Err(self.expected("="));
        }
        [("MEMORY", Scope::Memory), ("SPFILE", Scope::Spfile), ("BOTH", Scope::Both)]
            .into_iter()
            .find_map(|(word, scope)| self.accept_word(word).then_some(Some(scope)))
            .ok_or_else(|| self.expected("MEMORY, SPFILE or BOTH"))
    }

    fn show_parameter(&mut self) -> Result<Statement, Error> {
        let pattern = match self.tokens.get(self.at).map(|t| &t.token) {
            None | Some(Token::SemiColon) => None,
            Some(Token::SingleQuotedString(_)) => Some(self.text("a part of a name")?),
            Some(_) => Some(self.name("a part of the name of a parameter")?),
        };
        Ok(Statement::ShowParameter(pattern.map(|p| p.to_lowercase())))
    }
}
