//! Rescue: every file comes out of any one full set of copies, whatever the other disks have lost at
//! their ends; what is lost is told, and nothing is ever made up.

use cellar_diskgroup::on_disk::layout::SUPERBLOCKS;
use cellar_diskgroup::rescue::{Rescue, RescuedGroup, ToldBy, Unsure, read_what_is_there, rescue};
use cellar_diskgroup::{Group, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, Io};
use cellar_wait::{Kind, Waits};

use crate::moves::{filled, pattern};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
/// Name, seed of the content and size of each file.
const FILES: [(&str, u64, u64); 3] = [("f", 1, 12 * MB), ("g", 2, 64 << 10), ("h", 3, 5 * MB)];

/// How the group was left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Dismounted,
    Crashed,
}

async fn fill(rig: &Rig, shape: &Shape, left: Left) {
    rig.create(shape).await.unwrap();
    let group = rig.mount().await.unwrap();
    for (name, seed, size) in &FILES[..2] {
        drop(filled(&group, name, *seed, *size).await);
    }
    group.dismount().await.unwrap();
    let group = rig.mount().await.unwrap();
    let (name, seed, size) = FILES[2];
    drop(filled(&group, name, seed, size).await);
    match left {
        Left::Dismounted => group.dismount().await.unwrap(),
        Left::Crashed => {
            // Regions are dirty, and what they hold is known.
            let file = group.open("f").unwrap();
            let data = pattern(1, MB, MB as usize);
            file.write_at(Io::FOREGROUND, MB, data.into(), Durability::Cached).await.unwrap();
            group.abandon();
        }
    }
}

/// The first and the last MiB are gone.
fn wipe(rig: &Rig, disk: usize) {
    let device = &rig.disks[disk];
    let size = device.geometry().size;
    device.poke(0, &vec![0; MB as usize]);
    device.poke(size - MB, &vec![0; MB as usize]);
}

async fn rescued(rig: &Rig, which: &[usize]) -> Rescue {
    let session = Waits::new().session("rescue", Kind::Background);
    rescue(&rig.env(), &session, rig.found_of(which)).await
}

/// Reads every file: how many bytes are lost and how many doubtful. All others are right; those that are
/// doubtful are asked to be so only where nothing old is about.
async fn check(group: &RescuedGroup, nothing_old: bool, what: &str) -> (u64, u64) {
    let mut all = (0, 0);
    for (name, seed, size) in FILES {
        let file = group.group.open(name).unwrap();
        let doubtful = group.doubtful.open(name).unwrap();
        assert_eq!(file.size(), size, "{what}: {name}");
        for at in (0..size).step_by(MB as usize) {
            let end = (at + MB).min(size);
            let mut unsure = Unsure::default();
            let mut read =
                read_what_is_there(&file, &doubtful, at..end, &mut unsure).await.unwrap();
            let mut wanted = pattern(seed, at, (end - at) as usize);
            let mut blank = |range: &std::ops::Range<u64>| {
                let range = (range.start - at) as usize..(range.end - at) as usize;
                wanted[range.clone()].fill(0);
                read[range].fill(0);
            };
            unsure.lost.iter().for_each(&mut blank);
            unsure.doubtful.iter().filter(|_| !nothing_old).for_each(&mut blank);
            assert!(read == wanted, "{what}: {name} at {at}");
            let (lost, doubtful) = unsure.bytes();
            all = (all.0 + lost, all.1 + doubtful);
        }
    }
    all
}

/// Writes all of a file again.
async fn rewrite(group: &Group, name: &str, seed: u64, size: u64) {
    let file = group.open(name).unwrap();
    for at in (0..size).step_by(MB as usize) {
        let data = pattern(seed, at, (size - at).min(MB) as usize);
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.unwrap();
    }
    file.flush(Io::FOREGROUND).await.unwrap();
}

/// A group whose disks held something else before: images of that time, then what FILES says.
async fn with_images(rig: &Rig, shape: &Shape, which: &[usize]) -> Vec<cellar_io::sim::Snapshot> {
    rig.create(shape).await.unwrap();
    let group = rig.mount().await.unwrap();
    for (name, seed, size) in FILES {
        drop(filled(&group, name, seed + 50, size).await);
    }
    group.dismount().await.unwrap();
    let images = which.iter().map(|disk| rig.disks[*disk].snapshot()).collect();
    let group = rig.mount().await.unwrap();
    for (name, seed, size) in FILES {
        rewrite(&group, name, seed, size).await;
    }
    group.dismount().await.unwrap();
    images
}

/// A group, and sets of its disks that have everything.
type Sets<'a> = (fn() -> Shape, &'a [&'a [usize]]);

fn three() -> Shape {
    Shape { disks: 3, redundancy: Redundancy::High, ..Shape::default() }
}

fn pairs() -> Shape {
    Shape { failgroups: vec!["A", "A", "B", "B"], ..Shape::default() }
}

fn large() -> Shape {
    Shape { disks: 2, au_size: 4 * MB, disk_bytes: 120 * MB, sector: 4096, ..Shape::default() }
}

/// Whether any disks that are here have a copy of everything.
fn is_full(shape: &Shape, whole: &[usize]) -> bool {
    match shape.redundancy {
        Redundancy::High => !whole.is_empty(),
        _ if shape.failgroups.is_empty() => whole.len() + 1 >= shape.disks,
        _ => whole.len() == 2,
    }
}

#[test]
fn any_full_set_of_copies_gives_every_file_when_the_other_disks_lost_their_ends() {
    let sets: [Sets<'_>; 4] = [
        (three, &[&[0], &[1], &[2], &[]]),
        (pairs, &[&[0, 1], &[2, 3], &[]]),
        (Shape::default, &[&[0, 1, 2], &[1, 2, 3], &[0, 3], &[2], &[]]),
        (large, &[&[0], &[1], &[]]),
    ];
    for (seed, (shape, wholes)) in (60..).zip(sets) {
        for (left, wholes) in [(Left::Dismounted, wholes), (Left::Crashed, wholes)] {
            for whole in wholes {
                let shape = shape();
                let rig = Rig::new(seed, &shape);
                let what = format!("{shape:?}, {left:?}, whole {whole:?}");
                rig.run(async {
                    fill(&rig, &shape, left).await;
                    let all: Vec<usize> = (0..shape.disks).collect();
                    for disk in all.iter().filter(|disk| !whole.contains(disk)) {
                        wipe(&rig, *disk);
                    }
                    let found = rescued(&rig, &all).await;
                    assert!(found.failed.is_empty(), "{what}: {:?}", found.failed);
                    let [group] = &found.groups[..] else { panic!("{what}: {found:?}") };
                    assert!(group.missing.is_empty(), "{what}: {found:?}");
                    let (lost, doubtful) = check(group, true, &what).await;
                    assert_eq!(lost, 0, "{what}");
                    assert!(doubtful == 0 || !is_full(&shape, whole), "{what}: {doubtful}");
                    for (at, disk) in found.disks.iter().enumerate() {
                        let (_, name, by) = disk.of.as_ref().expect(&what);
                        assert_eq!(*name, format!("DATA_{at:04}"), "{what}");
                        assert_eq!(*by == ToldBy::Label, whole.contains(&at), "{what}: {by:?}");
                    }
                });
            }
        }
    }
}

#[test]
fn the_full_set_alone_is_enough_when_the_other_disks_are_not_there() {
    let sets: [Sets<'_>; 2] = [(three, &[&[0], &[1], &[2]]), (pairs, &[&[0, 1], &[2, 3]])];
    for (shape, wholes) in sets {
        for whole in wholes {
            for wiped in [false, true] {
                let shape = shape();
                let rig = Rig::new(70, &shape);
                let what = format!("{shape:?}, {whole:?}, wiped {wiped}");
                rig.run(async {
                    fill(&rig, &shape, Left::Dismounted).await;
                    if wiped {
                        whole.iter().for_each(|disk| wipe(&rig, *disk));
                    }
                    let found = rescued(&rig, whole).await;
                    let [group] = &found.groups[..] else { panic!("{what}: {found:?}") };
                    assert_eq!(group.missing.len(), shape.disks - whole.len(), "{what}");
                    let (lost, doubtful) = check(group, true, &what).await;
                    assert_eq!(lost, 0, "{what}");
                    // A majority of the metadata disks is not here: nothing can be shown to be new.
                    assert!(doubtful > 0 && !group.proven, "{what}: {doubtful}");
                });
            }
        }
    }
}

#[test]
fn what_no_disk_here_has_is_told_and_the_rest_is_right() {
    let shape = Shape { disks: 5, ..Shape::default() };
    let rig = Rig::new(71, &shape);
    rig.run(async {
        fill(&rig, &shape, Left::Dismounted).await;
        let all: u64 = FILES.iter().map(|(_, _, size)| size).sum();
        let mut before = 0;
        for whole in [&[0, 1, 2, 3][..], &[0, 1, 2], &[0, 3]] {
            let found = rescued(&rig, whole).await;
            let [group] = &found.groups[..] else { panic!("{found:?}") };
            let (gone, doubtful) = check(group, true, &format!("{whole:?}")).await;
            assert_eq!(doubtful > 0, whole.len() == 2, "{whole:?}");
            assert!(gone >= before && gone < all, "{gone} of {all} lost with {whole:?}");
            // Disks 0 to 2 hold the metadata.
            assert_eq!(group.proven, whole.len() > 2, "{found:?}");
            before = gone;
        }
        assert!(before > 0, "three of five disks had something of their own");
    });
}

#[test]
fn nothing_is_written_and_an_older_image_is_not_read() {
    let rig = Rig::new(72, &pairs());
    rig.run(async {
        rig.create(&pairs()).await.unwrap();
        let group = rig.mount().await.unwrap();
        drop(filled(&group, "f", 9, 12 * MB).await);
        group.dismount().await.unwrap();
        let image = rig.disks[1].snapshot();
        let group = rig.mount().await.unwrap();
        let file = group.open("f").unwrap();
        for at in (0..12 * MB).step_by(MB as usize) {
            let data = pattern(1, at, MB as usize);
            file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.unwrap();
        }
        for (name, seed, size) in &FILES[1..] {
            drop(filled(&group, name, *seed, *size).await);
        }
        group.dismount().await.unwrap();
        rig.disks[1].replace_with_snapshot(&image);
        wipe(&rig, 0);
        let before: Vec<Vec<u8>> = rig.disks.iter().map(|d| d.peek(0, d.geometry().size)).collect();
        let found = rescued(&rig, &[0, 1, 2, 3]).await;
        let [group] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!(check(group, false, "beside an image").await, (0, 0));
        let image = found.disks[1].unused.as_deref();
        assert!(image.is_some_and(|why| why.contains("older or newer")), "{found:?}");
        assert!(!group.proven, "an image is here");
        assert!(found.disks.iter().enumerate().all(|(i, d)| (i == 1) == d.unused.is_some()));
        for (disk, before) in rig.disks.iter().zip(before) {
            assert!(disk.peek(0, disk.geometry().size) == before, "nothing was written");
        }
    });
}

#[test]
fn what_is_no_disk_of_a_group_is_told_and_harms_nothing() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let rig = Rig::new(73, &shape);
    rig.run(async {
        let found = rescued(&rig, &[0, 1, 2]).await;
        assert!(found.groups.is_empty() && found.failed.is_empty(), "{found:?}");
        assert!(found.disks.iter().all(|d| d.unused.is_some()), "{found:?}");
        let mut spec = rig.spec(&shape);
        spec.disks.truncate(2);
        cellar_diskgroup::create(&rig.env(), spec).await.unwrap();
        let group = rig.mount_with(rig.found_of(&[0, 1]), Default::default()).await.unwrap();
        for (name, seed, size) in FILES {
            drop(filled(&group, name, seed, size).await);
        }
        group.dismount().await.unwrap();
        // Noise where anything of ours could be.
        let noise = pattern(77, 0, 20 << 20);
        rig.disks[2].poke(0, &noise);
        let found = rescued(&rig, &[2, 1, 0]).await;
        assert_eq!(check(&found.groups[0], true, "beside noise").await, (0, 0));
        assert!(found.disks[0].of.is_none() && found.disks[0].unused.is_some(), "{found:?}");
    });
}

#[test]
fn an_older_image_without_its_label_is_never_taken_for_the_disk() {
    // All three hold metadata; of four the last does not, and cannot be shown to be what it is.
    for (disks, old) in [(3, vec![1]), (3, vec![2]), (4, vec![3]), (4, vec![0, 3])] {
        let shape = Shape { disks, ..Shape::default() };
        let rig = Rig::new(74, &shape);
        rig.run(async {
            let images = with_images(&rig, &shape, &old).await;
            for (disk, image) in old.iter().zip(&images) {
                rig.disks[*disk].replace_with_snapshot(image);
                wipe(&rig, *disk);
            }
            let all: Vec<usize> = (0..disks).collect();
            let found = rescued(&rig, &all).await;
            let (_, doubtful) = check(&found.groups[0], false, &format!("{disks}, {old:?}")).await;
            assert!(doubtful == 0 || old.len() > 1, "{disks}, {old:?}: one copy is elsewhere");
            assert!(old.iter().all(|disk| !found.disks[*disk].sure), "{found:?}");
        });
    }
}

#[test]
fn of_two_that_are_one_disk_the_newer_is_read_in_any_order() {
    let shape = Shape { disks: 2, redundancy: Redundancy::External, ..Shape::default() };
    for wiped in [false, true] {
        let mut rig = Rig::new(75, &shape);
        let image = rig.sim.disk(
            "image",
            cellar_io::sim::SimDiskOptions { size: shape.disk_bytes, ..Default::default() },
        );
        rig.disks.push(image);
        let rig = rig;
        rig.run(async {
            let mut spec = rig.spec(&shape);
            spec.disks.truncate(2);
            cellar_diskgroup::create(&rig.env(), spec).await.unwrap();
            let two = || rig.mount_with(rig.found_of(&[0, 1]), Default::default());
            let group = two().await.unwrap();
            for (name, seed, size) in FILES {
                drop(filled(&group, name, seed + 50, size).await);
            }
            group.dismount().await.unwrap();
            rig.disks[2].replace_with_snapshot(&rig.disks[0].snapshot());
            let group = two().await.unwrap();
            for (name, seed, size) in FILES {
                rewrite(&group, name, seed, size).await;
            }
            group.dismount().await.unwrap();
            if wiped {
                wipe(&rig, 2);
            }
            for order in [[0, 1, 2], [2, 1, 0]] {
                let found = rescued(&rig, &order).await;
                assert_eq!(check(&found.groups[0], false, &format!("{order:?}")).await, (0, 0));
            }
        });
    }
}

#[test]
fn remains_of_a_group_that_was_there_before_are_not_read() {
    let shape = Shape { disks: 2, disk_bytes: 120 * MB, ..Shape::default() };
    let rig = Rig::new(76, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        for (name, seed, size) in FILES {
            drop(filled(&group, name, seed + 50, size).await);
        }
        group.drop_group(true).await.unwrap();
        let later = Shape { au_size: 4 * MB, ..shape.clone() };
        let mut spec = rig.spec(&later);
        spec.disks.iter_mut().for_each(|disk| disk.force = false);
        cellar_diskgroup::create(&rig.env(), spec).await.unwrap();
        let group = rig.mount().await.unwrap();
        for (name, seed, size) in FILES {
            drop(filled(&group, name, seed, size).await);
        }
        group.dismount().await.unwrap();
        for wiped in 0..=2 {
            (0..wiped).for_each(|disk| wipe(&rig, disk));
            let found = rescued(&rig, &[0, 1]).await;
            let [group] = &found.groups[..] else { panic!("{wiped}: {found:?}") };
            assert_eq!(check(group, true, &format!("{wiped} wiped")).await.0, 0);
        }
    });
}

#[test]
fn an_old_superblock_that_is_left_does_not_hide_what_is_newer() {
    let shape = Shape { disks: 2, ..Shape::default() };
    for left in 0..4 {
        let rig = Rig::new(77, &shape);
        rig.run(async {
            fill(&rig, &shape, Left::Dismounted).await;
            // More than four checkpoints: each slot has an older one than the next.
            for _ in 0..6 {
                let group = rig.mount().await.unwrap();
                for i in 0..220 {
                    group.mkdir(&format!("d{i}"), false).await.unwrap();
                    group.rmdir(&format!("d{i}"), true).await.unwrap();
                }
                group.dismount().await.unwrap();
            }
            for disk in &rig.disks {
                for (slot, at) in SUPERBLOCKS.iter().enumerate().filter(|(slot, _)| *slot != left) {
                    let _ = slot;
                    disk.poke(*at, &[0; 4096]);
                }
                // What cannot be read is lost, as what is zeros.
                disk.fail_reads(0..4096);
            }
            let found = rescued(&rig, &[0, 1]).await;
            let [group] = &found.groups[..] else { panic!("slot {left}: {found:?}") };
            assert_eq!(check(group, true, &format!("slot {left}")).await, (0, 0));
        });
    }
}

#[test]
fn what_has_a_wrong_checksum_is_not_given_out_as_right_after_a_crash() {
    let shape = Shape { disks: 1, redundancy: Redundancy::External, ..Shape::default() };
    let rig = Rig::new(78, &shape);
    rig.run(async {
        fill(&rig, &shape, Left::Crashed).await;
        let size = rig.disks[0].geometry().size;
        let wanted = pattern(1, MB + 8192, 4096);
        let at = (8 * MB..size).step_by(4096).find(|at| rig.disks[0].peek(*at, 4096) == wanted);
        rig.disks[0].corrupt(at.expect("it has a copy there"), 4096);
        wipe(&rig, 0);
        let found = rescued(&rig, &[0]).await;
        let (lost, doubtful) = check(&found.groups[0], false, "rot").await;
        assert!((4096..=65536).contains(&(lost + doubtful)), "{lost} {doubtful}");
    });
}

#[test]
fn a_disk_that_is_cut_off_gives_what_it_still_has() {
    let shape = Shape { disks: 1, redundancy: Redundancy::External, ..Shape::default() };
    let rig = Rig::new(79, &shape);
    rig.run(async {
        fill(&rig, &shape, Left::Dismounted).await;
        rig.disks[0].resize(shape.disk_bytes - 4 * MB);
        let found = rescued(&rig, &[0]).await;
        let [group] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!(check(group, true, "cut off").await, (0, 0));
    });
}

#[test]
fn a_history_of_before_gives_nothing_as_sure_and_the_real_disk_comes_before_its_image() {
    let shape = Shape { disks: 5, ..Shape::default() };
    let rig = Rig::new(80, &shape);
    rig.run(async {
        // The metadata disks are put back from before all was written anew.
        let images = with_images(&rig, &shape, &[0, 1, 2]).await;
        let real: Vec<_> = (0..3).map(|disk| rig.disks[disk].snapshot()).collect();
        (0..3).for_each(|disk| rig.disks[disk].replace_with_snapshot(&images[disk]));
        let found = rescued(&rig, &[0, 1, 2, 3, 4]).await;
        let group = &found.groups[0];
        assert!(!group.proven, "{found:?}");
        let (lost, doubtful) =
            check_old(group, &FILES.map(|(n, seed, size)| (n, seed + 50, size))).await;
        assert!(lost + doubtful > 0, "disks 3 and 4 are newer than what is told");
        // One of two metadata disks that is told has its end: not enough.
        (0..3).for_each(|disk| rig.disks[disk].replace_with_snapshot(&real[disk]));
        let alone = rescued(&rig, &[0, 3, 4]).await;
        let group = &alone.groups[0];
        assert!(!group.proven && alone.disks.iter().all(|disk| !disk.sure), "{alone:?}");
        assert!(check(group, true, "one of three").await.1 > 0);
    });
}

/// As [`check`], of what was there before.
async fn check_old(group: &RescuedGroup, files: &[(&str, u64, u64)]) -> (u64, u64) {
    let mut all = (0, 0);
    for (name, seed, size) in files {
        let (file, other) = (group.group.open(name).unwrap(), group.doubtful.open(name).unwrap());
        for at in (0..*size).step_by(4096) {
            let mut unsure = Unsure::default();
            let range = at..at + 4096;
            let read = read_what_is_there(&file, &other, range, &mut unsure).await.unwrap();
            let (lost, doubtful) = unsure.bytes();
            assert!(lost + doubtful > 0 || read == pattern(*seed, at, 4096), "{name} at {at}");
            all = (all.0 + lost, all.1 + doubtful);
        }
    }
    all
}
