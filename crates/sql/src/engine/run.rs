//! Execution of a plan: first with fast operators and, if these run out of memory, again with operators
//! that spill.
//!
//! A hash join holds all of its smaller side. A merge join holds only the rows with equal keys and spills
//! the rest, but takes several times as long. So do sorts of small batches: both are for plans that would
//! otherwise fail.

use std::sync::Arc;

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::apply;
use crate::files::csv_format::external;
use crate::files::diagnose::diagnosed;
use crate::files::unchanged::Seen;
use crate::portions;
use crate::walk::Walk;

/// Rows of a batch, where memory is short.
const FEW_ROWS: usize = 2048;

/// A plan, and the state that it was made with.
pub(super) struct Planned {
    pub state: SessionState,
    pub plan: Arc<dyn ExecutionPlan>,
}

impl Planned {
    /// A plan with fast joins, unless it is known that memory is too small for them.
    pub async fn of(state: SessionState, plan: &LogicalPlan) -> Result<Planned> {
        let quick = apply::physical(&state, plan).await?;
        match is_too_large(&quick, &state) {
            true => Planned::spilling(&state, plan).await,
            false => Ok(Planned { state, plan: quick }),
        }
    }

    /// A plan whose joins spill, and whose sorts make do with little memory.
    async fn spilling(state: &SessionState, plan: &LogicalPlan) -> Result<Planned> {
        let mut state = state.clone();
        let options = state.config_mut().options_mut();
        options.optimizer.prefer_hash_join = false;
        // With one partition DataFusion uses hash joins regardless.
        let parts = &mut options.execution.target_partitions;
        *parts = (*parts).max(2);
        let rows = options.execution.batch_size.get().min(FEW_ROWS);
        options.execution.batch_size = ConfigNonZeroUsize::try_new(rows)?;
        let plan = portions::below_sorts(apply::physical(&state, plan).await?)?;
        if let MemoryLimit::Finite(limit) = state.runtime_env().memory_pool.memory_limit() {
            let execution = &mut state.config_mut().options_mut().execution;
            let kept = execution.sort_spill_reservation_bytes;
            // A fraction of what each sort has.
            execution.sort_spill_reservation_bytes =
                kept.min(limit / (12 * portions::sorts(&plan).max(1)));
        }
        Ok(Planned { state, plan })
    }

    /// What to run instead after `error`: a spilling plan, if memory was exhausted and that helps.
    pub async fn instead(&self, plan: &LogicalPlan, error: &DataFusionError) -> Option<Planned> {
        let lacked = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
        if !lacked || !self.state.config_options().optimizer.prefer_hash_join {
            return None;
        }
        if !has_hash_joins(&self.plan) && portions::sorts(&self.plan) == 0 {
            return None;
        }
        Planned::spilling(&self.state, plan).await.ok()
    }

    fn begin(&self) -> Result<SendableRecordBatchStream> {
        let context = Arc::new(self.state.task_ctx());
        let rows = execute_stream(Arc::clone(&self.plan), Arc::clone(&context))?;
        let (schema, plan) = (rows.schema(), Arc::clone(&self.plan));
        let seen = Arc::new(Seen::of(&plan, &context.runtime_env()));
        let at_end = Arc::clone(&seen);
        let rows = rows.or_else(move |e| {
            let (plan, runtime, seen) =
                (Arc::clone(&plan), context.runtime_env(), Arc::clone(&seen));
            async move {
                match seen.check().await {
                    Err(changed) => Err(external(changed)),
                    Ok(()) => Err(diagnosed(&plan, &runtime, e).await),
                }
            }
        });
        let end = stream::once(async move { at_end.check().await });
        let end =
            end.filter_map(|checked| std::future::ready(checked.err().map(|e| Err(external(e)))));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(end))))
    }

    /// The rows of a plan. Until the first of them arrives, it can be restarted.
    pub fn rows(self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        let mut rows = self.begin()?;
        let schema = rows.schema();
        let rows = stream::once(async move {
            let first = rows.next().await;
            if let Some(Err(error)) = &first
                && let Some(instead) = self.instead(&plan, error).await
            {
                // Frees its memory before the other plan begins.
                drop((self, rows));
                return instead.begin();
            }
            let schema = rows.schema();
            let rows = stream::iter(first).chain(rows);
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)) as SendableRecordBatchStream)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten())))
    }
}

fn hash_join(plan: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    plan.downcast_ref::<HashJoinExec>().filter(|join| !join.null_aware)
}

fn any(plan: &Arc<dyn ExecutionPlan>, is: impl Fn(&HashJoinExec) -> bool) -> bool {
    let mut found = false;
    // The closure reports no error.
    let _ = plan.each(|plan| {
        found |= hash_join(plan).is_some_and(&is);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn has_hash_joins(plan: &Arc<dyn ExecutionPlan>) -> bool {
    any(plan, |_| true)
}

/// Whether a hash join would hold more than there is memory, as far as is known.
fn is_too_large(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> bool {
    let MemoryLimit::Finite(limit) = state.runtime_env().memory_pool.memory_limit() else {
        return false;
    };
    any(plan, |join| {
        let held = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new());
        held.is_ok_and(|held| held.total_byte_size.get_value().is_some_and(|bytes| *bytes > limit))
    })
}
