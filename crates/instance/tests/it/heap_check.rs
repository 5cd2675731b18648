//! Checks of tables whose rows change: what is sound, and what disks have lost without a wrong checksum.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use cellar_diskgroup::File;
use cellar_instance::Database;
use cellar_instance::catalog::{Catalog, RowTable, Table};
use cellar_instance::heap::{HEAP_PATH, IndexKey, RowReader, RowsChecked};
use cellar_io::{Device, DeviceExt, Durability, Io};
use cellar_page::{Kind, PAGE_BYTES, PageRef};

use crate::machine::Machine;
use crate::row_tables;

/// The keys that [`row_tables::insert`] gives to its rows.
#[expect(clippy::unnecessary_wraps, reason = "as who knows keys answers")]
fn knows(_: &Catalog, _: &Table, rows: &RowTable) -> Option<RowReader> {
    let count = rows.indexes.len();
    let keys = Arc::new(move |row: &[u8]| {
        let bytes = Bytes::copy_from_slice(row.get(..8)?);
        Some(vec![IndexKey { bytes, has_null: false }; count])
    });
    Some(RowReader { keys, longs: Arc::new(|_: &[u8]| Some(Vec::new())) })
}

async fn checked(database: &Database) -> RowsChecked {
    let (read, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |bytes: u64, of: u64| {
        read.fetch_add(bytes, Ordering::Relaxed);
        total.store(of, Ordering::Relaxed);
    };
    let session = row_tables::session(database);
    let found = database.heap().check(&session, Some(&knows), &progress).await.unwrap().unwrap();
    assert!(read.into_inner() > 0 && total.into_inner() > 0, "it tells how it goes on");
    // Without keys it compares less, and finds nothing more.
    let less = database.heap().check(&session, None, &|_, _| ()).await.unwrap().unwrap();
    assert!(less.wrong.len() <= found.wrong.len(), "{less:?}");
    found
}

fn heap_file(database: &Database) -> File {
    database.group("DATA").unwrap().group.open(HEAP_PATH).unwrap()
}

async fn bytes_of(file: &File) -> Bytes {
    let length = usize::try_from(file.geometry().size).unwrap();
    file.read_at(Io::FOREGROUND, 0, length).await.unwrap().freeze()
}

/// Puts pages of a kind back as they were.
async fn put_back(file: &File, before: &Bytes, kind: Kind) -> usize {
    let mut now = BytesMut::from(&bytes_of(file).await[..]);
    let mut count = 0;
    for (at, old) in before.chunks_exact(PAGE_BYTES).enumerate() {
        let place = at * PAGE_BYTES..(at + 1) * PAGE_BYTES;
        let page = PageRef::new(old.try_into().unwrap());
        if page.kind() == Some(kind) && now[place.clone()] != *old && page.owner() >= 64 {
            now[place].copy_from_slice(old);
            count += 1;
        }
    }
    file.write_at(Io::FOREGROUND, 0, now.freeze(), Durability::Durable).await.unwrap();
    count
}

/// A database with rows of which a disk has lost the newest versions of pages of a kind: what a check finds.
fn found_behind(seed: u64, kind: Kind) -> RowsChecked {
    let machine = Machine::new(seed);
    machine.run(async {
        let database = machine.open().await;
        database.use_heap(&|_, _| ()).await.unwrap();
        row_tables::create(&database, "t").await;
        row_tables::create(&database, "sound").await;
        row_tables::insert(&database, "sound", 0..50, 100).await.unwrap();
        row_tables::insert(&database, "t", 0..50, 100).await.unwrap();
        database.storage().redo().checkpoint().await.unwrap();
        let before = bytes_of(&heap_file(&database)).await;
        row_tables::insert(&database, "t", 50..80, 100).await.unwrap();
        database.storage().redo().checkpoint().await.unwrap();
        let sound = checked(&database).await;
        assert_eq!((sound.tables, sound.wrong.len()), (2, 0), "{sound:?}");
        assert!(sound.rows > 130 && sound.entries > 260 && sound.keys_compared, "{sound:?}");
        database.close().await.unwrap();
        let database = machine.open().await;
        assert!(put_back(&heap_file(&database), &before, kind).await > 0);
    });
    machine.sim.crash();
    machine.sim.restart();
    let mut found = RowsChecked::default();
    machine.run(async {
        let database = machine.open().await;
        found = checked(&database).await;
        database.close().await.unwrap();
    });
    found
}

#[test]
fn an_index_that_a_disk_has_lost_changes_of_is_named() {
    let found = found_behind(91, Kind::Leaf);
    let [wrong] = &found.wrong[..] else { panic!("{found:?}") };
    assert_eq!((wrong.table.as_str(), wrong.is_table), ("t", false), "{wrong:?}");
    assert_eq!(wrong.indexes, ["t_one", "t_two"]);
    assert!(
        wrong.words[0].starts_with("index t_one of t: ") && wrong.words.len() == 3,
        "{wrong:?}"
    );
    // Thirty rows are in neither index.
    assert_eq!(wrong.words.len() as u64 + wrong.more, 60, "{wrong:?}");
}

#[test]
fn a_table_that_a_disk_has_lost_rows_of_is_told_by_its_indexes() {
    let found = found_behind(92, Kind::Heap);
    let [wrong] = &found.wrong[..] else { panic!("{found:?}") };
    assert_eq!(wrong.table, "t");
    assert!(wrong.words[0].contains("where table"), "{wrong:?}");
    // Of thirty rows, but for those on a page that was not in use before.
    let found = wrong.words.len() as u64 + wrong.more;
    assert!((40..=60).contains(&found) && found.is_multiple_of(2), "{wrong:?}");
}
