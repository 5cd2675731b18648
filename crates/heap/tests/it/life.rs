//! Lives of a store from a seed: many committers, power cuts at any I/O, also in recovery, against a model
//! of rows, on one medium of the log or two, on disks that fail meanwhile and come back or on sound ones. What was
//! acknowledged is there, each commit whole or not at all, and index and table agree.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{
    Change, Error, Finding, Key, NewStore, OpenStore, Replayed, RowId, Store, TableOf,
};
use cellar_io::sim::{Rng, SimDisk, SimDiskOptions};
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{CreateLog, Medium, NewGroup, OpenLog, Quorum, Recovery};
use cellar_wait::{Kind, Session};

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
    /// The disks of another medium of the log, if there is one.
    second: Vec<Arc<SimDisk>>,
    /// Disks fail, and come back.
    has_faults: bool,
    own: Vec<Arc<Mutex<Own>>>,
    commits: Arc<Mutex<u64>>,
}

#[derive(Default, Debug, Clone, Copy)]
struct Counts {
    left_out: u64,
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
        if seed % 4 < 2 {
            spilled::spill(&mut rig, rng.within(2..=40) as usize);
        }
        rig.data.tear_sectors(rng.coin());
        let own = (0..rng.within(1..=6)).map(|_| Arc::default()).collect();
        let disk = |group: &Arc<SimDisk>| {
            let options =
                SimDiskOptions { size: group.geometry().size, ..SimDiskOptions::default() };
            rig.sim.disk(&format!("{}.2", group.name()), options)
        };
        let second: Vec<_> = match seed % 2 {
            0 => Vec::new(),
            _ => rig.groups.iter().map(disk).collect(),
        };
        for disk in rig.groups.iter().chain(&second) {
            disk.tear_sectors(rng.coin());
        }
        let (has_faults, commits) = (seed.is_multiple_of(3), Arc::default());
        Life { seed, rng, rig, second, has_faults, own, commits }
    }

    fn media(&self) -> Vec<Medium> {
        let medium = |name: &str, disks: &[Arc<SimDisk>]| {
            let file = |disk: &Arc<SimDisk>| Arc::clone(disk) as Arc<dyn Device>;
            Medium { name: name.to_owned(), files: (1..).zip(disks.iter().map(file)).collect() }
        };
        let second = (!self.second.is_empty()).then(|| medium("log2", &self.second));
        [medium("log", &self.rig.groups)].into_iter().chain(second).collect()
    }

    /// All disks.
    fn disks(&self) -> Vec<Arc<SimDisk>> {
        self.rig.groups.iter().chain(&self.second).chain([&self.rig.data]).cloned().collect()
    }

    async fn recovery(&self) -> Result<Recovery, Error> {
        let media = self.media();
        let log = OpenLog {
            env: self.rig.sim.env(),
            session: self.rig.waits.session("redo", Kind::Background),
            control: Arc::clone(&self.rig.control),
            // Those that have failed take part again.
            returning: media.iter().map(|medium| medium.name.clone()).collect(),
            media,
            options: cellar_redo::Options::default(),
            force: false,
        };
        Ok(Recovery::start(log).await?)
    }

    async fn create(&self) {
        let size = self.rig.groups[0].geometry().size;
        let new = CreateLog {
            database: DatabaseId(42),
            block_size: 512,
            quorum: Quorum::Auto,
            archiving: false,
            groups: (1..=3).map(|number| NewGroup { number, size }).collect(),
            media: self.media(),
        };
        cellar_redo::create(&self.rig.sim.env(), &self.rig.control, new).await.unwrap();
        let from = self.recovery().await.unwrap().checkpoint();
        let new = NewStore { store: 7, database: 42, geometry: self.rig.geometry, from };
        let device = Arc::clone(&self.rig.data) as Arc<dyn Device>;
        cellar_heap::create(&device, new).await.unwrap();
    }

    async fn try_open(&self) -> Result<(Store, Replayed), Error> {
        let (env, waits) = (self.rig.sim.env(), self.rig.waits.clone());
        let (device, options) = (Arc::clone(&self.rig.data) as _, self.rig.options.clone());
        let (recovery, spill) = (self.recovery().await?, self.rig.spill.clone());
        Store::open(OpenStore { env, waits, device, recovery, options, growth: None, spill }).await
    }

    fn run(mut self) -> Counts {
        let mut counts = Counts::default();
        self.rig.run(self.create());
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
            self.work(store.clone());
            counts.left_out +=
                store.log().media().iter().filter(|medium| !medium.active).count() as u64;
            drop(store);
            counts.crashes += 1;
            self.disks().iter().for_each(|disk| disk.heal());
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
            let opened = self.rig.sim.run(self.try_open());
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
                has_faults: self.has_faults,
            };
            env.spawn("reader", Box::pin(reader.run()));
        }
        if self.has_faults {
            let (disks, rng) = (self.disks(), Rng::stream(self.seed, self.rng.bits()));
            env.spawn("faults", Box::pin(fail(disks, self.rig.sim.env(), rng)));
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

/// Has disks fail for a while.
async fn fail(disks: Vec<Arc<SimDisk>>, env: SharedEnv, mut rng: Rng) {
    for _ in 0..40 {
        env.sleep(Duration::from_micros(rng.below(4000))).await;
        let disk = &disks[rng.below(disks.len() as u64) as usize];
        let at = rng.below(disk.geometry().size / 4096) * 4096;
        match rng.below(7) {
            0 | 1 => disk.fail_reads_until_written(at..at + (64 << 10)),
            2 => disk.fail_writes(at..at + (64 << 10)),
            3 => disk.vanish(),
            4 => disk.slow(50),
            5 => disk.hang(),
            _ => disk.fail_flushes(true),
        }
        env.sleep(Duration::from_micros(rng.below(2000))).await;
        disk.heal();
    }
}

/// Takes views and reads them, now and later.
struct Reader {
    has_faults: bool,
    rng: Rng,
    store: Store,
    session: Session,
    own: Vec<Arc<Mutex<Own>>>,
    env: SharedEnv,
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
                let is_fault = |finding: &Finding| {
                    self.has_faults && matches!(finding, Finding::PageDamaged { .. })
                };
                let wrong = report.findings.iter().find(|finding| !is_fault(finding));
                assert_eq!(wrong, None, "a view of a store that changes");
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
        all.left_out += counts.left_out;
        all.seen += counts.seen;
    }
    println!("{seeds} lives: {all:?}");
    assert!(all.commits > 10 * seeds && all.in_recovery > seeds / 2, "{all:?}");
    assert!(seeds < 20 || all.left_out > seeds / 20, "no medium failed: {all:?}");
    assert!(all.seen > 10 * seeds && all.happened > seeds / 2, "{all:?}");
}
