//! Histories of transactions from a seed, over power cuts, of which a checker that knows nothing else says
//! whether what they show may be: Elle's list-append.
//!
//! A seed gives the same history each time.

mod checker;
mod client;
mod examples;
mod graph;
mod history;
mod row;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_heap::{Change, RowId, Store};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;

use crate::spilled;
use crate::support::Rig;
use client::Client;
use history::{End, Finding, History};
use row::{BY_EPOCH, BY_KEY, PARENTS, ROWS, Row};

/// Transactions of a client in one opening.
const TRANSACTIONS_MAX: u64 = 60;

struct Life {
    seed: u64,
    rng: Rng,
    rig: Rig,
    keys: u8,
    clients: usize,
    pause_max: u64,
    parents: Arc<Vec<RowId>>,
    history: Arc<Mutex<History>>,
}

#[derive(Default, Debug)]
struct Counts {
    transactions: usize,
    committed: usize,
    unknown: usize,
    reads: usize,
    /// Power cuts, and those in the middle of the work.
    crashes: u64,
    in_work: u64,
    in_recovery: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::stream(seed, 2);
        let mut rig = Rig::new(seed, 6 << 20, 1 << 20);
        rig.options.cache_pages = rng.within(4..=60) as usize;
        rig.options.dirty_max = rng.within(8..=64) as usize;
        rig.options.checkpoint_after = Duration::from_micros(rng.within(300..=20_000));
        rig.options.recovery_target = Duration::from_micros(rng.within(10..=100_000));
        if seed % 2 == 1 {
            spilled::spill(&mut rig, rng.within(2..=40) as usize);
        }
        rig.data.tear_sectors(rng.coin());
        let (keys, clients) = (rng.within(3..=10) as u8, rng.within(2..=8) as usize);
        // The slower the log, the more has been seen that a power cut takes back.
        let slow = rng.within(1..=8);
        rig.groups.iter().for_each(|group| group.slow(slow));
        let pause_max = [100, 400, 1500][rng.below(3) as usize];
        let (parents, history) = (Arc::default(), Arc::default());
        Life { seed, rng, rig, keys, clients, pause_max, parents, history }
    }

    fn run(mut self) -> (History, Counts) {
        let mut counts = Counts::default();
        self.rig.run(self.rig.create());
        for round in 0..self.rng.within(1..=4) {
            let store = self.open(&mut counts);
            if round == 0 {
                self.parents = Arc::new(self.rig.run(self.set_up(&store)));
            }
            self.read_all(&store);
            self.work(store, &mut counts);
        }
        let store = self.open(&mut counts);
        self.read_all(&store);
        drop(store);
        let history = std::mem::take(&mut *self.history.lock().unwrap());
        counts.transactions = history.transactions.len();
        for told in &history.transactions {
            counts.committed += usize::from(matches!(told.end, End::Committed(_)));
            counts.unknown += usize::from(told.end == End::Unknown);
            counts.reads += told.reads().len();
        }
        (history, counts)
    }

    /// Makes tables and indexes, and a parent of each key.
    async fn set_up(&self, store: &Store) -> Vec<RowId> {
        let session = self.rig.session();
        for table in [ROWS, PARENTS] {
            store.create_table(&session, table).await.unwrap();
        }
        for index in [BY_KEY, BY_EPOCH] {
            store.create_index(&session, index).await.unwrap();
        }
        let parent = |key| {
            let row = Row { key, is_live: false, epoch: 0, list: Vec::new() };
            Change::Insert { table: PARENTS, row: row.encode(0), keys: Vec::new() }
        };
        let done = store.commit(&session, (0..self.keys).map(parent).collect()).await.unwrap();
        done.rows.into_iter().map(Option::unwrap).collect()
    }

    /// Opens the store, through power cuts.
    fn open(&mut self, counts: &mut Counts) -> Store {
        loop {
            if self.rng.one_in(4) {
                self.rig.sim.crash_after(self.rng.within(1..=60));
            }
            let opened = self.rig.sim.run(self.rig.open());
            self.rig.sim.crash_never();
            match opened {
                Some(opened) => {
                    return opened.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed)).0;
                }
                None => {
                    counts.in_recovery += 1;
                    self.rig.sim.restart();
                }
            }
        }
    }

    fn client(&mut self, number: usize, store: &Store) -> Client {
        Client {
            number,
            rng: Rng::stream(self.seed, self.rng.bits()),
            store: store.clone(),
            session: self.rig.session(),
            env: self.rig.sim.env(),
            parents: Arc::clone(&self.parents),
            pause_max: self.pause_max,
            history: Arc::clone(&self.history),
        }
    }

    fn read_all(&mut self, store: &Store) {
        // It is nobody's session.
        let reader = self.client(self.clients, store);
        self.rig.run(reader.read_all());
    }

    /// Has clients work until they are done or the power goes.
    fn work(&mut self, store: Store, counts: &mut Counts) {
        let is_cut = self.rng.below(4) > 0;
        if is_cut {
            self.rig.sim.crash_after(self.rng.within(3..=250));
        }
        let env = self.rig.sim.env();
        let tasks: Vec<_> = (0..self.clients)
            .map(|number| {
                let transactions = self.rng.within(1..=TRANSACTIONS_MAX);
                env.run("client", self.client(number, &store).run(transactions))
            })
            .collect();
        let seed = self.seed;
        let is_over = self.rig.sim.run(async move {
            for task in tasks {
                task.await.unwrap_or_else(|| panic!("seed {seed}: a client has failed"));
            }
            assert_eq!(store.locked(), 0, "seed {seed}: no lock is left");
            if !is_cut {
                store.close().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        });
        self.rig.sim.crash_never();
        if is_over.is_some() && !is_cut {
            return;
        }
        counts.in_work += u64::from(is_over.is_none());
        counts.crashes += 1;
        self.rig.sim.crash();
        self.rig.sim.restart();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

#[test]
fn histories_from_seeds() {
    let seeds = number("CELLAR_SEEDS").unwrap_or(25);
    let first = number("CELLAR_SEED").unwrap_or(0);
    let mut all = Counts::default();
    // By name: how many, and the first one.
    let mut found = BTreeMap::<&str, (u64, String)>::new();
    for seed in first..first + seeds {
        let (history, counts) = Life::new(seed).run();
        for Finding { name, story } in checker::check(&history) {
            let (count, _) = found.entry(name).or_insert((0, format!("seed {seed}: {story}")));
            *count += 1;
        }
        all.transactions += counts.transactions;
        all.committed += counts.committed;
        all.unknown += counts.unknown;
        all.reads += counts.reads;
        all.crashes += counts.crashes;
        all.in_work += counts.in_work;
        all.in_recovery += counts.in_recovery;
    }
    println!("{seeds} histories: {all:?}");
    let told = found.iter().map(|(name, (count, first))| format!("{count} x {name}: {first}"));
    let told: Vec<_> = told.collect();
    assert!(told.is_empty(), "of {seeds} seeds from {first} on:\n{}", told.join("\n"));
    let is_alive = all.committed > 30 * seeds as usize && all.crashes > seeds / 2;
    assert!(is_alive || seeds < 10, "{all:?}");
}
