//! Wording of the finding of `io-modes`: no more than its figures support.

use cellar_io::real::EngineChoice;

use super::answer::{At, Rows, figure, load_words, seconds};
use super::job::{ASSUMED, Job, ROWS};
use super::setting::{LAYOUTS, NAMES};
use super::{Measured, Options};
use crate::run::{Machine, Raw, Verdict};

/// The settings that are compared with `none`.
const OTHERS: [&str; 3] = ["asynch", "directio", "setall"];

/// The subject of the figures.
pub(super) fn machine(machine: &Machine, load: Option<f64>) -> String {
    let mut text = format!(
        "this one alone ({} CPUs, {} GB, kernel {}): a model has no kernel to look at",
        machine.cpus,
        machine.memory_bytes >> 30,
        machine.kernel,
    );
    if let Some(load) = load.filter(|load| *load >= machine.cpus as f64 / 2.0) {
        text += &format!(
            ". It was busy before (load average {load:.1}); idle it gives other figures, and other \
             ratios"
        );
    }
    text
}

/// The answer.
pub(super) fn finding(rows: Rows<'_>, options: &Options) -> String {
    let loads: Vec<&str> = rows.loads().into_iter().filter(|load| *load != "job").collect();
    let mut sentences = vec![headline(rows, &loads)];
    sentences.extend(loads.iter().map(|load| compared(rows, load)));
    sentences.extend(returned(rows));
    sentences.extend(without_asynch(rows));
    if rows.loads().contains(&"job") {
        sentences.push(job(rows, options));
    }
    sentences.join(" ")
}

/// A summary in one sentence.
fn headline(rows: Rows<'_>, loads: &[&str]) -> String {
    let told = |load: &&str| {
        let of = |name: &str| {
            let (times, told) = rows.times_none(At::first(load, name, LAYOUTS[0]))?;
            (told != Verdict::NotDistinguishable).then_some((times, name.to_owned()))
        };
        OTHERS.iter().filter_map(|name| of(name)).collect::<Vec<_>>()
    };
    let all: Vec<(f64, String)> = loads.iter().flat_map(told).collect();
    let far = |of: &&(f64, String)| of.0.ln().abs();
    match all.iter().max_by(|a, b| far(a).total_cmp(&far(b))) {
        None => "The I/O setting makes no measurable difference.".to_owned(),
        Some((times, name)) if *times > 1.0 => {
            format!("The I/O setting matters: {name} is up to {times:.2} times as fast as none.")
        }
        Some((times, name)) => {
            format!("The I/O setting matters: {name} is down to {times:.2} times the rate of none.")
        }
    }
}

/// One load under the four values.
fn compared(rows: Rows<'_>, load: &str) -> String {
    let noise = rows.noise(load).spread;
    let mut differ = Vec::new();
    let mut same = Vec::new();
    for name in OTHERS {
        let at = At::first(load, name, LAYOUTS[0]);
        let Some((times, told)) = rows.times_none(at) else { continue };
        match told {
            Verdict::NotDistinguishable => same.push(name),
            _ => differ.push(format!("{name} {times:.2} times")),
        }
    }
    let what = match load.split_once('-') {
        Some((_, bytes)) => format!("Log writes of {bytes} bytes"),
        None if load == "group" => "The same batches in a file of a disk group".to_owned(),
        None => "Batches of 8 KB".to_owned(),
    };
    let apart = format!(
        "(settings that reach the file in the same way are taken together, and are up to {:.0} % \
         apart)",
        100.0 * noise
    );
    match (differ.is_empty(), same.is_empty()) {
        (true, _) => format!("{what}: the four settings are not distinguishable {apart}."),
        (false, true) => format!("{what}: {} as fast as none {apart}.", listed(&differ)),
        (false, false) => format!(
            "{what}: {} as fast as none; {} not distinguishable from it {apart}.",
            listed(&differ),
            listed(&same),
        ),
    }
}

/// The writes' share of the time until a batch is durable, for a buffered file.
fn returned(rows: Rows<'_>) -> Option<String> {
    let part = |name| {
        let at = At::first("batch", name, LAYOUTS[0]);
        let buffered = !rows.way(at)?.direct;
        let part = |row: &Raw| Some(figure(row, "sent_ns")? / figure(row, "durable_ns")?.max(1.0));
        buffered.then(|| rows.median(at, part)).flatten().map(|part| 100.0 * part)
    };
    let (least, most) = range([part("none")?, part("asynch")?].into_iter());
    Some(format!(
        "Buffered writes have returned after {} % of the time until they are durable; the flush \
         takes the rest.",
        between(least, most, 0),
    ))
}

/// The effect of `disk_asynch_io` = false, as far as the access path shows it.
fn without_asynch(rows: Rows<'_>) -> Option<String> {
    let load = *rows.loads().first()?;
    let at = |name, layout| At::first(load, name, layout);
    let same = |a, b| rows.way(at(a, LAYOUTS[1])) == rows.way(at(b, LAYOUTS[0]));
    (same("asynch", "none") && same("setall", "directio")).then(|| {
        "disk_asynch_io = false turns asynch into none, setall into directio: the same calls."
            .to_owned()
    })
}

/// The largest possible I/O share of the job of the post.
fn job(rows: Rows<'_>, options: &Options) -> String {
    let job = Job { rows: options.rows };
    let at = |name| At::first("job", name, LAYOUTS[0]);
    let four: Vec<(f64, Option<f64>)> = NAMES
        .iter()
        .filter(|(_, published)| published.is_some())
        .filter_map(|(name, published)| Some((rows.median(at(name), seconds)?, *published)))
        .collect();
    let (least, most) = range(four.iter().map(|(here, _)| *here));
    let megabytes = job.bytes() as f64 / 1e6;
    let mut text = format!(
        "The post's job writes {megabytes:.0} MB; durable, with nothing else, that takes {} s here",
        between(least, most, 2),
    );
    if options.rows != ROWS {
        return text + " (of other rows than published).";
    }
    let parts = four.iter().filter_map(|(here, published)| Some(100.0 * here / (*published)?));
    let (low, high) = range(parts);
    text +=
        &format!(", {} % of the published time: the rest is the loop. ", between(low, high, 0),);
    let (fastest, slowest) = range(four.iter().filter_map(|(_, published)| *published));
    let apart = slowest - fastest;
    text += &if most < apart {
        format!(
            "The published settings are up to {apart:.2} s apart, one run each: more than all this \
             I/O takes. Only a disk slower than {:.0} MB/s could explain the difference by the \
             setting.",
            megabytes / apart,
        )
    } else {
        format!(
            "The published settings are up to {apart:.2} s apart, one run each. A disk as this one \
             can make that by a setting; so can chance."
        )
    };
    text
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, 0.0), |(low, high), v| (low.min(v), high.max(v)))
}

fn between(low: f64, high: f64, digits: usize) -> String {
    let (low, high) = (format!("{low:.digits$}"), format!("{high:.digits$}"));
    if low == high { low } else { format!("{low} to {high}") }
}

/// `a, b and c`.
fn listed<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(S::as_ref).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Remarks on the finding.
pub(super) fn remarks(
    rows: Rows<'_>,
    measured: &Measured,
    options: &Options,
) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let mut under = |label: &str, texts: Vec<String>| {
        for (i, text) in texts.into_iter().enumerate() {
            remarks.push((if i == 0 { label.to_owned() } else { String::new() }, text));
        }
    };
    under("In force", effective(rows));
    under(
        "strace",
        match &measured.untraced {
            Some(why) => vec![format!("nothing was seen: {why}. {}", write_calls(rows))],
            None => system_calls(rows),
        },
    );
    under("kioctx", kernel_aio(rows).into_iter().collect());
    if options.rows > 0 {
        under(
            "The job",
            vec![format!(
                "the published seconds are the whole loop of {ROWS} inserts, those here are its \
                 I/O alone, one write after the other. Assumed, not published: {ASSUMED}"
            )],
        );
    }
    under(
        "Device",
        vec![
            "its counters are of the whole machine: who else writes meanwhile is in them, and \
             a flush counts as a write too. CPU is that of this process; what the kernel writes \
             back by itself is not in it"
                .to_owned(),
        ],
    );
    remarks
}

/// The result here of the post's test for asynchronous I/O, `kioctx` in `/proc/slabinfo`.
fn kernel_aio(rows: Rows<'_>) -> Option<String> {
    let reserved = |name| {
        let at = At::first("batch", name, LAYOUTS[0]);
        Some((rows.way(at)?.engine, rows.median(at, |row| figure(row, "aio_reserved"))?))
    };
    let (ring, of_ring) = reserved("setall")?;
    let (old, of_old) = reserved("setall-libaio")?;
    let both = (ring, old) == (EngineChoice::IoUring, EngineChoice::LibAio);
    (both && of_ring < of_old).then(|| {
        format!(
            "the post takes entries there for the proof of asynchronous I/O. They are of the \
             kernel's old interface alone: libaio reserves room for {of_old:.0} requests \
             (/proc/sys/fs/aio-nr), io_uring for {of_ring:.0}, asynchronous as it is"
        )
    })
}

/// The settings that are equivalent.
fn effective(rows: Rows<'_>) -> Vec<String> {
    let Some(load) = rows.loads().first().copied() else { return Vec::new() };
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for (name, _) in NAMES {
        for layout in LAYOUTS {
            let Some(kind) = rows.effective(At::first(load, name, layout)) else { continue };
            let at = At::first(load, name, layout);
            let kind = match rows.note(at, "asynch_io") {
                Some(asynch) => format!("{kind} ({asynch})"),
                None => kind.to_owned(),
            };
            let who = format!("{name} {layout}");
            match kinds.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, all)) => all.push(who),
                None => kinds.push((kind, vec![who])),
            }
        }
    }
    kinds.into_iter().map(|(kind, all)| format!("{kind}: {}", listed(&all))).collect()
}

/// The facts known without strace: write calls, as counted by /proc/self/io.
fn write_calls(rows: Rows<'_>) -> String {
    let calls = NAMES.iter().filter_map(|(name, _)| {
        let at = At::first("batch", name, LAYOUTS[0]);
        let calls = |r: &Raw| Some(figure(r, "write_calls")? / figure(r, "writes")?.max(1.0));
        Some(format!("{name} {:.1}", rows.median(at, calls)?))
    });
    let calls: Vec<String> = calls.collect();
    format!(
        "Calls of the write family for each of the batches' writes, by /proc/self/io: {}; what \
         goes by io_uring or io_submit is none of them",
        calls.join(", ")
    )
}

/// strace's counts for the batches and for the smallest log writes.
fn system_calls(rows: Rows<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    for load in rows.loads().into_iter().take(2) {
        for (name, _) in NAMES {
            let at = At::first(load, name, LAYOUTS[0]);
            let count = |call: &str| rows.median(at, |r| figure(r, &format!("strace_{call}")));
            let Some(writes) = count("writes") else { continue };
            let calls: Vec<String> =
                CALLS.iter().filter_map(|call| Some(format!("{call} {}", count(call)?))).collect();
            let what = load_words(load).what;
            texts.push(format!("{what}, {name}, {writes} writes: {}", calls.join(", ")));
        }
    }
    texts
}

/// Calls in the order of a report, without those that were not made.
const CALLS: [&str; 10] = [
    "pwrite64",
    "pwritev",
    "pwritev2",
    "fdatasync",
    "fsync",
    "io_submit",
    "io_getevents",
    "io_pgetevents",
    "io_uring_enter",
    "futex",
];

/// The method, for readers who ask for it.
pub(super) fn details(measured: &Measured) -> Vec<(String, String)> {
    let say = |label: &str, text: &str| (label.to_owned(), text.to_owned());
    vec![
        say(
            "Opened",
            "as filesystemio_options and disk_asynch_io say, by the code that opens the disks of \
             an instance, behind its scheduler (64 in flight); asynchronous is io_uring, or \
             libaio where an arm says so, as in the post",
        ),
        say(
            "Batches",
            "64 scattered 8 KB blocks handed over at once; when all have returned one flush \
             (fdatasync) makes them durable, direct or not: the device has a cache of its own",
        ),
        say("Log", "one write in flight, each with RWF_DSYNC, one behind the other"),
        say(
            "Each",
            "measurement has a runtime of its own, so threads, rings and CPU time are its alone; \
             two batches before the clock starts; then the pages of the file are dropped",
        ),
        say(
            "Noise",
            "settings under which the same calls go to the same file are equal runs, and asynch \
             and setall are measured twice. A ratio is of the medians over all equal runs; within \
             the largest difference between the medians of equal settings, load by load, or where \
             the middle halves of the runs overlap, it is not distinguishable from 1",
        ),
        say(
            "strace",
            measured.untraced.as_deref().unwrap_or(
                "counts writing, flushing and waiting calls of this process, in runs of their own \
                 that are not timed",
            ),
        ),
        say(
            "Kernel",
            "page cache by cachestat; device by /sys/block/*/stat; CPU and switches by \
             /proc/self/task",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::column::Column;
    use crate::io_modes::answer::{Row, Way};
    use crate::io_modes::setting::SETTINGS;

    /// Rows of one load: `speed` gives writes a second by access path, round and position in it.
    fn made_up(load: &str, speed: impl Fn(&str, u32, usize) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for round in 1..=3 {
            for (i, setting) in SETTINGS.iter().enumerate() {
                let direct = ["directio", "setall"].iter().any(|d| setting.name.starts_with(d));
                let asynch = setting.asynch && !["none", "directio"].contains(&setting.name);
                let engine = match (asynch, setting.engine) {
                    (true, EngineChoice::LibAio) => EngineChoice::LibAio,
                    (true, _) => EngineChoice::IoUring,
                    (false, _) => EngineChoice::Sync,
                };
                let access = if direct { "direct" } else { "buffered" };
                let force = format!("{engine}, {access}");
                let ns = 1e9 * 100.0 / speed(&force, round, i);
                let figures = [("writes", 100.0), ("durable_ns", ns), ("sent_ns", ns / 5.0)];
                let raw = Raw {
                    column: Column::Here,
                    round,
                    layout: setting.layout().to_owned(),
                    arm: format!("{load}-{}{}", setting.name, if setting.again { "'" } else { "" }),
                    sample: None,
                    figures: figures.map(|(n, v)| (n.to_owned(), v)).into(),
                    notes: BTreeMap::from([("in force".to_owned(), force)]),
                };
                let way = Way { engine, direct };
                rows.push(Row { load: load.to_owned(), setting: *setting, way, raw });
            }
        }
        rows
    }

    fn text(rows: &[Row], rows_of_job: u64) -> String {
        finding(Rows(rows), &Options { rows: rows_of_job, ..Options::default() })
    }

    #[test]
    fn a_difference_larger_than_that_of_equal_runs_is_told() {
        let rows = made_up("batch", |force, _, i| {
            let base = if force == "io_uring, direct" { 3100.0 } else { 1000.0 };
            base * (1.0 + 0.005 * (i % 3) as f64)
        });
        let text = text(&rows, 0);
        assert!(text.contains("Batches of 8 KB: setall 3.1"), "{text}");
        assert!(text.contains("asynch and directio not distinguishable from it"), "{text}");
        assert!(text.contains("returned after 20 % of the time"), "{text}");
        assert!(text.contains("turns asynch into none, setall into directio"), "{text}");
    }

    #[test]
    fn inside_the_noise_no_difference_is_claimed() {
        // Equal settings differ by up to a half, and so does everything else.
        let rows =
            made_up("log-512", |_, round, i| 1000.0 + 100.0 * ((i as u32 + round) % 6) as f64);
        let text = text(&rows, 0);
        assert!(text.contains("the four settings are not distinguishable"), "{text}");
        assert!(!text.contains("times as fast"), "{text}");
        let noise = Rows(&rows).noise("log-512");
        // Two kinds under three names, and two second measurements.
        assert_eq!(noise.pairs, 3 + 3 + 1 + 1);
        assert!(noise.spread > 0.0 && noise.spread < 0.5, "{noise:?}");
    }

    #[test]
    fn medians_apart_do_not_tell_where_the_runs_overlap() {
        // Alternately slow and fast: medians of equal settings agree, those of none and setall do not.
        let rows = made_up("batch", |force, round, _| match (force, round) {
            ("io_uring, direct", 1) => 500.0,
            ("io_uring, direct", _) => 3000.0,
            (_, 1) => 3000.0,
            _ => 1000.0,
        });
        assert_eq!(Rows(&rows).noise("batch").spread, 0.0);
        let text = text(&rows, 0);
        assert!(text.contains("the four settings are not distinguishable"), "{text}");
    }

    #[test]
    fn the_job_is_set_beside_what_was_published() {
        // 100 writes at 200 a second: half a second.
        let fast = made_up("job", |_, _, _| 200.0);
        let said = text(&fast, ROWS);
        assert!(
            said.contains("writes 336 MB; durable, with nothing else, that takes 0.50 s here"),
            "{said}"
        );
        assert!(said.contains("4 % of the published time: the rest is the loop"), "{said}");
        assert!(
            said.contains(
                "Only a disk slower than 155 MB/s could explain the difference by the setting"
            ),
            "{said}"
        );
        let slow =
            made_up("job", |force, _, _| if force == "sync, buffered" { 10.0 } else { 20.0 });
        let said = text(&slow, ROWS);
        assert!(said.contains("takes 5.00 to 10.00 s here"), "{said}");
        assert!(said.contains("A disk as this one can make that"), "{said}");
        assert!(text(&fast, 1000).ends_with("(of other rows than published)."), "{said}");
    }

    #[test]
    fn words_are_listed_as_people_do() {
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
