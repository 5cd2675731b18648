//! A control file in as many copies as its group can keep.

use std::cell::RefCell;
use std::time::Duration;

use cellar_instance::Database;
use cellar_instance::views::controlfile;
use cellar_io::EnvExt;

use super::{MEDIA, commit, found, make, session};
use crate::machine::Machine;

fn copies(database: &Database) -> u64 {
    let rows = controlfile(database.instance().redo());
    assert_eq!(rows[0].name, "+DATA/cellar/redo.control");
    assert_eq!(rows[0].block_size * rows[0].file_size_blks, 1 << 20);
    rows[0].copies
}

/// Makes a log while one of three disks is away, and has the disk come back.
fn made_with_two(machine: &Machine) {
    machine.data_disk(2).vanish();
    machine.run(async {
        let database = machine.open().await;
        database.env().sleep(Duration::from_secs(60)).await;
        assert_eq!(database.group("DATA").unwrap().group.info().offline_disks, 1);
        make(&database, &MEDIA[..2]).await;
        let opened = database.storage().redo().log().unwrap();
        opened.keep_records(true);
        assert!(commit(&opened, &session(&database), 1).await);
        assert_eq!(copies(&database), 2);
        drop(opened);
        database.close().await.unwrap();
    });
    machine.data_disk(2).come_back();
    machine.data_disk(2).heal();
    machine.run(async {
        let database = machine.open().await;
        database.storage().redo().log().unwrap().keep_records(true);
        database.env().sleep(Duration::from_secs(60)).await;
        assert_eq!(database.group("DATA").unwrap().group.info().offline_disks, 0);
        database.close().await.unwrap();
    });
}

#[test]
fn the_control_file_gets_the_copies_that_it_could_not_have_and_a_power_cut_loses_nothing() {
    let machine = Machine::new(84);
    // Opening makes a thousand I/Os, most of which are not about this.
    for point in (1..).step_by(13) {
        made_with_two(&machine);
        let acknowledged: RefCell<Vec<u64>> = RefCell::default();
        let done = machine.sim.run(async {
            machine.sim.crash_after(point);
            let database = machine.open().await;
            let opened = database.storage().redo().log().unwrap();
            opened.keep_records(true);
            assert_eq!(copies(&database), 3);
            if commit(&opened, &session(&database), 2).await {
                acknowledged.borrow_mut().push(2);
            }
            machine.sim.crash_never();
            drop(opened);
            database.close().await.unwrap();
        });
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let database = machine.open().await;
            let context = format!("cut off at {point}");
            let redo = database.instance().redo();
            assert!(redo.problem().is_none(), "{context}: {:?}", redo.problem());
            assert_eq!(copies(&database), 3, "{context}");
            let opened = database.storage().redo().log().unwrap();
            opened.keep_records(true);
            assert!(commit(&opened, &session(&database), 3).await, "{context}");
            drop(opened);
            let found = found(&database).await;
            let lost: Vec<u64> = acknowledged.borrow().clone();
            let lost: Vec<_> = lost.iter().chain(&[3]).filter(|n| !found.contains_key(n)).collect();
            assert!(lost.is_empty(), "{context}: {lost:?} of {found:?}");
            let all = database.group("DATA").unwrap().group.list("cellar/*", true);
            let named = all.iter().filter(|listed| listed.path.contains("redo.control")).count();
            assert_eq!(named, 1, "{context}");
            database.storage().redo().drop_log().await.unwrap();
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(point > 4, "opening made {point} I/Os");
            return;
        }
    }
}
