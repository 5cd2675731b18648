//! VACUUM and ANALYZE, with PostgreSQL's options.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Statement};

impl Cursor<'_> {
    pub(super) fn vacuum(&mut self) -> Result<Statement, Error> {
        if !self.options()? {
            for word in ["FULL", "FREEZE", "VERBOSE", "ANALYZE"] {
                self.accept_word(word);
            }
        }
        self.maintain("VACUUM")
    }

    pub(super) fn analyze(&mut self) -> Result<Statement, Error> {
        if !self.options()? {
            self.accept_word("VERBOSE");
        }
        self.maintain("ANALYZE")
    }

    /// Options in parentheses: they say how it is done. Whether there were any.
    fn options(&mut self) -> Result<bool, Error> {
        if !self.accept(&Token::LParen) {
            return Ok(false);
        }
        while !self.accept(&Token::RParen) {
            if self.at >= self.tokens.len() {
                return Err(self.expected(")"));
            }
            self.at += 1;
        }
        Ok(true)
    }

    fn maintain(&mut self, verb: &'static str) -> Result<Statement, Error> {
        let mut tables = Vec::new();
        while self.at < self.tokens.len() && self.tokens[self.at].token != Token::SemiColon {
            if !tables.is_empty() && !self.accept(&Token::Comma) {
                return Err(self.expected("a comma, or the end of the statement"));
            }
            tables.push(self.object("the name of a table")?);
            // Columns.
            self.options()?;
        }
        Ok(Statement::Define(Define::Maintain { verb, tables }))
    }
}
