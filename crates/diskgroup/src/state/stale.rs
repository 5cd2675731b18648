//! Stale maps: the pieces that disks which are away have missed.
//!
//! A disk leaves with [`Op::DiskOfflineBy`]. From then on a written piece of a file that has a copy there
//! is *stale* on it as soon as
//! - its first write is recorded ([`Op::Pieces`]): it cannot be on a disk that was away, or
//! - the region that was written to, or was dirty when the disk left, becomes clean ([`Op::Stale`]):
//!   until then the dirty log names all of it.
//!
//! So the maps and the dirty log together always name all that the disk lacks. [`Op::DiskReturning`]
//! begins its return: it gets writes again, and stale pieces are copied, until [`Op::DiskOnline`].

use std::collections::BTreeMap;

use super::file::{Striping, stretches};
use super::{DiskStatus, FileState, GroupState, Offline, OfflineBy, Op, Stale};
use crate::codec::{Reader, Writer};
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{FINE_WIDTH, PIECE_BYTES, REGION_BYTES};
use crate::on_disk::{Damage, Uuid};

/// Stale pieces by region; no region without any.
pub type StaleMap = BTreeMap<u32, u64>;

impl FileState {
    /// The pieces of a region that have a copy on a disk.
    pub fn pieces_on(&self, disk: u16, region: u32, au_size: u64) -> u64 {
        let start = u64::from(region) * REGION_BYTES;
        let end = (start + REGION_BYTES).min(self.allocated(au_size));
        if start >= end {
            return 0;
        }
        let mut pieces = 0;
        for s in stretches(self.attributes.striping, au_size, start, end - start) {
            if self.legs_of(s.extent).iter().any(|leg| leg.disk == disk) {
                let first = (s.offset - start) / PIECE_BYTES;
                let count = s.length.div_ceil(PIECE_BYTES);
                pieces |= (u64::MAX >> (64 - count)) << first;
            }
        }
        pieces
    }

    /// Pieces of a region that a disk which is away, or returns, lacks; some may not be written any
    /// more, or not durably yet.
    pub fn missed_by(&self, disk: u16, region: u32) -> u64 {
        self.stale.get(&disk).and_then(|map| map.get(&region)).copied().unwrap_or(0)
    }

    /// A disk missed those of the pieces of a region that have a copy on it. What has no other copy
    /// cannot be copied to it. Of a fine-striped file it missed the whole stripe: its extents lie in
    /// so many regions that a map for each would not fit the room that is kept for them.
    fn miss(&mut self, disk: u16, region: u32, pieces: u64, au_size: u64) {
        if self.attributes.copies < 2 || pieces & self.pieces_on(disk, region, au_size) == 0 {
            return;
        }
        if self.attributes.striping == Striping::Coarse {
            let missed = pieces & self.pieces_on(disk, region, au_size);
            return self.set_stale(disk, region, missed);
        }
        let per_stripe = (au_size * FINE_WIDTH / REGION_BYTES).max(1) as u32;
        let first = region / per_stripe * per_stripe;
        for region in first..first + per_stripe {
            let all = self.pieces_on(disk, region, au_size);
            self.set_stale(disk, region, all);
        }
    }

    fn set_stale(&mut self, disk: u16, region: u32, pieces: u64) {
        if pieces != 0 {
            *self.stale.entry(disk).or_default().entry(region).or_insert(0) |= pieces;
        }
    }

    fn clear_stale(&mut self, disk: u16, region: u32, pieces: u64) {
        let Some(map) = self.stale.get_mut(&disk) else { return };
        if let Some(stale) = map.get_mut(&region) {
            *stale &= !pieces;
            if *stale == 0 {
                map.remove(&region);
            }
        }
        if map.is_empty() {
            self.stale.remove(&disk);
        }
    }

    /// Pieces of a region are unwritten again: nobody lacks them.
    pub(super) fn forget_stale(&mut self, region: u32, pieces: u64) {
        let disks: Vec<u16> = self.stale.keys().copied().collect();
        disks.into_iter().for_each(|disk| self.clear_stale(disk, region, pieces));
    }

    /// Only so many regions are left.
    pub(super) fn cut_stale(&mut self, regions: u32) {
        self.stale.retain(|_, map| {
            map.retain(|region, _| *region < regions);
            !map.is_empty()
        });
    }

    pub(super) fn put_stale(&self, w: &mut Writer) {
        w.put_u16(u16::try_from(self.stale.len()).expect("disk numbers are 16 bits"));
        for (disk, map) in &self.stale {
            w.put_u16(*disk);
            let mut runs: Vec<(u32, u32, u64)> = Vec::new();
            for (region, pieces) in map {
                match runs.last_mut() {
                    Some((first, count, of)) if of == pieces && *first + *count == *region => {
                        *count += 1;
                    }
                    _ => runs.push((*region, 1, *pieces)),
                }
            }
            w.put_u32(u32::try_from(runs.len()).expect("fewer than 4 G regions"));
            for (first, count, pieces) in runs {
                w.put_u32(first);
                w.put_u32(count);
                w.put_u64(pieces);
            }
        }
    }

    /// Reads what [`FileState::put_stale`] wrote; no region is beyond `most`.
    pub(super) fn get_stale(
        r: &mut Reader<'_>,
        most: u64,
    ) -> Result<BTreeMap<u16, StaleMap>, Damage> {
        let mut stale = BTreeMap::new();
        for _ in 0..r.u16()? {
            let disk = r.u16()?;
            let mut map = StaleMap::new();
            for _ in 0..r.u32()? {
                let (first, count, pieces) = (r.u32()?, r.u32()?, r.u64()?);
                let end = u64::from(first) + u64::from(count);
                if end > most || pieces == 0 {
                    return Err(Damage::Field { field: "stale pieces", value: end });
                }
                map.extend((first..end as u32).map(|region| (region, pieces)));
            }
            stale.insert(disk, map);
        }
        Ok(stale)
    }
}

impl GroupState {
    /// Pieces that a disk lacks, in all files.
    pub fn stale_pieces(&self, disk: u16) -> u64 {
        let regions = self.files.values().flat_map(|file| {
            let map = file.stale.get(&disk);
            map.into_iter().flatten().map(|(region, map)| map & file.pieces_of((*region).into()))
        });
        regions.map(|pieces| u64::from(pieces.count_ones())).sum()
    }

    /// Written pieces that have a copy on a disk.
    pub fn written_pieces_on(&self, disk: u16) -> u64 {
        let au_size = u64::from(self.header.au_size);
        let mut count = 0;
        for file in self.files.values() {
            for (region, pieces) in (0u32..).zip(&file.pieces).filter(|(_, p)| **p != 0) {
                count += u64::from((pieces & file.pieces_on(disk, region, au_size)).count_ones());
            }
        }
        count
    }

    /// Pieces were written for the first time: who is away lacks them.
    pub(super) fn note_missed(&mut self, region: RegionKey, pieces: u64) {
        let au_size = u64::from(self.header.au_size);
        let away =
            |d: &super::DiskState| d.status == DiskStatus::Offline && d.stale == Stale::Mapped;
        let disks: Vec<u16> =
            self.disks.iter().filter(|(_, d)| away(d)).map(|(no, _)| *no).collect();
        let Some(file) = self.files.get_mut(&region.file) else { return };
        for disk in disks {
            file.miss(disk, region.index, pieces, au_size);
        }
    }

    pub(super) fn apply_to_away(&mut self, op: &Op) -> Result<(), Damage> {
        let misfit = |field, disk: u16| Damage::Field { field, value: disk.into() };
        match op {
            Op::DiskOfflineBy { disk, at_ns, mount_id, tried, by } => {
                let epoch = self.epoch;
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                let was = d.status;
                if was.is_leaving() {
                    // It does not come back.
                    (d.status, d.stale) = (DiskStatus::Forcing, Stale::Everything);
                    return Ok(());
                }
                d.status = DiskStatus::Offline;
                d.offline.by = *by;
                // From now on, also if it was on its way back: that time does not count as absence.
                if was != DiskStatus::Offline {
                    d.offline_ns = *at_ns;
                }
                // One that was on its way back is as far as it was, and so is what tells it.
                if was.is_in_sync() {
                    d.stale = Stale::Mapped;
                    let (mount_id, tried) = (*mount_id, *tried);
                    d.offline = Offline { mount_id, tried, epoch, by: *by, drop_after_s: 0 };
                }
            }
            Op::DiskTried { disk, mount_id } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                d.offline.tried = *mount_id;
            }
            Op::DiskReturning { disk, mount_id } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                if d.status != DiskStatus::Offline {
                    return Err(misfit("disk that returns", *disk));
                }
                if d.stale != Stale::Mapped {
                    return Err(misfit("disk of which nothing is known", *disk));
                }
                d.status = DiskStatus::Returning;
                d.offline.mount_id = *mount_id;
            }
            Op::StaleAll { disk, mount_id } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                if d.status != DiskStatus::Offline {
                    return Err(misfit("disk that is away", *disk));
                }
                d.stale = Stale::Mapped;
                // Whatever it was before, from here on it is what this mount made of it.
                d.offline = Offline { mount_id: *mount_id, epoch: u64::MAX, ..d.offline };
                self.all_is_stale(*disk);
            }
            Op::DiskOnline { disk } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                if d.status != DiskStatus::Returning {
                    return Err(misfit("disk that returned", *disk));
                }
                (d.status, d.stale, d.offline_ns) = (DiskStatus::Online, Stale::Nothing, 0);
                d.offline = Offline::default();
                self.forget_missed(*disk);
            }
            Op::DiskReplace { disk, uuid, mount_id } => self.replace(*disk, *uuid, *mount_id)?,
            Op::DropAfter { disk, seconds } => {
                let d = self.disks.get_mut(disk).ok_or(misfit("disk", *disk))?;
                d.offline.drop_after_s = *seconds;
            }
            Op::Stale { disk, region, pieces } => {
                let au_size = u64::from(self.header.au_size);
                self.file_of(*region)?.miss(*disk, region.index, *pieces, au_size);
            }
            Op::Synced { disk, region, pieces } => {
                self.file_of(*region)?.clear_stale(*disk, region.index, *pieces);
            }
            other => unreachable!("not an operation on a disk that is away: {other:?}"),
        }
        Ok(())
    }

    /// Another device takes the place of a disk that is away: it has nothing.
    fn replace(&mut self, disk: u16, uuid: Uuid, mount_id: u64) -> Result<(), Damage> {
        let misfit = |field| Damage::Field { field, value: disk.into() };
        if self.disks.values().any(|d| d.uuid == uuid) {
            return Err(misfit("new disk"));
        }
        let d = self.disks.get_mut(&disk).ok_or(misfit("disk"))?;
        if d.status != DiskStatus::Offline {
            return Err(misfit("replaced disk"));
        }
        (d.uuid, d.stale) = (uuid, Stale::Mapped);
        d.offline = Offline { mount_id, epoch: u64::MAX, by: OfflineBy::Itself, ..d.offline };
        self.all_is_stale(disk);
        Ok(())
    }

    /// What a disk missed is of no account any more.
    pub(super) fn forget_missed(&mut self, disk: u16) {
        for file in self.files.values_mut() {
            file.stale.remove(&disk);
        }
    }

    /// Every written piece of which there is another copy is missed by a disk.
    fn all_is_stale(&mut self, disk: u16) {
        let au_size = u64::from(self.header.au_size);
        for file in self.files.values_mut() {
            file.stale.remove(&disk);
            if file.attributes.copies < 2 {
                continue;
            }
            for region in 0..file.pieces.len() as u32 {
                let all = file.pieces_of(region.into());
                file.miss(disk, region, all, au_size);
            }
        }
    }

    fn file_of(&mut self, region: RegionKey) -> Result<&mut FileState, Damage> {
        let au_size = u64::from(self.header.au_size);
        let file = self.files.get_mut(&region.file);
        file.filter(|f| {
            f.incarnation == region.incarnation && u64::from(region.index) < f.regions(au_size)
        })
        .ok_or(Damage::Field { field: "region", value: region.index.into() })
    }
}
