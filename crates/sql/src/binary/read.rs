//! Values that arrive in binary, turned into texts: the code that reads texts of any type then reads
//! these as well.
//!
//! Source: the `*_recv` functions of PostgreSQL.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::IntervalMonthDayNano;
use bytes::Buf;

use super::types;
use super::write::{EPOCH_DAYS, EPOCH_MICROS};
use super::{Malformed, numeric};
use crate::texts::Texts;

type Read<T> = Result<T, Malformed>;

/// The most dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: i32 = 6;

/// A value of exactly so many bytes.
fn exactly<const N: usize>(bytes: &[u8]) -> Read<[u8; N]> {
    bytes.try_into().map_err(|_| Malformed::INCORRECT)
}

/// A 16-bit integer.
pub(crate) fn i16_of(bytes: &[u8]) -> Read<i16> {
    exactly(bytes).map(i16::from_be_bytes)
}

/// A 32-bit integer.
pub(crate) fn i32_of(bytes: &[u8]) -> Read<i32> {
    exactly(bytes).map(i32::from_be_bytes)
}

/// A 64-bit integer.
pub(crate) fn i64_of(bytes: &[u8]) -> Read<i64> {
    exactly(bytes).map(i64::from_be_bytes)
}

/// A date, in days from 1970.
pub(crate) fn day_of(bytes: &[u8]) -> Read<i32> {
    let beyond = Malformed { sqlstate: "22008", message: "date out of range" };
    match i32_of(bytes)? {
        // Infinity, which is not supported for dates here.
        i32::MIN | i32::MAX => Err(beyond),
        days => days.checked_add(EPOCH_DAYS).ok_or(beyond),
    }
}

/// A point in time, in microseconds from 1970.
pub(crate) fn micros_of(bytes: &[u8]) -> Read<i64> {
    let beyond = Malformed { sqlstate: "22008", message: "timestamp out of range" };
    match i64_of(bytes)? {
        i64::MIN | i64::MAX => Err(beyond),
        micros => micros.checked_add(EPOCH_MICROS).ok_or(beyond),
    }
}

/// True or false.
pub(crate) fn bool_of(bytes: &[u8]) -> Read<bool> {
    exactly::<1>(bytes).map(|own| own[0] != 0)
}

fn shown(array: ArrayRef, out: &mut Vec<u8>) -> Read<()> {
    let written = Texts::of(&array).and_then(|texts| texts.write(0, out));
    written.map_err(|_| Malformed::INCORRECT)
}

/// Writes a value of a type as its text.
///
/// # Errors
/// 22P03 it is not a value of the type; 22003, 22008 there is no such value here.
pub(crate) fn text_of(bytes: &[u8], oid: u32, out: &mut Vec<u8>) -> Read<()> {
    let mut add = |text: String| out.extend_from_slice(text.as_bytes());
    match oid {
        types::BOOL => add(if bool_of(bytes)? { "t" } else { "f" }.to_owned()),
        types::INT2 => add(i16_of(bytes)?.to_string()),
        types::INT4 => add(i32_of(bytes)?.to_string()),
        types::INT8 => add(i64_of(bytes)?.to_string()),
        types::OID => add(exactly(bytes).map(u32::from_be_bytes)?.to_string()),
        types::FLOAT4 => add(exactly(bytes).map(f32::from_be_bytes)?.to_string()),
        types::FLOAT8 => add(exactly(bytes).map(f64::from_be_bytes)?.to_string()),
        types::NUMERIC => add(numeric::read(bytes)?),
        types::UUID => {
            for (at, byte) in exactly::<16>(bytes)?.into_iter().enumerate() {
                let line = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                out.extend_from_slice(format!("{line}{byte:02x}").as_bytes());
            }
        }
        types::BYTEA => {
            out.extend_from_slice(b"\\x");
            for byte in bytes {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
        }
        types::DATE => shown(Arc::new(Date32Array::from(vec![day_of(bytes)?])), out)?,
        types::TIME => {
            shown(Arc::new(Time64MicrosecondArray::from(vec![i64_of(bytes)?])), out)?;
        }
        types::TIMESTAMP => {
            shown(Arc::new(TimestampMicrosecondArray::from(vec![micros_of(bytes)?])), out)?;
        }
        types::TIMESTAMPTZ => {
            let own = TimestampMicrosecondArray::from(vec![micros_of(bytes)?]);
            shown(Arc::new(own.with_timezone("UTC")), out)?;
        }
        types::INTERVAL => {
            let mut own = bytes;
            if own.len() != 16 {
                return Err(Malformed::INCORRECT);
            }
            let (micros, days, months) = (own.get_i64(), own.get_i32(), own.get_i32());
            let beyond = Malformed { sqlstate: "22008", message: "interval out of range" };
            let nanos = micros.checked_mul(1000).ok_or(beyond)?;
            let own = IntervalMonthDayNano::new(months, days, nanos);
            shown(Arc::new(IntervalMonthDayNanoArray::from(vec![own])), out)?;
        }
        types::JSONB => match bytes.split_first() {
            Some((1, text)) => out.extend_from_slice(text),
            _ => {
                let message = "unsupported jsonb version number";
                return Err(Malformed { sqlstate: "22P03", message });
            }
        },
        oid if types::element(oid).is_some() => list(bytes, oid, out)?,
        // Texts are sent as they are.
        _ => out.extend_from_slice(bytes),
    }
    Ok(())
}

fn length(bytes: &mut &[u8]) -> Read<i32> {
    bytes.try_get_i32().map_err(|_| Malformed::INCORRECT)
}

/// An array as its text.
fn list(mut bytes: &[u8], oid: u32, out: &mut Vec<u8>) -> Read<()> {
    let (dimensions, _has_nulls) = (length(&mut bytes)?, length(&mut bytes)?);
    let item = length(&mut bytes)?.cast_unsigned();
    // Texts are also sent as other text types.
    let is_text = |oid: u32| matches!(oid, types::TEXT | types::VARCHAR | types::BPCHAR);
    let known = types::element(oid).unwrap_or(types::TEXT);
    if known != item && !(is_text(known) && is_text(item)) {
        return Err(Malformed { sqlstate: "42804", message: "wrong element type" });
    }
    if !(0..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(Malformed { sqlstate: "54000", message: "too many array dimensions" });
    }
    let mut counts = Vec::new();
    for _ in 0..dimensions {
        let (count, _first) = (length(&mut bytes)?, length(&mut bytes)?);
        counts.push(usize::try_from(count).map_err(|_| Malformed::INCORRECT)?);
    }
    match counts.is_empty() || counts.contains(&0) {
        true => out.extend_from_slice(b"{}"),
        false => items(&mut bytes, &counts, known, out)?,
    }
    match bytes.is_empty() {
        true => Ok(()),
        false => Err(Malformed::INCORRECT),
    }
}

fn items(bytes: &mut &[u8], counts: &[usize], item: u32, out: &mut Vec<u8>) -> Read<()> {
    let Some((count, below)) = counts.split_first() else { return Ok(()) };
    out.push(b'{');
    for at in 0..*count {
        if at > 0 {
            out.push(b',');
        }
        if !below.is_empty() {
            items(bytes, below, item, out)?;
            continue;
        }
        let size = length(bytes)?;
        let Ok(size) = usize::try_from(size) else {
            out.extend_from_slice(b"NULL");
            continue;
        };
        if bytes.len() < size {
            return Err(Malformed::INCORRECT);
        }
        let (own, rest) = bytes.split_at(size);
        *bytes = rest;
        let mut text = Vec::new();
        text_of(own, item, &mut text)?;
        out.push(b'"');
        for byte in text {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], oid: u32) -> Read<String> {
        let mut out = Vec::new();
        text_of(bytes, oid, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_read_whole_or_refused() {
        assert_eq!(text(b"\0\0\0\x07", types::INT4), Ok("7".to_owned()));
        assert_eq!(text(b"\0\0\0", types::INT4), Err(Malformed::INCORRECT));
        assert_eq!(text(b"\0\0\0\0", types::DATE), Ok("2000-01-01".to_owned()));
        assert_eq!(text(b"\x7f\xff\xff\xff", types::DATE).unwrap_err().sqlstate, "22008");
        assert_eq!(text(b"\x01{}", types::JSONB), Ok("{}".to_owned()));
        assert_eq!(text(b"\x02{}", types::JSONB).unwrap_err().sqlstate, "22P03");
        let zone = text(&0i64.to_be_bytes(), types::TIMESTAMPTZ);
        assert_eq!(zone, Ok("2000-01-01 00:00:00+00".to_owned()));
        let array =
            b"\0\0\0\x01\0\0\0\0\0\0\0\x19\0\0\0\x02\0\0\0\x01\0\0\0\x02a\"\xff\xff\xff\xff";
        assert_eq!(text(array, 1009), Ok("{\"a\\\"\",NULL}".to_owned()));
        assert_eq!(text(array, 1007).unwrap_err().sqlstate, "42804");
        for end in 0..array.len() {
            assert!(text(&array[..end], 1009).is_err(), "{end}");
        }
    }
}
