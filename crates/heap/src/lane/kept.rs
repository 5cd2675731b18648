//! The frames whose older images somebody may still read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::frames::Frame;
use crate::snapshots::Snapshots;

/// Frames with older images. While they are here they stay in memory.
#[derive(Default)]
pub(crate) struct Kept {
    /// In the order in which an image was replaced, by the record that did.
    recent: VecDeque<(u64, Arc<Frame>)>,
    /// By a snapshot that needs one of their images.
    needed: BTreeMap<u64, Vec<Arc<Frame>>>,
}

impl Kept {
    /// Notes a frame whose image was replaced.
    pub fn note(&mut self, lsn: u64, frame: Arc<Frame>) {
        self.recent.push_back((lsn, frame));
    }

    /// Lets go of images that nobody can need any more, if later snapshots are at `visible` or above.
    pub fn collect(&mut self, snapshots: &Snapshots, visible: impl Fn() -> u64) {
        let is_due = self.recent.front().is_some_and(|(lsn, _)| *lsn < visible());
        if !is_due {
            return;
        }
        let horizon = snapshots.horizon(visible);
        while self.recent.front().is_some_and(|(lsn, _)| *lsn < horizon.floor()) {
            let Some((_, frame)) = self.recent.pop_front() else { break };
            self.keep(&horizon, frame);
        }
        let ended = self.needed.keys().copied().filter(|point| !horizon.has(*point));
        for point in ended.collect::<Vec<_>>() {
            for frame in self.needed.remove(&point).unwrap_or_default() {
                self.keep(&horizon, frame);
            }
        }
    }

    fn keep(&mut self, horizon: &crate::snapshots::Horizon, frame: Arc<Frame>) {
        if let Some(point) = frame.collect(horizon) {
            self.needed.entry(point).or_default().push(frame);
        }
    }
}
