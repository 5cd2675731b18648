//! Basic use of a group: when nothing goes wrong, and when one disk fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Copies, Error, File, FileSpec, FoundDisk, Group, MountOptions, Redundancy};
use cellar_io::real::{OpenOptions, Runtime as RealRuntime, RuntimeOptions, open_disk};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use cellar_wait::{Kind, Waits};

use cellar_sim::rig::{Rig, Shape};

fn pattern(length: usize, seed: u8) -> Bytes {
    let bytes: Vec<u8> = (0..length).map(|i| (i / 512) as u8 ^ (i as u8) ^ seed).collect();
    Bytes::from(bytes)
}

#[test]
fn files_keep_their_bytes_over_a_clean_dismount() {
    for redundancy in [Redundancy::External, Redundancy::Normal, Redundancy::High] {
        let shape = Shape { redundancy, ..Shape::default() };
        let rig = Rig::new(1, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(5 << 20).await.unwrap();
            let data = pattern(3 << 20, 7);
            file.write_at(Io::SCAN, 4096 * 3, data.clone(), Durability::Cached).await.unwrap();
            file.flush(Io::COMMIT).await.unwrap();
            group.publish(&file, "dir/a.bin", false).await.unwrap();
            drop(file);
            group.dismount().await.unwrap();

            let group = rig.mount().await.unwrap();
            assert_eq!(group.resync().dirty_regions, 0, "a clean dismount leaves nothing dirty");
            let file = group.open("dir/a.bin").unwrap();
            assert_eq!(file.size(), 5 << 20);
            let read = file.read_at(Io::SCAN, 4096 * 3, 3 << 20).await.unwrap();
            assert_eq!(&read[..], &data[..]);
            let head = file.read_at(Io::SCAN, 0, 4096 * 3).await.unwrap();
            assert!(head.iter().all(|b| *b == 0), "what was never written reads as zeros");
            let tail = file.read_at(Io::SCAN, (3 << 20) + 4096 * 3, 65536).await.unwrap();
            assert!(tail.iter().all(|b| *b == 0));
            let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
            assert!(!found.is_bad(), "{found:?}");
            let copies = u64::from(redundancy.copies());
            // 3 MiB and 12 KiB are 49 pieces.
            assert_eq!(found.checksums_right, copies * 49 * 16);
            assert_eq!(found.checksums_unknown, 0);
            group.check().unwrap();
        })
        .unwrap();
    }
}

#[test]
fn names_can_be_made_moved_replaced_and_removed() {
    let shape = Shape::default();
    let rig = Rig::new(2, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let before = group.info().free_mb;
        let make = |size: u64| {
            let group = group.clone();
            async move {
                let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
                file.set_size(size).await.unwrap();
                file
            }
        };
        let a = make(1 << 20).await;
        group.publish(&a, "a", false).await.unwrap();
        let b = make(2 << 20).await;
        assert!(matches!(group.publish(&b, "a", false).await, Err(Error::Exists { .. })));
        group.publish(&b, "a", true).await.unwrap();
        assert_eq!(group.open("a").unwrap().size(), 2 << 20);
        // The old file lives while it is open, then its room comes back.
        assert_eq!(a.size(), 1 << 20);
        drop(a);
        group.mkdir("d/e", true).await.unwrap();
        group.rename("a", "d/e/b", false).await.unwrap();
        assert!(matches!(group.open("a"), Err(Error::NoSuchFile { .. })));
        group.add_alias("x", "d/e/b").await.unwrap();
        group.remove("x").await.unwrap();
        assert!(matches!(group.rmdir("d", false).await, Err(Error::NotEmpty { .. })));
        let listed = group.list("d", true);
        assert_eq!(
            listed.iter().map(|l| l.path.as_str()).collect::<Vec<_>>(),
            ["d", "d/e", "d/e/b"]
        );
        drop(b);
        group.rmdir("d", true).await.unwrap();
        cellar_io::EnvExt::sleep(&*group.env().clone(), std::time::Duration::from_secs(1)).await;
        assert_eq!(group.info().free_mb, before, "all room came back");
        assert!(group.files().is_empty());
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_disk_that_vanishes_leaves_and_nothing_is_lost() {
    let shape = Shape::default();
    let rig = Rig::new(3, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(8 << 20).await.unwrap();
        let data = pattern(8 << 20, 1);
        file.write_at(Io::SCAN, 0, data.clone(), Durability::Durable).await.unwrap();
        group.publish(&file, "f", false).await.unwrap();
        rig.disks[2].vanish();
        let newer = pattern(1 << 20, 99);
        for at in [0u64, 3 << 20, 7 << 20] {
            file.write_at(Io::SCAN, at, newer.clone(), Durability::Durable).await.unwrap();
        }
        let read = file.read_at(Io::SCAN, 0, 8 << 20).await.unwrap();
        assert_eq!(&read[..1 << 20], &newer[..]);
        assert_eq!(&read[1 << 20..3 << 20], &data[1 << 20..3 << 20]);
        assert_eq!(group.info().offline_disks, 1);
        cellar_io::EnvExt::sleep(&*rig.env(), std::time::Duration::from_secs(1)).await;
        assert!(!group.info().members.contains(&2), "it holds no metadata any more");
        assert_eq!(group.info().members.len(), 3, "another disk does");
        drop(file);
        group.dismount().await.unwrap();

        // It comes back with old data: it stays out.
        rig.disks[2].come_back();
        let group = rig.mount().await.unwrap();
        assert_eq!(group.info().offline_disks, 1);
        let file = group.open("f").unwrap();
        let read = file.read_at(Io::SCAN, 3 << 20, 1 << 20).await.unwrap();
        assert_eq!(&read[..], &newer[..]);
        let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
        assert!(!found.is_bad(), "{found:?}");
        assert!(found.absent_bytes > 0);
    })
    .unwrap();
}

#[test]
fn rot_in_one_copy_is_found_and_repaired_by_reading() {
    let shape = Shape::default();
    let rig = Rig::new(4, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(4 << 20).await.unwrap();
        let data = pattern(4 << 20, 5);
        file.write_at(Io::SCAN, 0, data.clone(), Durability::Durable).await.unwrap();
        group.publish(&file, "f", false).await.unwrap();
        // Rot every data AU of one disk, wherever it is.
        rig.disks[0].corrupt((9 << 20) + 77, 1 << 20);
        rig.disks[0].corrupt((10 << 20) + 5000, 3);
        rig.disks[0].corrupt((11 << 20) + 5000, 3);
        let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
        assert!(found.checksums_wrong > 0, "validate finds it: {found:?}");
        for _ in 0..4 {
            let read = file.read_at(Io::SCAN, 0, 4 << 20).await.unwrap();
            assert_eq!(&read[..], &data[..], "no read returns rot");
        }
        for at in (0..4u64 << 20).step_by(65536) {
            for _ in 0..2 {
                let read = file.read_at(Io::FOREGROUND, at, 65536).await.unwrap();
                assert_eq!(&read[..], &data[at as usize..at as usize + 65536]);
            }
        }
    })
    .unwrap();
}

#[test]
fn a_full_group_says_so_and_loses_nothing() {
    let shape = Shape::default();
    let rig = Rig::new(5, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let room = group.info().writable_mb;
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        let error = file.set_size((room + 1) << 20).await.unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert_eq!(error.number(), 15041);
        file.set_size(room << 20).await.unwrap();
        assert_eq!(group.info().writable_mb, 0);
        file.set_size(1 << 20).await.unwrap();
        assert_eq!(group.info().writable_mb, room - 1);
        group.check().unwrap();
    })
    .unwrap();
}

#[test]
fn a_file_of_a_group_keeps_the_laws_of_a_device() {
    for (seed, redundancy, sector) in
        [(6, Redundancy::Normal, 512), (7, Redundancy::External, 4096), (8, Redundancy::High, 512)]
    {
        let shape = Shape { redundancy, sector, disk_bytes: 64 << 20, ..Shape::default() };
        let rig = Rig::new(seed, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            for striping in
                [cellar_diskgroup::state::Striping::Coarse, cellar_diskgroup::state::Striping::Fine]
            {
                let spec =
                    FileSpec { striping: Some(striping), ..FileSpec::new(FileType::Datafile) };
                let file = group.create_file(&spec).await.unwrap();
                file.set_size(16 << 20).await.unwrap();
                let device: Arc<dyn Device> = Arc::new(file.clone());
                cellar_io::laws::check_device(&rig.env(), device, seed, 3).await;
                let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
                assert!(!found.is_bad(), "{found:?}");
            }
            group.dismount().await.unwrap();
        })
        .unwrap();
    }
}

#[test]
fn too_few_failure_groups_and_bad_values_are_refused_in_words() {
    let shape = Shape { failgroups: vec!["A", "A", "A", "A"], ..Shape::default() };
    let rig = Rig::new(9, &shape);
    rig.run(async {
        let error = rig.create(&shape).await.unwrap_err();
        assert_eq!(error.number(), 15072);
        let mut spec = rig.spec(&Shape::default());
        spec.au_size = 3 << 20;
        let error = cellar_diskgroup::create(&rig.env(), spec).await.unwrap_err();
        assert!(error.to_string().contains("1M, 2M, 4M"), "{error}");
        rig.create(&Shape::default()).await.unwrap();
        let error = rig.create(&Shape::default()).await.unwrap_err();
        assert_eq!(error.number(), 15033, "{error}");
        let group = rig.mount().await.unwrap();
        group.drop_group(false).await.unwrap();
        assert!(rig.mount().await.is_err(), "a dropped group cannot be mounted");
        rig.create(&Shape::default()).await.unwrap();
        let mut spec = rig.spec(&Shape::default());
        spec.disks[0].force = true;
        for disk in &mut spec.disks[1..] {
            disk.force = true;
        }
        cellar_diskgroup::create(&rig.env(), spec).await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_dismount_waits_for_writes_and_refuses_later_ones() {
    for seed in 0..20 {
        let shape = Shape::default();
        let rig = Rig::new(100 + seed, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(16 << 20).await.unwrap();
            let all = pattern(16 << 20, 0);
            file.write_at(Io::SCAN, 0, all, Durability::Durable).await.unwrap();
            group.publish(&file, "f", false).await.unwrap();
            let writers: Vec<_> = (0..8u64)
                .map(|n| {
                    let file = file.clone();
                    rig.env().run("writer", async move {
                        let mut written = 0u8;
                        loop {
                            let data = pattern(16384, written + 1);
                            let at = n * (2 << 20);
                            if file.write_at(Io::SCAN, at, data, Durability::Cached).await.is_err()
                            {
                                return written;
                            }
                            written = (written + 1) % 200;
                        }
                    })
                })
                .collect();
            rig.env().sleep(Duration::from_millis(20 + seed)).await;
            group.dismount().await.unwrap();
            assert!(file.set_size(1 << 20).await.is_err(), "refused, not left waiting");
            assert!(file.flush(Io::COMMIT).await.is_err());
            assert!(group.mkdir("late", true).await.is_err());
            let written = futures_util::future::join_all(writers).await;
            drop(file);

            let group = rig.mount().await.unwrap();
            assert_eq!(group.resync().dirty_regions, 0, "a clean dismount leaves nothing dirty");
            let file = group.open("f").unwrap();
            let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
            assert!(!found.is_bad(), "{found:?}");
            for (n, written) in (0u64..).zip(written) {
                let read = file.read_at(Io::SCAN, n * (2 << 20), 16384).await.unwrap();
                let written = written.unwrap();
                let newer = pattern(16384, written + 1);
                let is = read[..] == pattern(16384, written)[..] || read[..] == newer[..];
                assert!(is || written == 0, "what was acknowledged is there");
            }
        })
        .unwrap();
    }
}

#[test]
fn a_flush_says_when_the_only_copy_is_gone() {
    let shape = Shape::default();
    let rig = Rig::new(10, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let failgroup = group.disks()[2].failgroup.clone();
        let alone = FileSpec { placement: Some(failgroup), ..FileSpec::new(FileType::Datafile) };
        let file = group.create_file(&alone).await.unwrap();
        file.set_size(2 << 20).await.unwrap();
        let other = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        other.set_size(2 << 20).await.unwrap();
        for file in [&file, &other] {
            file.write_at(Io::SCAN, 0, pattern(65536, 1), Durability::Cached).await.unwrap();
        }
        rig.disks[2].vanish();
        let error = file.flush(Io::COMMIT).await.unwrap_err();
        assert!(error.to_string().contains("no copy is online"), "{error}");
        let data = pattern(65536, 1);
        let at = 1 << 20;
        assert!(file.write_at(Io::COMMIT, at, data.clone(), Durability::Durable).await.is_err());
        other.flush(Io::COMMIT).await.unwrap();
        other.write_at(Io::COMMIT, at, data, Durability::Durable).await.unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn more_dirty_regions_than_the_cap_are_resynced_while_writes_go_on() {
    const REGION: u64 = 4 << 20;
    let shape = Shape { disks: 2, disk_bytes: 1 << 30, au_size: 4 << 20, ..Shape::default() };
    let tight = MountOptions { resync_target: Duration::ZERO, ..MountOptions::default() };
    for seed in 0..4 {
        let rig = Rig::new(200 + seed, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            let group = rig.mount().await.unwrap();
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(200 * REGION).await.unwrap();
            for version in 0..2 {
                for region in 0..200 {
                    let at = region * REGION;
                    file.write_at(Io::SCAN, at, pattern(65536, version), Durability::Cached)
                        .await
                        .unwrap();
                }
                file.flush(Io::COMMIT).await.unwrap();
            }
            group.publish(&file, "f", false).await.unwrap();
        })
        .unwrap();
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let group = rig.mount_with(rig.found(), tight.clone()).await.unwrap();
            let resync = group.resync();
            assert!(resync.dirty_regions > resync.dirty_regions_cap, "{resync:?}");
            let file = group.open("f").unwrap();
            let writes = (0..200u64).rev().map(|region| {
                let file = file.clone();
                rig.env().run("writer", async move {
                    let data = pattern(8192, 9);
                    file.write_at(Io::SCAN, region * REGION, data, Durability::Cached).await
                })
            });
            for write in futures_util::future::join_all(writes).await {
                write.unwrap().unwrap();
            }
            group.dismount().await.unwrap();
        })
        .unwrap();
    }
}

#[test]
fn a_file_that_its_owner_recovers_does_not_wait_for_clean_regions() {
    const REGION: u64 = 4 << 20;
    const REGIONS: u64 = 200;
    let shape = Shape { disks: 2, disk_bytes: 4 << 30, au_size: 4 << 20, ..Shape::default() };
    let tight = MountOptions { resync_target: Duration::ZERO, ..MountOptions::default() };
    let rig = Rig::new(300, &shape);
    let write_all = async |file: &File, version| {
        for region in 0..REGIONS {
            let data = pattern(8192, version);
            file.write_at(Io::SCAN, region * REGION, data, Durability::Cached).await.unwrap();
        }
        file.flush(Io::COMMIT).await.unwrap();
    };
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount_with(rig.found(), tight.clone()).await.unwrap();
        let cap = group.resync().dirty_regions_cap;
        let mut files = Vec::new();
        for name in ["heap", "other"] {
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(REGIONS * REGION).await.unwrap();
            write_all(&file, 1).await;
            group.publish(&file, name, false).await.unwrap();
            files.push(file);
        }
        files[0].recovered_by_owner();
        write_all(&files[0], 2).await;
        assert_eq!(group.resync().dirty_regions, REGIONS as usize, "none was cleaned");
        write_all(&files[1], 2).await;
        let dirty = group.resync().dirty_regions;
        assert!(dirty > REGIONS as usize && dirty <= REGIONS as usize + cap, "{dirty}, {cap}");
    })
    .unwrap();
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let group = rig.mount_with(rig.found(), tight.clone()).await.unwrap();
        // Nobody has said yet whose they are.
        assert!(group.resync().dirty_regions > group.resync().dirty_regions_cap);
        let (heap, other) = (group.open("heap").unwrap(), group.open("other").unwrap());
        heap.recovered_by_owner();
        for file in [&heap, &other] {
            for region in 0..REGIONS {
                let found = file.read_at(Io::SCAN, region * REGION, 8192).await.unwrap();
                assert_eq!(&found[..], &pattern(8192, 2)[..]);
            }
            write_all(file, 3).await;
        }
        assert!(group.resync().dirty_regions >= REGIONS as usize);
        group.dismount().await.unwrap();
    })
    .unwrap();
}

/// On real threads: what happens between two of them, a simulation never shows.
#[test]
fn small_first_writes_to_one_piece_from_many_threads_all_arrive() {
    let runtime = RealRuntime::new(&RuntimeOptions { workers: 4, ..Default::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let env = runtime.env();
    let disks: Vec<Arc<dyn Device>> = (0..2)
        .map(|n| {
            let path = dir.path().join(format!("disk{n}"));
            std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
            let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default()).unwrap();
            disk as Arc<dyn Device>
        })
        .collect();
    runtime.block_on(async {
        let shape = Shape { disks: 2, ..Shape::default() };
        let mut spec = Rig::new(0, &shape).spec(&shape);
        spec.sector_size = None;
        for (new, disk) in spec.disks.iter_mut().zip(&disks) {
            new.device = Arc::clone(disk);
        }
        cellar_diskgroup::create(&env, spec).await.unwrap();
        let found = disks.iter().map(|disk| FoundDisk {
            device: Arc::clone(disk),
            path: disk.geometry().name.to_string(),
        });
        let session = Waits::new().session("group DATA", Kind::Background);
        let group =
            Group::mount(&env, session, "DATA", found.collect(), MountOptions::default()).await;
        let group = group.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(16 << 20).await.unwrap();
        for piece in 0..256u64 {
            let writes = (0..16u64).map(|block| {
                let file = file.clone();
                env.run("writer", async move {
                    let at = piece * 65536 + block * 4096;
                    let data = pattern(4096, block as u8 + 1);
                    file.write_at(Io::FOREGROUND, at, data, Durability::Cached).await
                })
            });
            for write in futures_util::future::join_all(writes).await {
                write.expect("no write panics").unwrap();
            }
            let read = file.read_at(Io::FOREGROUND, piece * 65536, 65536).await.unwrap();
            for (block, bytes) in read.chunks(4096).enumerate() {
                assert!(bytes == &pattern(4096, block as u8 + 1)[..], "block {block}");
            }
        }
        group.dismount().await.unwrap();
    });
}

#[test]
fn a_disk_with_a_long_queue_is_not_dead_and_one_that_is_silent_is() {
    let shape = Shape { disks: 2, ..Shape::default() };
    let mut rig = Rig::new(11, &shape);
    rig.depth = Some(1);
    let options = MountOptions { disk_timeout: Duration::from_secs(1), ..MountOptions::default() };
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount_with(rig.found(), options).await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(8 << 20).await.unwrap();
        file.write_at(Io::SCAN, 0, pattern(8 << 20, 1), Durability::Durable).await.unwrap();
        // A tenth of a second each, one after the other.
        rig.disks[1].slow(1000);
        let writes = (0..64u64).map(|n| {
            let file = file.clone();
            rig.env().run("writer", async move {
                let data = pattern(4096, 3);
                file.write_at(Io::SCAN, n * 65536, data, Durability::Cached).await
            })
        });
        for write in futures_util::future::join_all(writes).await {
            write.unwrap().unwrap();
        }
        file.flush(Io::COMMIT).await.unwrap();
        assert_eq!(group.info().offline_disks, 0, "it answers, if late");
        rig.disks[1].hang();
        file.write_at(Io::SCAN, 0, pattern(4096, 4), Durability::Durable).await.unwrap();
        assert_eq!(group.info().offline_disks, 1);
    })
    .unwrap();
}
