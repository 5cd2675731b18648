//! The aggregate function `sum`, exact for integers and decimals: a sum of more than 38 digits is an
//! error. For integers and smaller types it is a bigint, as in PostgreSQL, and is held in 38 digits
//! until all rows are known; for bigints and decimals it has 38 digits. Everything else is DataFusion's
//! sum.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNumericType, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array,
    Int64Array, ListArray, PrimitiveArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{and, cast, is_not_null};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef,
    Int64Type, IntervalUnit, UInt64Type,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, Volatility,
};

use crate::numbers::checked::beyond_digits;
use crate::numbers::intervals::Intervals;
use crate::numbers::sliding::Window;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    others: Arc<AggregateUDF>,
    signature: Signature,
}

impl Sum {
    /// The function, to be registered in place of DataFusion's.
    pub(crate) fn udaf() -> AggregateUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Sum { others: sum_udaf(), signature })
    }
}

/// Whether a sum is one of integers or decimals, by the type of its result.
fn is_ours(result: &DataType) -> bool {
    matches!(result, DataType::Decimal128(_, _) | DataType::Int64)
}

/// The type of a sum in progress: a partial sum may exceed the range of the result.
fn kept(result: &DataType) -> DataType {
    match result {
        DataType::Int64 => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
        other => other.clone(),
    }
}

/// Whether numbers of the type are at most PostgreSQL's integers: their sum is a bigint.
pub(super) fn is_narrow(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(data_type, D::Int8 | D::Int16 | D::Int32 | D::UInt8 | D::UInt16)
}

fn is_interval(result: &DataType) -> bool {
    *result == DataType::Interval(IntervalUnit::MonthDayNano)
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [data_type] = types else {
            return datafusion::common::plan_err!("sum takes one argument, not {}", types.len());
        };
        let own = match data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        Ok(vec![match own {
            DataType::Null => DataType::Float64,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
            DataType::Float16 | DataType::Float32 => DataType::Float64,
            t if t.is_numeric() => t.clone(),
            DataType::Duration(_) | DataType::Interval(_) => own.clone(),
            other => return datafusion::common::plan_err!("there is no sum of {other}"),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            t if is_narrow(t) => Ok(DataType::Int64),
            t if t.is_integer() => Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)),
            DataType::Decimal128(_, scale) => {
                Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
            }
            DataType::Decimal256(_, scale) => {
                Ok(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
            }
            other => self.others.return_type(std::slice::from_ref(other)),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let result = args.return_field.data_type();
        if is_interval(result) && !args.is_distinct {
            return Ok(Box::new(Intervals::default()));
        }
        if !is_ours(result) {
            return self.others.accumulator(args);
        }
        match args.is_distinct {
            true => Ok(Box::new(Distinct::new(result.clone()))),
            false => Ok(Box::new(Total::new(result.clone()))),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if is_interval(args.return_field.data_type()) && !args.is_distinct {
            return Ok(Box::new(Intervals::default()));
        }
        match is_ours(args.return_field.data_type()) && !args.is_distinct {
            true => Ok(Box::new(Total::new(args.return_field.data_type().clone()))),
            false if args.return_field.data_type().is_floating() && !args.is_distinct => {
                Ok(Box::new(Window::of(&self.others, &args)?))
            }
            false => self.others.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let result = args.return_field.data_type();
        if !is_ours(result) {
            return self.others.state_fields(args);
        }
        let state = kept(result);
        Ok(vec![Arc::new(match args.is_distinct {
            true => {
                let name = format_state_name(args.name, "sum distinct");
                Field::new_list(name, Field::new_list_field(state, true), false)
            }
            false => Field::new(format_state_name(args.name, "sum"), state, true),
        })])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match is_ours(args.return_field.data_type()) {
            true => !args.is_distinct,
            false if is_interval(args.return_field.data_type()) => false,
            false => self.others.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let result = args.return_field.data_type();
        match is_ours(result) {
            true => Ok(Box::new(Groups::new(result.clone()))),
            false => self.others.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        match data_type.is_unsigned_integer() {
            true => SetMonotonicity::Increasing,
            false => SetMonotonicity::NotMonotonic,
        }
    }
}

fn overflow() -> ArrowError {
    ArrowError::ArithmeticOverflow("a sum has more than 38 digits".to_owned())
}

/// The summands, without copying if they have 64 or 128 bits.
pub(super) enum Numbers<'a> {
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>),
}

/// An array that [`Numbers`] can represent.
pub(super) fn widened(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Int64 | DataType::UInt64 | DataType::Decimal128(_, _) => Ok(Arc::clone(array)),
        _ => Ok(cast(array, &DataType::Int64)?),
    }
}

impl Numbers<'_> {
    pub fn of(array: &ArrayRef) -> Result<Numbers<'_>> {
        Ok(match array.data_type() {
            DataType::Int64 => Numbers::Int64(array.as_primitive()),
            DataType::UInt64 => Numbers::UInt64(array.as_primitive()),
            DataType::Decimal128(_, _) => Numbers::Decimal(array.as_primitive()),
            other => return internal_err!("a sum of {other}"),
        })
    }

    /// Calls `add` with each number that is not null.
    pub fn each(&self, mut add: impl FnMut(usize, i128)) {
        match self {
            Numbers::Int64(array) => each(array, |at, number| add(at, number.into())),
            Numbers::UInt64(array) => each(array, |at, number| add(at, number.into())),
            Numbers::Decimal(array) => each(array, add),
        }
    }
}

fn each<T: ArrowPrimitiveType + ArrowNumericType>(
    array: &PrimitiveArray<T>,
    mut add: impl FnMut(usize, T::Native),
) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.values().iter().enumerate().for_each(|(at, number)| add(at, *number)),
        Some(nulls) => nulls.valid_indices().for_each(|at| add(at, array.value(at))),
    }
}

/// A sum as a value of its result type.
fn finished(sum: i128, result: &DataType) -> Result<ScalarValue> {
    match result {
        DataType::Decimal128(precision, scale) => {
            check(sum)?;
            Ok(ScalarValue::Decimal128(Some(sum), *precision, *scale))
        }
        DataType::Int64 => Ok(ScalarValue::Int64(Some(bigint(sum)?))),
        other => internal_err!("a sum of the type {other}"),
    }
}

/// A sum of integers.
fn bigint(sum: i128) -> Result<i64> {
    let beyond =
        |_| ArrowError::ArithmeticOverflow(format!("the sum {sum} is out of range for bigint"));
    Ok(i64::try_from(sum).map_err(beyond)?)
}

/// Fails if a sum has more than 38 digits.
fn check(sum: i128) -> Result<()> {
    const LIMIT: u128 = 10u128.pow(38);
    match sum.unsigned_abs() < LIMIT {
        true => Ok(()),
        false => Err(beyond_digits(&sum.to_string(), DECIMAL128_MAX_PRECISION).into()),
    }
}

/// The sum of one group. Numbers can be subtracted again, for a sliding window.
#[derive(Debug)]
pub(super) struct Total {
    result: DataType,
    pub sum: i128,
    pub count: u64,
}

impl Total {
    pub fn new(result: DataType) -> Total {
        Total { result, sum: 0, count: 0 }
    }

    fn scalar(&self) -> Result<ScalarValue> {
        match self.count {
            0 => ScalarValue::try_from(&self.result),
            _ => finished(self.sum, &self.result),
        }
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = widened(&values[0])?;
        let (mut sum, mut has_lost, mut count) = (self.sum, false, 0);
        Numbers::of(&array)?.each(|_, number| {
            let (next, lost) = sum.overflowing_add(number);
            sum = next;
            has_lost |= lost;
            count += 1;
        });
        if has_lost {
            return Err(overflow().into());
        }
        self.sum = sum;
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = widened(&values[0])?;
        let (mut sum, mut has_lost, mut count) = (self.sum, false, 0);
        Numbers::of(&array)?.each(|_, number| {
            let (next, lost) = sum.overflowing_sub(number);
            sum = next;
            has_lost |= lost;
            count += 1;
        });
        if has_lost {
            return Err(overflow().into());
        }
        self.sum = sum;
        self.count = self.count.saturating_sub(count);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let kept = kept(&self.result);
        Ok(vec![match self.count {
            0 => ScalarValue::try_from(&kept)?,
            _ => finished(self.sum, &kept)?,
        }])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.scalar()
    }

    fn size(&self) -> usize {
        size_of::<Total>()
    }
}

/// The sum of the distinct numbers of one group.
#[derive(Debug)]
pub(super) struct Distinct {
    result: DataType,
    pub values: HashSet<i128>,
}

impl Distinct {
    pub fn new(result: DataType) -> Distinct {
        Distinct { result, values: HashSet::new() }
    }

    /// Their total.
    pub fn sum(&self) -> Result<i128> {
        let sum = self.values.iter().try_fold(0i128, |sum, number| sum.checked_add(*number));
        Ok(sum.ok_or_else(overflow)?)
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = widened(&values[0])?;
        Numbers::of(&array)?.each(|_, number| {
            self.values.insert(number);
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = kept(&self.result);
        let numbers = Decimal128Array::from_iter_values(self.values.iter().copied());
        let numbers = Arc::new(numbers.with_data_type(state.clone()));
        let field = Arc::new(Field::new_list_field(state, true));
        let offsets = OffsetBuffer::from_lengths([numbers.len()]);
        let list = ListArray::try_new(field, offsets, numbers, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.values.is_empty() {
            return ScalarValue::try_from(&self.result);
        }
        finished(self.sum()?, &self.result)
    }

    fn size(&self) -> usize {
        size_of::<Distinct>() + self.values.capacity() * (size_of::<i128>() + 1)
    }
}

/// The sums of many groups.
#[derive(Debug)]
pub(super) struct Groups {
    result: DataType,
    sums: Vec<i128>,
    /// For each group, whether there was a number.
    seen: Vec<bool>,
}

impl Groups {
    pub fn new(result: DataType) -> Groups {
        Groups { result, sums: vec![], seen: vec![] }
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Option<NullBuffer>) {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = NullBuffer::from(emit_to.take_needed(&mut self.seen));
        (sums, Some(seen).filter(|seen| seen.null_count() > 0))
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        let array = widened(&values[0])?;
        let (sums, seen) = (&mut self.sums, &mut self.seen);
        let mut has_lost = false;
        let mut add = |group: usize, number: i128| {
            let (next, lost) = sums[group].overflowing_add(number);
            sums[group] = next;
            seen[group] = true;
            has_lost |= lost;
        };
        let numbers = Numbers::of(&array)?;
        match wanted {
            None => numbers.each(|at, number| add(groups[at], number)),
            Some(wanted) => numbers.each(|at, number| {
                if wanted.is_valid(at) && wanted.value(at) {
                    add(groups[at], number);
                }
            }),
        }
        match has_lost {
            true => Err(overflow().into()),
            false => Ok(()),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, nulls) = self.take(emit_to);
        let is_set = |at: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
        if self.result == DataType::Int64 {
            let sums: Vec<i64> = sums.into_iter().map(bigint).collect::<Result<_>>()?;
            return Ok(Arc::new(Int64Array::try_new(sums.into(), nulls)?));
        }
        let set = sums.iter().enumerate().filter(|(at, _)| is_set(*at));
        for (_, sum) in set {
            check(*sum)?;
        }
        let sums = Decimal128Array::try_new(sums.into(), nulls)?;
        Ok(Arc::new(sums.with_data_type(self.result.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, nulls) = self.take(emit_to);
        let sums = Decimal128Array::try_new(sums.into(), nulls)?;
        Ok(vec![Arc::new(sums.with_data_type(kept(&self.result)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let array = widened(&values[0])?;
        let mut sums = vec![0; array.len()];
        Numbers::of(&array)?.each(|at, number| sums[at] = number);
        let nulls = match wanted {
            None => array.nulls().cloned(),
            Some(wanted) => {
                let valid = is_not_null(&array)?;
                let wanted = and(&valid, &arrow::compute::prep_null_mask_filter(wanted))?;
                Some(NullBuffer::new(wanted.values().clone()))
            }
        };
        let sums = Decimal128Array::try_new(sums.into(), nulls)?;
        Ok(vec![Arc::new(sums.with_data_type(kept(&self.result)))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sums: &[i128]) -> ArrayRef {
        let sums = Decimal128Array::from_iter_values(sums.iter().copied());
        Arc::new(sums.with_data_type(kept(&DataType::Int64)))
    }

    #[test]
    fn a_sum_of_integers_is_a_bigint_or_told() -> Result<()> {
        let (most, one) = (i128::from(i64::MAX), 1);
        // Partial sums may exceed the range that the whole keeps.
        let mut total = Total::new(DataType::Int64);
        total.merge_batch(&[parts(&[most, one])])?;
        total.merge_batch(&[parts(&[-one])])?;
        assert_eq!(total.evaluate()?, ScalarValue::Int64(Some(i64::MAX)));
        total.merge_batch(&[parts(&[one])])?;
        let told = total.evaluate().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains("9223372036854775808 is out of range for bigint"), "{told}");
        let mut groups = Groups::new(DataType::Int64);
        groups.merge_batch(&[parts(&[most, one, 5])], &[0, 0, 1], 2)?;
        assert!(groups.evaluate(EmitTo::All).is_err());
        Ok(())
    }
}
