//! Faults that were found by reading or by chance: what led to each, and what must come of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{Change, Error, Isolation, Key, Opened, RowId, RowRef, Store};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};
use cellar_wait::{Event, Session};
use futures_util::FutureExt;
use futures_util::future::{join, select};

use crate::support::Rig;

const TABLE: u32 = 1;
const INDEX: u32 = 2;

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn insert(number: u64, length: usize) -> Change {
    Change::Insert { table: TABLE, row: row(number, length), keys: Vec::new() }
}

async fn add(store: &Store, session: &Session, number: u64, length: usize) -> RowId {
    let done = store.commit(session, vec![insert(number, length)]).await.unwrap();
    done.rows[0].unwrap()
}

async fn numbers(store: &Store, session: &Session) -> BTreeSet<u64> {
    let rows = store.view().scan(session, TABLE).await.unwrap();
    rows.iter().map(|(_, row)| u64::from_be_bytes(row[..8].try_into().unwrap())).collect()
}

async fn with_table(rig: &Rig) -> (Store, Session) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    (store, session)
}

#[test]
fn a_slot_is_not_used_again_while_somebody_may_know_its_row() {
    let rig = Rig::new(1, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let old = add(&store, &session, 1, 100).await;
        let mut first = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
        first.begin_statement().await.unwrap();
        assert!(first.row(TABLE, RowRef::Stored(old)).await.unwrap().is_some());
        let delete = Change::Delete { table: TABLE, id: old, keys: Vec::new() };
        store.commit(&session, vec![delete]).await.unwrap();
        assert_ne!(add(&store, &session, 2, 100).await, old);
        let locked = first.lock_row(TABLE, RowRef::Stored(old), Mode::Exclusive).await.unwrap();
        assert_eq!(locked, None, "the row is gone, and no other one is in its place");
        first.rollback();
        // Nobody knows it any more: the next but one commit may have it.
        add(&store, &session, 3, 100).await;
        assert_eq!(add(&store, &session, 4, 100).await, old);
    });
}

#[test]
fn a_checkpoint_that_nobody_waits_for_loses_nothing() {
    for polls in 0..12 {
        let rig = Rig::new(2, 4 << 20, 1 << 20);
        rig.run(async {
            let (store, session) = with_table(&rig).await;
            for number in 0..40 {
                add(&store, &session, number, 1000).await;
            }
            let pause = rig.sim.env().sleep(Duration::from_micros(polls * 40));
            drop(select(Box::pin(store.checkpoint()), pause).await);
            add(&store, &session, 40, 1000).await;
            store.checkpoint().await.unwrap();
            add(&store, &session, 41, 1000).await;
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            assert_eq!(numbers(&store, &rig.session()).await, (0..42).collect());
        });
    }
}

#[test]
fn a_number_is_given_once() {
    let rig = Rig::new(3, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let both = join(store.create_index(&session, INDEX), store.create_index(&session, INDEX));
        let (a, b) = both.await;
        assert!(a.is_ok() && matches!(b, Err(Error::WrongObject { .. })), "{a:?} {b:?}");
        let keys = vec![Key { index: INDEX, bytes: Bytes::from_static(b"k\0\x01") }];
        let wrong = Change::Insert { table: INDEX, row: row(1, 50), keys: Vec::new() };
        let refused = store.commit(&session, vec![wrong]).await;
        assert!(matches!(refused, Err(Error::WrongObject { .. })), "{refused:?}");
        let right = Change::Insert { table: TABLE, row: row(1, 50), keys };
        store.commit(&session, vec![right]).await.unwrap();
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        let (from, to) = (&b"\0"[..], &b"z"[..]);
        let found = store.view().range(&session, INDEX, from..=to, false, 9).await.unwrap();
        assert_eq!(found.len(), 1);
    });
}

#[test]
fn room_of_deleted_rows_is_used_again() {
    let rig = Rig::new(4, 2 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let mut queue = std::collections::VecDeque::new();
        // Ten times what the file takes, of which a tenth is there at any time.
        for number in 0..6000 {
            queue.push_back(add(&store, &session, number, 1500).await);
            if queue.len() > 60 {
                let id = queue.pop_front().unwrap();
                let delete = Change::Delete { table: TABLE, id, keys: Vec::new() };
                store.commit(&session, vec![delete]).await.unwrap();
            }
        }
        assert_eq!(store.view().scan(&session, TABLE).await.unwrap().len(), 60);
    });
}

#[test]
fn an_insert_after_an_opening_reads_a_few_pages() {
    let rig = Rig::new(5, 8 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        for from in (0..4000).step_by(50) {
            let changes = (from..from + 50).map(|number| insert(number, 1000)).collect();
            store.commit(&session, changes).await.unwrap();
        }
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        let reads = || {
            let totals = rig.waits.totals();
            let of = totals.iter().find(|of| of.event == Event::DB_FILE_SEQUENTIAL_READ).unwrap();
            of.count
        };
        let before = reads();
        add(&store, &session, 5000, 7000).await;
        // The space page of each of some 75 extents, and hardly more.
        let read = reads() - before;
        assert!(read < 100, "{read} pages of some 550");
    });
}

#[test]
fn a_commit_that_nobody_waits_for_is_seen_after_a_checkpoint() {
    let rig = Rig::new(6, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        add(&store, &session, 1, 100).await;
        let mut commit = Box::pin(store.commit(&session, vec![insert(2, 100)]));
        assert!(commit.as_mut().now_or_never().is_none());
        drop(commit);
        store.checkpoint().await.unwrap();
        assert_eq!(numbers(&store, &session).await, BTreeSet::from([1, 2]));
    });
}

#[test]
fn one_copy_of_the_header_is_enough() {
    for copy in 0..2 {
        let rig = Rig::new(7, 4 << 20, 1 << 20);
        rig.run(async {
            let (store, session) = with_table(&rig).await;
            add(&store, &session, 1, 100).await;
            store.checkpoint().await.unwrap();
            add(&store, &session, 2, 100).await;
            store.close().await.unwrap();
            rig.data.corrupt(copy * 8192 + 100, 8);
            let (store, _) = rig.open().await.unwrap();
            assert_eq!(numbers(&store, &session).await, BTreeSet::from([1, 2]));
        });
    }
}

#[test]
fn an_older_file_or_log_is_refused() {
    let rig = Rig::new(8, 4 << 20, 1 << 20);
    let images = rig.run(async {
        let (store, session) = with_table(&rig).await;
        add(&store, &session, 1, 100).await;
        store.close().await.unwrap();
        let control = rig.control.load().await.unwrap();
        let groups: Vec<_> = rig.groups.iter().map(|disk| disk.snapshot()).collect();
        (rig.data.snapshot(), groups, control)
    });
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        for number in 2..40 {
            add(&store, &session, number, 1000).await;
        }
        store.close().await.unwrap();
    });
    let (data, groups, control) = images;
    let newer = rig.data.snapshot();
    rig.data.replace_with_snapshot(&data);
    let opened = rig.run(rig.open());
    assert!(matches!(opened, Err(Error::Older { what: "the store", .. })), "{opened:?}");
    rig.data.replace_with_snapshot(&newer);
    for (disk, image) in rig.groups.iter().zip(&groups) {
        disk.replace_with_snapshot(image);
    }
    rig.run(rig.control.store(control)).unwrap();
    let opened = rig.run(rig.open());
    assert!(matches!(opened, Err(Error::Older { what: "the log", .. })), "{opened:?}");
}

#[test]
fn a_damaged_page_is_named_and_never_an_answer() {
    let rig = Rig::new(9, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        let id = add(&store, &session, 1, 100).await;
        // In a page of its own: an opening replays the last commit, and that alone.
        add(&store, &session, 2, 8100).await;
        store.close().await.unwrap();
        // The ring has a whole image of the page: it must not stand in for it unseen. Rot takes that too.
        for slot in 0..2 {
            rig.data.corrupt((2 + slot * 8) * 8192, 16);
        }
        rig.data.corrupt(u64::from(id.page) * 8192 + 4000, 16);
        let opened = rig.open().await;
        let (store, _) = opened.unwrap_or_else(|error| panic!("page {}: {error}", id.page));
        let read = store.view().row(&session, TABLE, id).await;
        let is_named = matches!(read, Err(Error::PageDamaged { page, .. }) if page == id.page);
        assert!(is_named, "{read:?}");
    });
}

#[test]
fn a_sector_of_the_ring_that_cannot_be_read_does_not_keep_the_store_closed() {
    let rig = Rig::new(10, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        add(&store, &session, 1, 100).await;
        store.close().await.unwrap();
        rig.data.fail_reads(3 * 8192..3 * 8192 + 512);
        let (store, _) = rig.open().await.unwrap();
        assert_eq!(numbers(&store, &session).await, BTreeSet::from([1]));
    });
}

#[test]
fn a_write_that_fails_stops_the_store_and_an_opening_goes_on() {
    let rig = Rig::new(11, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        add(&store, &session, 1, 100).await;
        rig.data.fail_writes(0..4 << 20);
        assert!(store.checkpoint().await.is_err());
        let refused = store.commit(&session, vec![insert(2, 100)]).await;
        assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
        store.abandon().await;
        rig.data.heal();
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        assert_eq!(numbers(&store, &rig.session()).await, BTreeSet::from([1]));
    });
}

#[test]
fn many_keys_make_a_deep_tree_and_all_go_again() {
    let rig = Rig::new(12, 16 << 20, 4 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        store.create_index(&session, INDEX).await.unwrap();
        // Long keys: four to a page, so that a thousand make five levels.
        let key = |number: u64| {
            let mut bytes = vec![0; 1900];
            bytes[1892..].copy_from_slice(&(number * 7919 % 1000).to_be_bytes());
            vec![Key { index: INDEX, bytes: bytes.into() }]
        };
        let mut ids = Vec::new();
        for number in 0..1000 {
            let (row, keys) = (row(number, 20), key(number));
            let change = Change::Insert { table: TABLE, row, keys };
            ids.push(store.commit(&session, vec![change]).await.unwrap().rows[0].unwrap());
        }
        let all = async |store: &Store, backwards| {
            let (from, to) = (vec![0; 1900], vec![0xFE; 1900]);
            let range = &from[..]..=&to[..];
            store.view().range(&session, INDEX, range, backwards, 5000).await.unwrap()
        };
        let forwards = all(&store, false).await;
        assert_eq!(forwards.len(), 1000);
        assert!(forwards.is_sorted());
        let mut back = all(&store, true).await;
        back.reverse();
        assert_eq!(back, forwards);
        for (number, id) in ids.iter().enumerate().filter(|(number, _)| number % 10 != 3) {
            let delete = Change::Delete { table: TABLE, id: *id, keys: key(number as u64) };
            store.commit(&session, vec![delete]).await.unwrap();
        }
        assert_eq!(all(&store, false).await.len(), 100);
        for (number, id) in ids.iter().enumerate().filter(|(number, _)| number % 10 == 3) {
            let delete = Change::Delete { table: TABLE, id: *id, keys: key(number as u64) };
            store.commit(&session, vec![delete]).await.unwrap();
        }
        assert_eq!(all(&store, false).await, []);
        store.close().await.unwrap();
        let store = Arc::new(rig.open().await.unwrap().0);
        assert_eq!(all(&store, true).await, []);
        let change = Change::Insert { table: TABLE, row: row(1, 20), keys: key(1) };
        store.commit(&session, vec![change]).await.unwrap();
        assert_eq!(all(&store, true).await.len(), 1);
    });
}

/// Rows of a store whose pages are all written, then of a log that has lost the newest of them.
fn ahead_of_its_log(seed: u64) -> Rig {
    let rig = Rig::new(seed, 4 << 20, 1 << 20);
    let (groups, control) = rig.run(async {
        let (store, session) = with_table(&rig).await;
        for number in 1..10 {
            add(&store, &session, number, 1000).await;
        }
        store.close().await.unwrap();
        let groups: Vec<_> = rig.groups.iter().map(|disk| disk.snapshot()).collect();
        (groups, rig.control.load().await.unwrap())
    });
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        for number in 10..40 {
            add(&store, &session, number, 1000).await;
        }
        store.close().await.unwrap();
    });
    for (disk, image) in rig.groups.iter().zip(&groups) {
        disk.replace_with_snapshot(image);
    }
    rig.run(rig.control.store(control)).unwrap();
    rig
}

#[test]
fn a_store_ahead_of_a_log_that_was_forced_is_read_and_never_changed() {
    let mut rig = ahead_of_its_log(31);
    let opened = rig.run(rig.open());
    assert!(matches!(opened, Err(Error::Older { what: "the log", .. })), "{opened:?}");
    rig.force = true;
    let opened = rig.run(rig.open());
    assert!(matches!(opened, Err(Error::Ahead { .. })), "{opened:?}");
    // From then on whoever opens it knows, also without force, and what was read stays.
    for force in [false, true] {
        rig.force = force;
        for _ in 0..2 {
            rig.run(async {
                let opened = rig.open_any().await.unwrap();
                let Opened::Ahead { reader, log, .. } = opened else { panic!("{opened:?}") };
                let rows = reader.view().scan(&rig.session(), TABLE).await.unwrap();
                assert_eq!(rows.len(), 39, "all that is in pages");
                drop(reader);
                log.close().await.unwrap();
                let (reader, _) = rig.open_read_only().await.unwrap();
                let rows = reader.view().scan(&rig.session(), TABLE).await.unwrap();
                assert_eq!(rows.len(), 39);
            });
        }
    }
}

#[test]
fn a_log_that_was_forced_and_has_all_of_the_pages_goes_on() {
    let mut rig = Rig::new(32, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        for number in 1..10 {
            add(&store, &session, number, 1000).await;
        }
        store.close().await.unwrap();
    });
    rig.force = true;
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        add(&store, &session, 10, 1000).await;
        assert_eq!(numbers(&store, &session).await, (1..11).collect());
        store.close().await.unwrap();
    });
}

#[test]
fn pages_ahead_of_a_forced_log_are_found_where_the_header_says_nothing() {
    // The checkpoint is where the log has it, and pages that no record of it names are newer.
    for seed in 0..20 {
        let mut rig = Rig::new(40 + seed, 4 << 20, 1 << 20);
        rig.options.checkpoint_after = Duration::from_secs(3600);
        rig.options.recovery_target = Duration::from_secs(3600);
        let image = |rig: &Rig| {
            let groups: Vec<_> = rig.groups.iter().map(|disk| disk.snapshot()).collect();
            (groups, rig.run(rig.control.load()).unwrap())
        };
        rig.run(async {
            let (store, session) = with_table(&rig).await;
            for number in 1..5 {
                add(&store, &session, number, 7000).await;
            }
            store.close().await.unwrap();
        });
        let headers = 2 * 8192;
        let header = rig.run(rig.data.read_at(Io::FOREGROUND, 0, headers)).unwrap().freeze();
        let (groups, control) = image(&rig);
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            for number in 5..5 + seed {
                add(&store, &session, number, 7000).await;
            }
            store.close().await.unwrap();
        });
        // Both copies of the header as they were, and the log; the pages behind them are newer.
        let written = rig.data.write_at(Io::FOREGROUND, 0, header, Durability::Durable);
        rig.run(written).unwrap();
        for (disk, image) in rig.groups.iter().zip(&groups) {
            disk.replace_with_snapshot(image);
        }
        rig.run(rig.control.store(control)).unwrap();
        rig.force = true;
        let opened = rig.run(rig.open());
        match seed {
            0 => assert!(opened.is_ok(), "{opened:?}"),
            _ => assert!(matches!(opened, Err(Error::Ahead { .. })), "{seed}: {opened:?}"),
        }
    }
}

#[test]
fn a_store_that_is_only_read_goes_past_pages_that_are_damaged_or_cannot_be_read() {
    let mut rig = ahead_of_its_log(33);
    rig.force = true;
    let rows = rig.run(async {
        let opened = rig.open_any().await.unwrap();
        let Opened::Ahead { reader, log, .. } = opened else { panic!("{opened:?}") };
        let rows = reader.view().scan(&rig.session(), TABLE).await.unwrap();
        log.close().await.unwrap();
        rows
    });
    let pages: Vec<u32> =
        rows.iter().map(|(id, _)| id.page).collect::<BTreeSet<_>>().into_iter().collect();
    let [damaged, unreadable, ..] = pages[..] else { panic!("{pages:?}") };
    let left = rows.iter().filter(|(id, _)| ![damaged, unreadable].contains(&id.page)).count();
    assert!(left > 10 && left < rows.len(), "{left} of {}", rows.len());
    for slot in 0..2 {
        rig.data.corrupt((2 + slot * 8) * 8192, 16);
    }
    rig.data.corrupt(u64::from(damaged) * 8192 + 4000, 16);
    let at = u64::from(unreadable) * 8192;
    rig.data.fail_reads(at..at + 8192);
    rig.run(async {
        let opened = rig.open_any().await.unwrap();
        let Opened::Ahead { reader, log, .. } = opened else { panic!("{opened:?}") };
        assert_eq!(reader.view().scan(&rig.session(), TABLE).await.unwrap().len(), left);
        log.close().await.unwrap();
        let (reader, _) = rig.open_read_only().await.unwrap();
        assert_eq!(reader.view().scan(&rig.session(), TABLE).await.unwrap().len(), left);
        let reader = rig.open_alone(false).await.unwrap().unwrap();
        assert_eq!(reader.view().scan(&rig.session(), TABLE).await.unwrap().len(), left);
    });
}

#[test]
fn a_page_that_cannot_be_read_may_be_ahead_of_a_forced_log() {
    let mut rig = Rig::new(34, 4 << 20, 1 << 20);
    let id = rig.run(async {
        let (store, session) = with_table(&rig).await;
        let id = add(&store, &session, 1, 100).await;
        add(&store, &session, 2, 8100).await;
        store.close().await.unwrap();
        id
    });
    let at = u64::from(id.page) * 8192;
    rig.data.fail_reads(at..at + 8192);
    rig.force = true;
    let opened = rig.run(rig.open());
    assert!(matches!(opened, Err(Error::Ahead { .. })), "{opened:?}");
}

#[test]
fn a_store_whose_log_is_given_up_is_read_without_it() {
    let rig = Rig::new(35, 4 << 20, 1 << 20);
    rig.run(async {
        let (store, session) = with_table(&rig).await;
        store.create_counter(&session, 7, 5).await.unwrap();
        for number in 1..30 {
            add(&store, &session, number, 1000).await;
        }
        store.close().await.unwrap();
        assert!(rig.open_alone(false).await.unwrap().is_none(), "its log may be found yet");
        for gives_up in [true, false] {
            let reader = rig.open_alone(gives_up).await.unwrap().unwrap();
            assert!(reader.is_ahead());
            assert_eq!(reader.view().scan(&session, TABLE).await.unwrap().len(), 29);
            assert_eq!(reader.peek_counter(7).unwrap(), 5);
        }
        // Also with the log: changes that were lost might be in pages.
        let opened = rig.open_any().await.unwrap();
        assert!(matches!(opened, Opened::Ahead { .. }), "{opened:?}");
    });
}
