//! Number literals that DataFusion would read as another number or not at all.
//!
//! A literal with a point or an exponent is a decimal, as in PostgreSQL; one beyond the digits of a
//! decimal is a floating-point number.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value};

use crate::error::Error;

/// Digits of the widest decimal that literals become.
const DIGITS_MAX: usize = 76;
/// Digits of a 128-bit decimal; an exponent makes none wider.
const DIGITS_OF_128: usize = 38;

/// The expression for a literal; `None`: it is read as written.
///
/// # Errors
/// 01426 for a number out of range.
pub(crate) fn rewrite(text: &str) -> Result<Option<Expr>, Error> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let Some(number) = Decimal::read(&plain) else { return Ok(None) };
    if number.is_whole_as_written() {
        // DataFusion reads a number that fits only an unsigned 64-bit integer as a type that tables
        // rarely have.
        let is_small = plain.parse::<i64>().is_ok();
        return Ok(match is_small || number.digits.len() > DIGITS_MAX {
            true => None,
            false => Some(cast(&number.digits, exact(number.digits.len(), 0))),
        });
    }
    let most = if number.has_exponent { DIGITS_OF_128 } else { DIGITS_MAX };
    match number.written_out(most) {
        Some((_, scale)) if scale > 0 && !number.has_exponent => Ok(None),
        Some((digits, scale)) if scale > 0 => {
            Ok(Some(Expr::Value(Value::Number(with_point(&digits, scale), false).into())))
        }
        Some((digits, _)) => Ok(Some(cast(&digits, exact(digits.len(), 0)))),
        None => double(text, &plain).map(Some),
    }
}

/// The least 64-bit integer, which is not the negation of one.
pub(crate) fn is_least_bigint(text: &str) -> bool {
    text == "9223372036854775808"
}

/// That number.
pub(crate) fn least_bigint() -> Expr {
    cast("-9223372036854775808", DataType::BigInt(None))
}

fn double(text: &str, plain: &str) -> Result<Expr, Error> {
    let beyond = |what: &str| {
        Err(Error::new(1426, "22003", format!("the number {text} is {what}"))
            .next("numbers go from 1e-307 to 1.7e308, and to 38 digits exactly"))
    };
    match plain.parse::<f64>() {
        Ok(number) if number.is_infinite() => beyond("too large"),
        Ok(0.0) => beyond("too small"),
        _ => Ok(cast(plain, DataType::DoublePrecision)),
    }
}

fn exact(precision: usize, scale: usize) -> DataType {
    let info = ExactNumberInfo::PrecisionAndScale(precision.max(1) as u64, scale as i64);
    DataType::Decimal(info)
}

fn cast(text: &str, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text.to_owned()).into())),
        data_type,
        array: false,
        format: None,
    }
}

fn with_point(digits: &str, scale: usize) -> String {
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{whole}.{fraction}")
}

/// A number as written: its digits are those before and after the point.
struct Decimal {
    digits: String,
    /// Digits after the point, less the exponent.
    scale: i64,
    has_point: bool,
    has_exponent: bool,
}

impl Decimal {
    fn read(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (text, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) || whole.len() + fraction.len() == 0 {
            return None;
        }
        // With so large an exponent it is out of range, or the digits before it are 0.
        let shift = match exponent {
            Some(exponent) => exponent.parse::<i64>().ok()?.clamp(-1_000_000, 1_000_000),
            None => 0,
        };
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        Some(Decimal {
            digits: if digits.is_empty() { "0" } else { digits }.to_owned(),
            scale: fraction.len() as i64 - shift,
            has_point: mantissa.contains('.'),
            has_exponent: exponent.is_some(),
        })
    }

    fn is_whole_as_written(&self) -> bool {
        !self.has_point && !self.has_exponent
    }

    /// All its digits, and how many of them are after the point, if there are at most `most`.
    fn written_out(&self, most: usize) -> Option<(String, usize)> {
        if self.digits == "0" {
            let scale = usize::try_from(self.scale).unwrap_or(0).min(most - 1);
            return Some(("0".to_owned(), scale));
        }
        let (digits, scale) = match usize::try_from(self.scale) {
            Ok(scale) => (self.digits.clone(), scale),
            Err(_) => {
                let zeros = usize::try_from(self.scale.unsigned_abs()).ok()?;
                if zeros > most {
                    return None;
                }
                (format!("{}{}", self.digits, "0".repeat(zeros)), 0)
            }
        };
        (digits.len() <= most && scale <= most).then_some((digits, scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match rewrite(text) {
            Ok(Some(expr)) => expr.to_string(),
            Ok(None) => "as it stands".to_owned(),
            Err(e) => e.message,
        }
    }

    #[test]
    fn literals_keep_their_value() {
        let decimal = |text: &str, p: u8, s: u8| format!("CAST('{text}' AS DECIMAL({p},{s}))");
        assert_eq!(read("7"), "as it stands");
        assert_eq!(read("9223372036854775807"), "as it stands");
        assert_eq!(read("9223372036854775808"), decimal("9223372036854775808", 19, 0));
        assert_eq!(read("18446744073709551615"), decimal("18446744073709551615", 20, 0));
        assert_eq!(read("1e5"), decimal("100000", 6, 0));
        assert_eq!(read("1E+5"), decimal("100000", 6, 0));
        assert_eq!(read("5."), decimal("5", 1, 0));
        for plain in [".5", "0.06", "2.50", "1_000.5", "0.000"] {
            assert_eq!(read(plain), "as it stands");
        }
        assert_eq!(read("1.5e1"), decimal("15", 2, 0));
        assert_eq!(read("1.5e-3"), "0.0015");
        assert_eq!(read("25e-1"), "2.5");
        assert_eq!(read("0e400"), decimal("0", 1, 0));
        assert_eq!(read("1e37"), decimal(&format!("1{}", "0".repeat(37)), 38, 0));
        assert_eq!(read("1e300"), "CAST('1e300' AS DOUBLE PRECISION)");
        assert_eq!(read("1e-308"), "CAST('1e-308' AS DOUBLE PRECISION)");
        assert_eq!(
            read("1.7976931348623157e308"),
            "CAST('1.7976931348623157e308' AS DOUBLE PRECISION)"
        );
        assert_eq!(read("1e400"), "the number 1e400 is too large");
        assert_eq!(read("1e-400"), "the number 1e-400 is too small");
    }
}
