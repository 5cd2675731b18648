//! The scrub of our own structures on a disk while the group is mounted: labels, superblocks, the log
//! from the newest checkpoint on, that checkpoint, and the dirty log.
//!
//! All of them are in RAM too, so what is wrong is written again from there: labels from the
//! metadata, the dirty log by its next version, everything else by a new checkpoint. They are read
//! beside whoever writes them. What is being written may be seen half-way, so it is wrong only if it
//! is still so after a while and nothing was written meanwhile.
//!
//! What a crash may leave torn without harm (the place that the next superblock or version of a dirty
//! block goes to) is no fault; it is written again, so that the newest one has a predecessor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_io::{EnvExt, Io};

use crate::data::Data;
use crate::data::dirty_log::DirtyLog;
use crate::data::scrub::Scrubbed;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::meta::chain::{Chain, History, follow};
use crate::meta::create::label_of;
use crate::meta::labels::{read_labels_within, rewrite_label, write_labels};
use crate::on_disk::Damage;
use crate::on_disk::dirty::DirtyBlock;
use crate::on_disk::label::Label;
use crate::on_disk::layout::{BLOCK, BLOCK_U64, LABEL_HEAD, LABEL_TAIL, LOG_BLOCKS, SUPERBLOCKS};
use crate::on_disk::superblock::Superblock;

/// Label slots of a disk.
const LABELS: usize = LABEL_HEAD.len() + LABEL_TAIL.len();
/// How long what looks wrong is left alone before it is looked at again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Attempts on something that is being written before it is left for the next scrub.
const LOOKS_MAX: usize = 20;

/// Looks at all of a disk, and mends what is wrong with `repair`.
///
/// # Errors
/// The group has stopped.
pub(crate) async fn disk(
    data: &Arc<Data>,
    disk: &Arc<Disk>,
    repair: bool,
) -> Result<Scrubbed, Error> {
    let mut out = Scrubbed::default();
    labels(data, disk, repair, &mut out).await;
    if !lock(&data.core).state.members.contains(&disk.no) {
        return Ok(out);
    }
    chain(data, disk, repair, &mut out).await?;
    dirty_log(data, disk, repair, &mut out).await?;
    Ok(out)
}

// --- labels ---

async fn labels(data: &Arc<Data>, disk: &Arc<Disk>, repair: bool, out: &mut Scrubbed) {
    // Nobody else writes them meanwhile.
    let _labels = data.labels.lock().await;
    let Some(bad) = bad_labels(data, disk).await else { return };
    out.bytes_read += LABELS as u64 * BLOCK_U64;
    let mut left = bad;
    if bad > 0 && repair {
        rewrite(data, disk).await;
        match bad_labels(data, disk).await {
            Some(still) => left = still.min(bad),
            // It did not take them, and has left.
            None => return,
        }
    }
    out.own(disk.no, bad, left);
}

/// How many of the four slots do not hold the newest label; `None` if the disk does not answer.
async fn bad_labels(data: &Data, disk: &Disk) -> Option<u64> {
    let request_timeout = data.request_timeout();
    let all = LABELS;
    if !disk.is_alive() || !disk.is_in_sync() {
        return None;
    }
    let Ok(scan) = read_labels_within(disk.device(), request_timeout).await else {
        return disk.is_alive().then_some(all as u64);
    };
    let own = scan.newest().filter(|label| label.disk == disk.uuid);
    let good = scan.slots.iter().filter(|(_, slot)| own.is_some() && slot.as_ref().ok() == own);
    Some((all - good.count()) as u64)
}

async fn rewrite(data: &Data, disk: &Disk) {
    let request_timeout = data.request_timeout();
    let (header, state) = {
        let core = lock(&data.core);
        let Some(state) = core.state.disks.get(&disk.no).cloned() else { return };
        (core.state.header.clone(), state)
    };
    let scan = read_labels_within(disk.device(), request_timeout).await;
    let whole = scan.ok().is_some_and(|s| s.newest().is_some_and(|l| l.disk == disk.uuid));
    // What went wrong is known to the disk itself.
    if whole {
        let _ = rewrite_label(disk, &state, None, request_timeout).await;
        return;
    }
    let mount_id = data.log_mount_id.load(Ordering::SeqCst);
    let label = Label {
        mount_ids: [mount_id, mount_id],
        ..label_of(&header, disk.no, &state, data.holds_catalog)
    };
    if let Err(error) = write_labels(disk.device(), &label, request_timeout).await {
        disk.fail(error);
        data.report_if_dead(disk);
    }
}

// --- superblocks, log, checkpoint ---

/// What is wrong with the metadata of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChainFaults {
    /// The newest superblock, its checkpoint, or the log behind it: a mount needs them.
    needed: u64,
    /// Older superblocks, which may be torn, and blocks of the ring that cannot be read.
    spare: u64,
}

/// The faults, and the blocks of the ring that cannot be read.
type ChainLook = (ChainFaults, Vec<u64>);

async fn chain(
    data: &Arc<Data>,
    disk: &Arc<Disk>,
    repair: bool,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    let Some(found) = chain_faults(data, disk, out).await? else { return Ok(()) };
    let needed = found.0.needed;
    let mut now = found;
    // Each checkpoint takes the slot and the area that the newest one does not have.
    for _ in 0..SUPERBLOCKS.len() {
        if now.0 == ChainFaults::default() || !repair {
            break;
        }
        data.checkpoint_now().await?;
        if !now.1.is_empty() {
            data.clear_log(disk.no, now.1).await?;
        }
        match chain_faults(data, disk, out).await? {
            Some(again) => now = again,
            None => return Ok(()),
        }
    }
    out.own(disk.no, needed, now.0.needed.min(needed));
    Ok(())
}

/// What is wrong, and still is after a while; `None` if the disk is no longer a member, or is never
/// quiet long enough to check.
async fn chain_faults(
    data: &Arc<Data>,
    disk: &Arc<Disk>,
    out: &mut Scrubbed,
) -> Result<Option<ChainLook>, Error> {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        data.check_running()?;
        let member = lock(&data.core).state.members.contains(&disk.no);
        if !member || !disk.is_alive() || !disk.is_in_sync() {
            return Ok(None);
        }
        let (generation, lsn) = (disk.newest_superblock(), data.log.written_lsn());
        let found = look_at_chain(data, disk, generation, lsn).await;
        out.bytes_read += LOG_BLOCKS * BLOCK_U64;
        let same = disk.newest_superblock() == generation;
        match found {
            Some(look) if look.0 == ChainFaults::default() => return Ok(Some(look)),
            Some(look) if same && last.as_ref() == Some(&look) => return Ok(Some(look)),
            Some(look) if same => last = Some(look),
            _ => last = None,
        }
        data.env.sleep(AGAIN_AFTER).await;
    }
    Ok(None)
}

/// What is wrong with the metadata of a disk whose newest superblock has that generation, and which
/// has the log at least up to `lsn`. `None` if it does not answer in time.
async fn look_at_chain(data: &Data, disk: &Disk, generation: u64, lsn: u64) -> Option<ChainLook> {
    // By the disk: one that does not answer fails, and then this ends.
    let read = |at, length| disk.read_at(Io::BACKGROUND, at, length);
    let mut faults = ChainFaults::default();
    let mut newest: Option<Superblock> = None;
    for (slot, at) in (0u64..).zip(SUPERBLOCKS) {
        let found = match read(at, BLOCK).await {
            Ok(block) => Superblock::decode(&block).map_err(Some),
            Err(_) if !disk.is_alive() => return None,
            Err(_) => Err(None),
        };
        let is_newest = slot == generation % SUPERBLOCKS.len() as u64;
        match found {
            Ok(s) if is_newest && s.generation == generation && s.disk == disk.uuid => {
                newest = Some(s);
            }
            _ if is_newest => faults.needed += 1,
            // Nothing of ours was ever written there.
            Ok(_) | Err(Some(Damage::Blank | Damage::Magic { .. } | Damage::Foreign { .. })) => {}
            Err(_) => faults.spare += 1,
        }
    }
    let Some(newest) = newest else { return Some((faults, Vec::new())) };
    let mut unreadable = Vec::new();
    match Chain::read_ring(read).await {
        Ok(ring) => {
            let history: History = follow(&ring.bytes, data.uuid, newest);
            faults.needed += u64::from(history.end.lsn < lsn);
            faults.spare += ring.unreadable.len() as u64;
            unreadable.extend(ring.unreadable.into_keys());
            let size = disk.device().geometry().size;
            let checkpoint = history.checkpoint(size, data.au_size, read);
            faults.needed += u64::from(checkpoint.await.is_err());
        }
        Err(_) if !disk.is_alive() => return None,
        Err(_) => faults.needed += 1,
    }
    Some((faults, unreadable))
}

// --- the dirty log ---

async fn dirty_log(
    data: &Arc<Data>,
    disk: &Arc<Disk>,
    repair: bool,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    let (bad, torn) = bad_dirty_blocks(data, disk, out).await?;
    if repair && !(bad.is_empty() && torn.is_empty()) {
        let all: Vec<u16> = bad.iter().chain(&torn).copied().collect();
        DirtyLog::rewrite(data, &all).await?;
    }
    let left = match repair && !bad.is_empty() {
        true => bad_dirty_blocks(data, disk, out).await?.0,
        false => bad.clone(),
    };
    if disk.is_alive() && disk.is_in_sync() {
        out.own(disk.no, bad.len() as u64, left.len().min(bad.len()) as u64);
    }
    Ok(())
}

/// The blocks whose newest version is not what was written, and those whose older one is damaged.
async fn bad_dirty_blocks(
    data: &Arc<Data>,
    disk: &Disk,
    out: &mut Scrubbed,
) -> Result<(Vec<u16>, Vec<u16>), Error> {
    let (mut bad, mut torn) = (Vec::new(), Vec::new());
    for number in data.dirty_log.written() {
        let mut last = None;
        for _ in 0..LOOKS_MAX {
            data.check_running()?;
            if !disk.is_alive() || !disk.is_in_sync() {
                return Ok((bad, torn));
            }
            let Some(generation) = data.dirty_log.generation(number) else {
                data.env.sleep(AGAIN_AFTER).await;
                continue;
            };
            let found = look_at_dirty(data, disk, number, generation).await;
            out.bytes_read += 2 * BLOCK_U64;
            let same = data.dirty_log.generation(number) == Some(generation);
            if !lock(&data.core).state.members.contains(&disk.no) {
                // It has got no version since it left the set.
                return Ok((Vec::new(), Vec::new()));
            }
            if found == (false, false) || (same && last == Some(found)) {
                bad.extend(found.0.then_some(number));
                torn.extend((found.1 && !found.0).then_some(number));
                break;
            }
            last = same.then_some(found);
            data.env.sleep(AGAIN_AFTER).await;
        }
    }
    Ok((bad, torn))
}

/// Whether the place of that generation does not hold it, and whether the other place is damaged.
async fn look_at_dirty(data: &Data, disk: &Disk, number: u16, generation: u64) -> (bool, bool) {
    let of = |generation| {
        let place = DirtyBlock { number, generation, mount_id: 0, entries: Vec::new() }.offset();
        async move {
            let block = disk.read_at(Io::BACKGROUND, place, BLOCK).await.map_err(|_| None)?;
            DirtyBlock::decode(&block, data.uuid, number).map_err(Some)
        }
    };
    let newest = of(generation).await;
    let is_bad = !newest.is_ok_and(|block| block.generation == generation);
    let nothing = |damage: &Option<Damage>| {
        matches!(damage, Some(Damage::Blank | Damage::Magic { .. } | Damage::Foreign { .. }))
    };
    let is_torn = of(generation + 1).await.is_err_and(|damage| !nothing(&damage));
    (is_bad, is_torn)
}
