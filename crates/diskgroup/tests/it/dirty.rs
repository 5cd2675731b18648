//! Damage to the dirty log, and what a mount makes of it.

use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::on_disk::layout::{
    AU_START, BLOCK_U64, DIRTY_LOG, LOG_START, au_offset, checksum_place,
};
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Copies, DiskStatus, FileSpec, Group, MountOptions, OnlineHow, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, IoErrorKind};

use cellar_sim::rig::{Rig, Shape};

const REGION: u64 = 4 << 20;

fn content(version: u8) -> Bytes {
    (0..65536u32).map(|i| (i / 512) as u8 ^ i as u8 ^ version).collect::<Vec<u8>>().into()
}

fn two_disks() -> Shape {
    Shape { disks: 2, ..Shape::default() }
}

/// A group with a file of two regions, mounted for the second time.
async fn group_with_a_file(rig: &Rig, shape: &Shape) -> Group {
    rig.create(shape).await.unwrap();
    let group = rig.mount().await.unwrap();
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
    file.set_size(2 * REGION).await.unwrap();
    for region in 0..2 {
        let at = region * REGION;
        file.write_at(Io::SCAN, at, content(0), Durability::Durable).await.unwrap();
    }
    group.publish(&file, "f", false).await.unwrap();
    drop(file);
    group.dismount().await.unwrap();
    rig.mount().await.unwrap()
}

async fn overwrite(group: &Group, region: u64, version: u8) {
    let file = group.open("f").unwrap();
    let at = region * REGION;
    file.write_at(Io::COMMIT, at, content(version), Durability::Durable).await.unwrap();
}

async fn holds(group: &Group, region: u64, version: u8) {
    let file = group.open("f").unwrap();
    let read = file.read_at(Io::FOREGROUND, region * REGION, 65536).await.unwrap();
    assert!(read[..] == content(version)[..], "region {region} holds version {version}");
}

#[test]
fn a_mark_found_on_one_member_is_made_durable_on_all() {
    let shape = two_disks();
    let rig = Rig::new(1, &shape);
    let before = rig.run(async {
        let group = group_with_a_file(&rig, &shape).await;
        overwrite(&group, 0, 1).await;
        let before = rig.disks[1].peek(DIRTY_LOG[0], 2 << 20);
        overwrite(&group, 1, 1).await;
        before
    });
    rig.sim.crash();
    rig.sim.restart();
    // The power went before the second disk had the mark of the second region.
    rig.disks[1].poke(DIRTY_LOG[0], &before.unwrap());
    rig.run(async {
        let group = rig.mount().await.unwrap();
        overwrite(&group, 1, 2).await;
        // The disk that had the mark goes; the other goes on alone.
        rig.disks[0].vanish();
        overwrite(&group, 0, 2).await;
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let group = rig.mount_with(rig.found_of(&[1]), Default::default()).await.unwrap();
        holds(&group, 0, 2).await;
        holds(&group, 1, 2).await;
        let number = group.open("f").unwrap().number();
        let found = group.validate(&[number], Copies::All, &|_| {}).await.unwrap();
        assert!(!found.is_bad(), "{found:?}");
    });
}

#[test]
fn a_mark_that_a_disk_which_came_back_does_not_have_is_made_durable_on_it() {
    let shape = two_disks();
    let rig = Rig::new(3, &shape);
    rig.run(async {
        let group = group_with_a_file(&rig, &shape).await;
        overwrite(&group, 0, 1).await;
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let group = rig.mount().await.unwrap();
        // All is equal again.
        rig.env().sleep(Duration::from_millis(100)).await;
        // The region becomes clean, and its mark stays on the first disk: the second one, which comes back, does
        // not get it.
        let name = group.disks()[1].name.clone();
        group.offline_disks(std::slice::from_ref(&name), None).await.unwrap();
        let back = rig.found_of(&[1]).remove(0);
        group.online_disk(&name, back, OnlineHow::default()).await.unwrap();
        while group.disks()[1].status != DiskStatus::Online {
            rig.env().sleep(Duration::from_millis(10)).await;
        }
        // And keeps metadata again.
        rig.env().sleep(Duration::from_millis(100)).await;
    });
    rig.sim.crash();
    rig.sim.restart();
    let older = rig.run(async {
        // The mark is taken for durable on both.
        let group = rig.mount().await.unwrap();
        overwrite(&group, 0, 2).await;
        let log = rig.disks[0].peek(LOG_START, AU_START - LOG_START);
        group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        log
    });
    rig.sim.crash();
    rig.sim.restart();
    // The power went before the first disk had the last record: the other one is asked first.
    rig.disks[0].poke(LOG_START, &older.unwrap());
    rig.run(async {
        let group = rig.mount().await.unwrap();
        holds(&group, 0, 2).await;
        let number = group.open("f").unwrap().number();
        let found = group.validate(&[number], Copies::All, &|_| {}).await.unwrap();
        assert!(!found.is_bad(), "{found:?}");
    });
}

/// A place that one mount cannot read, and the next one can, holds a newer version that was never acknowledged.
#[test]
fn a_newer_version_that_could_not_be_read_takes_no_mark_away_later() {
    let shape = two_disks();
    let rig = Rig::new(4, &shape);
    let marked = rig.run(async {
        let group = group_with_a_file(&rig, &shape).await;
        overwrite(&group, 0, 1).await;
        let marked = rig.disks[1].peek(DIRTY_LOG[0], 2 << 20);
        // Long enough that it is clean, and that the disks know it.
        rig.env().sleep(Duration::from_secs(20)).await;
        marked
    });
    rig.sim.crash();
    rig.sim.restart();
    // The power went before the second disk knew it.
    rig.disks[1].poke(DIRTY_LOG[0], &marked.unwrap());
    let hidden = DIRTY_LOG[0]..DIRTY_LOG[0] + BLOCK_U64;
    let newer = rig.disks[0].peek(hidden.start, BLOCK_U64);
    rig.disks[0].fail_reads_until_written(hidden.clone());
    rig.run(async {
        let group = rig.mount().await.unwrap();
        overwrite(&group, 0, 2).await;
    });
    let written = rig.disks[0].peek(hidden.start, BLOCK_U64) != newer;
    assert!(written, "what was hidden is written over");
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let group = rig.mount().await.unwrap();
        holds(&group, 0, 2).await;
        let number = group.open("f").unwrap().number();
        let found = group.validate(&[number], Copies::All, &|_| {}).await.unwrap();
        assert!(!found.is_bad(), "{found:?}");
    });
}

#[test]
fn a_dirty_log_that_cannot_be_read_is_not_an_empty_one() {
    for unreadable in [false, true] {
        let shape = two_disks();
        let rig = Rig::new(2, &shape);
        rig.run(async {
            let group = group_with_a_file(&rig, &shape).await;
            overwrite(&group, 0, 1).await;
            overwrite(&group, 1, 1).await;
        });
        rig.sim.crash();
        rig.sim.restart();
        for disk in &rig.disks {
            for place in DIRTY_LOG {
                match unreadable {
                    true => disk.fail_reads_until_written(place..place + BLOCK_U64),
                    false => disk.corrupt(place + 100, 8),
                }
            }
        }
        // The power may go while the mount looks for what is dirty; the next one looks again.
        for events in [20, 60, 100, 140, 180, 220] {
            rig.sim.crash_after(events);
            if rig.run(async { rig.mount().await.map(|_| ()).unwrap() }).is_none() {
                rig.sim.restart();
            }
            rig.sim.crash_never();
        }
        rig.run(async {
            let group = rig.mount().await.unwrap();
            holds(&group, 0, 1).await;
            holds(&group, 1, 1).await;
            let number = group.open("f").unwrap().number();
            let found = group.validate(&[number], Copies::All, &|_| {}).await.unwrap();
            assert!(!found.is_bad(), "{found:?}");
            let errors: u64 = group.disks().iter().map(|d| d.counters["checksum_errs"]).sum();
            assert_eq!(errors, 0, "nothing was corrupt");
            // The log counts again.
            overwrite(&group, 0, 3).await;
            group.abandon();
            rig.env().sleep(Duration::from_secs(1)).await;
            let group = rig.mount().await.unwrap();
            assert_eq!(group.resync().dirty_regions, 1, "only what was written is dirty");
            holds(&group, 0, 3).await;
        });
    }
}

#[test]
fn a_read_only_mount_reads_dirty_regions_and_calls_nothing_corrupt() {
    let shape = two_disks();
    let rig = Rig::new(3, &shape);
    rig.run(async {
        let group = group_with_a_file(&rig, &shape).await;
        overwrite(&group, 0, 1).await;
        overwrite(&group, 1, 1).await;
    });
    rig.sim.crash();
    rig.sim.restart();
    let read_only = MountOptions { read_only: true, ..MountOptions::default() };
    rig.run(async {
        let group = rig.mount_with(rig.found(), read_only).await.unwrap();
        let file = group.open("f").unwrap();
        for _ in 0..3 {
            holds(&group, 0, 1).await;
            holds(&group, 1, 1).await;
            let part = file.read_at(Io::FOREGROUND, REGION + 512, 1024).await.unwrap();
            assert!(part[..] == content(1)[512..1536]);
        }
        let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
        assert!(!found.is_bad(), "{found:?}");
        assert_eq!(found.dirty_pieces, 2, "a read without a resync cleans nothing");
        let errors: u64 = group.disks().iter().map(|d| d.counters["checksum_errs"]).sum();
        assert_eq!(errors, 0);
    });
}

#[test]
fn rot_beside_lost_checksums_is_not_given_a_right_one() {
    let shape = Shape {
        disks: 1,
        redundancy: Redundancy::External,
        au_size: 4 << 20,
        disk_bytes: 120 << 20,
        ..Shape::default()
    };
    let rig = Rig::new(4, &shape);
    let data: Bytes =
        (0..4 << 20).map(|i: u32| (i / 512 * 7 + i) as u8).collect::<Vec<u8>>().into();
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(4 << 20).await.unwrap();
        file.write_at(Io::SCAN, 0, data.clone(), Durability::Durable).await.unwrap();
        group.publish(&file, "f", false).await.unwrap();
        drop(file);
        group.dismount().await.unwrap();

        let disk = &rig.disks[0];
        let holds_it = |au: &u32| disk.peek(au_offset(*au, 4 << 20), 4096)[..] == data[..4096];
        let au = (1..20).find(holds_it).unwrap();
        // The last piece of the AU has half of its checksums in each of two blocks.
        let first = (0..1024u64).find(|b| checksum_place(au, *b, 4 << 20).entry == 0);
        let place = |block: u64| checksum_place(au, block, 4 << 20);
        let split = (1009..1024).find(|b| place(*b).number != place(1008).number);
        let split = split.or(first).unwrap();
        let piece = split / 16 * 16;
        assert!(split > piece, "AU {au} is the first of its run");
        disk.corrupt(place(piece).offset + 100, 8);
        disk.corrupt(au_offset(au, 4 << 20) + split * 4096 + 10, 1);

        let group = rig.mount().await.unwrap();
        let file = group.open("f").unwrap();
        let at = piece * 4096;
        let read = file.read_at(Io::FOREGROUND, at, 4096).await.unwrap();
        assert!(read[..] == data[at as usize..at as usize + 4096]);
        rig.env().sleep(Duration::from_secs(1)).await;
        let error = file.read_at(Io::FOREGROUND, split * 4096, 4096).await.unwrap_err();
        assert!(matches!(error.kind, IoErrorKind::Media), "{error}");
        let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
        assert_eq!(found.checksums_wrong, 1, "{found:?}");
    });
}

#[test]
fn a_bad_sector_in_a_dirty_region_takes_no_neighbour_with_it() {
    let shape = Shape { disks: 1, redundancy: Redundancy::External, ..Shape::default() };
    let rig = Rig::new(7, &shape);
    rig.run(async {
        let group = group_with_a_file(&rig, &shape).await;
        overwrite(&group, 0, 1).await;
    });
    rig.sim.crash();
    rig.sim.restart();
    let bytes = rig.disks[0].peek(0, 256 << 20);
    let wanted = &content(1)[4096..8192];
    let at = bytes.chunks(4096).position(|block| block == wanted).unwrap() as u64 * 4096;
    rig.disks[0].fail_reads_until_written(at..at + 4096);
    rig.run(async {
        let group = rig.mount().await.unwrap();
        assert_eq!(group.resync().bytes_found, 65536, "one piece was being written");
        while group.resync().bytes_left > 0 {
            rig.env().sleep(Duration::from_millis(10)).await;
        }
        // Cleaned, so that what the checksums say counts from here on.
        rig.env().sleep(Duration::from_secs(20)).await;
        let file = group.open("f").unwrap();
        for block in (0..16u64).filter(|block| *block != 1) {
            let read = file.read_at(Io::FOREGROUND, block * 4096, 4096).await.unwrap();
            let start = block as usize * 4096;
            assert!(read[..] == content(1)[start..start + 4096], "block {block}");
        }
        let error = file.read_at(Io::FOREGROUND, 4096, 4096).await.unwrap_err();
        assert_eq!(error.kind, IoErrorKind::Media);
    })
    .unwrap();
}

/// A power cut may leave rubbish in a sector that is being written, on every copy at once. What lies
/// beside it in the same block of 4 KiB, and was acknowledged, is not written again with it.
#[test]
fn a_small_write_that_is_torn_takes_nothing_of_its_neighbours() {
    for redundancy in [Redundancy::External, Redundancy::Normal] {
        let disks = if redundancy == Redundancy::External { 1 } else { 2 };
        let shape = Shape { disks, redundancy, sector: 512, ..Shape::default() };
        let rig = Rig::new(9, &shape);
        rig.run(async { group_with_a_file(&rig, &shape).await.dismount().await }).unwrap().unwrap();
        rig.disks.iter().for_each(|disk| disk.tear_sectors(true));
        for life in 0..300u64 {
            rig.sim.crash_after(500 + life % 200);
            rig.run(async {
                let file = rig.mount().await.unwrap().open("f").unwrap();
                // The fourth sector of each block, again and again.
                for version in 0.. {
                    let at = version % 16 * BLOCK_U64 + 3 * 512;
                    let data = Bytes::from(vec![(life + version) as u8; 512]);
                    file.write_at(Io::COMMIT, at, data, Durability::Cached).await.unwrap();
                    if version % 16 == 15 {
                        file.flush(Io::COMMIT).await.unwrap();
                    }
                }
            });
            rig.sim.crash_never();
            rig.sim.restart();
            let read = rig.run(async {
                let group = rig.mount().await.unwrap();
                let read = group.open("f").unwrap().read_at(Io::FOREGROUND, 0, 65536).await;
                group.abandon();
                read.unwrap()
            });
            let (read, was) = (read.expect("no crash"), content(0));
            for at in (0..65536).step_by(512).filter(|at| at / 512 % 8 != 3) {
                assert!(read[at..at + 512] == was[at..at + 512], "life {life}, byte {at}");
            }
        }
        assert!(rig.disks[0].torn_sectors() > 30, "{}", rig.disks[0].torn_sectors());
    }
}
