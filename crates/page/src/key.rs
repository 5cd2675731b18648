//! Keys of indexes: values as bytes that sort as the values do. NULL sorts last, texts sort by their bytes, -0
//! equals 0 and NaN is the largest number, as in PostgreSQL's C collation.
//!
//! No key is a prefix of another key of the same columns, and no column begins with 0xFF.

use crate::row::{INLINE_BYTES_MAX, Type, Value, Writer};

const NOT_NULL: u8 = 1;
const NULL: u8 = 2;

/// In a text: a zero, and the end.
const ZERO: [u8; 2] = [0, 0xFF];
const END: [u8; 2] = [0, 1];

/// Appends a column to a key. `descending`: larger values come first, and NULL before all.
///
/// # Panics
/// A value in pages of its own has no key.
pub fn push(key: &mut Vec<u8>, value: &Value<'_>, descending: bool) {
    let from = key.len();
    key.push(if *value == Value::Null { NULL } else { NOT_NULL });
    match *value {
        Value::Null => {}
        Value::Bool(value) => key.push(u8::from(value)),
        Value::Int2(value) => key.extend_from_slice(&(value ^ i16::MIN).to_be_bytes()),
        Value::Int4(value) | Value::Date(value) => {
            key.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
        }
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) => {
            key.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
        }
        // A float4 has the key of the same float8.
        Value::Float4(value) => key.extend_from_slice(&float(f64::from(value)).to_be_bytes()),
        Value::Float8(value) => key.extend_from_slice(&float(value).to_be_bytes()),
        Value::Decimal(value) => key.extend_from_slice(&(value ^ i128::MIN).to_be_bytes()),
        Value::Interval { months, days, micros } => {
            let days = i128::from(months) * 30 + i128::from(days);
            let micros = days * 86_400_000_000 + i128::from(micros);
            key.extend_from_slice(&(micros ^ i128::MIN).to_be_bytes());
        }
        Value::Text(text) => push_bytes(key, text.as_bytes()),
        Value::Bytes(bytes) => push_bytes(key, bytes),
        Value::Overflow { .. } => panic!("a value in pages of its own has no key"),
    }
    if descending {
        key[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Whether the first column of a key, which has this type, is NULL, and the rest of the key. `None`: it is no such
/// key.
pub fn skip(key: &[u8], kind: Type, descending: bool) -> Option<(bool, &[u8])> {
    let plain = |byte: u8| if descending { !byte } else { byte };
    let (first, rest) = key.split_first()?;
    if plain(*first) == NULL {
        return Some((true, rest));
    }
    let bytes = match kind {
        Type::Bool => 1,
        Type::Int2 => 2,
        Type::Int4 | Type::Date => 4,
        Type::Int8 | Type::Time | Type::Timestamp | Type::Float4 | Type::Float8 => 8,
        Type::Decimal | Type::Interval => 16,
        Type::Text | Type::Bytes => {
            let mut at = 0;
            loop {
                let two = rest.get(at..at + 2)?;
                match [plain(two[0]), plain(two[1])] {
                    END => break at + 2,
                    ZERO => at += 2,
                    _ => at += 1,
                }
            }
        }
    };
    Some((false, rest.get(bytes..)?))
}

/// Writes the first column of a key, which has this type, after the other values of a row; returns the rest of the
/// key. `None`: it is no such key, or keys of that type do not give back the value itself: -0 becomes 0, and
/// intervals become their length.
pub fn read<'k>(
    key: &'k [u8],
    kind: Type,
    descending: bool,
    row: &mut Writer<'_>,
) -> Option<&'k [u8]> {
    let (is_null, rest) = skip(key, kind, descending)?;
    if is_null {
        row.push(&Value::Null);
        return Some(rest);
    }
    let own = key.get(1..key.len() - rest.len())?;
    let plain = |byte: u8| if descending { !byte } else { byte };
    // The numbers of `N` bytes, without the bit that puts negative ones first.
    fn array<const N: usize>(own: &[u8], plain: impl Fn(u8) -> u8) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = own.try_into().ok()?;
        bytes.iter_mut().for_each(|byte| *byte = plain(*byte));
        Some(bytes)
    }
    match kind {
        Type::Bool => row.push(&Value::Bool(plain(*own.first()?) != 0)),
        Type::Int2 => row.push(&Value::Int2(i16::from_be_bytes(array(own, plain)?) ^ i16::MIN)),
        Type::Int4 | Type::Date => {
            row.push(&Value::Int4(i32::from_be_bytes(array(own, plain)?) ^ i32::MIN));
        }
        Type::Int8 | Type::Time | Type::Timestamp => {
            row.push(&Value::Int8(i64::from_be_bytes(array(own, plain)?) ^ i64::MIN));
        }
        Type::Decimal => {
            row.push(&Value::Decimal(i128::from_be_bytes(array(own, plain)?) ^ i128::MIN));
        }
        Type::Text | Type::Bytes => {
            let mut bytes = Vec::with_capacity(own.len());
            let mut rest = &own[..own.len().checked_sub(END.len())?];
            while let Some((first, behind)) = rest.split_first() {
                bytes.push(plain(*first));
                rest = if plain(*first) == 0 { behind.get(1..)? } else { behind };
            }
            if bytes.len() > INLINE_BYTES_MAX {
                return None;
            }
            row.push(&Value::Bytes(&bytes));
        }
        Type::Float4 | Type::Float8 | Type::Interval => return None,
    }
    Some(rest)
}

/// Bits that sort as the numbers do.
fn float(value: f64) -> u64 {
    let value = if value == 0.0 { 0.0 } else { value };
    let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { value.to_bits() };
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

fn push_bytes(key: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(zero) = bytes.iter().position(|byte| *byte == 0) {
        key.extend_from_slice(&bytes[..zero]);
        key.extend_from_slice(&ZERO);
        bytes = &bytes[zero + 1..];
    }
    key.extend_from_slice(bytes);
    key.extend_from_slice(&END);
}
