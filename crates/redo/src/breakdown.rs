//! The breakdown of a commit's time into parts.

use std::time::Duration;

/// The parts of one commit, in order; they sum exactly to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Waiting for room: buffer, switch, pacing.
    pub space: Duration,
    /// In the queue with a free slot, until a leader took it.
    pub queue: Duration,
    /// In the queue with every slot busy.
    pub slot: Duration,
    /// Copying and checksums.
    pub form: Duration,
    /// Until the first medium had it.
    pub first: Duration,
    /// From there until enough media had it.
    pub quorum: Duration,
    /// Until the units before it were durable too.
    pub order: Duration,
    /// Until the committer ran again.
    pub wake: Duration,
}

impl Breakdown {
    /// The whole commit.
    pub fn total(&self) -> Duration {
        self.parts().iter().map(|(_, part)| *part).sum()
    }

    /// Each part with its name.
    pub fn parts(&self) -> [(&'static str, Duration); 8] {
        [
            ("space", self.space),
            ("queue", self.queue),
            ("slot", self.slot),
            ("form", self.form),
            ("first", self.first),
            ("quorum", self.quorum),
            ("order", self.order),
            ("wake", self.wake),
        ]
    }
}

/// Instants of a unit, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnitTimes {
    /// The number of media that it was given to, and its number of blocks.
    pub media: u64,
    pub blocks: u64,
    /// A leader took it.
    pub taken: u64,
    /// How long all slots had been busy by then, since the log was opened.
    pub busy: u64,
    /// It was formed.
    pub formed: u64,
    /// A slot was free, and its writes were submitted.
    pub launched: u64,
    /// The first medium had it.
    pub first: u64,
    /// Enough media had it.
    pub quorum: u64,
    /// All units before it were durable as well.
    pub acked: u64,
}

impl UnitTimes {
    /// The breakdown of a commit that asked at `asked`, was queued at `queued` when slots had been
    /// busy for `busy`, and runs again at `now`.
    pub(crate) fn breakdown(&self, asked: u64, queued: u64, busy: u64, now: u64) -> Breakdown {
        // Each instant is at least the one before, so that the parts sum to the whole.
        let mut at = asked;
        let mut until = |instant: u64| {
            let next = instant.max(at);
            let part = Duration::from_nanos(next - at);
            at = next;
            part
        };
        let space = until(queued);
        let queue = until(self.taken);
        let slot = Duration::from_nanos(self.busy.saturating_sub(busy)).min(queue);
        let form = until(self.formed);
        Breakdown {
            space,
            queue: queue - slot,
            slot: slot + until(self.launched),
            form,
            first: until(self.first),
            quorum: until(self.quorum),
            order: until(self.acked),
            wake: until(now),
        }
    }
}
