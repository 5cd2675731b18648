//! PostgreSQL's arithmetic on points in time that DataFusion lacks: days added to dates of any year,
//! seconds as a timestamp of any year, an interval times a number, patterns other than strftime's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::functions::datetime;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::instants::compare::is_comparison;
use crate::instants::length::{is_interval, length, of_aggregate, of_window, sorted};
use crate::instants::pattern::{Pattern, is_strftime};
use crate::instants::seconds::of_part;
use crate::rules::{each_expression, unbounded};
use crate::walk::WalkPlan;

/// The rule. It runs before DataFusion chooses types.
#[derive(Debug, Default)]
pub(crate) struct InstantForms;

impl AnalyzerRule for InstantForms {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let one = |expr: Expr, schema: &DFSchema| one(expr, schema, config);
        let rewrite = |plan: LogicalPlan| {
            each_expression(sorted(plan)?, one)?.map_data(LogicalPlan::recompute_schema)
        };
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "instant_forms"
    }
}

/// The type in which dates and timestamps of these types are compared, or combined in one column;
/// DataFusion takes nanoseconds. `None`: DataFusion's choice is right.
pub(crate) fn common_instant(types: &[DataType]) -> Option<DataType> {
    let mut zone = None;
    let (mut has_date, mut has_instant) = (false, false);
    for data_type in types.iter().filter(|data_type| !data_type.is_null()) {
        match data_type {
            DataType::Date32 | DataType::Date64 => has_date = true,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => return None,
            DataType::Timestamp(_, own) => {
                has_instant = true;
                zone = zone.or_else(|| own.clone());
            }
            _ => return None,
        }
    }
    (has_date && has_instant).then_some(DataType::Timestamp(TimeUnit::Microsecond, zone))
}

fn one(expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = match is_comparison(op) {
                true => as_intervals(left, right, schema)?,
                false => (left, right),
            };
            let types = (left.get_type(schema)?, right.get_type(schema)?);
            if let Some(other) = arithmetic(&left, op, &right, &types) {
                return Ok(Transformed::yes(other));
            }
            if is_comparison(op) && are_intervals(&types) {
                let (left, right) = (length(*left).into(), length(*right).into());
                return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(own) if is_interval(&own.expr, schema)? => {
            let own = Between {
                expr: Box::new(length(*own.expr)),
                negated: own.negated,
                low: Box::new(length(*own.low)),
                high: Box::new(length(*own.high)),
            };
            Ok(Transformed::yes(Expr::Between(own)))
        }
        Expr::ScalarFunction(call) => function(call, schema, config),
        Expr::AggregateFunction(mut own) => {
            let changed = of_aggregate(&mut own, schema)?;
            Ok(Transformed::new_transformed(Expr::AggregateFunction(own), changed))
        }
        Expr::WindowFunction(mut own) => {
            let changed = of_window(&mut own, schema)?;
            Ok(Transformed::new_transformed(Expr::WindowFunction(own), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Both sides of a comparison: a text that is compared with an interval is read as one.
fn as_intervals(
    left: Box<Expr>,
    right: Box<Expr>,
    schema: &DFSchema,
) -> Result<(Box<Expr>, Box<Expr>)> {
    let parts = || DataType::Interval(IntervalUnit::MonthDayNano);
    let is_text =
        |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.data_type().is_string());
    Ok(match (is_text(&left), is_text(&right)) {
        (true, false) if is_interval(&right, schema)? => (cast(*left, parts()).into(), right),
        (false, true) if is_interval(&left, schema)? => (left, cast(*right, parts()).into()),
        _ => (left, right),
    })
}

/// Whether one is an interval and the other one too, or the difference of two points in time.
fn are_intervals(types: &(DataType, DataType)) -> bool {
    let is_interval = |own: &DataType| matches!(own, DataType::Interval(_));
    let is_length = |own: &DataType| is_interval(own) || matches!(own, DataType::Duration(_));
    let (left, right) = types;
    is_length(left) && is_length(right) && (is_interval(left) || is_interval(right))
}

fn arithmetic(
    left: &Expr,
    op: Operator,
    right: &Expr,
    types: &(DataType, DataType),
) -> Option<Expr> {
    match (types, op) {
        ((DataType::Date32, days), Operator::Plus | Operator::Minus) if days.is_integer() => {
            Some(later(left, op, right))
        }
        ((days, DataType::Date32), Operator::Plus) if days.is_integer() => {
            Some(later(right, op, left))
        }
        _ => None,
    }
}

/// Intervals times numbers; DataFusion refuses them before any rule sees them.
#[derive(Debug)]
pub(crate) struct IntervalTimes;

impl ExprPlanner for IntervalTimes {
    fn plan_binary_op(
        &self,
        own: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let divides = match own.op {
            BinaryOperator::Multiply => false,
            BinaryOperator::Divide => true,
            BinaryOperator::Plus | BinaryOperator::Minus => return at_time_of_day(own, schema),
            _ => return Ok(PlannerResult::Original(own)),
        };
        // The planner handles operands without a type.
        let (Ok(left), Ok(right)) = (own.left.get_type(schema), own.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(own));
        };
        let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        if is_interval(&left) && right.is_numeric() {
            return Ok(PlannerResult::Planned(times(&own.left, &own.right, divides)));
        }
        if is_interval(&right) && left.is_numeric() && !divides {
            return Ok(PlannerResult::Planned(times(&own.right, &own.left, false)));
        }
        Ok(PlannerResult::Original(own))
    }
}

/// A date plus an interval with hours is a timestamp; DataFusion drops the hours.
fn at_time_of_day(own: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let is_date = |expr: &Expr| {
        expr.get_type(schema).is_ok_and(|own| matches!(own, DataType::Date32 | DataType::Date64))
    };
    let has_hours = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(own)), _) => {
            own.nanoseconds % NANOS_OF_DAY as i64 != 0
        }
        Expr::Literal(ScalarValue::IntervalDayTime(Some(own)), _) => {
            own.milliseconds % 86_400_000 != 0
        }
        Expr::Literal(_, _) => false,
        other => other.get_type(schema).is_ok_and(|own| matches!(own, DataType::Interval(_))),
    };
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let op = match own.op {
        BinaryOperator::Plus => Operator::Plus,
        _ => Operator::Minus,
    };
    let sum = |left, right| {
        let sum = BinaryExpr::new(Box::new(left), op, Box::new(right));
        Ok(PlannerResult::Planned(Expr::BinaryExpr(sum)))
    };
    if is_date(&own.left) && has_hours(&own.right) {
        return sum(cast(own.left, micros), own.right);
    }
    if is_date(&own.right) && has_hours(&own.left) && op == Operator::Plus {
        return sum(own.left, cast(own.right, micros));
    }
    Ok(PlannerResult::Original(own))
}

/// A date plus or minus so many days.
fn later(date: &Expr, op: Operator, days: &Expr) -> Expr {
    let date = cast(cast(date.clone(), DataType::Int32), DataType::Int64);
    let days = cast(days.clone(), DataType::Int64);
    let sum = Expr::BinaryExpr(BinaryExpr::new(date.into(), op, days.into()));
    cast(cast(sum, DataType::Int32), DataType::Date32)
}

fn times(interval: &Expr, number: &Expr, divides: bool) -> Expr {
    let parts = DataType::Interval(IntervalUnit::MonthDayNano);
    let args = vec![cast(interval.clone(), parts), cast(number.clone(), DataType::Float64)];
    let function = Times { divides, signature: Signature::any(2, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

fn function(
    call: ScalarFunction,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    match (call.func.name(), &call.args[..]) {
        ("date_part", [part, instant]) => Ok(match of_part(part, instant, schema)? {
            Some(seconds) => Transformed::yes(seconds),
            None => Transformed::no(Expr::ScalarFunction(call)),
        }),
        ("to_timestamp", [seconds]) if seconds.get_type(schema)?.is_integer() => {
            let function = datetime::to_timestamp_seconds(config);
            let instant = Expr::ScalarFunction(ScalarFunction::new_udf(function, call.args));
            let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
            Ok(Transformed::yes(cast(instant, micros)))
        }
        ("to_timestamp", [text]) if text.get_type(schema)?.is_string() => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
            Ok(Transformed::yes(cast(text.clone(), micros)))
        }
        (name @ ("to_timestamp" | "to_date"), [text, pattern])
            if let Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) = pattern
                && !is_strftime(pattern) =>
        {
            let read = lit(Pattern::parse(pattern)?.as_strftime()?);
            let args = vec![text.clone(), read];
            let is_date = name == "to_date";
            let function = if is_date { call.func } else { datetime::to_timestamp_micros(config) };
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
}

/// An interval times a number, or divided by it: fractions of months become days of a thirty-day month,
/// fractions of days become hours, as in PostgreSQL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Times {
    divides: bool,
    signature: Signature,
}

const DAYS_OF_MONTH: f64 = 30.0;
const NANOS_OF_DAY: f64 = 86_400e9;

impl Times {
    fn one(
        &self,
        interval: IntervalMonthDayNano,
        number: f64,
    ) -> Result<IntervalMonthDayNano, ArrowError> {
        let factor = match self.divides {
            true if number == 0.0 => return Err(ArrowError::DivideByZero),
            true => 1.0 / number,
            false => number,
        };
        let product = |part: f64| if self.divides { part / number } else { part * factor };
        let months = product(f64::from(interval.months));
        let days = product(f64::from(interval.days)) + months.fract() * DAYS_OF_MONTH;
        // The rounding error of a binary fraction near a whole day is not hours.
        let days = if (days - days.round()).abs() < 1e-6 { days.round() } else { days };
        let nanos = product(interval.nanoseconds as f64) + days.fract() * NANOS_OF_DAY;
        let (months, days, nanos) = (months.trunc(), days.trunc(), nanos.round());
        let fits = months.abs() <= f64::from(i32::MAX)
            && days.abs() <= f64::from(i32::MAX)
            && nanos.abs() < i64::MAX as f64;
        match fits {
            true => Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanos as i64)),
            false => Err(ArrowError::ArithmeticOverflow("an interval becomes too long".into())),
        }
    }

    fn all(&self, intervals: &ArrayRef, numbers: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let numbers: &Float64Array = numbers.as_primitive::<Float64Type>();
        let product: IntervalMonthDayNanoArray =
            arrow::compute::try_binary(intervals, numbers, |a, b| self.one(a, b))?;
        Ok(Arc::new(product))
    }
}

impl ScalarUDFImpl for Times {
    fn name(&self) -> &'static str {
        if self.divides { "interval_by" } else { "interval_times" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(if self.divides { " / " } else { " * " }))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [interval, number] = &args.args[..] else {
            return internal_err!("{} of {} arguments", self.name(), args.args.len());
        };
        let both_scalars =
            matches!((interval, number), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if both_scalars { 1 } else { args.number_rows };
        let product = self.all(&interval.to_array(rows)?, &number.to_array(rows)?)?;
        Ok(match both_scalars && !product.is_empty() {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&product, 0)?),
            false => ColumnarValue::Array(product),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_months_are_days_and_parts_of_days_are_hours() {
        let of = |divides, months, days, nanos, number| {
            let times = Times { divides, signature: Signature::any(2, Volatility::Immutable) };
            let found = times.one(IntervalMonthDayNano::new(months, days, nanos), number);
            found.map(|i| (i.months, i.days, i.nanoseconds)).ok()
        };
        assert_eq!(of(false, 1, 0, 0, 1.5), Some((1, 15, 0)));
        assert_eq!(of(false, 0, 1, 0, 2.0), Some((0, 2, 0)));
        assert_eq!(of(false, 0, 1, 0, 0.5), Some((0, 0, 43_200_000_000_000)));
        assert_eq!(of(true, 0, 0, 5_400_000_000_000, 2.0), Some((0, 0, 2_700_000_000_000)));
        assert_eq!(of(true, 1, 0, 0, 3.0), Some((0, 10, 0)));
        assert_eq!(of(true, 1, 0, 0, 0.0), None);
        assert_eq!(of(false, i32::MAX, 0, 0, 2.0), None);
    }
}
