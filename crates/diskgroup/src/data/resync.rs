//! Resync after a crash: the copies of dirty regions are made equal again, piece by piece.
//!
//! Whoever reads or overwrites a piece that is not done yet resyncs it first, so two reads never differ. Within a
//! piece each unit is taken whole from one copy: one that matches its stored checksums, else one whose checksums are
//! not known, else the one on the lowest-numbered disk. Any of these is right: a write that was not acknowledged, or
//! not flushed, may be there or not. But a copy that contradicts its own checksums may have rotted.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{Buffer, Durability, Io, IoError};
use cellar_wait::Event;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::base::StopOnPanic;
use crate::data::Data;
use crate::data::arbitrate::{UnitCopy, decide};
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::write::{checksums_of, legs_of, written_pieces};
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::checksum::{UNKNOWN, checksum_of};
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{BLOCK, BLOCK_U64, PIECE_BYTES, REGION_BYTES, au_offset};
use crate::state::{Leg, Stretch, stretches};

/// Pieces that are done together: enough to make a disk work as in a scan, few enough that a write to one of them does
/// not wait long for the others.
const RUN_PIECES: u32 = 8;
/// Regions that the background task has under way at once: the next one begins before the last
/// pieces of the one before are done.
const REGIONS_AT_ONCE: usize = 2;

/// Cuts pieces into runs `(first, count)` of neighbours.
pub(crate) fn runs_of(pieces: u64) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros();
        let count = (rest >> first).trailing_ones().min(RUN_PIECES);
        rest &= !mask(first, count);
        Some((first, count))
    })
}

fn mask(first: u32, count: u32) -> u64 {
    (u64::MAX >> (64 - count)) << first
}

/// Makes those of `pieces` equal that are not yet.
pub(crate) async fn ensure_synced(
    data: &Arc<Data>,
    file: &FileRuntime,
    key: RegionKey,
    pieces: u64,
) -> Result<(), Error> {
    let todo = data.regions.to_sync(&key) & pieces;
    if todo == 0 {
        return Ok(());
    }
    let wait = data.begin(Event::MIRROR_RESYNC_REGION);
    // A task of its own: a caller that goes away must not release the range while it is written.
    let (all, file) = (Arc::clone(data), file.stay());
    let task = async move {
        for run in runs_of(todo) {
            sync_run(&all, &file, Io::FOREGROUND, key, run).await?;
        }
        Ok(())
    };
    let result = Box::pin(data.run("resync", task)).await;
    data.end(wait);
    result
}

/// The background task: every dirty region found at the mount, then it ends.
pub(crate) async fn run(data: Arc<Data>) {
    let _watched = StopOnPanic(&data);
    let mut running = FuturesUnordered::new();
    let mut last = None;
    let mut failed = false;
    loop {
        while running.len() < REGIONS_AT_ONCE && !failed && !data.is_ending() {
            let Some((key, pieces)) = data.regions.next_to_sync(last) else { break };
            last = Some(key);
            running.push(sync_region(&data, key, pieces));
        }
        match running.next().await {
            // The others run to their end: their writes may still be in flight.
            Some(result) => failed |= result.is_err(),
            // Once more from the first, in case one was passed over.
            None if last.take().is_some() && !failed && !data.is_ending() => {}
            None => return,
        }
    }
}

/// The task that gives back checksums to pieces that lost them, until the group is dismounted.
pub(crate) async fn run_rebuild(data: Arc<Data>) {
    let _watched = StopOnPanic(&data);
    while !data.is_ending() {
        let listener = data.unknown.found.listen();
        if rebuild(&data).await.is_err() {
            return;
        }
        if !data.is_ending() {
            listener.await;
        }
    }
}

/// Compares the copies of pieces without checksums, makes them equal if they are not, and
/// remembers their checksums.
pub(crate) async fn rebuild(data: &Arc<Data>) -> Result<(), Error> {
    while let Some((key, pieces)) = data.unknown.take() {
        let file = {
            let core = lock(&data.core);
            let found = core.state.files.get(&key.file);
            found.filter(|f| f.incarnation == key.incarnation).map(|f| data.file(f))
        };
        let Some(file) = file else { continue };
        for bit in (0..64u32).filter(|bit| pieces >> bit & 1 == 1) {
            // Deleted meanwhile: nothing is left to do.
            let Ok(_entered) = file.enter().await else {
                break;
            };
            let start = u64::from(key.index) * REGION_BYTES + u64::from(bit) * PIECE_BYTES;
            let _held = file.locks.lock(start, start + PIECE_BYTES).await;
            let to_sync = data.regions.to_sync(&key) >> bit & 1 == 1;
            let written = written_pieces(data, &file, key.index) >> bit & 1 == 1;
            // Resync does the same to what it has before it.
            if written && !to_sync && !data.read_only {
                for s in stretches(file.attributes.striping, data.au_size, start, PIECE_BYTES) {
                    make_known(data, &file, Io::BACKGROUND, &s).await?;
                }
            }
        }
    }
    Ok(())
}

async fn sync_region(data: &Arc<Data>, key: RegionKey, pieces: u64) -> Result<(), Error> {
    let file = {
        let core = lock(&data.core);
        let found = core.state.files.get(&key.file);
        found.filter(|f| f.incarnation == key.incarnation).map(|f| data.file(f))
    };
    let Some(file) = file else {
        data.regions.forget(&data.dirty_log, key.file, key.incarnation, 0);
        return Ok(());
    };
    let _entered = match file.enter().await {
        Ok(entered) => entered,
        // Deleted meanwhile; its regions went with it.
        Err(_) => return Ok(()),
    };
    let wait = data.begin(Event::MIRROR_RESYNC);
    let runs = runs_of(pieces).map(|run| sync_run(data, &file, Io::BACKGROUND, key, run));
    // All of them to their end: one that was dropped could still have a write on its way.
    let results = join_all(runs).await;
    data.end(wait);
    results.into_iter().collect()
}

/// Makes a run of pieces equal, as far as they are not.
async fn sync_run(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    key: RegionKey,
    (first, count): (u32, u32),
) -> Result<(), Error> {
    if data.regions.to_sync(&key) & mask(first, count) == 0 {
        return Ok(());
    }
    let place = |bit: u32| u64::from(key.index) * REGION_BYTES + u64::from(bit) * PIECE_BYTES;
    let _held = file.locks.lock(place(first), place(first + count)).await;
    let todo = data.regions.to_sync(&key) & mask(first, count);
    if todo == 0 {
        return Ok(());
    }
    if !data.read_only {
        for (first, count) in runs_of(todo & written_pieces(data, file, key.index)) {
            let length = u64::from(count) * PIECE_BYTES;
            for s in stretches(file.attributes.striping, data.au_size, place(first), length) {
                make_equal(data, file, io, &s).await?;
            }
        }
    }
    // A mount that may not write makes nothing equal: each read chooses anew.
    if !data.read_only {
        data.regions.synced(&key, todo);
    }
    Ok(())
}

/// What a resync would make of a stretch, in RAM only: for a mount that may not write.
pub(crate) async fn read_as_synced(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
) -> Result<Bytes, Error> {
    // Whole units, as a resync takes them; a unit never leaves its extent.
    let unit = u64::from(file.attributes.unit);
    let before = s.offset % unit;
    let length = (before + s.length).next_multiple_of(unit);
    let whole = Stretch {
        extent: s.extent,
        au_offset: s.au_offset - before,
        offset: s.offset - before,
        length,
    };
    let mut copies = read_copies(data, file, io, &whole).await?;
    if whole.length > unit && (data.strict || is_in_part(&copies)) {
        let mut joined = Vec::with_capacity(whole.length as usize);
        for part in units(&whole, unit) {
            joined.extend_from_slice(&Box::pin(read_as_synced(data, file, io, &part)).await?);
        }
        return Ok(Bytes::from(joined).slice(before as usize..(before + s.length) as usize));
    }
    if data.strict && file.attributes.checksums {
        for copy in &mut copies {
            let known = expected(data, &copy.disk, copy.leg, &whole).await;
            let is_wrong = |bytes: &Bytes| {
                let blocks = bytes.chunks(BLOCK).zip(&known);
                blocks.into_iter().any(|(b, w)| *w != UNKNOWN && checksum_of(b) != *w)
            };
            copy.bytes = copy.bytes.take().filter(|bytes| !is_wrong(bytes));
        }
    }
    if copies.iter().all(|c| c.bytes.is_none()) {
        return Err(Error::NoCopy { file: file.number, offset: s.offset });
    }
    let chosen = choose(data, file, &whole, &copies).await;
    Ok(chosen.slice(before as usize..(before + s.length) as usize))
}

/// Whether a disk that is there could not read the whole stretch: perhaps it can read most of it.
pub(crate) fn is_in_part(copies: &[Copy]) -> bool {
    copies.iter().any(|c| c.bytes.is_none() && c.disk.is_alive())
}

/// The units of a stretch that begins and ends with one.
pub(crate) fn units(s: &Stretch, unit: u64) -> impl Iterator<Item = Stretch> {
    (0..s.length).step_by(unit as usize).map(move |at| Stretch {
        extent: s.extent,
        au_offset: s.au_offset + at,
        offset: s.offset + at,
        length: unit.min(s.length - at),
    })
}

/// One copy of a stretch as read; `None` where it could not be read.
#[derive(Clone)]
pub(crate) struct Copy {
    pub disk: Arc<Disk>,
    pub leg: Leg,
    pub bytes: Option<Bytes>,
}

/// Reads the copies of a stretch that are in sync, the lowest disk first, older images last.
pub(crate) async fn read_copies(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
) -> Result<Vec<Copy>, Error> {
    let mut legs = legs_of(data, file, s)?;
    legs.sort_by_key(|l| l.disk);
    let here = legs.into_iter().filter_map(|leg| {
        let disk = data.disk(leg.disk)?;
        (disk.is_in_sync() && disk.is_alive()).then_some((disk, leg))
    });
    let reads = here.map(|(disk, leg)| async move {
        let at = au_offset(leg.au, data.au_size) + s.au_offset;
        let bytes = disk.read_at(io, at, s.length as usize).await.ok().map(Buffer::freeze);
        Copy { disk, leg, bytes }
    });
    let mut copies = join_all(reads).await;
    copies.sort_by_key(|copy| copy.disk.is_aged());
    Ok(copies)
}

async fn make_equal(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
) -> Result<(), Error> {
    let copies = read_copies(data, file, io, s).await?;
    let unit = u64::from(file.attributes.unit);
    if s.length > unit && is_in_part(&copies) {
        // One bad sector must not decide for its neighbours.
        for part in units(s, unit) {
            Box::pin(make_equal(data, file, io, &part)).await?;
        }
        return Ok(());
    }
    if copies.iter().all(|c| c.bytes.is_none()) {
        // Nothing to agree on: a read will report what is wrong. Earlier knowledge is from before the crash, and no
        // longer holds.
        for copy in copies.iter().filter(|_| file.attributes.checksums) {
            let (first, count) = (s.au_offset / BLOCK_U64, s.length / BLOCK_U64);
            let entries = Entries { leg: copy.leg, first, count };
            Checksums::set(data, &copy.disk, entries, &vec![UNKNOWN; count as usize]).await;
        }
        return Ok(());
    }
    let chosen = choose(data, file, s, &copies).await;
    spread(data, file, io, s, &copies, &chosen).await
}

/// Restores checksums to a stretch outside dirty regions, where the copies should be equal and the knowledge of one
/// copy holds for the others. A unit of which nobody can tell what is right is left alone: rot, or the result of a
/// lost write, must not get a valid checksum.
pub(crate) async fn make_known(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
) -> Result<(), Error> {
    let copies = read_copies(data, file, io, s).await?;
    let mut known: Vec<Vec<u32>> = Vec::new();
    for copy in &copies {
        known.push(expected(data, &copy.disk, copy.leg, s).await);
    }
    for part in units(s, file.attributes.unit.into()) {
        let told = decide(&unit_copies(s, &part, &copies, &known));
        let Some(right) = told.right else { continue };
        let of_part: Vec<Copy> = copies.iter().map(|copy| copy.part(s, &part)).collect();
        spread(data, file, io, &part, &of_part, &right).await?;
    }
    Ok(())
}

impl Copy {
    /// Of a copy of `whole`, what it holds of `part`.
    pub fn part(&self, whole: &Stretch, part: &Stretch) -> Copy {
        let start = (part.offset - whole.offset) as usize;
        let range = start..start + part.length as usize;
        Copy { bytes: self.bytes.as_ref().map(|bytes| bytes.slice(range)), ..self.clone() }
    }
}

/// The copies of one unit of a stretch, with the checksums of the stretch.
pub(crate) fn unit_copies(
    s: &Stretch,
    part: &Stretch,
    copies: &[Copy],
    sums: &[Vec<u32>],
) -> Vec<UnitCopy> {
    let start = (part.offset - s.offset) as usize;
    let blocks = start / BLOCK..(start + part.length as usize).div_ceil(BLOCK);
    let of = |(copy, sums): (&Copy, &Vec<u32>)| UnitCopy {
        bytes: copy.part(s, part).bytes,
        sums: sums[blocks.clone()].to_vec(),
    };
    copies.iter().zip(sums).map(of).collect()
}

/// Writes what was chosen to the copies that do not have it, with its checksums.
pub(crate) async fn spread(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
    copies: &[Copy],
    chosen: &Bytes,
) -> Result<(), Error> {
    let sums = match file.attributes.checksums {
        true => checksums_of(std::slice::from_ref(chosen)),
        false => Vec::new(),
    };
    let mut changed = Vec::new();
    data.unflushed.copied(data.env.now(), file, s);
    for copy in copies {
        if copy.bytes.as_ref() != Some(chosen) {
            changed.push(&copy.disk);
            let at = au_offset(copy.leg.au, data.au_size) + s.au_offset;
            let runs = differing(copy.bytes.as_deref(), chosen, data.written_at_once() as usize);
            let writes = runs.into_iter().map(|run| {
                let place = at + run.start as u64;
                copy.disk.write(io, place, vec![chosen.slice(run)], Durability::Cached)
            });
            let written: Result<(), IoError> = join_all(writes).await.into_iter().collect();
            if let Err(error) = written {
                data.leg_failed(&copy.disk, error).await?;
                continue;
            }
        }
        if file.attributes.checksums && expected(data, &copy.disk, copy.leg, s).await != sums {
            let (first, count) = (s.au_offset / BLOCK_U64, s.length / BLOCK_U64);
            let entries = Entries { leg: copy.leg, first, count };
            Checksums::set(data, &copy.disk, entries, &sums).await;
        }
    }
    // Once somebody has read the chosen data it must stay, even if the copy that had it is lost together with the
    // power.
    for disk in changed {
        if let Err(error) = disk.flush(io).await {
            data.leg_failed(disk, error).await?;
        }
    }
    Ok(())
}

/// Where a copy differs from the chosen data, in runs of the unit that the disks write at once. Correct data is not
/// rewritten: a power cut may leave rubbish in any sector being written, and nobody could tell rubbish from the chosen
/// data if that is lost too.
fn differing(copy: Option<&[u8]>, chosen: &[u8], sector: usize) -> Vec<Range<usize>> {
    let Some(copy) = copy else { return vec![Range { start: 0, end: chosen.len() }] };
    let mut runs: Vec<Range<usize>> = Vec::new();
    let pairs = copy.chunks(sector).zip(chosen.chunks(sector)).enumerate();
    for (i, _) in pairs.filter(|(_, (old, new))| old != new) {
        let start = i * sector;
        match runs.last_mut() {
            Some(run) if run.end == start => run.end += sector,
            _ => runs.push(start..start + sector),
        }
    }
    runs
}

/// Unit by unit, the copy to be taken.
async fn choose(data: &Arc<Data>, file: &FileRuntime, s: &Stretch, copies: &[Copy]) -> Bytes {
    let mut readable: Vec<&Copy> = copies.iter().filter(|c| c.bytes.is_some()).collect();
    // An older image may match its own checksums, and still is not what was written last.
    let newer = readable.iter().take_while(|c| !c.disk.is_aged()).count();
    if newer > 0 {
        readable.truncate(newer);
    }
    let first = readable[0].bytes.as_ref().expect("only readable copies are asked");
    if readable.iter().all(|c| c.bytes.as_ref() == Some(first)) {
        return first.clone();
    }
    let mut sums: Vec<Vec<u32>> = Vec::new();
    for copy in &readable {
        sums.push(match file.attributes.checksums {
            true => expected(data, &copy.disk, copy.leg, s).await,
            false => vec![UNKNOWN; (s.length / BLOCK_U64) as usize],
        });
    }
    let unit = file.attributes.unit as usize;
    let mut chosen = Buffer::new(s.length as usize);
    for start in (0..chosen.len()).step_by(unit) {
        let range = start..(start + unit).min(chosen.len());
        // Its checksums before unknown ones, and those before wrong ones: what rotted is wrong, and
        // the checksums of the other may have been torn.
        let wrong = |i: &usize| {
            let bytes = readable[*i].bytes.as_deref().expect("readable");
            let wanted = &sums[*i][range.start / BLOCK..range.end.div_ceil(BLOCK)];
            let blocks = || bytes[range.clone()].chunks(BLOCK).zip(wanted);
            let is_wrong = blocks().any(|(b, w)| *w != UNKNOWN && checksum_of(b) != *w);
            (is_wrong, blocks().any(|(_, w)| *w == UNKNOWN))
        };
        let best = (0..readable.len()).min_by_key(wrong).unwrap_or(0);
        let source = readable[best].bytes.as_deref().expect("readable");
        chosen[range.clone()].copy_from_slice(&source[range]);
    }
    chosen.freeze()
}
