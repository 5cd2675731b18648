//! Benchmark of commits: durable updates of rows, by place and by key, compared with the log alone with records of
//! the same size.
//!
//! `cargo bench -p cellar-heap --profile release --bench lane -- --dir DIR`. Arms alternate; each prints the
//! medians of its rounds: commits a second, CPU of the process for each, and latency. From three
//! seconds on also the worst second divided by the median one. Goal: 0.85, through checkpoints.
//!
//! `--sizes 0.5,1,4` compares tables of these multiples of the cache, `--minutes 10 --rounds 1 --arm key` is a long
//! run, `--series 1` prints the commits of each second. `--share 0.8` limits committers to this share of their maximum,
//! without archiving and with it. Sleeps are counted for all threads of the process: waiting for a flush is one.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

#[path = "rig/archive.rs"]
mod archive;
mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Key, Options, RowId, Store};
use cellar_io::real::RealEnv;
use cellar_io::{Env, Instant};
use cellar_wait::{Kind, Session, Waits};

use archive::{Archiver, Directory};
use rig::{Kept, Rig, arguments, cpu};

/// As in servers: allocations of a commit are too large for the quick lists of the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROW_BYTES: usize = 1000;

#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Log,
    Place,
    Key,
}

const ARMS: [(&str, Arm); 3] =
    [("log alone", Arm::Log), ("update by place", Arm::Place), ("update by key", Arm::Key)];
const TABLE: u32 = 1;
const INDEX: u32 = 2;
/// Rows in a page.
const IN_PAGE: u64 = 8;

#[derive(Clone, Copy, Default)]
struct Measured {
    rate: f64,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// Thread sleeps per commit.
    sleeps: f64,
    /// Write sets that were restarted, per commit: something was not in memory when it was their turn.
    anew: f64,
    /// Worst second divided by median second; 0 if there are too few.
    worst: f64,
    archives: u64,
}

/// The parameters of a measurement.
#[derive(Clone, Copy)]
struct Load {
    arm: Arm,
    committers: usize,
    /// Maximum commits a second of all together.
    most: Option<f64>,
    archives: bool,
}

/// An acknowledged commit; a long run has many.
struct Answered {
    nanos: u32,
    /// Time since the start of the run.
    second: u32,
}

struct Bench {
    rig: Rig,
    millis: u64,
    rows: u64,
    /// After each run the store is opened as after a crash.
    reopens: bool,
    /// Prints the commits of each second.
    series: bool,
    /// Only arms whose names contain this.
    only: String,
    /// Share of the maximum, with archiving and without; 0: the maximum.
    share: f64,
    directory: PathBuf,
}

fn main() {
    let temporary = std::env::temp_dir().join("cellar-lane").display().to_string();
    let Some(values) = arguments(&[
        ("--dir", &temporary),
        ("--rounds", "5"),
        ("--millis", "1000"),
        // Length of a run, instead of milliseconds.
        ("--minutes", "0"),
        ("--series", "0"),
        ("--rows", "60000"),
        // Size of the rows as a multiple of the cache, instead of their number.
        ("--sizes", ""),
        // Time limit of an opening, in milliseconds.
        ("--target", "5000"),
        ("--reopen", "0"),
        // Twice the pages of rows.
        ("--cache-pages", "0"),
        ("--arm", ""),
        ("--committers", "1,8,64"),
        ("--share", "0"),
    ]) else {
        return;
    };
    let number = |name: &str| values[name].parse::<u64>().unwrap();
    let cache_pages = match number("--cache-pages") {
        0 => number("--rows") / IN_PAGE * 2,
        pages => pages,
    };
    let sizes = values["--sizes"].split(',').filter(|size| !size.is_empty());
    let mut tables: Vec<u64> = sizes
        .map(|size| (size.parse::<f64>().unwrap() * (cache_pages * IN_PAGE) as f64) as u64)
        .collect();
    if tables.is_empty() {
        tables.push(number("--rows"));
    }
    // One and a half times the size of the rows, in whole megabytes.
    let most = tables.iter().max().copied().unwrap();
    let megabytes = 64 + ((most / IN_PAGE * 8192 * 3 / 2) >> 20);
    let cache_pages = cache_pages as usize;
    let options = Options {
        cache_pages,
        dirty_max: cache_pages / 4 * 3,
        recovery_target: Duration::from_millis(number("--target")),
        ..Options::default()
    };
    let rig = Rig::new(&PathBuf::from(&values["--dir"]), megabytes, options);
    let millis = match number("--minutes") {
        0 => number("--millis"),
        minutes => minutes * 60_000,
    };
    let (only, reopens, series) =
        (values["--arm"].clone(), number("--reopen") > 0, number("--series") > 0);
    let (share, directory) = (values["--share"].parse().unwrap(), values["--dir"].clone().into());
    let mut bench = Bench { rig, millis, rows: 0, reopens, series, only, share, directory };
    for rows in tables {
        bench.rows = rows;
        println!("{rows} rows of {ROW_BYTES} bytes, a cache of {cache_pages} pages");
        for committers in values["--committers"].split(',').map(|n| n.parse().unwrap()) {
            match bench.share > 0.0 {
                true => bench.compare_archiving(committers, number("--rounds")),
                false => bench.compare(committers, number("--rounds")),
            }
        }
    }
}

/// A committer.
struct Committer {
    store: Store,
    env: Arc<RealEnv>,
    session: Session,
    ids: Arc<Vec<RowId>>,
    arm: Arm,
    number: u64,
    rows: u64,
    /// Minimum time from the start of one commit to that of the next.
    pause: Option<Duration>,
}

impl Committer {
    async fn run(self, start: Instant, end: Instant) -> Vec<Answered> {
        let Committer { store, env, session, ids, arm, number, rows, pause } = self;
        let mut times = Vec::new();
        let mut random = number * 2 + 1;
        let mut now = env.now();
        let mut turn = now;
        while now < end {
            if let Some(pause) = pause {
                turn = turn.plus(pause);
                if turn > now {
                    env.sleep_until(turn).await;
                    now = env.now();
                }
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let body = Bytes::from(vec![random as u8; ROW_BYTES]);
            // Committers have separate rows: there are no locks yet.
            let row = (random >> 16) % (rows / 64) * 64 + number;
            commit(&store, &session, arm, &ids, row, body).await;
            let done = env.now();
            times.push(Answered {
                nanos: done.since(now).as_nanos().try_into().unwrap_or(u32::MAX),
                second: done.since(start).as_secs() as u32,
            });
            now = done;
            let log = store.log();
            let looks = arm == Arm::Log && times.len() % 64 == 0;
            if looks && matches!(log.ring(), (used, all) if used * 2 > all) {
                log.set_checkpoint(log.durable_lsn()).await.unwrap();
            }
        }
        times
    }
}

impl Bench {
    /// Stops the store as a crash would, and opens it again.
    fn reopen(&self, store: Store, kept: &Kept) {
        self.rig.runtime.block_on(async {
            let (log, estimate) = (store.log().clone(), store.recovery_estimate());
            store.abandon().await;
            log.abandon().await.unwrap();
            let start = self.rig.env.now();
            let (store, replayed) = self.rig.open_again(kept).await;
            let (time, next) = (self.rig.env.now().since(start), store.recovery_estimate().time);
            println!(
                "  opened in {time:.2?}, foretold {:.2?} for {} MB of redo and {} pages",
                estimate.time,
                estimate.redo >> 20,
                estimate.pages
            );
            println!(
                "  {} commits, {} pages read in {:.2?} of {:.2?}; the next opening: {next:.2?}",
                replayed.commits, replayed.pages, replayed.reading, replayed.time
            );
            store.log().clone().close().await.unwrap();
        });
    }

    /// Fills the store. Returns the places of the rows.
    async fn fill(store: &Store, rows: u64) -> Vec<RowId> {
        let session = Waits::new().session("load", Kind::User);
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let mut ids = Vec::new();
        for from in (0..rows).step_by(1000) {
            let insert = |n: u64| {
                let row = Bytes::from(vec![n as u8; ROW_BYTES]);
                Change::Insert { table: TABLE, row, keys: vec![key(n)] }
            };
            let changes = (from..rows.min(from + 1000)).map(insert).collect();
            ids.extend(store.commit(&session, changes).await.unwrap().rows.into_iter().flatten());
        }
        store.checkpoint().await.unwrap();
        ids
    }

    fn compare(&self, committers: usize, rounds: u64) {
        println!("{committers} committers");
        let mut all: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
        for _ in 0..rounds {
            for (name, arm) in ARMS {
                if !name.contains(&self.only) {
                    continue;
                }
                let load = Load { arm, committers, most: None, archives: false };
                all.entry(name).or_default().push(self.run(load));
            }
        }
        let median = |name: &str, of: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = all[name].iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for name in all.keys() {
            println!(
                "  {name:<16} {:>9.0} /s  {:>6.2} us CPU  {:.2} sleeps  {:.5} anew  p50 {:>6.0} us  p99 {:>6.0} us  \
                 p99.9 {:>6.0} us",
                median(name, |m| m.rate),
                median(name, |m| m.cpu_us),
                median(name, |m| m.sleeps),
                median(name, |m| m.anew),
                median(name, |m| m.p50_us),
                median(name, |m| m.p99_us),
                median(name, |m| m.p999_us),
            );
            let worst = median(name, |m| m.worst);
            if worst > 0.0 {
                println!("  {:<16} the worst second by the median one: {worst:.2}", "");
            }
        }
        if all.len() < ARMS.len() {
            return;
        }
        for (name, _) in &ARMS[1..] {
            let ratios = all[name].iter().zip(&all[ARMS[0].0]);
            let mut ratios: Vec<f64> = ratios.map(|(ours, log)| ours.rate / log.rate).collect();
            ratios.sort_by(f64::total_cmp);
            println!("  {name} / log alone: {:.2}", ratios[ratios.len() / 2]);
        }
    }

    /// This share of the maximum, with archiving and without.
    fn compare_archiving(&self, committers: usize, rounds: u64) {
        println!("{committers} committers, updates by key at {} of what is possible", self.share);
        let load = Load { arm: Arm::Key, committers, most: None, archives: false };
        for _ in 0..rounds {
            let most = self.run(load).rate * self.share;
            for archives in [false, true] {
                let of = self.run(Load { most: Some(most), archives, ..load });
                println!(
                    "  {:<16} {:>9.0} of {most:.0} /s  p50 {:>6.0} us  p99 {:>6.0} us  p99.9 {:>6.0} us  max \
                     {:>7.0} us  worst second {:.2}  {} archives",
                    if archives { "archiving" } else { "not archiving" },
                    of.rate,
                    of.p50_us,
                    of.p99_us,
                    of.p999_us,
                    of.max_us,
                    of.worst,
                    of.archives,
                );
            }
        }
    }

    fn run(&self, load: Load) -> Measured {
        let Load { arm, committers, most, archives } = load;
        let (store, control) = self.rig.create(archives);
        let kept = store.clone();
        let directory = self.directory.join("archives");
        let pause = most.map(|most| Duration::from_secs_f64(committers as f64 / most));
        let (env, rows) = (Arc::clone(&self.rig.env), self.rows);
        let (time, series) = (Duration::from_millis(self.millis), self.series);
        let measured = self.rig.runtime.block_on(async move {
            let ids = match arm {
                Arm::Log => Arc::default(),
                _ => Arc::new(Bench::fill(&store, rows).await),
            };
            let archiver = archives.then(|| Archiver::start(&store, Directory::new(&directory)));
            let (anew, slept) = (store.begun_anew(), sleeps());
            let (start, cpu_before) = (env.now(), cpu());
            let end = start.plus(time);
            let waits = Waits::new();
            let committer = |number| Committer {
                store: store.clone(),
                env: Arc::clone(&env),
                session: waits.session("committer", Kind::User),
                ids: Arc::clone(&ids),
                arm,
                number: number as u64,
                rows,
                pause,
            };
            let tasks: Vec<_> = (0..committers)
                .map(|number| tokio::spawn(committer(number).run(start, end)))
                .collect();
            let mut times = Vec::new();
            for task in tasks {
                times.extend(task.await.unwrap());
            }
            let (seconds, used) = (env.now().since(start).as_secs_f64(), cpu() - cpu_before);
            let mut measured = measured(&times, seconds, used);
            let commits = times.len() as f64;
            // Threads that have ended are no longer counted.
            measured.sleeps = sleeps().saturating_sub(slept) as f64 / commits;
            measured.anew = (store.begun_anew() - anew) as f64 / commits;
            measured.archives = archiver.map_or(0, |archiver| archiver.written());
            measured.worst = worst_second(&times, time.as_secs_f64(), series);
            measured
        });
        match self.reopens && arm != Arm::Log {
            true => self.reopen(kept, &control),
            false => self.rig.runtime.block_on(kept.log().clone().close()).unwrap(),
        };
        measured
    }
}

/// The number of times that threads of this process have slept so far, waiting for something.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let count = |status: String| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse().ok()
    };
    status.filter_map(count).sum()
}

/// The results of the commits.
fn measured(times: &[Answered], seconds: f64, used: Duration) -> Measured {
    let mut took: Vec<u32> = times.iter().map(|of| of.nanos).collect();
    took.sort_unstable();
    let percentile =
        |share: f64| f64::from(took[((took.len() - 1) as f64 * share) as usize]) / 1000.0;
    Measured {
        rate: times.len() as f64 / seconds,
        cpu_us: used.as_secs_f64() * 1e6 / times.len() as f64,
        p50_us: percentile(0.5),
        p99_us: percentile(0.99),
        p999_us: percentile(0.999),
        max_us: percentile(1.0),
        ..Measured::default()
    }
}

/// The commits of the worst whole second divided by those of the median one; 0 if there are too few.
fn worst_second(times: &[Answered], seconds: f64, prints: bool) -> f64 {
    let mut counts = vec![0u64; seconds as usize];
    for of in times {
        if let Some(count) = counts.get_mut(of.second as usize) {
            *count += 1;
        }
    }
    if prints {
        println!("  commits of each second: {counts:?}");
    }
    counts.sort_unstable();
    match counts[..] {
        [worst, _, _, ..] => worst as f64 / counts[counts.len() / 2] as f64,
        _ => 0.0,
    }
}

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

async fn commit(store: &Store, session: &Session, arm: Arm, ids: &[RowId], row: u64, body: Bytes) {
    let id = match arm {
        Arm::Log => {
            store.log().commit(session, 9, 0, body).await.unwrap();
            return;
        }
        Arm::Place => ids[row as usize],
        Arm::Key => {
            let view = store.newest();
            let bytes = row.to_be_bytes();
            let found = view.range(session, INDEX, &bytes..=&bytes, false, 1).await.unwrap();
            found[0].1
        }
    };
    let (gone, new) = (Vec::new(), Vec::new());
    let change = Change::Update { table: TABLE, id, row: body, gone, new };
    store.commit(session, vec![change]).await.unwrap();
}
