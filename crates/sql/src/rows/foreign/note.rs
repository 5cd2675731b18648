//! Records of changes to keys that foreign keys refer to or consist of.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use bytes::Bytes;
use cellar_instance::catalog::{Catalog, Index};

use crate::error::Error;
use crate::rows::change::Change;
use crate::rows::pending::{Gone, New};
use crate::rows::table::row_error;

/// The columns of a row that are at these places.
fn at(arrays: &[ArrayRef], places: &[usize]) -> Vec<ArrayRef> {
    places.iter().map(|place| Arc::clone(&arrays[*place])).collect()
}

fn places(index: &Index) -> Vec<usize> {
    index.columns.iter().map(|column| column.column).collect()
}

/// Whether an index has one of these columns, and keys that others may refer to.
fn has_key_of(index: &Index, columns: Option<&[usize]>) -> bool {
    let has = |set: &[usize]| index.columns.iter().any(|own| set.contains(&own.column));
    index.is_unique && columns.is_none_or(has)
}

impl Change<'_> {
    /// Records rows that are new, or have new values in the columns `assigned`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(in crate::rows) fn note_new(
        &self,
        arrays: &[ArrayRef],
        assigned: Option<&[usize]>,
    ) -> Result<(), Error> {
        let Some(pending) = self.scope.pending() else { return Ok(()) };
        for key in &self.columns.rows.foreign {
            let is_same = |set: &[usize]| key.columns.iter().all(|own| !set.contains(own));
            if assigned.is_some_and(is_same) {
                continue;
            }
            let values = at(arrays, &key.columns);
            let mut keys = pending.keys();
            let sealed = keys.sealed;
            let own = |new: &&mut New| new.is_of(&self.columns.name, key);
            if let Some(new) = keys.new[sealed..].iter_mut().find(own) {
                new.add(values)?;
                continue;
            }
            let mut new = New::of(&self.columns.name, key);
            new.add(values)?;
            keys.new.push(new);
        }
        Ok(())
    }

    /// Records keys of rows that are deleted, or have new values in the columns `assigned`.
    ///
    /// # Errors
    /// The catalog cannot be read; a row is damaged.
    pub(in crate::rows) async fn note_gone(
        &self,
        old: &[Bytes],
        now: Option<(&[ArrayRef], &[usize])>,
    ) -> Result<(), Error> {
        let Some(pending) = self.scope.pending() else { return Ok(()) };
        let assigned = now.map(|(_, assigned)| assigned);
        let mut own = self.columns.rows.indexes.iter();
        if old.is_empty() || !own.any(|index| has_key_of(index, assigned)) {
            return Ok(());
        }
        let catalog = self.scope.definitions.catalog()?;
        let indexes = self.referred(&catalog, assigned);
        if indexes.is_empty() {
            return Ok(());
        }
        // Only the key columns are read: others may be long.
        let needed: BTreeSet<usize> = indexes.iter().flat_map(|index| places(index)).collect();
        let needed: Vec<usize> = needed.into_iter().collect();
        let mut builder = self.columns.builder(&needed)?;
        for row in old {
            self.columns.push(&mut builder, &self.scope.statement, row).await?;
        }
        let before = builder.finish().map_err(|error| row_error(&self.columns.name, &error))?;
        for index in indexes {
            let places = places(index);
            let own: Vec<usize> =
                places.iter().filter_map(|place| needed.binary_search(place).ok()).collect();
            let (table, old) = (self.columns.name.clone(), at(&before, &own));
            let new = now.map(|(arrays, _)| at(arrays, &places));
            pending.keys().gone.push(Gone { table, index: index.name.clone(), old, new });
        }
        Ok(())
    }

    /// The indexes that foreign keys refer to and that have one of these columns.
    fn referred(&self, catalog: &Catalog, assigned: Option<&[usize]>) -> Vec<&Index> {
        let mut found: Vec<&Index> = Vec::new();
        for (_, index) in catalog.references_to(&self.columns.rows) {
            let is_changed = has_key_of(index, assigned);
            let own = self.columns.rows.indexes.iter().find(|own| own.name == index.name);
            if is_changed && !found.iter().any(|known| known.name == index.name) {
                found.extend(own);
            }
        }
        found
    }
}
