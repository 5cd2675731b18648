//! Writing a range of a file to all copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{Buffer, Durability, IoError};
use futures_util::future::join_all;

use crate::data::Data;
use crate::data::access::Access;
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::range_lock::RangeGuard;
use crate::data::region::Regions;
use crate::data::{read, resync};
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::checksum::{UNKNOWN, checksum_of};
use crate::on_disk::layout::{
    BLOCK, BLOCK_U64, PIECE_BYTES, PIECES_PER_REGION, REGION_BYTES, au_offset,
};
use crate::state::{Leg, Stretch, stretches};

/// A longer write is cut, so that it never needs more dirty regions than there may be.
pub(crate) const WRITE_BYTES_MAX: u64 = 8 << 20;

/// Which pieces of which regions a range touches.
pub(crate) fn pieces_of(offset: u64, end: u64) -> BTreeMap<u32, u64> {
    let mut touched = BTreeMap::new();
    if offset >= end {
        return touched;
    }
    for piece in offset / PIECE_BYTES..=(end - 1) / PIECE_BYTES {
        let region = (piece / PIECES_PER_REGION) as u32;
        *touched.entry(region).or_insert(0) |= 1 << (piece % PIECES_PER_REGION);
    }
    touched
}

/// Pieces of a region that hold data: durable ones and those whose first write completed.
pub(crate) fn written_pieces(data: &Data, file: &FileRuntime, region: u32) -> u64 {
    let durable = lock(&data.core)
        .state
        .files
        .get(&file.number)
        .filter(|f| f.incarnation == file.incarnation)
        .map_or(0, |f| f.pieces_of(region.into()));
    durable | file.fresh_of(region)
}

impl Access<'_> {
    /// Writes `bytes` at `offset`: any lengths that are multiples of the group's sector, inside the
    /// file's extents.
    pub(crate) async fn write(
        self,
        offset: u64,
        bytes: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), Error> {
        self.data.check_writable()?;
        self.data.asked(self.io);
        let total: u64 = bytes.iter().map(|d| d.len() as u64).sum();
        let mut rest = Slices::new(bytes);
        let mut at = offset;
        let end = offset + total;
        while at < end {
            let length = (end - at).min(WRITE_BYTES_MAX - at % PIECE_BYTES);
            self.write_part(at, rest.take(length as usize), durability).await?;
            at += length;
        }
        Ok(())
    }

    async fn write_part(
        self,
        offset: u64,
        bytes: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), Error> {
        while !self.try_write_part(offset, &bytes, durability).await? {
            // With nothing held: making room may need this very range.
            Box::pin(Regions::room(self.data, self.file)).await?;
        }
        Ok(())
    }

    /// False, with nothing done, if too many regions are dirty.
    async fn try_write_part(
        self,
        offset: u64,
        bytes: &[Bytes],
        durability: Durability,
    ) -> Result<bool, Error> {
        let Access { data, file, .. } = self;
        let entered = file.enter().await?;
        // For each part, and inside: a dismount waits for whoever is inside.
        data.check_writable()?;
        let end = offset + bytes.iter().map(|d| d.len() as u64).sum::<u64>();
        // Widened to whole blocks where checksums are kept, to whole pieces where a piece is new.
        let block = if file.attributes.checksums { BLOCK_U64 } else { u64::from(data.sector_size) };
        let narrow = (offset / block * block, end.next_multiple_of(block));
        // Before the lock: resync takes it too. Pieces once made equal stay so.
        for (region, pieces) in pieces_of(narrow.0, narrow.1) {
            resync::ensure_synced(data, file, file.key(region), pieces).await?;
        }
        let (range, locked) = lock_widened(data, file, narrow).await;
        if file.attributes.copies == 1 {
            // Before a region is marked that nothing could make clean again.
            check_copies(data, file, range)?;
        }
        let touched = pieces_of(range.0, range.1);
        let mut written = BTreeMap::new();
        let mut marks = Vec::new();
        for (region, pieces) in &touched {
            let have = written_pieces(data, file, *region) & pieces;
            written.insert(*region, have);
            if have != 0 && file.is_tracked() {
                marks.push((file.key(*region), have));
            }
        }
        let Some(dirty) = Regions::begin_write(data, marks).await? else {
            return Ok(false);
        };
        let bytes = match (offset, end) == range {
            true => bytes.to_vec(),
            false => Box::pin(self.fill_up((offset, end), range, bytes, &written)).await?,
        };
        let changed = match (offset, end) == range {
            true => range,
            false => {
                let unit = data.written_at_once();
                let wanted = (offset / unit * unit, end.next_multiple_of(unit));
                changed_of(wanted, range, &written)
            }
        };
        let fresh = touched.iter().map(|(region, pieces)| (*region, pieces & !written[region]));
        let fresh: Vec<(u32, u64)> = fresh.filter(|(_, pieces)| *pieces != 0).collect();
        // A new piece is durable only with its record, which wants a flush first.
        let direct = if fresh.is_empty() && !has_fresh(file, &touched) {
            durability
        } else {
            Durability::Cached
        };
        let cached = (direct == Durability::Cached).then(|| file.begin_cached());
        self.write_legs((range.0, bytes), changed, direct).await?;
        for (region, pieces) in &fresh {
            file.add_fresh(*region, *pieces);
        }
        drop(cached);
        drop(dirty);
        // Before the flush enters the file again: a caller that waits for this range is inside, and one that
        // changes the file's size keeps us out until it has left.
        drop(locked);
        drop(entered);
        if durability == Durability::Durable && direct == Durability::Cached {
            Box::pin(self.flush()).await?;
        }
        Ok(true)
    }

    /// A block that is about to be changed in part, for a caller that holds its range. Bad copies of it are
    /// repaired first: afterwards its old checksum could no longer identify them.
    async fn edge_block(self, offset: u64) -> Result<Bytes, Error> {
        if self.data.written_at_once() >= BLOCK_U64 {
            // All of it is written to every copy.
            return self.read_block(offset).await;
        }
        let s = stretches(self.file.attributes.striping, self.data.au_size, offset, BLOCK_U64)
            .next()
            .expect("a block has a stretch");
        let copies = resync::read_copies(self.data, self.file, self.io, &s).await?;
        if let Some(first) = copies.first()
            && let Some(bytes) = &first.bytes
            && copies.iter().all(|copy| copy.bytes.as_ref() == Some(bytes))
        {
            let expected = read::expected(self.data, &first.disk, first.leg, &s).await;
            if expected == [UNKNOWN] || expected == checksums_of(std::slice::from_ref(bytes)) {
                return Ok(bytes.clone());
            }
        }
        let good = self.read_block(offset).await?;
        resync::spread(self.data, self.file, self.io, &s, &copies, &good).await?;
        Ok(good)
    }

    /// Puts zeros (in new pieces) or the old content (in a block written before) around the data.
    async fn fill_up(
        self,
        wanted: (u64, u64),
        range: (u64, u64),
        bytes: &[Bytes],
        written: &BTreeMap<u32, u64>,
    ) -> Result<Vec<Bytes>, Error> {
        let mut all = Vec::with_capacity(bytes.len() + 2);
        if range.0 < wanted.0 {
            let length = (wanted.0 - range.0) as usize;
            all.push(if is_written(written, range.0) {
                let block = self.edge_block(range.0).await?;
                block.slice(..length)
            } else {
                Buffer::zeroed(length).freeze()
            });
        }
        all.extend_from_slice(bytes);
        if wanted.1 < range.1 {
            let length = (range.1 - wanted.1) as usize;
            all.push(if is_written(written, range.1 - 1) {
                let block = self.edge_block(range.1 - BLOCK_U64).await?;
                block.slice(BLOCK - length..)
            } else {
                Buffer::zeroed(length).freeze()
            });
        }
        Ok(all)
    }

    /// Writes what is `changed` of a range, which is of whole blocks where checksums are kept, to every
    /// copy in sync; waits for the epoch without those that failed.
    pub(crate) async fn write_legs(
        self,
        (offset, bytes): (u64, Vec<Bytes>),
        changed: (u64, u64),
        durability: Durability,
    ) -> Result<(), Error> {
        let length: u64 = bytes.iter().map(|d| d.len() as u64).sum();
        let mut rest = Slices::new(bytes);
        let mut writes = Vec::new();
        // All extents are there before the first checksum is changed.
        let stretches_seen: Vec<(Stretch, Places)> =
            stretches(self.file.attributes.striping, self.data.au_size, offset, length)
                .map(|s| places_of(self.data, self.file, &s).map(|places| (s, places)))
                .collect::<Result<_, _>>()?;
        for (s, (legs, moving)) in &stretches_seen {
            let part = rest.take(s.length as usize);
            let sums =
                if self.file.attributes.checksums { checksums_of(&part) } else { Vec::new() };
            let (start, end) = (s.offset.max(changed.0), (s.offset + s.length).min(changed.1));
            let before = start - s.offset;
            let mut part = Slices::new(part);
            part.take(before as usize);
            let part = part.take((end - start) as usize);
            for leg in legs.iter().chain(moving) {
                let Some(disk) = self.data.disk(leg.disk).filter(|d| d.takes_part()) else {
                    continue;
                };
                if self.file.attributes.checksums {
                    let (first, count) = (s.au_offset / BLOCK_U64, s.length / BLOCK_U64);
                    Checksums::set(self.data, &disk, Entries { leg: *leg, first, count }, &sums)
                        .await;
                }
                let at = au_offset(leg.au, self.data.au_size) + s.au_offset + before;
                writes.push((disk, at, part.clone()));
            }
        }
        // A thread that waits for one disk does not pass the data to the next.
        let alone = self.is_alone && writes.len() == 1 && durability == Durability::Durable;
        let writes = writes.into_iter().map(|(disk, at, part)| async move {
            let written = match alone {
                true => disk.write_alone(self.io, at, part).await,
                false => disk.write(self.io, at, part, durability).await,
            };
            (disk, written)
        });
        let results: Vec<(Arc<Disk>, Result<(), IoError>)> = join_all(writes).await;
        for (disk, result) in results {
            if let Err(error) = result {
                Box::pin(self.data.leg_failed(&disk, error)).await?;
            }
        }
        // Every extent must have a copy that is in sync after all that left have left.
        for (s, _) in stretches_seen {
            // As they are now: one of them may have moved meanwhile.
            if !legs_of(self.data, self.file, &s)?.iter().any(|l| self.data.is_in_sync(l.disk)) {
                return Err(Error::NoCopy { file: self.file.number, offset: s.offset });
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros. Pieces never written already do; others are overwritten, so that
    /// a crash in the middle leaves old or zero in each sector, as with any write.
    pub(crate) async fn zero(self, offset: u64, length: u64) -> Result<(), Error> {
        let zeros = Buffer::zeroed(PIECE_BYTES as usize).freeze();
        let mut at = offset;
        let end = offset + length;
        while at < end {
            let part = (end - at).min(PIECE_BYTES - at % PIECE_BYTES);
            let bit = 1u64 << (at / PIECE_BYTES % PIECES_PER_REGION);
            if written_pieces(self.data, self.file, (at / REGION_BYTES) as u32) & bit != 0 {
                let bytes = vec![zeros.slice(..part as usize)];
                self.write(at, bytes, Durability::Cached).await?;
            }
            at += part;
        }
        Ok(())
    }
}

/// Every extent of a range must have a copy in sync.
fn check_copies(data: &Data, file: &FileRuntime, range: (u64, u64)) -> Result<(), Error> {
    let (striping, length) = (file.attributes.striping, range.1 - range.0);
    for s in stretches(striping, data.au_size, range.0, length) {
        if !legs_of(data, file, &s)?.iter().any(|leg| data.is_in_sync(leg.disk)) {
            return Err(Error::NoCopy { file: file.number, offset: s.offset });
        }
    }
    Ok(())
}

/// Holds a range, widened to whole pieces where they are new.
async fn lock_widened<'a>(
    data: &Data,
    file: &'a FileRuntime,
    narrow: (u64, u64),
) -> ((u64, u64), RangeGuard<'a>) {
    let mut range = narrow;
    loop {
        let guard = file.locks.lock(range.0, range.1).await;
        // From the narrow range each time: another may have written the new piece meanwhile, and
        // what he wrote must not be taken for part of this write.
        let wide = widen(data, file, narrow);
        if wide == range {
            return (range, guard);
        }
        drop(guard);
        range = wide;
    }
}

fn has_fresh(file: &FileRuntime, touched: &BTreeMap<u32, u64>) -> bool {
    touched.iter().any(|(region, pieces)| file.fresh_of(*region) & pieces != 0)
}

/// Widens a range to whole pieces at an end that lies in a piece never written.
fn widen(data: &Data, file: &FileRuntime, range: (u64, u64)) -> (u64, u64) {
    let unwritten = |at: u64| {
        let bit = 1u64 << (at / PIECE_BYTES % PIECES_PER_REGION);
        written_pieces(data, file, (at / REGION_BYTES) as u32) & bit == 0
    };
    let start = if unwritten(range.0) { range.0 / PIECE_BYTES * PIECE_BYTES } else { range.0 };
    let end = if unwritten(range.1 - 1) { range.1.next_multiple_of(PIECE_BYTES) } else { range.1 };
    (start, end)
}

/// Whether the piece at that place holds data already.
fn is_written(written: &BTreeMap<u32, u64>, at: u64) -> bool {
    let bit = 1u64 << (at / PIECE_BYTES % PIECES_PER_REGION);
    written.get(&((at / REGION_BYTES) as u32)).is_some_and(|w| w & bit != 0)
}

/// The part of a widened range that goes to the disks: not the old content of a block around the data. A power
/// cut that leaves rubbish in a sector may damage only what is being changed, on every copy at once.
fn changed_of(wanted: (u64, u64), range: (u64, u64), written: &BTreeMap<u32, u64>) -> (u64, u64) {
    (
        if is_written(written, range.0) { wanted.0.max(range.0) } else { range.0 },
        if is_written(written, range.1 - 1) { wanted.1.min(range.1) } else { range.1 },
    )
}

/// The legs of a stretch, as they are now.
pub(crate) fn legs_of(data: &Data, file: &FileRuntime, s: &Stretch) -> Result<Vec<Leg>, Error> {
    let core = lock(&data.core);
    match core.state.files.get(&file.number) {
        Some(f) if f.incarnation == file.incarnation && s.extent < f.extents() => {
            Ok(f.legs_of(s.extent).to_vec())
        }
        _ => Err(Error::NoCopy { file: file.number, offset: s.offset }),
    }
}

/// The legs of a stretch, and the place that one of them is on its way to.
type Places = (Vec<Leg>, Option<Leg>);

/// The legs of a stretch, and where one of them is on its way to, if it is.
fn places_of(data: &Data, file: &FileRuntime, s: &Stretch) -> Result<Places, Error> {
    let core = lock(&data.core);
    match core.state.files.get(&file.number) {
        Some(f) if f.incarnation == file.incarnation && s.extent < f.extents() => {
            Ok((f.legs_of(s.extent).to_vec(), core.moving_to(file.number, s.extent)))
        }
        _ => Err(Error::NoCopy { file: file.number, offset: s.offset }),
    }
}

/// The checksum of each 4 KiB of `slices`.
pub(crate) fn checksums_of(slices: &[Bytes]) -> Vec<u32> {
    if slices.iter().all(|s| s.len().is_multiple_of(BLOCK)) {
        return slices.iter().flat_map(|s| s.chunks_exact(BLOCK)).map(checksum_of).collect();
    }
    let whole: Vec<u8> = slices.concat();
    whole.chunks_exact(BLOCK).map(checksum_of).collect()
}

/// A queue of slices that can be cut at any length without copying.
struct Slices {
    rest: std::collections::VecDeque<Bytes>,
}

impl Slices {
    fn new(bytes: Vec<Bytes>) -> Slices {
        Slices { rest: bytes.into() }
    }

    fn take(&mut self, mut length: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        while length > 0 {
            let mut first = self.rest.pop_front().expect("lengths were added up before");
            if first.len() > length {
                let rest = first.split_off(length);
                self.rest.push_front(rest);
            }
            length -= first.len();
            if !first.is_empty() {
                taken.push(first);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use cellar_io::sim::{Sim, SimDiskOptions};
    use cellar_io::{Device, EnvExt};
    use cellar_wait::{Kind, Waits};

    use super::*;
    use crate::state::FileType;
    use crate::{CreateGroup, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy};

    async fn group(sim: &Sim) -> Group {
        let disk: Arc<dyn Device> = sim.disk("disk", SimDiskOptions::default());
        let path = "/sim/disk".to_owned();
        let new = NewDisk {
            device: Arc::clone(&disk),
            path: path.clone(),
            name: None,
            failgroup: None,
            size: None,
            force: false,
        };
        let spec = CreateGroup {
            name: "DATA".to_owned(),
            redundancy: Redundancy::External,
            au_size: 1 << 20,
            sector_size: None,
            attributes: Default::default(),
            holds_catalog: false,
            disks: vec![new],
        };
        crate::create(&sim.env(), spec).await.expect("created");
        let session = Waits::new().session("group DATA", Kind::Background);
        let found = vec![FoundDisk { device: disk, path }];
        let options = MountOptions::default();
        Group::mount(&sim.env(), session, "DATA", found, options).await.expect("mounted")
    }

    #[test]
    fn a_piece_that_another_wrote_meanwhile_is_not_widened_to() {
        let sim = Sim::new(1);
        sim.run(async {
            let group = group(&sim).await;
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
            file.set_size(1 << 20).await.expect("room");
            let data = Arc::clone(&group.inner.data);
            let runtime = {
                let core = lock(&data.core);
                data.file(&core.state.files[&file.number()])
            };
            let other = runtime.locks.lock(32 << 10, 36 << 10).await;
            let (all, own) = (Arc::clone(&data), Arc::clone(&runtime));
            let waiting = sim.env().run("writer", async move {
                let (range, _guard) = lock_widened(&all, &own, (4096, 8192)).await;
                range
            });
            sim.env().sleep(std::time::Duration::from_millis(1)).await;
            runtime.add_fresh(0, 1);
            drop(other);
            assert_eq!(waiting.await, Some((4096, 8192)));
        });
    }
}
