//! The values that a client gives for parameters.
//!
//! Source of the binary formats: the `*_recv` functions of PostgreSQL.

use std::sync::Arc;

use arrow::array::{
    Date32Array, IntervalMonthDayNanoArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::IntervalMonthDayNano;
use bytes::Bytes;
use cellar_sql::Parameter;
use cellar_sql::binary::{EPOCH_DAYS, EPOCH_MICROS, numeric_text, types};

use crate::error::Refusal;
use crate::wire::body::{Body, text};

/// A value as its parameter takes it. `oid`: its type on the wire.
///
/// # Errors
/// 22021, 22P03 it is none of that type.
pub(crate) fn parameter(
    value: Option<&Bytes>,
    format: i16,
    oid: u32,
) -> Result<Parameter, Refusal> {
    let Some(bytes) = value else { return Ok(Parameter::Null) };
    match format {
        0 => Ok(Parameter::Text(text(bytes)?.to_owned())),
        1 => {
            let mut body = Body::new(bytes.clone());
            let value = of_binary(&mut body, oid)?;
            body.finish().map_err(|_| incorrect(oid))?;
            Ok(value)
        }
        other => Err(Refusal::new("22023", format!("unsupported format code: {other}"))),
    }
}

fn incorrect(oid: u32) -> Refusal {
    Refusal::new("22P03", format!("incorrect binary data format for a parameter of type {oid}"))
}

fn of_binary(body: &mut Body, oid: u32) -> Result<Parameter, Refusal> {
    let value = |array| Parameter::Value(array);
    Ok(match oid {
        types::BOOL => Parameter::Boolean(body.u8()? != 0),
        types::INT2 => Parameter::Integer(i64::from(body.i16()?)),
        types::INT4 => Parameter::Integer(i64::from(body.i32()?)),
        types::OID => Parameter::Integer(i64::from(body.u32()?)),
        types::INT8 => Parameter::Integer(i64_of(body)?),
        types::FLOAT4 => Parameter::Real(f64::from(f32::from_bits(body.u32()?))),
        types::FLOAT8 => Parameter::Real(f64::from_bits(i64_of(body)?.cast_unsigned())),
        types::NUMERIC => {
            let text = numeric_text(&all(body));
            Parameter::Text(text.map_err(|own| Refusal::new(own.sqlstate, own.message))?)
        }
        types::BYTEA => Parameter::Bytes(all(body).to_vec()),
        types::UUID => Parameter::Text(uuid(&body.bytes(16)?)),
        types::DATE => {
            let days = body.i32()?.checked_add(EPOCH_DAYS).ok_or_else(|| incorrect(oid))?;
            value(Arc::new(Date32Array::from(vec![days])))
        }
        types::TIME => value(Arc::new(Time64MicrosecondArray::from(vec![i64_of(body)?]))),
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let micros = i64_of(body)?.checked_add(EPOCH_MICROS).ok_or_else(|| incorrect(oid))?;
            let array = TimestampMicrosecondArray::from(vec![micros]);
            value(match oid {
                types::TIMESTAMPTZ => Arc::new(array.with_timezone("UTC")),
                _ => Arc::new(array),
            })
        }
        types::INTERVAL => {
            let (micros, days, months) = (i64_of(body)?, body.i32()?, body.i32()?);
            let nanos = micros.checked_mul(1000).ok_or_else(|| incorrect(oid))?;
            let own = IntervalMonthDayNano::new(months, days, nanos);
            value(Arc::new(IntervalMonthDayNanoArray::from(vec![own])))
        }
        types::JSONB => match body.u8()? {
            1 => Parameter::Text(text(&all(body))?.to_owned()),
            _ => return Err(incorrect(oid)),
        },
        oid if types::element(oid).is_some() => list(body)?,
        // Texts, and values that a client sends as texts.
        _ => Parameter::Text(text(&all(body))?.to_owned()),
    })
}

fn i64_of(body: &mut Body) -> Result<i64, Refusal> {
    let bytes = body.bytes(8)?;
    let bytes: [u8; 8] = bytes[..].try_into().map_err(|_| Refusal::protocol("short value"))?;
    Ok(i64::from_be_bytes(bytes))
}

fn all(body: &mut Body) -> Bytes {
    std::mem::replace(body, Body::new(Bytes::new())).rest()
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn list(body: &mut Body) -> Result<Parameter, Refusal> {
    let (dimensions, _has_nulls, item) = (body.i32()?, body.i32()?, body.u32()?);
    match dimensions {
        0 => return Ok(Parameter::List(Vec::new())),
        1 => {}
        _ => {
            return Err(Refusal::new(
                "0A000",
                "a parameter that is an array of several dimensions is not in this version of Cellar",
            ));
        }
    }
    let (count, _first) = (body.i32()?, body.i32()?);
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(match body.value()? {
            None => Parameter::Null,
            Some(bytes) => {
                let mut body = Body::new(bytes);
                let value = of_binary(&mut body, item)?;
                body.finish().map_err(|_| incorrect(item))?;
                value
            }
        });
    }
    Ok(Parameter::List(items))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8], oid: u32) -> Result<Parameter, Refusal> {
        parameter(Some(&Bytes::from_static(bytes)), 1, oid)
    }

    #[test]
    fn values_in_binary_are_read_whole_or_refused() {
        assert_eq!(read(b"\0\0\0\x07", types::INT4), Ok(Parameter::Integer(7)));
        assert_eq!(read(b"\0\0\0", types::INT4).unwrap_err().sqlstate, "08P01");
        assert_eq!(read(b"\0\0\0\x07\0", types::INT4).unwrap_err().sqlstate, "22P03");
        assert_eq!(read(b"a\xff", types::TEXT).unwrap_err().sqlstate, "22021");
        assert_eq!(read(b"\x02{}", types::JSONB).unwrap_err().sqlstate, "22P03");
        let array =
            b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x05\xff\xff\xff\xff";
        let wanted = Parameter::List(vec![Parameter::Integer(5), Parameter::Null]);
        assert_eq!(read(array, 1007), Ok(wanted));
        let uuid = read(b"\x01\x23\x45\x67\x89\xab\xcd\xef\0\0\0\0\0\0\0\x01", types::UUID);
        let text = "01234567-89ab-cdef-0000-000000000001";
        assert_eq!(uuid, Ok(Parameter::Text(text.to_owned())));
        for end in 0..array.len() {
            assert!(read(&array[..end], 1007).is_err() || end == 0, "{end}");
        }
    }
}
