//! Statements that make tables in the heap and change their rows. UPDATE and DELETE are a query for the
//! numbers of rows, and then a change of those: DataFusion's own hooks would drop predicates.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use cellar_format::rows::RowLayout;
use cellar_instance::catalog::Table;
use datafusion::common::TableReference;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, LogicalPlanBuilder, WriteOp, cast, ident,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, CreateTable, Delete, Expr as SqlExpr, FromTable, GroupByExpr, Ident, Insert,
    ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement,
    TableAlias, TableFactor, TableWithJoins, Update, UpdateTableFromKind,
    helpers::attached_token::AttachedToken,
};
use datafusion::sql::sqlparser::parser::Parser;
use futures_util::TryStreamExt;

use crate::columnar::table::{schema_text, with_default};
use crate::engine::made::Made;
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::grammar::CellarDialect;
use crate::rows::{
    Change, Changed, Checks, Definition, ROW_ID, RowColumns, RowTables, Scope, default_value,
    defined, row_error, with_row_ids,
};

/// A statement whose rows others change again and again is given up after so many times.
const TRIES: usize = 1000;

/// What is done with rows.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// These columns get other values.
    Update(&'a [usize]),
    /// They go.
    Delete,
}

fn rows_word(count: u64) -> &'static str {
    if count == 1 { "row" } else { "rows" }
}

impl Engine {
    pub(super) fn row_tables(&self) -> Result<&RowTables, Error> {
        self.host.rows().ok_or_else(|| Error::not_yet("a table whose rows change, here"))
    }

    /// The table in the heap of that name.
    fn row_table(&self, reference: &TableReference) -> Result<Option<RowColumns>, Error> {
        if !is_public(reference) {
            return Ok(None);
        }
        let found = self.host.rows().and_then(|rows| rows.table(reference.table()));
        found.map(|(table, rows)| RowColumns::of(&table, &rows)).transpose()
    }

    /// Whether it is the name of a table in the heap.
    pub(super) fn is_row_table(&self, name: &str) -> bool {
        let reference = TableReference::parse_str(name);
        is_public(&reference)
            && self.host.rows().is_some_and(|rows| rows.table(reference.table()).is_some())
    }

    /// What a CREATE TABLE says of a table in the heap, which is taken out of it; `None`: it is to be a
    /// columnar one.
    pub(super) fn row_definition(
        &self,
        create: &mut CreateTable,
        made: &Made,
    ) -> Result<Option<Definition>, Error> {
        if create.query.is_some() && made.is_heap() {
            return Err(Error::not_yet("CREATE TABLE .. USING heap AS SELECT")
                .next("create table with its columns, then insert into it select .."));
        }
        if create.query.is_some() || made.is_columnar() || self.host.rows().is_none() {
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
        made: &Made,
        definition: &Definition,
    ) -> Result<Outcome, Error> {
        let rows = self.row_tables()?;
        self.refuse_in_block("CREATE TABLE").await?;
        if let Some(group) = &made.group {
            return Err(Error::not_yet(format!("a table in the heap in \"+{group}\""))
                .next("leave it out: the heap is in the first disk group"));
        }
        let plan = self.state().statement_to_plan(statement).await.map_err(|e| self.failure(&e))?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(Error::not_yet("this CREATE"));
        };
        let Some(schema) = self.check_create(&create)? else {
            return Ok(done(format!("Table {} is there already.", create.name.table())));
        };
        let name = create.name.table().to_owned();
        if name.chars().any(char::is_control) {
            let text = "the name of a table has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        let schema = self.defined_schema(&made.with_lengths(&schema), definition)?;
        RowLayout::of(&schema).map_err(|error| row_error(&name, &error))?;
        let catalog = self.catalog()?;
        let is_free = |name: &str| self.kind_of(&catalog, name).is_none();
        let table =
            Table::in_heap(&name, schema_text(&schema), definition.rows(&name, &is_free, &[]));
        let checked = table.rows.as_ref().map(|rows| RowColumns::of(&table, rows)).transpose()?;
        if let Some(columns) = &checked {
            refuse_keys(columns)?;
        }
        if let Some(columns) = &checked {
            Checks::of(&self.state(), columns)?;
        }
        let (database, session) = (rows.database(), rows.session().waits());
        database.add_row_table(session, table, &|_, _| ()).await?;
        Ok(done(format!("Table {name} created.")))
    }

    /// The columns with what is said of them beside their types.
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

    /// TRUNCATE of a table in the heap.
    pub(super) async fn truncate_rows(&self, name: &str) -> Result<(), Error> {
        let rows = self.row_tables()?;
        let (database, session) = (rows.database(), rows.session().waits());
        Ok(database.truncate_row_table(session, name, rows.beginning()).await?)
    }

    /// INSERT INTO a table in the heap.
    pub(super) async fn insert_rows(
        &self,
        scope: &Scope,
        mut statement: DfStatement,
    ) -> Result<Outcome, Error> {
        if let DfStatement::Statement(inner) = &mut statement
            && let SqlStatement::Insert(insert) = inner.as_mut()
        {
            self.name_columns(insert)?;
        }
        let plan = self.state().statement_to_plan(statement).await.map_err(|e| self.failure(&e))?;
        let LogicalPlan::Dml(dml) = plan else { return Err(Error::not_yet("this INSERT")) };
        if dml.op != WriteOp::Insert(InsertOp::Append) {
            return Err(Error::not_yet(format!("{} of a table in the heap", dml.op)));
        }
        let Some(columns) = self.row_table(&dml.table_name)? else {
            return Err(Error::new(942, "42P01", "the table was dropped meanwhile"));
        };
        let columns = scope.current(&Arc::new(columns)).await?;
        if columns.schema.fields().len() != dml.input.schema().fields().len() {
            let text = format!("table \"{}\" was changed meanwhile", columns.name);
            return Err(Error::new(942, "42P01", text).next("run the statement again"));
        }
        let checks = Checks::of(&self.state(), &columns)?;
        let change = Change { columns: &columns, checks: &checks, scope };
        let mut batches =
            self.stream(dml.input.as_ref().clone()).await.map_err(|e| self.failure(&e))?;
        let mut count = 0;
        while let Some(batch) = batches.try_next().await.map_err(|e| self.failure(&e))? {
            count += change.insert(&batch).await?;
        }
        Ok(done(format!("{count} {} inserted.", rows_word(count))))
    }

    /// Rows of fewer values than the table has columns are for the first ones.
    fn name_columns(&self, insert: &mut Insert) -> Result<(), Error> {
        let Some(SetExpr::Values(values)) = insert.source.as_deref().map(|query| &*query.body)
        else {
            return Ok(());
        };
        let count = values.rows.first().map_or(0, |row| row.content.len());
        let Some(columns) =
            self.row_table(&TableReference::parse_str(&insert.table.to_string()))?
        else {
            return Ok(());
        };
        let fields = columns.schema.fields();
        if insert.columns.is_empty() && count < fields.len() {
            let named = fields.iter().take(count).map(|field| Ident::with_quote('"', field.name()));
            insert.columns = named.map(|name| ObjectName::from(vec![name])).collect();
        }
        Ok(())
    }

    /// UPDATE of a table in the heap.
    pub(super) async fn update_rows(
        &self,
        scope: Scope,
        update: Update,
    ) -> Result<(Outcome, Scope), Error> {
        refuse_clauses(&update)?;
        let (target, mut from) = (update.table.clone(), vec![numbered(&update.table)?]);
        match update.from.clone() {
            None => {}
            Some(UpdateTableFromKind::AfterSet(more)) => from.extend(more),
            Some(UpdateTableFromKind::BeforeSet(_)) => {
                return Err(Error::not_yet("FROM before SET").next("write it behind SET"));
            }
        }
        let columns = self.target(&target)?;
        let alias = alias_of(&target)?;
        let mut assigned = Vec::new();
        let mut items = vec![number_of(&alias)];
        for assignment in &update.assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else {
                return Err(Error::not_yet("SET (a, b) = ...").next("assign them one by one"));
            };
            let at = Self::column(&columns, name)?;
            if assigned.contains(&at) {
                let text = format!("column \"{}\" is set twice", columns.schema.field(at).name());
                return Err(Error::new(957, "42601", text));
            }
            let value = Self::value_of(&columns, at, &assignment.value)?;
            items.push(SelectItem::ExprWithAlias {
                expr: value,
                alias: Ident::with_quote('"', format!("\u{1}{}", assigned.len())),
            });
            assigned.push(at);
        }
        let query = query_of(items, from, update.selection.clone());
        let types: Vec<DataType> =
            assigned.iter().map(|at| columns.schema.field(*at).data_type().clone()).collect();
        self.changed(scope, columns, (query, &types), Work::Update(&assigned)).await
    }

    /// DELETE from a table in the heap.
    pub(super) async fn delete_rows(
        &self,
        scope: Scope,
        delete: Delete,
    ) -> Result<(Outcome, Scope), Error> {
        if delete.returning.is_some() {
            return Err(Error::not_yet("RETURNING").next("select the rows first"));
        }
        if !delete.tables.is_empty() || !delete.order_by.is_empty() || delete.limit.is_some() {
            return Err(Error::not_yet("DELETE of several tables, or with ORDER BY or LIMIT"));
        }
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [target] = &tables[..] else {
            return Err(Error::not_yet("DELETE from several tables").next("use USING"));
        };
        let columns = self.target(target)?;
        let mut from = vec![numbered(target)?];
        from.extend(delete.using.clone().unwrap_or_default());
        let query = query_of(vec![number_of(&alias_of(target)?)], from, delete.selection.clone());
        self.changed(scope, columns, (query, &[]), Work::Delete).await
    }

    /// Runs a query for rows, and changes those: again, where others have changed one meanwhile.
    async fn changed(
        &self,
        mut scope: Scope,
        columns: RowColumns,
        (query, types): (Query, &[DataType]),
        work: Work<'_>,
    ) -> Result<(Outcome, Scope), Error> {
        let columns = &*scope.current(&Arc::new(columns)).await?;
        for _ in 0..TRIES {
            let mark = scope.mark().await?;
            let statement = SqlStatement::Query(Box::new(query.clone()));
            let statement = DfStatement::Statement(Box::new(statement));
            let state = self.state();
            let plan = state.statement_to_plan(statement).await.map_err(|e| self.failure(&e))?;
            let plan = fitted(plan, types).map_err(|e| self.failure(&e))?;
            let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
            let batches: Vec<RecordBatch> =
                stream.try_collect().await.map_err(|e| self.failure(&e))?;
            let checks = Checks::of(&state, columns)?;
            let change = Change { columns, checks: &checks, scope: &scope };
            let (changed, verb) = match work {
                Work::Update(assigned) => (change.update(assigned, &batches).await?, "updated"),
                Work::Delete => (change.delete(&batches).await?, "deleted"),
            };
            match changed {
                Changed::Rows(count) => {
                    let text = format!("{count} {} {verb}.", rows_word(count));
                    return Ok((done(text), scope));
                }
                Changed::Again => {
                    scope = scope.anew(mark).await?;
                    self.set_scope(Some(scope.clone()));
                }
            }
        }
        let text = format!("others have changed the rows {TRIES} times meanwhile");
        Err(Error::new(8177, "40001", text).next("run the statement again"))
    }

    /// The table that is changed.
    fn target(&self, table: &TableWithJoins) -> Result<RowColumns, Error> {
        let TableFactor::Table { name, .. } = &table.relation else {
            return Err(Error::not_yet("a change of anything but a table"));
        };
        let reference = TableReference::parse_str(&name.to_string());
        self.check_own(&reference)?;
        match self.row_table(&reference)? {
            Some(columns) => Ok(columns),
            None => Err(self.unchangeable(&reference)),
        }
    }

    /// Why a statement changes nothing: there is no table whose rows change.
    pub(super) fn no_change(&self, statement: &SqlStatement) -> Error {
        let target = match statement {
            SqlStatement::Update(update) => Some(&update.table),
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                    &delete.from;
                tables.first()
            }
            _ => None,
        };
        match (self.host.rows(), target) {
            (Some(_), Some(target)) => match self.target(target) {
                Err(error) => error,
                Ok(_) => Error::new(70162, "55000", "the heap is not open"),
            },
            _ => crate::allowed::refused(statement),
        }
    }

    /// Why the rows of a table cannot be changed.
    fn unchangeable(&self, reference: &TableReference) -> Error {
        let name = reference.table();
        if !is_public(reference) || !self.has_table(name) {
            let text = format!("table \"{name}\" does not exist");
            return Error::new(942, "42P01", text);
        }
        if self.is_columnar(name) {
            return Error::not_yet(format!("UPDATE and DELETE of the columnar table \"{name}\""))
                .next("keep rows that change in a table made with USING heap");
        }
        Error::not_yet(format!("UPDATE and DELETE of the external table \"{name}\""))
            .next("its rows are files of yours: create a table USING heap, and INSERT them there")
    }

    fn column(columns: &RowColumns, name: &ObjectName) -> Result<usize, Error> {
        let ident = name.0.last().and_then(|part| part.as_ident());
        let wanted = ident.map(|ident| match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_ascii_lowercase(),
        });
        let found = wanted.as_ref().and_then(|wanted| {
            columns.schema.fields().iter().position(|field| field.name() == wanted)
        });
        found.ok_or_else(|| {
            let names: Vec<&str> =
                columns.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let text = format!("table \"{}\" has no column {name}", columns.name);
            Error::new(904, "42703", text).next(format!("its columns are {}", names.join(", ")))
        })
    }

    /// The value of an assignment; DEFAULT is that of the column.
    fn value_of(columns: &RowColumns, at: usize, value: &SqlExpr) -> Result<SqlExpr, Error> {
        let is_default = matches!(value, SqlExpr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
        if !is_default {
            return Ok(value.clone());
        }
        let text = crate::columnar::table::default_of(columns.schema.field(at)).unwrap_or("NULL");
        let parsed = Parser::new(&CellarDialect).try_with_sql(text);
        let parsed = parsed.and_then(|mut parser| parser.parse_expr());
        parsed.map_err(|error| Error::syntax(error.to_string()))
    }
}

/// Refuses keys that do not order as their values do.
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

/// A column as rows in the heap have it: times in microseconds.
pub(super) fn in_heap(field: &Field) -> Field {
    let micros = TimeUnit::Microsecond;
    let data_type = match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(micros),
        DataType::Timestamp(_, zone) => DataType::Timestamp(micros, zone.clone()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// Refuses clauses of an UPDATE that would be forgotten.
fn refuse_clauses(update: &Update) -> Result<(), Error> {
    if update.returning.is_some() {
        return Err(Error::not_yet("RETURNING").next("select the rows afterwards"));
    }
    if !update.order_by.is_empty() || update.limit.is_some() || update.or.is_some() {
        return Err(Error::not_yet("ORDER BY, LIMIT and OR of an UPDATE"));
    }
    Ok(())
}

/// The query with the types of the columns that it is for: casts as of an INSERT.
fn fitted(
    plan: LogicalPlan,
    types: &[DataType],
) -> Result<LogicalPlan, datafusion::error::DataFusionError> {
    if types.is_empty() {
        return Ok(plan);
    }
    let names: Vec<String> =
        plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut columns = vec![ident(ROW_ID)];
    for (name, data_type) in names.iter().skip(1).zip(types) {
        columns.push(cast(ident(name.as_str()), data_type.clone()).alias(name));
    }
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The name by which a statement knows the table that it changes.
fn alias_of(table: &TableWithJoins) -> Result<Ident, Error> {
    match &table.relation {
        TableFactor::Table { alias: Some(alias), .. } => Ok(alias.name.clone()),
        TableFactor::Table { name, .. } => name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .cloned()
            .ok_or_else(|| Error::syntax("a table has no name")),
        _ => Err(Error::not_yet("a change of anything but a table")),
    }
}

/// The table with the numbers of its rows, known by the name that it has in the statement.
fn numbered(table: &TableWithJoins) -> Result<TableWithJoins, Error> {
    if !table.joins.is_empty() {
        return Err(Error::not_yet("a change of a join").next("use FROM, or USING"));
    }
    let mut numbered = table.clone();
    let known_as = alias_of(table)?;
    if let TableFactor::Table { name, alias, .. } = &mut numbered.relation {
        let own = TableReference::parse_str(&name.to_string());
        *name = ObjectName::from(vec![Ident::with_quote('"', with_row_ids(own.table()))]);
        if alias.is_none() {
            *alias =
                Some(TableAlias { explicit: true, name: known_as, columns: Vec::new(), at: None });
        }
    }
    Ok(numbered)
}

/// The number of a row.
fn number_of(alias: &Ident) -> SelectItem {
    SelectItem::UnnamedExpr(SqlExpr::CompoundIdentifier(vec![
        alias.clone(),
        Ident::with_quote('"', ROW_ID),
    ]))
}

fn query_of(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<SqlExpr>,
) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        window_before_qualify: false,
        qualify: None,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
