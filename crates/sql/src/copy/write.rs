//! Rows as the bytes of a COPY TO.

use std::fmt::Write as _;
use std::io::Write as _;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::form::{Columns, Form, Header};
use super::text::escape;
use crate::error::Error;
use crate::failure::from_arrow;
use crate::instants::zoned;

/// Writes rows.
pub(crate) struct Writer {
    form: Form,
    force_quote: Vec<bool>,
    /// Values that have one in CSV stand in quotes.
    special: [bool; 256],
}

/// The values of a column.
enum Shown<'a> {
    Int(ArrayRef),
    Text(ArrayRef),
    Bool(ArrayRef),
    Float(ArrayRef),
    Binary(ArrayRef),
    Time(ArrayRef, Option<Tz>),
    Other(ArrayFormatter<'a>),
}

impl Writer {
    /// For rows of these columns.
    ///
    /// # Errors
    /// 42703 an option names another column.
    pub fn new(form: &Form, schema: &Schema) -> Result<Writer, Error> {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut special = [false; 256];
        for byte in [form.delimiter, form.quote, b'\n', b'\r'] {
            special[usize::from(byte)] = true;
        }
        let force_quote = form.force_quote.among(&names, "FORCE_QUOTE")?;
        Ok(Writer { form: form.clone(), force_quote, special })
    }

    /// The first line, if there is one.
    pub fn header(&self, schema: &Schema) -> Vec<u8> {
        let mut out = Vec::new();
        if self.form.header == Header::No {
            return out;
        }
        for (at, field) in schema.fields().iter().enumerate() {
            if at > 0 {
                out.push(self.form.delimiter);
            }
            let is_all = self.form.force_quote == Columns::All;
            self.value(&mut out, field.name().as_bytes(), is_all, schema.fields().len() == 1);
        }
        out.push(b'\n');
        out
    }

    /// Rows.
    ///
    /// # Errors
    /// A value cannot be shown; 22P05 the encoding has not its letters.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Vec<u8>, Error> {
        let options = FormatOptions::new().with_display_error(false);
        let columns = batch.columns().iter();
        let shown =
            columns.map(|column| Shown::of(column, &options)).collect::<Result<Vec<_>, _>>();
        let shown = shown.map_err(|error| from_arrow(&error))?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut out = Vec::with_capacity(batch.num_rows() * batch.num_columns() * 8);
        let mut text = Vec::new();
        let is_single = batch.num_columns() == 1;
        for row in 0..batch.num_rows() {
            for (at, column) in shown.iter().enumerate() {
                if at > 0 {
                    out.push(self.form.delimiter);
                }
                if nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(&self.form.null);
                    continue;
                }
                text.clear();
                column.write(row, &mut text).map_err(|error| from_arrow(&error))?;
                self.value(&mut out, &text, self.force_quote[at], is_single);
            }
            out.push(b'\n');
        }
        self.encoded(out)
    }

    fn value(&self, out: &mut Vec<u8>, value: &[u8], is_forced: bool, is_single: bool) {
        if !self.form.is_csv {
            escape(value, self.form.delimiter, out);
            return;
        }
        // The line that would end the data.
        let is_end = is_single && value == b"\\.";
        let has_special = value.iter().any(|byte| self.special[usize::from(*byte)]);
        if !is_forced && !is_end && !has_special && value != self.form.null {
            out.extend_from_slice(value);
            return;
        }
        out.push(self.form.quote);
        for &byte in value {
            if byte == self.form.quote || byte == self.form.escape {
                out.push(self.form.escape);
            }
            out.push(byte);
        }
        out.push(self.form.quote);
    }

    fn encoded(&self, out: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Some(encoding) = self.form.encoding.filter(|own| *own != encoding_rs::UTF_8) else {
            return Ok(out);
        };
        let text = String::from_utf8_lossy(&out);
        let (bytes, _, is_lossy) = encoding.encode(&text);
        if is_lossy {
            let text = format!("some letters cannot be written in {}", encoding.name());
            return Err(
                Error::new(70013, "22P05", text).next("write UTF-8: leave the encoding out")
            );
        }
        Ok(bytes.into_owned())
    }
}

impl<'a> Shown<'a> {
    fn of(
        array: &'a ArrayRef,
        options: &FormatOptions<'a>,
    ) -> Result<Shown<'a>, arrow::error::ArrowError> {
        let own = array.clone();
        Ok(match array.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Shown::Int(own),
            DataType::Utf8 | DataType::Utf8View => Shown::Text(own),
            DataType::Boolean => Shown::Bool(own),
            DataType::Float32 | DataType::Float64 => Shown::Float(own),
            DataType::Binary | DataType::BinaryView => Shown::Binary(own),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Shown::Time(own, zone.as_deref().map(zoned::zone_of).transpose()?)
            }
            _ => Shown::Other(ArrayFormatter::try_new(array.as_ref(), options)?),
        })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), arrow::error::ArrowError> {
        match self {
            Shown::Int(array) => {
                let value = match array.data_type() {
                    DataType::Int16 => i64::from(array.as_primitive::<Int16Type>().value(row)),
                    DataType::Int32 => i64::from(array.as_primitive::<Int32Type>().value(row)),
                    _ => array.as_primitive::<Int64Type>().value(row),
                };
                write!(out, "{value}")?;
            }
            Shown::Text(array) => out.extend_from_slice(match array.data_type() {
                DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
                _ => array.as_string_view().value(row).as_bytes(),
            }),
            Shown::Bool(array) => out.push(if array.as_boolean().value(row) { b't' } else { b'f' }),
            Shown::Float(array) => match array.data_type() {
                DataType::Float32 => {
                    let value = array.as_primitive::<Float32Type>().value(row);
                    float(out, f64::from(value), &format!("{value:e}"), 6)?;
                }
                _ => {
                    let value = array.as_primitive::<Float64Type>().value(row);
                    float(out, value, &format!("{value:e}"), 15)?;
                }
            },
            Shown::Binary(array) => {
                let bytes = match array.data_type() {
                    DataType::Binary => array.as_binary::<i32>().value(row),
                    _ => array.as_binary_view().value(row),
                };
                out.extend_from_slice(b"\\x");
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            }
            Shown::Time(array, zone) => {
                let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
                out.extend_from_slice(zoned::shown(value, zone.as_ref()).as_bytes());
            }
            Shown::Other(formatter) => {
                let mut text = String::new();
                let _ = write!(text, "{}", formatter.value(row).try_to_string()?);
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// A float of the fewest digits that give it again, as PostgreSQL writes it: with an exponent where it has more than
/// `most` digits before the point, or four zeros behind it. `scientific`: its digits, as Rust writes them.
fn float(out: &mut Vec<u8>, value: f64, scientific: &str, most: i32) -> std::io::Result<()> {
    if value.is_nan() {
        return out.write_all(b"NaN");
    }
    if value.is_infinite() {
        return out.write_all(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(out, "{digits}e{sign}{:02}", exponent.abs());
    }
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let digits: String = digits.chars().filter(|c| *c != '.').collect();
    let text = if exponent < 0 {
        format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    } else {
        let whole = exponent as usize + 1;
        match digits.len() > whole {
            true => format!("{}.{}", &digits[..whole], &digits[whole..]),
            false => format!("{digits}{}", "0".repeat(whole - digits.len())),
        }
    };
    write!(out, "{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_postgresqls() {
        let shown = |value: f64| {
            let mut out = Vec::new();
            float(&mut out, value, &format!("{value:e}"), 15).unwrap();
            String::from_utf8(out).unwrap()
        };
        for (value, wanted) in [
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456.789, "123456.789"),
            (1.5e300, "1.5e+300"),
            (0.0, "0"),
            (-0.0, "-0"),
        ] {
            assert_eq!(shown(value), wanted);
        }
    }
}
