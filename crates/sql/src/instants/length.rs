//! The order of intervals: by length, counting thirty days to a month, as in PostgreSQL. DataFusion
//! compares months, then days, then the rest.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

use crate::rules::unbounded;

/// The nanoseconds of a month of thirty days, and of a day.
const DAYS_OF_MONTH: i128 = 30;
const NANOS_OF_DAY: i128 = 86_400_000_000_000;

/// The nanoseconds of an interval, with months of thirty days.
pub(crate) fn nanos_of(own: IntervalMonthDayNano) -> i128 {
    let days = i128::from(own.months) * DAYS_OF_MONTH + i128::from(own.days);
    days * NANOS_OF_DAY + i128::from(own.nanoseconds)
}

/// The length of an interval, as a number with the same order.
pub(super) fn length(interval: Expr) -> Expr {
    let parts = DataType::Interval(IntervalUnit::MonthDayNano);
    let function = Length { signature: Signature::any(1, Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![cast(interval, parts)]))
}

pub(super) fn is_interval(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(matches!(expr.get_type(schema)?, DataType::Interval(_)))
}

/// Replaces intervals by their lengths in the sort keys of a plan.
pub(super) fn sorted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(plan) };
    by_length(&mut sort.expr, sort.input.schema())?;
    Ok(LogicalPlan::Sort(sort))
}

fn by_length(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for key in keys {
        if is_interval(&key.expr, schema)? {
            key.expr = length(std::mem::take(&mut key.expr));
            changed = true;
        }
    }
    Ok(changed)
}

/// An aggregation of rows in the order of intervals, or a count of intervals of distinct length.
pub(super) fn of_aggregate(own: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let mut changed = by_length(&mut own.params.order_by, schema)?;
    if own.params.distinct
        && own.func.name() == "count"
        && let [counted] = &mut own.params.args[..]
        && is_interval(counted, schema)?
    {
        *counted = length(std::mem::take(counted));
        changed = true;
    }
    Ok(changed)
}

/// A window in the order of intervals.
pub(super) fn of_window(own: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    by_length(&mut own.params.order_by, schema)
}

/// The nanoseconds of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &'static str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let lengths: Decimal128Array =
            array.as_primitive::<IntervalMonthDayNanoType>().unary(nanos_of);
        let lengths = lengths.with_precision_and_scale(38, 0)?;
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(_) if !lengths.is_empty() => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?)
            }
            _ => ColumnarValue::Array(Arc::new(lengths)),
        })
    }
}

/// The shortest or the longest interval of one group.
#[derive(Debug)]
pub(crate) struct ExtremeInterval {
    is_least: bool,
    found: Option<IntervalMonthDayNano>,
}

impl ExtremeInterval {
    /// Of no interval yet.
    pub(crate) fn new(is_least: bool) -> ExtremeInterval {
        ExtremeInterval { is_least, found: None }
    }
}

impl Accumulator for ExtremeInterval {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let replaces = if self.is_least { Ordering::Less } else { Ordering::Greater };
        for own in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            if self.found.is_none_or(|found| nanos_of(own).cmp(&nanos_of(found)) == replaces) {
                self.found = Some(own);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.found))
    }

    fn size(&self) -> usize {
        size_of::<ExtremeInterval>()
    }
}
