//! The rule for values of uuid: what they are compared with is read as uuid too, and takes the stored form.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;

use super::call::JsonCall;
use super::form::{FORM, Form};
use crate::error::Error;
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// Functions that return one of their arguments.
const CHOICES: [&str; 6] = ["coalesce", "nullif", "greatest", "least", "nvl", "ifnull"];

/// Functions of an array and a value of its items, in this order.
const WITH_ITEM: [&str; 6] = [
    "array_has",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_append",
];

/// Functions of two arrays.
const OF_ARRAYS: [&str; 6] = [
    "array_has_all",
    "array_has_any",
    "array_concat",
    "array_contains_all",
    "array_contained",
    "array_overlap",
];

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct KnownUuids;

impl AnalyzerRule for KnownUuids {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |plan| each_expression(plan, one);
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "known_uuids"
    }
}

/// Whether values, or the items of arrays, are known to be of uuid.
pub(crate) fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(..) => false,
        Expr::Alias(alias) => is_uuid(&alias.expr, schema),
        Expr::ScalarFunction(call) if call.func.name() == "uuid" => true,
        Expr::ScalarFunction(call) if CHOICES.contains(&call.func.name()) => {
            call.args.iter().any(|arg| is_uuid(arg, schema))
        }
        Expr::ScalarFunction(call) if call.func.name() == "make_array" => {
            call.args.iter().any(|arg| is_uuid(arg, schema))
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            values.into_iter().any(|value| is_uuid(value, schema))
        }
        other => other.to_field(schema).is_ok_and(|(_, field)| {
            field.metadata().get(FORM).is_some_and(|form| form == Form::Uuid.name())
        }),
    }
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_))
}

/// A value beside others of uuid, or an array beside others of their arrays.
fn beside(expr: Expr, is_array: bool, schema: &DFSchema) -> Result<Expr> {
    if is_uuid(&expr, schema) || matches!(expr, Expr::Placeholder(_)) {
        return Ok(expr);
    }
    let array = DataType::new_list(DataType::Utf8, true);
    match expr {
        Expr::Literal(value, metadata) => {
            let value = match (value.data_type(), is_array) {
                (own, false) if own.is_string() => value.cast_to(&DataType::Utf8)?,
                (own, true) if own.is_string() => {
                    return Ok(in_form(cast(Expr::Literal(value, metadata), array)));
                }
                (DataType::List(item), true) if item.data_type().is_string() => {
                    value.cast_to(&array)?
                }
                _ => return Ok(Expr::Literal(value, metadata)),
            };
            let kept = Form::Uuid.kept_all(&value.to_array()?).map_err(failed)?;
            Ok(Expr::Literal(ScalarValue::try_from_array(&kept, 0)?, metadata))
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if is_array && func.name() == "make_array" =>
        {
            let args = args.into_iter().map(|arg| beside(arg, false, schema));
            let args = args.collect::<Result<Vec<Expr>>>()?;
            Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => {
            let own = other.get_type(schema)?;
            let is_text = match &own {
                DataType::List(item) => is_array && item.data_type().is_string(),
                own => !is_array && own.is_string(),
            };
            if !is_text {
                return Ok(other);
            }
            if other.any_column_refs() {
                let text = "operator does not exist: uuid = text";
                let error = Error::new(920, "42883", text);
                return Err(failed(error.next("cast one side: x::text, or y::uuid")));
            }
            Ok(in_form(other))
        }
    }
}

fn in_form(expr: Expr) -> Expr {
    let call = ScalarFunction::new_udf(Arc::new(JsonCall::uuid_in()), vec![expr]);
    Expr::ScalarFunction(call)
}

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(
        op,
        O::Eq
            | O::NotEq
            | O::Lt
            | O::LtEq
            | O::Gt
            | O::GtEq
            | O::IsDistinctFrom
            | O::IsNotDistinctFrom
    )
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is = |expr: &Expr| is_uuid(expr, schema);
    let of_array = |expr: &Expr| expr.get_type(schema).is_ok_and(|own| is_list(&own));
    let value = |expr: Expr| beside(expr, false, schema);
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && is(&left) != is(&right) =>
        {
            let is_array = if is(&left) { of_array(&left) } else { of_array(&right) };
            let left = Box::new(beside(*left, is_array, schema)?);
            let right = Box::new(beside(*right, is_array, schema)?);
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) if is(&expr) || list.iter().any(is) => {
            let expr = Box::new(value(*expr)?);
            let list = list.into_iter().map(value).collect::<Result<Vec<Expr>>>()?;
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if is(&expr) || is(&low) || is(&high) =>
        {
            let [expr, low, high] = [*expr, *low, *high].map(|own| value(own).map(Box::new));
            let (expr, low, high) = (expr?, low?, high?);
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::Case(Case { expr: Some(own), when_then_expr, else_expr }) if is(&own) => {
            let when = |(when, then): (Box<Expr>, Box<Expr>)| Ok((Box::new(value(*when)?), then));
            let when_then_expr = when_then_expr.into_iter().map(when).collect::<Result<_>>()?;
            Transformed::yes(Expr::Case(Case { expr: Some(own), when_then_expr, else_expr }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let name = func.name();
            let places: &[bool] = match name {
                name if WITH_ITEM.contains(&name) => &[true, false],
                "array_prepend" => &[false, true],
                "equals_any" => &[false, true],
                name if OF_ARRAYS.contains(&name) => &[true, true],
                name if CHOICES.contains(&name) && args.iter().any(is) => &[],
                _ => {
                    return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction {
                        func,
                        args,
                    })));
                }
            };
            if !args.iter().any(is) {
                return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
            }
            let known = args.iter().any(|arg| is(arg) && of_array(arg));
            let place = |at: usize| places.get(at).copied().unwrap_or(places.is_empty() && known);
            let args = args.into_iter().enumerate().map(|(at, arg)| beside(arg, place(at), schema));
            let args = args.collect::<Result<Vec<Expr>>>()?;
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => Transformed::no(other),
    })
}
