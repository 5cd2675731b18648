//! Text as a number: exponents do not cost precision, and a value too large for its type is an error.
//! Arrow takes '1e400' for infinity, and accepts no exponent in a decimal.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;

/// The most digits that an exponent may add to a decimal.
const SHIFT_MAX: i64 = 100;

/// Whether a cast from text is one of these.
pub(super) fn is_from_text(from: &DataType, to: &DataType) -> bool {
    let is_text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text && (matches!(to, DataType::Float32 | DataType::Float64) || to.is_decimal())
}

/// Texts as numbers; with `is_try`, texts that are not numbers become null.
///
/// # Errors
/// A text that is not a number, or that is too large.
pub(crate) fn numbers_of(
    texts: &ArrayRef,
    to: &DataType,
    is_try: bool,
) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    let texts = cast_with_options(texts, &DataType::Utf8, &options)?;
    let texts = texts.as_string::<i32>();
    if to.is_decimal() {
        let plain = texts.iter().map(|text| text.map(without_exponent));
        let plain: StringArray = match texts.iter().flatten().any(has_exponent) {
            true => plain.collect(),
            false => texts.clone(),
        };
        if *to == NUMERIC
            && !is_try
            && let Some(text) = plain.iter().flatten().find(|text| is_too_fine(text))
        {
            return Err(ArrowError::ArithmeticOverflow(too_fine(text)));
        }
        return cast_with_options(&plain, to, &options);
    }
    let numbers = cast_with_options(texts, to, &options)?;
    let is_infinite = |row: usize| match to {
        DataType::Float32 => numbers.as_primitive::<Float32Type>().value(row).is_infinite(),
        _ => numbers.as_primitive::<Float64Type>().value(row).is_infinite(),
    };
    // A number written in digits is finite.
    let has_digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let is_beyond = |row: usize| {
        numbers.is_valid(row)
            && is_infinite(row)
            && texts.is_valid(row)
            && has_digits(texts.value(row))
    };
    let mut beyond = (0..numbers.len()).filter(|row| is_beyond(*row)).peekable();
    let Some(first) = beyond.peek().copied() else { return Ok(numbers) };
    if !is_try {
        let text = texts.value(first);
        let name = if *to == DataType::Float32 { "REAL" } else { "DOUBLE" };
        return Err(ArrowError::ArithmeticOverflow(format!(
            "{text} is beyond the range of {name}"
        )));
    }
    let beyond: Vec<usize> = beyond.collect();
    let is_null = (0..numbers.len()).map(|row| Some(beyond.binary_search(&row).is_ok()));
    let is_null: arrow::array::BooleanArray = is_null.collect();
    arrow::compute::nullif(&numbers, &is_null)
}

/// NUMERIC without digits. What is given for it must fit: it is not rounded, as for NUMERIC(p,s).
pub(crate) const NUMERIC: DataType = DataType::Decimal128(38, NUMERIC_SCALE as i8);

/// The digits of NUMERIC behind the point.
pub(crate) const NUMERIC_SCALE: u32 = 10;

/// Why a number is refused for NUMERIC.
pub(crate) fn too_fine(number: &str) -> String {
    format!(
        "{number} has more than {NUMERIC_SCALE} digits behind the point; numeric has {NUMERIC_SCALE}, numeric(p,s) as \
         many as it says"
    )
}

/// Whether a number has digits that NUMERIC does not keep.
fn is_too_fine(text: &str) -> bool {
    let Some((_, behind)) = text.split_once('.') else { return false };
    let lost = behind.as_bytes().get(NUMERIC_SCALE as usize..).unwrap_or_default();
    lost.iter().any(|digit| (b'1'..=b'9').contains(digit))
}

fn has_exponent(text: &str) -> bool {
    text.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'e'))
}

/// The same number without an exponent; a text that is not such a number is left for the cast to refuse.
fn without_exponent(text: &str) -> Cow<'_, str> {
    plain(text.trim()).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn plain(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{behind}");
    let are_digits = !all.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits || exponent.abs() > SHIFT_MAX {
        return None;
    }
    let point = whole.len() as i64 + exponent;
    let length = all.len() as i64;
    Some(match point {
        ..=0 => format!("{sign}0.{}{all}", "0".repeat(point.unsigned_abs() as usize)),
        _ if point >= length => format!("{sign}{all}{}", "0".repeat((point - length) as usize)),
        _ => format!("{sign}{}.{}", &all[..point as usize], &all[point as usize..]),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_exponent_moves_the_point() {
        for (text, expected) in [
            ("1e5", "100000"),
            ("-1.25e1", "-12.5"),
            ("1.5E-3", "0.0015"),
            ("+12.345e+2", "1234.5"),
            (".5e1", "5"),
            ("0e0", "0"),
            ("x", "x"),
            ("1e", "1e"),
            ("e5", "e5"),
            ("1e999999", "1e999999"),
        ] {
            assert_eq!(without_exponent(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_an_error_and_infinity_is_none() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("1e400"), None, Some("inf")]));
        let error = numbers_of(&texts, &DataType::Float64, false).expect_err("too large");
        assert!(error.to_string().contains("1e400"), "{error}");
        let tried = numbers_of(&texts, &DataType::Float64, true).expect("tried");
        let tried = tried.as_primitive::<Float64Type>();
        assert!(tried.is_null(0) && tried.is_null(1) && tried.value(2).is_infinite());
    }
}
