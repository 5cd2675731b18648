//! The operations that change a group's metadata, as the metadata log records them.

use super::file::{FileAttributes, Leg, get_legs, put_legs};
use super::{DiskState, DiskStatus, JOIN_VERSION, OfflineBy, get_runs, get_text, put_runs};
use crate::codec::{Reader, Writer};
use crate::names::NameOp;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::superblock::AuRun;
use crate::on_disk::{Damage, Uuid};

/// One change of the metadata. Numbers on disk are the discriminants and never reused.
#[derive(Clone, Debug, PartialEq)]
#[repr(u8)]
pub enum Op {
    /// The group was mounted, or who takes part changed.
    Epoch {
        /// The new epoch.
        epoch: u64,
    } = 1,
    /// A disk left, and what it lacks is not known: from here on it is neither read nor written.
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
    /// A disk joined, with its checkpoint areas; nothing lies on it yet.
    DiskJoin {
        /// Its number.
        disk: u16,
        /// The disk.
        state: Box<DiskState>,
    } = 17,
    /// A disk is being dropped, or no longer: online, dropping or forcing.
    DiskLeaving {
        /// The disk.
        disk: u16,
        /// What it is from here on.
        status: DiskStatus,
    } = 18,
    /// A disk that held nothing any more is gone from the group.
    DiskGone {
        /// The disk.
        disk: u16,
    } = 19,
    /// RESIZE to fewer bytes has begun; 0: no longer wanted.
    DiskShrink {
        /// The disk.
        disk: u16,
        /// Bytes it will have.
        bytes: u64,
    } = 20,
    /// The group uses so many bytes of a disk from here on.
    DiskSize {
        /// The disk.
        disk: u16,
        /// Bytes.
        bytes: u64,
    } = 21,
    /// A disk has another name.
    DiskRename {
        /// The disk.
        disk: u16,
        /// The name.
        name: String,
    } = 22,
    /// One copy of an extent lies elsewhere from here on.
    FileMove {
        /// The file.
        number: u32,
        /// Its incarnation.
        incarnation: u32,
        /// The extent set.
        extent: u32,
        /// Which copy of it, 0 the first.
        leg: u8,
        /// Where it lies.
        to: Leg,
    } = 23,
    /// A rebalance is wanted at this power (0: stopped), or no longer.
    Rebalance {
        /// The power.
        power: Option<u32>,
    } = 24,
    /// A disk left: from here on it is neither read nor written, and what it misses is mapped.
    DiskOfflineBy {
        /// The disk.
        disk: u16,
        /// When, nanoseconds since 1970.
        at_ns: u64,
        /// The id of the last mount that it took part in.
        mount_id: u64,
        /// That of a mount since that may have written its label and nothing else; 0: none.
        tried: u64,
        /// Why.
        by: OfflineBy,
    } = 25,
    /// A disk that was away is written to again.
    DiskReturning {
        /// The disk.
        disk: u16,
        /// The id of this mount, which is in the disk's label.
        mount_id: u64,
    } = 26,
    /// A disk that returned has all that it missed.
    DiskOnline {
        /// The disk.
        disk: u16,
    } = 27,
    /// Pieces of a region that a disk which is away has missed.
    Stale {
        /// The disk.
        disk: u16,
        /// The region.
        region: RegionKey,
        /// Bits to be set.
        pieces: u64,
    } = 28,
    /// Pieces of a region that a disk has again.
    Synced {
        /// The disk.
        disk: u16,
        /// The region.
        region: RegionKey,
        /// Bits to be cleared.
        pieces: u64,
    } = 29,
    /// Another device takes the place of a disk that is away.
    DiskReplace {
        /// The disk.
        disk: u16,
        /// The identity of the new device.
        uuid: Uuid,
        /// The id of this mount, which is in its label.
        mount_id: u64,
    } = 30,
    /// A disk that is away lacks every written piece of which there is another copy.
    StaleAll {
        /// The disk.
        disk: u16,
        /// The id of this mount, which is in its label.
        mount_id: u64,
    } = 32,
    /// The label of a disk that is away is about to be written by a mount of that id.
    DiskTried {
        /// The disk.
        disk: u16,
        /// The mount id.
        mount_id: u64,
    } = 33,
    /// A disk that is away is dropped after this time, not after the group's.
    DropAfter {
        /// The disk.
        disk: u16,
        /// Seconds since it left; 0: as the group's attribute says.
        seconds: u32,
    } = 31,
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
            Op::DiskJoin { .. } => 17,
            Op::DiskLeaving { .. } => 18,
            Op::DiskGone { .. } => 19,
            Op::DiskShrink { .. } => 20,
            Op::DiskSize { .. } => 21,
            Op::DiskRename { .. } => 22,
            Op::FileMove { .. } => 23,
            Op::Rebalance { .. } => 24,
            Op::DiskOfflineBy { .. } => 25,
            Op::DiskReturning { .. } => 26,
            Op::DiskOnline { .. } => 27,
            Op::Stale { .. } => 28,
            Op::Synced { .. } => 29,
            Op::DiskReplace { .. } => 30,
            Op::DropAfter { .. } => 31,
            Op::StaleAll { .. } => 32,
            Op::DiskTried { .. } => 33,
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
            | Op::DiskLeaving { .. }
            | Op::DiskGone { .. }
            | Op::DiskShrink { .. }
            | Op::DiskSize { .. }
            | Op::Rebalance { .. }
            | Op::DiskOfflineBy { .. }
            | Op::DiskReturning { .. }
            | Op::DiskOnline { .. }
            | Op::Synced { .. }
            | Op::DiskReplace { .. }
            | Op::DropAfter { .. }
            | Op::StaleAll { .. }
            | Op::DiskTried { .. }
            // What makes room is never refused for want of room: room for the worst coding of all
            // legs, and of what disks missed of them, is kept.
            | Op::Stale { .. }
            | Op::DiskJoin { .. }
            | Op::FileMove { .. }
            | Op::Name(NameOp::RmDir { .. } | NameOp::Unlink { .. }) => false,
            Op::Area { .. }
            | Op::FileCreate { .. }
            | Op::FileExtend { .. }
            | Op::FilePublish { .. }
            | Op::Pieces { .. }
            | Op::Name(_)
            | Op::DiskRename { .. } => true,
            // One that says nothing any more only takes away.
            Op::Attribute { value, .. } => !value.is_empty(),
        }
    }

    /// Whether other disks, or larger or smaller ones, take part afterwards.
    pub fn changes_disks(&self) -> bool {
        matches!(
            self,
            Op::DiskJoin { .. }
                | Op::DiskGone { .. }
                | Op::DiskShrink { .. }
                | Op::DiskSize { .. }
                | Op::DiskRename { .. }
        )
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
            Op::FileMove { number, incarnation, extent, leg, to } => {
                w.put_u32(*number);
                w.put_u32(*incarnation);
                w.put_u32(*extent);
                w.put_u8(*leg);
                w.put_u16(to.disk);
                w.put_u32(to.au);
            }
            other => other.put_of_disk(w),
        }
    }

    fn put_of_disk(&self, w: &mut Writer) {
        match self {
            Op::DiskJoin { disk, state } => {
                w.put_u16(*disk);
                state.put(w, JOIN_VERSION);
            }
            Op::DiskLeaving { disk, status } => {
                w.put_u16(*disk);
                w.put_u8(*status as u8);
            }
            Op::DiskGone { disk } => w.put_u16(*disk),
            Op::DiskShrink { disk, bytes } | Op::DiskSize { disk, bytes } => {
                w.put_u16(*disk);
                w.put_u64(*bytes);
            }
            Op::DiskRename { disk, name } => {
                w.put_u16(*disk);
                w.put_str(name);
            }
            Op::Rebalance { power } => {
                w.put_u8(u8::from(power.is_some()));
                w.put_u32(power.unwrap_or(0));
            }
            other => other.put_of_away(w),
        }
    }

    fn put_of_away(&self, w: &mut Writer) {
        match self {
            Op::DiskOfflineBy { disk, at_ns, mount_id, tried, by } => {
                w.put_u16(*disk);
                w.put_u64(*at_ns);
                w.put_u64(*mount_id);
                w.put_u64(*tried);
                w.put_u8(*by as u8);
            }
            Op::DiskReturning { disk, mount_id }
            | Op::StaleAll { disk, mount_id }
            | Op::DiskTried { disk, mount_id } => {
                w.put_u16(*disk);
                w.put_u64(*mount_id);
            }
            Op::DiskOnline { disk } => w.put_u16(*disk),
            Op::Stale { disk, region, pieces } | Op::Synced { disk, region, pieces } => {
                w.put_u16(*disk);
                w.put_u32(region.file);
                w.put_u32(region.incarnation);
                w.put_u32(region.index);
                w.put_u64(*pieces);
            }
            Op::DiskReplace { disk, uuid, mount_id } => {
                w.put_u16(*disk);
                w.put_u64(uuid.0 as u64);
                w.put_u64((uuid.0 >> 64) as u64);
                w.put_u64(*mount_id);
            }
            Op::DropAfter { disk, seconds } => {
                w.put_u16(*disk);
                w.put_u32(*seconds);
            }
            other => unreachable!("not an operation on a disk: {other:?}"),
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
            other => Op::get_of_disk(r, other)?,
        })
    }

    fn get_of_disk(r: &mut Reader<'_>, code: u8) -> Result<Op, Damage> {
        Ok(match code {
            17 => {
                Op::DiskJoin { disk: r.u16()?, state: Box::new(DiskState::get(r, JOIN_VERSION)?) }
            }
            18 => Op::DiskLeaving { disk: r.u16()?, status: DiskStatus::get(r)? },
            19 => Op::DiskGone { disk: r.u16()? },
            20 => Op::DiskShrink { disk: r.u16()?, bytes: r.u64()? },
            21 => Op::DiskSize { disk: r.u16()?, bytes: r.u64()? },
            22 => Op::DiskRename { disk: r.u16()?, name: get_text(r)? },
            23 => Op::FileMove {
                number: r.u32()?,
                incarnation: r.u32()?,
                extent: r.u32()?,
                leg: r.u8()?,
                to: Leg { disk: r.u16()?, au: r.u32()? },
            },
            24 => {
                let wanted = r.u8()? != 0;
                let power = r.u32()?;
                Op::Rebalance { power: wanted.then_some(power) }
            }
            other => Op::get_of_away(r, other)?,
        })
    }

    fn get_of_away(r: &mut Reader<'_>, code: u8) -> Result<Op, Damage> {
        Ok(match code {
            25 => Op::DiskOfflineBy {
                disk: r.u16()?,
                at_ns: r.u64()?,
                mount_id: r.u64()?,
                tried: r.u64()?,
                by: OfflineBy::get(r)?,
            },
            26 => Op::DiskReturning { disk: r.u16()?, mount_id: r.u64()? },
            27 => Op::DiskOnline { disk: r.u16()? },
            28 => Op::Stale { disk: r.u16()?, region: get_region(r)?, pieces: r.u64()? },
            29 => Op::Synced { disk: r.u16()?, region: get_region(r)?, pieces: r.u64()? },
            30 => {
                let disk = r.u16()?;
                let uuid = Uuid(u128::from(r.u64()?) | u128::from(r.u64()?) << 64);
                Op::DiskReplace { disk, uuid, mount_id: r.u64()? }
            }
            31 => Op::DropAfter { disk: r.u16()?, seconds: r.u32()? },
            32 => Op::StaleAll { disk: r.u16()?, mount_id: r.u64()? },
            33 => Op::DiskTried { disk: r.u16()?, mount_id: r.u64()? },
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
