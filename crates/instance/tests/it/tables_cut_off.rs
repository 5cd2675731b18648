//! The power cut at every I/O of each change of a table: it is as before or as after, whole, and
//! no file is left that no table names.

use std::cell::Cell;

use cellar_instance::Database;

use crate::machine::{Machine, append, create, files, free, merge, named, rows};

/// What is done when the power goes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create,
    Append,
    Merge,
    Truncate,
    Drop,
}

async fn make(database: &Database, change: Change, id: u64) {
    match change {
        Change::Create => drop(create(database, "new", "MORE", 5).await),
        Change::Append => append(database, "t", id, 6).await.unwrap(),
        Change::Merge => {
            let was = database.catalog().current().table("t").unwrap().clone();
            assert!(merge(database, &was, 1, 6).await);
        }
        Change::Truncate => drop(database.tables().truncate_columnar("t").await.unwrap()),
        Change::Drop => drop(database.tables().drop_columnar("t").await.unwrap()),
    }
}

/// Where the catalog is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    File,
    Heap,
}

/// Whether the change was made: the tables are as before it, or as after it.
async fn was_made(database: &Database, change: Change) -> bool {
    let catalog = database.catalog().current();
    let mut seen = Vec::new();
    for table in catalog.columnar_tables() {
        seen.push((table.name.clone(), rows(database, &table.name).await));
    }
    let seen: Vec<(&str, &[u8])> = seen.iter().map(|(n, r)| (n.as_str(), &r[..])).collect();
    let after: &[(&str, &[u8])] = match change {
        Change::Create => &[("new", &[5]), ("t", &[1, 2])],
        Change::Append => &[("t", &[1, 2, 6])],
        Change::Merge => &[("t", &[1, 6])],
        Change::Truncate => &[("t", &[])],
        Change::Drop => &[],
    };
    let before: &[(&str, &[u8])] = &[("t", &[1, 2])];
    assert!(seen == before || seen == after, "{change:?}: {seen:?}");
    seen == after
}

/// Cuts the power at one I/O after the other until the change is made before it; tells how often
/// the change was not made, was made, and how many files were swept.
fn cut_everywhere(change: Change, seed: u64, kept: Kept) -> [usize; 3] {
    let machine = Machine::new(seed);
    let empty = machine.run(async {
        let database = machine.open().await;
        if kept == Kept::Heap {
            database.use_heap(&|_, _| ()).await.unwrap();
        }
        create(&database, "warm", "MORE", 0).await;
        database.tables().drop_columnar("warm").await.unwrap();
        let empty = free(&database, "MORE");
        database.close().await.unwrap();
        empty
    });
    let mut counts = [0; 3];
    for point in 1.. {
        let under_way = Cell::new(false);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            let id = create(&database, "t", "MORE", 1).await;
            append(&database, "t", id, 2).await.unwrap();
            under_way.set(true);
            machine.sim.crash_after(point);
            make(&database, change, id).await;
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        assert!(under_way.get());
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let database = machine.open().await;
            counts[usize::from(was_made(&database, change).await)] += 1;
            counts[2] += database.tables().swept();
            assert_eq!(files(&database, "MORE"), named(&database, "MORE"), "{change:?} {point}");
            for table in &database.catalog().current().tables {
                database.tables().drop_columnar(&table.name).await.unwrap();
            }
            assert_eq!(free(&database, "MORE"), empty, "{change:?} cut off at {point}");
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(point > if kept == Kept::File { 20 } else { 5 }, "{change:?}: {point} I/Os");
            return counts;
        }
    }
    unreachable!("it ends")
}

#[test]
fn a_load_cut_off_anywhere_is_made_or_not_and_leaves_nothing() {
    for (change, seed) in [(Change::Create, 21), (Change::Append, 22)] {
        let [before, after, swept] = cut_everywhere(change, seed, Kept::File);
        assert!(before > 10 && after > 1, "{change:?}: {before} {after}");
        assert!(swept > 1, "{change:?}: none was cut off between the file and the catalog");
    }
}

#[test]
fn segments_that_are_put_together_are_there_once_wherever_it_is_cut_off() {
    let [before, after, swept] = cut_everywhere(Change::Merge, 25, Kept::File);
    assert!(before > 10 && after > 1, "{before} {after}");
    assert!(swept > 1, "none was cut off beside the catalog");
}

#[test]
fn segments_are_put_together_only_where_they_are_still_the_end() {
    let machine = Machine::new(26);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "MORE", 1).await;
        append(&database, "t", id, 2).await.unwrap();
        let was = database.catalog().current().table("t").unwrap().clone();
        append(&database, "t", id, 3).await.unwrap();
        assert!(!merge(&database, &was, 1, 9).await);
        assert_eq!(rows(&database, "t").await, [1, 2, 3]);
        let was = database.catalog().current().table("t").unwrap().clone();
        assert!(merge(&database, &was, 2, 5).await);
        assert!(!merge(&database, &was, 2, 9).await, "they are gone");
        assert_eq!(rows(&database, "t").await, [1, 5]);
        assert_eq!(files(&database, "MORE"), named(&database, "MORE"));
        database.close().await.unwrap();
    });
}

#[test]
fn rows_taken_away_are_all_there_or_all_gone() {
    for (change, seed) in [(Change::Truncate, 23), (Change::Drop, 24)] {
        let [before, after, swept] = cut_everywhere(change, seed, Kept::File);
        assert!(before >= 10 && after > 1, "{change:?}: {before} {after}");
        assert!(swept > 1, "{change:?}: none was cut off between the catalog and the files");
    }
}

#[test]
fn a_change_of_a_catalog_in_the_heap_cut_off_anywhere_is_made_or_not() {
    let all = [Change::Create, Change::Append, Change::Merge, Change::Truncate, Change::Drop];
    for (change, seed) in all.into_iter().zip(60..) {
        let [before, after, swept] = cut_everywhere(change, seed, Kept::Heap);
        assert!(before > 1 && after > 1, "{change:?}: {before} {after}");
        assert!(swept > 0, "{change:?}: none was cut off beside the catalog");
    }
}
