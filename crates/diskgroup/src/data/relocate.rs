//! Online move of one copy of an extent to another AU, while the file is used.
//!
//! 1. The new place is allocated and announced: from then on every write goes there too. 2. Part by
//!    part, with its range locked, everything ever written is copied from a copy whose checksums are
//!    right. 3. The checksum blocks of the new place and its disk are flushed. 4. One record says that
//!    the copy lies there. 5. The old place is freed when everyone who may have looked it up has left.
//!
//! After a crash before 4 nothing names the new place; after 4 nothing names the old one.

use std::sync::Arc;

use cellar_io::{Durability, Io};

use crate::base::core::{Core, Moving};
use crate::data::Data;
use crate::data::access::Access;
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::resync::{ensure_synced, make_known};
use crate::data::write::{checksums_of, pieces_of, written_pieces};
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::checksum::UNKNOWN;
use crate::on_disk::layout::{
    BLOCK_U64, FINE_CHUNK_BYTES, FINE_WIDTH, PIECE_BYTES, PIECES_PER_REGION, REGION_BYTES,
    au_offset,
};
use crate::space::plan::Move;
use crate::state::{DiskState, DiskStatus, Leg, Op, Stretch, Striping};

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The copy lies in its new place.
    Done,
    /// The file, the extent or a disk is not what it was when the move was planned.
    Obsolete,
    /// Another move must come first: there is no free AU there yet, or a sibling is in the way.
    NotYet,
    /// Told to stop on the way; nothing has changed.
    Stopped,
}

/// The control of a move: how fast it goes, and whether it continues.
pub(crate) trait MovePace: Send + Sync {
    /// Bytes to be copied at once: a multiple of 64 KiB that divides an AU.
    fn step(&self) -> u64;

    /// Called before each step, with the bytes that it copies; false gives the move up.
    fn go_on(&self, bytes: u64) -> impl Future<Output = bool> + Send;

    /// All is copied: only making it durable is left.
    fn copied(&self);
}

/// A move under way: what it moves, and from where.
struct Claim {
    data: Arc<Data>,
    key: (u32, u32),
    moving: Moving,
    from: Leg,
}

/// Moves one copy, to its end or not at all.
pub(crate) async fn relocate(
    data: &Arc<Data>,
    wanted: &Move,
    throttle: &impl MovePace,
) -> Result<Moved, Error> {
    let (file, claim) = {
        let mut core = lock(&data.core);
        data.check_writable()?;
        match claim(data, &mut core, wanted) {
            Ok(claimed) => claimed,
            Err(why) => return Ok(why),
        }
    };
    let copied = copy_all(data, &file, &claim, throttle).await;
    let switched = match copied {
        Ok(Moved::Done) => switch(data, &file, &claim).await,
        other => other,
    };
    let given_up = match &switched {
        Ok(Moved::Done) => claim.from,
        _ => {
            let mut core = lock(&data.core);
            if core.moving.get(&claim.key) == Some(&claim.moving) {
                core.moving.remove(&claim.key);
            }
            claim.moving.to
        }
    };
    data.check_running()?;
    // Whoever looked up the old place is in the file; newcomers do not see it.
    file.turn_over().await;
    lock(&data.core).space.free(given_up);
    switched
}

/// Checks a move against what is, and takes the new place.
fn claim(
    data: &Arc<Data>,
    core: &mut Core,
    wanted: &Move,
) -> Result<(Arc<FileRuntime>, Claim), Moved> {
    let to_disk = wanted.to.0;
    let file = core.state.files.get(&wanted.file).ok_or(Moved::Obsolete)?;
    let same = file.incarnation == wanted.incarnation
        && u64::from(wanted.extent) < file.extents()
        && wanted.leg < file.attributes.copies;
    let target = core.state.disks.get(&to_disk).ok_or(Moved::Obsolete)?;
    if !same || !core.state.takes_extents(to_disk) || !data.is_in_sync(to_disk) {
        return Err(Moved::Obsolete);
    }
    let legs = file.legs_of(wanted.extent.into());
    let from = legs[usize::from(wanted.leg)];
    if wanted.from.is_some_and(|disk| disk.0 != from.disk) {
        return Err(Moved::Obsolete);
    }
    let key = (wanted.file, wanted.extent);
    let beside = (0u8..).zip(legs).filter(|(leg, _)| *leg != wanted.leg);
    // A copy on a lost disk does not count, and is itself about to go.
    let counts = |d: &&DiskState| d.status != DiskStatus::Forcing;
    let group_of = |disk: u16| core.state.disks.get(&disk).filter(counts).map(|d| &d.failgroup);
    let mut groups = beside.map(|(_, leg)| group_of(leg.disk));
    if core.moving.contains_key(&key) || groups.any(|group| group == Some(&target.failgroup)) {
        return Err(Moved::NotYet);
    }
    let runtime = data.file(file);
    let to = core.space.take_on(to_disk).ok_or(Moved::NotYet)?;
    let moving = Moving { incarnation: wanted.incarnation, leg: wanted.leg, to };
    core.moving.insert(key, moving);
    Ok((runtime, Claim { data: Arc::clone(data), key, moving, from }))
}

impl Claim {
    /// Whether the extent and the new place are still what they were.
    fn holds(&self, core: &Core) -> bool {
        let to = self.moving.to.disk;
        // A disk that has failed and is about to leave is no place to move to: the check whether
        // everything survives its departure may already have been made.
        let good = self.data.disk(to).is_some_and(|d| d.is_in_sync() && d.is_alive());
        good && core.state.takes_extents(to) && core.moving.get(&self.key) == Some(&self.moving)
    }
}

/// Where an extent set's bytes are in the file, in steps.
pub(crate) fn parts_of(
    striping: Striping,
    au_size: u64,
    extent: u64,
    step: u64,
) -> impl Iterator<Item = Stretch> + Send {
    let step = match striping {
        Striping::Coarse => step.min(au_size),
        Striping::Fine => FINE_CHUNK_BYTES,
    };
    (0..au_size / step).map(move |i| {
        let offset = match striping {
            Striping::Coarse => extent * au_size + i * step,
            Striping::Fine => {
                let stripe = extent / FINE_WIDTH * au_size * FINE_WIDTH;
                stripe + (i * FINE_WIDTH + extent % FINE_WIDTH) * FINE_CHUNK_BYTES
            }
        };
        Stretch { extent, au_offset: i * step, offset, length: step }
    })
}

async fn copy_all(
    data: &Arc<Data>,
    file: &Arc<FileRuntime>,
    claim: &Claim,
    throttle: &impl MovePace,
) -> Result<Moved, Error> {
    let extent = claim.key.1.into();
    for part in parts_of(file.attributes.striping, data.au_size, extent, throttle.step()) {
        if !throttle.go_on(part.length).await {
            return Ok(Moved::Stopped);
        }
        // Whoever cuts or deletes a file waits for those inside it: a step is short.
        let Ok(_entered) = file.enter().await else {
            return Ok(Moved::Obsolete);
        };
        for (region, pieces) in pieces_of(part.offset, part.offset + part.length) {
            ensure_synced(data, file, file.key(region), pieces).await?;
        }
        let _held = file.locks.lock(part.offset, part.offset + part.length).await;
        if !claim.holds(&lock(&data.core)) {
            return Ok(Moved::Obsolete);
        }
        let Some(disk) = data.disk(claim.moving.to.disk) else {
            return Ok(Moved::Obsolete);
        };
        for run in written_runs(data, file, &part) {
            copy_run(data, file, &run, claim.moving.to, &disk).await?;
        }
    }
    throttle.copied();
    Ok(Moved::Done)
}

/// The parts of a stretch that hold data.
pub(crate) fn written_runs(data: &Data, file: &FileRuntime, s: &Stretch) -> Vec<Stretch> {
    let mut runs: Vec<Stretch> = Vec::new();
    for at in (0..s.length).step_by(PIECE_BYTES as usize) {
        let offset = s.offset + at;
        let bit = offset / PIECE_BYTES % PIECES_PER_REGION;
        let written = written_pieces(data, file, (offset / REGION_BYTES) as u32);
        if written >> bit & 1 == 0 {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.offset + run.length == offset => run.length += PIECE_BYTES,
            _ => runs.push(Stretch {
                extent: s.extent,
                au_offset: s.au_offset + at,
                offset,
                length: PIECE_BYTES,
            }),
        }
    }
    runs
}

/// Copies a run to its new place. The caller holds its range.
pub(crate) async fn copy_run(
    data: &Arc<Data>,
    file: &Arc<FileRuntime>,
    run: &Stretch,
    to: Leg,
    disk: &Arc<Disk>,
) -> Result<(), Error> {
    if file.attributes.checksums && has_unknown(data, file, run).await {
        // What one copy knows must be asked before another copy is trusted.
        make_known(data, file, Io::BACKGROUND, run).await?;
    }
    let bytes = Access::new(data, file, Io::BACKGROUND).read_any_copy(run).await?.freeze();
    if file.attributes.checksums {
        let sums = checksums_of(std::slice::from_ref(&bytes));
        let (first, count) = (run.au_offset / BLOCK_U64, run.length / BLOCK_U64);
        Checksums::set(data, disk, Entries { leg: to, first, count }, &sums).await;
    }
    data.unflushed.copied(data.env.now(), file, run);
    let at = au_offset(to.au, data.au_size) + run.au_offset;
    match disk.write(Io::BACKGROUND, at, vec![bytes], Durability::Cached).await {
        Ok(()) => Ok(()),
        // It leaves the group; that the move is obsolete is seen at its next step.
        Err(error) => data.leg_failed(disk, error).await,
    }
}

async fn has_unknown(data: &Arc<Data>, file: &FileRuntime, run: &Stretch) -> bool {
    let Ok(legs) = crate::data::write::legs_of(data, file, run) else {
        return false;
    };
    for leg in legs {
        let Some(disk) = data.disk(leg.disk).filter(|d| d.is_in_sync()) else {
            continue;
        };
        if expected(data, &disk, leg, run).await.contains(&UNKNOWN) {
            return true;
        }
    }
    false
}

/// Makes the new place durable, then says that the copy lies there.
async fn switch(data: &Arc<Data>, file: &Arc<FileRuntime>, claim: &Claim) -> Result<Moved, Error> {
    let to = claim.moving.to;
    for s in parts_of(file.attributes.striping, data.au_size, claim.key.1.into(), REGION_BYTES) {
        data.unflushed.copied(data.env.now(), file, &s);
    }
    if file.attributes.checksums {
        let all = Entries { leg: to, first: 0, count: data.au_size / BLOCK_U64 };
        Checksums::write_back(data, &[all]).await?;
    }
    let Some(disk) = data.disk(to.disk) else {
        return Ok(Moved::Obsolete);
    };
    if let Err(error) = disk.flush(Io::BACKGROUND).await {
        data.leg_failed(&disk, error).await?;
        return Ok(Moved::Obsolete);
    }
    data.wait_for_room().await?;
    let ticket = {
        let mut core = lock(&data.core);
        data.check_writable()?;
        if !claim.holds(&core) {
            return Ok(Moved::Obsolete);
        }
        let (number, extent) = claim.key;
        let Moving { incarnation, leg, to } = claim.moving;
        let ops = [Op::FileMove { number, incarnation, extent, leg, to }];
        core.check_log_room(&data.name, &ops)?;
        let legs_now =
            |core: &Core| -> Vec<Leg> { core.state.files[&number].legs_of(extent.into()).to_vec() };
        let before = legs_now(&core);
        let ticket = data.enqueue(&mut core, &ops)?;
        let after = legs_now(&core);
        core.moving.remove(&claim.key);
        core.space.moved(number, &before, &after);
        ticket
    };
    data.log.wanted.notify(1);
    data.wait_durable(ticket).await?;
    Ok(Moved::Done)
}
