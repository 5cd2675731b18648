//! `information_schema._pg_expandarray`: the items of an array, each with its position.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray};
use arrow::datatypes::{ArrowNativeType, DataType, Field, Fields};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::rules::unbounded;

/// The function's name: its result is unnested.
pub(super) const EXPANDED: &str = "pg_expanded_array";

/// A list of the items of a list, as `x`, with their positions, as `n`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Expanded {
    signature: Signature,
}

impl Expanded {
    /// The function.
    pub(crate) fn udf() -> ScalarUDF {
        ScalarUDF::from(Expanded { signature: Signature::any(1, Volatility::Immutable) })
    }
}

fn fields_of(item: &DataType) -> Fields {
    Fields::from(vec![Field::new("x", item.clone(), true), Field::new("n", DataType::Int32, true)])
}

impl ScalarUDFImpl for Expanded {
    fn name(&self) -> &'static str {
        EXPANDED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(item)] => {
                Ok(DataType::new_list(DataType::Struct(fields_of(item.data_type())), true))
            }
            _ => plan_err!("_pg_expandarray takes an array"),
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let Some(lists) = array.as_list_opt::<i32>() else {
            return plan_err!("_pg_expandarray takes an array");
        };
        let (values, offsets) = (lists.values(), lists.offsets());
        // The offsets of a sliced array may begin anywhere.
        let mut places = vec![0; values.len()];
        for ends in offsets.windows(2) {
            let (from, to) = (ends[0].as_usize(), ends[1].as_usize());
            places[from..to].iter_mut().zip(1..).for_each(|(own, place)| *own = place);
        }
        let places: ArrayRef = Arc::new(Int32Array::from(places));
        let fields = fields_of(values.data_type());
        let rows = StructArray::try_new(fields, vec![Arc::clone(values), places], None)?;
        let item = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        let nulls = lists.nulls().cloned();
        let made = ListArray::try_new(item, offsets.clone(), Arc::new(rows), nulls)?;
        Ok(ColumnarValue::Array(Arc::new(made)))
    }
}
