//! Functions that clients call about the catalogs.

mod of_objects;
mod of_rights;
mod of_server;
mod registered;
mod texts;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::ask::Ask;
use super::snapshot::Snapshot;
use super::value::{self, Value};
use crate::error::Error;
use crate::files::csv_format::external;
use crate::instants::zoned::KEPT;

/// The kinds of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Text,
    /// An integer.
    Int,
    Bool,
    /// An object: its oid, or its name.
    Name,
    /// Anything.
    Any,
}

/// The kinds of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Text,
    Int,
    Long,
    Bool,
    Oid,
    Time,
    Texts,
}

impl Gives {
    fn arrow(self) -> DataType {
        match self {
            Gives::Text => DataType::Utf8,
            Gives::Int => DataType::Int32,
            Gives::Long => DataType::Int64,
            Gives::Bool => DataType::Boolean,
            Gives::Oid => DataType::UInt32,
            Gives::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(KEPT.into())),
            Gives::Texts => value::arrow_type("_text"),
        }
    }
}

/// A call of a function for one row.
struct Call<'a> {
    ask: &'a Ask,
    snapshot: &'a Snapshot,
    args: Vec<Value>,
    fields: &'a [Arc<Field>],
}

impl Call<'_> {
    fn arg(&self, at: usize) -> &Value {
        self.args.get(at).unwrap_or(&Value::Null)
    }

    fn text(&self, at: usize) -> &str {
        match self.arg(at) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn int(&self, at: usize) -> Option<i64> {
        match self.arg(at) {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    fn flag(&self, at: usize) -> bool {
        matches!(self.arg(at), Value::Bool(true))
    }

    /// The oid in an argument, which may be a number or a text.
    fn oid(&self, at: usize) -> Option<u32> {
        match self.arg(at) {
            Value::Int(number) => u32::try_from(*number).ok(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

/// A function.
#[derive(Debug)]
struct Definition {
    name: &'static str,
    /// The arguments, for each number of them.
    takes: &'static [&'static [Takes]],
    gives: Gives,
    /// NULL on NULL input.
    is_strict: bool,
    /// It has an effect, or another result, each time it is called.
    is_volatile: bool,
    call: fn(&Call<'_>) -> Result<Value, Error>,
}

const fn one(
    name: &'static str,
    takes: &'static [&'static [Takes]],
    gives: Gives,
    call: fn(&Call<'_>) -> Result<Value, Error>,
) -> Definition {
    Definition { name, takes, gives, is_strict: true, is_volatile: false, call }
}

const fn volatile(own: Definition) -> Definition {
    Definition { is_volatile: true, ..own }
}

const fn of_null(own: Definition) -> Definition {
    Definition { is_strict: false, ..own }
}

/// A function, bound to a session.
#[derive(Debug)]
struct CatalogCall {
    ask: Arc<Ask>,
    own: &'static Definition,
    signature: Signature,
}

impl PartialEq for CatalogCall {
    fn eq(&self, other: &CatalogCall) -> bool {
        self.own.name == other.own.name && Arc::ptr_eq(&self.ask, &other.ask)
    }
}

impl Eq for CatalogCall {}

impl Hash for CatalogCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.own.name.hash(state);
    }
}

/// All of them, for a session.
pub(crate) fn udfs(ask: &Arc<Ask>) -> Vec<ScalarUDF> {
    let all = [of_objects::ALL, of_rights::ALL, of_server::ALL, registered::ALL, texts::ALL];
    let udf = |own: &'static Definition| {
        // The catalog is the same throughout a statement.
        let volatility = if own.is_volatile { Volatility::Volatile } else { Volatility::Stable };
        let signature = Signature::user_defined(volatility);
        ScalarUDF::new_from_impl(CatalogCall { ask: Arc::clone(ask), own, signature })
    };
    all.into_iter().flatten().map(udf).collect()
}

/// Whether there is a function of this name here.
pub(super) fn is_here(name: &str) -> bool {
    let all = [of_objects::ALL, of_rights::ALL, of_server::ALL, registered::ALL, texts::ALL];
    all.into_iter().flatten().any(|own| own.name == name)
}

/// The value of an argument in one row.
fn value_of(array: &ArrayRef, at: usize) -> Value {
    if array.is_null(at) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(at).into(),
        DataType::Boolean => array.as_boolean().value(at).into(),
        DataType::List(_) => {
            let inner = array.as_list::<i32>().value(at);
            if let Some(texts) = inner.as_string_opt::<i32>() {
                return Value::Texts(texts.iter().flatten().map(str::to_owned).collect());
            }
            Value::Int(i64::try_from(inner.len()).unwrap_or(i64::MAX))
        }
        // Identified by its type alone.
        _ => Value::Bool(true),
    }
}

impl ScalarUDFImpl for CatalogCall {
    fn name(&self) -> &str {
        self.own.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let takes = self.own.takes.iter().find(|takes| takes.len() == types.len());
        let Some(takes) = takes else {
            let count = types.len();
            return plan_err!("{} does not take {count} arguments", self.own.name);
        };
        let wanted = takes.iter().zip(types).map(|(takes, own)| match takes {
            Takes::Text => DataType::Utf8,
            Takes::Int => DataType::Int64,
            Takes::Bool => DataType::Boolean,
            Takes::Name if own.is_string() => DataType::Utf8,
            Takes::Name => DataType::Int64,
            Takes::Any if own.is_string() => DataType::Utf8,
            Takes::Any => own.clone(),
        });
        Ok(wanted.collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.own.gives.arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let count = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(count));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let snapshot = self.ask.snapshot();
        let fields = &args.arg_fields;
        let value = |row: usize| {
            let args: Vec<Value> = arrays.iter().map(|array| value_of(array, row)).collect();
            if self.own.is_strict && args.contains(&Value::Null) {
                return Ok(Value::Null);
            }
            let call = Call { ask: &self.ask, snapshot: &snapshot, args, fields };
            (self.own.call)(&call).map_err(external)
        };
        let values = (0..count).map(value).collect::<Result<Vec<Value>>>()?;
        let values: Vec<&Value> = values.iter().collect();
        Ok(ColumnarValue::Array(value::array(&self.own.gives.arrow(), &values)))
    }
}
