//! `nextval`, `currval`, `lastval` and `setval` as functions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::Error;
use crate::host::Host;
use crate::rows::RowTables;

/// Which sequence function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    Next,
    Current,
    Last,
    Set,
}

/// A function over the sequences of a session.
#[derive(Debug)]
pub(super) struct OfSequence {
    host: Arc<dyn Host>,
    function: Function,
    signature: Signature,
}

impl PartialEq for OfSequence {
    fn eq(&self, other: &OfSequence) -> bool {
        self.function == other.function && Arc::ptr_eq(&self.host, &other.host)
    }
}

impl Eq for OfSequence {}

impl Hash for OfSequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl OfSequence {
    /// All of them, for a session.
    pub fn udfs(host: &Arc<dyn Host>) -> Vec<ScalarUDF> {
        let udf = |function| {
            let signature = Signature::user_defined(Volatility::Volatile);
            ScalarUDF::new_from_impl(OfSequence { host: Arc::clone(host), function, signature })
        };
        [Function::Next, Function::Current, Function::Last, Function::Set]
            .into_iter()
            .map(udf)
            .collect()
    }

    fn value(&self, rows: &RowTables, args: &[ArrayRef], at: usize) -> Result<Option<i64>, Error> {
        if args.iter().any(|array| array.is_null(at)) {
            return Ok(None);
        }
        let name = || args.first().map_or("", |names| names.as_string::<i32>().value(at));
        let value = match self.function {
            Function::Next => rows.next_value(name())?,
            Function::Current => rows.current_value(name())?,
            Function::Last => rows.last_value()?,
            Function::Set => {
                let value = args[1].as_primitive::<Int64Type>().value(at);
                let is_called = args.get(2).is_none_or(|called| called.as_boolean().value(at));
                rows.set_value(name(), value, is_called)?
            }
        };
        Ok(Some(value))
    }
}

impl ScalarUDFImpl for OfSequence {
    fn name(&self) -> &'static str {
        match self.function {
            Function::Next => "nextval",
            Function::Current => "currval",
            Function::Last => "lastval",
            Function::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted: &[DataType] = match (self.function, types.len()) {
            (Function::Next | Function::Current, 1) => &[DataType::Utf8],
            (Function::Last, 0) => &[],
            (Function::Set, 2) => &[DataType::Utf8, DataType::Int64],
            (Function::Set, 3) => &[DataType::Utf8, DataType::Int64, DataType::Boolean],
            (_, count) => return plan_err!("{} does not take {count} arguments", self.name()),
        };
        Ok(wanted.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(rows) = self.host.rows() else {
            return Err(external(Error::not_yet("a sequence, here")));
        };
        let count = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(count));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        // One for each row, whatever the arguments.
        let values = (0..count).map(|at| self.value(rows, &arrays, at).map_err(external));
        let values: Int64Array = values.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}
