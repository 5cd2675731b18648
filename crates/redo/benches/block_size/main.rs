//! Benchmark of `log_block_size = auto`: whether it picks the faster block, device by device.
//!
//! `cargo bench -p cellar-redo --profile release --bench block_size -- --dir DIR`. In each round
//! auto chooses once, and logs in blocks of 512, of 4096 and of 512 again take commits: the ratio of
//! the two of 512 is the noise. Models are disks in memory in virtual time; `--real-time` puts them
//! in front of the file, in real time. Loop devices need root.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod devices;
mod load;
#[path = "../../src/block_size/models.rs"]
mod models;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::real::{Access, Runtime, RuntimeOptions};
use cellar_io::sim::Sim;
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_redo::Quorum;
use cellar_redo::block_size::{Chosen, choose};

use self::devices::{BYTES, Loop, file, files};
use self::load::{Files, LOADS, commits};
use self::models::{MODELS, Model, in_memory, modelled};

/// A smaller difference counts as none, whatever the noise: the tolerance of auto itself.
const NOTHING: f64 = 0.03;

struct Arguments {
    dir: PathBuf,
    rounds: usize,
    time: Duration,
    only: Option<String>,
    real_time: bool,
}

fn parse() -> Option<Arguments> {
    let mut parsed = Arguments {
        dir: std::env::temp_dir().join("cellar-block-size"),
        rounds: 5,
        time: Duration::from_millis(200),
        only: None,
        real_time: false,
    };
    let mut arguments = std::env::args().skip(1).peekable();
    // `cargo test` gives no word, `cargo bench` one: nothing to measure then.
    arguments.peek()?;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => parsed.dir = value().into(),
            "--rounds" => parsed.rounds = value().parse::<usize>().unwrap().max(2),
            "--millis" => parsed.time = Duration::from_millis(value().parse().unwrap()),
            "--only" => parsed.only = Some(value()),
            "--real-time" => parsed.real_time = true,
            "--bench" => {}
            other => panic!("{other}: one of --dir --rounds --millis --only --real-time"),
        }
    }
    Some(parsed)
}

/// The clock in use.
enum Clock<'a> {
    Real(&'a Runtime),
    Virtual(Sim),
}

impl Clock<'_> {
    fn env(&self) -> SharedEnv {
        match self {
            Clock::Real(runtime) => runtime.env(),
            Clock::Virtual(sim) => sim.env(),
        }
    }

    /// Runs it in a task, like committers.
    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let task = self.env().run("benchmark", future);
        match self {
            Clock::Real(runtime) => runtime.block_on(task).unwrap(),
            Clock::Virtual(sim) => sim.run(task).unwrap().unwrap(),
        }
    }
}

/// The results for the media of a log.
struct Measured {
    chosen: Vec<(Chosen, Duration)>,
    /// For each load and round: the rates of 512, 4096 and 512 again.
    rates: Vec<Vec<[f64; 3]>>,
}

fn measure(clock: &Clock<'_>, media: &[Files], rounds: usize, time: Duration) -> Measured {
    let env = clock.env();
    let mut measured = Measured { chosen: Vec::new(), rates: vec![Vec::new(); LOADS.len()] };
    let takes_512 = media.iter().all(|(_, files)| files[0].geometry().logical_sector <= 512);
    for _ in 0..rounds {
        let first: Vec<_> =
            media.iter().map(|(name, files)| (name.clone(), Arc::clone(&files[0]))).collect();
        let (own, need) = (env.clone(), Quorum::Auto.of(media.len()));
        measured.chosen.push(clock.run(async move {
            let start = own.now();
            let chosen = choose(&own, None, &first, need).await.unwrap();
            (chosen, own.now().since(start))
        }));
        if !takes_512 {
            continue;
        }
        for (load, rates) in LOADS.into_iter().zip(&mut measured.rates) {
            rates.push(
                [512, 4096, 512].map(|block| {
                    clock.run(commits(env.clone(), media.to_vec(), block, load, time))
                }),
            );
        }
    }
    measured
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        return (values[middle - 1] + values[middle]) / 2.0;
    }
    values[middle]
}

/// The logarithm of the ratio 4096 / 512, and its uncertainty: twice the standard
/// error of the difference between two equal runs.
fn ratio(rates: &[[f64; 3]]) -> (f64, f64) {
    let ratios = rates.iter().map(|[a, b, again]| (b / (a * again).sqrt()).ln()).collect();
    let equal: Vec<f64> = rates.iter().map(|[a, _, again]| (again / a).ln()).collect();
    let mean = equal.iter().sum::<f64>() / equal.len() as f64;
    let squares: f64 = equal.iter().map(|e| (e - mean) * (e - mean)).sum();
    let deviation = (squares / (equal.len() - 1) as f64).sqrt();
    (median(ratios), 2.0 * deviation / (equal.len() as f64).sqrt())
}

/// Whether the chosen size is the faster for commits: alone and in a crowd count alike.
fn verdict(block: u32, small: &[(f64, f64)]) -> String {
    let better = small.iter().map(|(ratio, _)| ratio).sum::<f64>() / small.len() as f64;
    let noise = small.iter().map(|(_, noise)| *noise).fold(NOTHING.ln_1p(), f64::max);
    let percent = 100.0 * (better.abs().exp() - 1.0);
    match (better > 0.0) == (block == 4096) {
        _ if better.abs() <= noise => "equal".to_owned(),
        true => format!("picked the faster, by {percent:.0} %"),
        false => format!("picked the SLOWER, by {percent:.0} %"),
    }
}

fn show(name: &str, measured: &Measured) {
    let blocks: Vec<u32> = measured.chosen.iter().map(|(chosen, _)| chosen.block_size).collect();
    let longest = measured.chosen.iter().map(|(_, took)| *took).max().unwrap_or_default();
    let reasons: Vec<&str> =
        measured.chosen.iter().map(|(chosen, _)| chosen.reason.as_str()).collect();
    println!("{name}");
    println!("  auto: {blocks:?} in {longest:.1?} at most; {}", reasons.join(", "));
    if measured.rates[0].is_empty() {
        println!("  takes no blocks of 512: nothing to choose");
        return;
    }
    let mut small = Vec::new();
    for (load, rates) in LOADS.iter().zip(&measured.rates) {
        let (ratio, noise) = ratio(rates);
        let rate = |at: usize| median(rates.iter().map(|rates| rates[at]).collect());
        println!(
            "  {:<14} 512 {:>8.0} /s, 4096 {:>8.0} /s, ratio {:.2}, noise {:.0} %",
            load.name,
            rate(0),
            rate(1),
            ratio.exp(),
            100.0 * (noise.exp() - 1.0),
        );
        if load.bytes < 512 {
            small.push((ratio, noise));
        }
    }
    for block in [512, 4096] {
        let times = blocks.iter().filter(|own| **own == block).count();
        if times > 0 {
            println!("  {block} {times} of {} times: {}", blocks.len(), verdict(block, &small));
        }
    }
}

struct Bench<'a> {
    runtime: &'a Runtime,
    arguments: Arguments,
}

impl Bench<'_> {
    fn wants(&self, name: &str) -> bool {
        self.arguments.only.as_ref().is_none_or(|only| name.contains(only))
    }

    fn device(&self, name: &str, clock: &Clock<'_>, device: &Arc<dyn Device>) {
        let media = [("medium".to_owned(), files(device))];
        show(name, &measure(clock, &media, self.arguments.rounds, self.arguments.time));
    }

    fn real(&self) {
        let (env, clock) = (self.runtime.real_env(), Clock::Real(self.runtime));
        for access in [Access::Direct, Access::Buffered] {
            if self.wants("file") {
                let (name, disk) = file(env, &self.arguments.dir, access);
                self.device(&name, &clock, &disk);
            }
        }
        for (sector, direct) in [(512, true), (512, false), (4096, true), (4096, false)] {
            let name = format!(
                "loop, sectors of {sector}, {}",
                ["buffered", "direct"][usize::from(direct)]
            );
            if !self.wants(&name) {
                continue;
            }
            match Loop::new(&self.arguments.dir, sector, direct) {
                Ok(disk) if disk.is_direct() == direct => {
                    self.device(&name, &clock, &disk.open(env));
                }
                Ok(_) => println!("{name}: left out, the kernel has it otherwise"),
                Err(why) => println!("{name}: left out, {why}"),
            }
        }
    }

    fn models(&self) {
        for model in MODELS {
            self.model(&[model]);
        }
        let [flash, slow] = ["pages 100 us", "4 MB/s"]
            .map(|name| MODELS.into_iter().find(|model| model.0 == name).unwrap());
        self.model(&[flash, slow]);
    }

    /// A log on such devices, each of which must have every block.
    fn model(&self, models: &[Model]) {
        let names: Vec<&str> = models.iter().map(|model| model.0).collect();
        let name = format!("model: {}", names.join(" and "));
        if !self.wants(&name) {
            return;
        }
        let sim = Sim::new(4);
        let (clock, time) = match self.arguments.real_time {
            true => (Clock::Real(self.runtime), self.arguments.time),
            // Virtual time is cheap when little happens in it, and random delays must
            // come often enough.
            false => (Clock::Virtual(sim), self.arguments.time * 10),
        };
        let media: Vec<Files> = models
            .iter()
            .map(|model| {
                let inner = match &clock {
                    Clock::Virtual(sim) => in_memory(sim, BYTES),
                    Clock::Real(_) => {
                        let env = self.runtime.real_env();
                        file(env, &self.arguments.dir, Access::Direct).1
                    }
                };
                (model.0.to_owned(), files(&modelled(&inner, &clock.env(), *model)))
            })
            .collect();
        show(&name, &measure(&clock, &media, self.arguments.rounds, time));
    }
}

fn main() {
    let Some(arguments) = parse() else { return };
    std::fs::create_dir_all(&arguments.dir).unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    println!(
        "{} rounds of {} ms a log; ratio: commits a second with 4096 over those with 512",
        arguments.rounds,
        arguments.time.as_millis()
    );
    let bench = Bench { runtime: &runtime, arguments };
    bench.real();
    bench.models();
}
