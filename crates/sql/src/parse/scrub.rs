//! Parsing of `ALTER DISKGROUP ... SCRUB`.

use cellar_diskgroup::ScrubPower;
use cellar_storage::request::{GroupAction, ScrubRequest, ScrubTarget};

use super::Cursor;
use crate::error::Error;

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
        let target = if self.accept_word("FILE") {
            ScrubTarget::File(self.text("the path of a file")?)
        } else if self.accept_word("DISK") {
            ScrubTarget::Disk(self.disk_name()?)
        } else {
            ScrubTarget::Group
        };
        // Oracle's default: repairs must be asked for.
        let repair = !self.accept_word("NOREPAIR") && self.accept_word("REPAIR");
        let power = match self.accept_word("POWER") {
            true => self.scrub_power()?,
            false => ScrubPower::Auto,
        };
        let wait = !self.accept_word("NOWAIT") && self.accept_word("WAIT");
        let force = !self.accept_word("NOFORCE") && self.force();
        Ok(Some(GroupAction::Scrub(ScrubRequest { target, repair, power, wait, force })))
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
