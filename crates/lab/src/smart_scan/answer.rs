//! The evaluation of `smart-scan`: from raw rows to arms, tables and noise.

use std::collections::BTreeMap;

use super::options::{AU_SIZE, MODEL_BYTES};
use super::{Measured, NAME, Options, QUESTION, SCAN_DEPTH, WAYS, Way, figure, words};
use crate::column::Column;
use crate::run::{
    Arm, Figures, Head, Noise, Run, Table, TableRow, Verdict, median, settings_hash, verdict,
};
use crate::table_scan::question::{self, Question};

/// The bandwidth between cells and their clients, in bytes a second: 10 Gbit/s.
pub(super) const LINK: f64 = 1.25e9;

impl Measured {
    /// The counts under a name, by round.
    fn counted(&self, arm: &str, layout: &str, name: &str) -> Vec<f64> {
        let rows = self.raw.iter().filter(|r| r.arm == arm && r.layout == layout);
        rows.filter_map(|r| r.figures.get(name).copied()).collect()
    }

    /// The median over the rounds.
    pub(super) fn figure(&self, question: &Question, way: Way, name: &str) -> Option<f64> {
        median(self.counted(&way.arm(question.name), way.layout(), name))
    }

    /// Milliseconds; `None` if nothing took time, as on a model whose disks are not used.
    pub(super) fn millis(&self, question: &Question, way: Way) -> Option<f64> {
        let millis = self.figure(question, way, figure::ELAPSED)? / 1e6;
        (millis > 0.0).then_some(millis)
    }

    pub(super) fn noise(&self) -> Noise {
        let [a, b] = ["a", "a'"].map(|arm| self.counted(arm, WAYS[0].layout(), figure::ELAPSED));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }

    /// The spread between rounds, as a fraction of their median.
    fn spread(&self, question: &Question, way: Way) -> f64 {
        let times = self.counted(&way.arm(question.name), way.layout(), figure::ELAPSED);
        let (low, high) =
            times.iter().fold((f64::MAX, 0.0_f64), |(l, h), t| (l.min(*t), h.max(*t)));
        median(times).filter(|m| *m > 0.0).map_or(0.0, |m| (high - low) / m)
    }
}

/// Compares the measured figures. The answer is about `here` if measured, else about
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
    let arms = arms(main, noise, model.as_ref(), here.as_ref());
    let both = || [&model, &here].into_iter().flatten();
    let settings = settings(options, main);
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        head,
        disks: both().map(|m| (label(m.column).to_owned(), m.words.clone())).collect(),
        heads: words::heads(options, main),
        settings_hash: settings_hash(&settings),
        settings,
        method: method(options, main),
        details: words::details(main, model.as_ref()),
        layouts: vec![WAYS[0].layout().to_owned(), WAYS[1].layout().to_owned()],
        ratio: "off over on".to_owned(),
        tables: both().flat_map(tables).collect(),
        finding: words::finding(main, &arms),
        remarks: words::remarks(options, main),
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

/// The same query with offload and without, cold or warm.
pub(super) fn pair(warm: bool) -> [Way; 2] {
    [true, false].map(|offload| Way { offload, warm })
}

fn arms(
    main: &Measured,
    noise: Noise,
    model: Option<&Measured>,
    here: Option<&Measured>,
) -> Vec<Arm> {
    let arm = |question: &Question, warm: bool| {
        let ways = pair(warm);
        let of = |m: Option<&Measured>| {
            m.map(|m| ways.map(|way| m.millis(question, way)).to_vec() as Figures)
        };
        let ratio = match ways.map(|way| main.millis(question, way)) {
            [Some(on), Some(off)] => Some(off / on),
            _ => None,
        };
        let spread = ways.map(|way| main.spread(question, way)).into_iter().fold(0.0, f64::max);
        Arm {
            name: ways[0].arm(question.name),
            what: format!("{}, {}", question.what, ways[0].warmth()),
            unit: "ms".to_owned(),
            two_decimals: false,
            published: None,
            model: of(model),
            here: of(here),
            ratio,
            fitted: false,
            spread,
            verdict: ratio
                .map_or(Verdict::NotDistinguishable, |r| verdict(r, spread.max(noise.spread))),
        }
    };
    let all = question::all();
    all.iter().flat_map(|question| [false, true].map(|warm| arm(question, warm))).collect()
}

/// The cost of each query in each way.
fn tables(measured: &Measured) -> Vec<Table> {
    let table = |question: &Question| {
        let row = |what: &str, of: &dyn Fn(Way) -> Option<f64>| TableRow {
            what: what.to_owned(),
            figures: WAYS.map(of).to_vec(),
        };
        let count = |way, name| measured.figure(question, way, name);
        let mega = |way, name| Some(count(way, name)? / 1e6);
        let returned = |way| count(way, figure::RETURNED);
        let scanned = |way| Some(count(way, figure::DISK)? + count(way, figure::CACHE)?);
        let over = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
        let mut rows = vec![
            row("eligible for offload, MB", &|w| mega(w, figure::ELIGIBLE)),
            row("storage index saved, MB", &|w| mega(w, figure::SAVED)),
            row("answered by headers, MB", &|w| mega(w, figure::HEADERS)),
            row("read from disk, MB", &|w| mega(w, figure::DISK)),
            row("from cell cache, MB", &|w| mega(w, figure::CACHE)),
            row("reads of disks", &|w| count(w, figure::READS)),
            row("rows looked at, 1000", &|w| Some(count(w, figure::ROWS)? / 1e3)),
            row("rows returned", &|w| count(w, figure::ROWS_RETURNED)),
            row("interconnect, KB", &|w| Some(returned(w)? / 1e3)),
            row("scanned over returned", &|w| over(scanned(w), returned(w))),
            row("interconnect at 10 Gb, ms", &|w| Some(returned(w)? / LINK * 1e3)),
            row("waits for reads", &|w| count(w, figure::WAITS)),
            row("waited for reads, ms", &|w| mega(w, figure::WAITED)),
            row("elapsed, ms", &|w| mega(w, figure::ELAPSED)),
        ];
        let rounds = measured.raw.iter().map(|row| row.round).max().unwrap_or(0);
        if rounds > 1 {
            rows.push(row("rounds are apart, %", &|w| Some(100.0 * measured.spread(question, w))));
        }
        Table {
            column: measured.column,
            head: question.what.to_owned(),
            columns: WAYS.map(Way::words).to_vec(),
            rows,
            plot: false,
        }
    };
    question::all().iter().map(table).collect()
}

fn method(options: &Options, main: &Measured) -> String {
    let rounds = match main.raw.iter().map(|row| row.round).max() {
        Some(n) if n > 1 => {
            format!("{n} rounds, each begun with another question and way, medians")
        }
        _ => "one round".to_owned(),
    };
    let disks = match options.width {
        1 => "external on 1 disk".to_owned(),
        n => format!("mirrored on {n} disks"),
    };
    let workers = match main.workers {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    format!(
        "{disks}, AU {} MB, coarse, checksums on; {SCAN_DEPTH} reads in flight a disk, {workers}; \
         cold: nothing in the cell's memory; warm: all columns named are; caches {}; {rounds}; all \
         answers were one",
        AU_SIZE >> 20,
        main.caches,
    )
}

fn settings(options: &Options, main: &Measured) -> BTreeMap<String, String> {
    [
        ("place", main.kind.to_owned()),
        ("table", format!("{} MB", options.table_bytes >> 20)),
        ("model_table", format!("{} MB", options.table_bytes.min(MODEL_BYTES) >> 20)),
        ("order", options.order().to_owned()),
        ("width", options.width.to_string()),
        ("au_size", format!("{} MB", AU_SIZE >> 20)),
        ("redundancy", if options.width == 1 { "external" } else { "normal" }.to_owned()),
        ("checksums", "on".to_owned()),
        ("sector_size", "4096".to_owned()),
        ("caches", main.caches.to_owned()),
        ("scan_depth", SCAN_DEPTH.to_string()),
        ("workers", main.workers.to_string()),
        ("rounds", options.rounds.to_string()),
        ("seed", options.seed.to_string()),
        ("preset", options.preset.name.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
