//! Optimizer rule for rows in index order: a top-N sort, or a MIN or MAX, reads only as many entries of an
//! index as it needs instead of all rows.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, Partitioning, ReplaceChildrenOptions,
};

use super::access::Access;
use super::exec::HeapScanExec;
use super::size::rows_by_index;
use crate::walk::Walk;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct InOrderOfIndex;

impl PhysicalOptimizerRule for InOrderOfIndex {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = |plan: Arc<dyn ExecutionPlan>| {
            let other = match plan.downcast_ref::<SortExec>() {
                Some(sort) => first_of_order(sort)?,
                None => match plan.downcast_ref::<AggregateExec>() {
                    Some(aggregate) => end_of_order(&plan, aggregate)?,
                    None => None,
                },
            };
            Ok(other.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        Ok(plan.map_down(changed)?.data)
    }

    fn name(&self) -> &'static str {
        "in_order_of_index"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An output column of a plan, and its sort order.
type Key = (usize, SortOptions);

/// A top-N sort, as a limit over a scan in that order.
fn first_of_order(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(fetch) = sort.fetch() else { return Ok(None) };
    let key = |key: &PhysicalSortExpr| {
        let column = key.expr.downcast_ref::<Column>()?;
        Some((column.index(), key.options))
    };
    let Some(keys) = sort.expr().iter().map(key).collect::<Option<Vec<Key>>>() else {
        return Ok(None);
    };
    let wanted = Wanted { fetch, conditions: 0 };
    let Some(input) = in_order(sort.input(), &keys, wanted)? else { return Ok(None) };
    Ok(Some(Arc::new(GlobalLimitExec::new(input, 0, Some(fetch)))))
}

/// MIN or MAX of a column, computed from the first row in its order.
fn end_of_order(
    plan: &Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let [call] = aggregate.aggr_expr() else { return Ok(None) };
    let descending = match call.fun().name() {
        "min" => false,
        "max" => true,
        _ => return Ok(None),
    };
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    let takes_rows = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    if !aggregate.group_expr().is_empty() || is_filtered || !takes_rows {
        return Ok(None);
    }
    let [argument] = &call.expressions()[..] else { return Ok(None) };
    let Some(column) = argument.downcast_ref::<Column>() else { return Ok(None) };
    // NULL is neither least nor greatest: where it would come first it is left out.
    let options = SortOptions { descending, nulls_first: descending };
    let (keys, wanted) = ([(column.index(), options)], Wanted { fetch: 0, conditions: 0 });
    let Some(input) = in_order(aggregate.input(), &keys, wanted)? else { return Ok(None) };
    let first: Arc<dyn ExecutionPlan> = Arc::new(GlobalLimitExec::new(input, 0, Some(1)));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some(Arc::clone(plan).replace_children(vec![first], options)?))
}

/// What is needed from an ordered scan.
#[derive(Clone, Copy)]
struct Wanted {
    /// How many rows; 0: one row, without NULL.
    fetch: usize,
    /// How many filters there are above the scan.
    conditions: usize,
}

/// A plan over a single-task heap scan whose rows come in this order; `None`: no index has it, or reading all rows
/// is cheaper.
fn in_order(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &[Key],
    wanted: Wanted,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<HeapScanExec>() {
        let scan = by_index(scan, keys, wanted);
        return Ok(scan.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>));
    }
    let [below] = plan.children()[..] else { return Ok(None) };
    if is_dealt(plan) {
        return in_order(below, keys, wanted);
    }
    let filter = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none());
    let projection = plan.downcast_ref::<ProjectionExec>();
    let column = |at: usize| match (filter, projection) {
        (Some(filter), _) => match filter.projection() {
            Some(projection) => projection.get(at).copied(),
            None => Some(at),
        },
        (_, Some(projection)) => {
            projection.expr().get(at)?.expr.downcast_ref::<Column>().map(Column::index)
        }
        _ => None,
    };
    let keys = keys.iter().map(|(at, options)| Some((column(*at)?, *options)));
    let Some(keys) = keys.collect::<Option<Vec<Key>>>() else { return Ok(None) };
    let conditions = wanted.conditions + usize::from(filter.is_some());
    let Some(input) = in_order(below, &keys, Wanted { conditions, ..wanted })? else {
        return Ok(None);
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some(Arc::clone(plan).replace_children(vec![input], options)?))
}

/// Whether a plan only distributes rows to tasks, or gathers them.
fn is_dealt(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let gathers = plan.downcast_ref::<CoalescePartitionsExec>();
    let deals = plan.downcast_ref::<RepartitionExec>();
    gathers.is_some_and(|all| all.fetch().is_none())
        || deals
            .is_some_and(|dealt| matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)))
}

/// A scan by an index that has an order.
fn by_index(scan: &HeapScanExec, keys: &[Key], wanted: Wanted) -> Option<HeapScanExec> {
    if scan.fetch().is_some() {
        return None;
    }
    let columns = scan.columns();
    let schema = &columns.schema;
    let own = keys.iter().map(|(at, options)| Some((scan.column(*at)?, *options)));
    let own: Vec<Key> = own.collect::<Option<_>>()?;
    // In a key -0 is 0, an interval its length, a label its code: index order differs from sort order.
    let is_kept = |(at, _): &Key| {
        let (data_type, is_other) = (schema.field(*at).data_type(), columns.has_own_order(*at));
        !is_other && !data_type.is_floating() && !matches!(data_type, DataType::Interval(_))
    };
    let read = scan.rows_until(wanted.fetch.max(1), wanted.conditions);
    let pays = read <= rows_by_index(scan.size()) as f64;
    if !own.iter().all(is_kept) || (scan.access().is_none() && !pays) {
        return None;
    }
    let access = (0..columns.rows.indexes.len()).find_map(|at| of_index(scan, at, &own, wanted))?;
    let sort = |(at, options): &Key| {
        let name = scan.schema().field(*at).name().clone();
        PhysicalSortExpr { expr: Arc::new(Column::new(&name, *at)), options: *options }
    };
    let order: Vec<PhysicalSortExpr> = keys.iter().map(sort).collect();
    Some(scan.by_index(access, &order))
}

/// The keys of an index in an order of columns of the table.
fn of_index(scan: &HeapScanExec, at: usize, keys: &[Key], wanted: Wanted) -> Option<Access> {
    let columns = scan.columns();
    let index = &columns.rows.indexes[at];
    let known = scan.access();
    if known.is_some_and(|known| known.index != at)
        || !scan.scope().statement.is_complete_index(index)
    {
        return None;
    }
    let equal = known.map_or(0, |known| known.equal.len());
    let (first, mut rest) = index.columns.split_at_checked(equal)?;
    let mut backwards = None;
    for (column, options) in keys {
        // A column with a single value satisfies any order.
        if first.iter().any(|own| own.column == *column) {
            continue;
        }
        let (own, behind) = rest.split_first()?;
        rest = behind;
        let is_turned = own.descending != options.descending;
        let fits = own.column == *column && options.nulls_first == options.descending;
        if !fits || *backwards.get_or_insert(is_turned) != is_turned {
            return None;
        }
    }
    let is_end = wanted.fetch == 0;
    let mut access = match known {
        Some(known) if !is_end || known.is_bound || backwards.is_none() => known.clone(),
        Some(known) if known.ranges.len() == 1 => {
            let conditions = known.conditions.clone();
            let all = Access::all(columns, at, known.equal.clone(), false)?;
            Access { conditions, ..all }
        }
        Some(_) => return None,
        None => Access::all(columns, at, Vec::new(), !is_end)?,
    };
    access.backwards = backwards.unwrap_or(false);
    Some(access)
}
