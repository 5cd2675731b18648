//! Laws of placement, on random groups.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn space(disks: &[(u16, u32)]) -> Space {
    let mut space = Space::new();
    for (i, &(failgroup, aus)) in disks.iter().enumerate() {
        let map = AuMap::new(aus, None);
        space.add_disk(DiskNo(i as u16), FailGroupNo(failgroup), map).unwrap();
    }
    space
}

fn used(space: &Space) -> Vec<u32> {
    space.disks().map(|(_, d)| d.map().used()).collect()
}

fn gap(counts: impl IntoIterator<Item = u64>) -> u64 {
    let counts: Vec<u64> = counts.into_iter().collect();
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

fn any_group(disks_max: usize) -> impl Strategy<Value = (Vec<(u16, u32)>, u8)> {
    (2_u16..=5, 2_u8..=3).prop_flat_map(move |(groups, copies)| {
        let copies = copies.min(groups as u8);
        (proptest::collection::vec((0..groups, 1_u32..2000), 3..=disks_max), Just(copies))
    })
}

fn legs_lie_apart(space: &Space, sets: &[Placement], copies: u8) {
    for set in sets {
        assert_eq!(set.legs().len(), usize::from(copies));
        let mut groups: Vec<FailGroupNo> =
            set.legs().iter().map(|l| space.disk(l.disk).unwrap().failgroup()).collect();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), usize::from(copies), "{set:?}");
    }
}

proptest! {
    #[test]
    fn all_that_is_promised_can_be_written((disks, copies) in any_group(12), step in 1_u32..500) {
        let mut space = space(&disks);
        let promised = space.usable(copies, &ExtentSets::default()).writable_now;
        let mut written = 0_u64;
        let mut files = [FileSpread::new(), FileSpread::new()];
        let mut turn = 0;
        loop {
            let fits = space.usable(copies, &ExtentSets::default()).writable_now;
            let before = used(&space);
            let spread_before = files[turn].clone();
            match space.place(&mut files[turn], copies, &Policy::Any, step) {
                Ok(sets) => {
                    legs_lie_apart(&space, &sets, copies);
                    written += sets.len() as u64;
                }
                Err(SpaceError::NoRoom { fits: said, wanted, .. }) => {
                    prop_assert_eq!(said, fits);
                    prop_assert!(said < u64::from(wanted));
                    prop_assert_eq!(&before, &used(&space));
                    prop_assert_eq!(&spread_before, &files[turn]);
                    let last = space.place(&mut files[turn], copies, &Policy::Any, said as u32);
                    written += last.unwrap().len() as u64;
                    break;
                }
                Err(SpaceError::TooFewFailGroups { .. }) => break,
                Err(other) => panic!("{other}"),
            }
            turn = 1 - turn;
        }
        prop_assert_eq!(written, promised);
        prop_assert_eq!(space.usable(copies, &ExtentSets::default()).writable_now, 0);
        let legs: u64 = files.iter().map(FileSpread::extents).sum();
        prop_assert_eq!(legs, written * u64::from(copies));
        prop_assert_eq!(legs, used(&space).iter().map(|&u| u64::from(u)).sum::<u64>());
    }

    #[test]
    fn equal_disks_get_equal_shares(
        failgroups in 2_u16..=4,
        each in 1_u16..=2,
        copies in 1_u8..=3,
        sizes in proptest::collection::vec(1_u32..40, 1..40),
    ) {
        prop_assume!(u16::from(copies) <= failgroups);
        let disks: Vec<(u16, u32)> = (0..failgroups * each).map(|i| (i / each, 4000)).collect();
        let mut space = space(&disks);
        for size in sizes {
            let mut spread = FileSpread::new();
            // In two steps: growth goes on where creation stopped.
            for part in [size / 2, size - size / 2] {
                space.place(&mut spread, copies, &Policy::Any, part).unwrap();
            }
            let on = |i: usize| spread.on(DiskNo(i as u16));
            prop_assert!(gap((0..disks.len()).map(|i| on(i).extents)) <= 1, "{:?}", spread);
            prop_assert!(gap((0..disks.len()).map(|i| on(i).primaries)) <= 1, "{:?}", spread);
            prop_assert!(gap(used(&space).into_iter().map(u64::from)) <= 1);
        }
    }

    #[test]
    fn unequal_disks_fill_at_the_same_rate((disks, copies) in any_group(9)) {
        let mut space = space(&disks);
        let room = space.usable(copies, &ExtentSets::default()).writable_now as u32;
        prop_assume!(room > 0);
        let mut spread = FileSpread::new();
        space.place(&mut spread, copies, &Policy::Any, room / 2).unwrap();
        let groups = space.by_failgroup();
        let most = u64::from(room);
        let effective: u64 = groups.values().map(|g| g.0.min(most)).sum();
        for (no, (total, free)) in groups {
            let share = total.min(most) as f64 / effective as f64;
            let ideal = f64::from(room / 2) * f64::from(copies) * share;
            prop_assert!(((total - free) as f64 - ideal).abs() <= 2.0, "{:?} {}", no, ideal);
            for (_, disk) in space.disks().filter(|(_, d)| d.failgroup() == no) {
                let ideal = (total - free) as f64 * f64::from(disk.map().total()) / total as f64;
                prop_assert!((f64::from(disk.map().used()) - ideal).abs() <= 2.0);
            }
        }
    }
}

/// Extent sets with a copy on a disk that is no partner of the primary.
fn off_partners(space: &Space, sets: &[Placement]) -> usize {
    let lists = space.partner_lists();
    let strays = sets.iter().filter(|set| {
        let near = &lists[&set.primary().disk];
        set.legs()[1..].iter().any(|leg| !near.contains(&leg.disk))
    });
    strays.count()
}

#[test]
fn an_error_says_what_would_fit_and_where_it_stops() {
    let mut space = space(&[(1, 10), (2, 100), (3, 20)]);
    let mut spread = FileSpread::new();
    let error = space.place(&mut spread, 2, &Policy::Any, 40).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no room for 40 extents of 2 copies: 30 fit; failure group 1 is the first to run out, \
         10 of 130 free AUs are on it"
    );
    let error = space.place(&mut spread, 1, &Policy::InFailGroup(FailGroupNo(9)), 1).unwrap_err();
    assert_eq!(error, SpaceError::NoSuchFailGroup(FailGroupNo(9)));
    space.set_allocatable(DiskNo(0), false).unwrap();
    let error = space.place(&mut spread, 3, &Policy::Any, 1).unwrap_err();
    assert_eq!(error, SpaceError::TooFewFailGroups { copies: 3, have: 2 });
}

#[test]
fn a_confined_file_stays_in_its_failure_group() {
    let mut space = space(&[(1, 10), (1, 10), (2, 10)]);
    let mut spread = FileSpread::new();
    let policy = Policy::InFailGroup(FailGroupNo(1));
    let sets = space.place(&mut spread, 1, &policy, 20).unwrap();
    assert!(sets.iter().all(|set| set.primary().disk != DiskNo(2)));
    assert!(space.place(&mut spread, 1, &policy, 1).is_err());
    for set in &sets {
        space.release(set.primary()).unwrap();
        spread.remove(set);
    }
    assert_eq!(spread, FileSpread::new());
    assert!(space.release(sets[0].primary()).is_err());
}

#[test]
fn one_extent_files_reach_small_disks_too_and_primaries_rotate() {
    let mut space = space(&[(1, 3000), (2, 1000), (3, 2000)]);
    let mut primaries: BTreeMap<DiskNo, u32> = BTreeMap::new();
    for _ in 0..600 {
        let sets = space.place(&mut FileSpread::new(), 2, &Policy::Any, 1).unwrap();
        *primaries.entry(sets[0].primary().disk).or_default() += 1;
    }
    assert_eq!(used(&space), [600, 200, 400]);
    assert_eq!(primaries.into_values().collect::<Vec<_>>(), [300, 100, 200]);
}

#[test]
fn a_new_disk_gets_its_share_of_what_grows() {
    let mut space = space(&[(1, 1000), (2, 1000), (3, 1000)]);
    let mut spread = FileSpread::new();
    space.place(&mut spread, 2, &Policy::Any, 30).unwrap();
    space.add_disk(DiskNo(3), FailGroupNo(4), AuMap::new(1000, None)).unwrap();
    space.place(&mut spread, 2, &Policy::Any, 30).unwrap();
    assert_eq!(gap((0..4).map(|i| spread.on(DiskNo(i)).extents)), 0);
}

#[test]
fn files_lie_in_runs() {
    let mut space = space(&[(1, 5000), (2, 5000)]);
    let mut spread = FileSpread::new();
    let sets = space.place(&mut spread, 2, &Policy::Any, 3000).unwrap();
    for pair in sets.windows(2) {
        for leg in pair[1].legs() {
            let before = pair[0].legs().iter().find(|l| l.disk == leg.disk).unwrap();
            assert_eq!(leg.au.0, before.au.0 + 1);
        }
    }
}

#[test]
fn large_groups_keep_to_partners_and_stay_even() {
    for (failgroups, each, copies) in [(3, 8, 2), (4, 4, 3), (24, 1, 2), (12, 1, 3)] {
        let disks: Vec<(u16, u32)> = (0..failgroups * each).map(|i| (i / each, 500)).collect();
        let mut space = space(&disks);
        let room = space.usable(copies, &ExtentSets::default()).writable_now as u32;
        let mut spread = FileSpread::new();
        let sets = space.place(&mut spread, copies, &Policy::Any, room * 9 / 10).unwrap();
        legs_lie_apart(&space, &sets, copies);
        let off = off_partners(&space, &sets);
        let case = format!("{failgroups} x {each}, {copies} copies");
        assert_eq!(off, 0, "{case}");
        assert!(gap((0..disks.len()).map(|i| spread.on(DiskNo(i as u16)).extents)) <= 2, "{case}");
        space.place(&mut spread, copies, &Policy::Any, room - room * 9 / 10).unwrap();
    }
}

#[test]
fn millions_of_extents_are_placed_evenly() {
    // 8 disks of 2 TiB at 2 MB an AU, with checksum AUs.
    let mut space = Space::new();
    for i in 0..8 {
        let map = AuMap::new(1 << 20, Some(1017));
        space.add_disk(DiskNo(i), FailGroupNo(i), map).unwrap();
    }
    let mut spread = FileSpread::new();
    let sets = space.place(&mut spread, 2, &Policy::Any, 3_700_000).unwrap();
    assert_eq!(sets.len(), 3_700_000);
    assert_eq!(gap((0..8).map(|i| spread.on(DiskNo(i)).extents)), 0);
    assert!(gap((0..8).map(|i| spread.on(DiskNo(i)).primaries)) <= 1);
}

#[test]
fn two_large_disks_among_many_small_ones_are_partners() {
    let sizes = [1, 1, 1, 1, 1, 1428, 107, 1, 7, 1296, 1];
    let failgroups = [3, 0, 1, 1, 1, 2, 0, 1, 4, 0, 3];
    let mut space = space(&failgroups.into_iter().zip(sizes).collect::<Vec<_>>());
    let sets = space.place(&mut FileSpread::new(), 2, &Policy::Any, 1417).unwrap();
    assert!(off_partners(&space, &sets) <= 2, "room comes first, then partnership");
}
