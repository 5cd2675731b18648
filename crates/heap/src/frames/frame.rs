//! The place of a page in memory: its newest image, and through it the older ones.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use cellar_io::Buffer;

use super::image::Image;
use crate::snapshots::Horizon;

/// The place of a page in memory.
pub(crate) struct Frame {
    number: u32,
    current: ArcSwap<Image>,
}

impl Frame {
    pub fn new(number: u32, image: Image) -> Frame {
        Frame { number, current: ArcSwap::from_pointee(image) }
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

    /// Lets go of the images that no snapshot can see any more. Whether some are still kept.
    pub fn collect(&self, horizon: &Horizon) -> bool {
        let mut image = self.current.load_full();
        let mut is_kept = false;
        loop {
            let mut kept = image.before();
            let Some(before) = kept.clone() else { break };
            if horizon.may_see(before.lsn(), image.lsn()) {
                drop(kept);
                is_kept = true;
                image = before;
            } else {
                let older = before.before().clone();
                let unneeded = std::mem::replace(&mut *kept, older);
                drop(kept);
                drop(unneeded);
            }
        }
        is_kept
    }
}
