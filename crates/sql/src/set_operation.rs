//! `EXCEPT ALL` and `INTERSECT ALL`, which count how often a row occurs.
//!
//! DataFusion plans them as the anti or semi join of `EXCEPT` and `INTERSECT`, without DISTINCT on the
//! left: every occurrence of a row that is on both sides is dropped or kept. Here each side numbers equal
//! rows, and the number is one more key: `a` rows less `b` equal ones leave `a - b`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::WalkPlan;

/// The column that numbers equal rows.
const NUMBER: &str = "__equal_row";
const OTHER_NUMBER: &str = "__equal_row_of_other";

/// The rule. It runs before types are chosen, because it adds join keys.
#[derive(Debug, Default)]
pub(crate) struct CountEqualRows;

impl AnalyzerRule for CountEqualRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "count_equal_rows"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else {
        return Ok(Transformed::no(plan));
    };
    if !is_of_all(&join) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns = join.left.schema().columns();
    let left = numbered(&join.left, NUMBER)?;
    let right = numbered(&join.right, OTHER_NUMBER)?;
    let mut keys: (Vec<Column>, Vec<Column>) = (columns.clone(), join.right.schema().columns());
    keys.0.push(Column::new_unqualified(NUMBER));
    keys.1.push(Column::new_unqualified(OTHER_NUMBER));
    let rewritten = LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, keys, None, NullEquality::NullEqualsNull)?
        .project(columns.into_iter().map(Expr::Column))?
        .build()?;
    Ok(Transformed::yes(rewritten))
}

/// Whether a join is DataFusion's plan for `EXCEPT ALL` or `INTERSECT ALL`: only there do nulls equal
/// each other before plans are optimized. If the left rows are distinct, no number is above 1.
fn is_of_all(join: &Join) -> bool {
    let pairs = join.on.iter().map(|(left, right)| (left.clone(), right.clone()));
    let expr = |columns: Vec<Column>| columns.into_iter().map(Expr::Column);
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(&*join.left, LogicalPlan::Distinct(Distinct::All(_)))
        && pairs.eq(expr(join.left.schema().columns()).zip(expr(join.right.schema().columns())))
}

fn numbered(plan: &Arc<LogicalPlan>, name: &str) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?.alias(name);
    LogicalPlanBuilder::from(Arc::clone(plan)).window([number])?.build()
}
