//! RECOVER FORCE that fails: what is wrong is told, and it may be tried again.

use std::time::Duration;

use bytes::Bytes;
use cellar_instance::Database;
use cellar_io::{DeviceExt, Durability, EnvExt, Io};
use cellar_storage::redo::{CONTROL_PATH, REDO_DIR};

use super::{commit, make, session};
use crate::machine::Machine;
use crate::row_tables;

async fn refused(database: &Database) {
    let error = database.storage().redo().open_forced().await.unwrap_err();
    assert!(error.has(70161), "{error}");
    let redo = database.instance().redo();
    assert_eq!(redo.problem().unwrap().number(), error.number(), "status tells it");
    let told =
        database.storage().redo().switch_logfile(session(database).waits()).await.unwrap_err();
    assert_eq!(told.number(), error.number(), "{told}: who asks for the log is told why");
    assert!(told.next_step().is_some(), "{told}");
}

#[test]
fn a_log_that_recover_force_could_not_open_is_tried_again_when_its_group_is_mounted() {
    let machine = Machine::new(83);
    machine.run(async {
        let database = machine.open().await;
        make(&database, &["+MORE.MORE_0000", "+MORE.MORE_0001"]).await;
        let opened = database.storage().redo().log().unwrap();
        assert!(commit(&opened, &session(&database), 1).await);
        for disk in 0..2 {
            machine.more_disk(disk).vanish();
        }
        assert!(!commit(&opened, &session(&database), 2).await);
        // Until its media have answered.
        database.env().sleep(Duration::from_secs(60)).await;
        assert!(opened.log().stopped().is_some());
        refused(&database).await;
        refused(&database).await;
        for disk in 0..2 {
            machine.more_disk(disk).come_back();
        }
        // Somebody has the log that has stopped all the while.
        database.storage().groups().dismount("MORE", true).await.unwrap();
        database.mount_group("MORE", false).await.unwrap();
        assert!(database.instance().redo().problem().is_none());
        let again = database.storage().redo().log().unwrap();
        assert!(commit(&again, &session(&database), 3).await);
        drop((opened, again));
        database.close().await.unwrap();
    });
}

/// The files of the log, and its control file: of each its group, its path and its bytes.
async fn log_files(database: &Database) -> Vec<(String, String, Bytes)> {
    let mut files = Vec::new();
    for name in ["DATA", "MORE"] {
        let group = database.group(name).unwrap().group;
        let listed = group.list(&format!("{REDO_DIR}/*"), true).into_iter();
        let paths = listed.filter(|own| own.file.is_some()).map(|own| own.path);
        for path in paths.chain((name == "DATA").then(|| CONTROL_PATH.to_owned())) {
            let file = group.open(&path).unwrap();
            let length = usize::try_from(file.size()).unwrap();
            let bytes = file.read_at(Io::FOREGROUND, 0, length).await.unwrap();
            files.push((name.to_owned(), path, bytes.freeze()));
        }
    }
    files
}

async fn rows_read(database: &Database, table: &str) -> usize {
    let rows = row_tables::rows_of(database, table).unwrap();
    let statement = database.heap().reading(&row_tables::session(database)).unwrap();
    let (mut scan, mut count) = (statement.shares(&rows, 1).unwrap().scan(0), 0);
    while let Some(some) = scan.next().await.unwrap() {
        count += some.iter().count();
    }
    count
}

#[test]
fn tables_that_are_ahead_of_a_log_that_was_forced_are_read_and_never_changed() {
    let machine = Machine::new(85);
    machine.run(async {
        let database = machine.open().await;
        make(&database, &["+MORE.MORE_0000"]).await;
        database.use_heap(&|_, _| ()).await.unwrap();
        row_tables::create(&database, "t").await;
        row_tables::insert(&database, "t", 0..20, 500).await.unwrap();
        database.storage().redo().checkpoint().await.unwrap();
        let files = log_files(&database).await;
        assert!(files.len() >= 3, "{}", files.len());
        row_tables::insert(&database, "t", 20..300, 500).await.unwrap();
        database.storage().redo().checkpoint().await.unwrap();
        // The log, and what is known of it, as they were: writes were lost.
        for (group, path, bytes) in files {
            let group = database.group(&group).unwrap().group;
            let file = group.open(&path).unwrap();
            file.write_at(Io::FOREGROUND, 0, bytes, Durability::Durable).await.unwrap();
        }
    });
    machine.sim.crash();
    machine.sim.restart();
    machine.run(async {
        let database = machine.open().await;
        let problem = database.instance().redo().problem().unwrap();
        assert!(problem.has(1113), "{problem}: the log is older than the heap");
        database.storage().redo().open_forced().await.unwrap();
        database.find_catalog().await.unwrap();
        for _ in 0..2 {
            assert!(database.heap().is_ahead());
            assert_eq!(rows_read(&database, "t").await, 300);
            let refused = row_tables::insert(&database, "t", 900..901, 10).await.unwrap_err();
            assert_eq!(refused.number(), 70214, "{refused}");
        }
        database.close().await.unwrap();
        // Neither who opens it next.
        let database = machine.open().await;
        assert!(database.heap().is_ahead());
        assert_eq!(rows_read(&database, "t").await, 300);
        let refused = row_tables::insert(&database, "t", 900..901, 10).await.unwrap_err();
        assert_eq!(refused.number(), 70214, "{refused}");
        database.close().await.unwrap();
    });
}
