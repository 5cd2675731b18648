//! COPY in PostgreSQL's binary format: a signature, rows of values, each with its length, and a trailer.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use bytes::{Buf, BufMut, BytesMut};

use super::records::Rows;
use super::values::Fields;
use crate::binary::read::{bool_of, day_of, i16_of, i32_of, i64_of, micros_of, text_of};
use crate::binary::{Binary, Malformed, PgType, types};
use crate::columnar::write::column_of;
use crate::error::Error;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Flags that a reader must understand; there are none.
const CRITICAL: u32 = 0xffff_0000;

/// The header before the rows: no flags, no extension.
pub(super) fn header() -> Vec<u8> {
    [SIGNATURE, &[0; 8]].concat()
}

/// The trailer after them.
pub(super) fn trailer() -> Vec<u8> {
    (-1i16).to_be_bytes().to_vec()
}

/// The types of the columns of rows.
pub(super) fn types_of(schema: &Schema) -> Vec<PgType> {
    schema.fields().iter().map(|field| PgType::of_field(field)).collect()
}

/// Writes rows.
///
/// # Errors
/// A value cannot be written.
pub(super) fn rows(batch: &RecordBatch, types: &[PgType]) -> Result<Vec<u8>, Error> {
    let columns = batch.columns().iter().zip(types);
    let columns = columns.map(|(array, own)| Ok((Binary::of(array, *own)?, array.logical_nulls())));
    let columns = columns.collect::<Result<Vec<_>, Error>>()?;
    let count = i16::try_from(columns.len()).unwrap_or(i16::MAX);
    let mut out = BytesMut::with_capacity(batch.num_rows() * (2 + columns.len() * 12));
    for row in 0..batch.num_rows() {
        out.put_i16(count);
        for (column, nulls) in &columns {
            let at = out.len();
            out.put_i32(-1);
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                column.write(row, &mut out)?;
                let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
                out[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    }
    Ok(out.into())
}

/// Bytes that become rows.
pub(super) struct Tuples {
    table: String,
    width: usize,
    bytes: Vec<u8>,
    /// The bytes read so far.
    at: usize,
    /// Bytes of the header extension that are still to be skipped; `None`: it has not come yet.
    extension: Option<usize>,
    /// Rows read so far.
    count: u64,
    is_over: bool,
}

impl Tuples {
    /// For rows of so many columns of a table.
    pub fn new(table: &str, width: usize) -> Tuples {
        let (table, bytes) = (table.to_owned(), Vec::new());
        Tuples { table, width, bytes, at: 0, extension: None, count: 0, is_over: false }
    }

    /// The data have ended: what follows is ignored.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn wrong(&self, what: &str) -> Error {
        let text = format!("COPY {}, row {}: {what}", self.table, self.count + 1);
        Error::new(29913, "22P04", text)
    }

    /// Reads rows, at most so many in all; `is_last`: there are no more bytes.
    ///
    /// # Errors
    /// 22P04 with the row.
    pub fn read(&mut self, rows: &mut Rows, most: usize, is_last: bool) -> Result<(), Error> {
        while !self.is_over && rows.len() < most {
            let is_begun = self.extension == Some(0);
            let has_more = if is_begun { self.row(rows)? } else { self.begin()? };
            if !has_more && is_last {
                match (is_begun, self.bytes.len() - self.at) {
                    // Between two rows the trailer is not needed: the client signals that it has no more.
                    (true, 0) => self.is_over = true,
                    (true, _) => return Err(self.wrong("unexpected EOF in COPY data")),
                    (false, _) => return Err(self.wrong("COPY file signature not recognized")),
                }
            }
            if !has_more {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the header; returns whether it was complete.
    fn begin(&mut self) -> Result<bool, Error> {
        let rest = &self.bytes[self.at..];
        if let Some(extension) = self.extension {
            let passed = extension.min(rest.len());
            self.at += passed;
            self.extension = Some(extension - passed);
            return Ok(passed == extension);
        }
        let known = SIGNATURE.len().min(rest.len());
        if rest[..known] != SIGNATURE[..known] {
            return Err(self.wrong("COPY file signature not recognized"));
        }
        let Some(mut rest) = rest.get(SIGNATURE.len()..).filter(|rest| rest.len() >= 8) else {
            return Ok(false);
        };
        let (flags, extension) = (rest.get_u32(), rest.get_i32());
        if flags & CRITICAL != 0 {
            return Err(self.wrong("unrecognized critical flags in COPY file header"));
        }
        let extension = usize::try_from(extension);
        let extension = extension.map_err(|_| self.wrong("invalid COPY file header"))?;
        (self.at, self.extension) = (self.at + SIGNATURE.len() + 8, Some(extension));
        Ok(true)
    }

    /// Reads a row; returns whether it was complete.
    fn row(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        let mark = rows.mark();
        let mut rest = &self.bytes[self.at..];
        let before = rest.len();
        let Ok(fields) = rest.try_get_i16() else { return Ok(false) };
        if fields == -1 {
            self.is_over = true;
            return Ok(true);
        }
        if usize::try_from(fields).ok() != Some(self.width) {
            let text = format!("row field count is {fields}, expected {}", self.width);
            return Err(self.wrong(&text));
        }
        for _ in 0..fields {
            let Ok(length) = rest.try_get_i32() else {
                rows.back_to(mark);
                return Ok(false);
            };
            match usize::try_from(length) {
                Err(_) if length == -1 => rows.add_field(None),
                Err(_) => return Err(self.wrong("invalid field size")),
                Ok(length) if rest.len() < length => {
                    rows.back_to(mark);
                    return Ok(false);
                }
                Ok(length) => {
                    rows.add_field(Some(&rest[..length]));
                    rest.advance(length);
                }
            }
        }
        self.at += before - rest.len();
        self.count += 1;
        rows.end_row(self.count);
        Ok(true)
    }
}

/// A column of rows in binary format.
pub(super) struct Column<'a>(pub Fields<'a>);

impl Column<'_> {
    /// The values.
    ///
    /// # Errors
    /// 22P03, 22003, 22007, 22008, 22021 with the row and the column.
    pub fn array(&self) -> Result<ArrayRef, Error> {
        let field = self.0.field;
        let array: ArrayRef = match field.data_type() {
            DataType::Int16 => self.primitive::<Int16Type>(i16_of)?,
            DataType::Int32 => self.primitive::<Int32Type>(i32_of)?,
            DataType::Int64 => self.primitive::<Int64Type>(i64_of)?,
            DataType::Float32 => self.primitive::<Float32Type>(|bytes| {
                i32_of(bytes).map(|bits| f32::from_bits(bits.cast_unsigned()))
            })?,
            DataType::Float64 => self.primitive::<Float64Type>(|bytes| {
                i64_of(bytes).map(|bits| f64::from_bits(bits.cast_unsigned()))
            })?,
            DataType::Date32 => self.primitive::<Date32Type>(day_of)?,
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.primitive::<TimestampMicrosecondType>(micros_of)?
            }
            DataType::Boolean => {
                let mut values = BooleanBuilder::with_capacity(self.0.rows.len());
                self.each(|bytes| {
                    values.append_option(bytes.map(bool_of).transpose()?);
                    Ok(())
                })?;
                Arc::new(values.finish())
            }
            DataType::Binary | DataType::BinaryView => {
                let mut values = BinaryBuilder::with_capacity(self.0.rows.len(), 0);
                self.each(|bytes| {
                    values.append_option(bytes);
                    Ok(())
                })?;
                Arc::new(values.finish())
            }
            _ => return self.by_texts(),
        };
        column_of(array, field)
    }

    /// Values of any other type, through their texts.
    fn by_texts(&self) -> Result<ArrayRef, Error> {
        let own = PgType::of_field(self.0.field).oid;
        if matches!(own, types::TEXT | types::VARCHAR | types::JSON) {
            return self.0.array();
        }
        let mut texts = Rows::new(1);
        let (mut text, mut row) = (Vec::new(), 0);
        self.each(|bytes| {
            text.clear();
            if let Some(bytes) = bytes {
                text_of(bytes, own, &mut text)?;
            }
            texts.add_field(bytes.map(|_| text.as_slice()));
            texts.end_row(self.0.rows.line(row));
            row += 1;
            Ok(())
        })?;
        let Fields { field, table, .. } = self.0;
        Fields { rows: &texts, column: 0, field, table }.array()
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        read: impl Fn(&[u8]) -> Result<T::Native, Malformed>,
    ) -> Result<ArrayRef, Error> {
        let mut values = PrimitiveBuilder::<T>::with_capacity(self.0.rows.len());
        self.each(|bytes| {
            values.append_option(bytes.map(&read).transpose()?);
            Ok(())
        })?;
        Ok(Arc::new(values.finish().with_data_type(self.0.field.data_type().clone())))
    }

    fn each<'r>(
        &'r self,
        mut take: impl FnMut(Option<&'r [u8]>) -> Result<(), Malformed>,
    ) -> Result<(), Error> {
        for row in 0..self.0.rows.len() {
            take(self.0.rows.field(row, self.0.column)).map_err(|wrong| {
                let (line, name) = (self.0.rows.line(row), self.0.field.name());
                let place = format!("COPY {}, row {line}, column {name}", self.0.table);
                let text = format!("{place}: {}", wrong.message);
                Error::new(1722, wrong.sqlstate, text).next(format!(
                    "the values of the file must be of the column's type, {}",
                    type_name(self.0.field)
                ))
            })?;
        }
        Ok(())
    }
}

fn type_name(field: &Field) -> String {
    crate::csv::types::sql_name(field.data_type()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        let (mut tuples, mut rows) = (Tuples::new("t", 2), Rows::new(2));
        for (at, piece) in pieces.iter().enumerate() {
            tuples.push(piece);
            tuples.read(&mut rows, 100, at + 1 == pieces.len())?;
        }
        let field = |row, column| rows.field(row, column).map(<[u8]>::to_vec);
        Ok((0..rows.len()).map(|row| vec![field(row, 0), field(row, 1)]).collect())
    }

    fn file() -> Vec<u8> {
        let row: &[u8] = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
        let other: &[u8] = b"\0\x02\0\0\0\0\0\0\0\x02bc";
        [SIGNATURE, &[0, 0, 0, 0, 0, 0, 0, 3, 7, 7, 7], row, other, &trailer()].concat()
    }

    #[test]
    fn rows_are_read_wherever_the_bytes_are_cut() {
        let file = file();
        let wanted =
            vec![vec![Some(b"a".to_vec()), None], vec![Some(Vec::new()), Some(b"bc".to_vec())]];
        for at in 0..file.len() {
            assert_eq!(read(&[&file[..at], &file[at..]]).unwrap(), wanted, "{at}");
        }
        let bytes: Vec<&[u8]> = file.chunks(1).collect();
        assert_eq!(read(&bytes).unwrap(), wanted);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let file = file();
        // Between rows the data may end without a trailer.
        let header = SIGNATURE.len() + 11;
        let whole = [header, header + 11, header + 23];
        for end in 0..file.len() - 1 {
            let told = read(&[&file[..end]]);
            match whole.iter().position(|own| *own == end) {
                Some(rows) => assert_eq!(told.unwrap().len(), rows, "{end}"),
                None => assert_eq!(told.unwrap_err().sqlstate, "22P04", "{end}"),
            }
        }
        assert_eq!(read(&[b"1,2\n"]).unwrap_err().sqlstate, "22P04");
        let flags = [SIGNATURE, &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(read(&[&flags]).unwrap_err().sqlstate, "22P04");
        let width = [SIGNATURE, &[0; 8], &[0, 3]].concat();
        assert!(read(&[&width]).unwrap_err().message.contains("row field count is 3, expected 2"));
    }
}
