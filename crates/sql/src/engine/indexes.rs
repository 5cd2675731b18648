//! CREATE INDEX and DROP INDEX on tables in the heap: an index is built from existing rows while nobody
//! changes them.

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use async_recursion::async_recursion as boxed;
use cellar_instance::administration::UnderWay;
use cellar_instance::catalog::{Index, IndexColumn, Table, name};
use cellar_instance::database::Alteration;
use datafusion::sql::sqlparser::ast::{
    CreateIndex, Expr as SqlExpr, IndexColumn as SqlColumn, IndexType, ObjectName, ObjectNamePart,
};

use crate::engine::altered::Altered;
use crate::engine::ddl::bare_name;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::pgcatalog::fits_class;
use crate::rows::{RowColumns, free_name, name_of};

/// The most columns of an index: PostgreSQL's.
const COLUMNS_MAX: usize = 32;

impl Engine {
    /// CREATE INDEX.
    #[boxed]
    pub(super) async fn create_index(&self, create: &CreateIndex) -> Result<Outcome, Error> {
        refuse_clauses(create)?;
        let catalog = self.catalog()?;
        let named = create.name.as_ref().map(bare_name).transpose()?;
        if let Some(name) = &named {
            if create.if_not_exists && self.kind_of(&catalog, name).is_some() {
                return Ok(done(format!("{name} already exists.")));
            }
            self.check_free(&catalog, name)?;
        }
        let mut alteration = self.alteration(&create.table_name).await?;
        let (table, name) = self.indexed(&mut alteration, create, named).await?;
        self.finish(alteration, table).await?;
        let notice = "CONCURRENTLY: changes of the table have waited while the index was built";
        Ok(Outcome::Done {
            message: format!("Index {name} created."),
            notices: create.concurrently.then(|| notice.to_owned()).into_iter().collect(),
        })
    }

    /// How far the index is that the running statement builds.
    pub(super) fn index_progress(&self) -> Option<UnderWay> {
        let (done, total) = self.scope()?.definitions.index_progress()?;
        Some(UnderWay { what: "indexed", done, total })
    }

    /// Builds the index; returns the table with it, and its name.
    async fn indexed(
        &self,
        alteration: &mut Alteration,
        create: &CreateIndex,
        named: Option<String>,
    ) -> Result<(Table, String), Error> {
        let table = alteration.table().clone();
        let mut altered = Altered::of(RowColumns::of(
            &table,
            alteration.rows(),
            (&self.settings.now().zone, &*self.catalog()?),
        )?);
        let columns = columns_of(altered.old(), &create.columns)?;
        let name = match named {
            Some(name) => name,
            None => {
                let catalog = self.catalog()?;
                let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
                let parts = (&*table.name, &*names.join("_"), "idx");
                free_name(parts, |name| self.kind_of(&catalog, name).is_none())
            }
        };
        altered.rows.indexes.push(Index {
            object: 0,
            name: name.clone(),
            columns: columns.into_iter().map(|(_, column)| column).collect(),
            is_unique: create.unique,
            constraint: None,
            number: 0,
        });
        let table = self.carried_out(&mut altered, alteration).await?;
        Ok((table, name))
    }

    /// DROP INDEX.
    #[boxed]
    pub(super) async fn drop_indexes(
        &self,
        names: &[ObjectName],
        if_exists: bool,
    ) -> Result<Outcome, Error> {
        let catalog = self.catalog()?;
        let mut dropped: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names {
            let name = match bare_name(name) {
                Err(_) if if_exists => continue,
                name => name?,
            };
            match catalog.index(&name) {
                Some((table, index)) if index.constraint.is_some() => {
                    return Err(of_constraint(&table.name, &name));
                }
                Some((table, _)) => {
                    self.check_no_key(table, &name)?;
                    dropped.entry(table.name.clone()).or_default().push(name);
                }
                None if self.kind_of(&catalog, &name).is_some() => {
                    return Err(Error::new(1418, "42809", format!("\"{name}\" is no index")));
                }
                None if if_exists => {}
                None => {
                    let text = format!("index \"{name}\" does not exist");
                    return Err(Error::new(1418, "42704", text)
                        .next(format!("indexes there are: {}", all_of(&catalog))));
                }
            }
        }
        if dropped.is_empty() {
            return Ok(done("There was no such index."));
        }
        for (table, names) in &dropped {
            let quoted = datafusion::sql::sqlparser::ast::Ident::with_quote('"', table);
            let alteration = self.alteration(&ObjectName::from(vec![quoted])).await?;
            let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
            rows.indexes.retain(|index| index.constraint.is_some() || !names.contains(&index.name));
            table.rows = Some(rows);
            table
                .comments
                .indexes
                .retain(|own, _| !names.contains(&name::beside(&table.name, own)));
            self.finish(alteration, table).await?;
        }
        let names: Vec<String> = dropped.into_values().flatten().collect();
        Ok(done(format!("Index {} dropped.", names.join(", "))))
    }
}

fn all_of(catalog: &cellar_instance::catalog::Catalog) -> String {
    let rows = catalog.tables.iter().filter_map(|table| table.rows.as_ref());
    let names: Vec<&str> =
        rows.flat_map(|rows| &rows.indexes).map(|index| index.name.as_str()).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

fn of_constraint(table: &str, name: &str) -> Error {
    let text = format!(
        "index \"{name}\" cannot be dropped: constraint \"{name}\" of table \"{table}\" needs it"
    );
    Error::new(2429, "2BP01", text).next(format!("alter table {table} drop constraint {name}"))
}

/// The columns that are indexed, with their names.
fn columns_of(
    columns: &RowColumns,
    wanted: &[SqlColumn],
) -> Result<Vec<(String, IndexColumn)>, Error> {
    if wanted.len() > COLUMNS_MAX {
        let text = format!("{} columns: an index has {COLUMNS_MAX} at most", wanted.len());
        return Err(Error::new(1793, "54011", text).next("leave some out"));
    }
    let one = |wanted: &SqlColumn| {
        let SqlExpr::Identifier(ident) = &wanted.column.expr else {
            let what = format!("an index of an expression: {}", wanted.column.expr);
            return Err(Error::not_yet(what).next("name a column"));
        };
        let options = wanted.column.options;
        let descending = options.asc == Some(false);
        if options.nulls_first.is_some_and(|n| n != descending) {
            let what = format!("an index column as {wanted}");
            return Err(Error::not_yet(what)
                .next("NULL is behind all others: first where the order is DESC"));
        }
        let column = columns.column(&name_of(ident))?;
        if let Some(class) = &wanted.operator_class {
            check_class(class, columns.schema.field(column))?;
        }
        Ok((columns.schema.field(column).name().clone(), IndexColumn { column, descending }))
    };
    wanted.iter().map(one).collect()
}

/// Refuses an operator class with a different order of values.
fn check_class(class: &ObjectName, field: &Field) -> Result<(), Error> {
    let name = class.0.last().and_then(ObjectNamePart::as_ident).map(name_of).unwrap_or_default();
    match fits_class(field, &name) {
        Some(true) => Ok(()),
        Some(false) => {
            let text =
                format!("operator class \"{name}\" is not of the type of \"{}\"", field.name());
            Err(Error::new(29833, "42804", text).next("leave it out: each type has its own"))
        }
        None => {
            let text = format!("there is no operator class \"{name}\"");
            Err(Error::new(29833, "42704", text).next("leave it out: each type has its own"))
        }
    }
}

/// Refuses index options that are not supported.
fn refuse_clauses(create: &CreateIndex) -> Result<(), Error> {
    let what = match create {
        CreateIndex { using: Some(kind), .. } if *kind != IndexType::BTree => {
            format!("an index USING {kind}")
        }
        CreateIndex { predicate: Some(_), .. } => "an index of some rows (WHERE)".to_owned(),
        CreateIndex { include, .. } if !include.is_empty() => "INCLUDE of an index".to_owned(),
        CreateIndex { nulls_distinct: Some(false), .. } => "NULLS NOT DISTINCT".to_owned(),
        CreateIndex { with, index_options, alter_options, .. }
            if !(with.is_empty() && index_options.is_empty() && alter_options.is_empty()) =>
        {
            "options of an index".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::not_yet(what).next("leave it out: create index on t (column, ..) is a B-tree"))
}
