//! Type inference for the columns of a CSV file: the narrowest type that keeps every value.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};

use crate::csv::header::VALUE_MAX;
use crate::error::Error;
use crate::instants::written::{looks_like_day, looks_like_stamp};

/// Decimal digits that a double always keeps.
const SURE_DIGITS: usize = 15;
/// Years that nanoseconds in 64 bits cover completely.
const NANO_YEARS: std::ops::RangeInclusive<i64> = 1678..=2261;

/// The kinds of values seen in a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnSeen {
    values: u64,
    /// Fields that are `""`.
    empty: u64,
    is_text: bool,
    booleans: bool,
    numbers: Option<Numbers>,
    /// NaN or infinity, which count as numbers only beside other numbers.
    not_finite: bool,
    days: bool,
    stamps: Option<Stamps>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers {
    /// The most digits before the point, and after it.
    whole: usize,
    behind: usize,
    /// One has a point or an exponent.
    broken: bool,
    exponent: bool,
    /// One is an integer beyond 64 bits.
    large: bool,
    /// One is not the shortest text of the double that it would become.
    inexact: bool,
    /// One is an integer with leading zeros: a code.
    padded: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamps {
    digits: u8,
    with_offset: bool,
    without: bool,
    beyond_nanos: bool,
}

impl Numbers {
    fn with(self, other: Numbers) -> Numbers {
        Numbers {
            whole: self.whole.max(other.whole),
            behind: self.behind.max(other.behind),
            broken: self.broken | other.broken,
            exponent: self.exponent | other.exponent,
            large: self.large | other.large,
            inexact: self.inexact | other.inexact,
            padded: self.padded | other.padded,
        }
    }

    fn data_type(self) -> DataType {
        let (whole, behind) = (self.whole.max(1), self.behind);
        let fits = whole + behind <= usize::from(DECIMAL128_MAX_PRECISION);
        let decimal = || DataType::Decimal128((whole + behind) as u8, behind as i8);
        match self {
            Numbers { padded: true, .. } => DataType::Utf8,
            Numbers { broken: false, large: false, .. } => DataType::Int64,
            Numbers { broken: false, .. } if fits => {
                DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)
            }
            Numbers { broken: false, .. } => DataType::Utf8,
            Numbers { inexact: false, .. } => DataType::Float64,
            Numbers { exponent: false, .. } if fits => decimal(),
            _ => DataType::Utf8,
        }
    }
}

impl Numbers {
    /// With NaN or infinity, which only a double can hold.
    fn with_not_finite(self) -> DataType {
        match self.padded || self.inexact || self.large {
            true => DataType::Utf8,
            false => DataType::Float64,
        }
    }
}

impl Stamps {
    fn with(self, other: Stamps) -> Stamps {
        Stamps {
            digits: self.digits.max(other.digits),
            with_offset: self.with_offset | other.with_offset,
            without: self.without | other.without,
            beyond_nanos: self.beyond_nanos | other.beyond_nanos,
        }
    }

    fn data_type(self, has_days: bool) -> DataType {
        let unit = match self.digits {
            0 => TimeUnit::Second,
            1..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ if self.beyond_nanos => return DataType::Utf8,
            _ => TimeUnit::Nanosecond,
        };
        match (self.with_offset, self.without || has_days) {
            (true, true) => DataType::Utf8,
            (true, false) => DataType::Timestamp(unit, Some("+00:00".into())),
            (false, _) => DataType::Timestamp(unit, None),
        }
    }
}

impl ColumnSeen {
    /// Adds a value, which is not NULL.
    pub(crate) fn add(&mut self, value: &[u8]) {
        if value.is_empty() {
            self.empty += 1;
            return;
        }
        self.values += 1;
        if self.is_text {
            return;
        }
        if value.len() > VALUE_MAX * 4 {
            self.is_text = true;
        } else if let Some(number) = number(value) {
            self.numbers = Some(self.numbers.map_or(number, |own| own.with(number)));
        } else if is_not_finite(value) {
            self.not_finite = true;
        } else if looks_like_day(value) {
            self.days = true;
        } else if let Some((digits, with_offset, year)) = looks_like_stamp(value) {
            let beyond_nanos = !NANO_YEARS.contains(&year);
            let stamp = Stamps { digits, with_offset, without: !with_offset, beyond_nanos };
            self.stamps = Some(self.stamps.map_or(stamp, |own| own.with(stamp)));
        } else if value.eq_ignore_ascii_case(b"true") || value.eq_ignore_ascii_case(b"false") {
            self.booleans = true;
        } else {
            self.is_text = true;
        }
        let is_time = self.days || self.stamps.is_some();
        let is_number = self.numbers.is_some() || self.not_finite;
        let kinds = [self.booleans, is_number, is_time];
        self.is_text |= kinds.iter().filter(|kind| **kind).count() > 1;
    }

    /// Whether it has numbers with leading zeros.
    pub(crate) fn is_padded(&self) -> bool {
        self.numbers.is_some_and(|numbers| numbers.padded)
    }

    /// The type that keeps all its values: text, if there is no such type.
    pub(crate) fn data_type(&self) -> DataType {
        if self.is_text {
            return DataType::Utf8;
        }
        match (self.numbers, self.stamps) {
            (Some(numbers), _) if self.not_finite => numbers.with_not_finite(),
            (Some(numbers), _) => numbers.data_type(),
            (None, Some(stamps)) => stamps.data_type(self.days),
            (None, None) if self.days => DataType::Date32,
            (None, None) if self.booleans => DataType::Boolean,
            (None, None) => DataType::Utf8,
        }
    }

    /// What the user should know about a column of that name whose type was inferred here.
    pub(crate) fn notice(&self, name: &str) -> Option<String> {
        let data_type = self.data_type();
        let as_text = |why: &str| {
            Some(format!("column {name} is read as text: {why}; --type {name}=TYPE reads it so"))
        };
        if data_type == DataType::Utf8 && !self.is_text {
            return match (self.numbers, self.stamps) {
                (Some(numbers), _) if !numbers.padded => {
                    as_text("its numbers have more digits than a number keeps")
                }
                (None, Some(stamps)) if stamps.with_offset && stamps.without => {
                    as_text("some of its times have an offset, some have none")
                }
                (None, Some(stamps)) if stamps.with_offset => {
                    as_text("some of its values are days, some times with an offset")
                }
                (None, Some(_)) => {
                    as_text("years so far away and billionths of a second do not fit one type")
                }
                _ => None,
            };
        }
        if matches!(data_type, DataType::Timestamp(_, Some(_))) {
            return Some(format!("the times of column {name} have offsets: they are kept as UTC"));
        }
        let is_text = data_type == DataType::Utf8;
        (self.empty > 0 && !is_text).then(|| {
            format!(
                "column {name}: {} empty fields in quotes are read as null, for the others are {}",
                self.empty,
                word_of(&data_type)
            )
        })
    }
}

/// The word for values of a type.
pub(crate) fn word_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "booleans",
        DataType::Date32 | DataType::Date64 => "dates",
        DataType::Timestamp(..) => "timestamps",
        DataType::Time32(_) | DataType::Time64(_) => "times",
        DataType::Interval(_) => "intervals",
        data_type if data_type.is_integer() => "whole numbers",
        data_type if data_type.is_numeric() => "numbers",
        _ => "values of another type",
    }
}

/// The SQL name of a type, if it has one.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    let digits = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "varchar".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".into(),
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double".into(),
        DataType::Date32 => "date".into(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time({})", digits(unit)),
        DataType::Timestamp(unit, None) => format!("timestamp({})", digits(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("timestamptz({})", digits(unit)),
        DataType::List(item) => format!("{}[]", sql_name(item.data_type())),
        other => other.to_string(),
    }
}

/// The type with that SQL name.
///
/// # Errors
/// 00902 with the allowed names.
pub fn type_of_name(text: &str) -> Result<DataType, Error> {
    let lower = text.trim().to_ascii_lowercase();
    let (name, inside) = match lower.split_once('(') {
        Some((name, rest)) => (name.trim().to_owned(), rest.strip_suffix(')')),
        None => (lower.clone(), Some("")),
    };
    let unknown = || {
        Error::new(902, "42704", format!("there is no type \"{text}\" for a column")).next(
            "boolean, smallint, int, bigint, real, double, decimal(p,s), date, time, timestamp, \
             timestamp(0 to 9), timestamptz, varchar, bytea",
        )
    };
    let numbers = inside.ok_or_else(unknown)?.split(',').map(str::trim).filter(|n| !n.is_empty());
    let numbers: Vec<u8> =
        numbers.map(|n| n.parse()).collect::<Result<_, _>>().map_err(|_| unknown())?;
    let unit = |usual: TimeUnit| match numbers.as_slice() {
        [] => Ok(usual),
        [0] => Ok(TimeUnit::Second),
        [1..=3] => Ok(TimeUnit::Millisecond),
        [4..=6] => Ok(TimeUnit::Microsecond),
        [7..=9] => Ok(TimeUnit::Nanosecond),
        _ => Err(unknown()),
    };
    Ok(match name.as_str() {
        "varchar" | "varchar2" | "text" | "string" | "char" | "clob" => DataType::Utf8,
        "bytea" | "blob" | "raw" | "binary" => DataType::Binary,
        "boolean" | "bool" => DataType::Boolean,
        "tinyint" => DataType::Int8,
        "smallint" | "int2" => DataType::Int16,
        "int" | "integer" | "int4" => DataType::Int32,
        "bigint" | "int8" => DataType::Int64,
        "real" | "float4" => DataType::Float32,
        "double" | "double precision" | "float" | "float8" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => match unit(TimeUnit::Microsecond)? {
            small @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(small),
            large => DataType::Time64(large),
        },
        "timestamp" => DataType::Timestamp(unit(TimeUnit::Microsecond)?, None),
        "timestamptz" | "timestamp with time zone" => {
            DataType::Timestamp(unit(TimeUnit::Microsecond)?, Some("+00:00".into()))
        }
        "decimal" | "numeric" | "number" => match numbers.as_slice() {
            [] => DataType::Decimal128(38, 10),
            [precision @ 1..=38] => DataType::Decimal128(*precision, 0),
            [precision @ 1..=38, scale] if scale <= precision => {
                DataType::Decimal128(*precision, *scale as i8)
            }
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    })
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// NaN and the two infinities, as programs write them.
fn is_not_finite(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    [&b"nan"[..], b"inf", b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word))
}

/// The properties of a number, if the text is one: `-1`, `1.5`, `.5`, `2e10`.
fn number(text: &[u8]) -> Option<Numbers> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(unsigned);
    let mut rest = &unsigned[whole..];
    let mut found = Numbers { whole, ..Numbers::default() };
    if let Some(fraction) = rest.strip_prefix(b".") {
        found.behind = digits(fraction);
        found.broken = true;
        rest = &fraction[found.behind..];
    }
    if whole + found.behind == 0 {
        return None;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+"));
        let exponent = exponent.unwrap_or(&rest[1..]);
        let length = digits(exponent);
        if length == 0 {
            return None;
        }
        (found.exponent, found.broken) = (true, true);
        rest = &exponent[length..];
    }
    if !rest.is_empty() {
        return None;
    }
    found.padded = !found.broken && whole > 1 && unsigned[0] == b'0';
    // A number is ASCII.
    let shown = std::str::from_utf8(text).ok()?;
    found.large = !found.broken && whole >= 19 && shown.parse::<i64>().is_err();
    let zeros = unsigned.iter().take_while(|byte| matches!(byte, b'0' | b'.')).count();
    let counted = unsigned[zeros..].iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let significant = counted.filter(|byte| byte.is_ascii_digit()).count();
    found.inexact = (significant > SURE_DIGITS || found.exponent) && !is_exact(shown, significant);
    Some(found)
}

/// Whether a double keeps all the digits of a number: they equal those of its shortest text.
fn is_exact(text: &str, significant: usize) -> bool {
    let Ok(value) = text.parse::<f64>() else { return false };
    if significant == 0 || value.is_subnormal() {
        return true;
    }
    let shortest = || digits_of(&format!("{value:e}")) == digits_of(text);
    value.is_normal() && (significant <= SURE_DIGITS || shortest())
}

/// The digits of a number from the first to the last nonzero one.
fn digits_of(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    all.trim_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(values: &[&str]) -> String {
        let mut seen = ColumnSeen::default();
        values.iter().for_each(|value| seen.add(value.as_bytes()));
        seen.data_type().to_string()
    }

    #[test]
    fn a_type_keeps_every_value_of_its_column() {
        for (values, wanted) in [
            (&[][..], "Utf8"),
            (&[""], "Utf8"),
            (&["1", "-2"], "Int64"),
            (&["1", ""], "Int64"),
            (&["9223372036854775807"], "Int64"),
            (&["9223372036854775808", "1"], "Decimal128(38, 0)"),
            (&["999999999999999999999999999999999999999"], "Utf8"),
            (&["1", "2.5"], "Float64"),
            (&["1e300", "2"], "Float64"),
            (&["1e400"], "Utf8"),
            (&["1e-400"], "Utf8"),
            (&["0.30000000000000004"], "Float64"),
            (&["3.14159265358979323846"], "Decimal128(21, 20)"),
            (&["12345678901234567.5"], "Decimal128(18, 1)"),
            (&["12345678901234567", "0.5"], "Decimal128(18, 1)"),
            (&["1234567890123456", "0.5"], "Float64"),
            (&["5e-324", "0e5", "1.50"], "Float64"),
            (&["007", "1"], "Utf8"),
            (&["007", "1.5"], "Utf8"),
            (&["0.5", "0"], "Float64"),
            (&["true", "FALSE"], "Boolean"),
            (&["true", "1"], "Utf8"),
            (&["2024-02-30"], "Date32"),
            (&["2024-02-29", "2024-02-29 01:02:03"], "Timestamp(s)"),
            (&["2024-02-29 01:02:03.10", "2024-02-29T24:00:00"], "Timestamp(ms)"),
            (&["2024-02-29 01:02:03.123456"], "Timestamp(µs)"),
            (&["2024-02-29 01:02:03.123456000"], "Timestamp(µs)"),
            (&["2024-02-29 01:02:03.123456789"], "Timestamp(ns)"),
            (&["2024-02-29 01:02:03.123456789", "9999-12-31 00:00:00"], "Utf8"),
            (&["2024-02-29 01:02:03.123456", "9999-12-31 00:00:00"], "Timestamp(µs)"),
            (&["2024-02-29 01:02:03Z"], "Timestamp(s, \"+00:00\")"),
            (&["2024-02-29 01:02:03Z", "2024-02-29 01:02:03"], "Utf8"),
            (&["2024-02-29", "x"], "Utf8"),
            (&["1.5", "NaN", "-inf", "Infinity"], "Float64"),
            (&["1", "nan"], "Float64"),
            (&["NaN"], "Utf8"),
            (&["NaN", "x"], "Utf8"),
            (&["12345678901234567890.5", "NaN"], "Utf8"),
            (&["+5"], "Utf8"),
            (&["1", "1-2"], "Utf8"),
        ] {
            assert_eq!(type_of(values), wanted, "{values:?}");
        }
    }

    #[test]
    fn what_is_not_as_expected_is_told() {
        let notice = |values: &[&str]| {
            let mut seen = ColumnSeen::default();
            values.iter().for_each(|value| seen.add(value.as_bytes()));
            seen.notice("c").unwrap_or_default()
        };
        assert_eq!(notice(&["1", "2"]), "");
        assert_eq!(notice(&["x", ""]), "");
        assert_eq!(notice(&["007"]), "");
        assert!(notice(&["1", ""]).contains("1 empty fields in quotes are read as null"));
        assert!(notice(&["2024-02-29 01:02:03Z"]).contains("kept as UTC"));
        assert!(notice(&["2024-02-29 01:02:03Z", "2024-02-29"]).contains("read as text"));
        let far = ["2024-02-29 01:02:03.123456789", "9999-12-31 00:00:00"];
        assert!(notice(&far).contains("years so far away"));
    }

    #[test]
    fn types_have_the_names_of_sql() {
        for (name, wanted) in [
            ("varchar", "varchar"),
            ("VARCHAR2(30)", "varchar"),
            ("Integer", "int"),
            ("number", "decimal(38,10)"),
            ("number(5)", "decimal(5,0)"),
            ("decimal(5, 2)", "decimal(5,2)"),
            ("timestamp", "timestamp(6)"),
            ("timestamp(9)", "timestamp(9)"),
            ("timestamptz", "timestamptz(6)"),
            ("time", "time(6)"),
            ("time(0)", "time(0)"),
        ] {
            assert_eq!(sql_name(&type_of_name(name).unwrap()), wanted, "{name}");
        }
        for name in ["", "vachar", "decimal(39)", "decimal(5,6)", "timestamp(10)", "int("] {
            assert_eq!(type_of_name(name).unwrap_err().number, 902, "{name}");
        }
    }
}
