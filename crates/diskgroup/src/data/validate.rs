//! Validation: every copy of everything is read and compared; nothing is written (`cellar validate`).

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_io::{Buffer, Io, IoError, IoErrorKind};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::data::Data;
use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::relocate::written_runs;
use crate::data::write::written_pieces;
use crate::disk::{Disk, lock};
use crate::error::Error;
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
    /// How many places there are in all.
    pub places_found: u64,
    /// On which disks a copy is bad: how many places.
    pub bad_disks: BTreeMap<String, u64>,
    /// What can be said of each file of which a copy is bad.
    pub verdicts: BTreeMap<u32, FileVerdict>,
}

/// The state of the blocks of a file with a bad copy. Blocks are 4 KiB, each counted once, however many
/// copies there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileVerdict {
    /// Another copy has its checksum: a scrub writes that one over the bad one.
    pub mendable: u64,
    /// Copies differ, or the others have no known checksum: a scrub may be able to tell.
    pub undecided: u64,
    /// No copy that is here is right; another one is on a disk that is not here.
    pub offline: u64,
    /// No copy is right.
    pub lost: u64,
}

impl FileVerdict {
    fn add(&mut self, other: FileVerdict) {
        self.mendable += other.mendable;
        self.undecided += other.undecided;
        self.offline += other.offline;
        self.lost += other.lost;
    }
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
        self.places_found += other.places_found;
        let room = PLACES_MAX.saturating_sub(self.places.len());
        self.places.extend(other.places.into_iter().take(room));
        for (disk, count) in other.bad_disks {
            *self.bad_disks.entry(disk).or_default() += count;
        }
        for (file, verdict) in other.verdicts {
            self.verdicts.entry(file).or_default().add(verdict);
        }
    }

    /// Notes something wrong in one copy.
    fn bad(&mut self, file: &FileRuntime, offset: u64, disk: &str, what: &'static str) {
        self.places_found += 1;
        // Of copies that differ any may be the bad one.
        if what != DIFFER {
            *self.bad_disks.entry(disk.to_owned()).or_default() += 1;
        }
        if self.places.len() < PLACES_MAX {
            self.places.push(BadPlace { file: file.number, offset, disk: disk.to_owned(), what });
        }
    }
}

const PLACES_MAX: usize = 100;
const DIFFER: &str = "copies differ";
/// Copies of a block at most.
const COPIES_MAX: usize = 3;
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
pub(crate) async fn validate(
    data: &Arc<Data>,
    numbers: &[u32],
    copies: Copies,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Findings, Error> {
    let mut total = Findings::default();
    let width = match copies {
        Copies::Primary => DEPTH_PER_DISK * data.disks.all().len(),
        // A step reads all copies at once.
        Copies::All => DEPTH_PER_DISK * data.disks.all().len() / 2,
    };
    for number in numbers {
        let found = {
            let core = lock(&data.core);
            core.state.files.get(number).map(|f| (data.file(f), f.allocated(data.au_size)))
        };
        let Some((file, allocated)) = found else {
            continue;
        };
        total.files += 1;
        let mut steps = stretches(file.attributes.striping, data.au_size, 0, allocated)
            .flat_map(cut)
            .flat_map(|s| written_runs(data, &file, &s));
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < width.max(1) {
                let Some(s) = steps.next() else { break };
                let task = step(Arc::clone(data), Arc::clone(&file), s, copies);
                let handle = cellar_io::EnvExt::run(&*data.env, "validate", task);
                running.push(async move { (s.length, handle.await) });
            }
            match running.next().await {
                Some((length, Some(found))) => {
                    total.add(found?);
                    progress(length);
                }
                Some((_, None)) => data.check_running()?,
                None => break,
            }
        }
    }
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

fn piece_written(data: &Data, file: &FileRuntime, at: u64) -> bool {
    let map = written_pieces(data, file, (at / REGION_BYTES) as u32);
    map >> (at / PIECE_BYTES % PIECES_PER_REGION) & 1 == 1
}

async fn step(
    data: Arc<Data>,
    file: Arc<FileRuntime>,
    s: Stretch,
    copies: Copies,
) -> Result<Findings, Error> {
    let Ok(_entered) = file.enter().await else {
        return Ok(Findings::default());
    };
    let found = look(&data, &file, Io::SCAN, &s, copies).await?;
    if !found.is_bad() {
        return Ok(found);
    }
    // A write may have passed by: look again with the range held.
    let _held = file.locks.lock(s.offset, s.offset + s.length).await;
    look(&data, &file, Io::SCAN, &s, copies).await
}

/// Reads the copies of a stretch and compares them.
///
/// # Errors
/// None at present: whatever cannot be read is a finding.
pub(crate) async fn look(
    data: &Arc<Data>,
    file: &FileRuntime,
    io: Io,
    s: &Stretch,
    copies: Copies,
) -> Result<Findings, Error> {
    let mut found = Findings::default();
    // The extent may have gone since the steps were laid out: then there is nothing to look at.
    let Ok(mut legs) = super::write::legs_of(data, file, s) else {
        return Ok(found);
    };
    let there = |leg: &Leg| data.disk(leg.disk).is_some_and(|d| d.is_in_sync() && d.is_alive());
    if copies == Copies::Primary {
        legs = legs.into_iter().find(there).into_iter().collect();
    }
    let reads = legs.iter().map(|leg| async move {
        let disk = data.disk(leg.disk).filter(|_| there(leg))?;
        let at = au_offset(leg.au, data.au_size) + s.au_offset;
        let read = read_what_can_be(&disk, io, at, s.length).await;
        Some((disk, read))
    });
    let mut seen = Seen { read: Vec::new(), absent: false };
    for (leg, result) in legs.iter().zip(futures_util::future::join_all(reads).await) {
        match result {
            None => {
                found.absent_bytes += s.length;
                seen.absent = true;
            }
            Some((disk, Ok((buffer, unread)))) => {
                let lacks = unread.iter().filter(|lacks| **lacks).count() as u64 * BLOCK_U64;
                found.bytes_read += s.length - lacks;
                found.unreadable_bytes += lacks;
                let sums = match file.attributes.checksums {
                    true => expected(data, &disk, *leg, s).await,
                    false => vec![UNKNOWN; (s.length / BLOCK_U64) as usize],
                };
                seen.read.push(Copy { disk, buffer, unread, sums });
            }
            Some((disk, Err(_))) => {
                found.unreadable_bytes += s.length;
                let (buffer, sums) = (Buffer::new(s.length as usize), Vec::new());
                let unread = vec![true; (s.length / BLOCK_U64) as usize];
                seen.read.push(Copy { disk, buffer, unread, sums });
            }
        }
    }
    for piece in 0..s.length / PIECE_BYTES {
        let at = s.offset + piece * PIECE_BYTES;
        if piece_written(data, file, at) {
            look_at_piece(data, file, s, piece, &seen, &mut found);
        }
    }
    Ok(found)
}

/// One copy of a stretch as it was read.
struct Copy {
    disk: Arc<Disk>,
    buffer: Buffer,
    /// Which blocks could not be read.
    unread: Vec<bool>,
    /// The checksum of each block, where one is known.
    sums: Vec<u32>,
}

/// The copies of a stretch.
struct Seen {
    read: Vec<Copy>,
    /// There is another one, on a disk that is not here.
    absent: bool,
}

/// What one copy of a block is.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Right,
    Wrong,
    Unread,
    /// No checksum tells.
    Unknown,
}

impl Block {
    fn is_bad(self) -> bool {
        matches!(self, Block::Wrong | Block::Unread)
    }
}

impl Copy {
    fn bytes(&self, number: usize) -> &[u8] {
        &self.buffer[number * BLOCK..(number + 1) * BLOCK]
    }

    fn block(&self, number: usize) -> Block {
        match self.sums.get(number).copied().unwrap_or(UNKNOWN) {
            _ if self.unread[number] => Block::Unread,
            UNKNOWN => Block::Unknown,
            wanted if checksum_of(self.bytes(number)) == wanted => Block::Right,
            _ => Block::Wrong,
        }
    }
}

/// Reads a stretch; if the medium fails, block by block, so that a bad sector is distinguished from what
/// is around it.
async fn read_what_can_be(
    disk: &Arc<Disk>,
    io: Io,
    at: u64,
    length: u64,
) -> Result<(Buffer, Vec<bool>), IoError> {
    let blocks = (length / BLOCK_U64) as usize;
    match disk.read_at(io, at, length as usize).await {
        Ok(buffer) => return Ok((buffer, vec![false; blocks])),
        Err(error) if error.kind != IoErrorKind::Media => return Err(error),
        Err(_) => {}
    }
    let mut bytes = vec![0; length as usize];
    let mut unread = vec![false; blocks];
    for piece in (0..length).step_by(PIECE_BYTES as usize) {
        let end = (piece + PIECE_BYTES).min(length);
        let (from, to) = (piece as usize, end as usize);
        match disk.read_at(io, at + piece, to - from).await {
            Ok(read) => {
                bytes[from..to].copy_from_slice(&read);
                continue;
            }
            Err(error) if error.kind != IoErrorKind::Media => return Err(error),
            Err(_) => {}
        }
        for block in (from..to).step_by(BLOCK) {
            match disk.read_at(io, at + block as u64, BLOCK).await {
                Ok(read) => bytes[block..block + BLOCK].copy_from_slice(&read),
                Err(error) if error.kind != IoErrorKind::Media => return Err(error),
                Err(_) => unread[block / BLOCK] = true,
            }
        }
    }
    Ok((Buffer::copy_of(&bytes, bytes.len()), unread))
}

fn look_at_piece(
    data: &Data,
    file: &FileRuntime,
    s: &Stretch,
    piece: u64,
    seen: &Seen,
    found: &mut Findings,
) {
    let at = s.offset + piece * PIECE_BYTES;
    let first = (piece * PIECE_BYTES) as usize / BLOCK;
    let blocks = || first..first + PIECE_BYTES as usize / BLOCK;
    let key = file.key((at / REGION_BYTES) as u32);
    let bit = at / PIECE_BYTES % PIECES_PER_REGION;
    let dirty = data.regions.to_sync(&key) >> bit & 1 == 1;
    // What cannot be read is told as that.
    let differs = |number: usize| {
        let mut readable = seen.read.iter().filter(|copy| !copy.unread[number]);
        let Some(one) = readable.next() else { return false };
        readable.any(|other| one.bytes(number) != other.bytes(number))
    };
    let differ = blocks().any(differs);
    if dirty {
        found.dirty_pieces += 1;
        found.dirty_pieces_differing += u64::from(differ);
        return;
    }
    if differ {
        found.pieces_differing += 1;
    }
    let before = found.checksums_wrong;
    for number in blocks() {
        let offset = at + (number - first) as u64 * BLOCK_U64;
        let mut states = [Block::Unknown; COPIES_MAX];
        for (copy, told) in seen.read.iter().zip(&mut states) {
            let state = copy.block(number);
            match state {
                Block::Right => found.checksums_right += 1,
                Block::Unread => found.bad(file, offset, &copy.disk.name, "unreadable"),
                Block::Wrong => {
                    found.checksums_wrong += 1;
                    found.bad(file, offset, &copy.disk.name, "checksum is wrong");
                }
                Block::Unknown => {
                    found.checksums_unknown += 1;
                    if file.attributes.checksums && !data.read_only {
                        data.unknown.add(file, at, PIECE_BYTES);
                    }
                }
            }
            *told = state;
        }
        let copies = &states[..seen.read.len().min(COPIES_MAX)];
        let verdict = verdict(copies, seen.absent, differ && differs(number));
        if verdict.undecided > 0 && !copies.iter().any(|copy| copy.is_bad()) {
            for copy in &seen.read {
                *found.bad_disks.entry(copy.disk.name.clone()).or_default() += 1;
            }
        }
        if verdict != FileVerdict::default() {
            found.verdicts.entry(file.number).or_default().add(verdict);
        }
    }
    // A block with a wrong checksum differs, too: that is one finding.
    if differ && found.checksums_wrong == before {
        let name = seen.read.first().map_or("", |copy| copy.disk.name.as_str());
        found.bad(file, at, name, DIFFER);
    }
}

/// What can be said of a block whose copies are these.
fn verdict(copies: &[Block], absent: bool, differ: bool) -> FileVerdict {
    let none = FileVerdict::default();
    let bad = copies.iter().any(|copy| copy.is_bad());
    match () {
        () if bad && copies.contains(&Block::Right) => FileVerdict { mendable: 1, ..none },
        () if bad && copies.contains(&Block::Unknown) => FileVerdict { undecided: 1, ..none },
        () if bad && absent => FileVerdict { offline: 1, ..none },
        () if bad => FileVerdict { lost: 1, ..none },
        () if differ => FileVerdict { undecided: 1, ..none },
        () => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_lost_only_where_no_copy_can_be_right() {
        use Block::{Right, Unknown, Unread, Wrong};
        let of = |copies: &[Block], absent, differ| {
            let v = verdict(copies, absent, differ);
            [v.mendable, v.undecided, v.offline, v.lost]
        };
        assert_eq!(of(&[Right, Right], false, false), [0, 0, 0, 0]);
        assert_eq!(of(&[Wrong, Right], false, true), [1, 0, 0, 0]);
        assert_eq!(of(&[Unread, Wrong, Right], false, true), [1, 0, 0, 0]);
        assert_eq!(of(&[Wrong, Unknown], false, true), [0, 1, 0, 0]);
        assert_eq!(of(&[Right, Right], false, true), [0, 1, 0, 0]);
        assert_eq!(of(&[Unknown, Unknown], false, true), [0, 1, 0, 0]);
        assert_eq!(of(&[Wrong], true, false), [0, 0, 1, 0]);
        assert_eq!(of(&[Wrong, Unread], false, false), [0, 0, 0, 1]);
        assert_eq!(of(&[Wrong], false, false), [0, 0, 0, 1]);
    }
}
