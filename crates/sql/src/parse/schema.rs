//! CREATE, ALTER and DROP SCHEMA, and SET SCHEMA for the objects in one.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Kind, RoleName, Statement};

impl Cursor<'_> {
    /// Whether the statement ends here.
    pub(super) fn is_at_end(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|own| own.token == Token::SemiColon)
    }

    /// CASCADE, RESTRICT, or nothing; returns whether it is CASCADE.
    pub(super) fn cascades(&mut self) -> bool {
        let cascades = self.accept_word("CASCADE");
        if !cascades {
            self.accept_word("RESTRICT");
        }
        cascades
    }

    pub(super) fn create_schema(&mut self) -> Result<Statement, Error> {
        let if_not_exists = self.accept_words(&["IF", "NOT", "EXISTS"]);
        let named = match self.is_word_at(self.at, "AUTHORIZATION") {
            true => None,
            false => Some(self.folded_name("the name of a schema")?),
        };
        let owner = match self.accept_word("AUTHORIZATION") {
            true => Some(self.role_name()?),
            false => None,
        };
        let name = match (named, &owner) {
            (Some(name), _) => name,
            (None, Some(RoleName::Named(name))) => name.clone(),
            _ => {
                return Err(Error::not_yet("CREATE SCHEMA with the name of who makes it")
                    .next("name the schema"));
            }
        };
        if !self.is_at_end() {
            return Err(Error::not_yet("CREATE SCHEMA with more than a name")
                .next("make what is to be in it by statements of their own"));
        }
        Ok(Statement::Define(Define::CreateSchema { name, if_not_exists, owner }))
    }

    pub(super) fn drop_schema(&mut self) -> Result<Statement, Error> {
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let mut names = vec![self.folded_name("the name of a schema")?];
        while self.accept(&Token::Comma) {
            names.push(self.folded_name("the name of a schema")?);
        }
        let cascades = self.cascades();
        Ok(Statement::Define(Define::DropSchema { names, if_exists, cascades }))
    }

    pub(super) fn alter_schema(&mut self) -> Result<Statement, Error> {
        let name = self.folded_name("the name of a schema")?;
        self.word("RENAME")?;
        self.word("TO")?;
        let to = self.folded_name("a name")?;
        Ok(Statement::Define(Define::RenameSchema { name, to }))
    }

    /// ALTER TABLE .. SET SCHEMA and its kin; `None`: it is another statement.
    pub(super) fn set_schema(&mut self) -> Option<Statement> {
        let start = self.at;
        let found = self.set_schema_here();
        if found.is_none() {
            self.at = start;
        }
        found
    }

    fn set_schema_here(&mut self) -> Option<Statement> {
        if !self.accept_word("ALTER") {
            return None;
        }
        let kinds = [("TABLE", Kind::Table), ("VIEW", Kind::View), ("SEQUENCE", Kind::Sequence)];
        let (_, kind) = kinds.into_iter().find(|(word, _)| self.accept_word(word))?;
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let name = self.object("a name").ok()?;
        if !self.accept_words(&["SET", "SCHEMA"]) {
            return None;
        }
        let schema = self.folded_name("the name of a schema").ok()?;
        self.accept(&Token::SemiColon);
        self.is_at_end().then_some(())?;
        Some(Statement::Define(Define::SetSchema { kind, name, if_exists, schema }))
    }
}
