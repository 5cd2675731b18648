//! Benchmark of a rebalance: its cost to foreground I/O, and its speed on an idle group.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_diskgroup::{AlterDisks, DropDisk, Group, NewDisk, Redundancy};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::shape::ShapeOptions;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use crate::Options;
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE, noise};

/// Each disk: 2,000 requests and 200 MB a second.
pub fn shape() -> ShapeOptions {
    ShapeOptions {
        iops: 2000,
        bytes_per_second: 200_000_000,
        latency: Duration::from_micros(200),
        ..ShapeOptions::default()
    }
}

/// Clients that read and write 4 KB at random.
pub const CLIENTS: usize = 16;

/// A disk as in a server: a scheduler in front of a modelled device.
fn disk(rig: &Rig, backing: &Backing) -> Arc<dyn Device> {
    let shaped = rig.open_shaped(&backing.path(), shape());
    Arc::new(Scheduled::new(shaped, rig.env(), ScheduleOptions::default(), None))
}

fn new_disk(rig: &Rig, backing: &Backing) -> NewDisk {
    NewDisk {
        device: disk(rig, backing),
        path: backing.path(),
        name: Some("LATE".to_owned()),
        failgroup: None,
        size: None,
        force: true,
    }
}

/// Operations a second, and the 99th percentile of their times in milliseconds.
pub fn foreground(rig: &Rig, file: &cellar_diskgroup::File, seconds: u64) -> (f64, f64) {
    let blocks = file.size() / 4096;
    let times = Arc::new(Mutex::new(Vec::new()));
    let (file, kept, env) = (file.clone(), Arc::clone(&times), rig.env());
    let data = noise(4096);
    let load = rig.drive(CLIENTS, seconds, move |random| {
        let (file, kept, env, data) =
            (file.clone(), Arc::clone(&kept), Arc::clone(&env), data.clone());
        async move {
            let at = random % blocks * 4096;
            let start = env.now();
            if random >> 60 < 4 {
                file.write_at(Io::FOREGROUND, at, data, Durability::Cached).await.unwrap();
            } else {
                file.read_at(Io::FOREGROUND, at, 4096).await.unwrap();
            }
            let took = env.now().since(start).as_secs_f64() * 1e3;
            kept.lock().unwrap().push(took);
        }
    });
    let mut times = times.lock().unwrap().clone();
    times.sort_by(f64::total_cmp);
    (load.iops(), times[times.len() * 99 / 100])
}

/// Drops the late disk again and waits for it.
fn back(rig: &Rig, group: &Group) {
    let drop = vec![DropDisk { name: "LATE".to_owned(), force: false }];
    let change = AlterDisks { drop, power: Some(64), ..Default::default() };
    rig.runtime.block_on(async {
        group.alter_disks(&change).await.unwrap();
        group.wait_rebalanced().await.unwrap();
    });
}

/// Megabytes a second of copying from disk to disk in steps of 1 MB, several at once: the limit of the modelled
/// devices themselves.
fn raw_copy(rig: &Rig, from: &Backing, to: &Backing, bytes: u64) -> f64 {
    let (from, to, env) = (disk(rig, from), disk(rig, to), rig.env());
    let step = 1 << 20;
    let copies = (0..bytes / step).map(move |i| {
        let (from, to, at) = (Arc::clone(&from), Arc::clone(&to), SPARE + i * step);
        let copy = async move {
            let read = from.read_at(Io::BACKGROUND, at, step as usize).await.unwrap();
            to.write_at(Io::BACKGROUND, at, read.freeze(), Durability::Cached).await.unwrap();
        };
        env.run("copy", copy)
    });
    let all = futures_util::StreamExt::buffer_unordered(futures_util::stream::iter(copies), 16);
    let (seconds, _) = rig.time(futures_util::StreamExt::collect::<Vec<_>>(all));
    bytes as f64 / seconds / 1e6
}

/// Three shaped disks and a fourth that comes and goes.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(512 << 20);
    let rig = Rig::new();
    let backings: Vec<Backing> = (0..4)
        .map(|i| Backing::written(&options.dir, &format!("disk{i}"), bytes + SPARE))
        .collect();
    let place = Place {
        disks: backings[..3].iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: None,
        shape: Some(shape()),
    };
    let group = rig.group(&place);
    let file = rig.file(&group, "f", bytes, true);
    let (mut quiet, mut busy) = ((vec![], vec![]), (vec![], vec![]));
    let (mut ours, mut raw, mut joined) = (vec![], vec![], vec![]);
    let seconds = options.seconds.max(5);
    for _ in 0..options.rounds {
        let (iops, p99) = foreground(&rig, &file, seconds);
        quiet.0.push(iops);
        quiet.1.push(p99);
        let mut add = new_disk(&rig, &backings[3]);
        add.force = false;
        let change = AlterDisks { add: vec![add.clone()], ..Default::default() };
        rig.runtime.block_on(group.alter_disks(&change)).unwrap();
        let (iops, p99) = foreground(&rig, &file, seconds);
        assert!(group.operation().is_some(), "the rebalance outlasts the measurement");
        busy.0.push(iops);
        busy.1.push(p99);
        rig.runtime.block_on(group.rebalance(64)).unwrap();
        rig.runtime.block_on(group.wait_rebalanced()).unwrap();
        back(&rig, &group);
        // The cost of joining a disk (9 MiB of zeros at its ends, labels) is not a rate, and is reported
        // separately.
        let change = AlterDisks { add: vec![add], power: Some(0), ..Default::default() };
        let work = group.explain_work(&change).unwrap().plan.bytes(4 << 20);
        let (took, ()) = rig.time(async { group.alter_disks(&change).await.unwrap() });
        joined.push(took * 1e3);
        let (took, ()) = rig.time(async {
            group.rebalance(64).await.unwrap();
            group.wait_rebalanced().await.unwrap();
        });
        ours.push(work as f64 / took / 1e6);
        back(&rig, &group);
        raw.push(raw_copy(&rig, &backings[0], &backings[3], work));
    }
    let arm = "4 KB at random, 16 clients";
    let (idle, p_idle) = (
        report.arm(arm, "quiet", "/s", &quiet.0),
        report.arm(&format!("{arm}, p99"), "quiet", "ms", &quiet.1),
    );
    let (beside, p_beside) = (
        report.arm(arm, "power 1", "/s", &busy.0),
        report.arm(&format!("{arm}, p99"), "power 1", "ms", &busy.1),
    );
    report.at_least("operations beside a rebalance over those alone", beside / idle, 0.85);
    report.at_most("their p99 over that alone", p_beside / p_idle, 1.5);
    let (ours, raw) = (
        report.arm("moved at full power", "cellar", "MB/s", &ours),
        report.arm("copied from disk to disk", "raw", "MB/s", &raw),
    );
    report.at_least("full power over a raw copy", ours / raw, 0.9);
    report.arm("a disk joins, before anything moves", "cellar", "ms", &joined);
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
}
