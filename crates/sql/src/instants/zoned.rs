//! Points in time and local time in a time zone: conversions, texts, and the casts that need them.

use std::fmt::Write;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use chrono::{DateTime, Duration, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::StreamExt;

use crate::instants::written::date_of;

const SECOND: i64 = 1_000_000;

/// The zone in which timestamps are stored: they are shown in the session's.
pub(crate) const KEPT: &str = "UTC";

/// A zone by its name in a type.
///
/// # Errors
/// There is no such zone.
pub(crate) fn zone_of(name: &str) -> Result<Tz, ArrowError> {
    Tz::from_str(name)
}

/// A type with its timestamps in this zone, if they have a zone.
pub(crate) fn in_zone(data_type: &DataType, zone: &Arc<str>) -> DataType {
    match data_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(Arc::clone(zone))),
        DataType::List(item) => {
            let own = in_zone(item.data_type(), zone);
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(own)))
        }
        other => other.clone(),
    }
}

/// The same for columns.
pub(crate) fn fields_in_zone(schema: &SchemaRef, zone: &Arc<str>) -> SchemaRef {
    let is_other = |field: &Arc<Field>| in_zone(field.data_type(), zone) != *field.data_type();
    if !schema.fields().iter().any(is_other) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let data_type = in_zone(field.data_type(), zone);
        field.as_ref().clone().with_data_type(data_type)
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Rows with their timestamps in this zone: files may use others.
pub(crate) fn rows_in_zone(
    rows: SendableRecordBatchStream,
    zone: &Arc<str>,
) -> SendableRecordBatchStream {
    let schema = fields_in_zone(&rows.schema(), zone);
    if schema == rows.schema() {
        return rows;
    }
    let shown = Arc::clone(&schema);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let columns = batch.columns().iter().zip(shown.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&shown), columns)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|at| at.naive_utc())
}

/// The offset of local time from UTC at a point in time, in seconds.
fn offset_at(micros: i64, zone: &Tz) -> Option<i32> {
    let at = naive(micros)?;
    Some(zone.offset_from_utc_datetime(&at).fix().local_minus_utc())
}

/// Local time, in microseconds.
pub(crate) fn local_of(micros: i64, zone: &Tz) -> Option<i64> {
    micros.checked_add(i64::from(offset_at(micros, zone)?) * SECOND)
}

/// The point in time of a local time. One that occurs twice is the later, one that is skipped is taken
/// as before the change, as in PostgreSQL.
pub(crate) fn instant_of(local: i64, zone: &Tz) -> Option<i64> {
    let at = naive(local)?;
    let seconds = |offset: &<Tz as TimeZone>::Offset| offset.fix().local_minus_utc();
    let offset = match zone.offset_from_local_datetime(&at) {
        MappedLocalTime::Single(offset) => seconds(&offset),
        MappedLocalTime::Ambiguous(one, other) => seconds(&one).min(seconds(&other)),
        MappedLocalTime::None => {
            let before = at.checked_sub_signed(Duration::days(1))?;
            seconds(&zone.offset_from_utc_datetime(&before))
        }
    };
    local.checked_sub(i64::from(offset) * SECOND)
}

/// A point in time as PostgreSQL writes it: `2024-02-29 23:59:59.5`, and with a zone its offset from
/// UTC: `+01`.
pub(crate) fn shown(micros: i64, zone: Option<&Tz>) -> String {
    const DAY: i64 = 86_400 * SECOND;
    let offset = zone.map(|zone| offset_at(micros, zone).unwrap_or_default());
    let local = micros.saturating_add(i64::from(offset.unwrap_or_default()) * SECOND);
    let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (seconds, fraction) = (rest / SECOND, rest % SECOND);
    let shown = if year > 0 { year } else { 1 - year };
    let mut out = format!("{shown:04}-{month:02}-{day:02} ");
    // Writing to a String cannot fail.
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    if let Some(offset) = offset {
        let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
        let _ = write!(out, "{sign}{:02}", offset / 3600);
        if offset % 3600 != 0 {
            let _ = write!(out, ":{:02}", offset / 60 % 60);
        }
        if offset % 60 != 0 {
            let _ = write!(out, ":{:02}", offset % 60);
        }
    }
    if year <= 0 {
        out.push_str(" BC");
    }
    out
}

/// Whether a cast depends on a zone.
pub(crate) fn is_of_zone(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    match (from, to) {
        (Timestamp(_, Some(_)), Timestamp(_, None) | Date32 | Date64 | Time32(_) | Time64(_)) => {
            true
        }
        (Timestamp(_, Some(_)), to) => to.is_string(),
        (Timestamp(_, None) | Date32 | Date64, Timestamp(_, Some(_))) => true,
        _ => false,
    }
}

type Micros = PrimitiveArray<TimestampMicrosecondType>;

fn each(
    array: &ArrayRef,
    from: &DataType,
    is_try: bool,
    one: impl Fn(i64) -> Option<i64>,
) -> Result<Micros, ArrowError> {
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    let micros = cast_with_options(array, from, &options)?;
    let micros = micros.as_primitive::<TimestampMicrosecondType>();
    if is_try {
        return Ok(micros.unary_opt(one));
    }
    micros.try_unary(|value| {
        let beyond = || ArrowError::CastError("timestamp out of range".to_owned());
        one(value).ok_or_else(beyond)
    })
}

/// The local time of points in time in their zone, as timestamps without a zone.
///
/// # Errors
/// There is no such zone; a year out of the calendar's range.
pub(crate) fn clocks_of(array: &ArrayRef, is_try: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(_, Some(name)) = array.data_type() else {
        return Ok(Arc::clone(array));
    };
    let zone = zone_of(name)?;
    let from = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(name)));
    let local = each(array, &from, is_try, |micros| local_of(micros, &zone))?;
    Ok(Arc::new(local.with_data_type(DataType::Timestamp(TimeUnit::Microsecond, None))))
}

/// The points in time of these timestamps without a zone, or of the beginning of these days, in a zone.
///
/// # Errors
/// Those of [`clocks_of`].
pub(crate) fn instants_at(
    array: &ArrayRef,
    name: &Arc<str>,
    is_try: bool,
) -> Result<ArrayRef, ArrowError> {
    let zone = zone_of(name)?;
    let from = DataType::Timestamp(TimeUnit::Microsecond, None);
    let instants = each(array, &from, is_try, |micros| instant_of(micros, &zone))?;
    Ok(Arc::new(instants.with_timezone(Arc::clone(name))))
}

/// Points in time as PostgreSQL writes them.
///
/// # Errors
/// There is no such zone.
pub(crate) fn texts_of(array: &ArrayRef) -> Result<StringArray, ArrowError> {
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(name)) => Some(zone_of(name)?),
        _ => None,
    };
    let DataType::Timestamp(_, name) = array.data_type() else {
        return Err(ArrowError::CastError(format!("{} is no timestamp", array.data_type())));
    };
    let micros = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, name.clone()))?;
    let micros: &TimestampMicrosecondArray = micros.as_primitive();
    Ok(micros.iter().map(|value| value.map(|value| shown(value, zone.as_ref()))).collect())
}

/// The cast.
///
/// # Errors
/// Those of [`clocks_of`].
pub(crate) fn cast_of_zone(
    array: &ArrayRef,
    to: &DataType,
    is_try: bool,
) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    let made: ArrayRef = match (array.data_type(), to) {
        (DataType::Timestamp(_, Some(_)), to) if to.is_string() => Arc::new(texts_of(array)?),
        (DataType::Timestamp(_, Some(_)), _) => clocks_of(array, is_try)?,
        (_, DataType::Timestamp(_, Some(name))) => instants_at(array, name, is_try)?,
        _ => Arc::clone(array),
    };
    cast_with_options(&made, to, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_change_are_read_as_postgresql_reads_them() {
        let berlin = zone_of("Europe/Berlin").unwrap();
        let at = |text: &str| {
            let stamp = crate::instants::written::stamp(text.as_bytes()).unwrap();
            stamp.seconds * SECOND + i64::from(stamp.nanos) / 1000
        };
        for (local, wanted) in [
            ("2024-01-15 12:00:00", "2024-01-15 12:00:00+01"),
            ("2024-07-15 12:00:00.25", "2024-07-15 12:00:00.25+02"),
            // Skipped, and occurring twice.
            ("2024-03-31 02:30:00", "2024-03-31 03:30:00+02"),
            ("2024-10-27 02:30:00", "2024-10-27 02:30:00+01"),
            ("1800-01-01 00:00:00", "1800-01-01 00:00:00+00:53:28"),
        ] {
            let instant = instant_of(at(local), &berlin).unwrap();
            assert_eq!(shown(instant, Some(&berlin)), wanted);
        }
        let india = zone_of("+05:30").unwrap();
        assert_eq!(shown(0, Some(&india)), "1970-01-01 05:30:00+05:30");
        assert_eq!(shown(951_868_799_500_000, None), "2000-02-29 23:59:59.5");
    }
}
