//! Helpers shared by the rules over the expressions of a plan.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};

/// Changes the expressions of one plan, from below, each with the columns that it is over. What the plan
/// returns keeps its names.
pub(crate) fn each_expression(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(TableScan { table_name, source, .. }) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(table_name.clone(), &source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| change(expr, &schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}
