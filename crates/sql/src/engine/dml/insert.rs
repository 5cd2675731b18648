//! INSERT into tables in the heap.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use cellar_instance::catalog::{Identity, Rights};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    Expr as PlanExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WriteOp, lit,
};
use datafusion::sql::sqlparser::ast::{
    Assignment, ConflictTarget, DoUpdate, Expr, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, Query, SelectItem, SetExpr, Statement as SqlStatement, TableObject,
    Values, With,
};
use futures_util::TryStreamExt;

use super::Effect;
use super::assignable::{check_assigned, check_plan, check_values};
use super::change::assignments;
use super::returning::{Returning, named_in};
use super::target::{is_default, query_of, value_of};
use crate::engine::Engine;
use crate::error::Error;
use crate::names::folded;
use crate::parse::overriding::{self, Overriding};
use crate::rows::{
    Change, Changed, Checks, Conflict, OnUpdate, RowColumns, Scope, Sink, Written, defaults, parsed,
};
use crate::walk;

impl Engine {
    /// INSERT INTO a table in the heap.
    pub(super) async fn insert_rows(
        &self,
        scope: &Scope,
        with: Option<With>,
        mut insert: Insert,
    ) -> Result<Effect, Error> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::not_yet("INSERT into anything but a table"));
        };
        let reference = TableReference::parse_str(&name.to_string());
        self.check_own(&reference)?;
        let Some(columns) = self.row_table(&reference)? else {
            if self.is_columnar(reference.table()) {
                let what = "INSERT into a columnar table behind a WITH that changes rows";
                return Err(Error::not_yet(what).next("make it a table USING heap"));
            }
            let text = format!("the table \"{}\" was dropped meanwhile", reference.table());
            return Err(Error::new(942, "42P01", text));
        };
        let alias = alias_of(&insert, name)?;
        let (on, returning) = (insert.on.take(), insert.returning.take());
        // DataFusion does not support an alias of an INSERT's table.
        (insert.table_alias, insert.insert_alias) = (None, None);
        insert.source = insert.source.map(|source| Box::new(with_before(with, *source)));
        let overriding = overriding::take(&mut insert);
        self.check_identities(&columns, &mut insert, overriding).await?;
        insert.source = Some(Box::new(self.source_of(&columns, &mut insert).await?));
        self.check_insert_rights(&columns, &insert, on.as_ref())?;
        let columns = match on {
            None => scope.locked(&Arc::new(columns)).await?,
            Some(_) => scope.current(&Arc::new(columns)).await?,
        };
        let conflict = on.map(|on| self.conflict(&columns, &alias, on)).transpose()?;
        let returning = returning.map(|items| Returning::new(items, alias, false));
        self.check_returning(&columns, returning.as_ref())?;
        let (input, columns) = (self.plan_insert(insert, &columns).await?, columns);
        let checks = Checks::of(&self.state(), &columns)?;
        let wants_rows = returning.is_some();
        let change = Change { columns: &columns, checks: &checks, scope, wants_rows };
        let mut batches = self.stream(input).await.map_err(|e| self.failure(&e))?;
        if conflict.is_none() && returning.is_none() {
            let mut sink = Sink::new(&change);
            while let Some(batch) = batches.try_next().await.map_err(|e| self.failure(&e))? {
                sink.add(&batch).await?;
            }
            return Ok(Effect::Count(sink.finish().await?, "inserted"));
        }
        let (mut written, mut touched) = (Written::default(), HashSet::new());
        while let Some(batch) = batches.try_next().await.map_err(|e| self.failure(&e))? {
            match insert_batch(&change, &batch, conflict.as_ref(), &mut touched).await? {
                Changed::Rows(more) => written.extend(more),
                Changed::Again => return Ok(Effect::Again),
            }
        }
        match returning {
            None => Ok(Effect::Count(written.count, "inserted")),
            Some(returning) => {
                Box::pin(self.returned(&columns, returning, written, (&[], 0))).await
            }
        }
    }

    /// Refuses a role that may not insert values into these columns, or not update existing rows.
    fn check_insert_rights(
        &self,
        columns: &RowColumns,
        insert: &Insert,
        on: Option<&OnInsert>,
    ) -> Result<(), Error> {
        let Some(asking) = self.asking()? else { return Ok(()) };
        let key = columns.name.as_str();
        let named: Vec<String> = insert.columns.iter().map(last_of).collect();
        let all = columns.schema.fields().iter().map(|field| field.name().as_str());
        match named.is_empty() {
            true => asking.may_with(key, Rights::INSERT, all)?,
            false => {
                asking.may_with(key, Rights::INSERT, named.iter().map(String::as_str))?;
            }
        }
        let Some(OnInsert::OnConflict(on)) = on else { return Ok(()) };
        let mut read: BTreeSet<String> = BTreeSet::new();
        match &on.conflict_target {
            Some(ConflictTarget::Columns(names)) => read.extend(names.iter().map(folded)),
            Some(ConflictTarget::OnConstraint(_)) => {
                let all = columns.schema.fields().iter().map(|field| field.name().clone());
                read.extend(all);
            }
            None => {}
        }
        if let OnConflictAction::DoUpdate(DoUpdate { assignments: set, selection }) = &on.action {
            let places = assignments(columns, set)?.into_iter().map(|(at, _)| at);
            let names: Vec<&str> =
                places.map(|at| columns.schema.field(at).name().as_str()).collect();
            asking.may_with(key, Rights::UPDATE, names)?;
            let values = set.iter().map(|assignment| &assignment.value).chain(selection);
            values.for_each(|value| read.extend(named_in(value, &columns.schema)));
        }
        match read.is_empty() {
            true => Ok(()),
            false => asking.may_with(key, Rights::SELECT, read.iter().map(String::as_str)),
        }
    }

    /// The plan of the rows that an INSERT adds: all columns of the table.
    async fn plan_insert(
        &self,
        mut insert: Insert,
        columns: &RowColumns,
    ) -> Result<LogicalPlan, Error> {
        if !insert.columns.is_empty() {
            let named = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident());
            let named: Vec<String> = named.map(folded).collect();
            for (name, value) in defaults(&self.state(), columns) {
                if !named.contains(&name) {
                    value?;
                }
            }
        }
        let places = places_of(&insert, columns)?;
        let is_values = |query: &Query| {
            query.with.is_none() && matches!(query.body.as_ref(), SetExpr::Values(_))
        };
        if let Some(query) = insert.source.take_if(|query| !is_values(query)) {
            return self.plan_selected(*query, columns, &places).await;
        }
        let plan = self.plan_of(SqlStatement::Insert(insert)).await?;
        let LogicalPlan::Dml(dml) = plan else { return Err(Error::not_yet("this INSERT")) };
        if dml.op != WriteOp::Insert(InsertOp::Append) {
            return Err(Error::not_yet(format!("{} of a table in the heap", dml.op)));
        }
        if columns.schema.fields().len() != dml.input.schema().fields().len() {
            let text = format!("table \"{}\" was changed meanwhile", columns.name);
            return Err(Error::new(942, "42P01", text).next("run the statement again"));
        }
        check_values(columns, &dml.input, &places)?;
        Ok(dml.input.as_ref().clone())
    }

    /// The plan of the rows that a query adds. It is planned by itself: DataFusion would take every VALUES in it for
    /// rows of the table.
    async fn plan_selected(
        &self,
        query: Query,
        columns: &RowColumns,
        places: &[usize],
    ) -> Result<LogicalPlan, Error> {
        let plan = self.plan_of(SqlStatement::Query(Box::new(query))).await?;
        check_plan(columns, &plan, 0, places)?;
        let failed = |error| self.failure(&error);
        let mut given: BTreeMap<String, PlanExpr> = BTreeMap::new();
        for (name, value) in defaults(&self.state(), columns) {
            if let Ok(value) = value {
                given.insert(name, value);
            }
        }
        let mut exprs = Vec::with_capacity(columns.schema.fields().len());
        for (at, field) in columns.schema.fields().iter().enumerate() {
            let own = match places.iter().position(|place| *place == at) {
                Some(from) => PlanExpr::Column(Column::from(plan.schema().qualified_field(from))),
                None => given.remove(field.name()).unwrap_or(lit(ScalarValue::Null)),
            };
            let own = own.cast_to(field.data_type(), plan.schema()).map_err(failed)?;
            exprs.push(own.alias(field.name()));
        }
        let made = LogicalPlanBuilder::from(plan).project(exprs);
        made.and_then(LogicalPlanBuilder::build).map_err(failed)
    }

    /// The rows to insert, with each DEFAULT replaced by its value, and the target columns named. Rows with
    /// fewer values than the table has columns are for its first columns.
    async fn source_of(&self, columns: &RowColumns, insert: &mut Insert) -> Result<Query, Error> {
        let fields = columns.schema.fields();
        let Some(mut source) = insert.source.take().map(|source| *source) else {
            if !insert.assignments.is_empty() {
                return Err(Error::not_yet("INSERT .. SET").next("use VALUES"));
            }
            // DEFAULT VALUES.
            let defaults = (0..fields.len()).map(|at| {
                let alias = Ident::with_quote('"', fields[at].name());
                let expr = value_of(columns, at, &Expr::Identifier(Ident::new("DEFAULT")))?;
                Ok(SelectItem::ExprWithAlias { expr, alias })
            });
            return Ok(query_of(defaults.collect::<Result<_, Error>>()?, Vec::new(), None));
        };
        let names = insert.columns.clone();
        let places = match names.is_empty() {
            true => (0..fields.len()).collect(),
            false => {
                let place = |name| super::target::column(columns, name);
                names.iter().map(place).collect::<Result<Vec<usize>, Error>>()?
            }
        };
        let count = match &mut *source.body {
            SetExpr::Values(values) => {
                fill_in(columns, &places, values)?;
                let counts = values.rows.iter().map(|row| row.content.len());
                let wrong = counts.clone().find(|count| *count > places.len());
                wrong.or_else(|| counts.min()).unwrap_or(0)
            }
            _ => self.columns_of(&source).await?,
        };
        check_count(columns, count, (places.len(), !names.is_empty()))?;
        if names.is_empty() && count < fields.len() {
            let named = fields.iter().take(count).map(|field| Ident::with_quote('"', field.name()));
            insert.columns = named.map(|name| ObjectName::from(vec![name])).collect();
        }
        Ok(source)
    }

    /// Refuses values for identity columns, or discards them, as OVERRIDING says.
    async fn check_identities(
        &self,
        columns: &RowColumns,
        insert: &mut Insert,
        overriding: Option<Overriding>,
    ) -> Result<(), Error> {
        let ours = columns.rows.owned.iter().filter(|owned| match (owned.identity, overriding) {
            (None, _) | (_, Some(Overriding::System)) => false,
            (Some(_), Some(Overriding::User)) => true,
            (Some(identity), None) => identity == Identity::Always,
        });
        let ours: Vec<usize> = ours.map(|owned| owned.column).collect();
        let (Some(source), false) = (&mut insert.source, ours.is_empty()) else { return Ok(()) };
        let place = |name: &ObjectName| super::target::column(columns, name);
        let named = insert.columns.iter().map(place).collect::<Result<Vec<usize>, Error>>()?;
        let places =
            if named.is_empty() { (0..columns.schema.fields().len()).collect() } else { named };
        let ours = places.iter().enumerate().filter(|(_, column)| ours.contains(column));
        let ours: Vec<(usize, usize)> = ours.map(|(place, column)| (place, *column)).collect();
        let SetExpr::Values(values) = source.body.as_mut() else {
            let count = self.columns_of(source).await?;
            return match ours.into_iter().find(|(place, _)| *place < count) {
                None => Ok(()),
                Some((_, column)) if overriding.is_none() => Err(not_given(columns, column)),
                Some(_) => Err(Error::not_yet("OVERRIDING USER VALUE of a query")
                    .next("leave the column out of the query")),
            };
        };
        for row in &mut values.rows {
            for (place, column) in &ours {
                let Some(value) = row.content.get_mut(*place) else { continue };
                if overriding.is_some() {
                    *value = Expr::Identifier(Ident::new("DEFAULT"));
                } else if !is_default(value) {
                    return Err(not_given(columns, *column));
                }
            }
        }
        Ok(())
    }

    /// How many columns a query returns.
    async fn columns_of(&self, query: &Query) -> Result<usize, Error> {
        let plan = self.plan_of(SqlStatement::Query(Box::new(query.clone()))).await?;
        Ok(plan.schema().fields().len())
    }

    /// The action for rows whose key exists already.
    fn conflict(
        &self,
        columns: &RowColumns,
        alias: &Ident,
        on: OnInsert,
    ) -> Result<Conflict, Error> {
        let OnInsert::OnConflict(OnConflict { conflict_target, action }) = on else {
            return Err(
                Error::not_yet("ON DUPLICATE KEY UPDATE").next("ON CONFLICT (..) DO UPDATE")
            );
        };
        let arbiter = conflict_target.map(|target| arbiter(columns, target)).transpose()?;
        let OnConflictAction::DoUpdate(DoUpdate { assignments: set, selection }) = action else {
            return Ok(Conflict { arbiter, update: None, values: Vec::new() });
        };
        if arbiter.is_none() {
            return Err(Error::syntax("ON CONFLICT DO UPDATE needs the columns of a unique key")
                .next("name them: ON CONFLICT (id) DO UPDATE SET .."));
        }
        refuse_queries(&set, selection.as_ref())?;
        let state = self.state();
        let names = OnUpdate::names(columns, &folded(alias))?;
        let value = |(at, value)| Ok((at, parsed(&state, value, &names)?));
        let values = assignments(columns, &set)?.into_iter().map(value);
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        check_assigned(columns, &values, &names)?;
        let condition = selection.map(|expr| parsed(&state, expr, &names)).transpose()?;
        let update = OnUpdate::new(&state, columns, &names, values, condition)?;
        Ok(Conflict { arbiter, update: Some(Arc::new(update)), values: Vec::new() })
    }
}

fn last_of(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

async fn insert_batch(
    change: &Change<'_>,
    batch: &RecordBatch,
    conflict: Option<&Conflict>,
    touched: &mut HashSet<u64>,
) -> Result<Changed, Error> {
    match conflict {
        None => Ok(Changed::Rows(change.insert(batch).await?)),
        Some(conflict) => change.insert_or(batch, conflict, touched).await,
    }
}

/// Refuses queries in DO UPDATE.
fn refuse_queries(set: &[Assignment], selection: Option<&Expr>) -> Result<(), Error> {
    let values = set.iter().map(|assignment| &assignment.value).chain(selection);
    for value in values {
        let is_query = |expr: &Expr| {
            matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
        };
        if walk::any_expr(value, is_query) {
            return Err(Error::not_yet("a query in DO UPDATE")
                .next("select its value with the rows that are inserted, and use EXCLUDED"));
        }
    }
    Ok(())
}

/// The error for a value in a GENERATED ALWAYS column.
fn not_given(columns: &RowColumns, column: usize) -> Error {
    let name = columns.schema.field(column).name();
    let text = format!("a value other than DEFAULT cannot be inserted into column \"{name}\"");
    Error::new(32795, "428C9", text)
        .next("it is GENERATED ALWAYS: leave it out, or insert .. overriding system value ..")
}

/// The name of an INSERT's table within the statement.
fn alias_of(insert: &Insert, name: &ObjectName) -> Result<Ident, Error> {
    if let Some(alias) = &insert.table_alias {
        return Ok(alias.alias.clone());
    }
    let own = name.0.last().and_then(|part| part.as_ident()).cloned();
    own.ok_or_else(|| Error::syntax("a table has no name"))
}

/// The columns that an INSERT gives values for.
fn places_of(insert: &Insert, columns: &RowColumns) -> Result<Vec<usize>, Error> {
    match insert.columns.is_empty() {
        true => Ok((0..columns.schema.fields().len()).collect()),
        false => insert.columns.iter().map(|name| super::target::column(columns, name)).collect(),
    }
}

/// A query in which the names of an outer WITH are visible too.
fn with_before(with: Option<With>, mut query: Query) -> Query {
    query.with = match (with, query.with) {
        (Some(mut outer), Some(inner)) => {
            outer.recursive |= inner.recursive;
            outer.cte_tables.extend(inner.cte_tables);
            Some(outer)
        }
        (outer, inner) => outer.or(inner),
    };
    query
}

/// Refuses rows with too many values, or with too few if columns are named.
fn check_count(
    columns: &RowColumns,
    count: usize,
    (places, is_named): (usize, bool),
) -> Result<(), Error> {
    let (number, what) = match count {
        _ if count > places => (913, "more"),
        _ if is_named && count < places => (947, "fewer"),
        _ => return Ok(()),
    };
    let text = format!("INSERT has {what} values than columns: {count}, and {places}");
    let names: Vec<&str> =
        columns.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let next = format!("the columns of \"{}\" are {}", columns.name, names.join(", "));
    Err(Error::new(number, "42601", text).next(next))
}

/// Replaces each DEFAULT by the default of its column.
fn fill_in(columns: &RowColumns, places: &[usize], values: &mut Values) -> Result<(), Error> {
    for row in &mut values.rows {
        for (value, at) in row.content.iter_mut().zip(places) {
            if is_default(value) {
                *value = value_of(columns, *at, value)?;
            }
        }
    }
    Ok(())
}

/// The index that ON CONFLICT refers to.
fn arbiter(columns: &RowColumns, target: ConflictTarget) -> Result<usize, Error> {
    let indexes = &columns.rows.indexes;
    match target {
        ConflictTarget::OnConstraint(name) => {
            let wanted = name.0.last().and_then(|part| part.as_ident()).map(folded);
            let found = indexes.iter().position(|index| {
                index.constraint.is_some() && Some(&index.name) == wanted.as_ref()
            });
            found.ok_or_else(|| {
                let text = format!("table \"{}\" has no unique constraint {name}", columns.name);
                Error::new(2443, "42704", text).next(known(columns))
            })
        }
        ConflictTarget::Columns(names) => {
            let place = |name: &Ident| {
                super::target::column(columns, &ObjectName::from(vec![name.clone()]))
            };
            let mut wanted = names.iter().map(place).collect::<Result<Vec<usize>, Error>>()?;
            wanted.sort_unstable();
            wanted.dedup();
            let found = indexes.iter().position(|index| {
                let mut own: Vec<usize> =
                    index.columns.iter().map(|column| column.column).collect();
                own.sort_unstable();
                index.is_unique && own == wanted
            });
            found.ok_or_else(|| {
                let text = "no unique constraint has the columns of ON CONFLICT";
                Error::new(2443, "42P10", text).next(known(columns))
            })
        }
    }
}

/// The unique constraints of a table, in words.
fn known(columns: &RowColumns) -> String {
    let unique = columns.rows.indexes.iter().filter(|index| index.is_unique);
    let names: Vec<String> = unique
        .map(|index| {
            let own =
                index.columns.iter().map(|at| columns.schema.field(at.column).name().as_str());
            format!("{} ({})", index.name, own.collect::<Vec<_>>().join(", "))
        })
        .collect();
    match names.is_empty() {
        true => format!("table \"{}\" has none", columns.name),
        false => format!("there are {}", names.join(", ")),
    }
}
