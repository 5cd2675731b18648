//! Disks that leave in unusual ways, and what is still under way when a group is let go of.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Copies, FileSpec};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};

use cellar_sim::rig::{Rig, Shape};

#[test]
fn a_disk_that_refuses_a_write_for_any_reason_leaves() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let rig = Rig::new(60, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let spec = FileSpec { checksums: Some(false), ..FileSpec::new(FileType::Datafile) };
        let file = group.create_file(&spec).await.unwrap();
        file.set_size(12 << 20).await.unwrap();
        let data = |v: u8| Bytes::from(vec![v; 12 << 20]);
        file.write_at(Io::SCAN, 0, data(1), Durability::Durable).await.unwrap();
        // Not a fault that a device reports: it is asked for what it does not have any more.
        rig.disks[1].resize(12 << 20);
        file.write_at(Io::SCAN, 0, data(2), Durability::Durable).await.unwrap();
        assert_eq!(group.info().offline_disks, 1, "its copies are old");
        for _ in 0..4 {
            let read = file.read_at(Io::SCAN, 0, 12 << 20).await.unwrap();
            assert!(read.iter().all(|b| *b == 2));
        }
        let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
        assert_eq!(found.pieces_differing, 0);
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn nothing_is_on_its_way_to_a_disk_when_a_group_was_let_go_of() {
    for seed in 0..30u64 {
        let shape = Shape { disks: 2, ..Shape::default() };
        let mut rig = Rig::new(500 + seed, &shape);
        rig.depth = [None, Some(1)][(seed % 2) as usize];
        rig.run(async {
            let before = Arc::strong_count(&rig.disks[0]);
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(8 << 20).await.unwrap();
            let data = Bytes::from(vec![5; 8 << 20]);
            file.write_at(Io::SCAN, 0, data, Durability::Durable).await.unwrap();
            group.publish(&file, "f", false).await.unwrap();
            // Every read of the one copy is followed by a repair of it.
            rig.disks[1].corrupt(13 << 20, 6 << 20);
            let readers: Vec<_> = (0..6u64)
                .map(|n| {
                    let file = file.clone();
                    rig.env().run("reader", async move {
                        for i in 0.. {
                            let at = (n * 1300 + i * 17) % 2000 * 4096;
                            if file.read_at(Io::FOREGROUND, at, 4096).await.is_err() {
                                return i;
                            }
                        }
                        0
                    })
                })
                .collect();
            rig.env().sleep(Duration::from_millis(2 + seed)).await;
            if seed.is_multiple_of(3) {
                group.drop_group(true).await.unwrap();
            } else {
                group.dismount().await.unwrap();
            }
            let under_way: usize = rig.disks.iter().map(|d| d.in_flight()).sum();
            assert_eq!(under_way, 0, "seed {seed}");
            let read = futures_util::future::join_all(readers).await;
            assert!(read.into_iter().flatten().sum::<u64>() > 0);
            drop(file);
            drop(group);
            rig.env().sleep(Duration::from_secs(1)).await;
            assert_eq!(Arc::strong_count(&rig.disks[0]), before, "the disks are let go of");
        })
        .unwrap();
    }
}

#[test]
fn a_disk_that_is_gone_leaves_although_nobody_does_anything_but_read() {
    for checksums in [true, false] {
        let shape = Shape { disks: 3, ..Shape::default() };
        let rig = Rig::new(64, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            let spec = FileSpec { checksums: Some(checksums), ..FileSpec::new(FileType::Datafile) };
            let file = group.create_file(&spec).await.unwrap();
            file.set_size(6 << 20).await.unwrap();
            file.write_at(Io::SCAN, 0, Bytes::from(vec![7; 6 << 20]), Durability::Durable)
                .await
                .unwrap();
            group.publish(&file, "f", false).await.unwrap();
            drop(file);
            group.dismount().await.unwrap();
            let group = rig.mount().await.unwrap();
            let file = group.open("f").unwrap();
            rig.disks[1].vanish();
            for _ in 0..20 {
                let read = file.read_at(Io::SCAN, 0, 6 << 20).await.unwrap();
                assert!(read.iter().all(|b| *b == 7));
            }
            rig.env().sleep(Duration::from_secs(1)).await;
            assert_eq!(group.info().offline_disks, 1, "a read found it, and that is enough");
            drop(file);
            group.dismount().await.unwrap();
        });
    }
}
