//! Tables in the heap: lookup, CREATE TABLE, DROP TABLE, TRUNCATE.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use cellar_format::rows::RowLayout;
use cellar_instance::catalog::{RowTable, Table, name};
use datafusion::common::TableReference;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::CreateTable;
use futures_util::TryStreamExt;

use crate::columnar::table::{schema_text, with_default};
use crate::engine::columnar::is_there;
use crate::engine::deferred::refuse_unchecked;
use crate::engine::foreign::Referring;
use crate::engine::table_options::TableOptions;
use crate::engine::temporary::{ON_COMMIT, OnCommit};
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::instants::zoned;
use crate::rows::{
    Change, Checks, Definition, RowColumns, RowTables, Sink, default_value, defined, row_error,
};

impl Engine {
    pub(super) fn row_tables(&self) -> Result<&RowTables, Error> {
        self.host.rows().ok_or_else(|| Error::not_yet("a table whose rows change, here"))
    }

    /// The table in the heap of that name.
    pub(super) fn row_table(
        &self,
        reference: &TableReference,
    ) -> Result<Option<RowColumns>, Error> {
        if !is_public(reference) {
            return Ok(None);
        }
        let Some(rows) = self.host.rows() else { return Ok(None) };
        let (catalog, zone) = (rows.catalog().unwrap_or_default(), &self.settings.now().zone);
        let found = catalog.row_table(reference.table());
        found.map(|(table, rows)| RowColumns::of(table, rows, (zone, &*catalog))).transpose()
    }

    /// Whether it is the name of a table in the heap.
    pub(super) fn is_row_table(&self, name: &str) -> bool {
        let reference = TableReference::parse_str(name);
        is_public(&reference)
            && self.host.rows().is_some_and(|rows| rows.table(reference.table()).is_some())
    }

    /// The heap-specific parts of a CREATE TABLE, which are taken out of it; `None`: the table is to be
    /// columnar.
    pub(super) fn row_definition(
        &self,
        create: &mut CreateTable,
        made: &TableOptions,
    ) -> Result<Option<Definition>, Error> {
        let is_asked = create.query.is_none() || made.is_heap();
        if !is_asked || made.is_columnar() || self.host.rows().is_none() {
            return Ok(None);
        }
        let mut stripped = create.clone();
        let definition = defined(&mut stripped)?;
        if definition.is_none() && !made.is_heap() {
            return Ok(None);
        }
        *create = stripped;
        Ok(Some(definition.unwrap_or_default()))
    }

    /// CREATE TABLE in the heap.
    pub(super) async fn create_row_table(
        &self,
        statement: DfStatement,
        made: &TableOptions,
        definition: &Definition,
    ) -> Result<Outcome, Error> {
        if let Some(group) = &made.group {
            return Err(Error::not_yet(format!("a table in the heap in \"+{group}\""))
                .next("leave it out: the heap is in the first disk group"));
        }
        let plan = self.state().statement_to_plan(statement).await.map_err(|e| self.failure(&e))?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(Error::not_yet("this CREATE"));
        };
        let create = CreateMemoryTable { input: made.shaped(Arc::clone(&create.input))?, ..create };
        let is_empty = matches!(&*create.input, LogicalPlan::EmptyRelation(_));
        let Some(schema) = self.check_create(&create)? else {
            return Ok(is_there(&create, is_empty));
        };
        let name = create.name.table().to_owned();
        if crate::names::has_controls(&name) {
            let text = "the name of a table has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        let schema = self.defined_schema(&made.with_lengths(&schema), definition)?;
        let mut fields: Vec<Field> = schema.fields().iter().map(|f| f.as_ref().clone()).collect();
        let (sequences, owned) = self.sequences_of(&name, &definition.sequences, &mut fields)?;
        let schema = Schema::new(fields);
        RowLayout::of(&schema).map_err(|error| row_error(&name, &error))?;
        let catalog = self.catalog()?;
        let is_free = |name: &str| self.kind_of(&catalog, name).is_none();
        let mut rows = RowTable { owned, ..definition.rows(&name, &is_free, &[]) };
        let known: Vec<String> = rows.checks.iter().map(|check| check.name.clone()).collect();
        let on_commit = OnCommit::said(made.on_commit());
        let referring =
            Referring { key: &name, was: &name, schema: &schema, rows: &rows, on_commit };
        rows.foreign = self.foreign_keys(&definition.foreign, &referring, &known).await?;
        let mut table = Table::in_heap(&name, schema_text(&schema), rows);
        if let Some(said) = made.on_commit() {
            if !name::is_temporary(name::parts(&table.name).0) {
                let text = "ON COMMIT is of temporary tables";
                return Err(Error::new(14451, "42P16", text).next("create temporary table .."));
            }
            table.options.insert(ON_COMMIT.to_owned(), said.to_owned());
        }
        let checked = table
            .rows
            .as_ref()
            .map(|rows| RowColumns::of(&table, rows, (&self.settings.now().zone, &*catalog)))
            .transpose()?;
        if let Some(columns) = &checked {
            refuse_keys(columns)?;
        }
        if let Some(columns) = &checked {
            Checks::of(&self.state(), columns)?;
        }
        self.add_sequences(sequences, Some(table)).await?;
        if is_empty {
            return Ok(done(format!("Table {name} created.")));
        }
        let count = self.fill(&name, create.input.as_ref().clone()).await?;
        let word = if count == 1 { "row" } else { "rows" };
        let message = format!("Table {name} created, {count} {word}.");
        Ok(Outcome::Filled { message, rows: (!made.no_data).then_some(count) })
    }

    /// Fills a table that the statement has just made with the rows of its query.
    async fn fill(&self, name: &str, query: LogicalPlan) -> Result<u64, Error> {
        let scope = self.definer()?;
        let Some(columns) = self.row_table(&TableReference::bare(name))? else {
            return Err(Error::new(
                600,
                "XX000",
                format!("table \"{name}\" was made, and is gone"),
            ));
        };
        let checks = Checks::of(&self.state(), &columns)?;
        let change =
            Change { columns: &columns, checks: &checks, scope: &scope, wants_rows: false };
        let mut batches = self.stream(query).await.map_err(|e| self.failure(&e))?;
        let mut sink = Sink::new(&change);
        while let Some(batch) = batches.try_next().await.map_err(|e| self.failure(&e))? {
            sink.add(&batch).await?;
        }
        sink.finish().await
    }

    /// The columns with their options besides types.
    fn defined_schema(&self, schema: &Schema, definition: &Definition) -> Result<Schema, Error> {
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| in_heap(field)).collect();
        for at in &definition.not_null {
            let field = fields[*at].clone();
            fields[*at] = field.with_nullable(false);
        }
        for (at, value) in &definition.defaults {
            let field = fields[*at].clone();
            default_value(&self.state(), value, field.data_type())?;
            fields[*at] = with_default(field, value);
        }
        Ok(Schema::new(fields))
    }

    /// DROP TABLE of one in the heap.
    pub(super) async fn drop_rows(&self, name: &str) -> Result<(), Error> {
        let scope = self.definer()?;
        refuse_unchecked(&scope, name)?;
        let mut open = scope.open().await?;
        Ok(scope.definitions.drop_table(&mut open, name).await?)
    }

    /// TRUNCATE of a table in the heap.
    pub(super) async fn truncate_rows(&self, name: &str) -> Result<(), Error> {
        let (session, scope) = (self.row_tables()?.session().waits(), self.definer()?);
        refuse_unchecked(&scope, name)?;
        let mut open = scope.open().await?;
        Ok(scope.definitions.truncate_table(&mut open, session, name).await?)
    }
}

/// Refuses key columns whose keys do not order as their values do.
pub(super) fn refuse_keys(columns: &RowColumns) -> Result<(), Error> {
    let keys = columns.rows.indexes.iter().flat_map(|index| &index.columns);
    for key in keys {
        let field = columns.schema.field(key.column);
        if matches!(field.data_type(), DataType::Interval(_)) {
            return Err(Error::not_yet(format!("a key of the interval \"{}\"", field.name()))
                .next("keep it as a number of seconds"));
        }
    }
    Ok(())
}

/// A column as the heap stores it: times in microseconds.
pub(super) fn in_heap(field: &Field) -> Field {
    let micros = TimeUnit::Microsecond;
    let data_type = match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(micros),
        DataType::Timestamp(_, zone) => {
            DataType::Timestamp(micros, zone.as_ref().map(|_| zoned::KEPT.into()))
        }
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}
