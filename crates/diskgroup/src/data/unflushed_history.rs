//! The history of recent writes, flushed or not: what a failed disk may have lost.
//!
//! A disk that lost its power, or was reset, may have lost writes that it had acknowledged as durable:
//! a cache that lies about its flushes, or dies with its battery, is not rare. When the disk returns,
//! its label and its log may look as they should, since only what came after them is lost. So when a
//! disk has failed, everything written from [`AGE`] before it was last known to be well counts as
//! missed by it, flushed or not; no cache holds data back for longer than that. A disk that an operator
//! takes offline, and that answers to the end, is believed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{EnvExt, Instant};

use crate::base::StopOnPanic;
use crate::data::Data;
use crate::data::clean::missed;
use crate::data::file::FileRuntime;
use crate::data::write::pieces_of;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::RegionKey;
use crate::state::Stretch;

/// The history goes back this far, and one [`SPAN`] more.
pub(crate) const AGE: Duration = Duration::from_secs(30);
/// Writes within this time are remembered together.
const SPAN: Duration = Duration::from_secs(10);
/// The number of spans with any writes: a disk may be silent for minutes, while others go on, before it
/// is known to have failed.
const SPANS: usize = 24;
/// The most regions that are remembered, each counted once for every span that has it; with more, the
/// history goes back less far.
const REGIONS_MAX: usize = 1 << 17;
/// How often a failed recording is retried.
const TRY_EVERY: Duration = Duration::from_secs(1);

type Pieces = BTreeMap<RegionKey, u64>;

/// Pieces written of late.
pub(crate) struct UnflushedHistory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The youngest is last.
    spans: VecDeque<Span>,
    /// What disks that failed may lack, not yet recorded; with a number of its own.
    left: BTreeMap<u16, (u64, Arc<Pieces>)>,
    lefts: u64,
}

struct Span {
    from: Instant,
    to: Instant,
    pieces: Pieces,
}

impl UnflushedHistory {
    pub fn new() -> UnflushedHistory {
        UnflushedHistory { state: Mutex::new(State::default()) }
    }

    /// These pieces are about to be acknowledged as durable.
    pub fn written(&self, now: Instant, pieces: impl IntoIterator<Item = (RegionKey, u64)>) {
        let mut pieces = pieces.into_iter().peekable();
        if pieces.peek().is_none() {
            return;
        }
        let mut state = lock(&self.state);
        let span = state.span(now);
        span.to = now;
        for (key, bits) in pieces {
            *span.pieces.entry(key).or_insert(0) |= bits;
        }
        state.forget();
    }

    /// The pieces of a stretch are about to be copied from one disk to another.
    pub fn copied(&self, now: Instant, file: &FileRuntime, s: &Stretch) {
        let pieces = pieces_of(s.offset, s.offset + s.length);
        self.written(now, pieces.into_iter().map(|(region, bits)| (file.key(region), bits)));
    }

    /// A disk has failed, and was last well at `well`.
    pub fn left(&self, disk: u16, well: Instant) {
        let mut state = lock(&self.state);
        let mut all = state.left.get(&disk).map_or(Pieces::new(), |(_, left)| (**left).clone());
        for span in state.spans.iter().filter(|span| well.since(span.to) <= AGE) {
            for (key, bits) in &span.pieces {
                *all.entry(*key).or_insert(0) |= bits;
            }
        }
        state.lefts += 1;
        let left = (state.lefts, Arc::new(all));
        state.left.insert(disk, left);
    }

    /// What a disk that failed may lack, as far as that is not recorded.
    pub fn lacked_by(&self, disk: u16) -> Vec<(RegionKey, u64)> {
        let pieces = lock(&self.state).left.get(&disk).map(|(_, pieces)| Arc::clone(pieces));
        pieces.map_or(Vec::new(), |pieces| pieces.iter().map(|(k, bits)| (*k, *bits)).collect())
    }

    /// Records what disks that failed may lack, durably; also of those that fail meanwhile.
    ///
    /// # Errors
    /// The log has no room for it, or the group has stopped.
    pub async fn record(data: &Arc<Data>) -> Result<(), Error> {
        let recent = &data.unflushed;
        let next = || lock(&recent.state).left.iter().next().map(|(disk, (id, _))| (*disk, *id));
        while let Some((disk, id)) = next() {
            // A disk that comes back meanwhile has seen them, and records them itself.
            missed(data, &recent.lacked_by(disk), &|away| away == disk).await?;
            let mut state = lock(&recent.state);
            // It may have come back and failed again.
            if state.left.get(&disk).is_some_and(|(now, _)| *now == id) {
                state.left.remove(&disk);
            }
        }
        Ok(())
    }

    /// Records it in the background, retrying until it is done or the group ends.
    pub fn start_to_record(data: &Arc<Data>) {
        let all = Arc::clone(data);
        let task = async move {
            let _watched = StopOnPanic(&all);
            while let Err(Error::NoSpace { .. }) = UnflushedHistory::record(&all).await {
                if all.is_ending() {
                    break;
                }
                all.env.sleep(TRY_EVERY).await;
            }
        };
        data.env.spawn("missed pieces", Box::pin(task));
    }
}

impl State {
    /// The span of now.
    fn span(&mut self, now: Instant) -> &mut Span {
        // A span that is large ends sooner: the oldest go one by one.
        let is_over =
            |span: &Span| now.since(span.from) >= SPAN || span.pieces.len() >= REGIONS_MAX / SPANS;
        if self.spans.back().is_none_or(is_over) {
            self.spans.push_back(Span { from: now, to: now, pieces: Pieces::new() });
        }
        self.spans.back_mut().expect("there is one now")
    }

    fn forget(&mut self) {
        let count =
            |spans: &VecDeque<Span>| -> usize { spans.iter().map(|s| s.pieces.len()).sum() };
        while self.spans.len() > SPANS || (self.spans.len() > 1 && count(&self.spans) > REGIONS_MAX)
        {
            self.spans.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> RegionKey {
        RegionKey { file: 1, incarnation: 1, index }
    }

    fn second(s: u64) -> Instant {
        Instant(s * 1_000_000_000)
    }

    #[test]
    fn what_is_young_enough_when_the_disk_was_last_well_may_be_lost() {
        let recent = UnflushedHistory::new();
        recent.written(second(1), [(key(1), 1)]);
        recent.written(second(8), [(key(1), 2), (key(2), 1)]);
        recent.written(second(31), [(key(3), 1)]);
        recent.left(7, second(38));
        assert_eq!(recent.lacked_by(7), [(key(1), 3), (key(2), 1), (key(3), 1)]);
        assert_eq!(recent.lacked_by(8), []);
        // The others went on while nobody asked it, or it did not answer.
        for s in 32..200 {
            recent.written(second(s), [(key(4), 1)]);
        }
        recent.left(8, second(39));
        assert_eq!(recent.lacked_by(8), [(key(3), 1), (key(4), 1)]);
        recent.left(9, second(9000));
        assert_eq!(recent.lacked_by(9), []);
        // What is not recorded yet is kept when it fails again.
        recent.left(7, second(9000));
        assert_eq!(recent.lacked_by(7).len(), 3);
    }

    #[test]
    fn nothing_ages_while_nothing_is_written() {
        let recent = UnflushedHistory::new();
        recent.written(second(1), [(key(1), 1)]);
        recent.written(second(9000), [(key(2), 1)]);
        recent.left(7, second(2));
        assert_eq!(recent.lacked_by(7), [(key(1), 1), (key(2), 1)]);
    }

    #[test]
    fn it_remembers_no_more_than_so_much() {
        let recent = UnflushedHistory::new();
        for index in 0..REGIONS_MAX as u32 * 3 {
            let s = u64::from(index) / 1000;
            recent.written(second(s), [(key(index), 1)]);
        }
        recent.left(1, second(0));
        let kept = recent.lacked_by(1).len();
        assert!((REGIONS_MAX / 2..=REGIONS_MAX).contains(&kept), "{kept}");
    }
}
