//! The evaluation of `redo-block-size`: measured figures beside the published ones.

use std::collections::BTreeMap;

use super::{LAYOUTS, Layout, Measured, NAME, Options, QUESTION, WORKS, Work, words};
use crate::column::Column;
use crate::commit::{BUCKETS, figure, spread};
use crate::run::{
    Arm, Figures, Head, Noise, Run, Table, TableRow, Verdict, settings_hash, verdict,
};

/// `log file parallel write`, the mean.
pub(super) const WRITE: &str = "write_ms";
const REDO: &str = "redo_mb_per_second";

/// The mean `log file sync` of a workload.
pub(super) fn sync(work: Work) -> String {
    format!("{} sync_ms", work.crew())
}

fn commits(work: Work) -> String {
    format!("{} commits_per_second", work.crew())
}

/// Redo of a transaction of the post in bytes, and its waits for `log file parallel write`: with
/// 512 on 512 and with 4096 on 4096.
pub(super) const PER_TRANSACTION: [(f64, f64); 2] = [(1_484_687.2, 0.85), (1_737_881.6, 1.56)];
/// Redo a second of the post in bytes.
pub(super) const PER_SECOND: [f64; 2] = [217_863_651.9, 258_528_798.2];
/// Its histogram of `log file parallel write`, in percent, as far as its columns are legible.
const HISTOGRAM: [[f64; 7]; 2] =
    [[19.6, 24.4, 33.4, 19.2, 2.4, 0.2, 0.7], [64.3, 33.4, 1.9, 0.3, 0.1, 0.1, 0.0]];

/// A block of rows: a figure of each workload, and its published values at both ends.
struct Block {
    unit: &'static str,
    /// The crew it is about.
    works: &'static [Work],
    suffix: &'static str,
    name: fn(Work) -> String,
    published: fn(Work) -> Option<[f64; 2]>,
    /// Whether the model was fitted to the published values.
    fitted: bool,
    /// Whether less is better.
    less: bool,
}

const BLOCKS: [Block; 5] = [
    Block {
        unit: "ms log file parallel write",
        works: &WORKS,
        suffix: "",
        name: |_| WRITE.to_owned(),
        published: |work| (work == Work::Large).then_some([3.57, 0.89]),
        fitted: true,
        less: true,
    },
    Block {
        unit: "ms log file sync",
        works: &WORKS,
        suffix: "-sync",
        name: sync,
        published: |work| (work == Work::Small).then_some([2.45, 1.13]),
        fitted: false,
        less: true,
    },
    Block {
        unit: "MB/s of redo",
        works: &WORKS,
        suffix: "-redo",
        name: |_| REDO.to_owned(),
        published: |work| (work == Work::Large).then_some(PER_SECOND.map(|bytes| bytes / 1e6)),
        fitted: false,
        less: false,
    },
    Block {
        unit: "large commits/s",
        works: &[Work::Large],
        suffix: "-commits",
        name: commits,
        published: |work| (work == Work::Large).then_some(words::transactions()),
        fitted: false,
        less: false,
    },
    // On a separate scale: they are much larger.
    Block {
        unit: "small commits/s",
        works: &[Work::Small, Work::Mixed],
        suffix: "-commits",
        name: commits,
        published: |_| None,
        fitted: false,
        less: false,
    },
];

impl Measured {
    pub(super) fn figure(&self, work: Work, layout: Layout, name: &str) -> Option<f64> {
        figure(&self.raw, work.arm(), layout.name, name)
    }

    /// For an arm other than the workloads.
    pub(super) fn figure_of(&self, arm: &str, layout: Layout, name: &str) -> Option<f64> {
        figure(&self.raw, arm, layout.name, name)
    }

    pub(super) fn spread(&self, work: Work, name: &str) -> f64 {
        let of = |layout: &Layout| spread(&self.raw, work.arm(), layout.name, name);
        LAYOUTS.iter().map(of).fold(0.0, f64::max)
    }

    pub(super) fn noise(&self) -> Noise {
        let times = |arm: &str| {
            let rows = self.raw.iter().filter(move |row| row.arm == arm);
            rows.filter_map(|row| row.figures.get(WRITE).copied()).collect::<Vec<_>>()
        };
        let (a, b) = (times("a"), times("a'"));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }
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
    let noise = main.noise();
    let settings = settings(options, main);
    let both = || [&model, &here].into_iter().flatten();
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        source: "A. Boliński, \"Advanced Format 4k - Redo Log Performance\", 2016".to_owned(),
        head,
        disks: both().map(|m| (label(m.column).to_owned(), m.words.clone())).collect(),
        heads: words::heads(options),
        settings_hash: settings_hash(&settings),
        settings,
        method: words::method(options, main),
        details: words::details(),
        layouts: LAYOUTS.iter().map(|layout| layout.name.to_owned()).collect(),
        ratio: "512/512 over 4096/512".to_owned(),
        arms: arms(main, model.as_ref(), here.as_ref(), noise),
        tables: both().flat_map(|m| [sizes(m), histogram(m)]).collect(),
        finding: words::finding(main, noise),
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

fn arms(
    main: &Measured,
    model: Option<&Measured>,
    here: Option<&Measured>,
    noise: Noise,
) -> Vec<Arm> {
    let mut arms = Vec::new();
    for block in &BLOCKS {
        for work in block.works.iter().copied() {
            let name = (block.name)(work);
            let of = |measured: Option<&Measured>| {
                let of = |m: &Measured| LAYOUTS.iter().map(|l| m.figure(work, *l, &name)).collect();
                measured.map(of)
            };
            let at = |layout: usize| main.figure(work, LAYOUTS[layout], &name);
            let ratio = at(0).zip(at(1).filter(|value| *value > 0.0)).map(|(a, b)| a / b);
            let spread = main.spread(work, &name);
            // Elsewhere more is better.
            let told = |ratio: f64| {
                let good = if block.less { 1.0 / ratio } else { ratio };
                verdict(good, spread.max(noise.spread))
            };
            let published: Option<Figures> =
                (block.published)(work).map(|[one, two]| vec![Some(one), None, Some(two)]);
            arms.push(Arm {
                name: format!("{}{}", work.arm(), block.suffix),
                what: work.what().to_owned(),
                unit: block.unit.to_owned(),
                two_decimals: block.less,
                fitted: block.fitted && published.is_some(),
                published,
                model: of(model),
                here: of(here),
                ratio,
                spread,
                verdict: ratio.map_or(Verdict::NotDistinguishable, told),
            });
        }
    }
    arms
}

/// Bytes of a write and its padding.
fn sizes(measured: &Measured) -> Table {
    let row = |what: &str, work: Work, name: &str| TableRow {
        what: format!("{what}, {}", work.arm()),
        figures: LAYOUTS.iter().map(|layout| measured.figure(work, *layout, name)).collect(),
    };
    let [small, large] = words::published_writes();
    let mut rows = vec![TableRow {
        what: "KB a write, published".to_owned(),
        figures: vec![Some(small / 1e3), None, Some(large / 1e3)],
    }];
    for (what, name) in [
        ("KB a write", "kb_per_write"),
        ("wastage %", "wastage_pct"),
        ("commits a write", "records_per_write"),
        ("writes a second", "writes_per_second"),
    ] {
        rows.extend(WORKS.map(|work| row(what, work, name)));
    }
    Table {
        column: measured.column,
        head: "block / format".to_owned(),
        columns: LAYOUTS.iter().map(|layout| layout.name.to_owned()).collect(),
        rows,
        plot: false,
    }
}

/// `log file parallel write` in the buckets of the post.
fn histogram(measured: &Measured) -> Table {
    let mut rows: Vec<TableRow> = [("published 512/512", 0), ("published 4096/4096", 1)]
        .into_iter()
        .map(|(what, at)| TableRow {
            what: what.to_owned(),
            figures: HISTOGRAM[at].iter().copied().map(Some).chain([Some(0.0)]).collect(),
        })
        .collect();
    for work in WORKS {
        for layout in LAYOUTS {
            let of = |(name, _): &(&str, f64)| {
                measured.figure(work, layout, &format!("write {name} pct"))
            };
            let figures: Figures = BUCKETS.iter().map(of).collect();
            if figures.iter().any(Option::is_some) {
                rows.push(TableRow { what: format!("{} {}", work.arm(), layout.name), figures });
            }
        }
    }
    // Usually nothing was that late, and then the column is omitted.
    let used = |at: &usize| rows.iter().any(|row| row.figures[*at].is_some_and(|part| part > 0.0));
    let columns: Vec<usize> = (0..BUCKETS.len()).filter(used).collect();
    Table {
        column: measured.column,
        head: "% of parallel writes".to_owned(),
        columns: columns.iter().map(|at| BUCKETS[*at].0.to_owned()).collect(),
        rows: rows
            .iter()
            .map(|row| TableRow {
                what: row.what.clone(),
                figures: columns.iter().map(|at| row.figures[*at]).collect(),
            })
            .collect(),
        plot: false,
    }
}

fn settings(options: &Options, main: &Measured) -> BTreeMap<String, String> {
    let millis = |time: std::time::Duration| format!("{} ms", time.as_millis());
    [
        ("place", main.kind.to_owned()),
        ("sessions", options.sessions.to_string()),
        ("large", format!("{} bytes", options.large)),
        ("large_think", millis(options.large_think)),
        ("small", format!("{} bytes", options.small)),
        ("small_think", millis(options.small_think)),
        ("units_in_flight", options.in_flight.to_string()),
        ("millis", options.time.as_millis().to_string()),
        ("group", format!("{} MB", options.group_bytes >> 20)),
        ("rounds", options.rounds.to_string()),
        ("seed", options.seed.to_string()),
        ("model", options.explanation.word().to_owned()),
        ("caches", main.caches.to_owned()),
        ("shape", options.shape.map_or("as they are".to_owned(), |shape| shape.to_string())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
