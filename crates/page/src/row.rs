//! A row as bytes: how many columns it was written with, which of them are NULL, and the others one after
//! the other.
//!
//! ```text
//! columns (2) | a bit for each column, set where it is NULL | values | zeros up to 6 bytes
//! ```
//!
//! Columns that were added later are not in it: they read as what the table says of them.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// 16 bits.
    Int2,
    /// 32 bits.
    Int4,
    /// 64 bits.
    Int8,
    /// 32 bits of IEEE 754.
    Float4,
    /// 64 bits of IEEE 754.
    Float8,
    /// 128 bits; the column says with how many decimal places.
    Decimal,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 1970-01-01 00:00.
    Timestamp,
    /// Months, days and microseconds.
    Interval,
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// As [`Type::Bool`].
    Bool(bool),
    /// As [`Type::Int2`].
    Int2(i16),
    /// As [`Type::Int4`].
    Int4(i32),
    /// As [`Type::Int8`].
    Int8(i64),
    /// As [`Type::Float4`].
    Float4(f32),
    /// As [`Type::Float8`].
    Float8(f64),
    /// As [`Type::Decimal`].
    Decimal(i128),
    /// As [`Type::Date`].
    Date(i32),
    /// As [`Type::Time`].
    Time(i64),
    /// As [`Type::Timestamp`].
    Timestamp(i64),
    /// As [`Type::Interval`].
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Microseconds.
        micros: i64,
    },
    /// As [`Type::Text`].
    Text(&'a str),
    /// As [`Type::Bytes`].
    Bytes(&'a [u8]),
    /// A text or bytes that are too long for the row: in pages of their own.
    Overflow {
        /// The first of them.
        page: u32,
        /// Length in bytes.
        length: u32,
    },
}

/// Bytes that are no row of these types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of a row end early, or its column {column} cannot be")]
pub struct BadRow {
    /// The column, from 0.
    pub column: usize,
}

/// The shortest row, in bytes: where it moves, the way to its new place takes this much.
pub const ROW_BYTES_MIN: usize = 6;

/// The most bytes of a text in a row; beyond that it is in pages of its own.
pub const INLINE_BYTES_MAX: usize = 2048;

/// In place of a length: the value is in pages of its own.
const OVERFLOW: u16 = 0x8000;

/// Writes a row.
///
/// # Panics
/// A text or bytes are longer than [`INLINE_BYTES_MAX`].
pub fn encode(values: &[Value<'_>]) -> Vec<u8> {
    let nulls = values.len().div_ceil(8);
    let mut row = vec![0; 2 + nulls];
    row[..2].copy_from_slice(&(values.len() as u16).to_le_bytes());
    for (column, value) in values.iter().enumerate() {
        match *value {
            Value::Null => row[2 + column / 8] |= 1 << (column % 8),
            Value::Bool(value) => row.push(u8::from(value)),
            Value::Int2(value) => row.extend_from_slice(&value.to_le_bytes()),
            Value::Int4(value) | Value::Date(value) => row.extend_from_slice(&value.to_le_bytes()),
            Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) => {
                row.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float4(value) => row.extend_from_slice(&value.to_le_bytes()),
            Value::Float8(value) => row.extend_from_slice(&value.to_le_bytes()),
            Value::Decimal(value) => row.extend_from_slice(&value.to_le_bytes()),
            Value::Interval { months, days, micros } => {
                row.extend_from_slice(&months.to_le_bytes());
                row.extend_from_slice(&days.to_le_bytes());
                row.extend_from_slice(&micros.to_le_bytes());
            }
            Value::Text(text) => push_bytes(&mut row, text.as_bytes()),
            Value::Bytes(bytes) => push_bytes(&mut row, bytes),
            Value::Overflow { page, length } => {
                row.extend_from_slice(&OVERFLOW.to_le_bytes());
                row.extend_from_slice(&page.to_le_bytes());
                row.extend_from_slice(&length.to_le_bytes());
            }
        }
    }
    row.resize(row.len().max(ROW_BYTES_MIN), 0);
    row
}

fn push_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= INLINE_BYTES_MAX, "{} bytes have pages of their own", bytes.len());
    row.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    row.extend_from_slice(bytes);
}

/// How many columns a row was written with; those behind were added later.
///
/// # Errors
/// [`BadRow`].
pub fn columns(row: &[u8]) -> Result<usize, BadRow> {
    let count = row.first_chunk().ok_or(BadRow { column: 0 })?;
    Ok(usize::from(u16::from_le_bytes(*count)))
}

/// Reads a row: as many of these columns as it was written with.
///
/// # Errors
/// [`BadRow`].
pub fn decode<'a>(row: &'a [u8], types: &[Type]) -> Result<Vec<Value<'a>>, BadRow> {
    let count = columns(row)?;
    let nulls = row.get(2..2 + count.div_ceil(8)).ok_or(BadRow { column: 0 })?;
    let mut reader = Reader { rest: &row[2 + nulls.len()..], column: 0 };
    let mut values = Vec::with_capacity(count.min(types.len()));
    for (column, kind) in types.iter().enumerate().take(count) {
        reader.column = column;
        let is_null = nulls[column / 8] & 1 << (column % 8) != 0;
        values.push(if is_null { Value::Null } else { reader.value(*kind)? });
    }
    Ok(values)
}

struct Reader<'a> {
    rest: &'a [u8],
    column: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadRow> {
        let bad = BadRow { column: self.column };
        let (now, rest) = self.rest.split_at_checked(count).ok_or(bad)?;
        self.rest = rest;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRow> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| BadRow { column: self.column })
    }

    fn value(&mut self, kind: Type) -> Result<Value<'a>, BadRow> {
        let bad = BadRow { column: self.column };
        Ok(match kind {
            Type::Bool => match self.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return Err(bad),
            },
            Type::Int2 => Value::Int2(i16::from_le_bytes(self.array()?)),
            Type::Int4 => Value::Int4(i32::from_le_bytes(self.array()?)),
            Type::Int8 => Value::Int8(i64::from_le_bytes(self.array()?)),
            Type::Float4 => Value::Float4(f32::from_le_bytes(self.array()?)),
            Type::Float8 => Value::Float8(f64::from_le_bytes(self.array()?)),
            Type::Decimal => Value::Decimal(i128::from_le_bytes(self.array()?)),
            Type::Date => Value::Date(i32::from_le_bytes(self.array()?)),
            Type::Time => Value::Time(i64::from_le_bytes(self.array()?)),
            Type::Timestamp => Value::Timestamp(i64::from_le_bytes(self.array()?)),
            Type::Interval => Value::Interval {
                months: i32::from_le_bytes(self.array()?),
                days: i32::from_le_bytes(self.array()?),
                micros: i64::from_le_bytes(self.array()?),
            },
            Type::Text | Type::Bytes => {
                let length = u16::from_le_bytes(self.array()?);
                if length == OVERFLOW {
                    let page = u32::from_le_bytes(self.array()?);
                    return Ok(Value::Overflow { page, length: u32::from_le_bytes(self.array()?) });
                }
                let bytes = self.take(usize::from(length))?;
                match kind {
                    Type::Text => Value::Text(std::str::from_utf8(bytes).map_err(|_| bad)?),
                    _ => Value::Bytes(bytes),
                }
            }
        })
    }
}
