//! A store whose file grows while it is open: for rows, loads and indexes, of many tables at once, through
//! power cuts, and where there is no room.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{
    BuildIndex, Change, Error, Growth, GrowthError, Key, LoadIndex, RowId, Store, TableOf,
};
use cellar_io::sim::{Rng, SimDisk};
use cellar_io::{Device, EnvExt, IoError, IoErrorKind, Op, SharedEnv};
use cellar_wait::Session;
use futures_util::future::{BoxFuture, select};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;

/// A disk that becomes longer in a millisecond, where it may.
struct Longer {
    disk: Arc<SimDisk>,
    env: SharedEnv,
    most: AtomicU64,
    calls: AtomicUsize,
    /// It says nothing of what it did: a crash came in between.
    is_silent: AtomicBool,
}

impl Growth for Longer {
    fn grow(&self, to_bytes: u64) -> BoxFuture<'_, Result<u64, GrowthError>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.env.sleep(Duration::from_millis(1)).await;
            if to_bytes > self.most.load(Ordering::SeqCst) {
                let (kind, name) = (IoErrorKind::NoSpace, self.disk.name());
                return Err(IoError::new(kind, &name, Op::Write, 0, 0).into());
            }
            self.disk.resize(to_bytes);
            if self.is_silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(to_bytes)
        })
    }
}

fn rig(seed: u64, bytes: u64, group: u64) -> (Rig, Arc<Longer>) {
    let mut rig = Rig::new(seed, bytes, group);
    let longer = Arc::new(Longer {
        disk: Arc::clone(&rig.data),
        env: rig.sim.env(),
        most: AtomicU64::new(u64::MAX),
        calls: AtomicUsize::new(0),
        is_silent: AtomicBool::new(false),
    });
    rig.growth = Some(Arc::clone(&longer) as _);
    (rig, longer)
}

fn key(index: u32, number: u64) -> Key {
    Key { index, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

async fn insert(store: &Store, session: &Session, number: u64) -> Result<RowId, Error> {
    let keys = vec![key(INDEX, number)];
    let change = Change::Insert { table: TABLE, row: row(number, 4000), keys };
    Ok(store.commit(session, vec![change]).await?.rows[0].unwrap())
}

async fn create(store: &Store, session: &Session) {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, INDEX).await.unwrap();
}

async fn verify(store: &Store, session: &Session, tables: &[TableOf]) {
    let report = store.view().verify(session, tables, None).await.unwrap();
    assert_eq!((report.findings, report.left_out), (Vec::new(), 0));
}

fn table() -> [TableOf; 1] {
    [TableOf { table: TABLE, indexes: vec![INDEX] }]
}

#[test]
fn many_tables_loads_and_indexes_grow_one_file_together() {
    let (mut rig, longer) = rig(1, 512 << 10, 16 << 20);
    rig.options.cache_pages = 400;
    let of = |table: u32| TableOf { table: table * 10, indexes: vec![table * 10 + 1] };
    let tables: Vec<TableOf> = (1..=12).map(of).collect();
    let rows = rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let tasks = (1..=12u32).map(|number| {
            let (store, session, table) = (store.clone(), rig.session(), number * 10);
            rig.sim.env().run("writer", async move {
                store.create_table(&session, table).await.unwrap();
                store.create_index(&session, table + 1).await.unwrap();
                if number % 4 > 0 {
                    for n in 0..150 {
                        let (row, keys) = (row(n, 4000), vec![key(table + 1, n)]);
                        let changes = vec![Change::Insert { table, row, keys }];
                        store.commit(&session, changes).await.unwrap();
                    }
                    return;
                }
                let mut load = store.begin_load(&session, table, &[], 0).await.unwrap();
                for n in 0..20_000 {
                    load.row(row(n, 100), &[]).await.unwrap();
                }
                load.commit().await.unwrap();
                let index = LoadIndex { index: table + 1, is_unique: true };
                let (key, progress) =
                    (|row: &[u8]| Ok(Some(Bytes::copy_from_slice(&row[..8]))), |_, _| {});
                let (key, progress): (cellar_heap::KeyOf<'_>, _) = (&key, &progress);
                let may_repeat = &|_: &[u8], _| false;
                let memory = 64 << 10;
                let build = BuildIndex { table, index, memory, key, may_repeat, progress };
                store.build_index(&session, &build).await.unwrap();
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let session = rig.session();
        let mut rows = BTreeMap::new();
        for TableOf { table, .. } in &tables {
            rows.insert(*table, store.view().scan(&session, *table).await.unwrap().len());
        }
        // A TRUNCATE of a full store needs an extent as well.
        store.truncate(&session, 10).await.unwrap();
        store.truncate(&session, 11).await.unwrap();
        store.close().await.unwrap();
        rows
    });
    assert_eq!(rows.values().sum::<usize>(), 9 * 150 + 3 * 20_000);
    let (calls, size) = (longer.calls.load(Ordering::SeqCst), rig.data.geometry().size);
    assert_eq!(size, (512 << 10) + calls as u64 * (16 << 20), "all waited for the same growths");
    assert!((2..=4).contains(&calls), "{calls} growths");
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        verify(&store, &session, &tables).await;
        for (table, count) in rows.into_iter().filter(|(table, _)| *table != 10) {
            assert_eq!(store.view().scan(&session, table).await.unwrap().len(), count);
        }
    });
    // An opening that finds all the room mapped has nothing to grow for.
    assert_eq!(longer.calls.load(Ordering::SeqCst), calls);
}

/// What was acknowledged is there.
async fn check(store: &Store, session: &Session, known: &BTreeMap<u64, RowId>) {
    verify(store, session, &table()).await;
    let view = store.view();
    for (number, id) in known {
        let found = view.row(session, TABLE, *id).await.unwrap();
        assert_eq!(found, Some(row(*number, 4000)));
    }
}

#[test]
fn a_power_cut_anywhere_in_a_growth_leaves_a_store_that_opens() {
    let (mut cut, mut grown) = (0, 0);
    for after in 1..=160 {
        let (rig, longer) = rig(after, 512 << 10, 1 << 20);
        let mut rng = Rng::stream(after, 41);
        rig.data.tear_sectors(rng.coin());
        longer.is_silent.store(rng.one_in(8), Ordering::SeqCst);
        let (store, session) = rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            create(&store, &rig.session()).await;
            (store, rig.session())
        });
        let before = rig.data.geometry().size;
        let mut known = BTreeMap::new();
        // Until just before it is full: what follows is the growth.
        rig.run(async {
            for number in 0..20 {
                known.insert(number, insert(&store, &session, number).await.unwrap());
            }
        });
        rig.sim.crash_after(after);
        let worked = rig.sim.run(async {
            let number = known.len() as u64;
            let late = pin!(rig.sim.env().sleep(Duration::from_secs(2)));
            let work = pin!(async {
                for number in number..number + 60 {
                    match insert(&store, &session, number).await {
                        Ok(id) => drop(known.insert(number, id)),
                        Err(_) => return,
                    }
                }
            });
            select(work, late).await;
        });
        cut += u64::from(worked.is_none());
        grown += u64::from(rig.data.geometry().size > before);
        drop(store);
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        longer.is_silent.store(false, Ordering::SeqCst);
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            check(&store, &session, &known).await;
            for number in 1000..1060 {
                known.insert(number, insert(&store, &session, number).await.unwrap());
            }
            check(&store, &session, &known).await;
            store.close().await.unwrap();
            let (store, _) = rig.open().await.unwrap();
            check(&store, &session, &known).await;
        });
    }
    assert!(cut > 100 && grown > 100, "{cut} cuts, {grown} growths");
}

#[test]
fn a_file_that_may_not_grow_says_why_to_all_and_is_asked_again_later() {
    let (rig, longer) = rig(2, 512 << 10, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        longer.most.store(0, Ordering::SeqCst);
        let mut number = 0;
        let full = loop {
            match insert(&store, &session, number).await {
                Ok(_) => number += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.number(), 1653);
        assert!(full.to_string().contains("no room on the file system below"), "{full}");
        let calls = longer.calls.load(Ordering::SeqCst);
        let tasks: Vec<_> = (0..10)
            .map(|task| {
                let (store, session) = (store.clone(), rig.session());
                rig.sim.env().run("writer", async move {
                    insert(&store, &session, 1000 + task).await.map(|_| ())
                })
            })
            .collect();
        for task in tasks {
            assert!(matches!(task.await.unwrap(), Err(Error::Full { cause: Some(_), .. })));
        }
        assert_eq!(longer.calls.load(Ordering::SeqCst), calls, "nobody asks again at once");
        // What is there can be read and changed; and there is room later.
        verify(&store, &session, &table()).await;
        longer.most.store(u64::MAX, Ordering::SeqCst);
        rig.sim.env().sleep(Duration::from_secs(1)).await;
        insert(&store, &session, number).await.unwrap();
        verify(&store, &session, &table()).await;
    });
}

#[test]
fn who_goes_away_while_the_file_grows_leaves_it_longer() {
    let (rig, longer) = rig(3, 512 << 10, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        let (env, before) = (rig.sim.env(), rig.data.geometry().size);
        for number in 0.. {
            let insert = pin!(insert(&store, &session, number));
            select(insert, env.sleep(Duration::from_micros(900))).await;
            if longer.calls.load(Ordering::SeqCst) > 0 {
                break;
            }
        }
        env.sleep(Duration::from_millis(50)).await;
        assert!(rig.data.geometry().size > before);
        insert(&store, &session, 10_000).await.unwrap();
        assert_eq!(longer.calls.load(Ordering::SeqCst), 1);
        verify(&store, &session, &table()).await;
    });
}

#[test]
fn a_large_file_grows_by_what_there_is_room_for() {
    let (rig, longer) = rig(4, 256 << 20, 16 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        let mut load = store.begin_load(&session, TABLE, &[], 0).await.unwrap();
        let size = rig.data.geometry().size;
        longer.most.store(size + (9 << 20), Ordering::SeqCst);
        let full = loop {
            if let Err(error) = load.row(row(7, 8000), &[]).await {
                break error;
            }
        };
        assert!(matches!(full, Error::Full { cause: Some(_), .. }), "{full}");
        // An eighth was refused; a half, a quarter, .. of that fill what there is.
        assert_eq!(rig.data.geometry().size, size + (9 << 20), "{full}");
    });
}
