//! Reads of a statement apart from its transaction: rows, scans in parts, ranges both ways, with what the
//! transaction has changed itself, held against a model; and that it stays as it was taken.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{
    Error, Isolation, Key, RangeScan, RowKey, RowRef, StatementView, Store, TableScan, Transaction,
};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;

/// The rows that a transaction sees: by number, where each is and what it is.
type Model = BTreeMap<u16, (RowRef, Bytes)>;

fn bytes_of(number: u16) -> Bytes {
    Bytes::copy_from_slice(&[&[1][..], &number.to_be_bytes()].concat())
}

fn key(number: u16) -> RowKey {
    RowKey { key: Key { index: INDEX, bytes: bytes_of(number) }, is_unique: true }
}

/// A row has its number, and some more.
fn row(number: u16, rng: &mut Rng) -> Bytes {
    let length = if rng.one_in(5) { rng.within(6..=3000) } else { rng.within(6..=200) };
    let mut bytes = vec![0; length as usize];
    rng.fill(&mut bytes);
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

async fn scanned(scans: Vec<TableScan>) -> BTreeMap<RowRef, Bytes> {
    let mut rows = BTreeMap::new();
    for mut scan in scans {
        while let Some(batch) = scan.next().await.unwrap() {
            assert!(!batch.is_empty() && batch.get(batch.len()).is_none());
            for (row, bytes) in batch.iter() {
                let before = rows.insert(row, Bytes::copy_from_slice(bytes));
                assert_eq!(before, None, "{row} is there once");
            }
        }
    }
    rows
}

fn parts_of(view: &StatementView, parts: usize) -> Vec<TableScan> {
    let shares = view.shares(TABLE, parts).unwrap();
    (0..shares.count()).map(|share| shares.scan(share)).collect()
}

async fn all_of(mut scan: RangeScan, rng: &mut Rng) -> Vec<(Bytes, RowRef)> {
    let mut found = Vec::new();
    loop {
        let count = rng.within(1..=40) as usize;
        let more = scan.next(count).await.unwrap();
        let is_over = more.len() < count;
        found.extend(more);
        if is_over {
            assert_eq!(scan.next(5).await.unwrap(), []);
            return found;
        }
    }
}

fn bound(rng: &mut Rng) -> Bound<u16> {
    let number = rng.below(1100) as u16;
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(number),
        _ => Bound::Excluded(number),
    }
}

/// The entries of a model between two bounds, which may be the wrong way round.
fn between(model: &Model, (from, to): (Bound<u16>, Bound<u16>)) -> Vec<(Bytes, RowRef)> {
    let is_inside = |number: &u16| {
        let is_above = match from {
            Bound::Included(from) => *number >= from,
            Bound::Excluded(from) => *number > from,
            Bound::Unbounded => true,
        };
        is_above
            && match to {
                Bound::Included(to) => *number <= to,
                Bound::Excluded(to) => *number < to,
                Bound::Unbounded => true,
            }
    };
    let inside = model.iter().filter(|(number, _)| is_inside(number));
    inside.map(|(number, (row, _))| (bytes_of(*number), *row)).collect()
}

/// Holds a view against the model.
async fn check(view: &StatementView, model: &Model, rng: &mut Rng) {
    let wanted: BTreeMap<RowRef, Bytes> = model.values().cloned().collect();
    assert_eq!(scanned(vec![view.scan(TABLE).unwrap()]).await, wanted);
    let parts = rng.below(9) as usize;
    let scans = parts_of(view, parts);
    assert_eq!(scans.len(), parts.max(1));
    assert_eq!(scanned(scans).await, wanted);
    for backwards in [false, true] {
        let bounds = (bound(rng), bound(rng));
        let mut entries = between(model, bounds);
        if backwards {
            entries.reverse();
        }
        let as_bytes = (bounds.0.map(bytes_of), bounds.1.map(bytes_of));
        let scan = view.range(INDEX, as_bytes, backwards).unwrap();
        assert_eq!(all_of(scan, rng).await, entries, "{bounds:?} {backwards}");
    }
    let (rows, bytes): (Vec<RowRef>, Vec<Option<Bytes>>) =
        wanted.into_iter().rev().map(|(row, bytes)| (row, Some(bytes))).unzip();
    assert_eq!(view.rows(TABLE, &rows).await.unwrap(), bytes);
}

/// Changes some rows, in the model as well.
async fn change(transaction: &mut Transaction, model: &mut Model, rng: &mut Rng) {
    for _ in 0..rng.within(1..=30) {
        let number = rng.below(1000) as u16;
        let new = row(number, rng);
        match model.get(&number).map(|(row, _)| *row) {
            None => {
                let keys = vec![key(number)];
                let id = transaction.insert(TABLE, new.clone(), keys).await.unwrap();
                model.insert(number, (id, new));
            }
            Some(id) => {
                transaction.lock_row(TABLE, id, Mode::Exclusive).await.unwrap();
                if rng.one_in(3) {
                    transaction.delete(TABLE, id, vec![key(number)]).await.unwrap();
                    model.remove(&number);
                } else {
                    let keys = (Vec::new(), Vec::new());
                    transaction.update((TABLE, id), new.clone(), keys.0, keys.1).await.unwrap();
                    model.insert(number, (id, new));
                }
            }
        }
    }
}

async fn set_up(rig: &Rig) -> (Store, Session) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    store.create_index(&session, INDEX).await.unwrap();
    (store, session)
}

#[test]
fn a_view_is_the_store_with_the_transactions_own_changes_and_stays() {
    for seed in 0..12 {
        let rig = Rig::new(seed, 16 << 20, 4 << 20);
        let mut rng = Rng::stream(seed, 31);
        rig.run(async {
            let (store, session) = set_up(&rig).await;
            let mut model = Model::new();
            for _ in 0..3 {
                let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
                let (mut kept, mut savepoint) = (Vec::new(), None);
                for _ in 0..8 {
                    own.begin_statement().await.unwrap();
                    let view = own.statement().await.unwrap();
                    check(&view, &model, &mut rng).await;
                    let before = model.clone();
                    change(&mut own, &mut model, &mut rng).await;
                    check(&view, &before, &mut rng).await;
                    kept.push((view, before));
                    match savepoint.take() {
                        Some((point, then)) if rng.coin() => {
                            own.rollback_to(point);
                            model = then;
                        }
                        _ => savepoint = Some((own.savepoint(), model.clone())),
                    }
                }
                own.commit().await.unwrap();
                for (view, then) in kept {
                    check(&view, &then, &mut rng).await;
                }
                // What was its own has places now.
                let mut reader =
                    store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
                let all = (Bound::Unbounded, Bound::Unbounded);
                let entries = reader.entries(INDEX, all, false, usize::MAX).await.unwrap();
                assert_eq!(entries.len(), model.len());
                for ((_, place), (row, _)) in entries.into_iter().zip(model.values_mut()) {
                    *row = place;
                }
            }
        });
    }
}

#[test]
fn parts_are_scanned_in_tasks_beside_changes_by_the_same_statement() {
    let rig = Rig::new(50, 32 << 20, 4 << 20);
    let mut rng = Rng::stream(50, 31);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        for number in 0..600 {
            own.insert(TABLE, row(number, &mut rng), vec![key(number)]).await.unwrap();
        }
        own.commit().await.unwrap();
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let view = own.statement().await.unwrap();
        let tasks: Vec<_> = parts_of(&view, 4)
            .into_iter()
            .map(|mut scan| {
                rig.sim.env().run("part", async move {
                    let mut rows = Vec::new();
                    while let Some(batch) = scan.next().await.unwrap() {
                        rows.extend(batch.iter().map(|(row, _)| row));
                    }
                    rows
                })
            })
            .collect();
        // Each row gets another number: the scans see none of that.
        let mut scan = view.scan(TABLE).unwrap();
        let mut updated = 0;
        while let Some(batch) = scan.next().await.unwrap() {
            for (at, bytes) in batch.iter() {
                let number = u16::from_be_bytes([bytes[0], bytes[1]]);
                own.lock_row(TABLE, at, Mode::Exclusive).await.unwrap();
                let (gone, new) = (vec![key(number)], vec![key(number + 600)]);
                let bytes = row(number + 600, &mut rng);
                own.update((TABLE, at), bytes, gone, new).await.unwrap();
                updated += 1;
            }
        }
        assert_eq!(updated, 600, "a statement does not meet its own rows");
        let (mut all, mut shares) = (BTreeSet::new(), Vec::new());
        for task in tasks {
            let rows = task.await.unwrap();
            shares.push(rows.len());
            all.extend(rows);
        }
        assert_eq!(all.len(), 600);
        assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
        drop(view);
        own.commit().await.unwrap();
    });
}

/// Tasks that run beside each other end in any order: two rows that a transaction has just inserted would come
/// in any order, too.
#[test]
fn few_rows_of_its_own_are_in_one_part_in_their_order() {
    let rig = Rig::new(52, 16 << 20, 4 << 20);
    let mut rng = Rng::stream(52, 31);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let mut wanted = Vec::new();
        for number in 0..40 {
            let id = own.insert(TABLE, row(number, &mut rng), vec![key(number)]).await.unwrap();
            wanted.push(id);
        }
        own.begin_statement().await.unwrap();
        let view = own.statement().await.unwrap();
        let mut parts = parts_of(&view, 3);
        let mut last = parts.pop().unwrap();
        assert_eq!(scanned(parts).await, BTreeMap::new());
        let mut found = Vec::new();
        while let Some(batch) = last.next().await.unwrap() {
            found.extend(batch.iter().map(|(row, _)| row));
        }
        assert_eq!(found, wanted);
    });
}

#[test]
fn a_range_reads_no_more_than_is_asked_for() {
    let mut rig = Rig::new(51, 64 << 20, 8 << 20);
    rig.options.cache_pages = 64;
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        for number in 0..20_000 {
            let keys = vec![key(number)];
            own.insert(TABLE, Bytes::from(vec![7; 20]), keys).await.unwrap();
            if number % 500 == 499 {
                own.commit().await.unwrap();
                own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
            }
        }
        drop(own);
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        let reads = || {
            let all = rig.waits.totals();
            let of = |name| all.iter().filter(move |at| at.event.name() == name);
            of("db file sequential read").map(|at| at.count).sum::<u64>()
        };
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        for backwards in [false, true] {
            let view = own.statement().await.unwrap();
            let before = reads();
            let all = (Bound::Unbounded, Bound::Unbounded);
            let mut scan = view.range(INDEX, all.clone(), backwards).unwrap();
            assert_eq!(scan.next(10).await.unwrap().len(), 10);
            assert_eq!(own.entries(INDEX, all, backwards, 10).await.unwrap().len(), 10);
            let read = reads() - before;
            assert!(read <= 5, "{read} pages for ten entries");
        }
    });
}

#[test]
fn long_values_are_seen_as_when_the_view_was_taken() {
    let rig = Rig::new(52, 16 << 20, 4 << 20);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let value = |fill: u8| Bytes::from(vec![fill; 30_000]);
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let first = own.put_long(TABLE, value(1)).await.unwrap();
        own.insert(TABLE, Bytes::from(vec![0; 8]), vec![key(1)]).await.unwrap();
        own.commit().await.unwrap();
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let second = own.put_long(TABLE, value(2)).await.unwrap();
        let view = own.statement().await.unwrap();
        own.free_long(TABLE, first).await.unwrap();
        own.free_long(TABLE, second).await.unwrap();
        let third = own.put_long(TABLE, value(3)).await.unwrap();
        for (page, fill) in [(first, 1), (second, 2)] {
            assert_eq!(view.long(TABLE, page, 30_000).await.unwrap(), value(fill));
        }
        let now = own.statement().await.unwrap();
        assert_eq!(now.long(TABLE, third, 30_000).await.unwrap(), value(3));
        own.commit().await.unwrap();
        assert_eq!(view.long(TABLE, first, 30_000).await.unwrap(), value(1));
    });
}

#[test]
fn a_row_that_is_locked_says_whether_the_statement_sees_another() {
    let rig = Rig::new(53, 4 << 20, 4 << 20);
    let mut rng = Rng::stream(53, 31);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let begin = || store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let mut own = begin();
        for number in 0..4 {
            own.insert(TABLE, row(number, &mut rng), vec![key(number)]).await.unwrap();
        }
        let rows = own.commit().await.unwrap().rows;
        let at = |place: usize| RowRef::Stored(rows[place].unwrap());
        let mut own = begin();
        own.begin_statement().await.unwrap();
        // One is changed, one deleted, one comes anew; the others share their page.
        let (mut other, changed) = (begin(), row(0, &mut rng));
        other.lock_row(TABLE, at(0), Mode::Exclusive).await.unwrap();
        other.update((TABLE, at(0)), changed.clone(), Vec::new(), Vec::new()).await.unwrap();
        other.lock_row(TABLE, at(1), Mode::Exclusive).await.unwrap();
        other.delete(TABLE, at(1), vec![key(1)]).await.unwrap();
        other.insert(TABLE, row(9, &mut rng), vec![key(9)]).await.unwrap();
        let new = other.commit().await.unwrap().rows.into_iter().flatten().max().unwrap();
        let lock = async |own: &mut Transaction, at| {
            let locked = own.lock_row_seen(TABLE, at, Mode::Exclusive).await.unwrap();
            (locked.bytes, locked.is_changed)
        };
        assert_eq!(lock(&mut own, at(0)).await, (Some(changed), true));
        assert_eq!(lock(&mut own, at(1)).await, (None, true));
        let (bytes, is_changed) = lock(&mut own, RowRef::Stored(new)).await;
        assert!(bytes.is_some() && is_changed, "the statement does not see it at all");
        let (bytes, is_changed) = lock(&mut own, at(2)).await;
        assert!(bytes.is_some() && !is_changed);
        // The next statement sees them as they are, and what it changes itself is no change of others.
        own.begin_statement().await.unwrap();
        let (bytes, is_changed) = lock(&mut own, at(0)).await;
        assert!(bytes.is_some() && !is_changed);
        let mine = row(0, &mut rng);
        own.update((TABLE, at(0)), mine.clone(), Vec::new(), Vec::new()).await.unwrap();
        assert_eq!(lock(&mut own, at(0)).await, (Some(mine), false));
    });
}

#[test]
fn a_key_that_is_taken_tells_whose_it_is() {
    let rig = Rig::new(54, 4 << 20, 4 << 20);
    let mut rng = Rng::stream(54, 31);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let begin = || store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let mut own = begin();
        own.insert(TABLE, row(1, &mut rng), vec![key(1)]).await.unwrap();
        let stored = RowRef::Stored(own.commit().await.unwrap().rows[0].unwrap());
        let mut own = begin();
        let mine = own.insert(TABLE, row(2, &mut rng), vec![key(2)]).await.unwrap();
        for (number, holder) in [(1, stored), (2, mine)] {
            let error = own.insert(TABLE, row(number, &mut rng), vec![key(number)]).await;
            let error = error.unwrap_err();
            assert_eq!(error.number(), 1);
            assert!(error.to_string().contains(&holder.to_string()), "{error}");
            let Error::Duplicate { index: INDEX, row: told } = error else { panic!("{error}") };
            assert_eq!(told, holder);
            // ON CONFLICT DO UPDATE: it can be locked and changed.
            own.lock_row_seen(TABLE, told, Mode::Exclusive).await.unwrap().bytes.unwrap();
            let bytes = row(number, &mut rng);
            own.update((TABLE, told), bytes, Vec::new(), Vec::new()).await.unwrap();
        }
        own.commit().await.unwrap();
    });
}

#[test]
fn a_view_may_be_used_anywhere() {
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn is_sent<T: Send + 'static>(_: &T) {}
    let rig = Rig::new(55, 4 << 20, 4 << 20);
    rig.run(async {
        let (store, session) = set_up(&rig).await;
        let mut own = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        own.insert(TABLE, Bytes::from(vec![1; 10]), vec![key(1)]).await.unwrap();
        let view = own.statement().await.unwrap();
        is_shared(&view);
        let (mut scan, range) = (
            view.scan(TABLE).unwrap(),
            view.range(INDEX, (Bound::Unbounded, Bound::Unbounded), true).unwrap(),
        );
        is_sent(&range);
        // It outlives its transaction, and reads what that had.
        own.rollback();
        drop(view);
        let batch = Arc::new(scan.next().await.unwrap().unwrap());
        is_sent(&scan);
        is_shared(&batch);
        assert_eq!(batch.len(), 1);
        let unknown = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let view = { unknown }.statement().await.unwrap();
        assert!(matches!(view.scan(INDEX), Err(Error::WrongObject { object: INDEX, .. })));
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert!(matches!(view.range(TABLE, all, false), Err(Error::WrongObject { .. })));
    });
}
