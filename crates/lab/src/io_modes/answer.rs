//! The evaluation of `io-modes`: from raw rows to arms, tables and noise.

use std::collections::BTreeMap;

use cellar_io::real::EngineChoice;

use super::job::{ASSUMED, ROWS};
use super::setting::{LAYOUTS, NAMES, Setting};
use super::work::{BATCH, BLOCK};
use super::{Measured, NAME, Options, QUESTION, words};
use crate::column::Column;
use crate::run::{Arm, Head, Noise, Raw, Run, Table, TableRow, Verdict, settings_hash, verdict};
use crate::run::{Figures, median};

/// The subject of a figure: load, name of the arm, `disk_asynch_io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At<'a> {
    pub load: &'a str,
    pub name: &'a str,
    pub layout: &'a str,
    /// Whether it is the second measurement.
    pub again: bool,
}

impl<'a> At<'a> {
    /// The first measurement.
    pub(super) fn first(load: &'a str, name: &'a str, layout: &'a str) -> At<'a> {
        At { load, name, layout, again: false }
    }
}

/// The description of a load, for people.
pub(super) struct LoadWords {
    /// The short form, which precedes the setting.
    pub what: String,
    /// The unit.
    pub unit: String,
}

pub(super) fn load_words(load: &str) -> LoadWords {
    let (what, unit) = match load.split_once('-') {
        Some(("log", bytes)) => (format!("log {bytes} B"), "durable log writes/s"),
        _ if load == "job" => ("the job".to_owned(), "s of I/O alone"),
        _ if load == "group" => ("in a group".to_owned(), "durable writes in group/s"),
        _ => ("8 KB batches".to_owned(), "durable 8 KB writes/s"),
    };
    LoadWords { what, unit: unit.to_owned() }
}

/// One measurement, and its subject.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub load: String,
    pub setting: Setting,
    pub way: Way,
    pub raw: Raw,
}

/// The access path to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Never [`EngineChoice::Auto`].
    pub engine: EngineChoice,
    pub direct: bool,
}

impl Row {
    fn at(&self) -> At<'_> {
        let Setting { name, again, .. } = self.setting;
        At { load: &self.load, name, layout: self.setting.layout(), again }
    }
}

/// Rows, indexed for queries.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a>(pub &'a [Row]);

impl<'a> Rows<'a> {
    /// Loads in the order of measurement.
    pub(super) fn loads(self) -> Vec<&'a str> {
        let mut loads = Vec::new();
        for row in self.0 {
            if !loads.contains(&row.load.as_str()) {
                loads.push(&row.load);
            }
        }
        loads
    }

    fn at(self, at: At<'a>) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.at() == at)
    }

    /// A figure, by round.
    fn each(self, at: At<'a>, figure: impl Fn(&Raw) -> Option<f64>) -> Vec<f64> {
        self.at(at).filter_map(|row| figure(&row.raw)).collect()
    }

    /// The median of a figure over the rounds.
    pub(super) fn median(self, at: At<'a>, figure: impl Fn(&Raw) -> Option<f64>) -> Option<f64> {
        median(self.each(at, figure))
    }

    /// The I/O engine.
    pub(super) fn effective(self, at: At<'a>) -> Option<&'a str> {
        self.note(at, "in force")
    }

    /// The effective access path.
    pub(super) fn way(self, at: At<'a>) -> Option<Way> {
        Some(self.at(at).next()?.way)
    }

    /// Other observations, in words.
    pub(super) fn note(self, at: At<'a>, name: &str) -> Option<&'a str> {
        self.at(at).next()?.raw.notes.get(name).map(String::as_str)
    }

    /// All measurements of a load, including second ones.
    fn places(self, load: &str) -> Vec<At<'a>> {
        let mut places: Vec<At<'a>> =
            self.0.iter().map(Row::at).filter(|at| at.load == load).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The spread between medians of the same thing: settings with the same access path,
    /// and second measurements.
    pub(super) fn noise(self, load: &str) -> Noise {
        let mut noise = Noise::default();
        let places = self.places(load);
        for (i, one) in places.iter().enumerate() {
            for other in &places[..i] {
                let way = |at: &At<'a>| self.way(*at);
                let (Some(a), Some(b)) = (self.median(*one, speed), self.median(*other, speed))
                else {
                    continue;
                };
                if way(one).is_some() && way(one) == way(other) {
                    noise.pairs += 1;
                    noise.spread = noise.spread.max(a.max(b) / a.min(b) - 1.0);
                }
            }
        }
        noise
    }

    /// Sorted speeds of all settings with the same access path as this one: pooling equal runs
    /// adds precision.
    fn pooled(self, at: At<'a>) -> Vec<f64> {
        let Some(way) = self.way(at) else { return Vec::new() };
        let equal = self.places(at.load).into_iter().filter(|other| self.way(*other) == Some(way));
        let mut speeds: Vec<f64> = equal.flat_map(|other| self.each(other, speed)).collect();
        speeds.sort_by(f64::total_cmp);
        speeds
    }

    /// The speed of a setting relative to `none`, each pooled with its equals, and the verdict:
    /// not distinguishable within the noise, or if the middle halves of both overlap.
    pub(super) fn times_none(self, at: At<'a>) -> Option<(f64, Verdict)> {
        let none = self.pooled(At { name: "none", layout: LAYOUTS[0], again: false, ..at });
        let this = self.pooled(at);
        let times = median(this.clone())? / median(none.clone())?;
        let told = verdict(times.max(1.0 / times), self.noise(at.load).spread);
        let ((low, high), (none_low, none_high)) = (middle_half(&this)?, middle_half(&none)?);
        let apart = low > none_high || high < none_low;
        let told = match (told, apart) {
            (Verdict::NotDistinguishable, _) | (_, false) => Verdict::NotDistinguishable,
            _ if times > 1.0 => Verdict::Faster,
            _ => Verdict::Slower,
        };
        Some((times, told))
    }

    /// The range over the rounds, as a fraction of the median.
    fn spread(self, at: At<'a>) -> f64 {
        let values = self.each(at, speed);
        let (low, high) =
            values.iter().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
        self.median(at, speed).map_or(0.0, |middle| (high - low) / middle.max(f64::MIN_POSITIVE))
    }
}

/// Conservative bounds of the middle half of sorted values.
fn middle_half(sorted: &[f64]) -> Option<(f64, f64)> {
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 4], sorted[(3 * last).div_ceil(4)]))
}

/// A counted figure.
pub(super) fn figure(row: &Raw, name: &str) -> Option<f64> {
    row.figures.get(name).copied()
}

/// Durable writes a second.
fn speed(row: &Raw) -> Option<f64> {
    Some(figure(row, "writes")? * 1e9 / figure(row, "durable_ns")?.max(1.0))
}

/// Seconds until all was durable.
pub(super) fn seconds(row: &Raw) -> Option<f64> {
    figure(row, "durable_ns").map(|ns| ns / 1e9)
}

/// The quotient of two figures.
fn per(row: &Raw, name: &str, of: &str, scale: f64) -> Option<f64> {
    Some(figure(row, name)? * scale / figure(row, of)?.max(1.0))
}

/// Compares measured with published figures.
pub fn report(head: Head, options: &Options, measured: &Measured) -> Run {
    let rows = Rows(&measured.rows);
    let loads = rows.loads();
    let noises: Vec<Noise> = loads.iter().map(|load| rows.noise(load)).collect();
    let settings = settings(options);
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds interleaved in rotated order, medians"),
    };
    let machine = words::machine(&head.machine, measured.load);
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        source: "\"disk_asynch_io and filesystemio_options in oracle\", 2022".to_owned(),
        head,
        disks: [("here".to_owned(), measured.words.clone())].into(),
        heads: vec![("Machine".to_owned(), machine)],
        settings_hash: settings_hash(&settings),
        settings,
        method: format!(
            "The file is opened as an instance with these parameters opens it; columns true and \
             false: disk_asynch_io. A batch is {BATCH} writes handed over at once, then a flush; a \
             write of the log is durable when it returns. Pages of the file dropped before each; \
             {rounds}; ratio: times as fast as none, each together with its equals"
        ),
        details: words::details(measured),
        layouts: LAYOUTS.map(str::to_owned).to_vec(),
        ratio: "times as fast as none, each with its equals; disk_asynch_io true".to_owned(),
        arms: loads.iter().flat_map(|load| arms(rows, load, options)).collect(),
        tables: loads.iter().map(|load| table(rows, load, options)).collect(),
        noise: Noise {
            pairs: noises.iter().map(|n| n.pairs).sum(),
            spread: noises.iter().map(|n| n.spread).fold(0.0, f64::max),
        },
        finding: words::finding(rows, options),
        remarks: words::remarks(rows, measured, options),
        raw: measured.rows.iter().map(|row| row.raw.clone()).collect(),
        ..Run::default()
    }
}

fn arms(rows: Rows<'_>, load: &str, options: &Options) -> Vec<Arm> {
    let words = load_words(load);
    let shown = if load == "job" { seconds } else { speed };
    let arm = |(name, published): (&str, Option<f64>)| {
        let ats = LAYOUTS.map(|layout| At::first(load, name, layout));
        let times = (name != "none").then(|| rows.times_none(ats[0])).flatten();
        let published = published.filter(|_| load == "job" && options.rows == ROWS);
        Arm {
            name: format!("{load}-{name}"),
            what: format!("{}, {}", words.what, name.replace("-libaio", " libaio")),
            unit: words.unit.clone(),
            published: published.map(|seconds| vec![Some(seconds), None]),
            here: Some(ats.map(|at| rows.median(at, shown)).to_vec()),
            ratio: times.map(|(times, _)| times),
            spread: ats.map(|at| rows.spread(at)).into_iter().fold(0.0, f64::max),
            verdict: times.map_or(Verdict::NotDistinguishable, |(_, told)| told),
            ..Arm::default()
        }
    };
    NAMES.into_iter().map(arm).collect()
}

type Figure = fn(&Raw) -> Option<f64>;

const BATCHES: [(&str, Figure); 11] = [
    ("writes/s until returned", |r| per(r, "writes", "sent_ns", 1e9)),
    ("writes/s until durable", speed),
    ("p50 of a batch, ms", |r| figure(r, "p50_ns").map(|ns| ns / 1e6)),
    ("p99 of a batch, ms", |r| figure(r, "p99_ns").map(|ns| ns / 1e6)),
    ("CPU a write, us", |r| per(r, "cpu_ns", "writes", 1e-3)),
    ("thread switches a write", |r| per(r, "context_switches", "writes", 1.0)),
    ("system calls a write", |r| {
        calls(r).map(|calls| calls / figure(r, "strace_writes").unwrap_or(1.0))
    }),
    ("pages left in the cache", |r| figure(r, "cached_pages")),
    ("kernel AIO, requests", |r| figure(r, "aio_reserved")),
    ("device writes a write", |r| per(r, "device_writes", "writes", 1.0)),
    ("device flushes a batch", |r| per(r, "device_flushes", "writes", BATCH as f64)),
];

const LOG: [(&str, Figure); 8] = [
    ("p50 of a write, us", |r| figure(r, "p50_ns").map(|ns| ns / 1e3)),
    ("p99 of a write, us", |r| figure(r, "p99_ns").map(|ns| ns / 1e3)),
    ("CPU a write, us", |r| per(r, "cpu_ns", "writes", 1e-3)),
    ("thread switches a write", |r| per(r, "context_switches", "writes", 1.0)),
    ("pages left in the cache", |r| figure(r, "cached_pages")),
    ("device reads a write", |r| per(r, "device_reads", "writes", 1.0)),
    ("device writes a write", |r| per(r, "device_writes", "writes", 1.0)),
    ("device flushes a write", |r| per(r, "device_flushes", "writes", 1.0)),
];

const JOB: [(&str, Figure); 5] = [
    ("s until returned", |r| figure(r, "sent_ns").map(|ns| ns / 1e9)),
    ("s until durable", seconds),
    ("MB/s", |r| per(r, "bytes", "durable_ns", 1e3)),
    ("s of CPU", |r| figure(r, "cpu_ns").map(|ns| ns / 1e9)),
    ("pages left in the cache", |r| figure(r, "cached_pages")),
];

/// Calls of the traced writes, without those that only wait.
fn calls(row: &Raw) -> Option<f64> {
    figure(row, "strace_writes")?;
    let counted = row.figures.iter().filter_map(|(name, count)| {
        let call = name.strip_prefix("strace_")?;
        (!["writes", "futex"].contains(&call)).then_some(*count)
    });
    Some(counted.sum())
}

/// The kernel's counters, with `disk_asynch_io` true.
fn table(rows: Rows<'_>, load: &str, options: &Options) -> Table {
    let figures: &[(&str, Figure)] = match load {
        "batch" | "group" => &BATCHES,
        "job" => &JOB,
        _ => &LOG,
    };
    let ats = NAMES.map(|(name, _)| At::first(load, name, LAYOUTS[0]));
    let row = |(what, figure): &(&str, Figure)| TableRow {
        what: (*what).to_owned(),
        figures: ats.map(|at| rows.median(at, figure)).to_vec(),
    };
    let mut lines: Vec<TableRow> = figures.iter().map(row).collect();
    if load == "job" && options.rows == ROWS {
        let part = |i: usize| Some(100.0 * rows.median(ats[i], seconds)? / NAMES[i].1?);
        let figures: Figures = (0..NAMES.len()).map(part).collect();
        lines.push(TableRow { what: "% of the published time".to_owned(), figures });
    }
    Table {
        column: Column::Here,
        head: load_words(load).what,
        columns: NAMES.map(|(name, _)| column(name)).to_vec(),
        rows: lines,
        plot: false,
    }
}

/// The name of a setting as the head of a narrow column.
fn column(name: &str) -> String {
    match name.split_once('-') {
        Some(_) => "+libaio".to_owned(),
        None => name.to_owned(),
    }
}

fn settings(options: &Options) -> BTreeMap<String, String> {
    [
        ("file", format!("{} MB", options.file_bytes >> 20)),
        ("batches", options.batches.to_string()),
        ("batch", format!("{BATCH} blocks of {BLOCK}")),
        ("log_writes", options.log_writes.to_string()),
        ("rows", options.rows.to_string()),
        ("assumed", ASSUMED.to_owned()),
        ("caches", "pages of the file dropped before each measurement".to_owned()),
        ("rounds", options.rounds.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
