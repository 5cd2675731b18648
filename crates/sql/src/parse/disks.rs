//! Parsing of `ALTER DISKGROUP` for disks: ADD, DROP, RESIZE, UNDROP, RENAME, REBALANCE; and of
//! `EXPLAIN WORK FOR` these.

use cellar_storage::request::{
    ChangeRequest, DiskTarget, DropRequest, GroupAction, Probe, Rebalance, ResizeRequest,
    WorkRequest,
};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::Statement;

/// What may follow ADD or DROP for disks.
const OF_DISKS: &str = "DISK|DISKS|FAILGROUP|REGULAR|QUORUM";

impl Cursor<'_> {
    /// An action on disks, if one comes next.
    pub(super) fn disk_action(&mut self) -> Result<Option<GroupAction>, Error> {
        let at = self.at;
        if self.accept_word("UNDROP") {
            self.word("DISKS")?;
            self.alone()?;
            return Ok(Some(GroupAction::UndropDisks(self.optional_rebalance()?)));
        }
        if self.accept_word("REBALANCE") {
            return self.rebalance_alone().map(Some);
        }
        if self.is_word_at(at, "RENAME") && self.is_word_at(at + 1, "DISK|DISKS") {
            self.at += 1;
            return self.rename_disks().map(Some);
        }
        if self.changes_disks_at(at) {
            return self.change_disks().map(Some);
        }
        Ok(None)
    }

    fn changes_disks_at(&self, at: usize) -> bool {
        let of_disks = |words| self.is_word_at(at + 1, words);
        (self.is_word_at(at, "ADD|DROP") && of_disks(OF_DISKS))
            || (self.is_word_at(at, "RESIZE") && of_disks("ALL|DISK|DISKS"))
    }

    /// ADD, DROP and RESIZE in any order, with or without commas between them.
    fn change_disks(&mut self) -> Result<GroupAction, Error> {
        let mut change = ChangeRequest::default();
        loop {
            if self.accept_word("ADD") {
                self.add_disks(&mut change)?;
            } else if self.accept_word("DROP") {
                self.drop_disks(&mut change)?;
            } else if self.accept_word("RESIZE") {
                self.resize_disks(&mut change)?;
            } else {
                return Err(self.expected("ADD, DROP or RESIZE"));
            }
            let comma = self.accept(&Token::Comma);
            if !comma && !self.changes_disks_at(self.at) {
                break;
            }
        }
        self.alone()?;
        change.rebalance = self.optional_rebalance()?;
        Ok(GroupAction::Disks(change))
    }

    fn add_disks(&mut self, change: &mut ChangeRequest) -> Result<(), Error> {
        loop {
            let failgroup = self.failgroup()?;
            self.word("DISK")?;
            change.add.push(self.disk(failgroup.as_ref())?);
            while self.comma_before(Self::is_text_at) {
                change.add.push(self.disk(failgroup.as_ref())?);
            }
            // One ADD may name several failure groups, as CREATE does.
            let more = |at| self.is_word_at(at, OF_DISKS);
            let comma = self.is_comma() && more(self.at + 1);
            if !comma && !more(self.at) {
                return Ok(());
            }
            self.at += usize::from(comma);
        }
    }

    fn drop_disks(&mut self, change: &mut ChangeRequest) -> Result<(), Error> {
        if self.accept_word("QUORUM") {
            return Err(Error::not_yet("a QUORUM failure group"));
        }
        self.accept_word("REGULAR");
        let of_failgroup = if self.accept_word("DISKS") {
            self.word("IN")?;
            self.accept_word("REGULAR");
            self.word("FAILGROUP")?;
            true
        } else {
            self.word("DISK")?;
            false
        };
        loop {
            let target = match of_failgroup {
                true => DiskTarget::FailGroup(self.storage_name("the name of a failure group")?),
                false => DiskTarget::Disk(self.disk_name()?),
            };
            change.drop.push(DropRequest { target, force: self.force() });
            if !self.comma_before(|cursor, at| !cursor.changes_disks_at(at)) {
                return Ok(());
            }
        }
    }

    /// `SIZE n`, if it comes next; in bytes.
    pub(super) fn optional_size(&mut self) -> Result<Option<u64>, Error> {
        self.accept_word("SIZE").then(|| self.size()).transpose()
    }

    fn resize_disks(&mut self, change: &mut ChangeRequest) -> Result<(), Error> {
        if self.accept_word("ALL") {
            let size = self.optional_size()?;
            change.resize.push(ResizeRequest { target: None, size });
            return Ok(());
        }
        let of_failgroup = self.accept_word("DISKS");
        if of_failgroup {
            self.word("IN")?;
            self.word("FAILGROUP")?;
        } else {
            self.word("DISK")?;
        }
        loop {
            let target = match of_failgroup {
                true => DiskTarget::FailGroup(self.storage_name("the name of a failure group")?),
                false => DiskTarget::Disk(self.disk_name()?),
            };
            let size = self.optional_size()?;
            change.resize.push(ResizeRequest { target: Some(target), size });
            if !self.comma_before(|cursor, at| !cursor.changes_disks_at(at)) {
                return Ok(());
            }
        }
    }

    fn rename_disks(&mut self) -> Result<GroupAction, Error> {
        if self.accept_word("DISKS") {
            return Err(Error::not_yet("RENAME DISKS ALL").next("RENAME DISK 'OLD' TO 'NEW', ..."));
        }
        self.word("DISK")?;
        let mut names = Vec::new();
        loop {
            let old = self.disk_name()?;
            self.word("TO")?;
            names.push((old, self.disk_name()?));
            if !self.accept(&Token::Comma) {
                self.alone()?;
                return Ok(GroupAction::RenameDisks(names));
            }
            self.accept_word("DISK");
        }
    }

    /// The name of a disk, with or without quotes: Oracle accepts both.
    pub(super) fn disk_name(&mut self) -> Result<String, Error> {
        match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::SingleQuotedString(text)) if !text.is_empty() => {
                self.at += 1;
                Ok(text.to_uppercase())
            }
            _ => self.storage_name("the name of a disk"),
        }
    }

    fn is_comma(&self) -> bool {
        self.tokens.get(self.at).is_some_and(|t| t.token == Token::Comma)
    }

    fn is_text_at(&self, at: usize) -> bool {
        let token = self.tokens.get(at).map(|t| &t.token);
        matches!(token, Some(Token::SingleQuotedString(_)))
    }

    /// Takes a comma if what follows it continues the same list.
    fn comma_before(&mut self, goes_on: impl Fn(&Self, usize) -> bool) -> bool {
        let takes = self.is_comma() && goes_on(self, self.at + 1);
        self.at += usize::from(takes);
        takes
    }

    /// Refuses actions that cannot be combined with adding and dropping disks.
    fn alone(&self) -> Result<(), Error> {
        match self.is_word_at(self.at, "ADD|DROP|RENAME|UNDROP|RESIZE|REPLACE") {
            true => Err(self.expected(
                "REBALANCE or the end of the statement (only ADD DISK, DROP DISK and RESIZE go together)",
            )),
            false => Ok(()),
        }
    }

    // --- REBALANCE ---

    fn optional_rebalance(&mut self) -> Result<Rebalance, Error> {
        match self.accept_word("REBALANCE") {
            true => self.rebalance(),
            false => Ok(Rebalance::default()),
        }
    }

    fn rebalance_alone(&mut self) -> Result<GroupAction, Error> {
        if self.accept_word("MODIFY") {
            self.word("POWER")?;
            let given = matches!(
                self.tokens.get(self.at).map(|t| &t.token),
                Some(token) if *token != Token::SemiColon
            );
            let power = given.then(|| self.power()).transpose()?;
            return Ok(GroupAction::ModifyPower(power));
        }
        Ok(GroupAction::Rebalance(self.rebalance()?))
    }

    fn rebalance(&mut self) -> Result<Rebalance, Error> {
        if self.is_word_at(self.at, "WITH|WITHOUT") {
            return Err(Error::not_yet("REBALANCE WITH or WITHOUT phases")
                .next("REBALANCE [POWER n] [WAIT | NOWAIT]"));
        }
        self.power_and_wait()
    }

    /// `[POWER n] [WAIT | NOWAIT]`.
    pub(super) fn power_and_wait(&mut self) -> Result<Rebalance, Error> {
        let power = self.accept_word("POWER").then(|| self.power()).transpose()?;
        let wait = self.accept_word("WAIT");
        if !wait {
            self.accept_word("NOWAIT");
        }
        Ok(Rebalance { power, wait })
    }

    fn power(&mut self) -> Result<u32, Error> {
        let power = match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => digits.parse().ok(),
            _ => None,
        };
        let power = power.ok_or_else(|| self.expected("a power from 0 (stop) to 1024"))?;
        self.at += 1;
        Ok(power)
    }

    // --- EXPLAIN WORK ---

    /// What follows `EXPLAIN WORK`.
    pub(super) fn explain_work(&mut self) -> Result<Statement, Error> {
        if self.accept_word("SET") {
            self.word("STATEMENT_ID")?;
            return Err(Error::not_yet("EXPLAIN WORK SET STATEMENT_ID")
                .next("the plan is the result of the statement: leave SET STATEMENT_ID out"));
        }
        let probe = self.probe()?;
        self.word("FOR")?;
        self.word("ALTER")?;
        self.word("DISKGROUP")?;
        let group = self.storage_name("the name of the disk group")?;
        let change = match self.disk_action()? {
            Some(GroupAction::Disks(change)) => change,
            Some(GroupAction::Rebalance(rebalance)) => {
                ChangeRequest { rebalance, ..ChangeRequest::default() }
            }
            _ => return Err(self.expected("ADD DISK, DROP DISK, RESIZE or REBALANCE")),
        };
        Ok(Statement::ExplainWork(WorkRequest { group, change, probe }))
    }

    /// `PROBE n SECONDS`, `NO PROBE`, or nothing.
    fn probe(&mut self) -> Result<Probe, Error> {
        if self.accept_word("NO") {
            self.word("PROBE")?;
            return Ok(Probe::No);
        }
        if !self.accept_word("PROBE") {
            return Ok(Probe::Usual);
        }
        let seconds = match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => digits.parse::<f64>().ok(),
            _ => None,
        };
        let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
        let seconds = seconds.ok_or_else(|| self.expected("so many seconds, 0.1 to 3600"))?;
        self.at += 1;
        self.word("SECOND|SECONDS")?;
        Ok(Probe::For((seconds * 1e3) as u64))
    }
}
