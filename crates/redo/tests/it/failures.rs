//! Media that fail one way at a time, and what the log must refuse.

use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::{Error, Lsn, Quorum};

use crate::support::{Rig, Shape};

fn contains(disk: &cellar_io::sim::SimDisk, size: u64, marker: &[u8]) -> bool {
    disk.peek_durable(0, size).windows(marker.len()).any(|window| window == marker)
}

#[test]
fn a_failure_is_recorded_only_when_the_others_have_what_was_acknowledged() {
    let rig = Rig::new(21, Shape { media: 3, blocks: 64, ..Shape::default() });
    let size = rig.shape.file_size() * 3;
    let marker = b"acknowledged by the one that fails";
    rig.run(async {
        rig.create().await.unwrap();
        let mut spec = rig.spec(rig.media(), false);
        spec.options.exposure_age = Duration::from_secs(10);
        spec.options.write_timeout = Duration::from_secs(20);
        let (log, _, _) = rig.open_with(spec).await.unwrap();
        let session = rig.session();
        rig.disks[2].slow(5_000);
        log.commit(&session, 0, 0, Bytes::from_static(marker)).await.unwrap();
        assert!(!contains(&rig.disks[2], size, marker), "it is late");
        rig.disks[0].fail_writes(0..u64::MAX);
        let (other, session) = (log.clone(), rig.session());
        let commit = rig.env().run("commit", async move {
            other.commit(&session, 0, 0, Bytes::from_static(b"next")).await.is_ok()
        });
        while rig.control_now().media[0].state.is_active() {
            rig.env().sleep(Duration::from_micros(100)).await;
        }
        assert!(contains(&rig.disks[2], size, marker), "recorded although only one had it");
        assert_eq!(commit.await, Some(true), "two of two have it");
    })
    .unwrap();
}

#[test]
fn what_a_failing_medium_has_does_not_count_for_those_that_are_left() {
    let rig = Rig::new(27, Shape { media: 3, blocks: 64, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let mut spec = rig.spec(rig.media(), false);
        spec.options.exposure_age = Duration::from_secs(60);
        spec.options.write_timeout = Duration::from_secs(60);
        let (log, _, _) = rig.open_with(spec).await.unwrap();
        let commit = |body: &'static [u8]| {
            let (log, session) = (log.clone(), rig.session());
            rig.env().run("commit", async move {
                log.commit(&session, 0, 0, Bytes::from_static(body)).await.map(|done| done.end)
            })
        };
        // The first medium has it, and fails at the next; the second has it after that; the third
        // is very late. That the first has failed is not durable: control data are slow.
        rig.disks[1].slow(3_000);
        rig.disks[2].slow(100_000);
        let before = log.durable_lsn();
        let first = commit(b"on two of three");
        rig.env().sleep(Duration::from_millis(5)).await;
        rig.control_disk.slow(20_000);
        rig.disks[0].fail_writes(0..u64::MAX);
        let second = commit(b"next");
        let failing = || !log.media()[0].active;
        while !failing() {
            rig.env().sleep(Duration::from_millis(1)).await;
        }
        while log.media()[1].stats.writes == 0 {
            rig.env().sleep(Duration::from_millis(1)).await;
        }
        assert!(rig.control_now().media[0].state.is_active(), "its failure is not durable");
        assert_eq!(log.media()[2].stats.writes, 0);
        assert_eq!(log.durable_lsn(), before, "one of two that are left has it");
        rig.disks[2].slow(1);
        rig.disks[1].slow(1);
        assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    })
    .unwrap();
}

#[test]
fn an_opening_does_not_wait_for_a_medium_that_hangs() {
    // From its headers on, and where only blocks are not answered.
    for headers in [true, false] {
        let rig = Rig::new(28, Shape::default());
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            for _ in 0..10 {
                let record = Bytes::from_static(b"record");
                log.commit(&rig.session(), 0, 0, record).await.unwrap();
            }
            drop(log);
            let env = rig.env();
            let before = env.now();
            if headers {
                rig.disks[1].hang();
            }
            let spec = rig.spec(rig.media(), false);
            let mut recovery = cellar_redo::Recovery::start(spec).await.unwrap();
            rig.disks[1].hang();
            while recovery.next().await.unwrap().is_some() {}
            let (log, report) = recovery.open().await.unwrap();
            let took = env.now().since(before);
            assert!(took < Duration::from_secs(8), "{took:?}");
            assert_eq!((report.records, &report.left_out[..]), (10, &["disk1".to_owned()][..]));
            log.commit(&rig.session(), 0, 0, Bytes::new()).await.unwrap();
            let control = rig.control_now();
            assert!(control.media[0].state.is_active() && !control.media[1].state.is_active());
        })
        .unwrap();
    }
}

#[test]
fn a_medium_that_hangs_and_may_alone_have_records_is_named() {
    for media in 1..=2 {
        let rig = Rig::new(29, Shape { media, quorum: Quorum::Of(1), ..Shape::default() });
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            log.commit(&rig.session(), 0, 0, Bytes::from_static(b"record")).await.unwrap();
            drop(log);
            rig.disks[0].hang();
            let before = rig.env().now();
            match rig.open().await.err() {
                Some(Error::MediaMissing { media, .. }) => assert_eq!(media, ["disk0"]),
                other => panic!("{other:?}"),
            }
            assert!(rig.env().now().since(before) < Duration::from_secs(40));
        })
        .unwrap();
    }
}

#[test]
fn commits_go_on_when_one_of_two_media_dies_and_it_returns() {
    let rig = Rig::new(22, Shape { blocks: 512, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let (session, env) = (rig.session(), rig.env());
        let mut longest = Duration::ZERO;
        for i in 0..100 {
            if i == 50 {
                rig.disks[1].fail_writes(0..u64::MAX);
            }
            let before = env.now();
            log.commit(&session, 0, 0, Bytes::from_static(b"record")).await.unwrap();
            longest = longest.max(env.now().since(before));
        }
        assert!(longest < Duration::from_millis(100), "a commit took {longest:?}");
        let report = log.media();
        assert!(report[0].active && !report[1].active && report[1].error.is_some(), "{report:?}");
        log.close().await.unwrap();
        rig.disks[1].heal();
        let (log, records, report) = rig.open().await.unwrap();
        assert_eq!((records.len(), &report.left_out[..]), (100, &["disk1".to_owned()][..]));
        log.close().await.unwrap();
        let mut spec = rig.spec(rig.media(), false);
        spec.returning = vec!["disk1".to_owned()];
        let (log, _, report) = rig.open_with(spec).await.unwrap();
        assert!(report.left_out.is_empty() && report.repaired > 0, "{report:?}");
        log.close().await.unwrap();
        // It has everything: the other one may go now.
        let (_, records, _) = rig.open_with(rig.spec(vec![rig.medium(1)], false)).await.unwrap();
        assert_eq!(records.len(), 100);
    })
    .unwrap();
}

#[test]
fn acknowledged_redo_that_is_damaged_everywhere_is_refused_with_its_range() {
    for media in 1..=3 {
        let rig = Rig::new(23, Shape { media, ..Shape::default() });
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            let session = rig.session();
            let mut lsns = Vec::new();
            for _ in 0..8 {
                let done = log.commit(&session, 0, 0, Bytes::from_static(b"record")).await.unwrap();
                lsns.push(done.lsn);
            }
            let end = log.durable_lsn();
            // A heartbeat covers the last of them.
            rig.env().sleep(Duration::from_millis(50)).await;
            let bad = lsns[4].abn();
            let place = 4096 + (bad.0 - 1) * u64::from(rig.shape.block_size);
            rig.disks.iter().for_each(|disk| disk.corrupt(place, 512));
            match rig.open().await {
                Err(Error::Damaged { from, to, .. }) => assert_eq!((from, to), (bad.lsn(), end)),
                other => panic!("{other:?}"),
            }
            // The same where it cannot be read at all.
            rig.disks.iter().for_each(|disk| disk.fail_reads(place..place + 512));
            let refused = rig.open().await.err();
            assert!(matches!(refused, Some(Error::MediaMissing { .. })), "{refused:?}");
        })
        .unwrap();
    }
}

#[test]
fn a_medium_that_may_alone_have_records_is_missed_unless_forced() {
    let rig = Rig::new(24, Shape { quorum: Quorum::Of(1), ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, Bytes::from_static(b"on both")).await.unwrap();
        rig.env().sleep(Duration::from_millis(20)).await;
        rig.disks[1].hang();
        log.commit(&session, 0, 0, Bytes::from_static(b"on one")).await.unwrap();
        rig.sim.crash();
        std::future::pending::<()>().await;
    });
    rig.sim.restart();
    rig.disks[1].unhang();
    rig.run(async {
        let alone = || rig.spec(vec![rig.medium(1)], false);
        let refused = rig.open_with(alone()).await.err();
        match refused {
            Some(Error::MediaMissing { from, media, .. }) => {
                assert!(from > Lsn(4096));
                assert_eq!(media, ["disk0"]);
            }
            other => panic!("{other:?}"),
        }
        let mut spec = alone();
        spec.force = true;
        let (log, records, report) = rig.open_with(spec).await.unwrap();
        assert!(report.forced && report.left_out == ["disk0"], "{report:?}");
        assert!(records.iter().any(|record| &record.body[..] == b"on both"));
        log.close().await.unwrap();
        // The one that has more is not believed any more.
        let (_, again, _) = rig.open().await.unwrap();
        assert_eq!(again, records);
    })
    .unwrap();
}

#[test]
fn a_log_without_media_stops_and_says_that_outcomes_are_unknown() {
    let rig = Rig::new(25, Shape { media: 2, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        rig.disks.iter().for_each(|disk| disk.fail_writes(0..u64::MAX));
        let first = log.commit(&session, 0, 0, Bytes::from_static(b"lost?")).await;
        assert!(matches!(first, Err(Error::OutcomeUnknown { .. })), "{first:?}");
        let second = log.commit(&session, 0, 0, Bytes::new()).await;
        assert!(matches!(second, Err(Error::Stopped { .. })), "{second:?}");
        assert!(log.stopped().is_some());
        rig.disks.iter().for_each(|disk| disk.heal());
        let (log, _, _) = rig.open().await.unwrap();
        log.commit(&session, 0, 0, Bytes::new()).await.unwrap();
    })
    .unwrap();
}

#[test]
fn files_that_belong_elsewhere_and_old_control_data_are_refused() {
    let rig = Rig::new(26, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let old = rig.control_disk.snapshot();
        log.close().await.unwrap();
        let (first, second) = (rig.medium(0), rig.medium(1));
        let swapped = vec![
            cellar_redo::Medium { files: second.files, ..first.clone() },
            cellar_redo::Medium { files: first.files, name: second.name },
        ];
        let refused = rig.open_with(rig.spec(swapped, false)).await.err().unwrap();
        assert!(matches!(refused, Error::MediaMissing { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(
            text.contains("file of group 1 on disk0 belongs elsewhere: another medium"),
            "{text}"
        );
        let (log, _, _) = rig.open().await.unwrap();
        log.close().await.unwrap();
        rig.control_disk.replace_with_snapshot(&old);
        let refused = rig.open().await.err();
        assert!(matches!(refused, Some(Error::ControlOld { .. })), "{refused:?}");
        assert_eq!(refused.map(|error| error.number()), Some(338));
    })
    .unwrap();
}

/// Files of one medium that were copied over those of another, or are cut short, cost that medium and
/// not the log.
#[test]
fn files_that_do_not_belong_here_cost_one_medium() {
    let copied = |rig: &Rig| rig.disks[1].replace_with_snapshot(&rig.disks[0].snapshot());
    let foreign = |rig: &Rig| {
        let other = Rig::new(33, Shape { media: 3, ..Shape::default() });
        other.run(other.create_as(cellar_redo::on_disk::DatabaseId(99))).unwrap().unwrap();
        rig.disks[1].replace_with_snapshot(&other.disks[1].snapshot());
    };
    type Spoil<'a> = (&'a dyn Fn(&Rig), &'a str);
    let spoil: [Spoil; 3] = [
        (&copied, "belongs elsewhere: another medium"),
        (&foreign, "belongs elsewhere: another database"),
        (&|_| {}, "has 4096 bytes"),
    ];
    for (spoil, words) in spoil {
        let rig = Rig::new(32, Shape { media: 3, ..Shape::default() });
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            for _ in 0..10 {
                let record = Bytes::from_static(b"record");
                log.commit(&rig.session(), 0, 0, record).await.unwrap();
            }
            drop(log);
            rig.sim.restart();
            spoil(&rig);
            let mut media = rig.media();
            if words.contains("bytes") {
                let short = cellar_io::sim::SimDiskOptions { size: 4096, ..Default::default() };
                media[1].files.insert(2, rig.sim.disk("short", short));
            }
            // The second time it is known to have failed.
            for records in [10, 11] {
                let spec = rig.spec(media.clone(), false);
                let (log, found, report) = rig.open_with(spec).await.unwrap();
                assert_eq!(
                    (found.len(), &report.left_out[..]),
                    (records, &["disk1".to_owned()][..])
                );
                let told = report.refused.iter().any(|refused| refused.contains(words));
                assert_eq!(told, records == 10 || words.contains("bytes"), "{report:?}");
                log.commit(&rig.session(), 0, 0, Bytes::from_static(b"more")).await.unwrap();
                drop(log);
                rig.sim.restart();
            }
        })
        .unwrap();
    }
}

/// The second opening must not write over the one header that the first left whole.
#[test]
fn two_openings_that_are_cut_off_leave_a_log_that_opens() {
    let mut cut_off = 0;
    for seed in 0..6 {
        for (first, second) in (1..=14).flat_map(|i| (1..=14).map(move |j| (i, j))) {
            let rig = Rig::new(seed, Shape { media: 1, groups: 2, ..Shape::default() });
            rig.run(async {
                rig.create().await.unwrap();
                let (log, _, _) = rig.open().await.unwrap();
                log.commit(&rig.session(), 0, 0, Bytes::from_static(b"kept")).await.unwrap();
                rig.sim.crash();
                std::future::pending::<()>().await;
            });
            rig.sim.restart();
            for after in [first, second] {
                rig.sim.crash_after(after);
                let opened = rig.run(async { rig.open().await.map(drop) });
                cut_off += u32::from(opened.is_none());
                rig.sim.crash_never();
                rig.sim.crash();
                rig.sim.restart();
            }
            let opened = rig.run(async { rig.open().await.map(|(_, records, _)| records.len()) });
            assert_eq!(opened.unwrap().unwrap(), 1, "seed {seed}, cut off at {first}, {second}");
        }
    }
    assert!(cut_off > 1000, "{cut_off}");
}

/// A log that has stopped says when nothing of it can come over what the next one writes.
#[test]
fn a_log_that_has_stopped_owes_until_its_writes_are_answered() {
    let rig = Rig::new(57, Shape { media: 1, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, Bytes::from_static(b"first")).await.unwrap();
        rig.env().sleep(Duration::from_secs(1)).await;
        assert!(!log.is_owed());
        rig.disks[0].hang();
        let (other, session) = (log.clone(), rig.session());
        let last = rig.env().run("committer", async move {
            other.commit(&session, 0, 0, Bytes::from_static(b"last")).await
        });
        rig.env().sleep(Duration::from_millis(10)).await;
        rig.control_disk.fail_writes(0..u64::MAX);
        let stopped = log.set_checkpoint(log.durable_lsn()).await;
        assert!(stopped.is_err() && log.stopped().is_some(), "{stopped:?}");
        assert!(matches!(last.await, Some(Err(Error::OutcomeUnknown { .. }))));
        rig.env().sleep(Duration::from_secs(60)).await;
        assert!(log.is_owed(), "its write may still be done");
        rig.disks[0].unhang();
        rig.env().sleep(Duration::from_secs(1)).await;
        assert!(!log.is_owed());
    })
    .unwrap();
}
