//! A plan of DataFusion as the operators that a reader thinks in: both steps of an aggregation are one,
//! and operators that only pass rows on are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::partitioned_topk::PartitionedTopKExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::columnar::exec::CellScanExec;
use crate::common_aggregates::SharedExec;
use crate::explain::calls::{FirstStep, calls_of, first_step, keys_of};
use crate::explain::facts::{Actual, Aggregate, Kind, Narrower, Operator};
use crate::explain::measure::MeasuredExec;
use crate::explain::names::{column, over};
use crate::explain::tables::Tables;
use crate::explain::{leaves, scans};
use crate::lazy_build_side::LazyExec;
use crate::partial_aggregates::why_not;
use crate::portions::PortionsExec;
use crate::rows::HeapScanExec;
use crate::words::sort_key;

/// A physical plan.
pub(crate) type Plan = Arc<dyn ExecutionPlan>;

/// Builds operators from a plan.
pub(crate) struct Tree<'a> {
    pub(super) tables: &'a Tables,
    /// The number of the next operator.
    next: usize,
    statistics: StatisticsContext,
    /// The producers of the filters of scans, by the filters' numbers.
    makers: BTreeMap<u64, Narrower>,
    /// The plan of each shared result, where it is computed.
    uses: BTreeMap<usize, Plan>,
    /// The operator that shows each shared result.
    told: BTreeMap<usize, usize>,
}

/// An operator below its instrument, and the measurements.
pub(super) fn seen(plan: &Plan) -> (&Plan, Option<Actual>) {
    let Some(measured) = plan.downcast_ref::<MeasuredExec>() else { return (plan, None) };
    let (ran, rows, nanos, memory) = measured.seen();
    let below = measured.input();
    let spilled = below.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0) as u64;
    (below, Some(Actual { ran, rows, nanos, memory, spilled }))
}

/// Adds the measurements of an operator that is not shown to one that is.
fn absorb(into: &mut Option<Actual>, own: Option<Actual>) {
    if let (Some(into), Some(own)) = (into, own) {
        into.nanos += own.nanos;
        // Not at the same time, as far as is known.
        into.memory = into.memory.max(own.memory);
        into.spilled += own.spilled;
    }
}

/// Whether an operator only passes on the rows of its input, or computes columns from them.
fn is_passed(plan: &Plan) -> bool {
    plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<SortPreservingMergeExec>().is_some()
        || plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.downcast_ref::<LazyExec>().is_some()
        || plan.downcast_ref::<PortionsExec>().is_some()
        || matches!(
            plan.name(),
            "CooperativeExec" | "CoalesceBatchesExec" | "BufferExec" | "OutputRequirementExec"
        )
}

/// The number of rows that the operator below keeps: all others are gone by then.
fn kept(plan: &Plan) -> Option<usize> {
    let (plan, _) = seen(plan);
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return limit.fetch();
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(limit.fetch());
    }
    if plan.downcast_ref::<SortExec>().is_some() || plan.downcast_ref::<PartialSortExec>().is_some()
    {
        return plan.fetch();
    }
    match plan.children()[..] {
        [below] if is_passed(plan) => plan.fetch().or_else(|| kept(below)),
        _ => None,
    }
}

impl<'a> Tree<'a> {
    /// The operators of a plan; `first` is the number of the first.
    pub fn new(tables: &'a Tables, plan: &Plan, first: usize) -> Tree<'a> {
        let mut uses = BTreeMap::new();
        find_uses(plan, &mut uses);
        Tree {
            tables,
            next: first,
            statistics: StatisticsContext::new(),
            makers: BTreeMap::new(),
            uses,
            told: BTreeMap::new(),
        }
    }

    /// The operators of a plan.
    pub fn of(&mut self, plan: &Plan) -> Result<Operator> {
        let (own, actual) = seen(plan);
        if let Some(shared) = own.downcast_ref::<SharedExec>() {
            return self.shared(shared, actual);
        }
        if is_passed(own)
            && let [below] = own.children()[..]
        {
            let mut operator = match own.fetch().filter(|fetch| kept(below) != Some(*fetch)) {
                Some(fetch) => {
                    let kind = Kind::Limit { skip: 0, fetch: Some(fetch) };
                    return self.operator(kind, own, actual, &[below]);
                }
                None => self.of(below)?,
            };
            // If it ends first, rows are left over below.
            if let (Some(_), Some(told), Some(actual)) = (own.fetch(), &mut operator.actual, actual)
            {
                told.rows = actual.rows;
            }
            absorb(&mut operator.actual, actual);
            return Ok(operator);
        }
        if let Some(aggregate) = own.downcast_ref::<AggregateExec>() {
            return self.aggregate(aggregate, own, actual);
        }
        if let Some(kind) = self.sort(own) {
            let children = own.children();
            let id = self.next;
            self.narrows(own, Narrower::Top(id));
            return self.operator(kind, own, actual, &children);
        }
        if let Some(limit) = own.downcast_ref::<GlobalLimitExec>() {
            let kind = Kind::Limit { skip: limit.skip(), fetch: limit.fetch() };
            return self.limit(kind, own, actual, limit.input());
        }
        if let Some(limit) = own.downcast_ref::<LocalLimitExec>() {
            let kind = Kind::Limit { skip: 0, fetch: Some(limit.fetch()) };
            return self.limit(kind, own, actual, limit.input());
        }
        if let Some(filter) = own.downcast_ref::<FilterExec>() {
            let condition = over(filter.predicate(), filter.input());
            let kind = Kind::Filter { condition, fetch: filter.fetch() };
            return self.operator(kind, own, actual, &[filter.input()]);
        }
        if let Some(join) = leaves::join(own) {
            let id = self.next;
            self.narrows(own, Narrower::Join(id));
            return self.operator(Kind::Join(join), own, actual, &own.children());
        }
        self.leaf(own, actual)
    }

    fn leaf(&mut self, own: &Plan, actual: Option<Actual>) -> Result<Operator> {
        let ran = actual.is_some_and(|actual| actual.ran);
        if let Some(scan) = own.downcast_ref::<CellScanExec>() {
            let makers = |number: u64| self.makers.get(&number).copied();
            let cell = scans::cell(scan, &makers, ran);
            let passed = cell.totals.map(|totals| totals.passed_rows);
            let mut operator = self.operator(Kind::Cell(Box::new(cell)), own, actual, &[])?;
            // Groups are rows of the operator that merges them.
            if scan.gives_groups() {
                operator.estimated = Some(scan.rows_expected() as u64);
                if let (Some(actual), Some(passed)) = (&mut operator.actual, passed) {
                    actual.rows = passed;
                }
            }
            return Ok(operator);
        }
        if let Some(source) = own.downcast_ref::<DataSourceExec>() {
            let makers = |number: u64| self.makers.get(&number).copied();
            if let Some(kind) = scans::source(source, self.tables, &makers, ran) {
                return self.operator(kind, own, actual, &[]);
            }
        }
        let kind = leaves::other(own, self.tables);
        self.operator(kind, own, actual, &own.children())
    }

    /// An operator with its next number, then its inputs with theirs.
    fn operator(
        &mut self,
        kind: Kind,
        own: &Plan,
        actual: Option<Actual>,
        inputs: &[&Plan],
    ) -> Result<Operator> {
        let id = self.next;
        self.next += 1;
        let known = self.statistics.compute(own.as_ref(), &StatisticsArgs::new());
        let estimated = known.ok().and_then(|known| known.num_rows.get_value().copied());
        let inputs = inputs.iter().map(|input| self.of(input)).collect::<Result<_>>()?;
        Ok(Operator { id, kind, estimated: estimated.map(|rows| rows as u64), actual, inputs })
    }

    /// A limit, combined with the limits of each partition below.
    fn limit(
        &mut self,
        kind: Kind,
        own: &Plan,
        actual: Option<Actual>,
        input: &Plan,
    ) -> Result<Operator> {
        let (mut below, mut actual) = (input, actual);
        loop {
            let (own, more) = seen(below);
            let [next] = own.children()[..] else { break };
            let is_part = own.downcast_ref::<LocalLimitExec>().is_some();
            let hands_on =
                is_passed(own) && own.downcast_ref::<SortPreservingMergeExec>().is_none();
            if !is_part && !hands_on {
                break;
            }
            absorb(&mut actual, more);
            below = next;
        }
        self.operator(kind, own, actual, &[below])
    }

    fn sort(&self, own: &Plan) -> Option<Kind> {
        let keys = |order: &LexOrdering, input: &Plan| -> Vec<String> {
            order.iter().map(|key| sort_key(key, &|own| column(input, own.index()))).collect()
        };
        let by = Vec::new();
        if let Some(sort) = own.downcast_ref::<SortExec>() {
            let keys = keys(sort.expr(), sort.input());
            return Some(Kind::Sort { keys, fetch: sort.fetch(), sorted: 0, by });
        }
        if let Some(sort) = own.downcast_ref::<PartialSortExec>() {
            let keys = keys(sort.expr(), sort.input());
            let sorted = sort.common_prefix_length();
            return Some(Kind::Sort { keys, fetch: sort.fetch(), sorted, by });
        }
        let top = own.downcast_ref::<PartitionedTopKExec>()?;
        let mut by = keys(top.expr(), top.input());
        let keys = by.split_off(top.partition_prefix_len().min(by.len()));
        Some(Kind::Sort { keys, fetch: Some(top.fetch()), sorted: 0, by })
    }

    fn aggregate(
        &mut self,
        last: &AggregateExec,
        own: &Plan,
        actual: Option<Actual>,
    ) -> Result<Operator> {
        let id = self.next;
        self.narrows(own, Narrower::Aggregate(id));
        let first = first_step(last);
        let group = match &first {
            FirstStep::Operator(first) => first.group_expr(),
            _ => last.group_expr(),
        };
        let mut told = Aggregate {
            calls: calls_of(last),
            keys: keys_of(last),
            sets: if group.has_grouping_set() { group.groups().len() } else { 0 },
            in_cell: matches!(first, FirstStep::Scan { in_cell: true, .. }),
            reason: None,
        };
        if let FirstStep::Operator(first) = &first
            && is_over_cell(first.input())
        {
            told.reason = why_not(first);
        }
        let (mut below, mut actual) = (last.input(), actual);
        let ends = !matches!(first, FirstStep::Unknown(_));
        let is_last = matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        if is_last && ends {
            loop {
                let (own, more) = seen(below);
                // What a scan contains is shown there.
                let is_heap = own.downcast_ref::<HeapScanExec>().is_some();
                if is_heap || own.downcast_ref::<CellScanExec>().is_some() {
                    break;
                }
                let [next] = own.children()[..] else { break };
                absorb(&mut actual, more);
                self.narrows(own, Narrower::Aggregate(id));
                below = next;
                let step = own.downcast_ref::<AggregateExec>();
                if step.is_some_and(|step| *step.mode() == AggregateMode::Partial) {
                    break;
                }
            }
        }
        self.operator(Kind::Aggregate(told), own, actual, &[below])
    }

    fn shared(&mut self, shared: &SharedExec, actual: Option<Actual>) -> Result<Operator> {
        let number = shared.number();
        if let Some(of) = self.told.get(&number) {
            let kind = Kind::Shared { of: *of };
            return self.operator(kind, shared.input(), actual, &[]);
        }
        self.told.insert(number, self.next);
        let computed = self.uses.get(&number).cloned();
        self.of(&computed.unwrap_or_else(|| Arc::clone(shared.input())))
    }

    /// Records the producer of the filters that scans below use.
    fn narrows(&mut self, plan: &Plan, by: Narrower) {
        for filter in plan.dynamic_expressions_produced() {
            self.makers.extend(filter.expression_id().map(|number| (number, by)));
        }
    }
}

/// Whether there is a cell scan below.
fn is_over_cell(plan: &Plan) -> bool {
    plan.downcast_ref::<CellScanExec>().is_some() || plan.children().into_iter().any(is_over_cell)
}

/// For each shared aggregation, the use that computed it, or the first one.
fn find_uses(plan: &Plan, uses: &mut BTreeMap<usize, Plan>) {
    if let Some(shared) = plan.downcast_ref::<SharedExec>() {
        let computed = seen(shared.input()).1.is_some_and(|actual| actual.ran);
        let is_known = uses.contains_key(&shared.number());
        if computed || !is_known {
            uses.insert(shared.number(), Arc::clone(shared.input()));
        }
    }
    plan.children().into_iter().for_each(|below| find_uses(below, uses));
}
