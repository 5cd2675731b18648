//! Options of `redo-media`, and the resulting jobs.

use std::time::Duration;

use cellar_io::shape::{self, ShapeOptions};

use crate::commit::areas::Areas;
use crate::error::LabError;
use crate::experiment::{OptionSpec, OptionTexts};

/// The destination of archives of finished groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// No archiving.
    Off,
    /// The disk of the redo; with both media the disk, not the flash.
    Same,
    /// A third disk.
    Other,
}

impl Archive {
    const ALL: [(&'static str, Archive); 3] =
        [("off", Archive::Off), ("same", Archive::Same), ("other", Archive::Other)];

    /// As given to `--archive`.
    pub fn word(self) -> &'static str {
        Archive::ALL.iter().find(|(_, own)| *own == self).map_or("", |(word, _)| word)
    }
}

/// The work concurrent with the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) archive: Archive,
    pub(super) scans: usize,
}

impl Job {
    /// Nothing.
    pub(super) const ALONE: Job = Job { archive: Archive::Off, scans: 0 };

    /// The suffix of the name of an arm.
    pub(super) fn suffix(self) -> String {
        match (self.archive, self.scans) {
            (Archive::Off, 0) => String::new(),
            (archive, 0) => format!("-{}", archive.word()),
            (archive, scans) => format!("-{}-scan{scans}", archive.word()),
        }
    }

    /// In words, for a sentence.
    pub(super) fn words(self) -> String {
        let archive = match self.archive {
            Archive::Off => "",
            Archive::Same => "archiving to where the redo is",
            Archive::Other => "archiving to a third disk",
        };
        let scans = match self.scans {
            0 => String::new(),
            1 => "a scan of the disk".to_owned(),
            n => format!("{n} scans of the disk"),
        };
        match (archive, &scans[..]) {
            ("", "") => "alone".to_owned(),
            ("", scans) => format!("with {scans}"),
            (archive, "") => format!("with {archive}"),
            (archive, scans) => format!("with {archive} and {scans}"),
        }
    }
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Log block sizes in bytes: 512, 4096 or both, ascending.
    pub blocks: Vec<u32>,
    /// Numbers of concurrently committing sessions, each once, ascending.
    pub sessions: Vec<usize>,
    /// Size of a record in bytes: 1 to 1 MiB.
    pub record: usize,
    /// Archive destinations, each once.
    pub archive: Vec<Archive>,
    /// Concurrent scans of the disk; 0: none.
    pub scans: usize,
    /// Units of the log in flight: 1 to 4.
    pub in_flight: usize,
    /// Duration of each measurement.
    pub time: Duration,
    /// Size of each file of a log group in bytes: a multiple of 1 MiB.
    pub group_bytes: u64,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Seed for the late writes of the model, and for the order of tasks.
    pub seed: u64,
    /// The model of the disk, also put in front of a real disk.
    pub disk_shape: Option<ShapeOptions>,
    /// The model of the flash.
    pub flash_shape: Option<ShapeOptions>,
}

const BLOCK: &str = "512, 4096, each once, with a comma between";
const SESSIONS: &str = "1 to 1000, each once, ascending, with commas between";
const RECORD: &str = "1 to 1M";
const ARCHIVE: &str = "off, same, other, each once, with commas between";
const WITH: &str = "none, scan=1 to scan=32";
const IN_FLIGHT: &str = "1 to 4";
const MILLIS: &str = "50 to 600000";
const GROUP: &str = "a multiple of 1M, 4M to 1024M";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";
const SHAPE: &str = "a disk model: 500MB/s,100us,page:4096/300us,late:0.1%/20ms";

pub(super) const SPECS: &[OptionSpec] = &[
    OptionSpec::new("block", "LIST", "512,4096", "Log block sizes: 512, 4096"),
    OptionSpec::new("sessions", "LIST", "1,10", "How many commit at once, in a tight loop"),
    OptionSpec::new("record", "SIZE", "1K", "Bytes of a record"),
    OptionSpec::new(
        "archive",
        "LIST",
        "off",
        "Archive groups: off, same (where the redo is), other (a third disk)",
    ),
    OptionSpec::new("with", "LOAD", "none", "What competes: scan=N, N scans of the disk at once"),
    OptionSpec::new(
        "in-flight",
        "N",
        "4",
        "Units of the log on their way at once; 1: as a log writer does",
    ),
    OptionSpec::new(
        "millis",
        "N",
        "1000; of a model alone 3000",
        "How long each measurement takes",
    ),
    OptionSpec::new("group-size", "SIZE", "16M", "Of each of three log groups"),
    OptionSpec::new("rounds", "N", "5", "Rounds, interleaved; medians are shown"),
    OptionSpec::new("seed", "N", "4", "Decides which writes of the model are late"),
    OptionSpec::new(
        "disk-shape",
        "WORDS",
        "of 2011; here as it is",
        "What the disk is slowed to: 400us,late:0.1%/15ms",
    ),
    OptionSpec::new(
        "flash-shape",
        "WORDS",
        "of 2011; here as it is",
        "What the flash is slowed to: 90us,page:4096/300us",
    ),
];

impl Default for Options {
    /// 1 KB by 1 and by 10 sessions in both block sizes, no concurrent work, 3 rounds of three seconds:
    /// late writes are random, even in a model.
    fn default() -> Options {
        Options {
            blocks: vec![512, 4096],
            sessions: vec![1, 10],
            record: 1024,
            archive: vec![Archive::Off],
            scans: 0,
            in_flight: 4,
            time: Duration::from_millis(3000),
            group_bytes: 16 << 20,
            rounds: 3,
            seed: 4,
            disk_shape: None,
            flash_shape: None,
        }
    }
}

/// A comma-separated list without duplicates.
fn list<T: PartialEq>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let all: Vec<T> = text.split(',').map(|word| one(word.trim())).collect::<Option<_>>()?;
    let twice = all.iter().enumerate().any(|(i, own)| all[..i].contains(own));
    (!twice).then_some(all)
}

fn scans(text: &str) -> Option<usize> {
    match text {
        "none" => Some(0),
        text => text.strip_prefix("scan=")?.parse().ok().filter(|n| (1..=32).contains(n)),
    }
}

impl Options {
    /// As the default, for files and disks of this machine: 5 rounds of one second.
    pub fn here() -> Options {
        Options { time: Duration::from_millis(1000), rounds: 5, ..Options::default() }
    }

    pub(super) fn read(words: OptionTexts<'_>, here: bool) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let shape = |text: &str| shape::parse(text).ok().map(Some);
        let archive = |word: &str| {
            Archive::ALL.iter().find(|(name, _)| *name == word).map(|(_, archive)| *archive)
        };
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let millis = base.time.as_millis() as u64;
        let options = Options {
            blocks: words.parsed("block", base.blocks, BLOCK, |t| list(t, |w| w.parse().ok()))?,
            sessions: words.parsed("sessions", base.sessions, SESSIONS, |text| {
                list(text, |word| word.parse().ok())
            })?,
            record: narrow(words.size("record", base.record as u64, RECORD)?),
            archive: words.parsed("archive", base.archive, ARCHIVE, |text| list(text, archive))?,
            scans: words.parsed("with", base.scans, WITH, scans)?,
            in_flight: narrow(words.number("in-flight", base.in_flight as u64, IN_FLIGHT)?),
            time: Duration::from_millis(words.number("millis", millis, MILLIS)?),
            group_bytes: words.size("group-size", base.group_bytes, GROUP)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            seed: words.number("seed", base.seed, SEED)?,
            disk_shape: words.parsed("disk-shape", None, SHAPE, shape)?,
            flash_shape: words.parsed("flash-shape", None, SHAPE, shape)?,
        };
        options.check()?;
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: String, allowed| Err(LabError::Option { name, value, allowed });
        let listed = |all: Vec<String>| match all.is_empty() {
            true => "\"\"".to_owned(),
            false => all.join(","),
        };
        let ascending = self.blocks.is_sorted_by(|a, b| a < b);
        let known = self.blocks.iter().all(|block| [512, 4096].contains(block));
        if self.blocks.is_empty() || !ascending || !known {
            let blocks = self.blocks.iter().map(u32::to_string).collect();
            return refuse("block", listed(blocks), BLOCK);
        }
        let range = self.sessions.iter().all(|count| (1..=1000).contains(count));
        if self.sessions.is_empty() || !self.sessions.is_sorted_by(|a, b| a < b) || !range {
            let sessions = self.sessions.iter().map(usize::to_string).collect();
            return refuse("sessions", listed(sessions), SESSIONS);
        }
        if !(1..=1 << 20).contains(&self.record) {
            return refuse("record", self.record.to_string(), RECORD);
        }
        if self.archive.is_empty() {
            return refuse("archive", "\"\"".to_owned(), ARCHIVE);
        }
        if self.scans > 32 {
            return refuse("with", format!("scan={}", self.scans), WITH);
        }
        if !(1..=4).contains(&self.in_flight) {
            return refuse("in-flight", self.in_flight.to_string(), IN_FLIGHT);
        }
        let millis = self.time.as_millis();
        if !(50..=600_000).contains(&millis) {
            return refuse("millis", millis.to_string(), MILLIS);
        }
        let mega = self.group_bytes >> 20;
        if !self.group_bytes.is_multiple_of(1 << 20) || !(4..=1024).contains(&mega) {
            return refuse("group-size", self.group_bytes.to_string(), GROUP);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", self.rounds.to_string(), ROUNDS);
        }
        Ok(())
    }

    /// The kinds of concurrent work, in sequence: none first, as the
    /// reference.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let mut jobs = vec![Job::ALONE];
        for archive in &self.archive {
            let job = Job { archive: *archive, scans: self.scans };
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        jobs
    }

    /// The number of disks needed: the disk, the flash, and one for archives.
    pub(super) fn disks(&self) -> usize {
        if self.archive.contains(&Archive::Other) { 3 } else { 2 }
    }

    pub(super) fn areas(&self) -> Areas {
        let archives = self.archive.iter().any(|archive| *archive != Archive::Off);
        Areas {
            group: self.group_bytes,
            data: if self.scans > 0 { 256 << 20 } else { 0 },
            archive: if archives { 3 * self.group_bytes } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beside_comes_first_and_once() {
        let job = |archive, scans| Job { archive, scans };
        assert_eq!(Options::default().jobs(), [Job::ALONE]);
        let all = vec![Archive::Off, Archive::Same, Archive::Other];
        let options = Options { archive: all.clone(), ..Options::default() };
        assert_eq!(options.jobs().len(), 3);
        let options = Options { archive: all, scans: 4, ..Options::default() };
        let wanted =
            [Job::ALONE, job(Archive::Off, 4), job(Archive::Same, 4), job(Archive::Other, 4)];
        assert_eq!(options.jobs(), wanted);
        assert_eq!(wanted[2].suffix(), "-same-scan4");
    }

    #[test]
    fn loads_are_read_and_others_refused() {
        assert_eq!((scans("none"), scans("scan=8")), (Some(0), Some(8)));
        for bad in ["", "scan", "scan=", "scan=0", "scan=33", "query=1"] {
            assert_eq!(scans(bad), None, "{bad}");
        }
    }
}
