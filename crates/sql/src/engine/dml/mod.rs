//! Statements that change or lock rows of tables in the heap. UPDATE and DELETE run a query for row
//! numbers, and then change these rows: DataFusion's own hooks would drop predicates.

mod assignable;
mod change;
mod hoist;
mod insert;
mod locking;
mod returning;
mod shown;
mod target;
mod with;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_recursion::async_recursion as boxed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Insert, Query, SetExpr, Statement as SqlStatement, TableObject, With,
};
use futures_util::{TryStreamExt, stream};

pub(super) use self::target::{query_over, table_named};
use crate::allowed;
use crate::engine::{Engine, Outcome};
use crate::error::Error;
use crate::rows::{PLANNED_BEFORE, Scope};

/// Retries after which a statement is given up because others keep changing its rows.
pub(super) const TRIES: usize = 1000;

/// What became of a statement that changes rows.
pub(super) enum Effect {
    /// The number of rows that were changed.
    Count(u64, &'static str),
    /// Rows were changed, and the statement returns them.
    Rows(SchemaRef, Vec<RecordBatch>),
    /// Others have changed a row meanwhile: the statement must be run again.
    Again,
}

impl Effect {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Effect::Count(count, verb) => Outcome::Changed(count, verb),
            Effect::Rows(schema, batches) => {
                let rows = stream::iter(batches.into_iter().map(Ok));
                Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
            }
            Effect::Again => unreachable!("it was run again"),
        }
    }
}

/// The error for a statement whose rows others keep changing.
pub(super) fn changed_again_and_again() -> Error {
    let text = format!("others have changed the rows {TRIES} times meanwhile");
    Error::new(8177, "40001", text).next("run the statement again")
}

/// Whether a query changes rows, in its body or in a WITH.
pub(super) fn changes(query: &Query) -> bool {
    let is_change = |body: &SetExpr| {
        matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
    };
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    is_change(&query.body) || with.into_iter().any(|cte| is_change(&cte.query.body))
}

impl Engine {
    /// Runs a statement that changes or locks rows of tables in the heap; `None`: it is another one.
    ///
    /// Also returns the scope of the last attempt.
    pub(super) async fn changing(
        &self,
        scope: &Scope,
        statement: &DfStatement,
    ) -> Option<Result<(Outcome, Scope), Error>> {
        let DfStatement::Statement(inner) = statement else { return None };
        let is_ours = match inner.as_ref() {
            SqlStatement::Update(_) | SqlStatement::Delete(_) => true,
            SqlStatement::Insert(insert) => self.is_of_rows(insert),
            SqlStatement::Query(query) => changes(query) || allowed::locks_rows(query),
            _ => false,
        };
        if !is_ours {
            return None;
        }
        Some(self.changed(scope.clone(), inner).await)
    }

    pub(super) fn is_of_rows(&self, insert: &Insert) -> bool {
        matches!(&insert.table, TableObject::TableName(name) if self.is_row_table(&name.to_string()))
    }

    /// Runs it, retrying if others have changed a row meanwhile.
    async fn changed(
        &self,
        mut scope: Scope,
        statement: &SqlStatement,
    ) -> Result<(Outcome, Scope), Error> {
        for _ in 0..TRIES {
            let savepoint = scope.savepoint().await?;
            let (mut statement, mut made) = (statement.clone(), Vec::new());
            let effect = match self.lock_within(&scope, &mut statement, &mut made).await {
                Ok(true) => self.change(&scope, None, statement).await,
                Ok(false) => Ok(Effect::Again),
                Err(error) => Err(error),
            };
            let effect = match effect {
                Err(error) if error.number == PLANNED_BEFORE => Effect::Again,
                effect => effect?,
            };
            match effect {
                Effect::Again => {
                    scope = scope.anew(savepoint).await?;
                    self.set_scope(Some(scope.clone()));
                }
                effect => return Ok((effect.outcome(), scope)),
            }
        }
        Err(changed_again_and_again())
    }

    /// Runs a statement that changes rows once. `with`: what a WITH before it names.
    #[boxed]
    async fn change(
        &self,
        scope: &Scope,
        with: Option<With>,
        statement: SqlStatement,
    ) -> Result<Effect, Error> {
        match statement {
            SqlStatement::Update(update) => {
                scope.check_writable()?;
                Box::pin(self.update_rows(scope, with, update)).await
            }
            SqlStatement::Delete(delete) => {
                scope.check_writable()?;
                Box::pin(self.delete_rows(scope, with, delete)).await
            }
            SqlStatement::Insert(insert) => {
                scope.check_writable()?;
                Box::pin(self.insert_rows(scope, with, insert)).await
            }
            SqlStatement::Query(query) => Box::pin(self.change_in_query(scope, *query)).await,
            _ => Err(Error::not_yet("this change of rows")),
        }
    }

    /// Runs a query whose parts may change rows, or lock them.
    async fn change_in_query(&self, scope: &Scope, mut query: Query) -> Result<Effect, Error> {
        let mut made = Vec::new();
        if let Some(with) = query.with.take() {
            match self.changes_of_with(scope, with, &mut made).await? {
                Some(with) => query.with = with,
                None => return Ok(Effect::Again),
            }
        }
        match *query.body {
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement) => self.change(scope, query.with, statement).await,
            _ if !query.locks.is_empty() => self.lock_rows(scope, query).await,
            _ => Box::pin(self.rows_of(query)).await,
        }
    }

    /// The plan of a statement.
    pub(super) async fn plan_of(&self, statement: SqlStatement) -> Result<LogicalPlan, Error> {
        let statement = DfStatement::Statement(Box::new(statement));
        match self.state().statement_to_plan(statement.clone()).await {
            Ok(plan) => Ok(plan),
            Err(e) => Err(self.missing_table(&statement).unwrap_or_else(|| self.failure(&e))),
        }
    }

    /// All rows of a query.
    async fn rows_of(&self, query: Query) -> Result<Effect, Error> {
        let statement = SqlStatement::Query(Box::new(query));
        match self.plan_and_run(DfStatement::Statement(Box::new(statement))).await? {
            Outcome::Rows(stream) => {
                let schema = stream.schema();
                let batches = stream.try_collect().await.map_err(|e| self.failure(&e))?;
                Ok(Effect::Rows(schema, batches))
            }
            _ => Err(Error::new(600, "XX000", "a query gave no rows")),
        }
    }
}
