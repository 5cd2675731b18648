//! Objects that got their rows while the database is open: indexes that were built, tables that were
//! rewritten. They hold nothing of earlier versions: an older snapshot would find nothing in them, or too
//! little.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct IncompleteObjects(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// For each of them, the point from which on snapshots find all rows.
    from: BTreeMap<u32, u64>,
    /// What a commit that is under way takes the names from.
    leaving: BTreeSet<u32>,
}

/// Tables and indexes that lose their names by a commit, until the catalog in memory says so and this is dropped.
pub(crate) struct Leaving(IncompleteObjects, BTreeSet<u32>);

impl IncompleteObjects {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is whole for whoever reads at this point or behind it.
    pub fn add(&self, object: u32, point: u64) {
        self.state().from.insert(object, point);
    }

    /// Whether it is whole for whoever reads at this point.
    pub fn is_whole(&self, object: u32, point: u64) -> bool {
        self.state().from.get(&object).is_none_or(|from| point >= *from)
    }

    /// These are about to lose their names.
    pub fn leave(&self, objects: &BTreeSet<u32>) -> Leaving {
        self.state().leaving.extend(objects);
        Leaving(self.clone(), objects.clone())
    }

    /// Whether one is about to lose its name: it may have done so already.
    pub fn is_leaving(&self, object: u32) -> bool {
        self.state().leaving.contains(&object)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.state().leaving.retain(|object| !self.1.contains(object));
    }
}
