//! Time zones as SET TIME ZONE names them, and as Arrow has them in a type.

use chrono_tz::TZ_VARIANTS;

/// The most hours between a zone and Greenwich.
const HOURS_MAX: u32 = 15;

/// A zone as SHOW writes it; `None`: it is not one.
pub(super) fn named(text: &str) -> Option<String> {
    let mut known = TZ_VARIANTS.iter().map(|zone| zone.name());
    if let Some(name) = known.find(|name| name.eq_ignore_ascii_case(text)) {
        return Some(name.to_owned());
    }
    // Hours east of Greenwich, as a number.
    if let Ok(hours) = text.parse::<f64>() {
        let minutes = (hours * 60.0).round();
        let fits = minutes.abs() <= f64::from(HOURS_MAX * 60 + 59);
        return fits.then(|| shown_offset(minutes as i32));
    }
    posix(text).map(|_| text.to_owned())
}

/// PostgreSQL's text for so many minutes east: in POSIX form, where west is positive.
fn shown_offset(minutes: i32) -> String {
    let text = |minutes: i32| {
        let (sign, minutes) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
        match minutes % 60 {
            0 => format!("{sign}{:02}", minutes / 60),
            rest => format!("{sign}{:02}:{rest:02}", minutes / 60),
        }
    };
    format!("<{}>{}", text(minutes), text(-minutes))
}

/// Minutes east for a zone such as `GMT-03:00`, `<+03>-03` or `-3`: three hours east.
fn posix(text: &str) -> Option<i32> {
    let rest = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let name = text.len() - rest.len();
    if name != 0 && name < 3 {
        return None;
    }
    let (sign, digits) = match rest.as_bytes().first()? {
        b'-' => (1, &rest[1..]),
        b'+' => (-1, &rest[1..]),
        b'0'..=b'9' => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let is_number = |text: &str| {
        (1..=2).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit())
    };
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let fits = hours <= HOURS_MAX && minutes < 60;
    fits.then(|| sign * i32::try_from(hours * 60 + minutes).unwrap_or_default())
}

/// The zone for a text of [`named`], in Arrow's form.
pub(super) fn for_arrow(shown: &str) -> Option<String> {
    if TZ_VARIANTS.iter().any(|zone| zone.name() == shown) {
        return Some(shown.to_owned());
    }
    let minutes = posix(shown)?;
    let (sign, minutes) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
    Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}
