//! Decisive orders of events on real groups: which mounts are believed after disks failed in the
//! middle of a record, came back shorter, or were written by a later version.

use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::on_disk::record;
use cellar_diskgroup::on_disk::superblock::{LogPosition, Superblock};
use cellar_diskgroup::{Error, Group, MountOptions, Redundancy, label_offsets};
use cellar_io::{Device, EnvExt};

use cellar_sim::rig::{Rig, Shape};

const LOG: std::ops::Range<u64> = (4 << 20)..(8 << 20);

fn rig_of(disks: usize, redundancy: Redundancy) -> (Rig, Shape) {
    let shape = Shape { disks, redundancy, ..Shape::default() };
    (Rig::new(7, &shape), shape)
}

async fn mount_of(rig: &Rig, which: &[usize], force: bool) -> Result<Group, Error> {
    let options = MountOptions { force, ..MountOptions::default() };
    let group = rig.mount_with(rig.found_of(which), options).await;
    // What a mount that failed left on its way lands before anybody tries again.
    rig.env().sleep(Duration::from_secs(1)).await;
    group
}

/// A mount of `which` in which the log of the disks in `failing` cannot be written, and is not.
async fn mount_failing(rig: &Rig, which: &[usize], failing: &[usize]) -> Result<Group, Error> {
    let before: Vec<_> = failing.iter().map(|d| rig.disks[*d].snapshot()).collect();
    failing.iter().for_each(|d| rig.disks[*d].fail_writes(LOG));
    let group = mount_of(rig, which, false).await;
    for (d, before) in failing.iter().zip(&before) {
        let disk = &rig.disks[*d];
        disk.heal();
        // All is as before but the labels: this mount used the disk, and that is noted there.
        let labels = label_offsets(disk.geometry().size).map(|at| (at, disk.peek(at, 4096)));
        disk.replace_with_snapshot(before);
        labels.iter().for_each(|(at, label)| disk.poke(*at, label));
    }
    group
}

fn end_of_log(rig: &Rig, disk: usize) -> LogPosition {
    let disk = &rig.disks[disk];
    let ring = disk.peek(LOG.start, LOG.end - LOG.start);
    let slots = [128u64, 192, 256, 320].map(|at| disk.peek(at << 10, 4096));
    let found = slots.iter().filter_map(|s| Superblock::decode(s).ok());
    let newest = found.max_by_key(|s| s.generation).expect("a member has a superblock");
    let mut at = newest.position;
    while let Ok((header, _)) = record::decode(&ring, newest.group, at) {
        at = header.next();
    }
    at
}

#[test]
fn a_member_that_fails_the_first_record_of_a_mount_counts_against_the_old_majority() {
    let (rig, shape) = rig_of(3, Redundancy::High);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        group.dismount().await.unwrap();
        // B is away and C fails: A alone is one of three.
        assert!(mount_failing(&rig, &[0, 2], &[2]).await.is_err(), "A alone goes on");
        let group = mount_of(&rig, &[1, 2], false).await.unwrap();
        group.mkdir("kept", false).await.unwrap();
        group.abandon();
        let group = rig.mount().await.unwrap();
        assert_eq!(group.list("kept", false).len(), 1, "what B and C acknowledged is there");
    })
    .unwrap();
}

#[test]
fn two_of_five_never_go_on() {
    let (rig, shape) = rig_of(5, Redundancy::High);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        rig.mount().await.unwrap().dismount().await.unwrap();
        // A alone has a record of the set ABC; that A and B are two of it is no majority of five.
        assert!(mount_failing(&rig, &[0, 1, 2], &[1, 2]).await.is_err());
        assert!(mount_of(&rig, &[0, 1, 4], false).await.is_err(), "A and B go on, of ABC");
        assert!(mount_failing(&rig, &[0, 1, 2], &[2]).await.is_err(), "A and B go on");
        let group = mount_of(&rig, &[2, 3, 4], false).await.unwrap();
        group.mkdir("kept", false).await.unwrap();
        group.abandon();
        assert!(mount_of(&rig, &[0, 1], false).await.is_err());
        let group = rig.mount().await.unwrap();
        assert_eq!(group.list("kept", false).len(), 1, "what C, D and E acknowledged is there");
    })
    .unwrap();
}

#[test]
fn a_lone_member_that_fails_while_the_set_grows_leaves_nobody_to_go_on() {
    let shape = Shape { disks: 3, failgroups: vec!["A", "B", "A"], ..Shape::default() };
    let rig = Rig::new(8, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        group.mkdir("before", false).await.unwrap();
        let end = end_of_log(&rig, 1).lsn;
        // First the record without disk 0, then the one that makes disk 2 a member.
        let second = LOG.start + (end + 1) * 4096;
        rig.disks[1].fail_writes(second..second + 4096);
        rig.disks[0].vanish();
        group.probe_disks().await;
        rig.env().sleep(Duration::from_secs(1)).await;
        assert!(group.mkdir("x", false).await.is_err(), "disk 2 goes on alone");
        rig.env().sleep(Duration::from_secs(1)).await;
        rig.disks[1].heal();
        assert!(mount_of(&rig, &[2], false).await.is_err(), "disk 2 proves nothing");
        // Disk 1 may have stored what it said it could not.
        let group = mount_of(&rig, &[1, 2], false).await.unwrap();
        assert_eq!(group.list("before", false).len(), 1);
    })
    .unwrap();
}

#[test]
fn of_two_histories_the_proven_one_is_taken_and_force_does_not_choose() {
    let (rig, shape) = rig_of(3, Redundancy::Normal);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        group.mkdir("kept", false).await.unwrap();
        group.dismount().await.unwrap();
        // A has a record of the set AB, B one of the set BC; neither came through.
        assert!(mount_failing(&rig, &[0, 1], &[1]).await.is_err());
        assert!(mount_failing(&rig, &[1, 2], &[2]).await.is_err());
        for force in [false, true] {
            let error = mount_of(&rig, &[0, 1], force).await.unwrap_err();
            assert!(error.to_string().contains("different histories"), "force {force}: {error}");
        }
        // With C it can be proven that nobody has gone on without B.
        let group = mount_of(&rig, &[0, 1, 2], true).await.unwrap();
        group.mkdir("after", false).await.unwrap();
        group.abandon();
        let group = mount_of(&rig, &[1, 2], false).await.unwrap();
        assert_eq!(group.list("*", false).len(), 2);
    })
    .unwrap();
}

#[test]
fn force_goes_on_without_a_majority_and_the_others_lose() {
    let (rig, shape) = rig_of(3, Redundancy::High);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        rig.mount().await.unwrap().dismount().await.unwrap();
        assert!(matches!(mount_of(&rig, &[2], false).await, Err(Error::NotProven { .. })));
        let group = mount_of(&rig, &[2], true).await.unwrap();
        group.mkdir("forced", false).await.unwrap();
        group.dismount().await.unwrap();
        for which in [&[2][..], &[0, 1, 2], &[1, 2]] {
            let group = mount_of(&rig, which, false).await.unwrap();
            assert_eq!(group.list("forced", false).len(), 1, "{which:?}");
            group.dismount().await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn a_record_of_a_later_version_is_neither_overlooked_nor_overwritten() {
    let (rig, shape) = rig_of(2, Redundancy::Normal);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        rig.mount().await.unwrap().dismount().await.unwrap();
        let label = rig.disks[0].peek(0, 4096);
        let group = cellar_diskgroup::on_disk::label::Label::decode(&label).unwrap().group;
        let end = end_of_log(&rig, 0);
        let (bytes, _) = record::encode(group, end, end.epoch, 99, &[200, 1, 2, 3]);
        let at = LOG.start + end.lsn % 1024 * 4096;
        for disks in [&[0usize][..], &[0, 1]] {
            disks.iter().for_each(|d| rig.disks[*d].poke(at, &bytes));
            for force in [false, true] {
                let error = mount_of(&rig, &[0, 1], force).await.unwrap_err();
                assert!(error.to_string().contains("operation"), "{error}");
                assert_eq!(rig.disks[0].peek(at, 4096), bytes, "the record is still there");
            }
        }
        // The other disk may lack the record; that does not make it the newest.
        for force in [false, true] {
            assert!(mount_of(&rig, &[0], force).await.is_err());
        }
    })
    .unwrap();
}

#[test]
fn a_member_that_became_shorter_is_missing() {
    let (rig, shape) = rig_of(3, Redundancy::Normal);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        rig.mount().await.unwrap().dismount().await.unwrap();
        rig.disks[1].resize(shape.disk_bytes - (4 << 20));
        let group = rig.mount().await.unwrap();
        assert_eq!(group.info().offline_disks, 1);
        group.mkdir("x", false).await.unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_mount_that_fails_lets_go_of_the_disks() {
    let (rig, shape) = rig_of(3, Redundancy::High);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let before = Arc::strong_count(&rig.disks[0]);
        assert!(mount_failing(&rig, &[0, 1, 2], &[1, 2]).await.is_err());
        assert_eq!(Arc::strong_count(&rig.disks[0]), before);
    })
    .unwrap();
}

#[test]
fn a_create_that_was_cut_off_late_leaves_disks_that_need_force() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let mut whole = 0;
    for events in 1..200 {
        let rig = Rig::new(events, &shape);
        rig.sim.crash_after(events);
        if rig.run(rig.create(&shape)).is_some() {
            break;
        }
        rig.sim.restart();
        rig.sim.crash_never();
        rig.run(async {
            let Ok(group) = rig.mount().await else { return };
            whole += 1;
            group.mkdir("kept", false).await.unwrap();
            group.abandon();
            rig.env().sleep(Duration::from_secs(1)).await;
            let refused = rig.create(&shape).await;
            assert!(matches!(refused, Err(Error::DiskUnusable { .. })), "{events}: {refused:?}");
            let group = rig.mount().await.unwrap();
            assert_eq!(group.list("kept", false).len(), 1);
        })
        .unwrap();
    }
    assert!(whole > 3, "some creations were cut off when all metadata was durable: {whole}");
}

#[test]
fn a_directory_of_thousands_of_long_names_goes_in_several_records() {
    let shape = Shape { disks: 2, disk_bytes: 80 << 20, ..Shape::default() };
    let rig = Rig::new(9, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let one = group
            .create_file(&cellar_diskgroup::FileSpec::new(
                cellar_diskgroup::state::FileType::Datafile,
            ))
            .await
            .unwrap();
        group.publish(&one, "one", false).await.unwrap();
        group.mkdir("d/below", true).await.unwrap();
        let name = |i: usize| format!("{i:0>200}");
        for i in 0..3000 {
            let dir = if i % 2 == 0 { "d" } else { "d/below" };
            group.add_alias(&format!("{dir}/{}", name(i)), "one").await.unwrap();
        }
        group.rmdir("d", true).await.unwrap();
        assert!(group.list("d", true).is_empty());
        group.abandon();
        rig.env().sleep(Duration::from_secs(1)).await;
        let group = rig.mount().await.unwrap();
        assert!(group.list("d", true).is_empty());
        assert_eq!(group.list("one", false).len(), 1, "its other name kept the file");
        group.check().unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_change_that_no_record_holds_is_refused_and_changes_nothing() {
    let (rig, shape) = rig_of(2, Redundancy::Normal);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let deep = vec!["x".repeat(200); 3000].join("/");
        assert!(matches!(group.mkdir(&deep, true).await, Err(Error::BadValue { .. })));
        assert!(group.list("*", true).is_empty(), "nothing of it was made");
        group.mkdir("ok", false).await.unwrap();
        group.dismount().await.unwrap();
        let group = rig.mount().await.unwrap();
        assert_eq!(group.list("*", true).len(), 1);
    })
    .unwrap();
}

#[test]
fn a_group_whose_metadata_has_no_room_lets_files_go_and_lives_on() {
    let shape = Shape { disks: 2, ..Shape::default() };
    let rig = Rig::new(10, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let mut group = rig.mount().await.unwrap();
        let spec = cellar_diskgroup::FileSpec::new(cellar_diskgroup::state::FileType::Datafile);
        // Files take every AU; then names outgrow the one AU of a checkpoint area.
        let file = group.create_file(&spec).await.unwrap();
        let mut size = 0;
        while file.allocate(size + (1 << 20)).await.is_ok() {
            size += 1 << 20;
        }
        group.publish(&file, "big", false).await.unwrap();
        drop(file);
        let name = |i: usize| format!("{i:0>230}");
        let mut made = 0;
        let error = loop {
            match group.add_alias(&name(made), "big").await {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 50_000, "there is an end of it");
        };
        assert!(matches!(error, Error::NoSpace { .. }), "{made}: {error}");
        // So it is after the next mount, and names can go.
        group.abandon();
        rig.env().sleep(Duration::from_secs(1)).await;
        group = rig.mount().await.unwrap();
        for i in 0..made.min(1500) {
            group.remove(&name(i)).await.unwrap_or_else(|e| panic!("{i} of {made}: {e}"));
        }
        group.mkdir("room-again", false).await.unwrap();
        group.dismount().await.unwrap();
        let group = rig.mount().await.unwrap();
        group.check().unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_full_disk_that_could_become_a_member_is_passed_over() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(11, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let spec = cellar_diskgroup::FileSpec::new(cellar_diskgroup::state::FileType::Datafile);
        let file = group.create_file(&spec).await.unwrap();
        group.publish(&file, "big", false).await.unwrap();
        // More names than the one AU of an area holds: the areas of the members grow.
        for i in 0..5500 {
            group.add_alias(&format!("{i:0>230}"), "big").await.unwrap();
        }
        let mut size = 0;
        while file.allocate(size + (1 << 20)).await.is_ok() {
            size += 1 << 20;
        }
        // The first disks are the members; the last is full.
        rig.disks[0].vanish();
        group.probe_disks().await;
        rig.env().sleep(Duration::from_secs(1)).await;
        group.remove(&format!("{:0>230}", 1)).await.unwrap();
        group.abandon();
        rig.env().sleep(Duration::from_secs(1)).await;
        let group = rig.mount().await.unwrap();
        assert_eq!(group.info().offline_disks, 1);
        group.remove(&format!("{:0>230}", 2)).await.unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}
