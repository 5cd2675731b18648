//! From raw rows to arms, noise and a finding in words.

use std::collections::BTreeMap;

use super::{
    ARMS, ArmSpec, DEPTHS, LAYOUTS, Measured, NAME, Options, QUESTION, SCAN_DEPTH, depth_name,
    layout_name,
};
use crate::experiment::Asked;
use crate::load::{DiskUse, Sample};
use crate::run::{
    Arm, Column, Figures, Head, Noise, Run, Table, TableRow, Verdict, settings_hash, verdict,
};

/// Enough of the best rate for more depth to be of no use.
const ENOUGH: f64 = 0.97;

impl Measured {
    fn samples(&self, arm: &str, disks: usize) -> impl Iterator<Item = &Sample> {
        let layout = layout_name(disks);
        self.raw
            .iter()
            .filter(move |r| r.arm == arm && r.layout == layout)
            .filter_map(|r| r.sample.as_ref())
    }

    /// MB/s of each round.
    fn rates(&self, arm: &str, disks: usize) -> Vec<f64> {
        self.samples(arm, disks).map(Sample::mb_per_second).collect()
    }

    fn pair(&self, arm: &str) -> [f64; 2] {
        LAYOUTS.map(|disks| median(self.rates(arm, disks)))
    }

    fn figures(&self, arm: &str) -> Figures {
        self.pair(arm).map(Some).into()
    }

    fn depth(&self) -> Vec<DepthRow> {
        let disks = LAYOUTS[1];
        let row = |depth: usize| {
            let name = depth_name(depth);
            let p99 = self.samples(&name, disks).filter_map(|s| s.p99_ns);
            DepthRow {
                depth,
                mb_per_second: median(self.rates(&name, disks)),
                p99_ms: median(p99.map(|ns| ns as f64 / 1e6).collect()),
            }
        };
        DEPTHS.into_iter().map(row).collect()
    }

    fn noise(&self) -> Noise {
        let (a, b) = (self.rates("a", LAYOUTS[0]), self.rates("a'", LAYOUTS[0]));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }

    /// Largest difference between rounds of one layout.
    fn spread(&self, arm: &str) -> f64 {
        let of = |disks| {
            let rates = self.rates(arm, disks);
            let (low, high) =
                rates.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
            if rates.is_empty() { 0.0 } else { (high - low) / median(rates).max(f64::MIN_POSITIVE) }
        };
        LAYOUTS.map(of).into_iter().fold(0.0, f64::max)
    }

    /// How busy each of two disks was, in hundredths of the time of an arm.
    fn busy(&self, arm: &str) -> Vec<f64> {
        let Some(sample) = self.samples(arm, LAYOUTS[1]).next() else {
            return Vec::new();
        };
        sample.disks.iter().map(|d| 100.0 * d.busy_ns as f64 / sample.nanos.max(1) as f64).collect()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// Puts what was measured beside what was published. The answer is about `here` where there is
/// one, else about the model.
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
    let arms: Vec<Arm> =
        ARMS.iter().map(|spec| arm(spec, main, noise, model.as_ref(), here.as_ref())).collect();
    let depth = |m: Option<&Measured>| m.map(Measured::depth).unwrap_or_default();
    let (depth_model, depth_here) = (depth(model.as_ref()), depth(here.as_ref()));
    let settings = settings(options);
    let rows = if here.is_some() { &depth_here } else { &depth_model };
    Run {
        experiment: NAME.to_owned(),
        question: QUESTION.to_owned(),
        source: "C. Kutrovsky, \"ASM multi-disk performance\", Pythian, 2006".to_owned(),
        head,
        disks: [&model, &here]
            .into_iter()
            .flatten()
            .map(|m| (label(m.column).to_owned(), m.words.clone()))
            .collect(),
        settings_hash: settings_hash(&settings),
        settings,
        method: method(options),
        details: Vec::new(),
        layouts: LAYOUTS.map(layout_name).into(),
        ratio: "two disks over one".to_owned(),
        asked: Asked::default(),
        finding: finding(main, &arms, rows),
        remarks: remarks(main, model.as_ref(), &arms),
        arms,
        tables: [(Column::Model, &depth_model), (Column::Here, &depth_here)]
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(column, rows)| table(column, rows))
            .collect(),
        noise,
        raw: [model, here].into_iter().flatten().flat_map(|m| m.raw).collect(),
    }
}

/// Reads in flight for each of two disks, and what they give.
#[derive(Clone, Copy)]
struct DepthRow {
    depth: usize,
    mb_per_second: f64,
    p99_ms: f64,
}

fn table(column: Column, rows: &[DepthRow]) -> Table {
    let row = |what: &str, figure: fn(&DepthRow) -> f64| TableRow {
        what: what.to_owned(),
        figures: rows.iter().map(|r| Some(figure(r))).collect(),
    };
    Table {
        column,
        head: "reads in flight per disk".to_owned(),
        columns: rows.iter().map(|r| r.depth.to_string()).collect(),
        rows: vec![
            row("MB/s from two disks", |r| r.mb_per_second),
            row("p99 of a 1 MB read, ms", |r| r.p99_ms),
        ],
        plot: true,
    }
}

fn method(options: &Options) -> String {
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds interleaved, medians"),
    };
    format!(
        "{} MB, AU {} MB, coarse, external, checksums on; {rounds}; every byte read was checked \
         against its sum",
        options.file_bytes >> 20,
        options.au_size >> 20,
    )
}

fn label(column: Column) -> &'static str {
    match column {
        Column::Model => "model",
        Column::Here => "here",
    }
}

fn arm(
    spec: &ArmSpec,
    main: &Measured,
    noise: Noise,
    model: Option<&Measured>,
    here: Option<&Measured>,
) -> Arm {
    let [one, two] = main.pair(spec.name);
    let ratio = (one > 0.0).then(|| two / one);
    let spread = main.spread(spec.name);
    Arm {
        name: spec.name.to_owned(),
        what: spec.what.to_owned(),
        unit: "MB/s".to_owned(),
        published: spec.published.map(|pair| pair.map(Some).into()),
        model: model.map(|m| m.figures(spec.name)),
        here: here.map(|m| m.figures(spec.name)),
        ratio,
        fitted: spec.fitted,
        spread,
        verdict: ratio
            .map_or(Verdict::NotDistinguishable, |r| verdict(r, spread.max(noise.spread))),
    }
}

fn settings(options: &Options) -> BTreeMap<String, String> {
    [
        ("file", format!("{} MB", options.file_bytes >> 20)),
        ("au_size", format!("{} MB", options.au_size >> 20)),
        ("striping", "coarse".to_owned()),
        ("redundancy", "external".to_owned()),
        ("checksums", "on".to_owned()),
        ("sector_size", "4096".to_owned()),
        ("caches", "none: direct I/O or a model; checksums in RAM".to_owned()),
        ("scan_depth", SCAN_DEPTH.to_string()),
        ("rounds", options.rounds.to_string()),
        ("random_reads", options.random_reads.to_string()),
        ("seed", options.seed.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn find<'a>(arms: &'a [Arm], name: &str) -> &'a Arm {
    arms.iter().find(|a| a.name == name).expect("every arm is in the table above")
}

/// The smallest depth that is enough, and how much of the best it gives.
fn enough(rows: &[DepthRow]) -> Option<(usize, f64)> {
    let best = rows.iter().map(|r| r.mb_per_second).fold(0.0, f64::max);
    let row = rows.iter().find(|r| best > 0.0 && r.mb_per_second >= ENOUGH * best)?;
    Some((row.depth, 100.0 * row.mb_per_second / best))
}

fn times_one(arm: &Arm, noise: Noise) -> String {
    let (ratio, spread) = (arm.ratio.unwrap_or(0.0), arm.spread.max(noise.spread));
    match arm.verdict {
        Verdict::NotDistinguishable => format!(
            "two disks are not distinguishable from one ({ratio:.2} times, spread {spread:.2})"
        ),
        Verdict::Faster | Verdict::Slower => {
            format!("two disks give {ratio:.2} times one (spread {spread:.2})")
        }
    }
}

fn finding(main: &Measured, arms: &[Arm], rows: &[DepthRow]) -> String {
    let place = match main.column {
        Column::Model => "On this model",
        Column::Here => "Here",
    };
    let (one, deep, eight) =
        (find(arms, "serial-1"), find(arms, "serial"), find(arms, "parallel-8"));
    let noise = main.noise();
    let mut text = format!(
        "{place}, with {SCAN_DEPTH} reads in flight a disk, {}; with one read in flight in all, \
         {}; with eight scans at once, {:.2} times. ",
        times_one(deep, noise),
        times_one(one, noise),
        eight.ratio.unwrap_or(0.0),
    );
    if deep.verdict == Verdict::Faster && one.ratio < deep.ratio {
        let busy: Vec<String> = main.busy("serial-1").iter().map(|b| format!("{b:.0}")).collect();
        text += &format!(
            "Reads in flight decide it, not LUNs or sessions: with one, each disk waits while the \
             other works (busy {} %). ",
            busy.join(" and "),
        );
    } else {
        text += "What these disks share is the limit, not the reads in flight. ";
    }
    if let Some((depth, part)) = enough(rows) {
        let last = DEPTHS[DEPTHS.len() - 1];
        text += &match depth == last {
            true => format!("At {depth} a disk, the deepest here, the rate still grows."),
            false => format!(
                "From {depth} a disk on ({part:.0} % of the best) more depth only adds latency."
            ),
        };
    }
    text
}

/// How far the model is above what was published, in the rows that it was not made from.
fn above_published(arms: &[Arm]) -> Option<(f64, f64)> {
    let predicted = arms.iter().filter(|a| !a.fitted);
    let parts: Vec<f64> = predicted
        .filter_map(|a| Some((a.model.as_ref()?, a.published.as_ref()?)))
        .flat_map(|(model, published)| model.iter().zip(published))
        .filter_map(|(model, published)| Some(100.0 * ((*model)? / (*published)? - 1.0)))
        .collect();
    let least = parts.iter().copied().reduce(f64::min)?;
    Some((least, parts.iter().copied().fold(least, f64::max)))
}

fn remarks(main: &Measured, model: Option<&Measured>, arms: &[Arm]) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let mut say = |label: &str, text: String| remarks.push((label.to_owned(), text));
    if let (Some(model), Some((least, most))) = (model, above_published(arms)) {
        let limits = model.limits.map(|l| format!(" Of the model: {l}.")).unwrap_or_default();
        say(
            "2006",
            format!(
                "* the two waits of the model are fitted to the row \"{}\", its rate is what \
                 iostat showed. Predicted is that the other ways fill the links: {least:.0} to \
                 {most:.0} % above what was published. A lost prefetch explains 81; that is no \
                 proof of it.{limits}",
                find(arms, "serial-1").what,
            ),
        );
    }
    let mut asked = answers(main, model, arms).into_iter();
    if let Some(first) = asked.next() {
        say("Asked", first);
    }
    asked.for_each(|text| say("", text));
    remarks
}

/// What the readers of 2006 asked, answered.
fn answers(main: &Measured, model: Option<&Measured>, arms: &[Arm]) -> Vec<String> {
    let mut answers = Vec::new();
    if let Some([one, two]) = model.and_then(|m| m.no_prefetch) {
        answers.push(format!(
            "prefetch: without it the model gives {one:.0} MB/s from one disk and {two:.0} from \
             two, {:.2} times: what is lost with two disks is the prefetch",
            two / one
        ));
    }
    let disks: Vec<DiskUse> =
        main.samples("serial", LAYOUTS[1]).flat_map(|s| s.disks.iter().copied()).collect();
    let used = disks.iter().map(|d| d.in_flight_max).max().unwrap_or(0);
    answers.push(format!("queue depth: most used {used} a disk"));
    let bytes: u64 = disks.iter().map(|d| d.bytes).sum();
    let requests: u64 = disks.iter().map(|d| d.requests).sum();
    let kilobytes = bytes / requests.max(1) / 1024;
    answers.push(format!("request size: asked for 1024 KB, the disk was sent {kilobytes} KB"));
    if main.nominal > 0 {
        let [one, two] = main.pair("serial").map(|rate| rate * 1e8 / main.nominal as f64);
        answers.push(format!("of nominal: {one:.0} % of one link, {:.0} % of two", two / 2.0));
    }
    let times = |name| find(arms, name).ratio.unwrap_or(0.0);
    answers.push(format!(
        "single blocks: {:.2} times at depth 1, {:.2} times at 32",
        times("random-1"),
        times("random-32")
    ));
    answers
}
