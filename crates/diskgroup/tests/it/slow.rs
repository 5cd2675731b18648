//! Disks that are slow, or do not answer: reads turn to other copies, writes let them leave.

use std::time::Duration;

use cellar_diskgroup::on_disk::layout::au_offset;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{DiskInfo, FileSpec, Group, ScrubSpec};
use cellar_io::sim::Rng;
use cellar_io::{DeviceExt, Durability, EnvExt, Io};

use crate::moves::{check_content, filled, pattern};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

fn two() -> Shape {
    Shape { disks: 2, ..Shape::default() }
}

async fn group(rig: &Rig, shape: &Shape) -> Group {
    rig.create(shape).await.expect("created");
    let group = rig.mount().await.expect("mounted");
    drop(filled(&group, "f", 1, 12 * MB).await);
    // Clean: nothing but reads goes to the disks from here on.
    group.env().sleep(Duration::from_secs(15)).await;
    group
}

fn disk(group: &Group, number: u16) -> DiskInfo {
    group.disks().into_iter().find(|d| d.number == number).expect("it is known")
}

/// Reads of 4 KB at random for so long; how many, the longest, and how many of them disk 1 answered.
async fn reads(group: &Group, time: Duration) -> (u64, Duration, u64) {
    let env = group.env().clone();
    let (before, begun) = (disk(group, 1).counters["reads"], env.now());
    let clients = (0..4u64).map(|i| {
        let (group, env) = (group.clone(), env.clone());
        async move {
            let file = group.open("f").expect("there");
            let (mut rng, mut count, mut longest) = (Rng::stream(i, 5), 0, Duration::ZERO);
            while env.now().since(begun) < time {
                let at = rng.below(12 * MB / 4096) * 4096;
                let asked = env.now();
                let read = file.read_at(Io::FOREGROUND, at, 4096).await.expect("read");
                assert!(read[..] == pattern(1, at, 4096)[..]);
                longest = longest.max(env.now().since(asked));
                count += 1;
            }
            (count, longest)
        }
    });
    let all = futures_util::future::join_all(clients).await;
    let count = all.iter().map(|(count, _)| count).sum();
    let longest = all.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    (count, longest, disk(group, 1).counters["reads"] - before)
}

#[test]
fn reads_avoid_a_slow_disk_within_five_seconds_and_use_it_again_when_it_is_well() {
    let rig = Rig::new(110, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let second = Duration::from_secs(1);
        let (_, _, well) = reads(&group, second).await;
        assert!(well > 100, "both disks are read: {well}");
        rig.disks[1].slow(300);
        reads(&group, 5 * second).await;
        assert!(disk(&group, 1).slow && !disk(&group, 0).slow, "{}", disk(&group, 1).mean_us);
        let (count, longest, slow) = reads(&group, 5 * second).await;
        assert!(count > 1000 && longest < Duration::from_millis(10), "{count} {longest:?}");
        assert!(slow <= 25, "but for what tries whether it is well: {slow}");
        // Writes go to both still, and nobody leaves.
        let file = group.open("f").expect("there");
        let data = pattern(1, 0, 65536);
        file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable).await.expect("written");
        assert_eq!(group.info().offline_disks, 0);
        rig.disks[1].slow(1);
        reads(&group, 8 * second).await;
        assert!(!disk(&group, 1).slow, "{}", disk(&group, 1).mean_us);
        let (_, _, again) = reads(&group, second).await;
        assert!(again > 100, "both are read again: {again}");
    })
    .expect("no crash");
}

#[test]
fn a_disk_is_held_against_what_the_others_are_like_now() {
    let rig = Rig::new(114, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        rig.disks[1].slow(300);
        reads(&group, Duration::from_secs(3)).await;
        assert!(disk(&group, 1).slow);
        // The whole machine is busy, and nobody reads: what disk 0 was like is long ago.
        rig.disks[0].slow(300);
        group.env().sleep(Duration::from_secs(15)).await;
        let (first, second) = (disk(&group, 0), disk(&group, 1));
        assert!(!first.slow && !second.slow, "{} us, {} us", first.mean_us, second.mean_us);
        let (reads, _, of_second) = reads(&group, Duration::from_secs(2)).await;
        assert!(of_second * 4 > reads, "both are read: {of_second} of {reads}");
    })
    .expect("no crash");
}

#[test]
fn a_slow_disk_is_the_last_resort() {
    let rig = Rig::new(111, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        rig.disks[1].slow(300);
        reads(&group, Duration::from_secs(3)).await;
        assert!(disk(&group, 1).slow);
        rig.disks[0].vanish();
        check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
        let file = group.open("f").expect("there");
        let data = pattern(1, 0, 65536);
        file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable).await.expect("written");
        assert_eq!(group.info().offline_disks, 1, "the one that is gone");
    })
    .expect("no crash");
}

#[test]
fn a_read_that_is_not_answered_goes_to_another_copy() {
    let rig = Rig::new(112, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        reads(&group, Duration::from_secs(1)).await;
        rig.disks[1].hang();
        let (count, longest, _) = reads(&group, Duration::from_secs(5)).await;
        assert!(longest < Duration::from_secs(1), "{longest:?}");
        assert!(count > 10_000, "{count}");
        assert!(disk(&group, 1).counters["hedged"] > 0);
        // It answers again before anybody missed it.
        rig.disks[1].unhang();
        group.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(group.info().offline_disks, 0);
        assert_eq!(disk(&group, 1).counters["read_errs"], 0, "no read failed");
        // Nobody writes, and it is read again all the same, once what it was like is forgotten.
        reads(&group, Duration::from_secs(15)).await;
        let (_, _, again) = reads(&group, Duration::from_secs(1)).await;
        assert!(again > 100, "both are read again: {again}");
    })
    .expect("no crash");
}

/// Its checksum block was asked for, and never came.
#[test]
fn a_checksum_block_that_a_read_gave_up_is_still_looked_at() {
    let rig = Rig::new(117, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted, and no checksum is known");
        rig.disks[1].hang();
        reads(&group, Duration::from_secs(2)).await;
        rig.disks[1].unhang();
        group.env().sleep(Duration::from_secs(2)).await;
        rig.disks[1].corrupt(au_offset(0, MB), 4096);
        group.scrub(ScrubSpec::default()).await.expect("begun");
        let result = group.wait_scrubbed().await.expect("it runs").expect("it ended");
        assert_eq!(result.found.left, 0, "{result:?}");
        assert_eq!(result.found.wrong().own, 1, "{result:?}");
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn writes_let_a_stuck_disk_leave_where_it_can_be_done_without() {
    let rig = Rig::new(113, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let file = group.open("f").expect("there");
        rig.disks[1].hang();
        let asked = group.env().now();
        let data = pattern(1, 0, 65536);
        file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable).await.expect("written");
        let took = group.env().now().since(asked);
        assert!(took < Duration::from_secs(12), "acknowledged within the timeout: {took:?}");
        assert_eq!(group.info().offline_disks, 1);
        check_content(&file, 1, 12 * MB).await;
    })
    .expect("no crash");
}

#[test]
fn two_disks_that_stall_together_do_not_stop_the_group() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let rig = Rig::new(115, &shape);
    rig.run(async {
        let group = group(&rig, &shape).await;
        let file = group.open("f").expect("there");
        let all = (0..12).map(|i| {
            let data = pattern(1, i * MB, 65536);
            file.write_at(Io::FOREGROUND, i * MB, data.into(), Durability::Durable)
        });
        let still = async {
            rig.disks[2].hang();
            rig.disks[3].hang();
            group.env().sleep(Duration::from_secs(20)).await;
            rig.disks[2].unhang();
            rig.disks[3].unhang();
        };
        let (written, ()) =
            futures_util::future::join(futures_util::future::join_all(all), still).await;
        written.into_iter().for_each(|written| written.expect("written"));
        assert!(group.info().stopped.is_none());
        check_content(&file, 1, 12 * MB).await;
    })
    .expect("no crash");
}

#[test]
fn a_disk_that_reads_and_does_not_write_leaves_too() {
    let rig = Rig::new(116, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let file = group.open("f").expect("there");
        rig.disks[1].hang();
        let asked = group.env().now();
        let data = pattern(1, 0, 65536);
        let write = file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable);
        // As the instance looks after its disks.
        let probes = async {
            for _ in 0..100 {
                group.env().sleep(Duration::from_millis(500)).await;
                futures_util::future::select(
                    Box::pin(group.probe_disks()),
                    Box::pin(group.env().sleep(Duration::from_millis(100))),
                )
                .await;
            }
        };
        let written = futures_util::future::select(Box::pin(write), Box::pin(probes)).await;
        assert!(matches!(written, futures_util::future::Either::Left((Ok(()), _))));
        let took = group.env().now().since(asked);
        assert!(took < Duration::from_secs(12), "{took:?}");
    })
    .expect("no crash");
}

#[test]
fn a_machine_that_stands_still_loses_no_disk_and_an_only_copy_is_waited_for() {
    let rig = Rig::new(114, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let file = group.open("f").expect("there");
        let write = |at: u64| {
            let data = pattern(1, at, 65536);
            file.write_at(Io::FOREGROUND, at, data.into(), Durability::Durable)
        };
        let still = async {
            rig.disks.iter().for_each(|disk| disk.hang());
            group.env().sleep(Duration::from_secs(25)).await;
            rig.disks.iter().for_each(|disk| disk.unhang());
        };
        let (written, ()) = futures_util::future::join(write(0), still).await;
        written.expect("written");
        assert_eq!(group.info().offline_disks, 0, "all of them stood still");

        let spec = FileSpec { copies: Some(1), ..FileSpec::new(FileType::Datafile) };
        let single = group.create_file(&spec).await.expect("made");
        single.set_size(4 * MB).await.expect("room");
        group.publish(&single, "single", false).await.expect("named");
        let still = async {
            rig.disks[1].hang();
            group.env().sleep(Duration::from_secs(25)).await;
            rig.disks[1].unhang();
        };
        let (written, ()) = futures_util::future::join(write(MB), still).await;
        written.expect("written");
        assert_eq!(group.info().offline_disks, 0, "it has the only copy of something");
    })
    .expect("no crash");
}

/// A disk that stops answering while the group is mounted: what is read at first is waited for
/// longer, as nobody knows yet whether it can be done without.
#[test]
fn a_mount_does_not_wait_long_for_a_disk_that_it_can_do_without() {
    let mut took = Vec::new();
    for step in 0..24 {
        let rig = Rig::new(70, &Shape::default());
        let at = Duration::from_micros(step * 150);
        let mounted = rig.run(async {
            let group = group(&rig, &Shape::default()).await;
            group.dismount().await.expect("dismounted");
            let begun = rig.env().now();
            let hangs = async {
                rig.env().sleep(at).await;
                rig.disks[1].hang();
            };
            let (group, ()) = futures_util::future::join(rig.mount(), hangs).await;
            let group = group.expect("it can be done without");
            let took = rig.env().now().since(begun);
            check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
            rig.disks[1].unhang();
            took
        });
        took.push(mounted.expect("no crash"));
    }
    let within = |from, to| took.iter().filter(|t| (from..to).contains(&t.as_secs())).count();
    // A flush is given four times as long.
    assert!(within(10, 14) >= 12, "{took:?}");
    assert_eq!(within(0, 46), took.len(), "{took:?}");
}
