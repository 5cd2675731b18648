//! Benchmark of the apply lane over pages in memory and a real log, beside the log alone.
//!
//! `cargo bench -p cellar-heap --profile release --bench lane -- --dir DIR`. Arms alternate; each prints the
//! median of its rounds, the CPU of the process for a commit, and how often its threads slept involuntarily.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::rig::Rig;
use cellar_io::real::{OpenOptions, RealEnv, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Device, Env, IoFuture};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};

const GROUP_BYTES: u64 = 256 << 20;
const GROUPS: u32 = 3;
const ROW_BYTES: usize = 1000;

/// Control data in memory: it is not on the path that is measured.
#[derive(Default)]
struct MemoryControl(Mutex<Vec<u8>>);

impl Control for MemoryControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap() = bytes;
            Ok(())
        })
    }
}

/// Writes the file once: a write into a hole measures the file system.
fn prepare(file: &Path) {
    if file.metadata().is_ok_and(|m| m.len() == GROUP_BYTES) {
        return;
    }
    let mut out = std::fs::File::create(file).unwrap();
    for _ in 0..GROUP_BYTES >> 20 {
        std::io::Write::write_all(&mut out, &vec![0u8; 1 << 20]).unwrap();
    }
    out.sync_all().unwrap();
}

#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Log,
    Lane,
}

const ARMS: [(&str, Arm); 2] = [("log alone", Arm::Log), ("lane and log", Arm::Lane)];

#[derive(Clone, Copy, Default)]
struct Measured {
    rate: f64,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

struct Bench {
    runtime: Runtime,
    env: Arc<RealEnv>,
    files: BTreeMap<u32, Arc<dyn Device>>,
    millis: u64,
    pages: u32,
    /// Only arms with this in their names.
    only: String,
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn main() {
    let mut values = BTreeMap::from([
        ("--dir", std::env::temp_dir().join("cellar-lane").display().to_string()),
        ("--rounds", "5".to_owned()),
        ("--millis", "1000".to_owned()),
        ("--pages", "8192".to_owned()),
        ("--arm", String::new()),
        ("--committers", "1,8,64".to_owned()),
    ]);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), values.get_mut(argument.as_str())) {
            (_, Some(value)) => *value = arguments.next().expect("a value"),
            ("--bench", _) => {}
            // What `cargo test` adds: nothing to measure then.
            ("--test", _) => return,
            (other, _) => panic!("{other}: one of {:?}", values.keys()),
        }
    }
    let number = |name: &str| values[name].parse::<u64>().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let dir = PathBuf::from(&values["--dir"]);
    std::fs::create_dir_all(&dir).unwrap();
    let env = Arc::clone(runtime.real_env());
    let open = |group: u32| {
        let path = dir.join(format!("log{group}"));
        prepare(&path);
        open_disk(&env, &path, &OpenOptions::default()).unwrap() as Arc<dyn Device>
    };
    let files = (1..=GROUPS).map(|group| (group, open(group))).collect();
    let (millis, pages) = (number("--millis"), number("--pages") as u32);
    let bench = Bench { runtime, env, files, millis, pages, only: values["--arm"].clone() };
    for committers in values["--committers"].split(',').map(|n| n.parse().unwrap()) {
        bench.compare(committers, number("--rounds"));
    }
}

impl Bench {
    fn log(&self) -> Log {
        let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
        let env = self.runtime.env();
        let media = vec![Medium { name: "m".to_owned(), files: self.files.clone() }];
        let spec = CreateLog {
            database: DatabaseId(u128::from(env.random())),
            block_size: 4096,
            quorum: Quorum::Auto,
            archiving: false,
            groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
            media: media.clone(),
        };
        let opening = OpenLog {
            env: env.clone(),
            session: Waits::new().session("redo", Kind::Background),
            control: Arc::clone(&control),
            media,
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        };
        self.runtime.block_on(async {
            create(&env, &control, spec).await.unwrap();
            Recovery::start(opening).await.unwrap().open().await.unwrap().0
        })
    }

    fn compare(&self, committers: usize, rounds: u64) {
        println!("{committers} committers, rows of {ROW_BYTES} bytes in {} pages", self.pages);
        let mut all: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
        for _ in 0..rounds {
            for (name, arm) in ARMS {
                if !name.contains(&self.only) {
                    continue;
                }
                all.entry(name).or_default().push(self.run(arm, committers));
            }
        }
        let median = |name: &str, of: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = all[name].iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for name in all.keys() {
            println!(
                "  {name:<14} {:>9.0} /s  {:>6.2} us CPU  p50 {:>6.0} us  p99 {:>6.0} us",
                median(name, |m| m.rate),
                median(name, |m| m.cpu_us),
                median(name, |m| m.p50_us),
                median(name, |m| m.p99_us),
            );
        }
        if all.len() < ARMS.len() {
            return;
        }
        let ratios = all["lane and log"].iter().zip(&all["log alone"]);
        let mut ratios: Vec<f64> = ratios.map(|(lane, log)| lane.rate / log.rate).collect();
        ratios.sort_by(f64::total_cmp);
        println!("  lane / log alone: {:.2}", ratios[ratios.len() / 2]);
    }

    fn run(&self, arm: Arm, committers: usize) -> Measured {
        let log = self.log();
        let rig = Arc::new(Rig::new(log.clone(), self.pages, ROW_BYTES));
        let env = Arc::clone(&self.env);
        let time = Duration::from_millis(self.millis);
        self.runtime.block_on(async move {
            let (start, cpu_before) = (env.now(), cpu());
            let end = start.plus(time);
            let waits = Waits::new();
            let tasks: Vec<_> = (0..committers)
                .map(|number| {
                    let (log, env, rig) = (log.clone(), Arc::clone(&env), Arc::clone(&rig));
                    let session = waits.session("committer", Kind::User);
                    tokio::spawn(async move {
                        let mut times = Vec::new();
                        let mut random = number as u64 * 2 + 1;
                        let mut now = env.now();
                        while now < end {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            let body = Bytes::from(vec![random as u8; ROW_BYTES]);
                            match arm {
                                Arm::Log => {
                                    rig.log_alone(&session, body).await.unwrap();
                                }
                                Arm::Lane => {
                                    let row = (random >> 16) as usize % rig.rows();
                                    rig.update(&session, row, body).await.unwrap();
                                }
                            }
                            let done = env.now();
                            times.push(done.since(now).as_nanos() as u64);
                            now = done;
                            if times.len() % 64 == 0
                                && matches!(log.ring(), (used, all) if used * 2 > all)
                            {
                                log.set_checkpoint(log.durable_lsn()).await.unwrap();
                            }
                        }
                        times
                    })
                })
                .collect();
            let mut times = Vec::new();
            for task in tasks {
                times.extend(task.await.unwrap());
            }
            let (seconds, used) = (env.now().since(start).as_secs_f64(), cpu() - cpu_before);
            log.close().await.unwrap();
            times.sort_unstable();
            let percentile =
                |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
            Measured {
                rate: times.len() as f64 / seconds,
                cpu_us: used.as_secs_f64() * 1e6 / times.len() as f64,
                p50_us: percentile(0.5),
                p99_us: percentile(0.99),
            }
        })
    }
}
