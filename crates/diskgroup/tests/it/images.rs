//! An older image of one disk, put back while the group is closed: it is told from the disk itself,
//! and nothing is read from it.

use cellar_diskgroup::{DiskStatus, Group, MountOptions, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use crate::moves::{check_content, filled, pattern, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

fn shape() -> Shape {
    Shape { disks: 5, disk_bytes: 60 * MB, ..Shape::default() }
}

async fn rewritten(group: &Group, seed: u64) {
    let file = group.open("f").expect("there");
    for at in (0..20 * MB).step_by(MB as usize) {
        let data = pattern(seed, at, MB as usize);
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.expect("written");
    }
    file.flush(Io::FOREGROUND).await.expect("flushed");
}

/// Whether a disk of the metadata set is put back, or another.
fn put_back(metadata: bool, while_open: bool) {
    let rig = Rig::new(51, &shape());
    rig.run(async {
        rig.create(&shape()).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 20 * MB).await);
        let chosen = group.disks().into_iter().find(|d| d.metadata == metadata);
        let chosen = chosen.expect("three of five disks hold metadata");
        let device = &rig.disks[usize::from(chosen.number)];
        if !while_open {
            group.dismount().await.expect("dismounted");
        }
        let image = device.snapshot();
        let group = if while_open { group } else { rig.mount().await.expect("mounted") };
        rewritten(&group, 2).await;
        group.dismount().await.expect("dismounted");
        device.replace_with_snapshot(&image);
        let group = rig.mount().await.expect("mounted without it");
        let found = group.disks().into_iter().find(|d| d.number == chosen.number);
        let found = found.expect("known");
        assert_eq!((found.status, found.in_sync), (DiskStatus::Offline, false));
        assert!(found.failure.as_ref().is_some_and(|why| why.contains("older image")), "{found:?}");
        check_content(&group.open("f").expect("there"), 2, 20 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 2, 20 * MB).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn an_older_image_of_a_disk_is_not_read() {
    for metadata in [false, true] {
        for while_open in [false, true] {
            put_back(metadata, while_open);
        }
    }
}

#[test]
fn an_older_image_proves_nothing() {
    let shape = Shape { disks: 2, ..Shape::default() };
    let rig = Rig::new(52, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 4 * MB).await);
        group.dismount().await.expect("dismounted");
        let image = rig.disks[1].snapshot();
        // It goes on alone, with FORCE, which the other must not contradict later.
        let force = MountOptions { force: true, ..MountOptions::default() };
        let group = rig.mount_with(rig.found_of(&[0]), force).await.expect("forced");
        rig.env().sleep(std::time::Duration::from_millis(1)).await;
        group.dismount().await.expect("dismounted");
        rig.disks[1].replace_with_snapshot(&image);
        let group = rig.mount().await.expect("the one that went on is believed");
        assert!(group.disks().iter().any(|d| d.status == DiskStatus::Offline));
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn an_image_made_before_the_first_mount_is_told() {
    let rig = Rig::new(55, &shape());
    rig.run(async {
        rig.create(&shape()).await.expect("created");
        let image = rig.disks[4].snapshot();
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 20 * MB).await);
        group.dismount().await.expect("dismounted");
        rig.disks[4].replace_with_snapshot(&image);
        let group = rig.mount().await.expect("mounted without it");
        assert!(!group.disks()[4].in_sync);
        check_content(&group.open("f").expect("there"), 1, 20 * MB).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_disk_that_does_not_take_its_mark_is_out_by_the_first_record_or_nothing_is_written() {
    for redundancy in [Redundancy::Normal, Redundancy::External] {
        let shape = Shape { redundancy, ..shape() };
        let rig = Rig::new(56, &shape);
        rig.run(async {
            rig.create(&shape).await.expect("created");
            let group = rig.mount().await.expect("mounted");
            drop(filled(&group, "f", 1, 20 * MB).await);
            let chosen = group.disks().into_iter().find(|d| !d.metadata).expect("five disks");
            group.dismount().await.expect("dismounted");
            let device = &rig.disks[usize::from(chosen.number)];
            // Its label at the head cannot be written for a while.
            device.fail_writes(0..4096);
            let mounted = rig.mount().await;
            if redundancy == Redundancy::External {
                let refused = mounted.expect_err("it needs every disk");
                assert!(refused.to_string().contains("last copy"), "{refused}");
                rig.env().sleep(std::time::Duration::from_secs(1)).await;
                device.heal();
                let group = rig.mount().await.expect("nothing was written without it");
                assert!(group.disks().iter().all(|d| d.in_sync));
                check_content(&group.open("f").expect("there"), 1, 20 * MB).await;
                group.dismount().await.expect("dismounted");
                return;
            }
            let group = mounted.expect("mounted without it");
            let out = group.disks().into_iter().find(|d| d.number == chosen.number);
            assert_eq!(out.expect("known").status, DiskStatus::Offline);
            check_content(&group.open("f").expect("there"), 1, 20 * MB).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

#[test]
fn a_foreign_label_at_the_end_of_a_disk_that_grew_is_nobodys() {
    let shape = Shape { disks: 3, disk_bytes: 40 * MB, ..Shape::default() };
    let rig = Rig::new(57, &shape);
    rig.run(async {
        // A larger disk of a group that is gone left its labels where the new end will be.
        let old = Shape { disks: 3, disk_bytes: 80 * MB, ..shape.clone() };
        for disk in &rig.disks {
            disk.resize(80 * MB);
        }
        rig.create(&old).await.expect("created");
        for _ in 0..3 {
            rig.mount().await.expect("mounted").dismount().await.expect("dismounted");
        }
        let ends: Vec<Vec<u8>> = rig.disks.iter().map(|disk| disk.peek(79 * MB, MB)).collect();
        for disk in &rig.disks {
            disk.resize(40 * MB);
            disk.poke(0, &vec![0; 40 << 20]);
        }
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 10 * MB).await;
        for (disk, end) in rig.disks.iter().zip(&ends) {
            disk.resize(80 * MB);
            disk.poke(79 * MB, end);
        }
        drop(file);
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("it is still the group that its heads say");
        assert!(group.disks().iter().all(|d| d.in_sync));
        check_content(&group.open("f").expect("there"), 1, 10 * MB).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn an_older_image_of_the_only_copy_is_refused() {
    let shape = Shape { disks: 3, redundancy: Redundancy::External, ..Shape::default() };
    let rig = Rig::new(53, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 20 * MB).await);
        group.dismount().await.expect("dismounted");
        let image = rig.disks[2].snapshot();
        let group = rig.mount().await.expect("mounted");
        rewritten(&group, 2).await;
        group.dismount().await.expect("dismounted");
        let now = rig.disks[2].snapshot();
        rig.disks[2].replace_with_snapshot(&image);
        let refused = rig.mount().await.expect_err("it lacks what was written");
        assert_eq!(refused.number(), 15063);
        assert!(refused.to_string().contains("older image"), "{refused}");
        let stale = rig.disks.iter().map(|disk| disk.snapshot()).collect::<Vec<_>>();
        let force = MountOptions { force: true, ..MountOptions::default() };
        let group = rig.mount_with(rig.found(), force).await.expect("taken for what it is");
        assert!(group.disks().iter().all(|d| d.in_sync), "{:?}", group.disks());
        group.dismount().await.expect("dismounted");
        for (disk, image) in rig.disks.iter().zip(&stale) {
            disk.replace_with_snapshot(image);
        }
        rig.disks[2].replace_with_snapshot(&now);
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 2, 20 * MB).await;
        group.dismount().await.expect("dismounted");
        // All of them together are a backup.
        let images: Vec<_> = rig.disks.iter().map(|disk| disk.snapshot()).collect();
        let group = rig.mount().await.expect("mounted");
        rewritten(&group, 3).await;
        group.dismount().await.expect("dismounted");
        for (disk, image) in rig.disks.iter().zip(&images) {
            disk.replace_with_snapshot(image);
        }
        let group = rig.mount().await.expect("mounted as it was");
        check_content(&group.open("f").expect("there"), 2, 20 * MB).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn no_power_cut_makes_a_disk_an_older_image() {
    let shape = Shape { disks: 4, disk_bytes: 30 * MB, ..Shape::default() };
    let rig = Rig::new(54, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, MB).await);
        group.dismount().await.expect("dismounted");
    });
    let images: Vec<_> = rig.disks.iter().map(|disk| disk.snapshot()).collect();
    // One life: mount, a write, dismount; cut off at every place in it.
    let life = |cut: Option<u64>| {
        let rig = Rig::new(54, &shape);
        for (disk, image) in rig.disks.iter().zip(&images) {
            disk.replace_with_snapshot(image);
        }
        let events = rig.run(async {
            let before = rig.sim.io_events();
            if let Some(cut) = cut {
                rig.sim.crash_after(1 + cut);
            }
            let group = rig.mount().await.expect("mounted");
            let file = group.open("f").expect("there");
            let data = pattern(1, 0, 8192);
            let written = file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable).await;
            written.expect("written");
            drop(file);
            group.dismount().await.expect("dismounted");
            rig.sim.io_events() - before
        });
        if cut.is_some() && events.is_none() {
            rig.sim.restart();
        }
        rig.run(async {
            for _ in 0..2 {
                let group = rig.mount().await.unwrap_or_else(|e| panic!("cut {cut:?}: {e}"));
                let disks = group.disks();
                assert!(disks.iter().all(|d| d.in_sync), "cut {cut:?}: {disks:?}");
                check_content(&group.open("f").expect("there"), 1, MB).await;
                group.dismount().await.expect("dismounted");
            }
        });
        events
    };
    let events = life(None).expect("it ends");
    for cut in (0..events).step_by(3) {
        life(Some(cut));
    }
    eprintln!("cut at every third of {events} I/Os: no disk was taken for an older one");
}

#[test]
fn forced_with_an_older_image_what_is_newer_elsewhere_is_read() {
    let shape = Shape { disks: 3, disk_bytes: 60 * MB, ..Shape::default() };
    let rig = Rig::new(57, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 20 * MB).await);
        group.dismount().await.expect("dismounted");
        let image = rig.disks[0].snapshot();
        let group = rig.mount().await.expect("mounted");
        rewritten(&group, 2).await;
        group.dismount().await.expect("dismounted");
        // One disk is lost, another is of before: what both held is nowhere as it was last.
        rig.disks[0].replace_with_snapshot(&image);
        let found = || rig.found_of(&[0, 1]);
        let refused = rig.mount_with(found(), MountOptions::default()).await.expect_err("not all");
        assert_eq!(refused.number(), 15063, "{refused}");
        let force = MountOptions { force: true, ..MountOptions::default() };
        let group = rig.mount_with(found(), force).await.expect("taken for what it is");
        let disks = group.disks();
        let aged: Vec<u16> = disks.iter().filter(|d| d.aged).map(|d| d.number).collect();
        assert_eq!(aged, [0]);
        let file = group.open("f").expect("there");
        let mut newer = 0;
        for at in (0..20 * MB).step_by(4096) {
            let read = async || {
                let io = Io::FOREGROUND;
                file.read_at(io, at, 4096).await.expect("read").as_ref().to_vec()
            };
            let first = read().await;
            assert_eq!(first, read().await, "the same each time");
            let is = |seed| first == pattern(seed, at, 4096);
            assert!(is(1) || is(2), "what was written there once");
            newer += u64::from(is(2));
        }
        // Of three pairs of disks one has the image and the lost one.
        assert!(newer * 4096 >= 12 * MB, "{newer} blocks are of the later time");
        assert!(newer * 4096 < 20 * MB, "something was nowhere else");
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
        let group = rig.mount_with(found(), MountOptions::default()).await.expect("mounts again");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}
