//! Disk partnership: at most eight partners share extents with a disk, so that few pairs are fatal.

use std::collections::{BTreeMap, BTreeSet};

use super::{COPIES_MAX, DiskNo, FailGroupNo, writable};

/// Partners of one disk where its group has enough failure groups and disks to choose from.
pub const PARTNERS_MAX: usize = 8;

/// A disk that looks for partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartnerDisk {
    /// Its number.
    pub disk: DiskNo,
    /// The failure group it is in.
    pub failgroup: FailGroupNo,
    /// AUs files may use on it: large disks must be partners of large ones.
    pub aus: u32,
}

struct Member {
    no: DiskNo,
    failgroup: FailGroupNo,
    aus: u64,
    partners: BTreeSet<usize>,
    /// Partners by failure group, for the balance.
    in_group: BTreeMap<FailGroupNo, usize>,
}

/// Chooses partners: symmetric, in other failure groups only, evenly over them.
///
/// Each disk gets all disks of other failure groups if those are at most [`PARTNERS_MAX`] for
/// every disk, else up to that many. More than that has only a disk whose failure group is so small
/// that disks elsewhere would otherwise have no partner in it, or none at all.
///
/// The same members give the same answer, in whatever order they come.
#[must_use]
pub fn partners(disks: &[PartnerDisk]) -> BTreeMap<DiskNo, Vec<DiskNo>> {
    let unique: BTreeMap<DiskNo, PartnerDisk> = disks.iter().map(|d| (d.disk, *d)).collect();
    let mut members: Vec<Member> = unique
        .into_values()
        .map(|disk| Member {
            no: disk.disk,
            failgroup: disk.failgroup,
            aus: u64::from(disk.aus),
            partners: BTreeSet::new(),
            in_group: BTreeMap::new(),
        })
        .collect();
    let mut group_size: BTreeMap<FailGroupNo, usize> = BTreeMap::new();
    for member in &members {
        *group_size.entry(member.failgroup).or_default() += 1;
    }
    let elsewhere_max = members.len() - group_size.values().min().copied().unwrap_or(0);
    if elsewhere_max <= PARTNERS_MAX {
        join_all(&mut members);
    } else {
        join_where_room_needs_it(&mut members);
        // A round gives each disk one partner more, so no disk fills up before the others.
        for round in 1..=PARTNERS_MAX {
            for me in 0..members.len() {
                if members[me].partners.len() < round {
                    join_best(&mut members, me, PARTNERS_MAX);
                }
            }
        }
        // Two partners in two failure groups, where there are so many, make three copies possible.
        let groups_wanted = (group_size.len() - 1).min(2);
        for me in 0..members.len() {
            while members[me].in_group.len() < groups_wanted {
                if !join_best_new_group(&mut members, me) {
                    break;
                }
            }
        }
    }
    let numbers: Vec<DiskNo> = members.iter().map(|m| m.no).collect();
    members
        .into_iter()
        .map(|m| (m.no, m.partners.iter().map(|&other| numbers[other]).collect()))
        .collect()
}

fn join(members: &mut [Member], a: usize, b: usize) {
    for (me, other) in [(a, b), (b, a)] {
        let group = members[other].failgroup;
        members[me].partners.insert(other);
        *members[me].in_group.entry(group).or_default() += 1;
    }
}

fn join_all(members: &mut [Member]) {
    for a in 0..members.len() {
        for b in a + 1..members.len() {
            if members[a].failgroup != members[b].failgroup {
                join(members, a, b);
            }
        }
    }
}

/// Lets those be partners that share most in a layout that fills the group.
///
/// The layout is McNaughton's: failure groups end to end, the largest first, each cut to what is of
/// use, wrapped into one row for each copy. Disks above one another share extents.
fn join_where_room_needs_it(members: &mut [Member]) {
    let mut groups: BTreeMap<FailGroupNo, u64> = BTreeMap::new();
    for member in members.iter() {
        *groups.entry(member.failgroup).or_default() += member.aus;
    }
    let sizes: Vec<u64> = groups.values().copied().collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&i| {
        let group = members[i].failgroup;
        (std::cmp::Reverse(groups[&group]), group, i)
    });
    let mut shared: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for copies in 2..=COPIES_MAX as u64 {
        let row = writable(&sizes, copies as u8);
        let mut pieces: Vec<(usize, u64, u64)> = Vec::new();
        let mut at = 0;
        for &index in &order {
            let group = groups[&members[index].failgroup];
            let part = u128::from(members[index].aus) * u128::from(group.min(row));
            let mut left = (part / u128::from(group.max(1))) as u64;
            while left > 0 && at < row * copies {
                let length = left.min(row - at % row);
                pieces.push((index, at % row, at % row + length));
                at += length;
                left -= length;
            }
        }
        for (i, &(a, a_from, a_to)) in pieces.iter().enumerate() {
            for &(b, b_from, b_to) in &pieces[i + 1..] {
                let common = a_to.min(b_to).saturating_sub(a_from.max(b_from));
                if common > 0 && members[a].failgroup != members[b].failgroup {
                    *shared.entry((a.min(b), a.max(b))).or_default() += common;
                }
            }
        }
    }
    let mut shared: Vec<_> = shared.into_iter().collect();
    shared.sort_by_key(|&(pair, common)| (std::cmp::Reverse(common), pair));
    for ((a, b), _) in shared {
        if [a, b].iter().all(|&i| members[i].partners.len() < PARTNERS_MAX) {
            join(members, a, b);
        }
    }
}

/// The disk that suits `me` best: fewest ties between the two failure groups, fewest partners,
/// then the nearest behind it in the circle of all disks.
fn best(members: &[Member], me: usize, allowed: impl Fn(&Member) -> bool) -> Option<usize> {
    let mine = &members[me];
    (0..members.len())
        .filter(|&other| {
            let them = &members[other];
            them.failgroup != mine.failgroup && !mine.partners.contains(&other) && allowed(them)
        })
        .min_by_key(|&other| {
            let them = &members[other];
            let ties = mine.in_group.get(&them.failgroup).copied().unwrap_or(0)
                + them.in_group.get(&mine.failgroup).copied().unwrap_or(0);
            let distance = (other + members.len() - me) % members.len();
            (ties, them.partners.len(), distance)
        })
}

fn join_best(members: &mut [Member], me: usize, limit: usize) {
    if let Some(other) = best(members, me, |them| them.partners.len() < limit) {
        join(members, me, other);
    }
}

fn join_best_new_group(members: &mut [Member], me: usize) -> bool {
    let known: BTreeSet<FailGroupNo> = members[me].in_group.keys().copied().collect();
    let other = best(members, me, |them| !known.contains(&them.failgroup));
    if let Some(other) = other {
        join(members, me, other);
    }
    other.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(groups: &[u16]) -> Vec<PartnerDisk> {
        let disks = groups.iter().enumerate();
        disks
            .map(|(i, &g)| PartnerDisk {
                disk: DiskNo(i as u16),
                failgroup: FailGroupNo(g),
                aus: 100,
            })
            .collect()
    }

    #[test]
    fn small_groups_pair_everyone_with_everyone_elsewhere() {
        let lists = partners(&members(&[1, 1, 2, 2, 3]));
        assert_eq!(lists[&DiskNo(0)], [DiskNo(2), DiskNo(3), DiskNo(4)]);
        assert_eq!(lists[&DiskNo(4)], [DiskNo(0), DiskNo(1), DiskNo(2), DiskNo(3)]);
        assert!(partners(&[]).is_empty());
        assert_eq!(partners(&members(&[1]))[&DiskNo(0)], []);
    }

    #[test]
    fn equal_failure_groups_give_every_disk_eight_partners_evenly() {
        for (failgroups, disks_each) in [(3, 12), (4, 6), (5, 10), (24, 1), (2, 12)] {
            let groups: Vec<u16> = (0..failgroups * disks_each).map(|i| i / disks_each).collect();
            let lists = partners(&members(&groups));
            let degrees: BTreeSet<usize> = lists.values().map(Vec::len).collect();
            let low = degrees.first().copied().unwrap();
            assert!(low >= 7, "{failgroups} x {disks_each}: {degrees:?}");
            for list in lists.values() {
                let mut count = BTreeMap::new();
                for other in list {
                    *count.entry(groups[usize::from(other.0)]).or_insert(0) += 1;
                }
                let spread = count.values().max().unwrap() - count.values().min().unwrap();
                assert!(spread <= 2, "{failgroups} x {disks_each}: {count:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn partners_obey_the_laws(groups in proptest::collection::vec(0_u16..7, 0..60)) {
            let list = members(&groups);
            let lists = partners(&list);
            let mut reversed = list.clone();
            reversed.reverse();
            prop_assert_eq!(&lists, &partners(&reversed));
            let distinct: BTreeSet<u16> = groups.iter().copied().collect();
            let size = |g: u16| groups.iter().filter(|&&x| x == g).count();
            let smallest = distinct.iter().map(|&g| size(g)).min().unwrap_or(0);
            for (no, mine) in &lists {
                let me = usize::from(no.0);
                let elsewhere = groups.len() - size(groups[me]);
                for other in mine {
                    prop_assert!(lists[other].contains(no), "symmetric");
                    prop_assert!(groups[usize::from(other.0)] != groups[me]);
                }
                if groups.len() <= 9 {
                    prop_assert_eq!(mine.len(), elsewhere);
                }
                prop_assert!(!mine.is_empty() || distinct.len() < 2);
                let fair = groups.len().div_ceil(smallest.max(1));
                prop_assert!(mine.len() <= PARTNERS_MAX.max(fair), "{} of {}", mine.len(), fair);
            }
        }
    }
}
