//! The values of a column that were read from rows, until they are an array.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer as ArrowBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use bytemuck::cast_slice;
use cellar_page::row::{Held, Reader, Type};

use super::error::RowError;
use super::layout::is_list;
use super::source::NANOS;
use crate::kernel::Views;
use crate::packed::unpack;
use crate::value::{f32_of_key, f64_of_key};

/// The most bytes of the texts of one array: its offsets have 31 bits.
pub(super) const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// Why a value was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The row ends before it, or it cannot be.
    Damaged,
    /// It is in pages of its own.
    Elsewhere { length: u32 },
    /// The array would have more than [`TEXT_BYTES_MAX`].
    Full,
}

/// Values, one for each row; any where the row has NULL.
#[derive(Debug)]
pub(super) enum Values {
    Bool(BooleanBufferBuilder),
    Int2(Vec<i16>),
    Int4(Vec<i32>),
    Int8(Vec<i64>),
    Float4(Vec<f32>),
    Float8(Vec<f64>),
    Int16(Vec<i128>),
    Interval(Vec<IntervalMonthDayNano>),
    /// All bytes, a zero, and where each value ends.
    Bytes(Vec<u8>, Vec<i32>),
}

/// A column of rows that are read.
#[derive(Debug)]
pub(super) struct Buffer {
    pub values: Values,
    /// The rows that have NULL, rising.
    pub nulls: Vec<usize>,
}

/// Does the same with values of any kind.
macro_rules! each {
    (
        $values:expr,
        bool $bits:ident => $bool:expr,
        $own:ident => $body:expr,
        $bytes:ident, $offsets:ident => $text:expr
    ) => {
        match $values {
            Values::Bool($bits) => $bool,
            Values::Int2($own) => $body,
            Values::Int4($own) => $body,
            Values::Int8($own) => $body,
            Values::Float4($own) => $body,
            Values::Float8($own) => $body,
            Values::Int16($own) => $body,
            Values::Interval($own) => $body,
            Values::Bytes($bytes, $offsets) => $text,
        }
    };
}

impl Buffer {
    /// No values of a type.
    pub fn new(kind: Type) -> Buffer {
        let values = match kind {
            Type::Bool => Values::Bool(BooleanBufferBuilder::new(0)),
            Type::Int2 => Values::Int2(Vec::new()),
            Type::Int4 | Type::Date => Values::Int4(Vec::new()),
            Type::Int8 | Type::Time | Type::Timestamp => Values::Int8(Vec::new()),
            Type::Float4 => Values::Float4(Vec::new()),
            Type::Float8 => Values::Float8(Vec::new()),
            Type::Decimal => Values::Int16(Vec::new()),
            Type::Interval => Values::Interval(Vec::new()),
            Type::Text | Type::Bytes => Values::Bytes(Vec::new(), vec![0]),
        };
        Buffer { values, nulls: Vec::new() }
    }

    /// Makes room for so many rows, with so many bytes of text.
    pub fn reserve(&mut self, rows: usize, text: usize) {
        each!(&mut self.values, bool bits => bits.reserve(rows), own => own.reserve(rows), bytes, offsets => {
            bytes.reserve(text);
            offsets.reserve(rows);
        });
    }

    /// The bytes of its texts.
    pub fn text(&self) -> usize {
        match &self.values {
            Values::Bytes(bytes, _) => bytes.len(),
            _ => 0,
        }
    }

    /// Takes the next value of a row.
    ///
    /// # Errors
    /// [`Unread`]: nothing was added.
    #[inline]
    pub fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Unread> {
        fn next<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], Unread> {
            reader.array().ok_or(Unread::Damaged)
        }
        match &mut self.values {
            Values::Bool(bits) => match next(reader)? {
                [bit @ (0 | 1)] => bits.append(bit == 1),
                _ => return Err(Unread::Damaged),
            },
            Values::Int2(own) => own.push(i16::from_le_bytes(next(reader)?)),
            Values::Int4(own) => own.push(i32::from_le_bytes(next(reader)?)),
            Values::Int8(own) => own.push(i64::from_le_bytes(next(reader)?)),
            Values::Float4(own) => own.push(f32::from_le_bytes(next(reader)?)),
            Values::Float8(own) => own.push(f64::from_le_bytes(next(reader)?)),
            Values::Int16(own) => own.push(i128::from_le_bytes(next(reader)?)),
            Values::Interval(own) => {
                let (months, days) = (next(reader)?, next(reader)?);
                let micros = i64::from_le_bytes(next(reader)?);
                let nanos = micros.checked_mul(NANOS).ok_or(Unread::Damaged)?;
                let (months, days) = (i32::from_le_bytes(months), i32::from_le_bytes(days));
                own.push(IntervalMonthDayNano::new(months, days, nanos));
            }
            Values::Bytes(bytes, offsets) => match reader.held().ok_or(Unread::Damaged)? {
                Held::Here(value) => push_bytes(bytes, offsets, value)?,
                Held::Elsewhere { length, .. } => return Err(Unread::Elsewhere { length }),
            },
        }
        Ok(())
    }

    /// Adds a value that is in pages of its own.
    ///
    /// # Errors
    /// [`Unread::Full`]; [`Unread::Damaged`] where values are no bytes.
    pub fn push(&mut self, value: &[u8]) -> Result<(), Unread> {
        match &mut self.values {
            Values::Bytes(bytes, offsets) => push_bytes(bytes, offsets, value),
            _ => Err(Unread::Damaged),
        }
    }

    /// Whether a row has NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.binary_search(&row).is_ok()
    }

    /// The bytes of the text of a row; of what is no text, none.
    #[inline]
    pub fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Bytes(bytes, ends) => &bytes[ends[row] as usize..ends[row + 1] as usize],
            _ => &[],
        }
    }

    /// Adds the value of a row of another one for the same column, behind so many rows.
    ///
    /// # Errors
    /// [`RowError::Full`].
    pub fn push_of(
        &mut self,
        rows: usize,
        other: &Buffer,
        row: usize,
        column: usize,
    ) -> Result<(), RowError> {
        if other.is_null(row) {
            self.push_null(rows);
            return Ok(());
        }
        match (&mut self.values, &other.values) {
            (Values::Bool(own), Values::Bool(other)) => own.append(other.get_bit(row)),
            (Values::Int2(own), Values::Int2(other)) => own.push(other[row]),
            (Values::Int4(own), Values::Int4(other)) => own.push(other[row]),
            (Values::Int8(own), Values::Int8(other)) => own.push(other[row]),
            (Values::Float4(own), Values::Float4(other)) => own.push(other[row]),
            (Values::Float8(own), Values::Float8(other)) => own.push(other[row]),
            (Values::Int16(own), Values::Int16(other)) => own.push(other[row]),
            (Values::Interval(own), Values::Interval(other)) => own.push(other[row]),
            (Values::Bytes(bytes, ends), _) => {
                let full = |_| RowError::Full { column, max: TEXT_BYTES_MAX };
                push_bytes(bytes, ends, other.bytes(row)).map_err(full)?;
            }
            _ => self.push_null(rows),
        }
        Ok(())
    }

    /// Adds a number; a floating-point number is the one that a whole number stands for. Texts and intervals take none.
    pub fn push_number(&mut self, number: i128) {
        let narrow = number as i64;
        match &mut self.values {
            Values::Bool(own) => own.append(number != 0),
            Values::Int2(own) => own.push(number as i16),
            Values::Int4(own) => own.push(number as i32),
            Values::Int8(own) => own.push(narrow),
            Values::Float4(own) => own.push(f32_of_key(narrow)),
            Values::Float8(own) => own.push(f64_of_key(narrow)),
            Values::Int16(own) => own.push(number),
            Values::Interval(_) | Values::Bytes(..) => {}
        }
    }

    /// Adds NULL to so many rows before.
    pub fn push_null(&mut self, rows: usize) {
        self.nulls.push(rows);
        self.pad(rows + 1);
    }

    /// Adds any values up to so many rows.
    fn pad(&mut self, rows: usize) {
        each!(&mut self.values,
            bool bits => bits.resize(rows),
            own => own.resize(rows, Default::default()),
            bytes, offsets => offsets.resize(rows + 1, bytes.len() as i32));
    }

    /// Has so many rows and no more.
    pub fn truncate(&mut self, rows: usize) {
        while self.nulls.pop_if(|row| *row >= rows).is_some() {}
        each!(&mut self.values, bool bits => bits.truncate(rows), own => own.truncate(rows), bytes, offsets => {
            offsets.truncate(rows + 1);
            bytes.truncate(offsets.last().map_or(0, |end| *end as usize));
        });
    }

    /// An array of these values, whose type has the type of the rows.
    ///
    /// # Errors
    /// The first row with a text that is not UTF-8, or 0 where lists are none.
    pub fn into_array(self, rows: usize, data_type: &DataType) -> Result<ArrayRef, usize> {
        let nulls = nulls_of(&self.nulls, rows);
        Ok(match (self.values, data_type) {
            (Values::Bool(bits), _) => Arc::new(BooleanArray::new(bits.build(), nulls)),
            (Values::Int2(own), _) => primitive::<Int16Type>(own, nulls, data_type),
            (Values::Int4(own), DataType::Date32) => primitive::<Date32Type>(own, nulls, data_type),
            (Values::Int4(own), _) => primitive::<Int32Type>(own, nulls, data_type),
            (Values::Int8(own), DataType::Time64(_)) => {
                primitive::<Time64MicrosecondType>(own, nulls, data_type)
            }
            (Values::Int8(own), DataType::Timestamp(_, _)) => {
                primitive::<TimestampMicrosecondType>(own, nulls, data_type)
            }
            (Values::Int8(own), _) => primitive::<Int64Type>(own, nulls, data_type),
            (Values::Float4(own), _) => primitive::<Float32Type>(own, nulls, data_type),
            (Values::Float8(own), _) => primitive::<Float64Type>(own, nulls, data_type),
            (Values::Int16(own), _) => primitive::<Decimal128Type>(own, nulls, data_type),
            (Values::Interval(own), _) => {
                primitive::<IntervalMonthDayNanoType>(own, nulls, data_type)
            }
            (Values::Bytes(bytes, offsets), _) if is_list(data_type) => {
                let views = texts(bytes, offsets, nulls, &DataType::BinaryView)?;
                unpack(views.as_binary_view(), data_type).map_err(|_| 0usize)?
            }
            (Values::Bytes(bytes, offsets), _) => texts(bytes, offsets, nulls, data_type)?,
        })
    }
}

#[inline]
fn push_bytes(bytes: &mut Vec<u8>, offsets: &mut Vec<i32>, value: &[u8]) -> Result<(), Unread> {
    let end = bytes.len() + value.len();
    if end > TEXT_BYTES_MAX {
        return Err(Unread::Full);
    }
    bytes.extend_from_slice(value);
    offsets.push(end as i32);
    Ok(())
}

fn nulls_of(nulls: &[usize], rows: usize) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, true);
    nulls.iter().for_each(|row| bits.set_bit(*row, false));
    Some(NullBuffer::new(bits.build()))
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
}

/// Texts or bytes as an array.
///
/// # Errors
/// The first row with a text that is not UTF-8.
fn texts(
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, usize> {
    // All at once is quicker than each by itself, which is for finding the bad one.
    match data_type {
        DataType::Utf8View | DataType::BinaryView => {
            let ends: &[u32] = cast_slice(&offsets[1..]);
            let views = Views::try_new(bytes, ends, *data_type == DataType::Utf8View);
            Ok(views.map_err(|bytes| first_bad(&bytes, &offsets))?.into_array(nulls))
        }
        DataType::Utf8 => {
            let (values, ends) = (ArrowBuffer::from_vec(bytes), OffsetBuffer::new(offsets.into()));
            let array = StringArray::try_new(ends.clone(), values.clone(), nulls);
            Ok(Arc::new(array.map_err(|_| first_bad(&values, &ends))?))
        }
        _ => {
            let values = ArrowBuffer::from_vec(bytes);
            let array = BinaryArray::try_new(OffsetBuffer::new(offsets.into()), values, nulls);
            Ok(Arc::new(array.map_err(|_| 0usize)?))
        }
    }
}

/// The first row whose text is not UTF-8.
fn first_bad(bytes: &[u8], offsets: &[i32]) -> usize {
    let is_bad = |pair: &[i32]| {
        let text = bytes.get(pair[0] as usize..pair[1] as usize);
        text.is_none_or(|text| std::str::from_utf8(text).is_err())
    };
    offsets.windows(2).position(is_bad).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_that_is_full_of_text_takes_no_more() {
        // Zeros that nobody touches take no memory.
        let bytes = vec![0; TEXT_BYTES_MAX - 2];
        let offsets = vec![0, bytes.len() as i32];
        let mut buffer = Buffer { values: Values::Bytes(bytes, offsets), nulls: Vec::new() };
        assert_eq!(buffer.push(b"abc"), Err(Unread::Full));
        let row = cellar_page::row::encode(&[cellar_page::row::Value::Text("abc")]);
        let mut reader = Reader::new(&row).expect("a row");
        assert_eq!(buffer.read(&mut reader), Err(Unread::Full));
        assert_eq!(buffer.text(), TEXT_BYTES_MAX - 2);
    }
}
