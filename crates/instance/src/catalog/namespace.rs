//! Schemas of a catalog, and what is in each.

use super::{Catalog, Table, TableKind, name};
use crate::error::{Error, Result};

/// Whether programs older than schemas cannot read a table.
pub(super) fn is_new(table: &Table) -> bool {
    table.name.contains(name::SEPARATOR) || !table.comments.is_empty()
}

/// The error for a missing schema.
fn no_schema(schema: &str) -> Error {
    Error::new(1435, format!("schema \"{schema}\" does not exist"))
        .hint("make it: create schema ..")
}

impl Catalog {
    /// Whether there is a schema of this name, made by a user or always there.
    pub fn has_schema(&self, schema: &str) -> bool {
        schema == name::PUBLIC || self.table(&name::schema_key(schema)).is_some()
    }

    /// Whether there is more than one schema.
    pub fn has_schemas(&self) -> bool {
        let is_in_none =
            |table: &Table| matches!(table.kind, TableKind::Role | TableKind::Database);
        let is_in_one = |table: &Table| table.name.contains(name::SEPARATOR);
        self.tables.iter().any(|table| is_in_one(table) && !is_in_none(table))
    }

    /// The schemas that people have made, and the one that is always there.
    pub fn schemas(&self) -> Vec<&str> {
        let made = self.tables.iter().filter_map(|table| name::schema_of_key(&table.name));
        let made = made.filter(|schema| *schema != name::PUBLIC);
        std::iter::once(name::PUBLIC).chain(made).collect()
    }

    /// What is in a schema.
    pub fn in_schema<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = &'a Table> {
        self.tables.iter().filter(move |table| {
            let is_within = !matches!(table.kind, TableKind::Schema | TableKind::Role);
            is_within && name::parts(&table.name).0 == schema
        })
    }

    /// The key of something in a schema that is not there.
    pub(super) fn without_its_schema(&self) -> Option<&str> {
        let mut keys = self.tables.iter().map(|table| table.name.as_str());
        keys.find(|key| self.check_schema_of(key).is_err())
    }

    /// Refuses a name in a schema that there is not.
    pub(super) fn check_schema_of(&self, key: &str) -> Result<()> {
        let (schema, own) = name::parts(key);
        let is_in_none = own.is_empty() || key == name::DATABASE_KEY;
        let is_in_none = is_in_none || name::role_of_key(key).is_some();
        match is_in_none || name::is_temporary(schema) || self.has_schema(schema) {
            true => Ok(()),
            false => Err(no_schema(schema)),
        }
    }

    /// With one schema more.
    pub(crate) fn with_schema(&self, schema: &str) -> Result<Catalog> {
        if self.has_schema(schema) {
            let text = format!("schema \"{schema}\" already exists");
            return Err(Error::new(1920, text).hint("choose another name"));
        }
        self.with(Table::of_schema(schema), false)
    }

    /// Without a schema in which there is nothing.
    pub(crate) fn without_schema(&self, schema: &str) -> Result<Catalog> {
        if let Some(table) = self.in_schema(schema).next() {
            let own = name::parts(&table.name).1;
            let text = format!(
                "schema \"{schema}\" cannot be dropped: {} \"{own}\" is in it",
                table.word()
            );
            return Err(Error::new(1922, text).hint("DROP SCHEMA .. CASCADE drops all in it"));
        }
        if self.table(&name::schema_key(schema)).is_none() {
            return Err(no_schema(schema));
        }
        Ok(self.without(&name::schema_key(schema))?.0)
    }

    /// With all objects of a schema changed by `of`, which gives them names in another schema.
    pub(crate) fn with_schema_renamed(
        &self,
        old: &str,
        new: &str,
        of: &dyn Fn(&Table) -> Table,
    ) -> Result<Catalog> {
        if self.table(&name::schema_key(old)).is_none() {
            return Err(no_schema(old));
        }
        if self.has_schema(new) {
            let text = format!("schema \"{new}\" already exists");
            return Err(Error::new(1920, text).hint("choose another name"));
        }
        let mut next = self.clone();
        next.serial += 1;
        next.tables = self.tables.iter().map(of).collect();
        for (was, now) in self.tables.iter().zip(next.tables.clone()) {
            if let (Some(was), Some(now)) = (&was.rows, &now.rows) {
                next.follow_indexes(was, now);
            }
        }
        next.tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(next)
    }

    /// With another table in the place of one, whose name and sequences may change with it.
    pub(crate) fn moved(&self, was: &Table, moved: Vec<(String, Table)>) -> Result<Catalog> {
        let mut next = self.clone();
        next.serial += 1;
        if self.table(&was.name) != Some(was) {
            let text = format!("table \"{}\" was dropped or changed meanwhile", was.name);
            return Err(Error::new(942, text).hint("run the statement again"));
        }
        next.tables.retain(|known| !moved.iter().any(|(old, _)| known.name == *old));
        for (old, table) in moved {
            next.check_names_of(&table)?;
            let before = self.table(&old);
            let table = self.numbered(table, before);
            let rows = before.and_then(|own| own.rows.as_ref()).zip(table.rows.clone());
            let at = next.tables.partition_point(|known| known.name < table.name);
            next.tables.insert(at, table);
            if let Some((was, now)) = rows {
                next.follow_indexes(was, &now);
            }
        }
        Ok(next)
    }
}
