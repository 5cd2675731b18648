//! Values in PostgreSQL's binary formats.
//!
//! Source: the `*_send` functions of PostgreSQL. Dates and times count from 2000-01-01.

use std::sync::Arc;

use crate::error::Error;
use crate::failure::from_arrow;
use crate::instants::interval::in_parts;
use crate::texts::Texts;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    UInt32Type,
};
use bytes::{BufMut, BytesMut};

use super::numeric;
use super::types::{self, PgType};

/// Days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The values of a column.
pub struct Binary(Column);

enum Column {
    Bool(ArrayRef),
    Int2(ArrayRef),
    Int4(ArrayRef),
    Int8(ArrayRef),
    Oid(ArrayRef),
    Float4(ArrayRef),
    Float8(ArrayRef),
    Bytes(ArrayRef),
    Date(ArrayRef),
    Time(ArrayRef),
    Timestamp(ArrayRef),
    Interval(ArrayRef),
    /// Values that are sent as their text, or as something made from it.
    Text(ArrayRef, u32),
    List(ArrayRef, Box<Values>, u32),
}

/// Values, and their null mask.
struct Values {
    nulls: Option<NullBuffer>,
    own: Column,
}

fn failed(error: &arrow::error::ArrowError) -> Error {
    Error::new(600, "XX000", format!("a value cannot be sent: {error}"))
}

impl Binary {
    /// The values of a column of a type.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(array: &ArrayRef, own: PgType) -> Result<Binary, Error> {
        Column::of(array, own).map(Binary)
    }

    /// Writes the value of a row that is not NULL, without its length.
    ///
    /// # Errors
    /// It cannot be shown.
    pub fn write(&self, row: usize, out: &mut BytesMut) -> Result<(), Error> {
        self.0.write(row, out)
    }
}

impl Column {
    fn of(array: &ArrayRef, own: PgType) -> Result<Column, Error> {
        let to = |data_type: &DataType| cast(array, data_type).map_err(|error| failed(&error));
        let list = |item: PgType| -> Result<Column, Error> {
            let field = Arc::new(arrow::datatypes::Field::new_list_field(
                element_of(array.data_type()).unwrap_or(DataType::Null),
                true,
            ));
            let list = to(&DataType::List(field))?;
            let values = Values::of(list.as_list::<i32>().values(), item)?;
            Ok(Column::List(list, Box::new(values), item.oid))
        };
        Ok(match own.oid {
            types::BOOL => Column::Bool(to(&DataType::Boolean)?),
            types::INT2 => Column::Int2(to(&DataType::Int16)?),
            types::INT4 => Column::Int4(to(&DataType::Int32)?),
            types::INT8 => Column::Int8(to(&DataType::Int64)?),
            types::OID => Column::Oid(to(&DataType::UInt32)?),
            types::FLOAT4 => Column::Float4(to(&DataType::Float32)?),
            types::FLOAT8 => Column::Float8(to(&DataType::Float64)?),
            types::BYTEA => Column::Bytes(to(&DataType::Binary)?),
            types::DATE => Column::Date(to(&DataType::Date32)?),
            types::TIME => Column::Time(to(&DataType::Time64(TimeUnit::Microsecond))?),
            types::TIMESTAMP => {
                Column::Timestamp(to(&DataType::Timestamp(TimeUnit::Microsecond, None))?)
            }
            types::TIMESTAMPTZ => {
                let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                Column::Timestamp(to(&utc)?)
            }
            types::INTERVAL => {
                Column::Interval(in_parts(array).map_err(|error| from_arrow(&error))?)
            }
            oid => match types::element(oid) {
                Some(item) if element_of(array.data_type()).is_some() => {
                    list(PgType { oid: item, size: -1, modifier: -1 })?
                }
                _ => Column::Text(Arc::clone(array), oid),
            },
        })
    }

    fn write(&self, row: usize, out: &mut BytesMut) -> Result<(), Error> {
        match self {
            Column::Bool(array) => out.put_u8(u8::from(array.as_boolean().value(row))),
            Column::Int2(array) => out.put_i16(array.as_primitive::<Int16Type>().value(row)),
            Column::Int4(array) => out.put_i32(array.as_primitive::<Int32Type>().value(row)),
            Column::Int8(array) => out.put_i64(array.as_primitive::<Int64Type>().value(row)),
            Column::Oid(array) => out.put_u32(array.as_primitive::<UInt32Type>().value(row)),
            Column::Float4(array) => out.put_f32(array.as_primitive::<Float32Type>().value(row)),
            Column::Float8(array) => out.put_f64(array.as_primitive::<Float64Type>().value(row)),
            Column::Bytes(array) => out.put_slice(array.as_binary::<i32>().value(row)),
            Column::Date(array) => {
                let days = array.as_primitive::<Date32Type>().value(row);
                out.put_i32(days.saturating_sub(EPOCH_DAYS));
            }
            Column::Time(array) => {
                out.put_i64(array.as_primitive::<Time64MicrosecondType>().value(row));
            }
            Column::Timestamp(array) => {
                let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
                out.put_i64(micros.saturating_sub(EPOCH_MICROS));
            }
            Column::Interval(array) => {
                let own = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                out.put_i64(own.nanoseconds / 1000);
                out.put_i32(own.days);
                out.put_i32(own.months);
            }
            Column::Text(array, oid) => {
                let mut text = Vec::new();
                Texts::of(array)?.write(row, &mut text)?;
                of_text(&text, *oid, out);
            }
            Column::List(lists, values, item) => {
                let (from, to) = bounds(lists, row);
                values.write_list(from..to, *item, out)?;
            }
        }
        Ok(())
    }
}

fn bounds(lists: &ArrayRef, row: usize) -> (usize, usize) {
    let offsets = lists.as_list::<i32>().value_offsets();
    (offsets[row] as usize, offsets[row + 1] as usize)
}

fn element_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item.data_type().clone()),
        _ => None,
    }
}

fn of_text(text: &[u8], oid: u32, out: &mut BytesMut) {
    match oid {
        types::NUMERIC => numeric::write(&String::from_utf8_lossy(text), out),
        types::UUID => {
            let digits = text.iter().filter_map(|c| (*c as char).to_digit(16));
            let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
            digits.chunks(2).for_each(|two| out.put_u8(two[0] << 4 | two.get(1).unwrap_or(&0)));
        }
        types::JSONB => {
            out.put_u8(1);
            out.put_slice(text);
        }
        _ => out.put_slice(text),
    }
}

impl Values {
    fn of(array: &ArrayRef, own: PgType) -> Result<Values, Error> {
        Ok(Values { nulls: array.logical_nulls(), own: Column::of(array, own)? })
    }

    /// An array of one dimension, with lower bound 1.
    fn write_list(
        &self,
        rows: std::ops::Range<usize>,
        item: u32,
        out: &mut BytesMut,
    ) -> Result<(), Error> {
        let is_null = |row| self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        out.put_i32(i32::from(!rows.is_empty()));
        out.put_i32(i32::from(rows.clone().any(is_null)));
        out.put_u32(item);
        if rows.is_empty() {
            return Ok(());
        }
        out.put_i32(i32::try_from(rows.len()).unwrap_or(i32::MAX));
        out.put_i32(1);
        for row in rows {
            if is_null(row) {
                out.put_i32(-1);
                continue;
            }
            let at = out.len();
            out.put_i32(0);
            self.own.write(row, out)?;
            let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}
