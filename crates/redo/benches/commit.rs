//! Benchmark of a commit against a raw write of the same size, on real files.
//!
//! `cargo bench -p cellar-redo --profile release --bench commit -- --dir DIR`. Arms alternate; each
//! prints the median and the spread of its rounds, then the goals.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{OpenOptions, RealEnv, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Buffer, Device, Durability, Env, Io};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, Successor,
    create,
};
use cellar_wait::{Kind, Waits};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::common::{MemoryControl, prepare, ratios, spread, verdict};

const GROUP_BYTES: u64 = 256 << 20;
const GROUPS: u32 = 3;

struct Arguments {
    dir: PathBuf,
    rounds: usize,
    millis: u64,
    block_size: u32,
    only: Option<String>,
    arm: Option<String>,
    successor: Successor,
    in_flight: usize,
}

fn main() {
    let Some(arguments) = parse() else { return };
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let bench = Bench::new(&runtime, arguments);
    bench.one_committer();
    bench.many_committers();
    bench.quorum();
    bench.bandwidth();
    bench.replay();
}

fn parse() -> Option<Arguments> {
    let mut parsed = Arguments {
        dir: std::env::temp_dir().join("cellar-commit"),
        rounds: 5,
        millis: 1000,
        block_size: 4096,
        only: None,
        arm: None,
        successor: Successor::default(),
        in_flight: 4,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => parsed.dir = value().into(),
            "--rounds" => parsed.rounds = value().parse().unwrap(),
            "--millis" => parsed.millis = value().parse().unwrap(),
            "--block" => parsed.block_size = value().parse().unwrap(),
            "--only" => parsed.only = Some(value()),
            "--arm" => parsed.arm = Some(value()),
            "--in-flight" => parsed.in_flight = value().parse().unwrap(),
            "--waiter" => parsed.successor = Successor::Waiter,
            "--bench" => {}
            // What `cargo test` adds: nothing to measure then.
            "--test" => return None,
            other => panic!(
                "{other}: one of --dir --rounds --millis --block --only --arm --in-flight --waiter"
            ),
        }
    }
    Some(parsed)
}

struct Bench<'a> {
    runtime: &'a Runtime,
    env: Arc<RealEnv>,
    arguments: Arguments,
    files: Vec<BTreeMap<u32, Arc<dyn Device>>>,
    raw: Vec<Arc<dyn Device>>,
}

impl<'a> Bench<'a> {
    fn new(runtime: &'a Runtime, arguments: Arguments) -> Bench<'a> {
        std::fs::create_dir_all(&arguments.dir).unwrap();
        let env = Arc::clone(runtime.real_env());
        let open = |name: String| {
            let path = arguments.dir.join(name);
            prepare(&path, GROUP_BYTES);
            let disk = open_disk(&env, &path, &OpenOptions::default()).unwrap();
            println!("{}: {}", path.display(), disk.effective());
            disk as Arc<dyn Device>
        };
        let files = (0..3)
            .map(|m| (1..=GROUPS).map(|g| (g, open(format!("log{m}-{g}")))).collect())
            .collect();
        let raw = (0..3).map(|m| open(format!("raw{m}"))).collect();
        Bench { runtime, env, arguments, files, raw }
    }

    fn wanted(&self, name: &str) -> bool {
        self.arguments.only.as_ref().is_none_or(|only| name.contains(only))
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.arguments.millis)
    }

    fn log(&self, media: usize) -> Log {
        self.log_and_opening(media).0
    }

    /// A new log, and the means to reopen it.
    fn log_and_opening(&self, media: usize) -> (Log, impl Fn() -> OpenLog + use<>) {
        let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
        let env = self.runtime.env();
        let media: Vec<Medium> = (0..media)
            .map(|m| Medium { name: format!("m{m}"), files: self.files[m].clone() })
            .collect();
        let spec = CreateLog {
            database: DatabaseId(u128::from(env.random())),
            block_size: self.arguments.block_size,
            quorum: Quorum::Auto,
            archiving: false,
            groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
            media: media.clone(),
        };
        let options = Options {
            successor: self.arguments.successor,
            units_in_flight: self.arguments.in_flight,
            ..Options::default()
        };
        self.runtime.block_on(create(&env, &control, spec)).unwrap();
        let opening = move || OpenLog {
            env: env.clone(),
            session: Waits::new().session("redo", Kind::Background),
            control: control.clone(),
            media: media.clone(),
            options: options.clone(),
            returning: Vec::new(),
            force: false,
        };
        let open = async { Recovery::start(opening()).await.unwrap().open().await.unwrap().0 };
        (self.runtime.block_on(open), opening)
    }

    /// Commits per second of this many committers, each with records of this many bytes.
    fn commits(&self, media: usize, committers: usize, bytes: usize) -> f64 {
        let log = self.log(media);
        let env = Arc::clone(&self.env);
        let time = self.time();
        self.runtime.block_on(async move {
            let start = env.now();
            let end = start.plus(time);
            let waits = Waits::new();
            let tasks: Vec<_> = (0..committers)
                .map(|_| {
                    let (log, env) = (log.clone(), Arc::clone(&env));
                    let session = waits.session("committer", Kind::User);
                    tokio::spawn(async move {
                        let body = Bytes::from(vec![7u8; bytes]);
                        let mut count = 0u64;
                        let mut parts = [Duration::ZERO; 8];
                        while env.now() < end {
                            let done = log.commit(&session, 0, 0, body.clone()).await.unwrap();
                            for (sum, (_, part)) in parts.iter_mut().zip(done.breakdown.parts()) {
                                *sum += part;
                            }
                            count += 1;
                            // Large records fill the log in less than a second.
                            let looks = count.is_multiple_of(64) || bytes > 64 << 10;
                            if looks && matches!(log.ring(), (used, all) if used * 2 > all) {
                                log.set_checkpoint(log.durable_lsn()).await.unwrap();
                            }
                        }
                        (count, parts)
                    })
                })
                .collect();
            let (mut count, mut parts) = (0, [Duration::ZERO; 8]);
            for task in tasks {
                let (more, its) = task.await.unwrap();
                count += more;
                parts.iter_mut().zip(its).for_each(|(sum, part)| *sum += part);
            }
            let rate = count as f64 / env.now().since(start).as_secs_f64();
            let stats = log.stats();
            if std::env::var_os("BREAKDOWN").is_some() {
                let names = cellar_redo::Breakdown::default().parts();
                for ((name, _), part) in names.iter().zip(parts) {
                    print!("{name} {:.1} us, ", part.as_secs_f64() * 1e6 / count as f64);
                }
                println!(
                    "{} units, {:.1} records each",
                    stats.redo_writes,
                    stats.redo_entries as f64 / stats.redo_writes as f64
                );
            }
            log.close().await.unwrap();
            rate
        })
    }

    /// Raw durable writes of `bytes` to this many files at once, `depth` at a time, per second.
    fn raw(&self, media: usize, depth: usize, bytes: usize, need: usize) -> f64 {
        self.raw_as(media, depth, bytes, need, false)
    }

    fn raw_as(&self, media: usize, depth: usize, bytes: usize, need: usize, alone: bool) -> f64 {
        let env = Arc::clone(&self.env);
        let devices: Vec<_> = self.raw[..media].to_vec();
        let time = self.time();
        // In a task of a worker, like committers.
        self.runtime.block_on(async move {
            tokio::spawn(async move {
                // As many different bytes as in a log, to defeat caches.
                let pages: Vec<Bytes> = (1..=16u8)
                    .map(|fill| Buffer::copy_of(&vec![fill; bytes], bytes).freeze())
                    .collect();
                let start = env.now();
                let end = start.plus(time);
                let mut count = 0u64;
                let mut at = 0;
                let one = |offset: u64| {
                    let page = pages[(offset / bytes as u64) as usize % pages.len()].clone();
                    let devices = devices.clone();
                    async move {
                        let mut all = FuturesUnordered::new();
                        for device in devices {
                            let page = page.clone();
                            all.push(async move {
                                let data = vec![page];
                                if alone {
                                    return device.write_alone(Io::COMMIT, offset, data).await;
                                }
                                device.write(Io::COMMIT, offset, data, Durability::Durable).await
                            });
                        }
                        for _ in 0..need {
                            all.next().await.unwrap().unwrap();
                        }
                        if !all.is_empty() {
                            tokio::spawn(async move { while all.next().await.is_some() {} });
                        }
                    }
                };
                let mut running = FuturesUnordered::new();
                while env.now() < end {
                    while running.len() < depth {
                        running.push(one(at));
                        at = (at + bytes as u64) % (GROUP_BYTES - bytes as u64);
                        at -= at % bytes as u64;
                    }
                    running.next().await;
                    count += 1;
                }
                while running.next().await.is_some() {}
                count as f64 / env.now().since(start).as_secs_f64()
            })
            .await
            .unwrap()
        })
    }

    /// Raw durable writes of 1 MB, 4 at a time, through the very files of the log: their place on
    /// the disk affects the speed by up to a sixth.
    fn sequential(&self) -> f64 {
        let (env, time) = (Arc::clone(&self.env), self.time());
        let files: Vec<Arc<dyn Device>> = self.files[0].values().cloned().collect();
        self.runtime.block_on(async move {
            let work = tokio::spawn(async move {
                const BYTES: u64 = 1 << 20;
                let pages: Vec<Bytes> = (1..=16u8)
                    .map(|fill| Buffer::copy_of(&vec![fill; BYTES as usize], 1 << 20).freeze())
                    .collect();
                let of_file = GROUP_BYTES / BYTES;
                let start = env.now();
                let end = start.plus(time);
                let (mut count, mut next) = (0u64, 0u64);
                let mut running = FuturesUnordered::new();
                while env.now() < end {
                    while running.len() < 4 {
                        let file = Arc::clone(&files[(next / of_file) as usize % files.len()]);
                        let data = vec![pages[next as usize % pages.len()].clone()];
                        let at = next % of_file * BYTES;
                        running.push(async move {
                            file.write(Io::COMMIT, at, data, Durability::Durable).await
                        });
                        next += 1;
                    }
                    running.next().await.unwrap().unwrap();
                    count += 1;
                }
                while running.next().await.is_some() {}
                count as f64 / env.now().since(start).as_secs_f64()
            });
            work.await.unwrap()
        })
    }

    /// `pwritev2(RWF_DSYNC)` on a separate thread.
    fn bare(&self, bytes: usize) -> f64 {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_DSYNC)
            .open(self.arguments.dir.join("raw0"))
            .unwrap();
        let page = Buffer::zeroed(bytes);
        let start = self.env.now();
        let end = start.plus(self.time());
        let (mut count, mut at) = (0u64, 0);
        while self.env.now() < end {
            assert!(file.as_raw_fd() >= 0);
            std::os::unix::fs::FileExt::write_all_at(&file, &page, at).unwrap();
            at = (at + bytes as u64) % (GROUP_BYTES - bytes as u64);
            at -= at % bytes as u64;
            count += 1;
        }
        count as f64 / self.env.now().since(start).as_secs_f64()
    }

    /// The rates of each arm, round by round.
    fn rounds(&self, arms: &mut [(&str, &mut dyn FnMut() -> f64)]) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::new(); arms.len()];
        for _ in 0..self.arguments.rounds {
            for (rates, (name, arm)) in all.iter_mut().zip(arms.iter_mut()) {
                let wanted = self.arguments.arm.as_ref().is_none_or(|wanted| name.contains(wanted));
                rates.push(if wanted { arm() } else { f64::NAN });
            }
        }
        for (rates, (name, _)) in all.iter().zip(arms) {
            let [least, median, most] = spread(rates.clone());
            println!("  {name:<36} {median:>9.0} /s ({least:.0}..{most:.0})");
        }
        all
    }

    fn one_committer(&self) {
        if !self.wanted("one") {
            return;
        }
        let block = self.arguments.block_size as usize;
        println!("one: 1 committer, 1 medium, records of 200 bytes");
        let m = self.rounds(&mut [
            ("pwrite O_DIRECT|O_DSYNC", &mut || self.bare(block)),
            ("Device::write, durable", &mut || self.raw(1, 1, block, 1)),
            ("Device::write_alone", &mut || self.raw_as(1, 1, block, 1, true)),
            ("commit", &mut || self.commits(1, 1, 200)),
        ]);
        goal("commit / Device::write", &m[3], &m[1], 0.9);
        goal("commit / pwrite", &m[3], &m[0], 0.9);
        goal("Device::write_alone / pwrite", &m[2], &m[0], 0.9);
    }

    fn many_committers(&self) {
        if !self.wanted("many") {
            return;
        }
        println!("many: 64 committers");
        let m = self.rounds(&mut [
            ("1 committer", &mut || self.commits(1, 1, 200)),
            ("8 committers", &mut || self.commits(1, 8, 200)),
            ("64 committers", &mut || self.commits(1, 64, 200)),
        ]);
        goal("64 / 1", &m[2], &m[0], 3.0);
    }

    fn quorum(&self) {
        if !self.wanted("quorum") {
            return;
        }
        let block = self.arguments.block_size as usize;
        for (media, need) in [(2, 2), (3, 2)] {
            println!("quorum: {need} of {media} media on one disk, 1 committer");
            let m = self.rounds(&mut [
                ("Device::write to all, k-th", &mut || self.raw(media, 1, block, need)),
                ("commit", &mut || self.commits(media, 1, 200)),
            ]);
            goal("commit / Device::write", &m[1], &m[0], 0.85);
        }
    }

    /// The read rate of the log's contents, in MB of records a second: every block is
    /// read from the medium and checked.
    fn replay(&self) {
        if !self.wanted("replay") {
            return;
        }
        let bytes = 4000;
        println!("replay: 400 MB of records of {bytes} bytes on 1 medium, goal 300 MB/s");
        let (log, opening) = self.log_and_opening(1);
        self.runtime.block_on(async {
            let session = Waits::new().session("committer", Kind::User);
            for _ in 0..400 {
                let mut end = None;
                for _ in 0..(1 << 20) / bytes {
                    let body = Bytes::from(vec![7u8; bytes]);
                    end = Some(log.append(&session, 0, 0, body).await.unwrap().end);
                }
                log.wait_durable(&session, end.unwrap()).await.unwrap();
            }
        });
        drop(log);
        let mut rates = Vec::new();
        for _ in 0..self.arguments.rounds {
            let rate = self.runtime.block_on(async {
                let opening = opening();
                let env = Arc::clone(&self.env);
                let work = tokio::spawn(async move {
                    let start = env.now();
                    let mut recovery = Recovery::start(opening).await.unwrap();
                    let mut sum = 0u64;
                    while let Some(record) = recovery.next().await.unwrap() {
                        sum += record.body.len() as u64;
                    }
                    assert!(sum > 390 << 20, "{sum}");
                    sum as f64 / 1e6 / env.now().since(start).as_secs_f64()
                });
                work.await.unwrap()
            });
            rates.push(rate);
        }
        let [least, median, most] = spread(rates);
        println!("  {median:.0} MB/s ({least:.0}..{most:.0})");
    }

    fn bandwidth(&self) {
        if !self.wanted("bandwidth") {
            return;
        }
        println!("bandwidth: 1 MB units, 4 in flight");
        let body = (1 << 20) - 16 * 1024;
        let m = self.rounds(&mut [
            ("Device::write of 1 MB, depth 4", &mut || self.sequential()),
            ("4 committers of 1 MB records", &mut || self.commits(1, 4, body)),
            ("8 committers of 1 MB records", &mut || self.commits(1, 8, body)),
        ]);
        goal("8 committers / raw", &m[2], &m[0], 0.85);
    }
}

/// A goal for the ratio of neighbouring rounds.
fn goal(what: &str, ours: &[f64], theirs: &[f64], goal: f64) {
    let [least, ratio, most] = spread(ratios(ours, theirs));
    let verdict = verdict(ratio >= goal);
    println!("  {what}: {ratio:.2} ({least:.2}..{most:.2}, goal: at least {goal}) {verdict}");
}
