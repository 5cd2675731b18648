//! `LATERAL (SELECT expressions)` without a table: the values that it computes for each row become
//! columns beside the row. Other subqueries after LATERAL are joins that DataFusion supports.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{Walk, WalkPlan, are_of};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct LateralValues;

impl AnalyzerRule for LateralValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "lateral_values"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let is_plain = matches!(join.join_type, JoinType::Inner | JoinType::Left)
        && join.on.is_empty()
        && join.filter.is_none();
    match values_of(&join.right, None).filter(|_| is_plain) {
        Some((projection, alias)) if are_of(&projection.expr, join.left.schema())? => {
            beside(&join, &projection, alias.as_ref())
        }
        _ => Ok(Transformed::no(LogicalPlan::Join(join))),
    }
}

/// The projection over a single row, and the alias of its columns.
fn values_of(
    plan: &LogicalPlan,
    alias: Option<&TableReference>,
) -> Option<(Projection, Option<TableReference>)> {
    match plan {
        LogicalPlan::SubqueryAlias(own) => values_of(&own.input, Some(alias.unwrap_or(&own.alias))),
        LogicalPlan::Subquery(own) => values_of(&own.subquery, alias),
        LogicalPlan::Projection(own) => match own.input.as_ref() {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let refers = own.expr.iter().any(Expr::contains_outer);
                refers.then(|| (own.clone(), alias.cloned()))
            }
            _ => None,
        },
        _ => None,
    }
}

fn beside(
    join: &Join,
    projection: &Projection,
    alias: Option<&TableReference>,
) -> Result<Transformed<LogicalPlan>> {
    let mut columns: Vec<Expr> =
        join.left.schema().columns().into_iter().map(Expr::Column).collect();
    for (expr, column) in projection.expr.iter().zip(join.right.schema().columns()) {
        let of_row = |expr: Expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
            other => Ok(Transformed::no(other)),
        };
        let value = expr.clone().unalias_nested().data.map_up(of_row)?.data;
        columns.push(value.alias_qualified(alias.cloned(), column.name));
    }
    let plan = LogicalPlanBuilder::from(Arc::clone(&join.left)).project(columns)?.build()?;
    Ok(Transformed::yes(plan))
}
