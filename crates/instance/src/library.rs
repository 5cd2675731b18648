//! The library: statements that sessions run by plans they keep, with how often, and what the caches of plans have
//! done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::views::{VLibrarycache, VSql};

/// The most statements that are kept; the least recently used one goes.
const CURSORS_MAX: usize = 2000;

/// The alphabet of a sql_id: Oracle's.
const LETTERS: &[u8; 32] = b"0123456789abcdfghjkmnpqrstuvwxyz";

/// A statement without its constants.
#[derive(Debug)]
pub struct Cursor {
    text: String,
    executions: AtomicU64,
    rows: AtomicU64,
    nanos: AtomicU64,
    hits: AtomicU64,
    loads: AtomicU64,
    /// When it was used last, by the count of all uses.
    used: AtomicU64,
}

impl Cursor {
    /// Counts an execution, of so many rows, that took so many nanoseconds.
    pub fn executed(&self, rows: u64, nanos: u64) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn row(&self) -> VSql {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        VSql {
            sql_id: sql_id(&self.text),
            sql_text: self.text.clone(),
            executions: read(&self.executions),
            rows_processed: read(&self.rows),
            elapsed_time: read(&self.nanos) / 1000,
            hits: read(&self.hits),
            loads: read(&self.loads),
        }
    }
}

/// The library of an instance.
#[derive(Debug, Default)]
pub struct Library {
    cursors: Mutex<HashMap<String, Arc<Cursor>>>,
    clock: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    invalidations: AtomicU64,
}

impl Library {
    fn cursors(&self) -> MutexGuard<'_, HashMap<String, Arc<Cursor>>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a statement for which a plan is made.
    pub fn load(&self, text: &str) -> Arc<Cursor> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut cursors = self.cursors();
        if cursors.len() >= CURSORS_MAX
            && !cursors.contains_key(text)
            && let Some(oldest) = cursors
                .iter()
                .min_by_key(|(_, cursor)| cursor.used.load(Ordering::Relaxed))
                .map(|(text, _)| text.clone())
        {
            cursors.remove(&oldest);
        }
        let cursor = cursors.entry(text.to_owned()).or_insert_with(|| {
            Arc::new(Cursor {
                text: text.to_owned(),
                executions: AtomicU64::new(0),
                rows: AtomicU64::new(0),
                nanos: AtomicU64::new(0),
                hits: AtomicU64::new(0),
                loads: AtomicU64::new(0),
                used: AtomicU64::new(now),
            })
        });
        cursor.loads.fetch_add(1, Ordering::Relaxed);
        cursor.used.store(now, Ordering::Relaxed);
        Arc::clone(cursor)
    }

    /// Counts a hit: a plan of this statement was looked for and found.
    pub fn hit(&self, cursor: &Cursor) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        cursor.hits.fetch_add(1, Ordering::Relaxed);
        cursor.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Counts a miss: a plan was looked for in vain.
    pub fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a plan that was evicted for another one.
    pub fn evicted(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a plan that was invalidated because its table was changed.
    pub fn invalidated(&self) {
        self.invalidations.fetch_add(1, Ordering::Relaxed);
    }

    /// Rows of v$sql, by their texts.
    pub(crate) fn sql(&self) -> Vec<VSql> {
        let mut rows: Vec<VSql> = self.cursors().values().map(|cursor| cursor.row()).collect();
        rows.sort_by(|one, other| one.sql_text.cmp(&other.sql_text));
        rows
    }

    /// The row of v$librarycache.
    pub(crate) fn cache(&self) -> Vec<VLibrarycache> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (hits, misses) = (read(&self.hits), read(&self.misses));
        vec![VLibrarycache {
            namespace: "SQL AREA",
            gets: hits + misses,
            hits,
            misses,
            evictions: read(&self.evictions),
            invalidations: read(&self.invalidations),
        }]
    }
}

/// Thirteen letters for a text: it is the same in each database.
fn sql_id(text: &str) -> String {
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut letters = [b'0'; 13];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[(hash % 32) as usize];
        hash /= 32;
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_counts_and_forgets() {
        let library = Library::default();
        let cursor = library.load("select 1");
        library.hit(&cursor);
        cursor.executed(3, 2500);
        assert!(Arc::ptr_eq(&cursor, &library.load("select 1")));
        let rows = library.sql();
        assert_eq!((rows[0].executions, rows[0].rows_processed, rows[0].elapsed_time), (1, 3, 2));
        assert_eq!((rows[0].hits, rows[0].loads, rows[0].sql_id.len()), (1, 2, 13));
        for number in 0..CURSORS_MAX {
            library.load(&format!("select {number} from t"));
        }
        assert_eq!(library.sql().len(), CURSORS_MAX);
        assert!(library.sql().iter().all(|row| row.sql_text != "select 1"));
    }

    #[test]
    fn what_is_used_again_and_again_stays() {
        let library = Library::default();
        let (used, made) = (library.load("select 1"), library.load("select 2"));
        for number in 0..CURSORS_MAX {
            library.hit(&used);
            library.load(&format!("select {number} from t"));
        }
        let texts: Vec<String> = library.sql().into_iter().map(|row| row.sql_text).collect();
        assert!(texts.contains(&"select 1".to_owned()), "a plan of it was found last");
        assert!(!texts.contains(&"select 2".to_owned()), "{} plans are newer", made.text);
    }
}
