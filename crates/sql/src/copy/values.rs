//! Fields of a COPY as values of columns, read as PostgreSQL reads them.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringArray, StringBuilder,
    StringViewBuilder,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};

use super::records::Rows;
use crate::bytes;
use crate::columnar::write::column_of;
use crate::csv::types::sql_name;
use crate::error::Error;
use crate::instants::written::{day, stamp};
use crate::instants::zoned;
use crate::numbers::from_text::numbers_of;
use crate::numbers::narrow::casted;

/// The most characters of a value that a message shows.
const SHOWN: usize = 60;

/// Why a field is not a valid value, and the first row with such a field.
enum Wrong {
    /// It is not of its type.
    Syntax,
    /// It is out of range for the type.
    Range,
    /// Its bytes are not UTF-8.
    Letters,
}

type Read<T> = Result<T, Wrong>;

/// A column of records.
pub(crate) struct Fields<'a> {
    pub rows: &'a Rows,
    /// The number of the field.
    pub column: usize,
    /// The column of the table.
    pub field: &'a Field,
    /// The table.
    pub table: &'a str,
}

impl Fields<'_> {
    /// The values.
    ///
    /// # Errors
    /// 22P02, 22003, 22007, 22021, 22001 with the line and the column.
    pub fn array(&self) -> Result<ArrayRef, Error> {
        let array = match self.field.data_type() {
            DataType::Utf8View => self.views()?,
            DataType::Utf8 => Arc::new(self.texts()?),
            DataType::Int16 => self.primitive::<Int16Type>(integer)?,
            DataType::Int32 => self.primitive::<Int32Type>(integer)?,
            DataType::Int64 => self.primitive::<Int64Type>(integer)?,
            DataType::Float32 => self.primitive::<Float32Type>(float)?,
            DataType::Float64 => self.primitive::<Float64Type>(float)?,
            DataType::Boolean => self.booleans()?,
            DataType::Binary | DataType::BinaryView => self.binary()?,
            DataType::Date32 => self.primitive::<Date32Type>(|text| {
                let text = text.split_once([' ', 'T']).map_or(text, |(day, _)| day);
                i32::try_from(day(text.as_bytes()).ok_or(Wrong::Syntax)?).map_err(|_| Wrong::Range)
            })?,
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                // Time zones of column types exist.
                let zone = zone.as_deref().and_then(|zone| zoned::zone_of(zone).ok());
                self.primitive::<TimestampMicrosecondType>(|text| micros(text, zone.as_ref()))?
            }
            _ => self.cast()?,
        };
        // Lengths, and values that are stored in another form.
        column_of(array, self.field).map_err(|mut error| {
            error.message = format!("COPY {}, {}", self.table, error.message);
            error
        })
    }

    fn wrong(&self, row: usize, wrong: &Wrong) -> Error {
        let bytes = self.rows.field(row, self.column).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        let data_type = self.field.data_type();
        let place = format!(
            "COPY {}, line {}, column {}",
            self.table,
            self.rows.line(row),
            self.field.name()
        );
        let is_time = data_type.is_temporal();
        let (number, state, what) = match wrong {
            Wrong::Letters => {
                let text = format!("{place}: its letters are not UTF-8");
                let next = "name the encoding: WITH (ENCODING 'latin1')";
                return Error::new(29913, "22021", text).next(next);
            }
            Wrong::Syntax if is_time => (1843, "22007", "is no"),
            Wrong::Range if is_time => (1843, "22008", "is beyond the ends of"),
            Wrong::Syntax => (1722, "22P02", "is no"),
            Wrong::Range => (1426, "22003", "is beyond the ends of"),
        };
        let text = format!("{place}: {shown:?} {what} {}", sql_name(data_type));
        Error::new(number, state, text)
    }

    /// The text of each row; stops at the first that is not UTF-8.
    fn each<'a>(&'a self, mut take: impl FnMut(Option<&'a str>) -> Read<()>) -> Result<(), Error> {
        // Usually all of it is UTF-8, and is checked once.
        let all = std::str::from_utf8(self.rows.bytes()).ok();
        for row in 0..self.rows.len() {
            let text = match (self.rows.place(row, self.column), all) {
                (None, _) => None,
                (Some((from, to)), Some(all)) => Some(all.get(from..to)),
                (Some((from, to)), None) => {
                    Some(std::str::from_utf8(&self.rows.bytes()[from..to]).ok())
                }
            };
            let taken = match text {
                None => take(None),
                Some(None) => Err(Wrong::Letters),
                // PostgreSQL's texts never contain one.
                Some(Some(text)) if text.as_bytes().contains(&0) => Err(Wrong::Letters),
                Some(text) => take(text),
            };
            taken.map_err(|wrong| self.wrong(row, &wrong))?;
        }
        Ok(())
    }

    fn views(&self) -> Result<ArrayRef, Error> {
        let mut values = StringViewBuilder::with_capacity(self.rows.len());
        self.each(|text| {
            values.append_option(text);
            Ok(())
        })?;
        Ok(Arc::new(values.finish()))
    }

    fn texts(&self) -> Result<StringArray, Error> {
        let mut values = StringBuilder::with_capacity(self.rows.len(), 0);
        self.each(|text| {
            values.append_option(text);
            Ok(())
        })?;
        Ok(values.finish())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        read: impl Fn(&str) -> Read<T::Native>,
    ) -> Result<ArrayRef, Error> {
        let mut values = PrimitiveBuilder::<T>::with_capacity(self.rows.len());
        self.each(|text| {
            match text {
                Some(text) => values.append_value(read(text.trim_ascii())?),
                None => values.append_null(),
            }
            Ok(())
        })?;
        Ok(Arc::new(values.finish().with_data_type(self.field.data_type().clone())))
    }

    fn booleans(&self) -> Result<ArrayRef, Error> {
        let mut values = BooleanBuilder::with_capacity(self.rows.len());
        self.each(|text| {
            values.append_option(text.map(|text| boolean(text.trim_ascii())).transpose()?);
            Ok(())
        })?;
        Ok(Arc::new(values.finish()))
    }

    fn binary(&self) -> Result<ArrayRef, Error> {
        let mut values = BinaryBuilder::with_capacity(self.rows.len(), 0);
        self.each(|text| {
            values.append_option(
                text.map(|text| bytes::read(text.as_bytes()).ok_or(Wrong::Syntax)).transpose()?,
            );
            Ok(())
        })?;
        Ok(Arc::new(values.finish()))
    }

    /// Arrays, read as casts from text read them; for a text that is not an array the line is reported.
    fn arrays(&self, texts: &ArrayRef) -> Result<ArrayRef, Error> {
        let to = self.field.data_type();
        let read = |texts: &ArrayRef| casted(texts, to);
        if let Ok(array) = read(texts) {
            return Ok(array);
        }
        for row in 0..texts.len() {
            if let Err(error) = read(&texts.slice(row, 1)) {
                let mut told = crate::failure::from_datafusion(&error);
                let (line, name) = (self.rows.line(row), self.field.name());
                told.message =
                    format!("COPY {}, line {line}, column {name}: {}", self.table, told.message);
                return Err(told);
            }
        }
        read(texts).map_err(|error| crate::failure::from_datafusion(&error))
    }

    /// Values of any other type: read as casts from text read them.
    fn cast(&self) -> Result<ArrayRef, Error> {
        let (texts, to) = (Arc::new(self.texts()?) as ArrayRef, self.field.data_type());
        if let DataType::List(_) = to {
            return self.arrays(&texts);
        }
        let read = |is_try: bool| match to.is_decimal() {
            true => numbers_of(&texts, to, is_try),
            false => {
                let options = CastOptions { safe: is_try, ..CastOptions::default() };
                cast_with_options(&texts, to, &options)
            }
        };
        if let Ok(array) = read(false) {
            return Ok(array);
        }
        let array = read(true).map_err(|error| crate::failure::from_arrow(&error))?;
        let bad = (0..array.len()).find(|row| array.is_null(*row) && !texts.is_null(*row));
        let Some(row) = bad else { return Ok(array) };
        let is_number = || {
            let wide = numbers_of(&texts.slice(row, 1), &DataType::Float64, true);
            wide.is_ok_and(|wide| wide.is_valid(0))
        };
        let is_beyond = to.is_decimal() && is_number();
        Err(self.wrong(row, if is_beyond { &Wrong::Range } else { &Wrong::Syntax }))
    }
}

fn integer<N: std::str::FromStr>(text: &str) -> Read<N> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Wrong::Range,
            false => Wrong::Syntax,
        }
    })
}

fn float<N: std::str::FromStr + Copy + Into<f64>>(text: &str) -> Read<N> {
    let value: N = text.parse().map_err(|_| Wrong::Syntax)?;
    // A number written in digits is finite.
    let is_infinite = value.into().is_infinite();
    match is_infinite && text.bytes().any(|byte| byte.is_ascii_digit()) {
        true => Err(Wrong::Range),
        false => Ok(value),
    }
}

/// As PostgreSQL reads a boolean: unambiguous prefixes of a word are accepted too.
fn boolean(text: &str) -> Read<bool> {
    let begins = |word: &str, least: usize| {
        text.len() >= least
            && text.len() <= word.len()
            && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        return Ok(true);
    }
    if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        return Ok(false);
    }
    Err(Wrong::Syntax)
}

/// Microseconds, of local time in the zone if the text has no offset.
fn micros(text: &str, zone: Option<&Tz>) -> Read<i64> {
    let mut own = stamp(text.as_bytes());
    if own.is_none()
        && let Some((day, time)) = text.split_once([' ', 'T'])
        && time.len() == 5
    {
        // Seconds may be left out.
        own = stamp(format!("{day} {time}:00").as_bytes());
    }
    let stamp = own.ok_or(Wrong::Syntax)?;
    let rounded = (i64::from(stamp.nanos) + 500) / 1000;
    let micros = stamp.seconds.checked_mul(1_000_000).ok_or(Wrong::Range)?;
    let micros = micros.checked_add(rounded).ok_or(Wrong::Range)?;
    match zone.filter(|_| !stamp.has_offset) {
        Some(zone) => zoned::instant_of(micros, zone).ok_or(Wrong::Range),
        None => Ok(micros),
    }
}
