//! The execution of a plan: rows are found by their keys, read, computed with and changed.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
};
use arrow::compute::{
    SortColumn, cast, concat, concat_batches, filter, lexsort_to_indices, take, take_record_batch,
};
use arrow::datatypes::{DataType, Schema};
use arrow::row::{RowConverter, SortField};
use bytes::Bytes;
use cellar_format::rows::RowColumns as Builder;

use super::plan::{
    By, Change, Compiled, Find, Insert, Limit, Locking, Plan, Returned, Select, Work,
};
use crate::error::Error;
use crate::failure::from_arrow;
use crate::rows::in_table;
use crate::rows::{Change as RowChange, Changed, Conflict, RowColumns, Scope, Written, row_error};

/// The most rows read here; more are left to plans that read in batches.
const ROWS_MAX: usize = 10_000;

/// Entries of an index that are read together.
const ENTRIES: usize = 256;

/// The most idle readers that a plan, shared by many sessions, keeps.
const READERS_MAX: usize = 16;

/// The outcome of an execution.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    Rows(RecordBatch),
    /// So many rows were changed.
    Count(u64, &'static str),
    /// Others have changed a row meanwhile: the statement must be run again.
    Again,
    /// The statement takes the common path. What it may have changed must be undone.
    Declined,
}

/// An execution in progress.
struct Run<'a> {
    plan: &'a Plan,
    /// The table as it is now.
    columns: &'a Arc<RowColumns>,
    scope: &'a Scope,
    values: &'a [ArrayRef],
}

/// Takes the common path if a value cannot be computed: that path reports why.
macro_rules! or_declined {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(RunOutcome::Declined),
        }
    };
}

impl Plan {
    /// Runs it with these values: one for each of its slots.
    ///
    /// # Errors
    /// Those of locks, of constraints, of the store.
    pub async fn run(&self, scope: &Scope, values: &[ArrayRef]) -> Result<RunOutcome, Error> {
        if !self.uuids.iter().all(|at| values.get(*at).is_some_and(super::uuids::are_kept)) {
            return Ok(RunOutcome::Declined);
        }
        let columns = scope.current(&self.columns).await?;
        // The table, and so its index, may have been replaced.
        if !Arc::ptr_eq(&columns, &self.columns) {
            return Ok(RunOutcome::Declined);
        }
        let run = Run { plan: self, columns: &columns, scope, values };
        match &self.work {
            Work::Select(select) => run.select(select).await,
            Work::Insert(insert) => run.insert(insert).await,
            Work::Change(change) => run.change(change).await,
        }
    }
}

impl Find {
    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<Builder>> {
        lock(&self.readers)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The values of an expression.
fn evaluated(made: &Compiled, rows: &RecordBatch) -> Option<ArrayRef> {
    made.evaluate(rows).ok()?.into_array(rows.num_rows()).ok()
}

fn all_of(made: &[Compiled], rows: &RecordBatch) -> Option<Vec<ArrayRef>> {
    made.iter().map(|made| evaluated(made, rows)).collect()
}

fn batch(schema: &Arc<Schema>, arrays: Vec<ArrayRef>, rows: usize) -> Option<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).ok()
}

/// A value repeated for each row.
fn repeated(value: &ArrayRef, rows: usize) -> Option<ArrayRef> {
    match rows {
        1 => Some(Arc::clone(value)),
        _ => take(value, &UInt32Array::from(vec![0; rows]), None).ok(),
    }
}

impl Run<'_> {
    /// The numbers of the rows with the requested keys, up to a limit. `None`: there are too many, or the column
    /// cannot have a value.
    async fn numbers(
        &self,
        find: &Find,
        backwards: bool,
        most: usize,
    ) -> Result<Option<Vec<u64>>, Error> {
        let index = &self.columns.rows.indexes[find.path.index];
        if !self.scope.statement.is_complete_index(index) {
            return Ok(None);
        }
        let Some(ranges) = find.path.ranges(self.columns, self.values) else { return Ok(None) };
        let is_one = find.path.is_one(self.columns);
        let mut found: Vec<u64> = Vec::new();
        for range in ranges {
            let (first, last) = range.into_inner();
            let bounds = (Bound::Included(Bytes::from(first)), Bound::Included(Bytes::from(last)));
            let mut entries = self.scope.statement.range(index, bounds, backwards)?;
            loop {
                let wanted = if is_one { 1 } else { ENTRIES.min(most - found.len()) };
                let more = entries.next(wanted).await?;
                let is_over = more.len() < wanted;
                match found.is_empty() {
                    true => found = more,
                    false => found.extend(more),
                }
                if is_one || is_over || found.len() >= most {
                    break;
                }
            }
            if found.len() >= most {
                break;
            }
        }
        Ok((found.len() <= ROWS_MAX).then_some(found))
    }

    /// The needed columns of those of these rows that exist, and their numbers.
    async fn read(&self, find: &Find, numbers: &[u64]) -> Result<(Vec<ArrayRef>, Vec<u64>), Error> {
        let reader = find.readers().pop();
        let mut reader = match reader {
            Some(reader) => reader,
            None => self.columns.builder(&find.needed)?,
        };
        let statement = &self.scope.statement;
        let mut there = Vec::with_capacity(numbers.len());
        if let [number] = numbers {
            if let Some(row) = statement.row(&self.columns.rows, *number).await? {
                self.columns.push(&mut reader, statement, &row).await?;
                there.push(*number);
            }
        } else {
            let rows = statement.rows(&self.columns.rows, numbers).await?;
            for (number, row) in numbers.iter().zip(rows) {
                let Some(row) = row else { continue };
                self.columns.push(&mut reader, statement, &row).await?;
                there.push(*number);
            }
        }
        let arrays = reader.finish().map_err(|error| row_error(&self.columns.name, &error))?;
        let mut readers = find.readers();
        if readers.len() < READERS_MAX {
            readers.push(reader);
        }
        drop(readers);
        Ok((arrays, there))
    }

    /// The rows that satisfy the residual conditions, and their numbers.
    fn filtered(
        &self,
        find: &Find,
        (mut arrays, numbers): (Vec<ArrayRef>, Vec<u64>),
    ) -> Option<(RecordBatch, Vec<u64>)> {
        let count = numbers.len();
        if find.has_values {
            for value in self.values {
                arrays.push(repeated(value, count)?);
            }
        }
        let rows = batch(&find.schema, arrays, count)?;
        let Some(residual) = &find.residual else { return Some((rows, numbers)) };
        let held = evaluated(residual, &rows)?;
        let held = held.as_boolean_opt()?;
        if held.true_count() == count {
            return Some((rows, numbers));
        }
        let kept = arrow::compute::filter_record_batch(&rows, held).ok()?;
        let numbers = filter(&UInt64Array::from(numbers), held).ok()?;
        let numbers: &UInt64Array = numbers.as_primitive_opt()?;
        Some((kept, numbers.values().to_vec()))
    }

    fn limit(&self, limit: Option<Limit>) -> Option<Option<usize>> {
        match limit {
            None => Some(None),
            Some(Limit::Fixed(count)) => Some(Some(count)),
            Some(Limit::Value(at)) => {
                let value = self.values.get(at)?;
                let value = cast(value, &DataType::Int64).ok()?;
                let value: &arrow::array::Int64Array = value.as_primitive_opt()?;
                match value.is_null(0) {
                    true => Some(None),
                    false => Some(Some(usize::try_from(value.value(0)).ok()?)),
                }
            }
        }
    }

    async fn select(&self, select: &Select) -> Result<RunOutcome, Error> {
        let limit = or_declined!(self.limit(select.limit));
        let offset = or_declined!(self.limit(select.offset)).unwrap_or(0);
        let skips = select.lock.is_some_and(|lock| lock.skips);
        let most = match (select.in_order, limit) {
            (Some(_), Some(limit)) if !skips => limit.saturating_add(offset).min(ROWS_MAX + 1),
            _ => ROWS_MAX + 1,
        };
        let backwards = select.in_order == Some(true);
        let numbers = or_declined!(self.numbers(&select.find, backwards, most).await?);
        let found = self.read(&select.find, &numbers).await?;
        let (mut rows, numbers) = or_declined!(self.filtered(&select.find, found));
        if let Some(lock) = select.lock {
            match self.locked(lock, &numbers, (limit, offset)).await? {
                Some(kept) if kept.len() == numbers.len() => {}
                Some(kept) => {
                    let kept = take_record_batch(&rows, &UInt64Array::from(kept));
                    rows = or_declined!(kept.ok());
                }
                None => return Ok(RunOutcome::Again),
            }
        }
        Ok(match self.shown(select, &rows, (limit, offset)) {
            Some(rows) => RunOutcome::Rows(rows),
            None => RunOutcome::Declined,
        })
    }

    /// Locks rows; returns the positions of those locked, not of those skipped. `None`: others have changed one
    /// meanwhile.
    async fn locked(
        &self,
        lock: Locking,
        numbers: &[u64],
        (limit, offset): (Option<usize>, usize),
    ) -> Result<Option<Vec<u64>>, Error> {
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        // Rows are locked in their own order, so that sessions locking the same rows do not deadlock.
        if limit.is_none() && offset == 0 && !lock.skips {
            order.sort_unstable_by_key(|at| numbers[*at]);
        }
        let most = limit.map_or(usize::MAX, |limit| limit.saturating_add(offset));
        let (table, mut kept) = (&self.columns.rows, Vec::new());
        let told = in_table(&self.columns.name);
        for at in order {
            if kept.len() >= most || limit == Some(0) {
                break;
            }
            let mut transaction = self.scope.open().await?;
            let found = match lock.skips {
                true => transaction.lock_free_row(table, numbers[at], lock.how).await?,
                false => {
                    let locked = transaction.lock_row(table, numbers[at], lock.how).await;
                    Some(locked.map_err(&told)?)
                }
            };
            match found {
                Some(found) if found.is_changed => return Ok(None),
                Some(_) => kept.push(at as u64),
                None => {}
            }
        }
        self.scope.check_place(self.columns)?;
        kept.sort_unstable();
        Ok(Some(kept))
    }

    /// The result of a SELECT.
    fn shown(
        &self,
        select: &Select,
        rows: &RecordBatch,
        (limit, offset): (Option<usize>, usize),
    ) -> Option<RecordBatch> {
        let schema = self.plan.schema.as_ref()?;
        let mut count = rows.num_rows();
        let mut arrays = if select.aggregates.is_empty() {
            all_of(&select.outputs, rows)?
        } else {
            count = 1;
            let made = select.aggregates.iter().map(|aggregate| aggregate.of_rows(rows));
            made.collect::<Option<Vec<_>>>()?
        };
        if select.distinct {
            let first = distinct(&arrays)?;
            count = first.len();
            arrays = taken(&arrays, &first)?;
        }
        if !select.order.is_empty() && select.in_order.is_none() && count > 1 {
            let column = |(by, options): &(By, _)| {
                let values = match by {
                    By::Output(at) => Arc::clone(&arrays[*at]),
                    By::Other(made) => evaluated(made, rows)?,
                };
                Some(SortColumn { values, options: Some(*options) })
            };
            let columns = select.order.iter().map(column).collect::<Option<Vec<_>>>()?;
            let wanted = limit.map(|limit| limit.saturating_add(offset));
            let order = lexsort_to_indices(&columns, wanted).ok()?;
            count = order.len();
            arrays = taken(&arrays, &order)?;
        }
        let from = offset.min(count);
        let length = limit.unwrap_or(usize::MAX).min(count - from);
        if length < count {
            arrays = arrays.iter().map(|array| array.slice(from, length)).collect();
        }
        batch(schema, arrays, length)
    }

    async fn insert(&self, insert: &Insert) -> Result<RunOutcome, Error> {
        self.scope.check_writable()?;
        let values = or_declined!(batch(&insert.schema, self.values.to_vec(), 1));
        let mut rows = Vec::with_capacity(insert.rows.len());
        for row in &insert.rows {
            rows.push(or_declined!(all_of(row, &values)));
        }
        let arrays = match rows.len() {
            1 => rows.remove(0),
            _ => or_declined!(columns_of(&rows)),
        };
        let count = arrays.first().map_or(0, Array::len);
        let rows = or_declined!(batch(&self.columns.query_schema(false), arrays, count));
        let change = RowChange {
            columns: self.columns,
            checks: &insert.checks,
            scope: self.scope,
            wants_rows: insert.returned.is_some(),
        };
        let written = match &insert.on {
            None => change.insert(&rows).await?,
            Some(on) => {
                let (arbiter, update) = (on.arbiter, on.update.clone());
                let conflict = Conflict { arbiter, update, values: self.values.to_vec() };
                match change.insert_or(&rows, &conflict, &mut HashSet::new()).await? {
                    Changed::Again => return Ok(RunOutcome::Again),
                    Changed::Rows(written) => written,
                }
            }
        };
        self.returned(insert.returned.as_ref(), written, "inserted")
    }

    async fn change(&self, change: &Change) -> Result<RunOutcome, Error> {
        self.scope.check_writable()?;
        let numbers = or_declined!(self.numbers(&change.find, false, ROWS_MAX + 1).await?);
        let found = self.read(&change.find, &numbers).await?;
        let (rows, numbers) = or_declined!(self.filtered(&change.find, found));
        let count = numbers.len();
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(numbers))];
        if let Some((_, values)) = &change.assigned {
            arrays.extend(or_declined!(all_of(values, &rows)));
        }
        let rows = or_declined!(batch(&change.schema, arrays, count));
        let work = RowChange {
            columns: self.columns,
            checks: &change.checks,
            scope: self.scope,
            wants_rows: change.returned.is_some(),
        };
        let (changed, verb) = match &change.assigned {
            Some((columns, _)) => (work.update(columns, &[rows]).await?, "updated"),
            None => (work.delete(&[rows]).await?, "deleted"),
        };
        match changed {
            Changed::Again => Ok(RunOutcome::Again),
            Changed::Rows(written) => self.returned(change.returned.as_ref(), written, verb),
        }
    }

    /// The result of a statement that has changed rows.
    fn returned(
        &self,
        returned: Option<&Returned>,
        written: Written,
        verb: &'static str,
    ) -> Result<RunOutcome, Error> {
        let Some(returned) = returned else { return Ok(RunOutcome::Count(written.count, verb)) };
        let schema = self.columns.query_schema(false);
        let rows = concat_batches(&schema, &written.rows).map_err(|error| from_arrow(&error))?;
        let arrays = or_declined!(all_of(&returned.outputs, &rows));
        let shown = or_declined!(self.plan.schema.as_ref());
        Ok(RunOutcome::Rows(or_declined!(batch(shown, arrays, rows.num_rows()))))
    }
}

/// Single rows, concatenated to columns.
fn columns_of(rows: &[Vec<ArrayRef>]) -> Option<Vec<ArrayRef>> {
    let columns = rows.first()?.len();
    let column = |at: usize| {
        let parts: Vec<&dyn Array> = rows.iter().map(|row| row[at].as_ref()).collect();
        concat(&parts).ok()
    };
    (0..columns).map(column).collect()
}

fn taken(arrays: &[ArrayRef], rows: &UInt32Array) -> Option<Vec<ArrayRef>> {
    arrays.iter().map(|array| take(array, rows, None).ok()).collect()
}

/// The positions of the first of each set of equal rows.
fn distinct(arrays: &[ArrayRef]) -> Option<UInt32Array> {
    let fields = arrays.iter().map(|array| SortField::new(array.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).ok()?;
    let rows = converter.convert_columns(arrays).ok()?;
    let mut seen = std::collections::HashSet::with_capacity(rows.num_rows());
    let first = rows.iter().enumerate().filter(|(_, row)| seen.insert(row.data().to_vec()));
    Some(first.map(|(at, _)| at as u32).collect::<Vec<_>>().into())
}
