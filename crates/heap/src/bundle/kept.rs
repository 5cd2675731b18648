//! The frames whose older images somebody may still read, and the slots whose rows somebody may still know.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::frames::{Frame, Needed};
use crate::snapshots::{Horizon, Snapshots};

/// What is kept for snapshots. Frames that are here stay in memory.
pub(crate) struct Kept {
    /// Each frame once, by the record that replaced the image which is newest for the oldest snapshot to come.
    recent: VecDeque<(u64, Arc<Frame>)>,
    /// By a snapshot that needs one of their images, and by their numbers.
    needed: BTreeMap<u64, HashMap<u32, Arc<Frame>>>,
    /// Slots that were freed, by the record that did.
    freed: VecDeque<(u64, u32, usize)>,
    resting: HashSet<(u32, usize)>,
    /// Older images that are kept.
    images: usize,
    /// More than these end the oldest snapshot.
    images_max: usize,
}

impl Kept {
    /// Nothing; later more than `images_max` older images end the oldest snapshot.
    pub fn new(images_max: usize) -> Kept {
        Kept {
            recent: VecDeque::new(),
            needed: BTreeMap::new(),
            freed: VecDeque::new(),
            resting: HashSet::new(),
            images: 0,
            images_max,
        }
    }

    /// Older images that are kept.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Notes a frame whose image was replaced.
    pub fn note(&mut self, lsn: u64, frame: Arc<Frame>) {
        self.images += 1;
        self.list(lsn, frame);
    }

    fn list(&mut self, lsn: u64, frame: Arc<Frame>) {
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
        if oldest.is_some_and(|lsn| lsn < visible()) {
            self.collect_all(snapshots, visible);
        }
    }

    /// As [`Kept::collect`], also where only a snapshot has ended since the last time.
    pub fn collect_all(&mut self, snapshots: &Snapshots, visible: impl Fn() -> u64) {
        if self.images > self.images_max {
            snapshots.end_oldest();
        }
        let horizon = snapshots.horizon(visible);
        // As many as there are now: some come back.
        for _ in 0..self.recent.len() {
            if self.recent.front().is_none_or(|(lsn, _)| *lsn >= horizon.floor()) {
                break;
            }
            let Some((_, frame)) = self.recent.pop_front() else { break };
            // What changes it next lists it again, also while a snapshot needs it.
            frame.forget();
            self.keep(&horizon, frame);
        }
        let ended = self.needed.keys().copied().filter(|point| !horizon.has(*point));
        for point in ended.collect::<Vec<_>>() {
            for frame in self.needed.remove(&point).unwrap_or_default().into_values() {
                self.keep(&horizon, frame);
            }
        }
        while self.freed.front().is_some_and(|(lsn, ..)| *lsn < horizon.oldest()) {
            let Some((_, page, slot)) = self.freed.pop_front() else { break };
            self.resting.remove(&(page, slot));
        }
    }

    fn keep(&mut self, horizon: &Horizon, frame: Arc<Frame>) {
        let (needed, gone) = frame.collect(horizon);
        self.images = self.images.saturating_sub(gone);
        match needed {
            Needed::Later(lsn) => self.list(lsn, frame),
            Needed::At(point) => {
                self.needed.entry(point).or_default().insert(frame.number(), frame);
            }
            Needed::Never => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Image, raw_mut};
    use cellar_io::Buffer;
    use cellar_page::{Kind, PAGE_BYTES, PageMut};

    fn page(lsn: u64) -> Buffer {
        let mut bytes = Buffer::zeroed(PAGE_BYTES);
        PageMut::format(raw_mut(&mut bytes), 1, 1, Kind::Heap, 1).set_lsn(lsn);
        bytes
    }

    fn images(frame: &Frame) -> usize {
        let (mut count, mut image) = (1, Arc::clone(&frame.current()));
        loop {
            let before = image.before().clone();
            let Some(before) = before else { return count };
            (count, image) = (count + 1, before);
        }
    }

    /// A long snapshot needs one image of a page that changes all the time, and not all of them.
    #[test]
    fn a_hot_page_keeps_what_snapshots_tell_apart() {
        let (snapshots, mut kept) = (Arc::new(Snapshots::default()), Kept::new(1000));
        let frame = Arc::new(Frame::new(1, Image::new(page(0), 0, None), &Arc::default()));
        let mut long = None;
        for lsn in 1..1000u64 {
            frame.publish(page(lsn), lsn, 1);
            kept.note(lsn, Arc::clone(&frame));
            // The last few commits are not durable yet.
            let visible = lsn.saturating_sub(3);
            kept.collect(&snapshots, || visible);
            if lsn == 100 {
                long = Some(snapshots.take(|| visible));
            }
            assert!(images(&frame) <= 12, "{} images after {lsn}", images(&frame));
            assert!(kept.recent.len() <= 1 && kept.needed.len() <= 2);
            assert_eq!(kept.images(), images(&frame) - 1);
        }
        let point = long.as_ref().map_or(0, |snapshot| snapshot.point());
        assert_eq!(frame.at(point).lsn(), point - 1);
        drop(long);
        frame.publish(page(1000), 1000, 1);
        kept.note(1000, Arc::clone(&frame));
        kept.collect(&snapshots, || 1001);
        assert_eq!(images(&frame), 1);
    }
}
