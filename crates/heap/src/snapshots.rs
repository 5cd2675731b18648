//! Snapshots: points in the log at which somebody reads, and what must be kept for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The snapshots that are in use now.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<Active>);

#[derive(Default)]
struct Active {
    /// The number of readers at each point, and whether that point has ended.
    points: BTreeMap<u64, (usize, Arc<AtomicBool>)>,
    /// No later snapshot is below this.
    floor: u64,
}

/// What is read now and may be read later, as of one moment.
pub(crate) struct Horizon {
    points: Vec<u64>,
    floor: u64,
}

/// A point at which somebody reads, until it is dropped.
pub(crate) struct Snapshot {
    snapshots: Arc<Snapshots>,
    point: u64,
    is_over: Arc<AtomicBool>,
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, Active> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot at the LSN that `newest` gives, which never decreases.
    pub fn take(self: &Arc<Self>, newest: impl FnOnce() -> u64) -> Snapshot {
        let mut active = self.lock();
        // Asked under the lock: what is collected meanwhile leaves all from here on.
        let point = newest().max(active.floor);
        let (count, is_over) = active.points.entry(point).or_default();
        *count += 1;
        let is_over = Arc::clone(is_over);
        Snapshot { snapshots: Arc::clone(self), point, is_over }
    }

    /// Ends the oldest point, if there are later ones: nothing is kept for it any more. Returns whether there
    /// was one.
    pub fn end_oldest(&self) -> bool {
        let mut active = self.lock();
        let floor = active.floor;
        let Some(oldest) = active.points.first_entry().filter(|entry| *entry.key() < floor) else {
            return false;
        };
        let (_, is_over) = oldest.remove();
        // Before anything is let go of: who has read it until then looks at this afterwards.
        is_over.store(true, Ordering::SeqCst);
        true
    }

    /// What must be kept, if later snapshots are at the LSN that `newest` gives or above.
    pub fn horizon(&self, newest: impl FnOnce() -> u64) -> Horizon {
        let mut active = self.lock();
        active.floor = active.floor.max(newest());
        Horizon { points: active.points.keys().copied().collect(), floor: active.floor }
    }
}

impl Horizon {
    /// Later snapshots are at this point or above.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// No snapshot, now or later, is below this.
    pub fn oldest(&self) -> u64 {
        self.points.first().map_or(self.floor, |point| self.floor.min(*point))
    }

    /// Whether somebody reads at this point now.
    pub fn has(&self, point: u64) -> bool {
        self.points.binary_search(&point).is_ok()
    }

    /// A point at which the image made at `from` is visible and the one made at `to` is not: one that is being
    /// read, or one that a later snapshot may have.
    pub fn between(&self, from: u64, to: u64) -> Option<u64> {
        if to >= self.floor {
            return Some(self.floor);
        }
        let first = self.points.partition_point(|point| *point <= from);
        self.points.get(first).copied().filter(|point| *point <= to)
    }
}

impl Snapshot {
    /// Where it is: what was made below it is seen.
    pub fn point(&self) -> u64 {
        self.point
    }

    /// Whether what it needs may be gone. To be checked after each read.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut active = self.snapshots.lock();
        if self.is_over() {
            return;
        }
        if let Some((count, _)) = active.points.get_mut(&self.point) {
            *count -= 1;
            if *count == 0 {
                active.points.remove(&self.point);
            }
        }
    }
}
