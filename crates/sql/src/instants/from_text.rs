//! Text as a timestamp: also without seconds, with 24:00:00, and of any year that the type holds.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::error::ArrowError;

use crate::instants::written::stamp;
use crate::instants::zoned::{instant_of, zone_of};

/// Whether a cast is from text to a timestamp.
pub(crate) fn is_instant_of_text(from: &DataType, to: &DataType) -> bool {
    from.is_string() && matches!(to, DataType::Timestamp(_, _))
}

/// Texts as timestamps; with `is_try`, texts that are not timestamps become null.
///
/// # Errors
/// A text is not a timestamp.
pub(crate) fn instants_of(
    texts: &ArrayRef,
    to: &DataType,
    is_try: bool,
) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let known = cast_with_options(texts, to, &options)?;
    if known.null_count() == texts.null_count() {
        return Ok(known);
    }
    let DataType::Timestamp(unit, zone) = to else { return Ok(known) };
    let zone = zone.as_deref().map(zone_of).transpose()?;
    let known = cast(&known, &DataType::Int64)?;
    let (known, all) = (known.as_primitive::<Int64Type>(), cast(texts, &DataType::Utf8)?);
    let written = all.as_string::<i32>();
    let mut values = Vec::with_capacity(known.len());
    for row in 0..known.len() {
        if known.is_valid(row) || written.is_null(row) {
            values.push(known.is_valid(row).then(|| known.value(row)));
            continue;
        }
        let own = value_of(written.value(row), *unit, zone.as_ref());
        if own.is_none() && !is_try {
            // Reports what is wrong with it.
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(&texts.slice(row, 1), to, &strict)?;
        }
        values.push(own);
    }
    cast(&(Arc::new(Int64Array::from(values)) as ArrayRef), to)
}

fn value_of(text: &str, unit: TimeUnit, zone: Option<&Tz>) -> Option<i64> {
    let mut stamp = stamp(with_seconds(text.trim()).as_bytes())?;
    if let Some(zone) = zone.filter(|_| !stamp.has_offset) {
        const SECOND: i64 = 1_000_000;
        stamp.seconds = instant_of(stamp.seconds.checked_mul(SECOND)?, zone)?.div_euclid(SECOND);
    }
    let (per_second, nanos) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    stamp.seconds.checked_mul(per_second)?.checked_add(i64::from(stamp.nanos) / nanos)
}

/// `2024-02-29 12:30` with `:00` after the minutes.
fn with_seconds(text: &str) -> String {
    let at = text.find([' ', 'T']).map_or(text.len(), |blank| blank + 1);
    let clock = &text.as_bytes()[at..];
    let is_minutes = |clock: &[u8]| {
        let digits = |at: &[usize]| at.iter().all(|at| clock[*at].is_ascii_digit());
        clock.len() == 5 && clock[2] == b':' && digits(&[0, 1, 3, 4])
    };
    match clock.get(..5).filter(|clock| is_minutes(clock)) {
        Some(_) if clock.get(5) != Some(&b':') => {
            format!("{}:00{}", &text[..at + 5], &text[at + 5..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_enough_and_the_end_of_a_day_is_the_next() {
        let of = |text| value_of(text, TimeUnit::Second, None);
        assert_eq!(of("1970-01-01 12:30"), Some(45_000));
        assert_eq!(of("1970-01-01T12:30Z"), Some(45_000));
        assert_eq!(of("1970-01-01 14:30+02"), Some(45_000));
        assert_eq!(of("1970-01-01 24:00:00"), Some(86_400));
        assert_eq!(of("9999-12-31 23:59"), Some(253_402_300_740));
        assert_eq!(of("1970-01-01 1:30"), None);
        assert_eq!(of("1970-01-01 ü"), None);
        assert_eq!(value_of("9999-12-31 23:59", TimeUnit::Nanosecond, None), None);
    }
}
