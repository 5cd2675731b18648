//! Locks on byte ranges of one file: overlapping writes happen one after the other, so that every
//! copy sees them in the same order.

use std::sync::Mutex;

use event_listener::Event;

use crate::disk::lock;

/// The ranges of one file that are being written.
#[derive(Default)]
pub(crate) struct RangeLocks {
    held: Mutex<Held>,
    released: Event,
}

#[derive(Default)]
struct Held {
    next: u64,
    ranges: Vec<(u64, u64, u64)>,
}

/// A held range; released when dropped.
pub(crate) struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    id: u64,
}

impl RangeLocks {
    fn try_lock(&self, start: u64, end: u64) -> Option<RangeGuard<'_>> {
        let mut held = lock(&self.held);
        if held.ranges.iter().any(|(s, e, _)| *s < end && start < *e) {
            return None;
        }
        held.next += 1;
        let id = held.next;
        held.ranges.push((start, end, id));
        Some(RangeGuard { locks: self, id })
    }

    /// Waits until nothing in `start..end` is held, and holds it.
    pub async fn lock(&self, start: u64, end: u64) -> RangeGuard<'_> {
        assert!(start < end, "a range has bytes in it");
        loop {
            if let Some(guard) = self.try_lock(start, end) {
                return guard;
            }
            let listener = self.released.listen();
            if let Some(guard) = self.try_lock(start, end) {
                return guard;
            }
            listener.await;
        }
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.locks.held);
        held.ranges.retain(|(_, _, id)| *id != self.id);
        drop(held);
        self.locks.released.notify(usize::MAX);
    }
}
