//! The room that is kept for metadata: a group that its files have filled goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::on_disk::superblock::Superblock;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Error, File, FileSpec, Group, Redundancy};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};

use cellar_sim::rig::{Rig, Shape};

const PIECE: u64 = 64 << 10;

async fn new_file(group: &Group) -> File {
    group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap()
}

fn name(i: usize) -> String {
    format!("{i:0>230}")
}

/// The newest superblock of a disk.
fn superblock(rig: &Rig, disk: usize) -> Superblock {
    let slots = [128u64, 192, 256, 320].map(|at| rig.disks[disk].peek(at << 10, 4096));
    let found = slots.iter().filter_map(|s| Superblock::decode(s).ok());
    found.max_by_key(|s| s.generation).expect("a member has a superblock")
}

/// A group whose files have every AU that they can get, and whose names nearly fill the one AU of a
/// checkpoint area.
async fn full_group(rig: &Rig, shape: &Shape) -> (Group, File) {
    rig.create(shape).await.unwrap();
    let group = rig.mount().await.unwrap();
    let big = new_file(&group).await;
    group.publish(&big, "big", false).await.unwrap();
    let names: Vec<String> = (0..4200).map(name).collect();
    for some in names.chunks(100) {
        let added = some.iter().map(|n| group.add_alias(n, "big"));
        for added in futures_util::future::join_all(added).await {
            added.unwrap();
        }
    }
    let room = group.info().writable_mb << 20;
    big.set_size(room).await.unwrap();
    assert_eq!(group.info().writable_mb, 0);
    assert_eq!(group.info().free_mb, 0, "equal disks are full together");
    let error = big.allocate(room + shape.au_size).await.unwrap_err();
    assert_eq!(error.number(), 15041, "{error}");
    assert_eq!(superblock(rig, 0).runs.iter().map(|r| r.count).sum::<u32>(), 1, "not grown yet");
    (group, big)
}

fn stamp(round: usize) -> Bytes {
    Bytes::from(vec![1 + (round % 250) as u8; 4096])
}

#[test]
fn a_group_full_to_the_last_au_still_makes_and_deletes_files_and_writes() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(31, &shape);
    rig.run(async {
        let (group, big) = full_group(&rig, &shape).await;
        let before = superblock(&rig, 1);
        let pieces = big.size() / PIECE;
        let mut made = BTreeSet::new();
        for round in 0..700 {
            let file = new_file(&group).await;
            let path = format!("f{round:0>200}");
            group.publish(&file, &path, false).await.unwrap();
            made.insert(path);
            // Each piece for the first time: each such write is a change of the metadata.
            let at = round as u64 * 2 % pieces * PIECE;
            big.write_at(Io::SCAN, at, stamp(round), Durability::Durable).await.unwrap();
            if round % 3 == 0 {
                let first = made.pop_first().expect("one was made");
                group.remove(&first).await.unwrap();
            }
            if round == 300 {
                // A member goes: the fourth disk is as full, and takes its place.
                rig.disks[1].vanish();
                group.probe_disks().await;
                rig.env().sleep(Duration::from_secs(1)).await;
                assert_eq!(group.info().members, [0, 2, 3]);
            }
        }
        let after = superblock(&rig, 2);
        assert!(after.generation > before.generation + 3, "{}", after.generation);
        assert!(after.runs.iter().map(|r| r.count).sum::<u32>() > 1, "its area grew");
        group.abandon();
        drop(big);
        rig.env().sleep(Duration::from_secs(1)).await;

        let group = rig.mount().await.unwrap();
        group.check().unwrap();
        let found: BTreeSet<String> = group.list("f*", false).into_iter().map(|l| l.path).collect();
        assert_eq!(found, made);
        let big = group.open("big").unwrap();
        let last = (0..700).rev().take(pieces as usize / 2);
        for round in last {
            let at = round as u64 * 2 % pieces * PIECE;
            let read = big.read_at(Io::SCAN, at, 4096).await.unwrap();
            assert_eq!(&read[..], &stamp(round)[..], "round {round}");
        }
        // What goes is free again at once, but for what lay on the disk that is not here.
        let size = big.size();
        big.set_size(size - (6 << 20)).await.unwrap();
        assert!(group.info().writable_mb >= 3, "{}", group.info().writable_mb);
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn names_end_before_the_metadata_has_no_room_and_the_rest_goes_on() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let rig = Rig::new(32, &shape);
    rig.run(async {
        let (group, big) = full_group(&rig, &shape).await;
        let mut made = 4200;
        let error = loop {
            match group.add_alias(&name(made), "big").await {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 50_000, "there is an end of it");
        };
        assert_eq!(error.number(), 15041, "{error}");
        assert!(matches!(error, Error::NoSpace { .. }));
        assert!(made > 4200 + 1000, "the room that was kept was used: {made}");
        // What was given out can be written, whatever it does to the maps; one name for another.
        for round in 0..(big.size() / PIECE / 2) {
            let at = round * 2 * PIECE;
            big.write_at(Io::SCAN, at, stamp(1), Durability::Durable).await.unwrap();
            made += 1;
            let (from, to) = (name(made - 1 - 4200), name(made));
            group.rename(&from, &to, false).await.unwrap();
        }
        group.dismount().await.unwrap();
        let group = rig.mount().await.unwrap();
        group.check().unwrap();
        group.remove(&name(made)).await.unwrap();
        group.add_alias(&name(made), "big").await.unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn what_is_said_to_be_writable_is_writable() {
    let shapes = [
        Shape::default(),
        Shape { disks: 2, disk_bytes: 33 << 20, ..Shape::default() },
        Shape { disks: 3, redundancy: Redundancy::High, ..Shape::default() },
        Shape { disks: 2, redundancy: Redundancy::External, ..Shape::default() },
        Shape { disk_bytes: 210 << 20, au_size: 8 << 20, sector: 4096, ..Shape::default() },
    ];
    for (seed, shape) in (40..).zip(&shapes) {
        for names in [0, 3300, 4200, 9000] {
            let rig = Rig::new(seed, shape);
            rig.run(async {
                rig.create(shape).await.unwrap();
                let group = rig.mount().await.unwrap();
                let file = new_file(&group).await;
                group.publish(&file, "one", false).await.unwrap();
                for i in 0..names {
                    group.add_alias(&name(i), "one").await.unwrap();
                }
                let au_mb = shape.au_size >> 20;
                let (info, had) = (group.info(), file.size());
                let (mut size, step) = (had, shape.au_size);
                while file.allocate(size + step).await.is_ok() {
                    size += step;
                }
                let got = (size - had) >> 20;
                let off = got.abs_diff(info.writable_mb);
                assert!(off <= au_mb, "{shape:?}, {names}: {got} of {}", info.writable_mb);
                assert_eq!(group.info().writable_mb, 0);
                group.check().unwrap();
                group.dismount().await.unwrap();
            })
            .unwrap();
        }
    }
}

#[test]
fn a_disk_too_small_for_the_reserve_keeps_a_part_only() {
    // Large disks, and a small one that would be all reserve.
    let shape = Shape { disks: 4, disk_bytes: 300 << 30, ..Shape::default() };
    let rig = Rig::new(33, &shape);
    rig.run(async {
        let mut spec = rig.spec(&shape);
        spec.disks[0].size = Some(29 << 20);
        cellar_diskgroup::create(&rig.env(), spec).await.unwrap();
        let group = rig.mount().await.unwrap();
        let one = new_file(&group).await;
        group.publish(&one, "one", false).await.unwrap();
        for i in 0..100 {
            group.add_alias(&name(i), "one").await.unwrap();
        }
        let disks = group.disks();
        assert_eq!(disks[0].total_mb, 20 - 3 - 2, "checksums, areas, and an eighth kept");
        assert!(disks[1].total_mb > (300 << 10) - 400, "{} MB", disks[1].total_mb);
        one.set_size(20 << 30).await.unwrap();
        // The small disk is a metadata disk, and could not hold the map of so much.
        let error = one.set_size(400 << 30).await.unwrap_err();
        assert_eq!(error.number(), 15041, "{error}");
        group.mkdir("still", false).await.unwrap();
        group.dismount().await.unwrap();
        rig.mount().await.unwrap().dismount().await.unwrap();
    })
    .unwrap();
}
