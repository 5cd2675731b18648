//! Allocation as the group sees it: its own legs and disk numbers over [`crate::space`].

use std::collections::BTreeMap;

use crate::on_disk::layout::{CHECKSUM_RUN_AUS, au_count};
use crate::space::{
    Au, AuMap, DiskNo, ExtentSets, FailGroupNo, FileSpread, Leg as SpaceLeg, Placement, Policy,
    Space, SpaceError, Usable,
};
use crate::state::{DiskState, FileState, GroupState, Leg};

/// Which AUs are free, and how each file lies.
pub(crate) struct FreeSpace {
    space: Space,
    failgroups: Vec<String>,
    spreads: BTreeMap<u32, FileSpread>,
}

fn space_leg(leg: Leg) -> SpaceLeg {
    SpaceLeg { disk: DiskNo(leg.disk), au: Au(leg.au) }
}

impl FreeSpace {
    /// The room that a state leaves. Fails on the first AU that has two owners.
    pub fn of(state: &GroupState) -> Result<FreeSpace, SpaceError> {
        let mut room =
            FreeSpace { space: Space::new(), failgroups: Vec::new(), spreads: BTreeMap::new() };
        let au_size = u64::from(state.header.au_size);
        for (no, disk) in &state.disks {
            room.add_disk(*no, disk, au_size)?;
        }
        for (no, _) in state.disks.iter().filter(|(no, _)| !state.takes_extents(**no)) {
            room.space.set_allocatable(DiskNo(*no), false)?;
        }
        for file in state.files.values() {
            let mut spread = FileSpread::new();
            let copies = usize::from(file.attributes.copies);
            for legs in file.legs.chunks(copies) {
                for leg in legs {
                    room.space.take(space_leg(*leg))?;
                }
                add_to_spread(&mut spread, legs);
            }
            room.spreads.insert(file.number, spread);
        }
        for (no, disk) in state.disks.iter().filter(|(_, disk)| disk.shrink_to > 0) {
            room.limit_shrink(*no, au_count(disk.shrink_to, au_size));
        }
        Ok(room)
    }

    fn failgroup(&mut self, name: &str) -> FailGroupNo {
        let at = self.failgroups.iter().position(|f| f == name).unwrap_or_else(|| {
            self.failgroups.push(name.to_owned());
            self.failgroups.len() - 1
        });
        FailGroupNo(u16::try_from(at).expect("disk numbers are 16 bits"))
    }

    /// Names the failure group in an error.
    pub fn words(&self, error: &SpaceError) -> String {
        match error {
            SpaceError::NoRoom { fits, failgroup, free_in_failgroup, free, .. } => format!(
                "{fits} extents fit; failure group {} is the first to run out ({} of {} free AUs \
                 are on it)",
                self.failgroup_name(*failgroup),
                free_in_failgroup,
                free
            ),
            SpaceError::NoSuchFailGroup(no) => {
                format!("no disk of failure group {} is online", self.failgroup_name(*no))
            }
            other => other.to_string(),
        }
    }

    fn failgroup_name(&self, no: FailGroupNo) -> &str {
        self.failgroups.get(usize::from(no.0)).map_or("?", String::as_str)
    }

    /// Room for `count` more extent sets of a file; all or nothing.
    pub fn place(&mut self, file: &FileState, count: u32) -> Result<Vec<Leg>, SpaceError> {
        let policy = match &file.attributes.placement {
            None => Policy::Any,
            Some(name) => Policy::InFailGroup(self.failgroup(name)),
        };
        let spread = self.spreads.entry(file.number).or_default();
        let sets = self.space.place(spread, file.attributes.copies, &policy, count)?;
        let legs = sets.iter().flat_map(|set| set.legs().to_vec());
        Ok(legs.map(|l| Leg { disk: l.disk.0, au: l.au.0 }).collect())
    }

    /// Gives back an AU that no file has any more.
    pub fn free(&mut self, leg: Leg) {
        match self.space.release(space_leg(leg)) {
            // The disk left while the change that freed this was on its way to the log. Its number
            // is given to another disk only when that change is durable.
            Ok(()) | Err(SpaceError::NoSuchDisk(_)) => {}
            Err(error) => unreachable!("only what was taken is given back: {error}"),
        }
    }

    /// An AU of that disk for a copy that moves there: the lowest that is free.
    pub fn take_on(&mut self, disk: u16) -> Option<Leg> {
        let au = self.space.map_mut(DiskNo(disk)).ok()?.allocate(Au(0))?;
        Some(Leg { disk, au: au.0 })
    }

    /// One copy of an extent set of a file lies elsewhere now.
    pub fn moved(&mut self, file: u32, before: &[Leg], after: &[Leg]) {
        let set = |legs: &[Leg]| {
            Placement::new(&legs.iter().map(|leg| space_leg(*leg)).collect::<Vec<_>>())
        };
        let spread = self.spreads.entry(file).or_default();
        spread.remove(&set(before));
        spread.add(&set(after));
    }

    /// A file has other extents now, or is gone.
    pub fn respread(&mut self, number: u32, file: Option<&FileState>) {
        let Some(file) = file else {
            self.spreads.remove(&number);
            return;
        };
        let mut spread = FileSpread::new();
        for legs in file.legs.chunks(file.attributes.copies.into()) {
            add_to_spread(&mut spread, legs);
        }
        self.spreads.insert(number, spread);
    }

    /// Takes an AU for metadata.
    pub fn reserve(&mut self, disk: u16) -> Option<u32> {
        self.space.map_mut(DiskNo(disk)).ok()?.reserve(Au(0)).map(|au| au.0)
    }

    /// Gives back an AU that [`FreeSpace::reserve`] took.
    pub fn unreserve(&mut self, disk: u16, au: u32) {
        let map = self.space.map_mut(DiskNo(disk)).expect("a disk of the group");
        map.unreserve(Au(au)).expect("only what was taken is given back");
    }

    /// Keeps so many free AUs of a disk for metadata.
    pub fn hold(&mut self, disk: u16, aus: u32) {
        self.space.map_mut(DiskNo(disk)).expect("a disk of the group").hold(aus);
    }

    /// Free AUs of a disk that metadata may take.
    pub fn free_for_metadata(&self, disk: u16) -> u32 {
        self.space.disk(DiskNo(disk)).map_or(0, |d| d.map().free_for_metadata())
    }

    /// AUs of all disks that files have, or had until a change that is not yet durable.
    pub fn legs(&self) -> u64 {
        self.space.disks().map(|(_, d)| u64::from(d.map().used())).sum()
    }

    pub fn set_online(&mut self, disk: u16, online: bool) {
        self.space.set_allocatable(DiskNo(disk), online).expect("a disk of the group");
    }

    /// A disk has come; nothing lies on it but its checkpoint areas.
    pub fn add_disk(&mut self, no: u16, disk: &DiskState, au_size: u64) -> Result<(), SpaceError> {
        let failgroup = self.failgroup(&disk.failgroup);
        let map = AuMap::new(au_count(disk.bytes, au_size), Some(CHECKSUM_RUN_AUS));
        self.space.add_disk(DiskNo(no), failgroup, map)?;
        for run in disk.areas.iter().flatten() {
            for au in run.start..run.start.saturating_add(run.count) {
                let map = self.space.map_mut(DiskNo(no))?;
                map.reserve_at(Au(au))
                    .map_err(|reason| SpaceError::Au { disk: DiskNo(no), reason })?;
            }
        }
        Ok(())
    }

    /// A disk is gone, and nothing that lay on it is to be given back any more.
    pub fn remove_disk(&mut self, no: u16) {
        self.space.remove_disk(DiskNo(no)).expect("a disk of the group");
    }

    fn map_mut(&mut self, no: u16) -> &mut AuMap {
        self.space.map_mut(DiskNo(no)).expect("a disk of the group")
    }

    /// A disk is to become smaller: nothing new is taken from `end` on.
    pub fn limit_shrink(&mut self, no: u16, end: u32) {
        self.map_mut(no).limit_shrink(end);
    }

    /// Taken AUs behind the limit of a disk.
    pub fn taken_behind(&self, no: u16) -> u32 {
        self.space.disk(DiskNo(no)).map_or(0, |disk| disk.map().taken_behind())
    }

    /// AUs of a disk before `end` that metadata takes up there, without those held for it.
    pub fn reserved_before(&self, no: u16, end: u32) -> u32 {
        self.space.disk(DiskNo(no)).map_or(0, |disk| disk.map().reserved_before(end))
    }

    /// A disk has so many AUs from here on; nothing is taken behind them.
    pub fn resize(&mut self, no: u16, aus: u32) {
        let map = self.map_mut(no);
        if aus > map.aus() {
            map.grow(aus);
        } else {
            map.limit_shrink(aus);
            map.shrink().expect("nothing is taken behind the new end");
        }
    }

    /// Total and free AUs of a disk, without metadata.
    pub fn of_disk(&self, disk: u16) -> (u32, u32) {
        self.space.disk(DiskNo(disk)).map_or((0, 0), |d| (d.map().total(), d.map().free_count()))
    }

    /// The figures of the group for files of `copies` copies.
    pub fn usable(&self, copies: u8, state: &GroupState) -> Usable {
        self.usable_on(copies, state, &|_| true)
    }

    /// The figures of the group for files of `copies` copies, with room only on disks that are `here`.
    pub fn usable_on(&self, copies: u8, state: &GroupState, here: &dyn Fn(u16) -> bool) -> Usable {
        let mut sets = ExtentSets::default();
        for file in state.files.values() {
            sets.by_copies[usize::from(file.attributes.copies) - 1] += file.extents();
        }
        let gone: Vec<u16> = state.disks.keys().copied().filter(|no| !here(*no)).collect();
        if gone.is_empty() {
            return self.space.usable(copies, &sets);
        }
        let mut space = self.space.clone();
        for disk in gone {
            space.set_allocatable(DiskNo(disk), false).expect("a disk of the group");
        }
        space.usable(copies, &sets)
    }
}

fn add_to_spread(spread: &mut FileSpread, legs: &[Leg]) {
    let legs: Vec<SpaceLeg> = legs.iter().map(|l| space_leg(*l)).collect();
    spread.add(&Placement::new(&legs));
}
