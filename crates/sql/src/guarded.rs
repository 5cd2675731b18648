//! Conditions that guard others against evaluation on rows where they would fail: `CASE WHEN x = 0 THEN
//! false ELSE 10/x > 3 END`, `x = 0 OR 10/x > 3`.
//!
//! DataFusion 55 rewrites a CASE with boolean results as AND and OR, and evaluates both sides of those
//! for all rows. It leaves a CASE with numeric results alone, and evaluates each branch only for its own
//! rows.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit, not,
};
use datafusion::optimizer::AnalyzerRule;

use crate::numbers::narrow::is_cast;
use crate::walk::{Walk, WalkPlan};

/// The rule. It runs after types are chosen.
#[derive(Debug, Default)]
pub(crate) struct Guarded;

impl AnalyzerRule for Guarded {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "guarded"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if plan.inputs().is_empty() {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let mut may_fail = false;
    for expr in plan.expressions() {
        may_fail |= fails(&expr, &schema)?;
    }
    if !may_fail {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let is_filter = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    plan.map_own(|expr| {
        let name = names.save(&expr);
        // The conditions of a filter are evaluated one after the other.
        let conjuncts = match is_filter {
            true => split_conjunction_owned(expr),
            false => vec![expr],
        };
        let guarded = conjuncts.into_iter().map(|expr| guard(expr, &schema));
        let guarded =
            conjunction(guarded.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(name.restore(guarded)))
    })
}

/// Whether the evaluation of an expression may fail.
fn fails(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(_, _));
    expr.any(|expr| {
        Ok(match expr {
            Expr::BinaryExpr(own) => {
                matches!(own.op, Operator::Divide | Operator::Modulo) && !is_literal(&own.right)
            }
            Expr::Cast(own) => {
                let is_text = own.expr.get_type(schema)?.is_string();
                is_text && !own.field.data_type().is_string() && !is_literal(&own.expr)
            }
            Expr::ScalarFunction(call) if is_cast(call) => !call.args.iter().all(is_literal),
            Expr::ScalarFunction(call) if call.name() == "divide" => {
                !call.args.last().is_some_and(is_literal)
            }
            _ => false,
        })
    })
}

fn guard(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let guarded = expr.map_down(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let mut all = Vec::new();
            operands(expr, op, &mut all);
            let all = all.into_iter().map(|own| guard(own, schema)).collect::<Result<Vec<_>>>()?;
            Ok(Transformed::new(in_turn(all, op, schema)?, true, TreeNodeRecursion::Jump))
        }
        Expr::Case(own) if is_truth(&own, schema)? && fails(&Expr::Case(own.clone()), schema)? => {
            Ok(Transformed::yes(of_numbers(own)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(guarded?.data)
}

fn operands(expr: Expr, op: Operator, all: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryExpr(own) if own.op == op => {
            operands(*own.left, op, all);
            operands(*own.right, op, all);
        }
        other => all.push(other),
    }
}

/// Conditions, each evaluated only for rows that those before it do not decide.
fn in_turn(all: Vec<Expr>, op: Operator, schema: &DFSchema) -> Result<Expr> {
    let mut may_fail = false;
    for later in all.iter().skip(1) {
        may_fail |= fails(later, schema)?;
    }
    let before = all[..all.len().saturating_sub(1)].to_vec();
    let join = |a, b| Expr::BinaryExpr(BinaryExpr::new(Box::new(a), op, Box::new(b)));
    let whole = all.into_iter().reduce(join).unwrap_or_else(|| lit(op == Operator::And));
    if !may_fail || whole.is_volatile() {
        return Ok(whole);
    }
    let decided = lit(op == Operator::Or);
    let when = before.into_iter().map(|own| {
        let own = if op == Operator::Or { own } else { not(own) };
        (Box::new(own), Box::new(decided.clone()))
    });
    let when_then_expr = when.collect();
    Ok(of_numbers(Case { expr: None, when_then_expr, else_expr: Some(Box::new(whole)) }))
}

fn is_truth(own: &Case, schema: &DFSchema) -> Result<bool> {
    Ok(Expr::Case(own.clone()).get_type(schema)? == DataType::Boolean)
}

/// A CASE with boolean results, rewritten with 1 and 0.
fn of_numbers(own: Case) -> Expr {
    let number = |truth: Box<Expr>| Box::new(cast(*truth, DataType::Int8));
    let when = own.when_then_expr.into_iter().map(|(when, then)| (when, number(then)));
    let when_then_expr = when.collect();
    let numbers = Case { expr: own.expr, when_then_expr, else_expr: own.else_expr.map(number) };
    cast(Expr::Case(numbers), DataType::Boolean)
}
