//! Media that come, come back and go while the log is open.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::{Error, Log, Lsn, Medium, OpenLog, Quorum};

use crate::support::{Rig, Shape};

fn body(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; 300])
}

async fn commit(rig: &Rig, log: &Log, number: usize) -> Lsn {
    log.commit(&rig.session(), 0, 0, body(number)).await.unwrap().lsn
}

/// How many records an opening with these media alone finds.
async fn found(rig: &Rig, media: Vec<Medium>) -> Result<usize, Error> {
    rig.open_with(rig.spec(media, false)).await.map(|(_, records, _)| records.len())
}

/// A rig with a disk more than the log has media at first.
fn rig_with_one_more(seed: u64, quorum: Quorum) -> (Rig, Medium) {
    let mut rig = Rig::new(seed, Shape { media: 2, quorum, ..Shape::default() });
    rig.shape.media = 1;
    let more = rig.medium(1);
    (rig, more)
}

#[test]
fn a_medium_that_is_added_has_everything_and_can_be_alone_afterwards() {
    let (rig, more) = rig_with_one_more(71, Quorum::Auto);
    rig.run(async {
        rig.create().await.unwrap();
        // What another log left in the files is not taken for ours.
        rig.disks[1].poke(0, &[0xAB; 4096]);
        let (log, _, _) = rig.open().await.unwrap();
        for i in 0..40 {
            commit(&rig, &log, i).await;
        }
        let (other, session, env) = (log.clone(), rig.session(), rig.env());
        let commits = rig.env().run("committer", async move {
            for i in 40..60 {
                other.commit(&session, 0, 0, body(i)).await.unwrap();
                env.sleep(Duration::from_micros(200)).await;
            }
        });
        log.add_medium(more.clone()).await.unwrap();
        assert!(log.media().iter().all(|m| m.active) && log.media().len() == 2);
        assert_eq!(log.add_medium(more.clone()).await.unwrap_err().number(), 1577);
        commits.await.unwrap();
        drop(log);
        assert_eq!(found(&rig, vec![more.clone()]).await.unwrap(), 60);
        let (log, _, _) = rig.open_with(rig.spec(vec![more.clone()], false)).await.unwrap();
        assert_eq!(log.drop_medium("disk1").await.unwrap_err().number(), 361);
        assert_eq!(log.drop_medium("disk7").await.unwrap_err().number(), 360);
        // The first was left out; it comes back, and then the other may go.
        let first = rig.medium(0);
        assert_eq!(log.media().iter().filter(|m| m.active).count(), 1);
        log.return_medium(first.clone()).await.unwrap();
        let busy = log.return_medium(first.clone()).await;
        assert!(matches!(busy, Err(Error::MediumBusy { .. })), "{busy:?}");
        log.drop_medium("disk1").await.unwrap();
        commit(&rig, &log, 60).await;
        log.close().await.unwrap();
        assert!(matches!(found(&rig, vec![more]).await, Err(Error::NoMedium { .. })));
        assert_eq!(found(&rig, vec![first]).await.unwrap(), 61);
    })
    .unwrap();
}

#[test]
fn a_medium_counts_only_when_it_is_whole() {
    let (rig, more) = rig_with_one_more(72, Quorum::Auto);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        for i in 0..20 {
            commit(&rig, &log, i).await;
        }
        // It hangs before it has its headers: commits do without it, and it is given up.
        let (other, medium) = (log.clone(), more.clone());
        let added = rig.env().run("add", async move { other.add_medium(medium).await });
        while rig.control_now().media.len() < 2 {
            rig.env().sleep(Duration::from_micros(50)).await;
        }
        rig.disks[1].hang();
        for i in 20..40 {
            let before = rig.env().now();
            commit(&rig, &log, i).await;
            let took = rig.env().now().since(before);
            assert!(took < Duration::from_millis(5), "{i}: {took:?}, {log:?}");
        }
        assert!(!rig.control_now().media[1].state.is_active());
        let ended = added.await.unwrap();
        assert!(matches!(ended, Err(Error::MediumLost { .. })), "{ended:?}");
        drop(log);
        // Nobody misses it, and what it has is not believed.
        assert_eq!(found(&rig, vec![rig.medium(0)]).await.unwrap(), 40);
        assert!(matches!(found(&rig, vec![more]).await, Err(Error::MediaMissing { .. })));
    })
    .unwrap();
}

#[test]
fn a_medium_that_failed_comes_back_while_others_commit() {
    let rig = Rig::new(73, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        for i in 0..10 {
            commit(&rig, &log, i).await;
        }
        rig.disks[1].fail_writes(0..u64::MAX);
        for i in 10..20 {
            commit(&rig, &log, i).await;
        }
        assert!(!log.media()[1].active);
        let lost = log.return_medium(rig.medium(1)).await;
        assert!(matches!(lost, Err(Error::MediumLost { .. })), "{lost:?}");
        rig.disks[1].heal();
        log.return_medium(rig.medium(1)).await.unwrap();
        for i in 20..30 {
            commit(&rig, &log, i).await;
        }
        // Both must have what is acknowledged again.
        rig.sim.crash();
        std::future::pending::<()>().await;
    });
    rig.sim.restart();
    rig.run(async { assert_eq!(found(&rig, vec![rig.medium(1)]).await.unwrap(), 30) }).unwrap();
}

#[test]
fn a_quorum_of_two_lets_no_medium_of_two_go() {
    let rig = Rig::new(74, Shape { quorum: Quorum::Of(2), ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let refused = log.drop_medium("disk1").await;
        assert!(matches!(refused, Err(Error::LastMedium { .. })), "{refused:?}");
        commit(&rig, &log, 0).await;
    })
    .unwrap();
}

/// Commits while a medium is added, the first one dropped and added again.
async fn story(rig: &Rig, more: &Medium, acked: &Mutex<Vec<(Lsn, usize)>>) {
    let (log, _, _) = rig.open().await.unwrap();
    for i in 0..50 {
        match i {
            10 => log.add_medium(more.clone()).await.unwrap(),
            20 => log.drop_medium("disk0").await.unwrap(),
            30 => log.add_medium(rig.medium(0)).await.unwrap(),
            40 => log.drop_medium("disk1").await.unwrap(),
            _ => {}
        }
        let lsn = commit(rig, &log, i).await;
        acked.lock().unwrap().push((lsn, i));
        if i % 16 == 15 {
            log.set_checkpoint(lsn).await.unwrap();
        }
    }
}

#[test]
fn a_crash_at_any_point_of_adding_and_dropping_media_loses_nothing() {
    let mut crashes = 0;
    for after in 1.. {
        let (rig, more) = rig_with_one_more(75, Quorum::Auto);
        rig.run(rig.create()).unwrap().unwrap();
        let acked = Mutex::default();
        rig.sim.crash_after(after);
        let done = rig.run(story(&rig, &more, &acked)).is_some();
        rig.sim.crash_never();
        if done {
            break;
        }
        crashes += 1;
        rig.sim.restart();
        rig.run(async {
            // Any one that takes part is enough where one is; of two, either.
            let control = rig.control_now();
            let active: Vec<_> = control.media.iter().filter(|m| m.state.is_active()).collect();
            for alone in active {
                let medium = if alone.name == "disk1" { more.clone() } else { rig.medium(0) };
                let mut recovery =
                    cellar_redo::Recovery::start(OpenLog { ..rig.spec(vec![medium], false) })
                        .await
                        .unwrap();
                let checkpoint = recovery.checkpoint();
                let mut records = Vec::new();
                while let Some(record) = recovery.next().await.unwrap() {
                    records.push(record);
                }
                for (lsn, i) in acked.lock().unwrap().iter().filter(|(l, _)| *l >= checkpoint) {
                    let found = records.iter().find(|record| record.lsn == *lsn);
                    let found = found.map(|record| &record.body);
                    assert_eq!(found, Some(&body(*i)), "crash after {after}, {}", alone.name);
                }
            }
        });
    }
    assert!(crashes > 150, "{crashes}");
}

#[test]
fn a_group_that_only_a_medium_that_goes_has_is_archived_when_the_others_have_it() {
    let shape = Shape { quorum: Quorum::Of(1), archiving: true, ..Shape::default() };
    let rig = Rig::new(76, shape);
    rig.run(async {
        rig.create().await.unwrap();
        let mut spec = rig.spec(rig.media(), false);
        spec.options.exposure_age = Duration::from_secs(60);
        spec.options.write_timeout = Duration::from_secs(60);
        let (log, _, _) = rig.open_with(spec).await.unwrap();
        rig.disks[1].slow(2_000);
        for i in 0..10 {
            commit(&rig, &log, i).await;
        }
        log.switch(&rig.session()).await.unwrap();
        let going = log.clone();
        let going = rig.env().run("drop", async move { going.drop_medium("disk0").await });
        rig.env().sleep(Duration::from_millis(1)).await;
        assert!(!log.media()[0].active, "it goes, and the other is late");
        assert_eq!(log.archive(&*rig.archives).await.unwrap(), None);
        going.await.unwrap().unwrap();
        log.archivable().await.unwrap();
        let archived = log.archive(&*rig.archives).await.unwrap().unwrap();
        assert_eq!((archived.sequence, archived.blocks), (1, 11));
    })
    .unwrap();
}
