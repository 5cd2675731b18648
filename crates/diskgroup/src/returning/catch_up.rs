//! Catch-up of a disk that came back: copying what it missed.
//!
//! Region by region, each missed piece is read from a copy in sync, with its range locked, and written
//! to the disk with its checksums. Then come the checksum blocks, a flush of the disk, and the record
//! that it has them. A piece that nobody ever wrote, or that is unwritten again, needs no copy.

use std::sync::Arc;

use cellar_io::Io;
use cellar_wait::Event;
use futures_util::stream::{self, StreamExt};

use crate::base::core::Core;
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::relocate::{MovePace, copy_run};
use crate::data::resync::{self, ensure_synced, runs_of, units};
use crate::data::write::{checksums_of, legs_of, written_pieces};
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::moves::throttle::Throttle;
use crate::on_disk::checksum::UNKNOWN;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{BLOCK_U64, PIECE_BYTES, REGION_BYTES, au_offset};
use crate::returning::Returning;
use crate::state::{DiskStatus, Leg, Op, Stretch, stretches};

/// Regions that are done before the disk is flushed and they are recorded.
const REGIONS_AT_ONCE: usize = 64;
/// Regions in flight at most.
const WORKERS_MAX: usize = 16;

/// Runs until the disk has everything and is in sync (true), or leaves or the group ends (false).
///
/// # Errors
/// No copy of something that it missed can be read.
pub(crate) async fn run(returning: &Arc<Returning>, disk: &Arc<Disk>) -> Result<bool, Error> {
    let (mut last, mut failure) = (None, None);
    loop {
        if !may_go_on(returning, disk) {
            return Ok(false);
        }
        let missed = next_missed(&lock(&returning.core), disk.no, last);
        let Some((end, _)) = missed.last() else {
            match (last.take(), failure.take()) {
                // Once more from the first: some may have been passed over.
                (Some(_), None) => continue,
                (_, Some(error)) => return Err(error),
                (None, None) => {}
            }
            match get_in_sync(returning, disk).await? {
                Some(done) => return Ok(done),
                None => continue,
            }
        };
        last = Some(*end);
        let wait = returning.begin(Event::MIRROR_RESYNC);
        let copied = batch(returning, disk, &missed).await;
        returning.end(wait);
        if let Err(error) = copied {
            if returning.check_running().is_err() || !may_go_on(returning, disk) {
                return Ok(false);
            }
            failure = Some(error);
        }
    }
}

fn may_go_on(returning: &Arc<Returning>, disk: &Arc<Disk>) -> bool {
    let works = !returning.is_ending() && returning.may_work();
    works && disk.is_alive() && disk.is_returning() && returning.is_current(disk)
}

/// The next regions after `last` of which a disk missed something.
fn next_missed(core: &Core, disk: u16, last: Option<RegionKey>) -> Vec<(RegionKey, u64)> {
    let first = last.map_or(0, |key| key.file);
    let mut out = Vec::new();
    for (number, file) in core.state.files.range(first..) {
        let Some(map) = file.stale.get(&disk) else { continue };
        let incarnation = file.incarnation;
        let from = match last {
            Some(key) if (key.file, key.incarnation) == (*number, incarnation) => key.index + 1,
            _ => 0,
        };
        for (index, pieces) in map.range(from..) {
            out.push((RegionKey { file: *number, incarnation, index: *index }, *pieces));
            if out.len() >= REGIONS_AT_ONCE {
                return out;
            }
        }
    }
    out
}

/// Copies what was missed of some regions, and records it.
async fn batch(
    returning: &Arc<Returning>,
    disk: &Arc<Disk>,
    missed: &[(RegionKey, u64)],
) -> Result<(), Error> {
    let workers = (returning.power_of(disk.no) as usize).clamp(1, WORKERS_MAX);
    let copies = missed.iter().copied().map(|(key, pieces)| {
        let (all, disk) = (Arc::clone(returning), Arc::clone(disk));
        // A task of its own: a write must not be left on its way when this is given up.
        let copied = async move {
            let mut copied = Copied { key, pieces: 0, sums: Vec::new() };
            let result = copy_region(&all, &disk, pieces, &mut copied).await;
            Ok((copied, result.err()))
        };
        returning.run("disk resync", copied)
    });
    let results: Vec<Result<(Copied, Option<Error>), Error>> =
        stream::iter(copies).buffer_unordered(workers).collect().await;
    let (mut good, mut failure) = (Vec::new(), None);
    for result in results {
        let (copied, error) = result?;
        good.push(copied);
        failure = failure.or(error);
    }
    let sums: Vec<Entries> = good.iter().flat_map(|copied| copied.sums.clone()).collect();
    // Once more: they may have waited long for the others, and for their checksums.
    let copied = good.iter().map(|copied| (copied.key, copied.pieces));
    returning.data.unflushed.written(returning.env.now(), copied);
    Checksums::write_back(&returning.data, &sums).await?;
    if let Err(error) = disk.flush(Io::BACKGROUND).await {
        returning.leg_failed(disk, error).await?;
        return Ok(());
    }
    returning.change_inside_as(|core| synced_ops(returning, core, disk, &good)).await?;
    for copied in &good {
        let pieces = u64::from(copied.pieces.count_ones());
        returning.tell(disk.no, pieces);
    }
    failure.map_or(Ok(()), Err)
}

/// Pieces of a region that a disk has again.
struct Copied {
    key: RegionKey,
    pieces: u64,
    sums: Vec<Entries>,
}

fn synced_ops(returning: &Returning, core: &Core, disk: &Arc<Disk>, good: &[Copied]) -> Vec<Op> {
    let state = core.state.disks.get(&disk.no);
    // A disk that failed meanwhile may lack later writes; its departure is recorded after this.
    let is_back = state.is_some_and(|d| d.status == DiskStatus::Returning);
    if !is_back || !disk.is_alive() || !returning.is_current(disk) {
        return Vec::new();
    }
    let au_size = returning.au_size;
    let of = |copied: &&Copied| {
        let file = core.state.files.get(&copied.key.file);
        file.is_some_and(|f| {
            f.incarnation == copied.key.incarnation
                && u64::from(copied.key.index) < f.regions(au_size)
        })
    };
    let good = good.iter().filter(of).filter(|copied| copied.pieces != 0);
    good.map(|c| Op::Synced { disk: disk.no, region: c.key, pieces: c.pieces }).collect()
}

async fn copy_region(
    returning: &Arc<Returning>,
    disk: &Arc<Disk>,
    missed: u64,
    copied: &mut Copied,
) -> Result<(), Error> {
    let key = copied.key;
    let file = {
        let core = lock(&returning.core);
        let found = core.state.files.get(&key.file);
        found.filter(|f| f.incarnation == key.incarnation).map(|f| returning.data.file(f))
    };
    let Some(file) = file else { return Ok(()) };
    let may = || returning.may_work();
    let throttle = Throttle::resync(&returning.moves, returning.power_of(disk.no), &may);
    for (first, count) in runs_of(missed) {
        if !throttle.go_on(u64::from(count) * PIECE_BYTES).await || !may_go_on(returning, disk) {
            return Ok(());
        }
        // Who is inside a file is waited for by who cuts or deletes it: a run is short.
        let Ok(_entered) = file.enter().await else { return Ok(()) };
        let start = u64::from(key.index) * REGION_BYTES + u64::from(first) * PIECE_BYTES;
        let length = u64::from(count) * PIECE_BYTES;
        let bits = (u64::MAX >> (64 - count)) << first;
        ensure_synced(&returning.data, &file, key, bits).await?;
        let _held = file.locks.lock(start, start + length).await;
        let written = written_pieces(&returning.data, &file, key.index) & bits;
        for (first, count) in runs_of(written) {
            let start = u64::from(key.index) * REGION_BYTES + u64::from(first) * PIECE_BYTES;
            let length = u64::from(count) * PIECE_BYTES;
            copy_pieces(returning, &file, disk, (start, length), &mut copied.sums).await?;
        }
        copied.pieces |= bits;
    }
    Ok(())
}

/// Copies a range to its place on the disk. The caller holds the range.
async fn copy_pieces(
    returning: &Arc<Returning>,
    file: &Arc<FileRuntime>,
    disk: &Arc<Disk>,
    (start, length): (u64, u64),
    sums: &mut Vec<Entries>,
) -> Result<(), Error> {
    for s in stretches(file.attributes.striping, returning.au_size, start, length) {
        // A file that was cut has nothing there any more.
        let Ok(found) = legs_of(&returning.data, file, &s) else { continue };
        for leg in found.into_iter().filter(|leg| leg.disk == disk.no) {
            match copy_run(&returning.data, file, &s, leg, disk).await {
                // Its own copy may be the one that the others lost.
                Err(error @ Error::Corrupt { .. }) => {
                    for part in units(&s, file.attributes.unit.into()) {
                        let copied = copy_run(&returning.data, file, &part, leg, disk).await;
                        if copied.is_err() && !has_it(returning, file, &part, leg, disk).await? {
                            return Err(error);
                        }
                    }
                }
                copied => copied?,
            }
            if file.attributes.checksums {
                let (first, count) = (s.au_offset / BLOCK_U64, s.length / BLOCK_U64);
                sums.push(Entries { leg, first, count });
            }
        }
    }
    Ok(())
}

/// Whether the disk itself holds the data that the disks in sync lost, as their checksums show.
async fn has_it(
    returning: &Arc<Returning>,
    file: &Arc<FileRuntime>,
    s: &Stretch,
    own: Leg,
    disk: &Arc<Disk>,
) -> Result<bool, Error> {
    let at = au_offset(own.au, returning.au_size) + s.au_offset;
    let Ok(bytes) = disk.read_at(Io::BACKGROUND, at, s.length as usize).await else {
        return Ok(false);
    };
    let sums = checksums_of(std::slice::from_ref(&bytes.freeze()));
    let mut known = false;
    for leg in legs_of(&returning.data, file, s)?.into_iter().filter(|leg| leg.disk != disk.no) {
        let Some(other) = returning.disk(leg.disk).filter(|d| d.is_in_sync()) else { continue };
        let expected = expected(&returning.data, &other, leg, s).await;
        known |= expected == sums && !sums.contains(&UNKNOWN);
        if expected != sums {
            return Ok(false);
        }
    }
    if known {
        let (first, count) = (s.au_offset / BLOCK_U64, s.length / BLOCK_U64);
        Checksums::set(&returning.data, disk, Entries { leg: own, first, count }, &sums).await;
    }
    Ok(known)
}

/// Says by an epoch that the disk has everything; `None` if it missed more meanwhile, false if it
/// left.
async fn get_in_sync(returning: &Arc<Returning>, disk: &Arc<Disk>) -> Result<Option<bool>, Error> {
    let (told, done) = futures_channel::oneshot::channel();
    let (all, own) = (Arc::clone(returning), Arc::clone(disk));
    let make = move |core: &mut Core| {
        let no = own.no;
        let left = core.state.files.values().any(|f| f.stale.contains_key(&no));
        let is_back = core.state.disks.get(&no).is_some_and(|d| d.status == DiskStatus::Returning);
        let here = is_back && own.is_alive() && all.is_current(&own);
        // Who asked is still there, or does not want to know.
        let _ = told.send(if here && left { None } else { Some(here) });
        if !here || left {
            return Ok(Vec::new());
        }
        core.space.set_online(no, true);
        // What had its only copy here was not copied: whose it is now is looked up first.
        let files = &core.state.files;
        let au_size = all.au_size;
        all.data.regions.back(|key| {
            let file = files.get(&key.file).filter(|f| f.incarnation == key.incarnation);
            let single = file.filter(|f| f.attributes.copies == 1);
            single
                .map_or(0, |f| f.pieces_on(no, key.index, au_size) & f.pieces_of(key.index.into()))
        });
        // Whoever reads it from now on finds what is right, whatever becomes of the record.
        own.caught_up();
        Ok(vec![Op::Epoch { epoch: core.state.epoch + 1 }, Op::DiskOnline { disk: no }])
    };
    match returning.change_disks(make).await {
        Ok(()) => {
            let done = done.await.unwrap_or(Some(false));
            if done == Some(true) {
                returning.env.spawn("resync", Box::pin(resync::run(Arc::clone(&returning.data))));
            }
            Ok(done)
        }
        Err(error) => Err(error),
    }
}
