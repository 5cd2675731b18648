//! Wording of the finding of `redo-block-size`, and of its remarks.

use super::answer::{PER_SECOND, PER_TRANSACTION, WRITE, sync};
use super::{Explanation, LAYOUTS, Measured, OTHER, Options, WORKS, Work};
use crate::column::Column;
use crate::run::{Noise, Verdict, verdict};

/// The spread of equal runs above which no conclusion is drawn.
const UNCLEAR: f64 = 0.3;

/// Insignificant variation between measurements, as commit times are random.
const NOTHING: f64 = 0.05;

/// Transactions a second of the post: redo a second divided by redo of each.
pub(super) fn transactions() -> [f64; 2] {
    [0, 1].map(|at| PER_SECOND[at] / PER_TRANSACTION[at].0)
}

/// Bytes of a write of the post: redo of a transaction divided by its writes.
pub(super) fn published_writes() -> [f64; 2] {
    PER_TRANSACTION.map(|(bytes, writes)| bytes / writes)
}

pub(super) fn heads(options: &Options) -> Vec<(String, String)> {
    let commits = format!(
        "large: {} KB by {} sessions, as SLOB's; small: {:.1} KB by {}; small beside large: both, \
         and what the small ones see. 4096/512 is a log in blocks of 4096 on a disk of 512-byte \
         sectors; ratio: 512/512 over 4096/512, what the block alone makes",
        options.large / 1000,
        options.sessions,
        options.small as f64 / 1e3,
        options.sessions,
    );
    vec![("Commits".to_owned(), commits)]
}

pub(super) fn method(options: &Options, main: &Measured) -> String {
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds interleaved, medians"),
    };
    format!(
        "{} ms each; {} ms from one large commit of a session to its next and {} ms between small \
         ones, half to one and a half times that by chance; 3 groups of {} MB, units of 1 MB at \
         most, up to {} in flight; caches {}; {rounds}",
        options.time.as_millis(),
        options.large_think.as_millis(),
        options.small_think.as_millis(),
        options.group_bytes >> 20,
        options.in_flight,
        main.caches,
    )
}

pub(super) fn details() -> Vec<(String, String)> {
    [
        (
            "Waits",
            "log file parallel write is from the submission of a unit until enough media have it; \
             log file sync from when a record is queued until its session runs again",
        ),
        (
            "Histogram",
            "of durations in steps of a sixteenth of a power of two; a bound of the post that lies \
             inside of a step counts the whole step above it",
        ),
        (
            "Log",
            "a new one for each measurement, of another database; its checkpoint follows its end, \
             so that groups are written again; control data in memory",
        ),
    ]
    .map(|(label, text)| (label.to_owned(), text.to_owned()))
    .into()
}

/// A ratio with few digits.
fn times(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.2}"),
        r => format!("{r:.0}"),
    }
}

/// The effects of the block size and of the format on a time.
struct Effects {
    /// 512/512 over 4096/512.
    block: Option<f64>,
    /// 4096/512 over 4096/4096.
    format: Option<f64>,
}

impl Effects {
    fn of(times: [Option<f64>; 3]) -> Effects {
        let over = |a: Option<f64>, b: Option<f64>| {
            Some(a? / b.filter(|b| *b > 0.0)?).filter(|ratio| *ratio > 0.0)
        };
        let [small, middle, large] = times;
        Effects { block: over(small, middle), format: over(middle, large) }
    }

    /// Which of the two made the difference, according to the figures.
    fn words(&self, noise: f64) -> String {
        let (Some(block), Some(format)) = (self.block, self.format) else {
            return match self.block {
                Some(block) => format!(
                    "the block makes {} times ({})",
                    times(block),
                    changed(verdict(block, noise))
                ),
                None => "nothing to compare".to_owned(),
            };
        };
        let share = 100.0 * block.ln() / (block * format).ln();
        let figures = format!("block {}, format {} times", times(block), times(format));
        let told = |ratio| verdict(ratio, noise) != Verdict::NotDistinguishable;
        let which = match (told(block), told(format)) {
            (false, false) => "neither makes a measurable difference".to_owned(),
            (true, false) => "the block size makes the difference".to_owned(),
            (false, true) => "the format makes the difference".to_owned(),
            (true, true) if (0.0..=100.0).contains(&share) => {
                format!("{share:.0} % of the difference is the block size, the rest the format")
            }
            (true, true) => "block size and format work against each other".to_owned(),
        };
        format!("{which} ({figures})")
    }
}

/// The effect of going from 512 to 4096.
fn changed(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "4096 is faster",
        Verdict::Slower => "4096 is slower",
        Verdict::NotDistinguishable => "not distinguishable",
    }
}

fn effects(main: &Measured, work: Work, name: &str) -> Effects {
    Effects::of(LAYOUTS.map(|layout| main.figure(work, layout, name)))
}

pub(super) fn finding(main: &Measured, noise: Noise) -> String {
    let place = match main.column {
        Column::Model => "On this model",
        Column::Here => "Here",
    };
    if noise.spread > UNCLEAR {
        return format!(
            "Equal runs are {:.0} % apart: nothing is concluded. Take more --rounds or --millis, \
             on an idle machine.",
            100.0 * noise.spread
        );
    }
    let mut text = headline(main, noise);
    text += &format!("{place}, ");
    let said: Vec<String> = WORKS
        .iter()
        .map(|work| {
            // Sessions with small commits wait for the commit, those with large ones for the write.
            let (name, wait) = match work {
                Work::Large => (WRITE.to_owned(), "log file parallel write"),
                Work::Small | Work::Mixed => (sync(*work), "log file sync"),
            };
            let noise = noise.spread.max(main.spread(*work, &name)).max(NOTHING);
            let words = effects(main, *work, &name).words(noise);
            format!("of {wait} with {} {words}", work.what())
        })
        .collect();
    text += &said.join("; ");
    text += ". ";
    let has = |at: usize| main.figure(Work::Large, LAYOUTS[at], WRITE).is_some();
    if !has(2) {
        text += "Nothing can be said about the format: no disk here has 4096-byte sectors (--disks A512,B4096). ";
    } else if !has(0) {
        text += "Of the block nothing is said: no disk here takes blocks of 512. ";
    }
    text += &bytes(main);
    text.trim_end().to_owned()
}

/// A summary in one sentence.
fn headline(main: &Measured, noise: Noise) -> String {
    let name = sync(Work::Small);
    let noise = noise.spread.max(main.spread(Work::Small, &name)).max(NOTHING);
    let of = |at: usize| main.figure(Work::Small, LAYOUTS[at], &name).filter(|ms| *ms > 0.0);
    match (of(0), of(1)) {
        (Some(small), Some(large)) => match verdict(small / large, noise) {
            Verdict::Faster => {
                "A log in blocks of 4096 makes small commits faster here. ".to_owned()
            }
            Verdict::Slower => {
                "A log in blocks of 4096 makes small commits slower here. ".to_owned()
            }
            Verdict::NotDistinguishable => {
                "The block size of the log makes no difference to small commits that could be \
                 told. "
                    .to_owned()
            }
        },
        _ => "No disk here takes both block sizes, so nothing is compared. ".to_owned(),
    }
}

/// Percentages with few digits.
fn part(percent: f64) -> String {
    if percent < 0.1 { format!("{percent:.2}") } else { format!("{percent:.1}") }
}

/// The cost of larger blocks in bytes.
fn bytes(main: &Measured) -> String {
    let per_commit = |work: Work, at: usize| {
        let of = |name: &str| main.figure(work, LAYOUTS[at], name);
        Some(of("kb_per_write")? / of("records_per_write")?)
    };
    let wastage = |work: Work, at: usize| main.figure(work, LAYOUTS[at], "wastage_pct");
    let of = |work: Work| {
        let ratio = per_commit(work, 1)? / per_commit(work, 0)?;
        let (large, small) = (wastage(work, 1)?, wastage(work, 0)?);
        let percent = 100.0 * (ratio - 1.0);
        let more = if percent >= 0.0 { "more" } else { "fewer" };
        let percent = percent.abs();
        Some(format!(
            "{percent:.1} % {more} bytes with {} (wastage {} % rather than {} %)",
            work.what(),
            part(large),
            part(small),
        ))
    };
    let all: Vec<String> = [Work::Large, Work::Small].into_iter().filter_map(of).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("Blocks of 4096 write {}.", all.join(", ")),
    }
}

pub(super) fn remarks(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
) -> Vec<(String, String)> {
    let mut remarks = vec![("Latency".to_owned(), latency(main))];
    remarks.push(("2016".to_owned(), published()));
    if let Some(model) = model {
        remarks.push(("Model".to_owned(), explanations(options, model)));
    }
    remarks
}

/// The tail of the waits, by workload and layout.
fn latency(main: &Measured) -> String {
    let of = |work: &Work| {
        let of = |layout: &super::Layout| {
            let of =
                |name: &str| main.figure(*work, *layout, &format!("{} sync_{name}", work.crew()));
            Some(format!("{} {:.2}/{:.2}", layout.name, of("p50_ms")?, of("p99_ms")?))
        };
        let said: Vec<String> = LAYOUTS.iter().filter_map(of).collect();
        format!("{}: {}", work.what(), said.join(", "))
    };
    let said: Vec<String> = WORKS.iter().map(of).collect();
    format!("log file sync, ms at the median and the 99th of 100. {}", said.join("; "))
}

/// Conclusions from the published figures alone.
fn published() -> String {
    let ([one, two], [small, large]) = (transactions(), published_writes());
    let [(before, _), (after, _)] = PER_TRANSACTION;
    format!(
        "block and format changed at once there. Its redo grew by {:.0} %, from 217.9 to 258.5 \
         MB/s, but a transaction had {:.0} % more of it: {one:.1} transactions a second became \
         {two:.1}. Its writes of 3.57 ms were of {:.0} KB, those of 0.89 ms of {:.0} KB",
        100.0 * (PER_SECOND[1] / PER_SECOND[0] - 1.0),
        100.0 * (after / before - 1.0),
        small / 1e3,
        large / 1e3,
    )
}

/// Two models fit both ends, but differ in the middle.
fn explanations(options: &Options, model: &Measured) -> String {
    let other = options.explanation.other();
    let middle = |explanation: Explanation| {
        let arm = if explanation == other { OTHER } else { Work::Large.arm() };
        let of = |at: usize| model.figure_of(arm, LAYOUTS[at], WRITE);
        let figures = of(0).zip(of(1)).zip(of(2));
        figures.map(|((a, b), c)| (format!("{b:.2} ms ({a:.2} and {c:.2} at the ends)"), b))
    };
    let (Some(page), Some(format)) = (middle(Explanation::Page), middle(Explanation::Format))
    else {
        return String::new();
    };
    let apart = match verdict(page.1 / format.1, 0.1) {
        Verdict::NotDistinguishable => "They do not differ there",
        _ => "They part at the arm that was not measured then",
    };
    let mut text = format!(
        "* fitted to 3.57 and 0.89 ms. Two explanations do that: pages of 4 KB written in part, \
         or a format that costs bandwidth. {apart}: 4096 on a 512 format takes {} if it is pages, \
         {} if it is the format (--model format). Only a disk tells: --disks",
        page.0, format.0
    );
    if !model.limits.is_empty() {
        text += &format!(". Here: {}", model.limits.join("; "));
    }
    text
}
