//! CREATE TABLE t (LIKE other): a table with the columns of another one.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::names::path::TEMPORARY;
use crate::statement::{Define, LikeOptions, Statement};

/// The words allowed after INCLUDING.
const PARTS: &str = "ALL, COMMENTS, COMPRESSION, CONSTRAINTS, DEFAULTS, GENERATED, IDENTITY, INDEXES, STATISTICS or \
                     STORAGE";

impl Cursor<'_> {
    /// `None`: it is another statement.
    ///
    /// # Errors
    /// 0A000 LIKE combined with columns.
    pub(super) fn create_like(&mut self) -> Result<Option<Statement>, Error> {
        let start = self.at;
        let found = self.like_here();
        if !matches!(found, Ok(Some(_))) {
            self.at = start;
        }
        found
    }

    fn like_here(&mut self) -> Result<Option<Statement>, Error> {
        if !self.accept_word("CREATE") {
            return Ok(None);
        }
        let is_temporary = self.accept_word("TEMP") || self.accept_word("TEMPORARY");
        self.accept_word("UNLOGGED");
        if !self.accept_word("TABLE") {
            return Ok(None);
        }
        let if_not_exists = self.accept_words(&["IF", "NOT", "EXISTS"]);
        let Ok(mut name) = self.object("a name") else { return Ok(None) };
        if !self.accept(&Token::LParen) || !self.accept_word("LIKE") {
            return Ok(None);
        }
        if is_temporary && name.schema().is_none() {
            let own = name.table().to_owned();
            name = datafusion::common::TableReference::partial(TEMPORARY, own);
        }
        let source = self.object("the name of a table")?;
        let mut options = LikeOptions::default();
        loop {
            let is_in = self.accept_word("INCLUDING");
            if !is_in && !self.accept_word("EXCLUDING") {
                break;
            }
            let wrong = self.expected(PARTS);
            match self.name(PARTS)?.to_ascii_uppercase().as_str() {
                "ALL" => {
                    options = LikeOptions {
                        defaults: is_in,
                        constraints: is_in,
                        indexes: is_in,
                        identity: is_in,
                        comments: is_in,
                    };
                }
                "DEFAULTS" => options.defaults = is_in,
                "CONSTRAINTS" => options.constraints = is_in,
                "INDEXES" => options.indexes = is_in,
                "IDENTITY" => options.identity = is_in,
                "COMMENTS" => options.comments = is_in,
                // Nothing here has any of these.
                "COMPRESSION" | "GENERATED" | "STATISTICS" | "STORAGE" => {}
                _ => return Err(wrong),
            }
        }
        if self.accept(&Token::Comma) {
            return Err(Error::not_yet("LIKE beside columns or constraints")
                .next("create table t (like s); alter table t add column .."));
        }
        if !self.accept(&Token::RParen) {
            return Err(self.expected(")"));
        }
        if self.accept_words(&["USING", "HEAP"]) || self.is_at_end() {
            let define = Define::CreateLike { name, if_not_exists, source, options };
            return Ok(Some(Statement::Define(define)));
        }
        Err(self.expected("the end of the statement"))
    }
}
