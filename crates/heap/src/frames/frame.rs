//! The place of a page in memory: its newest image, and through it the older ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use cellar_io::Buffer;

use super::image::Image;
use crate::snapshots::Horizon;
use crate::statistics::Statistics;

/// The place of a page in memory.
pub(crate) struct Frame {
    /// Requests for the page and changes of it that are not in the statistics yet. They are kept next to the
    /// reference count, which every holder writes anyway, so that a read writes to no other memory.
    reads: AtomicU64,
    changes: AtomicU64,
    statistics: Arc<Statistics>,
    number: u32,
    current: ArcSwap<Image>,
    /// The writer knows that the page is dirty.
    is_listed: AtomicBool,
    /// The lane must check its older images.
    is_kept: AtomicBool,
}

/// Whether older images of a page are needed.
pub(crate) enum Needed {
    Never,
    /// By readers at this point now.
    At(u64),
    /// By readers that may come until this record, the newest of the page, is visible.
    Later(u64),
}

impl Frame {
    pub fn new(number: u32, image: Image, statistics: &Arc<Statistics>) -> Frame {
        Frame {
            reads: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            statistics: Arc::clone(statistics),
            number,
            current: ArcSwap::from_pointee(image),
            is_listed: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
        }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// The newest image.
    pub fn current(&self) -> Guard<Arc<Image>> {
        self.current.load()
    }

    /// The newest image.
    pub fn newest(&self) -> Arc<Image> {
        self.current.load_full()
    }

    /// The image in memory that a snapshot at this point may see, and whether it is the newest of all; if not, a
    /// newer one may be in the file. `None`: no image in memory is old enough.
    pub fn at(&self, point: u64) -> Option<(Arc<Image>, bool)> {
        let (mut image, mut is_newest) = (self.current.load_full(), true);
        while image.lsn() >= point {
            let before = image.before().clone();
            (image, is_newest) = (before?, false);
        }
        Some((image, is_newest))
    }

    /// Its older images, the oldest first, each with the record that replaced it.
    pub fn older(&self) -> Vec<(Arc<Image>, u64)> {
        let (mut older, mut image) = (Vec::new(), self.current.load_full());
        loop {
            let (until, before) = (image.lsn(), image.before().clone());
            let Some(before) = before else { break };
            older.push((Arc::clone(&before), until));
            image = before;
        }
        older.reverse();
        older
    }

    /// Drops an older image from memory; false if it is not here. Only the lane calls it.
    pub fn unlink(&self, unneeded: &Arc<Image>) -> bool {
        let mut image = self.current.load_full();
        loop {
            let mut kept = image.before();
            let Some(before) = kept.clone() else { return false };
            if Arc::ptr_eq(&before, unneeded) {
                let older = before.before().clone();
                *kept = older;
                return true;
            }
            drop(kept);
            image = before;
        }
    }

    /// The object that the page belongs to; 0 where it is nobody's.
    pub fn owner(&self) -> u32 {
        self.current().page().owner()
    }

    /// Counts a request for the page.
    pub fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the newest image by a new one with this many more changes, and keeps the old one for those who may
    /// see it; false: the old one was blank, so nobody does. Only the lane calls it.
    pub fn publish(&self, bytes: Buffer, end: u64, changes: u64) -> bool {
        let (old, new) = (self.current.load_full(), Image::new(bytes, end, None));
        let (before, owner) = (old.page().owner(), new.page().owner());
        if before != owner && before != 0 {
            self.count();
        }
        let is_kept = !old.is_blank();
        *new.before() = Some(old).filter(|_| is_kept);
        self.current.store(Arc::new(new));
        self.changes.fetch_add(changes, Ordering::Relaxed);
        is_kept
    }

    /// Replaces all images by a new one: nobody reads yet.
    pub fn replace(&self, bytes: Buffer) {
        self.current.store(Arc::new(Image::new(bytes, 0, None)));
    }

    /// Moves its counts to the statistics, for the object that the page belongs to.
    pub fn count(&self) {
        // Most frames of a large cache have no new counts: these are only looked at.
        if self.reads.load(Ordering::Relaxed) | self.changes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let reads = self.reads.swap(0, Ordering::Relaxed);
        let changes = self.changes.swap(0, Ordering::Relaxed);
        self.statistics.count(self.owner(), |of| {
            of.logical_reads += reads;
            of.block_changes += changes;
        });
    }

    /// Marks it as having older images; false if it is marked already.
    pub fn keep(&self) -> bool {
        !self.is_kept.swap(true, Ordering::SeqCst)
    }

    /// Clears that mark.
    pub fn forget(&self) {
        self.is_kept.store(false, Ordering::SeqCst);
    }

    /// Drops images that no snapshot can see any more; returns whether some are still needed, and how many were
    /// dropped. Only the lane calls it.
    pub fn collect(&self, horizon: &Horizon) -> (Needed, usize) {
        let mut gone = 0;
        let mut image = self.current.load_full();
        let newest = image.lsn();
        let mut needed = Needed::Never;
        loop {
            let mut kept = image.before();
            let Some(before) = kept.clone() else { break };
            if let Some(point) = horizon.between(before.lsn(), image.lsn()) {
                needed = match needed {
                    _ if newest >= horizon.floor() => Needed::Later(newest),
                    Needed::Never => Needed::At(point),
                    needed => needed,
                };
                drop(kept);
                image = before;
            } else {
                let older = before.before().clone();
                let unneeded = std::mem::replace(&mut *kept, older);
                drop(kept);
                drop(unneeded);
                gone += 1;
            }
        }
        (needed, gone)
    }

    /// Takes it off the dirty list, and returns whether its page on disk, now as of `lsn`, is what is in memory.
    /// False: it must be written again.
    pub fn is_written(&self, lsn: u64) -> bool {
        self.is_listed.store(false, Ordering::SeqCst);
        self.current().lsn() == lsn
    }

    /// Whether it is listed as one that is to be written.
    pub fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::SeqCst)
    }

    /// Lists it as one that is to be written; false where it is listed.
    pub fn list(&self) -> bool {
        !self.is_listed.swap(true, Ordering::SeqCst)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.count();
    }
}
