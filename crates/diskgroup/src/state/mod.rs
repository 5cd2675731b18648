//! The metadata of a group in RAM: `state = fold(checkpoint, records)`.
//!
//! Nothing changes a [`GroupState`] but [`GroupState::apply`], and every [`Op`] that is applied is
//! also written to the metadata log, in the same order; so a mount that reads the newest
//! checkpoint and applies the records behind it has the same state, always.

mod apply;
pub mod file;
mod invariants;
mod older;
mod op;
pub(crate) mod size;
mod stale;

use std::collections::BTreeMap;

pub use file::{FileAttributes, FileState, FileType, Leg, Stretch, Striping, stretches};
pub use op::Op;
pub use stale::StaleMap;

use crate::codec::{Reader, Writer};
use crate::names::Tree;
use crate::on_disk::label::Redundancy;
use crate::on_disk::superblock::AuRun;
use crate::on_disk::{Damage, Uuid};

/// What never changes after CREATE DISKGROUP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Identity.
    pub uuid: Uuid,
    /// Name, upper-case.
    pub name: String,
    /// Default copies.
    pub redundancy: Redundancy,
    /// Allocation unit in bytes.
    pub au_size: u32,
    /// Sector size in bytes: 512 or 4096.
    pub sector_size: u32,
    /// When made, nanoseconds since 1970.
    pub created_ns: u64,
}

/// Whether a disk takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DiskStatus {
    /// Holds every acknowledged write of its extents.
    Online = 1,
    /// Left by a committed epoch: what it holds may be stale, it is never read.
    Offline = 2,
    /// Being dropped: in sync and read, but given no new extents; those it has are moved away.
    Dropping = 3,
    /// Being dropped by force: never read; what it held is made again from the other copies.
    Forcing = 4,
    /// Back, and written to; not read before all that it missed was copied.
    Returning = 5,
}

impl DiskStatus {
    /// Whether a disk in this state holds every acknowledged write of its extents.
    pub fn is_in_sync(self) -> bool {
        matches!(self, DiskStatus::Online | DiskStatus::Dropping)
    }

    pub(crate) fn get(r: &mut Reader<'_>) -> Result<DiskStatus, Damage> {
        Ok(match r.u8()? {
            1 => DiskStatus::Online,
            2 => DiskStatus::Offline,
            3 => DiskStatus::Dropping,
            4 => DiskStatus::Forcing,
            5 => DiskStatus::Returning,
            v => return Err(Damage::Field { field: "disk status", value: v.into() }),
        })
    }

    /// Whether a disk in this state is on its way out.
    pub fn is_leaving(self) -> bool {
        matches!(self, DiskStatus::Dropping | DiskStatus::Forcing)
    }
}

/// What is known of what an offline disk missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stale {
    /// It missed nothing, because it is online.
    Nothing = 0,
    /// All of it counts as stale: no map was kept.
    Everything = 1,
    /// The stale maps tell, piece by piece.
    Mapped = 2,
}

/// Why a disk is offline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum OfflineBy {
    /// It failed, or was not there.
    #[default]
    Itself = 0,
    /// OFFLINE DISK: it stays away until a user brings it back.
    Command = 1,
}

/// How a disk left: how to tell it, when it returns, from another device with its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offline {
    /// The id of the last mount that it took part in: its label must have it.
    pub mount_id: u64,
    /// The id of a mount that is known to have written its label since, and nothing else; or 0.
    pub tried: u64,
    /// The epoch without it: no record that it knows has that one.
    pub epoch: u64,
    /// Why it left.
    pub by: OfflineBy,
    /// Dropped when it was away for so many seconds; 0: as the group's attribute says.
    pub drop_after_s: u32,
}

/// One disk of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskState {
    /// Identity, as in its label.
    pub uuid: Uuid,
    /// Name, upper-case.
    pub name: String,
    /// Failure group, upper-case.
    pub failgroup: String,
    /// Bytes that the group uses of it.
    pub bytes: u64,
    /// Whether it takes part.
    pub status: DiskStatus,
    /// What it missed.
    pub stale: Stale,
    /// Since when it has been offline, nanoseconds since 1970; 0 when online.
    pub offline_ns: u64,
    /// When it joined, nanoseconds since 1970.
    pub created_ns: u64,
    /// The AUs of its two checkpoint areas.
    pub areas: [Vec<AuRun>; 2],
    /// RESIZE to fewer bytes: what it will have once nothing lies behind them. 0: no such request.
    pub shrink_to: u64,
    /// How it left, while it is offline or returns.
    pub offline: Offline,
}

impl DiskState {
    /// Bytes that the group is to use of it: fewer than it does while the disk becomes smaller.
    pub fn bytes_wanted(&self) -> u64 {
        if self.shrink_to > 0 { self.shrink_to.min(self.bytes) } else { self.bytes }
    }
}

/// All metadata of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// What never changes.
    pub header: GroupHeader,
    /// Grows with every mount and every change of who takes part.
    pub epoch: u64,
    /// Disk number to disk.
    pub disks: BTreeMap<u16, DiskState>,
    /// The disks that hold the metadata: one, two, three or five.
    pub members: Vec<u16>,
    /// Files by number.
    pub files: BTreeMap<u32, FileState>,
    /// The directory tree.
    pub names: Tree,
    /// Attributes that were set.
    pub attributes: BTreeMap<String, String>,
    /// The number of the next new file.
    pub next_file: u32,
    /// The incarnation of the next new file.
    pub next_incarnation: u32,
    /// No region is dirty and every checksum is durable: dismounted in order.
    pub clean: bool,
    /// A rebalance is to be done, at this power; 0 is one that was stopped.
    pub rebalance: Option<u32>,
}

/// User files are numbered from here on, as in ASM.
pub const FIRST_FILE: u32 = 256;

/// Version of the checkpoint's content.
const CONTENT_VERSION: u16 = 3;
/// The version of the content in which DiskJoin records a disk, for good: records have none.
const JOIN_VERSION: u16 = 2;

impl GroupState {
    /// The state of a group without files.
    pub fn new(header: GroupHeader, disks: BTreeMap<u16, DiskState>, members: Vec<u16>) -> Self {
        GroupState {
            header,
            epoch: 1,
            disks,
            members,
            files: BTreeMap::new(),
            names: Tree::default(),
            attributes: BTreeMap::new(),
            next_file: FIRST_FILE,
            next_incarnation: 1,
            clean: true,
            rebalance: None,
        }
    }

    /// Whether new extents may go to a disk.
    pub fn takes_extents(&self, disk: u16) -> bool {
        self.disks.get(&disk).is_some_and(|d| d.status == DiskStatus::Online)
    }

    /// The paths of a file from the root of the group.
    pub(crate) fn paths_of(&self, number: u32) -> Vec<String> {
        let names = self.names.names_of(crate::names::FileNo(number));
        let path_of = |(dir, name)| {
            let dirs = self.names.dir_path(dir).ok()?;
            let prefix: String = dirs.iter().map(|d| format!("{d}/")).collect();
            Some(format!("{prefix}{name}"))
        };
        names.filter_map(path_of).collect()
    }

    /// A file by its path, or its number.
    pub(crate) fn name_of(&self, file: &FileState) -> String {
        let name = self.paths_of(file.number).into_iter().next();
        name.unwrap_or_else(|| format!("{}.{}", file.number, file.incarnation))
    }

    /// The disk with that name.
    pub fn disk_named(&self, name: &str) -> Option<(u16, &DiskState)> {
        self.disks.iter().find(|(_, d)| d.name == name).map(|(no, d)| (*no, d))
    }

    /// Whether a disk holds every acknowledged write of its extents.
    pub fn is_online(&self, disk: u16) -> bool {
        self.disks.get(&disk).is_some_and(|d| d.status.is_in_sync())
    }

    /// The content of a checkpoint.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.put_all_but_files(&mut w);
        w.put_u32(u32::try_from(self.files.len()).expect("file numbers are 32 bits"));
        for file in self.files.values() {
            file.put(&mut w);
        }
        w.into_bytes()
    }

    fn put_all_but_files(&self, w: &mut Writer) {
        w.put_u16(CONTENT_VERSION);
        let h = &self.header;
        w.put_u64(h.uuid.0 as u64);
        w.put_u64((h.uuid.0 >> 64) as u64);
        w.put_str(&h.name);
        w.put_u8(h.redundancy as u8);
        w.put_u32(h.au_size);
        w.put_u32(h.sector_size);
        w.put_u64(h.created_ns);
        w.put_u64(self.epoch);
        w.put_u32(self.next_file);
        w.put_u32(self.next_incarnation);
        w.put_u8(u8::from(self.clean));
        w.put_u8(u8::from(self.rebalance.is_some()));
        w.put_u32(self.rebalance.unwrap_or(0));
        w.put_u16(u16::try_from(self.disks.len()).expect("disk numbers are 16 bits"));
        for (no, disk) in &self.disks {
            w.put_u16(*no);
            disk.put(w, CONTENT_VERSION);
        }
        w.put_u16(u16::try_from(self.members.len()).expect("at most five"));
        for member in &self.members {
            w.put_u16(*member);
        }
        w.put_u32(u32::try_from(self.attributes.len()).expect("few"));
        for (name, value) in &self.attributes {
            w.put_str(name);
            w.put_str(value);
        }
        self.names.encode(w);
    }

    /// Reads what the content of a checkpoint begins with: its version, and what the group is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn header_of(r: &mut Reader<'_>) -> Result<(u16, GroupHeader), Damage> {
        let version = r.u16()?;
        if !(1..=CONTENT_VERSION).contains(&version) {
            return Err(Damage::Version { found: version, supported: CONTENT_VERSION });
        }
        let uuid = Uuid(u128::from(r.u64()?) | u128::from(r.u64()?) << 64);
        let name = get_text(r)?;
        let code = r.u8()?;
        let redundancy = Redundancy::from_u8(code)
            .ok_or(Damage::Field { field: "redundancy", value: code.into() })?;
        let header = GroupHeader {
            uuid,
            name,
            redundancy,
            au_size: r.u32()?,
            sector_size: r.u32()?,
            created_ns: r.u64()?,
        };
        Ok((version, header))
    }

    /// Reads the content of a checkpoint.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<GroupState, Damage> {
        let r = &mut Reader::new(bytes);
        let (version, header) = GroupState::header_of(r)?;
        let (epoch, next_file, next_incarnation) = (r.u64()?, r.u32()?, r.u32()?);
        let clean = r.u8()? != 0;
        let (wanted, power) = if version > 1 { (r.u8()?, r.u32()?) } else { (0, 0) };
        let mut state = GroupState::new(header, BTreeMap::new(), Vec::new());
        (state.epoch, state.next_file, state.next_incarnation) =
            (epoch, next_file, next_incarnation);
        state.clean = clean;
        state.rebalance = (wanted != 0).then_some(power);
        for _ in 0..r.u16()? {
            let no = r.u16()?;
            state.disks.insert(no, DiskState::get(r, version)?);
        }
        for _ in 0..r.u16()? {
            state.members.push(r.u16()?);
        }
        for _ in 0..r.u32()? {
            let name = get_text(r)?;
            state.attributes.insert(name, get_text(r)?);
        }
        state.names = Tree::decode(r).map_err(|_| Damage::Field { field: "names", value: 0 })?;
        for _ in 0..r.u32()? {
            let file = FileState::get(r, version)?;
            state.files.insert(file.number, file);
        }
        state.check()?;
        Ok(state)
    }

    /// Bytes of metadata in RAM that grow with what is allocated: legs and piece maps.
    pub fn map_bytes(&self) -> usize {
        self.files
            .values()
            .map(|f| f.legs.capacity() * size_of::<Leg>() + f.pieces.capacity() * 8)
            .sum()
    }
}

impl DiskState {
    pub(crate) fn put(&self, w: &mut Writer, version: u16) {
        w.put_u64(self.uuid.0 as u64);
        w.put_u64((self.uuid.0 >> 64) as u64);
        w.put_str(&self.name);
        w.put_str(&self.failgroup);
        w.put_u64(self.bytes);
        w.put_u8(self.status as u8);
        w.put_u8(self.stale as u8);
        w.put_u64(self.offline_ns);
        w.put_u64(self.created_ns);
        for area in &self.areas {
            put_runs(w, area);
        }
        w.put_u64(self.shrink_to);
        if version > 2 {
            w.put_u64(self.offline.mount_id);
            w.put_u64(self.offline.tried);
            w.put_u64(self.offline.epoch);
            w.put_u8(self.offline.by as u8);
            w.put_u32(self.offline.drop_after_s);
        }
    }

    /// Reads what [`DiskState::put`] of that version of the content wrote.
    pub(crate) fn get(r: &mut Reader<'_>, version: u16) -> Result<DiskState, Damage> {
        let uuid = Uuid(u128::from(r.u64()?) | u128::from(r.u64()?) << 64);
        let name = get_text(r)?;
        let failgroup = get_text(r)?;
        let bytes = r.u64()?;
        let status = DiskStatus::get(r)?;
        let stale = match r.u8()? {
            0 => Stale::Nothing,
            1 => Stale::Everything,
            2 => Stale::Mapped,
            v => {
                return Err(Damage::Field { field: "stale", value: v.into() });
            }
        };
        let (offline_ns, created_ns) = (r.u64()?, r.u64()?);
        let areas = [get_runs(r)?, get_runs(r)?];
        let shrink_to = if version > 1 { r.u64()? } else { 0 };
        let away = if version > 2 { Offline::get(r)? } else { Offline::default() };
        Ok(DiskState {
            uuid,
            name,
            failgroup,
            bytes,
            status,
            stale,
            offline_ns,
            created_ns,
            areas,
            shrink_to,
            offline: away,
        })
    }
}

impl Offline {
    fn get(r: &mut Reader<'_>) -> Result<Offline, Damage> {
        let (mount_id, tried, epoch) = (r.u64()?, r.u64()?, r.u64()?);
        Ok(Offline { mount_id, tried, epoch, by: OfflineBy::get(r)?, drop_after_s: r.u32()? })
    }
}

impl OfflineBy {
    fn get(r: &mut Reader<'_>) -> Result<OfflineBy, Damage> {
        match r.u8()? {
            0 => Ok(OfflineBy::Itself),
            1 => Ok(OfflineBy::Command),
            v => Err(Damage::Field { field: "why offline", value: v.into() }),
        }
    }
}

pub(crate) fn put_runs(w: &mut Writer, runs: &[AuRun]) {
    w.put_u16(u16::try_from(runs.len()).expect("areas lie in few runs"));
    for run in runs {
        w.put_u32(run.start);
        w.put_u32(run.count);
    }
}

pub(crate) fn get_runs(r: &mut Reader<'_>) -> Result<Vec<AuRun>, Damage> {
    let count = r.u16()?;
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(AuRun { start: r.u32()?, count: r.u32()? });
    }
    Ok(runs)
}

pub(crate) fn get_text(r: &mut Reader<'_>) -> Result<String, Damage> {
    match r.str()? {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Damage::Field { field: "text", value: r.at() as u64 }),
    }
}
