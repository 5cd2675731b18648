//! Large transactions beside each other where the cache and the log are small: each of them fits alone, none is
//! refused for the others, and none waits for ever.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, RowId, Store};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;
use futures_util::future::{Either, join_all, select};

use crate::support::Rig;

const TABLE: u32 = 1;
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
