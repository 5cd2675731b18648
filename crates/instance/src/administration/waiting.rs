//! Progress of a long statement: what it waits for now, and how far that is.

use std::sync::{Mutex, PoisonError};

use cellar_diskgroup::{DiskReturn, Group};

/// Long work that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The kind of work, in one word.
    pub what: &'static str,
    /// The amount done.
    pub done: u64,
    /// The amount in all.
    pub total: u64,
}

/// What the statement of this session waits for now.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Option<What>>);

pub(super) enum What {
    /// Files of new disks are written: bytes, of how many.
    Making(u64, u64),
    /// Both sides of a change are tried.
    Probe(Group),
    /// A rebalance.
    Rebalance(Group),
    /// Disks on their way back.
    Return(Group),
    /// A scrub.
    Scrub(Group),
}

impl Waiting {
    fn set(&self, what: Option<What>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What is being waited for, until the returned guard is dropped.
    pub(super) fn for_what(&self, what: What) -> Until<'_> {
        self.set(Some(what));
        Until(self)
    }

    /// How far it is, where that is known.
    pub(super) fn progress(&self) -> Option<UnderWay> {
        let what = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (what, done, total) = match what.as_ref()? {
            What::Making(done, total) => ("pre-written", *done, *total),
            What::Probe(group) => {
                let (since, time) = group.probing()?;
                ("tried", ms(since), ms(time))
            }
            What::Return(group) => {
                let returns = group.returns();
                let sum = |of: fn(&DiskReturn) -> u64| returns.iter().map(of).sum::<u64>();
                ("resynced", sum(|r| r.bytes_done), sum(|r| r.bytes_total))
            }
            What::Scrub(group) => {
                let now = group.scrubbing()?;
                ("scrubbed", now.bytes_done, now.bytes_total)
            }
            What::Rebalance(group) => {
                let operation = group.operation()?;
                ("rebalanced", operation.done, operation.total)
            }
        };
        (total > 0).then_some(UnderWay { what, done: done.min(total), total })
    }
}

/// Ends when it is dropped.
pub(super) struct Until<'a>(&'a Waiting);

impl Until<'_> {
    /// Something else is waited for from now on.
    pub(super) fn now(&self, what: What) {
        self.0.set(Some(what));
    }
}

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
