//! PostgreSQL's array operators.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::call::{ArrayCall, Function};
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// Plans operators, subscripts and ARRAY[..] as PostgreSQL does.
#[derive(Debug)]
pub(crate) struct ArrayOperators;

fn call(asked: Function, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ArrayCall::udf(asked)), args))
}

fn list_item(expr: &Expr, schema: &DFSchema) -> Option<FieldRef> {
    match expr.get_type(schema).ok()? {
        DataType::List(item) => Some(item),
        _ => None,
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_)), _))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// An integer literal of the statement as a 32-bit integer, if it fits.
fn integer(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Int64(Some(number)), metadata) = expr else { return None };
    let number = i32::try_from(*number).ok()?;
    Some(Expr::Literal(ScalarValue::Int32(Some(number)), metadata.clone()))
}

/// The other operand of an array operator, with the type that an untyped one takes: a text is read as an
/// array.
fn beside(expr: Expr, item: &FieldRef) -> Expr {
    if is_text(&expr) || is_null(&expr) {
        return cast(expr, DataType::List(Arc::clone(item)));
    }
    match item.data_type() {
        DataType::Int32 | DataType::Int16 => integer(&expr).unwrap_or(expr),
        _ => expr,
    }
}

impl ExprPlanner for ArrayOperators {
    fn plan_binary_op(
        &self,
        own: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let RawBinaryExpr { op, left, right } = own;
        let is_of_arrays = matches!(
            op,
            B::AtArrow | B::ArrowAt | B::PGOverlap | B::StringConcat | B::Eq | B::NotEq
        ) || matches!(op, B::Lt | B::LtEq | B::Gt | B::GtEq);
        if !is_of_arrays {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let items = (list_item(&left, schema), list_item(&right, schema));
        let (left, right) = match &items {
            (Some(item), None) => (left, beside(right, item)),
            (None, Some(item)) => (beside(left, item), right),
            (None, None) => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
            (Some(_), Some(_)) => (left, right),
        };
        let asked = match op {
            B::AtArrow => Function::Contains,
            B::ArrowAt => Function::Contained,
            B::PGOverlap => Function::Overlaps,
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(call(asked, vec![left, right])))
    }

    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        _: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let narrow: Option<Vec<Expr>> = exprs
            .iter()
            .map(|own| if is_null(own) { Some(own.clone()) } else { integer(own) })
            .collect();
        Ok(PlannerResult::Original(narrow.unwrap_or(exprs)))
    }

    fn plan_field_access(
        &self,
        own: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if list_item(&own.expr, schema).is_none() {
            return Ok(PlannerResult::Original(own));
        }
        let RawFieldAccessExpr { expr, field_access } = own;
        Ok(match field_access {
            GetFieldAccess::ListIndex { key } => {
                PlannerResult::Planned(call(Function::At, vec![expr, *key]))
            }
            GetFieldAccess::ListRange { start, stop, .. } => {
                PlannerResult::Planned(call(Function::Slice, vec![expr, *start, *stop]))
            }
            field_access => PlannerResult::Original(RawFieldAccessExpr { expr, field_access }),
        })
    }
}

/// `x = ANY(array)` with NULL where the result is unknown, which DataFusion's function lacks.
#[derive(Debug, Default)]
pub(crate) struct AnyOfArray;

impl AnalyzerRule for AnyOfArray {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |plan| each_expression(plan, one);
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "any_of_array"
    }
}

/// A CASE over arrays and untyped texts, which are read as arrays: `CASE WHEN .. THEN list ELSE '{}' END`.
fn case_of_lists(mut case: Case, schema: &DFSchema) -> Case {
    let values = case.when_then_expr.iter().map(|(_, own)| own).chain(&case.else_expr);
    let Some(item) = values.into_iter().find_map(|own| list_item(own, schema)) else { return case };
    let values = case.when_then_expr.iter_mut().map(|(_, own)| own).chain(&mut case.else_expr);
    for own in values.filter(|own| is_text(own)) {
        **own = cast(own.as_ref().clone(), DataType::List(Arc::clone(&item)));
    }
    case
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_constant = |expr: &Expr| !expr.any_column_refs() && !expr.contains_outer();
    match expr {
        // A constant becomes a list, so that an index can be used.
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if func.name() == "array_has" && args.len() == 2 && !is_constant(&args[0]) =>
        {
            let (wanted, list) = (args.remove(1), args.remove(0));
            Ok(Transformed::yes(call(Function::Any, vec![wanted, list])))
        }
        Expr::Case(case) => Ok(Transformed::yes(Expr::Case(case_of_lists(case, schema)))),
        other => Ok(Transformed::no(other)),
    }
}
