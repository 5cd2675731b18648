//! Health: the state of each disk group of a database, what to do about it, and what another failure
//! would cost, as `cellar status` and `v$health` show it.
//!
//! A [`GroupHealth`] comes from the group as it is now, from the redo log, and from what the last scrub
//! and the last `validate` found ([`checked`]).

pub mod checked;
mod findings;
mod missing;
pub mod outlook;
mod redo;
mod spares;
mod unmounted;
mod view;
mod work;

use std::path::Path;

use cellar_diskgroup::{DiskInfo, ScrubResult};
use cellar_storage::Mounted;
use cellar_storage::finder::NoDisk;
use cellar_storage::redo::Redo;
use serde::Serialize;

use crate::error::{Entry, Error, NextStep};
use crate::heap::Heap;
use checked::Checked;
use missing::Seen;

pub use missing::reasons;
pub(crate) use spares::note as note_spares;
pub use spares::{UnfitSpare, words as spare_words};
pub use unmounted::{not_mounted, or_force};
pub(crate) use view::rows;

/// The health of one group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupHealth {
    /// Its name, if it is known.
    pub group: Option<String>,
    /// WHOLE, or the worst of NOT MOUNTED, STOPPED, DAMAGED, DEGRADED, SLOW, RESYNC, FULL.
    pub state: &'static str,
    /// All of these that apply, the worst first; none if nothing needs attention.
    pub states: Vec<&'static str>,
    /// In words.
    pub words: String,
    /// What to do; `None` when nothing.
    #[serde(serialize_with = "as_text")]
    pub action: Option<NextStep>,
    /// Why it cannot be mounted, the whole stack.
    pub error: Option<String>,
    /// The numbers of that stack, for programs, which read no messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_numbers: Vec<u32>,
    /// Work under way.
    pub work: Option<String>,
    /// What another failure would cost.
    pub safe: String,
    /// Disks that are not in sync.
    pub disks_missing: Vec<String>,
    /// Disks so much slower than the others that reads avoid them.
    pub disks_slow: Vec<String>,
    /// Failure groups that could be lost now without losing data, whether or not the group is mounted.
    pub may_be_lost: Vec<String>,
    /// Failure groups whose loss would lose data now.
    pub critical: Vec<String>,
    /// Files with extents of which only some copies are there.
    pub files_lowered: usize,
    /// Files with extents without any copy.
    pub files_lost: Vec<String>,
    /// Files that FORCE took from older images of disks.
    pub files_older: Vec<String>,
    /// Wrong checksums read since the group was mounted.
    pub checksum_errors: u64,
    /// Reads and writes that a disk refused since the group was mounted.
    pub io_errors: u64,
    /// Bytes of files that can be written now.
    pub writable_bytes: u64,
    /// What `validate` found last; `None` where the group is not there.
    pub checked: Option<Checked>,
    /// The last scrub of the whole group, if there was one.
    pub last_scrub: Option<LastScrub>,
    /// When the next one begins by itself, seconds since 1970; `None`: never.
    pub next_scrub: Option<u64>,
    /// The redo log of the database, in words, where its control file is in this group.
    pub redo: Option<String>,
    /// Disks that wait to take the place of one that fails, and could.
    pub hot_spares: Vec<String>,
    /// Spares that are named but do not fit every disk, with the reason.
    pub unfit_spares: Vec<UnfitSpare>,
    /// When all was read last, in words.
    #[serde(skip)]
    pub checked_words: String,
}

impl GroupHealth {
    /// Whether nothing needs attention.
    pub fn is_well(&self) -> bool {
        self.state == "WHOLE"
    }
}

/// A scrub that came to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastScrub {
    /// When, seconds since 1970.
    pub ended: u64,
    /// How long it worked, in seconds.
    pub took: f64,
    /// Bytes of copies that were read.
    pub bytes_read: u64,
    /// Bytes of copies that were not there to be read.
    pub bytes_absent: u64,
    /// Faults that were found.
    pub wrong: u64,
    /// Faults that were repaired.
    pub repaired: u64,
    /// Faults that could not be repaired.
    pub left: u64,
}

impl LastScrub {
    fn of(result: &ScrubResult) -> LastScrub {
        let found = &result.found;
        LastScrub {
            ended: result.ended,
            took: result.took.as_secs_f64(),
            bytes_read: found.bytes_read,
            bytes_absent: found.absent_bytes,
            wrong: found.wrong().sum(),
            repaired: found.repaired,
            left: found.left,
        }
    }
}

/// Something that needs attention.
struct Finding {
    state: &'static str,
    words: String,
    action: NextStep,
}

/// A group that is not there, from the error that tells why.
pub fn of_unmounted(error: &Error) -> GroupHealth {
    // The last line is the cause.
    let words = error.stack().last().map(Entry::reason).unwrap_or_default();
    let stack = error.stack().iter().map(ToString::to_string);
    let group = error.group().map(str::to_owned);
    GroupHealth {
        state: if group.is_some() { "NOT MOUNTED" } else { "NOT OPEN" },
        group,
        words: words.to_owned(),
        action: Some(error.next_step().cloned().unwrap_or_else(|| "bring its disks back".into())),
        error: Some(stack.collect::<Vec<_>>().join("\n")),
        error_numbers: error.stack().iter().map(|entry| entry.number).collect(),
        safe: "unknown until it is mounted".to_owned(),
        ..GroupHealth::default()
    }
}

/// The health of a group now. `heap` is that of the tables whose rows change; `no_disks`: where a missing
/// disk may be; `dir` is for the commands that it names.
pub fn of(
    mounted: &Mounted,
    (redo, heap): (&Redo, &Heap),
    no_disks: &[NoDisk],
    dir: &Path,
) -> GroupHealth {
    let group = &mounted.group;
    let info = group.info();
    let disks = group.disks();
    let gone: Vec<&DiskInfo> = disks.iter().filter(|d| !d.in_sync).collect();
    let resync = group.resync();
    let losses = outlook::losses(mounted, redo);
    let harmless = losses.iter().filter(|l| l.is_harmless() && info.redundancy.copies() > 1);
    let copied = group.copied();
    // What a departed disk did is covered by its departure.
    let counted = |name: &str| -> u64 {
        disks.iter().filter(|d| d.in_sync).map(|d| findings::count(d, name)).sum()
    };
    let mut status = GroupHealth {
        group: Some(info.name.clone()),
        state: "WHOLE",
        safe: outlook::safe(mounted, redo),
        disks_missing: gone.iter().map(|d| d.name.clone()).collect(),
        disks_slow: disks.iter().filter(|d| d.slow).map(|d| d.name.clone()).collect(),
        may_be_lost: harmless.map(|l| l.failgroup.clone()).collect(),
        critical: losses.iter().filter(|l| l.data).map(|l| l.failgroup.clone()).collect(),
        files_lowered: copied.lowered,
        files_lost: copied.lost.iter().map(|path| format!("+{}/{path}", info.name)).collect(),
        checksum_errors: counted("checksum_errs"),
        io_errors: counted("read_errs") + counted("write_errs"),
        writable_bytes: info.writable_mb << 20,
        ..GroupHealth::default()
    };
    let mut found: Vec<Finding> = Vec::new();
    found.extend(info.stopped.as_ref().map(|why| Finding {
        state: "STOPPED",
        words: why.clone(),
        action: "bring the disks back, then run any command: it mounts again".into(),
    }));
    found.extend(findings::lost(&status));
    let now = group.env().wall().unix_nanos / 1_000_000_000;
    found.extend(findings::taken_older(&mut status, group, now));
    let operation = group.operation();
    let away = group.away_disks();
    (status.work, status.redo) = (work::words(mounted, &away), redo::words(mounted, redo));
    let seen = Seen { group, offline: &away, gone: &gone, no_disks };
    found.extend(missing::finding(&status, &seen));
    found.extend(findings::errors(&status, group, &disks));
    let known = checked::of(dir, &info.name);
    let scrub = group.last_scrub();
    (status.last_scrub, status.next_scrub) =
        (scrub.as_ref().map(LastScrub::of), group.next_scrub());
    found.extend(findings::found_bad(&known, status.last_scrub.as_ref(), now));
    found.extend(scrub.and_then(|scrub| findings::left_bad(group, &known, &scrub, now)));
    let last = status.last_scrub.as_ref();
    status.checked_words = checked::words(&known, last, status.next_scrub, now);
    status.checked = Some(known);
    found.extend(findings::slow(&disks));
    found.extend((resync.bytes_left > 0).then(|| findings::resyncs(resync.bytes_left)));
    if info.writable_mb == 0 && info.stopped.is_none() {
        found.push(findings::full(mounted));
    }
    found.extend(findings::ahead(mounted, heap));
    found.extend(redo::finding(mounted, redo));
    status.words = format!("{} disks, all in sync", disks.len());
    if operation.is_some_and(|now| now.power == 0) {
        let stopped = NextStep::from("go on with the rebalance, which was stopped: ");
        status.action = Some(stopped.cellar("asm", "rebal --power 1").in_directory(dir));
    }
    sum_up(&mut status, found, dir);
    status
}

/// The findings make the state, the worst first.
fn sum_up(health: &mut GroupHealth, found: Vec<Finding>, dir: &Path) {
    let Some(worst) = found.first() else { return };
    health.state = worst.state;
    health.states = found.iter().map(|f| f.state).collect();
    health.words = found.iter().map(|f| f.words.as_str()).collect::<Vec<_>>().join("; ");
    health.action = joined(found.into_iter().map(|f| f.action.in_directory(dir)));
}

/// One step of several.
fn joined(steps: impl IntoIterator<Item = NextStep>) -> Option<NextStep> {
    steps.into_iter().reduce(|all, next| all.then("; ").and(next))
}

fn as_text<S: serde::Serializer>(action: &Option<NextStep>, to: S) -> Result<S::Ok, S::Error> {
    action.as_ref().map(ToString::to_string).serialize(to)
}
