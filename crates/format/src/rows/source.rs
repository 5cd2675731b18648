//! Arrays as values of rows: each array is examined once, then its values are taken row by row.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_array::{BinaryArray, BinaryViewArray, BooleanArray, StringArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use cellar_page::row::{INLINE_BYTES_MAX, Type, Value};

use super::error::RowError;
use super::layout::RowLayout;

/// Nanoseconds of a microsecond.
pub(super) const NANOS: i64 = 1_000;

/// An array whose type is that of its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    Bool(&'a BooleanArray),
    Int2(&'a [i16]),
    Int4(&'a [i32]),
    Int8(&'a [i64]),
    Float4(&'a [f32]),
    Float8(&'a [f64]),
    Decimal(&'a [i128]),
    Date(&'a [i32]),
    Time(&'a [i64]),
    Timestamp(&'a [i64]),
    Interval(&'a [IntervalMonthDayNano]),
    Text(&'a StringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    BytesView(&'a BinaryViewArray),
}

/// Whether an array of a type is one of a column of another: views and others are the same texts.
fn is_taken(column: &DataType, array: &DataType) -> bool {
    use DataType::{Binary, BinaryView, List, Utf8, Utf8View};
    match (column, array) {
        (Utf8 | Utf8View, Utf8 | Utf8View) | (Binary | BinaryView, Binary | BinaryView) => true,
        // Packed before.
        (List(_), array) => *array == Binary,
        (column, array) => column == array,
    }
}

fn plain<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

impl<'a> Source<'a> {
    /// An array of a column.
    ///
    /// # Errors
    /// [`RowError::OtherType`].
    pub fn of(
        layout: &RowLayout,
        column: usize,
        array: &'a ArrayRef,
    ) -> Result<Source<'a>, RowError> {
        let (expected, found) = (layout.schema.field(column).data_type(), array.data_type());
        if !is_taken(expected, found) {
            let (expected, found) = (expected.clone(), found.clone());
            return Err(RowError::OtherType { column: layout.name(column), expected, found });
        }
        let values = match layout.types[column] {
            Type::Bool => Values::Bool(array.as_boolean()),
            Type::Int2 => Values::Int2(plain::<Int16Type>(array)),
            Type::Int4 => Values::Int4(plain::<Int32Type>(array)),
            Type::Int8 => Values::Int8(plain::<Int64Type>(array)),
            Type::Float4 => Values::Float4(plain::<Float32Type>(array)),
            Type::Float8 => Values::Float8(plain::<Float64Type>(array)),
            Type::Decimal => Values::Decimal(plain::<Decimal128Type>(array)),
            Type::Date => Values::Date(plain::<Date32Type>(array)),
            Type::Time => Values::Time(plain::<Time64MicrosecondType>(array)),
            Type::Timestamp => Values::Timestamp(plain::<TimestampMicrosecondType>(array)),
            Type::Interval => Values::Interval(plain::<IntervalMonthDayNanoType>(array)),
            Type::Text if *found == DataType::Utf8 => Values::Text(array.as_string()),
            Type::Text => Values::TextView(array.as_string_view()),
            Type::Bytes if *found == DataType::Binary => Values::Bytes(array.as_binary()),
            Type::Bytes => Values::BytesView(array.as_binary_view()),
        };
        Ok(Source { nulls: array.nulls(), values })
    }

    /// Whether it is NULL in a row.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// The value of a row, whatever its length.
    ///
    /// # Errors
    /// The nanoseconds of an interval that are no whole microseconds.
    #[inline]
    pub fn value(&self, row: usize) -> Result<Value<'a>, i64> {
        if self.is_null(row) {
            return Ok(Value::Null);
        }
        Ok(match self.values {
            Values::Bool(values) => Value::Bool(values.value(row)),
            Values::Int2(values) => Value::Int2(values[row]),
            Values::Int4(values) => Value::Int4(values[row]),
            Values::Int8(values) => Value::Int8(values[row]),
            Values::Float4(values) => Value::Float4(values[row]),
            Values::Float8(values) => Value::Float8(values[row]),
            Values::Decimal(values) => Value::Decimal(values[row]),
            Values::Date(values) => Value::Date(values[row]),
            Values::Time(values) => Value::Time(values[row]),
            Values::Timestamp(values) => Value::Timestamp(values[row]),
            Values::Interval(values) => {
                let IntervalMonthDayNano { months, days, nanoseconds } = values[row];
                if nanoseconds % NANOS != 0 {
                    return Err(nanoseconds);
                }
                Value::Interval { months, days, micros: nanoseconds / NANOS }
            }
            Values::Text(values) => Value::Text(values.value(row)),
            Values::TextView(values) => Value::Text(values.value(row)),
            Values::Bytes(values) => Value::Bytes(values.value(row)),
            Values::BytesView(values) => Value::Bytes(values.value(row)),
        })
    }

    /// The bytes of a text or of bytes in a row; `None`: NULL, or of another type.
    pub fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        if self.is_null(row) {
            return None;
        }
        match self.values {
            Values::Text(values) => Some(values.value(row).as_bytes()),
            Values::TextView(values) => Some(values.value(row).as_bytes()),
            Values::Bytes(values) => Some(values.value(row)),
            Values::BytesView(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// Whether a value cannot be in its row.
    pub fn is_long(&self, row: usize) -> bool {
        self.bytes(row).is_some_and(|bytes| bytes.len() > INLINE_BYTES_MAX)
    }

    /// The bytes of its longest text; `None`: it has no texts or bytes. What is behind NULL counts too.
    pub fn longest(&self) -> Option<usize> {
        fn of_offsets(offsets: &[i32]) -> usize {
            offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
        }
        fn of_views(views: &[u128]) -> usize {
            views.iter().map(|view| *view as u32 as usize).max().unwrap_or(0)
        }
        match self.values {
            Values::Text(values) => Some(of_offsets(values.value_offsets())),
            Values::Bytes(values) => Some(of_offsets(values.value_offsets())),
            Values::TextView(values) => Some(of_views(values.views())),
            Values::BytesView(values) => Some(of_views(values.views())),
            _ => None,
        }
    }
}
