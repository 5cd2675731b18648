//! PostgreSQL's numeric in binary: groups of four decimal digits, a weight, a sign and a scale.
//!
//! Source: `numeric_send` and `numeric_recv` of PostgreSQL.

use bytes::{Buf, BufMut};

use super::Malformed;

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

/// The most digits after the point, and the most groups before it: what our numbers can have, and more.
const GROUPS_MAX: u16 = 100;

/// Writes a decimal from its text: `-12.340`.
pub(super) fn write(text: &str, out: &mut impl BufMut) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (POSITIVE, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        out.put_u64(u64::from(NAN) << 16);
        return;
    }
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups: Vec<u16> = Vec::with_capacity(whole.len() / 4 + behind.len() / 4 + 2);
    let first = whole.len() % 4;
    if first > 0 {
        groups.push(number(&whole[..first]));
    }
    groups.extend(whole.as_bytes()[first..].chunks(4).map(group));
    let mut weight = groups.len() as i16 - 1;
    groups.extend(behind.as_bytes().chunks(4).map(group));
    let zeros = groups.iter().take_while(|own| **own == 0).count();
    groups.drain(..zeros);
    weight -= zeros as i16;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_u16(groups.len() as u16);
    out.put_i16(weight);
    out.put_u16(if groups.is_empty() { POSITIVE } else { sign });
    out.put_u16(behind.len() as u16);
    groups.iter().for_each(|own| out.put_u16(*own));
}

fn number(text: &str) -> u16 {
    text.parse().unwrap_or(0)
}

/// Four digits; if there are fewer, zeros are appended.
fn group(digits: &[u8]) -> u16 {
    let value = digits.iter().fold(0u16, |value, digit| value * 10 + u16::from(digit - b'0'));
    value * 10u16.pow(4 - digits.len() as u32)
}

/// Reads a numeric, as a text.
///
/// # Errors
/// 22P03 it is not a numeric; 22003 it is larger than numbers here can be.
pub fn read(mut bytes: &[u8]) -> Result<String, Malformed> {
    if bytes.len() < 8 || !bytes.len().is_multiple_of(2) {
        return Err(Malformed::INCORRECT);
    }
    let (count, weight) = (bytes.get_u16(), bytes.get_i16());
    let (sign, scale) = (bytes.get_u16(), bytes.get_u16());
    if bytes.len() != 2 * usize::from(count) {
        return Err(Malformed::INCORRECT);
    }
    let wrong = |message| Malformed { sqlstate: "22P03", message };
    match sign {
        NAN => return Ok("NaN".to_owned()),
        INFINITY => return Ok("Infinity".to_owned()),
        MINUS_INFINITY => return Ok("-Infinity".to_owned()),
        POSITIVE | NEGATIVE => {}
        _ => return Err(wrong("invalid sign in external \"numeric\" value")),
    }
    if count > GROUPS_MAX || weight.unsigned_abs() > GROUPS_MAX || scale > 4 * GROUPS_MAX {
        return Err(Malformed { sqlstate: "22003", message: "value overflows numeric format" });
    }
    let mut groups = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        match bytes.get_u16() {
            own @ 0..=9999 => groups.push(own),
            _ => return Err(wrong("invalid digit in external \"numeric\" value")),
        }
    }
    let at = |place: i16| -> u16 {
        usize::try_from(weight - place).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let mut text = if sign == NEGATIVE { "-".to_owned() } else { String::new() };
    let whole: String =
        (0..=weight.max(0)).rev().map(|place| format!("{:04}", at(place))).collect();
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let places = scale.div_ceil(4) as i16;
        let behind: String = (1..=places).map(|place| format!("{:04}", at(-place))).collect();
        text.push('.');
        text.push_str(&behind[..usize::from(scale)]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn written(text: &str) -> Vec<u16> {
        let mut out = BytesMut::new();
        write(text, &mut out);
        out.chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn numbers_are_as_postgresql_sends_them() {
        assert_eq!(written("0"), [0, 0, 0, 0]);
        assert_eq!(written("1"), [1, 0, 0, 0, 1]);
        assert_eq!(written("12345.678"), [3, 1, 0, 3, 1, 2345, 6780]);
        assert_eq!(written("-0.00012"), [2, 65535, 0x4000, 5, 1, 2000]);
        assert_eq!(written("10000"), [1, 1, 0, 0, 1]);
        assert_eq!(written("0.00"), [0, 0, 0, 2]);
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["0", "1", "-1", "12345.678", "-0.00012", "10000", "0.00", "99999999.0001"] {
            let mut out = BytesMut::new();
            write(text, &mut out);
            assert_eq!(read(&out), Ok(text.to_owned()));
        }
        let wrong: &[u8] = b"\xff\xff\x00\x00\x00\x00\x00\x00";
        assert!(read(wrong).is_err());
        let digit: &[u8] = b"\x00\x01\x00\x00\x00\x00\x00\x00\x27\x10";
        assert!(read(digit).is_err());
    }
}
