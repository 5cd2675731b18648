//! The evaluation of `multi-disk`: from raw rows to arms, tables, noise and a finding in words.

use std::collections::BTreeMap;

use super::options::Compared;
use super::{
    ArmSpec, DEPTHS, Layout, MODEL_BYTES, Measured, NAME, Options, QUESTION, SCAN_DEPTH, arms,
    asked, deepest, depth_name,
};
use crate::column::Column;
use crate::place::Sharing;
use crate::run::median;
use crate::run::{
    Arm, Figures, Head, Noise, Run, Table, TableRow, Verdict, settings_hash, verdict,
};
use crate::sample::Sample;

/// The share of the best rate at which more depth is not worthwhile.
const ENOUGH: f64 = 0.97;

impl Measured {
    pub(super) fn samples(&self, arm: &str, layout: Layout) -> impl Iterator<Item = &Sample> {
        let rows = self.raw.iter().filter(move |r| r.arm == arm && r.layout == layout.name());
        rows.filter_map(|r| r.sample.as_ref())
    }

    /// MB/s of each round.
    fn rates(&self, arm: &str, layout: Layout) -> Vec<f64> {
        self.samples(arm, layout).map(Sample::mb_per_second).collect()
    }

    /// MB/s, the median of the rounds; `None` if not measured.
    pub(super) fn rate(&self, arm: &str, layout: Layout) -> Option<f64> {
        median(self.rates(arm, layout))
    }

    /// MB/s measured by fio, the median of the rounds.
    pub(super) fn fio(&self, arm: &str, layout: Layout) -> Option<f64> {
        let rows = self.raw.iter().filter(|r| r.arm == arm && r.layout == layout.name());
        median(rows.filter_map(|r| Some(r.figures.get("bytes_per_second")? / 1e6)).collect())
    }

    fn figures(&self, arm: &str, layouts: &[Layout]) -> Figures {
        layouts.iter().map(|layout| self.rate(arm, *layout)).collect()
    }

    fn depth(&self, layout: Layout) -> Vec<DepthRow> {
        let row = |depth: usize| {
            let name = depth_name(depth);
            let p99 = self.samples(&name, layout).filter_map(|s| s.p99_ns);
            Some(DepthRow {
                depth,
                mb_per_second: self.rate(&name, layout)?,
                p99_ms: median(p99.map(|ns| ns as f64 / 1e6).collect())?,
            })
        };
        DEPTHS.into_iter().filter_map(row).collect()
    }

    pub(super) fn noise(&self, layout: Layout) -> Noise {
        let (a, b) = (self.rates("a", layout), self.rates("a'", layout));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.min(*b).max(f64::MIN_POSITIVE));
        Noise { pairs: a.len() as u32, spread: apart.fold(0.0, f64::max) }
    }

    /// Largest difference between rounds of one layout.
    fn spread(&self, arm: &str, layouts: &[Layout]) -> f64 {
        let of = |layout: &Layout| {
            let rates = self.rates(arm, *layout);
            let (low, high) =
                rates.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
            median(rates).map_or(0.0, |m| (high - low) / m.max(f64::MIN_POSITIVE))
        };
        layouts.iter().map(of).fold(0.0, f64::max)
    }

    /// The utilisation of each disk, in percent of the time of an arm.
    fn busy(&self, arm: &str, layout: Layout) -> Vec<f64> {
        let Some(sample) = self.samples(arm, layout).next() else {
            return Vec::new();
        };
        sample.disks.iter().map(|d| 100.0 * d.busy_ns as f64 / sample.nanos.max(1) as f64).collect()
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
    let base = options.layouts[0];
    let noise = main.noise(base);
    let arms: Vec<Arm> = arms(options)
        .iter()
        .map(|spec| arm(spec, options, main, noise, model.as_ref(), here.as_ref()))
        .collect();
    let deepest = deepest(&options.layouts).unwrap_or(base);
    let tables = [&model, &here]
        .into_iter()
        .flatten()
        .map(|m| table(m.column, deepest, &m.depth(deepest)))
        .collect();
    let settings = settings(options, main);
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
        heads: asked::heads(main),
        settings_hash: settings_hash(&settings),
        settings,
        method: method(options, main.caches),
        details: asked::details(options, main, model.as_ref()),
        layouts: options.layouts.iter().map(|l| l.name().to_owned()).collect(),
        ratio: options.compared().map_or(String::new(), |c| c.words(options)),
        tables,
        finding: finding(options, main, &arms, &main.depth(deepest)),
        remarks: asked::remarks(options, main, model.as_ref(), &arms),
        arms,
        noise,
        raw: [model, here].into_iter().flatten().flat_map(|m| m.raw).collect(),
        ..Run::default()
    }
}

impl Compared {
    fn words(self, options: &Options) -> String {
        let name = |at: usize| options.layouts[at].name();
        format!("{} over {}", name(self.other), name(self.base))
    }
}

fn label(column: Column) -> &'static str {
    match column {
        Column::Model => "model",
        Column::Here => "here",
    }
}

fn arm(
    spec: &ArmSpec,
    options: &Options,
    main: &Measured,
    noise: Noise,
    model: Option<&Measured>,
    here: Option<&Measured>,
) -> Arm {
    let layouts = &options.layouts;
    let ratio = options.compared().and_then(|c| {
        let rate = |at: usize| main.rate(spec.name, layouts[at]).filter(|r| *r > 0.0);
        Some(rate(c.other)? / rate(c.base)?)
    });
    let spread = main.spread(spec.name, layouts);
    let published = spec.published.map(|[one, two]| {
        let of = |layout: &Layout| match layout {
            Layout::One => Some(one),
            Layout::Two => Some(two),
            Layout::Each | Layout::Same => None,
        };
        layouts.iter().map(of).collect()
    });
    Arm {
        name: spec.name.to_owned(),
        what: spec.what.to_owned(),
        unit: "MB/s".to_owned(),
        two_decimals: false,
        published,
        model: model.map(|m| m.figures(spec.name, layouts)),
        here: here.map(|m| m.figures(spec.name, layouts)),
        ratio,
        fitted: spec.fitted,
        spread,
        verdict: ratio
            .map_or(Verdict::NotDistinguishable, |r| verdict(r, spread.max(noise.spread))),
    }
}

/// Rates by reads in flight for each disk.
#[derive(Clone, Copy)]
pub(super) struct DepthRow {
    depth: usize,
    mb_per_second: f64,
    p99_ms: f64,
}

fn table(column: Column, layout: Layout, rows: &[DepthRow]) -> Table {
    let row = |what: &str, figure: fn(&DepthRow) -> f64| TableRow {
        what: what.to_owned(),
        figures: rows.iter().map(|r| Some(figure(r))).collect(),
    };
    let from = match layout {
        Layout::One => "MB/s from one disk",
        Layout::Two => "MB/s from two disks",
        Layout::Each => "MB/s from each of two",
        Layout::Same => "MB/s from two parts",
    };
    Table {
        column,
        head: "reads in flight per disk".to_owned(),
        columns: rows.iter().map(|r| r.depth.to_string()).collect(),
        rows: vec![row(from, |r| r.mb_per_second), row("p99 of a 1 MB read, ms", |r| r.p99_ms)],
        plot: true,
    }
}

fn method(options: &Options, caches: &str) -> String {
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds interleaved, medians"),
    };
    format!(
        "{} MB, AU {} MB, coarse, external, checksums on; caches {caches}; {rounds}; every byte \
         read was checked against its sum",
        options.file_bytes >> 20,
        options.au_size >> 20,
    )
}

fn settings(options: &Options, main: &Measured) -> BTreeMap<String, String> {
    let layouts: Vec<&str> = options.layouts.iter().map(|l| l.word()).collect();
    let mut settings: BTreeMap<String, String> = [
        ("place", main.kind.to_owned()),
        ("layout", layouts.join(",")),
        ("file", format!("{} MB", options.file_bytes >> 20)),
        ("model_file", format!("{} MB", options.file_bytes.min(MODEL_BYTES) >> 20)),
        ("au_size", format!("{} MB", options.au_size >> 20)),
        ("striping", "coarse".to_owned()),
        ("redundancy", "external".to_owned()),
        ("checksums", "on".to_owned()),
        ("sector_size", "4096".to_owned()),
        ("caches", main.caches.to_owned()),
        ("scan_depth", SCAN_DEPTH.to_string()),
        ("rounds", options.rounds.to_string()),
        ("random_reads", options.random_reads.to_string()),
        ("seed", options.seed.to_string()),
        ("preset", options.preset.name.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    // Omitted without a table, so that such runs stay comparable with earlier ones.
    if options.table_bytes > 0 {
        settings.insert("table".to_owned(), format!("{} MB", options.table_bytes >> 20));
    }
    settings
}

pub(super) fn find<'a>(arms: &'a [Arm], name: &str) -> &'a Arm {
    arms.iter().find(|a| a.name == name).expect("every arm is in the table above")
}

/// The smallest sufficient depth, and its share of the best rate: the rest is
/// within the noise.
fn enough(rows: &[DepthRow], noise: f64) -> Option<(usize, f64)> {
    let best = rows.iter().map(|r| r.mb_per_second).fold(0.0, f64::max);
    let least = ENOUGH.min(1.0 / (1.0 + noise));
    let row = rows.iter().find(|r| best > 0.0 && r.mb_per_second >= least * best)?;
    Some((row.depth, 100.0 * row.mb_per_second / best))
}

/// The ratio of an arm, and whether it is significant.
pub(super) fn in_words(arm: &Arm) -> String {
    match (arm.ratio, arm.verdict) {
        (None, _) => "not measured".to_owned(),
        (Some(ratio), Verdict::NotDistinguishable) => {
            format!("{ratio:.2} times (not distinguishable)")
        }
        (Some(ratio), _) => format!("{ratio:.2} times"),
    }
}

/// The compared layouts, as part of a sentence.
fn sides(options: &Options) -> Option<(String, &'static str)> {
    let compared = options.compared()?;
    let (base, other) = (options.layouts[compared.base], options.layouts[compared.other]);
    Some(match (base, other) {
        (Layout::One, Layout::Two) => ("two disks".to_owned(), "one"),
        _ => (format!("\"{}\"", other.name()), base.name()),
    })
}

fn times_one(options: &Options, arm: &Arm, noise: Noise) -> Option<String> {
    let (other, base) = sides(options)?;
    let (ratio, spread) = (arm.ratio?, arm.spread.max(noise.spread));
    let plural = if other == "two disks" { ("are", "give") } else { ("is", "gives") };
    Some(match arm.verdict {
        Verdict::NotDistinguishable => format!(
            "{other} {} not distinguishable from {base} ({ratio:.2} times, spread {spread:.2})",
            plural.0
        ),
        Verdict::Faster | Verdict::Slower => {
            format!("{other} {} {ratio:.2} times {base} (spread {spread:.2})", plural.1)
        }
    })
}

fn finding(options: &Options, main: &Measured, arms: &[Arm], rows: &[DepthRow]) -> String {
    let (one, deep, eight) =
        (find(arms, "serial-1"), find(arms, "serial"), find(arms, "parallel-8"));
    let noise = main.noise(options.layouts[0]);
    let mut text = ratios(options, main, [one, deep, eight], noise);
    let two = options.layouts.contains(&Layout::Two);
    if let Sharing::Device(name) = &main.sharing
        && options.plan().1.len() > 1
    {
        text += &format!(
            "Both disks are on one device, {name}: two files on one device cannot be twice one. \
             This is about the software and that device; for the question, name two devices: \
             --disks A,B. "
        );
    } else if deep.verdict == Verdict::Faster && is_less(one, deep) && two {
        let busy: Vec<String> =
            main.busy("serial-1", Layout::Two).iter().map(|b| format!("{b:.0}")).collect();
        text += &format!(
            "Reads in flight decide it, not LUNs or sessions: with one, each disk waits while the \
             other works (busy {} %). ",
            busy.join(" and "),
        );
    } else if two && deep.verdict == Verdict::NotDistinguishable && noise.spread > UNCLEAR {
        text += "The noise is too large to tell why. ";
    } else if two && deep.verdict != Verdict::Faster {
        text += "What these disks share is the limit, not the reads in flight. ";
    }
    let text = format!("{} {text}", headline(main, deep, two));
    if main.column == Column::Here && options.file_bytes < FILE_MIN {
        return text
            + &format!(
                "A file of {} MB is read too soon for a depth to be advised: --size 1G or more.",
                options.file_bytes >> 20
            );
    }
    text + &depth_needed(rows, noise.spread)
}

/// Smaller files are read too quickly for a meaningful rate.
const FILE_MIN: u64 = 512 << 20;

/// A summary in one sentence.
fn headline(main: &Measured, deep: &Arm, two: bool) -> String {
    let Some(ratio) = deep.ratio.filter(|_| two) else {
        return "This run has no two disks to compare.".to_owned();
    };
    match (&main.sharing, deep.verdict) {
        (Sharing::Device(_), _) => {
            "These disks share one device, so this run cannot tell what a second disk brings."
                .to_owned()
        }
        (_, Verdict::Faster) => {
            format!("A second disk pays: two read {ratio:.2} times as fast as one.")
        }
        (_, Verdict::Slower) => format!("A second disk does harm: {ratio:.2} times one."),
        (_, Verdict::NotDistinguishable) => "A second disk brought no measurable gain.".to_owned(),
    }
}

/// The spread of equal runs above which an equal rate allows no conclusion.
const UNCLEAR: f64 = 0.1;

/// The spread of equal runs above which no advice is given.
const NO_ADVICE: f64 = 0.3;

/// Whether one ratio is below another by more than the difference between rounds.
fn is_less(one: &Arm, other: &Arm) -> bool {
    let (Some(low), Some(high)) = (one.ratio, other.ratio) else { return false };
    verdict(low / high, one.spread.max(other.spread)) == Verdict::Slower
}

fn depth_needed(rows: &[DepthRow], noise: f64) -> String {
    let Some((depth, part)) = enough(rows, noise) else { return String::new() };
    if noise > NO_ADVICE {
        return format!(
            "Equal runs are {:.0} % apart: no depth can be advised. Take more --rounds, or a \
             larger --size, on an idle machine.",
            100.0 * noise
        );
    }
    let inside = if 1.0 / (1.0 + noise) < ENOUGH { ", the rest is inside the noise" } else { "" };
    match depth == DEPTHS[DEPTHS.len() - 1] {
        true => format!("At {depth} a disk, the deepest here, the rate still grows."),
        false => format!(
            "From {depth} a disk on ({part:.0} % of the best{inside}) more depth only adds \
             latency. Try: scan_depth = {depth}"
        ),
    }
}

fn ratios(options: &Options, main: &Measured, arms: [&Arm; 3], noise: Noise) -> String {
    let [one, deep, eight] = arms;
    let place = match main.column {
        Column::Model => "On this model",
        Column::Here => "Here",
    };
    let times = |arm| times_one(options, arm, noise);
    match (times(deep), times(one)) {
        (Some(deep), Some(one)) => format!(
            "{place}, with {SCAN_DEPTH} reads in flight a disk, {deep}; with one read in flight in \
             all, {one}; with eight scans at once, {}. ",
            in_words(eight)
        ),
        _ => {
            let layout = options.layouts[0];
            let rate = |arm: &str| main.rate(arm, layout).unwrap_or(0.0);
            format!(
                "{place}, \"{}\" gives {:.0} MB/s with {SCAN_DEPTH} reads in flight a disk and \
                 {:.0} with one. ",
                layout.name(),
                rate("serial"),
                rate("serial-1")
            )
        }
    }
}
