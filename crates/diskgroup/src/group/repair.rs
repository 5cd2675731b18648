//! The repair time: a disk that is away for longer than `disk_repair_time` is dropped, and its
//! contents are recreated on the others if there is room.
//!
//! The time left is taken from the wall clock once, when a mount first sees the disk away, and then
//! counted on the clock that never jumps. A disk that was away before the mount gets at least
//! [`AGAIN_MIN`] from then on: a machine that was off overnight must not rebuild what is just being
//! plugged in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{EnvExt, Instant};

use crate::disk::lock;
use crate::group::Group;
use crate::group::disks::{AlterDisks, DropDisk};
use crate::group::inner::Inner;
use crate::meta::attributes::{REPAIR_TIME_DEFAULT, parse_repair_time};
use crate::returning::RESYNC_POWER_DEFAULT;
use crate::space::plan::Lack;
use crate::state::{DiskState, DiskStatus, GroupState};

/// The least time for a disk that was away before the mount, unless the repair time is shorter.
const AGAIN_MIN: Duration = Duration::from_secs(300);
/// How often the task looks, and how often it tries again what was refused.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const TRY_EVERY: Duration = Duration::from_secs(60);

/// What is known of disks that are away.
#[derive(Default)]
pub(crate) struct Repair {
    seen: Mutex<BTreeMap<u16, Seen>>,
}

#[derive(Clone, Copy)]
struct Seen {
    /// When it left, on the wall clock: a different value means a different departure.
    offline_ns: u64,
    at: Instant,
    /// For how long it had been away then.
    offline: Duration,
    before_mount: bool,
    /// Not tried again before.
    next_try: Instant,
}

/// A disk that is away, and what becomes of it.
#[derive(Clone, Debug)]
pub struct OfflineDisk {
    /// Its number.
    pub disk: u16,
    /// Its name.
    pub name: String,
    /// How long it has been away.
    pub since: Duration,
    /// When it is dropped, unless it returns.
    pub drop_in: Duration,
    /// Bytes to be copied when it returns, as far as that is known; `None`: all it has.
    pub missed: Option<u64>,
    /// Bytes to be recreated when it is dropped.
    pub rebuild: u64,
    /// Why it will not be dropped then, if so.
    pub stuck: Option<String>,
    /// Somebody took it offline.
    pub by_command: bool,
    /// It is about to come back automatically.
    pub coming: bool,
    /// Why it did not come back at the last attempt.
    pub refused: Option<String>,
}

fn repair_time(state: &GroupState, disk: &DiskState) -> Duration {
    if disk.offline.drop_after_s > 0 {
        return Duration::from_secs(disk.offline.drop_after_s.into());
    }
    let text = state.attributes.get("disk_repair_time").map_or(REPAIR_TIME_DEFAULT, |t| t);
    parse_repair_time(text).unwrap_or(Duration::from_secs(12_960))
}

impl Seen {
    fn new(inner: &Inner, disk: &DiskState, before_mount: bool) -> Seen {
        let (at, now_ns) = (inner.env.now(), inner.env.wall().unix_nanos);
        let offline = Duration::from_nanos(now_ns.saturating_sub(disk.offline_ns));
        Seen { offline_ns: disk.offline_ns, at, offline, before_mount, next_try: at }
    }

    fn away(&self, now: Instant) -> Duration {
        self.offline + now.since(self.at)
    }

    fn left(&self, time: Duration, now: Instant) -> Duration {
        let left = time.saturating_sub(self.away(now));
        match self.before_mount {
            true => left.max(time.min(AGAIN_MIN).saturating_sub(now.since(self.at))),
            false => left,
        }
    }
}

/// The task, until the group is dismounted.
pub(crate) async fn run(group: Group) {
    let inner = Arc::clone(&group.inner);
    look(&inner, true);
    while !inner.is_ending() {
        // Woken when the group ends: holding the group here would keep its disks.
        let changed = inner.returning.changed();
        let due = look(&inner, false);
        if !due.is_empty() {
            drop_due(&group, due).await;
        }
        futures_util::future::select(changed, inner.env.sleep(LOOK_EVERY)).await;
    }
}

/// Takes note of the disks that are away; returns the names of those whose time is up.
fn look(inner: &Inner, at_mount: bool) -> Vec<(u16, String)> {
    let now = inner.env.now();
    let core = lock(&inner.core);
    let mut seen = lock(&inner.repair.seen);
    let is_away = |d: &DiskState| d.status == DiskStatus::Offline;
    seen.retain(|no, s| {
        core.state.disks.get(no).is_some_and(|d| is_away(d) && d.offline_ns == s.offline_ns)
    });
    let mut due = Vec::new();
    for (no, disk) in core.state.disks.iter().filter(|(_, d)| is_away(d)) {
        let s = seen.entry(*no).or_insert_with(|| Seen::new(inner, disk, at_mount));
        if s.left(repair_time(&core.state, disk), now).is_zero() && s.next_try <= now {
            s.next_try = Instant(now.0 + TRY_EVERY.as_nanos() as u64);
            due.push((*no, disk.name.clone()));
        }
    }
    due
}

/// Drops what is due, as far as everything can be made again.
async fn drop_due(group: &Group, due: Vec<(u16, String)>) {
    for (no, name) in due {
        if why_not(group, &name).is_some() {
            continue;
        }
        let drop = vec![DropDisk { name, force: true }];
        let power = lock(&group.inner.core).state.rebalance.unwrap_or(0);
        let power = Some(power.max(RESYNC_POWER_DEFAULT));
        let change = AlterDisks { drop, power, ..AlterDisks::default() };
        // It may have come back or been dropped by somebody else meanwhile; otherwise this is
        // retried.
        if group.alter_disks(&change).await.is_ok() {
            lock(&group.inner.repair.seen).remove(&no);
        }
    }
}

/// Bytes to be recreated if a disk is dropped, or why that is impossible.
fn rebuild(group: &Group, name: &str) -> (u64, Option<String>) {
    let drop = vec![DropDisk { name: name.to_owned(), force: true }];
    let change = AlterDisks { drop, ..AlterDisks::default() };
    let au_size = group.inner.au_size;
    match group.explain_work(&change) {
        Err(error) => (0, Some(error.to_string())),
        Ok(work) => {
            let lost = work.plan.moves.iter().filter(|step| step.from.is_none()).count() as u64;
            let of = |lack: Lack| -> u64 {
                work.plan.unplaced.iter().filter(|u| u.lack == lack).map(|u| u.aus).sum()
            };
            let mb = |aus: u64| (aus * au_size) >> 20;
            let stuck = match (of(Lack::Copy), of(Lack::FailGroups), of(Lack::Room)) {
                (0, 0, 0) if work.plan.is_complete() => None,
                (only, _, _) if only > 0 => Some(format!("{} MB have no other copy", mb(only))),
                (_, groups, _) if groups > 0 => {
                    Some(format!("{} MB need a disk in another failure group", mb(groups)))
                }
                (_, _, 0) => Some("its copies have to wait for room that nobody leaves".to_owned()),
                (_, _, room) => Some(format!("{} MB have no room on the other disks", mb(room))),
            };
            (lost * au_size, stuck)
        }
    }
}

fn why_not(group: &Group, name: &str) -> Option<String> {
    rebuild(group, name).1
}

impl Group {
    /// When a disk that is away is dropped.
    pub fn drop_in(&self, disk: u16) -> Option<Duration> {
        let inner = &self.inner;
        let core = lock(&inner.core);
        let d = core.state.disks.get(&disk).filter(|d| d.status == DiskStatus::Offline)?;
        let seen = lock(&inner.repair.seen).get(&disk).copied();
        let s = seen.filter(|s| s.offline_ns == d.offline_ns);
        let s = s.unwrap_or_else(|| Seen::new(inner, d, true));
        Some(s.left(repair_time(&core.state, d), inner.env.now()))
    }

    /// The disks that are away, and what becomes of each.
    pub fn away_disks(&self) -> Vec<OfflineDisk> {
        let inner = &self.inner;
        let now = inner.env.now();
        let away: Vec<OfflineDisk> = {
            let core = lock(&inner.core);
            let seen = lock(&inner.repair.seen);
            let state = &core.state;
            let disks = state.disks.iter().filter(|(_, d)| d.status == DiskStatus::Offline);
            disks
                .map(|(no, d)| {
                    let s = seen.get(no).copied().filter(|s| s.offline_ns == d.offline_ns);
                    let s = s.unwrap_or_else(|| Seen::new(inner, d, true));
                    let mapped = d.stale == crate::state::Stale::Mapped;
                    let (coming, refused) = inner.returning.outlook(*no);
                    OfflineDisk {
                        disk: *no,
                        name: d.name.clone(),
                        since: s.away(now),
                        drop_in: s.left(repair_time(state, d), now),
                        missed: mapped
                            .then(|| state.stale_pieces(*no) * crate::on_disk::layout::PIECE_BYTES),
                        rebuild: 0,
                        stuck: None,
                        by_command: d.offline.by == crate::state::OfflineBy::Command,
                        coming,
                        refused,
                    }
                })
                .collect()
        };
        away.into_iter()
            .map(|disk| {
                let (rebuild, stuck) = rebuild(self, &disk.name);
                OfflineDisk { rebuild, stuck, ..disk }
            })
            .collect()
    }
}
