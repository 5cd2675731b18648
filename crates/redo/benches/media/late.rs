//! One medium of three answers 1 % of its writes 20 ms late: the number of affected commits, and
//! the number on that medium alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{OpenOptions, Runtime, open_disk};
use cellar_io::shape::{Late, ShapeOptions, Shaped};
use cellar_io::{Buffer, Device, Durability, Env, EnvExt, Io};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};

use crate::Arguments;
use crate::common::{MemoryControl, prepare, ratios, spread, verdict};

const GROUP_BYTES: u64 = 64 << 20;
const GROUPS: u32 = 3;
const LATE: Late = Late { per_million: 10_000, by: Duration::from_millis(20) };
const OUTLIER: Duration = Duration::from_millis(10);

/// The media of a log, and whether the third is late.
struct Arm {
    name: &'static str,
    media: &'static [usize],
    late: bool,
}

const ARMS: [Arm; 4] = [
    Arm { name: "2 of 3, none late", media: &[0, 1, 2], late: false },
    Arm { name: "2 of 3, the third late", media: &[0, 1, 2], late: true },
    Arm { name: "the third alone, late", media: &[2], late: true },
    Arm { name: "the third alone, not late", media: &[2], late: false },
];

/// The number of committers, and the pause of each after a commit. A rate-limited disk stalls
/// after too many requests: committing at full speed would measure that too.
const LOADS: [(usize, Duration); 3] =
    [(1, Duration::ZERO), (10, Duration::ZERO), (10, Duration::from_millis(4))];

type Files = BTreeMap<u32, Arc<dyn Device>>;

/// A round of an arm.
struct Round {
    /// The latency of each commit, in nanoseconds.
    taken: Vec<u64>,
    /// Writes that took over 10 ms, as counted by the log: those that nobody waited for, and those
    /// that somebody waited for. Of the third medium, then of the others.
    scores: [[u64; 2]; 2],
}

pub fn run(runtime: &Runtime, arguments: &Arguments) {
    let media: Vec<Files> = (0..3).map(|m| files(runtime, &arguments.dir, m)).collect();
    model_costs(runtime, &media[0][&1]);
    for (committers, pause) in LOADS {
        println!(
            "late: 1 % of the writes of one medium 20 ms late, {committers} committers that pause {} \
             ms, {} rounds",
            pause.as_millis(),
            arguments.rounds
        );
        let mut all: [Vec<Round>; 4] = Default::default();
        for round in 0..arguments.rounds {
            // Each arm follows each other one equally often.
            for arm in (0..ARMS.len()).map(|at| (at + round) % ARMS.len()) {
                let time = Duration::from_millis(arguments.millis);
                let log = open(runtime, &media, &ARMS[arm]);
                all[arm].push(commits(runtime, log, committers, pause, time));
            }
        }
        report(&all);
    }
}

/// The overhead of an idle model on a write.
fn model_costs(runtime: &Runtime, plain: &Arc<dyn Device>) {
    let shaped = Shaped::new(Arc::clone(plain), runtime.env(), ShapeOptions::default());
    let env = Arc::clone(runtime.real_env());
    let devices = [Arc::clone(plain), Arc::new(shaped) as Arc<dyn Device>];
    let work = async move {
        let mut taken = [Vec::new(), Vec::new()];
        for write in 0..2000u64 {
            let page = Buffer::copy_of(&[write as u8; 4096], 4096).freeze();
            for (device, taken) in devices.iter().zip(&mut taken) {
                let (data, before) = (vec![page.clone()], env.now());
                let at = 1 + write;
                device.write(Io::COMMIT, at * 4096, data, Durability::Durable).await.unwrap();
                taken.push(env.now().since(before).as_nanos() as f64 / 1e6);
            }
        }
        taken.map(|taken| spread(taken)[1])
    };
    let [plain, shaped] = runtime.block_on(async { tokio::spawn(work).await.unwrap() });
    println!("a durable write, ms: {plain:.3}, through a model that does nothing {shaped:.3}");
}

fn files(runtime: &Runtime, dir: &Path, medium: usize) -> Files {
    let file = |group: u32| {
        let path = dir.join(format!("log{medium}-{group}"));
        prepare(&path, GROUP_BYTES);
        let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default()).unwrap();
        (group, disk as Arc<dyn Device>)
    };
    (1..=GROUPS).map(file).collect()
}

/// A new log of an arm. All media go through a model, even if it does nothing.
fn open(runtime: &Runtime, media: &[Files], arm: &Arm) -> Log {
    let env = runtime.env();
    let medium = |number: &usize| {
        let late = (arm.late && *number == 2).then_some(LATE);
        let options = ShapeOptions { late, ..ShapeOptions::default() };
        let shaped = |(group, file): (&u32, &Arc<dyn Device>)| {
            let shaped = Shaped::new(Arc::clone(file), runtime.env(), options);
            (*group, Arc::new(shaped) as Arc<dyn Device>)
        };
        Medium { name: format!("m{number}"), files: media[*number].iter().map(shaped).collect() }
    };
    let media: Vec<Medium> = arm.media.iter().map(medium).collect();
    let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
    let spec = CreateLog {
        database: DatabaseId(u128::from(env.random())),
        block_size: 4096,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
        media: media.clone(),
    };
    runtime.block_on(async {
        create(&env, &control, spec).await.unwrap();
        let opening = OpenLog {
            env: env.clone(),
            session: Waits::new().session("redo", Kind::Background),
            control,
            media,
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        };
        Recovery::start(opening).await.unwrap().open().await.unwrap().0
    })
}

/// The latency of each commit, after a tenth of the time to warm up.
fn commits(
    runtime: &Runtime,
    log: Log,
    committers: usize,
    pause: Duration,
    time: Duration,
) -> Round {
    let env = Arc::clone(runtime.real_env());
    runtime.block_on(async move {
        let waits = Waits::new();
        let from = env.now().plus(time / 10);
        let end = from.plus(time);
        let committer = |_| {
            let (log, env) = (log.clone(), Arc::clone(&env));
            let session = waits.session("committer", Kind::User);
            tokio::spawn(async move {
                let body = Bytes::from(vec![7u8; 200]);
                let mut taken = Vec::new();
                loop {
                    let before = env.now();
                    if before >= end {
                        return taken;
                    }
                    log.commit(&session, 0, 0, body.clone()).await.unwrap();
                    if before >= from {
                        taken.push(env.now().since(before).as_nanos() as u64);
                    }
                    if !pause.is_zero() {
                        env.sleep(pause).await;
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..committers).map(committer).collect();
        // Outside the commit path, so that no arm has a longer one.
        let (other, clock) = (log.clone(), Arc::clone(&env));
        let checkpoints = tokio::spawn(async move {
            while clock.now() < end {
                let (used, all) = other.ring();
                if used > all / 2 {
                    other.set_checkpoint(other.durable_lsn()).await.unwrap();
                }
                clock.sleep(Duration::from_millis(50)).await;
            }
        });
        let mut taken = Vec::new();
        for task in tasks {
            taken.extend(task.await.unwrap());
        }
        checkpoints.await.unwrap();
        let mut scores = [[0; 2]; 2];
        for medium in log.media() {
            let score = &mut scores[usize::from(medium.name != "m2")];
            score[0] += medium.stats.outliers_prevented;
            score[1] += medium.stats.outliers_actual;
        }
        log.close().await.unwrap();
        Round { taken, scores }
    })
}

/// The value that `share` of the sorted values are below.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize] as f64
}

fn outliers(taken: &[u64]) -> usize {
    taken.iter().filter(|taken| **taken > OUTLIER.as_nanos() as u64).count()
}

fn report(all: &[Vec<Round>; 4]) {
    println!(
        "  commits, ms: median (least..most of the rounds), p99, p99.9; over 10 ms of 100,000"
    );
    let (mut medians, mut rates) = (Vec::new(), Vec::new());
    for (arm, rounds) in ARMS.iter().zip(all) {
        let of_rounds: Vec<f64> = rounds
            .iter()
            .map(|round| {
                let mut round = round.taken.clone();
                round.sort_unstable();
                percentile(&round, 0.5) / 1e6
            })
            .collect();
        let mut taken: Vec<u64> = rounds.iter().flat_map(|round| round.taken.clone()).collect();
        taken.sort_unstable();
        let over = outliers(&taken);
        let rate = over as f64 * 1e5 / taken.len() as f64;
        let [least, median, most] = spread(of_rounds.clone());
        println!(
            "  {:<26} {:>7} {median:.3} ({least:.3}..{most:.3}) {:.3} {:.3}; {rate:.0} ({over})",
            arm.name,
            taken.len(),
            percentile(&taken, 0.99) / 1e6,
            percentile(&taken, 0.999) / 1e6,
        );
        let score = |of: usize, which: usize| -> u64 {
            rounds.iter().map(|round| round.scores[of][which]).sum()
        };
        println!(
            "    writes over 10 ms that nobody waited for, and that somebody did: {} and {} of the \
             third, {} and {} of the others",
            score(0, 0),
            score(0, 1),
            score(1, 0),
            score(1, 1),
        );
        medians.push(of_rounds);
        rates.push(rate);
    }
    let raw = 1.0 - rates[1] / rates[2];
    let adjusted = 1.0 - (rates[1] - rates[0]) / (rates[2] - rates[3]);
    println!(
        "  outliers gone, of those on the third alone: {:.2} % (goal: at least 99 %) {}",
        raw * 100.0,
        verdict(raw >= 0.99)
    );
    println!(
        "  the same without what the disk has when none is late: {:.2} % {}",
        adjusted * 100.0,
        verdict(adjusted >= 0.99)
    );
    let [least, ratio, most] = spread(ratios(&medians[1], &medians[0]));
    println!(
        "  median, the third late / none late: {ratio:.3} ({least:.3}..{most:.3}, goal: at most \
         1.05) {}",
        verdict(ratio <= 1.05)
    );
}
