//! The keys of the build side of a join, for the scan on its other side.
//!
//! DataFusion's own filter keeps the keys in a hash table that only it can probe, row by row. Here they
//! are collected as they pass, and become a set that the cell tests on encoded columns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;
use cellar_format::KeyFilter;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::expressions::Column;

/// More keys than these are not collected: a set of them would not fit a processor's cache.
const KEYS_MAX: usize = 2 << 20;

/// The most keys that are kept as a list: so many may be looked up in an index.
const LISTED_MAX: usize = 1 << 16;

/// The collected keys.
#[derive(Debug)]
struct Known {
    filter: Arc<KeyFilter>,
    /// Each of them, in ascending order; `None`: there are too many.
    list: Option<Arc<[i64]>>,
}

/// The keys of a build side, once all of its rows have passed.
#[derive(Debug, Default)]
pub struct BuildKeys(Mutex<Option<Known>>);

impl BuildKeys {
    fn state(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them; `None`: they are unknown, or not known yet.
    pub fn all(&self) -> Option<Arc<KeyFilter>> {
        self.state().as_ref().map(|known| Arc::clone(&known.filter))
    }

    /// Each of them, in ascending order, if they are known and few.
    pub fn list(&self) -> Option<Arc<[i64]>> {
        self.state().as_ref().and_then(|known| known.list.clone())
    }
}

/// The keys of a join, separately for each of its columns; `None`: they are not collected.
pub type JoinKeys = Arc<[Option<Arc<BuildKeys>>]>;

/// The columns that the filter of a join tests, each with the keys that are collected for it.
pub fn columns_of(
    filter: &Arc<dyn PhysicalExpr>,
    keys: Option<&JoinKeys>,
) -> Vec<(usize, Arc<BuildKeys>)> {
    let known = keys.into_iter().flat_map(|keys| keys.iter());
    let columns = filter.children().into_iter().zip(known);
    let of = |(column, keys): (&Arc<dyn PhysicalExpr>, &Option<Arc<BuildKeys>>)| {
        Some((column.downcast_ref::<Column>()?.index(), Arc::clone(keys.as_ref()?)))
    };
    columns.filter_map(of).collect()
}

/// Collects keys from the rows of one run.
#[derive(Debug)]
pub struct Gather {
    column: usize,
    found: Arc<BuildKeys>,
    /// `None`: there are too many, or they are not integers.
    keys: Option<Vec<i64>>,
}

impl Gather {
    /// Collects from a column of the rows.
    pub fn new(column: usize, found: Arc<BuildKeys>) -> Gather {
        // The keys of an earlier run do not apply to this one.
        *found.state() = None;
        Gather { column, found, keys: Some(Vec::new()) }
    }

    /// Takes the keys of a batch. A null key equals nothing.
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
        if let Some(mut keys) = self.keys.take() {
            let filter = Arc::new(KeyFilter::new(&keys));
            keys.sort_unstable();
            keys.dedup();
            let list = (keys.len() <= LISTED_MAX).then(|| Arc::from(keys));
            *self.found.state() = Some(Known { filter, list });
        }
    }
}
