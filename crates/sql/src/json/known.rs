//! The rule for values known to be JSON: functions that make JSON take them as they are, and texts in
//! quotes; jsonb values are compared and sorted by value.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::make::{MakeJson, with_known};
use super::order::{compared, in_order, sorted};
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct KnownJson;

impl AnalyzerRule for KnownJson {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |plan| each_expression(sorted(plan), one);
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "known_json"
    }
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let expr = match compared(expr, schema) {
        Ok(compared) => return Ok(Transformed::yes(compared)),
        Err(expr) => *expr,
    };
    let mut expr = expr;
    if in_order(&mut expr, schema) {
        return Ok(Transformed::yes(expr));
    }
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let Some(call) = func.inner().downcast_ref::<MakeJson>() else {
        return Ok(Transformed::no(expr));
    };
    let fields = args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(match with_known(call, &fields) {
        None => Transformed::no(expr),
        Some(known) => {
            let call = ScalarFunction::new_udf(Arc::new(known), args.clone());
            Transformed::yes(Expr::ScalarFunction(call))
        }
    })
}
