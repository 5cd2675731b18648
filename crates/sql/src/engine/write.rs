//! Statements that write files, atomically: all of what they write appears, or nothing.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::TryStreamExt;

use crate::engine::run::Planned;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::failure::from_store;
use crate::files::csv_format::external;
use crate::files::diagnose::diagnosed;
use crate::files::partition::with_values;
use crate::files::staged::Staging;
use crate::files::unchanged::Seen;
use crate::walk::Walk;

/// Whether running a plan writes files, also under EXPLAIN ANALYZE.
pub(super) fn writes(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closure reports no error.
    let _ = plan.each(|node| {
        found |= matches!(node, LogicalPlan::Copy(_) | LogicalPlan::Dml(_));
        // A plan that is only shown is not run.
        let is_shown = matches!(node, LogicalPlan::Explain(_));
        Ok(if found || is_shown { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn count_of(batches: &[RecordBatch]) -> u64 {
    let columns = batches.iter().filter_map(|b| b.columns().first());
    columns
        .filter_map(|c| c.as_any().downcast_ref::<UInt64Array>())
        .map(|c| c.iter().flatten().sum::<u64>())
        .sum()
}

/// What a plan wrote: files without names, and the rows that report them.
struct Written {
    staging: Arc<Staging>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Written {
    async fn of(planned: &Planned) -> Result<Written, DataFusionError> {
        let Planned { state, plan } = planned;
        let staging = Arc::new(Staging::new(&state.runtime_env().object_store_registry));
        let runtime = RuntimeEnv {
            object_store_registry: Arc::clone(&staging) as _,
            ..state.runtime_env().as_ref().clone()
        };
        let context = TaskContext::from(state).with_runtime(Arc::new(runtime));
        let stream = execute_stream(Arc::clone(plan), Arc::new(context))?;
        let schema = stream.schema();
        let seen = Seen::of(plan, state.runtime_env());
        let batches = stream.try_collect::<Vec<RecordBatch>>().await;
        seen.check().await.map_err(external)?;
        match (batches, staging.failure()) {
            (Ok(batches), _) => Ok(Written { staging, schema, batches }),
            // DataFusion's version of the error loses the cause.
            (Err(_), Some(why)) => Err(external(why)),
            (Err(e), None) => Err(diagnosed(plan, state.runtime_env(), e).await),
        }
    }
}

impl Engine {
    /// Runs a plan that writes; `verb`: what is done with the rows that it counts.
    pub(super) async fn write(
        &self,
        plan: LogicalPlan,
        verb: Option<&str>,
    ) -> Result<Outcome, Error> {
        self.refuse_in_block("writing files").await?;
        let target = match &plan {
            LogicalPlan::Dml(dml) => Some(dml.table_name.table().to_owned()),
            _ => None,
        };
        let mut state = self.state();
        // One file appears at once, several one after the other.
        let execution = &mut state.config_mut().options_mut().execution;
        let count = |count| ConfigNonZeroUsize::try_new(count).map_err(|e| self.failure(&e));
        execution.minimum_parallel_output_files = count(1)?;
        execution.soft_max_rows_per_output_file = count(usize::MAX)?;
        let failed = |e: DataFusionError| self.failure(&e);
        let plan = with_values(plan).map_err(failed)?;
        let planned = Planned::of(state, &plan).await.map_err(failed)?;
        let written = match Written::of(&planned).await {
            Err(e) => match planned.instead(&plan, &e).await {
                // Nothing of what was staged has a name.
                Some(instead) => Written::of(&instead).await,
                None => Err(e),
            },
            written => written,
        };
        let Written { staging, schema, batches } = written.map_err(failed)?;
        staging.commit().await.map_err(|e| from_store(&e))?;
        let count = count_of(&batches);
        if let Some(name) = target.filter(|_| count > 0) {
            self.has_files(&name).await?;
        }
        let Some(verb) = verb else {
            let rows = futures_util::stream::iter(batches.into_iter().map(Ok));
            return Ok(Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows))));
        };
        let rows = if count == 1 { "row" } else { "rows" };
        Ok(done(format!("{count} {rows} {verb}.")))
    }
}
