//! Seconds and milliseconds of a point in time or an interval with their fraction, as PostgreSQL's
//! `extract` and `date_part` return them; DataFusion's are integers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    self as logical, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::rules::unbounded;

/// `date_part(part, instant)`, if the part has a fraction.
pub(super) fn of_part(part: &Expr, instant: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(
        ScalarValue::Utf8(Some(part))
        | ScalarValue::LargeUtf8(Some(part))
        | ScalarValue::Utf8View(Some(part)),
        _,
    ) = part
    else {
        return Ok(None);
    };
    let per_second = match part.trim().to_lowercase().as_str() {
        "second" | "seconds" | "sec" | "secs" | "s" => 1,
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => 1_000,
        _ => return Ok(None),
    };
    let wanted = match instant.get_type(schema)? {
        own @ (DataType::Timestamp(_, _) | DataType::Time64(_)) => own,
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        text if text.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => return Ok(None),
    };
    let function = Seconds { per_second, signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    let args = vec![logical::cast(instant.clone(), wanted)];
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

/// The seconds of a minute, or their milliseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Seconds {
    per_second: i64,
    signature: Signature,
}

impl Seconds {
    /// From an integer, and the number of its units in a second. The quotient of two exact numbers is
    /// the closest double to the decimal fraction.
    fn one(&self, of_minute: i64, per_second: i64) -> f64 {
        (of_minute * self.per_second) as f64 / per_second as f64
    }

    fn all(&self, array: &ArrayRef) -> Result<Float64Array> {
        let unit = match array.data_type() {
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
                let minute = 60 * NANOS;
                return Ok(intervals
                    .unary::<_, Float64Type>(|own| self.one(own.nanoseconds % minute, NANOS)));
            }
            DataType::Timestamp(unit, _) | DataType::Time64(unit) => *unit,
            other => return internal_err!("seconds of {other}"),
        };
        let per_second = match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => NANOS,
        };
        let numbers = cast(array, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        Ok(numbers.unary(|own| self.one(own.rem_euclid(60 * per_second), per_second)))
    }
}

/// In a second.
const NANOS: i64 = 1_000_000_000;

impl ScalarUDFImpl for Seconds {
    fn name(&self) -> &'static str {
        if self.per_second == 1 { "seconds_of" } else { "milliseconds_of" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let seconds = self.all(&array)?;
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(_) if !seconds.is_empty() => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&seconds, 0)?)
            }
            _ => ColumnarValue::Array(Arc::new(seconds)),
        })
    }
}
