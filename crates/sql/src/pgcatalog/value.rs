//! Values of the catalogs' rows, and Arrow columns made from them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, ListBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    TimestampMicrosecondArray, UInt32Array, UInt32Builder, new_null_array,
};
use arrow::array::{Int16Builder, PrimitiveBuilder};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;

use super::relations::{Column, Relation};
use crate::instants::zoned::KEPT;

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Oid(u32),
    Real(f64),
    Text(String),
    /// A point in time, in microseconds since 1970.
    Time(i64),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Oids(Vec<u32>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<u32> for Value {
    fn from(oid: u32) -> Value {
        Value::Oid(oid)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

/// The Arrow type for one of the catalogs' types.
pub(super) fn arrow_type(of: &str) -> DataType {
    match of {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" | "cardinal_number" => DataType::Int32,
        "int8" => DataType::Int64,
        "oid" | "regproc" | "regtype" | "regclass" | "xid" | "cid" => DataType::UInt32,
        "float4" => DataType::Float32,
        "float8" | "numeric" => DataType::Float64,
        "timestamptz" | "time_stamp" => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(KEPT.into()))
        }
        "bytea" => DataType::Binary,
        "int2vector" | "_int2" => list(DataType::Int16),
        "oidvector" | "_oid" | "_regtype" => list(DataType::UInt32),
        "_text" | "_name" | "_char" | "_aclitem" => list(DataType::Utf8),
        "_float4" | "_float8" => list(DataType::Float64),
        _ => DataType::Utf8,
    }
}

/// The columns of a relation for Arrow.
pub(super) fn schema_of(relation: &Relation) -> SchemaRef {
    let field = |own: &Column| Field::new(own.name, arrow_type(own.of), true);
    Arc::new(Schema::new(relation.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The default value of a column that a row does not set.
fn unsaid(column: &Column) -> Value {
    if !column.not_null {
        return Value::Null;
    }
    match arrow_type(column.of) {
        DataType::Boolean => Value::Bool(false),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Value::Int(0),
        DataType::UInt32 => Value::Oid(0),
        DataType::Float32 | DataType::Float64 => Value::Real(0.0),
        DataType::Utf8 => Value::Text(String::new()),
        DataType::List(of) if of.data_type() == &DataType::Utf8 => Value::Texts(Vec::new()),
        DataType::List(_) => Value::Ints(Vec::new()),
        _ => Value::Null,
    }
}

/// Rows of a relation; each sets only values that differ from the defaults.
pub(super) struct Rows {
    pub relation: &'static Relation,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    pub fn new(relation: &'static Relation) -> Rows {
        Rows { relation, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add<const N: usize>(&mut self, said: [(&str, Value); N]) {
        let mut row: Vec<Value> = self.relation.columns.iter().map(unsaid).collect();
        for (name, value) in said {
            let at = self.relation.columns.iter().position(|column| column.name == name);
            debug_assert!(at.is_some(), "{} has no column {name}", self.relation.name);
            if let Some(own) = at.and_then(|at| row.get_mut(at)) {
                *own = value;
            }
        }
        self.rows.push(row);
    }

    /// All rows.
    pub fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let fields = schema.fields().iter().enumerate();
        let columns = fields.map(|(at, field)| {
            let values: Vec<&Value> = self.rows.iter().filter_map(|row| row.get(at)).collect();
            array(field.data_type(), &values)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        let columns = columns.collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}

impl Value {
    fn number(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Oid(oid) => Some(i64::from(*oid)),
            _ => None,
        }
    }

    fn numbers(&self) -> Option<Vec<i64>> {
        match self {
            Value::Ints(all) => Some(all.clone()),
            Value::Oids(all) => Some(all.iter().map(|oid| i64::from(*oid)).collect()),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn real(&self) -> Option<f64> {
        match self {
            Value::Real(real) => Some(*real),
            _ => None,
        }
    }
}

/// An array of a type; values of other types become NULL.
#[expect(clippy::cast_possible_truncation, reason = "figures for people")]
pub(super) fn array(of: &DataType, values: &[&Value]) -> ArrayRef {
    let values = values.iter();
    match of {
        DataType::Boolean => {
            let flag =
                |value: &&Value| if let Value::Bool(own) = value { Some(*own) } else { None };
            Arc::new(values.map(flag).collect::<BooleanArray>())
        }
        DataType::Int16 => {
            let small = values.map(|value| i16::try_from(value.number()?).ok());
            Arc::new(small.collect::<Int16Array>())
        }
        DataType::Int32 => {
            let middle = values.map(|value| i32::try_from(value.number()?).ok());
            Arc::new(middle.collect::<Int32Array>())
        }
        DataType::Int64 => Arc::new(values.map(|value| value.number()).collect::<Int64Array>()),
        DataType::UInt32 => {
            let oids = values.map(|value| u32::try_from(value.number()?).ok());
            Arc::new(oids.collect::<UInt32Array>())
        }
        DataType::Float32 => {
            let reals = values.map(|value| value.real().map(|real| real as f32));
            Arc::new(reals.collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(values.map(|value| value.real()).collect::<Float64Array>()),
        DataType::Utf8 => Arc::new(values.map(|value| value.text()).collect::<StringArray>()),
        DataType::Timestamp(_, zone) => {
            let time =
                |value: &&Value| if let Value::Time(own) = value { Some(*own) } else { None };
            let times = values.map(time).collect::<TimestampMicrosecondArray>();
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::List(inner) => lists(inner.data_type(), values.copied()),
        DataType::Binary => Arc::new(values.map(|_| None::<&[u8]>).collect::<BinaryArray>()),
        other => new_null_array(other, values.len()),
    }
}

fn lists<'a>(of: &DataType, values: impl Iterator<Item = &'a Value>) -> ArrayRef {
    match of {
        DataType::Int16 => {
            let mut made = ListBuilder::new(Int16Builder::new());
            for value in values {
                let own = value.numbers().map(|own| own.into_iter().map(|n| i16::try_from(n).ok()));
                made.append_option(own);
            }
            Arc::new(made.finish())
        }
        DataType::UInt32 => {
            let mut made = ListBuilder::new(UInt32Builder::new());
            for value in values {
                let own = value.numbers().map(|own| own.into_iter().map(|n| u32::try_from(n).ok()));
                made.append_option(own);
            }
            Arc::new(made.finish())
        }
        DataType::Float64 => {
            let mut made = ListBuilder::new(PrimitiveBuilder::<Float64Type>::new());
            values.for_each(|_| made.append_null());
            Arc::new(made.finish())
        }
        _ => {
            let mut made = ListBuilder::new(StringBuilder::new());
            for value in values {
                let own = match value {
                    Value::Texts(own) => Some(own.iter().map(Some)),
                    _ => None,
                };
                made.append_option(own);
            }
            Arc::new(made.finish())
        }
    }
}
