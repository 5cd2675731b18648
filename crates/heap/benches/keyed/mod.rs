//! A table of rows with a primary key, for benchmarks that find rows by it.

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{Isolation, LoadIndex, RowRef, Store, Transaction};
use cellar_wait::{Kind, Session, Waits};

use crate::rig::{Kept, Rig};

pub const TABLE: u32 = 1;
pub const KEY: u32 = 2;

pub fn key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// This many bytes, of which the first eight are the key.
pub fn row(number: u64, bytes: usize) -> Bytes {
    let mut row = number.to_be_bytes().to_vec();
    row.resize(bytes, number as u8);
    row.into()
}

/// Creates the table and reads all of it into memory, if the cache is large enough.
pub async fn fill(store: &Store, session: &Session, rows: u64, bytes: usize) {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, KEY).await.unwrap();
    let index = LoadIndex { index: KEY, is_unique: true };
    let mut load = store.begin_load(session, TABLE, &[index], 256 << 20).await.unwrap();
    for number in 0..rows {
        load.row(row(number, bytes), &[Some(key(number))]).await.unwrap();
    }
    load.commit().await.unwrap();
    let view = store.view();
    for number in 0..rows {
        let key = number.to_be_bytes();
        let found = view.range(session, KEY, &key..=&key, false, 1).await.unwrap();
        view.row(session, TABLE, found[0].1).await.unwrap().unwrap();
    }
    drop(view);
    store.checkpoint().await.unwrap();
}

pub fn begin(store: &Store, session: &Session) -> Transaction {
    store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever)
}

/// Closes the store, opens it again and checks that all rows are there.
pub fn finish(rig: &Rig, store: Store, kept: &Kept, rows: u64) {
    rig.runtime.block_on(async {
        store.close().await.unwrap();
        let (store, _) = rig.open_again(kept).await;
        let session = Waits::new().session("check", Kind::User);
        let (first, last) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
        let found = store.view().range(&session, KEY, &first..=&last, false, usize::MAX).await;
        assert_eq!(found.unwrap().len() as u64, rows, "all are there");
        store.close().await.unwrap();
    });
}

/// Finds a row by its key and locks it.
pub async fn lock(own: &mut Transaction, number: u64) -> RowRef {
    own.begin_statement().await.unwrap();
    let found = own.range(KEY, key(number)..=key(number)).await.unwrap();
    let at = found[0].1;
    own.lock_row(TABLE, at, Mode::Exclusive).await.unwrap().unwrap();
    at
}

/// Updates a row; durable on return.
pub async fn update(store: &Store, session: &Session, number: u64, row: Bytes) {
    let mut own = begin(store, session);
    let at = lock(&mut own, number).await;
    own.update((TABLE, at), row, Vec::new(), Vec::new()).await.unwrap();
    own.commit().await.unwrap();
}

/// The value that this share of all values lies below.
pub fn share(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}
