//! Statistics, with Oracle's names where the meaning is the same, and a report on each medium.

use std::time::Duration;

use cellar_wait::Histogram;

use crate::lsn::Lsn;

/// Statistics of a log since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// `redo entries`: records.
    pub redo_entries: u64,
    /// `redo size`: bytes of records, headers of records included.
    pub redo_size: u64,
    /// `redo wastage`: bytes of blocks that hold no record and no header.
    pub redo_wastage: u64,
    /// `redo writes`: units.
    pub redo_writes: u64,
    /// `redo blocks written`.
    pub redo_blocks_written: u64,
    /// `redo write time`: from submission to enough media.
    pub redo_write_time: Duration,
    /// `device last`: the time from submission to the last of the media that get the unit, for each
    /// unit that is on all of them, in nanoseconds. It may end after the acknowledgement, which may
    /// wait for fewer media, so it is no part of a commit. A medium that was given up does not count
    /// for the units that it lacks.
    pub last: Histogram,
    /// `redo synch writes`: commits that waited for durability.
    pub redo_synch_writes: u64,
    /// `redo synch time`: how long they waited.
    pub redo_synch_time: Duration,
    /// `redo log switches`.
    pub redo_log_switches: u64,
    /// `redo buffer allocation retries`: committers that waited for room.
    pub redo_buffer_allocation_retries: u64,
    /// Commits that were delayed because the ring was nearly full.
    pub paced_commits: u64,
    /// The total delay of these commits.
    pub paced_time: Duration,
    /// Heartbeat blocks written.
    pub heartbeats: u64,
}

/// Statistics of one medium since the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediumStats {
    /// Writes that it completed.
    pub writes: u64,
    /// Bytes that it completed.
    pub bytes: u64,
    /// Units that it had before any other medium.
    pub first: u64,
    /// Units given to it since it became active: each counts once the medium has it, or when the unit
    /// is acknowledged without it, or when the medium is given up.
    pub given: u64,
    /// Of these, units that it had before they were acknowledged.
    pub in_time: u64,
    /// Units that it had after they were acknowledged.
    pub late: u64,
    /// Its completions over the limit whose units had been acknowledged without it.
    pub outliers_prevented: u64,
    /// Its completions over the limit that somebody waited for.
    pub outliers_actual: u64,
    /// The most bytes of acknowledged blocks that it lacked at once.
    pub exposure_bytes_max: u64,
    /// The longest time that it lacked an acknowledged block.
    pub exposure_time_max: Duration,
    /// The longest from submission to completion.
    pub slowest: Duration,
    /// Writes tried again.
    pub retries: u64,
    /// How often it was given up, and why.
    pub skips: Skips,
}

/// How often a medium was given up, by reason: the log goes on without it until it returns. A medium
/// that is dropped does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// A write failed, also when it was tried again.
    pub error: u64,
    /// It answered nothing for [`Options::hold_up`](crate::Options::hold_up) while commits waited for
    /// it alone, or left a write unanswered for
    /// [`Options::write_timeout`](crate::Options::write_timeout).
    pub silent: u64,
    /// It lacked an acknowledged block for [`Options::exposure_age`](crate::Options::exposure_age).
    pub behind: u64,
    /// It lacked more than [`Options::exposure_bytes`](crate::Options::exposure_bytes) of
    /// acknowledged blocks.
    pub exposed: u64,
    /// It did not have the headers of a group within
    /// [`Options::exposure_age`](crate::Options::exposure_age) after enough others had theirs.
    pub header: u64,
}

impl Skips {
    /// How often it was given up, for any reason.
    pub fn total(&self) -> u64 {
        let Skips { error, silent, behind, exposed, header } = *self;
        error + silent + behind + exposed + header
    }
}

/// One line of the scoreboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumReport {
    /// Its name.
    pub name: String,
    /// Whether it takes part.
    pub active: bool,
    /// Bytes of acknowledged blocks that it lacks now.
    pub exposed: u64,
    /// Writes that it has not answered.
    pub outstanding: usize,
    /// Why it failed.
    pub error: Option<String>,
    /// What was counted.
    pub stats: MediumStats,
}

/// The status of a group, as in v$log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStatus {
    /// Never written.
    Unused,
    /// Written to now.
    Current,
    /// Assigned to be written next, and empty.
    Next,
    /// Needed for crash recovery.
    Active,
    /// Not needed for crash recovery.
    Inactive,
}

/// A group, as in v$log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Its number.
    pub group: u32,
    /// Its sequence; 0: never written.
    pub sequence: u64,
    /// How many blocks it holds.
    pub blocks: u64,
    /// Size of each of its files in bytes.
    pub size: u64,
    /// Its records begin at or behind this.
    pub first: Lsn,
    /// Whether its sequence is archived.
    pub archived: bool,
    /// What it is to the log.
    pub status: GroupStatus,
}
