//! Laws of a plan, on random groups and random changes; a plan is carried out move by move.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::space::{Au, AuMap, FileSpread, Policy, Space};

struct OwnFile {
    copies: u8,
    placement: Option<FailGroupNo>,
    legs: Vec<Leg>,
}

struct Model {
    space: Space,
    disks: Vec<PlanDisk>,
    files: Vec<OwnFile>,
}

impl Model {
    /// Disks of `(failure group, AUs)`, all active.
    fn new(disks: &[(u16, u32)]) -> Model {
        let mut model = Model { space: Space::new(), disks: Vec::new(), files: Vec::new() };
        for &(failgroup, aus) in disks {
            model.add(failgroup, aus);
        }
        model
    }

    fn add(&mut self, failgroup: u16, aus: u32) {
        let (disk, failgroup) = (DiskNo(self.disks.len() as u16), FailGroupNo(failgroup));
        self.space.add_disk(disk, failgroup, AuMap::new(aus, None)).unwrap();
        let role = DiskRole::Active;
        self.disks.push(PlanDisk { disk, failgroup, capacity: aus, end: aus, role });
    }

    /// Makes a file; of as many extents as fit, if fewer do.
    fn write(&mut self, copies: u8, placement: Option<FailGroupNo>, extents: u32) -> u32 {
        let policy = placement.map_or(Policy::Any, Policy::InFailGroup);
        let mut spread = FileSpread::new();
        let placed = match self.space.place(&mut spread, copies, &policy, extents) {
            Err(crate::space::SpaceError::NoRoom { fits, .. }) => {
                self.space.place(&mut spread, copies, &policy, fits as u32)
            }
            other => other,
        };
        let sets = placed.unwrap_or_default();
        let legs = sets.iter().flat_map(|set| set.legs().to_vec());
        let legs = legs.map(|leg| Leg { disk: leg.disk.0, au: leg.au.0 }).collect();
        self.files.push(OwnFile { copies, placement, legs });
        sets.len() as u32
    }

    fn input(&self) -> PlanInput<'_> {
        let files = (0..).zip(&self.files).map(|(number, f)| PlanFile {
            number,
            incarnation: 1,
            copies: f.copies,
            placement: f.placement,
            striping: Striping::Coarse,
            legs: &f.legs,
        });
        PlanInput { disks: self.disks.clone(), files: files.collect() }
    }

    fn plan(&self) -> Plan {
        plan(&self.input())
    }

    /// Does one move as the executor will: an AU there, the switch, the old AU free.
    fn apply(&mut self, step: &Move) {
        let target = self.disks[usize::from(step.to.0)];
        assert_eq!(target.role, DiskRole::Active);
        let au = self.space.map_mut(step.to).unwrap().allocate(Au(0)).expect("room for a move");
        assert!(au.0 < target.end, "{au:?} of {target:?}");
        let file = &mut self.files[step.file as usize];
        let copies = usize::from(file.copies);
        let start = step.extent as usize * copies;
        let leg = &mut file.legs[start + usize::from(step.leg)];
        let old = std::mem::replace(leg, Leg { disk: step.to.0, au: au.0 });
        let was = self.disks[usize::from(old.disk)];
        assert_eq!(step.from, (was.role != DiskRole::Lost).then_some(was.disk));
        let old = crate::space::Leg { disk: was.disk, au: Au(old.au) };
        self.space.release(old).unwrap();
        let set = &file.legs[start..start + copies];
        let readable = set.iter().map(|l| self.disks[usize::from(l.disk)]);
        let groups: Vec<FailGroupNo> =
            readable.filter(|d| d.role != DiskRole::Lost).map(|d| d.failgroup).collect();
        let distinct: BTreeSet<FailGroupNo> = groups.iter().copied().collect();
        assert_eq!(distinct.len(), groups.len(), "copies lie apart: {step:?} {set:?}");
        assert!(file.placement.is_none_or(|only| only == target.failgroup));
    }

    fn used(&self) -> Vec<u64> {
        let mut used = vec![0; self.disks.len()];
        for leg in self.files.iter().flat_map(|f| &f.legs) {
            used[usize::from(leg.disk)] += 1;
        }
        used
    }

    fn of_file(&self, file: usize, disk: u16) -> u64 {
        self.files[file].legs.iter().filter(|l| l.disk == disk).count() as u64
    }
}

fn gap(counts: &[u64]) -> u64 {
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

/// Plans anew after every move: each time there is less to do.
fn done_step_by_step(model: &mut Model) -> Result<(), TestCaseError> {
    let mut left = model.plan().moves;
    while let Some(step) = left.first() {
        model.apply(step);
        let again = model.plan().moves;
        prop_assert!(again.len() < left.len(), "{} then {}", left.len(), again.len());
        left = again;
    }
    Ok(())
}

/// A random group with files on its first disks, and then a random change of it.
#[derive(Clone, Debug)]
struct Case {
    disks: Vec<(u16, u32)>,
    first: usize,
    copies: u8,
    fill: u32,
    files: u32,
    /// What becomes of each disk: 0 dropped, 1 force-dropped, 2 shrunk, else nothing.
    fates: Vec<u8>,
}

impl Case {
    fn model(&self) -> Model {
        let mut model = Model::new(&self.disks[..self.first]);
        let room = capacity(&model.disks, self.copies) as u32;
        let extents = room * self.fill / 100 / self.files;
        for _ in 0..self.files {
            model.write(self.copies, None, extents);
        }
        for &(failgroup, aus) in &self.disks[self.first..] {
            model.add(failgroup, aus);
        }
        let mut lost = None;
        for (disk, &fate) in model.disks.iter_mut().zip(&self.fates) {
            match fate {
                0 => disk.role = DiskRole::Dropping,
                1 if self.copies > 1 && lost.is_none_or(|group| group == disk.failgroup) => {
                    lost = Some(disk.failgroup);
                    disk.role = DiskRole::Lost;
                }
                2 => {
                    disk.capacity = disk.capacity / 2 + 1;
                    disk.end = disk.capacity;
                }
                _ => {}
            }
        }
        model
    }
}

fn any_case(size: u32) -> impl Strategy<Value = Case> {
    (2_u16..=5, 1_u8..=3, 3_usize..=12).prop_flat_map(move |(groups, copies, count)| {
        let disks = proptest::collection::vec((0..groups, 1..size), count);
        let fates = proptest::collection::vec(0_u8..12, count);
        (disks, 1..=count, 0_u32..=100, 1_u32..6, fates).prop_map(
            move |(disks, first, fill, files, fates)| {
                let copies = copies.min(groups as u8);
                Case { disks, first, copies, fill, files, fates }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_plan_can_be_carried_out_and_reaches_its_aim(case in any_case(400)) {
        let mut model = case.model();
        let sets: u64 =
            model.files.iter().map(|f| f.legs.len() as u64 / u64::from(f.copies)).sum();
        let fits = sets <= capacity(&model.disks, case.copies);
        let plan = model.plan();
        prop_assert_eq!(&plan, &model.plan());
        prop_assert!(plan.is_complete() || !fits, "{:?} {}", plan.unplaced, plan.blocked);
        prop_assert!(plan.is_complete() == fits, "{:?}", plan.unplaced);
        let mut seen = BTreeSet::new();
        for step in &plan.moves {
            prop_assert!(seen.insert((step.file, step.extent, step.leg)), "moves once");
            model.apply(step);
        }
        for (row, used) in plan.disks.iter().zip(model.used()) {
            let disk = model.disks[usize::from(row.disk.0)];
            if disk.role != DiskRole::Lost {
                prop_assert_eq!(row.after, used);
            }
            if fits {
                prop_assert_eq!(row.after, row.target, "{:?}", row);
                prop_assert!(disk.role == DiskRole::Active || row.after == 0);
            }
        }
        if fits {
            let moved = plan.moves.len() as u64;
            prop_assert!(moved >= plan.minimum);
            // Small lop-sided groups need longer chains than the bound knows of.
            prop_assert!(moved <= plan.minimum * 3 / 2 + 4, "{moved} of {}", plan.minimum);
            prop_assert_eq!(model.plan().moves, []);
        }
    }

    #[test]
    fn any_part_done_leaves_the_rest(case in any_case(60)) {
        let case = Case { copies: 1, ..case };
        done_step_by_step(&mut case.model())?;
    }

    #[test]
    #[ignore = "planning anew within a chain of a mirrored group can cost more moves: open"]
    fn any_part_of_a_chain_done_leaves_the_rest(case in any_case(60)) {
        let mut model = case.model();
        prop_assume!(model.plan().is_complete());
        done_step_by_step(&mut model)?;
    }

    #[test]
    fn what_fits_by_the_exact_bound_can_be_written(case in any_case(2000)) {
        let mut model = Case { fates: Vec::new(), ..case.clone() }.model();
        for step in &model.plan().moves {
            model.apply(step);
        }
        let bound = capacity(&model.disks, case.copies);
        let mut have: u64 =
            model.files.iter().map(|f| f.legs.len() as u64 / u64::from(f.copies)).sum();
        let foretold = model.plan().forecast(&model.input());
        let more = u64::from(model.write(case.copies, None, u32::MAX / 4));
        have += more;
        prop_assert_eq!(foretold.writable[usize::from(case.copies) - 1], more);
        prop_assert!(have * 1000 >= bound * 995, "{have} of {bound}");
    }
}

proptest! {
    #[test]
    fn equal_disks_end_equal_with_the_fewest_moves(
        failgroups in 2_u16..=5,
        each in 1_u16..=3,
        copies in 1_u8..=3,
        sizes in proptest::collection::vec(1_u32..200, 1..12),
        is_drop in any::<bool>(),
    ) {
        prop_assume!(u16::from(copies) < failgroups);
        let mut disks: Vec<(u16, u32)> =
            (0..failgroups * each).map(|i| (i / each, 3000)).collect();
        let mut model = Model::new(&disks);
        for &size in &sizes {
            model.write(copies, None, size);
        }
        let before = model.used();
        let left: Vec<usize>;
        if is_drop {
            // A whole failure group, so that the rest are equal again.
            for disk in &mut model.disks[..usize::from(each)] {
                disk.role = DiskRole::Dropping;
            }
            left = (usize::from(each)..disks.len()).collect();
        } else {
            for _ in 0..each {
                model.add(failgroups, 3000);
                disks.push((failgroups, 3000));
            }
            left = (0..disks.len()).collect();
        }
        let plan = model.plan();
        for step in &plan.moves {
            model.apply(step);
        }
        let used = model.used();
        let counts: Vec<u64> = left.iter().map(|&i| used[i]).collect();
        prop_assert!(gap(&counts) <= 1, "{:?}", used);
        // Known without the planner: what the new disks get at least, what the dropped ones held.
        let all: u64 = used.iter().sum();
        let least = if is_drop {
            // Copies apart may ask for more than what lay there.
            plan.minimum.max(before[..usize::from(each)].iter().sum())
        } else {
            u64::from(each) * (all / disks.len() as u64)
        };
        let moved = plan.moves.len() as u64;
        prop_assert!(moved <= least + 2 * u64::from(each) + least / 50, "{moved} of {least}");
        // Within each file as far as no move is added for it: in no case twice its share apart.
        for file in (0..model.files.len()).filter(|_| !is_drop) {
            let counts: Vec<u64> = left.iter().map(|&i| model.of_file(file, i as u16)).collect();
            let due = counts.iter().sum::<u64>() / counts.len() as u64;
            prop_assert!(gap(&counts) <= 10 + due, "{:?}", counts);
        }
    }

    #[test]
    fn files_of_any_redundancy_together(
        case in any_case(300),
        mix in proptest::collection::vec((1_u8..=3, any::<bool>(), 1_u32..40), 1..8),
    ) {
        let mut model = Model::new(&case.disks[..case.first]);
        for (copies, confined, extents) in mix {
            let group = model.disks[0].failgroup;
            let placement = (confined && copies == 1).then_some(group);
            model.write(copies, placement, extents);
        }
        for &(failgroup, aus) in &case.disks[case.first..] {
            model.add(failgroup, aus);
        }
        let plan = model.plan();
        prop_assert!(plan.is_complete(), "{:?}", plan);
        for step in &plan.moves {
            model.apply(step);
        }
        for row in &plan.disks {
            prop_assert!(row.after.abs_diff(row.target) <= 1, "{:?}", row);
        }
        let moved = plan.moves.len() as u64;
        prop_assert!(moved <= plan.minimum * 3 / 2 + 4, "{moved} {}", plan.minimum);
        prop_assert_eq!(model.plan().moves, []);
    }
}

#[test]
fn a_disk_that_does_not_fit_elsewhere_is_said_by_file() {
    let mut model = Model::new(&[(0, 100), (1, 100), (2, 50)]);
    model.write(2, None, 30);
    model.write(2, None, 70);
    model.disks[1].role = DiskRole::Dropping;
    let plan = model.plan();
    assert!(!plan.is_complete());
    let lacking: u64 = plan.unplaced.iter().map(|u| u.aus).sum();
    // 100 sets need 200 AUs, on 100 and 50 with copies apart 50 sets fit.
    assert_eq!(lacking, 50);
    assert!(plan.unplaced.iter().all(|u| u.lack != Lack::Copy));
    model.disks[2].role = DiskRole::Dropping;
    let none = model.plan();
    assert!(none.unplaced.iter().any(|u| u.lack == Lack::FailGroups), "{:?}", none.unplaced);
}

#[test]
fn what_has_no_copy_left_is_said() {
    let mut model = Model::new(&[(0, 100), (1, 100)]);
    model.write(1, None, 60);
    model.disks[0].role = DiskRole::Lost;
    let plan = model.plan();
    assert_eq!(plan.moves, []);
    assert_eq!(plan.unplaced, [Unplaced { file: 0, aus: 30, lack: Lack::Copy }]);
    assert_eq!(plan.forecast(&model.input()).missing, 30);
}

#[test]
fn the_forecast_says_room_redundancy_and_time() {
    let mut model = Model::new(&[(0, 100), (1, 100), (2, 100)]);
    model.write(2, None, 60);
    model.add(3, 100);
    let plan = model.plan();
    assert_eq!(plan.moves.len(), 30);
    let after = plan.forecast(&model.input());
    assert_eq!((after.total, after.free, after.failgroups), (400, 280, 4));
    assert_eq!(after.writable, [280, 140, 93]);
    assert_eq!(after.writable_and_survive[1], 90);
    assert!(after.can_restore && after.missing == 0);
    let times = plan.times(4 << 20, &[(0, 0), (1, 30 << 20)]);
    assert_eq!(times[0].time, None);
    assert_eq!(times[1].time, Some(std::time::Duration::from_secs(4)));
    model.disks[0].role = DiskRole::Dropping;
    model.disks[1].role = DiskRole::Dropping;
    let after = model.plan().forecast(&model.input());
    assert!(!after.can_restore);
    assert_eq!(after.writable, [80, 40, 0]);
}

#[test]
fn neighbours_leave_for_different_disks() {
    let mut model = Model::new(&[(0, 1000), (1, 1000)]);
    model.write(1, None, 1000);
    model.add(2, 1000);
    model.add(3, 1000);
    for step in &model.plan().moves {
        model.apply(step);
    }
    // A quarter of any stretch of 100 extents on each of the four disks, give or take.
    for stretch in model.files[0].legs.chunks(100) {
        for disk in 0..4 {
            let here = stretch.iter().filter(|l| l.disk == disk).count();
            assert!((20..=30).contains(&here), "{here} on {disk}");
        }
    }
}

/// A million legs; run with `--nocapture` for the times.
#[test]
#[expect(clippy::disallowed_methods, reason = "this test measures the machine it runs on")]
fn a_million_legs_take_seconds() {
    // Percent of the bound: with three copies it does not know of all that is barred.
    for (name, failgroups, disks, copies, percent) in
        [("12 disks, 4 groups", 4, 12, 2_u8, 102), ("60 disks, 5 groups", 5, 60, 3, 110)]
    {
        let sizes: Vec<(u16, u32)> =
            (0..disks).map(|i| (i % failgroups, 2_400_000 / u32::from(disks))).collect();
        let mut model = Model::new(&sizes);
        for _ in 0..10 {
            model.write(copies, None, 100_000 / u32::from(copies));
        }
        model.add(0, 2_400_000 / u32::from(disks));
        model.disks[1].role = DiskRole::Dropping;
        model.disks[2].role = DiskRole::Lost;
        let started = std::time::Instant::now();
        let plan = model.plan();
        let took = started.elapsed();
        println!("{name}: {} moves, least {}, in {took:?}", plan.moves.len(), plan.minimum);
        assert!(plan.is_complete());
        assert!(plan.moves.len() as u64 * 100 <= plan.minimum * percent);
        assert!(took.as_secs() < 20, "{took:?}");
    }
}
