//! Patterns of LIKE with another escape character than the backslash, which alone DataFusion knows.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};

use crate::error::Error;

/// Puts backslashes for the escape character of a LIKE.
///
/// # Errors
/// 01425 for an escape of several characters, 01424 for one before any other, 03001 for a pattern that
/// is computed.
pub(super) fn rewrite(expr: &mut Expr) -> Result<(), Error> {
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr
    else {
        return Ok(());
    };
    let Some(escape) = escape_char.as_ref().and_then(text_of) else { return Ok(()) };
    let mut letters = escape.chars();
    let escape = letters.next();
    if letters.next().is_some() {
        return Err(Error::new(1425, "22019", "the escape of a LIKE is one character")
            .next("like 'a!_%' escape '!'"));
    }
    if escape == Some('\\') {
        *escape_char = None;
        return Ok(());
    }
    let Expr::Value(value) = pattern.as_mut() else {
        return Err(Error::not_yet("ESCAPE of a pattern that is computed").next(
            "write the pattern as text, or escape it with a backslash and leave ESCAPE out",
        ));
    };
    let Some(text) = text_of(value) else { return Ok(()) };
    value.value = Value::SingleQuotedString(escaped(text, escape)?);
    *escape_char = None;
    Ok(())
}

fn text_of(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text) => Some(text),
        _ => None,
    }
}

fn escaped(pattern: &str, escape: Option<char>) -> Result<String, Error> {
    let mut out = String::with_capacity(pattern.len() + 4);
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if Some(letter) != escape {
            if letter == '\\' {
                out.push('\\');
            }
            out.push(letter);
            continue;
        }
        let Some(next) = letters.next() else {
            let text = format!("the pattern '{pattern}' ends with its escape character");
            return Err(Error::new(1424, "22025", text).next("write the escape twice for itself"));
        };
        if matches!(next, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(next);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_becomes_a_backslash() {
        let of = |pattern, escape| escaped(pattern, Some(escape)).unwrap();
        assert_eq!(of("a!_c%", '!'), "a\\_c%");
        assert_eq!(of("a!!c!%", '!'), "a!c\\%");
        assert_eq!(of("a\\c", '!'), "a\\\\c");
        assert_eq!(of("a%%c%_", '%'), "a\\%c\\_");
        assert_eq!(escaped("a\\%", None).unwrap(), "a\\\\%");
        assert!(escaped("a!", Some('!')).is_err());
    }
}
