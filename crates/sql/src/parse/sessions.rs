//! Parsing of `ALTER SYSTEM KILL SESSION` and `DISCONNECT SESSION`.

use cellar_instance::administration::Command;

use super::Cursor;
use crate::error::Error;
use crate::statement::Statement;

/// The two numbers of `'sid,serial#'`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (sid, serial) = text.split_once(',')?;
    Some((sid.trim().parse().ok()?, serial.trim().parse().ok()?))
}

impl Cursor<'_> {
    /// `KILL SESSION 'sid,serial#' [IMMEDIATE]`, `DISCONNECT SESSION 'sid,serial#' IMMEDIATE | POST_TRANSACTION`, if it
    /// comes next.
    pub(super) fn end_of_session(&mut self) -> Result<Option<Statement>, Error> {
        let disconnects = self.is_word_at(self.at, "DISCONNECT");
        if !disconnects && !self.is_word_at(self.at, "KILL") {
            return Ok(None);
        }
        self.at += 1;
        self.word("SESSION")?;
        let text = self.text("the session, as 'sid,serial#',")?;
        let (sid, serial) = numbers(&text).ok_or_else(|| {
            Error::new(26, "22023", format!("'{text}' is not the number of a session"))
                .next("write 'sid,serial#': select sid, serial# from v$session")
        })?;
        let is_at_once = self.accept_word("IMMEDIATE");
        let waits = disconnects && !is_at_once && self.accept_word("POST_TRANSACTION");
        if disconnects && !is_at_once && !waits {
            return Err(self.expected("IMMEDIATE or POST_TRANSACTION"));
        }
        Ok(Some(Statement::Command(Command::EndSession { sid, serial, waits })))
    }
}
