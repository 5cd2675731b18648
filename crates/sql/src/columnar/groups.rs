//! Groups of rows as a cell knows them, as the batches that DataFusion's final aggregation takes.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use cellar_format::aggregate::{Groups, State};
use cellar_format::value::{Value, f32_of_key, f64_of_key};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};

use crate::columnar::exec::{Part, Partial};

/// A batch of partial results: the keys of each group, then what is known of it.
pub fn to_batch(groups: Groups, partial: &Partial) -> Result<RecordBatch> {
    let fields = partial.schema.fields();
    let keys = partial.aggregate.keys.len();
    let rows: Vec<(_, _)> = groups.into_iter().collect();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let data_type = field.data_type();
        let scalar = |(key, states): &(Box<[Option<Value>]>, Vec<State>)| {
            if at < keys {
                return key_scalar(key[at].as_ref(), data_type);
            }
            let (call, part) = partial.parts[at - keys];
            known(&states[call], part, data_type)
        };
        let scalars: Vec<ScalarValue> = rows.iter().map(scalar).collect::<Result<_>>()?;
        columns.push(ScalarValue::iter_to_array(scalars)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(&partial.schema), columns, &options)
        .map_err(DataFusionError::from)
}

/// A value that makes a group: of -0 and 0, which are one group, 0.
fn key_scalar(value: Option<&Value>, data_type: &DataType) -> Result<ScalarValue> {
    let zero = Value::Number(0);
    let is_zero = data_type.is_floating() && value == Some(&Value::Number(-1));
    scalar_of(if is_zero { Some(&zero) } else { value }, data_type)
}

/// A part of what is known of a call.
fn known(state: &State, part: Part, data_type: &DataType) -> Result<ScalarValue> {
    match (state, part) {
        // As an average of no rows has it: a zero there would be divided by.
        (State::Sum { rows: 0, .. } | State::Float { rows: 0, .. }, _) => {
            scalar_of(None, data_type)
        }
        (State::Count(rows) | State::Sum { rows, .. } | State::Float { rows, .. }, Part::Rows) => {
            scalar_of(Some(&Value::Number((*rows).into())), data_type)
        }
        (State::Sum { sum, .. }, Part::Value) => match data_type {
            // An average of whole numbers: DataFusion sums up floating-point numbers.
            DataType::Float64 => Ok(ScalarValue::Float64(Some(*sum as f64))),
            _ => scalar_of(Some(&Value::Number(*sum)), data_type),
        },
        (State::Float { sum, .. }, Part::Value) => Ok(ScalarValue::Float64(Some(*sum))),
        (State::Least(value) | State::Greatest(value), Part::Value) => {
            scalar_of(value.as_ref(), data_type)
        }
        (state, part) => internal_err!("{state:?} has no {part:?}"),
    }
}

/// A value of a column as a constant of that type.
pub fn scalar_of(value: Option<&Value>, data_type: &DataType) -> Result<ScalarValue> {
    use DataType as D;
    use ScalarValue as S;
    let Some(value) = value else { return ScalarValue::try_new_null(data_type) };
    let number = match value {
        Value::Number(number) => *number,
        Value::Bytes(bytes) => {
            return match data_type {
                D::Utf8View | D::Utf8 => {
                    let text = String::from_utf8(bytes.to_vec());
                    let text = text.map_err(|e| DataFusionError::Internal(e.to_string()))?;
                    Ok(S::Utf8View(Some(text)))
                }
                _ => Ok(S::BinaryView(Some(bytes.to_vec()))),
            };
        }
    };
    let narrow = number as i64;
    Ok(match data_type {
        D::Float32 => S::Float32(Some(f32_of_key(narrow))),
        D::Float64 => S::Float64(Some(f64_of_key(narrow))),
        D::Decimal128(precision, scale) => S::Decimal128(Some(number), *precision, *scale),
        D::Boolean => S::Boolean(Some(number != 0)),
        D::Int8 => S::Int8(Some(narrow as i8)),
        D::Int16 => S::Int16(Some(narrow as i16)),
        D::Int32 => S::Int32(Some(narrow as i32)),
        D::Int64 => S::Int64(Some(narrow)),
        D::UInt8 => S::UInt8(Some(narrow as u8)),
        D::UInt16 => S::UInt16(Some(narrow as u16)),
        D::UInt32 => S::UInt32(Some(narrow as u32)),
        D::UInt64 => S::UInt64(Some(number as u64)),
        D::Date32 => S::Date32(Some(narrow as i32)),
        D::Date64 => S::Date64(Some(narrow)),
        D::Time32(_) => S::Int32(Some(narrow as i32)).cast_to(data_type)?,
        D::Time64(_) | D::Timestamp(_, _) => S::Int64(Some(narrow)).cast_to(data_type)?,
        other => return internal_err!("no column has the type {other}"),
    })
}
