//! Media that the log goes on without: the reasons and the consequences.

use std::time::Duration;

use cellar_io::{IoError, IoErrorKind, Op as IoOp};

use crate::stats::Skips;
use crate::writer::state::{Health, MediumAt, State, Tracked};

/// Why a medium is given up; see [`Skips`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    Error,
    Silent,
    Behind,
    Exposed,
    Header,
}

impl Skip {
    /// The counter of this reason.
    fn of(self, skips: &mut Skips) -> &mut u64 {
        match self {
            Skip::Error => &mut skips.error,
            Skip::Silent => &mut skips.silent,
            Skip::Behind => &mut skips.behind,
            Skip::Exposed => &mut skips.exposed,
            Skip::Header => &mut skips.header,
        }
    }
}

impl State {
    /// Stops giving units to a medium that fails, and counts why.
    pub fn give_up(&mut self, medium: usize, reason: Skip) {
        // Nobody will check whether it has these when they are acknowledged.
        let from = self.media[medium].fed_from.max(self.unacked) - self.base;
        let lacks = |unit: &&Tracked| unit.copies & 1 << medium == 0;
        let missed = self.tracked.iter().skip(from as usize).filter(lacks).count();
        let stats = &mut self.media[medium].stats;
        stats.given += missed as u64;
        *reason.of(&mut stats.skips) += 1;
        self.set_aside(medium);
    }

    /// Gives up a medium that has made others wait, or has lacked something, for this long.
    pub fn give_up_late(&mut self, medium: usize, reason: Skip, after: Duration) {
        let at = &mut self.media[medium];
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let kind = IoErrorKind::Timeout { after_ms };
        at.error = Some(IoError::new(kind, &at.name.as_str().into(), IoOp::Write, 0, 0));
        self.give_up(medium, reason);
    }

    /// Stops giving units to a medium. That it has failed is recorded by the control writer.
    pub fn set_aside(&mut self, medium: usize) {
        let lacks = self.tracked.iter().find(|unit| unit.copies & 1 << medium == 0);
        let end = self.tracked.back().map_or(self.durable, |unit| unit.end);
        let since = lacks.map_or(end, |unit| unit.first);
        let at = &mut self.media[medium];
        if matches!(at.health, Health::CatchingUp { .. }) {
            return self.leave(medium);
        }
        at.health = Health::Failing { since };
        at.pending.clear();
        at.exposed = 0;
        if self.active() == 0 {
            self.poison(format!("no medium is left: {}", why(&self.media[medium])).into());
        }
    }
}

/// What became of a medium, for people.
fn why(medium: &MediumAt) -> String {
    let error = medium.error.as_ref().map_or("it failed".to_owned(), ToString::to_string);
    format!("{}: {error}", medium.name)
}
