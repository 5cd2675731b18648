//! The takeover of the catalog by the heap: the power cut at every I/O of it, and openings of what it leaves.

use cellar_instance::Database;
use cellar_storage::OpenMode;
use cellar_storage::request::NewLogfile;

use crate::machine::{Machine, append, create, files, named, rows};

/// The rows of each table.
async fn tables(database: &Database) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for table in &database.catalog().current().tables {
        found.push((table.name.clone(), rows(database, &table.name).await));
    }
    found
}

fn wanted() -> Vec<(String, Vec<u8>)> {
    vec![("a".to_owned(), vec![1, 2]), ("b".to_owned(), vec![3])]
}

/// A machine with a database that has these tables, their catalog in its file.
fn machine(seed: u64) -> Machine {
    let machine = Machine::new(seed);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "a", "MORE", 1).await;
        append(&database, "a", id, 2).await.unwrap();
        create(&database, "b", "DATA", 3).await;
        let group = NewLogfile { size: Some(1 << 20), ..NewLogfile::default() };
        let groups = [group.clone(), group];
        database.storage().redo().add_logfiles(&groups, &|_, _| ()).await.unwrap();
        database.close().await.unwrap();
    });
    machine
}

#[test]
fn a_takeover_cut_off_anywhere_loses_no_table_and_goes_on() {
    let (mut taken, mut not_taken) = (0, 0);
    for point in (1..).step_by(3) {
        let machine = machine(70 + point);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            machine.sim.crash_after(point);
            database.use_heap(&|_, _| ()).await.unwrap();
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            // Who only looks sees them, too.
            let looking = machine.open_as(OpenMode { read_only: true, force: false }).await;
            assert_eq!(tables(&looking).await, wanted(), "cut off at {point}");
            looking.close().await.unwrap();
            let database = machine.open().await;
            assert_eq!(tables(&database).await, wanted(), "cut off at {point}");
            for group in ["DATA", "MORE"] {
                assert_eq!(files(&database, group), named(&database, group), "cut off at {point}");
            }
            let is_taken = database.heap().is_open();
            taken += u64::from(is_taken);
            not_taken += u64::from(!is_taken);
            database.use_heap(&|_, _| ()).await.unwrap();
            create(&database, "c", "MORE", 7).await;
            database.tables().drop_columnar("b").await.unwrap();
            database.close().await.unwrap();
            let again = machine.open().await;
            let now = vec![("a".to_owned(), vec![1, 2]), ("c".to_owned(), vec![7])];
            assert_eq!(tables(&again).await, now, "cut off at {point}");
            again.close().await.unwrap();
        });
        if done.is_some() {
            break;
        }
    }
    assert!(taken > 10 && not_taken > 10, "{taken} {not_taken}");
}
