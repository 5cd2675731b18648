//! Values of settings, as texts: parsed, and put into the form in which SHOW writes them.

use std::time::Duration;

use super::known::{Definition, Kind};
use super::zone;
use crate::error::Error;

/// The longest time, in milliseconds, as in PostgreSQL.
const MILLIS_MAX: f64 = 2_147_483_647.0;

/// Units of time, the longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

fn invalid(known: &Definition, text: &str) -> Error {
    let message = format!("invalid value for parameter \"{}\": \"{text}\"", known.name);
    let next = match known.kind {
        Kind::Flag => "on or off".to_owned(),
        Kind::Time => {
            "milliseconds, or a number with ms, s, min, h or d; 0 means no limit".to_owned()
        }
        Kind::Number(least, most) => format!("a number from {least} to {most}"),
        Kind::OneOf(words) => format!("one of {}", words.join(", ")),
        Kind::Zone => {
            "a name such as Europe/Berlin, UTC, or SET TIME ZONE 2 for hours east".to_owned()
        }
        Kind::Only(_) | Kind::Text | Kind::ReadOnly => {
            format!("it is '{}', and nothing else: {}", known.default, known.about)
        }
    };
    Error::new(68, "22023", message).next(next)
}

/// A value as SHOW writes it.
///
/// # Errors
/// 22023 the setting has no such value.
pub(super) fn read(known: &Definition, text: &str) -> Result<String, Error> {
    let trimmed = text.trim();
    let found = match &known.kind {
        Kind::Flag => flag(trimmed).map(|is_on| if is_on { "on" } else { "off" }.to_owned()),
        Kind::Time => time(trimmed),
        Kind::Number(least, most) => {
            let number = trimmed.parse::<i64>().ok();
            number
                .filter(|number| (least..=most).contains(&number))
                .map(|number| number.to_string())
        }
        Kind::Text => Some(text.to_owned()),
        Kind::Zone => zone::named(trimmed),
        Kind::OneOf(words) => {
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(trimmed));
            word.map(|word| (*word).to_owned())
        }
        Kind::Only(others) => {
            let is_same = |word: &str| word.eq_ignore_ascii_case(trimmed);
            let found = is_same(known.default) || others.iter().any(|word| is_same(word));
            found.then(|| known.default.to_owned())
        }
        Kind::ReadOnly => None,
    };
    found.ok_or_else(|| invalid(known, text))
}

/// `on`, `off`, and PostgreSQL's synonyms: unambiguous prefixes are accepted too.
fn flag(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if text == "1" || begins("true", 1) || begins("yes", 1) || text == "on" {
        return Some(true);
    }
    (text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)).then_some(false)
}

/// A time in the longest unit that leaves it whole.
fn time(text: &str) -> Option<String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..digits].trim(), text[digits..].trim());
    let number: f64 = number.parse().ok()?;
    let millis = match unit {
        "" => number,
        "us" => number / 1_000.0,
        unit => number * UNITS.iter().find(|(name, _)| *name == unit)?.1 as f64,
    };
    let millis = millis.round();
    if !(0.0..=MILLIS_MAX).contains(&millis) {
        return None;
    }
    let millis = millis as u64;
    if millis == 0 {
        return Some("0".to_owned());
    }
    let (name, unit) = UNITS.iter().find(|(_, unit)| millis.is_multiple_of(*unit))?;
    Some(format!("{}{name}", millis / unit))
}

/// The duration of a text written by [`time`].
pub(super) fn millis(shown: &str) -> Duration {
    let digits = shown.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(shown.len());
    let number: u64 = shown[..digits].parse().unwrap_or_default();
    let unit =
        UNITS.iter().find(|(name, _)| *name == &shown[digits..]).map_or(1, |(_, unit)| *unit);
    Duration::from_millis(number.saturating_mul(unit))
}
