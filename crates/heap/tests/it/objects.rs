//! Tables and indexes that come and go: their room is used again, views see what was there, and a power cut
//! leaves all of them or nothing.

use bytes::Bytes;
use cellar_heap::{Change, Error, Key, RowId, Store};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;
use futures_util::FutureExt;

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const OTHER: u32 = 3;

fn row(number: u64) -> Bytes {
    let mut bytes = vec![number as u8; 900];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

async fn fill(store: &Store, session: &Session, table: u32, count: u64) -> Vec<RowId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let keys = match table {
            TABLE => {
                vec![Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }]
            }
            _ => Vec::new(),
        };
        let change = Change::Insert { table, row: row(number), keys };
        ids.extend(store.commit(session, vec![change]).await.unwrap().rows[0]);
    }
    ids
}

/// How many rows a table takes until the store is full; they go again.
async fn room(store: &Store, session: &Session) -> u64 {
    store.create_table(session, OTHER).await.unwrap();
    let mut count = 0;
    loop {
        let change = Change::Insert { table: OTHER, row: row(count), keys: Vec::new() };
        match store.commit(session, vec![change]).await {
            Ok(_) => count += 1,
            Err(Error::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    store.drop_object(session, OTHER).await.unwrap();
    count
}

async fn keys(store: &Store, session: &Session) -> usize {
    let (from, to) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
    let view = store.view();
    view.range(session, INDEX, &from..=&to, false, usize::MAX).await.unwrap().len()
}

#[test]
fn room_of_a_table_that_goes_is_used_again_once_nobody_sees_it() {
    let rig = Rig::new(1, 3 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let empty = room(&store, &session).await;
        for _ in 0..5 {
            let ids = fill(&store, &session, TABLE, 1000).await;
            let view = store.view();
            store.truncate(&session, TABLE).await.unwrap();
            store.truncate(&session, INDEX).await.unwrap();
            assert_eq!(store.view().scan(&session, TABLE).await.unwrap(), []);
            assert_eq!(keys(&store, &session).await, 0);
            // What a view sees is left alone, however little room there is.
            assert!(room(&store, &session).await < empty - 900);
            for (number, id) in ids.iter().enumerate() {
                let found = view.row(&session, TABLE, *id).await.unwrap();
                assert_eq!(found, Some(row(number as u64)));
            }
            drop(view);
            assert_eq!(room(&store, &session).await, empty, "all room is there again");
        }
        store.drop_object(&session, INDEX).await.unwrap();
        let gone = store.drop_object(&session, INDEX).await;
        assert!(matches!(gone, Err(Error::WrongObject { .. })), "{gone:?}");
        store.create_index(&session, INDEX).await.unwrap();
        assert_eq!(keys(&store, &session).await, 0);
    });
}

#[test]
fn a_power_cut_leaves_a_table_as_it_was_or_empty_and_no_extent_nobody_s() {
    let (mut kept, mut gone) = (0, 0);
    for seed in 0..80 {
        let mut rng = Rng::stream(seed, 1);
        let rig = Rig::new(seed, 3 << 20, 1 << 20);
        let rows = rng.within(1..=120);
        let is_dropped = rng.coin();
        let empty = rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            store.create_index(&session, INDEX).await.unwrap();
            let empty = room(&store, &session).await;
            fill(&store, &session, TABLE, rows).await;
            store.close().await.unwrap();
            empty
        });
        // An opening is some tens of these.
        rig.sim.crash_after(rng.within(30..=160));
        let done = rig.sim.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            if is_dropped {
                store.drop_object(&session, TABLE).await.unwrap();
                store.drop_object(&session, INDEX).await.unwrap();
                store.create_table(&session, TABLE).await.unwrap();
                store.create_index(&session, INDEX).await.unwrap();
            } else {
                store.truncate(&session, TABLE).await.unwrap();
                store.truncate(&session, INDEX).await.unwrap();
            }
            store.checkpoint().await.unwrap();
        });
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            for object in [TABLE, INDEX] {
                let made = match object {
                    TABLE => store.create_table(&session, object).await,
                    _ => store.create_index(&session, object).await,
                };
                let is_there = matches!(made, Err(Error::WrongObject { .. }));
                assert!(is_there || made.is_ok() && is_dropped, "seed {seed}: {made:?}");
            }
            let report = store.view().verify(&session, &[], None).await.unwrap();
            assert_eq!(report.findings, [], "seed {seed}");
            let there = store.view().scan(&session, TABLE).await.unwrap().len() as u64;
            let entries = keys(&store, &session).await as u64;
            assert!(there == 0 || there == rows, "seed {seed}: {there} of {rows} rows");
            assert!(entries == 0 || entries == rows, "seed {seed}: {entries} of {rows} entries");
            assert!(there <= entries, "seed {seed}: the table went first");
            assert!(done.is_none() || entries == 0, "seed {seed}: it was answered");
            *(if entries == 0 { &mut gone } else { &mut kept }) += 1;
            store.truncate(&session, TABLE).await.unwrap();
            store.truncate(&session, INDEX).await.unwrap();
            assert_eq!(room(&store, &session).await, empty, "seed {seed}: no room is lost");
        });
    }
    assert!(kept > 10 && gone > 10, "{kept} {gone}");
}

#[test]
fn a_number_is_free_again_when_nobody_waits_for_what_fails() {
    for seed in 0..10 {
        let rig = Rig::new(seed, 2 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            store.create_index(&session, INDEX).await.unwrap();
            let mut count = 0;
            loop {
                let change = Change::Insert { table: TABLE, row: row(count), keys: Vec::new() };
                match store.commit(&session, vec![change]).await {
                    Ok(_) => count += 1,
                    Err(Error::Full { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            // Whoever wants it goes before the answer is there: the file is full.
            let mut made = Box::pin(store.create_table(&session, OTHER));
            assert!(made.as_mut().now_or_never().is_none(), "seed {seed}");
            drop(made);
            rig.sim.env().sleep(std::time::Duration::from_millis(5)).await;
            store.drop_object(&session, TABLE).await.unwrap();
            store.create_table(&session, OTHER).await.unwrap();
            fill(&store, &session, OTHER, 5).await;
        });
    }
}
