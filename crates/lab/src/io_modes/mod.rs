//! `io-modes`: what do `filesystemio_options` and `disk_asynch_io` change?
//!
//! The four values, with asynchronous I/O and without, on a file of this machine that is opened as
//! an instance opens it: batches of scattered 8 KB blocks as a database writer submits them, small
//! durable writes as a log writer does, and all the writes of the job of the post "disk_asynch_io and
//! filesystemio_options in oracle" (2022). Besides the time, the kernel's view:
//! system calls by strace, pages left in the page cache, writes and flushes of the device,
//! CPU time. Only this machine is measured: a model has no kernel.

mod answer;
mod group;
mod job;
mod kernel;
mod measure;
mod setting;
mod strace;
mod words;
mod work;

use std::path::PathBuf;

pub use self::answer::report;
use self::job::Job;
pub use self::measure::{Measured, measure};
use self::work::Work;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, OptionTexts, Request};
use crate::run::Run;

/// The name of the experiment.
pub const NAME: &str = "io-modes";
const QUESTION: &str = "What do filesystemio_options and disk_asynch_io change, and how much of a \
     job is I/O at all?";

/// Number of batches, and of log writes, while strace counts.
const TRACED: (u64, u64) = (4, 64);

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the file: a multiple of 1 MiB, at least 16 MiB.
    pub file_bytes: u64,
    /// Batches of 64 blocks.
    pub batches: u64,
    /// Writes of the log.
    pub log_writes: u64,
    /// Rows of the job of the post; 0 leaves it out.
    pub rows: u64,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
}

impl Default for Options {
    /// 256 MiB, 64 batches, 400 writes of the log, 1,000,000 rows as in the post, 5 rounds.
    fn default() -> Options {
        Options { file_bytes: 256 << 20, batches: 64, log_writes: 400, rows: job::ROWS, rounds: 5 }
    }
}

const SIZE: &str = "a multiple of 1 MiB, at least 16 MiB";
const COUNT: &str = "1 to 1000000";
const ROWS: &str = "0 to 100000000";
const ROUNDS: &str = "1 to 1000";

impl Options {
    fn read(words: OptionTexts<'_>) -> Result<Options, LabError> {
        let base = Options::default();
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let options = Options {
            file_bytes: words.size("size", base.file_bytes, SIZE)?,
            batches: words.number("batches", base.batches, COUNT)?,
            log_writes: words.number("log-writes", base.log_writes, COUNT)?,
            rows: words.number("rows", base.rows, ROWS)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: u64, allowed| {
            Err(LabError::Option { name, value: value.to_string(), allowed })
        };
        if self.file_bytes < 16 << 20 || !self.file_bytes.is_multiple_of(1 << 20) {
            return refuse("size", self.file_bytes, SIZE);
        }
        for (name, count) in [("batches", self.batches), ("log-writes", self.log_writes)] {
            if !(1..=1_000_000).contains(&count) {
                return refuse(name, count, COUNT);
            }
        }
        if self.rows > 100_000_000 {
            return refuse("rows", self.rows, ROWS);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", u64::from(self.rounds), ROUNDS);
        }
        Ok(())
    }

    /// The loads, if the smallest direct write is `sector` bytes.
    fn loads(&self, sector: u64) -> Vec<Load> {
        let batches = |name: &str, in_group| Load {
            name: name.to_owned(),
            in_group,
            work: Work::Batches(self.batches),
            traced: Some(Work::Batches(TRACED.0)),
        };
        let log = |bytes: u64| Load {
            in_group: false,
            name: format!("log-{bytes}"),
            work: Work::Log { bytes, writes: self.log_writes },
            traced: Some(Work::Log { bytes, writes: TRACED.1 }),
        };
        let mut loads = vec![batches("batch", false)];
        loads.extend([512, 4096].into_iter().filter(|bytes| *bytes >= sector).map(log));
        if self.rows > 0 {
            let work = Work::Job(Job { rows: self.rows });
            loads.push(Load { name: "job".to_owned(), in_group: false, work, traced: None });
        }
        loads.push(batches("group", true));
        loads
    }
}

/// A load by its name.
struct Load {
    name: String,
    /// Whether the file of a group is written, not the scratch file itself.
    in_group: bool,
    work: Work,
    /// The part of it that is repeated with strace.
    traced: Option<Work>,
}

/// `io-modes` for the command line.
pub struct IoModes;

impl Experiment for IoModes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run io-modes                       on a scratch file here
  cellar lab run io-modes --dir /u01 --rows 0   elsewhere, without the job"
    }

    fn options(&self) -> &'static [OptionSpec] {
        const {
            &[
                OptionSpec::new("size", "SIZE", "256M", "The scratch file that is written"),
                OptionSpec::new("batches", "N", "64", "Batches of 64 scattered 8 KB blocks"),
                OptionSpec::new("log-writes", "N", "400", "Durable writes one behind the other"),
                OptionSpec::new("rows", "N", "1000000", "Rows of the job of the post; 0: no job"),
                OptionSpec::new("rounds", "N", "5", "Rounds, interleaved"),
            ]
        }
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, LabError> {
        let options = Options::read(request.words())?;
        if let Some(disk) = request.asked.disks.first() {
            return Err(LabError::Option {
                name: "disks",
                value: disk.display().to_string(),
                allowed: "none of them: filesystemio_options is about files; --dir says where",
            });
        }
        let dir = request.asked.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let dir = std::path::absolute(&dir)
            .map_err(|source| LabError::Scratch { path: dir.clone(), source })?;
        let measured = measure(&dir, &options, &request.control)?;
        let run = report(request.head.clone(), &options, &measured);
        Ok(Run { asked: request.asked.clone(), ..run })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_will_not_do_are_named() {
        let base = Options::default();
        for (options, name) in [
            (Options { file_bytes: 1 << 20, ..base.clone() }, "size 1048576"),
            (Options { batches: 0, ..base.clone() }, "batches 0"),
            (Options { log_writes: 0, ..base.clone() }, "log-writes 0"),
            (Options { rounds: 0, ..base.clone() }, "rounds 0"),
            (Options { rows: 1 << 40, ..base.clone() }, "rows 1099511627776"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(base.check().is_ok());
    }

    #[test]
    fn a_log_is_not_written_in_less_than_a_sector() {
        let names = |sector| {
            let loads = Options { rows: 0, ..Options::default() }.loads(sector);
            loads.into_iter().map(|l| l.name).collect::<Vec<_>>()
        };
        assert_eq!(names(512), ["batch", "log-512", "log-4096", "group"]);
        assert_eq!(names(4096), ["batch", "log-4096", "group"]);
    }
}
