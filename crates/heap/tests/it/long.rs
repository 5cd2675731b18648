//! Long values: in pages of their own, versioned and freed as rows are.

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode, Resource};
use cellar_heap::{Change, Error, Isolation, RowRef, Store, TableOf, Transaction};
use cellar_page::row::{self, Type, Value};
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 3;

fn value(seed: u8, length: usize) -> Bytes {
    (0..length).map(|at| (at / 11) as u8 ^ seed).collect::<Vec<u8>>().into()
}

fn begin(store: &Store, session: &Session) -> Transaction {
    store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever)
}

/// A row of a long value.
fn row_of(page: u32, length: usize) -> Bytes {
    Bytes::from(row::encode(&[Value::Int4(1), Value::Overflow { page, length: length as u32 }]))
}

fn named(row: &[u8]) -> (u32, u32) {
    let types = [Type::Int4, Type::Bytes];
    match row::decode(row, &types).unwrap()[1] {
        Value::Overflow { page, length } => (page, length),
        other => panic!("{other:?}"),
    }
}

async fn insert(store: &Store, session: &Session, value: Bytes) -> RowRef {
    let mut transaction = begin(store, session);
    let length = value.len();
    let page = transaction.put_long(TABLE, value.clone()).await.unwrap();
    assert_eq!(transaction.long(TABLE, page, length as u32).await.unwrap(), value, "one's own");
    transaction.insert(TABLE, row_of(page, length), Vec::new()).await.unwrap();
    RowRef::Stored(transaction.commit().await.unwrap().rows[0].unwrap())
}

async fn read(transaction: &mut Transaction, id: RowRef) -> Bytes {
    let row = transaction.row(TABLE, id).await.unwrap().unwrap();
    let (page, length) = named(&row);
    transaction.long(TABLE, page, length).await.unwrap()
}

#[test]
fn long_values_survive_a_crash_and_are_seen_by_old_snapshots() {
    let rig = Rig::new(5, 24 << 20, 8 << 20);
    let lengths = [0, 1, 5_000, 8_136, 8_137, 300_000, 3_000_000];
    let ids = rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut ids = Vec::new();
        for (seed, length) in lengths.into_iter().enumerate() {
            ids.push(insert(&store, &session, value(seed as u8, length)).await);
        }
        ids
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let (store, replayed) = rig.open().await.unwrap();
        assert!(replayed.commits > 0);
        let session = rig.session();
        let mut old = store.begin(&session, Isolation::Snapshot, LockTimeout::Forever);
        for (seed, length) in lengths.into_iter().enumerate() {
            assert_eq!(read(&mut old, ids[seed]).await, value(seed as u8, length), "{length}");
        }
        // Others delete the rows, and what they write next would fit nowhere but in these pages.
        for id in &ids {
            let mut transaction = begin(&store, &session);
            let row = transaction.lock_row(TABLE, *id, Mode::Exclusive).await.unwrap().unwrap();
            transaction.delete(TABLE, *id, Vec::new()).await.unwrap();
            transaction.free_long(TABLE, named(&row).0).await.unwrap();
            transaction.commit().await.unwrap();
        }
        for round in 0..4 {
            insert(&store, &session, value(77 + round, 500_000)).await;
        }
        for (seed, length) in lengths.into_iter().enumerate() {
            assert_eq!(read(&mut old, ids[seed]).await, value(seed as u8, length), "{length}");
        }
    });
}

#[test]
fn pages_of_freed_values_and_of_rolled_back_ones_are_used_again() {
    // Room for three such values, and not for four.
    let rig = Rig::new(6, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let long = value(9, 2_000_000);
        for round in 0..10 {
            let mut lost = begin(&store, &session);
            lost.put_long(TABLE, long.clone()).await.unwrap();
            lost.rollback();
            let id = insert(&store, &session, long.clone()).await;
            let mut transaction = begin(&store, &session);
            let savepoint = transaction.savepoint();
            transaction.put_long(TABLE, long.clone()).await.unwrap();
            transaction.rollback_to(savepoint);
            assert_eq!(read(&mut transaction, id).await, long, "round {round}");
            let row = transaction.lock_row(TABLE, id, Mode::Exclusive).await.unwrap().unwrap();
            transaction.delete(TABLE, id, Vec::new()).await.unwrap();
            let savepoint = transaction.savepoint();
            transaction.free_long(TABLE, named(&row).0).await.unwrap();
            transaction.rollback_to(savepoint);
            transaction.free_long(TABLE, named(&row).0).await.unwrap();
            transaction.commit().await.unwrap();
        }
        let mut transaction = begin(&store, &session);
        let too_long = transaction.put_long(TABLE, vec![0; (64 << 20) + 1].into()).await;
        assert_eq!(too_long.unwrap_err().number(), 70206);
    });
}

#[test]
fn a_value_that_is_not_there_is_an_error() {
    let rig = Rig::new(7, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let id = insert(&store, &session, value(1, 20_000)).await;
        let mut transaction = begin(&store, &session);
        let row = transaction.row(TABLE, id).await.unwrap().unwrap();
        let (page, length) = named(&row);
        for (table, page, length) in
            [(TABLE + 1, page, length), (TABLE, page, length - 1), (TABLE, page, u32::MAX)]
        {
            let error = transaction.long(table, page, length).await.unwrap_err();
            assert!(matches!(error, Error::NoValue { .. }), "{error}");
        }
    });
}

#[test]
fn pages_of_a_value_that_is_freed_first_after_an_opening_are_used_once() {
    let rig = Rig::new(8, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut ids = Vec::new();
        for seed in 0..6 {
            ids.push(insert(&store, &session, value(seed, 60_000)).await);
        }
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        for id in &ids[..3] {
            let mut transaction = begin(&store, &session);
            let row = transaction.lock_row(TABLE, *id, Mode::Exclusive).await.unwrap().unwrap();
            transaction.delete(TABLE, *id, Vec::new()).await.unwrap();
            transaction.free_long(TABLE, named(&row).0).await.unwrap();
            transaction.commit().await.unwrap();
        }
        let mut new = Vec::new();
        for seed in 0..20 {
            new.push(insert(&store, &session, value(100 + seed, 30_000)).await);
        }
        let mut transaction = begin(&store, &session);
        for (seed, id) in ids.iter().enumerate().skip(3) {
            assert_eq!(read(&mut transaction, *id).await, value(seed as u8, 60_000));
        }
        for (seed, id) in new.iter().enumerate() {
            assert_eq!(read(&mut transaction, *id).await, value(100 + seed as u8, 30_000));
        }
    });
}

#[test]
fn a_table_is_not_emptied_under_a_value_that_is_put_into_it() {
    let rig = Rig::new(9, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut putting = begin(&store, &session);
        putting.put_long(TABLE, value(1, 50_000)).await.unwrap();
        let mut other = store.begin(&session, Isolation::ReadCommitted, LockTimeout::None);
        let busy = other.lock(Resource::Table(TABLE), Mode::AccessExclusive).await;
        assert_eq!(busy.unwrap_err().number(), 54);
        // Though nobody has looked: what is given back is not the new table's.
        store.truncate(&session, TABLE).await.unwrap();
        putting.rollback();
        store.create_table(&session, TABLE + 1).await.unwrap();
        for _ in 0..4 {
            insert(&store, &session, value(2, 200_000)).await;
        }
        let of = |table| TableOf { table, indexes: Vec::new() };
        let report =
            store.view().verify(&session, &[of(TABLE), of(TABLE + 1)], None).await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    });
}

#[test]
fn a_view_after_a_truncate_never_sees_the_rows_before_it() {
    let rig = Rig::new(10, 3 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        for round in 0..8u8 {
            let old = value(round, 3_000);
            let change = |_| Change::Insert { table: TABLE, row: old.clone(), keys: Vec::new() };
            store.commit(&session, (0..80).map(change).collect()).await.unwrap();
            store.truncate(&session, TABLE).await.unwrap();
            let empty = store.view();
            store.commit(&session, (0..80).map(change).collect()).await.unwrap();
            assert!(empty.scan(&session, TABLE).await.unwrap().is_empty(), "round {round}");
            drop(empty);
            store.truncate(&session, TABLE).await.unwrap();
        }
    });
}
