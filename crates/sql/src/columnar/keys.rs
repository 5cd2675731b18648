//! The keys of the build side of a join, for the scan on its other side.
//!
//! DataFusion's own filter has them in a hash table that only it can look into, row by row. Here they are
//! gathered as they pass, and become a set that the cell asks on encoded columns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;
use cellar_format::KeyFilter;

/// More keys than these are not gathered: a set of them is too large for a processor's cache.
const KEYS_MAX: usize = 2 << 20;

/// The keys of a build side, once all of its rows have passed.
#[derive(Debug, Default)]
pub struct BuildKeys(Mutex<Option<Arc<KeyFilter>>>);

impl BuildKeys {
    fn state(&self) -> MutexGuard<'_, Option<Arc<KeyFilter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them; `None`: they are not known, or not yet.
    pub fn all(&self) -> Option<Arc<KeyFilter>> {
        self.state().clone()
    }
}

/// Gathers keys from the rows of one run.
#[derive(Debug)]
pub struct Gather {
    column: usize,
    found: Arc<BuildKeys>,
    /// `None`: there are too many, or they are no whole numbers.
    keys: Option<Vec<i64>>,
}

impl Gather {
    /// From a column of the rows.
    pub fn new(column: usize, found: Arc<BuildKeys>) -> Gather {
        // What an earlier run found is not what this one will.
        *found.state() = None;
        Gather { column, found, keys: Some(Vec::new()) }
    }

    /// Takes those of a batch. One that is null equals none.
    pub fn take(&mut self, batch: &RecordBatch) {
        let Some(keys) = &mut self.keys else { return };
        let numbers = cast(batch.column(self.column), &DataType::Int64);
        match numbers {
            // A number beyond 64 bits would become null.
            Ok(numbers) if numbers.null_count() == batch.column(self.column).null_count() => {
                let numbers = numbers.as_primitive::<Int64Type>();
                keys.extend(numbers.iter().flatten());
            }
            _ => self.keys = None,
        }
        if self.keys.as_ref().is_some_and(|keys| keys.len() > KEYS_MAX) {
            self.keys = None;
        }
    }

    /// All rows have passed.
    pub fn finish(&mut self) {
        if let Some(keys) = self.keys.take() {
            *self.found.state() = Some(Arc::new(KeyFilter::new(&keys)));
        }
    }
}
