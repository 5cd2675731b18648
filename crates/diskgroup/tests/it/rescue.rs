//! Rescue: every file comes out of any one full set of copies, whatever the other disks have lost at
//! their ends; what is lost is told, and nothing is ever made up.

use cellar_diskgroup::rescue::{Rescue, ToldBy, read_what_is_there, rescue};
use cellar_diskgroup::{Group, MountOptions, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, Io};
use cellar_wait::{Kind, Waits};

use crate::moves::{filled, pattern};
use crate::rig::{Rig, Shape};

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
    rescue(&rig.env(), &session, rig.found_of(which), &MountOptions::default()).await
}

/// Reads every file; how many bytes are lost.
async fn check(group: &Group, what: &str) -> u64 {
    let mut gone = 0;
    for (name, seed, size) in FILES {
        let file = group.open(name).unwrap();
        assert_eq!(file.size(), size, "{what}: {name}");
        for at in (0..size).step_by(MB as usize) {
            let end = (at + MB).min(size);
            let mut lost = Vec::new();
            let read = read_what_is_there(&file, at..end, &mut lost).await.unwrap();
            let mut wanted = pattern(seed, at, (end - at) as usize);
            for range in lost {
                wanted[(range.start - at) as usize..(range.end - at) as usize].fill(0);
                gone += range.end - range.start;
            }
            assert!(read == wanted, "{what}: {name} at {at}");
        }
    }
    gone
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
                    assert_eq!(check(&group.group, &what).await, 0, "{what}");
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
                    assert_eq!(check(&group.group, &what).await, 0, "{what}");
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
            let gone = check(&group.group, &format!("{whole:?}")).await;
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
        assert_eq!(check(&group.group, "beside an image").await, 0);
        let image = found.disks[1].unused.as_deref();
        assert!(image.is_some_and(|why| why.contains("older image")), "{found:?}");
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
        assert_eq!(check(&found.groups[0].group, "beside noise").await, 0);
        assert!(found.disks[0].of.is_none() && found.disks[0].unused.is_some(), "{found:?}");
    });
}
