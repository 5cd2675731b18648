//! Patterns of dates and times as Oracle and PostgreSQL write them: `YYYY-MM-DD HH24:MI:SS`. DataFusion
//! knows those of strftime, and returns others unchanged.

use std::fmt::Write;

use chrono::{Datelike, NaiveDateTime, Timelike};
use datafusion::common::{Result, plan_err};

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field { field: Field, letters: Letters, fill: bool },
}

/// The case in which a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    Upper,
    Title,
    Lower,
}

/// The field that a part stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year(usize),
    IsoYear,
    Month,
    MonthName,
    MonthShort,
    Day,
    DayOfYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayName,
    DayShort,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Fraction(usize),
    Half,
    Week,
    IsoWeek,
    Quarter,
}

/// Elements, longer ones before their prefixes.
const ELEMENTS: [(&str, Field); 37] = [
    ("IYYY", Field::IsoYear),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("RRRR", Field::Year(4)),
    ("RR", Field::Year(2)),
    ("MONTH", Field::MonthName),
    ("MON", Field::MonthShort),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Fraction(3)),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("FF9", Field::Fraction(9)),
    ("FF", Field::Fraction(6)),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DAY", Field::DayName),
    ("DY", Field::DayShort),
    ("D", Field::DayOfWeek),
    ("ID", Field::IsoDayOfWeek),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SSSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("AM", Field::Half),
    ("PM", Field::Half),
    ("WW", Field::Week),
    ("IW", Field::IsoWeek),
    ("Q", Field::Quarter),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Part>);

/// Whether a pattern is one of strftime, which is left to DataFusion.
pub(crate) fn is_strftime(pattern: &str) -> bool {
    pattern.contains('%')
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// It has letters without a meaning.
    pub(crate) fn parse(pattern: &str) -> Result<Pattern> {
        let mut parts = Vec::new();
        let mut rest = pattern;
        let mut fill = true;
        while let Some(first) = rest.chars().next() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
                parts.push(Part::Text(text.to_owned()));
                rest = behind;
                continue;
            }
            if !first.is_alphabetic() {
                parts.push(Part::Text(first.to_string()));
                rest = &rest[first.len_utf8()..];
                continue;
            }
            if let Some(behind) = without(rest, "FM") {
                (fill, rest) = (!fill, behind);
                continue;
            }
            let found =
                ELEMENTS.iter().filter_map(|(name, field)| Some((*field, without(rest, name)?)));
            let Some((field, behind)) = found.min_by_key(|(_, behind)| behind.len()) else {
                return plan_err!(
                    "the pattern '{pattern}' has \"{rest}\", which stands for no part of a date or a \
                     time; put text in double quotes"
                );
            };
            let written = &rest[..rest.len() - behind.len()];
            parts.push(Part::Field { field, letters: letters_of(written), fill });
            rest = behind;
        }
        Ok(Pattern(parts))
    }

    /// A point in time, formatted by the pattern.
    pub(crate) fn write(&self, at: &NaiveDateTime) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field { field, letters, fill } => {
                    let wanted = value_of(*field, at);
                    let text = match wanted {
                        Value::Name(name, width) => {
                            let name = match letters {
                                Letters::Upper => name.to_uppercase(),
                                Letters::Title => name.to_owned(),
                                Letters::Lower => name.to_lowercase(),
                            };
                            if *fill { format!("{name:<width$}") } else { name }
                        }
                        Value::Number(number, width) if *fill => format!("{number:0width$}"),
                        Value::Number(number, _) => number.to_string(),
                    };
                    let written = out.write_str(&text);
                    debug_assert!(written.is_ok(), "a string takes all");
                }
            }
        }
        out
    }

    /// The pattern in strftime's notation, to parse text with.
    ///
    /// # Errors
    /// It has a part that cannot be parsed from text.
    pub(crate) fn as_strftime(&self) -> Result<String> {
        let mut out = String::new();
        for part in &self.0 {
            let field = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Field { field, .. } => *field,
            };
            let specifier = match field {
                Field::Year(4) => "%Y",
                Field::Year(2) => "%y",
                Field::Month => "%m",
                Field::MonthName => "%B",
                Field::MonthShort => "%b",
                Field::Day => "%d",
                Field::DayOfYear => "%j",
                Field::DayName => "%A",
                Field::DayShort => "%a",
                Field::Hour24 => "%H",
                Field::Hour12 => "%I",
                Field::Minute => "%M",
                Field::Second => "%S",
                Field::Half => "%p",
                Field::IsoYear => "%G",
                Field::IsoWeek => "%V",
                Field::IsoDayOfWeek => "%u",
                // A decimal point before it belongs to the digits.
                Field::Fraction(_) if out.ends_with('.') => {
                    out.pop();
                    "%.f"
                }
                other => return plan_err!("no text can be read by {other:?} of a pattern"),
            };
            out.push_str(specifier);
        }
        Ok(out)
    }
}

/// The rest of a text after a word that it begins with, in any case.
fn without<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, behind) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(behind)
}

fn letters_of(written: &str) -> Letters {
    let mut letters = written.chars();
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_lowercase() => Letters::Lower,
        (Some(_), Some(second)) if second.is_lowercase() => Letters::Title,
        _ => Letters::Upper,
    }
}

enum Value {
    /// A number and its width.
    Number(i64, usize),
    /// A name and the length of the longest of its kind.
    Name(&'static str, usize),
}

fn value_of(field: Field, at: &NaiveDateTime) -> Value {
    use Value::{Name, Number};
    let year = i64::from(at.year());
    let of_week = at.weekday().num_days_from_sunday();
    let month = MONTHS[at.month0() as usize];
    let day = DAYS[of_week as usize];
    let number = |value: u32, digits| Number(value.into(), digits);
    match field {
        Field::Year(4) => Number(year, 4),
        Field::Year(digits) => Number(year.rem_euclid(10i64.pow(digits as u32)), digits),
        Field::IsoYear => Number(at.iso_week().year().into(), 4),
        Field::Month => number(at.month(), 2),
        Field::MonthName => Name(month, 9),
        Field::MonthShort => Name(&month[..3], 3),
        Field::Day => number(at.day(), 2),
        Field::DayOfYear => number(at.ordinal(), 3),
        Field::DayOfWeek => number(of_week + 1, 1),
        Field::IsoDayOfWeek => number(at.weekday().number_from_monday(), 1),
        Field::DayName => Name(day, 9),
        Field::DayShort => Name(&day[..3], 3),
        Field::Hour24 => number(at.hour(), 2),
        Field::Hour12 => number(at.hour12().1, 2),
        Field::Minute => number(at.minute(), 2),
        Field::Second => number(at.second(), 2),
        Field::SecondOfDay => number(at.num_seconds_from_midnight(), 5),
        Field::Fraction(digits) => {
            number(at.nanosecond() % 1_000_000_000 / 10u32.pow(9 - digits as u32), digits)
        }
        Field::Half => Name(if at.hour12().0 { "Pm" } else { "Am" }, 2),
        Field::Week => number(at.ordinal().div_ceil(7), 2),
        Field::IsoWeek => number(at.iso_week().week(), 2),
        Field::Quarter => number(at.month0() / 3 + 1, 1),
    }
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::*;

    #[test]
    fn patterns_are_written_as_in_oracle_and_postgresql() {
        let at = NaiveDate::from_ymd_opt(2024, 3, 5).expect("a day");
        let at = at.and_hms_micro_opt(14, 7, 9, 120_450).expect("a time");
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-03-05 14:07:09"),
            ("DD.MM.YY HH12:MI am", "05.03.24 02:07 pm"),
            ("Mon DD, YYYY", "Mar 05, 2024"),
            ("MONTH|Month|FMMonth", "MARCH    |March    |March"),
            ("DY dy Day", "TUE tue Tuesday  "),
            ("FMDD.MM", "5.3"),
            ("SS.MS US FF3", "09.120 120450 120"),
            ("DDD D ID IW WW Q", "065 3 2 10 10 1"),
            ("\"day\" DD\"T\"HH24", "day 05T14"),
            ("", ""),
        ] {
            let written = Pattern::parse(pattern).expect("a pattern").write(&at);
            assert_eq!(written, expected, "{pattern}");
        }
        assert!(Pattern::parse("YYYY-XX").is_err());
        let read = Pattern::parse("DD.MM.YYYY HH24:MI:SS.FF").expect("a pattern").as_strftime();
        assert_eq!(read.expect("can be read"), "%d.%m.%Y %H:%M:%S%.f");
    }
}
