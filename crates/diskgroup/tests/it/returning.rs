//! Disks that leave for a while: what they missed, and only that, is copied when they return.

use std::time::Duration;

use cellar_diskgroup::{
    DiskInfo, DiskStatus, Error, FoundDisk, Group, MountOptions, NewDisk, OnlineHow,
};
use cellar_io::sim::Rng;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use crate::moves::{check_content, filled, pattern, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
const PIECE: u64 = 64 << 10;

fn shape() -> Shape {
    Shape { disks: 4, disk_bytes: 80 * MB, ..Shape::default() }
}

/// A group with a file of 40 MB, mounted.
async fn group(rig: &Rig, shape: &Shape) -> Group {
    rig.create(shape).await.expect("created");
    let group = rig.mount().await.expect("mounted");
    drop(filled(&group, "f", 1, 40 * MB).await);
    group
}

fn disk(group: &Group, number: u16) -> DiskInfo {
    group.disks().into_iter().find(|d| d.number == number).expect("it is known")
}

fn found(rig: &Rig, i: usize) -> FoundDisk {
    rig.found_of(&[i]).remove(0)
}

/// Rewrites 8 KB at so many places of the file; gives the pieces that this touches.
async fn rewrite_some(group: &Group, seed: u64, count: u64) -> std::collections::BTreeSet<u64> {
    let file = group.open("f").expect("there");
    let mut rng = Rng::stream(seed, 1);
    let mut pieces = std::collections::BTreeSet::new();
    for _ in 0..count {
        let at = rng.below(40 * MB / 8192) * 8192;
        let data = pattern(1, at, 8192);
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.expect("written");
        pieces.insert(at / PIECE);
    }
    file.flush(Io::FOREGROUND).await.expect("flushed");
    pieces
}

async fn offline(group: &Group, number: u16) {
    let name = disk(group, number).name;
    group.offline_disks(&[name], None).await.expect("it can be done without");
    assert_eq!(disk(group, number).status, DiskStatus::Offline);
}

async fn online(rig: &Rig, group: &Group, number: u16) {
    let name = disk(group, number).name;
    let found = found(rig, number.into());
    group.online_disk(&name, found, OnlineHow::default()).await.expect("it comes back");
}

#[test]
fn only_what_a_disk_missed_is_copied() {
    let rig = Rig::new(70, &shape());
    rig.run(async {
        let group = group(&rig, &shape()).await;
        offline(&group, 1).await;
        let before = disk(&group, 1).counters["bytes_written"];
        let pieces = rewrite_some(&group, 3, 60).await;
        // Regions that are clean again are known to the piece.
        rig.env().sleep(Duration::from_secs(10)).await;
        let missed = group.away_disks()[0].missed.expect("it is known");
        let now = disk(&group, 1).counters["bytes_written"];
        assert_eq!(before, now, "what is away is not written to");
        online(&rig, &group, 1).await;
        group.wait_returned().await.expect("it has everything");
        assert_eq!(disk(&group, 1).status, DiskStatus::Online);
        let written = disk(&group, 1).counters["bytes_written"];
        // About half of the extents have a copy on one of four disks.
        assert!(missed <= pieces.len() as u64 * PIECE && missed > 0, "{missed}");
        assert!(written >= missed && written < missed + MB, "{written} for {missed}");
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn a_resync_that_was_cut_off_goes_on_where_it_was() {
    let rig = Rig::new(71, &shape());
    let all = rig
        .run(async {
            let group = group(&rig, &shape()).await;
            offline(&group, 1).await;
            rewrite_some(&group, 3, 2000).await;
            rig.env().sleep(Duration::from_secs(10)).await;
            let all = group.away_disks()[0].missed.expect("it is known");
            // Nothing is dirty, so nothing else counts as missed.
            group.dismount().await.expect("dismounted");
            all
        })
        .expect("no crash");
    let (mut cuts, mut left) = (0, all);
    let copied = loop {
        rig.sim.crash_after(if cuts == 0 { 1000 } else { 600 + 50 * cuts });
        let ended = rig.run(async {
            let group = rig.mount().await.expect("mounted");
            if cuts == 0 {
                online(&rig, &group, 1).await;
            }
            while disk(&group, 1).status != DiskStatus::Online {
                rig.env().sleep(Duration::from_millis(1)).await;
                group.wait_returned().await.expect("it goes on");
            }
            let written = disk(&group, 1).counters["bytes_written"];
            group.dismount().await.expect("dismounted");
            written
        });
        rig.sim.crash_never();
        if let Some(written) = ended {
            break written;
        }
        rig.sim.restart();
        cuts += 1;
        let read_only = MountOptions { read_only: true, ..MountOptions::default() };
        let now = rig.run(async {
            let group = rig.mount_with(rig.found(), read_only).await.expect("to look at");
            let left = group.returns().first().map(|d| d.bytes_total);
            left.or(group.away_disks().first().and_then(|d| d.missed)).unwrap_or(0)
        });
        let now = now.expect("no crash");
        assert!(now <= left, "{now} left, {left} before");
        left = now;
    };
    assert!(cuts > 2 && copied < all, "{copied} of {all} at last, after {cuts} cuts");
    rig.run(async {
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn a_disk_that_was_missing_comes_back_with_the_next_mount_unless_somebody_took_it_offline() {
    let rig = Rig::new(72, &shape());
    rig.run(async {
        let group = group(&rig, &shape()).await;
        rig.disks[2].vanish();
        rewrite_some(&group, 5, 50).await;
        assert_eq!(disk(&group, 2).status, DiskStatus::Offline);
        group.dismount().await.expect("dismounted");
        rig.disks[2].come_back();
        let group = rig.mount().await.expect("mounted");
        rig.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(disk(&group, 2).status, DiskStatus::Online);
        sound(&group).await;
        offline(&group, 2).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        rig.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(disk(&group, 2).status, DiskStatus::Offline, "it stays away");
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn an_older_image_is_refused_and_force_copies_all_of_it() {
    let rig = Rig::new(73, &shape());
    rig.run(async {
        let group = group(&rig, &shape()).await;
        group.dismount().await.expect("dismounted");
        let image = rig.disks[1].snapshot();
        let group = rig.mount().await.expect("mounted");
        rewrite_some(&group, 6, 50).await;
        let name = disk(&group, 1).name;
        offline(&group, 1).await;
        rig.disks[1].replace_with_snapshot(&image);
        let refused = group.online_disk(&name, found(&rig, 1), OnlineHow::default()).await;
        assert!(matches!(refused, Err(Error::Diverged { .. })), "{refused:?}");
        assert_eq!(disk(&group, 1).status, DiskStatus::Offline);
        let how = OnlineHow { force: true, power: None };
        group.online_disk(&name, found(&rig, 1), how).await.expect("all of it anew");
        group.wait_returned().await.expect("it has everything");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn a_disk_that_went_on_alone_does_not_come_back_as_it_is() {
    let shape = Shape { disks: 2, ..shape() };
    let rig = Rig::new(74, &shape);
    rig.run(async {
        let group = group(&rig, &shape).await;
        rig.disks[0].vanish();
        rewrite_some(&group, 5, 20).await;
        assert_eq!(disk(&group, 0).status, DiskStatus::Offline);
        group.dismount().await.expect("dismounted");
        rig.disks[0].come_back();
        let alone = rig.disks[1].snapshot();
        // The one that was left behind is forced, and goes on.
        let force = MountOptions { force: true, ..MountOptions::default() };
        let group = rig.mount_with(rig.found_of(&[0]), force).await.expect("forced");
        rewrite_some(&group, 8, 20).await;
        let name = disk(&group, 1).name;
        rig.disks[1].replace_with_snapshot(&alone);
        let back = group.online_disk(&name, found(&rig, 1), OnlineHow::default()).await;
        assert!(matches!(back, Err(Error::Diverged { .. })), "it may know more: {back:?}");
        let how = OnlineHow { force: true, power: None };
        group.online_disk(&name, found(&rig, 1), how).await.expect("given up");
        group.wait_returned().await.expect("it has everything");
        group.dismount().await.expect("dismounted");
        // The history that it went on with is gone: the pair is one again.
        let group = rig.mount().await.expect("mounted");
        assert!(group.disks().iter().all(|d| d.status == DiskStatus::Online));
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn another_device_takes_the_place_of_a_disk_that_is_gone() {
    let shape = shape();
    let mut rig = Rig::new(75, &shape);
    let size = |mb: u64| cellar_io::sim::SimDiskOptions { size: mb * MB, ..Default::default() };
    rig.disks.push(rig.sim.disk("disk4", size(60)));
    rig.disks.push(rig.sim.disk("disk5", size(100)));
    let shape = Shape { disks: 4, ..shape };
    rig.run(async {
        let mut spec = rig.spec(&shape);
        spec.disks.truncate(4);
        cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        drop(filled(&group, "f", 1, 40 * MB).await);
        rig.disks[3].vanish();
        rewrite_some(&group, 5, 50).await;
        let name = disk(&group, 3).name;
        let new = |i: usize| NewDisk {
            device: found(&rig, i).device,
            path: format!("/sim/disk{i}"),
            name: None,
            failgroup: None,
            size: None,
            force: false,
        };
        let small = group.replace_disk(&name, new(4), None).await;
        assert!(matches!(small, Err(Error::DiskUnusable { number: 15036, .. })), "{small:?}");
        group.replace_disk(&name, new(5), None).await.expect("taken");
        rewrite_some(&group, 6, 50).await;
        group.wait_returned().await.expect("it has everything");
        assert_eq!(disk(&group, 3).path.as_deref(), Some("/sim/disk5"));
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        // The old one is nobody's, the new one is one of the four.
        rig.disks[3].come_back();
        let group = rig.mount().await.expect("mounted");
        assert!(group.disks().iter().all(|d| d.status == DiskStatus::Online));
        // Any other may be lost now.
        rig.disks[0].vanish();
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn a_disk_that_stays_away_is_dropped_when_its_time_is_over_and_there_is_room() {
    for room in [true, false] {
        let shape = Shape { disks: if room { 4 } else { 2 }, ..shape() };
        let rig = Rig::new(76, &shape);
        rig.run(async {
            let group = group(&rig, &shape).await;
            group.set_attribute("disk_repair_time", "1m").await.expect("set");
            rig.disks[1].vanish();
            rewrite_some(&group, 5, 20).await;
            let away = group.away_disks().remove(0);
            assert!(away.drop_in <= Duration::from_secs(60), "{away:?}");
            assert_eq!(away.stuck.is_none(), room, "{away:?}");
            assert_eq!(away.rebuild > 0, room, "{away:?}");
            rig.env().sleep(Duration::from_secs(30)).await;
            assert_eq!(group.disks().len(), shape.disks, "not yet");
            rig.env().sleep(Duration::from_secs(300)).await;
            let disks = group.disks();
            if room {
                assert_eq!(disks.len(), 3, "{disks:?}");
                assert!(group.losses().iter().all(|loss| !loss.data), "all is mirrored again");
            } else {
                assert_eq!(disk(&group, 1).status, DiskStatus::Offline, "it may still return");
                rig.disks[1].come_back();
                online(&rig, &group, 1).await;
                group.wait_returned().await.expect("it has everything");
            }
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        })
        .expect("no crash");
    }
}

#[test]
fn a_time_that_ran_out_while_nothing_was_mounted_leaves_time_to_plug_it_in() {
    let rig = Rig::new(77, &shape());
    rig.run(async {
        let group = group(&rig, &shape()).await;
        group.set_attribute("disk_repair_time", "1h").await.expect("set");
        rig.disks[1].vanish();
        rewrite_some(&group, 5, 20).await;
        group.dismount().await.expect("dismounted");
        rig.env().sleep(Duration::from_secs(2000)).await;
        let group = rig.mount().await.expect("mounted");
        let left = group.away_disks().remove(0).drop_in;
        assert!(left > Duration::from_secs(1500) && left < Duration::from_secs(1650), "{left:?}");
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn a_disk_with_the_last_copy_of_anything_is_not_taken_offline() {
    let rig = Rig::new(78, &shape());
    rig.run(async {
        let group = group(&rig, &shape()).await;
        offline(&group, 1).await;
        let last: Vec<String> =
            group.losses().into_iter().filter(|l| l.data).map(|l| l.failgroup).collect();
        assert!(!last.is_empty());
        // Each disk is a failure group of its name.
        for name in last {
            let refused = group.offline_disks(&[name], None).await;
            assert!(matches!(refused, Err(Error::CannotOffline { .. })), "{refused:?}");
        }
        online(&rig, &group, 1).await;
        let twice = group.online_disk("DATA_0001", found(&rig, 1), OnlineHow::default()).await;
        assert!(matches!(twice, Err(Error::DiskUnusable { number: 15281, .. })), "{twice:?}");
        let other = group.offline_disks(&["DATA_0009".to_owned()], None).await;
        assert!(matches!(other, Err(Error::DiskUnusable { number: 15054, .. })), "{other:?}");
        group.wait_returned().await.expect("it has everything");
        offline(&group, 2).await;
        let wrong = group.online_disk("DATA_0002", found(&rig, 1), OnlineHow::default()).await;
        assert!(matches!(wrong, Err(Error::DiskUnusable { number: 15075, .. })), "{wrong:?}");
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

/// Three copies, two of them away at different times: each gets what it missed itself.
#[test]
fn two_disks_that_were_away_at_different_times_get_what_each_missed() {
    let shape = Shape {
        disks: 3,
        redundancy: cellar_diskgroup::Redundancy::High,
        disk_bytes: 80 * MB,
        ..Shape::default()
    };
    let rig = Rig::new(79, &shape);
    rig.run(async {
        let group = group(&rig, &shape).await;
        offline(&group, 1).await;
        rewrite_some(&group, 3, 30).await;
        offline(&group, 2).await;
        rewrite_some(&group, 4, 10).await;
        rig.env().sleep(Duration::from_secs(10)).await;
        let missed: Vec<u64> = group.away_disks().iter().filter_map(|d| d.missed).collect();
        assert!(missed[1] <= 10 * PIECE && missed[0] > missed[1], "{missed:?}");
        online(&rig, &group, 2).await;
        group.wait_returned().await.expect("it has everything");
        rewrite_some(&group, 5, 10).await;
        online(&rig, &group, 1).await;
        group.wait_returned().await.expect("it has everything");
        sound(&group).await;
        let geometry = rig.disks[1].geometry();
        assert_eq!(geometry.size, 80 * MB);
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

/// What was written last is copied to a disk that failed; where the others lost that meanwhile, and it did
/// not, it is what they know to be right.
#[test]
fn what_only_the_disk_has_that_returns_is_taken_from_it() {
    let shape = Shape { disks: 2, ..shape() };
    let rig = Rig::new(77, &shape);
    rig.run(async {
        let group = group(&rig, &shape).await;
        rig.disks[1].vanish();
        let file = group.open("f").expect("there");
        let data = pattern(1, 0, 4096).into();
        file.write_at(Io::FOREGROUND, 0, data, Durability::Durable).await.expect("written");
        let wanted = pattern(1, 9 * MB, 4096);
        let size = rig.disks[0].geometry().size;
        let mut places = (0..size).step_by(4096);
        let at = places.find(|at| rig.disks[0].peek(*at, 4096) == wanted).expect("it is there");
        rig.disks[0].corrupt(at, 4096);
        rig.disks[1].heal();
        online(&rig, &group, 1).await;
        group.wait_returned().await.expect("it has everything");
        check_content(&file, 1, 40 * MB).await;
        drop(file);
        check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
    })
    .expect("no crash");
}

/// How a disk goes that lied about its flushes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    /// It loses its power while it is written to, ...
    Written,
    /// ... while nobody asks anything of it, ...
    Idle,
    /// ... while it does not answer, ...
    Hanging,
    /// ... and is taken offline while it does not answer, ...
    Offline,
    /// ... or when the group is dismounted.
    Dismounted,
}

/// A disk acknowledges writes and flushes of a mount whose mark it has, and loses them with its power.
#[test]
fn what_a_disk_lost_of_what_it_had_acknowledged_is_copied_again() {
    let ways = [Goes::Written, Goes::Idle, Goes::Hanging, Goes::Offline, Goes::Dismounted];
    for (seed, goes) in (0..60).zip(ways.iter().cycle()) {
        let rig = Rig::new(400 + seed, &shape());
        rig.run(async {
            let group = group(&rig, &shape()).await;
            let over = filled(&group, "over", 5, 3 * MB).await;
            rig.env().sleep(Duration::from_secs(12)).await;
            rig.disks[1].lying_flush(true);
            for at in (0..3 * MB).step_by(8192) {
                let data = pattern(6, at, 8192).into();
                over.write_at(Io::FOREGROUND, at, data, Durability::Cached).await.expect("written");
            }
            over.flush(Io::FOREGROUND).await.expect("flushed");
            drop(filled(&group, "new", 7, 3 * MB).await);
            drop(over);
            // Everything is clean again, or nothing is.
            rig.env().sleep(Duration::from_secs([12, 0][(seed / 5 % 2) as usize])).await;
            let group = lost(&rig, group, *goes, seed).await;
            rig.disks[1].heal();
            match seed / 10 % 3 {
                // In this mount, at once or later, or in the next one.
                _ if disk(&group, 1).status != DiskStatus::Offline => {}
                0 => online(&rig, &group, 1).await,
                1 => {
                    rig.env().sleep(Duration::from_secs(3)).await;
                    online(&rig, &group, 1).await;
                }
                _ => {
                    group.dismount().await.expect("dismounted");
                    let group = rig.mount().await.expect("mounted");
                    if *goes == Goes::Offline {
                        online(&rig, &group, 1).await;
                    }
                    return whole_again(&group).await;
                }
            }
            whole_again(&group).await;
        })
        .unwrap_or_else(|| panic!("seed {seed}: no crash"));
    }
}

/// The disk goes; gives the group, which has gone on without it.
async fn lost(rig: &Rig, group: Group, goes: Goes, seed: u64) -> Group {
    let disk_1 = &rig.disks[1];
    match goes {
        Goes::Written => disk_1.lose_power(),
        Goes::Idle => {
            disk_1.lose_power();
            rig.env().sleep(Duration::from_secs(100)).await;
        }
        Goes::Hanging => disk_1.hang(),
        Goes::Offline => {
            // It has answered just now.
            check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
            disk_1.hang();
            rig.env().sleep(Duration::from_millis(500)).await;
            offline(&group, 1).await;
            disk_1.lose_power();
            return group;
        }
        Goes::Dismounted => {
            let goes = async {
                rig.env().sleep(Duration::from_micros(seed * 97 % 3000)).await;
                disk_1.lose_power();
            };
            let (done, ()) = futures_util::future::join(group.dismount(), goes).await;
            done.expect("dismounted");
            disk_1.heal();
            let group = rig.mount().await.expect("mounted");
            while disk(&group, 1).status == DiskStatus::Offline {
                rig.env().sleep(Duration::from_millis(10)).await;
            }
            return group;
        }
    }
    rewrite_some(&group, seed + 100, 3).await;
    while disk(&group, 1).status != DiskStatus::Offline {
        rig.env().sleep(Duration::from_secs(1)).await;
    }
    disk_1.lose_power();
    group
}

async fn whole_again(group: &Group) {
    group.wait_returned().await.expect("it has everything");
    assert_eq!(disk(group, 1).status, DiskStatus::Online);
    check_content(&group.open("f").expect("there"), 1, 40 * MB).await;
    check_content(&group.open("new").expect("there"), 7, 3 * MB).await;
    check_content(&group.open("over").expect("there"), 6, 3 * MB).await;
    sound(group).await;
    group.dismount().await.expect("dismounted");
}
