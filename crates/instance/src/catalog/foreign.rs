//! Foreign keys in the catalog: which keys they refer to, and who refers to a table.

use std::collections::BTreeMap;

use super::{Catalog, ForeignKey, Index, RowTable, Table};

/// A foreign key, and the table whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a> {
    /// The table whose rows refer to others.
    pub table: &'a Table,
    /// What is kept of its rows.
    pub rows: &'a RowTable,
    /// The key.
    pub key: &'a ForeignKey,
}

impl Catalog {
    /// All foreign keys.
    pub(super) fn foreign_keys(&self) -> impl Iterator<Item = Reference<'_>> {
        let rows = self.tables.iter().filter_map(|table| Some((table, table.rows.as_ref()?)));
        rows.flat_map(|(table, rows)| {
            rows.foreign.iter().map(move |key| Reference { table, rows, key })
        })
    }

    /// The foreign keys that refer to a key of this table.
    pub fn references_to<'a>(
        &'a self,
        to: &'a RowTable,
    ) -> impl Iterator<Item = (Reference<'a>, &'a Index)> {
        self.foreign_keys().filter_map(|reference| {
            let mut indexes = to.indexes.iter();
            let index = indexes.find(|index| index.name == reference.key.index)?;
            Some((reference, index))
        })
    }

    /// The foreign keys of other tables that refer to a key of this table.
    pub fn references_from_others<'a>(
        &'a self,
        to: &'a Table,
    ) -> impl Iterator<Item = Reference<'a>> {
        let references = to.rows.iter().flat_map(|rows| self.references_to(rows));
        references
            .map(|(reference, _)| reference)
            .filter(|reference| reference.table.name != to.name)
    }

    /// A table with a foreign key whose referenced key is missing, or is another one by now.
    pub(crate) fn without_its_key(&self) -> Option<Reference<'_>> {
        let mut keys = self.foreign_keys();
        keys.find(|Reference { key, .. }| {
            let index = self.index(&key.index).map(|(_, index)| index);
            !index.is_some_and(|own| own.is_unique && own.columns.len() == key.columns.len())
        })
    }

    /// Makes foreign keys refer to the same indexes after a table was altered and these got other names.
    pub(super) fn follow_indexes(&mut self, was: &RowTable, now: &RowTable) {
        let mut renamed: BTreeMap<&str, &str> = BTreeMap::new();
        for index in &now.indexes {
            let mut before = was.indexes.iter();
            let own = before.find(|own| own.object == index.object && own.name != index.name);
            renamed.extend(own.map(|own| (own.name.as_str(), index.name.as_str())));
        }
        if renamed.is_empty() {
            return;
        }
        let keys = self.tables.iter_mut().filter_map(|table| table.rows.as_mut());
        for key in keys.flat_map(|rows| &mut rows.foreign) {
            if let Some(name) = renamed.get(key.index.as_str()) {
                key.index = (*name).to_owned();
            }
        }
    }
}
