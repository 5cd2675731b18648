//! Changes to rows of a table in the heap: the result of a query becomes rows, or says which rows change.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::UInt64Type;
use bytes::Bytes;
use cellar_format::rows::{LongValue, RowWriter};
use cellar_instance::catalog::name;
use cellar_instance::heap::{ChangeError, IndexKey, LockedRow, RowLock, Transaction};

use super::checks::Checks;
use super::refusals::in_table;
use super::scope::Scope;
use super::table::{RowColumns, row_error};
use crate::columnar::write::column_of;
use crate::error::Error;

/// Rows that are changed together.
const ROWS_TOGETHER: usize = 1024;

/// The outcome of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    /// Rows are changed.
    Rows(Written),
    /// Others have changed a row meanwhile: the statement must run again on the current rows.
    Again,
}

/// Rows that were changed.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How many.
    pub count: u64,
    /// The rows themselves, all columns, if requested: as they are now, or as they were when deleted.
    pub rows: Vec<RecordBatch>,
    /// For UPDATE and DELETE: the position of each among the rows of the query.
    pub places: Vec<u64>,
}

impl Written {
    /// Adds what was changed after these.
    pub fn extend(&mut self, more: Written) {
        self.count += more.count;
        self.rows.extend(more.rows);
        self.places.extend(more.places);
    }
}

/// The table to change, and the constraints on its rows.
pub(crate) struct Change<'a> {
    /// The table.
    pub columns: &'a RowColumns,
    /// Its conditions.
    pub checks: &'a Checks,
    /// The statement.
    pub scope: &'a Scope,
    /// Whether the changed rows are to be returned.
    pub wants_rows: bool,
}

/// A row to be written.
pub(super) struct NewRow {
    pub bytes: Bytes,
    pub keys: Vec<IndexKey>,
}

impl Change<'_> {
    /// Adds rows.
    ///
    /// # Errors
    /// A value does not fit, a constraint is violated, a key exists already.
    pub async fn insert(&self, batch: &RecordBatch) -> Result<Written, Error> {
        let arrays = self.fitted(batch.columns())?;
        self.checks.check(&arrays)?;
        self.insert_fitted(&arrays).await?;
        let count = batch.num_rows() as u64;
        Ok(Written { count, rows: self.wanted(arrays)?, places: Vec::new() })
    }

    /// As [`Change::insert`], with values that have the columns' types and satisfy the constraints.
    pub(super) async fn insert_fitted(&self, arrays: &[ArrayRef]) -> Result<(), Error> {
        let table = &self.columns.rows;
        let mut transaction = self.scope.open().await?;
        let stored = self.stored(arrays)?;
        let writer = self.writer(&stored)?;
        for row in 0..writer.rows() {
            let new = self.new_row(&mut transaction, &writer, row, &[]).await?;
            let inserted = transaction.insert(table, new.bytes, &new.keys).await;
            inserted.map_err(|error| self.refused(error, arrays, row))?;
        }
        self.note_new(arrays, None)?;
        self.scope.check_changes(&transaction, self.columns)
    }

    /// The rows themselves, if they are to be returned.
    pub(super) fn wanted(&self, arrays: Vec<ArrayRef>) -> Result<Vec<RecordBatch>, Error> {
        if !self.wants_rows {
            return Ok(Vec::new());
        }
        let batch = RecordBatch::try_new(self.columns.query_schema(false), arrays);
        Ok(vec![batch.map_err(|error| crate::failure::from_arrow(&error))?])
    }

    /// Gives rows other values. The first column of `batches` has their numbers, the others the new values of
    /// these columns of the table.
    ///
    /// # Errors
    /// As [`Change::insert`].
    pub async fn update(
        &self,
        assigned: &[usize],
        batches: &[RecordBatch],
    ) -> Result<Changed, Error> {
        let rows = numbered(batches)?;
        let mut values = Vec::new();
        for (position, column) in assigned.iter().enumerate() {
            values.push((*column, whole(batches, position + 1)?));
        }
        let (mut waiting, mut written) = (Vec::new(), Written::default());
        for rows in rows.chunks(ROWS_TOGETHER) {
            let Some(old) = self.locked(rows).await? else { return Ok(Changed::Again) };
            // A missing row was gone before the statement began.
            let there: Vec<usize> = (0..old.len()).filter(|at| old[*at].is_some()).collect();
            let old: Vec<Bytes> = old.into_iter().flatten().collect();
            let before = self.columns.batch(&self.scope.statement, &old).await?;
            let mut arrays = before.columns().to_vec();
            let places = UInt64Array::from_iter_values(there.iter().map(|at| rows[*at].1));
            for (column, values) in &values {
                let taken = take(values, &places, None);
                let taken = taken.map_err(|error| crate::failure::from_arrow(&error))?;
                arrays[*column] = column_of(taken, self.columns.schema.field(*column))?;
            }
            self.checks.check(&arrays)?;
            let numbers: Vec<u64> = there.iter().map(|at| rows[*at].0).collect();
            waiting.extend(self.write(&numbers, &old, &arrays, assigned).await?);
            written.extend(Written {
                count: there.len() as u64,
                rows: self.wanted(arrays)?,
                places: places.values().to_vec(),
            });
        }
        self.write_waiting(waiting).await?;
        Ok(Changed::Rows(written))
    }

    /// Deletes the rows with these numbers.
    ///
    /// # Errors
    /// Those of locks; the disk reports one.
    pub async fn delete(&self, batches: &[RecordBatch]) -> Result<Changed, Error> {
        let rows = numbered(batches)?;
        let (table, mut written) = (&self.columns.rows, Written::default());
        for rows in rows.chunks(ROWS_TOGETHER) {
            let Some(old) = self.locked(rows).await? else { return Ok(Changed::Again) };
            let there = rows.iter().zip(&old).filter_map(|(row, old)| Some((row, old.as_ref()?)));
            let (there, old): (Vec<&(u64, u64)>, Vec<Bytes>) =
                there.map(|(row, old)| (row, old.clone())).unzip();
            if self.wants_rows {
                written.rows.push(self.columns.batch(&self.scope.statement, &old).await?);
                written.places.extend(there.iter().map(|(_, place)| *place));
            }
            let mut transaction = self.scope.open().await?;
            for ((number, _), bytes) in there.iter().zip(&old) {
                self.free_long(&mut transaction, bytes, &[]).await?;
                let keys = self.columns.keys(bytes)?;
                let deleted = transaction.delete(table, *number, &keys).await;
                deleted.map_err(|error| self.refused(error, &[], 0))?;
            }
            self.scope.check_changes(&transaction, self.columns)?;
            drop(transaction);
            // The keys are locked: every transaction that refers to one has recorded it by now.
            self.note_gone(&old, None).await?;
            written.count += there.len() as u64;
        }
        Ok(Changed::Rows(written))
    }

    /// Locks rows, in their order, and returns their bytes. `None`: others have changed one meanwhile.
    async fn locked(&self, rows: &[(u64, u64)]) -> Result<Option<Vec<Option<Bytes>>>, Error> {
        let table = &self.columns.rows;
        let mut transaction = self.scope.open().await?;
        let (told, mut found) = (in_table(&self.columns.name), Vec::with_capacity(rows.len()));
        for (number, _) in rows {
            let LockedRow { bytes, is_changed } =
                transaction.lock_row(table, *number, RowLock::default()).await.map_err(&told)?;
            if is_changed {
                return Ok(None);
            }
            found.push(bytes);
        }
        Ok(Some(found))
    }

    /// Replaces rows by others, with new values in the columns `assigned`. Returns those whose key another
    /// row has: that row may be about to change.
    pub(super) async fn write(
        &self,
        numbers: &[u64],
        old: &[Bytes],
        arrays: &[ArrayRef],
        assigned: &[usize],
    ) -> Result<Vec<Waiting>, Error> {
        let table = &self.columns.rows;
        let mut transaction = self.scope.open().await?;
        let stored = self.stored(arrays)?;
        let (writer, mut waiting) = (self.writer(&stored)?, Vec::new());
        for (row, (number, old)) in numbers.iter().zip(old).enumerate() {
            // An unchanged long value stays where it is.
            let mut kept = self.columns.long_values(old)?;
            if !kept.is_empty() {
                let own: Vec<usize> =
                    writer.long_values(row).into_iter().map(|(at, _)| at).collect();
                kept.retain(|long| own.contains(&long.column) && !assigned.contains(&long.column));
            }
            self.free_long(&mut transaction, old, &kept).await?;
            let NewRow { bytes, keys } =
                self.new_row(&mut transaction, &writer, row, &kept).await?;
            let gone = self.columns.keys(old)?;
            let with = (&gone[..], &keys[..]);
            match transaction.update(table, *number, bytes.clone(), with).await {
                Ok(()) => {}
                Err(ChangeError::Duplicate { index, .. }) => {
                    let key = self.columns.key_text(index, arrays, row);
                    let number = *number;
                    waiting.push(Waiting { number, bytes, gone, keys, key });
                }
                Err(error) => return Err(self.refused(error, arrays, row)),
            }
        }
        self.scope.check_changes(&transaction, self.columns)?;
        drop(transaction);
        self.note_gone(old, Some((arrays, assigned))).await?;
        self.note_new(arrays, Some(assigned))?;
        Ok(waiting)
    }

    /// Writes the rows that wait for keys: all of them give up their old keys before any takes a new one.
    pub(super) async fn write_waiting(&self, waiting: Vec<Waiting>) -> Result<(), Error> {
        if waiting.is_empty() {
            return Ok(());
        }
        let table = &self.columns.rows;
        let mut transaction = self.scope.open().await?;
        for Waiting { number, bytes, gone, keys, .. } in &waiting {
            let with = (&gone[..], &keys[..]);
            let given_up = transaction.give_up_keys(table, *number, bytes.clone(), with).await;
            given_up.map_err(|error| self.refused(error, &[], 0))?;
        }
        for Waiting { number, bytes, gone, keys, key, .. } in &waiting {
            let with = (&gone[..], &keys[..]);
            match transaction.take_keys(table, *number, bytes.clone(), with).await {
                Ok(()) => {}
                Err(ChangeError::Duplicate { index, .. }) => {
                    return Err(self.duplicate(index, key));
                }
                Err(error) => return Err(self.refused(error, &[], 0)),
            }
        }
        Ok(())
    }

    /// Values converted to the types of the table's columns.
    pub(super) fn fitted(&self, arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>, Error> {
        let fields = self.columns.schema.fields().iter();
        arrays
            .iter()
            .zip(fields)
            .map(|(array, field)| column_of(Arc::clone(array), field))
            .collect()
    }

    /// Values as rows store them: arrays as bytes.
    pub(super) fn stored(&self, arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>, Error> {
        let stored = self.columns.layout().packed(arrays);
        stored.map_err(|error| row_error(&self.columns.name, &error))
    }

    pub(super) fn writer<'a>(&'a self, arrays: &'a [ArrayRef]) -> Result<RowWriter<'a>, Error> {
        RowWriter::new(self.columns.layout(), arrays)
            .map_err(|error| row_error(&self.columns.name, &error))
    }

    /// A row, with its long values stored in pages of their own, except those already stored.
    pub(super) async fn new_row(
        &self,
        transaction: &mut Transaction,
        writer: &RowWriter<'_>,
        row: usize,
        there: &[LongValue],
    ) -> Result<NewRow, Error> {
        let mut long = Vec::new();
        for (column, bytes) in writer.long_values(row) {
            if let Some(there) = there.iter().find(|there| there.column == column) {
                long.push(*there);
                continue;
            }
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let bytes = Bytes::copy_from_slice(bytes);
            let page = transaction.put_long(&self.columns.rows, bytes).await?;
            long.push(LongValue { column, page, length });
        }
        let mut bytes = Vec::new();
        let written = writer.write(row, &long, &mut bytes);
        written.map_err(|error| row_error(&self.columns.name, &error))?;
        let keys = self.columns.keys(&bytes)?;
        Ok(NewRow { bytes: bytes.into(), keys })
    }

    /// Frees the long values of a row, except those that are kept.
    async fn free_long(
        &self,
        transaction: &mut Transaction,
        row: &[u8],
        kept: &[LongValue],
    ) -> Result<(), Error> {
        for LongValue { page, column, .. } in self.columns.long_values(row)? {
            if kept.iter().any(|kept| kept.column == column) {
                continue;
            }
            transaction.free_long(&self.columns.rows, page).await?;
        }
        Ok(())
    }

    pub(super) fn refused(&self, error: ChangeError, arrays: &[ArrayRef], row: usize) -> Error {
        match error {
            ChangeError::Other(error) => in_table(&self.columns.name)(error),
            ChangeError::Duplicate { index, .. } => {
                let key = match arrays.is_empty() {
                    true => (String::new(), String::new()),
                    false => self.columns.key_text(index, arrays, row),
                };
                self.duplicate(index, &key)
            }
        }
    }

    pub(super) fn duplicate(&self, index: usize, (names, values): &(String, String)) -> Error {
        let (name, table) = (&self.columns.rows.indexes[index].name, &self.columns.name);
        let (_, own) = name::parts(name);
        if names.is_empty() {
            let text = format!("table \"{table}\": unique constraint \"{own}\" is violated");
            return Error::new(1, "23505", text).of_constraint(table, name);
        }
        let text = format!(
            "table \"{table}\": unique constraint \"{own}\" is violated: key ({names})=({values}) \
             already exists"
        );
        Error::new(1, "23505", text).of_constraint(table, name)
    }
}

/// A row that waits until another one has given up its key.
pub(super) struct Waiting {
    number: u64,
    bytes: Bytes,
    gone: Vec<IndexKey>,
    keys: Vec<IndexKey>,
    /// The key that another row has, in words.
    key: (String, String),
}

/// The row numbers in the first columns, sorted and without duplicates, each with its position among all rows.
fn numbered(batches: &[RecordBatch]) -> Result<Vec<(u64, u64)>, Error> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let mut before = 0;
    for rows in batches {
        let numbers: Option<&UInt64Array> = rows.column(0).as_primitive_opt::<UInt64Type>();
        let numbers = numbers.ok_or_else(|| Error::new(600, "XX000", "rows have no numbers"))?;
        for (number, place) in numbers.values().iter().zip(before..) {
            found.entry(*number).or_insert(place);
        }
        before += rows.num_rows() as u64;
    }
    Ok(found.into_iter().collect())
}

/// A column of all batches.
fn whole(batches: &[RecordBatch], column: usize) -> Result<ArrayRef, Error> {
    let arrays: Vec<&dyn Array> =
        batches.iter().map(|batch| batch.column(column).as_ref()).collect();
    match arrays.is_empty() {
        true => Ok(arrow::array::new_null_array(&arrow::datatypes::DataType::Null, 0)),
        false => {
            arrow::compute::concat(&arrays).map_err(|error| crate::failure::from_arrow(&error))
        }
    }
}
