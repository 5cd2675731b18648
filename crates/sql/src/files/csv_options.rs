//! The options of a CSV table or of a COPY: how its text is written.

use std::collections::HashMap;

use crate::csv::form::encoding_of;
use crate::csv::types::type_of_name;
use crate::csv::write::WriteForm;
use crate::csv::{Compression, CsvForm, Place};
use crate::error::Error;

/// Options for how much is read to infer types, without effect: everything is read.
const WITHOUT_EFFECT: [&str; 3] =
    ["newlines_in_values", "schema_infer_max_rec", "compression_level"];

fn wrong(name: &str, value: &str, allowed: &str) -> Error {
    Error::new(70012, "22023", format!("\"{value}\" is no value for the option {name}"))
        .next(format!("allowed is {allowed}"))
}

fn byte(name: &str, value: &str) -> Result<u8, Error> {
    match value.as_bytes() {
        [one] => Ok(*one),
        _ if matches!(value, "\\t" | "tab") => Ok(b'\t'),
        _ if value == "\\n" => Ok(b'\n'),
        _ => Err(wrong(name, value, "one character")),
    }
}

fn flag(name: &str, value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "on" | "1" | "yes" => Ok(true),
        "false" | "f" | "off" | "0" | "no" => Ok(false),
        _ => Err(wrong(name, value, "true or false")),
    }
}

/// `a=varchar, b=decimal(5,2)`: commas inside parentheses belong to a type.
///
/// # Errors
/// 70012 it is not such a list, 00902 a type that does not exist.
pub(crate) fn types(value: &str) -> Result<Vec<(String, String)>, Error> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0i32, 0);
    let mut pieces = Vec::new();
    for (at, letter) in value.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(&value[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&value[start..]);
    for piece in pieces.into_iter().filter(|piece| !piece.trim().is_empty()) {
        let (name, data_type) = piece
            .rsplit_once('=')
            .ok_or_else(|| wrong("types", value, "COLUMN=TYPE, with commas between several"))?;
        type_of_name(data_type)?;
        found.push((name.trim().to_owned(), data_type.trim().to_owned()));
    }
    Ok(found)
}

/// The form that the options of a table, or of a COPY, specify.
///
/// # Errors
/// An unknown option, or an invalid value.
pub(crate) fn form_of(options: &HashMap<String, String>) -> Result<(CsvForm, WriteForm), Error> {
    let mut form = CsvForm { place: Place::Table, ..CsvForm::new(b',') };
    let mut how = WriteForm::default();
    for (key, value) in options {
        let Some(name) = key.strip_prefix("format.") else { continue };
        match name {
            "delimiter" => form.delimiter = byte(name, value)?,
            "quote" => form.quote = byte(name, value)?,
            "escape" => form.escape = Some(byte(name, value)?),
            "comment" => form.comment = Some(byte(name, value)?),
            "terminator" => form.terminator = Some(byte(name, value)?),
            "double_quote" => form.double_quote = flag(name, value)?,
            "truncated_rows" => form.truncated_rows = flag(name, value)?,
            "has_header" | "header" => {
                (form.has_header, form.header_is_sure) = (flag(name, value)?, true);
            }
            "null" | "null_value" => form.null.clone_from(value),
            "encoding" => form.encoding = Some(encoding_of(value)?),
            "compression" => form.compression = Compression::of(value)?,
            "types" => form.types = types(value)?,
            "quote_style" => match value.to_ascii_lowercase().as_str() {
                "always" => how.quote_all = true,
                "necessary" => how.quote_all = false,
                _ => return Err(wrong(name, value, "always or necessary")),
            },
            "date_format" => how.date = Some(value.clone()),
            "datetime_format" => how.datetime = Some(value.clone()),
            "timestamp_format" => how.timestamp = Some(value.clone()),
            "timestamp_tz_format" => how.timestamp_tz = Some(value.clone()),
            "time_format" => how.time = Some(value.clone()),
            name if WITHOUT_EFFECT.contains(&name) => {}
            _ => {
                let text = format!("there is no option \"{key}\" for CSV");
                return Err(Error::new(70012, "22023", text).next(
                    "delimiter, quote, escape, double_quote, comment, terminator, has_header, \
                     null, encoding, compression, types, truncated_rows, quote_style, \
                     date_format, time_format, timestamp_format",
                ));
            }
        }
    }
    if form.delimiter == form.quote {
        return Err(wrong("delimiter", &char::from(form.delimiter).to_string(), "no quote"));
    }
    Ok((form, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_told() {
        let of = |pairs: &[(&str, &str)]| {
            let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            form_of(&pairs.iter().map(pair).collect())
        };
        let (form, how) = of(&[
            ("format.delimiter", "\\t"),
            ("format.has_header", "FALSE"),
            ("format.null", "\\N"),
            ("format.encoding", "latin1"),
            ("format.compression", "gzip"),
            ("format.types", "a=varchar, b=decimal(5, 2)"),
            ("format.quote_style", "Always"),
            ("execution.keep_partition_by_columns", "true"),
        ])
        .unwrap();
        assert_eq!((form.delimiter, form.has_header, form.null.as_str()), (b'\t', false, "\\N"));
        assert_eq!(form.types[1], ("b".to_owned(), "decimal(5, 2)".to_owned()));
        assert!(how.quote_all && form.compression == Compression::Gzip);
        for (key, value) in [
            ("format.delimitr", ";"),
            ("format.delimiter", ";;"),
            ("format.delimiter", "\""),
            ("format.has_header", "maybe"),
            ("format.compression", "rar"),
            ("format.encoding", "klingon"),
            ("format.types", "a"),
        ] {
            let error = of(&[(key, value)]).unwrap_err();
            assert_eq!(error.number, 70012, "{key}: {error}");
            assert!(error.next_step.is_some());
        }
        assert_eq!(of(&[("format.types", "a=vachar")]).unwrap_err().number, 902);
    }
}
