//! Indexes that were built, and tables that were written anew, while the database is open. Of what was there before
//! nobody knows in them: a snapshot from before would find nothing, or too little.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// For each of them the point from which on snapshots find all rows. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Fresh(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Fresh {
    /// It is whole for whoever reads at this point or behind it.
    pub fn add(&self, object: u32, point: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(object, point);
    }

    /// Whether it is whole for whoever reads at this point.
    pub fn is_whole(&self, object: u32, point: u64) -> bool {
        let fresh = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.get(&object).is_none_or(|from| point >= *from)
    }
}
