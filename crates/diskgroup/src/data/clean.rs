//! Cleaning regions: when nobody writes to them any more, their checksums are made durable and
//! their marks taken away.
//!
//! Order: checksum blocks are written; every disk is flushed (which also makes the data of the regions
//! durable on every copy); what absent disks missed of the regions is recorded; and only then the marks
//! go. After a crash before the last step the regions are still marked, so they are resynced and count
//! as missed entirely. After it, copies are equal and checksums right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{EnvExt, Io};

use crate::base::StopOnPanic;
use crate::base::core::Core;
use crate::data::Data;
use crate::data::checksum::{Checksums, Entries};
use crate::data::dirty_log::DirtyLog;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{BLOCK_U64, REGION_BYTES};
use crate::state::{DiskState, DiskStatus, Op, Stale, stretches};

/// A region that nobody wrote to for this long is cleaned.
const IDLE: Duration = Duration::from_secs(5);
/// How often the cleaner looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Starts a round of cleaning unless one runs.
pub(crate) fn start(data: &Data) {
    data.cleaner_wanted.notify(1);
}

/// The cleaner's task, until the group is dismounted.
pub(crate) async fn run(data: Arc<Data>) {
    let _watched = StopOnPanic(&data);
    while !data.is_ending() {
        let listener = data.cleaner_wanted.listen();
        match round(&data, IDLE).await {
            // The log has no room now for what was missed: the regions stay dirty until it has. Those
            // who wait for room must not make this loop.
            Err(Error::NoSpace { .. }) => data.env.sleep(LOOK_EVERY).await,
            Ok(0) => {
                if forget_marks(&data).await.is_err() {
                    return;
                }
                let pause = data.env.sleep(LOOK_EVERY);
                futures_util::future::select(listener, pause).await;
            }
            Ok(_) => {}
            // The group has stopped, or is about to: there is nothing left to clean.
            Err(_) => return,
        }
    }
}

/// Cleared marks leave the disks with the next write of their block. When nothing is dirty any more that
/// may take long, and a crash would resync regions that are clean.
async fn forget_marks(data: &Arc<Data>) -> Result<(), Error> {
    let log = &data.dirty_log;
    if data.regions.count() > 0 || !log.is_behind() {
        return Ok(());
    }
    let ticket = log.ticket();
    DirtyLog::sync(data, ticket).await
}

/// Cleans what is due; returns how many regions were chosen.
pub(crate) async fn round(data: &Arc<Data>, idle: Duration) -> Result<usize, Error> {
    let (round, keys) = data.regions.choose_to_clean(data.env.now(), idle);
    if keys.is_empty() {
        return Ok(0);
    }
    let runs = checksum_runs(data, &keys);
    // Recorded before the flush: a disk that fails by then, or later, may have lost them. A region that
    // is written to meanwhile does not become clean.
    data.unflushed.written(data.env.now(), data.regions.touched(&keys));
    let result = async {
        Checksums::write_back(data, &runs).await?;
        data.flush_disks(Io::BACKGROUND).await?;
        missed(data, &data.regions.touched(&keys), &|_| true).await
    }
    .await;
    match result {
        Ok(()) => {
            let touched: BTreeMap<RegionKey, u64> =
                data.regions.touched(&keys).into_iter().collect();
            let (alone, keys): (Vec<_>, Vec<_>) = {
                let core = lock(&data.core);
                let pieces = |key: &RegionKey| touched.get(key).copied().unwrap_or(0);
                keys.into_iter().partition(|key| has_no_copy(data, &core, key, pieces(key)))
            };
            data.regions.held(round, &alone);
            data.regions.cleaned(&data.dirty_log, round, &keys);
            Ok(keys.len() + alone.len())
        }
        Err(error) => {
            data.regions.not_cleaned(&keys);
            Err(error)
        }
    }
}

/// Whether some pieces of a region have their only copies on disks that are away: what was last written
/// there, and its checksums, may or may not be there. The region stays dirty until they are back.
fn has_no_copy(data: &Data, core: &Core, key: &RegionKey, pieces: u64) -> bool {
    let found = core.state.files.get(&key.file);
    let Some(file) = found.filter(|f| f.incarnation == key.incarnation) else { return false };
    let here = core.state.disks.keys().filter(|disk| data.is_in_sync(**disk));
    let kept = here.fold(0, |kept, disk| kept | file.pieces_on(*disk, key.index, data.au_size));
    let written = pieces & file.pieces_of(key.index.into());
    written & !kept != 0
}

/// Regions of which missed pieces are recorded at once.
const MISSED_AT_ONCE: usize = 1024;

/// Records that disks which are away, those that `wanted` says, have missed these pieces.
pub(crate) async fn missed(
    data: &Arc<Data>,
    touched: &[(RegionKey, u64)],
    wanted: &(dyn Fn(u16) -> bool + Sync),
) -> Result<(), Error> {
    {
        let core = lock(&data.core);
        if !core.state.disks.values().any(is_mapped) {
            return Ok(());
        }
    }
    for part in touched.chunks(MISSED_AT_ONCE) {
        // From the files as they are when it is queued: one may be gone by then.
        data.change_inside_as(|core| missed_ops(core, part, wanted)).await?;
    }
    Ok(())
}

/// Refuses to wait for clean regions while the log has no room for what disks that are away missed.
pub(crate) fn check_log(data: &Data) -> Result<(), Error> {
    let mut core = lock(&data.core);
    let Some(disk) = core.state.disks.iter().find(|(_, d)| is_mapped(d)).map(|(no, _)| *no) else {
        return Ok(());
    };
    let region = RegionKey { file: 0, incarnation: 0, index: 0 };
    core.check_log_room(&data.name, &[Op::Stale { disk, region, pieces: 0 }])
}

fn is_mapped(disk: &DiskState) -> bool {
    disk.status == DiskStatus::Offline && disk.stale == Stale::Mapped
}

fn missed_ops(core: &Core, touched: &[(RegionKey, u64)], wanted: &dyn Fn(u16) -> bool) -> Vec<Op> {
    let disks = core.state.disks.iter();
    let away: Vec<u16> =
        disks.filter(|(no, d)| is_mapped(d) && wanted(**no)).map(|(no, _)| *no).collect();
    let au_size = u64::from(core.state.header.au_size);
    let mut ops = Vec::new();
    for (key, pieces) in touched.iter().filter(|_| !away.is_empty()) {
        let found = core.state.files.get(&key.file);
        let found = found.filter(|f| {
            f.incarnation == key.incarnation && u64::from(key.index) < f.regions(au_size)
        });
        // What has no other copy cannot be copied to the disk.
        let Some(file) = found.filter(|f| f.attributes.copies > 1) else { continue };
        for disk in &away {
            let on = pieces & file.pieces_on(*disk, key.index, au_size);
            let pieces = on & !file.missed_by(*disk, key.index);
            if pieces != 0 {
                ops.push(Op::Stale { disk: *disk, region: *key, pieces });
            }
        }
    }
    ops
}

/// The checksum entries of all legs under some regions.
pub(crate) fn checksum_runs(data: &Data, keys: &[RegionKey]) -> Vec<Entries> {
    let core = lock(&data.core);
    let mut runs = Vec::new();
    for key in keys {
        let Some(file) = core.state.files.get(&key.file) else {
            continue;
        };
        if file.incarnation != key.incarnation || !file.attributes.checksums {
            continue;
        }
        let start = u64::from(key.index) * REGION_BYTES;
        let end = (start + REGION_BYTES).min(file.allocated(data.au_size));
        if start >= end {
            continue;
        }
        for s in stretches(file.attributes.striping, data.au_size, start, end - start) {
            let moving = core.moving_to(key.file, s.extent);
            for leg in file.legs_of(s.extent).iter().copied().chain(moving) {
                runs.push(Entries {
                    leg,
                    first: s.au_offset / BLOCK_U64,
                    count: s.length / BLOCK_U64,
                });
            }
        }
    }
    runs
}
