//! Disks that are refused: older images, disks of a copy of the group that was used apart, disks that
//! were cut off. They count as missing; the majority goes on; what was acknowledged is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::rescue::{Unsure, read_what_is_older, read_what_is_there, rescue};
use cellar_diskgroup::{
    DiskStatus, Error, FoundDisk, Group, MountOptions, OnlineHow, Redundancy, Refused,
};
use cellar_io::{
    Buffer, Device, DeviceExt, Discard, Durability, EnvExt, Geometry, Io, IoError, IoErrorKind,
    IoFuture, OPEN_FILES, Op,
};

use crate::moves::{check_content, filled, pattern, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
const BYTES: u64 = 8 * MB;

fn forced() -> MountOptions {
    MountOptions { force: true, ..MountOptions::default() }
}

async fn rewritten(group: &Group, seed: u64) {
    let file = group.open("f").expect("there");
    for at in (0..BYTES).step_by(MB as usize) {
        let data = pattern(seed, at, MB as usize);
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.expect("written");
    }
    file.flush(Io::FOREGROUND).await.expect("flushed");
}

/// A mount, the file written anew, a dismount.
async fn used(rig: &Rig, seed: u64) {
    let group = rig.mount().await.expect("mounted");
    rewritten(&group, seed).await;
    group.dismount().await.expect("dismounted");
}

async fn made(rig: &Rig, shape: &Shape) {
    rig.create(shape).await.expect("created");
    let group = rig.mount().await.expect("mounted");
    drop(filled(&group, "f", 1, BYTES).await);
    group.dismount().await.expect("dismounted");
}

fn refused(group: &Group) -> Vec<(u16, Refused)> {
    group.disks().iter().filter_map(|d| Some((d.number, d.refused?))).collect()
}

/// What keeps a group from being mounted.
async fn why(rig: &Rig, found: Vec<FoundDisk>, options: MountOptions) -> Error {
    let refused = rig.mount_with(found, options).await.expect_err("not mounted");
    rig.env().sleep(Duration::from_secs(1)).await;
    refused
}

#[test]
fn older_images_of_a_minority_lose_nothing_and_the_group_opens() {
    for seed in 0..24u64 {
        let high = seed % 3 == 2;
        let disks = if high { 5 } else { 3 + (seed % 3) as usize };
        let redundancy = if high { Redundancy::High } else { Redundancy::Normal };
        let shape = Shape { disks, redundancy, ..Shape::default() };
        let rig = Rig::new(seed, &shape);
        rig.run(async {
            made(&rig, &shape).await;
            let chance = |n: u64| rig.env().random() % n;
            let minority = if high { 2 } else { 1 };
            let mut images = Vec::new();
            let first = chance(disks as u64) as usize;
            let mut last = 1;
            for step in 0..3 + chance(3) {
                if step == 1 {
                    for disk in (first..first + minority).map(|at| at % disks) {
                        images.push((disk, rig.disks[disk].snapshot()));
                    }
                }
                last = 2 + step;
                let group = rig.mount().await.expect("mounted");
                rewritten(&group, last).await;
                // A crash now and then: what was flushed is there.
                match chance(3) {
                    0 => group.abandon(),
                    _ => group.dismount().await.expect("dismounted"),
                }
                rig.env().sleep(Duration::from_secs(1)).await;
            }
            for (disk, image) in &images {
                rig.disks[*disk].replace_with_snapshot(image);
            }
            let group = rig.mount().await.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let out: Vec<u16> = refused(&group).iter().map(|(no, _)| *no).collect();
            let mut replaced: Vec<u16> = images.iter().map(|(disk, _)| *disk as u16).collect();
            replaced.sort_unstable();
            assert_eq!(out, replaced, "seed {seed}");
            check_content(&group.open("f").expect("there"), last, BYTES).await;
            // And they come back, copied anew.
            for disk in group.disks().iter().filter(|d| out.contains(&d.number)) {
                let found = rig.found_of(&[usize::from(disk.number)]).remove(0);
                let how = OnlineHow { force: true, power: None };
                group.online_disk(&disk.name, found, how).await.expect("taken");
            }
            group.wait_returned().await.expect("all of it copied");
            assert!(group.disks().iter().all(|d| d.in_sync), "seed {seed}");
            check_content(&group.open("f").expect("there"), last, BYTES).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

#[test]
fn older_images_of_a_majority_are_refused_and_force_goes_on_with_the_newest() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(61, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let images = [1, 2].map(|disk| rig.disks[disk].snapshot());
        used(&rig, 2).await;
        used(&rig, 3).await;
        let now = [1, 2].map(|disk| rig.disks[disk].snapshot());
        let put = |images: &[_; 2]| {
            for (disk, image) in [1, 2].iter().zip(images) {
                rig.disks[*disk].replace_with_snapshot(image);
            }
        };
        put(&images);
        let error = why(&rig, rig.found(), MountOptions::default()).await;
        assert_eq!(error.number(), 15063, "as if they were missing: {error}");
        let text = error.to_string();
        for word in ["DATA_0001 (/sim/disk1: an older image", "DATA_0002 (/sim/disk2: an older"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(text.contains("newest state was read from DATA_0000"), "{text}");
        // Nothing was changed by that.
        put(&now);
        let group = rig.mount().await.expect("as it was");
        assert!(group.disks().iter().all(|d| d.in_sync));
        check_content(&group.open("f").expect("there"), 3, BYTES).await;
        group.dismount().await.expect("dismounted");
        // The newest is what FORCE goes on with, where any disk has it.
        put(&images);
        let group = rig.mount_with(rig.found(), forced()).await.expect("forced");
        let file = group.open("f").expect("there");
        for at in (0..BYTES).step_by(4096) {
            let read = file.read_at(Io::FOREGROUND, at, 4096).await.expect("read");
            assert!([1, 3].iter().any(|seed| read[..] == pattern(*seed, at, 4096)[..]));
        }
        drop(file);
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounts again");
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn what_force_took_from_older_images_is_named_until_it_is_made_anew() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(65, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let lost = [2, partner(&rig).await];
        let images = lost.map(|disk| rig.disks[disk].snapshot());
        used(&rig, 2).await;
        for (disk, image) in lost.iter().zip(&images) {
            rig.disks[*disk].replace_with_snapshot(image);
        }
        let error = why(&rig, rig.found(), MountOptions::default()).await;
        assert_eq!(error.number(), 15063, "{error}");
        assert!(error.to_string().contains("file +DATA/f has no whole copy"), "{error}");
        let group = rig.mount_with(rig.found(), forced()).await.expect("forced");
        assert_eq!(group.taken_older().files, ["f"], "what may be old is named");
        drop(filled(&group, "g", 5, MB).await);
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounts again");
        assert_eq!(group.taken_older().files, ["f"], "also by the next mount");
        group.remove("f").await.expect("deleted");
        assert_eq!(group.taken_older().files, [""; 0], "until it is made anew");
        group.dismount().await.expect("dismounted");
    });
}

/// A group of `disks`, and its disks as they are in a copy of it that was used apart: the group once
/// more, the copy `more` times; with `alone` only by FORCE on that one disk.
fn copied(disks: usize, alone: Option<usize>, more: u64, then: impl AsyncFnOnce(&Rig)) {
    let shape = Shape { disks, ..Shape::default() };
    let rig = Rig::new(62, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let before: Vec<_> = rig.disks.iter().map(|disk| disk.snapshot()).collect();
        for time in 0..more {
            match alone {
                None => used(&rig, 10 + time).await,
                Some(disk) => {
                    let group = rig.mount_with(rig.found_of(&[disk]), forced()).await;
                    // With one disk of a mirrored group not all can be there.
                    if let Ok(group) = group {
                        group.dismount().await.expect("dismounted");
                    }
                }
            }
        }
        let other = rig.disks[1].snapshot();
        for (disk, image) in rig.disks.iter().zip(&before) {
            disk.replace_with_snapshot(image);
        }
        used(&rig, 2).await;
        rig.disks[1].replace_with_snapshot(&other);
        then(&rig).await;
    });
}

#[test]
fn a_disk_of_a_copy_that_was_used_apart_is_told_and_the_others_go_on() {
    for more in [1, 2, 5] {
        copied(3, None, more, async |rig| {
            let look = MountOptions { read_only: true, ..MountOptions::default() };
            for options in [look, MountOptions::default()] {
                let group = rig.mount_with(rig.found(), options).await.expect("two of three");
                assert_eq!(refused(&group), [(1, Refused::Apart)], "{more} times");
                check_content(&group.open("f").expect("there"), 2, BYTES).await;
                group.dismount().await.expect("dismounted");
            }
            let group = rig.mount().await.expect("mounted");
            let out = group.disks().into_iter().find(|d| d.number == 1).expect("known");
            assert_eq!(out.status, DiskStatus::Offline);
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

#[test]
fn of_a_pair_and_its_copy_nobody_chooses() {
    copied(2, None, 3, async |rig| {
        for options in [MountOptions::default(), forced()] {
            let error = why(rig, rig.found(), options).await;
            assert_eq!(error.number(), 70131, "{error}");
            let text = error.to_string();
            assert!(text.contains("DATA_0000 (/sim/disk0)"), "{text}");
            assert!(text.contains("DATA_0001 (/sim/disk1)"), "{text}");
        }
        // The way out that is told: the other one is taken away.
        let group = rig.mount_with(rig.found_of(&[0]), forced()).await.expect("forced");
        check_content(&group.open("f").expect("there"), 2, BYTES).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_disk_that_was_cut_off_is_told_with_its_size_and_comes_back_anew() {
    for bytes in [20 * MB, 3 * MB, 65536] {
        let shape = Shape { disks: 4, ..Shape::default() };
        let rig = Rig::new(63, &shape);
        rig.run(async {
            made(&rig, &shape).await;
            let cut = Refused::CutOff { bytes, due: shape.disk_bytes };
            rig.disks[2].resize(bytes);
            let group = rig.mount().await.expect("mounted without it");
            assert_eq!(refused(&group), [(2, cut)]);
            rewritten(&group, 2).await;
            group.dismount().await.expect("dismounted");
            let group = rig.mount().await.expect("mounted");
            assert_eq!(refused(&group), [(2, cut)], "still");
            // As long as before, and empty where it was cut off: it is not what it was.
            rig.disks[2].resize(shape.disk_bytes);
            let found = || rig.found_of(&[2]).remove(0);
            let name = group.disks()[2].name.clone();
            let error = group.online_disk(&name, found(), OnlineHow::default()).await;
            assert_eq!(error.expect_err("it lacks what was there").number(), 15281);
            let how = OnlineHow { force: true, power: None };
            group.online_disk(&name, found(), how).await.expect("copied anew");
            group.wait_returned().await.expect("all of it");
            assert!(group.disks().iter().all(|d| d.in_sync));
            check_content(&group.open("f").expect("there"), 2, BYTES).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

/// A disk with which disk 2 of four shares extents: with both away something has no copy.
async fn partner(rig: &Rig) -> usize {
    for other in [0, 1, 3] {
        let left: Vec<usize> = (0..4).filter(|disk| *disk != 2 && *disk != other).collect();
        let look = MountOptions { read_only: true, force: true, ..MountOptions::default() };
        match rig.mount_with(rig.found_of(&left), look).await {
            Ok(group) => group.dismount().await.expect("dismounted"),
            Err(_) => return other,
        }
    }
    panic!("every extent has two copies");
}

#[test]
fn a_copy_that_missed_nothing_is_current_wherever_the_mount_is_cut_off() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(64, &shape);
    let images = rig.run(async {
        made(&rig, &shape).await;
        let group = rig.mount().await.expect("mounted");
        group.offline_disks(&["DATA_0002".to_owned()], None).await.expect("offline");
        group.dismount().await.expect("dismounted");
        let lost = partner(&rig).await;
        (rig.disks.iter().map(|disk| disk.snapshot()).collect::<Vec<_>>(), lost)
    });
    let (images, lost) = images.expect("it ends");
    let without: Vec<usize> = (0..4).filter(|disk| *disk != lost).collect();
    let life = |cut: Option<u64>| {
        let rig = Rig::new(64, &shape);
        for (disk, image) in rig.disks.iter().zip(&images) {
            disk.replace_with_snapshot(image);
        }
        let mounted = async || {
            let found = rig.found_of(&without);
            rig.mount_with(found, MountOptions::default()).await
        };
        let events = rig.run(async {
            let before = rig.sim.io_events();
            if let Some(cut) = cut {
                rig.sim.crash_after(1 + cut);
            }
            let group = mounted().await.expect("all is there");
            let events = rig.sim.io_events() - before;
            if cut.is_none() {
                rewritten(&group, 5).await;
            }
            group.dismount().await.expect("dismounted");
            events
        });
        if cut.is_some() && events.is_none() {
            rig.sim.restart();
        }
        rig.run(async {
            let look = MountOptions { read_only: true, ..MountOptions::default() };
            let group = rig.mount_with(rig.found_of(&without), look).await;
            let group = group.unwrap_or_else(|e| panic!("cut {cut:?}: {e}"));
            assert_eq!(group.copied().lost, Vec::<String>::new(), "cut {cut:?}");
            group.dismount().await.expect("dismounted");
            let group = mounted().await.unwrap_or_else(|e| panic!("cut {cut:?}: {e}"));
            let disk = group.disks().into_iter().find(|d| d.number == 2).expect("known");
            assert!(disk.in_sync, "cut {cut:?}: {disk:?}");
            let file = group.open("f").expect("there");
            for at in (0..BYTES).step_by(MB as usize) {
                let read = file.read_at(Io::FOREGROUND, at, MB as usize).await.expect("read");
                let is = |seed| read[..] == pattern(seed, at, MB as usize)[..];
                assert!(is(if cut.is_none() { 5 } else { 1 }), "cut {cut:?}: at {at}");
            }
            drop(file);
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
        events
    };
    let events = life(None).expect("it ends");
    for cut in (0..events).step_by(2) {
        life(Some(cut));
    }
    eprintln!("cut at every second of {events} I/Os of the mount");
}

#[test]
fn a_copy_that_missed_something_is_not_current() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(65, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let group = rig.mount().await.expect("mounted");
        group.offline_disks(&["DATA_0002".to_owned()], None).await.expect("offline");
        rewritten(&group, 2).await;
        group.dismount().await.expect("dismounted");
        let lost = partner(&rig).await;
        let left: Vec<usize> = (0..4).filter(|disk| *disk != lost).collect();
        let found = rig.found_of(&left);
        let error = why(&rig, found, MountOptions::default()).await;
        assert_eq!(error.number(), 15040, "{error}");
        let group = rig.mount().await.expect("with the other one");
        check_content(&group.open("f").expect("there"), 2, BYTES).await;
        group.dismount().await.expect("dismounted");
    });
}

/// A disk that a process cannot ask, while it lacks descriptors.
struct Lacking {
    disk: Arc<dyn Device>,
    lacks: Arc<AtomicBool>,
}

impl Lacking {
    fn check(&self, op: Op) -> Result<(), IoError> {
        let kind = IoErrorKind::Exhausted { what: OPEN_FILES };
        match self.lacks.load(Ordering::SeqCst) {
            true => Err(IoError::new(kind, &self.disk.geometry().name, op, 0, 0)),
            false => Ok(()),
        }
    }
}

impl Device for Lacking {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move {
            self.check(Op::Read)?;
            self.disk.read(io, offset, buffers).await
        })
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.check(Op::Write)?;
            self.disk.write(io, offset, data, durability).await
        })
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.check(Op::Flush)?;
            self.disk.flush(io).await
        })
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move { self.disk.discard(io, offset, length, how).await })
    }
}

#[test]
fn what_this_process_lacks_takes_no_disk_out() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(66, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let lacks = Arc::new(AtomicBool::new(true));
        let found = || {
            let mut found = rig.found();
            for at in &mut found[1..3] {
                let (disk, lacks) = (Arc::clone(&at.device), Arc::clone(&lacks));
                at.device = Arc::new(Lacking { disk, lacks });
            }
            found
        };
        let error = why(&rig, found(), MountOptions::default()).await;
        assert!(error.to_string().contains("EMFILE"), "{error}");
        lacks.store(false, Ordering::SeqCst);
        let group = rig.mount_with(found(), MountOptions::default()).await.expect("mounted");
        assert!(group.disks().iter().all(|d| d.in_sync), "none was left out");
        // While it is in use: it stops, and nobody leaves.
        lacks.store(true, Ordering::SeqCst);
        let file = group.open("f").expect("there");
        let mut stopped = false;
        for at in (0..BYTES).step_by(MB as usize) {
            let data = pattern(2, at, MB as usize);
            let write = file.write_at(Io::FOREGROUND, at, data.into(), Durability::Durable);
            stopped |= write.await.is_err();
        }
        assert!(stopped && group.info().stopped.is_some());
        drop(file);
        drop(group);
        rig.env().sleep(Duration::from_secs(1)).await;
        lacks.store(false, Ordering::SeqCst);
        let group = rig.mount_with(found(), MountOptions::default()).await.expect("mounted");
        assert!(group.disks().iter().all(|d| d.in_sync), "none was left out");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_stale_copy_is_read_on_demand_and_told_as_that() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(67, &shape);
    rig.run(async {
        made(&rig, &shape).await;
        let group = rig.mount().await.expect("mounted");
        group.offline_disks(&["DATA_0002".to_owned()], None).await.expect("offline");
        rewritten(&group, 2).await;
        group.dismount().await.expect("dismounted");
        let lost = partner(&rig).await;
        let left: Vec<usize> = (0..4).filter(|disk| *disk != lost).collect();
        let session = cellar_wait::Waits::new().session("rescue", cellar_wait::Kind::Background);
        let mut rescue = rescue(&rig.env(), &session, rig.found_of(&left)).await;
        let group = rescue.groups.pop().unwrap_or_else(|| panic!("{:?}", rescue.failed));
        let (lost, doubtful) = group.lost_of("f");
        assert!(lost > 0 && doubtful == 0, "{lost} lost, {doubtful} doubtful");
        assert_eq!(group.stale_of("f"), lost, "the disk that was away has all of it, as it was");
        let stale = group.stale.as_ref().expect("DATA_0002");
        assert_eq!(
            stale.disks.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["DATA_0002"]
        );
        assert!(stale.disks[0].1 > 0, "when it left is known");
        // What is listed is what comes out: with it and without.
        for older in [None, Some(&stale.group)] {
            let open = |group: &Group| group.open("f").expect("there");
            let (file, other) = (open(&group.group), open(&group.doubtful));
            let mut unsure = Unsure::default();
            for at in (0..BYTES).step_by(MB as usize) {
                let mut found = Unsure::default();
                let range = at..at + MB;
                let read = read_what_is_there(&file, &other, range, &mut found).await;
                let mut read = read.expect("read");
                if let Some(older) = older {
                    let older = open(older);
                    read_what_is_older(&older, at, &mut read, &mut found).await.expect("read");
                }
                let is_any = |seed| read[..] == pattern(seed, at, MB as usize)[..];
                let zeros = read.iter().all(|byte| *byte == 0);
                assert!(is_any(2) || older.is_some() && is_any(1) || older.is_none() && zeros);
                unsure.append(found);
            }
            let sum = |ranges: &[std::ops::Range<u64>]| -> u64 {
                ranges.iter().map(|range| range.end - range.start).sum()
            };
            let wanted = if older.is_some() { (0, lost) } else { (lost, 0) };
            assert_eq!((sum(&unsure.lost), sum(&unsure.stale)), wanted);
        }
    });
}
