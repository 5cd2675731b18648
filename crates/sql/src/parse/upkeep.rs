//! VACUUM, ANALYZE and REINDEX, with PostgreSQL's options.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Reindexed, Statement};

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

    pub(super) fn reindex(&mut self) -> Result<Statement, Error> {
        let from = self.at;
        self.options()?;
        let said = (from..self.at).any(|at| self.is_word_at(at, "CONCURRENTLY"));
        let kinds = ["INDEX", "TABLE", "SCHEMA", "DATABASE"];
        let kind = kinds.into_iter().find(|kind| self.accept_word(kind));
        if kind.is_none() && self.is_word_at(self.at, "SYSTEM") {
            return Err(Error::not_yet("REINDEX SYSTEM")
                .next("REINDEX DATABASE is about all tables but those of the catalog"));
        }
        let kind = kind.ok_or_else(|| self.expected("INDEX, TABLE, SCHEMA or DATABASE"))?;
        let is_concurrent = self.accept_word("CONCURRENTLY") || said;
        let of = match kind {
            "INDEX" => Reindexed::Index(self.object("the name of an index")?),
            "TABLE" => Reindexed::Table(self.object("the name of a table")?),
            "SCHEMA" => Reindexed::Schema(self.name("the name of a schema")?),
            _ => {
                let is_named =
                    self.at < self.tokens.len() && self.tokens[self.at].token != Token::SemiColon;
                let name = is_named.then(|| self.name("the name of the database")).transpose()?;
                Reindexed::Database(name)
            }
        };
        Ok(Statement::Define(Define::Reindex { of, is_concurrent }))
    }

    /// Options in parentheses, about how it is done. Returns whether there were any.
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
