//! Rows of EXPLAIN WORK: what a change of disks would move, and the room and redundancy after it.

use cellar_diskgroup::space::plan::{DiskPlan, Lack};

use super::view;
use crate::database::Explained;

view! {
    /// A line of what a change of disks would do
    WorkRow = "explain work" {
        item: &'static str = "item",
            "read from, write to, move in all, no place, room now, room after, redundancy";
        disk: Option<String> = "disk", "Disk";
        state: Option<&'static str> = "state", "NORMAL, or what becomes of the disk";
        au: Option<u64> = "au", "AUs";
        mb: Option<i64> = "mb", "MB";
        note: Option<String> = "note", "What it means";
    }
}

/// The lines for a change.
pub fn work_rows(explained: &Explained) -> Vec<WorkRow> {
    let plan = &explained.work.plan;
    let mut rows: Vec<WorkRow> = Vec::new();
    rows.extend(plan.disks.iter().filter_map(|disk| read_from(explained, disk)));
    for disk in plan.disks.iter().filter(|d| d.incoming > 0) {
        let note = (disk.before == 0).then(|| format!("{} AU of files when done", disk.after));
        rows.push(on_disk(explained, "write to", disk, disk.incoming, note));
    }
    rows.push(all_moves(explained));
    rows.extend(plan.unplaced.iter().map(|u| {
        let why = match u.lack {
            Lack::Room => "no disk where they may lie has a free AU: 15041",
            Lack::FailGroups => "their copies need more failure groups: 15041",
            Lack::Copy => "no copy of them can be read: they stay as they are",
        };
        let note = format!("file {}: {why}", u.file);
        WorkRow { au: Some(u.aus), mb: Some(mb(explained, u.aus)), ..line("no place", note) }
    }));
    rows.extend(room(explained));
    rows
}

fn line(item: &'static str, note: String) -> WorkRow {
    WorkRow { item, disk: None, state: None, au: None, mb: None, note: Some(note) }
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
    let (name, state) = explained.disks.get(&disk.disk.0).cloned().unzip();
    WorkRow { item, disk: name, state, au: Some(aus), mb: Some(mb(explained, aus)), note }
}

/// What is read from a disk, and what for.
fn read_from(explained: &Explained, disk: &DiskPlan) -> Option<WorkRow> {
    let state = explained.disks.get(&disk.disk.0).map(|(_, state)| *state);
    let note = match (state, disk.after) {
        (Some("DROPPING" | "HUNG"), 0) => Some("then FORMER: it may be unplugged".to_owned()),
        (Some("DROPPING" | "HUNG"), left) => Some(format!("{left} AU have nowhere to go")),
        _ if disk.outgoing == 0 => return None,
        _ => None,
    };
    Some(on_disk(explained, "read from", disk, disk.outgoing, note))
}

fn all_moves(explained: &Explained) -> WorkRow {
    let plan = &explained.work.plan;
    let moves = plan.moves.len() as u64;
    let least = match plan.minimum {
        least if least == moves => "the least possible".to_owned(),
        least => format!("the least possible is {least}"),
    };
    let again = plan.moves.iter().filter(|m| m.from.is_none()).count();
    let note = match again {
        0 => least,
        _ => format!("{least}; {again} of them made again from other copies"),
    };
    WorkRow { au: Some(moves), mb: Some(mb(explained, moves)), ..line("move in all", note) }
}

/// Room and redundancy before and after.
fn room(explained: &Explained) -> [WorkRow; 3] {
    let (info, forecast) = (&explained.info, &explained.work.forecast);
    let copies = info.redundancy.copies();
    let at = usize::from(copies).saturating_sub(1);
    let signed = |aus: i64| {
        let au_mb = i64::try_from(explained.work.au_size >> 20).unwrap_or(1);
        aus.saturating_mul(au_mb)
    };
    // As lsdg says it.
    let survive = |mb: i64, can: bool| match (copies, can) {
        (1, _) => "can be written, in one copy".to_owned(),
        (_, false) => "can be written; after a loss it could not be mirrored again".to_owned(),
        (_, true) if mb >= 0 => format!("can be written; {mb} MB and mirror again after a loss"),
        (_, true) => format!("can be written; {} MB too much to mirror again", mb.unsigned_abs()),
    };
    let now = i64::try_from(info.writable_mb).unwrap_or(i64::MAX);
    let after = mb(explained, forecast.writable.get(at).copied().unwrap_or(0));
    let after_safe = signed(forecast.writable_and_survive.get(at).copied().unwrap_or(0));
    let redundancy = match (copies, forecast.missing) {
        (1, 0) => "one copy of everything".to_owned(),
        (_, 0) => format!("every copy is there, in {} failure groups", forecast.failgroups),
        (_, missing) => format!("{missing} AU lack a place or a copy to be made from"),
    };
    [
        WorkRow {
            mb: Some(now),
            ..line("room now", survive(info.writable_and_survive_mb, info.can_restore))
        },
        WorkRow {
            mb: Some(after),
            ..line("room after", survive(after_safe, forecast.can_restore))
        },
        line("redundancy", redundancy),
    ]
}
