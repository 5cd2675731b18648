//! The memory that operators of queries share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// What rows in transit between partitions may take in addition, at least.
const HANDED_ON: usize = 64 << 20;
/// The most that is reserved for consumers that cannot spill; if memory is short, three fifths of it.
const KEPT: usize = 128 << 20;

/// A pool like DataFusion's fair one, but for three things.
///
/// Some memory is reserved for consumers that cannot spill: they would fail if those that can had taken
/// all before. A sort that has nothing may take half of the reserve: it cannot spill before it has its
/// first batch.
///
/// Sorts that merge their spilled runs merge as many files at once as there is memory for. They get no
/// more than they had as sorts, so that something is left for the operator that merges the output of
/// several sorts.
///
/// The rows that `RepartitionExec` has in transit between partitions are few, unless partitions differ
/// much in speed. They have memory of their own, so that they are not spilled early.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    kept: usize,
    most_handed_on: usize,
    state: Mutex<State>,
}

/// Memory for queries, shared by several sessions.
#[derive(Clone, Debug)]
pub(crate) struct WorkMemory(pub(crate) Arc<Memory>);

impl WorkMemory {
    /// Of so many bytes.
    pub fn new(limit: usize) -> WorkMemory {
        WorkMemory(Arc::new(Memory::new(limit)))
    }
}

/// Bytes that are taken, and the number of consumers that can spill.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    spillers: usize,
    merges: usize,
    by_spillers: usize,
    by_merges: usize,
    by_others: usize,
    handed_on: usize,
}

/// The kinds of consumers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConsumerKind {
    /// It can spill.
    Spiller,
    /// It can make do with less, while its sort holds nothing.
    Merge,
    /// It cannot spill.
    Other,
    /// Rows in transit.
    HandedOn,
}

impl ConsumerKind {
    fn is(consumer: &MemoryConsumer) -> ConsumerKind {
        match consumer.can_spill() {
            _ if consumer.name().starts_with("RepartitionExec") => ConsumerKind::HandedOn,
            false if consumer.name().starts_with("ExternalSorterMerge") => ConsumerKind::Merge,
            true => ConsumerKind::Spiller,
            false => ConsumerKind::Other,
        }
    }
}

impl State {
    fn of(&mut self, who: ConsumerKind) -> &mut usize {
        match who {
            ConsumerKind::Spiller => &mut self.by_spillers,
            ConsumerKind::Merge => &mut self.by_merges,
            ConsumerKind::Other => &mut self.by_others,
            ConsumerKind::HandedOn => &mut self.handed_on,
        }
    }
}

impl Memory {
    /// Of so many bytes.
    pub fn new(limit: usize) -> Memory {
        let (kept, most_handed_on) = (KEPT.min(limit / 5 * 3), HANDED_ON.max(limit / 4));
        Memory { limit, kept, most_handed_on, state: Mutex::default() }
    }

    /// Of so many bytes, none of them for rows in transit.
    #[cfg(test)]
    pub fn without_rows_on_their_way(limit: usize) -> Memory {
        Memory { most_handed_on: 0, ..Memory::new(limit) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The share of each consumer that can spill.
    fn share(&self, state: &State) -> usize {
        let all = self.limit - self.kept.max(state.by_others).min(self.limit);
        // A sort may be gone while its merge still runs.
        all / state.spillers.max(state.merges).max(1)
    }

    /// The free bytes.
    fn free(&self, state: &State) -> usize {
        self.limit.saturating_sub(state.by_spillers + state.by_merges + state.by_others)
    }

    /// The additional bytes that a consumer with `own` bytes may take.
    fn room(&self, state: &State, who: ConsumerKind, own: usize) -> usize {
        match who {
            ConsumerKind::Spiller if own == 0 => self.share(state).max(self.free(state) / 2),
            ConsumerKind::Spiller | ConsumerKind::Merge => self.share(state).saturating_sub(own),
            ConsumerKind::Other => self.free(state),
            ConsumerKind::HandedOn => self.most_handed_on.saturating_sub(state.handed_on),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { spillers, by_spillers, by_merges, by_others, handed_on, .. } = *self.state();
        let by_spillers = by_spillers + by_merges;
        write!(
            f,
            "{} bytes: {by_spillers} taken by {spillers} who can spill, {by_others} by others, and \
             {handed_on} of rows on their way",
            self.limit
        )
    }
}

impl MemoryPool for Memory {
    fn name(&self) -> &str {
        "cellar"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        match ConsumerKind::is(consumer) {
            ConsumerKind::Spiller => self.state().spillers += 1,
            ConsumerKind::Merge => self.state().merges += 1,
            ConsumerKind::Other | ConsumerKind::HandedOn => {}
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        match ConsumerKind::is(consumer) {
            ConsumerKind::Spiller => self.state().spillers -= 1,
            ConsumerKind::Merge => self.state().merges -= 1,
            ConsumerKind::Other | ConsumerKind::HandedOn => {}
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        *self.state().of(ConsumerKind::is(reservation.consumer())) += additional;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        *self.state().of(ConsumerKind::is(reservation.consumer())) -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        let (who, mut state) = (ConsumerKind::is(consumer), self.state());
        let room = self.room(&state, who, reservation.size());
        if additional > room {
            let (name, own) = (consumer.name(), reservation.size());
            return Err(resources_datafusion_err!(
                "{name} has {own} bytes and wants {additional} more; there is room for {room} of {}: \
                 {} are taken by sorts and groups, {} by merges, {} by others",
                self.limit,
                state.by_spillers,
                state.by_merges,
                state.by_others
            ));
        }
        *state.of(who) += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state();
        state.by_spillers + state.by_merges + state.by_others + state.handed_on
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn takes(pool: &Arc<dyn MemoryPool>, name: &str, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(can_spill).register(pool)
    }

    #[test]
    fn who_cannot_spill_finds_room_whatever_others_have_taken() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Memory::new(50 << 20));
        let (one, two) = (takes(&pool, "sort", true), takes(&pool, "sort", true));
        one.try_grow(10 << 20).expect("half of two fifths");
        assert!(one.try_grow(1).is_err(), "it can spill what it has");
        assert!(two.try_grow((20 << 20) + 1).is_err(), "half of what is free, to begin with");
        two.try_grow(10 << 20).expect("as much as the other");
        let many = takes(&pool, "ExternalSorterMerge[0]", false);
        assert!(many.try_grow((10 << 20) + 1).is_err(), "what a sort had");
        let merge = takes(&pool, "merge", false);
        merge.try_grow(30 << 20).expect("what was kept");
        let told = merge.try_grow(1).expect_err("all is taken").to_string();
        assert!(told.contains("merge has 31457280 bytes and wants 1 more"), "{told}");
        let rows = takes(&pool, "RepartitionExec[0]", true);
        rows.try_grow(HANDED_ON).expect("room of its own");
        assert!(rows.try_grow(1).is_err());
        assert_eq!(pool.reserved(), (50 << 20) + HANDED_ON);
        drop((one, merge));
        two.try_grow(10 << 20).expect("all that is not kept");
        drop((two, rows));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_sort_gets_its_first_batch() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Memory::new(50 << 20));
        let sorts: Vec<_> = (0..5).map(|_| takes(&pool, "sort", true)).collect();
        sorts[0].try_grow(8 << 20).expect("twice its share, of what is kept");
        sorts[0].try_grow(1).expect_err("it can spill what it has");
        sorts[1].try_grow((21 << 20) + 1).expect_err("half is left for who cannot spill");
        sorts[1].try_grow(21 << 20).expect("half of what is free");
    }
}
