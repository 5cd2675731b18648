//! Wording of the finding of `smart-scan`, and of its remarks.

use super::answer::{LINK, pair};
use super::{Measured, Options, SCAN_DEPTH, figure};
use crate::column::Column;
use crate::place::{DEPTH_MAX, Sharing};
use crate::run::{Arm, Verdict};
use crate::table_scan::question::{self, Question, Wanted};

/// Bytes with few digits.
fn bytes(count: f64) -> String {
    match count {
        n if n < 1e4 => format!("{n:.0} bytes"),
        n if n < 1e6 => format!("{:.0} KB", n / 1e3),
        n if n < 99.5e6 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.0} MB", n / 1e6),
    }
}

/// A ratio with few digits.
fn times(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.2}"),
        r => {
            let digits = format!("{r:.0}");
            let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
            let groups = groups.into_iter().map(String::from_utf8_lossy);
            groups.collect::<Vec<_>>().join(",")
        }
    }
}

/// Milliseconds with few digits.
fn millis(millis: f64) -> String {
    match millis {
        m if m < 0.01 => "less than 0.01 ms".to_owned(),
        m if m < 9.95 => format!("{m:.2} ms"),
        m => format!("{m:.0} ms"),
    }
}

/// Words with commas and an "and" between.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A description of the table, and of the columns of the report.
pub(super) fn heads(options: &Options, main: &Measured) -> Vec<(String, String)> {
    let order = match options.clustered {
        true => "loaded in the order of shipdate",
        false => "loaded in no order",
    };
    let table = format!(
        "{} rows like lineitem of TPC-H, {order}, in {} row groups, {}",
        times(main.rows as f64),
        main.row_groups,
        bytes(main.bytes as f64)
    );
    let ways = "on: the cell filters and sums up. off: it returns all rows of the columns named, \
                and whoever asked does. ratio: off over on";
    vec![("Table".to_owned(), table), ("Offload".to_owned(), ways.to_owned())]
}

/// Bytes returned without offload divided by those with it, and both.
fn reduction(main: &Measured, question: &Question) -> Option<(f64, f64, f64)> {
    let [on, off] = pair(false).map(|way| main.figure(question, way, figure::RETURNED));
    let (on, off) = (on.filter(|on| *on > 0.0)?, off?);
    Some((off / on, on, off))
}

pub(super) fn finding(main: &Measured, arms: &[Arm]) -> String {
    let place = match main.column {
        Column::Model => "On this model",
        Column::Here => "Here",
    };
    let mut text = headline(main);
    text += &format!("{place}, for the same answers, {} ", returned(main));
    text += &index(main);
    text += &from_disk(main);
    text += &faster(arms, "cold");
    text += &two_reads(main, arms);
    match main.column {
        Column::Model => {
            text += "That is the time of disks alone: a model has no processors, so that nothing \
                     is said of warm scans, nor of what filtering costs.";
        }
        Column::Here => text += &faster(arms, "warm"),
    }
    text.trim_end().to_owned()
}

/// A summary in one sentence.
fn headline(main: &Measured) -> String {
    let all = question::all();
    let known = all.iter().filter_map(|question| reduction(main, question));
    let (on, off) = known.fold((0.0, 0.0), |sum, (_, on, off)| (sum.0 + on, sum.1 + off));
    match on > 0.0 && off > 0.0 {
        true => format!(
            "Offload to the cell saves {:.0} % of the bytes that a query has returned to it. ",
            100.0 * (1.0 - on / off).max(0.0)
        ),
        false => String::new(),
    }
}

/// The bytes returned with offload and without.
fn returned(main: &Measured) -> String {
    let all = question::all();
    let known = all.iter().filter_map(|q| Some((q, reduction(main, q)?)));
    let mut known: Vec<(&Question, (f64, f64, f64))> = known.collect();
    known.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let say = |(question, (ratio, on, off)): &(&Question, (f64, f64, f64))| {
        format!(
            "{} times fewer bytes for \"{}\" ({} rather than {})",
            times(*ratio),
            question.what,
            bytes(*on),
            bytes(*off)
        )
    };
    match &known[..] {
        [] => "the cell returned nothing.".to_owned(),
        [one] => format!("the cell returned {} with offload.", say(one)),
        [most, .., least] => {
            format!("the cell returned {} with offload, and {}.", say(most), say(least))
        }
    }
}

/// The bytes left to read by the storage index and the headers.
fn index(main: &Measured) -> String {
    let way = pair(false)[0];
    let part = |question: &Question, name| {
        let eligible = main.figure(question, way, figure::ELIGIBLE).filter(|all| *all > 0.0)?;
        Some(100.0 * main.figure(question, way, name)? / eligible)
    };
    let all = question::all();
    let say = |question: &Question| {
        let saved = part(question, figure::SAVED)?;
        let headers = part(question, figure::HEADERS)?;
        let headers = match headers >= 0.5 {
            true => format!(" (headers alone answered another {headers:.0} %)"),
            false => String::new(),
        };
        let text = format!("{saved:.0} % for \"{}\"{headers}", question.what);
        (saved >= 0.5).then_some(text)
    };
    let said: Vec<String> = all.iter().filter_map(say).collect();
    match said.is_empty() {
        true => "The storage index saved nothing: rows that a question wants lie in every row \
                 group. "
            .to_owned(),
        false => format!("Of the bytes eligible the storage index saved {}. ", list(&said)),
    }
}

/// Bytes from disks for all queries together.
fn from_disk(main: &Measured) -> String {
    let [on, off] = pair(false).map(|way| {
        let all = question::all();
        all.iter().filter_map(|q| main.figure(q, way, figure::DISK)).sum::<f64>()
    });
    match on < off {
        true => format!(
            "Cold, all questions together read {} from disks rather than {}. ",
            bytes(on),
            bytes(off)
        ),
        false => format!(
            "Cold, all questions together read no less from disks with it: {}, without {}. ",
            bytes(on),
            bytes(off)
        ),
    }
}

/// The queries that were faster with offload, and those that were slower.
fn faster(arms: &[Arm], warmth: &str) -> String {
    let ending = format!("-{warmth}");
    let of = |wanted: Verdict, ratio: fn(f64) -> f64| {
        let arms = arms.iter().filter(|arm| arm.name.ends_with(&ending) && arm.verdict == wanted);
        let say = |arm: &Arm| {
            let what = arm.what.split(',').next().unwrap_or_default();
            Some(format!("\"{what}\" {} times", times(ratio(arm.ratio?))))
        };
        arms.filter_map(say).collect::<Vec<String>>()
    };
    let (sooner, later) = (of(Verdict::Faster, |r| r), of(Verdict::Slower, |r| 1.0 / r));
    let unclear = of(Verdict::NotDistinguishable, |r| r);
    let mut parts = Vec::new();
    if !sooner.is_empty() {
        parts.push(format!("offload is faster: {}", list(&sooner)));
    }
    if !later.is_empty() {
        parts.push(format!("offload is slower: {}", list(&later)));
    }
    if !unclear.is_empty() {
        parts.push(format!("not distinguishable: {}", list(&unclear)));
    }
    match parts.is_empty() {
        true => String::new(),
        false => {
            let first = warmth[..1].to_uppercase();
            format!("{first}{}, {}. ", &warmth[1..], parts.join("; "))
        }
    }
}

/// The reason why offload is slower cold, if it makes more disk reads.
fn two_reads(main: &Measured, arms: &[Arm]) -> String {
    let all = question::all();
    let slower = |question: &&Question| {
        let name = pair(false)[0].arm(question.name);
        arms.iter().any(|arm| arm.name == name && arm.verdict == Verdict::Slower)
    };
    let reads = |question: &Question| {
        let [on, off] = pair(false).map(|way| main.figure(question, way, figure::READS));
        let (on, off) = (on?, off?);
        (on > off).then(|| format!("{on:.0} reads rather than {off:.0} for \"{}\"", question.what))
    };
    let said: Vec<String> = all.iter().filter(slower).filter_map(reads).collect();
    match said.is_empty() {
        true => String::new(),
        false => format!(
            "It is slower where it reads the columns of a filter first, and the others once it \
             knows that rows pass: {}. ",
            list(&said)
        ),
    }
}

/// Remarks on the answer.
pub(super) fn remarks(options: &Options, main: &Measured) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let mut say = |label: &str, text: String| remarks.push((label.to_owned(), text));
    let all = question::all();
    let known = all.iter().filter_map(|question| Some((question, reduction(main, question)?)));
    let largest = known.max_by(|a, b| (a.1.2 - a.1.1).total_cmp(&(b.1.2 - b.1.1)));
    if let Some((question, (_, on, off))) = largest {
        say(
            "Link",
            format!(
                "cell and asker are one process here, nothing goes over a link. Over 10 Gbit/s \
                 the rows for \"{}\" alone would take {} without offload and {} with it: \
                 computed, not measured",
                question.what,
                millis(off / LINK * 1e3),
                millis(on / LINK * 1e3)
            ),
        );
    }
    if let (Sharing::Device(name), true) = (&main.sharing, options.width > 1) {
        say("Disks", format!("all are on one device, {name}: together they are as fast as it is"));
    }
    if let Some(limits) = main.limits.filter(|_| main.column == Column::Model) {
        say("Model", format!("of its disks: {limits}"));
    }
    remarks
}

/// The method, for readers who ask for it.
pub(super) fn details(main: &Measured, model: Option<&Measured>) -> Vec<(String, String)> {
    let mut details = Vec::new();
    let mut say = |label: &str, text: String| details.push((label.to_owned(), text));
    for (i, question) in question::all().iter().enumerate() {
        let label = if i == 0 { "Asked" } else { "" };
        say(label, format!("{}: {}", question.what, question.sql));
    }
    say(
        "Offload",
        "on: filters, sums of groups and what cannot be among the greatest are told to the cell, \
         as the SQL of cellar does. off: it is told the columns alone"
            .to_owned(),
    );
    say("", off_is());
    say(
        "Cold",
        "the cell's memory is emptied before; headers of row groups stay, as in a server. Checksums \
         of blocks are in RAM"
            .to_owned(),
    );
    say("Warm", "all columns that the question names were read just before, not timed".to_owned());
    say(
        "Terms",
        format!(
            "as in v$sysstat and on Exadata. eligible: {}. storage index saved: {}. interconnect: \
             {}, of which all with offload is \"{}\". waits: cell smart table scan",
            figure::ELIGIBLE,
            figure::SAVED,
            figure::RETURNED,
            figure::BY_SMART_SCAN
        ),
    );
    say(
        "",
        "read from disk: from offsets of 4 KB, and across gaps of less than 64 KB, so it may be \
         more than was eligible"
            .to_owned(),
    );
    say(
        "Order",
        "each round begins with the next question, and with the next of its four ways".to_owned(),
    );
    say(
        "Group",
        format!(
            "made anew, behind the scheduler of a server as deep as {DEPTH_MAX}; {SCAN_DEPTH} reads \
             in flight for each disk; read by the code that serves a database"
        ),
    );
    say("a, a'", "\"sums by two flags\", on, cold, twice in each round: the noise".to_owned());
    say("Caches", main.caches.to_owned());
    say("Checked", "each way must give the answer of the others; it is in the raw rows".to_owned());
    if model.is_some() {
        say(
            "Model",
            "the same code on simulated disks in virtual time: the same figures every time. \
             Processors take no time in it"
                .to_owned(),
        );
    }
    details
}

/// The processing of the rows returned without offload.
fn off_is() -> String {
    let of_groups =
        question::all().iter().filter(|q| matches!(q.wanted, Wanted::Groups { .. })).count();
    format!(
        "without offload the asker tests numbers of whole columns, row group by row group, in as \
         many tasks as the cell has workers; {of_groups} of the questions sum up what is left"
    )
}
