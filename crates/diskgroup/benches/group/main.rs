//! Benchmarks of a disk group, against the raw disks below it and against rivals.
//!
//! `cargo bench -p cellar-diskgroup --profile release --bench group -- WHAT`
//! with WHAT one of `read`, `scan`, `shaped`, `write`, `pieces`, `btrfs`, `cost`, `hot`, `pages`, `resync`, `mount`,
//! `moves`, `returns`, `scrub`, `slow`.
//! Our runs and the rival's alternate; each arm prints the median and the spread of its rounds,
//! then the goal. Files created in `--dir` are removed. The exit code is 1 when a goal is missed.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod btrfs;
mod cost;
mod fio;
mod mount;
mod moves;
mod pieces;
mod read;
mod report;
mod returns;
mod rig;
mod scrub;
mod slow;
mod write;

use std::path::PathBuf;

/// The command line.
pub struct Options {
    /// The directory for disks.
    pub dir: PathBuf,
    /// Rounds of each arm.
    pub rounds: usize,
    /// Seconds of each run.
    pub seconds: u64,
    /// Bytes of file data; 0 takes the default of the measurement.
    pub size: u64,
    /// Maximum seconds of a resync.
    pub target: Option<u64>,
    /// Without fio and rivals: for profiling.
    pub alone: bool,
    /// Only arms whose name contains this.
    pub only: Option<String>,
    /// The file for raw results, a line of JSON each.
    pub record: Option<PathBuf>,
}

impl Options {
    /// Whether an arm was requested.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// The bytes of file data: as requested, or `default`.
    pub fn bytes(&self, default: u64) -> u64 {
        if self.size == 0 { default } else { self.size }
    }
}

const HELP: &str = "WHAT is one of read, scan, shaped, write, pieces, btrfs, cost, hot, pages, resync, \
                    mount, moves, returns, scrub, slow; \
                    options are --dir --rounds --seconds --size --only --record --target --alone";

fn main() {
    refuse_debug();
    let Some((what, options)) = parse() else {
        return;
    };
    let mut report = report::Report::new(&what, &options);
    match what.as_str() {
        "read" => read::random(&options, &mut report),
        "scan" => read::sequential(&options, &mut report),
        "shaped" => read::shaped(&options, &mut report),
        "write" => write::against_raw(&options, &mut report),
        "pieces" => pieces::run(&options, &mut report),
        "btrfs" => btrfs::run(&options, &mut report),
        "cost" => cost::cold(&options, &mut report),
        "hot" => cost::hot(&options, &mut report),
        "pages" => cost::pages(&options, &mut report),
        "resync" => cost::resync(&options, &mut report),
        "mount" => mount::run(&options, &mut report),
        "moves" => moves::run(&options, &mut report),
        "returns" => returns::run(&options, &mut report),
        "scrub" => scrub::run(&options, &mut report),
        "slow" => slow::run(&options, &mut report),
        other => panic!("{other}: {HELP}"),
    }
    std::process::exit(i32::from(report.missed > 0));
}

/// Debug assertions do not show it, because the release profile has them: an optimised build
/// counts to 200 million in no time, because the loop is removed.
fn refuse_debug() {
    let start = rig::cpu_seconds();
    let sum = (0..200_000_000_u64).fold(0_u64, |sum, i| sum.wrapping_add(i));
    std::hint::black_box(sum);
    let took = rig::cpu_seconds() - start;
    assert!(took < 0.5, "measure an optimised build, never a debug one");
}

fn parse() -> Option<(String, Options)> {
    let mut options = Options {
        dir: std::env::temp_dir(),
        rounds: 3,
        seconds: 2,
        size: 0,
        target: None,
        alone: false,
        only: None,
        record: None,
    };
    let mut what = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => options.dir = value().into(),
            "--rounds" => options.rounds = value().parse().expect("--rounds is a count"),
            "--seconds" => options.seconds = value().parse().expect("--seconds is a count"),
            "--size" => options.size = value().parse::<u64>().expect("--size is in MiB") << 20,
            "--only" => options.only = Some(value()),
            "--record" => options.record = Some(value().into()),
            "--target" => options.target = Some(value().parse().expect("--target is in seconds")),
            "--alone" => options.alone = true,
            // Added by `cargo bench`.
            "--bench" => {}
            // Added by `cargo test`: nothing to measure then.
            "--test" => return None,
            other if other.starts_with('-') || what.is_some() => panic!("{other}: {HELP}"),
            other => what = Some(other.to_owned()),
        }
    }
    Some((what.unwrap_or_else(|| panic!("{HELP}")), options))
}
