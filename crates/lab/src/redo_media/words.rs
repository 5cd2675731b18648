//! Wording of the finding of `redo-media`, and of its remarks.

use super::options::{Archive, Job};
use super::{LAYOUTS, Layout, MEDIA, Measured, ONE_AT_A_TIME, Options, Way};
use crate::column::Column;
use crate::place::Sharing;
use crate::run::{Noise, Verdict, verdict};

/// The comparison of both media: the description of a row, the figure, whether it is in percent of units.
pub(super) const BOARD: &[(&str, &str, bool)] = &[
    ("had it first, %", "units_first", true),
    ("written after acknowledgement, %", "units_late", true),
    ("outliers prevented", "outliers_prevented", false),
    ("outliers waited for", "outliers_actual", false),
    ("slowest write, ms", "slowest_ms", false),
    ("largest lag, KB", "lacked_kb_max", false),
    ("longest lag, ms", "lacked_ms_max", false),
];

/// The spread of equal runs above which no conclusion is drawn.
const UNCLEAR: f64 = 0.3;

/// A difference that is not significant.
const NOTHING: f64 = 0.03;

/// The published time on flash, as a multiple, with ten sessions.
pub(super) const PUBLISHED_10: f64 = 20.0;

/// A part of a commit, for people: at most 24 characters.
pub(super) fn part(name: &str) -> &'static str {
    match name {
        "space" => "room in the log",
        "queue" => "queue",
        "slot" => "slot wait",
        "form" => "forming the unit",
        "first" => "device, first",
        "quorum" => "device, until enough",
        "order" => "units before it",
        _ => "wake-up",
    }
}

pub(super) fn heads(options: &Options) -> Vec<(String, String)> {
    let mut both = "both: written to disk and flash, acknowledged when the first has it \
                    (redo_quorum 1 of 2). ratio: commits on flash over those on disk"
        .to_owned();
    if options.scans > 0 || options.archive.iter().any(|archive| *archive != Archive::Off) {
        both += ". Scans read the disk; same archives to where the redo is, of both to the disk";
    }
    vec![("Media".to_owned(), both)]
}

pub(super) fn method(options: &Options, main: &Measured) -> String {
    let rounds = match options.rounds {
        1 => "one round".to_owned(),
        n => format!("{n} rounds interleaved, medians"),
    };
    format!(
        "records of {} bytes in a tight loop for {} ms, each durable before the next; 3 groups of \
         {} MB, up to {} units in flight; caches {}; {rounds}",
        options.record,
        options.time.as_millis(),
        options.group_bytes >> 20,
        options.in_flight,
        main.caches,
    )
}

pub(super) fn details(options: &Options) -> Vec<(String, String)> {
    let mut details = vec![
        (
            "Commit".to_owned(),
            "a session appends a record and waits (log file sync) until all up to it is durable; \
             the parts of a commit are instants of the log on one clock, and sum to all of it"
                .to_owned(),
        ),
        (
            "Outlier".to_owned(),
            "a write that takes longer than 10 ms: prevented, if its unit was acknowledged \
             before it, because the other medium had it"
                .to_owned(),
        ),
        (
            "Log".to_owned(),
            "a new one for each measurement, of another database; its checkpoint follows its end, \
             so that groups are written again; control data in memory"
                .to_owned(),
        ),
    ];
    if options.scans > 0 {
        details.push((
            "Scans".to_owned(),
            "each reads 1 MB after the other of 256 MB on the disk, one in flight, by the \
             scheduler of the disk that redo goes through too"
                .to_owned(),
        ));
    }
    if options.archive.iter().any(|archive| *archive != Archive::Off) {
        details.push((
            "Archiver".to_owned(),
            "reads a finished group back from its media, checks and packs it, writes it in 1 MB, \
             flushes; a group that is not archived is not written again. Records are noise, which \
             does not pack"
                .to_owned(),
        ));
    }
    details
}

/// A ratio with few digits.
fn times(ratio: f64) -> String {
    match ratio {
        r if r < 9.95 => format!("{r:.2}"),
        r => format!("{r:.0}"),
    }
}

fn count(sessions: usize) -> String {
    match sessions {
        1 => "1 session".to_owned(),
        n => format!("{n} sessions"),
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

/// All ways of a job, by block and sessions.
fn ways(options: &Options, job: Job) -> Vec<Way> {
    super::ways(options).into_iter().filter(|way| way.job == job).collect()
}

pub(super) fn finding(options: &Options, main: &Measured, noise: Noise) -> String {
    let place = match main.column {
        Column::Model => "On these models",
        Column::Here => "Here",
    };
    let mut text = headline(options, main);
    text += &flash_over_disk(options, main, place);
    if noise.spread > UNCLEAR {
        text += &format!(
            "Equal runs are {:.0} % apart: nothing is concluded. Take more --rounds or --millis, \
             on an idle machine. ",
            100.0 * noise.spread
        );
    } else {
        text += &block_size(options, main, noise);
        text += &first_wins(options, main, noise);
        text += &whole_job(options, main, noise);
    }
    if let Sharing::Device(name) = &main.sharing
        && main.column == Column::Here
        && options.disk_shape.is_none()
        && options.flash_shape.is_none()
    {
        text += &format!(
            "Disk and flash are both on one device, {name}: this is about the software and that \
             device. For the question, name two: --disks DISK,FLASH. "
        );
    }
    text.trim_end().to_owned()
}

/// A summary in one sentence.
fn headline(options: &Options, main: &Measured) -> String {
    let way =
        |sessions: &usize, block: &u32| Way { job: Job::ALONE, sessions: *sessions, block: *block };
    let all = options.sessions.iter().flat_map(|s| options.blocks.iter().map(move |b| way(s, b)));
    let mut times: Vec<f64> = all.filter_map(|way| main.times_disk(way, Layout::Flash)).collect();
    times.sort_by(f64::total_cmp);
    match (times.first(), times.last()) {
        (Some(least), _) if *least > 1.0 + NOTHING => {
            format!("Redo on flash made commits slower, {least:.2} times and more. ")
        }
        (_, Some(most)) if *most < 1.0 - NOTHING => format!(
            "Redo on flash made commits faster: {most:.2} times as long as on disk, or less. "
        ),
        (Some(least), Some(most)) => format!(
            "Redo on flash is no gain by itself: a commit takes {least:.2} to {most:.2} times as \
             long, by block size and load. "
        ),
        _ => String::new(),
    }
}

/// The time of commits on flash, as a multiple of that on disk.
fn flash_over_disk(options: &Options, main: &Measured, place: &str) -> String {
    let mut all = Vec::new();
    for (at, block) in options.blocks.iter().enumerate() {
        let of = |sessions: &usize| {
            let way = Way { job: Job::ALONE, sessions: *sessions, block: *block };
            let ratio = times(main.times_disk(way, Layout::Flash)?);
            Some(if at == 0 { format!("{ratio} times with {}", count(*sessions)) } else { ratio })
        };
        let said: Vec<String> = options.sessions.iter().filter_map(of).collect();
        let what = if at == 0 { "a commit on flash takes " } else { "" };
        let end = if at == 0 { " as long as on disk" } else { "" };
        all.push(format!("in blocks of {block} {what}{}{end}", list(&said)));
    }
    format!("{place}, {}. ", all.join("; "))
}

/// The effect of larger blocks on each medium, the largest change of all session counts.
fn block_size(options: &Options, main: &Measured, noise: Noise) -> String {
    let &[small, large] = &options.blocks[..] else { return String::new() };
    let gain = |layout: Layout| {
        let of = |sessions: &usize| {
            let way = |block| Way { job: Job::ALONE, sessions: *sessions, block };
            Some(main.rate(way(large), layout)? / main.rate(way(small), layout)?)
        };
        let all = options.sessions.iter().filter_map(of);
        all.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
    };
    let (Some(disk), Some(flash)) = (gain(Layout::Disk), gain(Layout::Flash)) else {
        return String::new();
    };
    let spread = ways(options, Job::ALONE).iter().map(|way| main.spread(*way)).fold(0.0, f64::max);
    let noise = spread.max(noise.spread);
    let figures = format!("(up to {} times the commits, disk {})", times(flash), times(disk));
    match (verdict(flash, noise), verdict(flash / disk, noise)) {
        (Verdict::Faster, Verdict::Faster) => {
            format!("The block decides it: {large} is what makes flash faster {figures}. ")
        }
        (Verdict::Faster, _) => format!("Blocks of {large} make both faster {figures}. "),
        (Verdict::Slower, _) => format!("Blocks of {large} make flash slower {figures}. "),
        (Verdict::NotDistinguishable, _) => {
            format!("The block size makes no measurable difference {figures}. ")
        }
    }
}

/// The gain of both media together over the better of the two, and the effect on late writes.
fn first_wins(options: &Options, main: &Measured, noise: Noise) -> String {
    let ways = ways(options, Job::ALONE);
    let over = |way: &Way| {
        let alone = [Layout::Disk, Layout::Flash].map(|layout| (main.rate(*way, layout), layout));
        let better = alone.into_iter().filter_map(|(rate, layout)| Some((rate?, layout)));
        let (rate, better) = better.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(r, _)| *r > 0.0)?;
        let ratio = main.rate(*way, Layout::Both)? / rate;
        let spread = main.spread_of(*way, better).max(main.spread_of(*way, Layout::Both));
        Some((ratio, verdict(ratio, spread.max(noise.spread).max(NOTHING))))
    };
    let mut all: Vec<(f64, Verdict)> = ways.iter().filter_map(over).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((least, _)), Some((most, _))) = (all.first(), all.last()) else {
        return String::new();
    };
    let range = match times(*least) == times(*most) {
        true => times(*least),
        false => format!("{} to {}", times(*least), times(*most)),
    };
    let is = |wanted| all.iter().any(|(_, verdict)| *verdict == wanted);
    let what = match (is(Verdict::Slower), is(Verdict::Faster)) {
        (true, true) => "now less, now more",
        (true, false) => "less",
        (false, true) if is(Verdict::NotDistinguishable) => "as many, or more",
        (false, true) => "more",
        (false, false) => "the same as far as can be measured",
    };
    format!(
        "With the first of both there are {range} times the commits of the better one alone: \
         {what}. "
    ) + &who_was_first(options, main)
        + &outliers(main, &ways)
}

/// The medium that had units first, with most sessions.
fn who_was_first(options: &Options, main: &Measured) -> String {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let of = |block: &u32| {
        let way = Way { job: Job::ALONE, sessions, block: *block };
        let first = main.figure(way, Layout::Both, "disk units_first")?;
        Some(format!("{:.1} % of them in blocks of {block}", 100.0 * first / main.units(way)?))
    };
    let all: Vec<String> = options.blocks.iter().filter_map(of).collect();
    match all.is_empty() {
        true => String::new(),
        false => {
            format!("Of writes for {} the disk had {} first. ", count(sessions), list(&all))
        }
    }
}

/// The effect on writes later than the limit.
fn outliers(main: &Measured, ways: &[Way]) -> String {
    let sum = |layout: Layout, name: &str| {
        let of = |way: &Way| {
            let one = |medium: &&str| main.figure(*way, layout, &format!("{medium} {name}"));
            MEDIA.map(|(_, medium)| medium).iter().filter_map(one).sum::<f64>()
        };
        ways.iter().map(of).sum::<f64>()
    };
    let prevented = sum(Layout::Both, "outliers_prevented");
    let waited = sum(Layout::Both, "outliers_actual");
    let alone: Vec<String> = [Layout::Disk, Layout::Flash]
        .map(|layout| format!("{:.0} on {}", sum(layout, "outliers_actual"), layout.name()))
        .into();
    match prevented + waited {
        all if all < 1.0 => "No write was later than 10 ms. ".to_owned(),
        all => {
            let delayed = match waited < 0.5 {
                true => {
                    format!("None of the {all:.0} writes slower than 10 ms then delayed a commit")
                }
                false => format!(
                    "{waited:.0} of the {all:.0} writes slower than 10 ms then delayed a commit"
                ),
            };
            format!("{delayed}; on one medium alone: {}. ", list(&alone))
        }
    }
}

/// The better medium under concurrent work.
fn whole_job(options: &Options, main: &Measured, noise: Noise) -> String {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let block = *options.blocks.last().unwrap_or(&4096);
    let way = |job| Way { job, sessions, block };
    let floor = |job| noise.spread.max(main.spread(way(job))).max(NOTHING);
    let alone = main.times_disk(way(Job::ALONE), Layout::Flash).map(|times| 1.0 / times);
    let alone = alone.map(|ratio| verdict(ratio, floor(Job::ALONE)));
    // Jobs with the same answer are reported together.
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for job in options.jobs().into_iter().filter(|job| *job != Job::ALONE) {
        let on = |layout| Some((main.rate(way(job), layout)?, main.scanned(way(job), layout)?));
        let (Some(disk), Some(flash)) = (on(Layout::Disk), on(Layout::Flash)) else { continue };
        let commits = flash.0 / disk.0;
        let scans = (job.scans > 0).then(|| flash.1 / disk.1);
        let verdicts = (
            verdict(commits, floor(job)),
            scans.map(|scans| verdict(scans, noise.spread.max(NOTHING))),
        );
        let turned = alone == Some(Verdict::Slower) && verdicts.0 == Verdict::Faster;
        let turned = if turned { ", the reverse of commits alone" } else { "" };
        let answer = format!("{}{turned}", better(verdicts));
        let scans = scans.map_or(String::new(), |scans| format!(", {} the scans", times(scans)));
        let words = format!("{} ({} times the commits{scans})", job.words(), times(commits));
        match told.iter_mut().find(|(said, _)| *said == answer) {
            Some((_, jobs)) => jobs.push(words),
            None => told.push((answer, vec![words])),
        }
    }
    let said: Vec<String> =
        told.iter().map(|(answer, jobs)| format!("{}: {answer}", list(jobs))).collect();
    match said.is_empty() {
        true => String::new(),
        false => {
            format!("{} in blocks of {block} {}. ", capital(&count(sessions)), said.join("; "))
        }
    }
}

/// The better choice for the whole job, by its effect on commits and on scans with flash.
fn better(verdicts: (Verdict, Option<Verdict>)) -> &'static str {
    match verdicts {
        (Verdict::Faster, Some(Verdict::Slower)) => "flash trades scans for commits",
        (Verdict::Slower, Some(Verdict::Faster)) => "flash trades commits for scans",
        (Verdict::Faster, _) | (_, Some(Verdict::Faster)) => "flash is better for the whole job",
        (Verdict::Slower, _) | (_, Some(Verdict::Slower)) => "disk is better for the whole job",
        _ => "neither is better for the whole job",
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

pub(super) fn remarks(
    options: &Options,
    main: &Measured,
    model: Option<&Measured>,
) -> Vec<(String, String)> {
    let mut remarks = vec![("Commit".to_owned(), breakdown(options, main))];
    remarks.push(("Latency".to_owned(), latency(options, main)));
    if options.jobs().len() > 1 {
        remarks.push(("Beside".to_owned(), beside(options, main)));
    }
    if let Some(model) = model {
        remarks.push(("2011".to_owned(), published(options, model)));
    }
    remarks.push((
        "Risk".to_owned(),
        "with the first of both a commit is on one medium until the other has it too: the loss of \
         that one in that time, with a crash, loses it. the largest and the longest lag say how much and how long. \
         Two of three media have both: redo_quorum 2"
            .to_owned(),
    ));
    remarks
}

/// The parts of a commit in one line for each layout.
fn breakdown(options: &Options, main: &Measured) -> String {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let block = *options.blocks.last().unwrap_or(&4096);
    let way = Way { job: Job::ALONE, sessions, block };
    let of = |layout: &Layout| {
        let [space, queue, slot, form, first, quorum, order, wake] = main.parts(way, *layout)?;
        let device = first + quorum;
        // The remainder of 100, so that rounded parts sum to it.
        let parts = [("queue", space + queue + slot), ("order", order), ("wake-up", wake + form)];
        let parts = parts.map(|(name, part)| (name, part.round()));
        let rest: f64 = parts.iter().map(|(_, part)| part).sum();
        let said: Vec<String> = parts.iter().map(|(n, part)| format!("{n} {part:.0}")).collect();
        let device = if (100.0 - rest - device).abs() < 2.0 { 100.0 - rest } else { device };
        Some(format!("{}: device {device:.0}, {} = 100 %", layout.name(), said.join(", ")))
    };
    let all: Vec<String> = LAYOUTS.iter().filter_map(of).collect();
    format!("{} in blocks of {block}. {}", count(sessions), all.join("; "))
}

/// Median and 99th percentile, by layout.
fn latency(options: &Options, main: &Measured) -> String {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let mut all = Vec::new();
    for block in &options.blocks {
        let way = Way { job: Job::ALONE, sessions, block: *block };
        let of = |layout: &Layout| {
            let of =
                |name: &str| main.figure(way, *layout, &format!("{} sync_{name}", super::CREW));
            Some(format!(
                "{} {:.2}/{:.2}/{:.1}",
                layout.name(),
                of("p50_ms")?,
                of("p99_ms")?,
                of("max_ms")?
            ))
        };
        let said: Vec<String> = LAYOUTS.iter().filter_map(of).collect();
        all.push(format!("{block}: {}", said.join(", ")));
    }
    format!(
        "log file sync of {}, ms at the median, the 99th of 100, the longest. {}",
        count(sessions),
        all.join("; ")
    )
}

/// The rates of commits and scans in each job, by layout.
fn beside(options: &Options, main: &Measured) -> String {
    let sessions = *options.sessions.last().unwrap_or(&1);
    let block = *options.blocks.last().unwrap_or(&4096);
    let way = |job| Way { job, sessions, block };
    let of = |job: &Job| {
        let of = |layout: &Layout| {
            let left = main.rate(way(*job), *layout)? / main.rate(way(Job::ALONE), *layout)?;
            Some(format!("{} {:.0} %", layout.name(), 100.0 * left))
        };
        let said: Vec<String> = LAYOUTS.iter().filter_map(of).collect();
        format!("{}: {}", job.words(), said.join(", "))
    };
    let jobs = options.jobs();
    let said: Vec<String> = jobs.iter().filter(|job| **job != Job::ALONE).map(of).collect();
    format!(
        "commits of {} in blocks of {block}, in % of those alone. {}",
        count(sessions),
        said.join("; ")
    )
}

/// The published figures, and the model's values for them.
fn published(options: &Options, model: &Measured) -> String {
    let mut text = "around 4 times slower on flash by one session, almost 20 times by ten; then \
                    480 % slower, and 30 % with blocks of 4096 (how many sessions, was not told)"
        .to_owned();
    if options.flash_shape.is_some() || options.disk_shape.is_some() {
        return text;
    }
    text += ". * The model was fitted to one session: 4 and 1.3.";
    let sessions = *options.sessions.last().unwrap_or(&1);
    let way = Way { job: Job::ALONE, sessions, block: options.blocks[0] };
    if let (Some(ours), true) = (model.times_disk(way, Layout::Flash), sessions > 1) {
        let one = model
            .rate_of(ONE_AT_A_TIME, Layout::Disk)
            .zip(model.rate_of(ONE_AT_A_TIME, Layout::Flash))
            .map(|(disk, flash)| disk / flash);
        let in_flight = options.in_flight;
        text += &format!(" For {sessions} it predicts {}", times(ours));
        text += &match one {
            Some(one) => format!(
                " with up to {in_flight} units in flight, and {} with one, as a log writer has it.",
                times(one)
            ),
            None => format!(" with {in_flight} in flight."),
        };
        let most = one.unwrap_or(ours).max(ours);
        if (sessions, options.blocks[0]) == (10, 512) && most < 0.8 * PUBLISHED_10 {
            text += " Pages that are written in part do not explain all of the 20.";
        }
    }
    if !model.limits.is_empty() {
        text += &format!(" Of disk and flash: {}.", model.limits.join("; "));
    }
    text
}
