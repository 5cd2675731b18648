//! Functions of texts and types that clients use to build statements.

use super::super::definition;
use super::super::types;
use super::super::value::Value;
use super::Takes::{Any, Int, Text};
use super::{Call, Definition, Gives, of_null, one};
use crate::error::Error;

type Answer = Result<Value, Error>;

pub(super) static ALL: &[Definition] = &[
    one("quote_ident", &[&[Text]], Gives::Text, |call| Ok(definition::quoted(call.text(0)).into())),
    one("quote_literal", &[&[Text]], Gives::Text, |call| Ok(literal(call.text(0)).into())),
    of_null(one("quote_nullable", &[&[Text]], Gives::Text, nullable)),
    of_null(one("pg_typeof", &[&[Any]], Gives::Text, type_of)),
    one("pg_size_pretty", &[&[Int]], Gives::Text, size_text),
    one("array_upper", &[&[Any, Int]], Gives::Int, upper),
    one("array_lower", &[&[Any, Int]], Gives::Int, lower),
    of_null(one("texts_behind", &[&[Text, Any]], Gives::Texts, behind)),
    of_null(one(
        "format",
        &[&[Text], &[Text, Text], &[Text, Text, Text], &[Text, Text, Text, Text]],
        Gives::Text,
        format,
    )),
];

/// A text as a literal.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

fn nullable(call: &Call<'_>) -> Answer {
    Ok(match call.arg(0) {
        Value::Text(text) => literal(text).into(),
        _ => "NULL".into(),
    })
}

fn type_of(call: &Call<'_>) -> Answer {
    use arrow::datatypes::DataType;
    let Some(field) = call.fields.first() else { return Ok(Value::Null) };
    Ok(match field.data_type() {
        DataType::Null => "unknown".into(),
        // Oids as in the catalogs.
        DataType::UInt32 => "oid".into(),
        _ => call.snapshot.format_type(types::of_field(field).0, None).into(),
    })
}

/// A size as PostgreSQL writes it: in a unit up to ten thousand of it, and rounded.
fn size_text(call: &Call<'_>) -> Answer {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let Some(bytes) = call.int(0) else { return Ok(Value::Null) };
    let (mut size, mut half) = (bytes, false);
    let mut at = 0;
    loop {
        let limit = if at == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.abs() < limit || at + 1 == UNITS.len() {
            let whole = if half { half_rounded(size) } else { size };
            return Ok(format!("{whole} {}", UNITS[at]).into());
        }
        // One bit more is kept, for rounding.
        size >>= if at == 0 { 9 } else { 10 };
        half = true;
        at += 1;
    }
}

fn half_rounded(size: i64) -> i64 {
    (size + size.signum()) / 2
}

/// The length of a list.
fn count(call: &Call<'_>) -> i64 {
    match call.arg(0) {
        Value::Int(count) => *count,
        Value::Texts(all) => i64::try_from(all.len()).unwrap_or(i64::MAX),
        _ => 0,
    }
}

fn upper(call: &Call<'_>) -> Answer {
    let count = count(call);
    Ok((count > 0 && call.int(1) == Some(1)).then_some(count).into())
}

fn lower(call: &Call<'_>) -> Answer {
    Ok((count(call) > 0 && call.int(1) == Some(1)).then_some(1i64).into())
}

/// A text before each text of a list; for an empty list an empty text.
fn behind(call: &Call<'_>) -> Answer {
    let all = match call.arg(1) {
        Value::Texts(all) => all.iter().map(|own| format!("{}{own}", call.text(0))).collect(),
        _ => Vec::new(),
    };
    Ok(Value::Texts(all))
}

/// `format` with %s, %I and %L in order.
fn format(call: &Call<'_>) -> Answer {
    let Value::Text(pattern) = call.arg(0) else { return Ok(Value::Null) };
    let mut made = String::new();
    let (mut letters, mut next) = (pattern.chars(), 1);
    while let Some(letter) = letters.next() {
        if letter != '%' {
            made.push(letter);
            continue;
        }
        let kind = letters.next();
        if kind == Some('%') {
            made.push('%');
            continue;
        }
        let value = match call.arg(next) {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        };
        if next >= call.args.len() {
            return Err(Error::new(1722, "22023", "too few arguments for format()")
                .next("each of %s, %I and %L takes one"));
        }
        next += 1;
        match (kind, value) {
            (Some('s'), value) => made.push_str(value.unwrap_or_default()),
            (Some('I'), Some(value)) => made.push_str(&definition::quoted(value)),
            (Some('L'), Some(value)) => made.push_str(&literal(value)),
            (Some('L'), None) => made.push_str("NULL"),
            (Some('I'), None) => {
                return Err(Error::new(
                    1405,
                    "22004",
                    "null values cannot be formatted as an SQL \
                                                      identifier",
                ));
            }
            (kind, _) => {
                let kind = kind.map(String::from).unwrap_or_default();
                let text = format!("unrecognized format() type specifier \"{kind}\"");
                return Err(Error::new(1722, "22023", text).next("it takes %s, %I, %L and %%"));
            }
        }
    }
    Ok(made.into())
}
