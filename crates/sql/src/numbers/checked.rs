//! Addition, subtraction, multiplication and negation that fail on overflow.
//!
//! DataFusion's own wrap around, and its decimals may exceed the precision of their type. To DataFusion
//! these are functions; they keep the column names that the operators would give.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
    DecimalType, Field, FieldRef,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use crate::rules::unbounded;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    /// Addition.
    Add,
    /// Subtraction.
    Subtract,
    /// Multiplication.
    Multiply,
    /// Negation.
    Negate,
}

impl Arithmetic {
    /// The binary operator.
    pub(crate) fn operator(self) -> Operator {
        match self {
            Arithmetic::Add => Operator::Plus,
            Arithmetic::Subtract | Arithmetic::Negate => Operator::Minus,
            Arithmetic::Multiply => Operator::Multiply,
        }
    }
}

/// Arithmetic as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Checked {
    arithmetic: Arithmetic,
    signature: Signature,
}

impl Checked {
    /// The function for an operation.
    pub(crate) fn udf(arithmetic: Arithmetic) -> Arc<ScalarUDF> {
        let arguments = if arithmetic == Arithmetic::Negate { 1 } else { 2 };
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Checked { arithmetic, signature }))
    }

    /// The operation.
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    fn text(&self, arguments: &[String]) -> String {
        match arguments {
            [only] => format!("(- {only})"),
            [left, right] => format!("{left} {} {right}", self.arithmetic.operator()),
            other => other.join(", "),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::Add => "add",
            Arithmetic::Subtract => "subtract",
            Arithmetic::Multiply => "multiply",
            Arithmetic::Negate => "negate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(self.text(&names))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(only.clone()),
            [left, right] => {
                BinaryTypeCoercer::new(left, &self.arithmetic.operator(), right).get_result_type()
            }
            _ => internal_err!("{} of {} arguments", self.name(), types.len()),
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
        let result = match &args.args[..] {
            [only] => {
                let array = only.to_array(args.number_rows)?;
                let negative = numeric::neg(&array)?;
                match only {
                    ColumnarValue::Scalar(_) if !negative.is_empty() => ColumnarValue::Scalar(
                        datafusion::common::ScalarValue::try_from_array(&negative, 0)?,
                    ),
                    _ => ColumnarValue::Array(negative),
                }
            }
            [left, right] => {
                let kernel: fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError> =
                    match self.arithmetic {
                        Arithmetic::Add => numeric::add,
                        Arithmetic::Subtract => numeric::sub,
                        _ => numeric::mul,
                    };
                apply(left, right, kernel)?
            }
            _ => return internal_err!("{} of {} arguments", self.name(), args.args.len()),
        };
        check_digits(&result)?;
        Ok(result)
    }
}

/// Fails if a decimal exceeds the precision of its type, which 128 bits can hold.
fn check_digits(value: &ColumnarValue) -> Result<()> {
    match value.data_type() {
        DataType::Decimal128(precision, _) if precision == DECIMAL128_MAX_PRECISION => {
            check_values::<Decimal128Type>(&value.to_array(1)?, precision)
        }
        DataType::Decimal256(precision, _) if precision == DECIMAL256_MAX_PRECISION => {
            check_values::<Decimal256Type>(&value.to_array(1)?, precision)
        }
        _ => Ok(()),
    }
}

fn check_values<T: DecimalType>(array: &ArrayRef, precision: u8) -> Result<()> {
    let array = array.as_primitive::<T>();
    let beyond =
        array.iter().flatten().find(|value| !T::is_valid_decimal_precision(*value, precision));
    match beyond {
        Some(value) => Err(beyond_digits(&format!("{value:?}"), precision).into()),
        None => Ok(()),
    }
}

/// The error for a number that exceeds a precision.
pub(crate) fn beyond_digits(digits: &str, precision: u8) -> ArrowError {
    ArrowError::ArithmeticOverflow(format!("{digits} has more than {precision} digits"))
}
