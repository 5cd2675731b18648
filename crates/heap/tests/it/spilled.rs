//! Older images that memory has no room for: views read them from a file, until that is full or fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Error, Key, RowId, RowKey, SpillError, SpillFile, Store, TableOf, View};
use cellar_io::sim::{Rng, SimDisk, SimDiskOptions};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};
use cellar_wait::Session;
use futures_util::future::{BoxFuture, join_all};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const ROWS: u64 = 400;

/// A simulated disk for older images.
pub struct OnDisk {
    disk: Arc<SimDisk>,
    /// It has room for so many bytes.
    most: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    cleared: AtomicUsize,
    /// It cannot be read any more.
    is_lost: AtomicBool,
    /// What is read has other bytes in it.
    is_rotten: AtomicBool,
}

impl SpillFile for OnDisk {
    fn make_room(&self, bytes: u64) -> BoxFuture<'_, Result<(), SpillError>> {
        Box::pin(async move {
            match bytes <= self.most.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err("no room".into()),
            }
        })
    }

    fn write(&self, at: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), SpillError>> {
        Box::pin(async move {
            self.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(self.disk.write_at(Io::BACKGROUND, at, bytes, Durability::Cached).await?)
        })
    }

    fn read(&self, at: u64, length: usize) -> BoxFuture<'_, Result<Bytes, SpillError>> {
        Box::pin(async move {
            if self.is_lost.load(Ordering::SeqCst) {
                return Err("the disk is gone".into());
            }
            self.read.fetch_add(length as u64, Ordering::SeqCst);
            let mut read = self.disk.read_at(Io::FOREGROUND, at, length).await?;
            if self.is_rotten.load(Ordering::SeqCst) {
                read[100] ^= 1;
            }
            Ok(read.freeze())
        })
    }

    fn clear(&self) {
        self.cleared.fetch_add(1, Ordering::SeqCst);
    }
}

/// Has memory of a store take few older images, and a simulated disk take the others.
pub fn spill(rig: &mut Rig, images_max: usize) -> Arc<OnDisk> {
    let options = SimDiskOptions { size: 64 << 20, ..SimDiskOptions::default() };
    let file = Arc::new(OnDisk {
        disk: rig.sim.disk("temp", options),
        most: AtomicU64::new(u64::MAX),
        written: AtomicU64::new(0),
        read: AtomicU64::new(0),
        cleared: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
        is_rotten: AtomicBool::new(false),
    });
    rig.spill = Some(Arc::clone(&file) as _);
    rig.options.images_max = images_max;
    file
}

fn rig(seed: u64) -> (Rig, Arc<OnDisk>) {
    let mut rig = Rig::new(seed, 8 << 20, 2 << 20);
    let file = spill(&mut rig, 24);
    (rig, file)
}

fn row(number: u64) -> Bytes {
    let mut bytes = vec![number as u8; 1500];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Keys spread over the whole index, and long, so that it has some levels.
fn key(number: u64) -> Key {
    let mut bytes = vec![3; 300];
    bytes[..8].copy_from_slice(&(number * 7919 % 1_000_003).to_be_bytes());
    Key { index: INDEX, bytes: bytes.into() }
}

async fn fill(store: &Store, session: &Session) -> Vec<RowId> {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, INDEX).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..ROWS {
        let (row, keys) = (row(number), vec![key(number)]);
        let insert = Change::Insert { table: TABLE, row, keys };
        ids.extend(store.commit(session, vec![insert]).await.unwrap().rows[0]);
    }
    ids
}

async fn update(store: &Store, session: &Session, id: RowId, (from, to): (u64, u64)) {
    let (gone, new) = (vec![key(from)], vec![key(to)]);
    let change = Change::Update { table: TABLE, id, row: row(to), gone, new };
    store.commit(session, vec![change]).await.unwrap();
}

/// Looks at all that a view sees, in all ways: it is what it was.
async fn look(view: &View, session: &Session, ids: &[RowId], then: &[u64]) -> Result<(), Error> {
    for (id, number) in ids.iter().zip(then).step_by(17) {
        assert_eq!(view.row(session, TABLE, *id).await?, Some(row(*number)));
    }
    let mut scanned = view.scan(session, TABLE).await?;
    scanned.sort_by_key(|(id, _)| *id);
    let mut rows: Vec<_> = ids.iter().zip(then).map(|(id, number)| (*id, row(*number))).collect();
    rows.sort_by_key(|(id, _)| *id);
    assert_eq!(scanned, rows);
    let all = &[0][..]..=&[0xFF; 8][..];
    let found = view.range(session, INDEX, all, false, usize::MAX).await?;
    let mut keys: Vec<_> =
        ids.iter().zip(then).map(|(id, number)| (key(*number).bytes.to_vec(), *id)).collect();
    keys.sort();
    assert_eq!(found, keys);
    Ok(())
}

fn keys_of(_: u32, row: &[u8]) -> Option<Vec<RowKey>> {
    let number = u64::from_be_bytes(*row.first_chunk()?);
    Some(vec![RowKey { is_unique: true, key: key(number) }])
}

#[test]
fn views_read_what_memory_has_no_room_for() {
    for seed in 0..12 {
        let mut rng = Rng::stream(seed, 1);
        let (rig, file) = rig(seed);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let (session, env) = (rig.session(), rig.sim.env());
            let ids = fill(&store, &session).await;
            let (mut views, mut now) = (Vec::new(), (0..ROWS).collect::<Vec<u64>>());
            let (mut next, mut most) = (ROWS, 0);
            for round in 0..rng.within(600..=1500) {
                if round % 200 == 0 || rng.one_in(150) {
                    views.push((store.view(), now.clone()));
                }
                let at = rng.below(ROWS) as usize;
                update(&store, &session, ids[at], (now[at], next)).await;
                (now[at], next) = (next, next + 1);
                most = most.max(store.kept_images());
                if rng.one_in(200) && views.len() > 1 {
                    drop(views.remove(rng.below(views.len() as u64) as usize));
                }
                if rng.one_in(100)
                    && let Some((view, then)) = views.first()
                {
                    look(view, &session, &ids, then).await.unwrap();
                }
            }
            // A commit changes a few pages, before anybody sees that there are too many.
            assert!(most <= 24 + 16, "seed {seed}: {most} images in memory");
            assert!(store.spilled_images() > 100, "seed {seed}: {}", store.spilled_images());
            let looks = views.iter().map(async |(view, then)| {
                look(view, &session, &ids, then).await.unwrap();
                let tables = [TableOf { table: TABLE, indexes: vec![INDEX] }];
                let report = view.verify(&session, &tables, Some(&keys_of)).await.unwrap();
                assert_eq!(report.findings, [], "seed {seed}");
                assert_eq!((report.rows, report.entries), (ROWS, ROWS), "seed {seed}");
            });
            join_all(looks).await;
            look(&store.view(), &session, &ids, &now).await.unwrap();
            assert!(file.read.load(Ordering::SeqCst) > 0, "seed {seed}");
            let cache = store.cache_statistics();
            assert!(cache.used <= cache.capacity, "seed {seed}: {cache:?}");
            drop(views);
            env.sleep(Duration::from_secs(3)).await;
            let kept = (store.kept_images(), store.spilled_images());
            assert_eq!(kept, (0, 0), "seed {seed}: nobody reads");
            assert!(file.cleared.load(Ordering::SeqCst) > 0, "seed {seed}");
            store.close().await.unwrap();
        });
    }
}

/// One large transaction has more older images than memory may have, and the view before it goes on.
#[test]
fn a_large_transaction_does_not_end_a_view() {
    let (rig, _) = rig(1);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        let ids = fill(&store, &session).await;
        let (view, then) = (store.view(), (0..ROWS).collect::<Vec<u64>>());
        let changes = ids.iter().zip(&then).map(|(id, from)| {
            let to = from + ROWS;
            let (gone, new) = (vec![key(*from)], vec![key(to)]);
            Change::Update { table: TABLE, id: *id, row: row(to), gone, new }
        });
        store.commit(&session, changes.collect()).await.unwrap();
        for round in 2..5 {
            look(&view, &session, &ids, &then).await.unwrap();
            for (id, from) in ids.iter().zip(&then).take(100) {
                let (from, to) = (from + (round - 1) * ROWS, from + round * ROWS);
                update(&store, &session, *id, (from, to)).await;
            }
        }
        look(&view, &session, &ids, &then).await.unwrap();
        assert!(store.kept_images() <= 40, "{}", store.kept_images());
    });
}

#[test]
fn where_the_file_is_full_the_oldest_view_ends_and_others_go_on() {
    for (most, slots) in [(80 * 8192, u64::MAX), (u64::MAX, 80)] {
        let (mut rig, file) = rig(2);
        file.most.store(most, Ordering::SeqCst);
        rig.options.spilled_max = slots;
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            let ids = fill(&store, &session).await;
            let mut now: Vec<u64> = (0..ROWS).collect();
            let (long, mut next) = (store.view(), ROWS);
            for _ in 0..3 {
                for at in 0..ROWS as usize {
                    update(&store, &session, ids[at], (now[at], next)).await;
                    (now[at], next) = (next, next + 1);
                }
            }
            let error = long.scan(&session, TABLE).await.unwrap_err();
            assert_eq!(error.number(), 1555, "{error}");
            let why = if slots == 80 { ": 80 older images" } else { ": no room" };
            assert!(error.to_string().contains(why), "{error}");
            assert!(store.spilled_images() <= 80, "{}", store.spilled_images());
            // There is room again for who comes next.
            let (view, then) = (store.view(), now.clone());
            for at in 0..120 {
                update(&store, &session, ids[at], (now[at], next)).await;
                (now[at], next) = (next, next + 1);
            }
            look(&view, &session, &ids, &then).await.unwrap();
            look(&store.view(), &session, &ids, &now).await.unwrap();
        });
    }
}

/// What one view needed is room enough for the others.
#[test]
fn of_several_views_only_the_oldest_ends_where_the_file_is_full() {
    for seed in 0..10 {
        let (mut rig, file) = rig(seed);
        file.most.store(170 * 8192, Ordering::SeqCst);
        rig.options.checkpoint_after = Duration::from_secs(1);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            let ids = fill(&store, &session).await;
            let mut now: Vec<u64> = (0..ROWS).collect();
            let (long, mut next) = (store.view(), ROWS);
            let mut others = Vec::new();
            for at in 0..2 * ROWS as usize {
                if at % ROWS as usize == 350 {
                    others.push((store.view(), now.clone()));
                }
                let of = at % ROWS as usize;
                update(&store, &session, ids[of], (now[of], next)).await;
                (now[of], next) = (next, next + 1);
            }
            let error = long.scan(&session, TABLE).await.unwrap_err();
            assert_eq!(error.number(), 1555, "seed {seed}: {error}");
            for (view, then) in &others {
                look(view, &session, &ids, then).await.unwrap();
            }
        });
    }
}

#[test]
fn an_image_that_cannot_be_read_back_is_an_error_and_never_an_answer() {
    let (rig, file) = rig(3);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        let ids = fill(&store, &session).await;
        let (long, mut now) = (store.view(), (0..ROWS).collect::<Vec<u64>>());
        for at in 0..ROWS as usize {
            update(&store, &session, ids[at], (now[at], ROWS + at as u64)).await;
            now[at] = ROWS + at as u64;
        }
        for fault in [&file.is_lost, &file.is_rotten] {
            fault.store(true, Ordering::SeqCst);
            let error = long.scan(&session, TABLE).await.unwrap_err();
            assert_eq!(error.number(), 27072, "{error}");
            look(&store.view(), &session, &ids, &now).await.unwrap();
            fault.store(false, Ordering::SeqCst);
        }
        look(&long, &session, &ids, &(0..ROWS).collect::<Vec<u64>>()).await.unwrap();
    });
}
