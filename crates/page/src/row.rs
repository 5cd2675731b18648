//! A row as bytes: how many columns it was written with, which of them are NULL, and the other values one
//! after the other.
//!
//! ```text
//! columns (2) | a bit for each column, set where it is NULL | values | zeros up to 6 bytes
//! ```
//!
//! Columns that were added later are not in it: they read as the default that the table has for them.

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

impl Type {
    /// The length of a value in a row, in bytes; `None`: a text or bytes, which store their own length.
    pub const fn width(self) -> Option<usize> {
        Some(match self {
            Type::Bool => 1,
            Type::Int2 => 2,
            Type::Int4 | Type::Float4 | Type::Date => 4,
            Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp => 8,
            Type::Decimal | Type::Interval => 16,
            Type::Text | Type::Bytes => return None,
        })
    }
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
    /// A text or bytes too long for the row: in pages of their own.
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

/// The shortest row, in bytes: when it moves, the pointer to its new place takes this much.
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
    let mut row = Vec::new();
    let mut writer = Writer::new(&mut row, values.len());
    values.iter().for_each(|value| writer.push(value));
    writer.finish();
    row
}

/// A row that is written after other bytes, value by value.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Where the row begins.
    from: usize,
    column: usize,
}

impl<'a> Writer<'a> {
    /// A row of so many columns, none of which is written.
    pub fn new(out: &'a mut Vec<u8>, columns: usize) -> Writer<'a> {
        let from = out.len();
        out.extend_from_slice(&(columns as u16).to_le_bytes());
        out.resize(from + 2 + columns.div_ceil(8), 0);
        Writer { out, from, column: 0 }
    }

    /// Writes the value of the next column.
    ///
    /// # Panics
    /// A text or bytes are longer than [`INLINE_BYTES_MAX`].
    #[inline]
    pub fn push(&mut self, value: &Value<'_>) {
        let out = &mut *self.out;
        match *value {
            Value::Null => out[self.from + 2 + self.column / 8] |= 1 << (self.column % 8),
            Value::Bool(value) => out.push(u8::from(value)),
            Value::Int2(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Int4(value) | Value::Date(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) => {
                out.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float4(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Float8(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Decimal(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Interval { months, days, micros } => {
                out.extend_from_slice(&months.to_le_bytes());
                out.extend_from_slice(&days.to_le_bytes());
                out.extend_from_slice(&micros.to_le_bytes());
            }
            Value::Text(text) => push_bytes(out, text.as_bytes()),
            Value::Bytes(bytes) => push_bytes(out, bytes),
            Value::Overflow { page, length } => {
                out.extend_from_slice(&OVERFLOW.to_le_bytes());
                out.extend_from_slice(&page.to_le_bytes());
                out.extend_from_slice(&length.to_le_bytes());
            }
        }
        self.column += 1;
    }

    /// Ends the row.
    pub fn finish(self) {
        let least = self.from + ROW_BYTES_MIN;
        self.out.resize(self.out.len().max(least), 0);
    }
}

#[inline]
fn push_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= INLINE_BYTES_MAX, "{} bytes have pages of their own", bytes.len());
    row.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    row.extend_from_slice(bytes);
}

/// How many columns a row was written with; columns past these were added later.
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
    let mut reader = Reader::new(row)?;
    let count = reader.columns().min(types.len());
    let mut values = Vec::with_capacity(count);
    for (column, kind) in types.iter().enumerate().take(count) {
        let is_null = reader.is_null(column);
        let value = if is_null { Some(Value::Null) } else { reader.value(*kind) };
        values.push(value.ok_or(BadRow { column })?);
    }
    Ok(values)
}

/// A text or bytes, as a row has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// In the row.
    Here(&'a [u8]),
    /// As [`Value::Overflow`].
    Elsewhere {
        /// The first page.
        page: u32,
        /// Length in bytes.
        length: u32,
    },
}

/// A row that is read column by column. Its functions return `None` where the row ends too early or a
/// value is impossible.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    columns: usize,
    nulls: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A row, before its first column.
    ///
    /// # Errors
    /// [`BadRow`].
    #[inline]
    pub fn new(row: &'a [u8]) -> Result<Reader<'a>, BadRow> {
        let columns = columns(row)?;
        let parts = row[2..].split_at_checked(columns.div_ceil(8));
        let (nulls, rest) = parts.ok_or(BadRow { column: 0 })?;
        Ok(Reader { columns, nulls, rest })
    }

    /// How many columns the row was written with.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether any column is NULL.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        self.nulls.iter().any(|bits| *bits != 0)
    }

    /// Whether a column is NULL: nothing of it is among the values.
    ///
    /// # Panics
    /// The row was not written with that column.
    #[inline]
    pub fn is_null(&self, column: usize) -> bool {
        self.nulls[column / 8] & 1 << (column % 8) != 0
    }

    /// So many bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(now)
    }

    /// The bytes of a number.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*now)
    }

    /// A text or bytes; a text is not checked for UTF-8.
    #[inline]
    pub fn held(&mut self) -> Option<Held<'a>> {
        let length = u16::from_le_bytes(self.array()?);
        if length == OVERFLOW {
            let page = u32::from_le_bytes(self.array()?);
            return Some(Held::Elsewhere { page, length: u32::from_le_bytes(self.array()?) });
        }
        self.take(usize::from(length)).map(Held::Here)
    }

    /// Continues after a value.
    #[inline]
    pub fn skip(&mut self, kind: Type) -> Option<()> {
        match kind.width() {
            Some(width) => self.take(width).map(|_| ()),
            None => self.held().map(|_| ()),
        }
    }

    /// A value.
    #[inline]
    pub fn value(&mut self, kind: Type) -> Option<Value<'a>> {
        Some(match kind {
            Type::Bool => match self.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
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
            Type::Text | Type::Bytes => match (self.held()?, kind) {
                (Held::Elsewhere { page, length }, _) => Value::Overflow { page, length },
                (Held::Here(bytes), Type::Text) => Value::Text(std::str::from_utf8(bytes).ok()?),
                (Held::Here(bytes), _) => Value::Bytes(bytes),
            },
        })
    }
}
