//! Reads through a group, compared with fio on the same disk files.

use cellar_diskgroup::{Copies, File, Group, Redundancy};
use cellar_io::shape::ShapeOptions;
use cellar_io::{Buffer, Device, DeviceExt, Io, IoError};
use futures_util::StreamExt;

use crate::Options;
use crate::fio::Fio;
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE};

/// One read of a scan.
const STEP: u64 = 1 << 20;

fn place(backings: &[Backing], redundancy: Redundancy) -> Place {
    Place {
        disks: backings.iter().map(Backing::path).collect(),
        redundancy,
        bytes: None,
        shape: None,
    }
}

fn layouts() -> [(&'static str, usize, Redundancy); 2] {
    [("one disk", 1, Redundancy::External), ("two legs", 2, Redundancy::Normal)]
}

fn backings(options: &Options, name: &str, count: usize, bytes: u64) -> Vec<Backing> {
    (0..count).map(|i| Backing::written(&options.dir, &format!("{name}{i}"), bytes)).collect()
}

/// 4 KB random reads at depth 1 and 32.
pub fn random(options: &Options, report: &mut Report) {
    let bytes = options.bytes(1 << 30);
    let rig = Rig::new();
    for (name, count, redundancy) in layouts() {
        for checksums in [false, true] {
            let sums = if checksums { "sums" } else { "no sums" };
            let arm = |depth| format!("{name}, {sums}, 4K read, depth {depth}");
            let depths: Vec<usize> =
                [1, 32].into_iter().filter(|d| options.wants(&arm(*d))).collect();
            if depths.is_empty() {
                continue;
            }
            let backings = backings(options, "disk", count, bytes + SPARE);
            let group = rig.group(&place(&backings, redundancy));
            let file = rig.file(&group, "f", bytes, checksums);
            for depth in depths {
                random_arm(options, report, &rig, &file, &backings[0], &arm(depth), depth);
            }
            rig.runtime.block_on(group.dismount()).unwrap();
        }
    }
}

fn random_arm(
    options: &Options,
    report: &mut Report,
    rig: &Rig,
    file: &File,
    disk: &Backing,
    arm: &str,
    depth: usize,
) {
    let blocks = file.geometry().size / 4096;
    let (mut ours, mut fio) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let file = file.clone();
        ours.push(rig.drive(depth, options.seconds, move |random| {
            let file = file.clone();
            async move {
                let at = random % blocks * 4096;
                let buffers = vec![Buffer::new(4096)];
                file.read(Io::FOREGROUND, at, buffers).await.unwrap();
            }
        }));
        if !options.alone {
            fio.push(Fio::new(&disk.path(), "randread", depth, options.seconds).run());
        }
    }
    let us: Vec<f64> = ours.iter().map(|l| l.mean_us()).collect();
    let iops: Vec<f64> = ours.iter().map(|l| l.iops()).collect();
    let ours_us = report.arm(arm, "cellar", "us", &us);
    let ours_iops = report.arm(arm, "cellar", "/s", &iops);
    if options.alone {
        return;
    }
    let us: Vec<f64> = fio.iter().map(|l| l.mean_us).collect();
    let iops: Vec<f64> = fio.iter().map(|l| l.iops).collect();
    let fio_us = report.arm(arm, "fio", "us", &us);
    let fio_iops = report.arm(arm, "fio", "/s", &iops);
    if depth == 1 {
        report.at_most(format!("{arm}: us over fio"), ours_us - fio_us, 5.0);
    } else {
        report.at_least(format!("{arm}: of fio"), ours_iops / fio_iops, 0.95);
    }
}

/// Reads the whole file, in order, `depth` reads of 1 MB in flight, as a serial scan does.
async fn scan(file: &File, depth: usize) -> u64 {
    let size = file.geometry().size;
    let reads = (0..size / STEP).map(|i| file.read_at(Io::SCAN, i * STEP, STEP as usize));
    let mut reads = futures_util::stream::iter(reads).buffered(depth);
    let mut bytes = 0;
    while let Some(read) = reads.next().await {
        let read: Result<Buffer, IoError> = read;
        bytes += read.unwrap().len() as u64;
    }
    bytes
}

async fn validate(group: &Group, file: &File) -> u64 {
    let findings = group.validate(&[file.number()], Copies::Primary, &|_| {}).await.unwrap();
    assert!(!findings.is_bad(), "{findings:?}");
    findings.bytes_read
}

/// Reads of 1 MB: `validate --primary` and a serial scan.
pub fn sequential(options: &Options, report: &mut Report) {
    let bytes = options.bytes(2 << 30);
    let rig = Rig::new();
    for (name, count, redundancy) in layouts() {
        for checksums in [false, true] {
            let sums = if checksums { "sums" } else { "no sums" };
            let name = format!("{name}, {sums}");
            if options.wants(&name) {
                let backings = backings(options, "disk", count, bytes + SPARE);
                let group = rig.group(&place(&backings, redundancy));
                let file = rig.file(&group, "f", bytes, checksums);
                sequential_arms(options, report, &rig, (&group, &file), &backings, &name);
                rig.runtime.block_on(group.dismount()).unwrap();
            }
        }
    }
}

fn sequential_arms(
    options: &Options,
    report: &mut Report,
    rig: &Rig,
    (group, file): (&Group, &File),
    backings: &[Backing],
    name: &str,
) {
    let (mut validated, mut scanned, mut fio) = (Vec::new(), Vec::new(), Vec::new());
    let rate = |(seconds, bytes): (f64, u64)| bytes as f64 / seconds / 1e6;
    for _ in 0..options.rounds {
        validated.push(rate(rig.time(validate(group, file))));
        if !options.alone {
            fio.push(fio_scan(file, backings));
        }
        let depth = 32 * backings.len();
        let clone = file.clone();
        let read = async move { scan(&clone, depth).await };
        scanned.push(rate(rig.time(cellar_io::EnvExt::run(&*rig.env(), "scan", read).map_some())));
        if !options.alone {
            fio.push(fio_scan(file, backings));
        }
    }
    let validated = report.arm(&format!("{name}, validate primary"), "cellar", "MB/s", &validated);
    let scanned = report.arm(&format!("{name}, serial scan"), "cellar", "MB/s", &scanned);
    if options.alone {
        return;
    }
    let fio = report.arm(&format!("{name}, 1M reads, depth 32"), "fio", "MB/s", &fio);
    report.at_least(format!("{name}: validate primary of fio"), validated / fio, 0.95);
    report.at_least(format!("{name}: serial scan of fio"), scanned / fio, 0.95);
}

fn fio_scan(file: &File, backings: &[Backing]) -> f64 {
    let size = file.geometry().size;
    let mut fio = Fio::new("", "read", 32, 0);
    fio.files = backings.iter().map(Backing::path).collect();
    fio.block = STEP;
    fio.offset = 16 << 20;
    // The same total bytes as ours.
    fio.size = size / backings.len() as u64;
    fio.run().bandwidth / 1e6
}

/// Two disks of 200 MB/s each compared with one.
pub fn shaped(options: &Options, report: &mut Report) {
    let bytes = options.bytes(512 << 20);
    let shape = ShapeOptions { bytes_per_second: 200_000_000, ..ShapeOptions::default() };
    let rig = Rig::new();
    let arms = [
        ("one shaped disk", 1, Redundancy::External),
        ("two shaped disks, striped", 2, Redundancy::External),
        ("two shaped disks, mirrored", 2, Redundancy::Normal),
    ];
    let made: Vec<(Vec<Backing>, Group, File)> = arms
        .iter()
        .enumerate()
        .map(|(i, (_, count, redundancy))| {
            let backings = backings(options, &format!("arm{i}-"), *count, bytes + SPARE);
            let mut place = place(&backings, *redundancy);
            // Written at full speed, read as shaped.
            let group = rig.group(&place);
            drop(rig.file(&group, "f", bytes, true));
            rig.runtime.block_on(group.dismount()).unwrap();
            place.shape = Some(shape);
            let group = rig.mount(&place, Default::default());
            let file = group.open("f").unwrap();
            (backings, group, file)
        })
        .collect();
    let mut rates = vec![Vec::new(); arms.len()];
    for _ in 0..options.rounds {
        for ((backings, _, file), rates) in made.iter().zip(&mut rates) {
            let (depth, file) = (32 * backings.len(), file.clone());
            let read = async move { scan(&file, depth).await };
            let (seconds, bytes) =
                rig.time(cellar_io::EnvExt::run(&*rig.env(), "scan", read).map_some());
            rates.push(bytes as f64 / seconds / 1e6);
        }
    }
    let medians: Vec<f64> = arms
        .iter()
        .zip(&rates)
        .map(|((name, ..), rates)| report.arm(name, "cellar", "MB/s", rates))
        .collect();
    for (i, (name, ..)) in arms.iter().enumerate().skip(1) {
        report.at_least(format!("{name}, of one"), medians[i] / medians[0], 1.95);
    }
    for (_, group, _) in &made {
        rig.runtime.block_on(group.dismount()).unwrap();
    }
}

/// A spawned task whose result is ready.
trait MapSome<T> {
    async fn map_some(self) -> T;
}

impl<T> MapSome<T> for cellar_io::Handle<T> {
    async fn map_some(self) -> T {
        self.await.expect("the task does not fail")
    }
}
