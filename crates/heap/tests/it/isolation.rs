//! Isolation of transactions: the anomalies that the levels forbid, by their names in the literature
//! (Adya; Bailis, "Highly Available Transactions"), locks, deadlocks, savepoints.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockError, LockTimeout, Mode};
use cellar_heap::{Change, Error, Isolation, Key, RowId, RowKey, RowRef, Store, Transaction};
use cellar_io::{EnvExt, SharedEnv};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;

use Isolation::{ReadCommitted, Snapshot};

/// A store with two rows, x and y, each of which is 10.
struct Two {
    rig: Rig,
}

#[derive(Clone)]
struct At {
    store: Store,
    env: SharedEnv,
    x: RowRef,
    y: RowRef,
    waits: cellar_wait::Waits,
}

fn key(name: &str) -> RowKey {
    let bytes = Bytes::copy_from_slice(format!("{name}\0\x01").as_bytes());
    RowKey { key: Key { index: INDEX, bytes }, is_unique: true }
}

fn row(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

fn value(row: Option<Bytes>) -> Option<u64> {
    row.map(|row| u64::from_le_bytes(row[..8].try_into().unwrap()))
}

fn with_two(seed: u64, test: impl AsyncFnOnce(At)) {
    let two = Two { rig: Rig::new(seed, 4 << 20, 1 << 20) };
    two.rig.run(async {
        two.rig.create().await;
        let (store, _) = two.rig.open().await.unwrap();
        let session = two.rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let mut setup = store.begin(&session, ReadCommitted, LockTimeout::Forever);
        for name in ["x", "y"] {
            setup.insert(TABLE, row(10), vec![key(name)]).await.unwrap();
        }
        let rows = setup.commit().await.unwrap().rows;
        let [x, y] = [rows[0], rows[1]].map(|id| RowRef::Stored(id.unwrap()));
        let (env, waits) = (two.rig.sim.env(), two.rig.waits.clone());
        test(At { store: store.clone(), env, x, y, waits }).await;
        assert_eq!(store.locked(), 0, "no lock is left");
    });
}

impl At {
    fn begin(&self, isolation: Isolation) -> Transaction {
        self.begin_with(isolation, LockTimeout::Forever)
    }

    fn begin_with(&self, isolation: Isolation, timeout: LockTimeout) -> Transaction {
        let session = self.waits.session("client", cellar_wait::Kind::User);
        self.store.begin(&session, isolation, timeout)
    }

    async fn set(&self, transaction: &mut Transaction, at: RowRef, to: u64) -> Result<(), Error> {
        transaction.lock_row(TABLE, at, Mode::Exclusive).await?;
        transaction.update((TABLE, at), row(to), Vec::new(), Vec::new()).await
    }

    async fn committed(&self, at: RowRef) -> Option<u64> {
        value(self.begin(ReadCommitted).row(TABLE, at).await.unwrap())
    }
}

async fn get(transaction: &mut Transaction, at: RowRef) -> Option<u64> {
    transaction.begin_statement().await.unwrap();
    value(transaction.row(TABLE, at).await.unwrap())
}

#[test]
fn g0_writes_of_two_transactions_do_not_interleave() {
    with_two(1, async |at| {
        let mut first = at.begin(ReadCommitted);
        at.set(&mut first, at.x, 11).await.unwrap();
        let mut second = at.begin_with(ReadCommitted, LockTimeout::None);
        let busy = at.set(&mut second, at.x, 12).await;
        let holder = first.number();
        let is_busy = matches!(&busy, Err(Error::Lock(LockError::Busy { holders, .. })) if *holders == [holder]);
        assert!(is_busy, "{busy:?}");
        at.set(&mut first, at.y, 21).await.unwrap();
        first.commit().await.unwrap();
        at.set(&mut second, at.x, 12).await.unwrap();
        at.set(&mut second, at.y, 22).await.unwrap();
        second.commit().await.unwrap();
        assert_eq!((at.committed(at.x).await, at.committed(at.y).await), (Some(12), Some(22)));
    });
}

#[test]
fn g1a_g1b_nobody_sees_what_was_rolled_back_or_is_not_the_last() {
    with_two(2, async |at| {
        for isolation in [ReadCommitted, Snapshot] {
            let mut writer = at.begin(ReadCommitted);
            let mut reader = at.begin(isolation);
            at.set(&mut writer, at.x, 101).await.unwrap();
            assert_eq!(get(&mut reader, at.x).await, Some(10));
            at.set(&mut writer, at.x, 102).await.unwrap();
            assert_eq!(get(&mut reader, at.x).await, Some(10));
            writer.rollback();
            assert_eq!(get(&mut reader, at.x).await, Some(10));
        }
    });
}

#[test]
fn g1c_two_transactions_do_not_see_each_other() {
    with_two(3, async |at| {
        let (mut first, mut second) = (at.begin(ReadCommitted), at.begin(ReadCommitted));
        at.set(&mut first, at.x, 11).await.unwrap();
        at.set(&mut second, at.y, 22).await.unwrap();
        assert_eq!(get(&mut first, at.y).await, Some(10));
        assert_eq!(get(&mut second, at.x).await, Some(10));
        first.commit().await.unwrap();
        second.commit().await.unwrap();
    });
}

#[test]
fn otv_what_was_seen_of_a_transaction_does_not_vanish() {
    with_two(4, async |at| {
        let mut first = at.begin(ReadCommitted);
        at.set(&mut first, at.x, 11).await.unwrap();
        at.set(&mut first, at.y, 19).await.unwrap();
        first.commit().await.unwrap();
        let mut second = at.begin(ReadCommitted);
        at.set(&mut second, at.x, 12).await.unwrap();
        let mut reader = at.begin(ReadCommitted);
        assert_eq!(get(&mut reader, at.x).await, Some(11));
        at.set(&mut second, at.y, 18).await.unwrap();
        assert_eq!(get(&mut reader, at.y).await, Some(19));
        second.commit().await.unwrap();
        assert_eq!(get(&mut reader, at.y).await, Some(18));
        assert_eq!(get(&mut reader, at.x).await, Some(12));
    });
}

#[test]
fn pmp_a_range_of_a_snapshot_has_no_phantoms() {
    with_two(5, async |at| {
        let all = || Bytes::from_static(b"\0")..=Bytes::from_static(b"z");
        let (mut fixed, mut moving) = (at.begin(Snapshot), at.begin(ReadCommitted));
        for reader in [&mut fixed, &mut moving] {
            reader.begin_statement().await.unwrap();
            assert_eq!(reader.range(INDEX, all()).await.unwrap().len(), 2);
        }
        let mut writer = at.begin(ReadCommitted);
        writer.insert(TABLE, row(30), vec![key("z")]).await.unwrap();
        writer.commit().await.unwrap();
        fixed.begin_statement().await.unwrap();
        moving.begin_statement().await.unwrap();
        assert_eq!(fixed.range(INDEX, all()).await.unwrap().len(), 2);
        assert_eq!(moving.range(INDEX, all()).await.unwrap().len(), 3);
    });
}

#[test]
fn p4_no_update_is_lost() {
    with_two(6, async |at| {
        // Both read 10 and add to it; the second waits for the first.
        for isolation in [ReadCommitted, Snapshot] {
            let mut first = at.begin(isolation);
            let mut second = at.begin(isolation);
            let before = get(&mut first, at.x).await.unwrap();
            assert_eq!(get(&mut second, at.x).await, Some(before));
            at.set(&mut first, at.x, before + 1).await.unwrap();
            let waiting = at.clone();
            let task = at.env.run("second", async move {
                let locked = second.lock_row(TABLE, waiting.x, Mode::Exclusive).await;
                (locked.map(value), second)
            });
            at.env.sleep(Duration::from_millis(5)).await;
            first.commit().await.unwrap();
            let (locked, mut second) = task.await.unwrap();
            match isolation {
                ReadCommitted => {
                    // It goes on with what is there now.
                    let now = locked.unwrap().unwrap();
                    assert_eq!(now, before + 1);
                    at.set(&mut second, at.x, now + 1).await.unwrap();
                    second.commit().await.unwrap();
                    assert_eq!(at.committed(at.x).await, Some(before + 2));
                }
                Snapshot => {
                    assert!(matches!(locked, Err(Error::Serialization { .. })), "{locked:?}");
                    second.rollback();
                }
            }
        }
    });
}

#[test]
fn g_single_a_snapshot_sees_all_of_a_transaction_or_nothing() {
    with_two(7, async |at| {
        let mut reader = at.begin(Snapshot);
        assert_eq!(get(&mut reader, at.x).await, Some(10));
        let mut writer = at.begin(ReadCommitted);
        at.set(&mut writer, at.x, 12).await.unwrap();
        at.set(&mut writer, at.y, 18).await.unwrap();
        writer.commit().await.unwrap();
        assert_eq!(get(&mut reader, at.y).await, Some(10));
        let written = at.set(&mut reader, at.y, 1).await;
        assert!(matches!(written, Err(Error::Serialization { .. })), "{written:?}");
    });
}

#[test]
fn pmp_a_change_by_predicate_sees_rows_that_came_meanwhile() {
    with_two(13, async |at| {
        // Both rows are 10; one becomes 20 while all rows of 20 are to be deleted.
        let mut writer = at.begin(ReadCommitted);
        at.set(&mut writer, at.x, 20).await.unwrap();
        let mut deleter = at.begin(Snapshot);
        assert_eq!(get(&mut deleter, at.x).await, Some(10));
        writer.commit().await.unwrap();
        // A snapshot that did not see it must not change it.
        let locked = deleter.lock_row(TABLE, at.x, Mode::Exclusive).await;
        assert!(matches!(locked, Err(Error::Serialization { .. })), "{locked:?}");
        deleter.rollback();
        // The other level goes on with what is there now.
        let mut deleter = at.begin(ReadCommitted);
        let now = value(deleter.lock_row(TABLE, at.x, Mode::Exclusive).await.unwrap());
        assert_eq!(now, Some(20));
        deleter.delete(TABLE, at.x, vec![key("x")]).await.unwrap();
        deleter.commit().await.unwrap();
        assert_eq!((at.committed(at.x).await, at.committed(at.y).await), (None, Some(10)));
    });
}

#[test]
fn g2_item_happens_on_snapshots_and_not_on_rows_that_were_locked() {
    with_two(14, async |at| {
        // Each reads both rows and changes one of them: neither order of the two gives what both saw.
        for locks in [false, true] {
            let (mut first, mut second) = (at.begin(Snapshot), at.begin(Snapshot));
            for (own, row) in [(&mut first, at.y), (&mut second, at.x)] {
                assert!(get(own, at.x).await.is_some() && get(own, at.y).await.is_some());
                if locks {
                    own.lock_row(TABLE, row, Mode::Share).await.unwrap();
                }
            }
            if !locks {
                at.set(&mut first, at.x, 1).await.unwrap();
                at.set(&mut second, at.y, 2).await.unwrap();
                first.commit().await.unwrap();
                second.commit().await.unwrap();
                continue;
            }
            let waiting = at.clone();
            let task = at.env.run("first", async move {
                let changed = waiting.set(&mut first, waiting.x, 3).await;
                (changed, first)
            });
            at.env.sleep(Duration::from_millis(5)).await;
            let closed = at.set(&mut second, at.y, 4).await;
            assert!(matches!(closed, Err(Error::Lock(LockError::Deadlock { .. }))), "{closed:?}");
            second.rollback();
            let (changed, first) = task.await.unwrap();
            changed.unwrap();
            first.commit().await.unwrap();
        }
        assert_eq!((at.committed(at.x).await, at.committed(at.y).await), (Some(3), Some(2)));
    });
}

#[test]
fn a_unique_key_is_waited_for_and_then_taken_or_refused() {
    with_two(8, async |at| {
        for is_committed in [true, false] {
            let name = if is_committed { "new" } else { "other" };
            let mut first = at.begin(ReadCommitted);
            first.insert(TABLE, row(1), vec![key(name)]).await.unwrap();
            let mut second = at.begin(ReadCommitted);
            let task = at.env.run("second", async move {
                let inserted = second.insert(TABLE, row(2), vec![key(name)]).await;
                (inserted, second)
            });
            at.env.sleep(Duration::from_millis(5)).await;
            match is_committed {
                true => drop(first.commit().await.unwrap()),
                false => first.rollback(),
            }
            let (inserted, second) = task.await.unwrap();
            match is_committed {
                true => assert!(matches!(inserted, Err(Error::Duplicate { index: INDEX, .. }))),
                false => drop((inserted.unwrap(), second.commit().await.unwrap())),
            }
        }
        // A key that goes in the same transaction may come again.
        let mut third = at.begin(ReadCommitted);
        third.lock_row(TABLE, at.x, Mode::Exclusive).await.unwrap();
        third.delete(TABLE, at.x, vec![key("x")]).await.unwrap();
        third.insert(TABLE, row(77), vec![key("x")]).await.unwrap();
        let again = third.insert(TABLE, row(78), vec![key("x")]).await;
        assert!(matches!(again, Err(Error::Duplicate { .. })), "{again:?}");
        third.commit().await.unwrap();
    });
}

#[test]
fn a_deadlock_is_told_at_once_to_who_closes_it() {
    with_two(9, async |at| {
        let (mut first, mut second) = (at.begin(ReadCommitted), at.begin(ReadCommitted));
        at.set(&mut first, at.x, 1).await.unwrap();
        at.set(&mut second, at.y, 2).await.unwrap();
        let holder = first.number();
        let waiting = at.clone();
        let task = at.env.run("first", async move {
            waiting.set(&mut first, waiting.y, 1).await.unwrap();
            first.commit().await.unwrap();
        });
        at.env.sleep(Duration::from_millis(5)).await;
        let before = at.env.now();
        let closed = at.set(&mut second, at.x, 2).await;
        assert_eq!(at.env.now(), before, "nothing is waited for");
        let Err(Error::Lock(LockError::Deadlock { resource, holder: told })) = closed else {
            panic!("{closed:?}")
        };
        let RowRef::Stored(x) = at.x else { panic!("x is stored") };
        assert_eq!(resource, cellar_heap::locks::Resource::Row(TABLE, x));
        assert_eq!(told, holder);
        second.rollback();
        task.await.unwrap();
        assert_eq!((at.committed(at.x).await, at.committed(at.y).await), (Some(1), Some(1)));
    });
}

#[test]
fn a_lock_is_waited_for_no_longer_than_was_said() {
    with_two(10, async |at| {
        let mut first = at.begin(ReadCommitted);
        at.set(&mut first, at.x, 1).await.unwrap();
        let time = Duration::from_millis(30);
        let mut second = at.begin_with(ReadCommitted, LockTimeout::Until(time));
        let before = at.env.now();
        let late = at.set(&mut second, at.x, 2).await;
        assert!(matches!(late, Err(Error::Lock(LockError::TimedOut { .. }))), "{late:?}");
        let waited = at.env.now().since(before);
        assert!(waited >= time && waited < time * 2, "{waited:?}");
        // Who was given up does not stand in the way.
        first.commit().await.unwrap();
        let mut third = at.begin_with(ReadCommitted, LockTimeout::None);
        at.set(&mut third, at.x, 3).await.unwrap();
    });
}

#[test]
fn a_savepoint_takes_back_rows_and_keys() {
    with_two(11, async |at| {
        let all = || Bytes::from_static(b"\0")..=Bytes::from_static(b"zz");
        let mut own = at.begin(ReadCommitted);
        at.set(&mut own, at.x, 11).await.unwrap();
        let here = own.savepoint();
        at.set(&mut own, at.x, 12).await.unwrap();
        let new = own.insert(TABLE, row(5), vec![key("z")]).await.unwrap();
        own.lock_row(TABLE, at.y, Mode::Exclusive).await.unwrap();
        own.delete(TABLE, at.y, vec![key("y")]).await.unwrap();
        let seen: Vec<RowRef> =
            own.range(INDEX, all()).await.unwrap().into_iter().map(|(_, row)| row).collect();
        assert_eq!(seen, [at.x, new], "its own changes are seen");
        assert_eq!(get(&mut own, at.y).await, None);
        own.rollback_to(here);
        assert_eq!(get(&mut own, at.x).await, Some(11));
        assert_eq!(get(&mut own, at.y).await, Some(10));
        assert_eq!(own.range(INDEX, all()).await.unwrap().len(), 2);
        own.commit().await.unwrap();
        assert_eq!((at.committed(at.x).await, at.committed(at.y).await), (Some(11), Some(10)));
    });
}

#[test]
fn locks_are_given_in_the_order_in_which_they_were_asked_for() {
    with_two(12, async |at| {
        let mut first = at.begin(ReadCommitted);
        at.set(&mut first, at.x, 1).await.unwrap();
        let tasks: Vec<_> = (0..20u64)
            .map(|number| {
                let waiting = at.clone();
                at.env.run("waiter", async move {
                    waiting.env.sleep(Duration::from_micros(number * 50)).await;
                    let mut own = waiting.begin(ReadCommitted);
                    let before = own.lock_row(TABLE, waiting.x, Mode::Exclusive).await.unwrap();
                    let before = value(before).unwrap();
                    waiting.set(&mut own, waiting.x, before * 2 + number % 2).await.unwrap();
                    own.commit().await.unwrap();
                })
            })
            .collect();
        at.env.sleep(Duration::from_millis(10)).await;
        first.commit().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let wanted = (0..20u64).fold(1, |value, number| value * 2 + number % 2);
        assert_eq!(at.committed(at.x).await, Some(wanted));
    });
}

#[test]
fn a_view_that_needs_too_much_ends_and_others_go_on() {
    let mut rig = Rig::new(40, 4 << 20, 1 << 20);
    rig.options.images_max = 20;
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let insert = |table| Change::Insert { table, row: vec![1; 3000].into(), keys: Vec::new() };
        let changes = (0..60).map(|_| insert(TABLE)).collect();
        let ids: Vec<RowId> =
            store.commit(&session, changes).await.unwrap().rows.into_iter().flatten().collect();
        let long = store.view();
        let mut most = 0;
        for round in 0..10u8 {
            let short = store.view();
            for id in &ids {
                let (gone, new) = (Vec::new(), Vec::new());
                let row = vec![round; 3000].into();
                let update = Change::Update { table: TABLE, id: *id, row, gone, new };
                store.commit(&session, vec![update]).await.unwrap();
                most = most.max(store.kept_images());
            }
            // 60 rows are 30 pages: one round is more than may be kept.
            let error = short.row(&session, TABLE, ids[0]).await.unwrap_err();
            assert_eq!(error.number(), 1555, "{error}");
        }
        assert!(most <= 22, "{most} images");
        for read in [
            long.row(&session, TABLE, ids[0]).await.map(|_| ()),
            long.scan(&session, TABLE).await.map(|_| ()),
        ] {
            assert!(matches!(read, Err(Error::SnapshotTooOld { .. })));
        }
        let now = store.view();
        drop(long);
        assert_eq!(now.row(&session, TABLE, ids[7]).await.unwrap().unwrap()[0], 9);
    });
}
