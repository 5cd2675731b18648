//! Fields of CSV records as values of Arrow's types. A field that is not of its column's type is
//! reported with its line, column and text.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, PrimitiveBuilder, StringBuilder, StringViewBuilder, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::csv::CsvForm;
use crate::csv::records::Rows;
use crate::csv::text::not_utf8;
use crate::csv::types::sql_name;
use crate::error::Error;
use crate::instants::written::{day, stamp};

/// The most characters of a value that a message shows.
const VALUE_SHOWN: usize = 60;

/// Rows that cannot be accepted, and why.
pub(crate) type Bad = BTreeMap<usize, Error>;

/// A column of records.
pub(crate) struct Fields<'a> {
    /// The records.
    pub rows: &'a Rows,
    /// The number of the field, from 0.
    pub column: usize,
    /// Its name.
    pub name: &'a str,
    /// Their form.
    pub form: &'a CsvForm,
}

/// Why a field is not a valid value.
enum Wrong {
    /// It is not of its type.
    None,
    /// It has more precision than its type keeps.
    Finer,
    /// It is out of range for the type.
    Beyond,
}

impl Fields<'_> {
    /// The text of a field; `None`: it is NULL.
    fn text(&self, row: usize) -> Option<&[u8]> {
        let (bytes, quoted) = self.rows.field(row, self.column)?;
        (!self.form.is_null(bytes, quoted)).then_some(bytes)
    }

    fn wrong(&self, row: usize, data_type: &DataType, wrong: &Wrong) -> Error {
        let line = self.rows.line_of(row, self.column);
        let bytes = self.text(row).unwrap_or_default();
        let Ok(text) = std::str::from_utf8(bytes) else {
            return not_utf8(line, self.name, self.form.place);
        };
        let mut shown: String = text.chars().take(VALUE_SHOWN).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        let why = match wrong {
            Wrong::None => "is not",
            Wrong::Finer => "says more than is kept by",
            Wrong::Beyond => "is beyond the ends of",
        };
        let text =
            format!("line {line}, column {}: {shown:?} {why} {}", self.name, sql_name(data_type));
        let number = if data_type.is_numeric() { 1722 } else { 1843 };
        let next = self.form.place.type_way(self.name);
        Error::new(number, if number == 1722 { "22P02" } else { "22007" }, text).next(next)
    }

    /// The value of a field of a type without an empty text: an empty field is NULL too.
    fn value(&self, row: usize) -> Option<&[u8]> {
        self.text(row).filter(|bytes| !bytes.is_empty())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        data_type: &DataType,
        bad: &mut Bad,
        read: impl Fn(&[u8]) -> Result<T::Native, Wrong>,
    ) -> ArrayRef {
        let mut values = PrimitiveBuilder::<T>::with_capacity(self.rows.len());
        for row in 0..self.rows.len() {
            let Some(bytes) = self.value(row) else {
                values.append_null();
                continue;
            };
            match read(bytes) {
                Ok(value) => values.append_value(value),
                Err(wrong) => {
                    values.append_null();
                    bad.entry(row).or_insert_with(|| self.wrong(row, data_type, &wrong));
                }
            }
        }
        Arc::new(values.finish().with_data_type(data_type.clone()))
    }

    fn number<T: ArrowPrimitiveType>(&self, data_type: &DataType, bad: &mut Bad) -> ArrayRef
    where
        T::Native: std::str::FromStr,
    {
        self.primitive::<T>(data_type, bad, |bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| Wrong::None)?.trim();
            text.parse().map_err(|_| {
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    true => Wrong::Beyond,
                    false => Wrong::None,
                }
            })
        })
    }

    fn stamps<T: ArrowPrimitiveType<Native = i64>>(
        &self,
        data_type: &DataType,
        digits: u8,
        bad: &mut Bad,
    ) -> ArrayRef {
        let has_zone = matches!(data_type, DataType::Timestamp(_, Some(_)));
        let unit = 10i64.pow(u32::from(digits));
        let parts = 1_000_000_000 / unit;
        self.primitive::<T>(data_type, bad, |bytes| {
            let stamp = stamp(bytes.trim_ascii()).ok_or(Wrong::None)?;
            // An offset would be lost, and a text without one has no zone.
            if stamp.digits > digits || (stamp.has_offset && !has_zone) {
                return Err(Wrong::Finer);
            }
            let whole = stamp.seconds.checked_mul(unit).ok_or(Wrong::Beyond)?;
            whole.checked_add(i64::from(stamp.nanos) / parts).ok_or(Wrong::Beyond)
        })
    }

    fn booleans(&self, bad: &mut Bad) -> ArrayRef {
        let mut values = BooleanBuilder::with_capacity(self.rows.len());
        for row in 0..self.rows.len() {
            let Some(bytes) = self.value(row) else {
                values.append_null();
                continue;
            };
            let is =
                |words: &[&str]| words.iter().any(|w| bytes.eq_ignore_ascii_case(w.as_bytes()));
            match (
                is(&["true", "t", "1", "yes", "y", "on"]),
                is(&["false", "f", "0", "no", "n", "off"]),
            ) {
                (true, _) => values.append_value(true),
                (_, true) => values.append_value(false),
                _ => {
                    values.append_null();
                    let wrong = || self.wrong(row, &DataType::Boolean, &Wrong::None);
                    bad.entry(row).or_insert_with(wrong);
                }
            }
        }
        Arc::new(values.finish())
    }

    /// Texts; `all`: the bytes of all records, if they are UTF-8.
    fn texts(&self, all: Option<&str>, bad: &mut Bad) -> ArrayRef {
        let mut values = StringBuilder::with_capacity(self.rows.len(), 0);
        self.each_text(all, bad, |text| match text {
            Some(text) => values.append_value(text),
            None => values.append_null(),
        });
        Arc::new(values.finish())
    }

    fn views(&self, all: Option<&str>, bad: &mut Bad) -> ArrayRef {
        let mut values = StringViewBuilder::with_capacity(self.rows.len());
        self.each_text(all, bad, |text| match text {
            Some(text) => values.append_value(text),
            None => values.append_null(),
        });
        Arc::new(values.finish())
    }

    fn each_text(&self, all: Option<&str>, bad: &mut Bad, mut append: impl FnMut(Option<&str>)) {
        for row in 0..self.rows.len() {
            let place = self.rows.place(row, self.column);
            let bytes = self.text(row);
            let text = match (all, place, bytes) {
                (_, _, None) | (_, None, _) => {
                    append(None);
                    continue;
                }
                (Some(all), Some((from, to, _)), _) => all.get(from..to),
                (None, _, Some(bytes)) => std::str::from_utf8(bytes).ok(),
            };
            append(text);
            if text.is_none() {
                let line = self.rows.line_of(row, self.column);
                bad.entry(row).or_insert_with(|| not_utf8(line, self.name, self.form.place));
            }
        }
    }

    /// Values of any other type: read as casts from text read them.
    fn cast(&self, data_type: &DataType, all: Option<&str>, bad: &mut Bad) -> ArrayRef {
        let texts = self.texts(all, bad);
        let empty_is_null = !matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::LargeUtf8
        );
        let texts = if empty_is_null { without_empty(&texts) } else { texts };
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        if let Ok(array) = cast_with_options(&texts, data_type, &strict) {
            return array;
        }
        let Ok(array) = cast_with_options(&texts, data_type, &CastOptions::default()) else {
            // A type that text cannot be cast to.
            for row in 0..self.rows.len() {
                bad.entry(row).or_insert_with(|| self.wrong(row, data_type, &Wrong::None));
            }
            return new_null_array(data_type, self.rows.len());
        };
        for row in 0..self.rows.len() {
            if array.is_null(row) && !texts.is_null(row) {
                bad.entry(row).or_insert_with(|| self.wrong(row, data_type, &Wrong::None));
            }
        }
        array
    }

    /// The column as an array of a type. A field that is not one of its values becomes null, and its row
    /// is added to the bad ones.
    pub(crate) fn array(&self, data_type: &DataType, all: Option<&str>, bad: &mut Bad) -> ArrayRef {
        match data_type {
            DataType::Utf8 => self.texts(all, bad),
            DataType::Utf8View => self.views(all, bad),
            DataType::Boolean => self.booleans(bad),
            DataType::Int8 => self.number::<Int8Type>(data_type, bad),
            DataType::Int16 => self.number::<Int16Type>(data_type, bad),
            DataType::Int32 => self.number::<Int32Type>(data_type, bad),
            DataType::Int64 => self.number::<Int64Type>(data_type, bad),
            DataType::UInt8 => self.number::<UInt8Type>(data_type, bad),
            DataType::UInt16 => self.number::<UInt16Type>(data_type, bad),
            DataType::UInt32 => self.number::<UInt32Type>(data_type, bad),
            DataType::UInt64 => self.number::<UInt64Type>(data_type, bad),
            DataType::Float32 => self.number::<Float32Type>(data_type, bad),
            DataType::Float64 => self.number::<Float64Type>(data_type, bad),
            DataType::Date32 => self.primitive::<Date32Type>(data_type, bad, |bytes| {
                let day = day(bytes.trim_ascii()).ok_or(Wrong::None)?;
                i32::try_from(day).map_err(|_| Wrong::Beyond)
            }),
            DataType::Timestamp(TimeUnit::Second, _) => {
                self.stamps::<TimestampSecondType>(data_type, 0, bad)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.stamps::<TimestampMillisecondType>(data_type, 3, bad)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.stamps::<TimestampMicrosecondType>(data_type, 6, bad)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.stamps::<TimestampNanosecondType>(data_type, 9, bad)
            }
            _ => self.cast(data_type, all, bad),
        }
    }
}

/// Texts in which the empty ones are null.
fn without_empty(texts: &ArrayRef) -> ArrayRef {
    use arrow::array::AsArray;
    let all = texts.as_string::<i32>();
    if all.iter().all(|text| text != Some("")) {
        return Arc::clone(texts);
    }
    let kept: arrow::array::StringArray =
        all.iter().map(|text| text.filter(|t| !t.is_empty())).collect();
    Arc::new(kept)
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;
    use arrow::util::display::{ArrayFormatter, FormatOptions};

    use super::*;
    use crate::csv::records::Records;

    fn column(text: &str, data_type: &DataType) -> (Vec<String>, Vec<String>) {
        let form = CsvForm::new(b',');
        let mut records = Records::new(text.as_bytes(), &form);
        records.blank_is_row = true;
        let mut rows = Rows::default();
        records.read(&mut rows, usize::MAX).unwrap();
        let fields = Fields { rows: &rows, column: 0, name: "c", form: &form };
        let mut bad = Bad::new();
        let array = fields.array(data_type, std::str::from_utf8(rows.bytes()).ok(), &mut bad);
        assert_eq!(array.data_type(), data_type);
        let options = FormatOptions::new().with_null("null");
        let shown = ArrayFormatter::try_new(&array, &options).unwrap();
        let values = (0..array.len()).map(|row| shown.value(row).to_string()).collect();
        (values, bad.values().map(|error| error.message.clone()).collect())
    }

    #[test]
    fn values_are_read_strictly() {
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let utc = DataType::Timestamp(TimeUnit::Second, Some("+00:00".into()));
        for (text, data_type, wanted) in [
            ("1\n\n\"\"\n-3\n", &DataType::Int64, &["1", "null", "null", "-3"][..]),
            ("a\n\n\"\"\n", &DataType::Utf8, &["a", "null", ""]),
            ("a\n\n\"\"\n", &DataType::Utf8View, &["a", "null", ""]),
            ("a\n\n\"\"\n", &DataType::LargeUtf8, &["a", "null", ""]),
            ("TRUE\nf\n\n", &DataType::Boolean, &["true", "false", "null"]),
            ("1.50\n\n\"\"\n", &DataType::Decimal128(5, 2), &["1.50", "null", "null"]),
            ("2024-02-29\n", &DataType::Date32, &["2024-02-29"]),
            ("2024-02-29 24:00:00\n", &seconds, &["2024-03-01T00:00:00"]),
            ("2024-02-29\n", &seconds, &["2024-02-29T00:00:00"]),
            ("2024-02-29 02:00:00+02:00\n", &utc, &["2024-02-29T00:00:00Z"]),
            ("10:11:12\n", &DataType::Time64(TimeUnit::Microsecond), &["10:11:12"]),
            ("1e3\ninf\n", &DataType::Float64, &["1000.0", "inf"]),
        ] {
            let (values, bad) = column(text, data_type);
            let wanted: Vec<String> = wanted.iter().map(|own| (*own).to_string()).collect();
            assert_eq!((values, bad.len()), (wanted, 0), "{text:?}: {bad:?}");
        }
        for (text, data_type, told) in [
            ("1\nx\n", &DataType::Int64, "line 2, column c: \"x\" is not bigint"),
            ("300\n", &DataType::Int8, "line 1, column c: \"300\" is beyond the ends of tinyint"),
            ("\"a\n\n1\"\n2\nx\n", &DataType::Utf8, ""),
            (
                "1\n\n2024-02-30\n",
                &DataType::Date32,
                "line 3, column c: \"2024-02-30\" is not date",
            ),
            ("2024-01-01 00:00:00.5\n", &seconds, "says more than is kept by timestamp(0)"),
            ("2024-01-01 00:00:00Z\n", &seconds, "says more than is kept by timestamp(0)"),
            ("9999-01-01 00:00:00\n", &nanos, "is beyond the ends of timestamp(9)"),
            ("1\nx\n", &DataType::Decimal128(5, 2), "line 2, column c: \"x\" is not decimal(5,2)"),
        ] {
            let (_, bad) = column(text, data_type);
            let last = bad.last().cloned().unwrap_or_default();
            assert!(last.contains(told), "{text:?}: {bad:?}");
        }
    }
}
