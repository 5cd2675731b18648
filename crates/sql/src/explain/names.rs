//! Column names as the author of the query knows them: what a column of a plan was computed from.
//!
//! DataFusion names computed columns after the text of their expression, or by a number of its own. Such
//! names are traced down to the expression; a name given by the query stays.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::expressions::BinaryExpr;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use crate::columnar::exec::CellScanExec;
use crate::explain::calls::{call_words, first_step, window_calls};
use crate::rows::HeapScanExec;
use crate::words::{own_name, words};

/// How deep a column is traced. Plans that anybody reads are not deeper.
pub(crate) const DEEPEST: usize = 200;

/// An expression over the output of a plan.
pub(crate) fn over(expr: &Arc<dyn PhysicalExpr>, plan: &Arc<dyn ExecutionPlan>) -> String {
    over_at(expr, plan, DEEPEST)
}

pub(crate) fn over_at(
    expr: &Arc<dyn PhysicalExpr>,
    plan: &Arc<dyn ExecutionPlan>,
    depth: usize,
) -> String {
    words(expr, &|column| named(column.name(), column.index(), plan, depth))
}

/// An output column of a plan.
pub(crate) fn column(plan: &Arc<dyn ExecutionPlan>, at: usize) -> String {
    let schema = plan.schema();
    let name = schema.fields().get(at).map_or("?", |field| field.name().as_str());
    named(name, at, plan, DEEPEST)
}

/// The condition of a join over its two inputs.
pub(crate) fn over_both(
    filter: &JoinFilter,
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
) -> String {
    let text = words(filter.expression(), &|own| match filter.column_indices().get(own.index()) {
        Some(at) if at.side == JoinSide::Left => column(left, at.index),
        Some(at) if at.side == JoinSide::Right => column(right, at.index),
        _ => own_name(own),
    });
    // It is shown after others, with "and" in between.
    let is_or = filter.expression().downcast_ref::<BinaryExpr>();
    match is_or.is_some_and(|binary| *binary.op() == Operator::Or) {
        true => format!("({text})"),
        false => text,
    }
}

/// Whether a name was given by a user, and is not the text of an expression or one of DataFusion's own.
fn is_given(name: &str) -> bool {
    let number = name.strip_prefix("alias").or_else(|| name.strip_prefix("group_alias_"));
    if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
        return false;
    }
    let is_legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | '$');
    !name.is_empty() && !name.starts_with("__") && name.chars().all(is_legal)
}

fn named(name: &str, at: usize, plan: &Arc<dyn ExecutionPlan>, depth: usize) -> String {
    if is_given(name) || depth == 0 {
        return name.to_owned();
    }
    computed(at, plan, depth - 1).unwrap_or_else(|| name.to_owned())
}

/// What a column of a plan is computed from.
fn computed(at: usize, plan: &Arc<dyn ExecutionPlan>, depth: usize) -> Option<String> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = &projection.expr().get(at)?.expr;
        return Some(over_at(expr, projection.input(), depth));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate, at, depth);
    }
    if let Some(scan) = plan.downcast_ref::<CellScanExec>() {
        return match scan.partial() {
            Some(partial) => partial.key_words().get(at).cloned(),
            None => {
                let field = scan.table().schema().fields().get(scan.column(at)?)?;
                Some(field.name().clone())
            }
        };
    }
    if let Some(scan) = plan.downcast_ref::<HeapScanExec>() {
        return scan.partial()?.key_words().get(at).cloned();
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = match filter.projection() {
            Some(projection) => *projection.get(at)?,
            None => at,
        };
        return Some(below_named(below, filter.input(), depth));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let at = match &join.projection {
            Some(projection) => *projection.get(at)?,
            None => at,
        };
        return of_join(at, *join.join_type(), join.left(), join.right(), depth);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let at = match join.projection() {
            Some(projection) => *projection.get(at)?,
            None => at,
        };
        return of_join(at, *join.join_type(), join.left(), join.right(), depth);
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return of_join(at, join.join_type(), join.left(), join.right(), depth);
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        return of_join(at, JoinType::Inner, join.left(), join.right(), depth);
    }
    if let Some(calls) = window_calls(plan) {
        let input = *plan.children().first()?;
        let before = input.schema().fields().len();
        return match at.checked_sub(before) {
            None => Some(below_named(at, input, depth)),
            Some(call) => calls.get(call).cloned(),
        };
    }
    let is_union = plan.downcast_ref::<UnionExec>().is_some();
    match plan.children()[..] {
        [below] if below.schema().fields().len() == plan.schema().fields().len() => {
            Some(below_named(at, below, depth))
        }
        [first, ..] if is_union => Some(below_named(at, first, depth)),
        _ => None,
    }
}

fn below_named(at: usize, plan: &Arc<dyn ExecutionPlan>, depth: usize) -> String {
    let schema = plan.schema();
    let name = schema.fields().get(at).map_or("?", |field| field.name().as_str());
    named(name, at, plan, depth)
}

fn of_join(
    at: usize,
    join_type: JoinType,
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
    depth: usize,
) -> Option<String> {
    let of_right =
        matches!(join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let (first, second) = if of_right { (right, left) } else { (left, right) };
    let before = first.schema().fields().len();
    if at < before {
        return Some(below_named(at, first, depth));
    }
    match join_type {
        JoinType::LeftMark | JoinType::RightMark => Some("found".to_owned()),
        _ => Some(below_named(at - before, second, depth)),
    }
}

fn of_aggregate(aggregate: &AggregateExec, at: usize, depth: usize) -> Option<String> {
    let keys = aggregate.group_expr().expr();
    match at.checked_sub(keys.len()) {
        None => Some(over_at(&keys[at].0, aggregate.input(), depth)),
        Some(call) => {
            let first = first_step(aggregate);
            call_words(&first, depth).get(call).cloned()
        }
    }
}
