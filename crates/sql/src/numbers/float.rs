//! Floating-point numbers in a total order: -0 equals 0, and all NaNs are equal and greater than all
//! other numbers.
//!
//! DataFusion compares them in this order, but compares bits in look-ups in lists and when it counts
//! distinct values.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::numbers::narrow::is_cast;
use crate::rules::unbounded;

#[expect(non_camel_case_types, reason = "it is called like the others")]
type f16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The function that gives equal numbers the same bits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Canonical {
    /// Whether -0 becomes 0 too.
    zeros: bool,
    /// Whether it has its own name, to stand beside the number itself.
    is_key: bool,
    signature: Signature,
}

/// A floating-point number with canonical bits, the same for all equal ones.
pub(crate) fn canonical(number: Expr) -> Expr {
    call(number, true, false)
}

/// The canonical number under its own name, to stand beside the number itself: the key of a join, a sort
/// or a window.
pub(crate) fn key(number: Expr) -> Expr {
    call(number, true, true)
}

/// A result of arithmetic with the canonical NaN: the one that a processor makes of 0/0 sorts below all
/// numbers.
pub(crate) fn with_one_nan(number: Expr) -> Expr {
    call(number, false, false)
}

fn call(number: Expr, zeros: bool, is_key: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Canonical { zeros, is_key, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![number]))
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &'static str {
        "canonical"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let name = args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default();
        Ok(if self.is_key { format!("{}({name})", self.name()) } else { name })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] if only.is_floating() => Ok(only.clone()),
            other => plan_err!("canonical takes a floating-point number, not {other:?}"),
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let zeros = self.zeros;
        let array: ArrayRef = match array.data_type() {
            DataType::Float16 => {
                Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(|number| {
                    match number {
                        number if zeros && number == f16::ZERO => f16::ZERO,
                        number if number.is_nan() => f16::NAN,
                        number => number,
                    }
                }))
            }
            DataType::Float32 => {
                Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|number| {
                    match number {
                        0.0 if zeros => 0.0,
                        number if number.is_nan() => f32::NAN,
                        number => number,
                    }
                }))
            }
            _ => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|number| {
                match number {
                    0.0 if zeros => 0.0,
                    number if number.is_nan() => f64::NAN,
                    number => number,
                }
            })),
        };
        match &args.args[0] {
            ColumnarValue::Scalar(_) if array.len() == 1 => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => Ok(ColumnarValue::Array(array)),
        }
    }
}

/// A list that contains both zeros if it contains one of them.
pub(crate) fn with_both_zeros(list: InList, data_type: &DataType) -> InList {
    let InList { expr, list: mut items, negated } = list;
    if !items.iter().all(is_constant) {
        let items = items.into_iter().map(canonical).collect();
        return InList { expr: Box::new(canonical(*expr)), list: items, negated };
    }
    if items.iter().any(is_zero) {
        match data_type {
            DataType::Float32 => items.extend([lit(0.0f32), lit(-0.0f32)]),
            DataType::Float64 => items.extend([lit(0.0f64), lit(-0.0f64)]),
            _ => {}
        }
    }
    InList { expr, list: items, negated }
}

/// The operand of a cast, or the expression itself.
fn below_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => below_casts(&cast.expr),
        Expr::TryCast(cast) => below_casts(&cast.expr),
        Expr::ScalarFunction(call) if is_cast(call) => match &call.args[..] {
            [only] => below_casts(only),
            _ => expr,
        },
        other => other,
    }
}

/// Whether an expression is a number literal, cast or not.
pub(crate) fn is_number(expr: &Expr) -> bool {
    matches!(below_casts(expr), Expr::Literal(scalar, _) if scalar.data_type().is_numeric())
}

fn is_constant(expr: &Expr) -> bool {
    match below_casts(expr) {
        Expr::Negative(inner) => is_constant(inner),
        other => matches!(other, Expr::Literal(_, _)),
    }
}

fn is_zero(expr: &Expr) -> bool {
    match below_casts(expr) {
        Expr::Negative(inner) => is_zero(inner),
        Expr::Literal(scalar, _) => match scalar {
            ScalarValue::Float32(Some(number)) => *number == 0.0,
            ScalarValue::Float64(Some(number)) => *number == 0.0,
            ScalarValue::Int64(Some(number)) => *number == 0,
            ScalarValue::Decimal128(Some(number), _, _) => *number == 0,
            // A text that is cast: its digits tell what it is.
            ScalarValue::Utf8(Some(text)) => text.trim().parse::<f64>().is_ok_and(|n| n == 0.0),
            _ => false,
        },
        _ => false,
    }
}
