//! Groups of rows as a cell returns them, converted to the batches that DataFusion's final aggregation
//! takes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array, Int64Array,
    PrimitiveArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use cellar_format::aggregate::columns::{Columns, Known};
use cellar_format::value::{f32_of_key, f64_of_key};
use cellar_format::{Groups, State, Value};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};

use crate::columnar::exec::{Part, Partial};

/// A batch of partial results: the keys of each group, then its partial states.
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
            let (function, part) = partial.parts[at - keys];
            known(&states[function], part, data_type)
        };
        let scalars: Vec<ScalarValue> = rows.iter().map(scalar).collect::<Result<_>>()?;
        columns.push(ScalarValue::iter_to_array(scalars)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(&partial.schema), columns, &options)
        .map_err(DataFusionError::from)
}

/// The batch for groups that come as columns.
pub fn columns_to_batch(groups: Columns, partial: &Partial) -> Result<RecordBatch> {
    let fields = partial.schema.fields();
    let keys = groups.keys.iter().map(|key| match key.data_type() {
        DataType::Float32 => of_zeros(key.as_primitive::<Float32Type>(), 0.0),
        DataType::Float64 => of_zeros(key.as_primitive::<Float64Type>(), 0.0),
        _ => Arc::clone(key),
    });
    let mut columns: Vec<ArrayRef> = keys.collect();
    for (field, (function, part)) in fields.iter().skip(columns.len()).zip(&partial.parts) {
        columns.push(known_array(&groups.functions[*function], *part, field.data_type())?);
    }
    for (column, field) in columns.iter_mut().zip(fields) {
        if column.data_type() != field.data_type() {
            *column = cast(column, field.data_type())?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(groups.rows));
    RecordBatch::try_new_with_options(Arc::clone(&partial.schema), columns, &options)
        .map_err(DataFusionError::from)
}

/// -0 and 0 form one group, 0.
fn of_zeros<T: ArrowPrimitiveType>(keys: &PrimitiveArray<T>, zero: T::Native) -> ArrayRef {
    Arc::new(keys.unary::<_, T>(|key| if key == zero { zero } else { key }))
}

/// A part of the partial state of a call, for each group.
fn known_array(known: &Known, part: Part, data_type: &DataType) -> Result<ArrayRef> {
    let valid = |rows: &[u64]| {
        let nulls = NullBuffer::from_iter(rows.iter().map(|rows| *rows > 0));
        Some(nulls).filter(|nulls| nulls.null_count() > 0)
    };
    let counts = |rows: &[u64], nulls| -> ArrayRef {
        let counts: Vec<i64> = rows.iter().map(|rows| *rows as i64).collect();
        Arc::new(Int64Array::new(counts.into(), nulls))
    };
    let counts = match (known, part) {
        (Known::Count(rows), Part::Rows) => counts(rows, None),
        // As in an average over no rows: a zero here would be a divisor.
        (Known::Sum { rows, .. } | Known::Float { rows, .. }, Part::Rows) => {
            counts(rows, valid(rows))
        }
        (Known::Sum { sums, rows }, Part::Value) => {
            let nulls = valid(rows);
            return Ok(match data_type {
                // An average of integers: DataFusion sums up floating-point numbers.
                DataType::Float64 => {
                    let sums: Vec<f64> = sums.iter().map(|sum| *sum as f64).collect();
                    Arc::new(Float64Array::new(sums.into(), nulls))
                }
                DataType::Decimal128(_, _) => {
                    let sums = Decimal128Array::new(sums.clone().into(), nulls);
                    Arc::new(sums.with_data_type(data_type.clone()))
                }
                DataType::Int64 => {
                    let sums: Vec<i64> = sums.iter().map(|sum| *sum as i64).collect();
                    Arc::new(Int64Array::new(sums.into(), nulls))
                }
                DataType::UInt64 => {
                    let sums: Vec<u64> = sums.iter().map(|sum| *sum as u64).collect();
                    Arc::new(UInt64Array::new(sums.into(), nulls))
                }
                other => return internal_err!("no sum has the type {other}"),
            });
        }
        (Known::Float { sums, rows }, Part::Value) => {
            Arc::new(Float64Array::new(sums.clone().into(), valid(rows)))
        }
        (Known::Ends(ends), Part::Value) => Arc::clone(ends),
        (_, part) => return internal_err!("{data_type} of a call that has no {part:?}"),
    };
    match counts.data_type() == data_type {
        true => Ok(counts),
        false => Ok(cast(&counts, data_type)?),
    }
}

/// The key value of a group: -0 and 0 form one group, 0.
fn key_scalar(value: Option<&Value>, data_type: &DataType) -> Result<ScalarValue> {
    let zero = Value::Number(0);
    let is_zero = data_type.is_floating() && value == Some(&Value::Number(-1));
    scalar_of(if is_zero { Some(&zero) } else { value }, data_type)
}

/// A part of the partial state of a call.
fn known(state: &State, part: Part, data_type: &DataType) -> Result<ScalarValue> {
    match (state, part) {
        // As in an average over no rows: a zero here would be a divisor.
        (State::Sum { rows: 0, .. } | State::Float { rows: 0, .. }, _) => {
            scalar_of(None, data_type)
        }
        (State::Count(rows) | State::Sum { rows, .. } | State::Float { rows, .. }, Part::Rows) => {
            scalar_of(Some(&Value::Number((*rows).into())), data_type)
        }
        (State::Sum { sum, .. }, Part::Value) => match data_type {
            // An average of integers: DataFusion sums up floating-point numbers.
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
                D::BinaryView | D::Binary => Ok(S::BinaryView(Some(bytes.to_vec()))),
                other => internal_err!("the bytes of a value of type {other} say nothing"),
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
