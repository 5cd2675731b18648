//! The least number of legs that any plan must move.
//!
//! Whatever is short must be filled, so no plan moves fewer than the disks are short of. Copies
//! that must lie apart can make it more. Take one or two failure groups `G` that are short of `s`
//! together: into them can go legs that must move anyway (without a place, or from disks with too
//! much, of each at most what it has too much) whose siblings leave `G` open. If those are fewer than
//! `s`, each that is missing comes from a disk that must then be filled again: one move more.

use std::collections::BTreeMap;

use super::{NOWHERE, Work};

/// Failure groups above which only single ones are looked at.
const PAIRS_GROUPS_MAX: u16 = 24;

/// Where legs that can go are (nowhere: without a place), what bars them, what binds them.
type Kind = (u16, [u16; 2], Option<u16>);

impl Work {
    /// The bound, for the targets that are set and before any leg has moved.
    pub(super) fn least_moves(&self) -> u64 {
        let base: u64 = self.disks.iter().map(super::WorkDisk::short).sum();
        let groups = self.disks.iter().map(|d| d.failgroup + 1).max().unwrap_or(0);
        let mut short = vec![0_u64; usize::from(groups)];
        for disk in &self.disks {
            short[usize::from(disk.failgroup)] += disk.short();
        }
        let kinds = self.kinds_to_go();
        let mut extra = 0;
        for one in (0..groups).filter(|&g| short[usize::from(g)] > 0) {
            let last = if groups <= PAIRS_GROUPS_MAX { groups } else { one + 1 };
            for other in (one..last).filter(|&g| short[usize::from(g)] > 0) {
                let both = if one == other { 0 } else { short[usize::from(other)] };
                let wanted = short[usize::from(one)] + both;
                extra = extra.max(wanted.saturating_sub(self.suited(&kinds, [one, other])));
            }
        }
        base + extra
    }

    fn kinds_to_go(&self) -> BTreeMap<Kind, u64> {
        let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
        for leg in 0..self.now.len() {
            let disk = self.now[leg];
            let goes = self.is_waiting(leg)
                || disk != NOWHERE && self.disks[usize::from(disk)].excess() > 0;
            if goes {
                let pinned = self.files[self.file_of[leg] as usize].pinned;
                *kinds.entry((disk, self.barred(leg), pinned)).or_default() += 1;
            }
        }
        kinds
    }

    /// Legs that must move anyway and may go to one of two failure groups.
    fn suited(&self, kinds: &BTreeMap<Kind, u64>, into: [u16; 2]) -> u64 {
        let mut by_disk: BTreeMap<u16, u64> = BTreeMap::new();
        for (&(disk, barred, pinned), &count) in kinds {
            let open =
                |group: &u16| !barred.contains(group) && pinned.is_none_or(|only| only == *group);
            if into.iter().any(open) {
                *by_disk.entry(disk).or_default() += count;
            }
        }
        let most = |disk: u16, count: u64| match disk {
            NOWHERE => count,
            _ => count.min(self.disks[usize::from(disk)].excess()),
        };
        by_disk.into_iter().map(|(disk, count)| most(disk, count)).sum()
    }

    /// The failure groups in which the siblings of a leg lie.
    pub(super) fn barred(&self, leg: usize) -> [u16; 2] {
        let mut barred = [NOWHERE; 2];
        let siblings = self.set_of(leg).filter(|&other| other != leg && self.now[other] != NOWHERE);
        for (slot, other) in barred.iter_mut().zip(siblings) {
            *slot = self.disks[usize::from(self.now[other])].failgroup;
        }
        barred.sort_unstable();
        barred
    }
}
