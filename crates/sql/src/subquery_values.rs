//! VALUES with subqueries, as a union of rows. DataFusion 55 computes VALUES while it plans, when no subquery has run
//! yet: `INSERT INTO t VALUES ((SELECT max(id) + 1 FROM t))` was an internal error.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Values, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::WalkPlan;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct SubqueryValues;

impl AnalyzerRule for SubqueryValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "subquery_values"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Values(values) if has_subquery(values)? => {
            Ok(Transformed::yes(rows_of(values)?))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

fn has_subquery(values: &Values) -> Result<bool> {
    let is_one = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    };
    for expr in values.values.iter().flatten() {
        if expr.exists(is_one)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn rows_of(values: &Values) -> Result<LogicalPlan> {
    let nothing = DFSchema::empty();
    let row = |row: &Vec<Expr>| {
        let columns = row.iter().zip(values.schema.fields()).map(|(expr, field)| {
            let expr = match expr.get_type(&nothing)? == *field.data_type() {
                true => expr.clone(),
                false => cast(expr.clone(), field.data_type().clone()),
            };
            Ok(expr.alias(field.name()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::empty(true).project(columns)?.build()
    };
    let mut rows = values.values.iter().map(row);
    let first = rows.next().unwrap_or_else(|| LogicalPlanBuilder::empty(false).build())?;
    let all = rows.try_fold(LogicalPlanBuilder::from(first), |all, next| all.union(next?))?;
    all.build()
}
