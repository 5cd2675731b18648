//! New values of foreign keys: whether the referenced keys exist.

use std::collections::HashSet;
use std::ops::Bound;

use arrow::array::{Array, ArrayRef};
use bytes::Bytes;
use cellar_instance::catalog::ForeignKey;

use super::find::first_with;
use super::statement_end::References;
use super::values::{as_type, taken, whole, words};
use crate::error::Error;
use crate::rows::pending::New;
use crate::rows::refusals::changed;
use crate::rows::table::RowColumns;

impl References<'_> {
    /// Refuses foreign key values without a referenced row, if rows still have them.
    ///
    /// # Errors
    /// 02291; those of locks.
    pub(super) async fn check(&self, new: &New) -> Result<(), Error> {
        let values = new.values()?;
        let rows = whole(&values);
        if rows.is_empty() {
            return Ok(());
        }
        let values = taken(&values, &rows)?;
        let catalog = self.scope.definitions.catalog()?;
        // Its index may have been renamed.
        let is_it = |key: &&ForeignKey| key.name == new.key.name && key.columns == new.key.columns;
        let own = catalog.row_table(&new.table);
        let key = own.and_then(|(_, rows)| rows.foreign.iter().find(is_it));
        let key = key.ok_or_else(|| changed(&new.table))?;
        let (to, _) = catalog.index(&key.index).ok_or_else(|| changed(&new.table))?;
        let to = self.table(&to.name).await?;
        let without = self.without_key(key, &to, &values).await?;
        if without.is_empty() {
            return Ok(());
        }
        let own = self.table(&new.table).await?;
        if let Some(row) = self.first_left(&own, key, (&values, &without)).await? {
            let words = words(&own, &key.columns, &values, row);
            return Err(missing(&own.name, key, &words, &to.name));
        }
        Ok(())
    }

    /// Which of these values do not exist as keys.
    async fn without_key(
        &self,
        key: &ForeignKey,
        to: &RowColumns,
        values: &[ArrayRef],
    ) -> Result<Vec<u32>, Error> {
        let at = to.rows.indexes.iter().position(|index| index.name == key.index);
        let at = at.ok_or_else(|| changed(&to.name))?;
        let places = to.rows.indexes[at].columns.iter().map(|own| own.column);
        let wanted = places
            .zip(values)
            .map(|(place, values)| as_type(values, to.schema.field(place).data_type()))
            .collect::<Result<Vec<_>, Error>>()?;
        let count = values.first().map_or(0, |values| values.len());
        let mut known: HashSet<Bytes> = HashSet::new();
        let mut without = Vec::new();
        let mut open = self.scope.open().await?;
        for row in 0..count {
            let key: Vec<ArrayRef> = wanted.iter().map(|values| values.slice(row, 1)).collect();
            let is_there = match key.iter().any(|value| value.is_null(0)) {
                // The other column has no such value.
                true => false,
                false => {
                    let range = to.key_range(at, &key, Bound::Unbounded, Bound::Unbounded)?;
                    let key = Bytes::from(range.into_inner().0);
                    known.contains(&key)
                        || (open.refer_to(&to.rows.indexes[at], key.clone()).await?
                            && known.insert(key))
                }
            };
            if !is_there {
                without.push(row as u32);
            }
        }
        Ok(without)
    }

    /// The first of these values that a row still has: rows may have changed since they were noted.
    async fn first_left(
        &self,
        own: &RowColumns,
        key: &ForeignKey,
        (values, some): (&[ArrayRef], &[u32]),
    ) -> Result<Option<usize>, Error> {
        let statement = {
            let mut open = self.scope.open().await?;
            if open.has_loaded() {
                // Loaded rows cannot be looked up before the commit, and nothing changes them.
                return Ok(some.first().map(|row| *row as usize));
            }
            open.look_anew().await?
        };
        let found = first_with(own, &statement, &key.columns, &taken(values, some)?).await?;
        Ok(found.map(|(_, at)| some[at] as usize))
    }
}

fn missing(table: &str, key: &ForeignKey, words: &str, to: &str) -> Error {
    let text = format!(
        "table \"{table}\": foreign key \"{}\" is violated: key {words} is not in table \"{to}\"",
        key.name
    );
    Error::new(2291, "23503", text).of_constraint(table, &key.name)
}
