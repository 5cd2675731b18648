//! The function `date_trunc` over timestamps in seconds, milliseconds and microseconds, and over dates.
//! Timestamps in nanoseconds are left to DataFusion's own, which computes in these.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::instants::zoned::{clocks_of, instants_at};
use crate::rules::unbounded;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateTrunc {
    others: Arc<ScalarUDF>,
    signature: Signature,
}

impl DateTrunc {
    /// The function, to be registered in place of DataFusion's.
    pub(crate) fn udf() -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        let others = datafusion::functions::datetime::date_trunc();
        ScalarUDF::new_from_impl(DateTrunc { others, signature })
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &'static str {
        "date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, instant] = types else {
            return plan_err!("date_trunc takes two arguments, not {}", types.len());
        };
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let instant = match instant {
            DataType::Timestamp(_, _) | DataType::Time32(_) | DataType::Time64(_) => {
                instant.clone()
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => micros,
            t if t.is_string() => micros,
            other => return plan_err!("date_trunc of {other}: it takes a timestamp or a date"),
        };
        Ok(vec![DataType::Utf8, instant])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow::datatypes::FieldRef> {
        let field = args.arg_fields[1].as_ref().clone().with_name(self.name());
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(field.with_nullable(nullable)))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let unit = match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => Some(text.to_lowercase()),
            _ => None,
        };
        let of_ours = match args.args[1].data_type() {
            DataType::Timestamp(
                unit @ (TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond),
                None,
            ) => Some(unit),
            DataType::Timestamp(_, Some(_)) => Some(TimeUnit::Microsecond),
            _ => None,
        };
        let (Some(step), Some(unit)) = (unit.as_deref().and_then(Step::read), of_ours) else {
            return self.others.inner().invoke_with_args(args);
        };
        let array = args.args[1].to_array(args.number_rows)?;
        let whole = array.data_type().clone();
        // Local time is truncated.
        let array = clocks_of(&array, false)?;
        let array: ArrayRef = match unit {
            TimeUnit::Second => {
                Arc::new(trunc::<TimestampSecondType>(array.as_primitive(), step, 1)?)
            }
            TimeUnit::Millisecond => {
                Arc::new(trunc::<TimestampMillisecondType>(array.as_primitive(), step, 1_000)?)
            }
            _ => {
                Arc::new(trunc::<TimestampMicrosecondType>(array.as_primitive(), step, 1_000_000)?)
            }
        };
        let array = match &whole {
            DataType::Timestamp(_, Some(zone)) => cast(&instants_at(&array, zone, false)?, &whole)?,
            _ => array,
        };
        match &args.args[1] {
            ColumnarValue::Scalar(_) if array.len() == 1 => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => Ok(ColumnarValue::Array(array)),
        }
    }
}

/// The unit that an instant is truncated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many microseconds.
    Micros(i64),
    Week,
    /// So many months.
    Months(i64),
    /// So many years, counted from the year 1.
    Years(i64),
}

impl Step {
    fn read(word: &str) -> Option<Step> {
        Some(match word.trim_end_matches('s') {
            "microsecond" => Step::Micros(1),
            "millisecond" => Step::Micros(1_000),
            "second" => Step::Micros(1_000_000),
            "minute" => Step::Micros(60_000_000),
            "hour" => Step::Micros(3_600_000_000),
            "day" => Step::Micros(DAY),
            "week" => Step::Week,
            "month" => Step::Months(1),
            "quarter" => Step::Months(3),
            "year" => Step::Months(12),
            "decade" => Step::Months(120),
            "century" | "centurie" => Step::Years(100),
            "millennium" | "millennia" => Step::Years(1000),
            _ => return None,
        })
    }
}

/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

fn trunc<T: ArrowTimestampType>(
    array: &PrimitiveArray<T>,
    step: Step,
    per_second: i64,
) -> Result<PrimitiveArray<T>> {
    let day = 86_400 * per_second;
    let beyond = |value: i64| {
        ArrowError::ArithmeticOverflow(format!("the timestamp {value} cannot be cut to that"))
    };
    let one = |value: i64| match step {
        Step::Micros(micros) => {
            // A unit finer than the column's truncates nothing.
            let step = (i128::from(micros) * i128::from(per_second) / 1_000_000) as i64;
            Ok(if step > 1 { value - value.rem_euclid(step) } else { value })
        }
        _ => first_day(value.div_euclid(day), step)
            .and_then(|days| days.checked_mul(day))
            .ok_or_else(|| beyond(value)),
    };
    let cut = array.try_unary::<_, T, ArrowError>(one)?;
    Ok(cut.with_data_type(array.data_type().clone()))
}

/// The first day, counted from 1970, of the week, month or years that contain a day.
fn first_day(days: i64, step: Step) -> Option<i64> {
    let (year, month) = year_and_month(days);
    match step {
        Step::Micros(_) => Some(days),
        // 1970 began on a Thursday; weeks begin on Mondays.
        Step::Week => days.checked_sub((days + 3).rem_euclid(7)),
        Step::Months(count) => {
            let months = year * 12 + month - 1;
            let first = months - months.rem_euclid(count);
            Some(day_of(first.div_euclid(12), first.rem_euclid(12) + 1))
        }
        Step::Years(count) => Some(day_of((year - 1) - (year - 1).rem_euclid(count) + 1, 1)),
    }
}

/// The year and the month of a day in the proleptic Gregorian calendar (Howard Hinnant, "chrono-compatible
/// low-level date algorithms").
fn year_and_month(days: i64) -> (i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month)
}

/// The first day of a month, counted from 1970.
fn day_of(year: i64, month: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_cut_to_what_they_belong_to() {
        let cut = |year, month, step: &str| {
            let days = first_day(day_of(year, month) + 14, Step::read(step).unwrap()).unwrap();
            (year_and_month(days), days - day_of(year_and_month(days).0, year_and_month(days).1))
        };
        assert_eq!(cut(9999, 12, "year"), ((9999, 1), 0));
        assert_eq!(cut(1, 5, "quarter"), ((1, 4), 0));
        assert_eq!(cut(-43, 3, "month"), ((-43, 3), 0));
        assert_eq!(cut(2000, 2, "century"), ((1901, 1), 0));
        assert_eq!(cut(2001, 2, "millennium"), ((2001, 1), 0));
        assert_eq!(cut(1999, 2, "decade"), ((1990, 1), 0));
        // 15 November 2026 is a Sunday: its week began on the 9th.
        assert_eq!(cut(2026, 11, "week"), ((2026, 11), 8));
        for days in (-800_000..800_000).step_by(37) {
            let (year, month) = year_and_month(days);
            assert!(day_of(year, month) <= days && days < day_of(year, month) + 31, "{days}");
        }
    }
}
