//! CLEAR LOGFILE: the way on where a finished group can never be archived.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::Database;
use cellar_instance::views::{log, log_history};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};

use super::{MEDIA, commit, found, log_files, logfile, make, session};
use crate::machine::Machine;

/// A log of three groups that is archived; the first is finished, and damaged on every medium before
/// the archiver came to it.
async fn damaged(database: &Database) {
    make(database, &MEDIA).await;
    database.storage().redo().add_logfiles(&[logfile(Some(3), &[])], &|_, _| {}).await.unwrap();
    let opened = database.storage().redo().log().unwrap();
    for number in 0..3 {
        assert!(commit(&opened, &session(database), number).await);
    }
    // What a medium is late with must not come over it.
    database.env().sleep(Duration::from_millis(100)).await;
    let group = database.group("DATA").unwrap().group;
    for path in log_files(database).iter().filter(|path| path.contains("group_1.")) {
        let file = group.open(path).unwrap();
        let rubbish = Bytes::from(vec![0xA5; 4096]);
        file.write_at(Io::FOREGROUND, 4096, rubbish, Durability::Durable).await.unwrap();
    }
    database.storage().redo().switch_logfile(session(database).waits()).await.unwrap();
    assert!(commit(&opened, &session(database), 3).await);
    database.storage().redo().checkpoint().await.unwrap();
}

/// The number of the first refusal.
async fn refused(database: &Database, group: u32, unarchived: bool) -> u32 {
    database.storage().redo().clear_logfiles(&[group], unarchived).await.unwrap_err().number()
}

/// Sequences that the history shows, and which of them have an archive.
fn history(database: &Database) -> (Vec<u64>, Vec<u64>) {
    let rows = log_history(database.instance().redo());
    let with = rows.iter().filter(|row| row.archive.is_some()).map(|row| row.sequence).collect();
    (rows.iter().map(|row| row.sequence).collect(), with)
}

#[test]
fn commits_go_on_when_the_group_that_cannot_be_archived_is_cleared() {
    let machine = Machine::new(70);
    machine.run(async {
        let database = machine.open().await;
        database.alter_system_set("log_archive_dest", "+DATA/arch", None).await.unwrap();
        damaged(&database).await;
        let opened = database.storage().redo().log().unwrap();
        let (other, user) = (Arc::clone(&opened), session(&database));
        let committer = database.env().run("committer", async move {
            for number in 100..1100 {
                assert!(commit(&other, &user, number).await);
            }
        });
        database.env().sleep(Duration::from_secs(60)).await;
        let stuck = opened.log().durable_lsn();
        database.env().sleep(Duration::from_secs(60)).await;
        assert_eq!(opened.log().durable_lsn(), stuck, "all groups are full");
        let error = database
            .storage()
            .redo()
            .archive_log_current(session(&database).waits())
            .await
            .unwrap_err();
        assert_eq!(error.number(), 353, "{error}");
        let next = error.next_step().unwrap().to_string();
        assert!(
            next.contains("CLEAR UNARCHIVED LOGFILE GROUP 1 gives log sequence 1 up"),
            "{next}"
        );

        assert_eq!(refused(&database, 9, true).await, 359);
        assert_eq!(refused(&database, 3, true).await, 1623);
        assert_eq!(refused(&database, 1, false).await, 350);
        assert_eq!(refused(&database, 2, true).await, 350);
        assert_eq!(opened.gaps(), [0; 0]);
        let notices = database.storage().redo().clear_logfiles(&[1], true).await.unwrap();
        assert!(notices.len() == 1 && notices[0].contains("sequence 1 "), "{notices:?}");
        assert_eq!(committer.await, Some(()));
        assert!(opened.log().durable_lsn() > stuck);

        let last = database
            .storage()
            .redo()
            .archive_log_current(session(&database).waits())
            .await
            .unwrap();
        assert!(last > 4, "{last}");
        assert!(opened.archive_error().is_none());
        let all: Vec<u64> = (1..=last).collect();
        assert_eq!(history(&database), (all.clone(), all[1..].to_vec()), "1 has no archive");
        assert_eq!(opened.gaps(), [1]);
        drop(opened);
        database.close().await.unwrap();
        let database = machine.open().await;
        assert_eq!(history(&database).1[0], 2);
        assert_eq!(database.storage().redo().log().unwrap().gaps(), [1]);
        // One that was archived: there is nothing more to be said.
        let rows = log(database.instance().redo());
        let old = rows.iter().find(|row| row.status == "INACTIVE").unwrap().group;
        assert!(database.storage().redo().clear_logfiles(&[old], false).await.unwrap().is_empty());
        let rows = log(database.instance().redo());
        let row = rows.iter().find(|row| row.group == old).unwrap();
        assert_eq!((row.status, row.sequence, row.archived), ("UNUSED", 0, "NO"));
        assert_eq!(database.storage().redo().log().unwrap().gaps(), [1]);
        // As after a crash between the naming of an archive and the note that it is there after all.
        let control = Arc::clone(database.storage().redo().log().unwrap().control());
        control.note(|notes| notes.set_cleared(2, true)).await.unwrap();
        assert_eq!(database.storage().redo().log().unwrap().gaps(), [1, 2]);
        drop(control);
        database.close().await.unwrap();
        let database = machine.open().await;
        assert_eq!(database.storage().redo().log().unwrap().gaps(), [1]);
        assert_eq!(history(&database).1[0], 2);
        database.close().await.unwrap();
    });
}

/// After a crash: the group has its sequence, or there is a gap that is known.
async fn check(database: &Database, is_cleared: bool, acknowledged: &[u64], context: &str) {
    let redo = database.instance().redo();
    assert!(redo.problem().is_none(), "{context}: {:?}", redo.problem());
    let found = found(database).await;
    let lost: Vec<_> = acknowledged.iter().filter(|n| found.get(n) != Some(&1)).collect();
    assert!(lost.is_empty(), "{context}: {lost:?} of {acknowledged:?}");
    assert_eq!(log_files(database).len(), 9, "{context}");
    let has = log(redo).iter().any(|row| row.sequence == 1);
    assert!(!(has && is_cleared), "{context}: it was cleared and is there again");
    database.storage().redo().checkpoint().await.unwrap();
    let opened = database.storage().redo().log().unwrap();
    if has {
        assert_eq!(opened.gaps(), [0; 0], "{context}");
        assert_eq!(refused(database, 1, false).await, 350, "{context}");
        assert_eq!(
            database.storage().redo().clear_logfiles(&[1], true).await.unwrap().len(),
            1,
            "{context}"
        );
    }
    assert_eq!(opened.gaps(), [1], "{context}");
    assert!(commit(&opened, &session(database), 1000).await, "{context}");
    let last =
        database.storage().redo().archive_log_current(session(database).waits()).await.unwrap();
    let all: Vec<u64> = (1..=last).collect();
    assert_eq!(history(database), (all.clone(), all[1..].to_vec()), "{context}");
}

#[test]
fn a_power_cut_anywhere_in_clearing_leaves_the_group_or_a_gap_that_is_known() {
    let machine = Machine::new(71);
    machine.run(async {
        let database = machine.open().await;
        database.alter_system_set("log_archive_dest", "+DATA/arch", None).await.unwrap();
        database.close().await.unwrap();
    });
    for point in 1.. {
        let acknowledged: RefCell<Vec<u64>> = RefCell::default();
        let is_cleared = Cell::new(false);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            damaged(&database).await;
            machine.sim.crash_after(point);
            // A statement that the power cuts off never ends.
            database.storage().redo().clear_logfiles(&[1], true).await.unwrap();
            is_cleared.set(true);
            let opened = database.storage().redo().log().unwrap();
            opened.keep_records(true);
            if commit(&opened, &session(&database), 100).await {
                acknowledged.borrow_mut().push(100);
            }
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let database = machine.open().await;
            let context = format!("cut off at {point}");
            let acknowledged = acknowledged.borrow().clone();
            check(&database, is_cleared.get(), &acknowledged, &context).await;
            database.storage().redo().drop_log().await.unwrap();
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(point > 4, "clearing made {point} I/Os");
            return;
        }
    }
}
