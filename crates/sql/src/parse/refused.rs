//! Statements of PostgreSQL that are not here, and that the grammar does not know either.

use super::Cursor;
use crate::error::Error;
use crate::statement::Statement;

impl Cursor<'_> {
    /// CREATE RULE.
    pub(super) fn rule(&mut self) -> Result<Statement, Error> {
        Err(Error::not_yet("CREATE RULE")
            .next("say in each statement what it does; a view can be read"))
    }

    /// PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
    pub(super) fn two_phases(&mut self) -> Result<Statement, Error> {
        Err(Error::not_yet("two-phase commit (PREPARE TRANSACTION)")
            .next("COMMIT: it is durable when it returns"))
    }

    /// LISTEN, NOTIFY, UNLISTEN.
    pub(super) fn notify(&mut self) -> Result<Statement, Error> {
        Err(Error::not_yet("LISTEN and NOTIFY").next("ask for new rows from time to time"))
    }
}
