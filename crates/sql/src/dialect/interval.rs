//! Interval literals whose text says everything, rewritten in units that DataFusion reads.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::sql::sqlparser::ast::{Expr, Interval, UnaryOperator, Value};

use crate::instants::interval;

/// The text of an interval that says all of it.
fn text_of(expr: &mut Expr) -> Option<&mut String> {
    if let Expr::Interval(Interval { value, leading_field: None, .. }) = expr
        && let Expr::Value(value) = value.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
    {
        return Some(text);
    }
    None
}

fn in_units(own: IntervalMonthDayNano) -> String {
    format!("{} months {} days {} nanoseconds", own.months, own.days, own.nanoseconds)
}

/// Puts an interval in months, days and nanoseconds; a minus before it is about all of them.
pub(super) fn rewrite(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
        && let Some(text) = text_of(inner)
        && let Some(own) = interval::read(text).or_else(|| of_units(text))
        && let (Some(months), Some(days), Some(nanos)) =
            (own.months.checked_neg(), own.days.checked_neg(), own.nanoseconds.checked_neg())
    {
        *text = in_units(IntervalMonthDayNano::new(months, days, nanos));
        let inner = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
        *expr = inner;
        return;
    }
    if let Some(text) = text_of(expr)
        && let Some(own) = interval::read(text)
    {
        *text = in_units(own);
    }
}

/// What [`in_units`] has written.
fn of_units(text: &str) -> Option<IntervalMonthDayNano> {
    let mut words = text.split(' ');
    let mut number = |unit: &str| {
        let number = words.next()?.parse::<i64>().ok()?;
        (words.next()? == unit).then_some(number)
    };
    let (months, days) = (number("months")?, number("days")?);
    let nanos = number("nanoseconds")?;
    let (months, days) = (i32::try_from(months).ok()?, i32::try_from(days).ok()?);
    Some(IntervalMonthDayNano::new(months, days, nanos))
}
