//! The evaluation of `redo-media`: measured figures beside the published ones.

use std::collections::BTreeMap;

use cellar_io::shape::ShapeOptions;

use super::options::{Archive, Job};
use super::{CREW, LAYOUTS, Layout, MEDIA, Measured, NAME, Options, QUESTION, Way, ways, words};
use crate::column::Column;
use crate::commit::{PARTS, figure, spread};
use crate::run::{
    Arm, Figures, Head, Noise, Run, Table, TableRow, Verdict, settings_hash, verdict,
};

const RATE: &str = "commits_per_second";
const SCANNED: &str = "scan_mb_per_second";

/// Published for 1 KB records: sessions, block, time on flash as a multiple of that on disk. For 4096
/// the number of sessions was not published.
const PUBLISHED: [(usize, u32, f64); 3] =
    [(1, 512, 4.0), (10, 512, words::PUBLISHED_10), (1, 4096, 1.3)];

impl Measured {
    pub(super) fn figure(&self, way: Way, layout: Layout, name: &str) -> Option<f64> {
        figure(&self.raw, &way.arm(), layout.name(), name)
    }

    /// Commits a second.
    pub(super) fn rate(&self, way: Way, layout: Layout) -> Option<f64> {
        self.figure(way, layout, RATE)
    }

    pub(super) fn scanned(&self, way: Way, layout: Layout) -> Option<f64> {
        self.figure(way, layout, SCANNED)
    }

    /// For an arm other than the ways.
    pub(super) fn rate_of(&self, arm: &str, layout: Layout) -> Option<f64> {
        figure(&self.raw, arm, layout.name(), RATE)
    }

    /// The time of a commit on `layout` as a multiple of that on the disk.
    pub(super) fn times_disk(&self, way: Way, layout: Layout) -> Option<f64> {
        Some(self.rate(way, Layout::Disk)? / self.rate(way, layout).filter(|r| *r > 0.0)?)
    }

    pub(super) fn spread(&self, way: Way) -> f64 {
        LAYOUTS.iter().map(|layout| self.spread_of(way, *layout)).fold(0.0, f64::max)
    }

    pub(super) fn spread_of(&self, way: Way, layout: Layout) -> f64 {
        spread(&self.raw, &way.arm(), layout.name(), RATE)
    }

    pub(super) fn noise(&self) -> Noise {
        let rates = |arm: &str| {
            let rows = self.raw.iter().filter(move |row| row.arm == arm);
            rows.filter_map(|row| row.figures.get(RATE).copied()).collect::<Vec<_>>()
        };
        let (a, b) = (rates("a"), rates("a'"));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }
}

/// Compares measured with published figures. The answer is about `here` if measured, else about
/// the model.
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
    let noise = main.noise();
    let arms = arms(options, main, model.as_ref(), here.as_ref(), noise);
    let settings = settings(options, main);
    let tables = [&model, &here].into_iter().flatten().flat_map(|m| tables(options, m)).collect();
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        source: "G. Harrison, \"Using flash disk for Redo on Exadata\", with its readers, 2011"
            .to_owned(),
        head,
        disks: [&model, &here]
            .into_iter()
            .flatten()
            .map(|m| (label(m.column).to_owned(), m.words.clone()))
            .collect(),
        heads: words::heads(options),
        settings_hash: settings_hash(&settings),
        settings,
        method: words::method(options, main),
        details: words::details(options),
        layouts: LAYOUTS.iter().map(|layout| layout.name().to_owned()).collect(),
        ratio: "flash over disk".to_owned(),
        arms,
        tables,
        finding: words::finding(options, main, noise),
        remarks: words::remarks(options, main, model.as_ref()),
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

/// The name of a way, at most 25 characters.
fn what(way: Way) -> String {
    let sessions = if way.sessions == 1 { "session" } else { "sessions" };
    match way.job {
        Job::ALONE => format!("{} {sessions}, {}", way.sessions, way.block),
        Job { archive, scans: 0 } => {
            format!("{} of {}, arch. {}", way.sessions, way.block, archive.word())
        }
        Job { archive: Archive::Off, scans } => {
            format!("{} of {}, {scans} scans", way.sessions, way.block)
        }
        Job { archive, scans } => {
            format!("{} of {}, {}+{scans} scans", way.sessions, way.block, archive.word())
        }
    }
}

/// Commits a second, concurrent scans, and the published ratios.
fn arms(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
    here: Option<&Measured>,
    noise: Noise,
) -> Vec<Arm> {
    let of = |measured: Option<&Measured>, figure: &dyn Fn(&Measured, Layout) -> Option<f64>| {
        measured.map(|m| LAYOUTS.iter().map(|layout| figure(m, *layout)).collect::<Figures>())
    };
    let ways = ways(options);
    let mut arms: Vec<Arm> = Vec::new();
    for (name, unit) in [(RATE, "commits/s"), (SCANNED, "MB/s scanned")] {
        for way in ways.iter().copied().filter(|way| name == RATE || way.job.scans > 0) {
            let figure = |m: &Measured, layout| m.figure(way, layout, name);
            let on = |layout| main.figure(way, layout, name).filter(|value| *value > 0.0);
            let ratio = on(Layout::Flash).zip(on(Layout::Disk)).map(|(flash, disk)| flash / disk);
            let spread = main.spread(way);
            let told = |ratio| verdict(ratio, spread.max(noise.spread));
            let suffix = if name == RATE { "" } else { "-scanned" };
            arms.push(Arm {
                name: way.arm() + suffix,
                what: what(way),
                unit: unit.to_owned(),
                model: of(model, &figure),
                here: of(here, &figure),
                ratio,
                spread,
                verdict: ratio.map_or(Verdict::NotDistinguishable, told),
                ..Arm::default()
            });
        }
    }
    for way in ways.into_iter().filter(|way| way.job == Job::ALONE) {
        let figure = |m: &Measured, layout| m.times_disk(way, layout);
        let known =
            PUBLISHED.iter().find(|(n, block, _)| (*n, *block) == (way.sessions, way.block));
        let known = known.filter(|_| options.record == 1024);
        arms.push(Arm {
            name: format!("{}-times", way.arm()),
            what: what(way),
            unit: "times as long as on disk".to_owned(),
            published: known.map(|(.., times)| vec![Some(1.0), Some(*times), None]),
            model: of(model, &figure),
            here: of(here, &figure),
            // The model of 2011 was fitted to the results of one session.
            fitted: way.sessions == 1 && options.flash_shape.is_none(),
            spread: main.spread(way),
            ..Arm::default()
        });
    }
    arms
}

/// The parts of a commit with most sessions, and the first medium, by block size.
fn tables(options: &Options, measured: &Measured) -> Vec<Table> {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let column = measured.column;
    let mut tables = Vec::new();
    for block in options.blocks.iter().copied() {
        let way = Way { job: Job::ALONE, sessions, block };
        let parts = |layout: Layout| measured.parts(way, layout);
        let row = |at: usize| TableRow {
            what: words::part(PARTS[at]).to_owned(),
            figures: LAYOUTS.iter().map(|layout| Some(parts(*layout)?[at])).collect(),
        };
        let is_there = |row: &TableRow| row.figures.iter().flatten().any(|part| *part >= 0.05);
        tables.push(Table {
            column,
            head: format!("% of a commit, {sessions} x {block}"),
            columns: LAYOUTS.iter().map(|layout| layout.name().to_owned()).collect(),
            rows: (0..PARTS.len()).map(row).filter(is_there).collect(),
            plot: false,
        });
    }
    let mut columns = Vec::new();
    let mut board: Vec<(&str, Figures)> =
        words::BOARD.iter().map(|(what, ..)| (*what, Vec::new())).collect();
    for block in options.blocks.iter().copied() {
        let way = Way { job: Job::ALONE, sessions, block };
        for (_, medium) in MEDIA {
            columns.push(format!("{medium} {block}"));
            for ((_, figures), (_, name, per_unit)) in board.iter_mut().zip(words::BOARD) {
                let value = measured.figure(way, Layout::Both, &format!("{medium} {name}"));
                let units = || measured.units(way);
                let part = |value: f64| Some(100.0 * value / units()?);
                figures.push(if *per_unit { value.and_then(part) } else { value });
            }
        }
    }
    tables.push(Table {
        column,
        head: format!("on both, {sessions} sessions"),
        columns,
        rows: board
            .into_iter()
            .map(|(what, figures)| TableRow { what: what.to_owned(), figures })
            .collect(),
        plot: false,
    });
    tables
}

impl Measured {
    /// The parts of a commit in percent of the whole.
    pub(super) fn parts(&self, way: Way, layout: Layout) -> Option<[f64; 8]> {
        let mut parts = [0.0; 8];
        for (part, name) in parts.iter_mut().zip(PARTS) {
            *part = self.figure(way, layout, &format!("{CREW} {name}_us"))?;
        }
        let all: f64 = parts.iter().sum();
        (all > 0.0).then(|| parts.map(|part| 100.0 * part / all))
    }

    /// Units that one of the two had first.
    pub(super) fn units(&self, way: Way) -> Option<f64> {
        let first = |name: &str| self.figure(way, Layout::Both, &format!("{name} units_first"));
        let all = MEDIA.iter().filter_map(|(_, name)| first(name)).sum::<f64>();
        (all > 0.0).then_some(all)
    }
}

fn settings(options: &Options, main: &Measured) -> BTreeMap<String, String> {
    let list = |all: Vec<String>| all.join(",");
    let shape = |shape: Option<ShapeOptions>| match shape {
        Some(shape) => shape.to_string(),
        None if main.column == Column::Model => "of 2011".to_owned(),
        None => "as it is".to_owned(),
    };
    [
        ("place", main.kind.to_owned()),
        ("block", list(options.blocks.iter().map(u32::to_string).collect())),
        ("sessions", list(options.sessions.iter().map(usize::to_string).collect())),
        ("record", format!("{} bytes", options.record)),
        ("archive", list(options.archive.iter().map(|a| a.word().to_owned()).collect())),
        ("scans", options.scans.to_string()),
        ("redo_quorum", "1".to_owned()),
        ("units_in_flight", options.in_flight.to_string()),
        ("millis", options.time.as_millis().to_string()),
        ("group", format!("{} MB", options.group_bytes >> 20)),
        ("rounds", options.rounds.to_string()),
        ("seed", options.seed.to_string()),
        ("caches", main.caches.to_owned()),
        ("disk_shape", shape(options.disk_shape)),
        ("flash_shape", shape(options.flash_shape)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
