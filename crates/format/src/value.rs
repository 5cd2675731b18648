//! Values in the order of columns.
//!
//! A column holds whole numbers or byte strings. Everything else is converted to one of these, keeping
//! its order: a date, a time and a decimal are their whole number; a binary floating-point number is the
//! whole number of its bits, with the lower ones flipped if it is negative, which is the total order of
//! IEEE 754 (-infinity, ... -0, 0, ... infinity, NaN), as Arrow compares them. There is one NaN: the one
//! that a processor makes of 0/0 has a sign, and would sort below all numbers.

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A whole number, or what is made one.
    Number(i128),
    /// A string of bytes.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The number; `None`: it is a string.
    pub fn number(&self) -> Option<i128> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Bytes(_) => None,
        }
    }

    /// The string; `None`: it is a number.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Number(_) => None,
            Value::Bytes(bytes) => Some(bytes),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number.into())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.into())
    }
}

/// The whole number that stands for a floating-point number of 64 bits.
#[inline(always)]
pub fn key_of_f64(float: f64) -> i64 {
    let float = if float.is_nan() { f64::NAN } else { float };
    let bits = float.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The floating-point number of 64 bits that a whole number stands for.
#[inline(always)]
pub fn f64_of_key(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
}

/// The whole number that stands for a floating-point number of 32 bits.
#[inline(always)]
pub fn key_of_f32(float: f32) -> i64 {
    let float = if float.is_nan() { f32::NAN } else { float };
    let bits = float.to_bits() as i32;
    (bits ^ (((bits >> 31) as u32) >> 1) as i32).into()
}

/// The floating-point number of 32 bits that a whole number stands for.
#[inline(always)]
pub fn f32_of_key(key: i64) -> f32 {
    let key = key as i32;
    f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_total_order_and_come_back() {
        let floats = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            1e-310,
            2.5,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(floats.is_sorted_by(|a, b| key_of_f64(*a) < key_of_f64(*b)));
        for float in floats {
            assert_eq!(f64_of_key(key_of_f64(float)).to_bits(), float.to_bits());
            let small = float as f32;
            assert_eq!(f32_of_key(key_of_f32(small)).to_bits(), small.to_bits());
        }
        assert_eq!(key_of_f64(-f64::NAN), key_of_f64(f64::NAN));
        assert_eq!(key_of_f32(-f32::NAN), key_of_f32(f32::NAN));
        assert!(key_of_f32(-1.5) < key_of_f32(-0.0) && key_of_f32(-0.0) < key_of_f32(0.0));
    }
}
