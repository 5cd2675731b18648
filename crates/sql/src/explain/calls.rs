//! Calls of aggregate and window functions, and the keys that they are grouped by, in words.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};

use crate::columnar::exec::{CellScanExec, Partial};
use crate::explain::names::{DEEPEST, column, over, over_at};
use crate::rows::HeapScanExec;
use crate::words::{Names, call_text, own_name, sort_key, words};

/// Where a two-step aggregation begins: there the arguments are expressions over the input.
pub(crate) enum FirstStep<'a> {
    /// In an operator, which may also be the last step.
    Operator(&'a AggregateExec),
    /// In a scan: that of a cell, or of the heap.
    Scan { partial: &'a Partial, in_cell: bool },
    /// It was not found below: only the last step is known.
    Unknown(&'a AggregateExec),
}

/// The first step of an aggregation.
pub(crate) fn first_step(last: &AggregateExec) -> FirstStep<'_> {
    let is_last = matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
    if !is_last {
        return FirstStep::Operator(last);
    }
    let mut below = last.input();
    loop {
        if let Some(aggregate) = below.downcast_ref::<AggregateExec>() {
            return match aggregate.mode() {
                AggregateMode::Partial => FirstStep::Operator(aggregate),
                AggregateMode::PartialReduce => first_step(aggregate),
                _ => FirstStep::Unknown(last),
            };
        }
        let of_cell = below.downcast_ref::<CellScanExec>().and_then(CellScanExec::partial);
        let of_heap = below.downcast_ref::<HeapScanExec>().and_then(HeapScanExec::partial);
        if let Some(partial) = of_cell.or(of_heap) {
            return FirstStep::Scan { partial, in_cell: of_cell.is_some() };
        }
        match below.children()[..] {
            [input] => below = input,
            _ => return FirstStep::Unknown(last),
        }
    }
}

/// The calls of an aggregation, over the input of its first step.
pub(crate) fn call_words(first: &FirstStep<'_>, depth: usize) -> Vec<String> {
    match first {
        FirstStep::Scan { partial, .. } => partial.call_words().to_vec(),
        FirstStep::Operator(aggregate) => {
            let input = aggregate.input();
            let of = |expr: &Arc<dyn PhysicalExpr>| over_at(expr, input, depth);
            let filters = aggregate.filter_expr().iter().map(Option::as_ref);
            let calls = aggregate.aggr_expr().iter().zip(filters);
            calls.map(|(call, filter)| call_over(call, filter.map(&of), &of)).collect()
        }
        FirstStep::Unknown(last) => {
            let of = |expr: &Arc<dyn PhysicalExpr>| words(expr, &own_name);
            last.aggr_expr().iter().map(|call| call_over(call, None, &of)).collect()
        }
    }
}

/// The calls of an aggregation.
pub(crate) fn calls_of(last: &AggregateExec) -> Vec<String> {
    call_words(&first_step(last), DEEPEST)
}

/// The keys of an aggregation.
pub(crate) fn keys_of(last: &AggregateExec) -> Vec<String> {
    let over_input = |aggregate: &AggregateExec| {
        let keys = aggregate.group_expr().expr().iter();
        keys.map(|(expr, _)| over(expr, aggregate.input())).collect::<Vec<_>>()
    };
    match first_step(last) {
        FirstStep::Operator(first) => over_input(first),
        FirstStep::Scan { partial, .. } => partial.key_words().to_vec(),
        FirstStep::Unknown(last) => over_input(last),
    }
}

/// A call of an aggregate function; `of` describes expressions over its input.
fn call_over(
    call: &AggregateFunctionExpr,
    filter: Option<String>,
    of: &dyn Fn(&Arc<dyn PhysicalExpr>) -> String,
) -> String {
    let arguments = call.expressions().iter().map(of).collect();
    let mut text = call_text(call, arguments);
    if !call.order_bys().is_empty() {
        let by: Vec<String> = call.order_bys().iter().map(|key| of(&key.expr)).collect();
        text.push_str(&format!(" within (order by {})", by.join(", ")));
    }
    if let Some(filter) = filter {
        text.push_str(&format!(" filter (where {filter})"));
    }
    text
}

/// The calls of window functions, PARTITION BY and ORDER BY, if a plan computes any.
pub(crate) fn window(plan: &Arc<dyn ExecutionPlan>) -> Option<[Vec<String>; 3]> {
    let (calls, input) = window_parts(plan)?;
    let of = |expr: &Arc<dyn PhysicalExpr>| over(expr, input);
    let first = calls.first()?;
    let names: Names<'_> = &|own: &Column| column(input, own.index());
    let order = first.order_by().iter().map(|key| sort_key(key, names)).collect();
    let by = first.partition_by().iter().map(of).collect();
    Some([window_calls(plan)?, by, order])
}

type WindowCalls<'a> = &'a [Arc<dyn WindowExpr>];

fn window_parts(
    plan: &Arc<dyn ExecutionPlan>,
) -> Option<(WindowCalls<'_>, &Arc<dyn ExecutionPlan>)> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Some((window.window_expr(), window.input()));
    }
    let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
    Some((window.window_expr(), window.input()))
}

/// The calls of window functions.
pub(crate) fn window_calls(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<String>> {
    let (calls, input) = window_parts(plan)?;
    let of = |expr: &Arc<dyn PhysicalExpr>| over(expr, input);
    Some(calls.iter().map(|call| window_call(call.as_ref(), &of)).collect())
}

fn window_call(call: &dyn WindowExpr, of: &dyn Fn(&Arc<dyn PhysicalExpr>) -> String) -> String {
    let any = call.as_any();
    let aggregate = any
        .downcast_ref::<PlainAggregateWindowExpr>()
        .map(PlainAggregateWindowExpr::get_aggregate_expr)
        .or_else(|| {
            let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>();
            sliding.map(SlidingAggregateWindowExpr::get_aggregate_expr)
        });
    if let Some(aggregate) = aggregate {
        return call_over(aggregate, None, of);
    }
    let function = any
        .downcast_ref::<StandardWindowExpr>()
        .and_then(|own| own.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>());
    let Some(function) = function else { return call.name().to_owned() };
    let arguments: Vec<String> = call.expressions().iter().map(of).collect();
    format!("{}({})", function.fun().name(), arguments.join(", "))
}
