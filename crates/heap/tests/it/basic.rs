//! Rows and keys of a store without crashes: what is put in is found, by row, by key and by scan; what has
//! no room moves; what is deleted is gone.

use bytes::Bytes;
use cellar_heap::{Change, Error, Key, RowId};

use crate::support::Rig;

const TABLE: u32 = 10;
const INDEX: u32 = 11;

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length.max(8)];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

#[test]
fn what_is_put_in_is_found() {
    let rig = Rig::new(1, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let mut ids = Vec::new();
        // Keys in no order, several in a commit.
        for from in (0..2000u64).step_by(10) {
            let changes = (from..from + 10).map(|n| {
                let n = n * 7919 % 2000;
                Change::Insert { table: TABLE, row: row(n, 100), keys: vec![key(n)] }
            });
            let done = store.commit(&session, changes.collect()).await.unwrap();
            ids.extend(done.rows.into_iter().map(Option::unwrap));
        }
        let view = store.view();
        let (first, last) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
        let all = view.range(&session, INDEX, &first..=&last, false, 5000).await.unwrap();
        let numbers: Vec<u64> =
            all.iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())).collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
        for (number, (_, id)) in all.iter().enumerate() {
            let found = view.row(&session, TABLE, *id).await.unwrap();
            assert_eq!(found, Some(row(number as u64, 100)));
        }
        let (from, to) = (100u64.to_be_bytes(), 120u64.to_be_bytes());
        let back = view.range(&session, INDEX, &from..=&to, true, 5).await.unwrap();
        let back: Vec<u8> = back.iter().map(|(key, _)| key[7]).collect();
        assert_eq!(back, [120, 119, 118, 117, 116]);
        let mut scanned = view.scan(&session, TABLE).await.unwrap();
        scanned.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(scanned.len(), 2000);
        assert!(scanned.iter().enumerate().all(|(n, (_, bytes))| *bytes == row(n as u64, 100)));
        assert_eq!(ids.len(), 2000);
        store.close().await.unwrap();
    });
}

#[test]
fn rows_that_grow_move_and_keep_their_place() {
    let rig = Rig::new(2, 8 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let insert = |n| Change::Insert { table: TABLE, row: row(n, 1000), keys: Vec::new() };
        let done = store.commit(&session, (0..20).map(insert).collect()).await.unwrap();
        let ids: Vec<RowId> = done.rows.into_iter().map(Option::unwrap).collect();
        let old = store.view();
        for length in [3000, 7000, 6, 8000, 500] {
            for (n, id) in ids.iter().enumerate() {
                let row = row(n as u64, length);
                let (gone, new) = (Vec::new(), Vec::new());
                let change = Change::Update { table: TABLE, id: *id, row, gone, new };
                store.commit(&session, vec![change]).await.unwrap();
            }
            let view = store.view();
            for (n, id) in ids.iter().enumerate() {
                let found = view.row(&session, TABLE, *id).await.unwrap();
                assert_eq!(found, Some(row(n as u64, length)), "{id:?} of {length}");
            }
            let mut found: Vec<RowId> =
                view.scan(&session, TABLE).await.unwrap().into_iter().map(|(id, _)| id).collect();
            found.sort();
            assert_eq!(found, ids);
        }
        for (n, id) in ids.iter().enumerate() {
            let before = old.row(&session, TABLE, *id).await.unwrap();
            assert_eq!(before, Some(row(n as u64, 1000)), "a view stays as it is");
            let delete = Change::Delete { table: TABLE, id: *id, keys: Vec::new() };
            store.commit(&session, vec![delete.clone()]).await.unwrap();
            let again = store.commit(&session, vec![delete]).await;
            assert!(matches!(again, Err(Error::NoRow { .. })), "{again:?}");
        }
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap(), []);
        assert_eq!(old.scan(&session, TABLE).await.unwrap().len(), 20);
    });
}

#[test]
fn a_full_store_says_so_and_goes_on() {
    let rig = Rig::new(3, 2 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut ids = Vec::new();
        let full = loop {
            let row = row(ids.len() as u64, 4000);
            let insert = Change::Insert { table: TABLE, row, keys: Vec::new() };
            match store.commit(&session, vec![insert]).await {
                Ok(done) => ids.extend(done.rows.into_iter().flatten()),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full:?}");
        assert!(ids.len() > 250, "{}", ids.len());
        let delete = |id| Change::Delete { table: TABLE, id, keys: Vec::new() };
        store.commit(&session, vec![delete(ids[5])]).await.unwrap();
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), ids.len() - 1);
    });
}

#[test]
fn a_transaction_that_is_too_large_is_told_and_leaves_nothing() {
    let mut rig = Rig::new(31, 64 << 20, 1 << 20);
    rig.options.cache_pages = 4000;
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let row = |length: usize| Bytes::from(vec![7; length]);
        let inserts = |count, length| {
            (0..count).map(move |_| Change::Insert {
                table: TABLE,
                row: row(length),
                keys: Vec::new(),
            })
        };
        // A megabyte of redo, of a log of three.
        let error = store.commit(&session, inserts(1000, 1000).collect()).await.unwrap_err();
        assert_eq!(error.number(), 70207);
        assert!(error.to_string().contains("bytes of redo is too large"), "{error}");
        assert!(store.view().scan(&session, TABLE).await.unwrap().is_empty());
        for _ in 0..5 {
            store.commit(&session, inserts(300, 1000).collect()).await.unwrap();
        }
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 1500);
    });
}
