//! `x < ANY (S)` and `x <> ALL (S)` wherever a condition may stand, rewritten as `IN` or `EXISTS`.
//!
//! DataFusion rewrites them as `EXISTS` too, but late, after its rules for the select list, GROUP BY and
//! aggregates have run, and under names that the operators above do not know.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr, lit, when};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::in_subquery::exists;
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// The rule. It runs before those for `IN` and `EXISTS`.
#[derive(Debug)]
pub(crate) struct SetComparisons;

impl AnalyzerRule for SetComparisons {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_plan = |plan: LogicalPlan| {
            each_expression(plan, |expr, schema| match expr {
                Expr::SetComparison(own) => Ok(Transformed::yes(comparison(own, schema)?)),
                other => Ok(Transformed::no(other)),
            })
        };
        Ok(plan.map_up_with_subqueries(of_plan)?.data)
    }

    fn name(&self) -> &'static str {
        "set_comparisons"
    }
}

fn comparison(own: SetComparison, schema: &DFSchema) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = own;
    let is_any = quantifier == SetQuantifier::Any;
    let rows = InSubquery { expr, subquery, negated: !is_any };
    match (op, is_any) {
        (Operator::Eq, true) | (Operator::NotEq, false) => return Ok(Expr::InSubquery(rows)),
        _ => {}
    }
    // The rows that decide alone: for ANY by being true, for ALL by being false.
    let deciding = match is_any {
        true => Some(op),
        false => op.negate(),
    };
    let compared = |op: Operator| move |row: Expr, value: Expr| binary_expr(value, op, row);
    let decided = match deciding {
        Some(op) => exists(&rows, schema, compared(op), false)?,
        None => exists(&rows, schema, |row, value| compared(op)(row, value).is_false(), false)?,
    };
    let unknown = exists(&rows, schema, |row, value| compared(op)(row, value).is_null(), false)?;
    when(decided, lit(is_any))
        .when(unknown, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(!is_any))
}
