//! Parsing of `ALTER DISKGROUP ... SCRUB`.

use cellar_diskgroup::ScrubPower;

use super::Cursor;
use crate::error::Error;
use crate::statement::{GroupAction, Scrub, ScrubWhat};

impl Cursor<'_> {
    /// `SCRUB STOP | SCRUB [FILE 'f' | DISK d] [REPAIR | NOREPAIR] [POWER p] [WAIT | NOWAIT]
    /// [FORCE | NOFORCE]`, if it comes next.
    pub(super) fn scrub_action(&mut self) -> Result<Option<GroupAction>, Error> {
        if !self.accept_word("SCRUB") {
            return Ok(None);
        }
        if self.accept_word("STOP") {
            return Ok(Some(GroupAction::StopScrub));
        }
        let what = if self.accept_word("FILE") {
            ScrubWhat::File(self.text("the path of a file")?)
        } else if self.accept_word("DISK") {
            ScrubWhat::Disk(self.disk_name()?)
        } else {
            ScrubWhat::Group
        };
        // Oracle's default: who wants anything written says so.
        let repair = !self.accept_word("NOREPAIR") && self.accept_word("REPAIR");
        let power = match self.accept_word("POWER") {
            true => self.scrub_power()?,
            false => ScrubPower::Auto,
        };
        let wait = !self.accept_word("NOWAIT") && self.accept_word("WAIT");
        let force = !self.accept_word("NOFORCE") && self.force();
        Ok(Some(GroupAction::Scrub(Scrub { what, repair, power, wait, force })))
    }

    fn scrub_power(&mut self) -> Result<ScrubPower, Error> {
        for power in [ScrubPower::Auto, ScrubPower::Low, ScrubPower::High, ScrubPower::Max] {
            if self.accept_word(power.name()) {
                return Ok(power);
            }
        }
        Err(self.expected("AUTO, LOW, HIGH or MAX"))
    }
}
