//! A log that nothing happens to.

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::Recovery;

use crate::support::{Rig, Shape};

fn body(number: usize, length: usize) -> Bytes {
    (0..length).map(|i| (number * 31 + i) as u8).collect::<Vec<_>>().into()
}

#[test]
fn what_was_committed_comes_back_after_a_crash() {
    for media in 1..=3 {
        let rig = Rig::new(7, Shape { media, ..Shape::default() });
        let lsns = rig.run(async {
            rig.create().await.unwrap();
            let (log, records, _) = rig.open().await.unwrap();
            assert!(records.is_empty());
            let session = rig.session();
            let mut lsns = Vec::new();
            for i in 0..10 {
                let done = log.commit(&session, i as u8, 1, body(i, i * 100)).await.unwrap();
                assert!(log.durable_lsn() >= done.end);
                lsns.push(done.lsn);
            }
            lsns
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (_, records, report) = rig.open().await.unwrap();
            assert_eq!(records.len(), 10, "{report:?}");
            for (i, record) in records.iter().enumerate() {
                assert_eq!(record.lsn, lsns.as_ref().unwrap()[i]);
                assert_eq!((record.kind, record.flags), (i as u8, 1));
                assert_eq!(record.body, body(i, i * 100));
            }
        })
        .unwrap();
    }
}

#[test]
fn many_committers_share_units_and_breakdown_sums_to_the_whole() {
    let rig = Rig::new(3, Shape { blocks: 4096, media: 3, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let env = rig.env();
        let tasks: Vec<_> = (0..32)
            .map(|task| {
                let (log, session, env) = (log.clone(), rig.session(), rig.env());
                rig.env().run("committer", async move {
                    for i in 0..20 {
                        let before = env.now();
                        let done = log.commit(&session, 0, 0, body(task, i)).await.unwrap();
                        assert_eq!(done.breakdown.total(), env.now().since(before));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let stats = log.stats();
        assert_eq!(stats.redo_entries, 640);
        assert!(stats.redo_writes < 500, "{stats:?}");
        // Idle now: one heartbeat, then nothing.
        env.sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(log.stats().heartbeats, 1);
        log.close().await.unwrap();
        let (_, records, report) = rig.open().await.unwrap();
        assert_eq!(records.len(), 640);
        assert_eq!(report.repaired, 0);
    })
    .unwrap();
}

#[test]
fn groups_are_written_again_behind_the_checkpoint() {
    let rig = Rig::new(5, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let mut last = None;
        for i in 0..400 {
            let done = log.commit(&session, 0, 0, body(i, 700)).await.unwrap();
            if i % 10 == 9 {
                log.set_checkpoint(done.lsn).await.unwrap();
                last = Some(i);
            }
        }
        assert!(log.stats().redo_log_switches > 20);
        drop(log);
        let (_, records, _) = rig.open().await.unwrap();
        assert_eq!(records.len(), 400 - last.unwrap());
        assert_eq!(records[0].body, body(last.unwrap(), 700));
    })
    .unwrap();
}

#[test]
fn a_record_spans_units_and_groups() {
    let rig = Rig::new(9, Shape { groups: 4, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, body(1, 5_000)).await.unwrap();
        let max = log.record_bytes_max() as usize;
        assert!(log.commit(&session, 0, 0, body(2, max + 1)).await.is_err());
        log.commit(&session, 2, 0, body(2, 40_000)).await.unwrap();
        drop(log);
        let (log, records, _) = rig.open().await.unwrap();
        assert_eq!(records[1].body, body(2, 40_000));
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        log.commit(&session, 2, 0, body(3, max)).await.unwrap();
        drop(log);
        let (_, records, _) = rig.open().await.unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].body, body(3, max));
    })
    .unwrap();
}

#[test]
fn a_switch_and_a_record_without_waiting() {
    let rig = Rig::new(11, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let a = log.append(&session, 0, 0, body(0, 100)).await.unwrap();
        log.switch(&session).await.unwrap();
        assert!(log.durable_lsn() >= a.end);
        let b = log.append(&session, 0, 0, body(1, 100)).await.unwrap();
        assert!(b.lsn.abn().0 >= 33, "{b:?}");
        log.wait_durable(&session, b.end).await.unwrap();
        let c = log.append(&session, 0, 0, body(2, 100)).await.unwrap();
        rig.env().sleep(std::time::Duration::from_millis(50)).await;
        assert!(log.durable_lsn() >= c.end, "nobody waited, it is durable all the same");
        log.close().await.unwrap();
        let (_, records, _) = rig.open().await.unwrap();
        assert_eq!(records.len(), 3);
    })
    .unwrap();
}

#[test]
fn a_checkpoint_among_block_numbers_that_a_switch_skipped_is_where_the_log_went_on() {
    for more in [false, true] {
        let rig = Rig::new(17, Shape::default());
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            let session = rig.session();
            let placed = log.append(&session, 0, 0, Bytes::from_static(b"before")).await.unwrap();
            // The switch goes into the unit of the record, and skips what is behind it.
            let on = log.switch(&session).await.unwrap();
            assert!(placed.end < on);
            if more {
                log.commit(&session, 0, 0, Bytes::from_static(b"after")).await.unwrap();
            }
            log.set_checkpoint(placed.end).await.unwrap();
            assert_eq!(log.checkpoint(), on);
            drop(log);
            let (_, records, _) = rig.open().await.unwrap();
            assert_eq!(records.len(), usize::from(more));
        })
        .unwrap();
    }
}

#[test]
fn what_was_replayed_can_be_the_checkpoint_of_the_opening() {
    let rig = Rig::new(18, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let mut ends = Vec::new();
        for i in 0..6u8 {
            if i == 3 {
                log.switch(&session).await.unwrap();
            }
            ends.push(log.commit(&session, 0, 0, Bytes::from(vec![i])).await.unwrap());
        }
        drop(log);
        for (read, left) in [(2, 4), (3, 3), (6, 0)] {
            let mut recovery = Recovery::start(rig.spec(rig.media(), false)).await.unwrap();
            let refused = recovery.set_checkpoint(ends[5].end);
            assert!(matches!(refused, Err(cellar_redo::Error::BadValue { .. })), "{refused:?}");
            let mut last = None;
            while let Some(record) = recovery.next().await.unwrap() {
                let number = usize::from(record.body[0]) + 1;
                if number <= read {
                    recovery.set_checkpoint(ends[number - 1].end).unwrap();
                    last = Some(number);
                }
            }
            assert_eq!(last, Some(read));
            let (log, _) = recovery.open().await.unwrap();
            assert!(log.checkpoint() >= ends[read - 1].end);
            drop(log);
            let (log, records, _) = rig.open().await.unwrap();
            assert_eq!(records.len(), left);
            drop(log);
        }
    })
    .unwrap();
}
