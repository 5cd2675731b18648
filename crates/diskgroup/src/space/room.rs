//! Usable room of a group: Oracle's figures, and honest ones.
//!
//! With room `c(i)` in failure group `i` and `k` copies, each in another failure group, the most
//! extent sets that fit is the largest `u` with `sum(min(c(i), u)) >= k * u`: no failure group can
//! hold two copies of one extent, so room above `u` is of no use. (The maximum flow from extents to
//! failure groups; McNaughton's wrap-around rule, "Scheduling with Deadlines and Loss Functions",
//! 1959, fills it.) The same number in closed form: leave out the `r` roomiest failure groups, each
//! of which takes at most one copy of each extent; the rest must hold `k - r` copies of each, so
//! `u = min over r < k of floor(sum of all but the r largest / (k - r))`.

use std::collections::BTreeMap;

use super::{COPIES_MAX, FailGroupNo, Space};

/// Extent sets of all files of a group by how many copies they keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentSets {
    /// Index 0: extent sets of one copy, 1: of two, 2: of three.
    pub by_copies: [u64; COPIES_MAX],
}

impl ExtentSets {
    /// The most copies that any set keeps, or a further one of `copies`.
    fn most_copies(&self, copies: u8) -> usize {
        let held = self.by_copies.iter().rposition(|&count| count > 0).map_or(1, |i| i + 1);
        held.max(usize::from(copies))
    }
}

/// The space figures of a group, in AUs and extent sets. AUs of our own metadata are in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usable {
    /// AUs of all disks.
    pub total: u64,
    /// Free AUs of all disks.
    pub free: u64,
    /// Oracle's `REQUIRED_MIRROR_FREE_MB` in AUs: all AUs of the largest failure group (two
    /// copies) or of the two largest (three copies); 0 with one copy.
    pub required_mirror_free: u64,
    /// Oracle's `USABLE_FILE_MB` in AUs of file: `(free - required_mirror_free) / copies`. May be
    /// negative: then files can still grow, but not every failure can be repaired.
    pub usable_file: i64,
    /// Extent sets that fit now, exactly: [`Space::place`] takes this many and not one more.
    pub writable_now: u64,
    /// Extent sets that can be written such that, whichever failure group is lost then, every
    /// extent of two or more copies can get its copies back on the others. Negative: that many
    /// are there too much already. 0 where too few failure groups would be left. With one copy
    /// only nothing can be restored and no room is kept for it: as `writable_now`.
    pub writable_and_survive: i64,
    /// Whether there are copies, and enough failure groups would be left to get them all back.
    pub can_restore: bool,
}

/// The most extent sets of `copies` legs that fit in failure groups of so many free AUs.
#[must_use]
pub fn writable(free_by_failgroup: &[u64], copies: u8) -> u64 {
    assert!((1..=COPIES_MAX as u8).contains(&copies), "an extent has one to three copies");
    let mut largest = [0_u64; COPIES_MAX];
    let mut rest = 0;
    for &free in free_by_failgroup {
        rest += free;
        let mut free = free;
        for slot in &mut largest {
            if free > *slot {
                std::mem::swap(slot, &mut free);
            }
        }
    }
    let mut least = u64::MAX;
    for (share, roomiest) in (1..=u64::from(copies)).rev().zip(largest) {
        least = least.min(rest / share);
        rest -= roomiest;
    }
    least
}

impl Space {
    /// Total and free AUs of each failure group, of the disks that can be allocated from.
    #[must_use]
    pub fn by_failgroup(&self) -> BTreeMap<FailGroupNo, (u64, u64)> {
        let mut groups: BTreeMap<FailGroupNo, (u64, u64)> = BTreeMap::new();
        for disk in self.disks.values().filter(|d| d.allocatable) {
            let (total, free) = groups.entry(disk.failgroup).or_default();
            *total += u64::from(disk.map.total());
            *free += u64::from(disk.map.free_count());
        }
        groups
    }

    /// The space figures for files of `copies` copies. `sets` is what the group's files hold now.
    ///
    /// `total`, `free` and Oracle's figures are of all disks; the honest ones of those that can be
    /// allocated from.
    #[must_use]
    pub fn usable(&self, copies: u8, sets: &ExtentSets) -> Usable {
        let (mut total, mut free) = (0, 0);
        let mut by_group: BTreeMap<FailGroupNo, u64> = BTreeMap::new();
        for disk in self.disks.values() {
            total += u64::from(disk.map.total());
            free += u64::from(disk.map.free_count());
            *by_group.entry(disk.failgroup).or_default() += u64::from(disk.map.total());
        }
        let mut sizes: Vec<u64> = by_group.into_values().collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let required: u64 = sizes.iter().take(usize::from(copies) - 1).sum();
        let groups = self.by_failgroup();
        let frees: Vec<u64> = groups.values().map(|g| g.1).collect();
        let totals: Vec<u64> = groups.values().map(|g| g.0).collect();
        let now = writable(&frees, copies);
        let most_copies = sets.most_copies(copies);
        let can_restore = most_copies > 1 && totals.len() > most_copies;
        Usable {
            total,
            free,
            required_mirror_free: required,
            usable_file: (signed(free) - signed(required)) / i64::from(copies),
            writable_now: now,
            writable_and_survive: survivable(&totals, copies, sets).min(signed(now)),
            can_restore,
        }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// How many more extent sets of `copies` copies leave room to restore after any one loss.
///
/// What is left after a loss holds all sets if, whichever `r` of its failure groups are left out
/// (the roomiest matter), the others hold what each set cannot put into those `r`: a set of `k`
/// copies puts at most `r` there, so needs `k - r` elsewhere. That is the cut condition of the
/// maximum flow, exact when restoring may also move an extent, as a rebalance does. One-copy sets are
/// counted as if none of them was lost, so the figure is never too high.
pub(super) fn survivable(totals: &[u64], copies: u8, sets: &ExtentSets) -> i64 {
    let most_copies = sets.most_copies(copies);
    if most_copies == 1 {
        // Nothing of one copy can be restored, so no room need be kept.
        return i64::MAX;
    }
    if totals.len() <= most_copies {
        return 0;
    }
    let mut least = i64::MAX;
    for lost in 0..totals.len() {
        let mut left: Vec<u64> = totals.to_vec();
        left.remove(lost);
        left.sort_unstable_by(|a, b| b.cmp(a));
        for left_out in 0..most_copies {
            let room: u64 = left[left_out..].iter().sum();
            let needed: u64 = (1_usize..)
                .zip(sets.by_copies)
                .map(|(copies, count)| copies.saturating_sub(left_out) as u64 * count)
                .sum();
            // Further sets need nothing here if all their copies fit in what is left out.
            let each = usize::from(copies).saturating_sub(left_out).max(1) as i64;
            let more = (signed(room) - signed(needed)).div_euclid(each);
            if left_out < usize::from(copies) || more < 0 {
                least = least.min(more);
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{AuMap, DiskNo};
    use proptest::prelude::*;

    fn group(sizes: &[u32]) -> Space {
        let mut space = Space::new();
        for (i, &size) in sizes.iter().enumerate() {
            let no = i as u16;
            space.add_disk(DiskNo(no), FailGroupNo(no), AuMap::new(size, None)).unwrap();
        }
        space
    }

    #[test]
    fn oracles_figures_and_honest_ones() {
        let none = ExtentSets::default();
        let equal = group(&[100, 100, 100]).usable(2, &none);
        assert_eq!((equal.total, equal.free, equal.required_mirror_free), (300, 300, 100));
        assert_eq!((equal.usable_file, equal.writable_now), (100, 150));
        assert_eq!((equal.writable_and_survive, equal.can_restore), (100, true));
        // Oracle's formula promises 50 here; nothing can be mirrored again on one failure group.
        let pair = group(&[100, 100]).usable(2, &none);
        assert_eq!((pair.usable_file, pair.writable_now), (50, 100));
        assert_eq!((pair.writable_and_survive, pair.can_restore), (0, false));
        // And here 500 instead of 20: the small ones fill up while the large one is empty.
        let uneven = group(&[1000, 20, 1000]);
        assert_eq!(uneven.usable(2, &none).writable_and_survive, 20);
        assert_eq!(uneven.usable(2, &none).usable_file, 510);
        let external = group(&[70, 30]).usable(1, &none);
        assert_eq!((external.required_mirror_free, external.usable_file), (0, 100));
        assert_eq!((external.writable_now, external.writable_and_survive), (100, 100));
    }

    #[test]
    fn too_full_to_survive_is_negative() {
        let sets = ExtentSets { by_copies: [0, 120, 0] };
        assert_eq!(group(&[100, 100, 100]).usable(2, &sets).writable_and_survive, -20);
    }

    /// Lays sets out one by one, each on the roomiest failure groups: best possible for any mix.
    fn fits(mut room: Vec<u64>, sets: &ExtentSets) -> bool {
        for (index, &count) in sets.by_copies.iter().enumerate().rev() {
            for _ in 0..count {
                room.sort_unstable_by(|a, b| b.cmp(a));
                for slot in 0..=index {
                    match room.get_mut(slot) {
                        Some(free) if *free > 0 => *free -= 1,
                        _ => return false,
                    }
                }
            }
        }
        true
    }

    proptest! {
        #[test]
        fn what_survives_can_be_laid_out_on_what_is_left(
            sizes in proptest::collection::vec(1_u32..60, 2..6),
            held in proptest::array::uniform3(0_u64..20),
            copies in 2_u8..=3,
        ) {
            let sets = ExtentSets { by_copies: held };
            let usable = group(&sizes).usable(copies, &sets);
            let after = |more: u64| {
                let mut sets = sets;
                sets.by_copies[usize::from(copies) - 1] += more;
                (0..sizes.len()).all(|lost| {
                    let mut left: Vec<u64> = sizes.iter().map(|&s| u64::from(s)).collect();
                    left.remove(lost);
                    fits(left, &sets)
                })
            };
            let more = usable.writable_and_survive;
            if !usable.can_restore || more < 0 {
                prop_assert!(more == 0 || !after(0));
            } else {
                prop_assert!(after(more as u64));
                let all = more as u64 == usable.writable_now;
                prop_assert!(all || !after(more as u64 + 1));
            }
        }

        #[test]
        fn the_closed_form_is_the_definition(
            free in proptest::collection::vec(0_u64..300, 0..7),
            copies in 1_u8..=3,
        ) {
            let fits = |u: u64| {
                free.iter().map(|&c| c.min(u)).sum::<u64>() >= u64::from(copies) * u
            };
            let best = (0..=2200).rev().find(|&u| fits(u)).unwrap();
            prop_assert_eq!(writable(&free, copies), best);
        }
    }
}
