//! Benchmark of locks: a row that all change, the time until a deadlock is reported, and rollbacks.
//!
//! `cargo bench -p cellar-heap --profile release --bench locks -- --dir DIR`. Arms alternate; each prints the
//! medians of its rounds. Goals: 128 committers of one row make 0.6 of the commits a second of one committer
//! that has it alone; a change of 100 bytes is at most 200 bytes of redo; a deadlock is reported within 1 ms;
//! 100,000 changes are rolled back in 20 ms.
//!
//! "Of one" is the rate of a single committer with the same transaction, and a log flush for each commit.
//! Locks are released before a commit is durable, so that waiters share flushes: 128 may be
//! faster than one. The cost of the queue itself shows in the comparison with 128 committers with separate rows.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod keyed;
mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockError, Mode};
use cellar_heap::{Error, Key, Options, RowKey, RowRef, Store, Transaction};
use cellar_io::Env;
use cellar_wait::{Kind, Session, Waits};
use tokio::sync::Barrier;

use keyed::{KEY, TABLE, begin, key, lock, row, share, update};
use rig::{Rig, arguments, cpu};

/// As in servers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The results of a round of commits.
#[derive(Clone)]
struct Round {
    /// Commits a second.
    rate: f64,
    /// For each commit, like all that follow: CPU,
    cpu_us: f64,
    /// bytes of redo,
    redo: f64,
    /// and latency.
    micros: Vec<f64>,
}

const ROW_BYTES: usize = 100;
const MANY: usize = 128;

/// By name: number of committers, and whether they change the same row.
const COMMITS: [(&str, usize, bool); 3] = [
    ("1 committer", 1, true),
    ("128, one row", MANY, true),
    ("128, rows of their own", MANY, false),
];

/// By name: number of transactions that wait for each other in a cycle, and whether another one has locked all other
/// rows.
const CYCLES: [(&str, usize, bool); 3] =
    [("2 transactions", 2, false), ("16 transactions", 16, false), ("2, all rows locked", 2, true)];

#[derive(Clone, Copy)]
enum Undo {
    Updates,
    Inserts,
    /// Updates, back to a savepoint: the locks stay.
    Savepoint,
}

const UNDOS: [(&str, Undo); 3] = [
    ("updates", Undo::Updates),
    ("inserts", Undo::Inserts),
    ("updates, to a savepoint", Undo::Savepoint),
];

struct Bench {
    rig: Rig,
    store: Store,
    waits: Waits,
    rows: u64,
}

fn main() {
    let temporary = std::env::temp_dir().join("cellar-locks").display().to_string();
    let Some(values) = arguments(&[
        ("--dir", &temporary),
        ("--rounds", "5"),
        ("--millis", "1000"),
        // Deadlocks per round.
        ("--deadlocks", "1000"),
        // Changes rolled back.
        ("--changes", "100000"),
        // commits, deadlocks, rollbacks.
        ("--part", ""),
    ]) else {
        return;
    };
    let number = |name: &str| values[name].parse::<u64>().unwrap();
    let rows = number("--changes").max(1000);
    let megabytes = 64 + rows * 400 / 1_000_000;
    let cache_pages = (megabytes << 20) as usize / 8192;
    let options = Options { cache_pages, dirty_max: cache_pages / 4 * 3, ..Options::default() };
    let rig = Rig::new(&PathBuf::from(&values["--dir"]), megabytes, options);
    let ((store, kept), waits) = (rig.create(false), Waits::new());
    let bench = Bench { rig, store, waits, rows };
    let session = bench.session();
    let fill = keyed::fill(&bench.store, &session, rows, ROW_BYTES);
    bench.rig.runtime.block_on(fill);
    let (rounds, part) = (number("--rounds"), &values["--part"]);
    if "commits".contains(&part[..]) {
        bench.commits(rounds, Duration::from_millis(number("--millis")));
    }
    if "deadlocks".contains(&part[..]) {
        bench.deadlocks(rounds, number("--deadlocks"));
    }
    if "rollbacks".contains(&part[..]) {
        bench.rollbacks(rounds, number("--changes"));
    }
    assert_eq!(bench.store.locked(), 0, "no lock is left");
    let Bench { rig, store, .. } = bench;
    keyed::finish(&rig, store, &kept, rows);
}

/// Elapsed time and CPU time of some work.
#[derive(Clone, Copy)]
struct Took {
    micros: f64,
    cpu_us: f64,
}

impl Bench {
    fn session(&self) -> Session {
        self.waits.session("client", Kind::User)
    }

    fn commits(&self, rounds: u64, time: Duration) {
        println!("durable updates of rows of {ROW_BYTES} bytes, found by key");
        let mut all: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
        for _ in 0..rounds {
            for (name, committers, is_hot) in COMMITS {
                let measured = self.rig.runtime.block_on(self.committers(committers, is_hot, time));
                all.entry(name).or_default().push(measured);
            }
        }
        for (name, ..) in COMMITS {
            let median = |of: &mut dyn FnMut(&mut Round) -> f64| {
                let rounds = all[name].clone();
                share(
                    &mut rounds.into_iter().map(|mut round| of(&mut round)).collect::<Vec<_>>(),
                    0.5,
                )
            };
            let (rate, cpu) = (median(&mut |m| m.rate), median(&mut |m| m.cpu_us));
            let redo = median(&mut |m| m.redo);
            let [p50, p99, p999] =
                [0.5, 0.99, 0.999].map(|part| median(&mut |m| share(&mut m.micros, part)));
            println!(
                "  {name:<24} {rate:>8.0} /s  {cpu:>6.2} us CPU  {redo:.0} bytes of redo  \
                 p50 {p50:>6.0} us  p99 {p99:>6.0} us  p99.9 {p999:>6.0} us"
            );
        }
        for (name, to) in [(1, 0), (1, 2)].map(|(name, to)| (COMMITS[name].0, COMMITS[to].0)) {
            let ratios = all[name].iter().zip(&all[to]).map(|(this, that)| this.rate / that.rate);
            println!("  {name} / {to}: {:.2}", share(&mut ratios.collect::<Vec<_>>(), 0.5));
        }
    }

    async fn committers(&self, count: usize, is_hot: bool, time: Duration) -> Round {
        let redo = || self.store.log().stats().redo_size;
        let redo_before = redo();
        let (start, cpu_before) = (self.rig.env.now(), cpu());
        let end = start.plus(time);
        let tasks: Vec<_> = (0..count as u64)
            .map(|committer| {
                let (store, session) = (self.store.clone(), self.session());
                let env = Arc::clone(&self.rig.env);
                // Not in the same page either.
                let number = if is_hot { 0 } else { committer * (self.rows / MANY as u64) };
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    let mut now = env.now();
                    while now < end {
                        // All bytes differ from before, except the number.
                        let mut bytes = row(number, ROW_BYTES).to_vec();
                        bytes[8..].fill(times.len() as u8);
                        update(&store, &session, number, bytes.into()).await;
                        let done = env.now();
                        times.push(done.since(now).as_secs_f64() * 1e6);
                        now = done;
                    }
                    times
                })
            })
            .collect();
        let mut micros = Vec::new();
        for task in tasks {
            micros.extend(task.await.unwrap());
        }
        let seconds = self.rig.env.now().since(start).as_secs_f64();
        let (used, commits) = ((cpu() - cpu_before).as_secs_f64(), micros.len() as f64);
        let redo = (redo() - redo_before) as f64 / commits;
        Round { rate: commits / seconds, cpu_us: used * 1e6 / commits, redo, micros }
    }

    fn deadlocks(&self, rounds: u64, count: u64) {
        println!("from the last request of a circle to the answer that it is one");
        let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut cpus: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for _ in 0..rounds {
            for (name, cycle, beside_locks) in CYCLES {
                let session = self.session();
                let mut beside = begin(&self.store, &session);
                if beside_locks {
                    let locks = async {
                        for number in cycle as u64..self.rows {
                            lock(&mut beside, number).await;
                        }
                    };
                    self.rig.runtime.block_on(locks);
                }
                let before = cpu();
                let took = self.rig.runtime.block_on(self.cycles(cycle, count));
                let used = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
                all.entry(name).or_default().extend(took);
                cpus.entry(name).or_default().push(used);
                beside.rollback();
            }
        }
        for (name, ..) in CYCLES {
            let took = all.get_mut(name).unwrap();
            let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| share(took, part));
            println!(
                "  {name:<24} p50 {p50:>7.1} us  p99 {p99:>7.1} us  most {most:>8.1} us  \
                 {:.0} us CPU for all of it",
                share(cpus.get_mut(name).unwrap(), 0.5)
            );
        }
    }

    /// Makes transactions lock a row each, and then the next one's: microseconds until one is reported, each time.
    async fn cycles(&self, cycle: usize, count: u64) -> Vec<f64> {
        let barrier = Arc::new(Barrier::new(cycle));
        let tasks: Vec<_> = (0..cycle)
            .map(|place| {
                let (store, session) = (self.store.clone(), self.session());
                let (env, barrier) = (Arc::clone(&self.rig.env), Arc::clone(&barrier));
                tokio::spawn(async move {
                    let mut answers = Vec::new();
                    for _ in 0..count {
                        let mut own = begin(&store, &session);
                        lock(&mut own, place as u64).await;
                        let next = find(&mut own, ((place + 1) % cycle) as u64).await;
                        barrier.wait().await;
                        let asked = env.now();
                        let answer = own.lock_row(TABLE, next, Mode::Exclusive).await;
                        let is_deadlock = match answer {
                            Ok(_) => false,
                            Err(Error::Lock(LockError::Deadlock { .. })) => true,
                            Err(other) => panic!("{other}"),
                        };
                        answers.push((asked, env.now(), is_deadlock));
                        own.rollback();
                        barrier.wait().await;
                    }
                    answers
                })
            })
            .collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        let of_round = |round: usize| {
            let all = answers.iter().map(|of| of[round]);
            let told: Vec<_> = all.clone().filter(|(.., is_deadlock)| *is_deadlock).collect();
            assert_eq!(told.len(), 1, "one of a circle gives up");
            // A later request is not part of the cycle: the last one that closed it gets the error.
            let (asked, answered, _) = told[0];
            answered.since(asked).as_secs_f64() * 1e6
        };
        (0..count as usize).map(of_round).collect()
    }

    fn rollbacks(&self, rounds: u64, changes: u64) {
        println!("{changes} changes are rolled back");
        let mut all: BTreeMap<&str, Vec<Took>> = BTreeMap::new();
        for _ in 0..rounds {
            for (name, undo) in UNDOS {
                let took = self.rig.runtime.block_on(self.rollback(undo, changes));
                all.entry(name).or_default().push(took);
            }
        }
        for (name, _) in UNDOS {
            let median = |of: fn(&Took) -> f64| {
                share(&mut all[name].iter().map(of).collect::<Vec<_>>(), 0.5) / 1000.0
            };
            let (time, cpu) = (median(|took| took.micros), median(|took| took.cpu_us));
            println!("  {name:<24} {time:>7.2} ms  {cpu:>7.2} ms CPU");
        }
    }

    async fn rollback(&self, undo: Undo, changes: u64) -> Took {
        let session = self.session();
        let mut own = begin(&self.store, &session);
        let savepoint = own.savepoint();
        for number in 0..changes {
            match undo {
                Undo::Updates | Undo::Savepoint => change(&mut own, number).await,
                Undo::Inserts => {
                    let number = self.rows + number;
                    let bytes = key(number);
                    let key = RowKey { key: Key { index: KEY, bytes }, is_unique: true };
                    own.insert(TABLE, row(number, ROW_BYTES), vec![key]).await.unwrap();
                }
            }
        }
        let (start, cpu_before) = (self.rig.env.now(), cpu());
        match undo {
            Undo::Updates | Undo::Inserts => own.rollback(),
            Undo::Savepoint => own.rollback_to(savepoint),
        }
        let micros = self.rig.env.now().since(start).as_secs_f64() * 1e6;
        let cpu_us = (cpu() - cpu_before).as_secs_f64() * 1e6;
        Took { micros, cpu_us }
    }
}

async fn find(own: &mut Transaction, number: u64) -> RowRef {
    own.range(KEY, key(number)..=key(number)).await.unwrap()[0].1
}

async fn change(own: &mut Transaction, number: u64) {
    let at = find(own, number).await;
    own.lock_row(TABLE, at, Mode::Exclusive).await.unwrap().unwrap();
    let bytes = Bytes::from(vec![7; ROW_BYTES]);
    own.update((TABLE, at), bytes, Vec::new(), Vec::new()).await.unwrap();
}
