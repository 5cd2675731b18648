//! Patterns of LIKE with an escape character other than the backslash, the only one that DataFusion
//! knows, and of SIMILAR TO.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result as FusionResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

use crate::call::call;
use crate::error::Error;
use crate::rules::unbounded;

/// Puts backslashes for the escape character of a LIKE: when the statement is read, or when it runs if the
/// pattern is computed.
///
/// # Errors
/// 01425 for an escape of several characters, 01424 for one that ends the pattern.
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
        let escape = Value::SingleQuotedString(escape.map(String::from).unwrap_or_default());
        let computed = std::mem::replace(pattern.as_mut(), Expr::Value(Value::Null.into()));
        **pattern = call(LIKE_ESCAPE, vec![computed, Expr::Value(escape.into())]);
        *escape_char = None;
        return Ok(());
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

/// What PostgreSQL calls the function.
const LIKE_ESCAPE: &str = "like_escape";

/// The function `like_escape(pattern, escape)`: the pattern with backslashes for the escape character.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LikeEscape {
    signature: Signature,
}

impl LikeEscape {
    /// The function, to be registered.
    pub(crate) fn udf() -> ScalarUDF {
        let signature = Signature::string(2, Volatility::Immutable);
        ScalarUDF::new_from_impl(LikeEscape { signature })
    }
}

impl ScalarUDFImpl for LikeEscape {
    fn name(&self) -> &'static str {
        LIKE_ESCAPE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> FusionResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> FusionResult<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> FusionResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let texts = |arg: &ColumnarValue| -> FusionResult<ArrayRef> {
            Ok(arrow::compute::cast(&arg.to_array(rows)?, &DataType::Utf8)?)
        };
        let (patterns, escapes) = (texts(&args.args[0])?, texts(&args.args[1])?);
        let mut out = StringBuilder::new();
        for (pattern, escape) in patterns.as_string::<i32>().iter().zip(escapes.as_string::<i32>())
        {
            let (Some(pattern), Some(escape)) = (pattern, escape) else {
                out.append_null();
                continue;
            };
            let own = escaped(pattern, escape.chars().next());
            out.append_value(own.map_err(|e| DataFusionError::External(Box::new(e)))?);
        }
        let out: ArrayRef = Arc::new(out.finish());
        match is_scalar && out.len() == 1 {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?)),
            false => Ok(ColumnarValue::Array(out)),
        }
    }
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
