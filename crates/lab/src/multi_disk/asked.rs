//! Answers to the questions that readers of the post asked in 2006, and remarks on the finding.

use super::answer::{find, in_words};
use super::{DEPTHS, Layout, Measured, Options, SCAN_DEPTH, arms, deepest, depth_name, scanned};
use crate::column::Column;
use crate::counters::DeviceUse;
use crate::place::{DEPTH_MAX, Sharing};
use crate::run::{Arm, Verdict, verdict};
use crate::sample::{DiskUse, Sample};

/// For comparison: the rate of the disks alone.
pub(super) fn heads(main: &Measured) -> Vec<(String, String)> {
    let words = |rate: fn(&Measured, &str, Layout) -> Option<f64>, arms: [&str; 2]| {
        let first = rate(main, arms[0], Layout::One)?;
        let mut text = format!("A {first:.0}");
        if let Some(second) = rate(main, arms[1], Layout::One) {
            text += &format!("  B {second:.0}");
        }
        if let Some(both) = rate(main, arms[0], Layout::Two) {
            text += &format!("  A and B {both:.0}");
        }
        Some(text + " MB/s")
    };
    let depth = format!("1 MB depth {SCAN_DEPTH}");
    let mut heads = Vec::new();
    if let Some(ours) = words(Measured::rate, ["ceiling", "ceiling-b"]) {
        heads.push(("Ceiling".to_owned(), format!("raw {depth}:  {ours}")));
    }
    if let Some(fio) = words(Measured::fio, ["fio", "fio-b"]) {
        heads.push((String::new(), format!("fio {depth}:  {fio}")));
    }
    heads
}

/// The method, for readers who ask for it.
pub(super) fn details(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
) -> Vec<(String, String)> {
    let mut details = Vec::new();
    let mut say = |label: &str, text: String| details.push((label.to_owned(), text));
    for (i, arm) in arms(options).iter().enumerate() {
        say(if i == 0 { "Loads" } else { "" }, format!("{}: {}", arm.name, arm.how));
    }
    say("", format!("depth-N: as serial, N in flight for each disk, N of {DEPTHS:?}"));
    say("", "a, a': serial twice on the first layout, nothing changed between: the noise".into());
    say("Layouts", layouts(options));
    say(
        "Order",
        "in each round every arm on every layout; each round begins with the next arm, and every \
         other round with the last layout"
            .to_owned(),
    );
    say(
        "Group",
        format!(
            "one for each layout, in a place of its own on the disks, all of it written before; \
             behind the scheduler of a server, as deep as {DEPTH_MAX}; read by the code that \
             serves a database"
        ),
    );
    say("Caches", main.caches.to_owned());
    say(
        "Checked",
        "each 4 KB read with its crc32c, and that it is the block that was asked for".to_owned(),
    );
    if main.column == Column::Here {
        say(
            "Counters",
            "of the devices below, from /sys before and after each load, are in the raw rows; \
             they count what others do too"
                .to_owned(),
        );
        say("Ceiling", "the same disks without a group: 1 MB reads, in every round".to_owned());
    }
    if let Some(limits) = model.and_then(|m| m.limits) {
        say(
            "Model",
            format!(
                "the same code on simulated disks in virtual time: the same figures every time, \
                 no noise. The two waits are fitted to serial-1 (110 and 81 published), the rate \
                 is what iostat showed; every other row is predicted. What is left out: \
                 {limits}"
            ),
        );
    }
    details
}

fn layouts(options: &Options) -> String {
    let words: Vec<&str> = options
        .layouts
        .iter()
        .map(|layout| match layout.words() {
            Some(words) => words,
            None if *layout == Layout::One => "1 disk: a group on the first",
            None => "2 disks: a group on both",
        })
        .collect();
    words.join("; ")
}

/// `4 % below to 9 % above`, and the like.
fn around(least: f64, most: f64) -> String {
    let one = |part: f64| match part < 0.0 {
        true => format!("{:.0} % below", -part),
        false => format!("{part:.0} % above"),
    };
    match (least < 0.0) == (most < 0.0) {
        true if least < 0.0 => format!("{:.0} to {:.0} % below", -most, -least),
        true => format!("{least:.0} to {most:.0} % above"),
        false => format!("{} to {}", one(least), one(most)),
    }
}

/// The model's excess over the published figures, in the rows that it was not fitted to.
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

pub(super) fn remarks(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
    arms: &[Arm],
) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let mut say = |label: &str, text: String| remarks.push((label.to_owned(), text));
    if let (Some(model), Some((least, most))) = (model, above_published(arms)) {
        let limits = model.limits.map(|l| format!(" Of the model: {l}.")).unwrap_or_default();
        say(
            "2006",
            format!(
                "* the two waits of the model are fitted to the row \"{}\", its rate is what \
                 iostat showed. Predicted is that the other ways fill the links: {} the \
                 published figure. A lost prefetch explains 81; that is no \
                 proof of it.{limits}",
                find(arms, "serial-1").what,
                around(least, most),
            ),
        );
    }
    let mut asked = answers(options, main, model, arms).into_iter();
    if let Some(first) = asked.next() {
        say("Asked", first);
    }
    asked.for_each(|text| say("", text));
    remarks
}

/// Answers to the questions of the readers of 2006.
fn answers(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
    arms: &[Arm],
) -> Vec<String> {
    let mut answers = Vec::new();
    let at = |layout| options.layouts.iter().position(|l| *l == layout);
    if let (Some(figures), Some(one), Some(two)) =
        (model.and_then(|m| m.no_prefetch.as_ref()), at(Layout::One), at(Layout::Two))
    {
        let (one, two) = (figures[one], figures[two]);
        answers.push(format!(
            "prefetch: without it the model gives {one:.0} MB/s from one disk and {two:.0} from \
             two, {:.2} times: what is lost with two disks is the prefetch",
            two / one
        ));
    }
    answers.push(queue_depth(options, main));
    answers.push(request_size(options, main));
    answers.extend(of_nominal(options, main));
    if options.compared().is_some() {
        let [one, many] = ["random-1", "random-32"].map(|name| in_words(find(arms, name)));
        answers.push(format!("single blocks: {one} at depth 1, {many} at 32 in all"));
    }
    if at(Layout::Two).is_some() && at(Layout::One).is_some() {
        answers.push(more_luns(find(arms, "serial-1"), find(arms, "serial")));
    }
    answers.extend(other_layouts(options, main));
    answers.extend(scanned::remark(options, main));
    answers
}

fn more_luns(one: &Arm, deep: &Arm) -> String {
    let answer = match (deep.verdict, one.verdict) {
        (Verdict::Faster, Verdict::Faster) => "here yes:",
        (Verdict::Faster, _) => "only with reads in flight on all of them:",
        (Verdict::Slower, _) => "not here:",
        (Verdict::NotDistinguishable, _) => "not measurable here:",
    };
    format!(
        "more LUNs always better? {answer} {} with {SCAN_DEPTH} a disk, {} with one read in flight",
        in_words(deep),
        in_words(one)
    )
}

/// Two layouts that readers asked about, compared with one disk.
fn other_layouts(options: &Options, main: &Measured) -> Vec<String> {
    let base = options.layouts[0];
    let noise = main.noise(base).spread;
    let ratio = |arm: &str, layout| Some(main.rate(arm, layout)? / main.rate(arm, base)?);
    let ask = |layout: Layout, question: &str| {
        if layout == base || !options.layouts.contains(&layout) {
            return None;
        }
        let said = |arm: &str| {
            let ratio = ratio(arm, layout)?;
            let unclear = verdict(ratio, noise) == Verdict::NotDistinguishable;
            let unclear = if unclear { " (not distinguishable)" } else { "" };
            Some(format!("{ratio:.2} times{unclear}"))
        };
        let (one, deep) = (said("serial-1")?, said("serial")?);
        let base = base.name();
        Some(format!(
            "{question} beside \"{base}\" {one} with one read in flight, {deep} with \
             {SCAN_DEPTH} a disk"
        ))
    };
    [
        ask(Layout::Same, "same spindles behind, striped by the group:"),
        ask(Layout::Each, "a group on each disk, both read at once:"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The arms whose requests are reported.
fn uses<'a>(options: &Options, main: &'a Measured, arm: &str) -> Vec<&'a Sample> {
    let layout = deepest(&options.layouts).unwrap_or(options.layouts[0]);
    main.samples(arm, layout).collect()
}

fn queue_depth(options: &Options, main: &Measured) -> String {
    let mut used = 0;
    for arm in ["serial".to_owned()].into_iter().chain(DEPTHS.map(depth_name)) {
        let disks = uses(options, main, &arm).into_iter().flat_map(|s| &s.disks);
        used = disks.map(|d: &DiskUse| d.in_flight_max).fold(used, u32::max);
    }
    match main.queue {
        None => format!("queue depth: most used {used} a disk"),
        Some(queue) if used < queue => {
            format!("queue depth: most used {used} of {queue}: not the limit here")
        }
        Some(queue) => format!("queue depth: most used {used} of {queue}: full, more would wait"),
    }
}

fn request_size(options: &Options, main: &Measured) -> String {
    let samples = uses(options, main, "serial");
    let (mut bytes, mut requests) = (0, 0);
    for disk in samples.iter().flat_map(|s| &s.disks) {
        (bytes, requests) = (bytes + disk.bytes, requests + disk.requests);
    }
    let sent = bytes / requests.max(1) / 1024;
    let (mut bytes, mut reads) = (0, 0);
    for device in samples.iter().flat_map(|s: &&Sample| &s.devices) {
        let device: &DeviceUse = device;
        (bytes, reads) = (bytes + device.bytes, reads + device.reads);
    }
    if reads == 0 {
        return format!("request size: asked for 1024 KB, the disk was sent {sent} KB");
    }
    let got = bytes / reads / 1024;
    let limit = main
        .request_max
        .map_or(String::new(), |max| format!(" (the kernel hands on at most {} KB)", max / 1024));
    // Metadata reads in between lower the average a little.
    let split = if got * 10 >= sent * 9 { "not split" } else { "split below us" };
    format!("request size: sent {sent} KB, device got {got} KB: {split}{limit}")
}

fn of_nominal(options: &Options, main: &Measured) -> Option<String> {
    let has = |layout| options.layouts.contains(&layout);
    let (layout, disks) = match (has(Layout::Two), has(Layout::One)) {
        (true, _) => (Layout::Two, 2.0),
        (false, true) => (Layout::One, 1.0),
        _ => return None,
    };
    let rate = main.rate("serial", layout)?;
    let mut parts = Vec::new();
    if let Some(raw) = main.rate("ceiling", layout) {
        parts.push(format!("of the raw-device rate: {:.0} %", 100.0 * rate / raw));
    }
    if let Some(fio) = main.fio("fio", layout) {
        parts.push(format!("of fio: {:.0} %", 100.0 * rate / fio));
    }
    if main.nominal > 0 {
        // A device has only one link, however many files are on it.
        let shared = matches!(main.sharing, Sharing::Device(_));
        let links = if shared { 1.0 } else { disks };
        let part = rate * 1e8 / (main.nominal as f64 * links);
        let what = if links > 1.0 { "the two links" } else { "the link" };
        parts.push(format!("of {what}: {part:.0} %"));
    }
    let beyond = main.fio("fio", layout).is_some_and(|fio| rate > 1.2 * fio);
    let why = match beyond {
        true => {
            ". More than fio says where the processor is the limit and not the disk: fio's buffers \
             are of small pages, unless it is given --iomem=mmaphuge"
        }
        false => "",
    };
    (!parts.is_empty()).then(|| format!("share {}{why}", parts.join(", ")))
}
