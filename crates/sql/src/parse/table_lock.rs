//! LOCK TABLE.

use cellar_instance::heap::TableLock;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, Statement};

/// The modes, each with its words; a longer one before its prefixes.
const MODES: [(&[&str], TableLock); 8] = [
    (&["ACCESS", "SHARE"], TableLock::AccessShare),
    (&["ROW", "SHARE"], TableLock::RowShare),
    (&["ROW", "EXCLUSIVE"], TableLock::RowExclusive),
    (&["SHARE", "UPDATE", "EXCLUSIVE"], TableLock::ShareUpdateExclusive),
    (&["SHARE", "ROW", "EXCLUSIVE"], TableLock::ShareRowExclusive),
    (&["SHARE"], TableLock::Share),
    (&["EXCLUSIVE"], TableLock::Exclusive),
    (&["ACCESS", "EXCLUSIVE"], TableLock::AccessExclusive),
];

impl Cursor<'_> {
    /// After LOCK: tables separated by commas, a mode, NOWAIT.
    pub(super) fn lock(&mut self) -> Result<Statement, Error> {
        self.accept_word("TABLE");
        let mut tables = Vec::new();
        loop {
            self.accept_word("ONLY");
            tables.push(self.object("the name of a table")?);
            self.accept(&Token::Mul);
            if !self.accept(&Token::Comma) {
                break;
            }
        }
        let lock = match self.accept_word("IN") {
            true => self.lock_mode()?,
            false => TableLock::AccessExclusive,
        };
        let is_nowait = self.accept_word("NOWAIT");
        Ok(Statement::Define(Define::Lock { tables, lock, is_nowait }))
    }

    fn lock_mode(&mut self) -> Result<TableLock, Error> {
        let found = MODES.into_iter().find(|(words, _)| self.accept_words(words));
        let Some((_, lock)) = found else {
            let modes: Vec<String> = MODES.iter().map(|(words, _)| words.join(" ")).collect();
            return Err(self.expected(&modes.join(", ")));
        };
        self.word("MODE")?;
        Ok(lock)
    }
}
