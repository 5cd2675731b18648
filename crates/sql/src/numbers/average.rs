//! The aggregate function `avg`: for decimals, rounded to the nearest value of its type; DataFusion's
//! truncates after the last digit, so it is asked for one more digit here. For integers it is a decimal,
//! as in PostgreSQL (`whole_average.rs`). Everything else is DataFusion's.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};

use crate::numbers::sliding::Window;
use crate::numbers::whole_average::{self, WholeGroups};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Average {
    others: Arc<AggregateUDF>,
    signature: Signature,
}

impl Average {
    /// The function, to be registered in place of DataFusion's.
    pub(crate) fn udaf() -> AggregateUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Average { others: avg_udaf(), signature })
    }
}

fn is_whole(args: &AccumulatorArgs) -> bool {
    args.expr_fields.first().is_some_and(|field| field.data_type().is_integer())
}

/// The type with one more digit after the point; `None`: there is none, or DataFusion's result is exact.
fn finer(result: &FieldRef) -> Option<FieldRef> {
    match result.data_type() {
        DataType::Decimal128(precision, scale) if *precision < DECIMAL128_MAX_PRECISION => {
            let finer = DataType::Decimal128(precision + 1, scale + 1);
            Some(Arc::new(result.as_ref().clone().with_data_type(finer)))
        }
        _ => None,
    }
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        self.others.name()
    }

    fn aliases(&self) -> &[String] {
        self.others.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [data_type] = types else {
            return datafusion::common::plan_err!("avg takes one argument, not {}", types.len());
        };
        let own = match data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        Ok(vec![match own {
            DataType::Null => DataType::Float64,
            t if t.is_floating() => DataType::Float64,
            t if t.is_numeric() => t.clone(),
            DataType::Duration(_) => own.clone(),
            other => return datafusion::common::plan_err!("there is no avg of {other}"),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match whole_average::result_of(&types[0]) {
            Some(result) => Ok(result),
            None => self.others.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if is_whole(&args) {
            return whole_average::accumulator(&args);
        }
        let Some(return_field) = finer(&args.return_field) else {
            return self.others.accumulator(args);
        };
        let result = args.return_field.data_type().clone();
        let inner = self.others.accumulator(AccumulatorArgs { return_field, ..args })?;
        Ok(Box::new(Rounded { inner, result }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type().is_floating() && !args.is_distinct {
            true => Ok(Box::new(Window::of(&self.others, &args)?)),
            false => self.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.input_fields.first().is_some_and(|field| field.data_type().is_integer()) {
            true => Ok(whole_average::state_fields(&args)),
            false => self.others.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.others.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if is_whole(&args) {
            return Ok(Box::new(WholeGroups::new(args.return_field.data_type().clone())));
        }
        let Some(return_field) = finer(&args.return_field) else {
            return self.others.create_groups_accumulator(args);
        };
        let result = args.return_field.data_type().clone();
        let inner =
            self.others.create_groups_accumulator(AccumulatorArgs { return_field, ..args })?;
        Ok(Box::new(RoundedGroups { inner, result }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The average of one group.
#[derive(Debug)]
struct Rounded {
    inner: Box<dyn Accumulator>,
    result: DataType,
}

impl Accumulator for Rounded {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // A cast to fewer digits rounds halves away from zero; the digits truncated before cannot
        // produce a half.
        self.inner.evaluate()?.cast_to(&self.result)
    }

    fn size(&self) -> usize {
        size_of::<Rounded>() + self.inner.size()
    }
}

/// The averages of many groups.
struct RoundedGroups {
    inner: Box<dyn GroupsAccumulator>,
    result: DataType,
}

impl GroupsAccumulator for RoundedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, wanted, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit_to)?, &self.result)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, wanted)
    }

    fn size(&self) -> usize {
        size_of::<RoundedGroups>() + self.inner.size()
    }
}
