//! Pushdown of partial aggregations into the scan below them: a cell computes them on encoded columns, a
//! heap scan on rows as they are stored.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use cellar_format::from_arrow::kind_of;
use cellar_format::packed::is_packed;
use cellar_format::{Aggregate, AggregateFunction, Kind};
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::expressions::{CastExpr, Column, Literal};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::columnar::exec::{CellScanExec, Part, Partial};
use crate::columnar::translate::{Reason, arithmetic};
use crate::rows::HeapScanExec;
use crate::walk::Walk;
use crate::words::{call_text, of_schema, words};

/// The rule.
#[derive(Debug, Default)]
pub struct AggregateInScan;

impl PhysicalOptimizerRule for AggregateInScan {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let moved = |plan: Arc<dyn ExecutionPlan>| {
            let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(plan));
            };
            match moved(aggregate)? {
                Ok(scan) => Ok(Transformed::yes(scan)),
                Err(_) => Ok(Transformed::no(plan)),
            }
        };
        Ok(plan.map_down(moved)?.data)
    }

    fn name(&self) -> &'static str {
        "aggregate_in_scan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Expressions.
type Exprs = Vec<Arc<dyn PhysicalExpr>>;

/// A scan that can aggregate itself.
enum Scan {
    Cell(CellScanExec),
    Heap(Box<HeapScanExec>),
}

impl Scan {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Scan> {
        let cell = plan.downcast_ref::<CellScanExec>().map(|scan| Scan::Cell(scan.clone()));
        cell.or_else(|| {
            plan.downcast_ref::<HeapScanExec>().map(|scan| Scan::Heap(Box::new(scan.clone())))
        })
    }

    /// Whether its rows come in an order, or are only some of the rows.
    fn is_bound(&self) -> bool {
        match self {
            Scan::Cell(scan) => scan.is_bound() || scan.is_ordered(),
            Scan::Heap(scan) => scan.is_bound(),
        }
    }

    fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        match self {
            Scan::Cell(scan) => scan.over_table(expr),
            Scan::Heap(scan) => scan.over_table(expr),
        }
    }

    /// The columns of the table.
    fn schema(&self) -> SchemaRef {
        match self {
            Scan::Cell(scan) => Arc::clone(scan.table().schema()),
            Scan::Heap(scan) => scan.columns().query_schema(true),
        }
    }

    /// Whether it can compute an aggregation.
    fn check(&self, wanted: &Aggregate) -> Result<(), Reason> {
        match self {
            Scan::Cell(scan) if scan.table().fits(wanted) => Ok(()),
            Scan::Cell(_) => Err("a sum may go beyond 128 bits".to_owned()),
            Scan::Heap(scan) if scan.sums_up(wanted) => Ok(()),
            Scan::Heap(_) => Err("it is computed of decoded rows".to_owned()),
        }
    }

    fn with_partial(&self, partial: Partial) -> Arc<dyn ExecutionPlan> {
        match self {
            Scan::Cell(scan) => Arc::new(scan.with_partial(partial)),
            Scan::Heap(scan) => Arc::new(scan.with_partial(partial)),
        }
    }
}

/// The output of a plan, as expressions over a scan below it; or the operator that is in between.
fn over_scan(plan: &Arc<dyn ExecutionPlan>, exprs: Exprs) -> Result<Result<(Scan, Exprs), Reason>> {
    if let Some(scan) = Scan::of(plan) {
        // Groups come in no order, and a consumer may rely on that of the rows.
        if scan.is_bound() {
            return Ok(Err("the rows of the scan are bound to an order or a number".to_owned()));
        }
        let exprs = exprs.iter().map(|expr| scan.over_table(expr)).collect::<Result<_>>()?;
        return Ok(Ok((scan, exprs)));
    }
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>()
        && matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
    {
        return over_scan(repartition.input(), exprs);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = |expr: Arc<dyn PhysicalExpr>| {
            let replace = |expr: Arc<dyn PhysicalExpr>| {
                Ok(match expr.downcast_ref::<Column>() {
                    // What is substituted is over the input: it is not visited again.
                    Some(column) => Transformed::new(
                        Arc::clone(&projection.expr()[column.index()].expr),
                        true,
                        datafusion::common::tree_node::TreeNodeRecursion::Jump,
                    ),
                    None => Transformed::no(expr),
                })
            };
            Ok(expr.map_down(replace)?.data)
        };
        let exprs = exprs.into_iter().map(below).collect::<Result<_>>()?;
        return over_scan(projection.input(), exprs);
    }
    // An operator that passes rows on unchanged: an instrument, for one.
    if let [below] = plan.children()[..]
        && Arc::ptr_eq(plan.properties(), below.properties())
    {
        return over_scan(below, exprs);
    }
    Ok(Err(match after(plan) {
        Some(what) => format!("it comes after {what}"),
        None => "it does not come right after a scan".to_owned(),
    }))
}

/// The operator between an aggregation and its scan, in words.
fn after(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    if plan.downcast_ref::<AggregateExec>().is_some() {
        return Some("another aggregation");
    }
    if plan.downcast_ref::<FilterExec>().is_some() {
        return Some("a filter");
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        return Some("a union");
    }
    let is_window = plan.downcast_ref::<WindowAggExec>().is_some()
        || plan.downcast_ref::<BoundedWindowAggExec>().is_some();
    if is_window {
        return Some("a window");
    }
    let is_join = plan.downcast_ref::<HashJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<SortMergeJoinExec>().is_some();
    if is_join {
        return Some("a join");
    }
    match plan.children()[..] {
        [below] => after(below),
        _ => None,
    }
}

/// Why a cell does not compute an aggregation that could be pushed down.
pub(crate) fn why_not(aggregate: &AggregateExec) -> Option<Reason> {
    moved(aggregate).ok().and_then(Result::err)
}

/// A feature of an aggregation that no cell supports.
fn beyond_cells(aggregate: &AggregateExec) -> Option<&'static str> {
    let calls = aggregate.aggr_expr();
    let group = aggregate.group_expr();
    if !matches!(aggregate.mode(), AggregateMode::Partial) {
        return Some("it is done in one step");
    }
    if group.has_grouping_set() {
        return Some("it has several sets of keys");
    }
    if aggregate.limit_options().is_some() {
        return Some("only some of its groups are wanted");
    }
    if aggregate.filter_expr().iter().any(Option::is_some) {
        return Some("a call has a FILTER of its own");
    }
    if calls.iter().any(|call| call.is_distinct()) {
        return Some("a call is DISTINCT");
    }
    if calls.iter().any(|call| !call.order_bys().is_empty() || call.ignore_nulls()) {
        return Some("a call has an order or ignores nulls");
    }
    (group.is_empty() && calls.is_empty()).then_some("it computes nothing")
}

/// The scan that computes a partial aggregation itself; or why it stays where it is.
fn moved(aggregate: &AggregateExec) -> Result<Result<Arc<dyn ExecutionPlan>, Reason>> {
    if let Some(reason) = beyond_cells(aggregate) {
        return Ok(Err(reason.to_owned()));
    }
    let group = aggregate.group_expr();
    let mut exprs: Vec<Arc<dyn PhysicalExpr>> =
        group.expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let mut counts = Vec::new();
    for call in aggregate.aggr_expr() {
        let arguments = call.expressions();
        counts.push(arguments.len());
        exprs.extend(arguments);
    }
    let (scan, exprs) = match over_scan(aggregate.input(), exprs)? {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let (keys, mut arguments) = exprs.split_at(group.expr().len());
    let schema = scan.schema();
    let names = of_schema(&schema);
    if let Some(key) = keys.iter().find(|key| column_of(key).is_none()) {
        return Ok(Err(format!("the key {} is computed", words(key, &names))));
    }
    let keys: Vec<usize> = keys.iter().filter_map(column_of).collect();
    // Of packed values a cell knows only whether they are null.
    if let Some(key) = keys.iter().find(|key| is_packed(schema.field(**key).data_type())) {
        return Ok(Err(format!("the key {} is packed", schema.field(*key).name())));
    }
    let (mut calls, mut parts, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (call, count) in aggregate.aggr_expr().iter().zip(counts) {
        let (own, rest) = arguments.split_at(count);
        arguments = rest;
        let text = call_text(call, own.iter().map(|argument| words(argument, &names)).collect());
        let (own_call, own_parts) = match call_of(call, own, &schema) {
            Ok(own) => own,
            Err(reason) => return Ok(Err(format!("{text}: {reason}"))),
        };
        let at = match calls.iter().position(|known| *known == own_call) {
            Some(at) => at,
            None => {
                calls.push(own_call);
                calls.len() - 1
            }
        };
        let states = call.state_fields()?;
        let known = states.iter().all(|state| can_be(state.data_type()));
        if states.len() != own_parts.len() || !known {
            return Ok(Err(format!("{text} has more digits than a cell sums")));
        }
        parts.extend(own_parts.iter().map(|part| (at, *part)));
        texts.push(text);
    }
    let wanted = Aggregate { keys, functions: calls };
    if let Err(reason) = scan.check(&wanted) {
        return Ok(Err(reason));
    }
    let keys = wanted.keys.iter().map(|key| schema.field(*key).name().clone()).collect();
    let schema = aggregate.schema();
    let partial = Partial { aggregate: wanted, schema, parts, calls: texts, keys };
    Ok(Ok(scan.with_partial(partial)))
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// What is below the cast of a number to a floating-point number. Other casts may change values.
fn below_cast(expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => cast.expr(),
        None => expr,
    }
}

/// Whether the cell can return the state of a call in this type.
fn can_be(data_type: &DataType) -> bool {
    // The sums for an average of many digits have 256 bits.
    !matches!(data_type, DataType::Decimal256(_, _))
}

/// What the cell computes for a call, and which parts of it are the states of the call.
fn call_of(
    call: &AggregateFunctionExpr,
    arguments: &[Arc<dyn PhysicalExpr>],
    schema: &Schema,
) -> Result<(AggregateFunction, Vec<Part>), Reason> {
    let other = || "no cell computes that".to_owned();
    let [argument] = arguments else { return Err(other()) };
    match call.fun().name() {
        "count" => {
            if let Some(literal) = argument.downcast_ref::<Literal>() {
                return match literal.value().is_null() {
                    true => Err(other()),
                    false => Ok((AggregateFunction::Rows, vec![Part::Rows])),
                };
            }
            let column = column_of(argument).ok_or_else(other)?;
            Ok((AggregateFunction::Count(column), vec![Part::Rows]))
        }
        "min" | "max" => {
            let column = column_of(argument).ok_or_else(other)?;
            if is_packed(schema.field(column).data_type()) {
                return Err(other());
            }
            let is_least = call.fun().name() == "min";
            let least = if is_least {
                AggregateFunction::Least(column)
            } else {
                AggregateFunction::Greatest(column)
            };
            Ok((least, vec![Part::Value]))
        }
        "sum" => Ok((sum_of(argument, schema)?, vec![Part::Value])),
        "avg" => Ok((sum_of(argument, schema)?, vec![Part::Rows, Part::Value])),
        _ => Err(other()),
    }
}

fn sum_of(argument: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<AggregateFunction, Reason> {
    let data_type = argument.data_type(schema).map_err(|e| e.to_string())?;
    if data_type == DataType::Float64 {
        let column = below_cast(argument);
        let at = column_of(column).ok_or("sums of expressions of floating-point numbers")?;
        let own = schema.field(at).data_type();
        return match kind_of(own) {
            Some(Kind::Float32 | Kind::Float64) => Ok(AggregateFunction::SumFloat(at)),
            // An average of integers; other conversions to numbers are left to DataFusion.
            _ if own.is_integer() => {
                let (expr, _) = arithmetic(column, schema)?;
                Ok(AggregateFunction::Sum(expr))
            }
            _ => Err(format!("{own} as a floating-point number")),
        };
    }
    if argument.downcast_ref::<Column>().is_some() && data_type.is_integer() {
        let at = column_of(argument).unwrap_or_default();
        return Ok(AggregateFunction::Sum(cellar_format::Expr::Column(at)));
    }
    Ok(AggregateFunction::Sum(arithmetic(argument, schema)?.0))
}
