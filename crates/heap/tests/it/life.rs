//! Lives of a store from a seed: many committers, power cuts at any I/O, also in recovery, against a model
//! of rows. What was acknowledged is there, each commit whole or not at all, and index and table agree.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Error, Key, RowId, Store, TableOf};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::spilled;
use crate::support::Rig;

const TABLE: u32 = 10;
const INDEX: u32 = 11;

/// The rows of a committer: by key, the place and the bytes.
type Rows = BTreeMap<Vec<u8>, (RowId, Bytes)>;

/// What a commit makes of keys.
type After = Vec<(Vec<u8>, Option<Bytes>)>;

/// What a committer knows of its rows.
#[derive(Default, Clone)]
struct Own {
    /// As of the last acknowledged commit.
    rows: Rows,
    /// What a commit would make of them that was not answered.
    pending: Option<BTreeMap<Vec<u8>, Bytes>>,
    /// Its rows after each commit of this opening, by the commit's LSN.
    history: BTreeMap<u64, BTreeMap<Vec<u8>, Bytes>>,
    /// What views saw of its rows, each with the point that it was taken at.
    seen: Vec<(u64, BTreeMap<Vec<u8>, Bytes>)>,
}

struct Life {
    seed: u64,
    rng: Rng,
    rig: Rig,
    own: Vec<Arc<Mutex<Own>>>,
    commits: Arc<Mutex<u64>>,
}

#[derive(Default, Debug, Clone, Copy)]
struct Counts {
    openings: u64,
    crashes: u64,
    in_recovery: u64,
    commits: u64,
    repaired: u64,
    undecided: u64,
    happened: u64,
    seen: u64,
}

fn key_of(committer: usize, number: u64, length: usize) -> Vec<u8> {
    let mut key = vec![committer as u8, 0];
    key.extend_from_slice(&number.to_be_bytes());
    key.resize(key.len() + length, number as u8);
    key
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::stream(seed, 1);
        let mut rig = Rig::new(seed, 6 << 20, 1 << 20);
        rig.options.cache_pages = rng.within(4..=100) as usize;
        rig.options.dirty_max = rng.within(8..=64) as usize;
        rig.options.checkpoint_after = Duration::from_micros(rng.within(300..=20_000));
        rig.options.recovery_target = Duration::from_micros(rng.within(10..=100_000));
        if seed % 2 == 1 {
            spilled::spill(&mut rig, rng.within(2..=40) as usize);
        }
        rig.data.tear_sectors(rng.coin());
        let own = (0..rng.within(1..=6)).map(|_| Arc::default()).collect();
        Life { seed, rng, rig, own, commits: Arc::default() }
    }

    fn run(mut self) -> Counts {
        let mut counts = Counts::default();
        self.rig.run(self.rig.create());
        for round in 0..6 {
            let store = self.open(&mut counts);
            if round == 0 {
                let session = self.rig.session();
                self.rig.run(async {
                    store.create_table(&session, TABLE).await.unwrap();
                    store.create_index(&session, INDEX).await.unwrap();
                });
            }
            self.check(&store, &mut counts);
            self.work(store);
            counts.crashes += 1;
            self.rig.sim.crash();
            self.rig.sim.crash_never();
            self.rig.sim.restart();
        }
        let store = self.open(&mut counts);
        self.check(&store, &mut counts);
        counts.commits = *self.commits.lock().unwrap();
        counts
    }

    /// Opens the store, through power cuts.
    fn open(&mut self, counts: &mut Counts) -> Store {
        loop {
            if self.rng.coin() {
                self.rig.sim.crash_after(self.rng.within(1..=60));
            }
            counts.openings += 1;
            let opened = self.rig.sim.run(self.rig.open());
            self.rig.sim.crash_never();
            match opened {
                Some(Ok((store, replayed))) => {
                    counts.repaired += replayed.repaired as u64;
                    return store;
                }
                Some(Err(error)) => panic!("seed {}: {error}", self.seed),
                None => {
                    counts.in_recovery += 1;
                    self.rig.sim.restart();
                }
            }
        }
    }

    /// Commits until the power goes.
    fn work(&mut self, store: Store) {
        self.rig.sim.crash_after(self.rng.within(20..=600));
        let env = self.rig.sim.env();
        let tasks: Vec<_> = (0..self.own.len())
            .map(|number| {
                let committer = Committer {
                    number,
                    rng: Rng::stream(self.seed, self.rng.bits()),
                    store: store.clone(),
                    session: self.rig.session(),
                    own: Arc::clone(&self.own[number]),
                    commits: Arc::clone(&self.commits),
                };
                env.run("committer", committer.run())
            })
            .collect();
        for own in &self.own {
            let mut own = own.lock().unwrap();
            let rows = bytes_of(&own.rows);
            own.history = BTreeMap::from([(0, rows)]);
        }
        for _ in 0..self.rng.below(3) {
            let reader = Reader {
                rng: Rng::stream(self.seed, self.rng.bits()),
                store: store.clone(),
                session: self.rig.session(),
                own: self.own.clone(),
                env: self.rig.sim.env(),
            };
            env.spawn("reader", Box::pin(reader.run()));
        }
        drop(store);
        let _ = self.rig.sim.run(async move {
            for task in tasks {
                let _ = task.await;
            }
        });
    }

    /// Compares what is there with what was acknowledged.
    fn check(&mut self, store: &Store, counts: &mut Counts) {
        let session = self.rig.session();
        let seed = self.seed;
        let (entries, scanned) = self.rig.run(async {
            let view = store.view();
            let tables = [TableOf { table: TABLE, indexes: vec![INDEX] }];
            let report = view.verify(&session, &tables, None).await.unwrap();
            assert_eq!((report.findings, report.left_out), (Vec::new(), 0), "seed {seed}");
            let last = [0xFFu8; 9];
            let found = view.range(&session, INDEX, &[][..]..=&last[..], false, 100_000).await;
            let mut entries = BTreeMap::new();
            for (key, id) in found.unwrap_or_else(|error| panic!("seed {seed}: {error}")) {
                let row = view.row(&session, TABLE, id).await.unwrap();
                let row = row.unwrap_or_else(|| panic!("seed {seed}: an entry without a row"));
                entries.insert(key, (id, row));
            }
            (entries, view.scan(&session, TABLE).await.unwrap())
        });
        assert_eq!(entries.len(), scanned.len(), "seed {seed}: index and table agree");
        let by_id: BTreeMap<RowId, Bytes> = scanned.into_iter().collect();
        assert!(entries.values().all(|(id, row)| by_id.get(id) == Some(row)), "seed {seed}");
        for (number, own) in self.own.iter().enumerate() {
            let mut own = own.lock().unwrap();
            let of = |key: &Vec<u8>| key[0] == number as u8;
            let found: Rows = entries.iter().filter(|(key, _)| of(key)).map(clone).collect();
            let bytes = bytes_of;
            let pending = own.pending.take();
            counts.undecided += u64::from(pending.is_some());
            let has_happened = bytes(&found) != bytes(&own.rows);
            counts.seen += own.seen.len() as u64;
            for (point, seen) in std::mem::take(&mut own.seen) {
                let before = own.history.range(..point).next_back().map(|(_, rows)| rows);
                let is_right =
                    before == Some(&seen) || has_happened && pending.as_ref() == Some(&seen);
                assert!(is_right, "seed {seed}: a view at {point} of committer {number}");
            }
            if !has_happened {
                let same = found.iter().all(|(key, (id, _))| own.rows[key].0 == *id);
                assert!(same, "seed {seed}: rows keep their places");
                continue;
            }
            let happened = pending.is_some_and(|pending| pending == bytes(&found));
            counts.happened += 1;
            let (found_bytes, own_bytes) = (bytes(&found), bytes(&own.rows));
            let lost = own_bytes.keys().filter(|key| !found_bytes.contains_key(*key)).count();
            assert!(
                happened,
                "seed {seed}: committer {number} lacks {lost} of {}",
                own_bytes.len()
            );
            own.rows = found;
        }
    }
}

fn bytes_of(rows: &Rows) -> BTreeMap<Vec<u8>, Bytes> {
    rows.iter().map(|(key, (_, row))| (key.clone(), row.clone())).collect()
}

fn clone((key, row): (&Vec<u8>, &(RowId, Bytes))) -> (Vec<u8>, (RowId, Bytes)) {
    (key.clone(), row.clone())
}

struct Committer {
    number: usize,
    rng: Rng,
    store: Store,
    session: Session,
    own: Arc<Mutex<Own>>,
    commits: Arc<Mutex<u64>>,
}

impl Committer {
    async fn run(mut self) {
        loop {
            let rows = self.own.lock().unwrap().rows.clone();
            let (changes, after) = self.changes(&rows);
            let keys: Vec<Vec<u8>> = after.iter().map(|(key, _)| key.clone()).collect();
            let mut pending: BTreeMap<Vec<u8>, Bytes> =
                rows.iter().map(|(key, (_, row))| (key.clone(), row.clone())).collect();
            for (key, row) in &after {
                match row {
                    Some(row) => pending.insert(key.clone(), row.clone()),
                    None => pending.remove(key),
                };
            }
            self.own.lock().unwrap().pending = Some(pending);
            let done = match self.store.commit(&self.session, changes).await {
                Ok(done) => done,
                Err(Error::Full { .. }) => {
                    self.own.lock().unwrap().pending = None;
                    continue;
                }
                Err(_) => return,
            };
            *self.commits.lock().unwrap() += 1;
            let mut own = self.own.lock().unwrap();
            let after_commit = own.pending.take().unwrap();
            own.history.insert(done.lsn, after_commit);
            for ((key, (_, row)), id) in keys.into_iter().zip(after).zip(done.rows) {
                match (row, id) {
                    (Some(row), Some(id)) => own.rows.insert(key, (id, row)),
                    _ => own.rows.remove(&key),
                };
            }
        }
    }

    /// Some changes, and what they make of keys.
    fn changes(&mut self, rows: &Rows) -> (Vec<Change>, After) {
        let (mut changes, mut after) = (Vec::new(), After::new());
        let index_key = |bytes: &Vec<u8>| Key { index: INDEX, bytes: bytes.clone().into() };
        for _ in 0..self.rng.within(1..=4) {
            let length = if self.rng.one_in(10) {
                self.rng.within(6..=3000)
            } else {
                self.rng.within(6..=200)
            };
            let mut row = vec![0; length as usize];
            self.rng.fill(&mut row);
            let row = Bytes::from(row);
            let number = self.rng.below(60);
            let key = key_of(self.number, number, (number * 37 % 700) as usize);
            if after.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let (table, keys) = (TABLE, vec![index_key(&key)]);
            match rows.get(&key) {
                None => changes.push(Change::Insert { table, row: row.clone(), keys }),
                Some((id, _)) if self.rng.one_in(3) => {
                    changes.push(Change::Delete { table, id: *id, keys });
                    after.push((key, None));
                    continue;
                }
                Some((id, _)) => {
                    let (id, gone, new) = (*id, Vec::new(), Vec::new());
                    changes.push(Change::Update { table, id, row: row.clone(), gone, new });
                }
            }
            after.push((key, Some(row)));
        }
        (changes, after)
    }
}

/// Takes views and reads them, now and later.
struct Reader {
    rng: Rng,
    store: Store,
    session: Session,
    own: Vec<Arc<Mutex<Own>>>,
    env: cellar_io::SharedEnv,
}

impl Reader {
    async fn run(mut self) {
        loop {
            let view = self.store.view();
            let number = self.rng.below(self.own.len() as u64) as usize;
            let Ok(first) = self.read(&view, number).await else { return };
            // Noted at once: a crash may take back what it must not have seen.
            self.own[number].lock().unwrap().seen.push((view.point(), first.clone()));
            if self.rng.one_in(4) {
                let tables = [TableOf { table: TABLE, indexes: vec![INDEX] }];
                let Ok(report) = view.verify(&self.session, &tables, None).await else { return };
                assert_eq!(report.findings, [], "a view of a store that changes");
            }
            for _ in 0..self.rng.below(3) {
                let pause = if self.rng.one_in(4) { 60_000 } else { 3000 };
                self.env.sleep(Duration::from_micros(self.rng.below(pause))).await;
                let Ok(again) = self.read(&view, number).await else { return };
                assert!(again == first, "a view stays as it is");
            }
        }
    }

    /// The rows of a committer, by the index.
    async fn read(
        &self,
        view: &cellar_heap::View,
        number: usize,
    ) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        let (first, last) = ([number as u8, 0], [number as u8, 1]);
        let keys = &first[..]..=&last[..];
        let mut rows = BTreeMap::new();
        for (key, id) in view.range(&self.session, INDEX, keys, false, 100_000).await? {
            let row = view.row(&self.session, TABLE, id).await?;
            rows.insert(key, row.expect("an entry has a row"));
        }
        Ok(rows)
    }
}

#[test]
fn lives_from_seeds() {
    let seeds = std::env::var("CELLAR_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60u64);
    let first = std::env::var("CELLAR_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0u64);
    let mut all = Counts::default();
    for seed in first..first + seeds {
        let counts = Life::new(seed).run();
        all.openings += counts.openings;
        all.crashes += counts.crashes;
        all.in_recovery += counts.in_recovery;
        all.commits += counts.commits;
        all.repaired += counts.repaired;
        all.undecided += counts.undecided;
        all.happened += counts.happened;
        all.seen += counts.seen;
    }
    println!("{seeds} lives: {all:?}");
    assert!(all.commits > 10 * seeds && all.in_recovery > seeds / 2, "{all:?}");
    assert!(all.seen > 10 * seeds && all.happened > seeds / 2, "{all:?}");
}
