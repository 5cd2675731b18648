//! Tables in the heap: the power cut at every I/O of making, emptying and dropping them leaves nothing in the
//! heap that the catalog does not name; what somebody still reads stays; the heap grows with its group.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::catalog::{
    Index, IndexColumn, Owned, RowTable, Sequence, SequenceType, Table,
};
use cellar_instance::heap::{Begin, IndexKey, Statement};
use cellar_instance::{Database, Error};
use cellar_io::EnvExt;
use cellar_storage::OpenMode;
use cellar_wait::Session;

use crate::machine::Machine;

pub fn session(database: &Database) -> Session {
    database.instance().sessions().background("test").waits().clone()
}

/// A table with two indexes.
pub fn plain_table(name: &str) -> Table {
    let index = |name: &str, is_unique| Index {
        object: 0,
        name: name.to_owned(),
        columns: vec![IndexColumn { column: 0, descending: false }],
        is_unique,
        constraint: None,
        number: 0,
    };
    let indexes = vec![index(&format!("{name}_one"), true), index(&format!("{name}_two"), false)];
    Table::in_heap(name, "{\"columns\":[]}", RowTable { indexes, ..RowTable::plain(0) })
}

/// One to which a sequence belongs as well.
fn new_table(name: &str) -> Table {
    let mut table = plain_table(name);
    let owned = Owned { column: 0, sequence: format!("{name}_seq"), identity: None };
    table.rows.as_mut().unwrap().owned.push(owned);
    table
}

pub fn rows_of(database: &Database, name: &str) -> Option<RowTable> {
    database.catalog().current().row_table(name).map(|(_, rows)| rows.clone())
}

/// A table, with a sequence that goes with it.
pub async fn create(database: &Database, name: &str) {
    let (session, table) = (session(database), new_table(name));
    let sequence = Sequence {
        id: 0,
        counter: 0,
        of: SequenceType::Bigint,
        start: 5,
        increment: 1,
        least: 1,
        most: i64::MAX,
        cache: 1,
        cycles: false,
    };
    let sequences = vec![(format!("{name}_seq"), sequence)];
    database.add_with_sequences(&session, sequences, Some(table), &|_, _| ()).await.unwrap();
    let catalog = database.catalog().current();
    let made = catalog.sequence(&format!("{name}_seq")).unwrap();
    assert_eq!(database.heap().next_value(made).unwrap(), Some(5));
}

async fn truncate(database: &Database, name: &str) {
    database.truncate_row_table(&session(database), name, Begin::default()).await.unwrap();
}

async fn drop_table(database: &Database, name: &str) {
    database.drop_row_table(&session(database), name, Begin::default()).await.unwrap();
}

pub fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

pub async fn insert(
    database: &Database,
    name: &str,
    numbers: std::ops::Range<u64>,
    length: usize,
) -> Result<(), Error> {
    let table = rows_of(database, name).unwrap();
    let mut own = database.heap().begin(&session(database), Begin::default())?;
    own.lock_to_read(&table).await?;
    own.statement().await?;
    for number in numbers {
        let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
        let key = IndexKey { bytes, has_null: false };
        own.insert(&table, row(number, length), &[key.clone(), key]).await.map_err(|error| {
            match error {
                cellar_instance::heap::ChangeError::Other(error) => error,
                other => panic!("{other:?}"),
            }
        })?;
    }
    own.commit().await
}

async fn count(statement: &Statement, table: &RowTable) -> usize {
    let (shares, mut rows) = (statement.shares(table, 1).unwrap(), 0);
    let mut scan = shares.scan(0);
    while let Some(batch) = scan.next().await.unwrap() {
        rows += batch.iter().count();
    }
    rows
}

/// The rows of a table; `None` where there is none.
pub async fn count_now(database: &Database, name: &str) -> Option<usize> {
    let table = rows_of(database, name)?;
    let mut own = database.heap().begin(&session(database), Begin::default()).unwrap();
    let statement = own.statement().await.unwrap();
    Some(count(&statement, &table).await)
}

/// What the catalog names.
pub fn named(database: &Database) -> BTreeSet<u32> {
    let catalog = database.catalog().current();
    catalog.tables.iter().flat_map(Table::objects).collect()
}

/// What is in the heap.
pub fn objects(database: &Database) -> BTreeSet<u32> {
    database.heap().objects().unwrap().into_iter().collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Create,
    Truncate,
    Drop,
}

/// Cuts the power at one I/O after the other until the change is made before it. How often it was not made, how
/// often it was, and how many objects were swept.
fn cut_everywhere(change: Change, seed: u64) -> [usize; 3] {
    let machine = Machine::new(seed);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "kept").await;
        insert(&database, "kept", 0..20, 100).await.unwrap();
        database.close().await.unwrap();
    });
    let mut counts = [0; 3];
    for point in 1.. {
        let under_way = Cell::new(false);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            if change != Change::Create {
                create(&database, "t").await;
                insert(&database, "t", 0..10, 100).await.unwrap();
            }
            under_way.set(true);
            machine.sim.crash_after(point);
            match change {
                Change::Create => create(&database, "t").await,
                Change::Truncate => truncate(&database, "t").await,
                Change::Drop => drop_table(&database, "t").await,
            }
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        assert!(under_way.get());
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let looking = machine.open_as(OpenMode { read_only: true, force: false }).await;
            assert_eq!(looking.heap().swept(), 0);
            looking.close().await.unwrap();
            let database = machine.open().await;
            let rows = count_now(&database, "t").await;
            let (before, after) = match change {
                Change::Create => (None, Some(0)),
                Change::Truncate => (Some(10), Some(0)),
                Change::Drop => (Some(10), None),
            };
            assert!(rows == before || rows == after, "{change:?} {point}: {rows:?}");
            counts[usize::from(rows == after)] += 1;
            counts[2] += database.heap().swept();
            assert_eq!(objects(&database), named(&database), "{change:?} cut off at {point}");
            assert_eq!(count_now(&database, "kept").await, Some(20));
            if rows.is_some() {
                drop_table(&database, "t").await;
            }
            assert_eq!(objects(&database), named(&database), "{change:?} cut off at {point}");
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(point > 5, "{change:?}: {point} I/Os");
            return counts;
        }
    }
    unreachable!("it ends")
}

#[test]
fn a_power_cut_anywhere_in_ddl_leaves_nothing_without_a_name() {
    for (change, seed) in [(Change::Create, 90), (Change::Truncate, 91), (Change::Drop, 92)] {
        let [before, after, swept] = cut_everywhere(change, seed);
        assert!(before > 0 && after > 0, "{change:?}: {before} {after}");
        assert!(swept > 0, "{change:?}: none was cut off between the heap and the catalog");
    }
}

#[test]
fn rows_that_somebody_reads_stay_until_that_is_over() {
    let machine = Machine::new(93);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        create(&database, "u").await;
        insert(&database, "t", 0..50, 100).await.unwrap();
        insert(&database, "u", 0..30, 100).await.unwrap();
        let (t, u) = (rows_of(&database, "t").unwrap(), rows_of(&database, "u").unwrap());
        let mut own = database.heap().begin(&session(&database), Begin::default()).unwrap();
        let statement = own.statement().await.unwrap();
        own.commit().await.unwrap();
        truncate(&database, "t").await;
        drop_table(&database, "u").await;
        assert_eq!(count_now(&database, "t").await, Some(0));
        database.env().sleep(Duration::from_secs(5)).await;
        assert_eq!(objects(&database).len(), named(&database).len() + 7);
        assert_eq!(count(&statement, &t).await, 50);
        assert_eq!(count(&statement, &u).await, 30);
        drop(statement);
        database.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(objects(&database), named(&database));
        // Where nobody reads it is gone at once.
        insert(&database, "t", 0..5, 100).await.unwrap();
        truncate(&database, "t").await;
        assert_eq!(objects(&database), named(&database));
        database.close().await.unwrap();
    });
}

#[test]
fn what_is_still_read_when_the_database_is_closed_goes_at_the_next_opening() {
    let machine = Machine::new(94);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        insert(&database, "t", 0..50, 100).await.unwrap();
        let mut own = database.heap().begin(&session(&database), Begin::default()).unwrap();
        let statement = own.statement().await.unwrap();
        own.commit().await.unwrap();
        truncate(&database, "t").await;
        database.close().await.unwrap();
        drop(statement);
        let database = machine.open().await;
        assert_eq!(database.heap().swept(), 3);
        assert_eq!(objects(&database), named(&database));
        database.close().await.unwrap();
    });
}

#[test]
fn the_heap_grows_until_its_group_is_full_and_goes_on_when_there_is_room() {
    let machine = Machine::new(95);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        let group = database.group("DATA").unwrap().group;
        let size = || group.open("cellar/heap").unwrap().size();
        assert_eq!(size(), 16 << 20);
        let (mut number, mut sizes) = (0, BTreeSet::new());
        let full = loop {
            sizes.insert(size());
            match insert(&database, "t", number..number + 50, 4000).await {
                Ok(()) => number += 50,
                Err(error) => break error,
            }
        };
        assert_eq!(full.number(), 1653, "{full}");
        assert!(full.to_string().contains("disk group \"DATA\" has no room"), "{full}");
        assert!(full.next_step().unwrap().to_string().contains("add a disk"), "{full}");
        assert!(sizes.len() > 3 && size() > 40 << 20, "{sizes:?}");
        assert!(group.info().writable_mb < 4, "{}", group.info().writable_mb);
        assert_eq!(count_now(&database, "t").await, Some(number as usize));
        database.close().await.unwrap();
        let database = machine.open().await;
        assert_eq!(count_now(&database, "t").await, Some(number as usize));
        // Another table needs room of its own, also one in the place of this: nothing is left of what failed.
        let session = session(&database);
        let emptied = database.truncate_row_table(&session, "t", Begin::default()).await;
        assert_eq!(emptied.unwrap_err().number(), 1653);
        assert_eq!(objects(&database), named(&database));
        // What is dropped gives its room to others of the heap.
        drop_table(&database, "t").await;
        create(&database, "u").await;
        for from in (0..1000).step_by(100) {
            insert(&database, "u", from..from + 100, 4000).await.unwrap();
        }
        assert_eq!(count_now(&database, "u").await, Some(1000));
        database.close().await.unwrap();
    });
}
