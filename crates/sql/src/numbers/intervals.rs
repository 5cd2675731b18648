//! Sums of intervals that fail if months, days or nanoseconds are out of range; DataFusion's wrap around.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// The sum of one group. Intervals can be subtracted again, for a sliding window.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    sum: IntervalMonthDayNano,
    count: u64,
}

fn plus(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: a.months.checked_add(b.months)?,
        days: a.days.checked_add(b.days)?,
        nanoseconds: a.nanoseconds.checked_add(b.nanoseconds)?,
    })
}

fn minus(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: a.months.checked_sub(b.months)?,
        days: a.days.checked_sub(b.days)?,
        nanoseconds: a.nanoseconds.checked_sub(b.nanoseconds)?,
    })
}

fn overflow() -> ArrowError {
    ArrowError::ArithmeticOverflow(
        "a sum of intervals has more months, days or time than fit".into(),
    )
}

impl Intervals {
    fn scalar(&self) -> ScalarValue {
        ScalarValue::IntervalMonthDayNano((self.count > 0).then_some(self.sum))
    }
}

impl Accumulator for Intervals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for one in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.sum = plus(self.sum, one).ok_or_else(overflow)?;
            self.count += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for one in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.sum = minus(self.sum, one).ok_or_else(overflow)?;
            self.count = self.count.saturating_sub(1);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.scalar())
    }

    fn size(&self) -> usize {
        size_of::<Intervals>()
    }
}
