//! The frames whose older images can still be read, and the slots whose rows can still be referred to.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::frames::{Frame, Image, Needed};
use crate::snapshots::{Horizon, Snapshots};
use crate::spilled::{Entry, Spilled};

/// What is kept for snapshots. Frames that are here stay in memory.
pub(crate) struct RetainedImages {
    /// Each frame once, by the record that replaced the image that a new snapshot sees.
    recent: VecDeque<(u64, Arc<Frame>)>,
    /// By a snapshot that needs one of their images, and by page number.
    needed: BTreeMap<u64, BTreeMap<u32, Arc<Frame>>>,
    /// Slots that were freed, by the record that did.
    freed: VecDeque<(u64, u32, usize)>,
    resting: HashSet<(u32, usize)>,
    /// Older images that are kept.
    images: usize,
    limits: ImageLimits,
    /// Those that are in a file.
    spilled: Arc<Spilled>,
}

/// An older image in memory that could be moved to the file.
pub(crate) struct Older {
    frame: Arc<Frame>,
    image: Arc<Image>,
    /// The record that replaced it.
    until: u64,
}

impl Older {
    pub fn image(&self) -> &Image {
        &self.image
    }
}

/// The limits on older images.
#[derive(Clone, Copy)]
pub(crate) struct ImageLimits {
    /// Above this, the oldest snapshot ends, if no file takes them;
    pub most: usize,
    /// with a file, this many more: one large transaction may add that many at once.
    pub beyond: usize,
}

/// Keeping track of this many images in the file takes as much memory as one image.
const PLACES: usize = 80;

/// Images of one page that go to the file together.
const OF_PAGE: usize = 16;

impl RetainedImages {
    /// Nothing; `spilled` are those that are in a file, if there is one.
    pub fn new(limits: ImageLimits, spilled: Arc<Spilled>) -> RetainedImages {
        RetainedImages {
            recent: VecDeque::new(),
            needed: BTreeMap::new(),
            freed: VecDeque::new(),
            resting: HashSet::new(),
            images: 0,
            limits,
            spilled,
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

    /// Notes a slot that was freed: it is not reused while a snapshot lives that sees its row.
    pub fn note_freed(&mut self, lsn: u64, page: u32, slot: usize) {
        self.freed.push_back((lsn, page, slot));
        self.resting.insert((page, slot));
    }

    /// Whether there are slots that may not be used yet.
    pub fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Whether a free slot may not be used yet.
    pub fn is_resting(&self, page: u32, slot: usize) -> bool {
        self.resting.contains(&(page, slot))
    }

    /// Drops what nobody can need any more, if later snapshots are at `visible` or above.
    pub fn collect(&mut self, snapshots: &Snapshots, visible: impl Fn() -> u64) {
        let oldest = self.recent.front().map(|(lsn, _)| *lsn);
        let oldest = oldest.into_iter().chain(self.freed.front().map(|(lsn, ..)| *lsn)).min();
        if oldest.is_some_and(|lsn| lsn < visible()) {
            self.collect_all(snapshots, visible);
        }
    }

    /// As [`RetainedImages::collect`], but also works if only a snapshot has ended since the last time.
    pub fn collect_all(&mut self, snapshots: &Snapshots, visible: impl Fn() -> u64) {
        let used = self.images + self.spilled.count() / PLACES;
        let is_full = match self.spilled.takes_more() {
            true => used > self.limits.most + self.limits.beyond,
            false => used > self.limits.most,
        };
        if is_full && snapshots.end_oldest() && self.spilled.count() > 0 {
            // Dropping what was kept for it makes room before another snapshot ends.
            self.spilled.set_open();
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

    /// About this many older images that only current snapshots need, those of the oldest first.
    pub fn spillable(&mut self, horizon: &Horizon, count: usize) -> Vec<Older> {
        let (mut found, mut seen, mut empty) = (Vec::new(), HashSet::new(), Vec::new());
        let listed = self
            .needed
            .iter()
            .flat_map(|(point, frames)| frames.values().map(|frame| (Some(*point), frame)));
        for (point, frame) in listed.chain(self.recent.iter().map(|(_, frame)| (None, frame))) {
            if found.len() >= count {
                break;
            }
            if !seen.insert(frame.number()) {
                continue;
            }
            let older = frame.older();
            match point {
                Some(point) if older.is_empty() => empty.push((point, frame.number())),
                _ => {}
            }
            let is_needed = |image: &Image, until: u64| {
                until < horizon.floor() && horizon.between(image.lsn(), until).is_some()
            };
            let needed = older.into_iter().filter(|(image, until)| is_needed(image, *until));
            found.extend(needed.take(OF_PAGE).map(|(image, until)| Older {
                frame: Arc::clone(frame),
                image,
                until,
            }));
        }
        for (point, page) in empty {
            self.needed.get_mut(&point).and_then(|frames| frames.remove(&page));
        }
        found
    }

    /// Moves images to their slots of the file and out of memory. Returns slots whose images nobody needs any more.
    pub fn spill(&mut self, horizon: &Horizon, written: Vec<(Older, u64)>) -> Vec<u64> {
        let mut unneeded = Vec::new();
        for (Older { frame, image, until }, slot) in written {
            let (page, lsn) = (frame.number(), image.lsn());
            let Some(point) = horizon.between(lsn, until) else {
                unneeded.push(slot);
                continue;
            };
            // In this order: a reader that no longer finds it in memory finds it in the file.
            self.spilled.add(page, point, Entry { lsn, until, slot });
            match frame.unlink(&image) {
                true => self.images = self.images.saturating_sub(1),
                // It was dropped from memory before, because nobody needed it then.
                false => {
                    self.spilled.remove(page, slot);
                    unneeded.push(slot);
                }
            }
            if frame.current().before().is_none() {
                self.needed.values_mut().for_each(|frames| drop(frames.remove(&page)));
            }
        }
        unneeded
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
        let (snapshots, mut retained) = (
            Arc::new(Snapshots::default()),
            RetainedImages::new(ImageLimits { most: 1000, beyond: 0 }, Arc::default()),
        );
        let frame = Arc::new(Frame::new(1, Image::new(page(0), 0, None), &Arc::default()));
        let mut long = None;
        for lsn in 1..1000u64 {
            frame.publish(page(lsn), lsn, 1);
            retained.note(lsn, Arc::clone(&frame));
            // The last few commits are not durable yet.
            let visible = lsn.saturating_sub(3);
            retained.collect(&snapshots, || visible);
            if lsn == 100 {
                long = Some(snapshots.take(|| visible));
            }
            assert!(images(&frame) <= 12, "{} images after {lsn}", images(&frame));
            assert!(retained.recent.len() <= 1 && retained.needed.len() <= 2);
            assert_eq!(retained.images(), images(&frame) - 1);
        }
        let point = long.as_ref().map_or(0, |snapshot| snapshot.point());
        assert_eq!(frame.at(point).map(|(image, _)| image.lsn()), Some(point - 1));
        drop(long);
        frame.publish(page(1000), 1000, 1);
        retained.note(1000, Arc::clone(&frame));
        retained.collect(&snapshots, || 1001);
        assert_eq!(images(&frame), 1);
    }
}
