//! Benchmark of point reads: a row in memory, found by its primary key, by one reader and by two; and the cost of a
//! continuous reader for a committer.
//!
//! `cargo bench -p cellar-heap --profile release --bench read -- --dir DIR`. Arms alternate; each prints the
//! medians of its rounds. A reader is a thread. Goals: 2 us for a read, two readers 1.8 times one, a
//! committer at most a tenth slower.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod keyed;
mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_heap::{Options, Store};
use cellar_io::{Env, EnvExt};
use cellar_wait::{Event, Kind, Session, Waits};

use keyed::{KEY, TABLE, begin, key, row, share, update};
use rig::{Rig, arguments, cpu};

/// As in servers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, Copy)]
enum Read {
    /// A view of everything acknowledged, taken for each read.
    View,
    /// A transaction of one statement.
    Transaction,
}

struct Arm {
    name: &'static str,
    readers: usize,
    read: Read,
    commits: bool,
}

const fn arm(name: &'static str, readers: usize, read: Read, commits: bool) -> Arm {
    Arm { name, readers, read, commits }
}

const ARMS: [Arm; 6] = [
    arm("1 reader", 1, Read::View, false),
    arm("2 readers", 2, Read::View, false),
    arm("1 reader, transactions", 1, Read::Transaction, false),
    arm("2 readers, transactions", 2, Read::Transaction, false),
    arm("a committer", 0, Read::View, true),
    arm("a committer, 1 reader", 1, Read::View, true),
];

/// Reads between two looks at the clock.
const READS_AT_ONCE: u64 = 64;

#[derive(Default)]
struct Measured {
    reads: u64,
    commits: u64,
    seconds: f64,
    /// CPU of readers, and of everything else.
    read_cpu: f64,
    other_cpu: f64,
}

struct Bench<'a> {
    rig: &'a Rig,
    store: Store,
    waits: Waits,
    rows: u64,
    bytes: usize,
    time: Duration,
}

fn main() {
    let temporary = std::env::temp_dir().join("cellar-read").display().to_string();
    let Some(values) = arguments(&[
        ("--dir", &temporary),
        ("--rounds", "5"),
        ("--millis", "1000"),
        ("--rows", "100000"),
        ("--bytes", "1000,100"),
        ("--arm", ""),
    ]) else {
        return;
    };
    let number = |name: &str| values[name].parse::<u64>().unwrap();
    let sizes: Vec<u64> = values["--bytes"].split(',').map(|size| size.parse().unwrap()).collect();
    // All rows and their keys fit into half of it.
    let pages = number("--rows") * (sizes.iter().max().unwrap() + 100) / 8192 + 1000;
    let cache_pages = pages as usize * 2;
    let options = Options { cache_pages, dirty_max: cache_pages / 4 * 3, ..Options::default() };
    let rig =
        Rig::new(&PathBuf::from(&values["--dir"]), 64 + pages * 8192 * 2 / 1_000_000, options);
    for bytes in sizes {
        let (store, kept) = rig.create(false);
        let (waits, time) = (Waits::new(), Duration::from_millis(number("--millis")));
        let bench =
            Bench { rig: &rig, store, waits, rows: number("--rows"), bytes: bytes as usize, time };
        bench.compare(number("--rounds"), &values["--arm"]);
        let Bench { store, rows, .. } = bench;
        keyed::finish(&rig, store, &kept, rows);
    }
}

impl Bench<'_> {
    fn session(&self) -> Session {
        self.waits.session("client", Kind::User)
    }

    fn compare(&self, rounds: u64, only: &str) {
        println!("{} rows of {} bytes, all in memory", self.rows, self.bytes);
        let session = self.session();
        let fill = keyed::fill(&self.store, &session, self.rows, self.bytes);
        self.rig.runtime.block_on(fill);
        let mut all: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
        for _ in 0..rounds {
            for arm in ARMS.iter().filter(|arm| arm.name.contains(only)) {
                all.entry(arm.name).or_default().push(self.run(arm));
            }
        }
        let reads = |m: &Measured| m.reads as f64 / m.seconds;
        let commits = |m: &Measured| m.commits as f64 / m.seconds;
        for arm in ARMS.iter().filter(|arm| all.contains_key(arm.name)) {
            let median = |of: &dyn Fn(&Measured) -> f64| {
                share(&mut all[arm.name].iter().map(of).collect::<Vec<_>>(), 0.5)
            };
            print!("  {:<24}", arm.name);
            if arm.readers > 0 {
                let (rate, readers) = (median(&reads), arm.readers as f64);
                let cpu = median(&|m| m.read_cpu * 1e9 / m.reads as f64);
                print!(
                    " {rate:>9.0} reads/s  {:>5.0} ns each  {cpu:>5.0} ns CPU",
                    readers * 1e9 / rate
                );
            }
            if arm.commits {
                let cpu = median(&|m| m.other_cpu * 1e6 / m.commits as f64);
                print!(" {:>9.0} commits/s  {cpu:>6.2} us CPU", median(&commits));
            }
            println!();
        }
        let ratio = |name: &str, to: &str, of: &dyn Fn(&Measured) -> f64| {
            if let (Some(these), Some(those)) = (all.get(name), all.get(to)) {
                let ratios = these.iter().zip(those).map(|(this, that)| of(this) / of(that));
                println!("  {name} / {to}: {:.2}", share(&mut ratios.collect::<Vec<_>>(), 0.5));
            }
        };
        ratio(ARMS[1].name, ARMS[0].name, &reads);
        ratio(ARMS[3].name, ARMS[2].name, &reads);
        ratio(ARMS[5].name, ARMS[4].name, &commits);
    }

    fn run(&self, arm: &Arm) -> Measured {
        let (is_over, barrier) = (AtomicBool::new(false), Barrier::new(arm.readers + 1));
        let read_before = self.reads_of_disk();
        let measured = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..arm.readers)
                .map(|number| {
                    let (is_over, barrier) = (&is_over, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let read = self.read(arm.read, number as u64, is_over);
                        self.rig.runtime.block_on(read)
                    })
                })
                .collect();
            barrier.wait();
            let (start, cpu_before) = (self.rig.env.now(), cpu());
            let commits = match arm.commits {
                true => self.commit(),
                false => {
                    self.rig.runtime.block_on(self.rig.env.sleep(self.time));
                    0
                }
            };
            let (seconds, used) =
                (self.rig.env.now().since(start).as_secs_f64(), (cpu() - cpu_before).as_secs_f64());
            is_over.store(true, Ordering::Relaxed);
            let mut measured = Measured { commits, seconds, ..Measured::default() };
            for reader in readers {
                let (reads, cpu) = reader.join().unwrap();
                measured.reads += reads;
                measured.read_cpu += cpu.as_secs_f64();
            }
            measured.other_cpu = used - measured.read_cpu;
            measured
        });
        assert_eq!(self.reads_of_disk(), read_before, "a row was not in memory");
        measured
    }

    /// The number of waits for a page.
    fn reads_of_disk(&self) -> u64 {
        let totals = self.waits.totals();
        let reads = totals.iter().filter(|of| of.event == Event::DB_FILE_SEQUENTIAL_READ);
        reads.map(|of| of.count).sum()
    }

    /// Reads until the end. Returns the number of reads, and the CPU time of this thread.
    async fn read(&self, how: Read, number: u64, is_over: &AtomicBool) -> (u64, Duration) {
        let session = self.session();
        let (mut random, mut reads) = (Random(number * 2 + 1), 0);
        let before = thread_cpu();
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..READS_AT_ONCE {
                let sought = random.below(self.rows);
                let row = match how {
                    Read::View => {
                        let (view, key) = (self.store.view(), sought.to_be_bytes());
                        let found = view.range(&session, KEY, &key..=&key, false, 1).await.unwrap();
                        view.row(&session, TABLE, found[0].1).await.unwrap()
                    }
                    Read::Transaction => {
                        let mut own = begin(&self.store, &session);
                        let key = key(sought);
                        let found = own.range(KEY, key.clone()..=key).await.unwrap();
                        let row = own.row(TABLE, found[0].1).await.unwrap();
                        own.commit().await.unwrap();
                        row
                    }
                };
                assert_eq!(row.unwrap()[..8], sought.to_be_bytes(), "another row");
            }
            reads += READS_AT_ONCE;
        }
        (reads, thread_cpu() - before)
    }

    /// Commits for the time of the measurement: in a task, as in servers.
    fn commit(&self) -> u64 {
        let (store, session, env) = (self.store.clone(), self.session(), self.rig.env.clone());
        let (rows, bytes, end) = (self.rows, self.bytes, self.rig.env.now().plus(self.time));
        let task = self.rig.env.tokio().spawn(async move {
            let (mut random, mut commits) = (Random(77), 0);
            while env.now() < end {
                let number = random.below(rows);
                update(&store, &session, number, row(number, bytes)).await;
                commits += 1;
            }
            commits
        });
        self.rig.runtime.block_on(task).unwrap()
    }
}

/// Pseudo-random numbers, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

/// CPU time of this thread so far.
fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
