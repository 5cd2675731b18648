//! The frames whose older images somebody may still read, and the slots whose rows somebody may still know.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::frames::{Frame, Needed};
use crate::snapshots::{Horizon, Snapshots};

/// What is kept for snapshots. Frames that are here stay in memory.
#[derive(Default)]
pub(crate) struct Kept {
    /// Each frame once, by the record that replaced the image which is newest for the oldest snapshot to come.
    recent: VecDeque<(u64, Arc<Frame>)>,
    /// By a snapshot that needs one of their images.
    needed: BTreeMap<u64, Vec<Arc<Frame>>>,
    /// Slots that were freed, by the record that did.
    freed: VecDeque<(u64, u32, usize)>,
    resting: HashSet<(u32, usize)>,
}

impl Kept {
    /// Notes a frame whose image was replaced.
    pub fn note(&mut self, lsn: u64, frame: Arc<Frame>) {
        if frame.keep() {
            self.recent.push_back((lsn, frame));
        }
    }

    /// Notes a slot that was freed: it is not used again while a snapshot lives that sees its row.
    pub fn note_freed(&mut self, lsn: u64, page: u32, slot: usize) {
        self.freed.push_back((lsn, page, slot));
        self.resting.insert((page, slot));
    }

    /// Whether a free slot may not be used yet.
    pub fn is_resting(&self, page: u32, slot: usize) -> bool {
        self.resting.contains(&(page, slot))
    }

    /// Lets go of what nobody can need any more, if later snapshots are at `visible` or above.
    pub fn collect(&mut self, snapshots: &Snapshots, visible: impl Fn() -> u64) {
        let oldest = self.recent.front().map(|(lsn, _)| *lsn);
        let oldest = oldest.into_iter().chain(self.freed.front().map(|(lsn, ..)| *lsn)).min();
        if oldest.is_none_or(|lsn| lsn >= visible()) {
            return;
        }
        let horizon = snapshots.horizon(visible);
        // As many as there are now: some come back.
        for _ in 0..self.recent.len() {
            if self.recent.front().is_none_or(|(lsn, _)| *lsn >= horizon.floor()) {
                break;
            }
            let Some((_, frame)) = self.recent.pop_front() else { break };
            self.keep(&horizon, frame);
        }
        let ended = self.needed.keys().copied().filter(|point| !horizon.has(*point));
        for point in ended.collect::<Vec<_>>() {
            for frame in self.needed.remove(&point).unwrap_or_default() {
                self.keep(&horizon, frame);
            }
        }
        while self.freed.front().is_some_and(|(lsn, ..)| *lsn < horizon.oldest()) {
            let Some((_, page, slot)) = self.freed.pop_front() else { break };
            self.resting.remove(&(page, slot));
        }
    }

    fn keep(&mut self, horizon: &Horizon, frame: Arc<Frame>) {
        match frame.collect(horizon) {
            Needed::Later(lsn) => self.recent.push_back((lsn, frame)),
            Needed::At(point) => self.needed.entry(point).or_default().push(frame),
            Needed::Never => {}
        }
    }
}
