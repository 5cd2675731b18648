//! Numbers as a plan shows them.

/// A number of rows: exact as long as it is readable.
pub(crate) fn count(rows: u64) -> String {
    match rows {
        0..10_000_000 => rows.to_string(),
        _ => scaled(rows as f64, &["", " k", " M", " G", " T"], 1000.0),
    }
}

/// Bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, &[" B", " KB", " MB", " GB", " TB"], 1024.0)
}

/// A time in milliseconds, or seconds.
pub(crate) fn nanos(nanos: u64) -> String {
    let ms = nanos as f64 / 1e6;
    match ms < 9999.95 {
        true => format!("{ms:.1} ms"),
        false => format!("{:.1} s", ms / 1e3),
    }
}

fn scaled(value: f64, units: &[&str], step: f64) -> String {
    let (mut value, mut at) = (value, 0);
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or_default();
    match at == 0 || value >= 99.95 {
        true => format!("{value:.0}{unit}"),
        false => format!("{value:.1}{unit}"),
    }
}

/// A percentage, with one decimal if it is small.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 / whole.max(1) as f64 * 100.0;
    match share {
        _ if part > 0 && share < 0.05 => "less than 0.1 %".to_owned(),
        _ if share < 10.0 => format!("{share:.1} %"),
        _ => format!("{share:.0} %"),
    }
}
