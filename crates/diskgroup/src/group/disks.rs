//! Disks that come and go while the group is mounted: ALTER DISKGROUP ADD, DROP, UNDROP, RENAME.
//!
//! Several changes are one record of the metadata log and one rebalance. Adding: 1. labels that say
//! "member"; 2. the record that the disk joined. Stopped before 2: the next mount finds a disk that
//! it does not know, and labels it as one that left. Dropping: the record that it is leaving; the
//! rebalance empties it; the record that it is gone; a label that says "former". Stopped anywhere:
//! the next mount goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, Io, IoError, Op as IoOp};

use crate::base::core::Core;
use crate::base::request_timeout::RequestTimeout;
use crate::disk::lock;
use crate::error::{Error, no_such_disk};
use crate::group::Group;
use crate::group::inner::Inner;
use crate::group::resize::{self, ResizeDisk};
use crate::meta::create::{NewDisk, Planned, check_label, check_sector, plan_disks};
use crate::meta::labels::{
    MARKS_BYTES, blank_marks, blank_range, read_labels_within, write_labels,
};
use crate::moves::rebalance::{POWER_DEFAULT, Snapshot, check_power};
use crate::moves::shrink;
use crate::names::{DiskName, GroupName};
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{AU_START, CHECKSUM_RUN_AUS, au_count};
use crate::space::DiskNo;
use crate::space::plan::{DiskRole, Forecast, Lack, Plan, PlanDisk, plan};
use crate::state::{DiskStatus, GroupState, Op};

/// A change of the disks of a group; all of it is one change and one rebalance.
#[derive(Clone, Default)]
pub struct AlterDisks {
    /// ADD DISK.
    pub add: Vec<NewDisk>,
    /// DROP DISK, by name; with FORCE for one that is offline.
    pub drop: Vec<DropDisk>,
    /// RESIZE DISK, by name.
    pub resize: Vec<ResizeDisk>,
    /// REBALANCE POWER; `None` takes the default.
    pub power: Option<u32>,
}

/// A disk to be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropDisk {
    /// Its name.
    pub name: String,
    /// FORCE, for a disk that is offline: its content is rebuilt from the other copies.
    pub force: bool,
}

/// The effect that a change of the disks would have.
#[derive(Clone, Debug)]
pub struct Work {
    /// The moves, and what becomes of each disk.
    pub plan: Plan,
    /// Room and redundancy afterwards.
    pub forecast: Forecast,
    /// Allocation unit in bytes.
    pub au_size: u64,
}

impl Group {
    /// EXPLAIN WORK: what `change` would do. Changes nothing.
    ///
    /// # Errors
    /// As [`Group::alter_disks`], but for what only the disks themselves can tell.
    pub fn explain_work(&self, change: &AlterDisks) -> Result<Work, Error> {
        let planned = self.plan_new(change)?;
        let core = lock(&self.inner.core);
        let leave = Leave::of(&self.inner, &core.state, change, false)?;
        let snapshot = after(&core, &planned, &leave);
        drop(core);
        Ok(work(&snapshot, self.inner.au_size))
    }

    /// Changes the disks of the group, and starts the rebalance that follows from it.
    ///
    /// # Errors
    /// A disk, name or power is not allowed, or there is no room for what must move: then nothing has
    /// changed. Or a disk has failed.
    #[boxed]
    pub async fn alter_disks(&self, change: &AlterDisks) -> Result<(), Error> {
        // A task of its own: a caller that goes away must not leave it half-way.
        let (group, change) = (self.clone(), change.clone());
        let altered = async move { group.alter_to_the_end(&change).await };
        self.inner.run("alter disk group", altered).await
    }

    async fn alter_to_the_end(&self, change: &AlterDisks) -> Result<(), Error> {
        let inner = &self.inner;
        let power = change.power.unwrap_or(POWER_DEFAULT);
        check_power(power)?;
        let _labels = inner.labels.lock().await;
        inner.check_writable()?;
        inner.rebalance.end_probes().await;
        let planned = self.plan_new(change)?;
        let request_timeout = inner.request_timeout();
        for p in &planned {
            check_label(p, request_timeout).await?;
            check_not_here(inner, p, request_timeout).await?;
        }
        resize::look_again(inner, &change.resize).await?;
        let resized = check_feasible(inner, &planned, change)?;
        let header = lock(&inner.core).state.header.clone();
        let labels: Vec<_> = planned
            .iter()
            .map(|p| {
                let label = p.label(&header, LabelStatus::Member, inner.holds_catalog);
                // It is used by this mount from the start.
                let label = Label { mount_ids: [inner.mount_id, 0], ..label };
                (Arc::clone(&p.disk.device), label)
            })
            .collect();
        let written = async {
            for (device, label) in &labels {
                blank(device, request_timeout).await?;
                write_labels(device, label, request_timeout).await?;
            }
            Ok(())
        };
        if let Err(error) = written.await {
            mark_former(&labels, request_timeout).await;
            return Err(error);
        }
        let (all, wanted) = (Arc::clone(inner), change.clone());
        let make = move |core: &mut Core| join_and_leave(&all, core, &planned, &wanted, power);
        if let Err(error) = inner.change_disks(make).await {
            // They did not join: nobody needs FORCE to take them. If the group stopped, the next
            // mount knows better what became of them.
            if inner.check_running().is_ok() {
                mark_former(&labels, request_timeout).await;
            }
            return Err(error);
        }
        shrink::rewrite_labels(inner, resized.iter().map(|(no, _)| *no)).await;
        inner.rebalance.wake();
        Ok(())
    }

    /// UNDROP DISKS: disks that are being dropped stay. DROP ... FORCE cannot be undone. Returns how many
    /// stay.
    ///
    /// # Errors
    /// The group has stopped.
    #[boxed]
    pub async fn undrop_disks(&self) -> Result<usize, Error> {
        let (told, count) = futures_channel::oneshot::channel();
        let all = Arc::clone(&self.inner);
        let undropped = self.inner.change_disks(move |core| {
            let dropping: Vec<u16> = core
                .state
                .disks
                .iter()
                .filter(|(_, d)| d.status == DiskStatus::Dropping)
                .map(|(no, _)| *no)
                .collect();
            let mut ops = Vec::new();
            for disk in &dropping {
                core.space.set_online(*disk, true);
                ops.push(Op::DiskLeaving { disk: *disk, status: DiskStatus::Online });
            }
            if !dropping.is_empty() {
                all.rebalance.request();
                ops.push(Op::Rebalance {
                    power: Some(core.state.rebalance.unwrap_or(POWER_DEFAULT)),
                });
            }
            // Who asked is still there, or does not want to know.
            let _ = told.send(dropping.len());
            Ok(ops)
        });
        undropped.await?;
        self.inner.rebalance.wake();
        Ok(count.await.unwrap_or(0))
    }

    /// RENAME DISK.
    ///
    /// # Errors
    /// No such disk, or the name is taken or not legal.
    #[boxed]
    pub async fn rename_disk(&self, old: &str, new: &str) -> Result<(), Error> {
        let wrong = |why: String| Error::BadName { name: new.to_owned(), why };
        let new = DiskName::new(new).map_err(|e| wrong(e.to_string()))?.as_str().to_owned();
        let old = old.to_uppercase();
        let inner = &self.inner;
        let _labels = inner.labels.lock().await;
        let renamed = inner
            .change(|core| {
                let (disk, _) = core.state.disk_named(&old).ok_or_else(|| no_such_disk(&old))?;
                if core.state.disk_named(&new).is_some() {
                    return Err(name_taken(&new));
                }
                Ok((disk, vec![Op::DiskRename { disk, name: new.clone() }]))
            })
            .await?;
        shrink::rewrite_labels(inner, std::iter::once(renamed)).await;
        Ok(())
    }

    /// Checks the new disks of a change as far as names and sizes go.
    pub(super) fn plan_new(&self, change: &AlterDisks) -> Result<Vec<Planned>, Error> {
        let inner = &self.inner;
        let (taken, names) = {
            let core = lock(&inner.core);
            let numbers: BTreeSet<u16> = core.state.disks.keys().copied().collect();
            let names = core.state.disks.values().filter_map(|d| DiskName::new(&d.name).ok());
            (numbers, names.collect::<BTreeSet<DiskName>>())
        };
        let mut add = change.add.iter();
        add.try_for_each(|d| check_sector(&d.device, &d.path, inner.sector_size))?;
        let free = (0u16..).filter(|no| !taken.contains(no));
        let group = GroupName::new(&inner.name)
            .map_err(|e| Error::BadName { name: inner.name.clone(), why: e.to_string() })?;
        plan_disks(&inner.env, &group, inner.au_size, free.zip(&change.add), names)
    }
}

fn name_taken(name: &str) -> Error {
    Error::DiskUnusable {
        disk: name.to_owned(),
        why: "a disk of the group has that name already".to_owned(),
        number: 15010,
    }
}

/// The numbers of the disks to be dropped, and what becomes of each.
fn dropped(state: &GroupState, wanted: &[DropDisk]) -> Result<Vec<(u16, DiskStatus)>, Error> {
    let mut out: Vec<(u16, DiskStatus)> = Vec::new();
    for DropDisk { name, force } in wanted {
        let name = name.to_uppercase();
        let (no, disk) = state.disk_named(&name).ok_or_else(|| no_such_disk(&name))?;
        let unusable = |why: &str, number| {
            Err(Error::DiskUnusable { disk: name.clone(), why: why.to_owned(), number })
        };
        let status = match (disk.status, force) {
            (DiskStatus::Online, false) => DiskStatus::Dropping,
            (DiskStatus::Offline, true) => DiskStatus::Forcing,
            (DiskStatus::Online, true) => {
                return Err(Error::ForceNotNeeded { disk: name.clone() });
            }
            (DiskStatus::Offline, false) => {
                let why = "it is offline and cannot be read; FORCE makes its extents again from \
                           their other copies";
                return unusable(why, 15084);
            }
            (DiskStatus::Dropping, _) => return unusable("it is being dropped already", 15071),
            (DiskStatus::Returning, _) => {
                let why = "it is on its way back: wait for that, or OFFLINE it first";
                return unusable(why, 15071);
            }
            (DiskStatus::Forcing, _) => {
                let why = "it left with FORCE already, and its copies are being made again";
                return unusable(why, 15071);
            }
        };
        if out.iter().any(|(other, _)| *other == no) {
            return unusable("it is named twice", 15054);
        }
        out.push((no, status));
    }
    Ok(out)
}

/// What a change takes away: disks, and room on disks.
pub(super) struct Leave {
    dropped: Vec<(u16, DiskStatus)>,
    resized: Vec<resize::Resized>,
}

impl Leave {
    pub(super) fn of(
        inner: &Inner,
        state: &GroupState,
        change: &AlterDisks,
        look: bool,
    ) -> Result<Leave, Error> {
        let dropped = dropped(state, &change.drop)?;
        let resized = resize::resized(inner, state, &change.resize, look)?;
        let both = resized.iter().find(|(no, _)| dropped.iter().any(|(other, _)| other == no));
        if let Some(disk) = both.and_then(|(no, _)| state.disks.get(no)) {
            let (disk, why) = (disk.name.clone(), "it is to be dropped and resized".to_owned());
            return Err(Error::DiskUnusable { disk, why, number: 15054 });
        }
        Ok(Leave { dropped, resized })
    }

    /// Whether something has to find a place elsewhere, or else the change is refused.
    fn needs_room(&self, state: &GroupState) -> bool {
        let smaller = |(no, bytes): &resize::Resized| {
            state.disks.get(no).is_some_and(|disk| *bytes < disk.bytes)
        };
        self.dropped.iter().any(|(_, status)| *status != DiskStatus::Forcing)
            || self.resized.iter().any(smaller)
    }
}

/// The group as it will be once the disks have joined and are leaving, before anything moved.
pub(super) fn after(core: &Core, planned: &[Planned], leave: &Leave) -> Snapshot {
    let mut snapshot = Snapshot::of(core);
    let au_size = u64::from(core.state.header.au_size);
    resize::preview(core, &leave.resized, &mut snapshot);
    for (no, status) in &leave.dropped {
        for disk in snapshot.disks.iter_mut().filter(|d| d.disk == DiskNo(*no)) {
            disk.role = match status {
                DiskStatus::Forcing => DiskRole::Lost,
                _ => DiskRole::Dropping,
            };
        }
    }
    for p in planned {
        let failgroup = snapshot.group(&p.failgroup);
        let aus = au_count(p.bytes, au_size);
        // Two AUs are for checkpoints.
        let capacity = aus - aus.div_ceil(CHECKSUM_RUN_AUS) - 2;
        let disk = DiskNo(p.no);
        let role = DiskRole::Active;
        snapshot.disks.push(PlanDisk { disk, failgroup, capacity, end: u32::MAX, role });
    }
    snapshot
}

pub(super) fn work(snapshot: &Snapshot, au_size: u64) -> Work {
    let input = snapshot.input();
    let plan = plan(&input);
    let forecast = plan.forecast(&input);
    Work { plan, forecast, au_size }
}

/// Refuses a DROP or RESIZE for which there is no room, or which leaves too few failure groups.
/// After the loss of a disk what can be made again is. Returns the new sizes.
fn check_feasible(
    inner: &Inner,
    planned: &[Planned],
    wanted: &AlterDisks,
) -> Result<Vec<resize::Resized>, Error> {
    let (snapshot, resized) = {
        let core = lock(&inner.core);
        let leave = Leave::of(inner, &core.state, wanted, true)?;
        if !leave.needs_room(&core.state) {
            return Ok(leave.resized);
        }
        (after(&core, planned, &leave), leave.resized)
    };
    if !snapshot.disks.iter().any(|d| d.role == DiskRole::Active) {
        return Err(Error::BadValue {
            what: "DROP DISK of",
            value: "every disk".to_owned(),
            allowed: "a DROP that leaves one, or DROP DISKGROUP".to_owned(),
        });
    }
    let Work { plan, .. } = work(&snapshot, inner.au_size);
    // What has no copy any more has nowhere to go whatever is dropped.
    let unplaced = || plan.unplaced.iter().filter(|u| u.lack != Lack::Copy);
    let Some(first) = unplaced().next() else {
        return check_failgroups(inner, &snapshot, wanted).map(|()| resized);
    };
    let aus: u64 = unplaced().map(|u| u.aus).sum();
    let why = match first.lack {
        Lack::Room => "they have no free AU where they may go",
        Lack::FailGroups => "their copies need more failure groups than are left",
        Lack::Copy => "no copy of them can be read",
    };
    Err(Error::NoSpace {
        group: inner.name.clone(),
        wanted_mb: (aus * inner.au_size) >> 20,
        why: format!("{aus} extents of {} files must move; {why}", unplaced().count()),
    })
}

/// Refuses a DROP after which nothing could be written: it may be that no file stands in its way.
/// With FORCE the disk is gone anyhow.
fn check_failgroups(inner: &Inner, after: &Snapshot, wanted: &AlterDisks) -> Result<(), Error> {
    let redundancy = lock(&inner.core).state.header.redundancy;
    let left = after.disks.iter().filter(|d| d.role == DiskRole::Active).map(|d| d.failgroup);
    let (needed, found) = (usize::from(redundancy.copies()), left.collect::<BTreeSet<_>>().len());
    if found >= needed || wanted.drop.iter().all(|d| d.force) {
        return Ok(());
    }
    Err(Error::FailGroups { redundancy: redundancy.name(), needed, found })
}

/// The one change of the metadata, with the core held.
fn join_and_leave(
    inner: &Inner,
    core: &mut Core,
    planned: &[Planned],
    wanted: &AlterDisks,
    power: u32,
) -> Result<Vec<Op>, Error> {
    let Leave { dropped: leaving, resized } = Leave::of(inner, &core.state, wanted, true)?;
    let taken = |p: &&Planned| {
        core.state.disks.contains_key(&p.no) || core.state.disk_named(&p.name).is_some()
    };
    if let Some(p) = planned.iter().find(taken) {
        return Err(name_taken(&p.name));
    }
    let now_ns = inner.env.wall().unix_nanos;
    let mut ops = Vec::new();
    for p in planned {
        let state = p.state(now_ns);
        let added = core.space.add_disk(p.no, &state, inner.au_size);
        added.expect("the number is free, and a new disk has room for its areas");
        inner.disks.insert(&Arc::new(p.opened(&inner.env)));
        ops.push(Op::DiskJoin { disk: p.no, state: Box::new(state) });
    }
    for (disk, status) in leaving {
        core.space.set_online(disk, false);
        ops.push(Op::DiskLeaving { disk, status });
    }
    ops.extend(resize::begin(core, &resized));
    inner.rebalance.request();
    ops.push(Op::Rebalance { power: Some(power) });
    Ok(ops)
}

/// Labels disks that were to join and did not: nobody needs FORCE to take them.
pub(super) async fn mark_former(
    labels: &[(Arc<dyn Device>, Label)],
    request_timeout: RequestTimeout<'_>,
) {
    for (device, label) in labels {
        let label = Label { status: LabelStatus::Former, ..label.clone() };
        // One that cannot be written says what it said.
        let _ = write_labels(device, &label, request_timeout).await;
    }
}

/// Refuses a disk that is in use here under another path: even FORCE destroys only what is not.
pub(super) async fn check_not_here(
    inner: &Inner,
    p: &Planned,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), Error> {
    let labels = read_labels_within(&p.disk.device, request_timeout).await?;
    let Some(label) = labels.newest() else { return Ok(()) };
    let name = {
        let core = lock(&inner.core);
        let mut disks = core.state.disks.iter();
        let same = disks.find(|(_, d)| d.uuid == label.disk);
        same.filter(|_| label.group == core.state.header.uuid).map(|(no, d)| (*no, d.name.clone()))
    };
    match name.filter(|(no, _)| inner.disk(*no).is_some_and(|disk| disk.is_alive())) {
        None => Ok(()),
        Some((_, name)) => Err(Error::DiskUnusable {
            disk: p.disk.path.clone(),
            why: format!("it is {name} of this group, by another path"),
            number: 15029,
        }),
    }
}

/// Overwrites what an earlier group may have left where this one keeps its metadata, and the marks
/// of others.
pub(super) async fn blank(
    device: &Arc<dyn Device>,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    blank_marks(device, request_timeout).await?;
    blank_range(device, MARKS_BYTES..AU_START, request_timeout).await?;
    request_timeout.wait(device, IoOp::Flush, device.flush(Io::FOREGROUND)).await
}
