//! The whole of a mounted group: its base, the data path over it, and what works on both.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::Base;
use crate::base::above::Above;
use crate::data::Data;
use crate::group::rebalance::Rebalance;
use crate::group::repair::Repair;
use crate::group::resync_progress::Returning;
use crate::group::scrub::Scrub;

/// A mounted group.
pub(crate) struct Inner {
    pub data: Arc<Data>,
    pub rebalance: Rebalance,
    /// Disks on their way back.
    pub returning: Returning,
    /// Disks that are away, and for how long.
    pub repair: Repair,
    /// The scrub that is wanted.
    pub scrub: Scrub,
}

impl Deref for Inner {
    type Target = Arc<Base>;

    fn deref(&self) -> &Arc<Base> {
        &self.data
    }
}

impl Inner {
    /// The group over its data path, which it is told by what happens.
    pub fn new(data: Arc<Data>) -> Arc<Inner> {
        let inner = Arc::new(Inner {
            data,
            rebalance: Rebalance::default(),
            returning: Returning::default(),
            repair: Repair::default(),
            scrub: Scrub::default(),
        });
        inner.above.add(&inner);
        inner
    }
}

impl Above for Inner {
    fn stopped(&self) {
        self.rebalance.wake();
        self.returning.wake();
        self.scrub.wake();
    }

    fn left(&self, disks: &[u16]) {
        disks.iter().for_each(|disk| self.returning.came(*disk, None));
        self.returning.wake();
    }

    fn has_to_move(&self) {
        self.rebalance.request();
    }
}
