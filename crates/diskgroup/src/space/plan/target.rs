//! Target levels of a rebalance: the number of AUs that each disk is to hold.
//!
//! The aim is to fill all failure groups to the same fraction of their size; but an extent set of `k`
//! copies puts at most one into each, so `r` failure groups together take at most
//! `rank(r) = sum of min(k, r)` over all sets, and a file confined to one failure group adds to that one
//! alone. Among all divisions that these limits allow there is one whose levels are the most even in the
//! strict sense (the lowest raised first; Fujishige, "Lexicographically optimal base of a polymatroid",
//! 1980). It is found by Newton's method: raise all to one level; if some are over their limit, lower
//! the level to what the worst of them can reach; those are done; go on with the rest. All arithmetic is
//! in whole numbers: a level is a fraction, so that nothing depends on rounding.

use super::{COPIES_MAX, NOWHERE, Work};

/// A failure group of the disks that take extents.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) failgroup: u16,
    pub(super) disks: Vec<usize>,
    /// AUs of its disks.
    pub(super) capacity: u64,
    /// Legs of files confined to it.
    pub(super) pinned: u64,
    /// AUs it is to hold.
    pub(super) target: u64,
}

/// How full: `held / size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    held: i128,
    size: i128,
}

/// Legs that `groups` failure groups can hold of so many sets of 1, 2 and 3 copies.
fn rank(sets: &[u64; COPIES_MAX], groups: usize) -> i128 {
    (1..).zip(sets).map(|(copies, &count)| copies.min(groups) as i128 * i128::from(count)).sum()
}

/// The most even levels of failure groups of `(capacity, pinned)`, and which share one.
pub(super) fn levels(groups: &[(u64, u64)], sets: &[u64; COPIES_MAX]) -> Vec<(Level, Vec<usize>)> {
    let wide: Vec<(i128, i128)> = groups.iter().map(|g| (g.0.into(), g.1.into())).collect();
    let mut open: Vec<usize> = (0..groups.len()).collect();
    let mut done = Vec::new();
    let mut closed = 0;
    while !open.is_empty() {
        let limit = |count: usize| rank(sets, closed + count) - rank(sets, closed);
        let mut chosen = open.clone();
        let level = loop {
            let held = limit(chosen.len()) + chosen.iter().map(|&i| wide[i].1).sum::<i128>();
            let level = Level { held, size: chosen.iter().map(|&i| wide[i].0).sum() };
            let over = |i: usize| level.held * wide[i].0 - level.size * wide[i].1;
            let mut by_over = open.clone();
            by_over.sort_by_key(|&i| (std::cmp::Reverse(over(i)), i));
            let (mut sum, mut worst) = (0, (0, 0));
            for (at, &i) in by_over.iter().enumerate() {
                sum += over(i);
                let beyond = sum - level.size * limit(at + 1);
                if beyond > worst.0 {
                    worst = (beyond, at + 1);
                }
            }
            if worst.0 == 0 {
                break level;
            }
            by_over.truncate(worst.1);
            chosen = by_over;
        };
        chosen.sort_unstable();
        open.retain(|i| !chosen.contains(i));
        closed += chosen.len();
        done.push((level, chosen));
    }
    done
}

/// Shares the AUs of one level out among the disks of its failure groups: each disk, and each
/// failure group, the whole number below or above its due.
///
/// A disk that holds more than the lower number comes first for the higher, so that nothing moves
/// for a rounding; then one that is due more. That order does not change while the moves are done,
/// so the targets do not either.
fn share_out(level: Level, groups: &[Vec<(usize, u64, u64)>]) -> Vec<(usize, u64)> {
    if level.held >= level.size {
        return groups.iter().flatten().map(|&(disk, size, _)| (disk, size)).collect();
    }
    let due = |size: u64| level.held * i128::from(size);
    let mut targets = Vec::new();
    let mut next = Vec::new();
    let mut left = level.held;
    for group in groups {
        let mut order: Vec<(bool, i128, usize, u64)> = group
            .iter()
            .map(|&(disk, size, have)| {
                let floor = (due(size) / level.size) as u64;
                (have <= floor, -(due(size) % level.size), disk, floor)
            })
            .collect();
        order.sort_unstable();
        let all = due(group.iter().map(|d| d.1).sum());
        let floors: i128 = order.iter().map(|o| i128::from(o.3)).sum();
        let raised = (all / level.size - floors) as usize;
        left -= all / level.size;
        for (at, &(_, _, disk, floor)) in order.iter().enumerate() {
            targets.push((disk, floor + u64::from(at < raised)));
        }
        if all % level.size > 0 {
            next.extend(order.get(raised).copied());
        }
    }
    next.sort_unstable();
    for (_, _, disk, _) in next.into_iter().take(left.max(0) as usize) {
        if let Some(target) = targets.iter_mut().find(|t| t.0 == disk) {
            target.1 += 1;
        }
    }
    targets
}

impl Work {
    /// Sets the target of every disk; the failure groups that take extents.
    pub(super) fn set_targets(&mut self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, disk) in self.disks.iter().enumerate().filter(|(_, d)| d.takes()) {
            let known = groups.iter().position(|g| g.failgroup == disk.failgroup);
            let at = known.unwrap_or(groups.len());
            if known.is_none() {
                groups.push(Group { failgroup: disk.failgroup, ..Group::default() });
            }
            groups[at].disks.push(index);
            groups[at].capacity += disk.capacity;
        }
        let sets = self.count_sets(&mut groups);
        let sizes: Vec<(u64, u64)> = groups.iter().map(|g| (g.capacity, g.pinned)).collect();
        for (level, members) in levels(&sizes, &sets) {
            let row = |disk: usize| (disk, self.disks[disk].capacity, self.disks[disk].have);
            let parts: Vec<Vec<(usize, u64, u64)>> = members
                .iter()
                .map(|&m| groups[m].disks.iter().map(|&d| row(d)).collect())
                .collect();
            for (disk, target) in share_out(level, &parts) {
                self.disks[disk].target = target;
            }
            for &member in &members {
                let disks = groups[member].disks.iter();
                groups[member].target = disks.map(|&d| self.disks[d].target).sum();
            }
        }
        for disk in &mut self.disks {
            if disk.role == super::DiskRole::Offline {
                disk.target = disk.have;
            }
            disk.need = disk.short();
        }
        groups
    }

    /// Sets by how many of their legs can have a place; counts those of confined files apart.
    fn count_sets(&self, groups: &mut [Group]) -> [u64; COPIES_MAX] {
        let mut sets = [0; COPIES_MAX];
        for file in &self.files {
            for start in (file.first..file.first + file.legs).step_by(file.copies) {
                let range = start..(start + file.copies).min(file.first + file.legs);
                let legs = range
                    .filter(|&leg| match self.now[leg] {
                        NOWHERE => !self.unreadable[leg],
                        disk => self.disks[usize::from(disk)].takes(),
                    })
                    .count();
                match file.pinned {
                    _ if legs == 0 => {}
                    None => sets[legs - 1] += 1,
                    Some(only) => {
                        if let Some(group) = groups.iter_mut().find(|g| g.failgroup == only) {
                            group.pinned += legs as u64;
                        }
                    }
                }
            }
        }
        sets
    }
}
