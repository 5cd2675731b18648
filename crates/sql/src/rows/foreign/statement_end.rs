//! The end of a statement that has changed keys of foreign keys.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_instance::catalog::{Action, ForeignKey};
use cellar_instance::heap::TableLock;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::ColumnarValue;

use super::find::{first_with, rows_with};
use super::values::{as_type, taken, whole, words};
use crate::columnar::write::column_of;
use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};
use crate::rows::change::{Change, Changed};
use crate::rows::checks::Checks;
use crate::rows::deferred::Check;
use crate::rows::pending::{Gone, Pending, joined};
use crate::rows::provider::default_value;
use crate::rows::refusals::changed;
use crate::rows::scope::Scope;
use crate::rows::table::{ROW_ID, RowColumns};

/// Whether an action only refuses.
pub(super) fn refuses(action: Action) -> bool {
    matches!(action, Action::Nothing | Action::Restrict)
}

/// Which actions of foreign keys are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Changes,
    /// Those not deferred.
    Refuses,
    /// Those that were deferred, and no longer are.
    Deferred,
}

/// Merges the removed keys of each index, by kind of removal: a row that refers to one then follows only to its
/// successor, and not on to the next.
pub(super) fn together(gone: Vec<Gone>) -> Result<Vec<Gone>, Error> {
    let mut alike: Vec<Vec<Gone>> = Vec::new();
    for own in gone {
        let is_same = |others: &&mut Vec<Gone>| {
            let other = &others[0];
            other.table == own.table
                && other.index == own.index
                && other.new.is_some() == own.new.is_some()
        };
        match alike.iter_mut().find(is_same) {
            Some(others) => others.push(own),
            None => alike.push(vec![own]),
        }
    }
    alike.into_iter().map(as_one).collect()
}

/// Keys that came in parts, as one.
fn as_one(mut parts: Vec<Gone>) -> Result<Gone, Error> {
    let old: Vec<&[ArrayRef]> = parts.iter().map(|part| &part.old[..]).collect();
    let old = joined(&old).map_err(|error| from_arrow(&error))?;
    let new: Option<Vec<&[ArrayRef]>> = parts.iter().map(|part| part.new.as_deref()).collect();
    let new = new.map(|new| joined(&new)).transpose().map_err(|error| from_arrow(&error))?;
    let Gone { table, index, .. } = parts.swap_remove(0);
    Ok(Gone { table, index, old, new })
}

/// How often referring rows are looked up anew because others have changed them meanwhile.
const TRIES: usize = 100;

/// Settles what a statement has done to keys of foreign keys.
pub(crate) struct References<'a> {
    /// Plans the defaults and checks of tables.
    state: &'a SessionState,
    /// The statement.
    pub(super) scope: &'a Scope,
    /// Rows that have followed a key, by table, foreign key and row number. Each follows once, or cyclic references
    /// would never end.
    followed: Mutex<HashSet<(String, String, u64)>>,
}

impl<'a> References<'a> {
    /// For a statement.
    pub fn new(state: &'a SessionState, scope: &'a Scope) -> References<'a> {
        References { state, scope, followed: Mutex::default() }
    }

    fn followed(&self) -> MutexGuard<'_, HashSet<(String, String, u64)>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of the rows that have not followed a key yet.
    fn not_yet(&self, one: &One<'_>, mut found: Vec<(u64, usize)>) -> Vec<(u64, usize)> {
        let followed = self.followed();
        if !followed.is_empty() {
            let of = |row: u64| (one.table.to_owned(), one.key.name.clone(), row);
            found.retain(|(row, _)| !followed.contains(&of(*row)));
        }
        found
    }

    fn note_followed(&self, one: &One<'_>, found: &[(u64, usize)]) {
        if one.action != Action::Cascade || !one.is_update {
            return;
        }
        let of = |(row, _): &(u64, usize)| (one.table.to_owned(), one.key.name.clone(), *row);
        self.followed().extend(found.iter().map(of));
    }
}

impl References<'_> {
    /// Carries out the actions and checks of foreign keys until none is left.
    ///
    /// # Errors
    /// 02291 a key does not exist, 02292 rows refer to a removed one; those of changes and of locks.
    #[boxed]
    pub async fn check_all(&self) -> Result<(), Error> {
        let Some(pending) = self.scope.pending() else { return Ok(()) };
        let (mut new, mut gone) = (Vec::new(), Vec::new());
        // Actions that change rows come first: those that refuse judge the final state.
        while !pending.is_empty() {
            let keys = pending.take();
            new.extend(keys.new);
            for own in together(keys.gone)? {
                self.follow(&own, Part::Changes).await?;
                gone.push(own);
            }
        }
        for own in gone {
            self.follow(&own, Part::Refuses).await?;
            if let Some(deferred) = self.scope.deferred()
                && self.puts_off(deferred, &own)?
            {
                deferred.add(Check::Gone(own))?;
            }
        }
        for own in new {
            match self.scope.deferred() {
                Some(deferred) if deferred.puts_off(&own.table, &own.key) => {
                    deferred.add(Check::New(own))?;
                }
                _ => self.check(&own).await?,
            }
        }
        Ok(())
    }

    /// A table as the catalog has it now, locked against being altered or moved until the transaction ends.
    pub(super) async fn table(&self, name: &str) -> Result<Arc<RowColumns>, Error> {
        self.table_if_any(name).await?.ok_or_else(|| changed(name))
    }

    /// The same; `None`: there is none of that name.
    async fn table_if_any(&self, name: &str) -> Result<Option<Arc<RowColumns>>, Error> {
        let definitions = &self.scope.definitions;
        loop {
            let catalog = definitions.catalog()?;
            let Some((table, rows)) = catalog.row_table(name) else { return Ok(None) };
            {
                let mut open = self.scope.open().await?;
                open.lock_table(rows, TableLock::RowShare, false).await?;
            }
            if definitions.may_have_moved(rows) {
                definitions.settled().await;
            }
            if definitions.catalog()?.row_table(name) == Some((table, rows)) {
                let of = (self.scope.zone(), &*catalog);
                return Ok(Some(Arc::new(RowColumns::of(table, rows, of)?)));
            }
        }
    }

    /// Applies the actions of foreign keys to the rows that refer to removed keys.
    pub(super) async fn follow(&self, gone: &Gone, part: Part) -> Result<(), Error> {
        for _ in 0..TRIES {
            if self.follow_once(gone, part).await? {
                return Ok(());
            }
        }
        Err(again_and_again(&gone.table))
    }

    /// The same; false: a referring table was replaced meanwhile.
    async fn follow_once(&self, gone: &Gone, part: Part) -> Result<bool, Error> {
        let catalog = self.scope.definitions.catalog()?;
        let (_, rows) = catalog.row_table(&gone.table).ok_or_else(|| changed(&gone.table))?;
        let to = self.table(&gone.table).await?;
        let references: Vec<(String, ForeignKey)> = catalog
            .references_to(rows)
            .filter(|(_, index)| index.name == gone.index)
            .map(|(reference, _)| (reference.table.name.clone(), reference.key.clone()))
            .collect();
        for (table, key) in references {
            let action = gone.action(&key);
            if !self.is_of(part, (&table, &key), action) {
                continue;
            }
            let rows = self.left(gone, &to, action).await?;
            if rows.is_empty() {
                continue;
            }
            let old = taken(&gone.old, &rows)?;
            let new = gone.new.as_ref().map(|new| taken(new, &rows)).transpose()?;
            let is_update = new.is_some();
            let one = One { to: &to, table: &table, key: &key, action, is_update };
            if !self.follow_one(&one, &old, new.as_deref()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Which of the keys are really gone, and could be referred to.
    async fn left(&self, gone: &Gone, to: &RowColumns, action: Action) -> Result<Vec<u32>, Error> {
        let mut rows = whole(&gone.old);
        if let Some(new) = &gone.new {
            let differ = |row: &u32| {
                let row = *row as usize;
                let pairs = gone.old.iter().zip(new);
                pairs.into_iter().any(|(old, new)| old.slice(row, 1) != new.slice(row, 1))
            };
            rows.retain(differ);
        }
        if !refuses(action) || rows.is_empty() {
            return Ok(rows);
        }
        let at = to.rows.indexes.iter().position(|index| index.name == gone.index);
        let at = at.ok_or_else(|| changed(&to.name))?;
        let (mut left, mut open) = (Vec::new(), self.scope.open().await?);
        for row in rows {
            let key: Vec<ArrayRef> =
                gone.old.iter().map(|own| own.slice(row as usize, 1)).collect();
            let range = to.key_range(at, &key, Bound::Unbounded, Bound::Unbounded)?;
            let key = Bytes::from(range.into_inner().0);
            // Another row of the statement may have it now.
            if !open.refer_to(&to.rows.indexes[at], key).await? {
                left.push(row);
            }
        }
        Ok(left)
    }

    async fn follow_one(
        &self,
        one: &One<'_>,
        old: &[ArrayRef],
        new: Option<&[ArrayRef]>,
    ) -> Result<bool, Error> {
        for _ in 0..TRIES {
            // After waiting for the table's definition, its columns or key may be different.
            let own = self.table_if_any(one.table).await?;
            let own = own.filter(|own| own.rows.foreign.contains(one.key));
            let Some(own) = own else { return Ok(false) };
            let typed = |values: &[ArrayRef]| {
                let pairs = one.key.columns.iter().zip(values);
                pairs
                    .map(|(at, values)| as_type(values, own.schema.field(*at).data_type()))
                    .collect::<Result<Vec<_>, Error>>()
            };
            let keys = typed(old)?;
            let could = whole(&keys);
            let keys = taken(&keys, &could)?;
            let statement = self.scope.open().await?.look_anew().await?;
            if refuses(one.action) {
                let first = first_with(&own, &statement, &one.key.columns, &keys).await?;
                let Some((_, first)) = first else { return Ok(true) };
                let key = index_words(one.to, &one.key.index, &taken(old, &could)?, first);
                return Err(referred(one, &key));
            }
            let found = rows_with(&own, &statement, &one.key.columns, &keys).await?;
            let new = match (one.action, new) {
                (Action::Cascade, Some(new)) => {
                    let exact = typed(new)?;
                    check_exact(one, &own, new, &exact)?;
                    Some(taken(&exact, &could)?)
                }
                _ => None,
            };
            let found = self.not_yet(one, found);
            if found.is_empty() {
                return Ok(true);
            }
            let scope = self.scope.seeing(statement)?;
            let length = self.scope.pending().map(Pending::length);
            let savepoint = scope.savepoint().await?;
            match self.changed(one, &own, &scope, (&found, new)).await? {
                Changed::Rows(_) => {
                    self.note_followed(one, &found);
                    return Ok(true);
                }
                Changed::Again => {
                    let mut open = scope.open().await?;
                    if open.has_loaded() {
                        // Rolling back would discard the loaded rows.
                        return Err(again_and_again(one.table));
                    }
                    open.back_to(savepoint);
                    drop(open);
                    if let (Some(pending), Some(length)) = (self.scope.pending(), length) {
                        pending.back_to(length);
                    }
                }
            }
        }
        Err(again_and_again(one.table))
    }

    /// Changes rows that refer to removed keys.
    async fn changed(
        &self,
        one: &One<'_>,
        own: &Arc<RowColumns>,
        scope: &Scope,
        (found, new): (&[(u64, usize)], Option<Vec<ArrayRef>>),
    ) -> Result<Changed, Error> {
        let checks = Checks::of(self.state, own)?;
        let change = Change { columns: own, checks: &checks, scope, wants_rows: false };
        let numbers: ArrayRef =
            Arc::new(UInt64Array::from_iter_values(found.iter().map(|(row, _)| *row)));
        let mut fields = vec![Field::new(ROW_ID, DataType::UInt64, false)];
        let mut arrays = vec![numbers];
        let deletes = one.action == Action::Cascade && new.is_none();
        for (place, at) in one.key.columns.iter().enumerate().filter(|_| !deletes) {
            let field = own.schema.field(*at);
            let values = match (&new, one.action) {
                (Some(new), _) => {
                    let places = UInt64Array::from_iter_values(found.iter().map(|f| f.1 as u64));
                    take(&new[place], &places, None).map_err(|error| from_arrow(&error))?
                }
                (None, Action::Default) => self.default(own, *at, found.len())?,
                _ => new_null_array(field.data_type(), found.len()),
            };
            fields.push(Field::new(format!("{at}"), field.data_type().clone(), true));
            arrays.push(values);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let batch = batch.map_err(|error| from_arrow(&error))?;
        match deletes {
            true => change.delete(&[batch]).await,
            false => change.update(&one.key.columns, &[batch]).await,
        }
    }

    /// The default of a column, so many times.
    fn default(&self, own: &RowColumns, at: usize, rows: usize) -> Result<ArrayRef, Error> {
        let field = own.schema.field(at);
        let Some(text) = crate::columnar::table::default_of(field) else {
            return Ok(new_null_array(field.data_type(), rows));
        };
        let names = datafusion::common::DFSchema::empty();
        let value = default_value(self.state, text, field.data_type())?;
        let made = self.state.create_physical_expr(value, &names);
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
        let row = row.map_err(|error| from_arrow(&error))?;
        let value = made.and_then(|made| made.evaluate(&row)).and_then(|value| match value {
            ColumnarValue::Array(array) if array.len() == rows => Ok(array),
            other => other.into_array(rows),
        });
        column_of(value.map_err(|error| from_datafusion(&error))?, field)
    }
}

fn again_and_again(table: &str) -> Error {
    let text = format!(
        "other sessions have changed rows that refer to a key, or their table, meanwhile: table \"{table}\""
    );
    Error::new(8177, "40001", text).next("run the transaction again")
}

/// A foreign key whose referenced key was removed or changed.
struct One<'a> {
    /// The table with the referenced key.
    to: &'a RowColumns,
    /// The table that refers to it.
    table: &'a str,
    key: &'a ForeignKey,
    action: Action,
    /// The key was updated; otherwise it was deleted.
    is_update: bool,
}

/// Refuses new keys that are not valid values of the referencing columns.
fn check_exact(
    one: &One<'_>,
    own: &RowColumns,
    new: &[ArrayRef],
    exact: &[ArrayRef],
) -> Result<(), Error> {
    for ((given, values), at) in new.iter().zip(exact).zip(&one.key.columns) {
        if values.logical_null_count() > given.logical_null_count() {
            let text = format!(
                "column \"{}\" of table \"{}\" cannot follow its key: it has no such value",
                own.schema.field(*at).name(),
                one.table
            );
            return Err(Error::new(1438, "22003", text).of_constraint(one.table, &one.key.name));
        }
    }
    Ok(())
}

fn index_words(to: &RowColumns, index: &str, values: &[ArrayRef], row: usize) -> String {
    let index = to.rows.indexes.iter().find(|own| own.name == index);
    let places: Vec<usize> =
        index.iter().flat_map(|own| &own.columns).map(|own| own.column).collect();
    words(to, &places, values, row)
}

fn referred(one: &One<'_>, words: &str) -> Error {
    let (to, table, name) = (&one.to.name, one.table, &one.key.name);
    let text = format!(
        "table \"{to}\": foreign key \"{name}\" of table \"{table}\" is violated: rows of it refer to key {words}"
    );
    Error::new(2292, "23503", text).of_constraint(table, name)
}
