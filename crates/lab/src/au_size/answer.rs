//! The evaluation of `au-size`: from raw rows to arms, tables, noise and a finding in words.

use std::collections::{BTreeMap, BTreeSet};

use super::options::name;
use super::{Measured, NAME, Options, Position, QUESTION, SCAN_DEPTH, WAYS, Way, words};
use crate::column::Column;
use crate::content::STEP;
use crate::run::{
    Arm, Figures, Head, Noise, Run, Table, TableRow, Verdict, median, settings_hash, verdict,
};
use crate::sample::Sample;

/// Published seconds for the scan of one table of 14.8 GB, by MB of the AU.
pub(super) const PUBLISHED: [(u64, f64); 3] = [(1, 7.58), (4, 4.32), (8, 7.92)];
/// The AU that the published times are compared with.
pub(super) const BASE: u64 = 4 << 20;
/// The arm that tests whether the position on disk explains the published times.
pub(super) const PLACE: &str = "place";
pub(super) const POSITIONS: [Position; 2] = [Position::Outer, Position::Inner];

impl Measured {
    pub(super) fn samples(&self, arm: &str, au_size: u64) -> impl Iterator<Item = &Sample> {
        let layout = name(au_size);
        let rows = self.raw.iter().filter(move |r| r.arm == arm && r.layout == layout);
        rows.filter_map(|r| r.sample.as_ref())
    }

    /// The median of `figure` over the rounds.
    pub(super) fn figure(
        &self,
        arm: &str,
        au_size: u64,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        median(self.samples(arm, au_size).filter_map(figure).collect())
    }

    pub(super) fn seconds(&self, arm: &str, au_size: u64) -> Option<f64> {
        self.figure(arm, au_size, |s| Some(s.seconds()))
    }

    /// MB/s of the disks without a group, in the stretch at this position.
    pub(super) fn ceiling(&self, position: Position) -> Option<f64> {
        let arm = format!("ceiling-{}", position.word());
        let rows = self.raw.iter().filter(|r| r.arm == arm);
        median(rows.filter_map(|r| Some(r.sample.as_ref()?.mb_per_second())).collect())
    }

    pub(super) fn positions(&self) -> Vec<Position> {
        let has = |p: &Position| self.raw.iter().any(|r| r.arm == Way::Cell.arm(*p));
        POSITIONS.into_iter().filter(has).collect()
    }

    pub(super) fn noise(&self, options: &Options) -> Noise {
        let first = options.au_sizes[0];
        let times = |arm| self.samples(arm, first).map(Sample::seconds).collect::<Vec<_>>();
        let (a, b) = (times("a"), times("a'"));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }

    /// Largest difference between rounds of one AU.
    fn spread(&self, arm: &str, options: &Options) -> f64 {
        let of = |au_size: &u64| {
            let times: Vec<f64> = self.samples(arm, *au_size).map(Sample::seconds).collect();
            let (low, high) =
                times.iter().fold((f64::MAX, 0.0_f64), |(l, h), t| (l.min(*t), h.max(*t)));
            median(times).map_or(0.0, |m| (high - low) / m.max(f64::MIN_POSITIVE))
        };
        options.au_sizes.iter().map(of).fold(0.0, f64::max)
    }

    /// Seconds of an arm by AU.
    fn figures(&self, arm: &str, options: &Options) -> Option<Figures> {
        let figures: Figures =
            options.au_sizes.iter().map(|au_size| self.seconds(arm, *au_size)).collect();
        figures.iter().any(Option::is_some).then_some(figures)
    }

    /// [`BASE`] on the outer tracks and the other AUs on the inner ones, as multiples of the former, for
    /// disks that rotate or might.
    fn place(&self, options: &Options) -> Option<Figures> {
        if self.column == Column::Model && !self.turns {
            return None;
        }
        let outer = self.seconds(&Way::Cell.arm(Position::Outer), BASE)?;
        let inner = Way::Cell.arm(Position::Inner);
        let of = |au_size: &u64| match *au_size {
            BASE => Some(1.0),
            au_size => Some(self.seconds(&inner, au_size)? / outer),
        };
        let figures: Figures = options.au_sizes.iter().map(of).collect();
        figures.iter().flatten().any(|f| *f != 1.0).then_some(figures)
    }
}

/// The largest figure over the smallest.
fn largest_over_smallest(figures: &Figures) -> Option<f64> {
    let known = || figures.iter().flatten().copied();
    let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    (low > 0.0).then_some(high / low)
}

fn published(options: &Options, figure: impl Fn(f64) -> f64) -> Figures {
    let of = |au_size: &u64| {
        let (_, seconds) = PUBLISHED.into_iter().find(|(mb, _)| mb << 20 == *au_size)?;
        Some(figure(seconds))
    };
    options.au_sizes.iter().map(of).collect()
}

/// Compares measured with published figures. The answer is about `here` if measured,
/// else about the model.
///
/// # Panics
/// If there is neither.
pub fn report(
    head: Head,
    options: &Options,
    model: Option<Measured>,
    here: Option<Measured>,
) -> Run {
    let main = here.as_ref().or(model.as_ref()).expect("a report is about a measurement");
    let noise = main.noise(options);
    let arms = arms(options, main, noise, model.as_ref(), here.as_ref());
    let tables = [&model, &here].into_iter().flatten().flat_map(|m| tables(options, m)).collect();
    let settings = settings(options, main);
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        source: "\"Why Does Exadata Require a 4MB Allocation Unit Size (AU_SIZE)?\", 2012"
            .to_owned(),
        head,
        disks: [&model, &here]
            .into_iter()
            .flatten()
            .map(|m| (label(m.column).to_owned(), m.words.clone()))
            .collect(),
        heads: words::heads(main),
        settings_hash: settings_hash(&settings),
        settings,
        method: method(options, main.caches),
        details: words::details(options, main, model.as_ref()),
        layouts: options.au_sizes.iter().map(|au_size| name(*au_size)).collect(),
        ratio: "slowest AU over fastest".to_owned(),
        tables,
        finding: words::finding(options, main, &arms, noise),
        remarks: words::remarks(options, main, model.as_ref(), &arms),
        arms,
        noise,
        raw: [model, here].into_iter().flatten().flat_map(|m| m.raw).collect(),
        ..Run::default()
    }
}

fn label(column: Column) -> &'static str {
    match column {
        Column::Model => "model",
        Column::Here => "here",
    }
}

fn arms(
    options: &Options,
    main: &Measured,
    noise: Noise,
    model: Option<&Measured>,
    here: Option<&Measured>,
) -> Vec<Arm> {
    let mut arms = Vec::new();
    let finish = |arm: Arm, spread: f64| {
        let own = if main.column == Column::Here { &arm.here } else { &arm.model };
        let ratio = own.as_ref().and_then(largest_over_smallest);
        let verdict =
            ratio.map_or(Verdict::NotDistinguishable, |r| verdict(r, spread.max(noise.spread)));
        Arm { ratio, spread, verdict, ..arm }
    };
    for (position, way) in POSITIONS.into_iter().flat_map(|p| WAYS.map(|w| (p, w))) {
        let name = way.arm(position);
        let of = |m: Option<&Measured>| m.and_then(|m| m.figures(&name, options));
        let (model, here) = (of(model), of(here));
        if model.is_none() && here.is_none() {
            continue;
        }
        let what = match way {
            Way::Cell => format!("as a cell, {}", position.word()),
            Way::Shifted => format!("shifted, {}", position.word()),
        };
        // The post does not say where its groups were on the disks.
        let told = way == Way::Cell && arms.is_empty();
        let published = told.then(|| published(options, |seconds| seconds));
        let unit = "s".to_owned();
        let arm = Arm {
            name: name.clone(),
            what,
            unit,
            two_decimals: true,
            published,
            model,
            here,
            ..Arm::default()
        };
        arms.push(finish(arm, main.spread(&name, options)));
    }
    let of = |m: Option<&Measured>| m.and_then(|m| m.place(options));
    let (model, here) = (of(model), of(here));
    if model.is_some() || here.is_some() {
        let base = PUBLISHED[1].1;
        let arm = Arm {
            name: PLACE.to_owned(),
            what: "4 MB outer, others inner".to_owned(),
            unit: "time relative to 4 MB AU".to_owned(),
            two_decimals: true,
            published: Some(published(options, |seconds| seconds / base)),
            model,
            here,
            ..Arm::default()
        };
        arms.push(finish(arm, main.spread(&Way::Cell.arm(Position::Inner), options)));
    }
    arms
}

/// The requests and the result of each way, at the first position.
fn tables(options: &Options, measured: &Measured) -> Vec<Table> {
    let Some(position) = measured.positions().first().copied() else { return Vec::new() };
    let table = |way: Way| {
        let arm = way.arm(position);
        let row = |what: &str, figure: &dyn Fn(&Sample) -> Option<f64>| TableRow {
            what: what.to_owned(),
            figures: options
                .au_sizes
                .iter()
                .map(|au_size| measured.figure(&arm, *au_size, figure))
                .collect(),
        };
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
        let mut rows = vec![
            row("MB/s", &|s| Some(s.mb_per_second())),
            row("reads sent", &|s| Some(s.reads as f64)),
            row("of them across two AUs", &|s| Some(s.crossed as f64)),
            row("requests at the disks", &|s| Some(requests(s) as f64)),
        ];
        rows.extend(sizes(options, measured, &arm).into_iter().map(|size| {
            let count = move |s: &Sample| {
                let of = s.disks.iter().map(|disk| disk.sizes.get(&size).copied().unwrap_or(0));
                Some(of.sum::<u64>() as f64)
            };
            row(&format!("  of {} KB", size >> 10), &count)
        }));
        if measured.column == Column::Here {
            rows.push(row("KB a device got, average", &device_kilobytes));
        }
        rows.push(row("wait for a read, p50, ms", &|s| ms(s.p50_ns)));
        rows.push(row("wait for a read, p99, ms", &|s| ms(s.p99_ns)));
        rows.push(row("all waits, s", &|s| Some(s.waited_ns as f64 / 1e9)));
        let head = match way {
            Way::Cell => format!("as a cell, {}", position.word()),
            Way::Shifted => format!("shifted, {}", position.word()),
        };
        let columns = options.au_sizes.iter().map(|au_size| name(*au_size)).collect();
        Table { column: measured.column, head, columns, rows, plot: false }
    };
    WAYS.into_iter().map(table).collect()
}

/// Requests seen by the disks.
pub(super) fn requests(sample: &Sample) -> u64 {
    sample.disks.iter().map(|disk| disk.requests).sum()
}

/// The most frequent request sizes seen by the disks, largest first: at most four of them.
fn sizes(options: &Options, measured: &Measured, arm: &str) -> Vec<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for sample in options.au_sizes.iter().flat_map(|au_size| measured.samples(arm, *au_size)) {
        for (size, count) in sample.disks.iter().flat_map(|disk| &disk.sizes) {
            *counts.entry(*size).or_default() += count;
        }
    }
    let mut often: Vec<(u64, u64)> = counts.into_iter().map(|(size, n)| (n, size)).collect();
    often.sort_unstable_by(|a, b| b.cmp(a));
    let often: BTreeSet<u64> = often.into_iter().take(4).map(|(_, size)| size).collect();
    often.into_iter().rev().collect()
}

fn device_kilobytes(sample: &Sample) -> Option<f64> {
    let (bytes, reads) =
        sample.devices.iter().fold((0, 0), |(b, r), device| (b + device.bytes, r + device.reads));
    (reads > 0).then(|| bytes as f64 / reads as f64 / 1024.0)
}

fn method(options: &Options, caches: &str) -> String {
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds, each begun with another AU, medians"),
    };
    let disks = if options.width == 1 { "disk" } else { "disks" };
    format!(
        "{} MB on {} {disks}, coarse, external, checksums on; one group after the other on the \
         same stretch of the same disks; {SCAN_DEPTH} reads in flight a disk; caches {caches}; \
         {rounds}; every byte read was checked against its sum",
        options.file_bytes >> 20,
        options.width,
    )
}

fn settings(options: &Options, main: &Measured) -> BTreeMap<String, String> {
    let list = |words: Vec<String>| words.join(",");
    let shape = options.shape.map_or("none".to_owned(), |shape| format!("{shape:?}"));
    [
        ("place", main.kind.to_owned()),
        ("au", list(options.au_sizes.iter().map(|au_size| name(*au_size)).collect())),
        ("file", format!("{} MB", options.file_bytes >> 20)),
        ("width", options.width.to_string()),
        ("position", list(main.positions().iter().map(|p| p.word().to_owned()).collect())),
        ("shift", options.shift.words()),
        ("read", format!("{} KB", STEP >> 10)),
        ("striping", "coarse".to_owned()),
        ("redundancy", "external".to_owned()),
        ("checksums", "on".to_owned()),
        ("sector_size", "4096".to_owned()),
        ("caches", main.caches.to_owned()),
        ("scan_depth", SCAN_DEPTH.to_string()),
        ("rounds", options.rounds.to_string()),
        ("seed", options.seed.to_string()),
        ("preset", options.preset.name.to_owned()),
        ("shape", shape),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
