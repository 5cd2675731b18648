//! A model in words: `200MB/s,2000iops,4ms,qd32,ra:4ms/7.3ms/2ms,page:4096/300us,late:1%/20ms`.

use std::fmt;
use std::time::Duration;

use super::{Late, Page, ReadAhead, ShapeOptions};

const FORMS: &str = "a rate (200MB/s, 1.5GiB/s), 2000iops, a latency (4ms, 150us), \
     qd32, ra:HIT/MISS/WINDOW (ra:4ms/7.3ms/2ms), inner:RATE (inner:122MB/s), seek:TIME (seek:5ms), \
     page:BYTES/TIME for what a write covers in part (page:4096/300us), late:PART/TIME of writes \
     (late:1%/20ms)";

/// A word of a model that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Not one of the forms.
    #[error("\"{word}\" is not part of a disk model; use, separated by commas: {FORMS}")]
    Unknown {
        /// As typed.
        word: String,
    },
    /// One quantity is given twice.
    #[error("\"{word}\": this disk model has already said its {what}")]
    Twice {
        /// The second word, as typed.
        word: String,
        /// The quantity.
        what: &'static str,
    },
}

/// Reads a model such as `200MB/s,2000iops,4ms,qd32`. Words come in any order, each at most once;
/// what is left out has no limit. Units of rates: B, KB, MB, GB (of 1000), KiB, MiB, GiB (of 1024);
/// of times: ns, us, ms, s. Case does not matter.
///
/// # Errors
/// [`ShapeError`] names the word and the forms allowed.
pub fn parse(text: &str) -> Result<ShapeOptions, ShapeError> {
    let mut options = ShapeOptions::default();
    let mut said: Vec<&'static str> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let part = read(&word.to_ascii_lowercase())
            .ok_or_else(|| ShapeError::Unknown { word: word.to_owned() })?;
        let what = part.what();
        if said.contains(&what) {
            return Err(ShapeError::Twice { word: word.to_owned(), what });
        }
        said.push(what);
        match part {
            Part::Rate(rate) => options.bytes_per_second = rate,
            Part::Iops(iops) => options.iops = iops,
            Part::Latency(latency) => options.latency = latency,
            Part::Depth(depth) => options.queue_depth = depth,
            Part::ReadAhead(ahead) => options.read_ahead = Some(ahead),
            Part::Inner(rate) => options.inner_bytes_per_second = rate,
            Part::Seek(time) => options.seek = time,
            Part::Page(page) => options.page = Some(page),
            Part::Late(late) => options.late = Some(late),
        }
    }
    Ok(options)
}

/// As [`parse`] reads it; empty where there is no limit and no delay.
impl fmt::Display for ShapeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut number = |value: u64, word: &str, unit: &str| {
            if value > 0 {
                words.push(format!("{word}{value}{unit}"));
            }
        };
        number(self.bytes_per_second, "", "B/s");
        number(self.iops, "", "iops");
        number(self.inner_bytes_per_second, "inner:", "B/s");
        number(self.queue_depth.into(), "qd", "");
        let time = |time: Duration| format!("{}us", time.as_nanos() as f64 / 1e3);
        if !self.latency.is_zero() {
            words.push(time(self.latency));
        }
        if !self.seek.is_zero() {
            words.push(format!("seek:{}", time(self.seek)));
        }
        if let Some(ReadAhead { hit_latency: hit, miss_latency: miss, window }) = self.read_ahead {
            words.push(format!("ra:{}/{}/{}", time(hit), time(miss), time(window)));
        }
        if let Some(Page { bytes, rewrite }) = self.page {
            words.push(format!("page:{bytes}/{}", time(rewrite)));
        }
        if let Some(Late { per_million, by }) = self.late {
            words.push(format!("late:{}%/{}", f64::from(per_million) / 1e4, time(by)));
        }
        f.write_str(&words.join(","))
    }
}

enum Part {
    Rate(u64),
    Iops(u64),
    Latency(Duration),
    Depth(u32),
    ReadAhead(ReadAhead),
    Inner(u64),
    Seek(Duration),
    Page(Page),
    Late(Late),
}

impl Part {
    fn what(&self) -> &'static str {
        match self {
            Part::Rate(_) => "bandwidth",
            Part::Iops(_) => "requests a second",
            Part::Latency(_) => "latency",
            Part::Depth(_) => "queue depth",
            Part::ReadAhead(_) => "read-ahead",
            Part::Inner(_) => "bandwidth of the inner tracks",
            Part::Seek(_) => "seek",
            Part::Page(_) => "page",
            Part::Late(_) => "late answers",
        }
    }
}

fn read(word: &str) -> Option<Part> {
    if let Some(depth) = word.strip_prefix("qd") {
        return depth.parse().ok().filter(|d| *d > 0).map(Part::Depth);
    }
    if let Some(times) = word.strip_prefix("ra:") {
        let mut times = times.split('/').map(time);
        let (hit_latency, miss_latency, window) = (times.next()??, times.next()??, times.next()??);
        let ahead = ReadAhead { hit_latency, miss_latency, window };
        return times.next().is_none().then_some(Part::ReadAhead(ahead));
    }
    if let Some(size) = word.strip_prefix("inner:") {
        return size.strip_suffix("/s").and_then(rate).map(Part::Inner);
    }
    if let Some(word) = word.strip_prefix("seek:") {
        return time(word).map(Part::Seek);
    }
    if let Some(words) = word.strip_prefix("page:") {
        let (bytes, rewrite) = words.split_once('/')?;
        let bytes = bytes.trim().parse::<u64>().ok()?;
        // A page is never smaller than a sector, and no disk has larger ones than this.
        let is_page = bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes);
        let page = Page { bytes, rewrite: time(rewrite)? };
        return is_page.then_some(Part::Page(page));
    }
    if let Some(words) = word.strip_prefix("late:") {
        let (part, by) = words.split_once('/')?;
        let (percent, rest) = number(part)?;
        let per_million = (percent * 1e4).round();
        let is_part = rest == "%" && (1.0..=1e6).contains(&per_million);
        let late = Late { per_million: per_million as u32, by: time(by)? };
        return is_part.then_some(Part::Late(late));
    }
    if let Some(iops) = word.strip_suffix("iops") {
        return iops.trim().parse().ok().filter(|n| *n > 0).map(Part::Iops);
    }
    match word.strip_suffix("/s") {
        Some(size) => rate(size).map(Part::Rate),
        None => time(word).map(Part::Latency),
    }
}

/// A positive number and what follows it.
fn number(word: &str) -> Option<(f64, &str)> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = word.split_at(end);
    let value: f64 = digits.parse().ok()?;
    // Longer than a year, or more than an exabyte a second, is a typing error.
    (value.is_finite() && value < 1e12).then_some((value, unit.trim()))
}

fn rate(word: &str) -> Option<u64> {
    let (value, unit) = number(word)?;
    let unit: u64 = match unit {
        "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    let rate = (value * unit as f64).round();
    (1.0..=1e18).contains(&rate).then_some(rate as u64)
}

fn time(word: &str) -> Option<Duration> {
    let (value, unit) = number(word)?;
    let unit = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let seconds = value * unit;
    (seconds < 3.2e7).then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_model_in_any_order() {
        let all = parse("qd32, 2000iops,200MB/s ,4ms,RA:4ms/7.3ms/2ms").unwrap();
        assert_eq!(
            all,
            ShapeOptions {
                bytes_per_second: 200_000_000,
                iops: 2000,
                latency: Duration::from_millis(4),
                queue_depth: 32,
                read_ahead: Some(ReadAhead {
                    hit_latency: Duration::from_millis(4),
                    miss_latency: Duration::from_micros(7300),
                    window: Duration::from_millis(2),
                }),
                ..ShapeOptions::default()
            }
        );
        let turning = parse("204MB/s,inner:122MB/s,seek:5.4ms").unwrap();
        assert_eq!(turning.inner_bytes_per_second, 122_000_000);
        assert_eq!(turning.seek, Duration::from_micros(5400));
        let flash = parse("90us,page:4096/300us,late:0.1%/20ms").unwrap();
        let rewrite = Duration::from_micros(300);
        assert_eq!(flash.page, Some(Page { bytes: 4096, rewrite }));
        let by = Duration::from_millis(20);
        assert_eq!(flash.late, Some(Late { per_million: 1000, by }));
        let rate = parse("1.5GiB/s").unwrap();
        assert_eq!(rate.bytes_per_second, 3 << 29);
        assert_eq!(rate.queue_depth, 0, "what is not said has no limit");
        assert_eq!(parse("150us").unwrap().latency, Duration::from_micros(150));
    }

    #[test]
    fn a_model_is_written_as_it_is_read() {
        for words in [
            "200000000B/s,2000iops,inner:122000000B/s,qd32,4000us,seek:5400us",
            "90.5us,ra:4000us/7300us/2000us,page:4096/300us,late:0.25%/20000us",
        ] {
            let options = parse(words).unwrap();
            assert_eq!(options.to_string(), words);
        }
        assert_eq!(ShapeOptions::default().to_string(), "");
    }

    #[test]
    fn a_wrong_word_is_named_with_the_forms_allowed() {
        for word in [
            "",
            "fast",
            "200",
            "200MB",
            "MB/s",
            "qd",
            "qd0",
            "-4ms",
            "ra:4ms/7ms",
            "0iops",
            "1e9s",
            "ra:1ms/2ms/3ms/4ms",
            "99999999999999ms",
            "0.1B/s",
            "inner:122MB",
            "page:4096",
            "page:4095/1ms",
            "page:256/1ms",
            "late:1/20ms",
            "late:0%/20ms",
            "late:101%/20ms",
            "late:1%",
            "seek:",
            ".ms",
            "1..2ms",
            "4\u{b5}s",
        ] {
            let error = parse(&format!("200MB/s,{word}")).unwrap_err();
            assert!(matches!(error, ShapeError::Unknown { .. }), "{word}: {error}");
            assert!(error.to_string().contains("200MB/s, 1.5GiB/s"), "{error}");
        }
        let twice = parse("4ms,5ms").unwrap_err().to_string();
        assert_eq!(twice, "\"5ms\": this disk model has already said its latency");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|[0-9.]|MB/s|qd|ra:|page:|late:|/|,|%|ms|iops){0,12}") {
            let _ = parse(&text);
        }
    }
}
