//! How large the content of a checkpoint is, and how large it may become: what the room that is
//! kept for metadata is measured by.
//!
//! The content has two parts. The *maps*, legs and pieces, follow what is allocated: their worst
//! coding is known from the number of legs alone, and is counted in full, so that no write ever
//! waits for room in a checkpoint. The *base* is all the rest: names, files, disks, attributes.

use super::{FileAttributes, GroupState, Op};
use crate::codec::Writer;
use crate::names::NameOp;
use crate::on_disk::checkpoint::chunks_for;
use crate::on_disk::layout::{CHUNK_BYTES, REGION_BYTES, au_count};

/// Bytes of a leg, at worst.
const LEG_BYTES: u64 = 7;
/// Bytes of a region's piece map, at worst: a run of its own.
const REGION_MAP_BYTES: u64 = 12;
/// Bytes of a file without its name, legs, pieces and failure group, and the map of a region that it
/// has in part.
const FILE_BYTES: u64 = 4 + 4 + 10 + 1 + 24 + 4 + 4 + REGION_MAP_BYTES;
/// Bytes of a name besides its text: directory, length, file, incarnation, system.
const NAME_BYTES: u64 = 4 + 2 + 4 + 4 + 1;
/// Bytes of a directory besides its name.
const DIR_BYTES: u64 = 4 + 4 + 2;
/// What a checkpoint may be larger by than what was measured: operations of the committer's own.
const SLACK_BYTES: u64 = 64 << 10;
/// Room for names that are still to come in a group whose files take all the rest.
const NAMES_BYTES: u64 = 256 << 10;

/// Bytes of the maps of so many legs, at worst.
fn maps_bytes(legs: u64, au_size: u64) -> u64 {
    // A leg may be the only copy of its extent. AU sizes are powers of two from 1 MiB on, so this is
    // whole bytes.
    legs * (LEG_BYTES + REGION_MAP_BYTES * au_size / REGION_BYTES)
}

/// AUs of an area that holds a content of so many bytes.
fn aus_for(content: u64, au_size: u64) -> u32 {
    let bytes = chunks_for(content) * CHUNK_BYTES as u64;
    u32::try_from(bytes.div_ceil(au_size)).unwrap_or(u32::MAX)
}

/// AUs that each checkpoint area needs with a base of so many bytes and so many legs, whatever is
/// written to them.
pub(crate) fn area_needed(base: u64, legs: u64, au_size: u64) -> u32 {
    aus_for(base + SLACK_BYTES + maps_bytes(legs, au_size), au_size)
}

/// AUs to be kept for each checkpoint area: files may take all the others, and the base may become
/// an eighth larger, and 256 KiB.
pub(crate) fn area_kept(base: u64, legs_max: u64, au_size: u64) -> u32 {
    area_needed(base + base / 8 + NAMES_BYTES, legs_max, au_size)
}

fn file_bytes(attributes: &FileAttributes) -> u64 {
    FILE_BYTES + attributes.placement.as_ref().map_or(0, |p| p.len() as u64)
}

impl GroupState {
    /// Bytes of the base: all that [`GroupState::encode`] gives but legs and piece maps.
    pub(crate) fn base_bytes(&self) -> u64 {
        let mut w = Writer::new();
        self.put_all_but_files(&mut w);
        let files = self.files.values().map(|f| file_bytes(&f.attributes)).sum::<u64>();
        w.into_bytes().len() as u64 + 4 + files
    }

    /// Legs that the group has room for, if it had nothing else.
    pub(crate) fn legs_max(&self) -> u64 {
        let au_size = u64::from(self.header.au_size);
        self.disks.values().map(|d| u64::from(au_count(d.bytes, au_size))).sum()
    }

    /// By how much the base grows with `op`, which is not yet applied; at most, and by how much it
    /// shrinks, at least.
    pub(crate) fn base_change(&self, op: &Op) -> i64 {
        let change = match op {
            Op::FileCreate { attributes, .. } => file_bytes(attributes),
            Op::FileDelete { number } => {
                let gone = self.files.get(number).map_or(0, |f| file_bytes(&f.attributes));
                return -(gone as i64);
            }
            Op::Name(op) => return name_change(op),
            Op::Attribute { name, value } => (4 + name.len() + value.len()) as u64,
            Op::Area { disk, area, runs } => {
                let had = self.disks.get(disk).map_or(0, |d| d.areas[usize::from(*area & 1)].len());
                return (runs.len() as i64 - had as i64) * 8;
            }
            _ => 0,
        };
        change as i64
    }
}

fn name_change(op: &NameOp) -> i64 {
    let change = |bytes: u64, text: &str| (bytes + text.len() as u64) as i64;
    match op {
        NameOp::MkDir { name, .. } => change(DIR_BYTES, name.as_str()),
        NameOp::RmDir { .. } => -(DIR_BYTES as i64),
        NameOp::Link { name, .. } => change(NAME_BYTES, name.as_str()),
        NameOp::Unlink { name, .. } => -change(NAME_BYTES, name.as_str()),
        NameOp::Replace { .. } => 0,
        NameOp::Rename { from, to, .. } => to.as_str().len() as i64 - from.as_str().len() as i64,
    }
}
