//! Joins, and operators that are shown by name alone.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality};
use datafusion::functions_table::generate_series::{GenericSeriesState, TimestampValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, PiecewiseMergeJoinExec,
    SortMergeJoinExec,
};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::work_table::WorkTableExec;

use crate::columnar::exec::Partial;
use crate::error::shown;
use crate::explain::calls::window;
use crate::explain::facts::{Join, Kind, Method};
use crate::explain::names::{over, over_both};
use crate::explain::tables::Tables;
use crate::explain::tree::Plan;
use crate::rows::HeapScanExec;

type Pairs<'a> = &'a [(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)];

fn pairs(on: Pairs<'_>, left: &Plan, right: &Plan) -> Vec<(String, String)> {
    on.iter().map(|(a, b)| (over(a, left), over(b, right))).collect()
}

fn plain(method: Method, join_type: JoinType) -> Join {
    Join {
        method,
        join_type,
        on: Vec::new(),
        filter: None,
        null_aware: false,
        nulls_equal: false,
        partitioned: false,
    }
}

/// A join; `None`: it is not one.
pub(super) fn join(plan: &Plan) -> Option<Join> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let (left, right) = (join.left(), join.right());
        return Some(Join {
            on: pairs(join.on(), left, right),
            filter: join.filter().map(|filter| over_both(filter, left, right)),
            null_aware: join.null_aware,
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            partitioned: *join.partition_mode() == PartitionMode::Partitioned,
            ..plain(Method::Hash, *join.join_type())
        });
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let filter = join.filter().map(|filter| over_both(filter, join.left(), join.right()));
        return Some(Join { filter, ..plain(Method::NestedLoop, *join.join_type()) });
    }
    if plan.downcast_ref::<CrossJoinExec>().is_some() {
        return Some(plain(Method::NestedLoop, JoinType::Inner));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let (left, right) = (join.left(), join.right());
        return Some(Join {
            on: pairs(join.on(), left, right),
            filter: join.filter().as_ref().map(|filter| over_both(filter, left, right)),
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            ..plain(Method::Merge, join.join_type())
        });
    }
    let join = plan.downcast_ref::<PiecewiseMergeJoinExec>()?;
    Some(plain(Method::Range, join.join_type()))
}

/// Any other operator.
pub(super) fn other(plan: &Plan, tables: &Tables) -> Kind {
    if let Some([calls, by, order]) = window(plan) {
        return Kind::Window { calls, by, order };
    }
    let is_union = plan.downcast_ref::<UnionExec>().is_some()
        || plan.downcast_ref::<InterleaveExec>().is_some();
    if is_union {
        return Kind::Union;
    }
    if plan.downcast_ref::<PlaceholderRowExec>().is_some() {
        return Kind::OneRow;
    }
    if plan.downcast_ref::<EmptyExec>().is_some() {
        return Kind::Empty;
    }
    if plan.downcast_ref::<ScalarSubqueryExec>().is_some() {
        return Kind::Subqueries;
    }
    if plan.downcast_ref::<UnnestExec>().is_some() {
        return Kind::Unnest;
    }
    if let Some(recursive) = plan.downcast_ref::<RecursiveQueryExec>() {
        return Kind::Recursive { name: recursive.name().to_owned() };
    }
    if let Some(work) = plan.downcast_ref::<WorkTableExec>() {
        return Kind::Generated { name: work.name().to_owned() };
    }
    // A source is identified by the schema that it shares with its table.
    let whole = plan.downcast_ref::<StreamingTableExec>().map(|table| table.partition_schema());
    let schema = plan.schema();
    if let Some(name) = tables.by_schema(whole.unwrap_or(&schema)) {
        return Kind::Generated { name };
    }
    if let Some(function) = plan.downcast_ref::<LazyMemoryExec>() {
        return Kind::Generated { name: function_name(function) };
    }
    if let Some(scan) = plan.downcast_ref::<HeapScanExec>() {
        let index = scan.index().map(|(name, keys)| (shown(name.to_owned()), keys));
        // Conditions that the index answers are shown with it.
        let is_answered = index.is_some() && scan.other_filters() == 0;
        let conditions = if is_answered { Vec::new() } else { scan.conditions() };
        let aggregate = scan.partial().map(Partial::text);
        let (table, probed) = (shown(scan.table().to_owned()), scan.probed().map(str::to_owned));
        return Kind::Heap { table, index, conditions, aggregate, probed };
    }
    Kind::Other { name: plan.name().to_owned() }
}

/// The name of the function that generates rows on request.
fn function_name(function: &LazyMemoryExec) -> String {
    let first = function.generators().first();
    let name = first.and_then(|first| {
        let first = first.read();
        let any = first.as_any();
        let numbers = any.downcast_ref::<GenericSeriesState<i64>>();
        let times = any.downcast_ref::<GenericSeriesState<TimestampValue>>();
        numbers.map(GenericSeriesState::name).or_else(|| times.map(GenericSeriesState::name))
    });
    name.unwrap_or("a function").to_owned()
}
