//! Input that a store refuses: an error with its number and the value, and the store goes on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Error, Geometry, Key, NewStore, Store, create};
use cellar_io::sim::SimDiskOptions;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};
use cellar_page::{Kind, PAGE_BYTES, PageMut, seal};
use cellar_redo::Lsn;
use cellar_wait::Session;

use crate::support::{Rig, SMALL};

const TABLE: u32 = 1;
const INDEX: u32 = 2;

async fn with_table(rig: &Rig) -> (Store, Session) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    store.create_index(&session, INDEX).await.unwrap();
    (store, session)
}

fn insert(length: usize) -> Change {
    Change::Insert { table: TABLE, row: vec![7; length].into(), keys: Vec::new() }
}

/// A store with this database's number in a file of its own.
async fn other(rig: &Rig, name: &str, database: u128, size: u64) -> Result<Arc<dyn Device>, Error> {
    let file = rig.sim.disk(name, SimDiskOptions { size, ..SimDiskOptions::default() });
    let device = file as Arc<dyn Device>;
    let new = NewStore { store: 8, database, geometry: SMALL, from: Lsn(0) };
    create(&device, new).await?;
    Ok(device)
}

#[track_caller]
fn told(error: &Error, number: u32, words: &str) {
    assert_eq!(error.number(), number, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_store_of_another_database_is_refused_with_both() {
    let rig = Rig::new(61, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, _) = with_table(&rig).await;
        store.close().await.unwrap();
        let device = other(&rig, "other", 43, 4 << 20).await.unwrap();
        let error = rig.open_on(device).await.unwrap_err();
        told(&error, 1130, &format!("database {:032x}", 43));
        told(&error, 1130, &format!("the log to {:032x}", 42));
        rig.open().await.unwrap();
    });
}

#[test]
fn a_file_that_is_too_small_and_sizes_that_cannot_be_are_refused() {
    let rig = Rig::new(62, 4 << 20, 1 << 20);
    rig.run(async {
        let error = other(&rig, "small", 42, 64 << 10).await.err().unwrap();
        told(&error, 70201, "65536 bytes is too small");
        let geometry = Geometry { extent_pages: 0, ..SMALL };
        let device = Arc::clone(&rig.data) as Arc<dyn Device>;
        let new = NewStore { store: 7, database: 42, geometry, from: Lsn(0) };
        told(&create(&device, new).await.unwrap_err(), 70205, "extent_pages: 0");
    });
}

#[test]
fn rows_keys_and_numbers_that_cannot_be_are_refused_and_the_store_goes_on() {
    let rig = Rig::new(63, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let key = |length| vec![Key { index: INDEX, bytes: vec![1; length].into() }];
        let row = Bytes::from_static(&[7; 20]);
        let with_key =
            |length| Change::Insert { table: TABLE, row: row.clone(), keys: key(length) };
        let elsewhere = Change::Insert { table: 9, row: row.clone(), keys: Vec::new() };
        for (change, number, words) in [
            (insert(9000), 70200, "9000 bytes is too long"),
            (insert(1), 70204, "1 bytes is too short"),
            (with_key(4000), 1450, "4000 bytes is too long"),
            (elsewhere, 70202, "object 9 is no table"),
        ] {
            let error = store.commit(&session, vec![insert(50), change]).await.unwrap_err();
            told(&error, number, words);
            assert_eq!(
                store.view().scan(&session, TABLE).await.unwrap().len(),
                0,
                "all or nothing"
            );
        }
        let mut own = store.begin(
            &session,
            cellar_heap::Isolation::ReadCommitted,
            cellar_heap::locks::LockTimeout::Forever,
        );
        let error = own.put_long(TABLE, Bytes::from(vec![0; (64 << 20) + 1])).await.unwrap_err();
        told(&error, 70206, "too long");
        own.rollback();
        store.commit(&session, vec![insert(50), with_key(40)]).await.unwrap();
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 2);
    });
}

#[test]
fn a_write_set_of_too_many_pages_is_refused_whole() {
    let rig = Rig::new(64, 24 << 20, 32 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let mut ids = Vec::new();
        for _ in 0..1_100 {
            ids.push(store.commit(&session, vec![insert(8000)]).await.unwrap().rows[0].unwrap());
        }
        let mut row = vec![7; 8000];
        row[0] = 8;
        let row = Bytes::from(row);
        let update = |id: &_| {
            let (gone, new) = (Vec::new(), Vec::new());
            Change::Update { table: TABLE, id: *id, row: row.clone(), gone, new }
        };
        let error = store.commit(&session, ids.iter().map(update).collect()).await.unwrap_err();
        told(&error, 70207, "1100 pages");
        let changed = async |store: &Store| {
            let rows = store.view().scan(&session, TABLE).await.unwrap();
            (rows.len(), rows.iter().filter(|(_, row)| row[0] == 8).count())
        };
        assert_eq!(changed(&store).await, (1_100, 0), "all or nothing");
        store.commit(&session, ids[..900].iter().map(update).collect()).await.unwrap();
        assert_eq!(changed(&store).await, (1_100, 900), "fewer pages are no more than fit");
    });
}

#[test]
fn a_write_set_of_more_redo_than_a_log_takes_is_refused_whole() {
    let rig = Rig::new(65, 8 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let inserts = |count| (0..count).map(|_| insert(8000)).collect::<Vec<_>>();
        let error = store.commit(&session, inserts(200)).await.unwrap_err();
        told(&error, 70207, "bytes of redo");
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 0, "all or nothing");
        store.commit(&session, inserts(100)).await.unwrap();
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 100);
    });
}

#[test]
fn a_header_without_a_good_copy_is_named() {
    let rig = Rig::new(64, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, _) = with_table(&rig).await;
        store.close().await.unwrap();
        rig.data.corrupt(0, 200);
        rig.data.corrupt(PAGE_BYTES as u64, 200);
        told(&rig.open().await.unwrap_err(), 1210, "");
        told(&rig.open_read_only().await.unwrap_err(), 1210, "");
    });
}

/// What an opening says where redo changes a row of 100 bytes, and its page, which is older, is what `make` makes.
fn redo_over(seed: u64, make: impl Fn(u32) -> [u8; PAGE_BYTES]) {
    let mut rig = Rig::new(seed, 4 << 20, 1 << 20);
    rig.options.checkpoint_after = Duration::from_secs(3600);
    rig.options.recovery_target = Duration::from_secs(3600);
    let page = rig.run(async {
        let (store, session) = with_table(&rig).await;
        let id = store.commit(&session, vec![insert(100)]).await.unwrap().rows[0].unwrap();
        // In a page of its own: an opening replays the last commit before the close.
        store.commit(&session, vec![insert(8100)]).await.unwrap();
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        let (row, gone, new) = (Bytes::from_static(&[9; 100]), Vec::new(), Vec::new());
        store
            .commit(&session, vec![Change::Update { table: TABLE, id, row, gone, new }])
            .await
            .unwrap();
        id.page
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let mut raw = make(page);
        seal(&mut raw);
        let bytes = Bytes::copy_from_slice(&raw);
        let at = u64::from(page) * PAGE_BYTES as u64;
        rig.data.write_at(Io::FOREGROUND, at, bytes, Durability::Durable).await.unwrap();
        told(&rig.open().await.unwrap_err(), 70203, &format!("page {page}"));
    });
}

#[test]
fn redo_that_does_not_fit_its_page_is_never_applied() {
    // Without the row that this is about.
    redo_over(65, |page| {
        let mut raw = [0; PAGE_BYTES];
        PageMut::format(&mut raw, 7, page, Kind::Heap, TABLE);
        raw
    });
}

#[test]
fn redo_of_a_row_is_never_applied_to_a_page_of_an_index() {
    // A cell of that length is there.
    redo_over(67, |page| {
        let mut raw = [0; PAGE_BYTES];
        PageMut::format(&mut raw, 7, page, Kind::Leaf, TABLE).insert(0, &[9; 100]);
        raw
    });
}

#[test]
fn a_log_that_loses_its_medium_stops_the_store_and_nothing_acknowledged_is_lost() {
    let rig = Rig::new(66, 4 << 20, 1 << 20);
    let acknowledged = rig.run(async {
        let (store, session) = with_table(&rig).await;
        let mut acknowledged = 0;
        for number in 0..40 {
            if number == 20 {
                rig.groups.iter().for_each(|disk| disk.vanish());
            }
            match store.commit(&session, vec![insert(100)]).await {
                Ok(_) => acknowledged += 1,
                Err(_) => break,
            }
        }
        rig.sim.env().sleep(Duration::from_secs(60)).await;
        let error = store.commit(&session, vec![insert(100)]).await.unwrap_err();
        assert!(matches!(error.number(), 1092 | 340), "{}: {error}", error.number());
        assert!(store.check_running().is_err());
        acknowledged
    });
    assert_eq!(acknowledged, 20);
    rig.groups.iter().for_each(|disk| disk.come_back());
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let rows = store.view().scan(&rig.session(), TABLE).await.unwrap().len();
        assert!((20..=21).contains(&rows), "{rows}");
    });
}
