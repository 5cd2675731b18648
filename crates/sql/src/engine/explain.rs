//! EXPLAIN: plans a statement, runs it for ANALYZE, and shows the plan with what was measured.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::format::ExplainFormat;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures_util::TryStreamExt;

use crate::apply;
use crate::engine::run::Planned;
use crate::engine::table_options::TableOptions;
use crate::engine::{Engine, Outcome};
use crate::error::Error;
use crate::explain::facts::{Kind, Run};
use crate::explain::measure::{Held, measured};
use crate::explain::options::{ExplainOptions, PlanFormat};
use crate::explain::tables::Tables;
use crate::explain::{Explained, operators};
use crate::names;

const TAKES: &str =
    "EXPLAIN takes SELECT, VALUES, INSERT, UPDATE, DELETE, CREATE TABLE AS, COPY and EXECUTE";

/// A stopwatch that accumulates.
struct Watch(Time);

impl Watch {
    /// Times an await.
    async fn of<T>(&self, what: impl Future<Output = T>) -> T {
        let _timer = self.0.timer();
        what.await
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(self.0.value() as u64)
    }
}

/// Runs a plan and discards its rows.
async fn drain(state: &SessionState, plan: &Arc<dyn ExecutionPlan>) -> Result<(), DataFusionError> {
    let mut rows = execute_stream(Arc::clone(plan), state.task_ctx())?;
    while rows.try_next().await?.is_some() {}
    Ok(())
}

/// Runs a plan; returns it with its measurements.
async fn ran(planned: &Planned) -> Result<(Arc<dyn ExecutionPlan>, Arc<Held>), DataFusionError> {
    let (plan, held) = measured(&planned.plan)?;
    drain(&planned.state, &plan).await?;
    Ok((plan, held))
}

impl Engine {
    /// Shows what a statement would do, or did.
    pub(super) async fn explain(
        &self,
        options: &ExplainOptions,
        mut statement: DfStatement,
    ) -> Result<Outcome, Error> {
        options.check()?;
        let mut changes = None;
        if let (DfStatement::Statement(inner), Some(_)) = (&statement, self.host.rows())
            && let Some((query, kind)) = self.query_behind(inner)?
        {
            statement = DfStatement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
            changes = Some(kind);
        }
        self.prepare(&mut statement).await?;
        // The group of a table is not in its plan.
        TableOptions::of(&mut statement);
        let watch = Watch(Time::new());
        let state = self.state();
        let plan = watch.of(state.statement_to_plan(statement.clone())).await;
        let plan = match plan {
            Ok(plan) => plan,
            Err(e) => {
                return Err(self.missing_table(&statement).unwrap_or_else(|| self.failure(&e)));
            }
        };
        let (plan, write) = self.query_of(plan).await?;
        let write = changes.or(write);
        if write.is_some() && options.analyze {
            return Err(Error::not_yet("EXPLAIN ANALYZE of a statement that writes").next(
                "explain without ANALYZE shows its plan and changes nothing; explain analyze of its \
                 query runs that alone",
            ));
        }
        let planned = watch.of(Planned::of(state, &plan)).await;
        let planned = planned.map_err(|e| self.failure(&e))?;
        let own = match &options.format {
            PlanFormat::Json => false,
            PlanFormat::Text => options.verbose,
            PlanFormat::DataFusion(_) => true,
        };
        if own {
            let Planned { state, plan: physical } = planned;
            return self.datafusion_text(&state, &plan, physical, options).await;
        }
        let tables = Tables::of(&plan).map_err(|e| self.failure(&e))?;
        let (physical, run) = match options.analyze {
            true => {
                let running = Watch(Time::new());
                let mut ran = running.of(self::ran(&planned)).await;
                if let Err(e) = &ran
                    && let Some(instead) = planned.instead(&plan, e).await
                {
                    ran = running.of(self::ran(&instead)).await;
                }
                let (physical, held) = ran.map_err(|e| self.failure(&e))?;
                let planning = watch.time();
                let whole = planning + running.time();
                (physical, Some(Run { whole, planning, memory: held.most() }))
            }
            false => (planned.plan, None),
        };
        let root = operators(&physical, &tables, write).map_err(|e| self.failure(&e))?;
        Ok(Outcome::Plan(Box::new(Explained::new(root, run, options))))
    }

    /// The query of a plan, and how its rows would be written.
    async fn query_of(&self, plan: LogicalPlan) -> Result<(LogicalPlan, Option<Kind>), Error> {
        let refused = |what: &str| Error::syntax(format!("{what} has no plan")).next(TAKES);
        Ok(match plan {
            LogicalPlan::Dml(dml) => {
                let target = dml.table_name.to_string();
                if self.is_columnar(&target) {
                    super::columnar::check_append(&dml)?;
                }
                let kind = match self.is_columnar(&target) {
                    true => " (columnar)",
                    false => "",
                };
                let write = Kind::Write { verb: "insert into", target: format!("{target}{kind}") };
                (Arc::unwrap_or_clone(dml.input), Some(write))
            }
            LogicalPlan::Copy(copy) => {
                names::check_unique(copy.input.schema().as_arrow())?;
                let place = match crate::path::inside(&copy.output_url) {
                    Some((group, path)) => format!("+{group}/{path}"),
                    None => copy.output_url.clone(),
                };
                let target = format!("{place} ({})", copy.file_type.get_ext());
                (Arc::unwrap_or_clone(copy.input), Some(Kind::Write { verb: "copy to", target }))
            }
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                self.check_create(&create)?;
                let target = format!("{} (columnar)", create.name);
                let write = Kind::Write { verb: "create table", target };
                (Arc::unwrap_or_clone(create.input), Some(write))
            }
            LogicalPlan::Statement(LogicalStatement::Execute(_)) => {
                let frame = self.context().execute_logical_plan(plan).await;
                (frame.map_err(|e| self.failure(&e))?.into_unoptimized_plan(), None)
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(_)) => {
                return Err(refused("CREATE VIEW"));
            }
            LogicalPlan::Ddl(ddl) => return Err(refused(ddl.name())),
            LogicalPlan::Statement(statement) => return Err(refused(statement.name())),
            plan => (plan, None),
        })
    }

    /// A plan as DataFusion shows it.
    async fn datafusion_text(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        physical: Arc<dyn ExecutionPlan>,
        options: &ExplainOptions,
    ) -> Result<Outcome, Error> {
        let shown = match options.analyze {
            true => {
                drain(state, &physical).await.map_err(|e| self.failure(&e))?;
                DisplayableExecutionPlan::with_metrics(physical.as_ref())
            }
            false => DisplayableExecutionPlan::new(physical.as_ref()),
        };
        let text = match &options.format {
            PlanFormat::DataFusion(ExplainFormat::Tree) => shown.tree_render().to_string(),
            PlanFormat::DataFusion(ExplainFormat::Graphviz) => shown.graphviz().to_string(),
            PlanFormat::DataFusion(ExplainFormat::PostgresJSON) => {
                shown.pgjson(options.verbose).to_string()
            }
            PlanFormat::DataFusion(ExplainFormat::Indent) | PlanFormat::Text | PlanFormat::Json => {
                let logical = apply::optimized(state, plan).await.map_err(|e| self.failure(&e))?;
                let physical = shown.indent(options.verbose);
                format!(
                    "-- logical plan\n{}\n-- physical plan\n{physical}",
                    logical.display_indent()
                )
            }
        };
        Ok(Outcome::Plan(Box::new(Explained::of_text(&text))))
    }
}
