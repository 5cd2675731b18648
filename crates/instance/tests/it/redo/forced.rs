//! RECOVER FORCE that fails: what is wrong is told, and it may be tried again.

use std::time::Duration;

use cellar_instance::Database;
use cellar_io::EnvExt;

use super::{commit, make, session};
use crate::machine::Machine;

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
