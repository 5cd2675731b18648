//! Statements that define heap objects, and what all of them share: names, and the check of rights.

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, Table, TableKind};
use cellar_instance::database::Alteration;
use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement as SqlStatement};

use crate::engine::deferred::refuse_unchecked;
use crate::engine::{Engine, Outcome, is_public};
use crate::error::{Error, NextStep};
use crate::names::path::SYSTEM;
use crate::names::resolve::no_schema;
use crate::rows::Scope;

/// The name of an object in the schema public.
pub(super) fn bare_name(name: &ObjectName) -> Result<String, Error> {
    let reference = TableReference::parse_str(&name.to_string());
    match is_public(&reference) {
        true => Ok(reference.table().to_owned()),
        false => Err(no_schema(reference.schema().unwrap_or_default())),
    }
}

/// Refuses a schema that does not exist.
///
/// # Errors
/// 3F000.
pub(super) fn check_schema(reference: &TableReference) -> Result<(), Error> {
    match reference.schema() {
        Some(schema) if !is_public(reference) && !SYSTEM.contains(&schema) => {
            Err(no_schema(schema))
        }
        _ => Ok(()),
    }
}

impl Engine {
    /// Runs a statement that defines something in the heap; `None`: it is another one.
    #[boxed]
    pub(super) async fn defining(&self, statement: &DfStatement) -> Result<Option<Outcome>, Error> {
        let DfStatement::Statement(inner) = statement else { return Ok(None) };
        let outcome = match inner.as_ref() {
            SqlStatement::CreateIndex(create) => self.create_index(create).await?,
            SqlStatement::AlterTable(alter) => self.alter_table(alter).await?,
            SqlStatement::AlterIndex { name, operation } => {
                self.alter_index(name, operation).await?
            }
            SqlStatement::Drop { object_type: ObjectType::Index, names, if_exists, .. } => {
                self.drop_indexes(names, *if_exists).await?
            }
            SqlStatement::Drop {
                object_type: ObjectType::Sequence,
                names,
                if_exists,
                cascade,
                ..
            } => self.drop_sequences(names, (*if_exists, *cascade)).await?,
            _ => return Ok(None),
        };
        Ok(Some(outcome))
    }

    /// The catalog as this session sees it.
    pub(super) fn catalog(&self) -> Result<std::sync::Arc<Catalog>, Error> {
        self.row_tables()?.catalog()
    }

    /// The kind of the object with this name: in the catalog, a view of this session, or a system view.
    pub(super) fn kind_of(&self, catalog: &Catalog, name: &str) -> Option<&'static str> {
        let is_own = || self.context().table_exist(TableReference::bare(name)).unwrap_or(false);
        catalog.kind_of(name).or_else(|| is_own().then_some("view"))
    }

    /// Refuses a name that is in use.
    pub(super) fn check_free(&self, catalog: &Catalog, name: &str) -> Result<(), Error> {
        let Some(kind) = self.kind_of(catalog, name) else { return Ok(()) };
        let article = if kind == "index" { "an" } else { "a" };
        Err(Error::new(955, "42P07", format!("there is already {article} {kind} \"{name}\""))
            .next("choose another name"))
    }

    /// Begins to change a heap table, once nobody else uses it.
    pub(super) async fn alteration(&self, name: &ObjectName) -> Result<Alteration, Error> {
        let reference = TableReference::parse_str(&name.to_string());
        self.check_own(&reference)?;
        let (rows, name) = (self.row_tables()?, bare_name(name)?);
        match self.catalog()?.table(&name).map(|table| table.kind) {
            Some(TableKind::Heap) => {}
            Some(TableKind::Sequence) => {
                return Err(Error::new(
                    942,
                    "42809",
                    format!("\"{name}\" is a sequence, no table"),
                )
                .next(format!("alter sequence {name} ..")));
            }
            Some(TableKind::Enum) => {
                return Err(Error::new(942, "42809", format!("\"{name}\" is a type, no table")));
            }
            Some(TableKind::View) => {
                return Err(Error::new(942, "42809", format!("\"{name}\" is a view, no table")));
            }
            Some(kind) => return Err(not_of(kind, &name)),
            None if self.is_view(&reference).await => {
                return Err(Error::new(942, "42809", format!("\"{name}\" is a view, no table")));
            }
            None => {
                let text = format!("table \"{name}\" does not exist");
                return Err(Error::new(942, "42P01", text).of_name([&*name]));
            }
        }
        let scope = self.definer()?;
        refuse_unchecked(&scope, &name)?;
        let mut open = scope.open().await?;
        Ok(scope.definitions.alter(&mut open, rows.session().waits(), &name).await?)
    }

    /// Replaces the old table by the altered one.
    pub(super) async fn finish(&self, alteration: Alteration, table: Table) -> Result<(), Error> {
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        Ok(alteration.finish(&mut open, table).await?)
    }

    /// Refuses a definition in a transaction that is read-only.
    pub(super) fn check_block_writable(&self) -> Result<(), Error> {
        self.scope().map_or(Ok(()), |scope| scope.check_writable())
    }

    /// Locks a name that is about to be created: others that want to use it wait for this transaction.
    pub(super) async fn lock_name(&self, name: &str) -> Result<(), Error> {
        let Some(scope) = self.scope() else { return Ok(()) };
        scope.check_writable()?;
        let names = std::collections::BTreeSet::from([name.to_owned()]);
        let mut open = scope.open().await?;
        Ok(scope.definitions.lock_names(&mut open, names).await?)
    }

    /// The scope in which the running statement executes DDL.
    ///
    /// # Errors
    /// 25006 it is read-only; the heap is not open.
    pub(super) fn definer(&self) -> Result<Scope, Error> {
        let Some(scope) = self.scope() else {
            let text = "the statement has no transaction: the heap is not open";
            return Err(Error::new(70162, "55000", text).next(
                NextStep::from("see why: ")
                    .cellar("status", "")
                    .then(" tells what the redo log lacks"),
            ));
        };
        scope.check_writable()?;
        Ok(scope)
    }
}

/// Why a table of another kind is not changed.
fn not_of(kind: TableKind, name: &str) -> Error {
    let kind = match kind {
        TableKind::Columnar => "columnar",
        TableKind::External => "external",
        _ => "heap",
    };
    Error::not_yet(format!("an index, or ALTER TABLE, of the {kind} table \"{name}\""))
        .next("a table made with USING heap has them: create one, and INSERT the rows there")
}
