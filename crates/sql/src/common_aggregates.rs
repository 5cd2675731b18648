//! Shared aggregations: one that a query uses several times is computed only once.
//!
//! DataFusion plans each use of a WITH query separately. TPC-H's query 15 sums up three months of
//! lineitem, once to join with the sums and once to find the greatest: at scale 1 the second computation
//! took half of the query's time.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::columnar::exec::CellScanExec;
use crate::rows::HeapScanExec;
use crate::walk::Walk;

/// Puts a [`SharedExec`] over aggregations that occur several times in a plan.
#[derive(Debug, Default)]
pub struct ShareAggregates;

impl PhysicalOptimizerRule for ShareAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut found: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        plan.each(|plan| {
            if is_final(plan) && is_plain(plan)? {
                found.push(Arc::clone(plan));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        // An aggregation that equals no other has no results to share.
        let mut results: Vec<(Arc<dyn ExecutionPlan>, Arc<Results>)> = Vec::new();
        for (at, one) in found.iter().enumerate() {
            let like = |(_, other): &(usize, &Arc<dyn ExecutionPlan>)| are_same(one, other);
            let others = || found.iter().enumerate().filter(|(other, _)| *other != at);
            if let Some((first, _)) = others().find(like) {
                let known = results.iter().find(|(known, _)| Arc::ptr_eq(known, &found[first]));
                let own = known.map(|(_, results)| Arc::clone(results)).unwrap_or_default();
                results.push((Arc::clone(one), own));
            }
        }
        if results.is_empty() {
            return Ok(plan);
        }
        let shared = |plan: Arc<dyn ExecutionPlan>| {
            let own = results.iter().find(|(one, _)| Arc::ptr_eq(one, &plan));
            let Some((_, results)) = own else { return Ok(Transformed::no(plan)) };
            let results = Arc::clone(results);
            let shared: Arc<dyn ExecutionPlan> = Arc::new(SharedExec::new(plan, results));
            // What is below is computed only once anyway.
            Ok(Transformed::new(shared, true, TreeNodeRecursion::Jump))
        };
        Ok(plan.map_down(shared)?.data)
    }

    fn name(&self) -> &'static str {
        "share_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether it is the last step of an aggregation, over all rows or over those of a hash partition: then
/// each of its partitions has the same rows in every run.
fn is_final(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
    })
}

/// Whether all of it can be compared, and has the same result in every run.
fn is_plain(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut plain = true;
    plan.each(|plan| {
        let is_known = plan.downcast_ref::<AggregateExec>().is_some()
            || plan.downcast_ref::<RepartitionExec>().is_some()
            || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|c| c.fetch().is_none())
            || plan.downcast_ref::<CellScanExec>().is_some()
            || plan.downcast_ref::<HeapScanExec>().is_some();
        plan.apply_expressions(&mut |expr| {
            plain &= is_same_always(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        plain &= is_known;
        Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(plain)
}

/// Whether an expression has the same value each time, determined by the expression alone.
fn is_same_always(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut same = !is_volatile(expr);
    expr.each(|expr| {
        same &= expr.downcast_ref::<ScalarSubqueryExpr>().is_none()
            && expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_none();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(same)
}

/// Whether two plans have the same rows.
fn are_same(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    let (below, other_below) = (one.children(), other.children());
    are_same_nodes(one, other)
        && one.schema() == other.schema()
        && below.len() == other_below.len()
        && below.iter().zip(other_below).all(|(one, other)| are_same(one, other))
}

fn are_same_nodes(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    if let (Some(a), Some(b)) =
        (one.downcast_ref::<AggregateExec>(), other.downcast_ref::<AggregateExec>())
    {
        let calls = || a.aggr_expr().iter().zip(b.aggr_expr());
        return a.mode() == b.mode()
            && a.group_expr() == b.group_expr()
            && a.filter_expr() == b.filter_expr()
            && a.limit_options() == b.limit_options()
            && a.aggr_expr().len() == b.aggr_expr().len()
            && calls().all(|(a, b)| {
                a == b
                    && a.is_distinct() == b.is_distinct()
                    && a.ignore_nulls() == b.ignore_nulls()
                    && a.order_bys() == b.order_bys()
            });
    }
    if let (Some(a), Some(b)) =
        (one.downcast_ref::<RepartitionExec>(), other.downcast_ref::<RepartitionExec>())
    {
        return a.partitioning() == b.partitioning() && a.preserve_order() == b.preserve_order();
    }
    if let (Some(a), Some(b)) =
        (one.downcast_ref::<CellScanExec>(), other.downcast_ref::<CellScanExec>())
    {
        return a.is_same(b);
    }
    if let (Some(a), Some(b)) =
        (one.downcast_ref::<HeapScanExec>(), other.downcast_ref::<HeapScanExec>())
    {
        return a.is_same(b);
    }
    let is_coalesce = |plan: &Arc<dyn ExecutionPlan>| {
        plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|c| c.fetch().is_none())
    };
    is_coalesce(one) && is_coalesce(other)
}

/// The divisor that gives the part of the query memory that the results of an aggregation may take. They
/// stay as long as the query runs, and joins and sorts above need memory too.
const MEMORY_PART: usize = 8;

/// The rows of all partitions, and the memory that they take; `None`: there is not enough.
type Rows = Option<Arc<(Vec<Vec<RecordBatch>>, Arc<MemoryReservation>)>>;
type Computed = Shared<BoxFuture<'static, Result<Rows, Arc<DataFusionError>>>>;

/// What all uses of an aggregation share.
#[derive(Default)]
struct Results(Mutex<Option<Computed>>);

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Results")
    }
}

impl Results {
    /// The rows, computed by the plan of the first use that asks.
    fn of(&self, own: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Computed {
        let mut computed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || gather(Arc::clone(own), Arc::clone(context)).boxed().shared();
        computed.get_or_insert_with(begin).clone()
    }
}

async fn gather(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Rows, Arc<DataFusionError>> {
    let memory = MemoryConsumer::new("SharedExec").register(context.memory_pool());
    let memory = Arc::new(memory);
    let count = plan.properties().partitioning.partition_count();
    let one = |at: usize| {
        let (plan, context) = (Arc::clone(&plan), Arc::clone(&context));
        SpawnedTask::spawn(rows_of(plan, at, context, Arc::clone(&memory)))
    };
    let tasks: Vec<_> = (0..count).map(one).collect();
    let mut partitions = Vec::with_capacity(count);
    for task in tasks {
        let ended = task.join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)));
        match ended.and_then(|rows| rows).map_err(Arc::new)? {
            Some(rows) => partitions.push(rows),
            None => return Ok(None),
        }
    }
    Ok(Some(Arc::new((partitions, memory))))
}

/// The rows of a partition; `None`: there is not enough memory for all of them.
async fn rows_of(
    plan: Arc<dyn ExecutionPlan>,
    at: usize,
    context: Arc<TaskContext>,
    memory: Arc<MemoryReservation>,
) -> Result<Option<Vec<RecordBatch>>> {
    let most = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => limit / MEMORY_PART,
        _ => usize::MAX,
    };
    let mut rows = plan.execute(at, context)?;
    // An aggregation returns slices of one large batch: each buffer is counted once.
    let (mut counter, mut batches) = (RecordBatchMemoryCounter::new(), Vec::new());
    while let Some(batch) = rows.try_next().await? {
        let more = counter.count_batch(&batch);
        if memory.size().saturating_add(more) > most || memory.try_grow(more).is_err() {
            return Ok(None);
        }
        batches.push(batch);
    }
    Ok(Some(batches))
}

/// An aggregation whose results are shared.
#[derive(Clone, Debug)]
pub(crate) struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    results: Arc<Results>,
    /// What is run if there is not enough memory for the results: all partitions of this use.
    again: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
}

impl SharedExec {
    fn new(input: Arc<dyn ExecutionPlan>, results: Arc<Results>) -> SharedExec {
        SharedExec { input, results, again: Arc::default() }
    }

    /// The aggregation.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// A number that identifies shared results while they exist.
    pub fn number(&self) -> usize {
        Arc::as_ptr(&self.results).addr()
    }

    /// The same plan, as if it had not been run, once for this use.
    fn again(&self) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(again) = self.again.get() {
            return Ok(Arc::clone(again));
        }
        let own = reset_plan_states(Arc::clone(&self.input))?;
        Ok(Arc::clone(self.again.get_or_init(|| own)))
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedExec: computed once")
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(SharedExec::new(input, Arc::clone(&self.results)))),
            _ => datafusion::common::internal_err!("SharedExec has one input"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // What is computed anew must not use shared results.
        Ok(Arc::new(SharedExec::new(Arc::clone(&self.input), Arc::default())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (own, schema) = (self.clone(), self.input.schema());
        let rows = async move {
            let computed = own.results.of(&own.input, &context).await;
            match computed.map_err(DataFusionError::Shared)? {
                Some(rows) => {
                    let count = rows.0[partition].len();
                    let batch = move |at: usize| Ok(rows.0[partition][at].clone());
                    Ok::<_, DataFusionError>(stream::iter((0..count).map(batch)).left_stream())
                }
                // Not enough memory to keep them: each use computes them for itself.
                None => Ok(own.again()?.execute(partition, context)?.right_stream()),
            }
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => datafusion::common::internal_err!("SharedExec has one input"),
        }
    }
}
