//! Conversion of Arrow arrays to columns.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};

use crate::column::{Input, Values};
use crate::header::Kind;
use crate::packed::{self, is_packed, packed_type};
use crate::value::{key_of_f32, key_of_f64};

/// The column type of a table for values written as `data_type`: strings are read as views. `None`:
/// there is no column for such values.
pub fn column_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View => Some(Utf8View),
        Binary | LargeBinary | BinaryView => Some(BinaryView),
        Boolean
        | Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | UInt64
        | Float32
        | Float64
        | Decimal128(_, _)
        | Date32
        | Date64
        | Time32(_)
        | Time64(_)
        | Timestamp(_, _) => Some(data_type.clone()),
        // Wider ones hold all their values.
        Float16 => Some(Float32),
        Decimal32(precision, scale) | Decimal64(precision, scale) => {
            Some(Decimal128(*precision, *scale))
        }
        Decimal256(precision, scale) if *precision <= DECIMAL128_MAX_PRECISION => {
            Some(Decimal128(*precision, *scale))
        }
        // Nothing but nulls.
        Null => Some(Utf8View),
        Dictionary(_, value) => column_type(value),
        RunEndEncoded(_, values) => column_type(values.data_type()),
        other => packed_type(other),
    }
}

/// Whether values of a type can be stored as they are, without a cast to [`column_type`].
pub fn is_taken(data_type: &DataType) -> bool {
    use DataType::*;
    !packed::has_codes(data_type)
        && !matches!(data_type, Float16 | Decimal32(_, _) | Decimal64(_, _) | Null)
        && (!matches!(data_type, Decimal256(_, _))
            || packed_type(data_type) == column_type(data_type))
}

/// How the values of a type are to be understood; `None` as of [`column_type`].
pub fn kind_of(data_type: &DataType) -> Option<Kind> {
    match column_type(data_type)? {
        DataType::Utf8View => Some(Kind::Text),
        DataType::BinaryView => Some(Kind::Binary),
        own if is_packed(&own) => Some(Kind::Binary),
        DataType::Float32 => Some(Kind::Float32),
        DataType::Float64 => Some(Kind::Float64),
        _ => Some(Kind::Number),
    }
}

fn ints<T: ArrowPrimitiveType>(array: &dyn Array, of: impl Fn(T::Native) -> i64) -> Values<'_> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    Values::Ints(array.values().iter().map(|value| of(*value)).collect())
}

/// As numbers of 64 bits where all that count fit, else of 128.
fn narrowed<'a>(array: &dyn Array, values: impl Fn(usize) -> i128) -> Values<'a> {
    let value = |row: usize| if array.is_null(row) { 0 } else { values(row) };
    let narrow: Result<Vec<i64>, _> =
        (0..array.len()).map(|row| i64::try_from(value(row))).collect();
    match narrow {
        Ok(narrow) => Values::Ints(narrow),
        Err(_) => Values::Int128((0..array.len()).map(value).collect()),
    }
}

/// The values of an array; `None` as of [`column_type`].
pub fn input_of(array: &dyn Array) -> Option<Input<'_>> {
    use DataType as D;
    let data_type = array.data_type();
    let kind = kind_of(data_type)?;
    let values = match data_type {
        D::Boolean => {
            let array = array.as_boolean();
            Values::Ints((0..array.len()).map(|row| array.value(row).into()).collect())
        }
        D::Int8 => ints::<Int8Type>(array, i64::from),
        D::Int16 => ints::<Int16Type>(array, i64::from),
        D::Int32 => ints::<Int32Type>(array, i64::from),
        D::Int64 => ints::<Int64Type>(array, |value| value),
        D::UInt8 => ints::<UInt8Type>(array, i64::from),
        D::UInt16 => ints::<UInt16Type>(array, i64::from),
        D::UInt32 => ints::<UInt32Type>(array, i64::from),
        D::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            narrowed(array, |row| values[row].into())
        }
        D::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            narrowed(array, |row| values[row])
        }
        D::Float32 => ints::<Float32Type>(array, key_of_f32),
        D::Float64 => ints::<Float64Type>(array, key_of_f64),
        D::Date32 => ints::<Date32Type>(array, i64::from),
        D::Date64 => ints::<Date64Type>(array, |value| value),
        D::Time32(TimeUnit::Second) => ints::<Time32SecondType>(array, i64::from),
        D::Time32(_) => ints::<Time32MillisecondType>(array, i64::from),
        D::Time64(TimeUnit::Microsecond) => ints::<Time64MicrosecondType>(array, |value| value),
        D::Time64(_) => ints::<Time64NanosecondType>(array, |value| value),
        D::Timestamp(TimeUnit::Second, _) => ints::<TimestampSecondType>(array, |value| value),
        D::Timestamp(TimeUnit::Millisecond, _) => {
            ints::<TimestampMillisecondType>(array, |value| value)
        }
        D::Timestamp(TimeUnit::Microsecond, _) => {
            ints::<TimestampMicrosecondType>(array, |value| value)
        }
        D::Timestamp(TimeUnit::Nanosecond, _) => {
            ints::<TimestampNanosecondType>(array, |value| value)
        }
        D::Utf8 => strings(array, |row| array.as_string::<i32>().value(row).as_bytes()),
        D::LargeUtf8 => strings(array, |row| array.as_string::<i64>().value(row).as_bytes()),
        D::Utf8View => strings(array, |row| array.as_string_view().value(row).as_bytes()),
        D::Binary => strings(array, |row| array.as_binary::<i32>().value(row)),
        D::LargeBinary => strings(array, |row| array.as_binary::<i64>().value(row)),
        D::BinaryView => strings(array, |row| array.as_binary_view().value(row)),
        _ => return None,
    };
    let scale = if let D::Decimal128(_, scale) = data_type { *scale } else { 0 };
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let valid = nulls.map(|nulls| nulls.inner().sliced().as_slice().to_vec());
    Some(Input { kind, scale, values, valid })
}

fn strings<'a>(array: &'a dyn Array, of: impl Fn(usize) -> &'a [u8]) -> Values<'a> {
    let value = |row| if array.is_null(row) { &[][..] } else { of(row) };
    Values::Strings((0..array.len()).map(value).collect())
}
