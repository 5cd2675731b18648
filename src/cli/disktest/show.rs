//! Output of `disktest`: the device, the table, the finding in words.

use std::fmt::Write;

use cellar_io::Geometry;
use cellar_storage::size::{show_bytes, show_count};

use super::measure::{DEPTHS, Operation, Report, SIZES};

/// The target: how it was used, and whether it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// For the second line.
    pub how: How,
    /// What keeps it in memory, if anything does.
    pub in_memory: Option<&'static str>,
}

/// How the device was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// A file of this many bytes was created and removed.
    OwnFile(u64),
    /// Only read.
    OnlyRead,
    /// Written, with permission, from its start.
    Erased,
}

/// The report for people.
pub fn report(geometry: &Geometry, used: &Used, report: &Report) -> String {
    let mut out = String::new();
    let cache = if geometry.volatile_cache { "volatile cache" } else { "no volatile cache" };
    let queue = match geometry.queue_depth {
        0 => String::new(),
        depth => format!(", queue {depth}"),
    };
    let how = match &used.how {
        How::OwnFile(bytes) => format!(
            "written to a file of {} here, then removed; nothing else touched",
            show_bytes(*bytes)
        ),
        How::OnlyRead => "only read: with --erase SERIAL writes are measured too".to_string(),
        How::Erased => "written from its start on, as --erase allowed".to_string(),
    };
    out.push_str(&wrap(
        "Device",
        &format!(
            "{} reports {}/{}, {cache}{queue}",
            geometry.name, geometry.logical_sector, geometry.physical_sector
        ),
    ));
    out.push_str(&wrap("", &how));
    out.push_str(&table(report));
    out.push_str(&match used.in_memory {
        Some(what) => wrap(
            "Finding",
            &format!(
                "Nothing written here is durable: it is on {what}, which is memory, and gone with \
                 the machine. These times say nothing of what a commit costs on a disk: name a \
                 directory on one."
            ),
        ),
        None => finding(geometry, report),
    });
    out
}

fn table(report: &Report) -> String {
    let name = match report.operation {
        Operation::WriteFlush => "write + flush",
        Operation::Read => "read",
    };
    let sizes: Vec<u32> = SIZES.into_iter().filter(|s| report.cell(*s, 1).is_some()).collect();
    let mut out = format!("  {name:<15}");
    for size in &sizes {
        let label = if *size < 1024 { format!("{size} B") } else { format!("{} KB", size / 1024) };
        let _ = write!(out, "{label:>9}");
    }
    out.push('\n');
    for (label, part) in [("p50, us", 0), ("p99, us", 1)] {
        let _ = write!(out, "  {label:<15}");
        for size in &sizes {
            let cell = report.cell(*size, 1).expect("only sizes that were measured");
            let value = if part == 0 { cell.p50_us } else { cell.p99_us };
            let _ = write!(out, "{value:>9.0}");
        }
        out.push('\n');
    }
    for depth in DEPTHS {
        let _ = write!(out, "  {:<15}", format!("/s at depth {depth}"));
        for size in &sizes {
            let rate = report.cell(*size, depth).map_or(0.0, |c| c.per_second);
            let _ = write!(out, "{:>9}", show_count(rate.round() as u64));
        }
        out.push('\n');
    }
    out
}

fn finding(geometry: &Geometry, report: &Report) -> String {
    let Some(block) = report.redo_block else {
        return wrap("Finding", "reads alone do not tell what a commit costs here.");
    };
    let mut words = Vec::new();
    match report.cost_of_512 {
        Some(cost) if cost > 1.1 && geometry.physical_sector < 4096 => words.push(format!(
            "The device does not say so, but it works in 4 KB: 512 bytes cost {cost:.1} times 4096."
        )),
        Some(cost) if cost > 1.1 => words.push(format!(
            "The device works in 4 KB, as it reports: 512 bytes cost {cost:.1} times 4096."
        )),
        Some(cost) => {
            words.push(format!("512 bytes cost {cost:.2} times 4096: it works in 512 too."));
        }
        None => words.push("Its smallest request is 4096 bytes.".to_string()),
    }
    words.push(format!("Redo block: {block} (auto takes it)."));
    if let Some(reason) = &report.redo_block_measured {
        words.push(format!("One block behind the other, as a log writes: {reason}."));
    }
    if let Some(cell) = report.cell(block, 1) {
        let rate = 1e6 / cell.p50_us.max(0.001);
        words.push(format!(
            "One session can commit about {} times a second here.",
            show_count(two_digits(rate)).replace(' ', NO_BREAK)
        ));
    }
    words.push(if geometry.volatile_cache {
        "Each commit needs a cache flush; whether the cache survives a power cut cannot be seen \
         from software."
            .to_string()
    } else {
        "The device reports no volatile cache; whether that is so cannot be seen from software."
            .to_string()
    });
    wrap("Finding", &words.join(" "))
}

/// Rounds to two significant digits.
fn two_digits(value: f64) -> u64 {
    let whole = value.max(0.0) as u64;
    let mut unit = 1;
    while whole / unit >= 100 {
        unit *= 10;
    }
    whole / unit * unit
}

/// Replaces the separators in a number until its line is printed, so that no line breaks inside it.
const NO_BREAK: &str = "\u{a0}";

/// `words` after `label`, in lines of at most 80 columns.
fn wrap(label: &str, words: &str) -> String {
    let mut out = format!("{label:<8}");
    let mut column = 8;
    for word in words.split(' ') {
        if column + 1 + word.chars().count() > 80 {
            out.push_str("\n        ");
            column = 8;
        }
        out.push(' ');
        out.push_str(&word.replace(NO_BREAK, " "));
        column += 1 + word.chars().count();
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::disktest::measure::Cell;

    #[test]
    fn the_report_fits_and_says_what_the_device_works_in() {
        let geometry = Geometry {
            name: "nvme0n1".into(),
            size: 1 << 30,
            logical_sector: 512,
            physical_sector: 512,
            transfer_max: 0,
            queue_depth: 32,
            volatile_cache: true,
            fast_zero: false,
        };
        let cell = |size, depth, p50_us| Cell {
            size,
            depth,
            requests: 100,
            p50_us,
            p99_us: p50_us * 3.0,
            per_second: f64::from(depth) * 1e6 / p50_us,
        };
        let sizes = [(512, 412.0), (4096, 96.0), (8192, 104.0), (65536, 181.0)];
        let cells = DEPTHS
            .iter()
            .flat_map(|d| sizes.iter().map(move |(size, p50)| cell(*size, *d, *p50)))
            .collect();
        let measured = Report {
            operation: Operation::WriteFlush,
            cells,
            redo_block: Some(4096),
            redo_block_reason: Some("measured: 512 costs 4.4x".into()),
            redo_block_measured: Some("512 costs 4.4x".into()),
            cost_of_512: Some(4.29),
        };
        let used = Used { how: How::OwnFile(256_000_000), in_memory: None };
        let text = report(&geometry, &used, &measured);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.starts_with("Device   nvme0n1 reports 512/512, volatile cache, queue 32\n"));
        assert!(text.contains("  p50, us              412       96      104      181\n"), "{text}");
        assert!(
            text.contains("it works in 4 KB: 512 bytes cost 4.3\n         times 4096."),
            "{text}"
        );
        assert!(text.contains("Redo block: 4096 (auto takes it)"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("as a log writes: 512 costs 4.4x."), "{text}");
        assert!(text.contains("10 000 times a second"), "a number stays in one line: {text}");
        assert!(words.contains("can commit about 10 000 times a second"), "{text}");
        let silent = Report {
            redo_block: None,
            redo_block_reason: None,
            redo_block_measured: None,
            ..measured.clone()
        };
        let read = Used { how: How::OnlyRead, in_memory: None };
        assert!(report(&geometry, &read, &silent).contains("reads alone"));
        let gone = report(&geometry, &Used { in_memory: Some("tmpfs"), ..used }, &measured);
        assert!(gone.contains("Nothing written here is durable: it is on tmpfs"), "{gone}");
        assert!(!gone.contains("times a second"), "{gone}");
    }
}
