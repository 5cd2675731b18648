//! COMMENT ON: comments on objects, stored with them.

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, Comments, Table, TableKind, name};
use datafusion::common::TableReference;

use crate::columnar::table::checked_schema;
use crate::engine::sequences::bare;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::names::path::SYSTEM;
use crate::names::resolve::no_schema;
use crate::statement::About;

/// Which comment of an object.
enum Part {
    Own,
    Column(String),
    Index(String),
    Constraint(String),
}

fn put(comments: &mut Comments, part: &Part, text: Option<String>) {
    let (of, key) = match part {
        Part::Own => return comments.own = text,
        Part::Column(column) => (&mut comments.columns, column),
        Part::Index(index) => (&mut comments.indexes, index),
        Part::Constraint(constraint) => (&mut comments.constraints, constraint),
    };
    match text {
        Some(text) => drop(of.insert(key.clone(), text)),
        None => drop(of.remove(key)),
    }
}

fn missing(kind: &str, key: &str) -> Error {
    Error::new(942, "42P01", format!("{kind} \"{key}\" does not exist"))
}

impl Engine {
    /// COMMENT ON.
    #[boxed]
    pub(super) async fn comment(
        &self,
        about: &About,
        text: Option<String>,
    ) -> Result<Outcome, Error> {
        let catalog = self.catalog()?;
        let (key, part) = match about {
            About::Schema(schema) => (self.commented_schema(&catalog, schema)?, Part::Own),
            About::Table(reference) => (self.commented(&catalog, "table", reference)?, Part::Own),
            About::View(reference) => (self.commented(&catalog, "view", reference)?, Part::Own),
            About::Sequence(reference) => {
                (self.commented(&catalog, "sequence", reference)?, Part::Own)
            }
            About::Type(reference) => (self.commented(&catalog, "type", reference)?, Part::Own),
            About::Index(reference) => {
                let key = bare(reference)?;
                match catalog.index(&key) {
                    Some((table, _)) => {
                        (table.name.clone(), Part::Index(name::parts(&key).1.to_owned()))
                    }
                    None if catalog.kind_of(&key).is_some() => {
                        let text = format!("\"{key}\" is no index");
                        return Err(Error::new(1418, "42809", text));
                    }
                    None => return Err(missing("index", &key)),
                }
            }
            About::Column(reference, column) => {
                let key = bare(reference)?;
                self.check_own(reference)?;
                let table = catalog.table(&key).ok_or_else(|| missing("table", &key))?;
                check_column(table, column)?;
                (key, Part::Column(column.clone()))
            }
            About::Constraint(reference, constraint) => {
                let key = self.commented(&catalog, "table", reference)?;
                check_constraint(&catalog, &key, constraint)?;
                (key, Part::Constraint(constraint.clone()))
            }
        };
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        let change = move |comments: &mut Comments| put(comments, &part, text.clone());
        scope.definitions.comment(&mut open, &key, &change).await?;
        Ok(done("Comment created."))
    }

    pub(super) fn commented_schema(
        &self,
        catalog: &Catalog,
        schema: &str,
    ) -> Result<String, Error> {
        if SYSTEM.contains(&schema) || !catalog.has_schema(schema) {
            return Err(no_schema(schema));
        }
        Ok(name::schema_key(schema))
    }

    /// The key of an object, which must be of this kind.
    pub(super) fn commented(
        &self,
        catalog: &Catalog,
        kind: &str,
        reference: &TableReference,
    ) -> Result<String, Error> {
        self.check_own(reference)?;
        let key = bare(reference)?;
        match catalog.kind_of(&key) {
            Some(own) if own == kind => Ok(key),
            Some(own) => {
                let text = format!("\"{key}\" is a {own}, no {kind}");
                Err(Error::new(942, "42809", text).next(format!("comment on {own} .. is '..'")))
            }
            None => Err(missing(kind, &key)),
        }
    }
}

/// Refuses a column that does not exist.
fn check_column(table: &Table, column: &str) -> Result<(), Error> {
    // The columns of an external table are those of its files.
    if table.kind == TableKind::External {
        return Err(Error::not_yet("a comment on a column of an external table")
            .next("comment on the table"));
    }
    let names: Vec<String> = match table.kind {
        TableKind::Sequence
        | TableKind::Schema
        | TableKind::Role
        | TableKind::Enum
        | TableKind::Database => Vec::new(),
        _ => {
            let schema = checked_schema(&table.schema)?;
            schema.fields().iter().map(|field| field.name().clone()).collect()
        }
    };
    match names.iter().any(|own| own == column) {
        true => Ok(()),
        false => {
            let text = format!("{} \"{}\" has no column \"{column}\"", table.word(), table.name);
            Err(Error::new(904, "42703", text)
                .next(format!("its columns are {}", names.join(", "))))
        }
    }
}

fn check_constraint(catalog: &Catalog, key: &str, constraint: &str) -> Result<(), Error> {
    let rows = catalog.row_table(key).map(|(_, rows)| rows);
    let keys = rows.iter().flat_map(|rows| &rows.indexes).filter(|i| i.constraint.is_some());
    let keys = keys.map(|index| name::parts(&index.name).1);
    let checks = rows.iter().flat_map(|rows| &rows.checks).map(|check| check.name.as_str());
    match keys.chain(checks).any(|own| own == constraint) {
        true => Ok(()),
        false => {
            let text = format!("table \"{key}\" has no constraint \"{constraint}\"");
            Err(Error::new(2443, "42704", text))
        }
    }
}
