//! Counts for each table and index, the source of Oracle's v$segment_statistics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of a table or an index since the store was opened, recovery included. Reads are counted when
/// they are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStatistics {
    /// Its number; 0: the extent map, and all that is an object's no longer.
    pub object: u32,
    /// Times that somebody asked for a page of it, in memory or not.
    pub logical_reads: u64,
    /// Pages of it that were read from disk one at a time.
    pub single_page_reads: u64,
    /// Pages of it that were read from disk together with those beside them.
    pub multi_page_reads: u64,
    /// Pages of it that were written to their places, behind the log.
    pub physical_writes: u64,
    /// Pages of it that were written around the log.
    pub direct_writes: u64,
    /// Changes that commits made to its pages: one for each row, slot or byte of a page that has to change.
    pub block_changes: u64,
    /// Times that somebody waited for a page that somebody else was reading.
    pub buffer_busy_waits: u64,
    /// Times that somebody waited for the lock of a row of it, or of a key where it is an index.
    pub row_lock_waits: u64,
}

/// The buffer cache as it is now, and its counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// The capacity in pages.
    pub capacity: u64,
    /// Pages that it holds: more than its capacity only while more than that must stay.
    pub used: u64,
    /// Pages of these that are newer than on disk.
    pub dirty: u64,
    /// Older images of pages that are kept for views, beside these.
    pub kept_images: u64,
    /// Older images that are in a file.
    pub spilled_images: u64,
    /// Times that somebody asked for a page.
    pub logical_reads: u64,
    /// Pages that were read from disk, one at a time or together.
    pub physical_reads: u64,
    /// Pages that were written to their places, behind the log.
    pub physical_writes: u64,
    /// Changes that commits made to pages.
    pub block_changes: u64,
    /// Times that somebody waited for a page that somebody else was reading.
    pub buffer_busy_waits: u64,
}

impl ObjectStatistics {
    fn of(object: u32) -> ObjectStatistics {
        ObjectStatistics { object, ..ObjectStatistics::default() }
    }

    /// Pages of it that were read from disk.
    pub fn physical_reads(&self) -> u64 {
        self.single_page_reads + self.multi_page_reads
    }

    fn add(&mut self, more: &ObjectStatistics) {
        self.logical_reads += more.logical_reads;
        self.single_page_reads += more.single_page_reads;
        self.multi_page_reads += more.multi_page_reads;
        self.physical_writes += more.physical_writes;
        self.direct_writes += more.direct_writes;
        self.block_changes += more.block_changes;
        self.buffer_busy_waits += more.buffer_busy_waits;
        self.row_lock_waits += more.row_lock_waits;
    }
}

impl CacheStatistics {
    /// The pages that still fit.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// The share of the times that somebody asked for a page in which it was in memory, 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        match self.logical_reads {
            0 => 0.0,
            asked => 1.0 - self.physical_reads.min(asked) as f64 / asked as f64,
        }
    }
}

/// The counts of all objects. These counters change with an I/O, a wait, or an eviction; more frequent events
/// are counted in frames.
#[derive(Default)]
pub(crate) struct Statistics(Mutex<State>);

#[derive(Default)]
struct State {
    objects: BTreeMap<u32, ObjectStatistics>,
    /// The existing objects are known: counts for others go to 0.
    is_known: bool,
}

impl State {
    fn of(&mut self, object: u32) -> &mut ObjectStatistics {
        let object = match self.is_known && !self.objects.contains_key(&object) {
            true => 0,
            false => object,
        };
        self.objects.entry(object).or_insert_with(|| ObjectStatistics::of(object))
    }

    fn end(&mut self, object: u32) {
        if let Some(gone) = self.objects.remove(&object) {
            self.of(0).add(&gone);
        }
    }
}

impl Statistics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something that was done to an object.
    pub fn count(&self, object: u32, count: impl FnOnce(&mut ObjectStatistics)) {
        count(self.lock().of(object));
    }

    /// Counts what was done to pages of these objects, once for each time that one is named.
    pub fn count_each(
        &self,
        objects: impl IntoIterator<Item = u32>,
        count: impl Fn(&mut ObjectStatistics),
    ) {
        let mut state = self.lock();
        objects.into_iter().for_each(|object| count(state.of(object)));
    }

    /// Says which objects there are.
    pub fn know(&self, objects: impl IntoIterator<Item = u32>) {
        let mut state = self.lock();
        let mut others = std::mem::take(&mut state.objects);
        for object in objects {
            let known = others.remove(&object).unwrap_or_else(|| ObjectStatistics::of(object));
            state.objects.insert(object, known);
        }
        state.is_known = true;
        others.values().for_each(|other| state.of(0).add(other));
    }

    /// There is another object.
    pub fn begin(&self, object: u32) {
        self.lock().objects.entry(object).or_insert_with(|| ObjectStatistics::of(object));
    }

    /// An object is no longer.
    pub fn end(&self, object: u32) {
        self.lock().end(object);
    }

    /// All counts, by object.
    pub fn all(&self) -> Vec<ObjectStatistics> {
        self.lock().objects.values().copied().collect()
    }
}
