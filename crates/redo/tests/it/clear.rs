//! Clearing a group: the way on when a finished one can never be archived, and what is refused.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::{
    ArchiveReader, Error, GroupStatus, Log, Lsn, OpenLog, Record, Recovery, archive_name,
};
use cellar_wait::Event;

use crate::support::{DATABASE, Rig, Shape};

fn rig(seed: u64, archiving: bool) -> Rig {
    Rig::new(seed, Shape { archiving, ..Shape::default() })
}

fn body(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; 700])
}

/// Damages a group of the rig on every medium, behind its headers.
fn damage(rig: &Rig, group: u32) {
    let size = rig.shape.file_size();
    let from = u64::from(group - 1) * size + 4096;
    rig.disks.iter().for_each(|disk| disk.corrupt(from, size - 8192));
}

/// Commits `count` records, each with a checkpoint behind it.
fn commits(rig: &Rig, log: &Log, count: usize) -> impl Future<Output = Option<()>> + use<> {
    let (log, session) = (log.clone(), rig.session());
    rig.env().run("committer", async move {
        for i in 0..count {
            log.commit(&session, 0, 0, body(i)).await.unwrap();
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
        }
    })
}

/// Archives whatever is finished, until the log is closed.
fn archiver(rig: &Rig, log: &Log) -> impl Future<Output = Option<()>> + use<> {
    let (log, archives) = (log.clone(), rig.archives.clone());
    rig.env().run("archiver", async move {
        while log.archivable().await.is_ok() {
            log.archive(&*archives).await.unwrap();
        }
    })
}

async fn read(rig: &Rig, from: u64, to: u64) -> (Vec<Record>, Option<Error>) {
    let mut reader = ArchiveReader::new(rig.archives.clone(), DATABASE, from..=to, Lsn(0));
    let mut records = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

fn status(log: &Log, group: u32) -> (GroupStatus, u64) {
    let groups = log.groups();
    let group = groups.iter().find(|g| g.group == group).unwrap();
    (group.status, group.sequence)
}

#[test]
fn a_full_log_goes_on_when_a_group_that_cannot_be_archived_is_cleared() {
    let rig = rig(81, true);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let committer = commits(&rig, &log, 150);
        rig.env().sleep(Duration::from_secs(60)).await;
        let stuck = log.durable_lsn();
        damage(&rig, 1);
        for _ in 0..3 {
            let error = log.archive(&*rig.archives).await.unwrap_err();
            assert_eq!(error.number(), 353, "{error}");
        }
        let refused =
            async |group, unarchived| log.clear_group(group, unarchived).await.unwrap_err();
        assert_eq!(refused(9, true).await.number(), 359);
        assert_eq!(refused(3, true).await.number(), 1623);
        let error = refused(1, false).await;
        assert_eq!(error.number(), 350);
        assert!(error.next_step().contains("CLEAR UNARCHIVED LOGFILE GROUP 1"), "{error}");
        // The older one first: what is archived behind it would have a gap that nobody asked for.
        let error = refused(2, true).await;
        assert!(matches!(error, Error::NotArchived { group: 1, sequence: 1 }), "{error}");
        assert_eq!(log.durable_lsn(), stuck);

        assert_eq!(log.clear_group(1, true).await.unwrap(), Some(1));
        assert_eq!(rig.control_now().archived, 1, "it is not asked for any more");
        let archiver = archiver(&rig, &log);
        assert_eq!(committer.await, Some(()));
        log.switch(&rig.session()).await.unwrap();
        rig.env().sleep(Duration::from_secs(1)).await;
        let last = log.archived();
        assert!(last > 6, "{last}");
        let totals = rig.waits.totals();
        let waited = totals.iter().find(|t| t.event == Event::LOG_FILE_SWITCH_ARCHIVING_NEEDED);
        assert!(waited.is_some_and(|t| t.nanos > 50_000_000_000), "{waited:?}");
        log.close().await.unwrap();
        archiver.await;
        // The gap is told, wherever it is met; what is behind it is whole.
        assert_eq!(rig.archives.get(&archive_name(1)), None);
        let (records, error) = read(&rig, 1, last).await;
        assert!(matches!(error, Some(Error::ArchiveMissing { sequence: 1, .. })), "{error:?}");
        assert_eq!(records.len(), 0);
        let (records, error) = read(&rig, 2, last).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(records.last().map(|r| &r.body), Some(&body(149)));
        assert!(records.len() > 130);
    })
    .unwrap();
}

#[test]
fn a_reader_of_archives_stops_at_the_gap_and_names_it() {
    let rig = rig(82, true);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        for sequence in 1..=4 {
            log.commit(&session, 0, 0, body(sequence)).await.unwrap();
            log.switch(&session).await.unwrap();
            log.commit(&session, 0, 0, body(10 + sequence)).await.unwrap();
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
            if sequence == 2 {
                assert_eq!(log.clear_group(2, true).await.unwrap(), Some(2));
                assert_eq!(status(&log, 2), (GroupStatus::Unused, 0));
                // Cleared twice, it stays as it is.
                assert_eq!(log.clear_group(2, true).await.unwrap(), None);
            }
            while log.archive(&*rig.archives).await.unwrap().is_some() {}
        }
        assert_eq!(log.archived(), 4);
        let (records, error) = read(&rig, 1, 4).await;
        let error = error.unwrap();
        assert_eq!(error.number(), 308);
        assert!(error.to_string().contains(&archive_name(2)), "{error}");
        assert_eq!(records.iter().map(|r| r.body[0]).collect::<Vec<_>>(), [1]);
        let (records, error) = read(&rig, 3, 4).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(records.iter().map(|r| r.body[0]).collect::<Vec<_>>(), [12, 3, 13, 4]);
        // One that was archived is cleared without a gap.
        assert_eq!(status(&log, 3), (GroupStatus::Inactive, 3));
        assert_eq!(log.clear_group(3, false).await.unwrap(), None);
        log.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn what_recovery_needs_is_not_cleared_and_what_it_does_not_may_be() {
    let rig = rig(83, false);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, body(1)).await.unwrap();
        assert_eq!(log.clear_group(3, false).await.unwrap(), None, "it was never written");
        log.switch(&session).await.unwrap();
        log.commit(&session, 0, 0, body(2)).await.unwrap();
        assert_eq!(log.clear_group(1, true).await.unwrap_err().number(), 1624);
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        assert_eq!(log.clear_group(1, false).await.unwrap(), None);
        assert_eq!(status(&log, 1), (GroupStatus::Unused, 0));
        drop(log);
        let (log, records, _) = rig.open().await.unwrap();
        assert_eq!(records.len(), 0);
        assert_eq!(status(&log, 1), (GroupStatus::Unused, 0));
        let mut last = Lsn(0);
        for i in 0..100 {
            last = log.commit(&session, 0, 0, body(i)).await.unwrap().lsn;
            log.set_checkpoint(last).await.unwrap();
        }
        assert!(log.groups().iter().all(|group| group.sequence > 2), "all were written again");
        drop(log);
        let (_, records, _) = rig.open().await.unwrap();
        assert_eq!(records.iter().map(|r| r.lsn).collect::<Vec<_>>(), [last]);
    })
    .unwrap();
}

/// A group is cleared so long after the archiver has begun with it: either there is an archive, or
/// the sequence is told as lost.
async fn race(rig: &Rig, pause: Duration) -> bool {
    rig.create().await.unwrap();
    let (log, _, _) = rig.open().await.unwrap();
    // Two groups are finished, and nobody waits for room.
    assert_eq!(commits(rig, &log, 40).await, Some(()));
    let (other, archives) = (log.clone(), rig.archives.clone());
    let archiver = rig.env().run("archiver", async move { other.archive(&*archives).await });
    rig.env().sleep(pause).await;
    let lost = log.clear_group(1, true).await.unwrap();
    let archived = archiver.await.unwrap().unwrap();
    // Where it came first the archiver took the next one.
    let archived = archived.is_some_and(|archived| archived.sequence == 1);
    assert_eq!(archived, lost.is_none(), "after {pause:?}");
    assert_eq!(rig.archives.get(&archive_name(1)).is_some(), lost.is_none(), "after {pause:?}");
    while log.archive(&*rig.archives).await.unwrap().is_some() {}
    assert_eq!(log.archived(), 2);
    log.close().await.unwrap();
    lost.is_some()
}

#[test]
fn a_group_that_is_cleared_while_it_is_archived_has_an_archive_or_is_told_as_lost() {
    let mut lost = [0, 0];
    for micros in (0..3_000).step_by(20) {
        let rig = rig(84, true);
        let is_lost = rig.run(race(&rig, Duration::from_micros(micros))).unwrap();
        lost[usize::from(is_lost)] += 1;
    }
    assert!(lost.iter().all(|count| *count > 10), "{lost:?}");
}

/// What was seen before the crash.
#[derive(Default)]
struct Seen {
    cleared: bool,
    acknowledged: Vec<(Lsn, Bytes)>,
}

/// A log that is full and whose oldest group is damaged is cleared and goes on.
async fn story(rig: &Rig, log: Log, seen: &Mutex<Seen>) {
    let session = rig.session();
    assert_eq!(log.archive(&*rig.archives).await.unwrap_err().number(), 353);
    assert_eq!(log.clear_group(1, true).await.unwrap(), Some(1));
    seen.lock().unwrap().cleared = true;
    for i in 0..40 {
        let done = log.commit(&session, 0, 0, body(i)).await.unwrap();
        seen.lock().unwrap().acknowledged.push((done.lsn, body(i)));
        if i % 4 == 0 {
            log.set_checkpoint(done.lsn).await.unwrap();
        }
        while log.archive(&*rig.archives).await.unwrap().is_some() {}
    }
}

/// A log whose three groups are full, the first of them damaged.
async fn full(rig: &Rig) -> Log {
    rig.create().await.unwrap();
    let (log, _, _) = rig.open().await.unwrap();
    let session = rig.session();
    for i in 0..47 {
        log.commit(&session, 0, 0, body(i)).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
    }
    rig.env().sleep(Duration::from_secs(60)).await;
    damage(rig, 1);
    log
}

/// The log is as before it was cleared or as after, and goes on.
async fn check(rig: &Rig, seen: &Seen, after: u64) {
    let known = rig.control_now();
    let has = known.groups.iter().any(|group| group.sequence == 1);
    assert_eq!(has, known.archived == 0, "crash after {after}: {known:?}");
    assert!(!(has && seen.cleared), "crash after {after}: it was cleared and is there again");
    let (log, records, _) = rig.open().await.unwrap();
    let checkpoint = log.checkpoint();
    for (lsn, body) in seen.acknowledged.iter().filter(|(lsn, _)| *lsn >= checkpoint) {
        let found = records.iter().find(|record| record.lsn == *lsn);
        assert_eq!(found.map(|r| &r.body), Some(body), "crash after {after}, at {lsn}");
    }
    log.set_checkpoint(log.durable_lsn()).await.unwrap();
    if has {
        assert_eq!(log.archive(&*rig.archives).await.unwrap_err().number(), 353);
        assert_eq!(log.clear_group(1, true).await.unwrap(), Some(1));
    }
    while log.archive(&*rig.archives).await.unwrap().is_some() {}
    let session = rig.session();
    for i in 0..40 {
        log.commit(&session, 0, 0, body(i)).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        while log.archive(&*rig.archives).await.unwrap().is_some() {}
    }
    let last = log.archived();
    assert!(last >= 4, "crash after {after}: {last}");
    assert_eq!(rig.archives.get(&archive_name(1)), None);
    let (records, error) = read(rig, 2, last).await;
    assert!(error.is_none(), "crash after {after}: {error:?}");
    let end = log.groups().iter().filter(|g| g.archived).map(|g| g.first).max().unwrap();
    for (lsn, body) in seen.acknowledged.iter().filter(|(lsn, _)| *lsn < end) {
        let found = records.iter().find(|record| record.lsn == *lsn);
        assert_eq!(found.map(|r| &r.body), Some(body), "crash after {after}: {lsn} not archived");
    }
    log.close().await.unwrap();
}

#[test]
fn a_crash_at_any_point_of_clearing_leaves_it_cleared_or_not() {
    let (mut crashes, mut before) = (0, 0);
    for after in 1.. {
        let rig = rig(85, true);
        let seen = Mutex::new(Seen::default());
        let log = rig.run(full(&rig)).unwrap();
        rig.sim.crash_after(after);
        let done = rig.run(story(&rig, log, &seen)).is_some();
        rig.sim.crash_never();
        if done {
            break;
        }
        crashes += 1;
        before += u32::from(rig.control_now().archived == 0);
        rig.sim.restart();
        rig.run(check(&rig, &seen.lock().unwrap(), after)).unwrap();
    }
    assert!(crashes > 200 && before > 1, "{crashes}, {before} of them before it was cleared");
}

/// A medium cannot join while what it is to be given is damaged everywhere; it can afterwards.
#[test]
fn a_medium_joins_once_the_damaged_group_is_cleared() {
    let rig = Rig::new(86, Shape { archiving: true, media: 3, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        log.drop_medium("disk2").await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, body(1)).await.unwrap();
        log.switch(&session).await.unwrap();
        log.commit(&session, 0, 0, body(2)).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        damage(&rig, 1);
        assert_eq!(log.add_medium(rig.medium(2)).await.unwrap_err().number(), 353);
        assert_eq!(log.clear_group(1, true).await.unwrap(), Some(1));
        log.return_medium(rig.medium(2)).await.unwrap();
        log.commit(&session, 0, 0, body(3)).await.unwrap();
        drop(log);
        // What it has is enough.
        damage(&rig, 1);
        let spec = OpenLog { force: true, ..rig.spec(vec![rig.medium(2)], true) };
        let mut recovery = Recovery::start(spec).await.unwrap();
        let mut bodies = Vec::new();
        while let Some(record) = recovery.next().await.unwrap() {
            bodies.push(record.body);
        }
        assert_eq!(bodies, [body(3)]);
    })
    .unwrap();
}

/// What a medium that joins is still to be given is not taken from under it.
#[test]
fn a_group_that_a_medium_is_being_given_is_not_cleared() {
    let rig = Rig::new(88, Shape { archiving: true, media: 3, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        log.drop_medium("disk2").await.unwrap();
        let session = rig.session();
        for i in 0..10 {
            log.commit(&session, 0, 0, body(i)).await.unwrap();
        }
        log.switch(&session).await.unwrap();
        log.commit(&session, 0, 0, body(10)).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        rig.disks[2].slow(100);
        let (other, medium) = (log.clone(), rig.medium(2));
        let added = rig.env().run("add", async move { other.add_medium(medium).await });
        while !format!("{log:?}").contains("CatchingUp") {
            rig.env().sleep(Duration::from_micros(20)).await;
        }
        rig.disks[2].hang();
        let busy = log.clear_group(1, true).await;
        assert!(
            matches!(&busy, Err(Error::MediumBusy { medium }) if medium == "disk2"),
            "{busy:?}"
        );
        rig.disks[2].unhang();
        added.await.unwrap().unwrap();
        assert_eq!(log.clear_group(1, true).await.unwrap(), Some(1));
        commits(&rig, &log, 10).await.unwrap();
    })
    .unwrap();
}

/// The group is cleared under way: nobody writes to it before that is durable.
#[test]
fn a_cleared_group_is_not_written_before_the_control_data_says_so() {
    let rig = rig(87, true);
    rig.run(async {
        let log = full(&rig).await;
        let committer = commits(&rig, &log, 10);
        rig.env().sleep(Duration::from_secs(1)).await;
        let before: Vec<_> =
            rig.disks.iter().map(|disk| disk.peek(0, rig.shape.file_size())).collect();
        rig.control_disk.hang();
        let other = log.clone();
        let cleared = rig.env().run("clear", async move { other.clear_group(1, true).await });
        rig.env().sleep(Duration::from_secs(1)).await;
        let now: Vec<_> =
            rig.disks.iter().map(|disk| disk.peek(0, rig.shape.file_size())).collect();
        assert!(before == now, "something was written to the group");
        rig.control_disk.unhang();
        assert_eq!(cleared.await.unwrap().unwrap(), Some(1));
        assert_eq!(committer.await, Some(()));
    })
    .unwrap();
}
