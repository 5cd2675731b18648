//! Extent allocation: the free AUs of every disk and the choice among them.
//!
//! Pure arithmetic in RAM, no I/O: the metadata log records what was chosen here and replays it
//! with [`Space::take`], so a choice is made once. Three questions are answered:
//! which AUs ([`AuMap`]), which disks ([`Space::place`]), how much room ([`Space::usable`]).

mod aumap;
mod partners;
mod place;
#[cfg(test)]
mod place_tests;
pub mod plan;
mod room;
mod spread;

use std::collections::BTreeMap;

pub use aumap::{AuError, AuMap};
pub use partners::{PARTNERS_MAX, PartnerDisk, partners};
pub use place::Policy;
pub use room::{ExtentSets, Usable, writable};
pub use spread::{DiskSpread, FileSpread};

/// The number of a disk within its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskNo(pub u16);

/// The number of a failure group within its disk group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailGroupNo(pub u16);

/// The index of an allocation unit on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Au(pub u32);

/// One copy of an extent: where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg {
    /// The disk.
    pub disk: DiskNo,
    /// The AU on it.
    pub au: Au,
}

/// Most copies an extent can have.
pub const COPIES_MAX: usize = 3;

/// Where one extent set lies: one to three legs in different failure groups, the primary first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    legs: [Leg; COPIES_MAX],
    copies: u8,
}

impl Placement {
    /// An extent set of one to three legs, the primary first.
    #[must_use]
    pub fn new(legs: &[Leg]) -> Placement {
        assert!((1..=COPIES_MAX).contains(&legs.len()), "an extent set has one to three legs");
        let mut all = [Leg::default(); COPIES_MAX];
        all[..legs.len()].copy_from_slice(legs);
        Placement { legs: all, copies: legs.len() as u8 }
    }

    /// All legs, the primary first.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        &self.legs[..usize::from(self.copies)]
    }

    /// The leg that is read first.
    #[must_use]
    pub fn primary(&self) -> Leg {
        self.legs[0]
    }
}

/// Why room could not be given, or given back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// User or operator: the group, or the failure group asked for, is full (ORA-15041).
    #[error(
        "no room for {wanted} extents of {copies} copies: {fits} fit; failure group {failgroup} \
         is the first to run out, {free_in_failgroup} of {free} free AUs are on it",
        failgroup = failgroup.0
    )]
    NoRoom {
        /// Extent sets asked for.
        wanted: u32,
        /// Copies of each.
        copies: u8,
        /// Extent sets that fit.
        fits: u64,
        /// The failure group that runs out first, so where a disk helps most.
        failgroup: FailGroupNo,
        /// Free AUs on it.
        free_in_failgroup: u64,
        /// Free AUs on all disks that can be allocated from.
        free: u64,
    },
    /// Operator: an extent's copies lie in different failure groups, and there are too few.
    #[error("{copies} copies need {copies} failure groups, {have} can be allocated from")]
    TooFewFailGroups {
        /// Copies asked for.
        copies: u8,
        /// Failure groups with a disk that can be allocated from.
        have: u16,
    },
    /// User: no disk of this failure group can be allocated from.
    #[error("failure group {} has no disk that can be allocated from", .0.0)]
    NoSuchFailGroup(FailGroupNo),
    /// Corruption or bug: the group has no such disk.
    #[error("disk {} is not in the group", .0.0)]
    NoSuchDisk(DiskNo),
    /// Corruption or bug: the disk is in the group already.
    #[error("disk {} is in the group already", .0.0)]
    DuplicateDisk(DiskNo),
    /// Corruption or bug: this AU cannot be taken or given back.
    #[error("disk {}: {reason}", disk.0)]
    Au {
        /// The disk.
        disk: DiskNo,
        /// What is wrong with the AU.
        reason: AuError,
    },
}

/// A disk as allocation sees it.
#[derive(Clone, Debug)]
pub struct SpaceDisk {
    failgroup: FailGroupNo,
    map: AuMap,
    allocatable: bool,
    /// Secondary extents this disk got beyond its share; evens out primaries over small files.
    /// Forgotten at dismount: it steers choices, it is no state.
    primary_debt: i64,
}

impl SpaceDisk {
    /// The failure group the disk is in.
    #[must_use]
    pub fn failgroup(&self) -> FailGroupNo {
        self.failgroup
    }

    /// Its AUs.
    #[must_use]
    pub fn map(&self) -> &AuMap {
        &self.map
    }

    /// Whether new extents may go here.
    #[must_use]
    pub fn is_allocatable(&self) -> bool {
        self.allocatable
    }
}

/// All disks of a group as allocation sees them.
#[derive(Clone, Debug, Default)]
pub struct Space {
    disks: BTreeMap<DiskNo, SpaceDisk>,
    /// Chosen when first asked for after a change of the disks.
    partners: Option<BTreeMap<DiskNo, Vec<DiskNo>>>,
}

impl Space {
    /// A group without disks.
    #[must_use]
    pub fn new() -> Space {
        Space::default()
    }

    /// Adds a disk that may be allocated from.
    pub fn add_disk(
        &mut self,
        disk: DiskNo,
        failgroup: FailGroupNo,
        map: AuMap,
    ) -> Result<(), SpaceError> {
        if self.disks.contains_key(&disk) {
            return Err(SpaceError::DuplicateDisk(disk));
        }
        let entry = SpaceDisk { failgroup, map, allocatable: true, primary_debt: 0 };
        self.disks.insert(disk, entry);
        self.partners = None;
        Ok(())
    }

    /// Forgets a disk and hands its map back.
    pub fn remove_disk(&mut self, disk: DiskNo) -> Result<AuMap, SpaceError> {
        let entry = self.disks.remove(&disk).ok_or(SpaceError::NoSuchDisk(disk))?;
        self.partners = None;
        Ok(entry.map)
    }

    /// Says whether new extents may go to this disk (online), or not (offline, being dropped).
    pub fn set_allocatable(&mut self, disk: DiskNo, allocatable: bool) -> Result<(), SpaceError> {
        self.disk_mut(disk)?.allocatable = allocatable;
        self.partners = None;
        Ok(())
    }

    /// The disks, in order of their numbers.
    pub fn disks(&self) -> impl Iterator<Item = (DiskNo, &SpaceDisk)> {
        self.disks.iter().map(|(&no, disk)| (no, disk))
    }

    /// One disk.
    pub fn disk(&self, disk: DiskNo) -> Result<&SpaceDisk, SpaceError> {
        self.disks.get(&disk).ok_or(SpaceError::NoSuchDisk(disk))
    }

    fn disk_mut(&mut self, disk: DiskNo) -> Result<&mut SpaceDisk, SpaceError> {
        self.disks.get_mut(&disk).ok_or(SpaceError::NoSuchDisk(disk))
    }

    /// The AU map of one disk, to reserve metadata AUs in it or to make it larger.
    pub fn map_mut(&mut self, disk: DiskNo) -> Result<&mut AuMap, SpaceError> {
        Ok(&mut self.disk_mut(disk)?.map)
    }

    /// The disks each disk shares extents with, of those that may be allocated from.
    #[must_use]
    pub fn partner_lists(&self) -> BTreeMap<DiskNo, Vec<DiskNo>> {
        let members: Vec<PartnerDisk> = self
            .disks
            .iter()
            .filter(|(_, d)| d.allocatable)
            .map(|(&disk, d)| PartnerDisk { disk, failgroup: d.failgroup, aus: d.map.total() })
            .collect();
        partners(&members)
    }

    /// Takes the AU of a leg that is recorded already, as replaying the metadata log does.
    pub fn take(&mut self, leg: Leg) -> Result<(), SpaceError> {
        self.take_run(leg, 1)
    }

    /// Takes `count` AUs in a row, all or none.
    pub fn take_run(&mut self, first: Leg, count: u32) -> Result<(), SpaceError> {
        let map = &mut self.disk_mut(first.disk)?.map;
        map.allocate_run_at(first.au, count)
            .map_err(|reason| SpaceError::Au { disk: first.disk, reason })
    }

    /// Gives the AU of a leg back.
    pub fn release(&mut self, leg: Leg) -> Result<(), SpaceError> {
        let map = &mut self.disk_mut(leg.disk)?.map;
        map.free(leg.au).map_err(|reason| SpaceError::Au { disk: leg.disk, reason })
    }
}
