//! Large write sets, whose new pages are filled before the lane: several committers, in a small log, until the power
//! goes. What is acknowledged is there, a set is there whole or not at all, and each index agrees with its table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cellar_heap::{Change, Key, KeysOf, RowId, RowKey, Store, TableOf};
use cellar_io::sim::Rng;
use cellar_wait::Session;
use futures_util::future::join_all;

use crate::support::Rig;

const TABLE: u32 = 1;
const BY_NUMBER: u32 = 2;
const SPREAD: u32 = 3;
const COMMITTERS: u64 = 3;

fn keys(number: u64) -> Vec<Key> {
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let key =
        |index, number: u64| Key { index, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) };
    vec![key(BY_NUMBER, number), key(SPREAD, spread % 1000)]
}

fn keys_of(_: u32, row: &[u8]) -> Option<Vec<RowKey>> {
    let number = u64::from_be_bytes(*row.first_chunk()?);
    let key = |key: Key| RowKey { is_unique: key.index == BY_NUMBER, key };
    Some(keys(number).into_iter().map(key).collect())
}

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// What a committer knows of its rows: length and place, by number.
#[derive(Clone, Debug, Default)]
struct Own {
    rows: BTreeMap<u64, (usize, RowId)>,
    next: u64,
    /// The set that is not acknowledged: new rows with their lengths, longer ones, and rows that go.
    open: Option<Set>,
    sets: u64,
}

#[derive(Clone, Debug, Default)]
struct Set {
    new: Vec<(u64, usize)>,
    longer: Vec<(u64, usize)>,
    gone: Vec<u64>,
}

impl Own {
    /// The next set, and its changes.
    fn set(&mut self, rng: &mut Rng, committer: u64) -> Vec<Change> {
        let (count, most) = (rng.within(1..=300), [40, 400, 3000][rng.below(3) as usize]);
        let mut set = Set::default();
        let mut changes = Vec::new();
        for _ in 0..count {
            let (number, length) = (committer << 32 | self.next, rng.within(8..=most) as usize);
            self.next += 1;
            set.new.push((number, length));
            changes.push(Change::Insert {
                table: TABLE,
                row: row(number, length),
                keys: keys(number),
            });
        }
        let is_mixed = rng.coin();
        for (number, (length, id)) in self.rows.iter().filter(|_| is_mixed) {
            match rng.below(10) {
                0 => {
                    set.gone.push(*number);
                    changes.push(Change::Delete { table: TABLE, id: *id, keys: keys(*number) });
                }
                1 => {
                    let length = (length + 500).min(7000);
                    set.longer.push((*number, length));
                    let (row, gone, new) = (row(*number, length), Vec::new(), Vec::new());
                    changes.push(Change::Update { table: TABLE, id: *id, row, gone, new });
                }
                _ => {}
            }
        }
        for at in (1..changes.len()).rev() {
            changes.swap(at, rng.below(at as u64 + 1) as usize);
        }
        self.open = Some(set);
        changes
    }

    /// The open set is there, with its rows at these places.
    fn settle(&mut self, place: impl Fn(u64) -> RowId) {
        let set = self.open.take().unwrap();
        self.rows.retain(|number, _| !set.gone.contains(number));
        let changed = set.new.iter().chain(&set.longer);
        self.rows.extend(changed.map(|(number, length)| (*number, (*length, place(*number)))));
        self.sets += 1;
    }
}

async fn commit_for_ever(
    store: Store,
    session: Session,
    own: Arc<Mutex<Own>>,
    (seed, committer): (u64, u64),
) {
    let mut rng = Rng::stream(seed, committer);
    loop {
        let changes = own.lock().unwrap().set(&mut rng, committer);
        let numbers: Vec<Option<u64>> = changes.iter().map(number_of).collect();
        let outcome = store.commit(&session, changes).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(outcome.rows.len(), numbers.len());
        let places = numbers.into_iter().zip(outcome.rows);
        let places: BTreeMap<u64, RowId> = places.filter_map(|(n, id)| n.zip(id)).collect();
        own.lock().unwrap().settle(|number| places[&number]);
    }
}

/// The number of a row that has a place afterwards.
fn number_of(change: &Change) -> Option<u64> {
    match change {
        Change::Insert { row, .. } | Change::Update { row, .. } => {
            row.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
        }
        Change::Delete { .. } => None,
    }
}

/// Compares the table with what committers know, and tells them what became of their open sets.
async fn check(store: &Store, session: &Session, all: &[Arc<Mutex<Own>>], seed: u64) -> u64 {
    let view = store.view();
    let there = view.scan(session, TABLE).await.unwrap();
    let number = |row: &Bytes| u64::from_be_bytes(*row.first_chunk().unwrap());
    let there: BTreeMap<u64, (usize, RowId)> =
        there.iter().map(|(id, row)| (number(row), (row.len(), *id))).collect();
    let mut rows = 0;
    for own in all {
        let mut own = own.lock().unwrap();
        if let Some(set) = own.open.clone() {
            let new = set.new.iter().filter(|(number, _)| there.contains_key(number)).count();
            assert!(
                new == 0 || new == set.new.len(),
                "seed {seed}: {new} of {} rows",
                set.new.len()
            );
            match new {
                0 => own.open = None,
                _ => own.settle(|number| there[&number].1),
            }
        }
        let found = own.rows.iter().filter(|(number, own)| there.get(number) == Some(own)).count();
        assert_eq!(
            found,
            own.rows.len(),
            "seed {seed}: acknowledged rows are as they were committed"
        );
        rows += own.rows.len() as u64;
    }
    assert_eq!(there.len() as u64, rows, "seed {seed}: no other rows");
    let tables = [TableOf { table: TABLE, indexes: vec![BY_NUMBER, SPREAD] }];
    let keys: &KeysOf<'_> = &keys_of;
    let report = view.verify(session, &tables, Some(keys)).await.unwrap();
    assert_eq!(report.findings, [], "seed {seed}");
    assert_eq!((report.rows, report.entries), (rows, rows * 2), "seed {seed}");
    all.iter().map(|own| own.lock().unwrap().sets).sum()
}

#[test]
fn large_sets_are_there_whole_or_not_at_all() {
    let (mut sets, mut begun_anew) = (0, 0);
    for seed in 0..20 {
        let mut rng = Rng::stream(seed, 100);
        let mut rig = Rig::new(seed, 64 << 20, 4 << 20);
        rig.options.cache_pages = 4096;
        rig.options.dirty_max = 2048;
        let all: Vec<_> = (0..COMMITTERS).map(|_| Arc::<Mutex<Own>>::default()).collect();
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            store.create_index(&session, BY_NUMBER).await.unwrap();
            store.create_index(&session, SPREAD).await.unwrap();
            store.close().await.unwrap();
        });
        for round in 0..4 {
            let (store, _) =
                rig.run(rig.open()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            rig.run(check(&store, &rig.session(), &all, seed));
            rig.sim.crash_after(rng.within(10..=300));
            let committers = (0..).zip(&all).map(|(committer, own)| {
                let stream = (seed * 10 + round, committer + 1);
                commit_for_ever(store.clone(), rig.session(), Arc::clone(own), stream)
            });
            let committers: Vec<_> = committers.collect();
            rig.sim.run(async { join_all(committers).await });
            begun_anew += store.begun_anew();
            drop(store);
            rig.sim.crash_never();
            rig.sim.restart();
        }
        let (store, _) = rig.run(rig.open()).unwrap();
        sets += rig.run(check(&store, &rig.session(), &all, seed));
    }
    assert!(sets > 700, "only {sets} sets");
    assert!(begun_anew > 100, "the lane refused only {begun_anew}");
}
