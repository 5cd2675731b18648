//! Intervals as texts: read in all forms that PostgreSQL reads, written in its style `postgres`.
//!
//! Source: PostgreSQL's documentation of interval input and output; units and fractions as in its
//! `DecodeInterval`.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, StringArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::error::ArrowError;

use crate::error::Error;

const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR;
/// Days of a month, for fractions of one.
const MONTH_DAYS: i128 = 30;

/// Whether a cast is from text to an interval.
pub(crate) fn is_interval_of_text(from: &DataType, to: &DataType) -> bool {
    from.is_string() && matches!(to, DataType::Interval(_))
}

/// Whether a cast is from an interval to text.
pub(crate) fn is_text_of_interval(from: &DataType, to: &DataType) -> bool {
    to.is_string() && matches!(from, DataType::Interval(_) | DataType::Duration(_))
}

/// Texts as intervals; with `is_try`, texts that are not intervals become null.
///
/// # Errors
/// A text is not an interval.
pub(crate) fn intervals_of(
    texts: &ArrayRef,
    to: &DataType,
    is_try: bool,
) -> Result<ArrayRef, ArrowError> {
    let texts = cast(texts, &DataType::Utf8)?;
    let values = texts.as_string::<i32>().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match read(text) {
            None if !is_try => {
                let text = format!("invalid input syntax for type interval: \"{text}\"");
                let error = Error::new(1867, "22007", text);
                let next = "write it as '1 day 02:03:04', '2 hours' or 'P1DT2H'";
                Err(ArrowError::from_external_error(Box::new(error.next(next))))
            }
            value => Ok(value),
        }
    });
    let values: IntervalMonthDayNanoArray = values.collect::<Result<_, ArrowError>>()?;
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    cast_with_options(&(Arc::new(values) as ArrayRef), to, &options)
}

/// Intervals, or differences of points in time, in months, days and nanoseconds.
///
/// # Errors
/// Their time is out of range for the type.
pub(crate) fn in_parts(intervals: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let parts = DataType::Interval(IntervalUnit::MonthDayNano);
    let values = cast(intervals, &parts)?;
    if !matches!(intervals.data_type(), DataType::Duration(_)) {
        return Ok(values);
    }
    // A difference of two points in time has days, and a remainder.
    let day = DAY as i64;
    let days = |own: IntervalMonthDayNano| {
        let days = i32::try_from(own.nanoseconds / day).unwrap_or(i32::MAX);
        IntervalMonthDayNano::new(0, days, own.nanoseconds % day)
    };
    let values = values.as_primitive::<IntervalMonthDayNanoType>();
    Ok(Arc::new(values.unary::<_, IntervalMonthDayNanoType>(days)))
}

/// Intervals as texts.
///
/// # Errors
/// Their months or time are out of range for their type.
pub(crate) fn texts_of(intervals: &ArrayRef) -> Result<StringArray, ArrowError> {
    let values = in_parts(intervals)?;
    let values = values.as_primitive::<IntervalMonthDayNanoType>();
    let text = |value: IntervalMonthDayNano| {
        let mut text = Vec::new();
        write(value, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let texts = values.iter().map(|value| value.map(text).transpose());
    texts.collect::<Result<_, std::io::Error>>().map_err(ArrowError::from)
}

/// Writes an interval: `1 year 2 mons -3 days +04:05:06.7`.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(value: IntervalMonthDayNano, out: &mut Vec<u8>) -> std::io::Result<()> {
    let (begin, mut is_before) = (out.len(), false);
    let parts = [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")];
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        let blank = if out.len() > begin { " " } else { "" };
        let sign = if is_before && count > 0 { "+" } else { "" };
        let ending = if count == 1 { "" } else { "s" };
        write!(out, "{blank}{sign}{count} {unit}{ending}")?;
        is_before = count < 0;
    }
    let nanos = value.nanoseconds;
    if nanos == 0 && out.len() > begin {
        return Ok(());
    }
    let blank = if out.len() > begin { " " } else { "" };
    let sign = match (nanos < 0, is_before) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) => "",
    };
    let nanos = u128::from(nanos.unsigned_abs());
    let (seconds, rest) = (nanos / SECOND as u128, nanos % SECOND as u128);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{blank}{sign}{hours:02}:{minutes:02}:{seconds:02}")?;
    if rest > 0 {
        let digits = format!("{rest:09}");
        write!(out, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}

/// A unit of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// So many months.
    Months(i128),
    /// So many days.
    Days(i128),
    /// So many nanoseconds.
    Nanos(i128),
}

/// The unit that a word names.
fn unit_of(word: &str) -> Option<Unit> {
    Some(match word {
        "millennium" | "millennia" | "mil" | "mils" => Unit::Months(12_000),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1200),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12),
        "month" | "months" | "mon" | "mons" => Unit::Months(1),
        "week" | "weeks" | "w" => Unit::Days(7),
        "day" | "days" | "d" => Unit::Days(1),
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Nanos(HOUR),
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Nanos(MINUTE),
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Nanos(SECOND),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => Unit::Nanos(1_000_000),
        "microsecond" | "microseconds" | "usec" | "usecs" | "us" => Unit::Nanos(1000),
        _ => return None,
    })
}

/// The three parts of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    months: i128,
    days: i128,
    nanos: i128,
}

/// A number with a fraction: `whole` and billionths, both signed.
#[derive(Clone, Copy, Debug)]
struct Number {
    whole: i128,
    billionths: i128,
}

impl Number {
    /// `+12`, `-1.5`, `.5`.
    fn read(text: &str) -> Option<Number> {
        let (sign, digits) = signed(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        // More than the longest interval has.
        let is_short = whole.len() <= 18;
        if (whole.is_empty() && fraction.is_empty()) || !is_short {
            return None;
        }
        if !are_digits(whole) || !are_digits(fraction) {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        let billionths: i128 = fraction.parse().ok()?;
        Some(Number { whole: sign * whole, billionths: sign * billionths })
    }

    /// Whether it is a whole number.
    fn is_whole(self) -> bool {
        self.billionths == 0
    }
}

/// The sign of a number, and its digits.
fn signed(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A quotient, rounded to the nearest integer, halves to even.
fn rounded(value: i128, by: i128) -> i128 {
    let (whole, rest) = (value.abs() / by, value.abs() % by);
    let goes_up = rest * 2 > by || (rest * 2 == by && whole % 2 == 1);
    (whole + i128::from(goes_up)) * value.signum()
}

impl Parts {
    /// Adds so many of a unit: a fraction of a month becomes days of a thirty-day month, a fraction of a
    /// day becomes time.
    fn add(&mut self, number: Number, unit: Unit) {
        let Number { whole, billionths } = number;
        match unit {
            Unit::Months(1) => {
                self.months += whole;
                self.add_days(billionths * MONTH_DAYS);
            }
            Unit::Months(months) => {
                self.months += whole * months + rounded(billionths * months, SECOND);
            }
            Unit::Days(days) => {
                self.days += whole * days;
                self.add_days(billionths * days);
            }
            Unit::Nanos(nanos) => self.nanos += whole * nanos + billionths * nanos / SECOND,
        }
    }

    /// Adds billionths of days.
    fn add_days(&mut self, billionths: i128) {
        self.days += billionths / SECOND;
        // Rounded to microseconds: the text has no more precision.
        self.nanos += rounded(billionths % SECOND * DAY, SECOND * 1000) * 1000;
    }

    fn finish(self) -> Option<IntervalMonthDayNano> {
        let Parts { months, days, nanos } = self;
        Some(IntervalMonthDayNano::new(
            i32::try_from(months).ok()?,
            i32::try_from(days).ok()?,
            i64::try_from(nanos).ok()?,
        ))
    }
}

/// A time of day, or a longer time: `[-]H:M[:S[.F]]`, or `[-]M:S.F`.
fn clock(text: &str) -> Option<i128> {
    let (sign, text) = signed(text);
    let mut parts = text.split(':');
    let (mut hours, mut minutes, mut seconds) = (parts.next()?, parts.next()?, parts.next());
    if seconds.is_none() && minutes.contains('.') {
        (hours, minutes, seconds) = ("0", hours, Some(minutes));
    }
    let whole = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && text.len() <= 12).then(|| text.parse::<i128>().ok())?
    };
    let seconds = match seconds {
        None => Number { whole: 0, billionths: 0 },
        Some(text) if text.starts_with(['+', '-']) => return None,
        Some(text) => Number::read(text)?,
    };
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    if parts.next().is_some() || minutes > 59 || seconds.whole > 60 {
        return None;
    }
    let nanos = hours * HOUR + minutes * MINUTE + seconds.whole * SECOND + seconds.billionths;
    Some(sign * nanos)
}

/// `[-]Y-M`.
fn years_and_months(text: &str) -> Option<i128> {
    let (sign, text) = signed(text);
    let (years, months) = text.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(years) || !is_number(months) || years.len() > 9 || months.len() > 2 {
        return None;
    }
    let (years, months): (i128, i128) = (years.parse().ok()?, months.parse().ok()?);
    (months < 12).then_some(sign * (years * 12 + months))
}

/// The words of an interval: numbers are separated from the units that follow them.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    // Commas and the like are ignored.
    for part in text.split(|c: char| c.is_whitespace() || c == ',' || c == ';') {
        let (mut word, mut was_letter) = (String::new(), None);
        for letter in part.chars() {
            let is_letter = letter.is_alphabetic();
            if was_letter.is_some_and(|was| was != is_letter) {
                words.push(std::mem::take(&mut word));
            }
            word.push(letter.to_ascii_lowercase());
            was_letter = Some(is_letter);
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

/// The interval of a text; `None`: it is not one, or too long.
pub(crate) fn read(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) && text.len() > 1 {
        return iso(&text[1..])?.finish();
    }
    let mut words = words(text);
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('@').unwrap_or(first).to_owned();
    }
    // A sign may stand apart from its number.
    for at in (0..words.len().saturating_sub(1)).rev() {
        if words[at] == "-" || words[at] == "+" {
            let sign = words.remove(at);
            words[at].insert_str(0, &sign);
        }
    }
    words.retain(|word| !word.is_empty());
    let is_ago = words.last().is_some_and(|word| word == "ago");
    if is_ago {
        words.pop();
    }
    if words.is_empty() {
        return None;
    }
    let (mut parts, mut units) = (Parts::default(), Vec::new());
    let mut at = 0;
    let mut has_clock = false;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        if word.contains(':') {
            parts.nanos += clock(word)?;
            if std::mem::replace(&mut has_clock, true) {
                return None;
            }
            continue;
        }
        if let Some(months) = years_and_months(word) {
            parts.months += months;
            units.push(Unit::Months(1));
            continue;
        }
        let number = Number::read(word)?;
        let unit = match words.get(at) {
            // A number without a unit is seconds at the end, and days before a time of day.
            None => Unit::Nanos(SECOND),
            Some(next) if next.contains(':') => Unit::Days(1),
            Some(next) => {
                at += 1;
                unit_of(next)?
            }
        };
        if units.contains(&unit) {
            return None;
        }
        units.push(unit);
        parts.add(number, unit);
    }
    let has_time = units.iter().any(|unit| matches!(unit, Unit::Nanos(_)));
    if has_clock && has_time {
        return None;
    }
    if is_ago {
        let Parts { months, days, nanos } = parts;
        parts = Parts { months: -months, days: -days, nanos: -nanos };
    }
    parts.finish()
}

/// ISO 8601, after the P: `1Y2M3DT4H5M6.7S`, `0001-02-03T04:05:06`.
fn iso(text: &str) -> Option<Parts> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((_, "")) => return None,
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = Parts::default();
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b"-:.".contains(&b));
    let has_plain_time = time.is_none_or(is_plain);
    if !text.is_empty() && is_plain(date) && has_plain_time && !date.starts_with('-') {
        let numbers = date.split('-').filter(|part| !part.is_empty()).map(Number::read);
        let mut units = [Unit::Months(12), Unit::Months(1), Unit::Days(1)].into_iter();
        for number in numbers {
            let number = number?;
            parts.add(number.is_whole().then_some(number)?, units.next()?);
        }
        parts.nanos += match time {
            Some(time) if time.contains(':') => clock(time)?,
            Some(hours) => Number::read(hours)?.whole * HOUR,
            None => 0,
        };
        return Some(parts);
    }
    let dates = [
        ('Y', Unit::Months(12)),
        ('M', Unit::Months(1)),
        ('W', Unit::Days(7)),
        ('D', Unit::Days(1)),
    ];
    let times = [('H', Unit::Nanos(HOUR)), ('M', Unit::Nanos(MINUTE)), ('S', Unit::Nanos(SECOND))];
    fields(date, &dates, &mut parts)?;
    if let Some(time) = time {
        match time.contains(':') {
            true => parts.nanos += clock(time)?,
            false => fields(time, &times, &mut parts)?,
        }
    }
    (!date.is_empty() || time.is_some()).then_some(parts)
}

/// Numbers, each followed by a letter, in this order.
fn fields(mut text: &str, mut units: &[(char, Unit)], parts: &mut Parts) -> Option<()> {
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_alphabetic())?;
        let letter = text[end..].chars().next()?.to_ascii_uppercase();
        let place = units.iter().position(|(own, _)| *own == letter)?;
        parts.add(Number::read(&text[..end])?, units[place].1);
        units = &units[place + 1..];
        text = &text[end + 1..];
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> Option<String> {
        let mut out = Vec::new();
        write(read(text)?, &mut out).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn intervals_are_read_and_written_as_postgresql_does() {
        for (text, wanted) in [
            ("0:00:00", "00:00:00"),
            ("10:00:00", "10:00:00"),
            ("-10:00", "-10:00:00"),
            ("100:00:00", "100:00:00"),
            ("0:00:00.000001", "00:00:00.000001"),
            ("-1 day 23:59:55", "-1 days +23:59:55"),
            ("1 day 2:03:04.5", "1 day 02:03:04.5"),
            ("1 year 2 mons 3 days", "1 year 2 mons 3 days"),
            ("1 mon -1 day -00:00:01", "1 mon -1 days -00:00:01"),
            ("-1 mon 2 days", "-1 mons +2 days"),
            ("P1DT2H", "1 day 02:00:00"),
            ("p1y2m3dT4h5m6.7s", "1 year 2 mons 3 days 04:05:06.7"),
            ("P-1Y3M", "-9 mons"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P2W", "14 days"),
            ("P0002", "2 years"),
            ("P0002-10", "2 years 10 mons"),
            ("PT10", "10:00:00"),
            ("PT10:20", "10:20:00"),
            ("1:30.5", "00:01:30.5"),
            ("@1 minute", "00:01:00"),
            ("- 1 day", "-1 days"),
            ("0.375 years", "4 mons"),
            ("2 days ago", "-2 days"),
            ("1 day 02:03 ago", "-1 days -02:03:00"),
            ("1.5 hours", "01:30:00"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 months", "1 mon 15 days"),
            ("0.5 weeks", "3 days 12:00:00"),
            ("1 02:03:04", "1 day 02:03:04"),
            ("@ 1 minute", "00:01:00"),
            ("1-2", "1 year 2 mons"),
            ("-1-2", "-1 years -2 mons"),
            ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("5", "00:00:05"),
            ("1h", "01:00:00"),
            ("1d2h3m4s", "1 day 02:03:04"),
            ("1 week", "7 days"),
            ("2 decades 1 century", "120 years"),
            ("1500 ms 20 us", "00:00:01.50002"),
            (" 1  DAY ", "1 day"),
            ("-1 day, 23:59:55", "-1 days +23:59:55"),
        ] {
            assert_eq!(again(text).as_deref(), Some(wanted), "{text}");
        }
        let none = [
            "",
            "@",
            "ago",
            "day",
            "1 2",
            "1 day 2 days",
            "1:2:3:4",
            "1:60",
            "P",
            "PT",
            "1 dat",
            "1 day 1:00 2:00",
            "1 hour 1:00",
            "--1 day",
            "1-12",
            "3000000000 days",
            "1e5 days",
            "ü",
            "1.2.3",
        ];
        for text in none {
            assert_eq!(again(text), None, "{text}");
        }
    }
}
