//! The work of a layer with a catalog: changes of several tables in one commit, tables that are made, filled and
//! exchanged by a transaction, and the removal of what no catalog names after a power cut.

use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode, Resource};
use cellar_heap::{Error, Isolation, Key, ObjectKind, RowKey, RowRef, Store, TableOf, Transaction};
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::support::{Rig, SMALL};

/// A table with a row for the number of the table that is in use, and of its index.
const CATALOG: u32 = 1;
const EXTENT: u64 = SMALL.extent_pages as u64 * 8192;

fn begin(store: &Store, session: &Session) -> Transaction {
    store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever)
}

fn row(number: u32) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(500, number as u8);
    bytes.into()
}

fn key(index: u32, number: u32) -> RowKey {
    let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
    RowKey { key: Key { index, bytes }, is_unique: true }
}

/// The table that the catalog names, and where.
async fn named(own: &mut Transaction) -> (RowRef, u32) {
    let mut scan = own.statement().await.unwrap().scan(CATALOG).unwrap();
    let batch = scan.next().await.unwrap().unwrap();
    assert_eq!(batch.len(), 1);
    let (at, bytes) = batch.get(0).unwrap();
    (at, u32::from_be_bytes(bytes[..4].try_into().unwrap()))
}

async fn create(store: &Store, session: &Session, table: u32) {
    store.create_table(session, table).await.unwrap();
    store.create_index(session, table + 1).await.unwrap();
}

async fn fill(own: &mut Transaction, table: u32, count: u32) -> Result<(), Error> {
    for number in 0..count {
        own.insert(table, row(number), vec![key(table + 1, number)]).await?;
    }
    Ok(())
}

/// Removes what the catalog does not name, as an opening would.
async fn sweep(store: &Store, session: &Session) -> u32 {
    let (_, table) = named(&mut begin(store, session)).await;
    let known = BTreeSet::from([CATALOG, table, table + 1]);
    for object in store.objects() {
        if !known.contains(&object.number) {
            store.drop_object(session, object.number).await.unwrap();
        }
    }
    let left: BTreeSet<u32> = store.objects().into_iter().map(|object| object.number).collect();
    assert_eq!(left, known);
    table
}

/// TRUNCATE in a transaction: another table, filled and put in the place of the old one by one commit.
async fn exchange(store: &Store, session: &Session, new: u32, count: u32) -> Result<u64, Error> {
    store.create_table(session, new).await?;
    store.create_index(session, new + 1).await?;
    let mut own = begin(store, session);
    let (at, old) = named(&mut own).await;
    own.lock(Resource::Table(old), Mode::AccessExclusive).await?;
    own.lock_row(CATALOG, at, Mode::Exclusive).await?;
    own.update((CATALOG, at), row(new), Vec::new(), Vec::new()).await?;
    fill(&mut own, new, count).await?;
    let lsn = own.commit().await?.lsn;
    // As long as somebody sees the old one it stays.
    if store.oldest_view() > lsn {
        store.drop_object(session, old).await?;
        store.drop_object(session, old + 1).await?;
    }
    Ok(lsn)
}

async fn set_up(rig: &Rig) -> (Store, Session) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, CATALOG).await.unwrap();
    create(&store, &session, 10).await;
    let mut own = begin(&store, &session);
    own.insert(CATALOG, row(10), Vec::new()).await.unwrap();
    fill(&mut own, 10, 20).await.unwrap();
    own.commit().await.unwrap();
    (store, session)
}

#[test]
fn a_power_cut_leaves_the_old_table_or_the_new_one_and_the_rest_can_be_removed() {
    let mut after_commit = 0;
    for cut in 1..=90 {
        let rig = Rig::new(cut, 4 << 20, 1 << 20);
        rig.data.tear_sectors(Rng::stream(cut, 51).coin());
        let store = rig.run(async { set_up(&rig).await.0 });
        rig.sim.crash_after(cut);
        let mut is_committed = false;
        rig.sim.run(async {
            is_committed = exchange(&store, &rig.session(), 20, 30).await.is_ok();
        });
        drop(store);
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            let table = sweep(&store, &session).await;
            assert!(table == 20 || !is_committed && table == 10, "cut {cut}: {table}");
            after_commit += u32::from(table == 20);
            let mut own = begin(&store, &session);
            let all = (Bound::Unbounded, Bound::Unbounded);
            let entries = own.entries(table + 1, all, false, usize::MAX).await.unwrap();
            assert_eq!(entries.len(), if table == 20 { 30 } else { 20 });
            let of = |table, indexes: &[u32]| TableOf { table, indexes: indexes.to_vec() };
            let tables = [of(CATALOG, &[]), of(table, &[table + 1])];
            let report = store.view().verify(&session, &tables, None).await.unwrap();
            assert_eq!((report.findings, report.left_out), (Vec::new(), 0), "cut {cut}");
            // Another one goes all the way.
            drop(own);
            exchange(&store, &session, 30, 5).await.unwrap();
            assert_eq!(sweep(&store, &session).await, 30);
        });
    }
    // Before it are the three records of two objects and of the commit, and little else.
    assert!((20..=87).contains(&after_commit), "{after_commit} of 90 cuts came after the commit");
}

#[test]
fn an_old_table_is_there_for_who_saw_it() {
    let rig = Rig::new(100, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let mut reader = store.begin(&session, Isolation::Snapshot, LockTimeout::Forever);
        assert_eq!(named(&mut reader).await.1, 10);
        let lsn = exchange(&store, &session, 20, 3).await.unwrap();
        assert!(store.oldest_view() <= lsn, "somebody sees the old one");
        reader.begin_statement().await.unwrap();
        assert_eq!(named(&mut reader).await.1, 10);
        let mut scan = reader.statement().await.unwrap().scan(10).unwrap();
        let mut rows = 0;
        while let Some(batch) = scan.next().await.unwrap() {
            rows += batch.len();
        }
        assert_eq!(rows, 20);
        drop((reader, scan));
        assert!(store.oldest_view() > lsn);
        assert_eq!(sweep(&store, &session).await, 20);
    });
}

#[test]
fn what_was_rolled_back_leaves_an_empty_table_that_can_be_removed() {
    let rig = Rig::new(101, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        create(&store, &session, 20).await;
        let mut own = begin(&store, &session);
        fill(&mut own, 20, 30).await.unwrap();
        own.rollback();
        assert!(store.view().scan(&session, 20).await.unwrap().is_empty());
        assert_eq!(sweep(&store, &session).await, 10);
        // The numbers are free again.
        create(&store, &session, 20).await;
    });
}

#[test]
fn objects_and_counters_are_listed_with_the_room_that_they_take() {
    let rig = Rig::new(102, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        store.create_counter(&session, 7, 1).await.unwrap();
        store.create_counter(&session, 3, 1).await.unwrap();
        let check = |store: &Store| {
            assert_eq!(store.counters(), [3, 7]);
            let objects = store.objects();
            let kinds: Vec<_> = objects.iter().map(|at| (at.number, at.kind)).collect();
            let (table, index) = (ObjectKind::Table, ObjectKind::Index);
            assert_eq!(kinds, [(CATALOG, table), (10, table), (11, index)]);
            assert!(objects.iter().all(|at| at.bytes == u64::from(at.extents) * EXTENT));
            objects
        };
        let before = check(&store);
        assert!(before.iter().all(|at| at.extents == 1), "{before:?}");
        let mut own = begin(&store, &session);
        for number in 100..400 {
            own.insert(10, row(number), vec![key(11, number)]).await.unwrap();
        }
        own.commit().await.unwrap();
        // 320 rows of 500 bytes.
        let table = store.object(10).unwrap();
        assert!((160_000..4 * 160_000).contains(&table.bytes), "{table:?}");
        let after = check(&store);
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        assert_eq!(check(&store), after);
        let error = store.object(99).unwrap_err();
        assert!(matches!(error, Error::WrongObject { object: 99, .. }), "{error}");
    });
}
