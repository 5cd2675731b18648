//! Benchmark of the request path: a request through [`Device`] from a task against fio on the same file.
//!
//! `cargo bench -p cellar-io --profile release --bench spike -- --file F`. Ours and fio's runs
//! alternate; each arm prints the median and the spread of its rounds, then the goals.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{Access, EngineChoice, OpenOptions, RealEnv, Runtime, RuntimeOptions};
use cellar_io::{Buffer, Device, Durability, Env, Instant, Io};

const BLOCK: u64 = 4096;

struct Options {
    file: PathBuf,
    size: u64,
    rounds: usize,
    seconds: u64,
    engine: EngineChoice,
    workers: usize,
    only: Option<String>,
    fio: bool,
}

/// Operations per second and mean latency of one run.
#[derive(Clone, Copy)]
struct Run {
    iops: f64,
    mean_us: f64,
}

struct Arm {
    name: &'static str,
    depth: usize,
    write: bool,
}

const ARMS: [Arm; 3] = [
    Arm { name: "read 4 KB, depth 1", depth: 1, write: false },
    Arm { name: "read 4 KB, depth 32", depth: 32, write: false },
    Arm { name: "durable write 4 KB, depth 1", depth: 1, write: true },
];

fn main() {
    assert!(env!("CELLAR_OPT_LEVEL") != "0", "measure an optimised build, never a debug one");
    let Some(options) = parse() else { return };
    prepare(&options.file, options.size);
    let runtime =
        Runtime::new(&RuntimeOptions { workers: options.workers, ..Default::default() }).unwrap();
    let env = runtime.real_env();
    let disk = cellar_io::real::open_disk(
        env,
        &options.file,
        &OpenOptions { engine: options.engine, access: Access::Direct, ..Default::default() },
    )
    .unwrap();
    println!("{}: {}", options.file.display(), disk.effective());
    let mut failed = false;
    for arm in &ARMS {
        if options.only.as_ref().is_some_and(|only| !arm.name.contains(only)) {
            continue;
        }
        let mut ours = Vec::new();
        let mut fio = Vec::new();
        for _ in 0..options.rounds {
            let time = Duration::from_secs(options.seconds);
            let device: Arc<dyn Device> = disk.clone();
            ours.push(runtime.block_on(measure(env, &device, arm, time)));
            if options.fio {
                fio.push(run_fio(&options, arm));
            }
        }
        println!("{}", arm.name);
        report("cellar", &ours);
        if options.fio {
            report("fio", &fio);
            failed |= !judge(arm, &ours, &fio);
        }
    }
    std::process::exit(i32::from(failed));
}

fn parse() -> Option<Options> {
    let mut options = Options {
        file: std::env::temp_dir().join("cellar-spike.dat"),
        size: 1 << 30,
        rounds: 5,
        seconds: 2,
        engine: EngineChoice::IoUring,
        workers: 0,
        only: None,
        fio: true,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--file" => options.file = value().into(),
            "--size" => options.size = value().parse().expect("--size is in bytes"),
            "--rounds" => options.rounds = value().parse().expect("--rounds is a count"),
            "--seconds" => options.seconds = value().parse().expect("--seconds is a count"),
            "--workers" => options.workers = value().parse().expect("--workers is a count"),
            "--only" => options.only = Some(value()),
            "--no-fio" => options.fio = false,
            "--engine" => {
                options.engine = match value().as_str() {
                    "io_uring" => EngineChoice::IoUring,
                    "libaio" => EngineChoice::LibAio,
                    "sync" => EngineChoice::Sync,
                    other => panic!("--engine {other}: one of io_uring, libaio, sync"),
                }
            }
            // What `cargo bench` adds.
            "--bench" => {}
            // What `cargo test` adds: nothing to measure then.
            "--test" => return None,
            other => panic!(
                "{other}: one of --file --size --rounds --seconds --workers --engine --only --no-fio"
            ),
        }
    }
    Some(options)
}

/// Writes the file once: reading a hole measures nothing.
fn prepare(file: &Path, size: u64) {
    if file.metadata().is_ok_and(|m| m.len() == size) {
        return;
    }
    let mut out = std::fs::File::create(file).unwrap();
    let chunk: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    for _ in 0..size.div_ceil(chunk.len() as u64) {
        std::io::Write::write_all(&mut out, &chunk).unwrap();
    }
    out.set_len(size).unwrap();
    out.sync_all().unwrap();
}

async fn measure(env: &Arc<RealEnv>, disk: &Arc<dyn Device>, arm: &Arm, time: Duration) -> Run {
    let start = env.now();
    let end = start.plus(time);
    let tasks: Vec<_> = (0..arm.depth)
        .map(|task| {
            let (env, disk) = (Arc::clone(env), Arc::clone(disk));
            let seed = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(task as u64 + 1 + start.0);
            let write = arm.write;
            tokio::spawn(async move { worker(&env, &disk, write, seed, end).await })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    let seconds = env.now().since(start).as_secs_f64();
    let iops = count as f64 / seconds;
    Run { iops, mean_us: arm.depth as f64 * 1e6 / iops }
}

async fn worker(
    env: &Arc<RealEnv>,
    disk: &Arc<dyn Device>,
    write: bool,
    mut random: u64,
    end: Instant,
) -> u64 {
    let blocks = disk.geometry().size / BLOCK;
    let page: Bytes = Buffer::zeroed(BLOCK as usize).freeze();
    let mut buffers = vec![Buffer::new(BLOCK as usize)];
    let mut count = 0;
    while env.now() < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset = random % blocks * BLOCK;
        if write {
            let data = vec![page.clone()];
            disk.write(Io::COMMIT, offset, data, Durability::Durable).await.unwrap();
        } else {
            buffers = disk.read(Io::FOREGROUND, offset, buffers).await.unwrap();
        }
        count += 1;
    }
    count
}

fn run_fio(options: &Options, arm: &Arm) -> Run {
    let engine = match options.engine {
        EngineChoice::LibAio => "libaio",
        _ => "io_uring",
    };
    let mut command = Command::new("fio");
    command
        .args(["--name=spike", "--direct=1", "--numjobs=1", "--bs=4k", "--time_based"])
        .args(["--output-format=json", "--norandommap", "--randrepeat=0"])
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--filename={}", options.file.display()))
        .arg(format!("--size={}", options.size))
        .arg(format!("--iodepth={}", arm.depth))
        .arg(format!("--runtime={}", options.seconds))
        .arg(if arm.write { "--rw=randwrite" } else { "--rw=randread" });
    if arm.write {
        command.arg("--sync=dsync");
    }
    let output = command.output().expect("fio must be installed");
    assert!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let side = &json["jobs"][0][if arm.write { "write" } else { "read" }];
    Run {
        iops: side["iops"].as_f64().unwrap(),
        mean_us: side["lat_ns"]["mean"].as_f64().unwrap() / 1000.0,
    }
}

fn median(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn report(name: &str, runs: &[Run]) {
    let (iops, iops_min, iops_max) = median(runs.iter().map(|r| r.iops));
    let (us, us_min, us_max) = median(runs.iter().map(|r| r.mean_us));
    println!(
        "  {name:<8} {iops:>8.0} /s ({iops_min:.0}..{iops_max:.0})   mean {us:>7.1} us \
         ({us_min:.1}..{us_max:.1})"
    );
}

/// Whether the goal of `arm` is met, by medians.
fn judge(arm: &Arm, ours: &[Run], fio: &[Run]) -> bool {
    let latency = |runs: &[Run]| median(runs.iter().map(|r| r.mean_us)).0;
    let iops = |runs: &[Run]| median(runs.iter().map(|r| r.iops)).0;
    let met = if arm.depth == 1 && !arm.write {
        let over = latency(ours) - latency(fio);
        println!("  over fio: {over:.1} us (goal: at most 5)");
        over <= 5.0
    } else {
        let goal = if arm.write { 0.9 } else { 0.95 };
        let ratio = iops(ours) / iops(fio);
        println!("  of fio: {ratio:.2} (goal: at least {goal})");
        ratio >= goal
    };
    println!("  {}", if met { "met" } else { "MISSED" });
    met
}
