//! Groups that come and go while the log is open, and what Oracle refuses too.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::sim::{SimDisk, SimDiskOptions};
use cellar_io::{Device, EnvExt};
use cellar_redo::{Error, GroupStatus, Log, Lsn, Medium, NewGroup, Record, Report};

use crate::support::{Rig, Shape};

type Files = BTreeMap<String, Arc<dyn Device>>;

/// A rig, and files for group 9 on disks of their own.
struct More {
    rig: Rig,
    disks: Vec<Arc<SimDisk>>,
    size: u64,
}

impl More {
    fn new(seed: u64, archiving: bool, logical_sector: u32) -> More {
        let rig = Rig::new(seed, Shape { archiving, ..Shape::default() });
        let size = 8192 + 48 * 512;
        let options = SimDiskOptions { size, logical_sector, ..SimDiskOptions::default() };
        let disk = |medium: usize| rig.sim.disk(&format!("more{medium}"), options.clone());
        let disks = (0..rig.shape.media).map(disk).collect();
        More { rig, disks, size }
    }

    fn files(&self) -> Files {
        let file = |(medium, disk): (usize, &Arc<SimDisk>)| {
            (format!("disk{medium}"), Arc::clone(disk) as Arc<dyn Device>)
        };
        self.disks.iter().enumerate().map(file).collect()
    }

    fn group(&self) -> NewGroup {
        NewGroup { number: 9, size: self.size }
    }

    fn media(&self) -> Vec<Medium> {
        let mut media = self.rig.media();
        for (medium, disk) in media.iter_mut().zip(&self.disks) {
            medium.files.insert(9, Arc::clone(disk) as Arc<dyn Device>);
        }
        media
    }

    async fn open(&self) -> Result<(Log, Vec<Record>, Report), Error> {
        self.rig.open_with(self.rig.spec(self.media(), false)).await
    }

    fn numbers(&self) -> Vec<u32> {
        self.rig.control_now().groups.iter().map(|group| group.number).collect()
    }
}

fn body(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; 700])
}

fn status(log: &Log, group: u32) -> GroupStatus {
    log.groups().iter().find(|g| g.group == group).unwrap().status
}

#[test]
fn a_group_is_added_and_written_to_and_another_is_dropped() {
    let more = More::new(61, false, 512);
    let rig = &more.rig;
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = more.open().await.unwrap();
        let session = rig.session();
        // The ring is full: a committer waits, and the new group lets it go on.
        let other = log.clone();
        let commits = rig.env().run("committer", async move {
            for i in 0..55 {
                other.commit(&session, 0, 0, body(i)).await.unwrap();
            }
        });
        rig.env().sleep(std::time::Duration::from_secs(10)).await;
        let stuck = log.durable_lsn();
        log.add_group(more.group(), more.files()).await.unwrap();
        assert_eq!(commits.await, Some(()));
        assert!(log.durable_lsn() > stuck);
        assert_eq!(status(&log, 9), GroupStatus::Current);
        assert_eq!(more.numbers(), [1, 2, 3, 9]);
        assert_eq!(log.drop_group(9).await.unwrap_err().number(), 1623);
        assert_eq!(log.drop_group(2).await.unwrap_err().number(), 1624);
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        assert_eq!(status(&log, 2), GroupStatus::Inactive);
        log.drop_group(2).await.unwrap();
        assert_eq!(more.numbers(), [1, 3, 9]);
        assert_eq!(log.drop_group(2).await.unwrap_err().number(), 359);
        let session = rig.session();
        for i in 0..400 {
            let done = log.commit(&session, 0, 0, body(i)).await.unwrap();
            log.set_checkpoint(done.lsn).await.unwrap();
        }
        drop(log);
        let (log, records, _) = more.open().await.unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].body, body(399));
        assert_eq!(log.groups().len(), 3);
    })
    .unwrap();
}

#[test]
fn what_cannot_be_added_or_dropped_is_refused() {
    let more = More::new(62, true, 512);
    let rig = &more.rig;
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = more.open().await.unwrap();
        let taken = NewGroup { number: 2, ..more.group() };
        let refused = async |group, files| log.add_group(group, files).await.unwrap_err().number();
        assert_eq!(refused(taken, more.files()).await, 1184);
        assert_eq!(refused(NewGroup { size: 9000, ..more.group() }, more.files()).await, 70151);
        let large = NewGroup { size: more.size + 512, ..more.group() };
        assert_eq!(refused(large, more.files()).await, 336);
        let one: Files = more.files().into_iter().take(1).collect();
        assert_eq!(refused(more.group(), one).await, 336);
        let mut unknown = more.files();
        unknown.insert("disk7".to_owned(), more.disks[0].clone());
        assert_eq!(refused(more.group(), unknown).await, 360);
        more.disks[1].fail_writes(0..u64::MAX);
        assert_eq!(refused(more.group(), more.files()).await, 345);
        assert_eq!(more.numbers(), [1, 2, 3]);
        more.disks[1].heal();
        let session = rig.session();
        for _ in 0..2 {
            log.commit(&session, 0, 0, body(1)).await.unwrap();
            log.switch(&session).await.unwrap();
        }
        log.commit(&session, 0, 0, body(1)).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        assert_eq!(log.drop_group(1).await.unwrap_err().number(), 350);
        while log.archive(&*rig.archives).await.unwrap().is_some() {}
        log.drop_group(1).await.unwrap();
        assert_eq!(log.drop_group(2).await.unwrap_err().number(), 1567);
        log.close().await.unwrap();
    })
    .unwrap();
    let more = More::new(63, false, 4096);
    let rig = &more.rig;
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let error = log.add_group(more.group(), more.files()).await.unwrap_err();
        assert_eq!(error.number(), 1378);
    })
    .unwrap();
}

#[test]
fn a_group_that_is_assigned_and_empty_may_be_dropped() {
    let more = More::new(64, false, 512);
    let rig = &more.rig;
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = more.open().await.unwrap();
        let session = rig.session();
        for i in 0..13 {
            log.commit(&session, 0, 0, body(i)).await.unwrap();
        }
        assert_eq!(status(&log, 2), GroupStatus::Next);
        log.drop_group(2).await.unwrap();
        for i in 13..25 {
            log.commit(&session, 0, 0, body(i)).await.unwrap();
        }
        assert_eq!(status(&log, 3), GroupStatus::Current);
        drop(log);
        let (_, records, _) = more.open().await.unwrap();
        assert_eq!(records.len(), 25);
    })
    .unwrap();
}

/// Commits around an added and a dropped group; what was acknowledged.
async fn story(more: &More, acked: &std::sync::Mutex<Vec<(Lsn, Bytes)>>) {
    let (log, _, _) = more.open().await.unwrap();
    let session = more.rig.session();
    for i in 0..60 {
        match i {
            5 => log.add_group(more.group(), more.files()).await.unwrap(),
            30 => log.drop_group(1).await.unwrap(),
            45 => log.switch(&session).await.map(|_| ()).unwrap(),
            50 => {
                let unneeded = |g: &cellar_redo::GroupReport| g.status == GroupStatus::Inactive;
                if let Some(group) = log.groups().into_iter().find(unneeded) {
                    log.drop_group(group.group).await.unwrap();
                }
            }
            _ => {}
        }
        let done = log.commit(&session, 0, 0, body(i)).await.unwrap();
        acked.lock().unwrap().push((done.lsn, body(i)));
        if i % 4 == 0 {
            log.set_checkpoint(done.lsn).await.unwrap();
        }
    }
}

#[test]
fn a_crash_at_any_point_of_adding_and_dropping_loses_nothing() {
    let mut crashes = 0;
    for after in 1.. {
        let more = More::new(65, false, 512);
        let rig = &more.rig;
        rig.run(rig.create()).unwrap().unwrap();
        let acked = std::sync::Mutex::default();
        rig.sim.crash_after(after);
        let done = rig.run(story(&more, &acked)).is_some();
        rig.sim.crash_never();
        if done {
            break;
        }
        crashes += 1;
        rig.sim.restart();
        rig.run(async {
            let (log, records, _) = more.open().await.unwrap();
            let checkpoint = log.checkpoint();
            for (lsn, body) in acked.lock().unwrap().iter().filter(|(lsn, _)| *lsn >= checkpoint) {
                let found = records.iter().find(|record| record.lsn == *lsn);
                assert_eq!(found.map(|r| &r.body), Some(body), "crash after {after}, at {lsn}");
            }
            log.commit(&rig.session(), 0, 0, body(99)).await.unwrap();
        });
    }
    assert!(crashes > 300, "{crashes}");
}
