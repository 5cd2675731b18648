//! The aggregate functions `min` and `max` of an enum type, by the order of its labels.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility,
};

use super::known::{EnumInfo, no_label};

/// One of the two functions, for a type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct EnumExtreme {
    info: Arc<EnumInfo>,
    is_least: bool,
    signature: Signature,
}

impl EnumExtreme {
    pub fn udaf(info: &Arc<EnumInfo>, is_least: bool) -> Arc<AggregateUDF> {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
        let own = EnumExtreme { info: Arc::clone(info), is_least, signature };
        Arc::new(AggregateUDF::new_from_impl(own))
    }
}

impl AggregateUDFImpl for EnumExtreme {
    fn name(&self) -> &str {
        if self.is_least { "min" } else { "max" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field(&self, _: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(self.info.field(Field::new(self.name(), DataType::Utf8, true))))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[extreme]", args.name), DataType::Utf8, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (info, is_least) = (Arc::clone(&self.info), self.is_least);
        Ok(Box::new(Best { info, is_least, place: None }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn is_descending(&self) -> Option<bool> {
        Some(!self.is_least)
    }
}

/// The first or the last label so far.
#[derive(Debug)]
struct Best {
    info: Arc<EnumInfo>,
    is_least: bool,
    place: Option<usize>,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = cast(&values[0], &DataType::Utf8)?;
        for label in texts.as_string::<i32>().iter().flatten() {
            let labels = &self.info.labels;
            let place = labels
                .place(label)
                .ok_or_else(|| DataFusionError::External(Box::new(no_label(labels, label))))?;
            self.place = Some(match (self.place, self.is_least) {
                (None, _) => place,
                (Some(known), true) => known.min(place),
                (Some(known), false) => known.max(place),
            });
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let label = self.place.and_then(|place| self.info.labels.labels().nth(place));
        Ok(ScalarValue::Utf8(label.map(str::to_owned)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
