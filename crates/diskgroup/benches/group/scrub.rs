//! Benchmark of a scrub: its speed against reading the raw disks, and its cost to foreground I/O.

use cellar_diskgroup::{Group, Redundancy, ScrubPower, ScrubResult, ScrubSpec};
use cellar_io::{DeviceExt, EnvExt, Io};

use crate::Options;
use crate::moves::{CLIENTS, foreground, shape};
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE};

/// Disks of the group.
const DISKS: usize = 3;
/// Reads of 1 MB in flight on each disk.
const DEPTH: usize = 8;

fn scrub(rig: &Rig, group: &Group, power: ScrubPower) -> (f64, ScrubResult) {
    let (seconds, result) = rig.time(async {
        group.scrub(ScrubSpec { power, ..ScrubSpec::default() }).await.unwrap();
        group.wait_scrubbed().await.unwrap().unwrap()
    });
    assert!(result.found.faults.is_empty(), "{result:?}");
    (seconds, result)
}

/// Bytes a second of reading this many MiB of each disk in order, all disks at once.
fn raw_read(rig: &Rig, place: &Place, legs: &[u64]) -> f64 {
    let step = 1 << 20;
    let env = rig.env();
    let loops = place.disks.iter().zip(legs).map(|(path, each)| {
        let disk = match place.shape {
            Some(shape) => rig.open_shaped(path, shape),
            None => rig.open(path),
        };
        let env = env.clone();
        async move {
            let reads = (0..*each).map(|i| {
                let disk = disk.clone();
                let read = async move {
                    disk.read_at(Io::SCAN, (16 << 20) + i * step, step as usize).await.unwrap();
                };
                env.run("raw read", read)
            });
            let reads = futures_util::stream::iter(reads);
            let reads = futures_util::StreamExt::buffer_unordered(reads, DEPTH);
            futures_util::StreamExt::collect::<Vec<_>>(reads).await;
        }
    });
    let (seconds, _) = rig.time(futures_util::future::join_all(loops));
    (legs.iter().sum::<u64>() * step) as f64 / seconds
}

fn speed(options: &Options, report: &mut Report, name: &str, place: &Place, bytes: u64) {
    let rig = Rig::new();
    let group = rig.group(place);
    drop(rig.file(&group, "f", bytes, true));
    // The data on each disk: the fullest takes longest, for both.
    let legs: Vec<u64> = group.disks().iter().map(|disk| disk.total_mb - disk.free_mb).collect();
    let (mut ours, mut raw) = (vec![], vec![]);
    for _ in 0..options.rounds {
        let (seconds, result) = scrub(&rig, &group, ScrubPower::Max);
        ours.push(result.found.bytes_read as f64 / seconds / 1e6);
        raw.push(raw_read(&rig, place, &legs) / 1e6);
    }
    let arm = format!("every copy read, {name}");
    let (ours, raw) = (
        report.arm(&arm, "scrub, power max", "MB/s", &ours),
        report.arm(&arm, "the disks themselves", "MB/s", &raw),
    );
    report.at_least(format!("scrub over raw reads, {name}"), ours / raw, 0.95);
    // Lets another group use the disks.
    rig.runtime.block_on(group.drop_group(true)).unwrap();
}

/// A load of small reads and writes alone, and with a concurrent scrub at its default power.
fn beside(options: &Options, report: &mut Report, place: &Place, bytes: u64) {
    let rig = Rig::new();
    let group = rig.group(place);
    let file = rig.file(&group, "f", bytes, true);
    let (mut quiet, mut busy) = ((vec![], vec![]), (vec![], vec![]));
    let seconds = options.seconds.max(5);
    for _ in 0..options.rounds {
        let (iops, p99) = foreground(&rig, &file, seconds);
        quiet.0.push(iops);
        quiet.1.push(p99);
        rig.runtime.block_on(group.scrub(ScrubSpec::default())).unwrap();
        let (iops, p99) = foreground(&rig, &file, seconds);
        assert!(group.scrubbing().is_some(), "the scrub outlasts the measurement");
        busy.0.push(iops);
        busy.1.push(p99);
        rig.runtime.block_on(group.stop_scrub()).unwrap();
        rig.runtime.block_on(group.wait_scrubbed()).unwrap();
    }
    let arm = format!("4 KB at random, {CLIENTS} clients");
    let (alone, p_alone) = (
        report.arm(&arm, "alone", "/s", &quiet.0),
        report.arm(&format!("{arm}, p99"), "alone", "ms", &quiet.1),
    );
    let (beside, p_beside) = (
        report.arm(&arm, "beside a scrub", "/s", &busy.0),
        report.arm(&format!("{arm}, p99"), "beside a scrub", "ms", &busy.1),
    );
    report.at_least("operations beside a scrub over those alone", beside / alone, 0.9);
    report.at_most("their p99 over that alone", p_beside / p_alone, 1.25);
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
}

/// Three disks unshaped, and shaped.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(1 << 30);
    let backings: Vec<Backing> = (0..DISKS)
        .map(|i| Backing::written(&options.dir, &format!("disk{i}"), bytes + SPARE))
        .collect();
    let place = |shape| Place {
        disks: backings.iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: None,
        shape,
    };
    if options.wants("speed") {
        speed(options, report, "disks as they are", &place(None), bytes);
        speed(options, report, "disks of 200 MB/s", &place(Some(shape())), bytes);
    }
    if options.wants("beside") {
        beside(options, report, &place(Some(shape())), bytes / 2);
    }
}
