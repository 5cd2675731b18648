//! The memory that operators of queries share.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// What rows that are handed from one part of a plan to others may take besides, at least.
const HANDED_ON: usize = 64 << 20;

/// DataFusion's fair pool, but for the rows that `RepartitionExec` has on their way between parts of a
/// plan. Those are few, unless parts are of very different speed; and DataFusion 55 may wait for ever once
/// it spills them (its issue 24883). So they have room of their own, before it comes to that.
#[derive(Debug)]
pub struct Memory {
    shared: FairSpillPool,
    handed_on: AtomicUsize,
    most_handed_on: usize,
}

impl Memory {
    /// Of so many bytes.
    pub fn new(limit: usize) -> Memory {
        let most_handed_on = HANDED_ON.max(limit / 4);
        Memory { shared: FairSpillPool::new(limit), handed_on: AtomicUsize::new(0), most_handed_on }
    }
}

fn is_handed_on(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec")
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, and {} bytes handed on", self.shared, self.handed_on.load(Ordering::Relaxed))
    }
}

impl MemoryPool for Memory {
    fn name(&self) -> &str {
        "cellar"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        // The shared pool is divided by how many may spill.
        if !is_handed_on(consumer) {
            self.shared.register(consumer);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if !is_handed_on(consumer) {
            self.shared.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        match is_handed_on(reservation.consumer()) {
            true => drop(self.handed_on.fetch_add(additional, Ordering::Relaxed)),
            false => self.shared.grow(reservation, additional),
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        match is_handed_on(reservation.consumer()) {
            true => drop(self.handed_on.fetch_sub(shrink, Ordering::Relaxed)),
            false => self.shared.shrink(reservation, shrink),
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if !is_handed_on(reservation.consumer()) {
            return self.shared.try_grow(reservation, additional);
        }
        let more = |bytes: usize| {
            bytes.checked_add(additional).filter(|bytes| *bytes <= self.most_handed_on)
        };
        match self.handed_on.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(bytes) => datafusion::common::resources_err!(
                "{bytes} bytes of rows are handed on already, and {additional} more are beyond {}",
                self.most_handed_on
            ),
        }
    }

    fn reserved(&self) -> usize {
        self.shared.reserved() + self.handed_on.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}
