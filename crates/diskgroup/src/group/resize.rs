//! RESIZE DISK: a group uses more of a disk than it did, or less.
//!
//! More: one record, and the disk has the AUs. Less: 1. the record that it is wanted, and nothing new
//! is put behind the new end from then on; 2. the rebalance moves what lies there; 3. a checkpoint
//! area that reaches behind the end is made anew before it; 4. the record that the disk ends there;
//! 5. its label says so, and what is behind is given back to the device. Stopped before 4: the next
//! mount goes on. Stopped after: the labels at the head of the disk are as good as those at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_io::{Discard, EnvExt, Io};

use crate::base::core::Core;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::group::disks::no_such_disk;
use crate::group::inner::Inner;
use crate::group::rebalance::Snapshot;
use crate::meta::create::AUS_MIN;
use crate::meta::labels::{label_offsets, rewrite_label};
use crate::on_disk::layout::{
    BLOCK_U64, CHECKSUM_RUN_AUS, DISK_BYTES_MIN, TAIL_BYTES, au_count, au_offset,
};
use crate::on_disk::superblock::{AuRun, aus_in, aus_of, runs_before};
use crate::space::DiskNo;
use crate::state::{DiskStatus, GroupState, Op};

/// A disk that is to have another size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeDisk {
    /// Its name.
    pub name: String,
    /// Bytes that the group is to use of it; `None`: all that it has.
    pub bytes: Option<u64>,
}

/// A disk, and the bytes that it is to have.
pub(super) type Resized = (u16, u64);

/// Looks at the devices again: one that grew may say so only when asked.
pub(super) async fn look_again(inner: &Inner, wanted: &[ResizeDisk]) -> Result<(), Error> {
    for resize in wanted {
        let no = lock(&inner.core).state.disk_named(&resize.name.to_uppercase()).map(|d| d.0);
        if let Some(disk) = no.and_then(|no| inner.disk(no)).filter(|d| d.is_in_sync())
            && let Err(error) = disk.flush(Io::FOREGROUND).await
        {
            inner.leg_failed(&disk, error).await?;
        }
    }
    Ok(())
}

/// The disks to be resized, and what each is to have; with `look`, checked against the devices.
pub(super) fn resized(
    inner: &Inner,
    state: &GroupState,
    wanted: &[ResizeDisk],
    look: bool,
) -> Result<Vec<Resized>, Error> {
    let mut out: Vec<Resized> = Vec::new();
    for resize in wanted {
        let name = resize.name.to_uppercase();
        let (no, disk) = state.disk_named(&name).ok_or_else(|| no_such_disk(&name))?;
        let unusable =
            |why: String, number| Err(Error::DiskUnusable { disk: name.clone(), why, number });
        match disk.status {
            DiskStatus::Online => {}
            DiskStatus::Offline | DiskStatus::Returning => {
                return unusable("it is offline: no size of it can be changed".into(), 15084);
            }
            DiskStatus::Dropping | DiskStatus::Forcing => {
                return unusable("it is being dropped".into(), 15071);
            }
        }
        if out.iter().any(|(other, _)| *other == no) {
            return unusable("it is named twice".into(), 15054);
        }
        let has = inner.disk(no).map_or(disk.bytes, |d| d.device().geometry().size);
        let bytes = resize.bytes.unwrap_or(has) / BLOCK_U64 * BLOCK_U64;
        if look && bytes > has {
            let (asked, has) = (bytes >> 20, has >> 20);
            let why = format!("SIZE asks for {asked} MB, the disk itself has {has}");
            return unusable(why, 15057);
        }
        if bytes < DISK_BYTES_MIN || au_count(bytes, inner.au_size) < AUS_MIN {
            let least = DISK_BYTES_MIN.max(u64::from(AUS_MIN) * inner.au_size + (9 << 20));
            let (mb, least) = (bytes >> 20, least.div_ceil(1 << 20));
            return unusable(format!("SIZE asks for {mb} MB, at least {least} are needed"), 15036);
        }
        out.push((no, bytes));
    }
    Ok(out)
}

/// The disks of a plan as they will be.
pub(super) fn foresee(core: &Core, resized: &[Resized], snapshot: &mut Snapshot) {
    let au_size = u64::from(core.state.header.au_size);
    for (no, bytes) in resized {
        for disk in snapshot.disks.iter_mut().filter(|d| d.disk == DiskNo(*no)) {
            let now = core.state.disks.get(no).map_or(0, |d| d.bytes);
            disk.end = if *bytes < now { au_count(*bytes, au_size) } else { u32::MAX };
            disk.capacity = core.capacity_at(*no, *bytes);
        }
    }
}

/// The operations that begin it, with the core held.
pub(super) fn begin(core: &mut Core, resized: &[Resized]) -> Vec<Op> {
    let au_size = u64::from(core.state.header.au_size);
    let mut ops = Vec::new();
    for &(disk, bytes) in resized {
        let Some((now, shrink_to)) = core.state.disks.get(&disk).map(|d| (d.bytes, d.shrink_to))
        else {
            continue;
        };
        if bytes < now {
            core.space.limit_shrink(disk, au_count(bytes, au_size));
            ops.push(Op::DiskShrink { disk, bytes });
            continue;
        }
        // Whatever was wanted of it before: it keeps what it has.
        core.space.limit_shrink(disk, au_count(now, au_size));
        if bytes > now {
            core.space.resize(disk, au_count(bytes, au_size));
            ops.push(Op::DiskSize { disk, bytes });
        } else if shrink_to > 0 {
            ops.push(Op::DiskShrink { disk, bytes: 0 });
        }
    }
    ops
}

/// Lets the labels of disks say their names and sizes as they are now. One that is not written is
/// right after the next mount: nothing depends on it.
pub(super) async fn rewrite_labels(inner: &Inner, disks: impl Iterator<Item = u16>) {
    let patience = inner.patience();
    for no in disks {
        let state = lock(&inner.core).state.disks.get(&no).cloned();
        if let (Some(disk), Some(state)) = (inner.disk(no), state)
            && disk.is_in_sync()
        {
            // A failure is known to the disk itself.
            let _ = rewrite_label(&disk, &state, None, patience).await;
        }
    }
}

/// What a disk that shrinks is to have, if nothing of a file lies behind that.
fn wanted_end(state: &GroupState, no: u16) -> Option<u64> {
    let disk = state.disks.get(&no).filter(|d| d.shrink_to > 0)?;
    let end = au_count(disk.shrink_to, state.header.au_size.into());
    let behind = |leg: &crate::state::Leg| leg.disk == no && leg.au >= end;
    let holds = state.files.values().any(|f| f.legs.iter().any(behind));
    (disk.status == DiskStatus::Online && !holds).then_some(disk.shrink_to)
}

/// Nothing is left to move: disks from behind whose new end everything has gone end there.
pub(super) async fn finish(inner: &Arc<Inner>) -> Result<(), Error> {
    let shrinking: Vec<u16> = {
        let core = lock(&inner.core);
        let disks = core.state.disks.iter().filter(|(_, d)| d.shrink_to > 0);
        disks.map(|(no, _)| *no).collect()
    };
    let mut kept = Ok(());
    for no in shrinking {
        if wanted_end(&lock(&inner.core).state, no).is_some() {
            kept = kept.and(cut_off(inner, no).await);
        }
    }
    kept
}

/// Between two looks at what keeps a disk from ending where it should.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Checkpoints until both areas of a metadata disk have been made anew.
const CHECKPOINTS: usize = 3;

async fn cut_off(inner: &Arc<Inner>, no: u16) -> Result<(), Error> {
    let _labels = inner.labels.lock().await;
    let reaches_behind = || {
        let core = lock(&inner.core);
        let Some(bytes) = wanted_end(&core.state, no) else { return false };
        let end = au_count(bytes, inner.au_size);
        let areas = core.state.disks[&no].areas.iter();
        core.state.members.contains(&no) && areas.flatten().any(|run| run.start + run.count > end)
    };
    for _ in 0..CHECKPOINTS {
        if reaches_behind() {
            inner.checkpoint_now().await?;
        }
    }
    if reaches_behind() {
        let why = format!("disk {no} has no room for its metadata before its new end");
        return Err(Error::NoSpace { group: inner.name.clone(), wanted_mb: 0, why });
    }
    // What files gave back there is free once that is durable.
    let ticket = lock(&inner.core).newest_ticket();
    inner.wait_durable(ticket).await?;
    // Checksums of what lay there are written nowhere else any more.
    crate::data::checksum::Checksums::write_back_all(&inner.data).await?;
    let (all, told) = (Arc::clone(inner), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&told);
    let cut = inner.change_disks(move |core| {
        let Some(bytes) = wanted_end(&core.state, no) else {
            // Somebody changed his mind, or something came between: the next plan knows.
            return Ok(Vec::new());
        };
        let Some(mut ops) = areas_before(core, &all.name, no, au_count(bytes, all.au_size))? else {
            all.rebalance.request();
            return Ok(Vec::new());
        };
        core.space.resize(no, au_count(bytes, all.au_size));
        ended.store(true, Ordering::SeqCst);
        ops.push(Op::DiskSize { disk: no, bytes });
        Ok(ops)
    });
    cut.await?;
    if !told.load(Ordering::SeqCst) {
        // Somebody still reads what a file gave back there: it is not waited for at full speed.
        inner.env.sleep(TRY_AGAIN).await;
        return Ok(());
    }
    inner.data.checksums.forget_behind(no, first_checksum_behind(inner, no));
    rewrite_labels(inner, std::iter::once(no)).await;
    if let Some(disk) = inner.disk(no) {
        give_back(inner, &disk).await;
    }
    Ok(())
}

/// Moves the checkpoint areas of a disk that holds no metadata now before its new end; `None` if
/// that cannot be now: it became a metadata disk, or something is still taken there.
fn areas_before(core: &mut Core, group: &str, no: u16, end: u32) -> Result<Option<Vec<Op>>, Error> {
    let Some(areas) = core.state.disks.get(&no).map(|disk| disk.areas.clone()) else {
        return Ok(None);
    };
    let (mut ops, mut behind) = (Vec::new(), Vec::new());
    for (area, had) in (0u8..).zip(&areas) {
        let runs = runs_before(had, end);
        if runs != *had {
            behind.extend(aus_of(had).filter(|au| *au >= end));
            ops.push(Op::Area { disk: no, area, runs });
        }
    }
    let others = core.space.taken_behind(no) as usize != behind.len();
    if others || (!ops.is_empty() && core.state.members.contains(&no)) {
        return Ok(None);
    }
    let mut taken = Vec::new();
    for op in &mut ops {
        if let Op::Area { runs, .. } = op
            && aus_in(runs) == 0
        {
            // An area is never without an AU: the disk may have to take over from a member.
            let Some(au) = core.space.reserve(no) else {
                taken.into_iter().for_each(|au| core.space.unreserve(no, au));
                let why = format!("disk {no} has no room for its metadata before its new end");
                return Err(Error::NoSpace { group: group.to_owned(), wanted_mb: 0, why });
            };
            taken.push(au);
            runs.push(AuRun { start: au, count: 1 });
        }
    }
    behind.into_iter().for_each(|au| core.space.unreserve(no, au));
    Ok(Some(ops))
}

/// The first checksum block that covers nothing any more.
fn first_checksum_behind(inner: &Inner, no: u16) -> u64 {
    let core = lock(&inner.core);
    let aus = core.state.disks.get(&no).map_or(0, |d| au_count(d.bytes, inner.au_size));
    u64::from(aus.div_ceil(CHECKSUM_RUN_AUS)) * (inner.au_size / BLOCK_U64)
}

/// Tells the device that what lies behind the end of the group's part is not needed. It may not
/// care, and a failure is found by whoever needs the disk.
async fn give_back(inner: &Inner, disk: &Disk) {
    let device = disk.device();
    let size = device.geometry().size;
    let aus = {
        let core = lock(&inner.core);
        core.state.disks.get(&disk.no).map_or(u32::MAX, |d| au_count(d.bytes, inner.au_size))
    };
    // Labels stand behind the last AU, and at the end of the device.
    let first = au_offset(aus, inner.au_size) + TAIL_BYTES + inner.au_size;
    let last = label_offsets(size)[2] / inner.au_size * inner.au_size;
    let mut at = first.next_multiple_of(inner.au_size);
    while at < last {
        let length = (last - at).min(GIVE_BACK_STEP);
        if device.discard(Io::BACKGROUND, at, length, Discard::Forget).await.is_err() {
            return;
        }
        at += length;
    }
}

const GIVE_BACK_STEP: u64 = 1 << 30;
