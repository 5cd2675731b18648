//! Sizes as people type them: `4M`, `2G`, `512`.

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
}
