//! ALTER TABLE .. ADD GENERATED .. AS IDENTITY with the name of its sequence, as pg_dump writes it.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Statement};

impl Cursor<'_> {
    /// `None`: it is another statement, or names no sequence.
    pub(super) fn add_identity(&mut self) -> Result<Option<Statement>, Error> {
        let start = self.at;
        let found = self.add_identity_here();
        if !matches!(found, Ok(Some(_))) {
            self.at = start;
        }
        found
    }

    fn add_identity_here(&mut self) -> Result<Option<Statement>, Error> {
        if !self.accept_words(&["ALTER", "TABLE"]) {
            return Ok(None);
        }
        self.accept_word("ONLY");
        let Ok(table) = self.object("a table") else { return Ok(None) };
        if !self.accept_word("ALTER") {
            return Ok(None);
        }
        self.accept_word("COLUMN");
        let Ok(column) = self.folded_name("a column") else { return Ok(None) };
        if !self.accept_words(&["ADD", "GENERATED"]) {
            return Ok(None);
        }
        let is_always = self.accept_word("ALWAYS");
        if !is_always && !self.accept_words(&["BY", "DEFAULT"]) {
            return Ok(None);
        }
        let has_options = self.accept_words(&["AS", "IDENTITY"]) && self.accept(&Token::LParen);
        if !has_options || !self.accept_words(&["SEQUENCE", "NAME"]) {
            return Ok(None);
        }
        let sequence = self.object("the name of a sequence")?;
        let (options, owned_by) =
            self.sequence_options("START, INCREMENT, MINVALUE, MAXVALUE, CACHE, CYCLE or )")?;
        if owned_by.is_some() || options.restart.is_some() {
            return Err(Error::syntax("RESTART and OWNED BY are no options of a column"));
        }
        self.accept(&Token::RParen);
        let define = Define::AddIdentity { table, column, is_always, sequence, options };
        Ok(Some(Statement::Define(define)))
    }
}
