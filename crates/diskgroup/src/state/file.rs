//! The metadata of one file.

use std::collections::BTreeMap;

use super::{StaleMap, get_text};
use crate::codec::{Reader, Truncated, Writer};
use crate::on_disk::Damage;
use crate::on_disk::layout::{AU_SIZE_MAX, FINE_CHUNK_BYTES, FINE_WIDTH, REGION_BYTES};

/// How a file's bytes go round its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Striping {
    /// One AU after the other.
    Coarse = 1,
    /// 128 KiB chunks round eight extents, for small control-like files.
    Fine = 2,
}

/// What a file is for; v$asm_file.type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileType {
    /// Tables and whatever users put into the group.
    Datafile = 1,
    /// Redo.
    Onlinelog = 2,
    /// Archived redo.
    Archivelog = 3,
    /// Spill.
    Tempfile = 4,
    /// Catalog and control data of an instance.
    Controlfile = 5,
    /// Parameters.
    Parameterfile = 6,
    /// Anything copied in.
    Dumpset = 7,
}

impl FileType {
    /// As v$asm_file says it.
    pub fn name(self) -> &'static str {
        match self {
            FileType::Datafile => "DATAFILE",
            FileType::Onlinelog => "ONLINELOG",
            FileType::Archivelog => "ARCHIVELOG",
            FileType::Tempfile => "TEMPFILE",
            FileType::Controlfile => "CONTROLFILE",
            FileType::Parameterfile => "PARAMETERFILE",
            FileType::Dumpset => "DUMPSET",
        }
    }

    pub(crate) fn from_u8(v: u8) -> Option<FileType> {
        Some(match v {
            1 => FileType::Datafile,
            2 => FileType::Onlinelog,
            3 => FileType::Archivelog,
            4 => FileType::Tempfile,
            5 => FileType::Controlfile,
            6 => FileType::Parameterfile,
            7 => FileType::Dumpset,
            _ => return None,
        })
    }
}

/// Attributes of a file, fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// What it is for.
    pub file_type: FileType,
    /// Copies: 1, 2 or 3.
    pub copies: u8,
    /// How its bytes go round its extents.
    pub striping: Striping,
    /// The smallest piece that is repaired as one, in bytes: 4096 or 8192.
    pub unit: u32,
    /// Whether each 4 KiB has a checksum.
    pub checksums: bool,
    /// Confined to this failure group, if any (then one copy).
    pub placement: Option<String>,
}

impl FileAttributes {
    /// Whether it is one of the places of a log, which has its other copies elsewhere.
    pub fn is_medium_of_a_log(&self) -> bool {
        self.file_type == FileType::Onlinelog && self.placement.is_some()
    }
}

/// One copy of an extent: an AU of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg {
    /// The disk's number.
    pub disk: u16,
    /// The AU on it.
    pub au: u32,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Its number, 256 and up.
    pub number: u32,
    /// Grows with every file made: tells files of one number apart.
    pub incarnation: u32,
    /// Its attributes.
    pub attributes: FileAttributes,
    /// Made but not yet published: deleted by the next mount.
    pub temporary: bool,
    /// Size in bytes as the owner set it.
    pub size: u64,
    /// When made, nanoseconds since 1970.
    pub created_ns: u64,
    /// When its size or name last changed, nanoseconds since 1970.
    pub modified_ns: u64,
    /// Copies of extent 0, then of extent 1, ...: `attributes.copies` each.
    pub legs: Vec<Leg>,
    /// Per region: which 64 KiB pieces were ever written, durably.
    pub pieces: Vec<u64>,
    /// What disks that are away have missed.
    pub stale: BTreeMap<u16, StaleMap>,
}

/// A stretch of a file that lies in one AU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The extent set.
    pub extent: u64,
    /// Where in the AU, in bytes.
    pub au_offset: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How long, in bytes.
    pub length: u64,
}

impl FileState {
    /// Extent sets it has.
    pub fn extents(&self) -> u64 {
        (self.legs.len() / usize::from(self.attributes.copies)) as u64
    }

    /// Bytes that its extents hold.
    pub fn allocated(&self, au_size: u64) -> u64 {
        self.extents() * au_size
    }

    /// Copies of an extent set.
    pub fn legs_of(&self, extent: u64) -> &[Leg] {
        let copies = usize::from(self.attributes.copies);
        &self.legs[extent as usize * copies..(extent as usize + 1) * copies]
    }

    /// Extent sets that `bytes` need; a fine-striped file grows by whole stripes.
    pub fn extents_for(bytes: u64, striping: Striping, au_size: u64) -> u64 {
        match striping {
            Striping::Coarse => bytes.div_ceil(au_size),
            Striping::Fine => bytes.div_ceil(au_size * FINE_WIDTH) * FINE_WIDTH,
        }
    }

    /// Durable piece map of a region.
    pub fn pieces_of(&self, region: u64) -> u64 {
        self.pieces.get(region as usize).copied().unwrap_or(0)
    }

    /// Regions that the extents reach into.
    pub fn regions(&self, au_size: u64) -> u64 {
        self.allocated(au_size).div_ceil(REGION_BYTES)
    }
}

/// Cuts a range of a file into stretches, in file order.
pub fn stretches(
    striping: Striping,
    au_size: u64,
    offset: u64,
    length: u64,
) -> impl Iterator<Item = Stretch> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (extent, au_offset, room) = match striping {
            Striping::Coarse => (at / au_size, at % au_size, au_size - at % au_size),
            Striping::Fine => {
                let stripe_bytes = au_size * FINE_WIDTH;
                let (stripe, in_stripe) = (at / stripe_bytes, at % stripe_bytes);
                let (chunk, in_chunk) =
                    (in_stripe / FINE_CHUNK_BYTES, in_stripe % FINE_CHUNK_BYTES);
                (
                    stripe * FINE_WIDTH + chunk % FINE_WIDTH,
                    chunk / FINE_WIDTH * FINE_CHUNK_BYTES + in_chunk,
                    FINE_CHUNK_BYTES - in_chunk,
                )
            }
        };
        let length = room.min(end - at);
        let stretch = Stretch { extent, au_offset, offset: at, length };
        at += length;
        Some(stretch)
    })
}

/// Encodes legs: a leg in the AU right behind the last one named on its disk costs one byte.
pub(crate) fn put_legs(w: &mut Writer, legs: &[Leg]) {
    let mut next = [u32::MAX; 255];
    w.put_u32(u32::try_from(legs.len()).expect("fewer than 4 G legs"));
    for leg in legs {
        let expected = next.get(usize::from(leg.disk)).copied();
        match expected {
            Some(au) if au == leg.au => w.put_u8(leg.disk as u8),
            _ => {
                w.put_u8(255);
                w.put_u16(leg.disk);
                w.put_u32(leg.au);
            }
        }
        if let Some(slot) = next.get_mut(usize::from(leg.disk)) {
            *slot = leg.au.wrapping_add(1);
        }
    }
}

pub(crate) fn get_legs(r: &mut Reader<'_>) -> Result<Vec<Leg>, Damage> {
    let count = r.u32()? as usize;
    // Each leg costs at least a byte, so a damaged count cannot make us reserve the moon.
    if count > r.left() {
        return Err(Damage::Truncated);
    }
    let mut next = [u32::MAX; 255];
    let mut legs = Vec::with_capacity(count);
    for _ in 0..count {
        let leg = match r.u8()? {
            255 => Leg { disk: r.u16()?, au: r.u32()? },
            disk => Leg { disk: disk.into(), au: next[usize::from(disk)] },
        };
        if let Some(slot) = next.get_mut(usize::from(leg.disk)) {
            *slot = leg.au.wrapping_add(1);
        }
        legs.push(leg);
    }
    Ok(legs)
}

impl FileAttributes {
    pub(crate) fn put(&self, w: &mut Writer) {
        w.put_u8(self.file_type as u8);
        w.put_u8(self.copies);
        w.put_u8(self.striping as u8);
        w.put_u8(u8::from(self.checksums));
        w.put_u32(self.unit);
        w.put_str(self.placement.as_deref().unwrap_or(""));
    }

    pub(crate) fn get(r: &mut Reader<'_>) -> Result<FileAttributes, Damage> {
        let impossible = |field, value: u64| Damage::Field { field, value };
        let kind = r.u8()?;
        let file_type = FileType::from_u8(kind).ok_or(impossible("file type", kind.into()))?;
        let copies = r.u8()?;
        if !(1..=3).contains(&copies) {
            return Err(impossible("copies", copies.into()));
        }
        let striping = match r.u8()? {
            1 => Striping::Coarse,
            2 => Striping::Fine,
            other => return Err(impossible("striping", other.into())),
        };
        let checksums = r.u8()? != 0;
        let unit = r.u32()?;
        if unit != 4096 && unit != 8192 {
            return Err(impossible("unit", unit.into()));
        }
        let placement = Some(get_text(r)?).filter(|p| !p.is_empty());
        Ok(FileAttributes { file_type, copies, striping, unit, checksums, placement })
    }
}

impl FileState {
    pub(crate) fn put(&self, w: &mut Writer) {
        w.put_u32(self.number);
        w.put_u32(self.incarnation);
        self.attributes.put(w);
        w.put_u8(u8::from(self.temporary));
        w.put_u64(self.size);
        w.put_u64(self.created_ns);
        w.put_u64(self.modified_ns);
        put_legs(w, &self.legs);
        put_pieces(w, &self.pieces);
        self.put_stale(w);
    }

    /// Reads what [`FileState::put`] of that version of the content wrote.
    pub(crate) fn get(r: &mut Reader<'_>, version: u16) -> Result<FileState, Damage> {
        let (number, incarnation) = (r.u32()?, r.u32()?);
        let attributes = FileAttributes::get(r)?;
        let temporary = r.u8()? != 0;
        let (size, created_ns, modified_ns) = (r.u64()?, r.u64()?, r.u64()?);
        let legs = get_legs(r)?;
        if !legs.len().is_multiple_of(attributes.copies.into()) {
            return Err(Damage::Field { field: "legs", value: legs.len() as u64 });
        }
        // No allocation unit is larger than 64 MiB, so no file has more regions than this.
        let extents = legs.len() / usize::from(attributes.copies);
        let most = extents * REGIONS_PER_EXTENT_MAX;
        let pieces = get_pieces(r, most)?;
        let stale = match version {
            0..=2 => BTreeMap::new(),
            _ => FileState::get_stale(r, most as u64)?,
        };
        Ok(FileState {
            number,
            incarnation,
            attributes,
            temporary,
            size,
            created_ns,
            modified_ns,
            legs,
            pieces,
            stale,
        })
    }
}

/// Piece maps as runs of equal maps: most files are all written or not at all.
fn put_pieces(w: &mut Writer, pieces: &[u64]) {
    let mut runs: Vec<(u32, u64)> = Vec::new();
    for map in pieces {
        match runs.last_mut() {
            Some((count, last)) if last == map => *count += 1,
            _ => runs.push((1, *map)),
        }
    }
    w.put_u32(u32::try_from(runs.len()).expect("fewer than 4 G regions"));
    for (count, map) in runs {
        w.put_u32(count);
        w.put_u64(map);
    }
}

/// Regions that the largest extent reaches into.
const REGIONS_PER_EXTENT_MAX: usize = (AU_SIZE_MAX / REGION_BYTES) as usize;

fn get_pieces(r: &mut Reader<'_>, most: usize) -> Result<Vec<u64>, Damage> {
    let runs = r.u32()?;
    let mut pieces = Vec::new();
    for _ in 0..runs {
        let (count, map) = (r.u32()? as usize, r.u64()?);
        if count > most.saturating_sub(pieces.len()) {
            return Err(Damage::Field { field: "pieces", value: count as u64 });
        }
        pieces.resize(pieces.len() + count, map);
    }
    Ok(pieces)
}

impl From<Truncated> for Damage {
    fn from(_: Truncated) -> Damage {
        Damage::Truncated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_range_once_and_in_order() {
        for striping in [Striping::Coarse, Striping::Fine] {
            let au = 1 << 20;
            let (offset, length) = (700_000u64.next_multiple_of(4096), 12u64 << 20);
            let mut at = offset;
            let mut seen = std::collections::BTreeSet::new();
            for s in stretches(striping, au, offset, length) {
                assert_eq!(s.offset, at);
                assert!(s.au_offset + s.length <= au);
                assert!(seen.insert((s.extent, s.au_offset)));
                at += s.length;
            }
            assert_eq!(at, offset + length);
        }
    }

    #[test]
    fn legs_in_runs_cost_a_byte() {
        let legs: Vec<Leg> =
            (0..4000u32).map(|i| Leg { disk: (i % 4) as u16, au: 5 + i / 4 }).collect();
        let mut w = Writer::new();
        put_legs(&mut w, &legs);
        let bytes = w.into_bytes();
        assert!(bytes.len() < 4100, "{} bytes", bytes.len());
        assert_eq!(get_legs(&mut Reader::new(&bytes)).unwrap(), legs);
    }
}
