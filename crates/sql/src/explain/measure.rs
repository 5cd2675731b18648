//! Instruments for EXPLAIN ANALYZE: a wrapper over each operator of a plan that observes its rows, its
//! own time and the memory that it holds.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures_util::Stream;

thread_local! {
    /// Nanoseconds that operators below the polled one took of its time.
    static BELOW: Cell<u64> = const { Cell::new(0) };
}

/// Bytes held, and the most that were held.
#[derive(Debug, Default)]
pub(crate) struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Held {
    fn grow(&self, by: usize) {
        let now = self.now.fetch_add(by, Ordering::Relaxed).saturating_add(by);
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    fn shrink(&self, by: usize) {
        self.now.fetch_sub(by, Ordering::Relaxed);
    }

    /// The most.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed) as u64
    }
}

/// The measurements of an instrument.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    ran: AtomicBool,
    rows: AtomicU64,
    nanos: AtomicU64,
    memory: Held,
}

/// An instrument over an operator.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredExec {
    input: Arc<dyn ExecutionPlan>,
    seen: Arc<Seen>,
    /// The memory that all operators of the plan hold together.
    together: Arc<Held>,
}

/// The same plan with an instrument over each operator, and what all hold together.
pub(crate) fn measured(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<Held>)> {
    let together = Arc::<Held>::default();
    Ok((over(plan, &together)?, together))
}

fn over(plan: &Arc<dyn ExecutionPlan>, together: &Arc<Held>) -> Result<Arc<dyn ExecutionPlan>> {
    let below = plan.children().into_iter().map(|below| over(below, together));
    let below: Vec<_> = below.collect::<Result<_>>()?;
    let input = match below.is_empty() {
        true => Arc::clone(plan),
        // Its properties are the same objects, so that filters that operators share stay shared.
        false => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            Arc::clone(plan).replace_children(below, options)?
        }
    };
    let (seen, together) = (Arc::default(), Arc::clone(together));
    Ok(Arc::new(MeasuredExec { input, seen, together }))
}

impl MeasuredExec {
    /// The operator below it.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Whether the operator ran, its rows, its own nanoseconds and the most bytes that it held.
    pub fn seen(&self) -> (bool, u64, u64, u64) {
        let seen = &self.seen;
        (
            seen.ran.load(Ordering::Relaxed),
            seen.rows.load(Ordering::Relaxed),
            seen.nanos.load(Ordering::Relaxed),
            seen.memory.most(),
        )
    }

    /// The context that the operator runs with: it reports memory to this instrument.
    fn context(&self, context: &TaskContext) -> Arc<TaskContext> {
        let runtime = context.runtime_env();
        // What is above reports its memory elsewhere.
        let pool = match runtime.memory_pool.downcast_ref::<MeasuredPool>() {
            Some(above) => Arc::clone(&above.pool),
            None => Arc::clone(&runtime.memory_pool),
        };
        let told = MeasuredPool {
            pool,
            seen: Arc::clone(&self.seen),
            together: Arc::clone(&self.together),
        };
        let runtime = RuntimeEnv { memory_pool: Arc::new(told), ..RuntimeEnv::clone(&runtime) };
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            Arc::new(runtime),
        ))
    }

    fn with(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(MeasuredExec { input, ..self.clone() })),
            _ => datafusion::common::internal_err!("MeasuredExec has one input"),
        }
    }
}

impl DisplayAs for MeasuredExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeasuredExec")
    }
}

impl ExecutionPlan for MeasuredExec {
    fn name(&self) -> &'static str {
        "MeasuredExec"
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
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.seen.ran.store(true, Ordering::Relaxed);
        let input = self.input.execute(partition, self.context(&context))?;
        Ok(Box::pin(MeasuredStream { input, seen: Arc::clone(&self.seen) }))
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
            _ => datafusion::common::internal_err!("MeasuredExec has one input"),
        }
    }
}

struct MeasuredStream {
    input: SendableRecordBatchStream,
    seen: Arc<Seen>,
}

impl Stream for MeasuredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let beside = BELOW.replace(0);
        let took = Time::new();
        let mut timer = took.timer();
        let polled = self.input.as_mut().poll_next(context);
        timer.stop();
        let took = took.value() as u64;
        let own = took.saturating_sub(BELOW.replace(beside.saturating_add(took)));
        self.seen.nanos.fetch_add(own, Ordering::Relaxed);
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            self.seen.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for MeasuredStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// A pool that records what one operator takes from it.
#[derive(Debug)]
struct MeasuredPool {
    pool: Arc<dyn MemoryPool>,
    seen: Arc<Seen>,
    together: Arc<Held>,
}

impl fmt::Display for MeasuredPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

impl MemoryPool for MeasuredPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.seen.memory.grow(additional);
        self.together.grow(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.seen.memory.shrink(shrink);
        self.together.shrink(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.seen.memory.grow(additional);
        self.together.grow(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
