//! Averages of integers: exact sums, divided once, as decimals with the digits of a quotient.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::numbers::divide::{quotients, scale_of};
use crate::numbers::sum::{Distinct, Groups, Numbers, Total, widened};

/// The type of sums.
const SUM: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// The type of an average of numbers of a type; `None`: they are not integers.
pub(super) fn result_of(data_type: &DataType) -> Option<DataType> {
    let scale = data_type.is_integer().then(|| scale_of(data_type, &DataType::Int64))?;
    Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale?))
}

pub(super) fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
    let name = |part: &str| format_state_name(args.name, part);
    let fields = match args.is_distinct {
        true => {
            let item = Field::new_list_field(SUM, true);
            vec![Field::new_list(name("avg distinct"), item, false)]
        }
        false => vec![
            Field::new(name("count"), DataType::UInt64, true),
            Field::new(name("sum"), SUM, true),
        ],
    };
    fields.into_iter().map(Arc::new).collect()
}

pub(super) fn accumulator(args: &AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
    let result = args.return_field.data_type().clone();
    Ok(match args.is_distinct {
        true => Box::new(WholeDistinct { values: Distinct::new(SUM), result }),
        false => Box::new(WholeAverage { total: Total::new(SUM), result }),
    })
}

/// Sums divided by their counts; null if there are none.
fn divided(sums: &ArrayRef, counts: &[u64], result: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = result else {
        return datafusion::common::internal_err!("an average of the type {result}");
    };
    let nulls = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
    let counts = UInt64Array::new(counts.to_vec().into(), Some(nulls));
    Ok(quotients(sums, &(Arc::new(counts) as ArrayRef), *scale)?)
}

fn divided_once(sum: i128, count: u64, result: &DataType) -> Result<ScalarValue> {
    if count == 0 {
        return ScalarValue::try_from(result);
    }
    let sum = Decimal128Array::from(vec![sum]).with_data_type(SUM);
    let quotient = divided(&(Arc::new(sum) as ArrayRef), &[count], result)?;
    ScalarValue::try_from_array(&quotient, 0)
}

/// The average of one group.
#[derive(Debug)]
struct WholeAverage {
    total: Total,
    result: DataType,
}

impl Accumulator for WholeAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let before = self.total.count;
        self.total.update_batch(&states[1..])?;
        let counts = states[0].as_primitive::<UInt64Type>();
        self.total.count = before + counts.iter().flatten().sum::<u64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let count = ScalarValue::UInt64(Some(self.total.count));
        Ok(vec![count, self.total.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        divided_once(self.total.sum, self.total.count, &self.result)
    }

    fn size(&self) -> usize {
        size_of::<WholeAverage>()
    }
}

/// The average of the distinct numbers of one group.
#[derive(Debug)]
struct WholeDistinct {
    values: Distinct,
    result: DataType,
}

impl Accumulator for WholeDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        divided_once(self.values.sum()?, self.values.values.len() as u64, &self.result)
    }

    fn size(&self) -> usize {
        size_of::<WholeDistinct>() + self.values.size()
    }
}

/// The averages of many groups.
pub(super) struct WholeGroups {
    sums: Groups,
    counts: Vec<u64>,
    result: DataType,
}

impl WholeGroups {
    pub fn new(result: DataType) -> WholeGroups {
        WholeGroups { sums: Groups::new(SUM), counts: Vec::new(), result }
    }
}

impl GroupsAccumulator for WholeGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.update_batch(values, groups, wanted, total)?;
        self.counts.resize(total, 0);
        let array = widened(&values[0])?;
        let is_wanted =
            |at: usize| wanted.is_none_or(|wanted| wanted.is_valid(at) && wanted.value(at));
        Numbers::of(&array)?.each(|at, _| self.counts[groups[at]] += u64::from(is_wanted(at)));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.sums.merge_batch(&states[1..], groups, total)?;
        self.counts.resize(total, 0);
        let counts = states[0].as_primitive::<UInt64Type>();
        for (count, group) in counts.iter().zip(groups) {
            self.counts[*group] += count.unwrap_or(0);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        divided(&self.sums.evaluate(emit_to)?, &counts, &self.result)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = UInt64Array::from(emit_to.take_needed(&mut self.counts));
        let mut states: Vec<ArrayRef> = vec![Arc::new(counts)];
        states.extend(self.sums.state(emit_to)?);
        Ok(states)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let sums = self.sums.convert_to_state(values, wanted)?;
        let present =
            sums.iter().flat_map(|sums| (0..sums.len()).map(|at| sums.is_valid(at).into()));
        let mut states: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(present))];
        states.extend(sums);
        Ok(states)
    }

    fn size(&self) -> usize {
        self.sums.size() + self.counts.capacity() * size_of::<u64>()
    }
}
