//! Values of rows as a plain loop has them, and how SQL compares them.

use std::cmp::Ordering;

/// A value; a decimal is its digits and how many of them are behind the point.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Decimal(i128, u32),
    Float(f64),
    Date(i32),
    Text(String),
}

impl Value {
    pub fn whole(number: impl Into<i128>) -> Value {
        Value::Decimal(number.into(), 0)
    }

    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    fn float(&self) -> Option<f64> {
        match self {
            Value::Float(float) => Some(*float),
            Value::Decimal(digits, scale) => format!("{digits}e-{scale}").parse().ok(),
            _ => None,
        }
    }

    /// How SQL orders two values; `None`: one of them is null.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Null, _) | (_, Value::Null) => None,
            (Value::Decimal(a, s), Value::Decimal(b, t)) => Some(decimals(*a, *s, *b, *t)),
            (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
            (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (a, b) => {
                let (a, b) = (a.float().expect("a number"), b.float().expect("a number"));
                Some(floats(a, b))
            }
        }
    }
}

/// -0 is 0; NaN is itself, and above all other numbers.
pub fn floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// By whole parts first, so that no factor goes beyond 128 bits.
fn decimals(a: i128, s: u32, b: i128, t: u32) -> Ordering {
    let (p, q) = (10i128.pow(s), 10i128.pow(t));
    let whole = a.div_euclid(p).cmp(&b.div_euclid(q));
    whole.then_with(|| (a.rem_euclid(p) * 10i128.pow(t)).cmp(&(b.rem_euclid(q) * 10i128.pow(s))))
}
