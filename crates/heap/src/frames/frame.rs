//! The place of a page in memory: its newest image, and through it the older ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use cellar_io::Buffer;

use super::image::Image;
use crate::snapshots::Horizon;

/// The place of a page in memory.
pub(crate) struct Frame {
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
    pub fn new(number: u32, image: Image) -> Frame {
        Frame {
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

    /// The image that a snapshot at this point sees.
    pub fn at(&self, point: u64) -> Arc<Image> {
        let mut image = self.current.load_full();
        while image.lsn() >= point {
            // The oldest that is kept is what all see that do not see the next.
            let before = image.before().clone();
            let Some(before) = before else { break };
            image = before;
        }
        image
    }

    /// Puts a new image in the place of the newest, and keeps that for who may see it.
    pub fn publish(&self, bytes: Buffer, end: u64) {
        let old = self.current.load_full();
        self.current.store(Arc::new(Image::new(bytes, end, Some(old))));
    }

    /// Puts a new image in the place of all: nobody reads yet.
    pub fn replace(&self, bytes: Buffer) {
        self.current.store(Arc::new(Image::new(bytes, 0, None)));
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
