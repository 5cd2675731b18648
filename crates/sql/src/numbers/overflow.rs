//! Overflow checks, added after DataFusion has chosen types: functions that report results out of range,
//! and a normal form that makes equal floating-point numbers equal to look-ups by bits.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortExpr};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;
use crate::numbers::checked::{Arithmetic, Checked};
use crate::numbers::float::{canonical, is_number, key, with_both_zeros, with_one_nan};
use crate::numbers::narrow::{is_narrow, narrow};
use crate::numbers::whole::as_integer;
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// Numeric functions that may return a processor's own NaN, which sorts below all numbers.
const MAY_BE_NAN: [&str; 16] = [
    "acos", "acosh", "asin", "atanh", "cbrt", "cos", "cot", "exp", "ln", "log", "log10", "log2",
    "power", "sin", "sqrt", "tan",
];

/// The rule. It runs after DataFusion has chosen types.
#[derive(Debug, Default)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                if is_float(left, join.left.schema())? {
                    *left = key(std::mem::take(left));
                    *right = key(std::mem::take(right));
                }
            }
            LogicalPlan::Join(join)
        }
        // With a single key, both zeros may come in any order.
        LogicalPlan::Sort(mut sort) if sort.expr.len() > 1 => {
            sort_as_equal(&mut sort.expr, sort.input.schema())?;
            LogicalPlan::Sort(sort)
        }
        other => other,
    };
    each_expression(plan, one)
}

/// Whether an expression other than a literal is a floating-point number.
fn is_float(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(!matches!(expr, Expr::Literal(_, _)) && expr.get_type(schema)?.is_floating())
}

/// Sort keys by which equal numbers are equal.
fn sort_as_equal(keys: &mut [SortExpr], schema: &DFSchema) -> Result<()> {
    for own in keys {
        if is_float(&own.expr, schema)? {
            own.expr = key(std::mem::take(&mut own.expr));
        }
    }
    Ok(())
}

/// A cast to an integer: for an integer literal, the number itself.
fn to_integer(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(number) = as_integer(&cast.expr) {
        return Ok(Transformed::yes(number));
    }
    match is_narrow(&cast.expr.get_type(schema)?, &DataType::Int32) {
        true => Ok(Transformed::yes(narrow(*cast.expr, &DataType::Int32, false))),
        false => Ok(Transformed::no(Expr::Cast(cast))),
    }
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        // Also as join keys, whose filters look values up by their bits.
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Eq | Operator::IsNotDistinctFrom),
            right,
        }) if is_float(&left, schema)? && is_float(&right, schema)? => {
            let (left, right) = (key(*left).into(), key(*right).into());
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::WindowFunction(mut call) => {
            for own in &mut call.params.partition_by {
                if is_float(own, schema)? {
                    *own = key(std::mem::take(own));
                }
            }
            sort_as_equal(&mut call.params.order_by, schema)?;
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        Expr::Cast(cast)
            if is_one_as_array(&cast.expr.get_type(schema)?, cast.field.data_type()) =>
        {
            let text = "a single value stands where an array is wanted";
            let error = Error::new(932, "42804", text).next("write ARRAY[..]");
            Err(DataFusionError::External(Box::new(error)))
        }
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int32 => to_integer(cast, schema),
        Expr::Cast(cast) if is_narrow(&cast.expr.get_type(schema)?, cast.field.data_type()) => {
            Ok(Transformed::yes(narrow(*cast.expr, cast.field.data_type(), false)))
        }
        Expr::TryCast(cast) if is_narrow(&cast.expr.get_type(schema)?, cast.field.data_type()) => {
            Ok(Transformed::yes(narrow(*cast.expr, cast.field.data_type(), true)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let arithmetic = match op {
                Operator::Plus => Some(Arithmetic::Add),
                Operator::Minus => Some(Arithmetic::Subtract),
                Operator::Multiply => Some(Arithmetic::Multiply),
                _ => None,
            };
            let types = (left.get_type(schema)?, right.get_type(schema)?);
            match arithmetic.filter(|arithmetic| may_overflow(*arithmetic, &types.0, &types.1)) {
                Some(arithmetic) => Ok(Transformed::yes(call(arithmetic, vec![*left, *right]))),
                None if op.is_numerical_operators() && types.0.is_floating() => {
                    let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                    Ok(Transformed::yes(with_one_nan(expr)))
                }
                None => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
        }
        Expr::Negative(inner) if inner.get_type(schema)?.is_signed_integer() => {
            Ok(Transformed::yes(call(Arithmetic::Negate, vec![*inner])))
        }
        Expr::InList(list) => {
            let data_type = list.expr.get_type(schema)?;
            Ok(match data_type.is_floating() {
                true => Transformed::yes(Expr::InList(with_both_zeros(list, &data_type))),
                false => Transformed::no(Expr::InList(list)),
            })
        }
        Expr::AggregateFunction(mut call) if call.params.distinct => {
            for arg in &mut call.params.args {
                if arg.get_type(schema)?.is_floating() {
                    *arg = canonical(std::mem::take(arg));
                }
            }
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => of_functions(other, schema),
    }
}

fn of_functions(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Negative(inner) if is_float(&inner, schema)? && !is_number(&inner) => {
            Ok(Transformed::yes(with_one_nan(Expr::Negative(inner))))
        }
        Expr::ScalarFunction(call)
            if MAY_BE_NAN.contains(&call.name())
                && Expr::ScalarFunction(call.clone()).get_type(schema)?.is_floating() =>
        {
            Ok(Transformed::yes(with_one_nan(Expr::ScalarFunction(call))))
        }
        Expr::Cast(cast) if is_of_instant(&cast, schema)? => {
            let to = cast.field.data_type().clone();
            let text = Expr::Cast(cast);
            let args = vec![text, lit("T"), lit(" ")];
            let function = datafusion::functions::string::replace();
            let spaced = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
            Ok(Transformed::yes(datafusion::logical_expr::cast(spaced, to)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether a cast is from a timestamp to text, which Arrow writes with a T between day and time.
fn is_of_instant(cast: &Cast, schema: &DFSchema) -> Result<bool> {
    let is_text = matches!(cast.field.data_type(), DataType::Utf8 | DataType::Utf8View);
    Ok(is_text && matches!(cast.expr.get_type(schema)?, DataType::Timestamp(_, None)))
}

/// Whether a cast to an array is from something that is neither an array nor the text of one: Arrow
/// would make a one-item array from it.
fn is_one_as_array(from: &DataType, to: &DataType) -> bool {
    matches!(to, DataType::List(_)) && !from.is_nested() && !from.is_string() && !from.is_null()
}

fn call(arithmetic: Arithmetic, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Checked::udf(arithmetic), args))
}

/// Whether a result may be out of range for its type.
fn may_overflow(arithmetic: Arithmetic, left: &DataType, right: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal128(p, s) => {
            Some((i16::from(*p), i16::from(*s), DECIMAL128_MAX_PRECISION))
        }
        DataType::Decimal256(p, s) => {
            Some((i16::from(*p), i16::from(*s), DECIMAL256_MAX_PRECISION))
        }
        _ => None,
    };
    match (digits(left), digits(right)) {
        (Some((p1, s1, most)), Some((p2, s2, _))) => {
            let needed = match arithmetic {
                Arithmetic::Multiply => p1 + p2 + 1,
                _ => (p1 - s1).max(p2 - s2) + s1.max(s2) + 1,
            };
            needed > i16::from(most)
        }
        _ => left.is_integer() && right.is_integer(),
    }
}
