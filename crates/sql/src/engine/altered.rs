//! The target state of an ALTER TABLE: what its actions make of the table, and how that is carried out.
//! Rows are rewritten only if columns are dropped or change their type, or if a new column differs from
//! row to row.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use cellar_format::rows::RowLayout;
use cellar_instance::catalog::{
    Comments, Constraint, Grants, Index, Missing, RowTable, Table, name,
};
use cellar_instance::database::Alteration;
use datafusion::common::DFSchema;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{
    DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, cast, ident, lit,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Expr as SqlExpr, Ident};
use datafusion::sql::sqlparser::parser::Parser;
use futures_util::TryStreamExt;

use crate::columnar::table::{schema_text, table_schema};
use crate::engine::rows::{in_heap, refuse_keys};
use crate::engine::table_options::TableOptions;
use crate::engine::{Engine, no_such_type};
use crate::enums::field_with_labels;
use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};
use crate::grammar::CellarDialect;
use crate::parse::parse;
use crate::rows::{Checks, Filling, OldRows, RowColumns, built, expression, missing, row_error};
use crate::statement::Statement;
use crate::walk;

/// A column of the altered table.
pub(super) struct NewColumn {
    /// Its name and type.
    pub field: Field,
    /// The source of its values.
    pub from: From,
}

/// Where the values of a column come from.
#[derive(Clone)]
pub(super) enum From {
    /// The column that was at this place, as it is.
    Old(usize),
    /// That column with another type; by an expression, if one is given.
    Cast(usize, Option<String>),
    /// A new column: the value of an expression, or NULL.
    Added(Option<Expr>),
}

/// The target state of a table.
pub(super) struct Altered {
    /// Its name.
    pub name: String,
    /// The table as it was.
    old: RowColumns,
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// Its indexes (those still to be built have the number 0) and checks.
    pub rows: RowTable,
    /// Existing rows may violate a constraint.
    pub must_check: bool,
    /// Foreign keys that existing rows may violate.
    pub must_refer: Vec<String>,
    /// What the user should know.
    pub notices: Vec<String>,
    /// Sequences owned by columns that are dropped, and views that read these columns.
    pub dropped: BTreeSet<String>,
    /// A column was dropped.
    is_narrower: bool,
    /// Constraints that were renamed: the old name, and the new one.
    renamed: Vec<(String, String)>,
}

impl Altered {
    /// A table, to be altered.
    pub fn of(old: RowColumns) -> Altered {
        let fields = old.schema.fields().iter().enumerate();
        let columns = fields
            .map(|(at, field)| NewColumn { field: field.as_ref().clone(), from: From::Old(at) });
        Altered {
            name: old.name.clone(),
            columns: columns.collect(),
            rows: old.rows.clone(),
            must_check: false,
            must_refer: Vec::new(),
            notices: Vec::new(),
            dropped: BTreeSet::new(),
            is_narrower: false,
            renamed: Vec::new(),
            old,
        }
    }

    /// The table as it was.
    pub fn old(&self) -> &RowColumns {
        &self.old
    }

    /// Whether there is nothing to do.
    pub fn is_as_it_was(&self) -> bool {
        self.name == self.old.name
            && self.schema() == *self.old.schema
            && self.rows == self.old.rows
            && !self.is_written_anew()
    }

    /// Its columns.
    pub fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|column| column.field.clone()).collect::<Vec<_>>())
    }

    /// Whether rows are rewritten.
    fn is_written_anew(&self) -> bool {
        let differs = |column: &NewColumn| match &column.from {
            From::Old(_) => false,
            From::Cast(..) => true,
            From::Added(value) => value.as_ref().is_some_and(Expr::is_volatile),
        };
        self.is_narrower || self.columns.iter().any(differs)
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.field.name().clone()).collect()
    }

    /// The place of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.field.name() == name)
    }

    /// The place of a column that must exist.
    pub fn column(&self, name: &str) -> Result<usize, Error> {
        self.position(name).ok_or_else(|| {
            let text = format!("table \"{}\" has no column \"{name}\"", self.name);
            let names = self.names().join(", ");
            Error::new(904, "42703", text).of_name([name]).next(format!("its columns are {names}"))
        })
    }

    /// The error for a column that exists already.
    pub fn is_there(&self, name: &str) -> Error {
        let text = format!("table \"{}\" has a column \"{name}\" already", self.name);
        Error::new(957, "42701", text).next("choose another name")
    }

    /// The names of the constraints.
    pub fn constraints(&self) -> Vec<String> {
        let keys = self.rows.indexes.iter().filter(|index| index.constraint.is_some());
        let keys = keys.map(|index| name::parts(&index.name).1.to_owned());
        let checks = self.rows.checks.iter().map(|check| check.name.clone());
        let foreign = self.rows.foreign.iter().map(|key| key.name.clone());
        keys.chain(checks).chain(foreign).collect()
    }

    /// Refuses the name of an existing constraint.
    pub fn check_constraint_free(&self, name: &str) -> Result<(), Error> {
        let name = name::parts(name).1;
        if !self.constraints().iter().any(|own| own == name) {
            return Ok(());
        }
        let text = format!("table \"{}\" has a constraint \"{name}\" already", self.name);
        Err(Error::new(2264, "42710", text).next("choose another name"))
    }

    /// The index of the primary key.
    pub fn primary(&self) -> Option<&Index> {
        self.rows.indexes.iter().find(|index| index.constraint == Some(Constraint::Primary))
    }

    /// Sets whether a column may be NULL.
    pub fn set_nullable(&mut self, at: usize, is_nullable: bool) {
        let field = &mut self.columns[at].field;
        self.must_check |= field.is_nullable() && !is_nullable;
        *field = field.clone().with_nullable(is_nullable);
    }

    /// Gives a column another type.
    pub fn retype(&mut self, at: usize, field: Field, using: Option<String>) -> Result<(), Error> {
        let column = &mut self.columns[at];
        let (name, was) = (field.name().clone(), column.field.data_type().clone());
        column.from = match &column.from {
            From::Old(_) if using.is_none() && !is_assigned(&was, field.data_type()) => {
                let text = format!("column \"{name}\" does not become another type by itself");
                return Err(Error::new(932, "42804", text)
                    .next(format!("say how: alter column {name} type .. using {name}::..")));
            }
            From::Old(old) => From::Cast(*old, using),
            From::Cast(..) => {
                return Err(Error::not_yet(format!("the type of column \"{name}\" changed twice")));
            }
            From::Added(value) => {
                let to = field.data_type().clone();
                From::Added(value.clone().map(|value| cast(value, to)))
            }
        };
        column.field = field;
        Ok(())
    }

    /// Drops a column, with its indexes and with these checks.
    pub fn drop_column(&mut self, at: usize, checks: &[String]) -> Result<(), Error> {
        if self.columns.len() == 1 {
            let text = format!("table \"{}\" has no other column", self.name);
            return Err(Error::new(12983, "0A000", text).next("drop the table"));
        }
        let column = self.columns.remove(at);
        self.is_narrower |= !matches!(column.from, From::Added(_));
        self.rows.indexes.retain(|index| index.columns.iter().all(|own| own.column != at));
        self.rows.checks.retain(|check| !checks.contains(&check.name));
        self.rows.foreign.retain(|key| !key.columns.contains(&at));
        for own in self.rows.foreign.iter_mut().flat_map(|key| &mut key.columns) {
            *own -= usize::from(*own > at);
        }
        let gone = self.rows.owned.extract_if(.., |owned| owned.column == at);
        self.dropped.extend(gone.map(|owned| owned.sequence));
        for owned in &mut self.rows.owned {
            owned.column -= usize::from(owned.column > at);
        }
        for own in self.rows.indexes.iter_mut().flat_map(|index| &mut index.columns) {
            own.column -= usize::from(own.column > at);
        }
        Ok(())
    }

    /// Renames a column, also in checks.
    pub fn rename_column(&mut self, old: &str, new: &str) -> Result<(), Error> {
        let at = self.column(old)?;
        if self.position(new).is_some() {
            return Err(self.is_there(new));
        }
        for check in &mut self.rows.checks {
            check.condition = renamed(&check.condition, old, new)?;
        }
        self.columns[at].field = self.columns[at].field.clone().with_name(new);
        Ok(())
    }

    /// Drops a constraint; NOT NULL of a primary key stays, as in PostgreSQL.
    pub fn drop_constraint(&mut self, name: &str, if_exists: bool) -> Result<(), Error> {
        let count = |rows: &RowTable| rows.indexes.len() + rows.checks.len() + rows.foreign.len();
        let before = count(&self.rows);
        self.rows
            .indexes
            .retain(|index| index.constraint.is_none() || name::parts(&index.name).1 != name);
        self.rows.checks.retain(|check| check.name != name);
        self.rows.foreign.retain(|key| key.name != name);
        if count(&self.rows) < before {
            return Ok(());
        }
        if if_exists {
            self.notices.push(format!("there is no constraint \"{name}\""));
            return Ok(());
        }
        Err(self.no_constraint(name))
    }

    /// Renames a constraint.
    pub fn rename_constraint(&mut self, old: &str, new: &str) -> Result<(), Error> {
        self.check_constraint_free(new)?;
        let keys = self.rows.indexes.iter_mut().filter(|index| index.constraint.is_some());
        let keys = keys.map(|index| &mut index.name);
        let checks = self.rows.checks.iter_mut().map(|check| &mut check.name);
        let foreign = self.rows.foreign.iter_mut().map(|key| &mut key.name);
        match keys.chain(checks).chain(foreign).find(|own| name::parts(own).1 == old) {
            Some(own) => {
                *own = name::beside(own, new);
                self.renamed.push((old.to_owned(), new.to_owned()));
            }
            None => return Err(self.no_constraint(old)),
        }
        Ok(())
    }

    fn no_constraint(&self, name: &str) -> Error {
        let text = format!("table \"{}\" has no constraint \"{name}\"", self.name);
        let names = self.constraints().join(", ");
        let known = if names.is_empty() { "none".to_owned() } else { names };
        Error::new(2443, "42704", text).next(format!("its constraints are: {known}"))
    }

    /// The altered table for the catalog, with these rows.
    fn table(&self, was: &Table, rows: RowTable) -> Table {
        let (name, schema) = (self.name.clone(), schema_text(&self.schema()));
        let comments = self.comments(&was.comments);
        let grants = self.grants(&was.grants);
        Table { name, schema, rows: Some(rows), comments, grants, ..was.clone() }
    }

    /// The grants on the table and on its remaining columns.
    fn grants(&self, was: &Grants) -> Grants {
        let mut now = Grants { own: was.own.clone(), ..Grants::default() };
        for column in &self.columns {
            let (From::Old(at) | From::Cast(at, _)) = &column.from else { continue };
            if let Some(grants) = was.columns.get(self.old.schema.field(*at).name()) {
                now.columns.insert(column.field.name().clone(), grants.clone());
            }
        }
        now
    }

    /// The comments on the table and on what it still has.
    fn comments(&self, was: &Comments) -> Comments {
        let mut now = Comments { own: was.own.clone(), ..Comments::default() };
        for column in &self.columns {
            let (From::Old(at) | From::Cast(at, _)) = &column.from else { continue };
            if let Some(text) = was.columns.get(self.old.schema.field(*at).name()) {
                now.columns.insert(column.field.name().clone(), text.clone());
            }
        }
        let (mut constraints, mut indexes) = (was.constraints.clone(), was.indexes.clone());
        for (old, new) in &self.renamed {
            for texts in [&mut constraints, &mut indexes] {
                if let Some(text) = texts.remove(old) {
                    texts.insert(new.clone(), text);
                }
            }
        }
        let (names, own) = (self.constraints(), &self.rows.indexes);
        constraints.retain(|name, _| names.contains(name));
        indexes.retain(|name, _| own.iter().any(|index| name::parts(&index.name).1 == name));
        Comments { constraints, indexes, ..now }
    }
}

/// A condition with a column renamed.
pub(super) fn renamed(condition: &str, old: &str, new: &str) -> Result<String, Error> {
    let parsed = Parser::new(&CellarDialect).try_with_sql(condition);
    let parsed = parsed.and_then(|mut parser| parser.parse_expr());
    let mut parsed = parsed.map_err(|error| Error::syntax(error.to_string()))?;
    let is_old = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value == old,
        None => ident.value.to_ascii_lowercase() == old,
    };
    let mut is_changed = false;
    walk::map_exprs(&mut parsed, |expr| {
        let own = match expr {
            SqlExpr::Identifier(own) => Some(own),
            SqlExpr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(own) = own.filter(|own| is_old(own)) {
            *own = Ident::with_quote('"', new);
            is_changed = true;
        }
    });
    // Else as it was written.
    Ok(if is_changed { parsed.to_string() } else { condition.to_owned() })
}

/// Whether values of a type are converted to another one implicitly, as in PostgreSQL's assignments.
fn is_assigned(from: &DataType, to: &DataType) -> bool {
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::Utf8View);
    let is_day = |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(..));
    from == to
        || is_text(to)
        || (from.is_numeric() && to.is_numeric())
        || (is_day(from) && is_day(to))
        || matches!((from, to), (DataType::Timestamp(..), DataType::Time64(_)))
}

impl Engine {
    /// A column of a type, as the heap stores it.
    pub(super) async fn column_field(
        &self,
        name: &Ident,
        data_type: &SqlType,
    ) -> Result<Field, Error> {
        // What CREATE TABLE makes of it, under a name that no table has.
        let text = format!("create table \"\u{1}\" ({name} {data_type})");
        let Statement::Query(mut statement) = parse(&text)? else { return Err(no_such_type()) };
        let made = TableOptions::of(&mut statement);
        let plan = self.state().statement_to_plan(*statement).await;
        let plan = plan.map_err(|e| self.failure(&e))?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(no_such_type());
        };
        let schema = table_schema(create.input.schema().as_arrow())?;
        let field = in_heap(made.with_lengths(&schema).field(0));
        let name = crate::rows::name_of(name);
        RowLayout::of(&Schema::new(vec![field.clone()]))
            .map_err(|error| row_error(&name, &error))?;
        Ok(field.with_name(name))
    }

    /// Refuses a DEFAULT that has no value.
    pub(super) async fn check_default(&self, value: Expr) -> Result<(), Error> {
        match value.is_volatile() {
            true => Ok(()),
            false => self.value(value).await.map(|_| ()),
        }
    }

    /// The value of an expression that refers to no column.
    async fn value(&self, value: Expr) -> Result<ArrayRef, Error> {
        let plan = LogicalPlanBuilder::empty(true).project(vec![value.alias("value")]);
        let plan = plan.and_then(LogicalPlanBuilder::build).map_err(|e| from_datafusion(&e))?;
        let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(|e| self.failure(&e))?;
        let found = batches.iter().find(|batch| batch.num_rows() == 1);
        found.map(|batch| Arc::clone(batch.column(0))).ok_or_else(no_such_type)
    }

    /// Carries the changes out in the heap; returns the table for the catalog.
    pub(super) async fn carried_out(
        &self,
        altered: &mut Altered,
        alteration: &mut Alteration,
    ) -> Result<Table, Error> {
        let mut rows = altered.rows.clone();
        let added = self.added_values(altered).await?;
        // An index is built from the committed rows in place, which lack this transaction's own changes.
        let is_built = rows.indexes.iter().any(|index| index.object == 0);
        let lacks = is_built && alteration.has_own_changes();
        match added.filter(|_| !altered.is_written_anew() && !lacks) {
            Some(added) => {
                rows.missing.extend(added);
                self.check_rows(altered, alteration, &rows).await?;
            }
            None => {
                let RowTable { checks, indexes, owned, foreign, .. } = rows;
                rows = RowTable { checks, indexes, owned, foreign, ..RowTable::plain(0) };
                rows.object = alteration.new_table().await?;
                rows.indexes.iter_mut().for_each(|index| index.object = 0);
                self.write_anew(altered, alteration, &rows).await?;
            }
        }
        let table = altered.table(alteration.table(), rows.clone());
        let columns =
            RowColumns::of(&table, &rows, (&self.settings.now().zone, &*self.catalog()?))?;
        refuse_keys(&columns)?;
        for at in 0..rows.indexes.len() {
            if rows.indexes[at].object == 0 {
                rows.indexes[at].object = built(alteration, &columns, at).await?;
            }
        }
        Ok(altered.table(alteration.table(), rows))
    }

    /// The values of new columns in existing rows; `None`: one is too long for the catalog.
    async fn added_values(&self, altered: &Altered) -> Result<Option<Vec<Missing>>, Error> {
        let mut found = Vec::new();
        for (at, column) in altered.columns.iter().enumerate() {
            let From::Added(Some(value)) = &column.from else { continue };
            if value.is_volatile() {
                continue;
            }
            let value = self.value(value.clone()).await?;
            let value = crate::columnar::write::column_of(value, &column.field)?;
            if value.is_null(0) {
                continue;
            }
            let labelled = field_with_labels(&column.field, &*self.catalog()?);
            let field = labelled.map_or_else(|| column.field.clone(), |(_, field)| field);
            let kept = missing(at, &field, &value);
            match kept.map_err(|error| row_error(&altered.name, &error))? {
                Some(kept) => found.push(kept),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// Checks whether the existing rows satisfy the new constraints.
    async fn check_rows(
        &self,
        altered: &Altered,
        alteration: &mut Alteration,
        rows: &RowTable,
    ) -> Result<(), Error> {
        let plain = RowTable { indexes: Vec::new(), ..rows.clone() };
        let columns = RowColumns::of(
            &altered.table(alteration.table(), plain.clone()),
            &plain,
            (&self.settings.now().zone, &*self.catalog()?),
        )?;
        let checks = Checks::of(&self.state(), &columns)?;
        let is_new = |column: &NewColumn| matches!(column.from, From::Added(_));
        let adds =
            altered.columns.iter().any(|column| is_new(column) && !column.field.is_nullable());
        if !altered.must_check && !adds {
            return Ok(());
        }
        OldRows::of(&columns, alteration.statement())?.check(&checks).await
    }

    /// Fills a new table with the rewritten rows.
    async fn write_anew(
        &self,
        altered: &Altered,
        alteration: &mut Alteration,
        rows: &RowTable,
    ) -> Result<(), Error> {
        let plain_rows = RowTable { indexes: Vec::new(), ..rows.clone() };
        let table = altered.table(alteration.table(), plain_rows.clone());
        let columns =
            RowColumns::of(&table, &plain_rows, (&self.settings.now().zone, &*self.catalog()?))?;
        let checks = Checks::of(&self.state(), &columns)?;
        let statement = alteration.statement();
        let (alteration, database) = (&*alteration, self.row_tables()?.database());
        let filling = Filling {
            columns: &columns,
            checks: &checks,
            alteration,
            database,
            statement: &statement,
        };
        let mut old = OldRows::of(&altered.old, statement.clone())?;
        let schema = altered.old.query_schema(false);
        let names = DFSchema::try_from_qualified_schema(altered.old.name.as_str(), &schema);
        let values = self.values_of(altered, &names.map_err(|e| from_datafusion(&e))?)?;
        while let Some(arrays) = old.next().await? {
            let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
            let batch = batch.map_err(|error| from_arrow(&error))?;
            for batch in self.projected(&altered.old.name, batch, values.clone()).await? {
                filling.insert(&batch).await?;
            }
        }
        Ok(())
    }

    /// The value of each column, as an expression over the old ones.
    fn values_of(&self, altered: &Altered, names: &DFSchema) -> Result<Vec<Expr>, Error> {
        let value = |(at, column): (usize, &NewColumn)| {
            let to = column.field.data_type().clone();
            let old = |at: usize| ident(altered.old.schema.field(at).name().as_str());
            let value = match &column.from {
                From::Old(at) => old(*at),
                From::Cast(at, None) => cast(old(*at), to),
                From::Cast(_, Some(using)) => cast(expression(&self.state(), using, names)?, to),
                From::Added(Some(value)) => value.clone(),
                From::Added(None) => cast(lit(ScalarValue::Null), to),
            };
            Ok(value.alias(format!("\u{1}{at}")))
        };
        altered.columns.iter().enumerate().map(value).collect()
    }

    /// Expressions over rows, evaluated as a query would.
    async fn projected(
        &self,
        name: &str,
        batch: RecordBatch,
        values: Vec<Expr>,
    ) -> Result<Vec<RecordBatch>, Error> {
        let rows = MemTable::try_new(batch.schema(), vec![vec![batch]]);
        let plan = rows.and_then(|rows| {
            let source = provider_as_source(Arc::new(rows));
            let name = datafusion::common::TableReference::bare(name.to_owned());
            LogicalPlanBuilder::scan(name, source, None)?.project(values)?.build()
        });
        let plan = plan.map_err(|e| self.failure(&e))?;
        let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        stream.try_collect().await.map_err(|e| self.failure(&e))
    }
}
