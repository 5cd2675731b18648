//! Sizes as people type them, `4M`, `2G`, `512`; and sizes, counts and durations as people read them.

use std::time::Duration;

/// The bytes in `text`: a number, then nothing, `K`, `M`, `G` or `T` (1024 each), then perhaps
/// `B` or `iB`. `None` for anything else, or more than 2^64 - 1.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let suffix = text[digits..].trim_start().to_ascii_uppercase();
    let power = match suffix.as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return None,
    };
    number.checked_mul(1 << (10 * power))
}

/// The shortest text that [`parse`] reads back as `bytes`.
pub fn exact(bytes: u64) -> String {
    for (power, suffix) in [(4, "T"), (3, "G"), (2, "M"), (1, "K")] {
        let unit = 1u64 << (10 * power);
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{suffix}", bytes / unit);
        }
    }
    bytes.to_string()
}

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
pub fn show_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h {:02}", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} days", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them() {
        assert_eq!(parse("512"), Some(512));
        assert_eq!(parse(" 4m "), Some(4 << 20));
        assert_eq!(parse("2 GiB"), Some(2 << 30));
        assert_eq!(parse("1T"), Some(1 << 40));
        for bad in ["", "M", "-1", "1.5G", "1X", "99999999999T", "1e3", "²"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn exact_reads_back() {
        for bytes in [0, 1, 1023, 1024, 1536, 4 << 20, 3 << 40, u64::MAX] {
            assert_eq!(parse(&exact(bytes)), Some(bytes));
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(4_294_967_296), "4.3 GB");
        assert_eq!(show_bytes(342_000_000), "342 MB");
        assert_eq!(show_count(8_661_245), "8 661 245");
        assert_eq!(show_count(12), "12");
        assert_eq!([104, 20_480].map(show_room), ["104 MB", "20.0 GB"]);
        assert_eq!(show_duration(Duration::from_millis(80)), "0.08 s");
        assert_eq!(show_duration(Duration::from_secs(72)), "1 min 12 s");
    }
}
