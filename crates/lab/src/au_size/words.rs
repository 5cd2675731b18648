//! Wording of the finding of `au-size`, and of its remarks.

use super::answer::{BASE, PLACE, POSITIONS, PUBLISHED};
use super::{Measured, Options, Position, SCAN_DEPTH, Shift, Way};
use crate::column::Column;
use crate::place::{DEPTH_MAX, Sharing};
use crate::run::{Arm, Noise, Verdict};

/// A negligible difference between AUs.
const SAME: f64 = 0.03;
/// The spread of equal runs above which no conclusion is drawn.
const UNCLEAR: f64 = 0.1;

/// For comparison: the rate of the disks alone.
pub(super) fn heads(main: &Measured) -> Vec<(String, String)> {
    let of = |p: &Position| Some(format!("{} {:.0}", p.word(), main.ceiling(*p)?));
    let told: Vec<String> = POSITIONS.iter().filter_map(of).collect();
    match told.is_empty() {
        true => Vec::new(),
        false => vec![(
            "Ceiling".to_owned(),
            format!("raw 1 MB depth {SCAN_DEPTH} a disk:  {} MB/s", told.join("  ")),
        )],
    }
}

fn find<'a>(arms: &'a [Arm], name: &str) -> Option<&'a Arm> {
    arms.iter().find(|arm| arm.name == name)
}

/// The range of AUs in words.
fn range(options: &Options) -> String {
    match &options.au_sizes[..] {
        [one] => format!("{} MB", one >> 20),
        all => format!("{} to {} MB", all[0] >> 20, all[all.len() - 1] >> 20),
    }
}

/// The AU that took longest in the main column of an arm.
fn slowest(options: &Options, main: &Measured, arm: &str) -> Option<u64> {
    let times = options.au_sizes.iter().filter_map(|au| Some((main.seconds(arm, *au)?, *au)));
    times.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, au_size)| au_size)
}

/// The effect of the AU on a way of reading.
fn of_size(options: &Options, main: &Measured, arm: &Arm, noise: Noise) -> Option<String> {
    let ratio = arm.ratio?;
    let percent = 100.0 * (ratio - 1.0);
    let spread = 100.0 * noise.spread.max(arm.spread);
    let slowest = slowest(options, main, &arm.name).unwrap_or(BASE) >> 20;
    Some(match (arm.verdict, ratio - 1.0 <= SAME) {
        (Verdict::NotDistinguishable, false) => format!(
            "differs by {percent:.1} %, which equal runs do too ({spread:.1} %): no conclusion"
        ),
        (_, true) => format!("makes {percent:.1} % at most (equal runs {spread:.1} % apart)"),
        (_, false) => format!(
            "makes {percent:.1} %, {slowest} MB being the slowest (equal runs {spread:.1} % apart)"
        ),
    })
}

/// The slowdown of the inner tracks, by the AU at which they are compared.
fn inner_over_outer(options: &Options, measured: &Measured) -> Option<f64> {
    let au_size = options.au_sizes.iter().copied().find(|au| *au == BASE);
    let au_size = au_size.unwrap_or(options.au_sizes[0]);
    let of = |position| measured.seconds(&Way::Cell.arm(position), au_size);
    Some(of(Position::Inner)? / of(Position::Outer)?)
}

pub(super) fn finding(options: &Options, main: &Measured, arms: &[Arm], noise: Noise) -> String {
    let place = match main.column {
        Column::Model => "On this model",
        Column::Here => "Here",
    };
    let positions = main.positions();
    let Some(first) = positions.first().copied() else { return String::new() };
    let cell = find(arms, &Way::Cell.arm(first));
    let mut text = headline(options, main, cell, noise);
    if let Some(words) = cell.and_then(|arm| of_size(options, main, arm, noise)) {
        let range = range(options);
        text += &format!(
            "{place}, to a scan that reads storage regions as a cell does an AU of {range} \
             {words}: "
        );
        text += &reason(options, cell);
    }
    text += &shifted(options, main, first, arms);
    match inner_over_outer(options, main) {
        Some(times) if times > 1.0 + SAME.max(noise.spread) => {
            text += &format!("Place makes more: the inner tracks take {times:.2} times as long. ");
        }
        Some(times) => {
            text += &format!(
                "Place makes nothing of these disks: their last bytes take {times:.2} times as \
                 long as their first. "
            );
        }
        None => {}
    }
    text + &advice(options, main, cell, noise)
}

/// A summary in one sentence.
fn headline(options: &Options, main: &Measured, cell: Option<&Arm>, noise: Noise) -> String {
    if noise.spread > UNCLEAR {
        return "This run is too unsteady to say which AU size is better. ".to_owned();
    }
    let place = inner_over_outer(options, main).filter(|times| *times > 1.0 + SAME);
    match (differs(cell), place) {
        (true, _) => "The AU size matters for files as small as this. ".to_owned(),
        (false, Some(_)) => {
            "The AU size makes no difference; where on the disk the data lies does. ".to_owned()
        }
        (false, None) => "The AU size makes no difference: keep the one you have. ".to_owned(),
    }
}

fn differs(arm: Option<&Arm>) -> bool {
    let told = |arm: &&Arm| arm.verdict != Verdict::NotDistinguishable;
    arm.filter(told).and_then(|arm| arm.ratio).is_some_and(|ratio| ratio - 1.0 > SAME)
}

/// The reason why the AU matters, or does not.
fn reason(options: &Options, cell: Option<&Arm>) -> String {
    let largest = options.au_sizes.iter().max().copied().unwrap_or(BASE);
    let each = options.file_bytes / options.width as u64 / largest;
    match differs(cell) {
        false => "a region of 1 MB lies in one AU, whatever its size. ".to_owned(),
        true => format!(
            "not for what it asks of a disk, but because {} reads in flight in the order of the \
             file lie in few large AUs, so that a scan begins and ends on some of the {} disks \
             alone; a file of {each} AUs of {} MB on each is soon over. ",
            SCAN_DEPTH * options.width,
            options.width,
            largest >> 20
        ),
    }
}

fn advice(options: &Options, main: &Measured, cell: Option<&Arm>, noise: Noise) -> String {
    if noise.spread > UNCLEAR {
        return format!(
            "Equal runs are {:.0} % apart: no AU can be advised. Take more --rounds, a larger \
             --size, an idle machine, or --shape 200MB/s.",
            100.0 * noise.spread
        );
    }
    if !differs(cell) {
        return "Try: the AU size that you have".to_owned();
    }
    let arm = cell.map_or("", |arm| arm.name.as_str());
    let times = options.au_sizes.iter().filter_map(|au| Some((main.seconds(arm, *au)?, *au)));
    let fastest = times.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(BASE, |(_, au)| au);
    format!("Try: AU {} MB for files as small as this", fastest >> 20)
}

/// The cost of the old way.
fn shifted(options: &Options, main: &Measured, position: Position, arms: &[Arm]) -> String {
    let name = Way::Shifted.arm(position);
    let Some(arm) = find(arms, &name) else { return String::new() };
    let crossed = |au_size: u64| {
        let sample = main.samples(&name, au_size).next()?;
        Some((sample.crossed, sample.reads))
    };
    let all: Vec<(u64, (u64, u64))> =
        options.au_sizes.iter().filter_map(|au| Some((*au, crossed(*au)?))).collect();
    let (Some((least, (many, reads))), Some((most, (few, _)))) = (all.first(), all.last()) else {
        return String::new();
    };
    let beside = |au_size: u64| {
        let cell = main.seconds(&Way::Cell.arm(position), au_size)?;
        Some((main.seconds(&name, au_size)? / cell, au_size))
    };
    let beside: Vec<(f64, u64)> = options.au_sizes.iter().filter_map(|au| beside(*au)).collect();
    let farthest = beside.iter().max_by(|a, b| (a.0 - 1.0).abs().total_cmp(&(b.0 - 1.0).abs()));
    let ends = match least == most {
        true => format!("{many} of {reads} cross an AU"),
        false => format!(
            "{many} of {reads} cross an AU of {} MB and {few} one of {} MB",
            least >> 20,
            most >> 20
        ),
    };
    // The rounds of the one AU are the reference.
    let noise = arm.spread.max(main.noise(options).spread).max(0.001);
    let cost = match farthest {
        Some((times, au)) if *times > 1.0 + noise => {
            let percent = 100.0 * (times - 1.0);
            format!("at {} MB that costs {percent:.1} %", au >> 20)
        }
        Some((times, au)) if *times < 1.0 - noise => {
            let percent = 100.0 * (1.0 - times);
            format!("at {} MB they are {percent:.1} % faster for it", au >> 20)
        }
        _ => "with that many in flight it costs nothing measurable".to_owned(),
    };
    format!("Of reads shifted by {} {ends}: {cost}. ", options.shift.words())
}

/// The published times compared with these.
pub(super) fn remarks(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
    arms: &[Arm],
) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let mut say = |label: &str, text: String| remarks.push((label.to_owned(), text));
    let [one, four, eight] = PUBLISHED.map(|(_, seconds)| seconds);
    say(
        "2012",
        format!(
            "{one}, {four} and {eight} s for 14.8 GB at AU 1, 4 and 8: 1 and 8 MB took {:.2} and \
             {:.2} times as long as 4. Reads that cross an AU cannot do that: with 8 MB there are \
             half as many of them as with 4.",
            one / four,
            eight / four
        ),
    );
    if let Some(text) = place_then(options, model, find(arms, PLACE)) {
        say("", text);
    }
    let mut asked = vec![
        "waits: a scan waits for as many reads of regions with every AU; the post counted more \
         waits with 1 and 8 MB, and took that for alignment"
            .to_owned(),
    ];
    let largest = options.au_sizes.iter().max().copied().unwrap_or(BASE) >> 20;
    if options.width > 1 {
        asked.push(format!(
            "small tables: one of less than {} MB is not on all {} disks where the AU is {largest} MB",
            largest * options.width as u64,
            options.width
        ));
    }
    if let Sharing::Device(name) = &main.sharing
        && options.width > 1
    {
        asked.push(format!(
            "all disks are on one device, {name}: the AU cannot spread the scan over more"
        ));
    }
    if options.shift == Shift::HalfAu {
        asked.push(
            "half an AU of 4 MB and more is a whole number of reads, so that only AU 1 is crossed"
                .to_owned(),
        );
    }
    if let Some(max) = main.request_max {
        asked.push(format!("request size: the kernel hands on at most {} KB at once", max >> 10));
    }
    for (i, text) in asked.into_iter().enumerate() {
        say(if i == 0 { "Asked" } else { "" }, text);
    }
    remarks
}

/// Whether the position on disk alone explains the published times.
fn place_then(options: &Options, model: Option<&Measured>, arm: Option<&Arm>) -> Option<String> {
    let model = model.filter(|model| model.turns)?;
    let times = inner_over_outer(options, model)?;
    let published = arm?.published.as_ref()?.iter().flatten().copied().fold(1.0, f64::max);
    let part = 100.0 * (times - 1.0) / (published - 1.0).max(f64::MIN_POSITIVE);
    Some(format!(
        "Place may: if the group of 4 MB lay on the outer tracks of the disks of that cell and \
         the two that were made for the test on the inner ones, they take {times:.2} times as \
         long: {part:.0} % of the difference. Where they lay was not told; that is no proof of \
         it.{}",
        model.limits.map(|l| format!(" Of the model: {l}.")).unwrap_or_default()
    ))
}

/// The method, for readers who ask for it.
pub(super) fn details(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
) -> Vec<(String, String)> {
    let mut details = Vec::new();
    let mut say = |label: &str, text: String| details.push((label.to_owned(), text));
    say(
        "Loads",
        format!(
            "cell: 1 MB reads at multiples of 1 MB in the order of the file, {SCAN_DEPTH} in \
             flight for each disk, the next when any is there"
        ),
    );
    say(
        "",
        format!(
            "shifted: the same, begun {} behind each MB, and what is left at both ends",
            options.shift.words()
        ),
    );
    say("", "a, a': cell twice on the group of the first AU, nothing changed between".into());
    say("Position", "outer: from the first byte of each disk on; inner: up to its last one".into());
    say(
        "Group",
        format!(
            "made anew for each AU on the same {} MB of each disk, filled, read, and taken away; \
             behind the scheduler of a server, as deep as {DEPTH_MAX}; read by the code that \
             serves a database",
            options.stretch() >> 20
        ),
    );
    say(
        "Order",
        "each round begins with the next AU; every other round with the last position and the \
         shifted reads"
            .to_owned(),
    );
    say("Caches", main.caches.to_owned());
    say(
        "Checked",
        "each 4 KB read with its crc32c, and that it is the block that was asked for".to_owned(),
    );
    if main.column == Column::Here {
        say("Ceiling", "the same stretch without a group: 1 MB reads, in every round".to_owned());
    }
    if model.is_some() {
        say(
            "Model",
            "the same code on simulated disks in virtual time: the same figures every time, no \
             noise. Its rates and times are those of the disk's manual; nothing is fitted to the \
             post. The rate of a disk that turns goes with the radius"
                .to_owned(),
        );
    }
    details
}
