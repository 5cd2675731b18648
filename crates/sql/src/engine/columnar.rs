//! Statements that create, fill, truncate and append to columnar tables.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use cellar_instance::catalog::Rights;
use datafusion::common::TableReference;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, DmlStatement, LogicalPlan, WriteOp,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures_util::StreamExt;

use crate::columnar::table::{enum_of, table_schema};
use crate::columnar::tables::{Columnar, Written};
use crate::columnar::write::Batches;
use crate::engine::ddl::check_schema;
use crate::engine::table_options::TableOptions;
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::instants::zoned::{KEPT, fields_in_zone};
use crate::names;
use crate::names::resolve::no_schema;
use crate::rows::Definition;

fn rows(count: u64) -> String {
    let word = if count == 1 { "row" } else { "rows" };
    format!("{count} {word}")
}

fn has_zone(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// Columns with timestamps in the zones in which a table stores them.
fn kept_schema(schema: &SchemaRef, kept: &SchemaRef) -> SchemaRef {
    if schema.fields().len() != kept.fields().len() {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().zip(kept.fields()).map(|(own, kept)| {
        match has_zone(own.data_type()) && has_zone(kept.data_type()) {
            true => own.as_ref().clone().with_data_type(kept.data_type().clone()),
            false => own.as_ref().clone(),
        }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Rows with timestamps in the zones in which a table stores them.
pub(super) fn kept_rows(rows: Batches, kept: SchemaRef) -> Batches {
    if !kept.fields().iter().any(|field| has_zone(field.data_type())) {
        return rows;
    }
    Box::pin(rows.map(move |batch| {
        let batch = batch?;
        let schema = kept_schema(&batch.schema(), &kept);
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }))
}

impl Engine {
    pub(super) fn is_columnar(&self, name: &str) -> bool {
        let reference = TableReference::parse_str(name);
        is_public(&reference) && self.host.columnar().is_some_and(|c| c.has(reference.table()))
    }

    pub(super) fn columnar(&self) -> Result<&Columnar, Error> {
        self.host.columnar().ok_or_else(|| {
            Error::not_yet("a columnar table here")
                .next("copy (query) to a file, then create external table over it")
        })
    }

    pub(super) async fn create_table(&self, mut statement: DfStatement) -> Result<Outcome, Error> {
        let made = TableOptions::of(&mut statement).or_as(&self.settings.now());
        if let DfStatement::Statement(inner) = &mut statement
            && let SqlStatement::CreateTable(create) = inner.as_mut()
            && let Some(definition) = self.row_definition(create, &made)?
        {
            return self.create_row_table(statement, &made, &definition).await;
        }
        let plan = self.state().statement_to_plan(statement.clone()).await;
        match plan {
            // Columnar tables have no enums: a table with enums goes to the heap, unless the statement says otherwise.
            Ok(plan) if !made.is_columnar() && made.group.is_none() && self.has_enums(&plan) => {
                self.create_row_table(statement, &made, &Definition::default()).await
            }
            Ok(plan) => self.create_of_plan(plan, &made).await,
            Err(e) => Err(self.missing_table(&statement).unwrap_or_else(|| self.failure(&e))),
        }
    }

    /// `CREATE TABLE` with columns or a query, and `SELECT ... INTO`.
    pub(super) async fn create_of_plan(
        &self,
        plan: LogicalPlan,
        made: &TableOptions,
    ) -> Result<Outcome, Error> {
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(Error::not_yet("this CREATE"));
        };
        let create = CreateMemoryTable { input: made.shaped(Arc::clone(&create.input))?, ..create };
        let is_empty = matches!(&*create.input, LogicalPlan::EmptyRelation(_));
        let Some(schema) = self.check_create(&create)? else {
            return Ok(is_there(&create, is_empty));
        };
        let name = create.name.table().to_owned();
        let columnar = self.columnar()?;
        if let Some(field) = schema.fields().iter().find(|field| enum_of(field).is_some()) {
            let what = format!("a columnar table with the enum \"{}\"", field.name());
            return Err(Error::not_yet(what).next(format!(
                "create table {name} (..) using heap; or select {}::text",
                field.name()
            )));
        }
        let schema = fields_in_zone(&made.with_lengths(&schema), &KEPT.into());
        let groups = self.host.groups();
        let group = match &made.group {
            Some(named) => groups.iter().find(|group| *group == named),
            None => groups.first(),
        };
        let named = made.group.as_deref().unwrap_or("DATA");
        let group = group.ok_or_else(|| super::no_group(named, &*self.host))?;
        self.lock_name(&name).await?;
        let batches = match is_empty {
            true => None,
            false => {
                let batches = self.batches(create.input.as_ref().clone()).await?;
                Some(kept_rows(batches, Arc::clone(&schema)))
            }
        };
        let threads = self.state().config().target_partitions();
        let written = columnar.create(&name, group, &schema, batches, (threads, None)).await?;
        Ok(match is_empty {
            true => done(format!("Table {name} created.")),
            false => Outcome::Filled {
                message: format!("Table {name} created, {}.", rows(written.rows)),
                rows: (!made.no_data).then_some(written.rows),
            },
        })
    }

    /// Whether a table would have columns of enum types.
    fn has_enums(&self, plan: &LogicalPlan) -> bool {
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else { return false };
        let settled = self.settled(&create.input);
        settled.is_ok_and(|plan| plan.schema().fields().iter().any(|f| enum_of(f).is_some()))
    }

    /// Refuses a schema that does not exist.
    pub(super) fn check_schema_of(&self, reference: &TableReference) -> Result<(), Error> {
        match reference.schema() {
            Some(schema) if !self.catalog()?.has_schema(schema) => Err(no_schema(schema)),
            _ => Ok(()),
        }
    }

    /// Whether it is the name of a sequence, which can be read like a table.
    pub(super) fn is_sequence(&self, name: &str) -> bool {
        self.catalog().is_ok_and(|catalog| catalog.sequence(name).is_some())
    }

    /// The columns of a table that can be created; `None`: it exists, and IF NOT EXISTS was given.
    pub(super) fn check_create(
        &self,
        create: &CreateMemoryTable,
    ) -> Result<Option<arrow::datatypes::SchemaRef>, Error> {
        let (reference, name) = (&create.name, create.name.table());
        self.check_own(reference)?;
        if !is_public(reference) {
            self.check_schema_of(reference)?;
            let what = format!("a table \"{reference}\" outside the schema public");
            return Err(Error::not_yet(what).next(format!("create table {name} ...")));
        }
        check_name(name)?;
        check_plain(create)?;
        let known = self.context().table_exist(reference.clone()).unwrap_or(false);
        if known && create.if_not_exists {
            return Ok(None);
        }
        if known && !self.is_sequence(name) {
            return Err(Error::new(955, "42P07", format!("there is already a table \"{name}\""))
                .next(format!("drop table {name}; or choose another name")));
        }
        self.columnar()?;
        names::check_unique(create.input.schema().as_arrow())?;
        let named = names::unmarked(Arc::clone(&create.input)).map_err(|e| self.failure(&e))?;
        let settled = self.settled(&named)?;
        let schema = table_schema(settled.schema().as_arrow())?;
        let is_empty = matches!(&*create.input, LogicalPlan::EmptyRelation(_));
        let mut fields = create.input.schema().fields().iter();
        if let Some(field) = fields.find(|field| is_empty && !field.is_nullable()) {
            let what = format!("NOT NULL of column \"{}\" of a columnar table", field.name());
            return Err(Error::not_yet(what).next("leave it out: columnar tables check none"));
        }
        Ok(Some(schema))
    }

    /// The same query with the types that its columns have when it runs.
    pub(super) fn settled(&self, plan: &LogicalPlan) -> Result<LogicalPlan, Error> {
        let state = self.state();
        state
            .analyzer()
            .execute_and_check(plan.clone(), state.config_options(), |_, _| {})
            .map_err(|e| self.failure(&e))
    }

    async fn batches(&self, plan: LogicalPlan) -> Result<Batches, Error> {
        Ok(self.stream(plan).await.map_err(|e| self.failure(&e))?)
    }

    /// `INSERT INTO` a columnar table: its rows become a segment, by direct path.
    pub(super) async fn append(&self, statement: DfStatement) -> Result<Outcome, Error> {
        self.check_block_writable()?;
        let plan = self.state().statement_to_plan(statement).await;
        let plan = plan.map_err(|e| self.failure(&e))?;
        let LogicalPlan::Dml(dml) = plan else {
            return Err(Error::not_yet("this INSERT"));
        };
        check_append(&dml)?;
        let name = dml.table_name.table().to_owned();
        self.check_whole(&name, Rights::INSERT)?;
        let kept = self.columnar()?.schema(&name)?;
        let columns = kept_schema(&dml.target.schema(), &kept);
        let batches = self.batches(dml.input.as_ref().clone()).await?;
        let batches = kept_rows(batches, kept);
        let threads = self.state().config().target_partitions();
        let Written { rows: count, .. } =
            self.columnar()?.append(&name, &columns, batches, (threads, None)).await?;
        Ok(Outcome::Changed(count, "written"))
    }

    pub(super) async fn truncate_tables(
        &self,
        names: Vec<String>,
        (restarts, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let mut tables = Vec::new();
        for name in &names {
            let reference = TableReference::parse_str(name);
            self.check_own(&reference)?;
            self.refuse_view(&reference, "TRUNCATE of")?;
            check_schema(&reference)?;
            let bare = reference.table().to_owned();
            if !self.is_columnar(name) && !self.is_row_table(name) {
                return Err(match self.has_table(&bare) {
                    true => Error::not_yet(format!("TRUNCATE of the external table \"{bare}\""))
                        .next("its rows are files of yours: drop table, and take the files away"),
                    false => Error::new(942, "42P01", format!("table \"{bare}\" does not exist")),
                });
            }
            tables.push(bare);
        }
        self.check_block_writable()?;
        let tables = self.locked_to_truncate(tables, cascades).await?;
        let mut count = None;
        for table in &tables {
            match self.columnar()?.has(table) {
                true => {
                    // A session that holds a lock on it keeps seeing its rows.
                    self.lock_name(table).await?;
                    *count.get_or_insert(0) += self.columnar()?.truncate(table).await?;
                }
                false => {
                    self.truncate_rows(table).await?;
                    if restarts {
                        self.restart_sequences(table).await?;
                    }
                }
            }
        }
        let removed = count.map(|count| format!(", {} removed", rows(count))).unwrap_or_default();
        Ok(done(format!("Table {} truncated{removed}.", tables.join(", "))))
    }
}

/// Refuses statements that do more than append to a columnar table.
pub(super) fn check_append(dml: &DmlStatement) -> Result<(), Error> {
    match dml.op {
        WriteOp::Insert(InsertOp::Append) => Ok(()),
        _ => Err(Error::not_yet(format!("{} of a columnar table", dml.op))),
    }
}

/// Refuses a path instead of a name: a user who writes one means a location.
fn check_name(name: &str) -> Result<(), Error> {
    let Some(path) = name.strip_prefix('+') else { return Ok(()) };
    let (group, name) = path.split_once('/').unwrap_or((path, "t"));
    let text = format!("\"+{path}\" is a place, no name of a table");
    Err(Error::new(903, "42602", text).next(format!("create table {name} ... in '+{group}'")))
}

/// The outcome for a table that exists already, with IF NOT EXISTS.
pub(super) fn is_there(create: &CreateMemoryTable, is_empty: bool) -> Outcome {
    let message = format!("Table {} already exists.", create.name.table());
    match is_empty {
        true => done(message),
        false => Outcome::Filled { message, rows: None },
    }
}

fn check_plain(create: &CreateMemoryTable) -> Result<(), Error> {
    let name = &create.name;
    if create.or_replace {
        return Err(Error::not_yet("CREATE OR REPLACE TABLE")
            .next(format!("drop table {name}; create table {name} ...")));
    }
    if create.temporary {
        return Err(Error::not_yet("CREATE TEMPORARY TABLE").next("create table, and drop it"));
    }
    if create.constraints.iter().next().is_some() {
        return Err(Error::not_yet("a key or another constraint of a columnar table")
            .next("leave it out: columnar tables check none"));
    }
    if let Some((column, _)) = create.column_defaults.first() {
        return Err(Error::not_yet(format!("the DEFAULT of column \"{column}\""))
            .next("leave it out, and write the value with each row"));
    }
    Ok(())
}
