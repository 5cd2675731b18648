//! Disks that are added and dropped while the group is used.

use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    AlterDisks, Copies, DiskStatus, DropDisk, Error, File, FileSpec, Group, LabelStatus, NewDisk,
    Pass, Redundancy, read_labels,
};
use cellar_io::sim::SimDiskOptions;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

/// The bytes that stand at `offset` of file `seed`.
pub fn pattern(seed: u64, offset: u64, length: usize) -> Vec<u8> {
    (0..length as u64 / 8)
        .flat_map(|i| {
            (seed << 48 ^ (offset / 8 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes()
        })
        .collect()
}

pub async fn filled(group: &Group, name: &str, seed: u64, bytes: u64) -> File {
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
    file.set_size(bytes).await.expect("room");
    for at in (0..bytes).step_by(MB as usize) {
        let data = pattern(seed, at, MB.min(bytes - at) as usize);
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.expect("written");
    }
    file.flush(Io::FOREGROUND).await.expect("flushed");
    group.publish(&file, name, false).await.expect("named");
    file
}

pub async fn check_content(file: &File, seed: u64, bytes: u64) {
    for at in (0..bytes).step_by(MB as usize) {
        let length = MB.min(bytes - at) as usize;
        let read = file.read_at(Io::FOREGROUND, at, length).await.expect("read");
        assert!(read[..] == pattern(seed, at, length)[..], "what was written at {at}");
    }
}

/// AUs of files on each disk.
pub fn held(group: &Group) -> Vec<(String, u64)> {
    let info = group.info();
    let disks = group.disks();
    disks
        .iter()
        .map(|d| (d.name.clone(), ((d.total_mb - d.free_mb) << 20) / info.au_size))
        .collect()
}

pub fn spread(group: &Group) -> u64 {
    let held = held(group);
    let counts = || held.iter().map(|(_, n)| *n);
    counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
}

pub fn new_disk(rig: &mut Rig, shape: &Shape) -> NewDisk {
    let i = rig.disks.len();
    let options = SimDiskOptions {
        size: shape.disk_bytes,
        logical_sector: shape.sector,
        ..SimDiskOptions::default()
    };
    let disk = rig.sim.disk(&format!("disk{i}"), options);
    rig.disks.push(Arc::clone(&disk));
    NewDisk {
        device: disk,
        path: format!("/sim/disk{i}"),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    }
}

pub async fn sound(group: &Group) {
    group.check().expect("no AU has two owners");
    let numbers: Vec<u32> = group.files().iter().map(|f| f.number).collect();
    let found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validated");
    assert!(!found.is_bad(), "{found:?}");
}

#[test]
fn added_disks_take_their_share_and_the_data_stays() {
    for redundancy in [Redundancy::External, Redundancy::Normal] {
        let shape = Shape { disks: 2, redundancy, disk_bytes: 80 * MB, ..Shape::default() };
        let mut rig = Rig::new(7, &shape);
        let add = vec![new_disk(&mut rig, &shape), new_disk(&mut rig, &shape)];
        let rig = rig;
        rig.run(async {
            let found = rig.found_of(&[0, 1]);
            let mut spec = rig.spec(&shape);
            spec.disks.truncate(2);
            cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
            let group = rig.mount_with(found, Default::default()).await.expect("mounted");
            let file = filled(&group, "f", 1, 40 * MB).await;
            let small = filled(&group, "g", 2, 5 * MB / 2).await;
            let change = AlterDisks { add, power: Some(8), ..AlterDisks::default() };
            let work = group.explain_work(&change).expect("explained");
            assert!(work.plan.is_complete());
            group.alter_disks(&change).await.expect("added");
            assert!(group.operation().is_some(), "a rebalance began");
            group.wait_rebalanced().await.expect("rebalanced");
            assert!(group.operation().is_none(), "and ended");
            assert!(spread(&group) <= 1, "{:?}", held(&group));
            assert_eq!(group.disks().len(), 4);
            check_content(&file, 1, 40 * MB).await;
            check_content(&small, 2, 5 * MB / 2).await;
            sound(&group).await;
            drop((file, small));
            group.dismount().await.expect("dismounted");
            let group = rig.mount().await.expect("mounted again");
            check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

#[test]
fn a_dropped_disk_is_emptied_says_former_and_is_not_missed() {
    let shape = Shape { disks: 4, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(8, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 50 * MB).await;
        let drop_disk = DropDisk { name: "data_0001".into(), force: false };
        let change = AlterDisks { drop: vec![drop_disk], power: Some(4), ..Default::default() };
        group.alter_disks(&change).await.expect("dropping");
        let dropping = group.disks().into_iter().find(|d| d.number == 1).expect("still here");
        assert_eq!(dropping.status, DiskStatus::Dropping);
        group.wait_rebalanced().await.expect("rebalanced");
        assert!(group.disks().iter().all(|d| d.number != 1), "it is gone");
        assert!(!group.info().members.contains(&1), "and holds no metadata");
        assert!(spread(&group) <= 1, "{:?}", held(&group));
        let device = Arc::clone(&rig.disks[1]) as Arc<dyn Device>;
        let label = read_labels(&device).await.expect("readable");
        assert_eq!(label.newest().map(|l| l.status), Some(LabelStatus::Former));
        check_content(&file, 1, 50 * MB).await;
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
        let group = rig.mount_with(rig.found_of(&[0, 2, 3]), Default::default()).await;
        let group = group.expect("mounted without it");
        check_content(&group.open("f").expect("there"), 1, 50 * MB).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn what_a_lost_disk_held_is_made_again_after_drop_force() {
    let shape = Shape { disks: 4, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(9, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 40 * MB).await;
        rig.disks[2].vanish();
        rig.env().sleep(Duration::from_secs(1)).await;
        file.write_at(Io::FOREGROUND, 0, pattern(1, 0, 4096).into(), Durability::Durable)
            .await
            .expect("it goes on without the disk");
        file.read_at(Io::FOREGROUND, 0, 4 << 20).await.expect("read");
        group.probe_disks().await;
        rig.env().sleep(Duration::from_secs(1)).await;
        let plain = DropDisk { name: "DATA_0002".into(), force: false };
        let change = AlterDisks { drop: vec![plain.clone()], ..Default::default() };
        let refused = group.alter_disks(&change).await.expect_err("it cannot be read");
        assert!(matches!(refused, Error::DiskUnusable { .. }), "{refused}");
        let forced = DropDisk { force: true, ..plain };
        let change = AlterDisks { drop: vec![forced], power: Some(8), ..Default::default() };
        group.alter_disks(&change).await.expect("forced");
        group.wait_rebalanced().await.expect("rebuilt");
        assert_eq!(group.disks().len(), 3);
        assert!(group.files().iter().all(|f| !f.redundancy_lowered), "all copies are there again");
        check_content(&file, 1, 40 * MB).await;
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_rebalance_tells_how_far_each_of_its_passes_is() {
    let shape = Shape { disks: 4, disk_bytes: 80 * MB, ..Shape::default() };
    let mut rig = Rig::new(19, &shape);
    // Two for one: what the lost one held does not fill them.
    let add = vec![new_disk(&mut rig, &shape), new_disk(&mut rig, &shape)];
    let rig = rig;
    rig.run(async {
        let found = rig.found_of(&[0, 1, 2, 3]);
        let mut spec = rig.spec(&shape);
        spec.disks.truncate(4);
        cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
        let group = rig.mount_with(found, Default::default()).await.expect("mounted");
        let file = filled(&group, "f", 1, 40 * MB).await;
        // A disk that is dropped with FORCE is made again elsewhere, and the new one fills.
        let gone = DropDisk { name: "DATA_0002".into(), force: true };
        rig.disks[2].vanish();
        group.probe_disks().await;
        rig.env().sleep(Duration::from_secs(1)).await;
        let change = AlterDisks { add, drop: vec![gone], power: Some(2), ..Default::default() };
        group.alter_disks(&change).await.expect("forced");
        let mut seen: Vec<(Pass, u64, u64)> = Vec::new();
        let mut late = 0;
        while let Some(now) = group.operation() {
            assert_eq!(now.total, now.passes.iter().map(|pass| pass.total).sum::<u64>());
            for pass in &now.passes {
                assert!(pass.done <= pass.total && pass.bytes_left <= pass.total * MB, "{pass:?}");
                assert!(!pass.is_done() || pass.bytes_left == 0, "{pass:?}");
                seen.push((pass.pass, pass.done, pass.total));
            }
            let [rebuild, rebalance] = &now.passes[..] else {
                rig.env().sleep(Duration::from_millis(1)).await;
                continue;
            };
            assert_eq!((rebuild.pass, rebalance.pass), (Pass::Rebuild, Pass::Rebalance));
            // The second begins with the last moves of the first, of which power 2 has two.
            let open = rebuild.total - rebuild.done;
            assert!(open <= 2 || !rebalance.is_begun(), "{now:?}");
            late += u64::from(rebuild.is_done() && !rebalance.is_done());
            rig.env().sleep(Duration::from_millis(1)).await;
        }
        assert!(late > 0, "the second was seen alone");
        for pass in [Pass::Rebuild, Pass::Rebalance] {
            let of: Vec<_> = seen.iter().filter(|s| s.0 == pass).collect();
            assert!(of.windows(2).all(|w| w[0].1 <= w[1].1), "never back: {of:?}");
            assert!(of.iter().any(|(_, done, total)| 0 < *done && done < total), "{of:?}");
        }
        check_content(&file, 1, 40 * MB).await;
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_drop_without_room_or_failure_groups_is_refused_before_anything_changes() {
    let shape = Shape { disks: 2, ..Shape::default() };
    let rig = Rig::new(10, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let _file = filled(&group, "f", 1, 4 * MB).await;
        let one = DropDisk { name: "DATA_0001".into(), force: false };
        let change = AlterDisks { drop: vec![one], ..Default::default() };
        let refused = group.alter_disks(&change).await.expect_err("two copies need two");
        assert!(refused.to_string().contains("failure groups"), "{refused}");
        assert!(group.disks().iter().all(|d| d.status == DiskStatus::Online));
        assert!(group.operation().is_none());
        let nobody = DropDisk { name: "DATA_0009".into(), force: false };
        let change = AlterDisks { drop: vec![nobody], ..Default::default() };
        let refused = group.alter_disks(&change).await.expect_err("no such disk");
        assert_eq!(refused.number(), 15054);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn an_extent_moved_to_where_another_file_was_keeps_its_own_checksums_over_a_crash() {
    let shape = Shape { disks: 3, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(11, &shape);
    let crashed = rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        // Every AU of every disk has had checksums of something else.
        let old = filled(&group, "old", 3, 90 * MB).await;
        drop(old);
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 10 * MB).await;
        group.remove("old").await.expect("removed");
        let drop_disk = DropDisk { name: "DATA_0001".into(), force: false };
        let change = AlterDisks { drop: vec![drop_disk], power: Some(8), ..Default::default() };
        group.alter_disks(&change).await.expect("dropping");
        group.wait_rebalanced().await.expect("rebalanced");
        check_content(&file, 1, 10 * MB).await;
        rig.sim.crash_after(1);
        let _ = file.read_at(Io::FOREGROUND, 0, 4096).await;
        rig.env().sleep(Duration::from_secs(1)).await;
    });
    assert!(crashed.is_none(), "the power was cut");
    rig.sim.restart();
    rig.run(async {
        let group = rig.mount().await.expect("mounted");
        let numbers: Vec<u32> = group.files().iter().map(|f| f.number).collect();
        let found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validated");
        assert!(found.checksums_right > 0, "{found:?}");
        assert_eq!((found.checksums_wrong, found.pieces_differing), (0, 0), "{found:?}");
        check_content(&group.open("f").expect("there"), 1, 10 * MB).await;
        group.abandon();
    });
}

#[test]
fn a_sector_bad_on_each_copy_in_another_place_keeps_nothing_from_being_read_or_moved() {
    let shape = Shape { disks: 2, disk_bytes: 80 * MB, ..Shape::default() };
    let mut rig = Rig::new(12, &shape);
    let add = vec![new_disk(&mut rig, &shape)];
    let rig = rig;
    rig.run(async {
        let mut spec = rig.spec(&shape);
        spec.disks.truncate(2);
        cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
        let group = rig.mount_with(rig.found_of(&[0, 1]), Default::default()).await;
        let group = group.expect("mounted");
        let file = filled(&group, "f", 1, 8 * MB).await;
        // The first AUs for data, on both disks: behind the head, checksums and checkpoints.
        for (disk, at) in [(0, 11 * MB + (64 << 10)), (1, 11 * MB + (256 << 10))] {
            rig.disks[disk].fail_reads_until_written(at..at + 4096);
        }
        check_content(&file, 1, 8 * MB).await;
        for (disk, at) in [(0, 12 * MB), (1, 13 * MB - 4096)] {
            rig.disks[disk].fail_reads_until_written(at..at + 4096);
        }
        let change = AlterDisks { add, power: Some(64), ..AlterDisks::default() };
        group.alter_disks(&change).await.expect("added");
        group.wait_rebalanced().await.expect("rebalanced");
        check_content(&file, 1, 8 * MB).await;
        group.check().expect("no AU has two owners");
        assert!(spread(&group) <= 1, "{:?}", held(&group));
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

/// A group of five disks with a file, two of which are asked to leave.
async fn dropping_two(rig: &Rig, shape: &Shape) -> Group {
    rig.create(shape).await.expect("created");
    let group = rig.mount().await.expect("mounted");
    drop(filled(&group, "f", 1, 3 * MB).await);
    let drop = ["DATA_0003", "DATA_0004"];
    let drop = drop.map(|name| DropDisk { name: name.into(), force: false }).to_vec();
    let change = AlterDisks { drop, power: Some(8), ..Default::default() };
    group.alter_disks(&change).await.expect("dropping");
    group
}

#[test]
fn a_group_can_be_let_go_of_at_any_moment_of_a_drop() {
    const MOMENTS: u32 = 120;
    let shape = Shape { disks: 5, disk_bytes: 60 * MB, ..Shape::default() };
    let rig = Rig::new(13, &shape);
    let span = rig.run(async {
        let group = dropping_two(&rig, &shape).await;
        let started = rig.env().now();
        group.wait_rebalanced().await.expect("both are gone");
        let span = rig.env().now().since(started);
        group.dismount().await.expect("dismounted");
        span
    });
    let span = span.expect("it ran to its end");
    for moment in 0..MOMENTS {
        let rig = Rig::new(13, &shape);
        rig.run(async {
            let group = dropping_two(&rig, &shape).await;
            rig.env().sleep(span * (moment / 2) / (MOMENTS / 2)).await;
            if moment % 2 == 0 {
                group.drop_group(true).await.expect("dropped, whatever was under way");
                return;
            }
            group.dismount().await.expect("dismounted, whatever was under way");
            let group = rig.mount().await.expect("mounted again");
            group.wait_rebalanced().await.expect("it went on, or was over");
            assert_eq!(group.disks().len(), 3, "two disks are gone");
            check_content(&group.open("f").expect("there"), 1, 3 * MB).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}
