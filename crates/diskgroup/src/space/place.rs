//! Choosing disks: as full as the group can get, even within each file, even over the group.
//!
//! For each extent set the failure groups are chosen first, then a disk in each:
//! 1. A failure group with at least as much free room as extent sets still fit *must* take a copy,
//!    else room is lost for good (see [`super::room`]). Taking all such groups makes the number of
//!    extent sets that fit fall by exactly one each time, from any state of the disks.
//! 2. Within the rest, the file's own share decides: a failure group's share of the file is its part
//!    of the effective capacity, `min(c(i), U)`. Who would fall a whole extent behind its share
//!    comes first, who would get a whole one ahead comes last.
//! 3. Among equals the one with the lowest used fraction, so that small files even out as well.
//!
//! Steps 2 and 3 then choose the disk, by its part of its failure group.

use super::room::writable;
use super::{
    Au, COPIES_MAX, DiskNo, DiskSpread, FailGroupNo, FileSpread, Leg, Placement, Space, SpaceError,
};

/// Where the extents of a file may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Every disk.
    #[default]
    Any,
    /// One failure group only, so one copy only: redo media.
    InFailGroup(FailGroupNo),
}

/// A failure group or a disk as a taker of a share of one file.
#[derive(Clone, Debug, Default)]
struct Taker {
    /// Its part of the whole, in effective AUs.
    weight: u64,
    /// AUs taken, by all files.
    used: u64,
    /// AUs left.
    free: u64,
    /// Extents of this file.
    extents: u64,
}

impl Taker {
    /// 0: would fall a whole extent behind its share; 1: within it; 2: would get ahead.
    ///
    /// Its share of the first `extents` extents of the file is `extents * weight / weight_all`.
    fn class(&self, extents: u64, weight_all: u64) -> u8 {
        let share = u128::from(extents) * u128::from(self.weight);
        let have = u128::from(self.extents) * u128::from(weight_all);
        if have + u128::from(weight_all) <= share {
            0
        } else if have < share {
            1
        } else {
            2
        }
    }

    /// Whether less of this one is used than of the other; then, whether the file has less on it.
    fn is_emptier_than(&self, other: &Taker) -> bool {
        let fraction = |count: u64, of: &Taker| u128::from(count) * u128::from(of.weight);
        let mine = (fraction(self.used, other), fraction(self.extents, other));
        let theirs = (fraction(other.used, self), fraction(other.extents, self));
        mine < theirs
    }

    fn take(&mut self) {
        self.used += 1;
        self.free -= 1;
        self.extents += 1;
    }
}

struct WorkDisk {
    no: DiskNo,
    taker: Taker,
    primaries: u64,
    primary_debt: i64,
    next: Au,
    /// By index of the other disk. Empty where everyone elsewhere is a partner.
    partner: Vec<bool>,
}

struct WorkGroup {
    taker: Taker,
    disks: Vec<usize>,
    weight_disks: u64,
}

/// One call of [`Space::place`]: the disks as dense tables.
struct Planner {
    copies: usize,
    disks: Vec<WorkDisk>,
    groups: Vec<WorkGroup>,
    weight_groups: u64,
    extents: u64,
    /// Extent sets that fit still.
    fits: u64,
}

impl Space {
    /// Finds room for `count` extent sets of `copies` copies and takes it, all or nothing.
    ///
    /// `spread` is how the file lies now; it is brought up to date. On an error nothing is taken.
    pub fn place(
        &mut self,
        spread: &mut FileSpread,
        copies: u8,
        policy: &Policy,
        count: u32,
    ) -> Result<Vec<Placement>, SpaceError> {
        assert!((1..=COPIES_MAX as u8).contains(&copies), "an extent has one to three copies");
        if self.partners.is_none() {
            self.partners = Some(self.partner_lists());
        }
        let mut planner = self.planner(spread, copies, policy, count)?;
        let mut maps: Vec<_> = {
            let wanted: Vec<DiskNo> = planner.disks.iter().map(|d| d.no).collect();
            let chosen = self.disks.iter_mut().filter(|(no, _)| wanted.contains(no));
            chosen.map(|(_, disk)| disk).collect()
        };
        let mut sets = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let mut legs = [Leg::default(); COPIES_MAX];
            let chosen = planner.choose();
            for (leg, &index) in legs.iter_mut().zip(&chosen[..planner.copies]) {
                let disk = &mut planner.disks[index];
                let au = maps[index].map.allocate(disk.next);
                assert!(au.is_some(), "a disk with free AUs has one to give");
                let au = au.unwrap_or_default();
                disk.next = Au(au.0 + 1);
                *leg = Leg { disk: disk.no, au };
            }
            sets.push(Placement { legs, copies });
        }
        for (disk, entry) in planner.disks.iter().zip(&mut maps) {
            entry.primary_debt = disk.primary_debt;
            let (extents, primaries) = (disk.taker.extents, disk.primaries);
            spread.put(disk.no, DiskSpread { extents, primaries, next: disk.next });
        }
        Ok(sets)
    }

    /// Lays the tables out and makes sure that all will fit.
    fn planner(
        &self,
        spread: &FileSpread,
        copies: u8,
        policy: &Policy,
        count: u32,
    ) -> Result<Planner, SpaceError> {
        let mut groups: std::collections::BTreeMap<FailGroupNo, WorkGroup> = Default::default();
        let mut disks = Vec::new();
        for (no, disk) in self.disks() {
            let outside = matches!(policy, Policy::InFailGroup(only) if *only != disk.failgroup);
            if outside || !disk.allocatable {
                continue;
            }
            let on = spread.on(no);
            let taker = Taker {
                weight: u64::from(disk.map.total()),
                used: u64::from(disk.map.used()),
                free: u64::from(disk.map.free_count()),
                extents: on.extents,
            };
            let group = groups.entry(disk.failgroup).or_insert_with(|| WorkGroup {
                taker: Taker::default(),
                disks: Vec::new(),
                weight_disks: 0,
            });
            group.disks.push(disks.len());
            group.weight_disks += taker.weight;
            group.taker.used += taker.used;
            group.taker.free += taker.free;
            group.taker.extents += taker.extents;
            disks.push(WorkDisk {
                no,
                taker,
                primaries: on.primaries,
                primary_debt: disk.primary_debt,
                next: on.next,
                partner: Vec::new(),
            });
        }
        if let (Policy::InFailGroup(only), true) = (policy, groups.is_empty()) {
            return Err(SpaceError::NoSuchFailGroup(*only));
        }
        if groups.len() < usize::from(copies) {
            return Err(SpaceError::TooFewFailGroups { copies, have: groups.len() as u16 });
        }
        let fits = check_room(&groups, copies, count)?;
        self.mark_partners(&mut disks);
        let mut groups: Vec<WorkGroup> = groups.into_values().collect();
        let totals: Vec<u64> = groups.iter().map(|g| g.weight_disks).collect();
        let most = writable(&totals, copies);
        for group in &mut groups {
            group.taker.weight = group.weight_disks.min(most);
        }
        Ok(Planner {
            copies: usize::from(copies),
            weight_groups: groups.iter().map(|g| g.taker.weight).sum(),
            extents: groups.iter().map(|g| g.taker.extents).sum(),
            disks,
            groups,
            fits,
        })
    }

    fn mark_partners(&self, disks: &mut [WorkDisk]) {
        if self.disks.len() <= super::PARTNERS_MAX + 1 {
            return;
        }
        let numbers: Vec<DiskNo> = disks.iter().map(|d| d.no).collect();
        for disk in disks {
            let lists = self.partners.as_ref();
            let list = lists.and_then(|lists| lists.get(&disk.no)).map_or(&[][..], Vec::as_slice);
            disk.partner = numbers.iter().map(|no| list.binary_search(no).is_ok()).collect();
        }
    }
}

/// How many extent sets fit, or the error that says why not enough.
fn check_room(
    groups: &std::collections::BTreeMap<FailGroupNo, WorkGroup>,
    copies: u8,
    wanted: u32,
) -> Result<u64, SpaceError> {
    let free: Vec<u64> = groups.values().map(|g| g.taker.free).collect();
    let fits = writable(&free, copies);
    if fits >= u64::from(wanted) {
        return Ok(fits);
    }
    // Whatever is short, the failure group with the least room is the first to run out.
    let fullest = groups.iter().min_by_key(|(_, group)| group.taker.free);
    let (failgroup, free_in_failgroup) =
        fullest.map_or((FailGroupNo(0), 0), |(&no, group)| (no, group.taker.free));
    let free = free.iter().sum();
    Err(SpaceError::NoRoom { wanted, copies, fits, failgroup, free_in_failgroup, free })
}

impl Planner {
    /// Chooses the disks of one extent set, the primary first, and counts them as taken.
    fn choose(&mut self) -> [usize; COPIES_MAX] {
        let mut in_groups = [usize::MAX; COPIES_MAX];
        let mut chosen = [usize::MAX; COPIES_MAX];
        for step in 0..self.copies {
            let anchor = if step == 0 { None } else { Some(chosen[0]) };
            let group = self.best_group(&in_groups[..step], anchor);
            in_groups[step] = group;
            chosen[step] = self.best_disk(group, anchor);
        }
        for (&group, &disk) in in_groups[..self.copies].iter().zip(&chosen) {
            self.groups[group].taker.take();
            self.disks[disk].taker.take();
        }
        self.extents += self.copies as u64;
        self.fits -= 1;
        self.put_primary_first(&mut chosen);
        chosen
    }

    fn are_partners(&self, anchor: Option<usize>, other: usize) -> bool {
        anchor.is_none_or(|a| self.disks[a].partner.get(other).copied().unwrap_or(true))
    }

    fn best_group(&self, taken: &[usize], anchor: Option<usize>) -> usize {
        let after = self.extents + self.copies as u64;
        let mut best: Option<(usize, (bool, bool, u8))> = None;
        for (index, group) in self.groups.iter().enumerate() {
            if group.taker.free == 0 || taken.contains(&index) {
                continue;
            }
            let may_wait = group.taker.free < self.fits;
            let strange = !self.disks[0].partner.is_empty()
                && !group.disks.iter().any(|&disk| {
                    self.disks[disk].taker.free > 0 && self.are_partners(anchor, disk)
                });
            let rank = (may_wait, strange, group.taker.class(after, self.weight_groups));
            let better = best.is_none_or(|(other, best_rank)| {
                rank < best_rank
                    || rank == best_rank && group.taker.is_emptier_than(&self.groups[other].taker)
            });
            if better {
                best = Some((index, rank));
            }
        }
        assert!(best.is_some(), "an extent set that fits has a failure group for each copy");
        best.map_or(0, |(index, _)| index)
    }

    /// The disk of this failure group for the next extent; a partner of `anchor` if one has room.
    ///
    /// Room comes before partnership: in a lop-sided group of ten disks and more, the last extents
    /// may lie on disks that are no partners.
    fn best_disk(&self, group: usize, anchor: Option<usize>) -> usize {
        let group = &self.groups[group];
        let after = group.taker.extents + 1;
        let mut best: Option<(usize, (bool, u8))> = None;
        for &index in &group.disks {
            let disk = &self.disks[index];
            if disk.taker.free == 0 {
                continue;
            }
            let strange = !self.are_partners(anchor, index);
            let rank = (strange, disk.taker.class(after, group.weight_disks));
            let better = best.is_none_or(|(other, best_rank)| {
                rank < best_rank
                    || rank == best_rank && disk.taker.is_emptier_than(&self.disks[other].taker)
            });
            if better {
                best = Some((index, rank));
            }
        }
        assert!(best.is_some(), "a failure group with free AUs has a disk with free AUs");
        best.map_or(0, |(index, _)| index)
    }

    /// Gives the primary role to the disk that is furthest behind its share of it: in this file,
    /// then in the group. Only a disk that is a partner of all others can have it.
    fn put_primary_first(&mut self, chosen: &mut [usize; COPIES_MAX]) {
        let copies = self.copies as i64;
        let legs = &mut chosen[..self.copies];
        let mut best: Option<(usize, (bool, i64, i64))> = None;
        for (position, &index) in legs.iter().enumerate() {
            let disk = &self.disks[index];
            let strangers = legs.iter().any(|&o| o != index && !self.are_partners(Some(index), o));
            let behind = disk.taker.extents as i64 - copies * disk.primaries as i64;
            let rank = (!strangers, behind, disk.primary_debt);
            if best.is_none_or(|(_, best_rank)| rank > best_rank) {
                best = Some((position, rank));
            }
        }
        legs.swap(0, best.map_or(0, |(position, _)| position));
        for &index in legs.iter() {
            self.disks[index].primary_debt += 1;
        }
        self.disks[legs[0]].primaries += 1;
        self.disks[legs[0]].primary_debt -= copies;
    }
}
