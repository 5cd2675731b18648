//! The scoreboard of media: why each was given up, what it had in time, and when the last of them had a
//! write.

use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::{Log, MediumStats, Options, Quorum, Skips};

use crate::support::{Rig, Shape};

async fn commit(rig: &Rig, log: &Log) {
    log.commit(&rig.session(), 0, 0, Bytes::from(vec![7; 300])).await.unwrap();
}

/// Opens a log whose media are in order, with other limits.
async fn open(rig: &Rig, limits: impl FnOnce(&mut Options)) -> Log {
    rig.create().await.unwrap();
    let mut spec = rig.spec(rig.media(), false);
    limits(&mut spec.options);
    let (log, _, _) = rig.open_with(spec).await.unwrap();
    for _ in 0..4 {
        commit(rig, &log).await;
    }
    // The heartbeat block is written too.
    rig.env().sleep(Duration::from_millis(100)).await;
    log
}

/// Commits until a medium is given up, and says why that was; nothing else was counted.
async fn skipped(rig: &Rig, log: &Log, medium: usize) -> Skips {
    for _ in 0..1000 {
        if !log.media()[medium].active {
            break;
        }
        commit(rig, log).await;
        rig.env().sleep(Duration::from_millis(2)).await;
    }
    let media = log.media();
    let given_up = &media[medium];
    assert!(!given_up.active && given_up.error.is_some(), "{given_up:?}");
    assert_eq!(given_up.stats.skips.total(), 1, "{given_up:?}");
    assert!(given_up.stats.in_time < given_up.stats.given, "{given_up:?}");
    let others = media.iter().enumerate().filter(|(number, _)| *number != medium);
    assert!(others.into_iter().all(|(_, other)| other.stats.skips == Skips::default()));
    given_up.stats.skips
}

#[test]
fn a_medium_whose_writes_fail_is_skipped_for_the_error() {
    let rig = Rig::new(81, Shape::default());
    rig.run(async {
        let log = open(&rig, |_| {}).await;
        rig.disks[1].fail_writes(0..u64::MAX);
        assert_eq!(skipped(&rig, &log, 1).await, Skips { error: 1, ..Skips::default() });
        // It returns, and fails again: that is counted beside the first.
        rig.disks[1].heal();
        log.return_medium(rig.medium(1)).await.unwrap();
        rig.disks[1].hang();
        commit(&rig, &log).await;
        let stats = log.media()[1].stats.clone();
        assert_eq!(stats.skips, Skips { error: 1, silent: 1, ..Skips::default() });
        assert_eq!(stats.skips.total(), 2);
    })
    .unwrap();
}

#[test]
fn a_medium_that_commits_wait_for_alone_is_skipped_for_its_silence() {
    let rig = Rig::new(82, Shape::default());
    rig.run(async {
        let log = open(&rig, |_| {}).await;
        rig.disks[1].hang();
        assert_eq!(skipped(&rig, &log, 1).await, Skips { silent: 1, ..Skips::default() });
    })
    .unwrap();
}

#[test]
fn a_medium_that_lacks_what_others_have_is_skipped_for_the_time_or_the_bytes() {
    let shape = Shape { media: 3, blocks: 512, ..Shape::default() };
    for by_bytes in [false, true] {
        let rig = Rig::new(83, shape.clone());
        rig.run(async {
            let log = open(&rig, |limits| {
                if by_bytes {
                    limits.exposure_bytes = 8 << 10;
                    limits.exposure_age = Duration::from_secs(60);
                }
            });
            let log = log.await;
            // 0.4 to 4 s for a write, of which nobody waits for the end.
            rig.disks[2].slow(20_000);
            let why = match by_bytes {
                true => Skips { exposed: 1, ..Skips::default() },
                false => Skips { behind: 1, ..Skips::default() },
            };
            assert_eq!(skipped(&rig, &log, 2).await, why);
        })
        .unwrap();
    }
}

#[test]
fn a_medium_whose_headers_are_late_is_skipped_for_them_and_one_that_is_dropped_for_nothing() {
    let shape = Shape { media: 3, quorum: Quorum::Of(1), ..Shape::default() };
    let rig = Rig::new(84, shape);
    rig.run(async {
        let log = open(&rig, |_| {}).await;
        // That one goes is written in the headers of the others.
        rig.disks[2].hang();
        let going = log.clone();
        let going = rig.env().run("drop", async move { going.drop_medium("disk0").await });
        rig.env().sleep(Duration::from_millis(100)).await;
        let dropped = log.media()[0].clone();
        assert!(!dropped.active && dropped.name == "disk0", "{dropped:?}");
        assert_eq!(dropped.stats.skips, Skips::default());
        going.await.unwrap().unwrap();
        let late = log.media().into_iter().find(|medium| medium.name == "disk2").unwrap();
        assert_eq!(late.stats.skips, Skips { header: 1, ..Skips::default() });
        assert!(!late.active && late.error.unwrap().contains("200 ms"));
    })
    .unwrap();
}

#[test]
fn a_medium_is_judged_by_the_units_that_it_was_given() {
    let mut rig = Rig::new(85, Shape::default());
    rig.shape.media = 1;
    let more = rig.medium(1);
    rig.run(async {
        let log = open(&rig, |_| {}).await;
        log.add_medium(more).await.unwrap();
        let before = log.stats().redo_writes;
        assert!(before > 0 && log.media()[1].stats.given == 0);
        for _ in 0..10 {
            commit(&rig, &log).await;
        }
        // A commit waits for both: each has everything in time, also the one that came later.
        let all = log.stats().redo_writes;
        let of = |medium: usize| {
            let MediumStats { given, in_time, late, .. } = log.media()[medium].stats;
            (given, in_time, late)
        };
        assert_eq!(of(0), (all, all, 0));
        assert_eq!(of(1), (all - before, all - before, 0));
    })
    .unwrap();
}

#[test]
fn the_last_medium_has_a_write_no_earlier_than_enough_have_it() {
    for quorum in [1, 2] {
        let rig = Rig::new(86, Shape { quorum: Quorum::Of(quorum), ..Shape::default() });
        rig.run(async {
            let log = open(&rig, |_| {}).await;
            // Up to 4 ms.
            rig.disks[1].slow(20);
            for _ in 0..20 {
                commit(&rig, &log).await;
            }
            rig.env().sleep(Duration::from_secs(1)).await;
            let (stats, media) = (log.stats(), log.media());
            assert_eq!(stats.last.count(), stats.redo_writes);
            let enough = stats.redo_write_time.as_nanos();
            let last = u128::from(stats.last.sum());
            match quorum {
                1 => assert!(last > 2 * enough, "{last} ns, enough had it in {enough}"),
                _ => assert_eq!(last, enough, "the last is the one that is waited for"),
            }
            let slowest = media.iter().map(|medium| medium.stats.slowest.as_nanos()).max();
            assert!(u128::from(stats.last.max()) >= slowest.unwrap_or(u128::MAX));
            let late = media[1].stats.clone();
            assert_eq!(late.given, stats.redo_writes);
            assert_eq!(late.in_time + late.late, late.given);
        })
        .unwrap();
    }
}
