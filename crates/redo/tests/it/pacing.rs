//! A ring that fills up slows commits down before it stops them.

use std::time::Duration;

use bytes::Bytes;
use cellar_redo::Log;
use cellar_wait::{Event, Session};

use crate::support::{Rig, Shape};

/// Ten blocks are one percent of the ring.
const BLOCKS: u64 = 250;

fn rig(seed: u64, archiving: bool) -> Rig {
    Rig::new(seed, Shape { groups: 4, blocks: BLOCKS, archiving, ..Shape::default() })
}

async fn commit(log: &Log, session: &Session) -> Duration {
    // One block each, with 8 bytes for the header of the record.
    let done = log.commit(session, 0, 0, Bytes::from(vec![1; 464])).await.unwrap();
    done.breakdown.space
}

fn waits(rig: &Rig, event: Event) -> u64 {
    rig.waits.totals().iter().find(|t| t.event == event).map_or(0, |t| t.count)
}

#[test]
fn the_delay_grows_with_the_square_of_what_is_used_beyond_80_percent() {
    let rig = rig(51, false);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let mut delays = Vec::new();
        for _ in 0..999 {
            let used = log.ring().0;
            delays.push((used, commit(&log, &session).await));
        }
        for (used, delay) in delays {
            let over = (used as f64 - 800.0).max(0.0) / 200.0;
            let expected = 0.010 * over * over;
            assert!((delay.as_secs_f64() - expected).abs() < 1e-6, "{delay:?} at {used} of 1000");
        }
        let stats = log.stats();
        assert!((190..200).contains(&stats.paced_commits), "{stats:?}");
        assert!(stats.paced_time > Duration::from_millis(600), "{stats:?}");
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        assert!(log.ring().0 <= BLOCKS);
        assert_eq!(commit(&log, &session).await, Duration::ZERO, "there is room again");
    })
    .unwrap();
}

#[test]
fn it_can_be_switched_off() {
    let rig = rig(52, false);
    rig.run(async {
        rig.create().await.unwrap();
        let mut spec = rig.spec(rig.media(), false);
        spec.options.pace_max = Duration::ZERO;
        let (log, _, _) = rig.open_with(spec).await.unwrap();
        let session = rig.session();
        for _ in 0..999 {
            assert_eq!(commit(&log, &session).await, Duration::ZERO);
        }
        assert_eq!(log.stats().paced_commits, 0);
    })
    .unwrap();
}

#[test]
fn a_delay_is_a_wait_for_whoever_is_behind() {
    let rig = rig(53, true);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        for _ in 0..850 {
            commit(&log, &session).await;
        }
        let checkpoint = waits(&rig, Event::LOG_FILE_SWITCH_CHECKPOINT_INCOMPLETE);
        assert!((40..50).contains(&checkpoint), "{checkpoint}");
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        for _ in 0..20 {
            commit(&log, &session).await;
        }
        assert_eq!(waits(&rig, Event::LOG_FILE_SWITCH_CHECKPOINT_INCOMPLETE), checkpoint);
        assert_eq!(waits(&rig, Event::LOG_FILE_SWITCH_ARCHIVING_NEEDED), 20);
        while log.archive(&*rig.archives).await.unwrap().is_some() {}
        assert_eq!(commit(&log, &session).await, Duration::ZERO);
    })
    .unwrap();
}
