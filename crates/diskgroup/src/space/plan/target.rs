//! How many AUs each disk is to hold.
//!
//! All failure groups as full as one another, in parts of their size, is the aim; but an extent set
//! of `k` copies puts at most one into each, so `r` failure groups together take at most
//! `rank(r) = sum of min(k, r)` of all sets, and a file confined to one adds to that one alone. Among
//! all divisions that these limits allow there is one whose levels are the most even in the strict
//! sense (the lowest raised first; Fujishige, "Lexicographically optimal base of a polymatroid",
//! 1980). It is found by Newton's method: raise all to one level; if some are over their
//! limit, lower the level to what the worst of them can reach; those are done; go on with the rest.
//! All in whole numbers: a level is a fraction, so that nothing depends on rounding.

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

/// Shares `total` out among parts of `(size, held now)` at a level: each the whole number below or
/// above its due. Who holds more than the lower one gets the higher, so that nothing moves for a
/// rounding; then who is due more.
fn share_out(total: u64, level: Level, parts: &[(u64, u64)]) -> Vec<u64> {
    if level.held >= level.size {
        return parts.iter().map(|p| p.0).collect();
    }
    let due = |size: u64| level.held * i128::from(size);
    let mut shares: Vec<u64> = parts.iter().map(|p| (due(p.0) / level.size) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&i| (parts[i].1 <= shares[i], -(due(parts[i].0) % level.size), i));
    let mut left = total.saturating_sub(shares.iter().sum());
    for i in order {
        if left > 0 && due(parts[i].0) % level.size > 0 {
            shares[i] += 1;
            left -= 1;
        }
    }
    shares
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
            let have = |g: &Group| g.disks.iter().map(|&d| self.disks[d].have).sum::<u64>();
            let parts: Vec<(u64, u64)> =
                members.iter().map(|&m| (groups[m].capacity, have(&groups[m]))).collect();
            let totals = share_out(level.held as u64, level, &parts);
            for (&member, total) in members.iter().zip(totals) {
                groups[member].target = total;
                let disks = &groups[member].disks;
                let parts: Vec<(u64, u64)> =
                    disks.iter().map(|&d| (self.disks[d].capacity, self.disks[d].have)).collect();
                for (&disk, target) in disks.iter().zip(share_out(total, level, &parts)) {
                    self.disks[disk].target = target;
                }
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
