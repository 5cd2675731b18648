//! Size of the content of a checkpoint, now and at most: the room reserved for metadata is measured by
//! it.
//!
//! The content has two parts. The *maps*, legs and pieces, follow what is allocated: their worst-case
//! encoding is known from the number of legs alone, and is reserved in full, so that no write ever
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
/// Bytes of what a disk missed of a region, at worst: a run of its own.
const STALE_BYTES: u64 = 16;
/// Bytes of a file without its name, legs, maps and failure group, and the maps of a region that it
/// has in part.
const FILE_BYTES: u64 = 4 + 4 + 10 + 1 + 24 + 4 + 4 + REGION_MAP_BYTES + 2 + STALE_BYTES;
/// Bytes of a disk that missed something of a file.
const STALE_DISK_BYTES: u64 = 2 + 4;
/// Bytes of a name besides its text: directory, length, file, incarnation, system.
const NAME_BYTES: u64 = 4 + 2 + 4 + 4 + 1;
/// Bytes of a directory besides its name.
const DIR_BYTES: u64 = 4 + 4 + 2;
/// How much larger a checkpoint may be than measured: operations of the committer's own.
const SLACK_BYTES: u64 = 64 << 10;
/// Room for further names in a group whose files take all the rest.
const NAMES_BYTES: u64 = 256 << 10;

/// Bytes of the maps of so many legs, at worst.
fn maps_bytes(legs: u64, au_size: u64) -> u64 {
    // A leg may be the only copy of its extent, or on a disk that is away, and the only one of its
    // file there. AU sizes are powers of two from 1 MiB on, so this is whole bytes.
    let stale = STALE_DISK_BYTES + STALE_BYTES * au_size.div_ceil(REGION_BYTES);
    legs * (LEG_BYTES + REGION_MAP_BYTES * au_size / REGION_BYTES + stale)
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

    /// How much the base grows by `op`, which is not yet applied, at most; and how much it shrinks, at
    /// least.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::names::{Alias, DirNo, FileNo, PathPart};
    use crate::on_disk::Uuid;
    use crate::on_disk::dirty::RegionKey;
    use crate::on_disk::label::Redundancy;
    use crate::on_disk::superblock::AuRun;
    use crate::state::{
        DiskState, DiskStatus, FileType, GroupHeader, Leg, OfflineBy, Stale, Striping,
    };

    fn state(au_size: u32) -> GroupState {
        let header = GroupHeader {
            uuid: Uuid(7),
            name: "DATA".into(),
            redundancy: Redundancy::Normal,
            au_size,
            sector_size: 512,
            created_ns: 0,
        };
        let disk = |no: u16| DiskState {
            uuid: Uuid(no.into()),
            name: format!("DATA_{no:04}"),
            failgroup: "FG".into(),
            bytes: 1 << 40,
            status: DiskStatus::Online,
            stale: Stale::Nothing,
            offline_ns: 0,
            created_ns: 0,
            areas: [vec![AuRun { start: 1, count: 1 }], vec![]],
            shrink_to: 0,
            offline: Default::default(),
        };
        GroupState::new(header, BTreeMap::from([(0, disk(0)), (1, disk(1))]), vec![0, 1])
    }

    fn file(number: u32, copies: u8) -> Op {
        let attributes = FileAttributes {
            file_type: FileType::Datafile,
            copies,
            striping: Striping::Coarse,
            unit: 4096,
            checksums: true,
            placement: (copies == 1).then(|| "FG".to_owned()),
        };
        Op::FileCreate { number, incarnation: 1, attributes, at_ns: 5 }
    }

    fn part(text: &str) -> PathPart {
        PathPart::new(text).expect("a legal name")
    }

    #[test]
    fn the_worst_case_is_met_and_never_passed() {
        for au_size in [1u32 << 20, 4 << 20, 64 << 20] {
            let mut state = state(au_size);
            let mut base = state.base_bytes() as i64;
            let legs_in_all = std::cell::Cell::new(0);
            let mut apply = |op: Op| {
                base += state.base_change(&op);
                state.apply(&op).expect("it fits");
                if let Op::FileExtend { legs, .. } = &op {
                    legs_in_all.set(legs_in_all.get() + legs.len() as u64);
                }
                let maps = maps_bytes(legs_in_all.get(), au_size.into());
                let content = state.encode().len() as u64;
                assert_eq!(base as u64, state.base_bytes(), "{op:?}");
                assert!(content <= base as u64 + maps, "{content} of {base} and {maps}: {op:?}");
                base as u64 + maps - content
            };
            // What is written from here on it has missed.
            apply(Op::DiskOfflineBy {
                disk: 1,
                at_ns: 1,
                mount_id: 1,
                tried: 0,
                by: OfflineBy::Itself,
            });
            let dir = DirNo(1);
            let alias = Alias { file: FileNo(300), incarnation: 1, system: false };
            apply(Op::Name(NameOp::MkDir { dir, parent: DirNo::ROOT, name: part("dir") }));
            for (number, copies) in [(300, 1u8), (301, 2)] {
                apply(file(number, copies));
                // No two legs are neighbours, and no two regions have equal maps.
                let legs = (0..240u32).map(|i| Leg { disk: (i % 2) as u16, au: 3 + 5 * i });
                apply(Op::FileExtend { number, legs: legs.collect() });
                let regions = 240 / u64::from(copies) * u64::from(au_size) / REGION_BYTES;
                let mut left = 0;
                for index in 0..regions as u32 {
                    let region = RegionKey { file: number, incarnation: 1, index };
                    left = apply(Op::Pieces { region, pieces: u64::from(index) + 1 });
                }
                // One copy is the worst, of which nobody misses anything: nothing is left but the
                // region that is not there, and room for what is missed.
                let missed = STALE_DISK_BYTES + STALE_BYTES * u64::from(au_size).div_ceil(4 << 20);
                let spare = REGION_MAP_BYTES + STALE_BYTES + legs_in_all.get() * missed;
                assert!(copies == 2 || left <= spare, "{left}");
            }
            apply(Op::Name(NameOp::Link { dir, name: part("a"), alias }));
            let to = part("longer");
            let rename =
                NameOp::Rename { from_dir: dir, from: part("a"), to_dir: dir, to, replace: false };
            apply(Op::Name(rename));
            apply(Op::Area { disk: 1, area: 1, runs: vec![AuRun { start: 2, count: 9 }] });
            apply(Op::Attribute { name: "content.type".into(), value: "data".into() });
            apply(Op::Name(NameOp::Unlink { dir, name: part("longer") }));
            apply(Op::FileDelete { number: 300 });
        }
    }
}
