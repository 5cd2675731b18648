//! One medium dies amid commits: for how long nothing is acknowledged, and what is there without
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::sim::Rng;
use cellar_io::{EnvExt, Instant};
use cellar_redo::{Log, Lsn, Quorum, Recovery};

use crate::support::{Rig, Shape};

const GAP_MAX: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    WritesFail,
    Hangs,
    Vanishes,
}

/// What was acknowledged: where, which record, and when.
type Acks = Arc<Mutex<Vec<(Lsn, Bytes, Instant)>>>;

fn rig(seed: u64, media: usize, quorum: Quorum) -> Rig {
    Rig::new(seed, Shape { media, quorum, blocks: 300, ..Shape::default() })
}

/// Commits one record after the other until the machine stops.
fn start_committer(rig: &Rig, log: &Log, committer: u64, acks: &Acks) {
    let (log, session, env) = (log.clone(), rig.session(), rig.env());
    let acks = Arc::clone(acks);
    let mut rng = Rng::stream(7, committer);
    let work = async move {
        for number in 0u64.. {
            let mut body = vec![0; rng.within(16..=600) as usize];
            rng.fill(&mut body);
            body[..8].copy_from_slice(&committer.to_le_bytes());
            body[8..16].copy_from_slice(&number.to_le_bytes());
            let body = Bytes::from(body);
            let done = log.commit(&session, 0, 0, body.clone()).await.unwrap();
            acks.lock().unwrap().push((done.lsn, body, env.now()));
        }
    };
    rig.env().spawn("committer", Box::pin(work));
}

/// The log goes round all the while.
fn start_checkpoints(rig: &Rig, log: &Log) {
    let (log, env) = (log.clone(), rig.env());
    let work = async move {
        loop {
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
            env.sleep(Duration::from_millis(3)).await;
        }
    };
    rig.env().spawn("checkpoints", Box::pin(work));
}

/// One medium dies at a random moment; the longest time without an acknowledgement from then on.
fn gap_of_a_trial(seed: u64, media: usize, death: Death) -> Duration {
    let mut rng = Rng::stream(seed, 1);
    let rig = rig(seed, media, Quorum::Auto);
    let victim = rng.below(media as u64) as usize;
    let acks = Acks::default();
    let (died, ended) = (Mutex::new(Instant(0)), Mutex::new(Instant(0)));
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        (0..4).for_each(|committer| start_committer(&rig, &log, committer, &acks));
        start_checkpoints(&rig, &log);
        let env = rig.env();
        env.sleep(Duration::from_micros(rng.within(5_000..=60_000))).await;
        match death {
            Death::WritesFail => rig.disks[victim].fail_writes(0..u64::MAX),
            Death::Hangs => rig.disks[victim].hang(),
            Death::Vanishes => rig.disks[victim].vanish(),
        }
        *died.lock().unwrap() = env.now();
        while rig.control_now().media[victim].state.is_active() {
            env.sleep(Duration::from_micros(500)).await;
        }
        env.sleep(Duration::from_micros(rng.within(1_000..=60_000))).await;
        *ended.lock().unwrap() = env.now();
        rig.sim.crash();
        std::future::pending::<()>().await;
    });
    rig.sim.restart();
    let acks = std::mem::take(&mut *acks.lock().unwrap());
    let left = (0..media).filter(|medium| *medium != victim).map(|medium| rig.medium(medium));
    rig.run(async {
        let mut recovery = Recovery::start(rig.spec(left.collect(), false)).await.unwrap();
        let checkpoint = recovery.checkpoint();
        let mut records = Vec::new();
        while let Some(record) = recovery.next().await.unwrap() {
            records.push(record);
        }
        let (log, _) = recovery.open().await.unwrap();
        assert!(records.is_sorted_by(|a, b| a.lsn < b.lsn));
        let found: BTreeMap<Lsn, &Bytes> = records.iter().map(|r| (r.lsn, &r.body)).collect();
        for (lsn, body, _) in acks.iter().filter(|(lsn, _, _)| *lsn >= checkpoint) {
            assert_eq!(
                found.get(lsn),
                Some(&body),
                "seed {seed}, {death:?}: acknowledged at {lsn}"
            );
        }
        log.commit(&rig.session(), 0, 0, Bytes::from_static(b"it goes on")).await.unwrap();
    })
    .unwrap();
    let (died, ended) = (*died.lock().unwrap(), *ended.lock().unwrap());
    let mut times: Vec<Instant> = acks.into_iter().map(|(_, _, at)| at).collect();
    let before = times.partition_point(|at| *at < died);
    assert!(before > 10, "seed {seed}: commits before the death");
    times.push(ended);
    times[before - 1..].windows(2).map(|two| two[1].since(two[0])).max().unwrap()
}

#[test]
fn a_medium_that_dies_holds_commits_up_for_less_than_100_ms_and_takes_none_along() {
    for seed in 0..120 {
        let death = [Death::WritesFail, Death::Hangs, Death::Vanishes][seed as usize % 3];
        let media = [2, 3][seed as usize / 3 % 2];
        let gap = gap_of_a_trial(seed, media, death);
        assert!(gap <= GAP_MAX, "seed {seed}, {death:?}, {media} media: {gap:?}");
    }
}

#[test]
fn a_number_of_media_that_was_asked_for_is_waited_for() {
    let rig = rig(31, 2, Quorum::Of(2));
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let commit = |log: Log, session| async move {
            log.commit(&session, 0, 0, Bytes::from_static(b"record")).await
        };
        rig.disks[1].hang();
        let waiting = rig.env().run("commit", commit(log.clone(), rig.session()));
        rig.env().sleep(Duration::from_millis(1500)).await;
        assert!(log.media()[1].active && log.stats().redo_writes == 1);
        rig.disks[1].unhang();
        waiting.await.unwrap().unwrap();
        assert!(log.media()[1].active);
        log.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_medium_that_is_slow_and_answers_is_waited_for() {
    let rig = rig(32, 2, Quorum::Auto);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        // Up to 50 ms a write, and several commits behind each other.
        rig.disks[1].slow(250);
        let acks = Acks::default();
        (0..8).for_each(|committer| start_committer(&rig, &log, committer, &acks));
        rig.env().sleep(Duration::from_secs(5)).await;
        assert!(log.media()[1].active, "{:?}", log.media()[1].error);
        assert!(acks.lock().unwrap().len() > 100);
        rig.sim.crash();
        std::future::pending::<()>().await;
    });
}

/// A controller that stalls, a machine that slept: no medium is to blame.
#[test]
fn media_that_stall_together_are_all_kept() {
    let rig = rig(33, 2, Quorum::Auto);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let env = rig.env();
        let commit = |log: Log, session| async move {
            log.commit(&session, 0, 0, Bytes::from_static(b"record")).await
        };
        for turn in 0..20 {
            commit(log.clone(), rig.session()).await.unwrap();
            rig.disks.iter().for_each(|disk| disk.hang());
            let waiting = env.run("commit", commit(log.clone(), rig.session()));
            env.sleep(Duration::from_millis(90)).await;
            rig.disks[turn % 2].unhang();
            env.sleep(Duration::from_millis(2 * turn as u64)).await;
            rig.disks[1 - turn % 2].unhang();
            waiting.await.unwrap().unwrap();
            let active = log.media().iter().filter(|medium| medium.active).count();
            assert_eq!(active, 2, "the second answered {} ms after the first", 2 * turn);
        }
        log.close().await.unwrap();
    })
    .unwrap();
}

/// What is below the checkpoint is needed as long as it is not archived, also after an orderly close.
#[test]
fn a_log_is_not_opened_on_a_medium_that_was_given_up_while_the_others_owe_archives() {
    for archiving in [true, false] {
        let shape = Shape { media: 2, archiving, ..Shape::default() };
        let rig = Rig::new(34, shape);
        rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            rig.disks[1].hang();
            let commit = log.commit(&rig.session(), 0, 0, Bytes::from_static(b"on one")).await;
            commit.unwrap();
            while rig.control_now().media[1].state.is_active() {
                rig.env().sleep(Duration::from_millis(5)).await;
            }
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
            log.close().await.unwrap();
            rig.disks[1].unhang();
            let alone = || {
                let mut spec = rig.spec(vec![rig.medium(1)], false);
                spec.returning = vec!["disk1".to_owned()];
                spec
            };
            let opened = rig.open_with(alone()).await;
            match archiving {
                true => {
                    let error = opened.unwrap_err();
                    assert_eq!(error.number(), 313, "{error}");
                    let (log, _, _) = rig.open().await.unwrap();
                    log.switch(&rig.session()).await.unwrap();
                    let archived = log.archive(&*rig.archives).await.unwrap();
                    assert_eq!(archived.unwrap().sequence, 1, "disk0 has it");
                }
                false => drop(opened.unwrap()),
            }
        })
        .unwrap();
    }
}
