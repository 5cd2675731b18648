//! SET CONSTRAINTS.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Statement};

impl Cursor<'_> {
    /// After SET CONSTRAINTS: ALL, or names; DEFERRED, or IMMEDIATE.
    pub(super) fn set_constraints(&mut self) -> Result<Statement, Error> {
        let mut names = Vec::new();
        if !self.accept_word("ALL") {
            loop {
                names.push(self.object("ALL, or the name of a constraint")?);
                if !self.accept(&Token::Comma) {
                    break;
                }
            }
        }
        let is_deferred = self.accept_word("DEFERRED");
        if !is_deferred {
            self.word("IMMEDIATE").map_err(|_| self.expected("DEFERRED or IMMEDIATE"))?;
        }
        Ok(Statement::Define(Define::SetConstraints { names, is_deferred }))
    }
}
