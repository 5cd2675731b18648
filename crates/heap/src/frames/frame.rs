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
    /// Times that it was asked for and changes of it that are not in the statistics yet. Here, beside the number
    /// of those who hold it, which each of them writes to anyway: no other memory is written to by a read.
    reads: AtomicU64,
    changes: AtomicU64,
    statistics: Arc<Statistics>,
    number: u32,
    current: ArcSwap<Image>,
    /// The writer knows that its page on disk is older.
    is_listed: AtomicBool,
    /// The lane is to look at its older images.
    is_kept: AtomicBool,
}

/// Whether older images of a page are needed.
pub(crate) enum Needed {
    Never,
    /// By who reads at this point now.
    At(u64),
    /// By who may come, until this record, the newest of the page, is visible.
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

    /// The image in memory that a snapshot at this point may see, and whether that is the newest of all: one that is
    /// in the file may be newer. `None`: none is here that is old enough.
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

    /// Has an older image not be kept here; false where it is not. Only the lane calls it.
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

    /// Notes that somebody has asked for it.
    pub fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts a new image, which has so many changes more, in the place of the newest, and keeps that for who may see
    /// it; false: it was blank, and nobody does. Only the lane calls it.
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

    /// Puts a new image in the place of all: nobody reads yet.
    pub fn replace(&self, bytes: Buffer) {
        self.current.store(Arc::new(Image::new(bytes, 0, None)));
    }

    /// Has what was noted be in the statistics, as of the object that the page belongs to.
    pub fn count(&self) {
        // Most frames of a large cache have nothing new: these are only looked at.
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

    /// Notes that it has older images; false where that is known.
    pub fn keep(&self) -> bool {
        !self.is_kept.swap(true, Ordering::SeqCst)
    }

    /// Has the next that notes it be told so.
    pub fn forget(&self) {
        self.is_kept.store(false, Ordering::SeqCst);
    }

    /// Lets go of the images that no snapshot can see any more; says whether some are needed still, and how many
    /// went. Only the lane calls it.
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

    /// Whether its page on disk, once it is as of `lsn`, is what it is in memory. False: it is to be
    /// written again.
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
