//! Parsing of the statements about the redo log.

use cellar_instance::administration::Command;
use cellar_storage::request::{NewLogfile, RedoAction};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::Statement;

fn redo(action: RedoAction) -> Statement {
    Statement::Command(Command::Redo(action))
}

impl Cursor<'_> {
    /// The rest of `ALTER DATABASE [name]`, after DATABASE.
    pub(super) fn alter_database(&mut self) -> Result<Statement, Error> {
        const VERBS: &str = "ADD|DROP|CLEAR|RECOVER";
        if !self.is_word_at(self.at, VERBS) && self.is_word_at(self.at + 1, VERBS) {
            // There is one database here, whatever its name.
            self.name("the name of the database")?;
        }
        if self.accept_word("RECOVER") {
            self.word("FORCE")?;
            return Ok(redo(RedoAction::RecoverForce));
        }
        if self.accept_word("CLEAR") {
            return self.clear_logfiles();
        }
        let add = self.accept_word("ADD");
        if !add && !self.accept_word("DROP") {
            return Err(self.expected("ADD, DROP, CLEAR or RECOVER"));
        }
        self.word("LOGFILE")?;
        if self.accept_word("MEMBER") {
            return self.members(add);
        }
        match add {
            true => self.add_logfiles(),
            false => self.drop_logfiles(),
        }
    }

    /// The rest of `CHECKPOINT`: PostgreSQL's form of ALTER SYSTEM CHECKPOINT.
    pub(super) fn checkpoint(&mut self) -> Result<Statement, Error> {
        Ok(redo(RedoAction::Checkpoint))
    }

    /// `'m', ... [REUSE] [TO GROUP n]`: a medium has a file for every group, whichever is named.
    fn members(&mut self, add: bool) -> Result<Statement, Error> {
        let parentheses = self.accept(&Token::LParen);
        let members = self.texts("a disk group, a failure group or a directory")?;
        if parentheses && !self.accept(&Token::RParen) {
            return Err(self.expected(")"));
        }
        if !add {
            return Ok(redo(RedoAction::DropMembers(members)));
        }
        let reuse = self.accept_word("REUSE");
        let groups = match self.accept_word("TO") {
            true => self.group_numbers()?,
            false => Vec::new(),
        };
        Ok(redo(RedoAction::AddMembers { members, reuse, groups }))
    }

    /// `[GROUP n] ['m' | ('m', ...)] [SIZE s] [BLOCKSIZE b] [REUSE], ...`.
    fn add_logfiles(&mut self) -> Result<Statement, Error> {
        let mut all = vec![self.logfile()?];
        while self.accept(&Token::Comma) {
            all.push(self.logfile()?);
        }
        Ok(redo(RedoAction::AddLogfiles(all)))
    }

    fn logfile(&mut self) -> Result<NewLogfile, Error> {
        let mut new = NewLogfile::default();
        if self.accept_word("THREAD") && self.whole("the number of a thread")? != 1 {
            return Err(Error::not_yet("a redo log of more than one thread"));
        }
        if self.accept_word("GROUP") {
            new.number = Some(self.whole("the number of a group")?);
        }
        if self.accept(&Token::LParen) {
            new.media = self.texts("a disk group or a directory")?;
            if !self.accept(&Token::RParen) {
                return Err(self.expected(")"));
            }
        } else if matches!(
            self.tokens.get(self.at).map(|t| &t.token),
            Some(Token::SingleQuotedString(_))
        ) {
            new.media = vec![self.text("a disk group or a directory")?];
        }
        if self.accept_word("SIZE") {
            new.size = Some(self.size()?);
        }
        if self.accept_word("BLOCKSIZE") {
            let size = self.size()?;
            new.block_size = Some(match size {
                512 => 512,
                4096 => 4096,
                _ => {
                    let text = format!("block size {size} is not allowed");
                    return Err(Error::new(1378, "22023", text).next("BLOCKSIZE is 512 or 4096"));
                }
            });
        }
        new.reuse = self.accept_word("REUSE");
        Ok(new)
    }

    /// `GROUP n [, GROUP n]... | ALL`.
    fn drop_logfiles(&mut self) -> Result<Statement, Error> {
        if self.accept_word("ALL") {
            return Ok(redo(RedoAction::DropLog));
        }
        Ok(redo(RedoAction::DropLogfiles(self.group_numbers()?)))
    }

    /// `[UNARCHIVED] LOGFILE GROUP n [, GROUP n]...`.
    fn clear_logfiles(&mut self) -> Result<Statement, Error> {
        let unarchived = self.accept_word("UNARCHIVED");
        self.word("LOGFILE")?;
        let numbers = self.group_numbers()?;
        Ok(redo(RedoAction::ClearLogfiles { numbers, unarchived }))
    }

    /// `GROUP n [, GROUP n]...`.
    fn group_numbers(&mut self) -> Result<Vec<u32>, Error> {
        let mut numbers = Vec::new();
        loop {
            self.word("GROUP")?;
            numbers.push(self.whole("the number of a group")?);
            if !self.accept(&Token::Comma) {
                return Ok(numbers);
            }
        }
    }

    fn whole(&mut self, what: &str) -> Result<u32, Error> {
        let number = match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => digits.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected(what))?;
        self.at += 1;
        Ok(number)
    }

    /// `SWITCH LOGFILE`, `CHECKPOINT [GLOBAL | LOCAL]` or `ARCHIVE LOG CURRENT`, if one comes next.
    pub(super) fn redo_of_system(&mut self) -> Result<Option<Statement>, Error> {
        if self.accept_word("SWITCH") {
            self.word("LOGFILE")?;
            return Ok(Some(redo(RedoAction::Switch)));
        }
        if self.accept_word("CHECKPOINT") {
            let _ = self.accept_word("GLOBAL") || self.accept_word("LOCAL");
            return Ok(Some(redo(RedoAction::Checkpoint)));
        }
        if self.accept_word("ARCHIVE") {
            self.word("LOG")?;
            self.word("CURRENT")?;
            return Ok(Some(redo(RedoAction::ArchiveCurrent)));
        }
        Ok(None)
    }
}
