//! The whole of a mounted group: its base, the data path over it, and what works on both.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::Base;
use crate::base::above::Above;
use crate::data::Data;
use crate::group::repair::Repair;
use crate::group::scrub::Scrub;
use crate::moves::rebalance::Rebalance;
use crate::returning::Returning;

/// A mounted group.
pub(crate) struct Inner {
    pub data: Arc<Data>,
    pub rebalance: Arc<Rebalance>,
    /// Disks on their way back.
    pub returning: Arc<Returning>,
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
        let rebalance = Rebalance::new(Arc::clone(&data));
        let returning = Returning::new(&rebalance);
        let inner = Arc::new(Inner {
            data,
            rebalance,
            returning,
            repair: Repair::default(),
            scrub: Scrub::default(),
        });
        inner.above.add(&inner);
        inner
    }
}

impl Above for Inner {
    fn stopped(&self) {
        self.scrub.wake();
    }
}
