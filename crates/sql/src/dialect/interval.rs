//! Intervals with a time of day, `'1 day 02:03:04'`, in units that DataFusion reads.

use datafusion::sql::sqlparser::ast::{Expr, Interval, Value};

/// Puts the time of day of an interval in units.
pub(super) fn rewrite(expr: &mut Expr) {
    if let Expr::Interval(Interval { value, leading_field: None, .. }) = expr
        && let Expr::Value(value) = value.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(units) = in_units(text)
    {
        *text = units;
    }
}

fn in_units(text: &str) -> Option<String> {
    let text = text.trim();
    let (before, clock) = text.rsplit_once(' ').unwrap_or(("", text));
    let (sign, clock) = match clock.strip_prefix('-') {
        Some(clock) => ("-", clock),
        None => ("", clock.strip_prefix('+').unwrap_or(clock)),
    };
    let mut parts = clock.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next());
    let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_second = |part: &str| {
        let (whole, behind) = part.split_once('.').unwrap_or((part, "0"));
        is_whole(whole) && is_whole(behind)
    };
    let is_clock = parts.next().is_none()
        && is_whole(hours)
        && is_whole(minutes)
        && seconds.is_none_or(is_second);
    let seconds = seconds.unwrap_or("0");
    is_clock.then(|| {
        format!("{before} {sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds")
            .trim_start()
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_hours_minutes_and_seconds() {
        let units = |text| in_units(text);
        assert_eq!(
            units("1 day 02:03:04").as_deref(),
            Some("1 day 02 hours 03 minutes 04 seconds")
        );
        assert_eq!(units("-02:30").as_deref(), Some("-02 hours -30 minutes -0 seconds"));
        assert_eq!(units("00:00:01.5").as_deref(), Some("00 hours 00 minutes 01.5 seconds"));
        for other in ["1 day", "1:2:3:4", ":30", "a:b", ""] {
            assert_eq!(units(other), None, "{other}");
        }
    }
}
