//! UPDATE and DELETE of tables in the heap.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use cellar_instance::catalog::{Identity, Rights};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, cast, ident};
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Delete, Expr as SqlExpr, FromTable, Ident, ObjectName, Query, SelectItem,
    Statement as SqlStatement, Update, UpdateTableFromKind, With,
};
use futures_util::TryStreamExt;

use super::Effect;
use super::assignable::check_plan;
use super::returning::Returning;
use super::target::{alias_of, column, is_default, number_of, numbered, query_of, value_of};
use crate::engine::Engine;
use crate::error::Error;
use crate::rows::{Change, Changed, Checks, ROW_ID, RowColumns, Scope};

/// What is done with rows.
#[derive(Clone, Copy)]
enum Work<'a> {
    /// These columns get new values.
    Update(&'a [usize]),
    Delete,
}

/// The rows that a statement changes, as a query: their numbers, then the new values of the columns it sets.
pub(super) struct Selected {
    pub columns: RowColumns,
    pub query: Query,
    pub assigned: Vec<usize>,
    /// Whether other tables can be named too.
    pub has_more: bool,
}

/// The columns that an UPDATE sets, and their new values.
type Assigned = Vec<(usize, SqlExpr)>;

impl Engine {
    /// UPDATE of a table in the heap.
    pub(super) async fn update_rows(
        &self,
        scope: &Scope,
        with: Option<With>,
        update: Update,
    ) -> Result<Effect, Error> {
        let alias = alias_of(&update.table)?;
        let returning = update.returning.clone();
        let Selected { columns, query, assigned, has_more } =
            self.selected_by_update(with, update)?;
        let names = assigned.iter().map(|at| columns.schema.field(*at).name().as_str());
        self.check_columns(&columns.name, Rights::UPDATE, names)?;
        let returning = returning.map(|items| Returning::new(items, alias, has_more));
        self.check_returning(&columns, returning.as_ref())?;
        let columns = scope.current(&Arc::new(columns)).await?;
        Box::pin(self.change_rows(scope, &columns, query, Work::Update(&assigned), returning)).await
    }

    /// The query for the rows that an UPDATE changes, with the new values.
    pub(super) fn selected_by_update(
        &self,
        with: Option<With>,
        update: Update,
    ) -> Result<Selected, Error> {
        refuse_clauses(&update)?;
        let mut from = vec![numbered(&update.table)?];
        match update.from {
            None => {}
            Some(UpdateTableFromKind::AfterSet(more)) => from.extend(more),
            Some(UpdateTableFromKind::BeforeSet(_)) => {
                return Err(Error::not_yet("FROM before SET").next("write it behind SET"));
            }
        }
        let columns = self.target(&update.table)?;
        let alias = alias_of(&update.table)?;
        let (mut assigned, mut items) =
            (Vec::new(), vec![SelectItem::UnnamedExpr(number_of(&alias))]);
        for (at, expr) in assignments(&columns, &update.assignments)? {
            let alias = Ident::with_quote('"', format!("\u{1}{}", assigned.len()));
            items.push(SelectItem::ExprWithAlias { expr, alias });
            assigned.push(at);
        }
        let has_more = from.len() > 1;
        let query = Query { with, ..query_of(items, from, update.selection) };
        Ok(Selected { columns, query, assigned, has_more })
    }

    /// DELETE from a table in the heap.
    pub(super) async fn delete_rows(
        &self,
        scope: &Scope,
        with: Option<With>,
        delete: Delete,
    ) -> Result<Effect, Error> {
        let returning = delete.returning.clone();
        let (alias, Selected { columns, query, has_more, .. }) =
            self.selected_by_delete(with, delete)?;
        self.check_whole(&columns.name, Rights::DELETE)?;
        let returning = returning.map(|items| Returning::new(items, alias, has_more));
        self.check_returning(&columns, returning.as_ref())?;
        let columns = scope.current(&Arc::new(columns)).await?;
        Box::pin(self.change_rows(scope, &columns, query, Work::Delete, returning)).await
    }

    /// The name of the table in a DELETE, and the query for the rows that go.
    pub(super) fn selected_by_delete(
        &self,
        with: Option<With>,
        delete: Delete,
    ) -> Result<(Ident, Selected), Error> {
        if !delete.tables.is_empty() || !delete.order_by.is_empty() || delete.limit.is_some() {
            return Err(Error::not_yet("DELETE of several tables, or with ORDER BY or LIMIT"));
        }
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [target] = &tables[..] else {
            return Err(Error::not_yet("DELETE from several tables").next("use USING"));
        };
        let columns = self.target(target)?;
        let alias = alias_of(target)?;
        let mut from = vec![numbered(target)?];
        from.extend(delete.using.unwrap_or_default());
        let has_more = from.len() > 1;
        let items = vec![SelectItem::UnnamedExpr(number_of(&alias))];
        let query = Query { with, ..query_of(items, from, delete.selection) };
        Ok((alias, Selected { columns, query, assigned: Vec::new(), has_more }))
    }

    /// Runs a query for rows, and changes these rows.
    async fn change_rows(
        &self,
        scope: &Scope,
        columns: &RowColumns,
        mut query: Query,
        work: Work<'_>,
        mut returning: Option<Returning>,
    ) -> Result<Effect, Error> {
        if let Some(returning) = &mut returning {
            self.ask_for_others(returning, &mut query).await?;
        }
        let assigned: &[usize] = match work {
            Work::Update(assigned) => assigned,
            Work::Delete => &[],
        };
        let types: Vec<DataType> =
            assigned.iter().map(|at| columns.schema.field(*at).data_type().clone()).collect();
        let state = self.state();
        let plan = self.plan_of(SqlStatement::Query(Box::new(query))).await?;
        check_plan(columns, &plan, 1, assigned)?;
        let plan = fitted(plan, &types).map_err(|e| self.failure(&e))?;
        let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(|e| self.failure(&e))?;
        let checks = Checks::of(&state, columns)?;
        let wants_rows = returning.is_some();
        let change = Change { columns, checks: &checks, scope, wants_rows };
        let (changed, verb) = match work {
            Work::Update(assigned) => (change.update(assigned, &batches).await?, "updated"),
            Work::Delete => (change.delete(&batches).await?, "deleted"),
        };
        let written = match changed {
            Changed::Rows(written) => written,
            Changed::Again => return Ok(Effect::Again),
        };
        match returning {
            None => Ok(Effect::Count(written.count, verb)),
            Some(returning) => {
                let first = 1 + assigned.len();
                Box::pin(self.returned(columns, returning, written, (&batches, first))).await
            }
        }
    }
}

/// The columns that are set, each once, and their values.
pub(super) fn assignments(
    columns: &RowColumns,
    assignments: &[datafusion::sql::sqlparser::ast::Assignment],
) -> Result<Assigned, Error> {
    let mut assigned: Assigned = Vec::new();
    let mut assign = |name: &ObjectName, value: &SqlExpr| {
        let at = column(columns, name)?;
        if assigned.iter().any(|(own, _)| *own == at) {
            let text = format!("column \"{}\" is set twice", columns.schema.field(at).name());
            return Err(Error::new(957, "42601", text));
        }
        let mut owned = columns.rows.owned.iter().filter(|owned| owned.column == at);
        if owned.any(|owned| owned.identity == Some(Identity::Always)) && !is_default(value) {
            let name = columns.schema.field(at).name();
            let text = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(Error::new(32796, "428C9", text).next("it is GENERATED ALWAYS"));
        }
        assigned.push((at, value_of(columns, at, value)?));
        Ok(())
    };
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => assign(name, value)?,
            (AssignmentTarget::Tuple(names), SqlExpr::Tuple(values)) => {
                if names.len() != values.len() {
                    let text = format!("{} columns and {} values", names.len(), values.len());
                    return Err(Error::new(947, "42601", text)
                        .next("give each column of SET ( .. ) = ( .. ) one value"));
                }
                for (name, value) in names.iter().zip(values) {
                    assign(name, value)?;
                }
            }
            (AssignmentTarget::Tuple(names), SqlExpr::Nested(value)) if names.len() == 1 => {
                assign(&names[0], value)?;
            }
            (AssignmentTarget::Tuple(_), _) => {
                return Err(Error::not_yet("SET (a, b) = (SELECT ..)")
                    .next("join the query in FROM, and assign the columns one by one"));
            }
        }
    }
    Ok(assigned)
}

/// Refuses clauses of an UPDATE that would be ignored.
fn refuse_clauses(update: &Update) -> Result<(), Error> {
    if !update.order_by.is_empty() || update.limit.is_some() || update.or.is_some() {
        return Err(Error::not_yet("ORDER BY, LIMIT and OR of an UPDATE"));
    }
    Ok(())
}

/// The query with its columns cast to the target columns' types, as for an INSERT; any further ones stay.
fn fitted(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan, DataFusionError> {
    if types.is_empty() {
        return Ok(plan);
    }
    let names: Vec<String> =
        plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut columns = vec![ident(ROW_ID)];
    for (at, name) in names.iter().enumerate().skip(1) {
        columns.push(match types.get(at - 1) {
            Some(data_type) => cast(ident(name.as_str()), data_type.clone()).alias(name),
            None => ident(name.as_str()),
        });
    }
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
