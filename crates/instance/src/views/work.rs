//! Rows of EXPLAIN WORK: what a change of disks would move, and the room and redundancy after it.

use std::time::Duration;

use cellar_diskgroup::space::plan::{DiskPlan, Lack};
use cellar_storage::groups::{Explained, Known};

use super::row::view;

view! {
    /// A line of what a change of disks would do
    WorkRow = "explain work" {
        item: String = "item",
            "read from, write to, move in all, no place; room and safe, now and after; redundancy, \
             may die; reading, writing, power n, measured";
        disk: Option<String> = "disk", "Disk";
        au: Option<u64> = "au", "AUs";
        mb: Option<i64> = "mb", "MB";
        seconds: Option<f64> = "seconds", "How long it takes at that power";
        note: Option<String> = "note", "What it means";
    }
}

/// The lines for a change.
pub fn work_rows(explained: &Explained) -> Vec<WorkRow> {
    let plan = &explained.work.plan;
    let mut rows: Vec<WorkRow> = Vec::new();
    rows.extend(plan.disks.iter().filter_map(|disk| read_from(explained, disk)));
    for disk in plan.disks.iter().filter(|d| d.incoming > 0) {
        let joins = explained.disks.get(&disk.disk.0).is_some_and(|(_, state)| *state == "ADDING");
        let note = joins.then(|| format!("joins; will hold {} AU", disk.after));
        rows.push(on_disk(explained, "write to", disk, disk.incoming, note));
    }
    rows.push(all_moves(explained));
    rows.extend(plan.unplaced.iter().map(|u| {
        let why = match u.lack {
            Lack::Room => "no free AU for it (15041)",
            Lack::FailGroups => "too few failure groups (15041)",
            Lack::Copy => "no copy can be read; it stays",
        };
        let number = format!("file {}", u.file);
        let note = format!("{}: {why}", explained.files.get(&u.file).unwrap_or(&number));
        WorkRow { au: Some(u.aus), mb: Some(mb(explained, u.aus)), ..line("no place", note) }
    }));
    rows.extend(room(explained));
    rows.push(redundancy(explained));
    rows.push(line("may die", may_die(explained)));
    rows.extend(times(explained));
    rows
}

/// MB a second, and how long it takes, at each power; and how that is known.
fn times(explained: &Explained) -> Vec<WorkRow> {
    let rates = &explained.rates;
    let mut rows = Vec::new();
    for (item, rate, note) in [
        ("reading", rates.reading, "MB/s, nothing being written"),
        ("writing", rates.writing, "MB/s, nothing being read"),
    ] {
        if rate > 0 {
            rows.push(line(item, format!("{} {note}", rate >> 20)));
        }
    }
    for (time, rate) in explained.times() {
        let seconds = time.time.map(|time| (time.as_secs_f64() * 1000.0).ceil() / 1000.0);
        // The power is the name of the line, so that it can be asked for.
        let item = format!("power {}", time.power);
        let shown = time.time.map_or("does not end".to_owned(), in_words);
        let note = format!("{shown} at {} MB/s", rate >> 20);
        let row = WorkRow { seconds, ..line("", note) };
        rows.push(WorkRow { item, ..row });
    }
    rows.push(match explained.known {
        Known::Probed => line("measured", format!("tried for {}", in_words(rates.took))),
        Known::Moved => line("measured", "on moves made since the start"),
        Known::Unknown(why) => line("measured", format!("no: {why}")),
    });
    rows
}

/// `1.2 s`, `12 s`, `7 min`, `3 h 05`, `2 d 4 h`.
#[must_use]
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let minutes = seconds.div_ceil(60);
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{minutes} min"),
        7200..172_800 => format!("{} h {:02}", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", minutes / 1440, minutes % 1440 / 60),
    }
}

/// Which failure groups may be lost now, on the way and afterwards without loss of data.
fn may_die(explained: &Explained) -> String {
    let forecast = &explained.work.forecast;
    let unplaced: u64 = explained.work.plan.unplaced.iter().map(|u| u.aus).sum();
    if explained.info.redundancy.copies() < 2 {
        return "no disk: one copy of everything".to_owned();
    }
    let (harmless, all) = {
        let good = explained.losses.iter().filter(|loss| loss.is_harmless());
        let names: Vec<&str> = good.map(|loss| loss.failgroup.as_str()).collect();
        (names, explained.losses.len())
    };
    // Each step leaves the copies apart, so what holds now holds until the last of them.
    let now = match harmless.len() {
        0 => "none".to_owned(),
        some if some == all => format!("any one of {all}"),
        1..=3 => harmless.join(", "),
        some => format!("{some} of {all}"),
    };
    // A file that is meant to have one copy keeps one.
    let single = explained.losses.iter().any(|loss| loss.single);
    let after = match (unplaced, forecast.missing, forecast.failgroups) {
        (0, 0, 2..) if single => {
            format!("any one of {}, but for files of one copy", forecast.failgroups)
        }
        (0, 0, 2..) => format!("any one of {}", forecast.failgroups),
        _ => "none".to_owned(),
    };
    format!("{now}, then {after}")
}

fn line(item: &'static str, note: impl Into<String>) -> WorkRow {
    WorkRow {
        item: item.into(),
        disk: None,
        au: None,
        mb: None,
        seconds: None,
        note: Some(note.into()),
    }
}

fn mb(explained: &Explained, aus: u64) -> i64 {
    i64::try_from((aus * explained.work.au_size) >> 20).unwrap_or(i64::MAX)
}

fn on_disk(
    explained: &Explained,
    item: &'static str,
    disk: &DiskPlan,
    aus: u64,
    note: Option<String>,
) -> WorkRow {
    let name = explained.disks.get(&disk.disk.0).map(|(name, _)| name.clone());
    let aus_mb = Some(mb(explained, aus));
    WorkRow { item: item.into(), disk: name, au: Some(aus), mb: aus_mb, seconds: None, note }
}

/// What is read from a disk, and what for.
fn read_from(explained: &Explained, disk: &DiskPlan) -> Option<WorkRow> {
    let state = explained.disks.get(&disk.disk.0).map(|(_, state)| *state);
    let note = match (state, disk.after) {
        (Some("DROPPING" | "HUNG"), 0) => Some("leaves; FORMER: may be unplugged".to_owned()),
        (Some("DROPPING" | "HUNG"), left) => Some(format!("{left} AU have nowhere to go")),
        _ if disk.outgoing == 0 => return None,
        _ => None,
    };
    Some(on_disk(explained, "read from", disk, disk.outgoing, note))
}

fn all_moves(explained: &Explained) -> WorkRow {
    let plan = &explained.work.plan;
    let moves = plan.moves.len() as u64;
    let again = plan.moves.iter().filter(|m| m.from.is_none()).count();
    let note = match (again, plan.minimum) {
        (0, least) if least == moves => "the least possible".to_owned(),
        (0, least) => format!("the least possible is {least}"),
        _ => format!("{again} made again from other copies"),
    };
    WorkRow { au: Some(moves), mb: Some(mb(explained, moves)), ..line("move in all", note) }
}

/// Room before and after, as lsdg says it.
fn room(explained: &Explained) -> Vec<WorkRow> {
    let (info, forecast) = (&explained.info, &explained.work.forecast);
    let copies = info.redundancy.copies();
    let at = usize::from(copies).saturating_sub(1);
    let au_mb = i64::try_from(explained.work.au_size >> 20).unwrap_or(1);
    let room = |item, mb| WorkRow { mb: Some(mb), ..line(item, "can be written") };
    let safe = |item, mb, can_restore| match can_restore {
        true if mb < 0 => WorkRow { mb: Some(mb), ..line(item, "too much to mirror all again") },
        true => WorkRow { mb: Some(mb), ..line(item, "so that all can be mirrored again") },
        false => line(item, "a loss cannot be mirrored again"),
    };
    let now = i64::try_from(info.writable_mb).unwrap_or(i64::MAX);
    let after = mb(explained, forecast.writable.get(at).copied().unwrap_or(0));
    let after_safe = forecast.writable_and_survive.get(at).copied().unwrap_or(0);
    let mut rows = vec![room("room now", now), room("room after", after)];
    if copies > 1 {
        let safe_now = safe("safe now", info.writable_and_survive_mb, info.can_restore);
        let can_restore = forecast.failgroups > u16::from(copies);
        let after = safe("safe after", after_safe.saturating_mul(au_mb), can_restore);
        rows.extend([safe_now, after]);
    }
    rows
}

fn redundancy(explained: &Explained) -> WorkRow {
    let forecast = &explained.work.forecast;
    let unplaced: u64 = explained.work.plan.unplaced.iter().map(|u| u.aus).sum();
    let note = match (unplaced, forecast.missing, explained.info.redundancy.copies()) {
        (0, 0, 1) => "one copy of everything".to_owned(),
        (0, 0, _) => format!("all copies, in {} failure groups", forecast.failgroups),
        (0, missing, _) => format!("{missing} AU have no copy to be made from"),
        (unplaced, ..) => format!("{unplaced} AU lack a place"),
    };
    line("redundancy", note)
}
