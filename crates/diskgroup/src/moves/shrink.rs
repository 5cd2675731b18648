//! The end of a shrinking disk: when nothing lies behind its new end any more, it ends there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_io::{Discard, EnvExt, Io};

use crate::base::Base;
use crate::base::core::Core;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::meta::labels::{label_offsets, rewrite_label};
use crate::moves::rebalance::Rebalance;
use crate::on_disk::layout::{BLOCK_U64, CHECKSUM_RUN_AUS, TAIL_BYTES, au_count, au_offset};
use crate::on_disk::superblock::{AuRun, aus_in, aus_of, runs_before};
use crate::state::{DiskStatus, GroupState, Op};

/// Updates the labels of disks to their current names and sizes. A label that is not written is
/// corrected by the next mount: nothing depends on it.
pub(crate) async fn rewrite_labels(base: &Base, disks: impl Iterator<Item = u16>) {
    let request_timeout = base.request_timeout();
    for no in disks {
        let state = lock(&base.core).state.disks.get(&no).cloned();
        if let (Some(disk), Some(state)) = (base.disk(no), state)
            && disk.is_in_sync()
        {
            // A failure is known to the disk itself.
            let _ = rewrite_label(&disk, &state, None, request_timeout).await;
        }
    }
}

/// The new size of a shrinking disk, if no file has anything past it.
fn wanted_end(state: &GroupState, no: u16) -> Option<u64> {
    let disk = state.disks.get(&no).filter(|d| d.shrink_to > 0)?;
    let end = au_count(disk.shrink_to, state.header.au_size.into());
    let behind = |leg: &crate::state::Leg| leg.disk == no && leg.au >= end;
    let holds = state.files.values().any(|f| f.legs.iter().any(behind));
    (disk.status == DiskStatus::Online && !holds).then_some(disk.shrink_to)
}

/// Nothing is left to move: shrinking disks that are empty past their new end end there.
pub(crate) async fn finish(moves: &Arc<Rebalance>) -> Result<(), Error> {
    let shrinking: Vec<u16> = {
        let core = lock(&moves.core);
        let disks = core.state.disks.iter().filter(|(_, d)| d.shrink_to > 0);
        disks.map(|(no, _)| *no).collect()
    };
    let mut kept = Ok(());
    for no in shrinking {
        if wanted_end(&lock(&moves.core).state, no).is_some() {
            kept = kept.and(cut_off(moves, no).await);
        }
    }
    kept
}

/// Between two looks at what keeps a disk from ending where it should.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Checkpoints until both areas of a metadata disk have been made anew.
const CHECKPOINTS: usize = 3;

async fn cut_off(moves: &Arc<Rebalance>, no: u16) -> Result<(), Error> {
    let _labels = moves.labels.lock().await;
    let reaches_behind = || {
        let core = lock(&moves.core);
        let Some(bytes) = wanted_end(&core.state, no) else { return false };
        let end = au_count(bytes, moves.au_size);
        let areas = core.state.disks[&no].areas.iter();
        core.state.members.contains(&no) && areas.flatten().any(|run| run.start + run.count > end)
    };
    for _ in 0..CHECKPOINTS {
        if reaches_behind() {
            moves.checkpoint_now().await?;
        }
    }
    if reaches_behind() {
        let why = format!("disk {no} has no room for its metadata before its new end");
        return Err(Error::NoSpace { group: moves.name.clone(), wanted_mb: 0, why });
    }
    // What files freed there can be reused once that is durable.
    let ticket = lock(&moves.core).newest_ticket();
    moves.wait_durable(ticket).await?;
    // Checksums of what lay there are written nowhere else any more.
    crate::data::checksum::Checksums::write_back_all(&moves.data).await?;
    let (all, told) = (Arc::clone(moves), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&told);
    let cut = moves.change_disks(move |core| {
        let Some(bytes) = wanted_end(&core.state, no) else {
            // The request was cancelled, or something intervened: the next plan knows.
            return Ok(Vec::new());
        };
        let Some(mut ops) = areas_before(core, &all.name, no, au_count(bytes, all.au_size))? else {
            all.request();
            return Ok(Vec::new());
        };
        core.space.resize(no, au_count(bytes, all.au_size));
        ended.store(true, Ordering::SeqCst);
        ops.push(Op::DiskSize { disk: no, bytes });
        Ok(ops)
    });
    cut.await?;
    if !told.load(Ordering::SeqCst) {
        // Somebody still reads what a file freed there: this does not wait for it at full speed.
        moves.env.sleep(TRY_AGAIN).await;
        return Ok(());
    }
    moves.data.checksums.forget_behind(no, first_checksum_behind(moves, no));
    rewrite_labels(moves, std::iter::once(no)).await;
    if let Some(disk) = moves.disk(no) {
        give_back(moves, &disk).await;
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
fn first_checksum_behind(base: &Base, no: u16) -> u64 {
    let core = lock(&base.core);
    let aus = core.state.disks.get(&no).map_or(0, |d| au_count(d.bytes, base.au_size));
    u64::from(aus.div_ceil(CHECKSUM_RUN_AUS)) * (base.au_size / BLOCK_U64)
}

/// Tells the device that the part past the group's end is not needed. The device may ignore that,
/// and whoever next needs the disk finds a failure.
async fn give_back(base: &Base, disk: &Disk) {
    let device = disk.device();
    let size = device.geometry().size;
    let aus = {
        let core = lock(&base.core);
        core.state.disks.get(&disk.no).map_or(u32::MAX, |d| au_count(d.bytes, base.au_size))
    };
    // Labels stand behind the last AU, and at the end of the device.
    let first = au_offset(aus, base.au_size) + TAIL_BYTES + base.au_size;
    let last = label_offsets(size)[2] / base.au_size * base.au_size;
    let mut at = first.next_multiple_of(base.au_size);
    while at < last {
        let length = (last - at).min(GIVE_BACK_STEP);
        if device.discard(Io::BACKGROUND, at, length, Discard::Forget).await.is_err() {
            return;
        }
        at += length;
    }
}

const GIVE_BACK_STEP: u64 = 1 << 30;
