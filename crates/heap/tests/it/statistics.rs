//! Counts of each table and index: every page that somebody asks for, reads, writes and changes, and
//! what is waited for, whatever leaves the cache meanwhile.

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{
    Change, Isolation, Key, LoadIndex, ObjectStatistics, RowId, RowKey, RowRef, Store,
};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::{Event, Session};
use futures_util::FutureExt;
use futures_util::future::{join, join_all};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const OTHER: u32 = 3;

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

fn insert(number: u64) -> Change {
    Change::Insert { table: TABLE, row: vec![number as u8; 900].into(), keys: vec![key(number)] }
}

/// A store that was opened anew, with so many rows: nine to a page, none in memory.
async fn with_rows(rig: &Rig, count: u64) -> (Store, Session, Vec<RowId>) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    store.create_index(&session, INDEX).await.unwrap();
    store.create_table(&session, OTHER).await.unwrap();
    let mut ids = Vec::new();
    for from in (0..count).step_by(20) {
        let changes = (from..count.min(from + 20)).map(insert).collect();
        ids.extend(store.commit(&session, changes).await.unwrap().rows.into_iter().flatten());
    }
    // Behind what an opening replays: the last commit.
    let change = Change::Insert { table: OTHER, row: vec![0; 100].into(), keys: Vec::new() };
    store.commit(&session, vec![change]).await.unwrap();
    store.close().await.unwrap();
    let (store, _) = rig.open().await.unwrap();
    (store, session, ids)
}

fn of(store: &Store, object: u32) -> ObjectStatistics {
    let all = store.object_statistics();
    all.into_iter().find(|of| of.object == object).unwrap()
}

async fn read(store: &Store, session: &Session, id: RowId) {
    assert!(store.view().row(session, TABLE, id).await.unwrap().is_some());
}

#[test]
fn a_page_is_read_once_and_asked_for_each_time() {
    let rig = Rig::new(1, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, ids) = with_rows(&rig, 100).await;
        let before = of(&store, TABLE);
        for _ in 0..7 {
            read(&store, &session, ids[50]).await;
        }
        let after = of(&store, TABLE);
        assert_eq!(after.logical_reads - before.logical_reads, 7);
        assert_eq!(after.single_page_reads - before.single_page_reads, 1);
        assert_eq!(after.multi_page_reads, before.multi_page_reads);
        let before = of(&store, INDEX);
        let wanted = 50u64.to_be_bytes();
        for _ in 0..3 {
            let view = store.view();
            view.range(&session, INDEX, &wanted[..]..=&wanted[..], false, 1).await.unwrap();
        }
        let after = of(&store, INDEX);
        assert_eq!(after.logical_reads - before.logical_reads, 3, "a root that is a leaf");
        assert_eq!(after.physical_reads() - before.physical_reads(), 1);
        assert_eq!(of(&store, TABLE).block_changes, 0);
    });
}

#[test]
fn a_scan_reads_pages_together() {
    let rig = Rig::new(2, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, ids) = with_rows(&rig, 100).await;
        let before = of(&store, TABLE);
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 100);
        let (after, pages) = (of(&store, TABLE), ids.chunk_by(|a, b| a.page == b.page).count());
        let multi = after.multi_page_reads - before.multi_page_reads;
        assert!(multi + 2 >= pages as u64, "{multi} of {pages} pages");
        let cache = store.cache_statistics();
        assert!(cache.used >= pages as u64 && cache.capacity >= 64, "{cache:?}");
        assert_eq!(cache.free(), cache.capacity - cache.used);
        assert!(cache.hit_ratio() > 0.0 && cache.hit_ratio() < 1.0, "{cache:?}");
    });
}

/// What is read again and again stays in memory, whatever is read once.
#[test]
fn a_scan_of_more_than_the_cache_leaves_hot_pages_there() {
    let mut rig = Rig::new(7, 8 << 20, 1 << 20);
    rig.options.cache_pages = 40;
    rig.run(async {
        // A hundred and eighty pages, of which ten are hot.
        let (store, session, ids) = with_rows(&rig, 1600).await;
        let hot: Vec<RowId> =
            ids.chunk_by(|a, b| a.page == b.page).map(|of| of[0]).take(10).collect();
        for _ in 0..4 {
            for id in &hot {
                read(&store, &session, *id).await;
            }
        }
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 1600);
        let before = of(&store, TABLE).physical_reads();
        for id in &hot {
            read(&store, &session, *id).await;
        }
        let read_again = of(&store, TABLE).physical_reads() - before;
        assert!(read_again <= 2, "{read_again} of {} hot pages had gone", hot.len());
    });
}

#[test]
fn nothing_that_was_asked_is_lost_when_pages_leave_the_cache() {
    for seed in 0..20 {
        let mut rng = Rng::stream(seed, 1);
        let mut rig = Rig::new(seed, 4 << 20, 1 << 20);
        rig.options.cache_pages = rng.within(4..=40) as usize;
        rig.run(async {
            let (store, session, ids) = with_rows(&rig, 300).await;
            let before = of(&store, TABLE);
            let (mut asked, mut changed) = (0, 0);
            for step in 0..400u64 {
                let id = ids[rng.below(300) as usize];
                if rng.one_in(5) {
                    let (mut row, gone, new) = (vec![9; 900], Vec::new(), Vec::new());
                    row[..8].copy_from_slice(&(step + 1000).to_be_bytes());
                    let row = row.into();
                    let update = Change::Update { table: TABLE, id, row, gone, new };
                    store.commit(&session, vec![update]).await.unwrap();
                    changed += 1;
                } else {
                    read(&store, &session, id).await;
                    asked += 1;
                }
                if rng.one_in(50) {
                    store.object_statistics();
                }
            }
            store.checkpoint().await.unwrap();
            let after = of(&store, TABLE);
            let changes = after.block_changes - before.block_changes;
            assert_eq!(changes, changed, "seed {seed}: a change is one of one page");
            let logical = after.logical_reads - before.logical_reads;
            // The lane asks for the page once, and once more where it was not there and was read for it.
            assert!(logical >= asked + changed, "seed {seed}: {logical} for {asked}, {changed}");
            assert!(
                logical <= asked + 4 * changed,
                "seed {seed}: {logical} for {asked}, {changed}"
            );
            let written = after.physical_writes - before.physical_writes;
            assert!(written > 0 && written <= changed, "seed {seed}: {written} of {changed}");
            assert_eq!(store.cache_statistics().dirty, 0, "seed {seed}");
            assert!(after.physical_reads() > before.physical_reads() + 30, "seed {seed}");
        });
    }
}

#[test]
fn threads_count_together() {
    let rig = Rig::new(3, 4 << 20, 1 << 20);
    let (store, session, ids) = rig.run(async {
        let (store, session, ids) = with_rows(&rig, 40).await;
        store.view().scan(&session, TABLE).await.unwrap();
        (store, session, ids)
    });
    let before = of(&store, TABLE);
    std::thread::scope(|scope| {
        for number in 0..4usize {
            let (store, session, ids) = (&store, &session, &ids);
            scope.spawn(move || {
                for at in 0..5000 {
                    let id = ids[(at * 7 + number) % ids.len()];
                    let view = store.view();
                    let row = view.row(session, TABLE, id).now_or_never();
                    assert!(row.expect("it is in memory").unwrap().is_some());
                }
            });
        }
        for _ in 0..50 {
            store.object_statistics();
        }
    });
    assert_eq!(of(&store, TABLE).logical_reads - before.logical_reads, 20_000);
    assert_eq!(of(&store, TABLE).physical_reads(), before.physical_reads());
}

#[test]
fn who_waits_for_the_reader_of_a_page_is_counted() {
    let rig = Rig::new(4, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, ids) = with_rows(&rig, 100).await;
        let before = of(&store, TABLE);
        join_all((0..5).map(|_| read(&store, &session, ids[60]))).await;
        let after = of(&store, TABLE);
        assert_eq!(after.single_page_reads - before.single_page_reads, 1);
        assert_eq!(after.buffer_busy_waits - before.buffer_busy_waits, 4);
        assert_eq!(after.logical_reads - before.logical_reads, 5);
        let totals = rig.waits.totals();
        let event = totals.iter().find(|of| of.event == Event::READ_BY_OTHER_SESSION).unwrap();
        assert_eq!(event.count, 4);
    });
}

#[test]
fn waits_for_rows_and_keys_are_counted_where_they_are() {
    let rig = Rig::new(5, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, ids) = with_rows(&rig, 20).await;
        let begin = || store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let (mut first, mut second) = (begin(), begin());
        first.lock_row(TABLE, RowRef::Stored(ids[3]), Mode::Exclusive).await.unwrap();
        let unique = |number| vec![RowKey { key: key(number), is_unique: true }];
        first.insert(TABLE, vec![1; 50].into(), unique(1000)).await.unwrap();
        let env = rig.sim.env();
        let holder = async {
            env.sleep(std::time::Duration::from_millis(5)).await;
            first.rollback();
        };
        let waiter = async {
            second.lock_row(TABLE, RowRef::Stored(ids[3]), Mode::Exclusive).await.unwrap();
            second.insert(TABLE, vec![1; 50].into(), unique(1001)).await.unwrap();
        };
        join(holder, waiter).await;
        assert_eq!((of(&store, TABLE).row_lock_waits, of(&store, INDEX).row_lock_waits), (1, 0));
        let mut third = begin();
        let holder = async {
            env.sleep(std::time::Duration::from_millis(5)).await;
            second.commit().await.unwrap();
        };
        let (_, refused) =
            join(holder, third.insert(TABLE, vec![1; 50].into(), unique(1001))).await;
        assert!(refused.is_err(), "another row has it");
        assert_eq!((of(&store, TABLE).row_lock_waits, of(&store, INDEX).row_lock_waits), (1, 1));
    });
}

#[test]
fn what_goes_is_counted_as_nobody_s_and_a_load_by_its_table() {
    let rig = Rig::new(6, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, ids) = with_rows(&rig, 100).await;
        for id in &ids {
            read(&store, &session, *id).await;
        }
        let sum = |store: &Store| -> u64 {
            store.object_statistics().iter().map(|of| of.logical_reads).sum()
        };
        let before = sum(&store);
        store.drop_object(&session, TABLE).await.unwrap();
        assert!(store.object_statistics().iter().all(|of| of.object != TABLE));
        assert!(sum(&store) >= before, "totals do not fall");
        store.truncate(&session, INDEX).await.unwrap();
        assert!(of(&store, INDEX).logical_reads > 0, "it is the same index");
        let index = LoadIndex { index: INDEX, is_unique: true };
        let mut load = store.begin_load(&session, OTHER, &[index], 1 << 16).await.unwrap();
        for number in 0..50u64 {
            let key = Bytes::copy_from_slice(&number.to_be_bytes());
            load.row(vec![1; 900].into(), &[Some(key)]).await.unwrap();
        }
        load.commit().await.unwrap();
        // Six pages of rows, and the first one of their extent.
        assert_eq!(of(&store, OTHER).direct_writes, 7);
    });
}
