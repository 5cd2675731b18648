//! Wait events of the store: each is counted, and its time, where somebody waits.

use std::time::Duration;

use cellar_heap::locks::{LockTimeout, Mode, Resource};
use cellar_heap::{Change, Isolation, RowId, Store};
use cellar_io::EnvExt;
use cellar_wait::{Event, Session};
use futures_util::future::{join, join_all};

use crate::support::Rig;

const TABLE: u32 = 1;

fn insert() -> Change {
    Change::Insert { table: TABLE, row: vec![7; 2000].into(), keys: Vec::new() }
}

/// Waits so far, and their time in nanoseconds.
fn waits(rig: &Rig, event: Event) -> (u64, u64) {
    let totals = rig.waits.totals();
    totals.iter().find(|of| of.event == event).map_or((0, 0), |of| (of.count, of.nanos))
}

async fn with_rows(rig: &Rig, count: usize) -> (Store, Session, Vec<RowId>) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.extend(store.commit(&session, vec![insert()]).await.unwrap().rows[0]);
    }
    (store, session, rows)
}

#[test]
fn a_scan_waits_for_scattered_reads_and_a_row_for_a_sequential_one() {
    let rig = Rig::new(80, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, ..) = with_rows(&rig, 60).await;
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        let before = waits(&rig, Event::DB_FILE_SCATTERED_READ);
        let rows = store.view().scan(&session, TABLE).await.unwrap();
        let after = waits(&rig, Event::DB_FILE_SCATTERED_READ);
        assert_eq!(rows.len(), 60);
        assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
    });
}

#[test]
fn a_checkpoint_waits_for_parallel_writes() {
    let rig = Rig::new(81, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, ..) = with_rows(&rig, 40).await;
        let before = waits(&rig, Event::DB_FILE_PARALLEL_WRITE);
        store.checkpoint().await.unwrap();
        let after = waits(&rig, Event::DB_FILE_PARALLEL_WRITE);
        assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
    });
}

/// Commits wait while all pages that may be dirty are, then go on.
#[test]
fn commits_wait_for_free_buffers_while_the_writer_is_behind_and_go_on() {
    let mut rig = Rig::new(82, 8 << 20, 1 << 20);
    rig.options.dirty_max = 2;
    rig.run(async {
        let (store, session, rows) = with_rows(&rig, 100).await;
        rig.data.slow(50);
        let before = waits(&rig, Event::FREE_BUFFER_WAITS);
        let commits = rows.iter().map(|id| {
            let (row, gone, new) = (vec![9; 2000].into(), Vec::new(), Vec::new());
            store.commit(&session, vec![Change::Update { table: TABLE, id: *id, row, gone, new }])
        });
        for done in join_all(commits).await {
            done.unwrap();
        }
        let after = waits(&rig, Event::FREE_BUFFER_WAITS);
        assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
        let rows = store.view().scan(&session, TABLE).await.unwrap();
        assert!(rows.len() == 100 && rows.iter().all(|(_, row)| row[0] == 9));
    });
}

#[test]
fn who_waits_for_a_row_or_a_table_is_counted_by_its_kind() {
    let rig = Rig::new(83, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session, rows) = with_rows(&rig, 2).await;
        let begin = || store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        let pause = Duration::from_millis(5);
        let row = Resource::Row(TABLE, rows[0]);
        let both =
            [(row, Event::ENQ_TX_ROW_LOCK), (Resource::Table(TABLE), Event::ENQ_TM_CONTENTION)];
        for (resource, event) in both {
            let (mut holder, mut waiter) = (begin(), begin());
            holder.lock(resource, Mode::Exclusive).await.unwrap();
            let waits_for = async { waiter.lock(resource, Mode::Exclusive).await.unwrap() };
            let ends = async {
                rig.sim.env().sleep(pause).await;
                holder.rollback();
            };
            join(waits_for, ends).await;
            let (count, nanos) = waits(&rig, event);
            assert!(
                count == 1 && u128::from(nanos) >= pause.as_nanos() / 2,
                "{event:?}: {count} {nanos}"
            );
        }
    });
}
