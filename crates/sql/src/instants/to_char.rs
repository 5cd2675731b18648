//! The function `to_char` with patterns of Oracle and PostgreSQL. Patterns of strftime are left to
//! DataFusion's own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use chrono::{DateTime, NaiveDateTime};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::instants::pattern::{Pattern, is_strftime};
use crate::instants::zoned::clocks_of;
use crate::rules::unbounded;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ToChar {
    others: Arc<ScalarUDF>,
    signature: Signature,
}

impl ToChar {
    /// The function, to be registered in place of DataFusion's.
    pub(crate) fn udf() -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        let others = datafusion::functions::datetime::to_char();
        ScalarUDF::new_from_impl(ToChar { others, signature })
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &'static str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        self.others.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, pattern] = types else {
            return plan_err!("to_char takes a date or a time, and a pattern");
        };
        let value = match value {
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 => value.clone(),
            DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => value.clone(),
            DataType::Interval(_) => value.clone(),
            DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            text if text.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => return plan_err!("to_char of {other}: it takes a date or a time"),
        };
        if !pattern.is_string() && !pattern.is_null() {
            return plan_err!("the pattern of to_char is a text, not {pattern}");
        }
        Ok(vec![value, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_ours = matches!(
            args.args[0].data_type(),
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64
        );
        let is_other = |pattern: &str| !is_ours || is_strftime(pattern);
        let pattern = match &args.args[1] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) if is_other(text) => {
                return self.others.inner().invoke_with_args(args);
            }
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => Pattern::parse(text)?,
            ColumnarValue::Scalar(_) => return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
            ColumnarValue::Array(_) => return self.others.inner().invoke_with_args(args),
        };
        let instants = args.args[0].to_array(args.number_rows)?;
        let texts = written(&instants, &pattern)?;
        match &args.args[0] {
            ColumnarValue::Scalar(_) if !texts.is_empty() => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            _ => Ok(ColumnarValue::Array(Arc::new(texts))),
        }
    }
}

fn written(instants: &ArrayRef, pattern: &Pattern) -> Result<StringArray> {
    match instants.data_type() {
        DataType::Timestamp(_, Some(_)) => written(&clocks_of(instants, false)?, pattern),
        DataType::Timestamp(TimeUnit::Second, _) => {
            each(instants.as_primitive::<TimestampSecondType>(), pattern)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each(instants.as_primitive::<TimestampMillisecondType>(), pattern)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each(instants.as_primitive::<TimestampMicrosecondType>(), pattern)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each(instants.as_primitive::<TimestampNanosecondType>(), pattern)
        }
        _ => written(&cast(instants, &DataType::Timestamp(TimeUnit::Second, None))?, pattern),
    }
}

fn each<T: ArrowTimestampType>(
    instants: &PrimitiveArray<T>,
    pattern: &Pattern,
) -> Result<StringArray> {
    let per_second = match T::UNIT {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let one = |value: i64| -> Result<String> {
        match at(value, per_second) {
            Some(at) => Ok(pattern.write(&at)),
            None => exec_err!("to_char: the year of {value} is too large to be written"),
        }
    };
    instants.iter().map(|value| value.map(one).transpose()).collect()
}

fn at(value: i64, per_second: i64) -> Option<NaiveDateTime> {
    let (seconds, rest) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let nanos = u32::try_from(rest * (1_000_000_000 / per_second)).ok()?;
    DateTime::from_timestamp(seconds, nanos).map(|at| at.naive_utc())
}
