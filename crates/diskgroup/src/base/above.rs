//! The floors above, as those below know them: who is told what happens to the group.

use std::sync::{Arc, Mutex, Weak};

use crate::disk::lock;

/// A floor above.
pub(crate) trait Above: Send + Sync {
    /// The group has stopped: whoever waits must look again.
    fn stopped(&self);

    /// These disks have left.
    fn left(&self, _disks: &[u16]) {}

    /// There is more to be moved. Said with the core held.
    fn has_to_move(&self) {}
}

/// All that are to be told, the lowest first. They hold what is below them, and not the other way
/// round: who is gone has nobody left who waits.
#[derive(Default)]
pub(crate) struct Floors(Mutex<Vec<Weak<dyn Above>>>);

impl Floors {
    /// One more, above all others.
    pub fn add<A: Above + 'static>(&self, above: &Arc<A>) {
        let above: Weak<A> = Arc::downgrade(above);
        lock(&self.0).push(above);
    }

    /// Tells each of them.
    pub fn tell(&self, what: impl Fn(&dyn Above)) {
        let all: Vec<Weak<dyn Above>> = lock(&self.0).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|above| what(&*above));
    }
}
