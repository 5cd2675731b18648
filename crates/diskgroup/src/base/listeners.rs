//! The layers above, as the layers below see them: whoever is notified of what happens to the
//! group.

use std::sync::{Arc, Mutex, Weak};

use crate::disk::lock;

/// A layer above.
pub(crate) trait Listener: Send + Sync {
    /// The group has stopped: whoever waits must look again.
    fn stopped(&self);

    /// These disks have left.
    fn left(&self, _disks: &[u16]) {}

    /// There is more to be moved. Called with the core held.
    fn has_to_move(&self) {}
}

/// All layers that are notified, the lowest first. They hold the layers below them, and not the
/// other way round: a layer that is gone has nobody left who waits.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Weak<dyn Listener>>>);

impl Listeners {
    /// Adds a layer above all others.
    pub fn add<A: Listener + 'static>(&self, listener: &Arc<A>) {
        let listener: Weak<A> = Arc::downgrade(listener);
        lock(&self.0).push(listener);
    }

    /// Notifies each of them.
    pub fn tell(&self, what: impl Fn(&dyn Listener)) {
        let all: Vec<Weak<dyn Listener>> = lock(&self.0).clone();
        all.iter().filter_map(Weak::upgrade).for_each(|listener| what(&*listener));
    }
}
