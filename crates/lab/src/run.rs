//! The record of a run of an experiment: its figures, and how they were measured.

pub mod compare;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::run::compare::Comparison;
use crate::sample::Sample;

/// The request as typed: kept with a run, so that it can be repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// The given options of the experiment, by name.
    pub options: BTreeMap<String, String>,
    /// `--disks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<PathBuf>,
    /// `--dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
}

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors.
    pub cpus: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine. Unknown facts are left empty.
    pub fn here() -> Machine {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().find_map(|l| l.strip_prefix("MemTotal:"));
        let kilobytes: u64 =
            total.and_then(|t| t.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kilobytes << 10,
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// Facts about a run that the caller supplies. None of them comes from a clock here, so that a model run
/// is the same every time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The date, as text.
    pub date: String,
    /// The machine that it ran on.
    pub machine: Machine,
    /// The commit of the source that ran.
    pub commit: String,
}

/// A figure for each layout of a run, in their order; `None` where a layout was not measured or
/// published.
pub type Figures = Vec<Option<f64>>;

/// One arm: a way of doing the work, measured on each layout of the run ([`Run::layouts`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// A description, for people; more than 25 characters get their own line.
    pub what: String,
    /// The unit of the figures: `MB/s`, `s`.
    pub unit: String,
    /// Whether two decimals are significant whatever the size: seconds, milliseconds, ratios.
    #[serde(default)]
    pub two_decimals: bool,
    /// The published figures.
    pub published: Option<Figures>,
    /// The figures of the model.
    pub model: Option<Figures>,
    /// The figures measured here.
    pub here: Option<Figures>,
    /// The experiment's comparison ([`Run::ratio`]): of the figures measured here if any, else of the model.
    pub ratio: Option<f64>,
    /// Whether the model was fitted to the published figures of this arm.
    pub fitted: bool,
    /// Largest difference between two rounds of one layout, relative to the median.
    pub spread: f64,
    /// The verdict on the ratio, given the noise.
    pub verdict: Verdict,
}

impl Arm {
    /// Whether the model was fitted to this row on this layout.
    pub fn is_fitted(&self, layout: usize) -> bool {
        let published = self.published.as_ref().and_then(|f| *f.get(layout)?);
        self.fitted && published.is_some()
    }

    /// The figures of a column.
    pub fn figures(&self, column: Column) -> Option<&Figures> {
        match column {
            Column::Model => self.model.as_ref(),
            Column::Here => self.here.as_ref(),
        }
    }
}

/// Further figures: by queue depth, or from the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Model or here.
    pub column: Column,
    /// The meaning of the columns: `reads in flight per disk`.
    pub head: String,
    /// One name for each.
    pub columns: Vec<String>,
    /// The observations.
    pub rows: Vec<TableRow>,
    /// Whether the page draws its rows as curves over its columns.
    pub plot: bool,
}

/// A line of a [`Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// A description, with its unit; more than 24 characters get their own line.
    pub what: String,
    /// A figure for each column.
    pub figures: Figures,
}

/// One raw measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raw {
    /// Model or here.
    pub column: Column,
    /// Round, from 1.
    pub round: u32,
    /// The name of its layout.
    pub layout: String,
    /// Name of the arm, or `depth-N`, or `a` and `a'`.
    pub arm: String,
    /// The reads, if reads were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Other counts, by name with their unit: `writes`, `cpu_user_ns`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Other observations, in words: `in force`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

/// The difference between two measurements of the same thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Pairs of equal runs.
    pub pairs: u32,
    /// Largest relative difference within a pair.
    pub spread: f64,
}

/// The verdict on a ratio, given the noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// More than one.
    #[serde(rename = "faster")]
    Faster,
    /// Less than one.
    #[serde(rename = "slower")]
    Slower,
    /// No further from one than equal runs differ: not distinguishable.
    #[default]
    #[serde(rename = "not distinguishable")]
    NotDistinguishable,
}

/// The median; none of an empty set.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// The verdict on `ratio` when equal runs differ by `noise`.
pub fn verdict(ratio: f64, noise: f64) -> Verdict {
    // A model has no noise at all: still, a thousandth is not significant.
    let noise = noise.max(0.001);
    if ratio > 1.0 + noise {
        Verdict::Faster
    } else if ratio < 1.0 - noise {
        Verdict::Slower
    } else {
        Verdict::NotDistinguishable
    }
}

/// A run of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// The question it answers.
    pub question: String,
    /// The source and date of the published figures: `C. Kutrovsky, "...", Pythian, 2006`.
    pub source: String,
    /// Date, place and source commit.
    #[serde(flatten)]
    pub head: Head,
    /// The request: enough to repeat it.
    pub asked: Invocation,
    /// Descriptions of the disks, for people, by column: `model`, `here`.
    pub disks: BTreeMap<String, String>,
    /// Remarks on them before the figures: label and text.
    pub heads: Vec<(String, String)>,
    /// The settings.
    pub settings: BTreeMap<String, String>,
    /// A digest of the settings: equal digests may be compared.
    pub settings_hash: String,
    /// The method in a sentence or two; noise and digest are appended.
    pub method: String,
    /// More about the method, for readers who ask for it: label and text.
    pub details: Vec<(String, String)>,
    /// The layouts that figures of the arms belong to: `1 disk`, `2 disks`.
    pub layouts: Vec<String>,
    /// The meaning of an arm's ratio: `two disks over one`.
    pub ratio: String,
    /// The compared arms.
    pub arms: Vec<Arm>,
    /// Further figures.
    pub tables: Vec<Table>,
    /// The A/A measurement.
    pub noise: Noise,
    /// The answer in words.
    pub finding: String,
    /// Answers to readers' questions, and remarks on the answer: label and text.
    pub remarks: Vec<(String, String)>,
    /// The comparison with the run that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Comparison>,
    /// Every measurement.
    pub raw: Vec<Raw>,
}

impl Run {
    /// An arm by its name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// Whether only models were measured.
    pub fn is_model(&self) -> bool {
        self.disks.contains_key("model") && self.arms.iter().all(|arm| arm.here.is_none())
    }

    /// As JSON, with figures of twelve digits and a line feed at the end.
    ///
    /// # Errors
    /// A figure that JSON cannot represent.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        crate::json::pretty(self)
    }

    /// A run kept as JSON.
    ///
    /// # Errors
    /// It is not one.
    pub fn from_json(text: &str) -> Result<Run, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// A digest of settings, in hexadecimal (64-bit FNV-1a): for comparison, not security.
pub fn settings_hash(settings: &BTreeMap<String, String>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, value) in settings {
        for byte in name.bytes().chain([0]).chain(value.bytes()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_the_noise_nothing_is_said() {
        assert_eq!(verdict(1.04, 0.05), Verdict::NotDistinguishable);
        assert_eq!(verdict(0.96, 0.05), Verdict::NotDistinguishable);
        assert_eq!(verdict(1.06, 0.05), Verdict::Faster);
        assert_eq!(verdict(0.74, 0.05), Verdict::Slower);
        assert_eq!(verdict(1.0005, 0.0), Verdict::NotDistinguishable);
        let json = serde_json::to_string(&Verdict::NotDistinguishable).unwrap();
        assert_eq!(json, "\"not distinguishable\"");
    }

    #[test]
    fn other_settings_have_another_digest() {
        let one = BTreeMap::from([("a".to_owned(), "bc".to_owned())]);
        let two = BTreeMap::from([("ab".to_owned(), "c".to_owned())]);
        assert_ne!(settings_hash(&one), settings_hash(&two));
        assert_eq!(settings_hash(&one), settings_hash(&one.clone()));
    }
}
