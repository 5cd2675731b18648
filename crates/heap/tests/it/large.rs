//! Large transactions beside each other where the cache and the log are small: each of them fits alone, none is
//! refused for the others, and none waits for ever.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Key, RowId, Store};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;
use futures_util::future::{Either, join_all, select};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 3;
/// A table that the transactions have nothing to do with.
const OTHER: u32 = 2;
/// Rows in a page: each committer has one of its own in each.
const IN_PAGE: u64 = 4;
const PAGES: u64 = 220;

fn row(committer: u64, round: u64) -> Bytes {
    let mut bytes = vec![committer as u8; 1900];
    bytes[..8].copy_from_slice(&round.to_be_bytes());
    bytes.into()
}

/// Rows of each committer, in all pages.
async fn fill(store: &Store, session: &Session) -> Vec<Vec<RowId>> {
    store.create_table(session, TABLE).await.unwrap();
    let mut ids = vec![Vec::new(); IN_PAGE as usize];
    for _ in 0..PAGES {
        let insert = |of| Change::Insert { table: TABLE, row: row(of, 0), keys: Vec::new() };
        let changes = (0..IN_PAGE).map(insert).collect();
        let rows = store.commit(session, changes).await.unwrap().rows;
        rows.into_iter().flatten().zip(&mut ids).for_each(|(id, of)| of.push(id));
    }
    ids
}

/// Changes rows in so many pages, in any order.
fn changes(rng: &mut Rng, ids: &[RowId], pages: u64, next: &Bytes) -> Vec<Change> {
    let mut ids = ids.to_vec();
    for at in (1..ids.len()).rev() {
        ids.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let update = |id| {
        let (row, gone, new) = (next.clone(), Vec::new(), Vec::new());
        Change::Update { table: TABLE, id, row, gone, new }
    };
    ids.into_iter().take(pages as usize).map(update).collect()
}

#[test]
fn large_transactions_do_not_wait_for_each_other_for_ever() {
    for seed in 0..25 {
        let mut rng = Rng::stream(seed, 1);
        let mut rig = Rig::new(seed, 8 << 20, 2 << 20);
        rig.options.cache_pages = rng.within(4..=64) as usize;
        rig.options.dirty_max = rng.within(1..=32) as usize;
        rig.options.images_max = rng.within(50..=2000) as usize;
        let pages = rng.within(100..=PAGES);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let (session, env) = (rig.session(), rig.sim.env());
            store.create_table(&session, OTHER).await.unwrap();
            let mut others = Vec::new();
            for _ in 0..100 {
                let row = vec![1; 8000].into();
                let change = Change::Insert { table: OTHER, row, keys: Vec::new() };
                others.extend(store.commit(&session, vec![change]).await.unwrap().rows[0]);
            }
            let ids = fill(&store, &session).await;
            for (of, ids) in ids.iter().enumerate() {
                let alone = changes(&mut rng, ids, pages, &row(of as u64, 1));
                store.commit(&session, alone).await.expect("it fits alone");
            }
            let committers = ids.iter().enumerate().map(|(of, ids)| {
                let (store, session) = (store.clone(), rig.session());
                let mut rng = Rng::stream(seed, 2 + of as u64);
                async move {
                    for round in 2..8 {
                        let set = changes(&mut rng, ids, pages, &row(of as u64, round));
                        store.commit(&session, set).await.expect("it fits beside the others");
                    }
                }
            });
            let all = Box::pin(join_all(committers));
            let long = env.sleep(Duration::from_secs(600));
            let first = select(all, long).await;
            assert!(matches!(first, Either::Left(_)), "seed {seed}: somebody waits for ever");
            // What was held beyond the size of the cache goes when other pages come.
            store.checkpoint().await.unwrap();
            env.sleep(rig.options.checkpoint_after * 3).await;
            for id in others {
                assert!(store.view().row(&session, OTHER, id).await.unwrap().is_some());
            }
            let cache = store.cache_statistics();
            assert!(cache.used <= cache.capacity, "seed {seed}: {cache:?}");
        });
    }
}

/// Keys of a row, spread over the whole index.
fn keys(number: u64) -> Vec<Key> {
    let mut bytes = vec![1; 60];
    bytes[..8].copy_from_slice(&(number * 7919 % 1_000_003).to_be_bytes());
    vec![Key { index: INDEX, bytes: bytes.into() }]
}

fn short(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

#[test]
fn a_large_transaction_begins_anew_seldom_whatever_it_lacks() {
    const ROWS: u64 = 4000;
    let mut rig = Rig::new(5, 64 << 20, 8 << 20);
    rig.options.cache_pages = 4096;
    rig.options.dirty_max = 2048;
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let insert =
            |number| Change::Insert { table: TABLE, row: short(number, 100), keys: keys(number) };
        let mut ids = Vec::new();
        for from in (0..ROWS).step_by(500) {
            let some = (from..from + 500).map(insert).collect();
            ids.extend(store.commit(&session, some).await.unwrap().rows.into_iter().flatten());
        }
        store.close().await.unwrap();

        // No page is in memory; rows outgrow their pages, and keys go to others.
        let (store, _) = rig.open().await.unwrap();
        let update = |(at, id): (usize, &RowId)| {
            let number = at as u64;
            let (row, gone, new) = (short(number, 260), keys(number), keys(number + ROWS));
            Change::Update { table: TABLE, id: *id, row, gone, new }
        };
        store.commit(&session, ids.iter().enumerate().map(update).collect()).await.unwrap();
        assert!(store.begun_anew() <= 20, "an update began anew {} times", store.begun_anew());
        let rows = store.view().scan(&session, TABLE).await.unwrap();
        assert_eq!(rows.len() as u64, ROWS);
        assert!(rows.iter().all(|(_, row)| row.len() == 260));
        store.close().await.unwrap();

        let (store, _) = rig.open().await.unwrap();
        let longer = |(at, id): (usize, &RowId)| {
            let (row, gone, new) = (short(at as u64, 700), Vec::new(), Vec::new());
            Change::Update { table: TABLE, id: *id, row, gone, new }
        };
        store.commit(&session, ids.iter().enumerate().map(longer).collect()).await.unwrap();
        assert!(store.begun_anew() <= 20, "rows that had moved: {} times", store.begun_anew());
        store.close().await.unwrap();

        let (store, _) = rig.open().await.unwrap();
        let delete = |(at, id): (usize, &RowId)| {
            let keys = keys(at as u64 + ROWS);
            Change::Delete { table: TABLE, id: *id, keys }
        };
        store.commit(&session, ids.iter().enumerate().map(delete).collect()).await.unwrap();
        assert!(store.begun_anew() <= 20, "a delete began anew {} times", store.begun_anew());
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap(), []);
        let (from, to) = (vec![0; 60], vec![0xFE; 60]);
        let left =
            store.view().range(&session, INDEX, &from[..]..=&to[..], false, 10).await.unwrap();
        assert_eq!(left, []);
    });
}
