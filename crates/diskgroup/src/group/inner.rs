//! The whole of a mounted group: its base, the data path over it, and what works on both.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::Base;
use crate::data::Data;
use crate::group::repair::Repair;
use crate::moves::rebalance::Rebalance;
use crate::returning::Returning;
use crate::scrub::Scrub;

/// A mounted group.
pub(crate) struct Inner {
    pub data: Arc<Data>,
    pub rebalance: Arc<Rebalance>,
    /// Disks on their way back.
    pub returning: Arc<Returning>,
    /// Disks that are away, and for how long.
    pub repair: Repair,
    /// The scrub that is wanted.
    pub scrub: Arc<Scrub>,
}

impl Deref for Inner {
    type Target = Arc<Base>;

    fn deref(&self) -> &Arc<Base> {
        &self.data
    }
}

impl Inner {
    /// The group over its data path.
    pub fn new(data: Arc<Data>) -> Inner {
        let rebalance = Rebalance::new(Arc::clone(&data));
        let returning = Returning::new(&rebalance);
        let scrub = Scrub::new(&rebalance, &returning);
        Inner { data, rebalance, returning, repair: Repair::default(), scrub }
    }
}
