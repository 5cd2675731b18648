//! The aggregate functions `min` and `max`, with floating-point numbers in a total order: NaN is greater
//! than all others. DataFusion's start a group with the largest finite number, which is then the result
//! for a group of only infinity or NaN. Intervals are ordered by length. Everything else is
//! DataFusion's.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, IntervalUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use crate::instants::length::ExtremeInterval;

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    others: Arc<AggregateUDF>,
    is_least: bool,
}

impl Extreme {
    /// Both functions, to be registered in place of DataFusion's.
    pub(crate) fn udafs() -> [AggregateUDF; 2] {
        let of = |others, is_least| AggregateUDF::new_from_impl(Extreme { others, is_least });
        [of(min_udaf(), true), of(max_udaf(), false)]
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.others.name()
    }

    fn signature(&self) -> &Signature {
        self.others.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(unordered) = types.iter().find(|data_type| !has_order(data_type)) {
            return plan_err!("{} of {unordered}: such values have no order", self.name());
        }
        self.others.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.others.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Ok(Box::new(ExtremeInterval::new(self.is_least)))
            }
            _ => self.others.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.others.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.others.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !matches!(args.return_field.data_type(), DataType::Interval(_))
            && self.others.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.is_least))),
            DataType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.is_least))),
            _ => self.others.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        Some(!self.is_least)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.others.value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.others.inner().set_monotonicity(data_type)
    }
}

/// Whether DataFusion can order two values.
fn has_order(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(_, _) => false,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => !item.data_type().is_nested(),
        DataType::Struct(fields) => fields.iter().all(|field| has_order(field.data_type())),
        _ => true,
    }
}

/// The least or the greatest number of each of many groups.
#[derive(Debug)]
struct Groups<T: ArrowPrimitiveType> {
    is_least: bool,
    numbers: Vec<T::Native>,
    /// For each group, whether there was a number.
    seen: Vec<bool>,
    of: PhantomData<T>,
}

impl<T: ArrowPrimitiveType> Groups<T> {
    fn new(is_least: bool) -> Groups<T> {
        Groups { is_least, numbers: Vec::new(), seen: Vec::new(), of: PhantomData }
    }

    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        let numbers = emit_to.take_needed(&mut self.numbers);
        let seen = NullBuffer::from(emit_to.take_needed(&mut self.seen));
        let nulls = Some(seen).filter(|seen| seen.null_count() > 0);
        Arc::new(PrimitiveArray::<T>::new(numbers.into(), nulls))
    }
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.numbers.resize(total, T::Native::default());
        self.seen.resize(total, false);
        let array = values[0].as_primitive::<T>();
        let replaces = if self.is_least { Ordering::Less } else { Ordering::Greater };
        for (number, (at, group)) in array.iter().zip(groups.iter().copied().enumerate()) {
            let Some(number) = number else { continue };
            if wanted.is_some_and(|wanted| wanted.is_null(at) || !wanted.value(at)) {
                continue;
            }
            // Arrow's total order of floating-point numbers puts NaN above all.
            if !self.seen[group] || number.compare(self.numbers[group]) == replaces {
                self.numbers[group] = number;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<T>();
        let is_wanted =
            |at: usize| wanted.is_none_or(|wanted| !wanted.is_null(at) && wanted.value(at));
        let numbers = array.iter().enumerate().map(|(at, number)| number.filter(|_| is_wanted(at)));
        Ok(vec![Arc::new(numbers.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.numbers.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}
