//! Application of operations to the metadata: the change that each of them makes.

use std::collections::BTreeMap;

use super::{
    DiskState, DiskStatus, FileAttributes, FileState, GroupState, Leg, Offline, Op, Stale,
};
use crate::on_disk::Damage;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{au_count, is_checksum_au};

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
                // Who wanted it gone wants it gone all the more.
                d.status = match d.status.is_leaving() {
                    true => DiskStatus::Forcing,
                    false => DiskStatus::Offline,
                };
                d.stale = Stale::Everything;
                d.offline_ns = if d.offline_ns > 0 { d.offline_ns } else { *at_ns };
                d.offline = Offline { epoch: self.epoch, ..Offline::default() };
                self.forget_missed(*disk);
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
            Op::Rebalance { power } => self.rebalance = *power,
            Op::DiskJoin { .. }
            | Op::DiskLeaving { .. }
            | Op::DiskGone { .. }
            | Op::DiskShrink { .. }
            | Op::DiskSize { .. }
            | Op::DiskRename { .. } => self.apply_to_disk(op)?,
            Op::DiskOfflineBy { .. }
            | Op::DiskReturning { .. }
            | Op::DiskOnline { .. }
            | Op::Stale { .. }
            | Op::Synced { .. }
            | Op::DiskReplace { .. }
            | Op::DropAfter { .. }
            | Op::StaleAll { .. }
            | Op::DiskTried { .. } => self.apply_to_away(op)?,
            _ => self.apply_to_file(op)?,
        }
        Ok(())
    }

    fn apply_to_disk(&mut self, op: &Op) -> Result<(), Damage> {
        let misfit = |field, disk: u16| Damage::Field { field, value: disk.into() };
        match op {
            Op::DiskJoin { disk, state } => {
                let known = self.disks.values().any(|d| d.uuid == state.uuid);
                if self.disks.contains_key(disk) || known {
                    return Err(misfit("new disk", *disk));
                }
                self.disks.insert(*disk, DiskState::clone(state));
            }
            Op::DiskGone { disk } => {
                let holds = |f: &FileState| f.legs.iter().any(|leg| leg.disk == *disk);
                let used = self.members.contains(disk) || self.files.values().any(holds);
                if used || self.disks.remove(disk).is_none() {
                    return Err(misfit("gone disk", *disk));
                }
                self.forget_missed(*disk);
            }
            Op::DiskLeaving { disk, status } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                d.status = *status;
                if *status == DiskStatus::Forcing {
                    // It does not come back.
                    d.stale = Stale::Everything;
                    self.forget_missed(*disk);
                }
            }
            Op::DiskShrink { disk, bytes } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                d.shrink_to = *bytes;
            }
            Op::DiskSize { disk, bytes } => {
                let aus = au_count(*bytes, self.header.au_size.into());
                let behind =
                    |f: &FileState| f.legs.iter().any(|leg| leg.disk == *disk && leg.au >= aus);
                if self.files.values().any(behind) {
                    return Err(misfit("disk size", *disk));
                }
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                if d.areas.iter().flatten().any(|run| run.start.saturating_add(run.count) > aus) {
                    return Err(misfit("disk size", *disk));
                }
                (d.bytes, d.shrink_to) = (*bytes, 0);
            }
            Op::DiskRename { disk, name } => {
                if self.disk_named(name).is_some_and(|(no, _)| no != *disk) {
                    return Err(misfit("disk name", *disk));
                }
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                d.name.clone_from(name);
            }
            other => unreachable!("not an operation on a disk: {other:?}"),
        }
        Ok(())
    }

    fn move_leg(
        &mut self,
        (number, incarnation): (u32, u32),
        extent: u32,
        leg: u8,
        to: Leg,
    ) -> Result<(), Damage> {
        let misfit = |field, value: u64| Damage::Field { field, value };
        let au_size = u64::from(self.header.au_size);
        let disk = self.disks.get(&to.disk).ok_or(misfit("disk", to.disk.into()))?;
        if to.au >= au_count(disk.bytes, au_size) || is_checksum_au(to.au) {
            return Err(misfit("leg", to.au.into()));
        }
        let file = self.file_mut(number)?;
        if file.incarnation != incarnation
            || u64::from(extent) >= file.extents()
            || leg >= file.attributes.copies
        {
            return Err(misfit("moved extent", extent.into()));
        }
        let copies = usize::from(file.attributes.copies);
        file.legs[extent as usize * copies + usize::from(leg)] = to;
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
            stale: BTreeMap::new(),
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
                file.cut_stale(*regions);
            }
            Op::FileSize { number, size, at_ns } => {
                let file = self.file_mut(*number)?;
                (file.size, file.modified_ns) = (*size, *at_ns);
            }
            Op::FileMove { number, incarnation, extent, leg, to } => {
                self.move_leg((*number, *incarnation), *extent, *leg, *to)?;
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
                self.note_missed(*region, *pieces);
            }
            Op::PiecesForget { region, pieces } => {
                let map = self.piece_map(*region)?;
                *map &= !pieces;
                self.file_mut(region.file)?.forget_stale(region.index, *pieces);
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
