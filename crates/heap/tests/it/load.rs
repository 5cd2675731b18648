//! Loads by the direct path: all or nothing, also at a crash, and as good as what commits have made.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{BuildIndex, Change, Error, Key, LoadIndex, RowId, RowRef, Store, TableOf, View};
use cellar_io::EnvExt;
use cellar_wait::Session;
use futures_util::future::join;

use crate::support::Rig;

const TABLE: u32 = 3;
const BY_KEY: u32 = 4;
const BY_TENS: u32 = 5;

fn row(number: u64) -> Bytes {
    let mut row = number.to_be_bytes().to_vec();
    row.resize(20 + (number % 90) as usize, number as u8);
    row.into()
}

fn key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn of_key(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().unwrap())
}

/// Scattered, so that they come unsorted.
fn number(at: u64) -> u64 {
    at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

fn indexes() -> [LoadIndex; 2] {
    let of = |index, is_unique| LoadIndex { index, is_unique };
    [of(BY_KEY, true), of(BY_TENS, false)]
}

async fn create(store: &Store, session: &Session) {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, BY_KEY).await.unwrap();
    store.create_index(session, BY_TENS).await.unwrap();
}

async fn load(store: &Store, session: &Session, count: u64, memory: usize) -> Result<(), Error> {
    let mut load = store.begin_load(session, TABLE, &indexes(), memory).await?;
    for number in (0..count).map(number) {
        load.row(row(number), &[Some(key(number)), Some(key(number / 10))]).await?;
    }
    load.commit().await.map(|_| ())
}

/// All rows by both indexes, and by a scan.
async fn check(view: &View, session: &Session, count: u64) {
    let mut wanted: Vec<u64> = (0..count).map(number).collect();
    wanted.sort_unstable();
    let all = &[][..]..=&[0xFF; 9][..];
    let by_key = view.range(session, BY_KEY, all.clone(), false, usize::MAX).await.unwrap();
    let keys: Vec<u64> = by_key.iter().map(|(key, _)| of_key(key)).collect();
    assert!(keys == wanted, "the keys, in order");
    for ((_, id), number) in by_key.iter().zip(&wanted).step_by(97) {
        assert_eq!(view.row(session, TABLE, *id).await.unwrap(), Some(row(*number)));
    }
    let tens = view.range(session, BY_TENS, all, true, usize::MAX).await.unwrap();
    assert_eq!(tens.len() as u64, count);
    let mut rows: Vec<(RowId, Bytes)> = view.scan(session, TABLE).await.unwrap();
    rows.sort_by(|a, b| a.1.cmp(&b.1));
    assert!(
        rows.iter().map(|(_, row)| row.clone()).eq(wanted.iter().map(|number| row_of(*number)))
    );
}

fn row_of(number: u64) -> Bytes {
    row(number)
}

#[test]
fn a_load_is_there_after_it_and_after_a_crash() {
    for (count, memory) in [(0, 1 << 20), (1, 1 << 20), (500, 1 << 20), (20_000, 64 << 10)] {
        let rig = Rig::new(count, 32 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            create(&store, &session).await;
            let before = store.view();
            load(&store, &session, count, memory).await.unwrap();
            check(&store.view(), &session, count).await;
            assert!(before.scan(&session, TABLE).await.unwrap().is_empty(), "an older view");
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            check(&store.view(), &session, count).await;
            // It goes on as any other table.
            let number = u64::MAX;
            let keys = [(BY_KEY, key(number)), (BY_TENS, key(number / 10))];
            let keys = keys.map(|(index, bytes)| Key { index, bytes }).to_vec();
            let insert = Change::Insert { table: TABLE, row: row(number), keys };
            store.commit(&session, vec![insert]).await.unwrap();
            let rows = store.view().scan(&session, TABLE).await.unwrap();
            assert_eq!(rows.len() as u64, count + 1);
            // An index that is not empty is not filled.
            let again = store.begin_load(&session, TABLE, &indexes(), memory).await.unwrap();
            assert!(matches!(again.commit().await, Err(Error::WrongObject { .. })));
            store.close().await.unwrap();
            let (store, _) = rig.open().await.unwrap();
            assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len() as u64, count + 1);
        });
    }
}

#[test]
fn a_crash_anywhere_in_a_load_leaves_all_or_nothing() {
    let mut whole = 0;
    for seed in 0..150 {
        let rig = Rig::new(seed, 16 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            create(&store, &rig.session()).await;
        });
        let acknowledged = Mutex::new(false);
        rig.sim.crash_after(1 + seed * 12);
        rig.sim.run(async {
            let Ok((store, _)) = rig.open().await else { return };
            let session = rig.session();
            if load(&store, &session, 3_000, 16 << 10).await.is_ok() {
                *acknowledged.lock().unwrap() = true;
            }
        });
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            let found = store.view().scan(&session, TABLE).await.unwrap().len() as u64;
            assert!(found == 3_000 || (found == 0 && !*acknowledged.lock().unwrap()), "{found}");
            whole += u64::from(found > 0);
            check(&store.view(), &session, found).await;
            if found == 0 {
                // What it has left behind is in nobody's way.
                load(&store, &session, 3_000, 1 << 20).await.unwrap();
                check(&store.view(), &session, 3_000).await;
            }
        });
    }
    assert!(
        (10..140).contains(&whole),
        "{whole} of 150 loads were whole: the crashes miss something"
    );
}

#[test]
fn an_index_is_built_of_a_table_with_all_kinds_of_rows() {
    let rig = Rig::new(9, 32 << 20, 4 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let inserts = (0..3_000).map(|number| Change::Insert {
            table: TABLE,
            row: row(number),
            keys: Vec::new(),
        });
        let ids = store.commit(&session, inserts.collect()).await.unwrap().rows;
        // Some move, some go.
        let changes = ids.iter().flatten().zip(0u64..).filter_map(|(id, number)| {
            let (gone, new) = (Vec::new(), Vec::new());
            let mut longer = row(number).to_vec();
            longer.resize(3_000, 1);
            match number % 10 {
                0 => Some(Change::Update { table: TABLE, id: *id, row: longer.into(), gone, new }),
                1 => Some(Change::Delete { table: TABLE, id: *id, keys: Vec::new() }),
                _ => None,
            }
        });
        store.commit(&session, changes.collect()).await.unwrap();
        store.create_index(&session, BY_KEY).await.unwrap();
        let told = Mutex::new(Vec::new());
        let of = |row: &[u8]| Ok(Some(Bytes::copy_from_slice(&row[..8])));
        let progress = |done, total| told.lock().unwrap().push((done, total));
        let index = LoadIndex { index: BY_KEY, is_unique: true };
        let (memory, key, may_repeat) = (16 << 10, &of, &|_: &[u8], _| false);
        let progress = &progress;
        let build = BuildIndex { table: TABLE, index, memory, key, may_repeat, progress };
        store.build_index(&session, &build).await.unwrap();
        let told = told.into_inner().unwrap();
        assert_eq!(told.last(), Some(&(5_400, 5_400)), "2,700 rows are read, and written");
        assert!(told.is_sorted_by_key(|(done, _)| *done) && told.iter().all(|(d, t)| d <= t));
        assert!(told[0].1 > 2_700, "all extents are thought to be as the first: {:?}", told[0]);
        let all = &[][..]..=&[0xFF; 9][..];
        let view = store.view();
        let entries = view.range(&session, BY_KEY, all, false, usize::MAX).await.unwrap();
        assert_eq!(entries.len(), 2_700);
        for (key, id) in entries {
            let row = view.row(&session, TABLE, id).await.unwrap().unwrap();
            assert_eq!(row[..8], key[..]);
        }
    });
}

#[test]
fn two_rows_with_the_same_key_are_told_and_nothing_is_left() {
    let rig = Rig::new(10, 8 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        for _ in 0..20 {
            let mut load = store.begin_load(&session, TABLE, &indexes(), 1 << 20).await.unwrap();
            let mut ids = Vec::new();
            for number in (0..3_000).chain([77]) {
                ids.push(load.row(row(number), &[Some(key(number)), None]).await.unwrap());
            }
            let error = load.commit().await.unwrap_err();
            let Error::Duplicate { index: BY_KEY, row: told } = error else { panic!("{error}") };
            assert_eq!(told, RowRef::Stored(ids[77]));
        }
        assert!(store.view().scan(&session, TABLE).await.unwrap().is_empty());
        load(&store, &session, 3_000, 1 << 20).await.unwrap();
        check(&store.view(), &session, 3_000).await;
    });
}

#[test]
fn rows_may_have_the_same_key_of_a_unique_index_where_whoever_builds_it_says_so() {
    let rig = Rig::new(12, 8 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut load = store.begin_load(&session, TABLE, &[], 1 << 20).await.unwrap();
        for number in (0..500).chain([77, 78, 77]) {
            load.row(row(number), &[]).await.unwrap();
        }
        load.commit().await.unwrap();
        store.create_index(&session, BY_KEY).await.unwrap();
        let index = LoadIndex { index: BY_KEY, is_unique: true };
        let of = |row: &[u8]| Ok(Some(Bytes::copy_from_slice(&row[..8])));
        let told = Mutex::new(Vec::new());
        for (allowed, is_built) in [(&[77][..], false), (&[77, 78], true)] {
            told.lock().unwrap().clear();
            let may_repeat = |key_found: &[u8], _| {
                told.lock().unwrap().push(key_found.to_vec());
                allowed.iter().any(|number| key(*number) == *key_found)
            };
            let build = BuildIndex {
                table: TABLE,
                index,
                memory: 1 << 20,
                key: &of,
                may_repeat: &may_repeat,
                progress: &|_, _| {},
            };
            assert_eq!(store.build_index(&session, &build).await.is_ok(), is_built);
            assert_eq!(*told.lock().unwrap(), [key(77), key(77), key(78)]);
        }
        assert!(store.object(BY_KEY).is_ok());
    });
}

/// An extent that another table had, and of which the log still speaks, is loaded.
#[test]
fn a_load_into_extents_of_a_dropped_table_survives_a_crash() {
    for seed in 0..40 {
        let mut rig = Rig::new(seed, 20 << 20, 1 << 20);
        // Its pages are written as soon as they change; the checkpoint hardly moves.
        rig.options.dirty_max = 8;
        rig.options.recovery_target = Duration::from_secs(100);
        rig.options.checkpoint_after = Duration::from_secs(100);
        let other = TABLE + 10;
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            create(&store, &session).await;
            store.create_table(&session, other).await.unwrap();
            let insert =
                |number| Change::Insert { table: other, row: row(number), keys: Vec::new() };
            let rows = store.commit(&session, (0..600).map(insert).collect()).await.unwrap().rows;
            store.checkpoint().await.unwrap();
            for id in rows.iter().flatten().step_by(7) {
                let (gone, new) = (Vec::new(), Vec::new());
                let row = Bytes::from(vec![seed as u8; 15]);
                let update = Change::Update { table: other, id: *id, row, gone, new };
                store.commit(&session, vec![update]).await.unwrap();
            }
            store.drop_object(&session, other).await.unwrap();
            let view = store.view();
            // A row of the table that is gone: its page comes into memory as it was.
            let _ = view.row(&session, other, rows[0].unwrap()).await;
            drop(view);
            let memory = if seed % 2 == 0 { 4 << 10 } else { 1 << 20 };
            if seed % 4 < 2 {
                load(&store, &session, 2_000, memory).await.unwrap();
                check(&store.view(), &session, 2_000).await;
            } else {
                let mut given_up =
                    store.begin_load(&session, TABLE, &indexes(), memory).await.unwrap();
                for number in 0..2_000 {
                    given_up.row(row(number), &[Some(key(number)), None]).await.unwrap();
                }
            }
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let count = if seed % 4 < 2 { 2_000 } else { 0 };
            check(&store.view(), &rig.session(), count).await;
        });
    }
}

#[test]
fn a_load_that_is_dropped_anywhere_gives_back_what_it_took_once() {
    for seed in 0..60 {
        let rig = Rig::new(seed, 12 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            create(&store, &session).await;
            // It is cut off after a while, in whatever it does then.
            let cut = rig.sim.env().sleep(Duration::from_micros(50 + seed * 60));
            let all = Box::pin(load(&store, &session, 3_000, 16 << 10));
            let outcome = futures_util::future::select(all, cut).await;
            let is_answered = matches!(outcome, futures_util::future::Either::Left(_));
            drop(outcome);
            // Others get the extents meanwhile.
            let other = TABLE + 10;
            store.create_table(&session, other).await.unwrap();
            for number in 0..200 {
                let insert = Change::Insert { table: other, row: row(number), keys: Vec::new() };
                store.commit(&session, vec![insert]).await.unwrap();
            }
            rig.sim.env().sleep(Duration::from_millis(50)).await;
            let view = store.view();
            let count = view.scan(&session, TABLE).await.unwrap().len() as u64;
            assert!(count == 3_000 || count == 0 && !is_answered, "seed {seed}: {count}");
            check(&view, &session, count).await;
            let of = |table, indexes| TableOf { table, indexes };
            let tables = [of(TABLE, vec![BY_KEY, BY_TENS]), of(other, Vec::new())];
            let report = view.verify(&session, &tables, None).await.unwrap();
            assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
            assert_eq!(view.scan(&session, other).await.unwrap().len(), 200);
        });
    }
}

#[test]
fn a_load_that_has_failed_cannot_be_committed() {
    let rig = Rig::new(11, 8 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        // A row that is refused is left out, with all its keys.
        let mut load = store.begin_load(&session, TABLE, &indexes(), 1 << 20).await.unwrap();
        let long = Bytes::from(vec![1; 3_000]);
        let refused = load.row(row(1), &[Some(key(1)), Some(long)]).await.unwrap_err();
        assert_eq!(refused.number(), 1450);
        load.row(row(2), &[Some(key(2)), Some(key(0))]).await.unwrap();
        load.commit().await.unwrap();
        let all = &[][..]..=&[0xFF; 9][..];
        let view = store.view();
        assert_eq!(view.range(&session, BY_KEY, all, false, 9).await.unwrap().len(), 1);
        // Eight megabytes are less than this.
        let mut load = store.begin_load(&session, TABLE, &[], 1 << 20).await.unwrap();
        let wide = Bytes::from(vec![1; 4_000]);
        let full = loop {
            if let Err(error) = load.row(wide.clone(), &[]).await {
                break error;
            }
        };
        assert_eq!(full.number(), 1653);
        assert_eq!(load.row(wide, &[]).await.unwrap_err().number(), 70208);
        assert_eq!(load.commit().await.unwrap_err().number(), 70208);
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 1);
    });
}

#[test]
fn a_load_may_be_larger_than_the_cache() {
    let mut rig = Rig::new(12, 40 << 20, 1 << 20);
    rig.geometry.extent_pages = 2;
    rig.options.cache_pages = 40;
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        create(&store, &session).await;
        load(&store, &session, 60_000, 1 << 20).await.unwrap();
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 60_000);
    });
}

/// So long that each takes a page.
async fn add_long_row(store: &Store, session: &Session) -> Result<(), Error> {
    let change = Change::Insert { table: TABLE, row: vec![1; 8000].into(), keys: Vec::new() };
    store.commit(session, vec![change]).await.map(|_| ())
}

#[test]
fn an_extent_that_comes_while_free_pages_are_looked_for_is_used_to_its_end() {
    let mut beside = 0;
    for seed in 0..40 {
        let rig = Rig::new(seed, 3 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            for _ in 0..100 {
                add_long_row(&store, &session).await.unwrap();
            }
            store.close().await.unwrap();
            // Which pages are free is not known: the first row that comes reads that of all extents.
            let (store, _) = rig.open().await.unwrap();
            let mut load = store.begin_load(&session, TABLE, &[], 1 << 16).await.unwrap();
            load.row(row(1), &[]).await.unwrap();
            let (env, commit) = (rig.sim.env(), load.commit());
            let mut commit = Box::pin(commit);
            env.sleep(Duration::from_micros(seed * 10)).await;
            let later = async {
                env.sleep(Duration::from_micros(seed * 60)).await;
                add_long_row(&store, &session).await
            };
            let (loaded, added) = join(&mut commit, later).await;
            loaded.unwrap();
            beside += u32::from(added.is_ok());
            while add_long_row(&store, &session).await.is_ok() {}
            store.close().await.unwrap();
            let (store, _) = rig.open().await.unwrap();
            let more = add_long_row(&store, &session).await;
            assert!(
                matches!(more, Err(Error::Full { .. })),
                "seed {seed}: there was room: {more:?}"
            );
        });
    }
    assert_eq!(beside, 40);
}
