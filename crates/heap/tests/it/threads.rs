//! A store on real files, used from several threads at once: the queue of the lane, readers beside writers,
//! pages that leave memory, a log that goes round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{
    Change, Error, Geometry, Isolation, Key, NewStore, OpenStore, Options, RowId, RowRef, Store,
};
use cellar_io::Device;
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{Control, CreateLog, Medium, NewGroup, OpenLog, Quorum, Recovery};
use cellar_wait::{Kind, Session, Waits};

use crate::support::Kept;

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const GROUP_BYTES: u64 = 4 << 20;

struct Place {
    runtime: Runtime,
    directory: tempfile::TempDir,
    control: Arc<dyn Control>,
    waits: Waits,
}

impl Place {
    fn new() -> Place {
        let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Place { runtime, directory, control: Arc::new(Kept::default()), waits: Waits::new() }
    }

    fn file(&self, name: &str, bytes: u64) -> Arc<dyn Device> {
        let path = self.directory.path().join(name);
        if !path.exists() {
            std::fs::write(&path, vec![0; bytes as usize]).unwrap();
        }
        open_disk(self.runtime.real_env(), &path, &OpenOptions::default()).unwrap()
    }

    fn session(&self) -> Session {
        self.waits.session("client", Kind::User)
    }

    fn recovery(&self, media: Vec<Medium>) -> OpenLog {
        OpenLog {
            env: self.runtime.env(),
            session: self.waits.session("redo", Kind::Background),
            control: Arc::clone(&self.control),
            media,
            options: cellar_redo::Options::default(),
            returning: Vec::new(),
            force: false,
        }
    }

    /// Opens the store, which is made where there is none.
    async fn open(&self, is_new: bool) -> Store {
        let group = |group: u32| (group, self.file(&format!("log{group}"), GROUP_BYTES));
        let files: BTreeMap<u32, Arc<dyn Device>> = (1..=3).map(group).collect();
        let media = vec![Medium { name: "log".to_owned(), files }];
        let device = self.file("data", 24 << 20);
        if is_new {
            let groups = (1..=3).map(|number| NewGroup { number, size: GROUP_BYTES }).collect();
            let (database, media) = (DatabaseId(42), media.clone());
            let (quorum, archiving) = (Quorum::Auto, false);
            let new = CreateLog { database, block_size: 4096, quorum, archiving, groups, media };
            cellar_redo::create(&self.runtime.env(), &self.control, new).await.unwrap();
        }
        let recovery = Recovery::start(self.recovery(media)).await.unwrap();
        if is_new {
            let (geometry, from) = (Geometry::default(), recovery.checkpoint());
            let new = NewStore { store: 7, database: 42, geometry, from };
            cellar_heap::create(&device, new).await.unwrap();
        }
        let options = Options {
            cache_pages: 300,
            dirty_max: 100,
            checkpoint_after: Duration::from_millis(50),
            recovery_target: Duration::from_millis(50),
            ..Options::default()
        };
        let (env, waits) = (self.runtime.env(), self.waits.clone());
        let open = OpenStore { env, waits, device, recovery, options, growth: None, spill: None };
        Store::open(open).await.unwrap().0
    }
}

fn counter(row: &Bytes) -> u64 {
    u64::from_le_bytes(row[..8].try_into().unwrap())
}

fn row(value: u64) -> Bytes {
    let mut bytes = vec![value as u8; 500];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes.into()
}

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

/// Adds one to two counters, in the order of their rows.
async fn add_to_both(
    store: &Store,
    session: &Session,
    [first, second]: [RowId; 2],
) -> Result<(), Error> {
    let mut own = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    for id in [first.min(second), first.max(second)] {
        let at = RowRef::Stored(id);
        let before = own.lock_row(TABLE, at, Mode::Exclusive).await?.unwrap();
        own.update((TABLE, at), row(counter(&before) + 1), Vec::new(), Vec::new()).await?;
    }
    own.commit().await?;
    Ok(())
}

#[test]
fn counters_that_all_threads_add_to_lose_nothing() {
    let place = Place::new();
    let env = place.runtime.env();
    let (total, ids) = place.runtime.block_on(async {
        let store = place.open(true).await;
        let session = place.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let insert = |n| Change::Insert { table: TABLE, row: row(0), keys: vec![key(n)] };
        let done = store.commit(&session, (0..200).map(insert).collect()).await.unwrap();
        let ids: Arc<Vec<RowId>> = Arc::new(done.rows.into_iter().map(Option::unwrap).collect());
        let (total, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..16u64)
            .map(|number| {
                let (store, session) = (store.clone(), place.session());
                let (ids, total) = (Arc::clone(&ids), Arc::clone(&total));
                tokio::spawn(async move {
                    for round in 0..400u64 {
                        // Two of the hot ones, now and then; else anywhere.
                        let random =
                            (round * 16 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                        let hot = if round % 4 == 0 { 3 } else { 200 };
                        let first = (random % hot) as usize;
                        let second =
                            (first + 1 + (random / hot % (hot - 1)) as usize) % hot as usize;
                        add_to_both(&store, &session, [ids[first], ids[second]]).await.unwrap();
                        total.fetch_add(2, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let reader = {
            let (store, session, is_over) = (store.clone(), place.session(), Arc::clone(&is_over));
            let total = Arc::clone(&total);
            tokio::spawn(async move {
                let mut reads = 0;
                while !is_over.load(Ordering::SeqCst) {
                    // Counted before the view is taken: it sees what was answered by then, and each
                    // transaction whole.
                    let before = total.load(Ordering::SeqCst);
                    let view = store.view();
                    let rows = view.scan(&session, TABLE).await.unwrap();
                    let sum: u64 = rows.iter().map(|(_, row)| counter(row)).sum();
                    assert!(sum >= before && sum.is_multiple_of(2), "{sum}, {before} answered");
                    reads += 1;
                }
                reads
            })
        };
        for writer in writers {
            writer.await.unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(reader.await.unwrap() > 2);
        assert_eq!(store.locked(), 0);
        store.close().await.unwrap();
        (total.load(Ordering::SeqCst), ids)
    });
    assert_eq!(total, 16 * 400 * 2);
    // A new process would wait for nothing either.
    drop(env);
    place.runtime.block_on(async {
        let store = place.open(false).await;
        let (session, view) = (place.session(), store.view());
        let mut sum = 0;
        for id in ids.iter() {
            sum += counter(&view.row(&session, TABLE, *id).await.unwrap().unwrap());
        }
        assert_eq!(sum, total);
        store.close().await.unwrap();
    });
}

#[test]
fn rows_and_keys_of_many_threads_agree() {
    let place = Place::new();
    place.runtime.block_on(async {
        let store = place.open(true).await;
        let session = place.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let tasks: Vec<_> = (0..12u64)
            .map(|number| {
                let (store, session) = (store.clone(), place.session());
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    for round in 0..300u64 {
                        let n = round * 12 + number;
                        let row = row(n);
                        let change = Change::Insert { table: TABLE, row, keys: vec![key(n)] };
                        let done = store.commit(&session, vec![change]).await.unwrap();
                        mine.push((n, done.rows[0].unwrap()));
                        if round % 3 == 2 {
                            let (n, id) = mine.swap_remove((round % 7) as usize % mine.len());
                            let keys = vec![key(n)];
                            let delete = Change::Delete { table: TABLE, id, keys };
                            store.commit(&session, vec![delete]).await.unwrap();
                        }
                    }
                    mine
                })
            })
            .collect();
        let mut all = BTreeMap::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        let check = async |store: &Store| {
            let view = store.view();
            let (from, to) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
            let found = view.range(&session, INDEX, &from..=&to, false, usize::MAX).await.unwrap();
            let found: BTreeMap<u64, RowId> = found
                .into_iter()
                .map(|(key, id)| (u64::from_be_bytes(key[..].try_into().unwrap()), id))
                .collect();
            assert_eq!(found, all);
            for (n, id) in &found {
                let row = view.row(&session, TABLE, *id).await.unwrap().unwrap();
                assert_eq!(counter(&row), *n);
            }
            assert_eq!(view.scan(&session, TABLE).await.unwrap().len(), all.len());
        };
        check(&store).await;
        store.close().await.unwrap();
        check(&place.open(false).await).await;
    });
}
