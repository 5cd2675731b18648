//! Rows about the redo log: its groups, files, media, and where the time of commits went.

use std::time::Duration;

use cellar_io::WallTime;
use cellar_redo::on_disk::control::{ControlData, GroupEntry, MediumEntry};
use cellar_redo::{GroupReport, GroupStatus, MediumReport, Stats};
use cellar_storage::redo::{FILE_BYTES, Notes, Place, Redo, SECTOR};
use cellar_wait::Histogram;

use super::row::view;

view! {
    /// The control file of the redo log
    VControlfile = "v$controlfile" {
        name: String = "name", "Path of the file";
        block_size: u64 = "block_size", "What is written to it is a whole number of these bytes";
        file_size_blks: u64 = "file_size_blks", "Size in blocks";
        copies: u64 = "copies", "How many its disk group keeps: up to three, of which each is enough";
    }
}

view! {
    /// A group of the redo log
    VLog = "v$log" {
        group: u32 = "group#", "Number of the group";
        thread: u32 = "thread#", "1: one instance writes the log";
        sequence: u64 = "sequence#", "Counts the groups in the order in which they are written; 0: never";
        bytes: u64 = "bytes", "Size of each of its files";
        block_size: u32 = "blocksize", "Bytes of a block of the log";
        block_size_reason: String = "blocksize_reason", "Why: reported, measured or asked for";
        members: u64 = "members", "How many files it has";
        archived: &'static str = "archived", "YES or NO";
        status: &'static str = "status",
            "UNUSED, CURRENT, NEXT, ACTIVE (needed for recovery) or INACTIVE";
        first_change: u64 = "first_change#", "LSN at or behind which its records begin";
    }
}

view! {
    /// A file of the redo log: each copy is a row
    VLogfile = "v$logfile" {
        group: u32 = "group#", "Number of the group";
        status: Option<&'static str> = "status", "NULL in use, INVALID not: its medium has failed";
        kind: &'static str = "type", "ONLINE";
        member: String = "member", "Path of the file";
        medium: String = "medium", "The medium that it is on: +GROUP.FAILGROUP, or a directory";
    }
}

view! {
    /// A log group that was written to its end
    VLogHistory = "v$log_history" {
        sequence: u64 = "sequence#", "Its sequence";
        thread: u32 = "thread#", "1";
        group: u32 = "group#", "The group that it was in";
        first_change: u64 = "first_change#", "LSN at or behind which its records begin";
        next_change: u64 = "next_change#", "LSN where the next sequence begins";
        switch_time: WallTime = "switch_time", "When the switch was seen";
        archive: Option<String> = "archive",
            "Path of its archive; NULL: not archived yet, or CLEAR UNARCHIVED gave it up";
    }
}

view! {
    /// A place where redo is written, and how it fared against the others since the log was opened
    VRedoMedium = "v$redo_medium" {
        medium: String = "medium", "+GROUP.FAILGROUP, or a directory";
        status: &'static str = "status", "ACTIVE, or FAILED";
        quorum: u64 = "quorum", "How many media must have a commit";
        media: u64 = "media", "How many take part";
        writes: u64 = "writes", "Writes completed";
        bytes: u64 = "bytes", "Bytes completed";
        first_wins: u64 = "first_wins", "Writes that it completed before every other medium";
        late: u64 = "late", "Writes that it completed after they were acknowledged";
        efficiency: Option<f64> = "efficiency",
            "Share of the redo writes it was given that it had in time, in percent; NULL: none";
        outliers_prevented: u64 = "outliers_prevented",
            "Slow writes (over 10 ms) that nobody waited for, because others had them";
        outliers_actual: u64 = "outliers_actual", "Slow writes that commits waited for";
        slowest_ms: f64 = "slowest_ms", "Its slowest write";
        kept_bytes: u64 = "kept_bytes", "Acknowledged redo that it lacks now, kept in memory for it";
        kept_bytes_max: u64 = "kept_bytes_max", "The most that it lacked";
        kept_ms_max: f64 = "kept_ms_max", "The longest that it lacked anything";
        outstanding: u64 = "outstanding", "Writes that it has not answered";
        retries: u64 = "retries", "Writes tried again";
        failures: u64 = "failures", "How often it was given up: the sum of the skips";
        skips_error: u64 = "skips_error", "Given up because a write failed, also when tried again";
        skips_silent: u64 = "skips_silent",
            "Given up because it did not answer: 60 ms while commits waited for it alone, or 2 s";
        skips_behind: u64 = "skips_behind", "Given up because it lacked acknowledged redo for 200 ms";
        skips_exposed: u64 = "skips_exposed",
            "Given up because it lacked more than 32 MB of acknowledged redo";
        skips_header: u64 = "skips_header",
            "Given up because it did not have the header of a group in 200 ms";
        reason: Option<String> = "reason", "Why it is skipped";
    }
}

view! {
    /// A part of all commits since the log was opened; the parts sum exactly to the whole. Beside
    /// them, and no part: how long the last medium took
    VRedoCommit = "v$redo_commit" {
        position: u64 = "position", "Its place in the order in which the parts come";
        part: &'static str = "part",
            "space, queue, slot, form, first, quorum, order, wake; the whole; last, which is no part";
        description: &'static str = "description", "What is done or waited for in it";
        commits: u64 = "commits", "How many commits; of last: how many redo writes";
        total_ms: f64 = "total_ms", "All of them together";
        average_us: f64 = "average_us", "Of one of them";
        percent: Option<f64> = "percent", "Its share of the whole; NULL: it is no part of it";
        longest_us: f64 = "longest_us", "Its share of the longest commit; of last: the longest";
    }
}

/// What the views say of a log, whether it is open or not.
struct Shown {
    block_size: u32,
    notes: Notes,
    groups: Vec<GroupReport>,
    /// Name, and whether it takes part.
    media: Vec<(String, bool)>,
}

fn shown(redo: &Redo) -> Option<Shown> {
    let Some(log) = redo.log() else {
        let (data, notes) = redo.seen()?;
        let named = data.media.iter().filter(|medium| !medium.name.is_empty());
        let media = named.map(|m| (m.name.clone(), m.state.is_active()));
        let groups = groups_of(&data);
        return Some(Shown { block_size: data.block_size, notes, groups, media: media.collect() });
    };
    let data = ControlData::decode(&log.control().redo()).ok()?;
    let media = log.log().media().into_iter().map(|medium| (medium.name, medium.active));
    Some(Shown {
        block_size: data.block_size,
        notes: log.control().notes(),
        groups: log.log().groups(),
        media: media.collect(),
    })
}

/// The groups of a log that is not open, as its control data knew them.
fn groups_of(data: &ControlData) -> Vec<GroupReport> {
    // A group may be prepared to come next, and empty.
    let begun = data.groups.iter().filter(|group| group.first.0 <= data.durable.0);
    let newest = begun.map(|group| group.sequence).max().unwrap_or(0);
    let report = |group: &GroupEntry| {
        let end = group.first.0.saturating_add(group.capacity);
        let status = match group.sequence {
            0 => GroupStatus::Unused,
            sequence if sequence == newest => GroupStatus::Current,
            sequence if sequence > newest => GroupStatus::Next,
            _ if end > data.checkpoint.abn().0 => GroupStatus::Active,
            _ => GroupStatus::Inactive,
        };
        GroupReport {
            group: group.number,
            sequence: group.sequence,
            blocks: group.capacity,
            size: group.size,
            first: group.first.lsn(),
            archived: group.sequence > 0 && group.sequence <= data.archived,
            status,
        }
    };
    data.groups.iter().map(report).collect()
}

/// The row of v$controlfile.
pub fn controlfile(redo: &Redo) -> Vec<VControlfile> {
    let row = |(name, copies): (std::sync::Arc<str>, u8)| VControlfile {
        name: name.as_ref().to_owned(),
        block_size: SECTOR as u64,
        file_size_blks: FILE_BYTES / SECTOR as u64,
        copies: u64::from(copies),
    };
    redo.control_file().map(row).into_iter().collect()
}

/// The rows of v$log.
pub fn log(redo: &Redo) -> Vec<VLog> {
    let Some(shown) = shown(redo) else { return Vec::new() };
    let row = |group: &GroupReport| VLog {
        group: group.group,
        thread: 1,
        sequence: group.sequence,
        bytes: group.size,
        block_size: shown.block_size,
        block_size_reason: shown.notes.block_size_reason.clone(),
        members: shown.media.len() as u64,
        archived: if group.archived { "YES" } else { "NO" },
        status: match group.status {
            GroupStatus::Unused => "UNUSED",
            GroupStatus::Current => "CURRENT",
            GroupStatus::Next => "NEXT",
            GroupStatus::Active => "ACTIVE",
            GroupStatus::Inactive => "INACTIVE",
        },
        first_change: group.first.0,
    };
    shown.groups.iter().map(row).collect()
}

/// The rows of v$logfile.
pub fn logfile(redo: &Redo) -> Vec<VLogfile> {
    let Some(shown) = shown(redo) else { return Vec::new() };
    let rows = |group: &GroupReport| {
        let number = group.group;
        let row = |(name, active): &(String, bool)| VLogfile {
            group: number,
            status: (!active).then_some("INVALID"),
            kind: "ONLINE",
            member: Place::of_name(name).file_name(number),
            medium: name.clone(),
        };
        shown.media.iter().map(row).collect::<Vec<_>>()
    };
    shown.groups.iter().flat_map(rows).collect()
}

/// The rows of v$log_history.
pub fn log_history(redo: &Redo) -> Vec<VLogHistory> {
    let (notes, archived) = match (redo.log(), redo.seen()) {
        (Some(log), _) => (log.control().notes(), log.log().archived()),
        (None, Some((data, notes))) => (notes, data.archived),
        (None, None) => return Vec::new(),
    };
    let is_archived = |switch: &cellar_storage::redo::Switch| {
        switch.sequence <= archived && !switch.cleared && !notes.archive_dest.is_empty()
    };
    let row = |switch: &cellar_storage::redo::Switch| VLogHistory {
        sequence: switch.sequence,
        thread: 1,
        group: switch.group,
        first_change: switch.first,
        next_change: switch.next,
        switch_time: WallTime { unix_nanos: switch.at },
        archive: is_archived(switch).then(|| {
            let name = cellar_redo::archive_name(switch.sequence);
            format!("{}/{name}", notes.place_of(switch))
        }),
    };
    notes.history.iter().map(row).collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The rows of v$redo_medium.
pub fn redo_medium(redo: &Redo) -> Vec<VRedoMedium> {
    let Some(log) = redo.log() else { return media_seen(redo) };
    let media = log.log().media();
    let active = media.iter().filter(|medium| medium.active).count();
    let quorum = ControlData::decode(&log.control().redo()).map_or(0, |d| d.quorum.of(active));
    let row = |medium: MediumReport| {
        let stats = medium.stats;
        VRedoMedium {
            medium: medium.name,
            status: if medium.active { "ACTIVE" } else { "FAILED" },
            quorum: quorum as u64,
            media: active as u64,
            writes: stats.writes,
            bytes: stats.bytes,
            first_wins: stats.first,
            late: stats.late,
            efficiency: (stats.given > 0)
                .then(|| 100.0 * stats.in_time as f64 / stats.given as f64),
            outliers_prevented: stats.outliers_prevented,
            outliers_actual: stats.outliers_actual,
            slowest_ms: ms(stats.slowest),
            kept_bytes: medium.exposed,
            kept_bytes_max: stats.exposure_bytes_max,
            kept_ms_max: ms(stats.exposure_time_max),
            outstanding: medium.outstanding as u64,
            retries: stats.retries,
            failures: stats.skips.total(),
            skips_error: stats.skips.error,
            skips_silent: stats.skips.silent,
            skips_behind: stats.skips.behind,
            skips_exposed: stats.skips.exposed,
            skips_header: stats.skips.header,
            reason: medium.error,
        }
    };
    media.into_iter().map(row).collect()
}

/// The media of a log that is not open: nothing was counted.
fn media_seen(redo: &Redo) -> Vec<VRedoMedium> {
    let Some((data, _)) = redo.seen() else { return Vec::new() };
    let missing = redo.missing();
    let is_active = |m: &MediumEntry| m.state.is_active() && !missing.contains(&m.name);
    let active = data.media.iter().filter(|medium| is_active(medium)).count();
    let row = |medium: &MediumEntry| VRedoMedium {
        medium: medium.name.clone(),
        status: if is_active(medium) { "ACTIVE" } else { "FAILED" },
        quorum: data.quorum.of(active) as u64,
        media: active as u64,
        writes: 0,
        bytes: 0,
        first_wins: 0,
        late: 0,
        efficiency: None,
        outliers_prevented: 0,
        outliers_actual: 0,
        slowest_ms: 0.0,
        kept_bytes: 0,
        kept_bytes_max: 0,
        kept_ms_max: 0.0,
        outstanding: 0,
        retries: 0,
        failures: 0,
        skips_error: 0,
        skips_silent: 0,
        skips_behind: 0,
        skips_exposed: 0,
        skips_header: 0,
        reason: missing.contains(&medium.name).then(|| "it is missing".to_owned()),
    };
    data.media.iter().filter(|medium| !medium.name.is_empty()).map(row).collect()
}

/// No part of a commit, but shown beside them.
const LAST: &str = "last";

/// What each part of a commit is.
fn described(part: &str) -> &'static str {
    match part {
        "space" => "waits for room: log buffer, switch, pacing",
        "queue" => "waits for the session that writes for all",
        "slot" => "waits because as many units as may be are on their way",
        "form" => "blocks are formed: copies and checksums",
        "first" => "until the first medium has it",
        "quorum" => "until enough media have it",
        "order" => "until what was written before is durable too",
        "wake" => "until the session runs again",
        LAST => "until the last medium has a write; commits do not wait for it",
        _ => "the commit",
    }
}

/// The rows of v$redo_commit.
pub fn redo_commit(redo: &Redo) -> Vec<VRedoCommit> {
    let Some(log) = redo.log() else { return Vec::new() };
    let totals = log.breakdown();
    let (whole, commits) = (totals.total(), totals.commits);
    let longest = totals.longest;
    let of_longest = |name: &str| {
        longest.parts().iter().find(|(part, _)| *part == name).map_or(longest.total(), |p| p.1)
    };
    let row = |(at, (part, time)): (usize, (&'static str, Duration))| VRedoCommit {
        position: at as u64 + 1,
        part,
        description: described(part),
        commits,
        total_ms: ms(time),
        average_us: if commits > 0 { time.as_secs_f64() * 1e6 / commits as f64 } else { 0.0 },
        percent: Some(match whole.is_zero() {
            true => 0.0,
            false => 100.0 * time.as_secs_f64() / whole.as_secs_f64(),
        }),
        longest_us: of_longest(part).as_secs_f64() * 1e6,
    };
    let parts = totals.parts.into_iter().chain((commits > 0).then_some(("whole", whole)));
    let mut rows: Vec<VRedoCommit> = parts.enumerate().map(row).collect();
    if commits > 0 {
        rows.push(last_medium(rows.len() as u64 + 1, &log.log().stats().last));
    }
    rows
}

/// How long redo writes took until the last medium had them. That ends behind the acknowledgement
/// where fewer are waited for, so it has no share of a commit.
fn last_medium(position: u64, last: &Histogram) -> VRedoCommit {
    VRedoCommit {
        position,
        part: LAST,
        description: described(LAST),
        commits: last.count(),
        total_ms: last.sum() as f64 / 1e6,
        average_us: last.mean().map_or(0.0, |nanos| nanos as f64 / 1e3),
        percent: None,
        longest_us: last.max() as f64 / 1e3,
    }
}

/// The counters of v$sysstat, by Oracle's names; times in hundredths of a second.
pub fn statistics(redo: &Redo) -> Vec<(&'static str, u64)> {
    let Some(log) = redo.log() else { return Vec::new() };
    let Stats {
        redo_entries,
        redo_size,
        redo_wastage,
        redo_writes,
        redo_blocks_written,
        redo_write_time,
        last,
        redo_synch_writes,
        redo_synch_time,
        redo_log_switches,
        redo_buffer_allocation_retries,
        paced_commits,
        paced_time,
        heartbeats,
    } = log.log().stats();
    let cs = |time: Duration| u64::try_from(time.as_millis() / 10).unwrap_or(u64::MAX);
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    vec![
        ("redo entries", redo_entries),
        ("redo size", redo_size),
        ("redo wastage", redo_wastage),
        ("redo writes", redo_writes),
        ("redo blocks written", redo_blocks_written),
        ("redo write time", cs(redo_write_time)),
        ("redo write time (usec)", us(redo_write_time)),
        ("redo writes on every medium", last.count()),
        ("redo write last medium time (usec)", last.sum() / 1000),
        ("redo synch writes", redo_synch_writes),
        ("redo synch time", cs(redo_synch_time)),
        ("redo synch time (usec)", us(redo_synch_time)),
        ("redo log switches", redo_log_switches),
        ("redo buffer allocation retries", redo_buffer_allocation_retries),
        ("redo commits paced", paced_commits),
        ("redo commits paced time (usec)", us(paced_time)),
        ("redo heartbeats", heartbeats),
    ]
}
