//! Options of `redo-block-size`.

use std::time::Duration;

use cellar_io::shape::{self, ShapeOptions};

use crate::commit::Crew;
use crate::commit::areas::Areas;
use crate::error::LabError;
use crate::experiment::{OptionSpec, OptionTexts};
use crate::preset::{NVME_512_FORMAT, NVME_512_PAGE, Preset};

/// A possible reason for 512 being slower: the two published ends do not decide between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// The disk works in pages of 4 KB whatever its format: the block size matters.
    Page,
    /// Sectors of 512 cost the disk bandwidth: the format matters.
    Format,
}

impl Explanation {
    const ALL: [(&'static str, Explanation); 2] =
        [("page", Explanation::Page), ("format", Explanation::Format)];

    /// As given to `--model`.
    pub fn word(self) -> &'static str {
        Explanation::ALL.iter().find(|(_, own)| *own == self).map_or("", |(word, _)| word)
    }

    /// The resulting disk with sectors of 512.
    pub(super) fn preset(self) -> Preset {
        match self {
            Explanation::Page => NVME_512_PAGE,
            Explanation::Format => NVME_512_FORMAT,
        }
    }

    pub(super) fn other(self) -> Explanation {
        match self {
            Explanation::Page => Explanation::Format,
            Explanation::Format => Explanation::Page,
        }
    }
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sessions with large commits, as in SLOB, and as many with small ones: 1 to 256.
    pub sessions: usize,
    /// Size of a large record in bytes.
    pub large: usize,
    /// Interval between large commits of a session.
    pub large_think: Duration,
    /// Size of a small record in bytes.
    pub small: usize,
    /// Interval between small commits of a session.
    pub small_think: Duration,
    /// Units of the log in flight: 1 to 4.
    pub in_flight: usize,
    /// Duration of each measurement.
    pub time: Duration,
    /// Size of each file of a log group in bytes: a multiple of 1 MiB.
    pub group_bytes: u64,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Seed for the times of commits, and for the order of tasks on the model.
    pub seed: u64,
    /// The model's reason for 512 being slow.
    pub explanation: Explanation,
    /// A model put in front of real disks.
    pub shape: Option<ShapeOptions>,
}

const SESSIONS: &str = "1 to 256";
const RECORD: &str = "1 to 8M";
const THINK: &str = "0 to 10000, in milliseconds";
const IN_FLIGHT: &str = "1 to 4";
const MILLIS: &str = "50 to 600000";
const GROUP: &str = "a multiple of 1M, 32M to 4096M";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";
const MODEL: &str = "page, format";
const SHAPE: &str = "a disk model: 1400MB/s,20us,page:4096/1ms";

pub(super) const SPECS: &[OptionSpec] = &[
    OptionSpec::new("sessions", "N", "32", "Sessions with large commits, and as many with small"),
    OptionSpec::new("large", "SIZE", "1484687", "Redo of a large commit, as SLOB's in the post"),
    OptionSpec::new("large-think", "MS", "210", "Between two large commits of a session"),
    OptionSpec::new("small", "SIZE", "5750", "Redo of a small commit"),
    OptionSpec::new("small-think", "MS", "1", "Between two small commits of a session; 0: none"),
    OptionSpec::new(
        "in-flight",
        "N",
        "4",
        "Units of the log on their way at once; 1: as a log writer does",
    ),
    OptionSpec::new("millis", "N", "2000", "How long each measurement takes"),
    OptionSpec::new("group-size", "SIZE", "64M", "Of each of three log groups"),
    OptionSpec::new(
        "rounds",
        "N",
        "5; of a model alone 3",
        "Rounds, interleaved; medians are shown",
    ),
    OptionSpec::new("seed", "N", "4", "Decides when sessions commit"),
    OptionSpec::new(
        "model",
        "WHY",
        "page",
        "Why 512 is slow: page (written in part), format (sectors cost bandwidth)",
    ),
    OptionSpec::new(
        "shape",
        "WORDS",
        "as they are",
        "Slow the disks here to a model: 1400MB/s,20us,page:4096/1ms",
    ),
];

impl Default for Options {
    /// SLOB's commits by 32 sessions, small ones by 32, two seconds each, 3 rounds: the times of
    /// commits are random, even in a model.
    fn default() -> Options {
        Options {
            sessions: 32,
            large: 1_484_687,
            large_think: Duration::from_millis(210),
            small: 5750,
            small_think: Duration::from_millis(1),
            in_flight: 4,
            time: Duration::from_millis(2000),
            group_bytes: 64 << 20,
            rounds: 3,
            seed: 4,
            explanation: Explanation::Page,
            shape: None,
        }
    }
}

impl Options {
    /// As the default, for files and disks of this machine: 5 rounds.
    pub fn here() -> Options {
        Options { rounds: 5, ..Options::default() }
    }

    pub(super) fn read(words: OptionTexts<'_>, here: bool) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let shape = |text: &str| shape::parse(text).ok().map(Some);
        let explanation = |word: &str| {
            Explanation::ALL.iter().find(|(name, _)| *name == word).map(|(_, own)| *own)
        };
        let think = |name, default: Duration| {
            let millis = words.number(name, default.as_millis() as u64, THINK);
            millis.map(Duration::from_millis)
        };
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let millis = base.time.as_millis() as u64;
        let options = Options {
            sessions: narrow(words.number("sessions", base.sessions as u64, SESSIONS)?),
            large: narrow(words.size("large", base.large as u64, RECORD)?),
            large_think: think("large-think", base.large_think)?,
            small: narrow(words.size("small", base.small as u64, RECORD)?),
            small_think: think("small-think", base.small_think)?,
            in_flight: narrow(words.number("in-flight", base.in_flight as u64, IN_FLIGHT)?),
            time: Duration::from_millis(words.number("millis", millis, MILLIS)?),
            group_bytes: words.size("group-size", base.group_bytes, GROUP)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            seed: words.number("seed", base.seed, SEED)?,
            explanation: words.parsed("model", base.explanation, MODEL, explanation)?,
            shape: words.parsed("shape", None, SHAPE, shape)?,
        };
        options.check()?;
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: String, allowed| Err(LabError::Option { name, value, allowed });
        if !(1..=256).contains(&self.sessions) {
            return refuse("sessions", self.sessions.to_string(), SESSIONS);
        }
        for (name, bytes) in [("large", self.large), ("small", self.small)] {
            if !(1..=8 << 20).contains(&bytes) {
                return refuse(name, bytes.to_string(), RECORD);
            }
        }
        for (name, think) in [("large-think", self.large_think), ("small-think", self.small_think)]
        {
            if think > Duration::from_secs(10) {
                return refuse(name, think.as_millis().to_string(), THINK);
            }
        }
        if !(1..=4).contains(&self.in_flight) {
            return refuse("in-flight", self.in_flight.to_string(), IN_FLIGHT);
        }
        let millis = self.time.as_millis();
        if !(50..=600_000).contains(&millis) {
            return refuse("millis", millis.to_string(), MILLIS);
        }
        let mega = self.group_bytes >> 20;
        if !self.group_bytes.is_multiple_of(1 << 20) || !(32..=4096).contains(&mega) {
            return refuse("group-size", self.group_bytes.to_string(), GROUP);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", self.rounds.to_string(), ROUNDS);
        }
        Ok(())
    }

    pub(super) fn areas(&self) -> Areas {
        Areas { group: self.group_bytes, data: 0, archive: 0 }
    }

    pub(super) fn large_crew(&self) -> Crew {
        let (sessions, bytes, think) = (self.sessions, self.large, self.large_think);
        Crew { name: "large", sessions, bytes, think }
    }

    pub(super) fn small_crew(&self) -> Crew {
        let (sessions, bytes, think) = (self.sessions, self.small, self.small_think);
        Crew { name: "small", sessions, bytes, think }
    }
}
