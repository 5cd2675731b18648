//! Division of decimals to enough digits, rounded half away from zero.
//!
//! Arrow returns four more digits than the dividend has, and truncates: 1/3.0 is 0.3333, 2.0/3 is
//! 0.66666. Here there are sixteen digits after the point, or as many as 38 digits in all allow, as in
//! PostgreSQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Field, FieldRef, i256,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::numbers::checked::beyond_digits;
use crate::rules::unbounded;

/// Digits after the point of a quotient, if there is room.
const SCALE: i16 = 16;
/// The least number of digits after the point of a quotient: beyond those of its dividend, and in all.
const MORE: i16 = 4;
const LEAST: i16 = 6;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Divide {
    signature: Signature,
}

/// A quotient of decimals of at most 38 digits, or of integers; `None`: it is of other numbers.
pub(crate) fn divide(left: &Expr, right: &Expr, types: [&DataType; 2]) -> Option<Expr> {
    let has_decimal = types.iter().any(|t| matches!(t, DataType::Decimal128(_, _)));
    let are_exact = types.iter().all(|t| digits_of(t).is_some());
    (has_decimal && are_exact).then(|| {
        let function = Divide { signature: Signature::any(2, Volatility::Immutable) };
        let function = Arc::new(ScalarUDF::new_from_impl(function));
        let args = vec![left.clone(), right.clone()];
        Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
    })
}

/// Precision and scale of exact numbers.
fn digits_of(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Decimal128(p, s) if *s >= 0 => (*p, *s),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 | DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// The scale of a quotient.
pub(super) fn scale_of(left: &DataType, right: &DataType) -> Option<i8> {
    let ((p1, s1), (_, s2)) = (digits_of(left)?, digits_of(right)?);
    let (p1, s1, s2) = (i16::from(p1), i16::from(s1), i16::from(s2));
    let most = i16::from(DECIMAL128_MAX_PRECISION);
    let room = most - (p1 - s1 + s2);
    let least = (s1 + MORE).max(LEAST).min(most);
    Some(room.min(SCALE).max(least) as i8)
}

/// The number, if 38 digits hold it.
fn checked(quotient: i256) -> Result<i128, ArrowError> {
    let most = DECIMAL128_MAX_PRECISION;
    let value = quotient.to_i128();
    let value = value.filter(|v| Decimal128Type::is_valid_decimal_precision(*v, most));
    value.ok_or_else(|| beyond_digits(&quotient.to_string(), most))
}

pub(super) fn quotients(
    left: &ArrayRef,
    right: &ArrayRef,
    scale: i8,
) -> Result<ArrayRef, ArrowError> {
    let decimals = |array: &ArrayRef| -> Result<(Decimal128Array, i8), ArrowError> {
        match array.data_type() {
            DataType::Decimal128(_, s) => Ok((array.as_primitive::<Decimal128Type>().clone(), *s)),
            _ => {
                let whole = cast(array, &DataType::Decimal128(20, 0))?;
                Ok((whole.as_primitive::<Decimal128Type>().clone(), 0))
            }
        }
    };
    let ((left, s1), (right, s2)) = (decimals(left)?, decimals(right)?);
    let shift = i32::from(scale) - i32::from(s1) + i32::from(s2);
    let ten = |power: i32| i256::from_i128(10).wrapping_pow(power.max(0).unsigned_abs());
    let (up, down) = (ten(shift), ten(-shift));
    let small_up = up.to_i128().filter(|_| shift >= 0);
    let one = |a: i128, b: i128| -> Result<i128, ArrowError> {
        if b == 0 {
            return Err(ArrowError::DivideByZero);
        }
        if let Some(a) = small_up.and_then(|up| a.checked_mul(up)) {
            // A remainder is smaller than its divisor: their difference tells which value is nearer.
            let (quotient, rest) = (a / b, (a % b).unsigned_abs());
            let up = rest >= b.unsigned_abs() - rest;
            let sign = if (a < 0) == (b < 0) { 1 } else { -1 };
            let quotient = if up && rest > 0 { quotient + sign } else { quotient };
            return checked(i256::from_i128(quotient));
        }
        let (a, b) = (i256::from_i128(a).wrapping_mul(up), i256::from_i128(b).wrapping_mul(down));
        let (quotient, rest) = (a.wrapping_div(b), a.wrapping_rem(b).wrapping_abs());
        let up = rest >= b.wrapping_abs().wrapping_sub(rest) && rest > i256::ZERO;
        let sign = if (a < i256::ZERO) == (b < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
        let quotient = if up { quotient.wrapping_add(sign) } else { quotient };
        checked(quotient)
    };
    let quotients: Decimal128Array = arrow::compute::try_binary(&left, &right, one)?;
    Ok(Arc::new(quotients.with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?))
}

impl ScalarUDFImpl for Divide {
    fn name(&self) -> &'static str {
        "divide"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(" / "))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] if let Some(scale) = scale_of(left, right) => {
                Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))
            }
            // An input of nulls only.
            _ => Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, SCALE as i8)),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else {
            return internal_err!("divide of {} arguments", args.args.len());
        };
        let DataType::Decimal128(_, scale) = args.return_field.data_type() else {
            return internal_err!("divide gives {}", args.return_field.data_type());
        };
        let both_scalars =
            matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if both_scalars { 1 } else { args.number_rows };
        let quotients = quotients(&left.to_array(rows)?, &right.to_array(rows)?, *scale)?;
        Ok(match both_scalars && !quotients.is_empty() {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&quotients, 0)?),
            false => ColumnarValue::Array(quotients),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotient(left: (i128, i8), right: (i128, i8), scale: i8) -> Result<i128, ArrowError> {
        let array = |(value, scale): (i128, i8)| -> ArrayRef {
            let array = Decimal128Array::from(vec![value]);
            Arc::new(array.with_precision_and_scale(38, scale).expect("fits"))
        };
        let all = quotients(&array(left), &array(right), scale)?;
        Ok(all.as_primitive::<Decimal128Type>().value(0))
    }

    #[test]
    fn halves_go_away_from_zero_and_large_ones_take_256_bits() {
        assert_eq!(quotient((20, 1), (3, 0), 5).expect("divides"), 66667);
        assert_eq!(quotient((-20, 1), (3, 0), 5).expect("divides"), -66667);
        assert_eq!(quotient((1, 0), (8, 0), 2).expect("divides"), 13);
        assert_eq!(quotient((1, 0), (-8, 0), 2).expect("divides"), -13);
        assert_eq!(quotient((i128::MIN + 1, 0), (1, 0), 0).ok(), None, "39 digits");
        let large = 10i128.pow(37);
        assert_eq!(quotient((large, 0), (large, 0), 16).expect("divides"), 10i128.pow(16));
        let error = quotient((2 * large, 10), (3, 30), 4).expect_err("too large").to_string();
        assert!(error.contains("38 digits"), "{error}");
    }

    #[test]
    fn every_pair_of_small_numbers_is_as_exact_as_it_can_be() {
        for a in -60i128..60 {
            for b in (-13i128..13).filter(|b| *b != 0) {
                let found = quotient((a, 0), (b, 0), 2).expect("divides");
                // No other number with two digits after the point is nearer.
                let off = (100 * a - found * b).abs() * 2;
                assert!(off <= b.abs(), "{a}/{b} is {found}");
            }
        }
    }
}
