//! Parsing of `ALTER DISKGROUP` for disks that leave temporarily: OFFLINE, ONLINE, REPLACE.

use cellar_storage::request::{
    DiskTarget, GroupAction, OfflineRequest, OnlineRequest, ReplaceRequest,
};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;

impl Cursor<'_> {
    /// An action on disks that leave or return, if one comes next.
    pub(super) fn away_action(&mut self) -> Result<Option<GroupAction>, Error> {
        if self.accept_word("OFFLINE") {
            return self.offline().map(|offline| Some(GroupAction::Offline(offline)));
        }
        if self.accept_word("ONLINE") {
            return self.online().map(|online| Some(GroupAction::Online(online)));
        }
        if self.accept_word("REPLACE") {
            return self.replace().map(|replace| Some(GroupAction::Replace(replace)));
        }
        Ok(None)
    }

    /// `DISK d, ...` or `DISKS IN FAILGROUP f, ...`.
    fn disks_or_failgroups(&mut self) -> Result<Vec<DiskTarget>, Error> {
        if self.accept_word("QUORUM") {
            return Err(Error::not_yet("a QUORUM failure group"));
        }
        self.accept_word("REGULAR");
        let of_failgroup = self.accept_word("DISKS");
        if of_failgroup {
            self.word("IN")?;
            self.accept_word("REGULAR");
            self.word("FAILGROUP")?;
        } else {
            self.word("DISK")?;
        }
        let mut named = Vec::new();
        loop {
            named.push(match of_failgroup {
                true => DiskTarget::FailGroup(self.storage_name("the name of a failure group")?),
                false => DiskTarget::Disk(self.disk_name()?),
            });
            if !self.accept(&Token::Comma) {
                return Ok(named);
            }
        }
    }

    fn offline(&mut self) -> Result<OfflineRequest, Error> {
        let disks = self.disks_or_failgroups()?;
        let mut drop_after = None;
        if self.accept_word("DROP") {
            self.word("AFTER")?;
            drop_after = Some(self.repair_time()?);
        }
        Ok(OfflineRequest { disks, drop_after })
    }

    /// `5m`, `3.6h`; in seconds.
    fn repair_time(&mut self) -> Result<u32, Error> {
        let wrong = self.expected("a time such as 30m or 3.6h, at least a minute");
        let number = match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Number(digits, _)) => digits.parse::<f64>().ok(),
            _ => None,
        };
        self.at += usize::from(number.is_some());
        let unit = match (self.accept_word("M"), self.accept_word("H")) {
            (true, _) => 60.0,
            (_, true) => 3600.0,
            _ => return Err(wrong),
        };
        let seconds = number.map(|number| number * unit).filter(|s| (60.0..=1e9).contains(s));
        seconds.map(|seconds| seconds as u32).ok_or(wrong)
    }

    fn online(&mut self) -> Result<OnlineRequest, Error> {
        let disks = match self.accept_word("ALL") {
            true => None,
            false => Some(self.disks_or_failgroups()?),
        };
        let force = self.force();
        Ok(OnlineRequest { disks, force, rebalance: self.power_and_wait()? })
    }

    fn replace(&mut self) -> Result<ReplaceRequest, Error> {
        self.word("DISK")?;
        let mut replace = ReplaceRequest::default();
        loop {
            let name = self.disk_name()?;
            self.word("WITH")?;
            replace.disks.push((name, self.disk(None)?));
            if !self.accept(&Token::Comma) {
                break;
            }
            self.accept_word("DISK");
        }
        replace.rebalance = self.power_and_wait()?;
        Ok(replace)
    }
}
