//! Scans of columnar tables: the cell of this process, the segments that are open in it, and what the
//! last scans did.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_cell::{Cache, Error as CellError, ScanStats, Segment, Totals};

use crate::catalog::name;
use crate::error::{Error, NextStep};

/// Scans that are remembered after their end.
const REMEMBERED: usize = 100;

/// A condition of a scan, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFilter {
    /// The condition.
    pub text: String,
    /// Why the cell did not evaluate it on encoded columns; `None`: it did.
    pub residual: Option<String>,
}

/// What a scan is and does.
#[derive(Clone, Debug)]
pub struct ScanRecord {
    /// Scans are numbered from 1.
    pub number: u64,
    /// The table.
    pub table: String,
    /// The session that asked.
    pub sid: u32,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// Its conditions.
    pub filters: Vec<ScanFilter>,
    /// What was aggregated in the cell, if anything.
    pub partial: Option<String>,
    /// What it did so far.
    pub stats: Arc<ScanStats>,
}

/// The group and the path of a segment's file.
pub(crate) type Place = (String, String);

#[derive(Default)]
struct Known {
    open: HashMap<Place, Arc<Segment>>,
    recent: VecDeque<ScanRecord>,
    scans: u64,
    /// What scans did that are not remembered any more.
    forgotten: Totals,
}

/// The cell of this process.
pub struct Scans {
    cache: Cache,
    known: Mutex<Known>,
}

impl std::fmt::Debug for Scans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scans({:?})", self.cache)
    }
}

impl Scans {
    /// A cell with so many bytes of memory.
    pub fn new(cache_bytes: u64) -> Scans {
        Scans { cache: Cache::new(cache_bytes), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A segment that is open.
    pub(crate) fn opened(&self, place: &Place) -> Option<Arc<Segment>> {
        self.known().open.get(place).cloned()
    }

    /// Keeps a segment open.
    pub(crate) fn keep(&self, place: Place, segment: &Arc<Segment>) {
        self.known().open.insert(place, Arc::clone(segment));
    }

    /// Its memory.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Remembers a scan that begins; its number.
    pub fn begin(&self, mut record: ScanRecord) -> u64 {
        let mut known = self.known();
        known.scans += 1;
        record.number = known.scans;
        known.recent.push_back(record);
        if known.recent.len() > REMEMBERED
            && let Some(old) = known.recent.pop_front()
        {
            let sum = ScanStats::default();
            sum.add(&known.forgotten);
            sum.add(&old.stats.totals());
            known.forgotten = sum.totals();
        }
        known.scans
    }

    /// The last scans, and how many there were.
    pub fn recent(&self) -> (Vec<ScanRecord>, u64) {
        let known = self.known();
        (known.recent.iter().cloned().collect(), known.scans)
    }

    /// Totals of all scans. A scan that goes on after a hundred others have begun is counted as it was
    /// then.
    pub fn totals(&self) -> Totals {
        let known = self.known();
        let sum = ScanStats::default();
        sum.add(&known.forgotten);
        known.recent.iter().for_each(|scan| sum.add(&scan.stats.totals()));
        sum.totals()
    }

    /// Releases the segments of a group (all, or those of these files).
    pub(crate) fn release(&self, group: &str, files: Option<&[&str]>) {
        let gone = |(of, file): &Place| {
            of == group && files.is_none_or(|files| files.contains(&file.as_str()))
        };
        // Dropped without the lock: the last handle of a file may have work to do.
        let mut dropped = Vec::new();
        self.known().open.retain(|place, segment| {
            let gone = gone(place);
            if gone {
                dropped.push(Arc::clone(segment));
            }
            !gone
        });
        drop(dropped);
    }
}

/// What a scan of `table` reports.
pub fn scan_error(table: &str, error: &CellError) -> Error {
    let text = format!("table \"{}\" cannot be read: {error}", name::shown(table));
    match error {
        CellError::Io(_) => Error::new(70125, text).hint(
            NextStep::default()
                .cellar("status", "")
                .then(" tells which disks are missing; run the statement again"),
        ),
        CellError::Damaged { .. } => Error::new(70124, text).hint(
            "a scrub with REPAIR mends what another copy still has; else DROP TABLE and load again",
        ),
        CellError::Stopped => Error::new(70125, text).hint("run the statement again"),
        CellError::Residual(_) | CellError::Groups(_) => Error::new(70126, text),
    }
}
