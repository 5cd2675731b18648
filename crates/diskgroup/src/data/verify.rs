//! Reading every copy of everything and comparing, writing nothing: what `cellar validate` does.

use std::sync::Arc;

use cellar_io::{Buffer, Io};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::relocate::written_runs;
use crate::data::write::written_pieces;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::group::inner::Inner;
use crate::on_disk::checksum::{UNKNOWN, checksum_of};
use crate::on_disk::layout::{
    BLOCK, BLOCK_U64, PIECE_BYTES, PIECES_PER_REGION, REGION_BYTES, au_offset,
};
use crate::state::{Leg, Stretch, stretches};

/// What reading everything found. Bytes are bytes of copies, not of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Files looked at.
    pub files: u64,
    /// Bytes read from disks.
    pub bytes_read: u64,
    /// 4 KiB blocks whose checksum was right.
    pub checksums_right: u64,
    /// 4 KiB blocks with another checksum than the stored one.
    pub checksums_wrong: u64,
    /// 4 KiB blocks for which no checksum is kept or known.
    pub checksums_unknown: u64,
    /// Bytes that a disk could not read.
    pub unreadable_bytes: u64,
    /// 64 KiB pieces of which two copies differ, outside dirty regions.
    pub pieces_differing: u64,
    /// Bytes of copies that lie on disks that are not there.
    pub absent_bytes: u64,
    /// Pieces in dirty regions, whose copies may differ until resync.
    pub dirty_pieces: u64,
    /// Of those, pieces whose copies do differ now.
    pub dirty_pieces_differing: u64,
    /// The first places where something was wrong, for people.
    pub places: Vec<BadPlace>,
}

/// Something wrong in one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlace {
    /// File number.
    pub file: u32,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The disk that holds the copy.
    pub disk: String,
    /// What is wrong.
    pub what: &'static str,
}

impl Findings {
    /// Whether any copy is bad. Copies that are absent, and dirty regions, are not.
    pub fn is_bad(&self) -> bool {
        self.checksums_wrong + self.unreadable_bytes + self.pieces_differing > 0
    }

    fn add(&mut self, other: Findings) {
        self.files += other.files;
        self.bytes_read += other.bytes_read;
        self.checksums_right += other.checksums_right;
        self.checksums_wrong += other.checksums_wrong;
        self.checksums_unknown += other.checksums_unknown;
        self.unreadable_bytes += other.unreadable_bytes;
        self.pieces_differing += other.pieces_differing;
        self.absent_bytes += other.absent_bytes;
        self.dirty_pieces += other.dirty_pieces;
        self.dirty_pieces_differing += other.dirty_pieces_differing;
        if self.places.len() < PLACES_MAX {
            self.places.extend(other.places);
        }
    }
}

const PLACES_MAX: usize = 100;
/// One read.
pub(crate) const STEP: u64 = 1 << 20;
/// Reads in flight for each disk: the lesson of the second seed.
const DEPTH_PER_DISK: usize = 32;

/// Which copies are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Every copy, compared with each other.
    All,
    /// The first copy that is there, as a serial scan would.
    Primary,
}

/// Reads the files with these numbers. `progress` is told the bytes of files that are done.
pub(crate) async fn verify(
    inner: &Arc<Inner>,
    numbers: &[u32],
    copies: Copies,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Findings, Error> {
    let mut total = Findings::default();
    let width = match copies {
        Copies::Primary => DEPTH_PER_DISK * inner.disks.all().len(),
        // A step reads all copies at once.
        Copies::All => DEPTH_PER_DISK * inner.disks.all().len() / 2,
    };
    for number in numbers {
        let found = {
            let core = lock(&inner.core);
            core.state.files.get(number).map(|f| (inner.data.file(f), f.allocated(inner.au_size)))
        };
        let Some((file, allocated)) = found else {
            continue;
        };
        total.files += 1;
        let mut steps = stretches(file.attributes.striping, inner.au_size, 0, allocated)
            .flat_map(cut)
            .flat_map(|s| written_runs(inner, &file, &s));
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < width.max(1) {
                let Some(s) = steps.next() else { break };
                let task = step(Arc::clone(inner), Arc::clone(&file), s, copies);
                let handle = cellar_io::EnvExt::run(&*inner.env, "validate", task);
                running.push(async move { (s.length, handle.await) });
            }
            match running.next().await {
                Some((length, Some(found))) => {
                    total.add(found?);
                    progress(length);
                }
                Some((_, None)) => inner.check_running()?,
                None => break,
            }
        }
    }
    total.places.truncate(PLACES_MAX);
    Ok(total)
}

/// Cuts a stretch into steps.
fn cut(s: Stretch) -> impl Iterator<Item = Stretch> {
    (0..s.length).step_by(STEP as usize).map(move |at| Stretch {
        extent: s.extent,
        au_offset: s.au_offset + at,
        offset: s.offset + at,
        length: STEP.min(s.length - at),
    })
}

fn piece_written(inner: &Inner, file: &FileRuntime, at: u64) -> bool {
    let map = written_pieces(inner, file, (at / REGION_BYTES) as u32);
    map >> (at / PIECE_BYTES % PIECES_PER_REGION) & 1 == 1
}

async fn step(
    inner: Arc<Inner>,
    file: Arc<FileRuntime>,
    s: Stretch,
    copies: Copies,
) -> Result<Findings, Error> {
    let Ok(_entered) = file.enter().await else {
        return Ok(Findings::default());
    };
    let found = look(&inner, &file, Io::SCAN, &s, copies).await?;
    if !found.is_bad() {
        return Ok(found);
    }
    // A write may have passed by: look again with the range held.
    let _held = file.locks.lock(s.offset, s.offset + s.length).await;
    look(&inner, &file, Io::SCAN, &s, copies).await
}

/// Reads the copies of a stretch and compares.
///
/// # Errors
/// None at present: what cannot be read is a finding.
pub(crate) async fn look(
    inner: &Arc<Inner>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
    copies: Copies,
) -> Result<Findings, Error> {
    let mut found = Findings::default();
    // The extent may have gone since the steps were laid out: then there is nothing to look at.
    let Ok(mut legs) = super::write::legs_of(inner, file, s) else {
        return Ok(found);
    };
    let there = |leg: &Leg| inner.disk(leg.disk).is_some_and(|d| d.is_in_sync() && d.is_alive());
    if copies == Copies::Primary {
        legs = legs.into_iter().find(there).into_iter().collect();
    }
    let reads = legs.iter().map(|leg| async move {
        let disk = inner.disk(leg.disk).filter(|_| there(leg))?;
        let at = au_offset(leg.au, inner.au_size) + s.au_offset;
        let read = disk.read_at(io, at, s.length as usize).await;
        Some((disk, read))
    });
    let mut read: Vec<(Leg, Arc<Disk>, Buffer)> = Vec::new();
    for (leg, result) in legs.iter().zip(futures_util::future::join_all(reads).await) {
        match result {
            None => found.absent_bytes += s.length,
            Some((disk, Ok(buffer))) => {
                found.bytes_read += s.length;
                read.push((*leg, disk, buffer));
            }
            Some((disk, Err(_))) => {
                found.unreadable_bytes += s.length;
                found.places.push(place(file, s.offset, &disk.name, "unreadable"));
            }
        }
    }
    let mut sums = Vec::new();
    for (leg, disk, _) in &read {
        sums.push(match file.attributes.checksums {
            true => expected(inner, disk, *leg, s).await,
            false => vec![UNKNOWN; (s.length / BLOCK_U64) as usize],
        });
    }
    for piece in 0..s.length / PIECE_BYTES {
        let at = s.offset + piece * PIECE_BYTES;
        if piece_written(inner, file, at) {
            look_at_piece(inner, file, s, piece, &read, &sums, &mut found);
        }
    }
    Ok(found)
}

fn place(file: &FileRuntime, offset: u64, disk: &str, what: &'static str) -> BadPlace {
    BadPlace { file: file.number, offset, disk: disk.to_owned(), what }
}

fn look_at_piece(
    inner: &Inner,
    file: &FileRuntime,
    s: &Stretch,
    piece: u64,
    read: &[(Leg, Arc<Disk>, Buffer)],
    sums: &[Vec<u32>],
    found: &mut Findings,
) {
    let at = s.offset + piece * PIECE_BYTES;
    let range = (piece * PIECE_BYTES) as usize..((piece + 1) * PIECE_BYTES) as usize;
    let key = file.key((at / REGION_BYTES) as u32);
    let bit = at / PIECE_BYTES % PIECES_PER_REGION;
    let dirty = inner.data.regions.to_sync(&key) >> bit & 1 == 1;
    let differ = read.windows(2).any(|pair| pair[0].2[range.clone()] != pair[1].2[range.clone()]);
    if dirty {
        found.dirty_pieces += 1;
        found.dirty_pieces_differing += u64::from(differ);
        return;
    }
    if differ {
        found.pieces_differing += 1;
        found.places.push(place(file, at, &read[0].1.name, "copies differ"));
    }
    for ((_, disk, buffer), sums) in read.iter().zip(sums) {
        let first = range.start / BLOCK;
        for (i, block) in buffer[range.clone()].chunks_exact(BLOCK).enumerate() {
            let wanted = sums[first + i];
            if wanted == UNKNOWN {
                found.checksums_unknown += 1;
                if file.attributes.checksums && !inner.read_only {
                    inner.data.unknown.add(file, at, PIECE_BYTES);
                }
            } else if checksum_of(block) == wanted {
                found.checksums_right += 1;
            } else {
                found.checksums_wrong += 1;
                let offset = at + i as u64 * BLOCK_U64;
                found.places.push(place(file, offset, &disk.name, "checksum is wrong"));
            }
        }
    }
}
