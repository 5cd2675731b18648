//! Aggregates over a sliding window, without subtracting values from a sum.
//!
//! DataFusion subtracts what leaves a window: of 1e300, 1 and 2 the sum of the last two was 2, and after
//! a NaN or an infinity everything was NaN. Here the rows of a window are in two stacks that form a
//! queue (Hammer Slide, Theodorakis et al., ADMS 2018): each suffix of the older rows has its own state,
//! the newer rows share one, and both are merged. Each row is added twice, none is subtracted.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::{bit_and_or_xor, bool_and_or, stddev, variance};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};

/// Makes an empty accumulator of the function.
type Make = Box<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

/// The rows of a window.
pub(crate) struct Window {
    make: Make,
    /// For each of the older rows, the state of it and all older rows after it; the oldest is last.
    older: Vec<Vec<ScalarValue>>,
    /// The newer rows, one array for each argument.
    newer: VecDeque<Vec<ArrayRef>>,
    /// Their aggregate.
    whole: Box<dyn Accumulator>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("older", &self.older.len()).finish_non_exhaustive()
    }
}

impl Window {
    /// A window over accumulators that `make` makes.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn new(make: Make) -> Result<Window> {
        let whole = make()?;
        Ok(Window { make, older: Vec::new(), newer: VecDeque::new(), whole })
    }

    /// A window over the accumulators of a function, with the arguments of a call.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn of(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Result<Window> {
        let function = Arc::clone(function);
        let (fields, exprs) = (args.expr_fields.to_vec(), args.exprs.to_vec());
        let (result, name) = (Arc::clone(&args.return_field), args.name.to_owned());
        let (schema, is_distinct) = (Arc::new(args.schema.clone()), args.is_distinct);
        let (ignore_nulls, is_reversed) = (args.ignore_nulls, args.is_reversed);
        Window::new(Box::new(move || {
            function.accumulator(AccumulatorArgs {
                return_field: Arc::clone(&result),
                schema: &schema,
                expr_fields: &fields,
                ignore_nulls,
                order_bys: &[],
                name: &name,
                is_distinct,
                exprs: &exprs,
                is_reversed,
            })
        }))
    }

    /// Turns the newer rows into older ones.
    fn turn(&mut self) -> Result<()> {
        let mut suffix = (self.make)()?;
        while let Some(arrays) = self.newer.pop_back() {
            let rows = arrays.first().map_or(0, |array| array.len());
            for row in (0..rows).rev() {
                let one: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(row, 1)).collect();
                suffix.update_batch(&one)?;
                let state = suffix.state()?;
                // Some accumulators give their state away.
                suffix = (self.make)()?;
                merge(suffix.as_mut(), &state)?;
                self.older.push(state);
            }
        }
        self.whole = (self.make)()?;
        Ok(())
    }
}

fn merge(into: &mut dyn Accumulator, state: &[ScalarValue]) -> Result<()> {
    let arrays = state.iter().map(|value| value.to_array_of_size(1));
    into.merge_batch(&arrays.collect::<Result<Vec<_>>>()?)
}

impl Accumulator for Window {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.whole.update_batch(values)?;
        self.newer.push_back(values.to_vec());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        for _ in 0..rows {
            if self.older.is_empty() {
                self.turn()?;
            }
            self.older.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut all = (self.make)()?;
        if let Some(state) = self.older.last() {
            merge(all.as_mut(), state)?;
        }
        if !self.newer.is_empty() {
            let state = self.whole.state()?;
            self.whole = (self.make)()?;
            merge(self.whole.as_mut(), &state)?;
            merge(all.as_mut(), &state)?;
        }
        all.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.whole.merge_batch(states)
    }

    fn size(&self) -> usize {
        let states = self.older.iter().flatten().map(ScalarValue::size).sum::<usize>();
        let arrays = self.newer.iter().flatten().map(|array| array.get_array_memory_size());
        size_of_val(self) + self.whole.size() + states + arrays.sum::<usize>()
    }
}

/// A function of DataFusion over a sliding window.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sliding {
    others: Arc<AggregateUDF>,
}

impl Sliding {
    /// The functions from which DataFusion cannot subtract values, or not exactly.
    pub(crate) fn udafs() -> Vec<AggregateUDF> {
        let functions = [
            variance::var_samp_udaf(),
            variance::var_pop_udaf(),
            stddev::stddev_udaf(),
            stddev::stddev_pop_udaf(),
            bool_and_or::bool_and_udaf(),
            bool_and_or::bool_or_udaf(),
            bit_and_or_xor::bit_and_udaf(),
            bit_and_or_xor::bit_or_udaf(),
            bit_and_or_xor::bit_xor_udaf(),
        ];
        functions.map(|others| AggregateUDF::new_from_impl(Sliding { others })).into()
    }
}

impl AggregateUDFImpl for Sliding {
    fn name(&self) -> &str {
        self.others.name()
    }

    fn aliases(&self) -> &[String] {
        self.others.aliases()
    }

    fn signature(&self) -> &Signature {
        self.others.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.others.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.others.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Window::of(&self.others, &args)?))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.others.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.others.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.others.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.others.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.others.inner().default_value(data_type)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.others.coerce_types(types)
    }
}
