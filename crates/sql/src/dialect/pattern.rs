//! Patterns of LIKE with another escape character than the backslash, which alone DataFusion knows, and of
//! SIMILAR TO.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

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

/// Puts a regular expression for the pattern of SIMILAR TO, which is of the whole text, with % and _ as
/// LIKE has them; DataFusion takes it for a regular expression as it is.
///
/// # Errors
/// 03001 for a pattern that is computed, or another escape character than the backslash.
pub(super) fn similar(expr: &mut Expr) -> Result<(), Error> {
    let Expr::SimilarTo { negated, expr: text, pattern, escape_char } = expr else {
        return Ok(());
    };
    let known = match pattern.as_ref() {
        Expr::Value(value) => text_of(value),
        _ => None,
    };
    let escape = escape_char.as_ref().map(|value| text_of(value).unwrap_or_default());
    let (Some(known), None | Some("\\")) = (known, escape) else {
        return Err(Error::not_yet("SIMILAR TO with a computed pattern, or ESCAPE")
            .next("~ takes a regular expression"));
    };
    let regex = Value::SingleQuotedString(regex_of(known));
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Box::new(Expr::Value(regex.into()));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left: text.clone(), op, right }));
    Ok(())
}

/// `%` is any text, `_` any letter; `| * + ? { } ( ) [ ]` are as in regular expressions; all else is itself.
fn regex_of(pattern: &str) -> String {
    let mut out = String::from("^(?s:");
    let mut letters = pattern.chars();
    let mut inside = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let next = letters.next().unwrap_or('\\');
                if !next.is_alphanumeric() {
                    out.push('\\');
                }
                out.push(next);
            }
            '%' if !inside => out.push_str(".*"),
            '_' if !inside => out.push('.'),
            '.' | '^' | '$' if !inside => out.extend(['\\', letter]),
            _ => {
                inside = (inside || letter == '[') && letter != ']';
                out.push(letter);
            }
        }
    }
    out.push_str(")$");
    out
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
