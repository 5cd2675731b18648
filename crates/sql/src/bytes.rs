//! Texts as bytes, as PostgreSQL reads bytea: `\x` and hexadecimal digits, or characters with the
//! escapes `\\` and `\ooo`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;

use crate::error::Error;

/// The most characters of a text that an error shows.
const SHOWN: usize = 60;

/// Whether a cast is from a text to bytes.
pub(crate) fn is_from_text(from: &DataType, to: &DataType) -> bool {
    let is_text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text && matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Texts as bytes; with `is_try`, texts that are not bytea become null.
///
/// # Errors
/// 22P02 a text is not a bytea.
pub(crate) fn bytes_of(texts: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8)?;
    let one = |text: Option<&str>| match text.map(|text| (text, read(text.as_bytes()))) {
        None => Ok(None),
        Some((text, None)) if !is_try => Err(wrong(text)),
        Some((_, bytes)) => Ok(bytes),
    };
    let read = texts.as_string::<i32>().iter().map(one).collect::<Result<Vec<_>, Error>>();
    let read = read.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let bytes: ArrayRef = Arc::new(read.into_iter().collect::<BinaryArray>());
    Ok(cast(&bytes, to)?)
}

fn wrong(text: &str) -> Error {
    let shown: String = text.chars().take(SHOWN).collect();
    // PostgreSQL reports wrong digits and wrong escapes as different errors.
    let state = if text.starts_with("\\x") { "22023" } else { "22P02" };
    Error::new(1465, state, format!("invalid input syntax for type bytea: \"{shown}\""))
        .next("two hexadecimal digits for each byte: '\\x0aff'")
}

/// The bytes of a text; `None`: it is not a bytea.
pub(crate) fn read(text: &[u8]) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix(b"\\x") {
        let digits: Vec<u8> = digits.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let [high, low] = pair else { return None };
            Some((digit(*high)? * 16 + digit(*low)?) as u8)
        };
        return digits.chunks(2).map(pair).collect();
    }
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (&text[at..], text[at]) {
            ([b'\\', b'\\', ..], _) => {
                out.push(b'\\');
                at += 2;
            }
            ([b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..], _) => {
                out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                at += 4;
            }
            ([b'\\', ..], _) => return None,
            (_, byte) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Some(out)
}
