//! The operations that change a group's metadata, as the metadata log records them.

use super::file::{FileAttributes, Leg, get_legs, put_legs};
use super::{DiskStatus, FileState, GroupState, Stale, get_runs, get_text, put_runs};
use crate::codec::{Reader, Writer};
use crate::names::NameOp;
use crate::on_disk::Damage;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::superblock::AuRun;

/// One change of the metadata. Numbers on disk are the discriminants and never reused.
#[derive(Clone, Debug, PartialEq)]
#[repr(u8)]
pub enum Op {
    /// The group was mounted, or who takes part changed.
    Epoch {
        /// The new epoch.
        epoch: u64,
    } = 1,
    /// A disk left: from here on it is neither read nor written.
    DiskOffline {
        /// The disk.
        disk: u16,
        /// When, nanoseconds since 1970.
        at_ns: u64,
    } = 2,
    /// Who holds the metadata from here on.
    Members {
        /// Disk numbers.
        members: Vec<u16>,
    } = 3,
    /// A checkpoint area of a disk is made of these AUs.
    Area {
        /// The disk.
        disk: u16,
        /// 0 or 1.
        area: u8,
        /// Its AUs.
        runs: Vec<AuRun>,
    } = 4,
    /// A file was made, without extents, unpublished.
    FileCreate {
        /// Its number.
        number: u32,
        /// Its incarnation.
        incarnation: u32,
        /// Its attributes.
        attributes: FileAttributes,
        /// When, nanoseconds since 1970.
        at_ns: u64,
    } = 5,
    /// Extents were added at the end of a file.
    FileExtend {
        /// The file.
        number: u32,
        /// Copies of the first new extent, then of the next, ...
        legs: Vec<Leg>,
    } = 6,
    /// Only this many extent sets are left; the pieces behind are unwritten.
    FileShrink {
        /// The file.
        number: u32,
        /// Extent sets left.
        extents: u64,
        /// Regions whose piece maps are kept.
        regions: u32,
    } = 7,
    /// The size that the owner set.
    FileSize {
        /// The file.
        number: u32,
        /// Bytes.
        size: u64,
        /// When, nanoseconds since 1970.
        at_ns: u64,
    } = 8,
    /// Stays from here on, even after a crash.
    FilePublish {
        /// The file.
        number: u32,
    } = 9,
    /// Lost its last name: deleted when its last user is done, or by the next mount.
    FileUnpublish {
        /// The file.
        number: u32,
    } = 10,
    /// A file and its extents are gone.
    FileDelete {
        /// The file.
        number: u32,
    } = 11,
    /// Pieces of a region are written, durably and equal on all copies, or in a dirty region.
    Pieces {
        /// The region.
        region: RegionKey,
        /// Bits to be set.
        pieces: u64,
    } = 12,
    /// Pieces of a region are unwritten again.
    PiecesForget {
        /// The region.
        region: RegionKey,
        /// Bits to be cleared.
        pieces: u64,
    } = 13,
    /// A change of the directory tree.
    Name(NameOp) = 14,
    /// An attribute of the group was set.
    Attribute {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    } = 15,
    /// Dismounted in order (true), or in use again (false).
    Clean {
        /// Whether nothing is dirty.
        clean: bool,
    } = 16,
}

impl Op {
    fn code(&self) -> u8 {
        match self {
            Op::Epoch { .. } => 1,
            Op::DiskOffline { .. } => 2,
            Op::Members { .. } => 3,
            Op::Area { .. } => 4,
            Op::FileCreate { .. } => 5,
            Op::FileExtend { .. } => 6,
            Op::FileShrink { .. } => 7,
            Op::FileSize { .. } => 8,
            Op::FilePublish { .. } => 9,
            Op::FileUnpublish { .. } => 10,
            Op::FileDelete { .. } => 11,
            Op::Pieces { .. } => 12,
            Op::PiecesForget { .. } => 13,
            Op::Name(_) => 14,
            Op::Attribute { .. } => 15,
            Op::Clean { .. } => 16,
        }
    }

    /// Whether the metadata may be larger after the operation.
    pub fn grows(&self) -> bool {
        match self {
            Op::Epoch { .. }
            | Op::DiskOffline { .. }
            | Op::Members { .. }
            | Op::FileShrink { .. }
            | Op::FileSize { .. }
            | Op::FileUnpublish { .. }
            | Op::FileDelete { .. }
            | Op::PiecesForget { .. }
            | Op::Clean { .. }
            | Op::Name(NameOp::RmDir { .. } | NameOp::Unlink { .. }) => false,
            Op::Area { .. }
            | Op::FileCreate { .. }
            | Op::FileExtend { .. }
            | Op::FilePublish { .. }
            | Op::Pieces { .. }
            | Op::Name(_)
            | Op::Attribute { .. } => true,
        }
    }

    /// Appends the operation to a record's payload.
    pub fn put(&self, w: &mut Writer) {
        w.put_u8(self.code());
        match self {
            Op::Epoch { epoch } => w.put_u64(*epoch),
            Op::DiskOffline { disk, at_ns } => {
                w.put_u16(*disk);
                w.put_u64(*at_ns);
            }
            Op::Members { members } => {
                w.put_u8(u8::try_from(members.len()).expect("at most five"));
                members.iter().for_each(|m| w.put_u16(*m));
            }
            Op::Area { disk, area, runs } => {
                w.put_u16(*disk);
                w.put_u8(*area);
                put_runs(w, runs);
            }
            Op::FileCreate { number, incarnation, attributes, at_ns } => {
                w.put_u32(*number);
                w.put_u32(*incarnation);
                attributes.put(w);
                w.put_u64(*at_ns);
            }
            Op::FileExtend { number, legs } => {
                w.put_u32(*number);
                put_legs(w, legs);
            }
            Op::FileShrink { number, extents, regions } => {
                w.put_u32(*number);
                w.put_u64(*extents);
                w.put_u32(*regions);
            }
            Op::FileSize { number, size, at_ns } => {
                w.put_u32(*number);
                w.put_u64(*size);
                w.put_u64(*at_ns);
            }
            Op::FilePublish { number }
            | Op::FileUnpublish { number }
            | Op::FileDelete { number } => w.put_u32(*number),
            Op::Pieces { region, pieces } | Op::PiecesForget { region, pieces } => {
                w.put_u32(region.file);
                w.put_u32(region.incarnation);
                w.put_u32(region.index);
                w.put_u64(*pieces);
            }
            Op::Name(op) => op.encode(w),
            Op::Attribute { name, value } => {
                w.put_str(name);
                w.put_str(value);
            }
            Op::Clean { clean } => w.put_u8(u8::from(*clean)),
        }
    }

    /// Reads the next operation of a record's payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn get(r: &mut Reader<'_>) -> Result<Op, Damage> {
        Ok(match r.u8()? {
            1 => Op::Epoch { epoch: r.u64()? },
            2 => Op::DiskOffline { disk: r.u16()?, at_ns: r.u64()? },
            3 => {
                let count = r.u8()?;
                let members = (0..count).map(|_| r.u16()).collect::<Result<_, _>>()?;
                Op::Members { members }
            }
            4 => Op::Area { disk: r.u16()?, area: r.u8()? & 1, runs: get_runs(r)? },
            5 => Op::FileCreate {
                number: r.u32()?,
                incarnation: r.u32()?,
                attributes: FileAttributes::get(r)?,
                at_ns: r.u64()?,
            },
            6 => Op::FileExtend { number: r.u32()?, legs: get_legs(r)? },
            7 => Op::FileShrink { number: r.u32()?, extents: r.u64()?, regions: r.u32()? },
            8 => Op::FileSize { number: r.u32()?, size: r.u64()?, at_ns: r.u64()? },
            9 => Op::FilePublish { number: r.u32()? },
            10 => Op::FileUnpublish { number: r.u32()? },
            11 => Op::FileDelete { number: r.u32()? },
            12 => Op::Pieces { region: get_region(r)?, pieces: r.u64()? },
            13 => Op::PiecesForget { region: get_region(r)?, pieces: r.u64()? },
            14 => Op::Name(
                NameOp::decode(r).map_err(|_| Damage::Field { field: "name op", value: 0 })?,
            ),
            15 => Op::Attribute { name: get_text(r)?, value: get_text(r)? },
            16 => Op::Clean { clean: r.u8()? != 0 },
            other => {
                return Err(Damage::Field { field: "operation", value: other.into() });
            }
        })
    }

    /// Reads a whole payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn get_all(payload: &[u8]) -> Result<Vec<Op>, Damage> {
        let mut r = Reader::new(payload);
        let mut ops = Vec::new();
        while r.left() > 0 {
            ops.push(Op::get(&mut r)?);
        }
        Ok(ops)
    }
}

fn get_region(r: &mut Reader<'_>) -> Result<RegionKey, Damage> {
    Ok(RegionKey { file: r.u32()?, incarnation: r.u32()?, index: r.u32()? })
}

impl GroupState {
    /// Makes one change.
    ///
    /// # Errors
    /// The operation does not fit the state; from a log that is damage, from a caller a bug.
    pub fn apply(&mut self, op: &Op) -> Result<(), Damage> {
        let misfit = |field, value: u64| Damage::Field { field, value };
        match op {
            Op::Epoch { epoch } => {
                if *epoch <= self.epoch {
                    return Err(misfit("epoch", *epoch));
                }
                self.epoch = *epoch;
            }
            Op::DiskOffline { disk, at_ns } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", (*disk).into()))?;
                d.status = DiskStatus::Offline;
                d.stale = Stale::Everything;
                d.offline_ns = *at_ns;
            }
            Op::Members { members } => self.members.clone_from(members),
            Op::Area { disk, area, runs } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", (*disk).into()))?;
                d.areas[usize::from(*area & 1)].clone_from(runs);
            }
            Op::Name(op) => {
                self.names.apply(op).map_err(|_| misfit("name op", 0))?;
            }
            Op::Attribute { name, value } => {
                self.attributes.insert(name.clone(), value.clone());
            }
            Op::Clean { clean } => self.clean = *clean,
            _ => self.apply_to_file(op)?,
        }
        Ok(())
    }

    fn file_mut(&mut self, number: u32) -> Result<&mut FileState, Damage> {
        self.files.get_mut(&number).ok_or(Damage::Field { field: "file", value: number.into() })
    }

    fn create_file(
        &mut self,
        number: u32,
        incarnation: u32,
        attributes: &FileAttributes,
        at_ns: u64,
    ) -> Result<(), Damage> {
        if self.files.contains_key(&number) {
            return Err(Damage::Field { field: "new file", value: number.into() });
        }
        self.next_file = self.next_file.max(number.saturating_add(1));
        self.next_incarnation = self.next_incarnation.max(incarnation.saturating_add(1));
        let file = FileState {
            number,
            incarnation,
            attributes: attributes.clone(),
            temporary: true,
            size: 0,
            created_ns: at_ns,
            modified_ns: at_ns,
            legs: Vec::new(),
            pieces: Vec::new(),
        };
        self.files.insert(number, file);
        Ok(())
    }

    fn apply_to_file(&mut self, op: &Op) -> Result<(), Damage> {
        match op {
            Op::FileCreate { number, incarnation, attributes, at_ns } => {
                self.create_file(*number, *incarnation, attributes, *at_ns)?;
            }
            Op::FileExtend { number, legs } => {
                let file = self.file_mut(*number)?;
                if !legs.len().is_multiple_of(file.attributes.copies.into()) {
                    return Err(Damage::Field { field: "legs", value: legs.len() as u64 });
                }
                file.legs.extend_from_slice(legs);
            }
            Op::FileShrink { number, extents, regions } => {
                let file = self.file_mut(*number)?;
                let copies = u64::from(file.attributes.copies);
                file.legs.truncate(
                    usize::try_from(extents.saturating_mul(copies)).unwrap_or(usize::MAX),
                );
                file.pieces.truncate(*regions as usize);
            }
            Op::FileSize { number, size, at_ns } => {
                let file = self.file_mut(*number)?;
                (file.size, file.modified_ns) = (*size, *at_ns);
            }
            Op::FilePublish { number } => self.file_mut(*number)?.temporary = false,
            Op::FileUnpublish { number } => self.file_mut(*number)?.temporary = true,
            Op::FileDelete { number } => {
                self.file_mut(*number)?;
                self.files.remove(number);
            }
            Op::Pieces { region, pieces } => {
                let map = self.piece_map(*region)?;
                *map |= pieces;
            }
            Op::PiecesForget { region, pieces } => {
                let map = self.piece_map(*region)?;
                *map &= !pieces;
            }
            other => unreachable!("not an operation on a file: {other:?}"),
        }
        Ok(())
    }

    fn piece_map(&mut self, region: RegionKey) -> Result<&mut u64, Damage> {
        let au_size = u64::from(self.header.au_size);
        let file = self.file_mut(region.file)?;
        if file.incarnation != region.incarnation
            || u64::from(region.index) >= file.regions(au_size)
        {
            return Err(Damage::Field { field: "region", value: region.index.into() });
        }
        if file.pieces.len() <= region.index as usize {
            file.pieces.resize(region.index as usize + 1, 0);
        }
        Ok(&mut file.pieces[region.index as usize])
    }
}
