//! Bytes and numbers as text.

use std::ops::RangeInclusive;

/// Longer bytes are cut.
const BYTES_MAX: usize = 24;
/// More runs of numbers are cut.
const RUNS_MAX: usize = 64;

/// How many, and the first of them in hexadecimal digits and as characters.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let (shown, more) = match bytes.len() > BYTES_MAX {
        true => (&bytes[..BYTES_MAX], ".."),
        false => (bytes, ""),
    };
    let length = count(bytes.len(), "byte");
    if shown.is_empty() {
        return length;
    }
    let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    let printed = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '.',
    };
    let characters: String = shown.iter().map(printed).collect();
    format!("{length}: {hex}{more} \"{characters}\"{more}")
}

/// A number and its noun.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Numbers in their order, each that follows the one before as part of a run.
pub(super) fn runs(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<RangeInclusive<u32>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(number) => *run = *run.start()..=number,
            _ => runs.push(number..=number),
        }
    }
    let more = runs.len().saturating_sub(RUNS_MAX);
    let shown: Vec<String> = runs.iter().take(RUNS_MAX).map(run).collect();
    let rest = if more == 0 { String::new() } else { format!(", and {more} more runs") };
    shown.join(", ") + &rest
}

/// A run of numbers.
pub(super) fn run(run: &RangeInclusive<u32>) -> String {
    match run.start() == run.end() {
        true => run.start().to_string(),
        false => format!("{} to {}", run.start(), run.end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_and_numbers_are_joined() {
        assert_eq!(bytes(b""), "0 bytes");
        assert_eq!(bytes(b"\0A"), "2 bytes: 0041 \".A\"");
        assert!(bytes(&[b'x'; 25]).ends_with("78.. \"xxxxxxxxxxxxxxxxxxxxxxxx\".."));
        assert_eq!(runs([]), "");
        assert_eq!(runs([7, 8, 9, 3, u32::MAX, 0]), "7 to 9, 3, 4294967295, 0");
        let apart = runs((0..70).map(|number| number * 2));
        assert!(apart.ends_with("126, and 6 more runs"), "{apart}");
    }
}
