//! Changes of a statement to keys of foreign keys: recorded as they come, settled when it ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{concat, take};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use cellar_instance::catalog::{Action, ForeignKey};

use crate::error::Error;
use crate::failure::from_arrow;

/// The number of rows of a foreign key beyond which duplicates are removed.
const ROWS_KEPT: usize = 64 << 10;

/// What must be settled at the end of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<Keys>>);

/// Keys that changes have touched.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub new: Vec<New>,
    pub gone: Vec<Gone>,
    /// How many leading entries of `new` get no more values.
    pub sealed: usize,
}

/// How many keys there were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length(usize, usize);

/// New values that rows have in the columns of a foreign key.
#[derive(Clone, Debug)]
pub(super) struct New {
    /// The table of the foreign key.
    pub table: String,
    pub key: ForeignKey,
    /// The values as they came, a column each.
    some: Vec<Vec<ArrayRef>>,
    rows: usize,
    /// How many rows there may be before duplicates are removed.
    most: usize,
}

impl New {
    /// Without values yet.
    pub fn of(table: &str, key: &ForeignKey) -> New {
        let (table, key) = (table.to_owned(), key.clone());
        New { table, key, some: Vec::new(), rows: 0, most: ROWS_KEPT }
    }

    /// Whether they are of this foreign key.
    pub fn is_of(&self, table: &str, key: &ForeignKey) -> bool {
        self.table == table && self.key == *key
    }

    /// The values, a column each.
    ///
    /// # Errors
    /// They are too many for a column.
    pub fn values(&self) -> Result<Vec<ArrayRef>, Error> {
        let some: Vec<&[ArrayRef]> = self.some.iter().map(|own| &own[..]).collect();
        joined(&some).map_err(|error| from_arrow(&error))
    }

    /// Adds values; if there are many, removes duplicates.
    pub fn add(&mut self, values: Vec<ArrayRef>) -> Result<(), Error> {
        self.rows += values.first().map_or(0, |values| values.len());
        self.some.push(values);
        if self.rows > self.most {
            let each = distinct(&self.values()?).map_err(|error| from_arrow(&error))?;
            self.rows = each.first().map_or(0, |values| values.len());
            self.some = vec![each];
            self.most = ROWS_KEPT.max(self.rows.saturating_mul(2));
        }
        Ok(())
    }

    /// Adds the values of another one.
    pub fn append(&mut self, other: &New) -> Result<(), Error> {
        other.some.iter().try_for_each(|values| self.add(values.clone()))
    }
}

/// Removed keys, of rows that were updated or deleted.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    /// The referenced table.
    pub table: String,
    /// The index of the key.
    pub index: String,
    /// The old keys of the rows, a column each.
    pub old: Vec<ArrayRef>,
    /// Their new keys; `None`: the rows were deleted.
    pub new: Option<Vec<ArrayRef>>,
}

impl Gone {
    /// The action of a foreign key that refers to these keys.
    pub fn action(&self, key: &ForeignKey) -> Action {
        if self.new.is_some() { key.on_update } else { key.on_delete }
    }
}

impl Pending {
    pub(super) fn keys(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        let keys = self.keys();
        keys.new.is_empty() && keys.gone.is_empty()
    }

    /// Takes everything pending out.
    pub(super) fn take(&self) -> Keys {
        std::mem::take(&mut *self.keys())
    }

    /// How much is pending; what follows is kept separate, so that it can be discarded.
    pub(super) fn length(&self) -> Length {
        let mut keys = self.keys();
        keys.sealed = keys.new.len();
        Length(keys.new.len(), keys.gone.len())
    }

    /// Discards what came after: it was undone.
    pub(super) fn back_to(&self, Length(new, gone): Length) {
        let mut keys = self.keys();
        keys.new.truncate(new);
        keys.gone.truncate(gone);
        keys.sealed = keys.sealed.min(new);
    }

    /// Discards everything: the changes were rolled back.
    pub fn clear(&self) {
        drop(self.take());
    }
}

/// The distinct rows of columns.
fn distinct(columns: &[ArrayRef]) -> Result<Vec<ArrayRef>, ArrowError> {
    let fields = columns.iter().map(|own| SortField::new(own.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let rows = converter.convert_columns(columns)?;
    let mut seen = HashSet::new();
    let first = rows.iter().enumerate().filter(|(_, row)| seen.insert(row.data().to_vec()));
    let first: Vec<u32> = first.map(|(at, _)| at as u32).collect();
    let first = UInt32Array::from(first);
    columns.iter().map(|own| take(own, &first, None)).collect()
}

/// Parts of columns, concatenated.
pub(super) fn joined(parts: &[&[ArrayRef]]) -> Result<Vec<ArrayRef>, ArrowError> {
    let columns = 0..parts.first().map_or(0, |part| part.len());
    let one = |at: usize| {
        let some: Vec<&dyn Array> = parts.iter().map(|part| part[at].as_ref()).collect();
        concat(&some)
    };
    columns.map(one).collect()
}
