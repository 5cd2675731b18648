//! Rows as CSV that reads back unchanged: NULL is an empty field, an empty text is `""`.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::csv::{Compression, CsvForm};
use crate::error::Error;
use crate::failure::from_arrow;
use crate::failure::io_error;

/// Options for writing CSV, beside its form.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct WriteForm {
    /// Whether every field with a value is quoted.
    pub quote_all: bool,
    /// The pattern for dates, if not ISO 8601.
    pub date: Option<String>,
    /// The pattern for dates with a time of day, if not ISO 8601.
    pub datetime: Option<String>,
    /// The pattern for timestamps without a time zone, if not ISO 8601.
    pub timestamp: Option<String>,
    /// The pattern for timestamps with a time zone, if not ISO 8601.
    pub timestamp_tz: Option<String>,
    /// The pattern for times of day, if not ISO 8601.
    pub time: Option<String>,
}

/// Adds a field, quoted if requested or necessary.
pub(crate) fn field(out: &mut Vec<u8>, bytes: &[u8], quoted: bool, form: &CsvForm) {
    let special = |byte: &u8| {
        *byte == form.delimiter
            || *byte == form.quote
            || matches!(byte, b'\n' | b'\r')
            || Some(*byte) == form.terminator
            || Some(*byte) == form.comment
    };
    if !quoted && !bytes.iter().any(special) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(form.quote);
    for &byte in bytes {
        if byte == form.quote && form.double_quote {
            out.push(form.quote);
        } else if byte == form.quote || Some(byte) == form.escape {
            out.push(form.escape.unwrap_or(form.quote));
        }
        out.push(byte);
    }
    out.push(form.quote);
}

/// The first line.
fn header(out: &mut Vec<u8>, schema: &Schema, form: &CsvForm) {
    for (at, own) in schema.fields().iter().enumerate() {
        if at > 0 {
            out.push(form.delimiter);
        }
        field(out, own.name().as_bytes(), own.name().is_empty(), form);
    }
    out.push(form.terminator.unwrap_or(b'\n'));
}

/// Whether the text of such values never needs quotes.
fn is_plain(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Boolean | DataType::Date32)
}

/// Rows as bytes of a file, with the header in front of the first ones. Each piece can be decompressed
/// alone, and all of them together.
///
/// # Errors
/// A value cannot be shown, a character does not exist in the encoding.
pub(crate) fn bytes_of(
    batch: &RecordBatch,
    with_header: bool,
    form: &CsvForm,
    how: &WriteForm,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(batch.num_rows() * batch.num_columns() * 8);
    if with_header {
        header(&mut out, batch.schema_ref(), form);
    }
    rows(&mut out, batch, form, how).map_err(|e| from_arrow(&e))?;
    let out = match form.encoding {
        Some(encoding) if encoding != encoding_rs::UTF_8 => encoded(&out, encoding)?,
        _ => out,
    };
    packed(out, form.compression)
}

fn rows(
    out: &mut Vec<u8>,
    batch: &RecordBatch,
    form: &CsvForm,
    how: &WriteForm,
) -> Result<(), ArrowError> {
    let options = FormatOptions::new()
        .with_display_error(false)
        .with_null("null")
        .with_date_format(how.date.as_deref())
        .with_datetime_format(how.datetime.as_deref())
        .with_timestamp_format(how.timestamp.as_deref())
        .with_timestamp_tz_format(how.timestamp_tz.as_deref())
        .with_time_format(how.time.as_deref());
    let columns = batch.columns().iter();
    let formatters = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    let mut text = Vec::new();
    for row in 0..batch.num_rows() {
        for (at, formatter) in formatters.iter().enumerate() {
            if at > 0 {
                out.push(form.delimiter);
            }
            let column = batch.column(at);
            if nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                out.extend_from_slice(form.null.as_bytes());
                continue;
            }
            text.clear();
            write!(text, "{}", formatter.value(row))?;
            let is_null = text == form.null.as_bytes();
            let quoted = how.quote_all || text.is_empty() || is_null;
            if !quoted && is_plain(column.data_type()) && form.delimiter == b',' {
                out.extend_from_slice(&text);
            } else {
                field(out, &text, quoted, form);
            }
        }
        out.push(form.terminator.unwrap_or(b'\n'));
    }
    Ok(())
}

fn encoded(text: &[u8], encoding: &'static encoding_rs::Encoding) -> Result<Vec<u8>, Error> {
    let text = String::from_utf8_lossy(text);
    // The WHATWG standard decodes these, and never encodes them.
    if encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE {
        let bytes = |unit: u16| match encoding == encoding_rs::UTF_16LE {
            true => unit.to_le_bytes(),
            false => unit.to_be_bytes(),
        };
        return Ok(text.encode_utf16().flat_map(bytes).collect());
    }
    let (bytes, _, is_lossy) = encoding.encode(&text);
    if is_lossy {
        let text = format!("some letters cannot be written in {}", encoding.name());
        return Err(Error::new(70013, "22P05", text).next("write UTF-8: leave the encoding out"));
    }
    Ok(bytes.into_owned())
}

fn packed(bytes: Vec<u8>, compression: Compression) -> Result<Vec<u8>, Error> {
    match compression {
        Compression::Gzip => {
            let level = flate2::Compression::default();
            let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
            out.write_all(&bytes).and_then(|()| out.finish()).map_err(|e| io_error(&e))
        }
        Compression::Zstd => zstd::bulk::compress(&bytes, 0).map_err(|e| io_error(&e)),
        Compression::None | Compression::Detected => Ok(bytes),
    }
}
