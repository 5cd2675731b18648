//! Dates and timestamps in CSV files: read strictly, so that nothing of them is lost.

/// A day, counted from 1970-01-01.
pub(crate) type Day = i64;

/// A point in time as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Seconds from 1970-01-01 00:00:00, in UTC if there is an offset.
    pub seconds: i64,
    /// Billionths of a second.
    pub nanos: u32,
    /// Digits after the decimal point of the seconds, without trailing zeros.
    pub digits: u8,
    /// Whether it has an offset from UTC.
    pub has_offset: bool,
}

const SECONDS_OF_DAY: i64 = 86_400;
/// The most digits after the decimal point that a unit exists for.
const DIGITS_MAX: usize = 9;

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> Day {
    // Years begin in March, so that the leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of so many days from 1970-01-01.
pub(crate) fn date_of(days: Day) -> (i64, i64, i64) {
    // Years begin in March, as above.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era_year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (of_era_year + era * 400 + i64::from(month <= 2), month, day)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// A number with at least and at most so many digits, and the rest of the text.
fn number(text: &[u8], least: usize, most: usize) -> Option<(i64, &[u8])> {
    let length = text.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if length < least {
        return None;
    }
    let value = text[..length].iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((value, &text[length..]))
}

fn behind(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.strip_prefix(&[byte])
}

/// Year, month, day in digits, and the rest of the text; whether the day exists is not checked.
fn date_shape(text: &[u8]) -> Option<(i64, i64, i64, &[u8])> {
    let (year, rest) = number(text, 4, 4)?;
    let (month, rest) = number(behind(rest, b'-')?, 1, 2)?;
    let (day, rest) = number(behind(rest, b'-')?, 1, 2)?;
    Some((year, month, day, rest))
}

/// A day, if the text is one: `2024-02-29`.
pub(crate) fn day(text: &[u8]) -> Option<Day> {
    let (year, month, day, rest) = date_shape(text)?;
    let exists = day >= 1 && day <= days_of_month(year, month);
    (exists && rest.is_empty()).then(|| days_of(year, month, day))
}

/// Whether a text looks like a date, with two digits each for month and day, even if the day does not
/// exist.
pub(crate) fn looks_like_day(text: &[u8]) -> bool {
    text.len() == 10 && date_shape(text).is_some_and(|(.., rest)| rest.is_empty())
}

/// The parts of a time of day and of an offset, as written.
struct Clock {
    seconds: i64,
    nanos: u32,
    digits: u8,
    offset: Option<i64>,
    exists: bool,
}

/// What follows a date: `T` or a blank, hours, minutes, seconds with or without a fraction, an offset or
/// none.
fn clock_shape(text: &[u8]) -> Option<Clock> {
    let rest = behind(text, b'T').or_else(|| behind(text, b' '))?;
    let (hours, rest) = number(rest, 2, 2)?;
    let (minutes, rest) = number(behind(rest, b':')?, 2, 2)?;
    let (seconds, mut rest) = match behind(rest, b':') {
        Some(rest) => number(rest, 2, 2)?,
        None => return None,
    };
    let (mut nanos, mut digits) = (0u32, 0);
    if let Some(fraction) = behind(rest, b'.') {
        let length = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if length == 0 {
            return None;
        }
        let written = &fraction[..length];
        let kept = written.len() - written.iter().rev().take_while(|b| **b == b'0').count();
        if kept > DIGITS_MAX {
            return None;
        }
        digits = kept as u8;
        for place in 0..DIGITS_MAX {
            let digit = written.get(place).map_or(0, |byte| byte - b'0');
            nanos = nanos * 10 + u32::from(digit);
        }
        rest = &fraction[length..];
    }
    // Midnight at the end of a day is the beginning of the next.
    let is_end = (hours, minutes, seconds, nanos) == (24, 0, 0, 0);
    let exists = is_end || (hours < 24 && minutes < 60 && seconds < 60);
    let offset = offset_of(rest)?;
    Some(Clock { seconds: hours * 3600 + minutes * 60 + seconds, nanos, digits, offset, exists })
}

/// The seconds that a time is ahead of UTC: `Z`, `+02`, `+0200`, `+02:00`; inner `None`: there is no
/// offset.
fn offset_of(text: &[u8]) -> Option<Option<i64>> {
    let (sign, rest) = match text.trim_ascii_start() {
        [] if text.is_empty() => return Some(None),
        b"Z" | b"z" | b"UTC" => return Some(Some(0)),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = number(rest, 2, 2)?;
    let rest = behind(rest, b':').unwrap_or(rest);
    let (minutes, rest) = if rest.is_empty() { (0, rest) } else { number(rest, 2, 2)? };
    let is_one = rest.is_empty() && hours <= 15 && minutes < 60;
    is_one.then_some(Some(sign * (hours * 3600 + minutes * 60)))
}

/// A point in time, if the text is one: `2024-02-29 23:59:59.5+02:00`, or a day alone.
pub(crate) fn stamp(text: &[u8]) -> Option<Stamp> {
    let (year, month, day, rest) = date_shape(text)?;
    if day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let midnight = days_of(year, month, day) * SECONDS_OF_DAY;
    if rest.is_empty() {
        return Some(Stamp { seconds: midnight, nanos: 0, digits: 0, has_offset: false });
    }
    let clock = clock_shape(rest).filter(|clock| clock.exists)?;
    Some(Stamp {
        seconds: midnight + clock.seconds - clock.offset.unwrap_or(0),
        nanos: clock.nanos,
        digits: clock.digits,
        has_offset: clock.offset.is_some(),
    })
}

/// The properties of a text that looks like a point in time, even if that does not exist: significant
/// digits after the decimal point, whether it has an offset, and its year.
pub(crate) fn looks_like_stamp(text: &[u8]) -> Option<(u8, bool, i64)> {
    let (year, _, _, rest) = date_shape(text)?;
    let clock = clock_shape(rest)?;
    Some((clock.digits, clock.offset.is_some(), year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, wanted) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2024-02-29", Some(19_782)),
            ("9999-12-31", Some(2_932_896)),
            ("0001-01-01", Some(-719_162)),
            ("0000-01-01", Some(-719_528)),
            ("2023-02-29", None),
            ("1900-02-29", None),
            ("2024-02-30", None),
            ("2024-13-01", None),
            ("2024-00-10", None),
            ("2024-01-00", None),
            ("2024-1-2", Some(19_724)),
            ("2024-01-02x", None),
            ("24-01-02", None),
        ] {
            assert_eq!(day(text.as_bytes()), wanted, "{text}");
        }
        // Each day is the one before plus one.
        let mut last = day(b"1999-12-31").unwrap();
        for year in 2000..2101 {
            for month in 1..=12 {
                for of_month in 1..=days_of_month(year, month) {
                    let text = format!("{year:04}-{month:02}-{of_month:02}");
                    last += 1;
                    assert_eq!(day(text.as_bytes()), Some(last), "{text}");
                    assert_eq!(date_of(last), (year, month, of_month));
                }
            }
        }
        assert!(looks_like_day(b"2024-02-30") && !looks_like_day(b"2024-2-30"));
    }

    #[test]
    fn points_in_time_keep_digits_and_offsets() {
        let at = |text: &str| stamp(text.as_bytes()).map(|s| (s.seconds, s.nanos, s.has_offset));
        for (text, wanted) in [
            ("1970-01-01 00:00:01", Some((1, 0, false))),
            ("1970-01-01T00:00:00.5", Some((0, 500_000_000, false))),
            ("1970-01-01 00:00:00.123456789", Some((0, 123_456_789, false))),
            ("1970-01-01 24:00:00", Some((86_400, 0, false))),
            ("1970-01-01 24:00:01", None),
            ("1970-01-01 23:60:00", None),
            ("1970-01-01 00:00:60", None),
            ("1970-01-01 02:00:00+02:00", Some((0, 0, true))),
            ("1970-01-01 02:00:00 +0200", Some((0, 0, true))),
            ("1969-12-31T16:00:00-08", Some((0, 0, true))),
            ("1970-01-01T00:00:00Z", Some((0, 0, true))),
            ("1970-01-01 00:00:00 ", None),
            ("1970-01-01 00:00:00.", None),
            ("1970-01-01 00:00:00.1234567891", None),
            ("1970-01-01 00:00:00.1230000000", Some((0, 123_000_000, false))),
            ("1970-01-01 00:00:00 Europe/Berlin", None),
            ("1970-01-01 00:00", None),
            ("1970-01-01", Some((0, 0, false))),
            ("9999-12-31 23:59:59", Some((253_402_300_799, 0, false))),
        ] {
            assert_eq!(at(text), wanted, "{text}");
        }
        assert_eq!(looks_like_stamp(b"2024-02-30 25:00:00.120Z"), Some((2, true, 2024)));
        assert_eq!(looks_like_stamp(b"2024-02-30"), None);
    }
}
