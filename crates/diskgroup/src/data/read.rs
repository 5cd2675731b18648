//! Reading a range of a file: from the less busy copy, verified, from another when it must be.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cellar_io::{Buffer, Durability, Io};
use futures_util::future::{Either, select, try_join_all};

use crate::data::Data;
use crate::data::access::Access;
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::resync;
use crate::data::write::{checksums_of, legs_of, pieces_of, written_pieces};
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::checksum::{UNKNOWN, checksum_of};
use crate::on_disk::layout::{
    BLOCK, BLOCK_U64, PIECE_BYTES, PIECES_PER_REGION, REGION_BYTES, au_offset,
};
use crate::state::{Leg, Stretch, stretches};

impl Access<'_> {
    /// Fills `buffers` from `offset` on.
    pub(crate) async fn read(
        self,
        offset: u64,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Error> {
        self.data.check_running()?;
        self.data.asked(self.io);
        let _entered = self.file.enter().await?;
        self.read_inside(offset, buffers).await
    }

    /// Reads for a caller that has entered the file. Entering twice would deadlock if a shrink came
    /// in between.
    async fn read_inside(
        self,
        offset: u64,
        mut buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Error> {
        if buffers.len() == 1
            && let length = buffers[0].len()
            && let Some((part, leg)) = in_one(self.data, self.file, offset, length as u64)
        {
            match self.read_leg(&part, leg, buffers).await {
                LegRead::Good(buffers) => return Ok(buffers),
                LegRead::Bad => buffers = vec![Buffer::new(length)],
            }
        }
        // A separate function, so that the common case does not pay for the space that this needs.
        Box::pin(self.read_parts(offset, buffers)).await
    }

    /// Reads whatever the range needs: several extents or copies, a resync first, edges of blocks.
    async fn read_parts(self, offset: u64, buffers: Vec<Buffer>) -> Result<Vec<Buffer>, Error> {
        let lengths: Vec<usize> = buffers.iter().map(|b| b.len()).collect();
        let total: u64 = lengths.iter().map(|l| *l as u64).sum();
        // A mount that may not write leaves them as they are.
        let touched = if self.data.read_only {
            Default::default()
        } else {
            pieces_of(offset, offset + total)
        };
        for (region, pieces) in touched {
            resync::ensure_synced(self.data, self.file, self.file.key(region), pieces).await?;
        }
        // With checksums, whole blocks are read: the edges of a smaller read come from a copy.
        let edges = self.file.attributes.checksums
            && !(offset.is_multiple_of(BLOCK_U64)
                && lengths.iter().all(|l| l.is_multiple_of(BLOCK)));
        if edges {
            return self.read_through_copy(offset, buffers).await;
        }
        let mut queue = Cut(buffers.into());
        let mut parts = Vec::new();
        for s in stretches(self.file.attributes.striping, self.data.au_size, offset, total) {
            for (part, holds) in runs(self.data, self.file, s) {
                let pieces = queue.take(part.length as usize);
                parts.push(self.read_part(part, holds, pieces));
            }
        }
        let parts = if parts.len() == 1 {
            vec![parts.pop().expect("one").await?]
        } else {
            try_join_all(parts).await?
        };
        Ok(rejoin(parts.into_iter().flatten(), &lengths))
    }

    async fn read_through_copy(
        self,
        offset: u64,
        mut buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Error> {
        let total: u64 = buffers.iter().map(|b| b.len() as u64).sum();
        let start = offset / BLOCK_U64 * BLOCK_U64;
        let end = (offset + total).next_multiple_of(BLOCK_U64);
        let whole = Buffer::new((end - start) as usize);
        let whole = Box::pin(self.read_inside(start, vec![whole])).await?;
        let mut at = (offset - start) as usize;
        for buffer in &mut buffers {
            let length = buffer.len();
            buffer.copy_from_slice(&whole[0][at..at + length]);
            at += length;
        }
        Ok(buffers)
    }

    async fn read_part(
        self,
        part: Stretch,
        holds: Holds,
        mut buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Error> {
        let lengths: Vec<usize> = buffers.iter().map(|b| b.len()).collect();
        match holds {
            Holds::Nothing => {
                buffers.iter_mut().for_each(|b| b.fill(0));
                return Ok(buffers);
            }
            Holds::Either => {
                let whole = resync::read_as_synced(self.data, self.file, self.io, &part).await?;
                return Ok(copy_out(&whole, &lengths));
            }
            Holds::Data => {}
        }
        let legs = legs_in_order(self.data, self.file, &part)?;
        let leg = (legs[0], legs.len() > 1);
        match self.read_leg(&part, leg, buffers).await {
            LegRead::Good(buffers) => Ok(buffers),
            LegRead::Bad => {
                // Perhaps a write was in progress; perhaps the copy is bad. With the range held
                // nobody writes, and what is wrong is wrong.
                let block = if self.file.attributes.checksums { BLOCK_U64 } else { 512 };
                let (start, end) = (part.offset / block * block, part.offset + part.length);
                let end = end.next_multiple_of(block);
                // A task of its own: it may write, and the range is held until that is done.
                let (all, own, io) = (Arc::clone(self.data), self.file.stay(), self.io);
                let task = async move {
                    let _held = own.locks.lock(start, end).await;
                    Access::new(&all, &own, io).read_any_copy(&part).await
                };
                let whole = self.data.run("read and repair", task).await?;
                Ok(copy_out(&whole, &lengths))
            }
        }
    }

    /// One block, by somebody who holds its range.
    pub(crate) async fn read_block(self, offset: u64) -> Result<Bytes, Error> {
        let s = stretches(self.file.attributes.striping, self.data.au_size, offset, BLOCK_U64)
            .next()
            .expect("a block has a stretch");
        Ok(self.read_any_copy(&s).await?.freeze())
    }

    async fn read_leg(
        self,
        s: &Stretch,
        (leg, others): (Leg, bool),
        buffers: Vec<Buffer>,
    ) -> LegRead {
        // It may have left since it was chosen, and another device may be there that lacks something.
        let Some(disk) = self.data.disk(leg.disk).filter(|d| d.is_in_sync()) else {
            return LegRead::Bad;
        };
        let at = au_offset(leg.au, self.data.au_size) + s.au_offset;
        // The caller can use another copy if this one does not answer.
        let read = match others {
            true => Either::Left(disk.read_or_leave(self.io, at, buffers)),
            false => Either::Right(disk.read(self.io, at, buffers)),
        };
        if !self.file.attributes.checksums {
            let read = read.await;
            if read.is_err() {
                self.data.report_if_dead(&disk);
            }
            return read.map_or(LegRead::Bad, LegRead::Good);
        }
        // Looked up while the device works. A write in between makes them differ, as it would in the
        // other order; the reader then asks again with the range held.
        let (read, wanted) =
            (std::pin::pin!(read), std::pin::pin!(expected(self.data, &disk, leg, s)));
        let (read, wanted) = match select(read, wanted).await {
            // Its checksums may not come either, and are not waited for.
            Either::Left((Err(_), _)) => {
                self.data.report_if_dead(&disk);
                return LegRead::Bad;
            }
            Either::Left((read, wanted)) => (read, wanted.await),
            Either::Right((wanted, read)) => (read.await, wanted),
        };
        let Ok(buffers) = read else {
            self.data.report_if_dead(&disk);
            return LegRead::Bad;
        };
        if wanted.contains(&UNKNOWN) && !self.data.read_only {
            for (at, _) in (s.offset..).step_by(BLOCK).zip(&wanted).filter(|(_, w)| **w == UNKNOWN)
            {
                self.data.unknown.add(self.file, at, BLOCK_U64);
            }
        }
        let blocks = || buffers.iter().flat_map(|b| b.chunks_exact(BLOCK)).zip(&wanted);
        let good = blocks().all(|(b, w)| *w == UNKNOWN || checksum_of(b) == *w);
        if !good {
            return LegRead::Bad;
        }
        if wanted.contains(&UNKNOWN) && self.file.attributes.copies > 1 {
            let others = known_by_others(self.data, self.file, s, leg).await;
            let right = blocks().zip(&others).all(|((b, own), others)| is_right(b, *own, others));
            if !right {
                return LegRead::Bad;
            }
        }
        LegRead::Good(buffers)
    }

    /// Reads a stretch from whichever copies are good, and repairs the others. The caller holds the
    /// range. Where no copy can be read whole, each unit of it is read from a copy that has it.
    pub(crate) async fn read_any_copy(self, s: &Stretch) -> Result<Buffer, Error> {
        let unit = u64::from(self.file.attributes.unit);
        match self.read_good_copy(s).await {
            Err(Error::Io(_)) if s.length > unit => {}
            other => return other,
        }
        let mut whole = Buffer::new(s.length as usize);
        for at in (0..s.length).step_by(unit as usize) {
            let length = unit.min(s.length - at);
            let part = Stretch {
                extent: s.extent,
                au_offset: s.au_offset + at,
                offset: s.offset + at,
                length,
            };
            let read = self.read_good_copy(&part).await?;
            whole[at as usize..(at + length) as usize].copy_from_slice(&read);
        }
        Ok(whole)
    }

    async fn read_good_copy(self, s: &Stretch) -> Result<Buffer, Error> {
        let legs = legs_in_order(self.data, self.file, s)?;
        let mut whole = Buffer::new(s.length as usize);
        let blocks = s.length.div_ceil(BLOCK_U64) as usize;
        let mut good = vec![false; blocks];
        let mut bad_legs: Vec<Leg> = Vec::new();
        let mut device_error = None;
        for leg in &legs {
            let Some(disk) = self.data.disk(leg.disk).filter(|d| d.is_in_sync()) else {
                continue;
            };
            let at = au_offset(leg.au, self.data.au_size) + s.au_offset;
            let read = match disk.read_at(self.io, at, s.length as usize).await {
                Ok(read) => read,
                Err(error) => {
                    bad_legs.push(*leg);
                    device_error = Some(error);
                    continue;
                }
            };
            let wanted = match self.file.attributes.checksums {
                true => expected(self.data, &disk, *leg, s).await,
                false => vec![UNKNOWN; blocks],
            };
            let others = match self.file.attributes.checksums && wanted.contains(&UNKNOWN) {
                true => known_by_others(self.data, self.file, s, *leg).await,
                false => vec![Vec::new(); blocks],
            };
            let mut all = true;
            for (i, block) in read.chunks(BLOCK).enumerate() {
                if is_right(block, wanted[i], &others[i]) {
                    if !good[i] {
                        good[i] = true;
                        whole[i * BLOCK..i * BLOCK + block.len()].copy_from_slice(block);
                    }
                } else {
                    all = false;
                    disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
            if !all {
                bad_legs.push(*leg);
            }
            if good.iter().all(|g| *g) {
                break;
            }
        }
        if let Some(i) = good.iter().position(|g| !g) {
            return Err(match device_error {
                Some(error) => Error::Io(error),
                None => Error::Corrupt {
                    file: self.file.number,
                    offset: s.offset + i as u64 * BLOCK_U64,
                    length: good[i..].iter().take_while(|g| !**g).count() as u64 * BLOCK_U64,
                },
            });
        }
        let whole = whole.freeze();
        for leg in bad_legs {
            repair(self.data, self.file, s, leg, &whole).await?;
        }
        let mut copy = Buffer::new(whole.len());
        copy.copy_from_slice(&whole);
        Ok(copy)
    }
}

/// The common case at little cost: whole blocks of one extent, all of them known as written and
/// equal. Gives the stretch, the less busy of its copies, and whether there are others.
fn in_one(
    data: &Data,
    file: &FileRuntime,
    offset: u64,
    length: u64,
) -> Option<(Stretch, (Leg, bool))> {
    let last = (offset + length).checked_sub(1)?;
    let region = offset / REGION_BYTES;
    let whole = offset.is_multiple_of(BLOCK_U64) && length.is_multiple_of(BLOCK_U64);
    if length == 0 || last / REGION_BYTES != region || !whole {
        return None;
    }
    let s = stretches(file.attributes.striping, data.au_size, offset, length).next()?;
    if s.length != length {
        return None;
    }
    let first = offset / PIECE_BYTES % PIECES_PER_REGION;
    let count = last / PIECE_BYTES % PIECES_PER_REGION - first + 1;
    let pieces = (u64::MAX >> (PIECES_PER_REGION - count)) << first;
    if data.regions.to_sync(&file.key(region as u32)) & pieces != 0 {
        return None;
    }
    let disks = data.disks.look();
    let core = lock(&data.core);
    let state = core.state.files.get(&file.number)?;
    if state.incarnation != file.incarnation
        || state.pieces_of(region) & pieces != pieces
        || s.extent >= state.extents()
    {
        return None;
    }
    let legs = state.legs_of(s.extent).iter().filter_map(|leg| {
        let disk = disks.get(&leg.disk)?;
        (disk.is_in_sync() && disk.is_alive()).then(|| ((disk.is_avoided(), disk.load()), *leg))
    });
    let mut count = 0;
    let (_, leg) = legs.inspect(|_| count += 1).min_by_key(|(key, _)| *key)?;
    Some((s, (leg, count > 1)))
}

/// What a piece holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Data,
    /// Data that was not made equal after a crash, as the mount may not write.
    Either,
}

/// Cuts a stretch where pieces hold something else.
fn runs(data: &Data, file: &FileRuntime, s: Stretch) -> Vec<(Stretch, Holds)> {
    let mut out: Vec<(Stretch, Holds)> = Vec::new();
    let mut at = s.offset;
    let end = s.offset + s.length;
    let mut region = u32::MAX;
    let (mut written, mut differing) = (0, 0);
    while at < end {
        let this = (at / REGION_BYTES) as u32;
        if this != region {
            region = this;
            written = written_pieces(data, file, region);
            if data.read_only {
                differing = data.regions.to_sync(&file.key(region));
            }
        }
        let bit = 1u64 << (at / PIECE_BYTES % PIECES_PER_REGION);
        let holds = match (written & bit != 0, differing & bit != 0) {
            (false, _) => Holds::Nothing,
            (true, false) => Holds::Data,
            (true, true) => Holds::Either,
        };
        let next = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(end);
        match out.last_mut() {
            Some((run, h)) if *h == holds => run.length += next - at,
            _ => {
                let part = Stretch {
                    extent: s.extent,
                    au_offset: s.au_offset + (at - s.offset),
                    offset: at,
                    length: next - at,
                };
                out.push((part, holds));
            }
        }
        at = next;
    }
    out
}

/// The copies of a stretch that may be read, at least one: the least busy first, those on slow disks
/// last.
fn legs_in_order(data: &Data, file: &FileRuntime, s: &Stretch) -> Result<Vec<Leg>, Error> {
    let mut legs: Vec<((bool, usize), Leg)> = legs_of(data, file, s)?
        .into_iter()
        .filter_map(|leg| {
            let disk = data.disk(leg.disk)?;
            (disk.is_in_sync() && disk.is_alive()).then(|| ((disk.is_avoided(), disk.load()), leg))
        })
        .collect();
    if legs.is_empty() {
        return Err(Error::NoCopy { file: file.number, offset: s.offset });
    }
    legs.sort_by_key(|(key, _)| *key);
    Ok(legs.into_iter().map(|(_, leg)| leg).collect())
}

enum LegRead {
    Good(Vec<Buffer>),
    /// The device failed, or some blocks do not have their checksum.
    Bad,
}

/// The checksums that the other disks know for each block of a stretch: if one disk has lost its own,
/// its data is still not trusted against those.
async fn known_by_others(data: &Data, file: &FileRuntime, s: &Stretch, own: Leg) -> Vec<Vec<u32>> {
    let mut known = vec![Vec::new(); s.length.div_ceil(BLOCK_U64) as usize];
    let legs = legs_of(data, file, s).unwrap_or_default();
    for leg in legs.into_iter().filter(|leg| *leg != own) {
        let answers = |d: &Arc<Disk>| d.is_in_sync() && d.is_alive() && !d.is_stalled();
        let Some(disk) = data.disk(leg.disk).filter(answers) else {
            continue;
        };
        let sums = expected(data, &disk, leg, s).await;
        for (known, sum) in known.iter_mut().zip(sums).filter(|(_, sum)| *sum != UNKNOWN) {
            known.push(sum);
        }
    }
    known
}

/// Whether a block has its own checksum; where that is not known, one that another disk knows for it,
/// if any does.
fn is_right(block: &[u8], own: u32, others: &[u32]) -> bool {
    if own != UNKNOWN {
        return checksum_of(block) == own;
    }
    others.is_empty() || others.contains(&checksum_of(block))
}

/// The checksums that a stretch of a leg should have.
pub(crate) async fn expected(data: &Data, disk: &Disk, leg: Leg, s: &Stretch) -> Vec<u32> {
    let entries = Entries { leg, first: s.au_offset / BLOCK_U64, count: s.length / BLOCK_U64 };
    let mut wanted = Vec::with_capacity(entries.count as usize);
    Checksums::read(data, disk, entries, &mut wanted).await;
    wanted
}

/// Overwrites a bad copy in place with good data. A disk that cannot take it leaves.
async fn repair(
    data: &Arc<Data>,
    file: &FileRuntime,
    s: &Stretch,
    leg: Leg,
    good: &Bytes,
) -> Result<(), Error> {
    if data.read_only {
        return Ok(());
    }
    let Some(disk) = data.disk(leg.disk).filter(|d| d.is_alive() && d.is_in_sync()) else {
        return Ok(());
    };
    if file.attributes.checksums {
        let entries = Entries { leg, first: s.au_offset / BLOCK_U64, count: s.length / BLOCK_U64 };
        let sums = checksums_of(std::slice::from_ref(good));
        Checksums::set(data, &disk, entries, &sums).await;
    }
    data.unflushed.copied(data.env.now(), file, s);
    let at = au_offset(leg.au, data.au_size) + s.au_offset;
    let bytes = vec![good.clone()];
    match disk.write(Io::FOREGROUND, at, bytes, Durability::Cached).await {
        Ok(()) => {
            disk.counters.repaired.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => data.leg_failed(&disk, error).await,
    }
}

fn copy_out(whole: &[u8], lengths: &[usize]) -> Vec<Buffer> {
    let mut at = 0;
    lengths
        .iter()
        .map(|length| {
            let buffer = Buffer::copy_of(&whole[at..at + length], *length);
            at += length;
            buffer
        })
        .collect()
}

/// Buffers to be cut at any length.
struct Cut(VecDeque<Buffer>);

impl Cut {
    fn take(&mut self, mut length: usize) -> Vec<Buffer> {
        let mut taken = Vec::new();
        while length > 0 {
            let first = self.0.front_mut().expect("lengths were added up before");
            if first.len() > length {
                taken.push(first.split_to(length));
                break;
            }
            length -= first.len();
            taken.extend(self.0.pop_front());
        }
        taken
    }
}

/// Joins pieces into buffers of the given lengths again; copies only where a piece was replaced.
fn rejoin(pieces: impl Iterator<Item = Buffer>, lengths: &[usize]) -> Vec<Buffer> {
    let mut pieces: VecDeque<Buffer> = pieces.collect();
    let mut out = Vec::with_capacity(lengths.len());
    for length in lengths {
        let Some(mut buffer) = pieces.pop_front() else {
            out.push(Buffer::new(0));
            continue;
        };
        while buffer.len() < *length {
            let tail = pieces.pop_front().expect("pieces add up to the lengths");
            if let Err(tail) = buffer.unsplit(tail) {
                let mut joined = Buffer::new(buffer.len() + tail.len());
                joined[..buffer.len()].copy_from_slice(&buffer);
                joined[buffer.len()..].copy_from_slice(&tail);
                buffer = joined;
            }
        }
        out.push(buffer);
    }
    out
}
