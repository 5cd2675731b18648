//! Values as PostgreSQL's texts.

use std::fmt::Write as _;
use std::io::Write as _;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::text::quote;
use crate::instants::{interval, zoned};

/// The values of a column.
pub(crate) enum Shown<'a> {
    Int(ArrayRef),
    Text(ArrayRef),
    Bool(ArrayRef),
    Float(ArrayRef),
    Binary(ArrayRef),
    Time(ArrayRef, Option<Tz>),
    Interval(ArrayRef),
    /// Items, and where the items of each row end.
    List(Box<Shown<'a>>, Option<NullBuffer>, &'a [i32]),
    Other(ArrayFormatter<'a>),
}

impl<'a> Shown<'a> {
    /// The values of an array.
    ///
    /// # Errors
    /// They cannot be shown.
    pub fn of(
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
            DataType::Interval(_) | DataType::Duration(_) => {
                Shown::Interval(interval::in_parts(array)?)
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let items = Box::new(Shown::of(lists.values(), options)?);
                Shown::List(items, lists.values().logical_nulls(), lists.value_offsets())
            }
            _ => Shown::Other(ArrayFormatter::try_new(array.as_ref(), options)?),
        })
    }

    /// Adds the value of a row, which is not NULL.
    ///
    /// # Errors
    /// It cannot be shown.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), arrow::error::ArrowError> {
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
            Shown::Interval(array) => {
                interval::write(array.as_primitive::<IntervalMonthDayNanoType>().value(row), out)?;
            }
            Shown::List(items, nulls, ends) => {
                out.push(b'{');
                let mut text = Vec::new();
                for at in ends[row]..ends[row + 1] {
                    if at > ends[row] {
                        out.push(b',');
                    }
                    let at = at as usize;
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                        out.extend_from_slice(b"NULL");
                        continue;
                    }
                    text.clear();
                    items.write(at, &mut text)?;
                    match **items {
                        Shown::List(..) => out.extend_from_slice(&text),
                        _ => quote(&text, out),
                    }
                }
                out.push(b'}');
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

/// A float with the fewest digits that give it back, as PostgreSQL writes it: with an exponent if it has
/// more than `most` digits before the point, or four zeros after it. `scientific`: its digits, as Rust
/// writes them.
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
