//! Probes of an index by the join keys that the build side has found, instead of a scan of all pages.

use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::cast;
use bytes::Bytes;
use cellar_instance::heap::TableSize;

use super::scan_filters::DynamicFilter;
use super::scope::Scope;
use super::size::rows_by_index;
use super::table::RowColumns;
use crate::error::Error;

/// How many keys are sampled for their number of rows; the rest are assumed to be alike.
const ASKED: usize = 8;

/// The index keys to look up.
#[derive(Debug)]
pub(super) struct Probes {
    pub index: usize,
    ranges: Vec<RangeInclusive<Vec<u8>>>,
}

/// Join keys, and the probes chosen for them; `None`: all pages are read.
type Known = (Arc<[i64]>, Option<Arc<Probes>>);

/// The choice made by the first task of a scan; the others follow it.
#[derive(Debug, Default)]
pub(super) struct Choice(Mutex<Option<Known>>);

impl Probes {
    /// The share of task number `task`, from 0.
    pub fn share(&self, task: usize, tasks: usize) -> &[RangeInclusive<Vec<u8>>] {
        let part = |task: usize| task * self.ranges.len() / tasks.max(1);
        &self.ranges[part(task)..part(task + 1)]
    }

    /// The index of a table in which keys of a column can be looked up.
    pub fn index_of(columns: &RowColumns, column: usize) -> Option<usize> {
        let is_whole = columns.schema.fields().get(column)?.data_type().is_integer();
        let first = |index: &cellar_instance::catalog::Index| index.columns[0].column == column;
        columns.rows.indexes.iter().position(first).filter(|_| is_whole)
    }
}

impl Choice {
    /// The probes for the keys of these filters, if they cost less than reading all pages.
    ///
    /// # Errors
    /// The disk reports one.
    pub async fn probes(
        &self,
        (columns, scope, size): (&RowColumns, &Scope, TableSize),
        dynamic: &[DynamicFilter],
    ) -> Result<Option<Arc<Probes>>, Error> {
        for (column, keys) in dynamic.iter().flat_map(DynamicFilter::listed) {
            let Some(index) = Probes::index_of(columns, column) else { continue };
            let state = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A rerun scan may have other keys.
            if let Some((of, probes)) = &*state()
                && Arc::ptr_eq(of, &keys)
            {
                return Ok(probes.clone());
            }
            let probes = chosen(columns, scope, size, (index, column, &keys)).await?;
            let mut known = state();
            return Ok(match &*known {
                Some((of, probes)) if Arc::ptr_eq(of, &keys) => probes.clone(),
                _ => {
                    let probes = probes.map(Arc::new);
                    *known = Some((keys, probes.clone()));
                    probes
                }
            });
        }
        Ok(None)
    }
}

async fn chosen(
    columns: &RowColumns,
    scope: &Scope,
    size: TableSize,
    (at, column, keys): (usize, usize, &[i64]),
) -> Result<Option<Probes>, Error> {
    let (index, most) = (&columns.rows.indexes[at], rows_by_index(size));
    if keys.len() as u64 >= most || !scope.statement.is_complete_index(index) {
        return Ok(None);
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    // Keys out of the column's range become NULL: no row has them.
    let Ok(values) = cast(&numbers, columns.schema.field(column).data_type()) else {
        return Ok(None);
    };
    let there = (0..values.len()).filter(|at| values.is_valid(*at));
    let range = |key: usize| {
        let value = [values.slice(key, 1)];
        columns.key_range(at, &value, Bound::Unbounded, Bound::Unbounded)
    };
    let mut ranges = there.map(range).collect::<Result<Vec<_>, Error>>()?;
    ranges.sort_unstable_by(|one, other| one.start().cmp(other.start()));
    let mut rows = ranges.len() as u64;
    if !(index.is_unique && index.columns.len() == 1) {
        let step = (ranges.len() / ASKED).max(1);
        let (mut asked, mut found) = (0, 0);
        for range in ranges.iter().step_by(step) {
            let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
            let bounds = (bound(range.start()), bound(range.end()));
            found += scope.statement.expected(index, bounds).await?;
            asked += 1;
        }
        rows += (found * rows).div_ceil(asked.max(1));
    }
    Ok((rows < most).then_some(Probes { index: at, ranges }))
}
