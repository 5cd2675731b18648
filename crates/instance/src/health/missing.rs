//! Disks that a group does without: why, and what to do about each.

use std::path::Path;
use std::time::Duration;

use cellar_diskgroup::{DiskInfo, DiskStatus, Group, OfflineDisk, Refused};
use cellar_io::shell;
use cellar_storage::finder::NoDisk;

use cellar_storage::size::{show_bytes, show_count, show_time};
use cellar_storage::words::some;

use super::{Finding, GroupHealth, joined};
use crate::error::NextStep;

/// What a group is looked at with.
pub struct Seen<'a> {
    pub group: &'a Group,
    /// Disks that are away, by the metadata.
    pub offline: &'a [OfflineDisk],
    /// Disks that are not in sync.
    pub gone: &'a [&'a DiskInfo],
    /// Paths where no disk could be made out.
    pub no_disks: &'a [NoDisk],
}

/// That disks are missing, refused or on the way back; nothing where none is.
pub fn finding(status: &GroupHealth, seen: &Seen<'_>) -> Option<Finding> {
    if seen.gone.is_empty() {
        return None;
    }
    let mut words = counted(seen);
    if status.files_lost.is_empty() {
        words.push_str("; every byte still has a copy");
    }
    if status.files_lowered > 0 {
        let files = if status.files_lowered == 1 { "file has" } else { "files have" };
        let lowered = show_count(status.files_lowered as u64);
        words.push_str(&format!("; {lowered} {files} fewer copies than due"));
    }
    Some(Finding { state: "DEGRADED", words, action: joined(actions(seen)).unwrap_or_default() })
}

/// How many of the disks are missing, refused, on the way back.
fn counted(seen: &Seen<'_>) -> String {
    let disks = seen.group.disks().len();
    let is_back = |d: &&DiskInfo| d.status == DiskStatus::Returning;
    let (back, gone): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
        seen.gone.iter().copied().partition(is_back);
    if gone.is_empty() {
        return format!("{} of {disks} disks on the way back", back.len());
    }
    let (refused, missing): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
        gone.into_iter().partition(|d| d.refused.is_some());
    let away_for = seen.offline.iter().map(|d| d.since).max();
    let missing = match (missing.len(), away_for) {
        (0, _) => None,
        (many, Some(time)) if time >= Duration::from_secs(1) => {
            Some(format!("{many} of {disks} disks missing for {}", show_time(time)))
        }
        (many, _) => Some(format!("{many} of {disks} disks missing")),
    };
    let refused =
        (!refused.is_empty()).then(|| format!("{} of {disks} disks refused", refused.len()));
    missing.into_iter().chain(refused).collect::<Vec<_>>().join(", ")
}

/// What to do, in the order of what it concerns.
fn actions(seen: &Seen<'_>) -> Vec<NextStep> {
    let group = seen.group;
    let of = |status: DiskStatus| -> Vec<&DiskInfo> {
        seen.gone.iter().copied().filter(|d| d.status == status).collect()
    };
    let (back, forcing) = (of(DiskStatus::Returning), of(DiskStatus::Forcing));
    // A disk that is not left out yet: nobody has written since.
    let still_in = seen.gone.iter().copied().filter(|d| {
        !matches!(d.status, DiskStatus::Returning | DiskStatus::Forcing) && d.offline_ns == 0
    });
    let (refused, absent): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
        still_in.partition(|d| d.refused.is_some());
    let mut action: Vec<NextStep> =
        refused.iter().filter_map(|d| Some(refused_action(d, d.refused?))).collect();
    if !absent.is_empty() {
        action.push(absent_action(&absent, seen));
    }
    if !forcing.is_empty() {
        let operation = group.operation();
        let goes_on = operation.as_ref().is_some_and(|now| now.power > 0 && now.error.is_none());
        let held = named(&forcing);
        action.push(match goes_on {
            true => NextStep::from(format!("what {held} held is being made again on the others: "))
                .cellar("asm", "lsop"),
            false => {
                NextStep::from(format!("what {held} held is to be made again on the others: "))
                    .cellar("asm", "rebal --power 1")
            }
        });
    }
    action.extend(seen.offline.iter().map(|away| away_action(group, away)));
    if !back.is_empty() {
        let names = some(&back.iter().map(|d| d.name.clone()).collect::<Vec<_>>());
        action.push(match group.is_read_only() {
            true => {
                NextStep::from(format!("{names} gets what it missed while the database is open: "))
                    .cellar("asm", "lsop")
            }
            false => format!("none, {names} is getting what it missed").into(),
        });
    }
    action
}

fn with_path(disk: &DiskInfo) -> String {
    match &disk.path {
        Some(path) => format!("{} ({path})", disk.name),
        None => disk.name.clone(),
    }
}

fn named(disks: &[&DiskInfo]) -> String {
    some(&disks.iter().map(|d| with_path(d)).collect::<Vec<_>>())
}

/// What to do about missing disks that the group has not left out yet.
fn absent_action(absent: &[&DiskInfo], seen: &Seen<'_>) -> NextStep {
    let names = named(absent);
    let without = seen.no_disks.iter().take(4).map(|at| {
        let why = at.why.stack().last().map_or("", |entry| entry.message.as_str());
        match at.why.next_step() {
            Some(next) => NextStep::from(format!("{why} (")).and(next.clone()).then(")"),
            None => why.into(),
        }
    });
    let alone = absent.len() == 1 && seen.no_disks.len() == 1;
    let Some(without) = joined(without) else {
        let words = format!(
            "bring {names} back before anything is written: it has missed nothing yet, and the \
             next command that may write leaves it out"
        );
        return words.into();
    };
    let may_be = if alone { "it is" } else { "it may be" };
    NextStep::from(format!("{names} is not found; {may_be} here: ")).and(without).then(
        ". Mend that before anything is written: it has missed nothing yet, and the next command \
         that may write leaves it out",
    )
}

/// What to do about a disk that is present but of no use.
fn refused_action(disk: &DiskInfo, why: Refused) -> NextStep {
    let (named, again) = (with_path(disk), again(disk, Some(why)));
    let words = match why {
        Refused::CutOff { .. } => format!(
            "{named}: {why}; what it had is on the others, and the next command that may write \
             leaves it out. To use it again after that: "
        ),
        _ => format!(
            "{named}: {why}. Put the disk back as it was last; if there is none, the next command \
             that may write goes on without it, and after that all of it is copied anew by: "
        ),
    };
    NextStep::from(words).and(again)
}

/// The commands that make a disk of no use a member again.
fn again(disk: &DiskInfo, why: Option<Refused>) -> NextStep {
    let words = match (why, &disk.path) {
        (Some(Refused::CutOff { due, .. }), Some(path)) => {
            format!("truncate -s {due} {}; ", shell::path(Path::new(path)))
        }
        _ => String::new(),
    };
    NextStep::from(words).cellar("asm", &format!("online -D {} --force", disk.name))
}

/// What to do about a disk that left.
fn away_action(group: &Group, away: &OfflineDisk) -> NextStep {
    let disks = group.disks();
    let disk = disks.iter().find(|d| d.number == away.disk);
    let named = disk.map_or_else(|| away.name.clone(), with_path);
    let name = &away.name;
    let replace = format!("replace {name} NEWDISK");
    let online = format!("online -D {name}");
    let within = match &away.stuck {
        None => format!(" within {}", show_time(away.drop_in)),
        Some(_) => String::new(),
    };
    if away.coming {
        return format!("none, {name} is about to get what it missed").into();
    }
    let here = disk.filter(|d| d.path.is_some());
    let refused = here.and_then(|d| d.refused);
    if let Some(disk) = here.filter(|_| away.missed.is_none() || refused.is_some()) {
        let why = refused.map_or("what it lacks is not known".to_owned(), |why| why.to_string());
        return NextStep::from(format!("{named}: {why}; copy all of it anew{within}: "))
            .and(again(disk, refused))
            .then("; or ")
            .cellar("asm", &replace);
    }
    if let Some(why) = &away.refused {
        let words = format!("{named} does not come back ({why}): try it again{within}: ");
        let tried = NextStep::from(words).cellar("asm", &online);
        return tried.then("; or ").cellar("asm", &replace);
    }
    match (away.by_command, disk.is_some_and(|d| d.gone || d.path.is_none())) {
        // It comes back by itself when it is there again.
        (false, true) => {
            NextStep::from(format!("bring {named} back{within}, or now: ")).cellar("asm", &replace)
        }
        _ => NextStep::from(format!("bring {named} back{within}: "))
            .cellar("asm", &online)
            .then("; or ")
            .cellar("asm", &replace),
    }
}

/// What follows when a disk stays away, in words.
pub fn repair_words(away: &[OfflineDisk]) -> Option<String> {
    let away = away.iter().filter(|d| !d.coming).min_by_key(|d| d.drop_in)?;
    let bytes = show_bytes(away.rebuild);
    Some(match &away.stuck {
        None => format!(
            "rebuild of {bytes} begins in {} if {} stays away; there is room for it",
            show_time(away.drop_in),
            away.name
        ),
        Some(why) => format!("no rebuild of {}: {why}", away.name),
    })
}

/// Why disks of a group are not used, a line each; for lists of disks.
pub fn reasons(group: &Group, no_disks: &[NoDisk]) -> Vec<String> {
    let disks = group.disks();
    let why = |d: &DiskInfo| {
        let why = d.failure.as_ref().filter(|_| !d.in_sync)?;
        Some(format!("{}: {why}", with_path(d)))
    };
    let mut out: Vec<String> = disks.iter().filter_map(why).collect();
    let absent: Vec<&DiskInfo> = disks.iter().filter(|d| d.path.is_none()).collect();
    if !absent.is_empty() {
        out.push(format!("{}: not found", named(&absent)));
        let message = |at: &NoDisk| at.why.stack().last().map(|entry| entry.message.clone());
        out.extend(no_disks.iter().filter_map(message));
    }
    out
}
