//! The entry of statements into the fast path: finds or makes their plans, runs them, and returns their
//! results.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{DataType, SchemaRef};
use cellar_instance::library::Library;
use datafusion::common::TableReference;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures_util::stream;

use crate::engine::dml::{Effect, TRIES, changed_again_and_again};
use crate::engine::{Engine, Outcome};
use crate::error::{Error, shown};
use crate::fast::{
    Constant, Found, Lexed, Parts, Plan, RunOutcome, Shape, Slots, lex, literals_for,
};
use crate::names;
use crate::parse::parse;
use crate::rows::{PLANNED_BEFORE, RowTables, Scope};
use crate::statement::Statement;

/// The outcome of a statement on the fast path.
#[derive(Debug)]
pub(super) enum FastOutcome {
    Rows(RecordBatch),
    Count(u64, &'static str),
}

impl FastOutcome {
    fn rows(&self) -> u64 {
        match self {
            FastOutcome::Rows(rows) => rows.num_rows() as u64,
            FastOutcome::Count(count, _) => *count,
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        match self {
            FastOutcome::Rows(rows) => {
                let schema = rows.schema();
                let rows = stream::once(std::future::ready(Ok(rows)));
                Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
            }
            FastOutcome::Count(count, verb) => Effect::Count(count, verb).outcome(),
        }
    }
}

impl Engine {
    /// The tables in the heap, if statements may take the fast path to them.
    pub(super) fn fast_rows(&self) -> Option<&RowTables> {
        let is_fast = self.settings.now().is_fast;
        self.host.rows().filter(|rows| is_fast && rows.are_open())
    }

    /// Runs a statement by the fast path; `None`: it takes the common path, and nothing has happened.
    pub(super) async fn by_fast_path(&self, sql: &str) -> Result<Option<Outcome>, Error> {
        let Some(rows) = self.fast_rows() else { return Ok(None) };
        let Some(lexed) = lex(sql) else { return Ok(None) };
        let Some(plan) = self.fast_plan(rows, &lexed, &lexed.text, &[]).await else {
            return Ok(None);
        };
        let Some(values) = values_of(&plan.slots, Vec::new(), &lexed.constants, rows) else {
            return Ok(None);
        };
        Ok(self.run_plan(rows, &plan, &values).await?.map(FastOutcome::outcome))
    }

    /// The plan of a statement with parameters of these types. `key`: its key in the cache.
    pub(super) async fn fast_plan(
        &self,
        rows: &RowTables,
        lexed: &Lexed,
        key: &str,
        parameters: &[DataType],
    ) -> Option<Arc<Plan>> {
        let catalog = rows.catalog().ok()?;
        let library = rows.database().instance().library();
        let key = &*self.plan_key(key);
        let zone = &self.settings.now().zone;
        // With a search path, another session's new object may shadow the one that a name resolved to.
        let is_plain = self.paths.is_plain();
        // A transaction's own definitions are visible only to it.
        let is_common = is_plain && rows.sees_what_all_see();
        let common = is_common.then_some(&self.planner.common.plans);
        for plans in common.into_iter().chain([&self.plans]) {
            match plans.find(zone, key, &catalog, is_plain) {
                Found::Plan(plan) => {
                    library.hit(&plan.cursor);
                    return Some(plan);
                }
                Found::Declined => return None,
                Found::Stale => library.invalidated(),
                Found::Nothing => {}
            }
        }
        library.missed();
        let (plan, is_own) = match Box::pin(self.parts(rows, lexed, parameters)).await {
            Some(parts) => self.planned(parts, library, is_common),
            None => (None, !is_common),
        };
        let plan = plan.map(Arc::new);
        let plans = if is_own { &self.plans } else { &self.planner.common.plans };
        if plans.keep(zone, key.to_owned(), catalog, plan.clone()) {
            library.evicted();
        }
        plan
    }

    /// Makes a plan; returns it and whether only this session may use it. `None`: the fast path has none for
    /// the statement.
    fn planned(&self, parts: Parts, library: &Library, is_common: bool) -> (Option<Plan>, bool) {
        if is_common {
            let mut state = self.planner.common.state.clone();
            let zone = parts.slots.zone.to_string();
            state.config_mut().options_mut().execution.time_zone = Some(zone);
            // Functions that depend on a session are not registered there.
            if let Some(plan) = Plan::of(&state, library, parts.clone()) {
                return (Some(plan), false);
            }
        }
        let plan = Plan::of(&self.state(), library, parts);
        let is_own = plan.is_some() || !is_common;
        (plan, is_own)
    }

    /// What a plan is made of; `None`: the fast path has none for the statement.
    async fn parts(
        &self,
        rows: &RowTables,
        lexed: &Lexed,
        parameters: &[DataType],
    ) -> Option<Parts> {
        let Ok(Statement::Query(statement)) = parse(&lexed.text) else { return None };
        let DfStatement::Statement(statement) = *statement else { return None };
        let statement = Box::new(self.resolved_sql(*statement).ok()?);
        let is_query = matches!(*statement, SqlStatement::Query(_));
        let shape = Arc::new(Shape::of((*statement).clone())?);
        let reference = TableReference::parse_str(&shape.table.to_string());
        self.check_own(&reference).ok()?;
        let columns = Arc::new(self.row_table(&reference).ok()??);
        let (table, _) = rows.table(reference.table())?;
        let schema = match is_query {
            true => Some(self.schema_of_query(*statement).await?),
            false => None,
        };
        let constants = lexed.constants.iter().enumerate();
        let constants = constants.map(|(at, own)| (own.placeholder(at), own.data_type()));
        let (constants, parameters) = (constants.collect(), parameters.to_vec());
        let slots = Slots {
            parameters,
            constants,
            has_now: false,
            zone: Arc::clone(&self.settings.now().zone),
        };
        let text = lexed.text.clone();
        Some(Parts { table, columns, shape, slots, text, schema })
    }

    /// The rows that a query returns, according to DataFusion's plan of it.
    async fn schema_of_query(&self, mut statement: SqlStatement) -> Option<SchemaRef> {
        literals_for(&mut statement);
        if let SqlStatement::Query(query) = &mut statement {
            // Locks do not affect the schema of the rows.
            query.locks.clear();
        }
        let mut statement = DfStatement::Statement(Box::new(statement));
        self.prepare(&mut statement).await.ok()?;
        let plan = self.state().statement_to_plan(statement).await.ok()?;
        let schema = Arc::clone(plan.schema().inner());
        let schema = names::shown_schema(&schema).unwrap_or(schema);
        Some(self.origins(&plan).tell(schema))
    }

    /// Runs a plan as a statement of the session; `None`: it takes the common path, and nothing has
    /// happened.
    pub(super) async fn run_plan(
        &self,
        rows: &RowTables,
        plan: &Plan,
        values: &[ArrayRef],
    ) -> Result<Option<FastOutcome>, Error> {
        // A role that may not do it with the whole table is checked column by column on the common path.
        if !self.may_run(rows, plan)? {
            return Ok(None);
        }
        let began = rows.database().env().now();
        let _turn = self.turn.lock().await;
        let mut scope = rows.begin_statement().await?;
        let told = match run(&mut scope, plan, values).await {
            Ok(RunOutcome::Rows(rows)) => FastOutcome::Rows(rows),
            Ok(RunOutcome::Count(count, verb)) => FastOutcome::Count(count, verb),
            Ok(RunOutcome::Again) => {
                rows.end_statement(&scope, false).await?;
                return Err(changed_again_and_again());
            }
            Ok(RunOutcome::Declined) => {
                match scope.in_block {
                    true => rows.leave_statement(),
                    false => rows.end_statement(&scope, false).await?,
                }
                return Ok(None);
            }
            Err(error) => {
                rows.end_statement(&scope, false).await?;
                return Err(error);
            }
        };
        if let Err(error) = self.settle_references(&scope).await {
            rows.end_statement(&scope, false).await?;
            return Err(error);
        }
        if self.paths.has_temporary() && plan.changes() && !scope.in_block {
            let in_scope = self.in_scope(scope.clone());
            let left = Box::pin(self.on_commit(&scope)).await;
            drop(in_scope);
            if let Err(error) = left {
                rows.end_statement(&scope, false).await?;
                return Err(error);
            }
        }
        let kept = rows.keep_values().await;
        rows.end_statement(&scope, kept.is_ok()).await?;
        kept?;
        let nanos = rows.database().env().now().0.saturating_sub(began.0);
        plan.cursor.executed(told.rows(), nanos);
        Ok(Some(told))
    }

    /// Whether the role of the session may do what a plan does, with all columns of its table.
    fn may_run(&self, rows: &RowTables, plan: &Plan) -> Result<bool, Error> {
        Ok(self.settings.is_owner()
            || self.settings.may(&rows.catalog()?, &plan.columns.name, plan.needs()))
    }

    /// A line for EXPLAIN of a statement that takes the fast path.
    pub(super) async fn explained_fast(&self, statement: &DfStatement) -> Option<String> {
        let rows = self.fast_rows()?;
        let lexed = lex(&statement.to_string())?;
        let plan = self.fast_plan(rows, &lexed, &lexed.text, &[]).await?;
        self.may_run(rows, &plan).ok().filter(|may| *may)?;
        let table = &plan.columns.name;
        let Some((index, mut conditions)) = plan.index() else {
            return Some(shown(format!("fast path: rows of {table} are made of VALUES")));
        };
        for (at, constant) in lexed.constants.iter().enumerate().rev() {
            conditions = conditions.replace(&constant.placeholder(at), &constant.to_string());
        }
        Some(shown(format!("fast path: {table} by index {index} ({conditions})")))
    }
}

/// The time for a statement that has not begun yet.
fn now_value(rows: &RowTables) -> Option<ArrayRef> {
    let now = i64::try_from(rows.transaction_time()).ok()?;
    let zone = Arc::clone(&rows.settings().now().zone);
    Some(Arc::new(TimestampNanosecondArray::from(vec![now]).with_timezone(zone)))
}

/// Runs a plan, retrying if others have changed a row meanwhile.
async fn run(scope: &mut Scope, plan: &Plan, values: &[ArrayRef]) -> Result<RunOutcome, Error> {
    let declined = |ran: Result<RunOutcome, Error>| match ran {
        // The table has other columns by now.
        Err(error) if error.number == PLANNED_BEFORE => Ok(RunOutcome::Declined),
        ran => ran,
    };
    if !plan.changes() {
        return declined(plan.run(scope, values).await);
    }
    scope.check_writable()?;
    for _ in 0..TRIES {
        let savepoint = scope.savepoint().await?;
        match declined(plan.run(scope, values).await)? {
            RunOutcome::Again => *scope = scope.anew(savepoint).await?,
            RunOutcome::Declined => {
                scope.open().await?.back_to(savepoint);
                return Ok(RunOutcome::Declined);
            }
            ran => return Ok(ran),
        }
    }
    Ok(RunOutcome::Again)
}

/// A value for each slot: the parameters, the constants, the time.
pub(super) fn values_of(
    slots: &Slots,
    parameters: Vec<ArrayRef>,
    constants: &[Constant],
    rows: &RowTables,
) -> Option<Vec<ArrayRef>> {
    let mut values = parameters;
    values.reserve(constants.len() + 1);
    for constant in constants {
        values.push(constant.value()?);
    }
    if slots.has_now {
        values.push(now_value(rows)?);
    }
    Some(values)
}
