//! Damage to the dirty log, and what a mount makes of it.

use bytes::Bytes;
use cellar_diskgroup::on_disk::layout::{BLOCK_U64, DIRTY_LOG};
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Copies, FileSpec, Group};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};

use crate::rig::{Rig, Shape};

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
            rig.env().sleep(std::time::Duration::from_secs(1)).await;
            let group = rig.mount().await.unwrap();
            assert_eq!(group.resync().dirty_regions, 1, "only what was written is dirty");
            holds(&group, 0, 3).await;
        });
    }
}
