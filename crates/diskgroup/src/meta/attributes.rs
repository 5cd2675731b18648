//! The attributes of a group: their names, the values that they may have, and what those mean.

use std::time::Duration;

use crate::error::Error;

/// The repair time of a group for which none was set, as Oracle has it.
pub(crate) const REPAIR_TIME_DEFAULT: &str = "3.6h";
/// The time between scrubs of a group for which none was set.
pub(crate) const INTERVAL_DEFAULT: &str = "30d";
/// The shortest time between scrubs that can be set.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_secs(3600);

/// Checks attributes given at creation.
///
/// # Errors
/// One is unknown or has a value that will not do.
pub(crate) fn check_attributes(
    attributes: &std::collections::BTreeMap<String, String>,
) -> Result<(), Error> {
    attributes.iter().try_for_each(|(name, value)| check_attribute(name, value))
}

/// Checks a change of an attribute.
pub(crate) fn check_attribute(name: &str, value: &str) -> Result<(), Error> {
    let bad = |allowed: &str| {
        Err(Error::BadValue {
            what: "attribute value",
            value: value.to_owned(),
            allowed: allowed.to_owned(),
        })
    };
    match name {
        "au_size" | "sector_size" => Err(Error::ReadOnlyAttribute { name: name.to_owned() }),
        "content.type" => match value {
            "data" | "recovery" | "system" => Ok(()),
            _ => bad("data, recovery or system"),
        },
        "content.checksum" => match value {
            "true" | "false" => Ok(()),
            _ => bad("true or false"),
        },
        "disk_repair_time" => check_repair_time(value),
        "scrub_interval" => check_interval(value),
        _ => Err(Error::UnknownAttribute {
            name: name.to_owned(),
            known: "content.checksum, content.type, disk_repair_time, scrub_interval",
        }),
    }
}

/// Reads a repair time: 3.6h, 300m.
pub fn parse_repair_time(text: &str) -> Option<Duration> {
    let at = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?;
    let (digits, unit) = text.split_at(at);
    let number = digits.parse::<f64>().ok().filter(|v| *v >= 0.0 && *v < 1e9)?;
    let seconds = match unit {
        "m" | "M" => 60.0,
        "h" | "H" => 3600.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * seconds))
}

/// Checks a value of disk_repair_time.
///
/// # Errors
/// It is no time.
fn check_repair_time(value: &str) -> Result<(), Error> {
    match parse_repair_time(value) {
        Some(_) => Ok(()),
        None => Err(Error::BadValue {
            what: "attribute value",
            value: value.to_owned(),
            allowed: "a number and m or h, as 3.6h".to_owned(),
        }),
    }
}

/// Reads a time between scrubs: 30d, 12h, or 0 for never.
pub fn parse_interval(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let at = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?;
    let (digits, unit) = text.split_at(at);
    let number = digits.parse::<f64>().ok().filter(|v| *v >= 0.0 && *v < 1e6)?;
    let seconds = match unit {
        "h" | "H" => 3600.0,
        "d" | "D" => 86_400.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * seconds))
}

/// Checks a value of scrub_interval.
///
/// # Errors
/// It is no time.
fn check_interval(value: &str) -> Result<(), Error> {
    match parse_interval(value) {
        Some(interval) if interval.is_zero() || interval >= INTERVAL_MIN => Ok(()),
        _ => Err(Error::BadValue {
            what: "attribute value",
            value: value.to_owned(),
            allowed: "a number and d or h, as 30d, at least 1h; 0 is never".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_minutes_or_hours() {
        assert_eq!(parse_repair_time("3.6h"), Some(Duration::from_secs(12_960)));
        assert_eq!(parse_repair_time("300m"), Some(Duration::from_secs(18_000)));
        assert_eq!(parse_repair_time("0M"), Some(Duration::ZERO));
        for wrong in ["", "h", "3.6", "-1h", "1e300h", "3s", "ä"] {
            assert_eq!(parse_repair_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn intervals_are_days_or_hours() {
        assert_eq!(parse_interval("30d"), Some(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_interval("12H"), Some(Duration::from_secs(12 * 3600)));
        assert_eq!(parse_interval("0"), Some(Duration::ZERO));
        for wrong in ["", "d", "30", "-1d", "1e9d", "3s", "ä"] {
            assert_eq!(parse_interval(wrong), None, "{wrong}");
        }
    }
}
