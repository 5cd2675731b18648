//! Helpers shared by the rules over the expressions of a plan.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDFImpl, TableScan};

use crate::walk::{Walk, WalkPlan};

/// Changes the expressions of one plan, bottom up, each with the columns of its input. The output of the
/// plan keeps its names.
pub(crate) fn each_expression(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(TableScan { table_name, source, .. }) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(table_name.clone(), &source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let changed = |expr: Expr| {
        let name = names.save(&expr);
        let expr = expr.map_up(|expr| change(expr, &schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    };
    plan.map_own(|expr| match expr {
        // Each member is named: an alias of the whole is not one of its columns.
        Expr::GroupingSet(_) => expr.map_children(changed),
        other => changed(other),
    })
}

/// Bounds of a function's result, of which only the type is known.
///
/// DataFusion's own default has no type, and then refuses to sort by functions of ours within its
/// functions.
pub(crate) fn unbounded(function: &impl ScalarUDFImpl, inputs: &[&Interval]) -> Result<Interval> {
    let types: Vec<DataType> = inputs.iter().map(|input| input.data_type()).collect();
    Interval::make_unbounded(&function.return_type(&types)?)
}
