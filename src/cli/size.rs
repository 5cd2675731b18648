//! Sizes, counts and durations as people read them.

use std::time::Duration;

/// Bytes with three digits, units of 1000 as disks are sold: `342 MB`, `4.0 GB`.
pub fn show_bytes(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut at = 0;
    while value >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    match at {
        0 => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.1} {}", units[at]),
        _ => format!("{value:.0} {}", units[at]),
    }
}

/// Room in a disk group, told by every command alike: in MB of 1024 x 1024 bytes, as ASM's columns
/// have it, and units of 1024 of them: `104 MB`, `18.4 GB`.
#[cfg(feature = "sql")]
pub fn show_room(mb: u64) -> String {
    match mb {
        0..10_240 => format!("{} MB", show_count(mb)),
        10_240..10_485_760 => format!("{:.1} GB", mb as f64 / 1024.0),
        _ => format!("{:.1} TB", mb as f64 / 1_048_576.0),
    }
}

/// `8 661 245`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `0.08 s`, `7.4 s`, `1 min 12 s`.
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "disktest shows microseconds"))]
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.995 => format!("{s:.2} s"),
        s if s < 59.95 => format!("{s:.1} s"),
        _ => {
            let whole = duration.as_secs();
            format!("{} min {} s", whole / 60, whole % 60)
        }
    }
}

/// Long times without more figures than are known: `45 s`, `12 min`, `3 h 24`, `9 days`.
#[cfg(feature = "sql")]
pub fn show_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h {:02}", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} days", seconds / 86400),
    }
}

/// Reads a size as people type it: 512, 64K, 4M, 2G, 1T.
///
/// # Errors
/// What is wrong, for the usage message.
#[cfg(feature = "sql")]
pub fn parse_size(text: &str) -> Result<u64, String> {
    cellar_storage::size::parse(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("\"{text}\" is no size; write it as 512M, 2G or 4194304"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(4_294_967_296), "4.3 GB");
        assert_eq!(show_bytes(342_000_000), "342 MB");
        assert_eq!(show_count(8_661_245), "8 661 245");
        assert_eq!(show_count(12), "12");
        #[cfg(feature = "sql")]
        assert_eq!([104, 20_480].map(show_room), ["104 MB", "20.0 GB"]);
        assert_eq!(show_duration(Duration::from_millis(80)), "0.08 s");
        assert_eq!(show_duration(Duration::from_secs(72)), "1 min 12 s");
    }
}
