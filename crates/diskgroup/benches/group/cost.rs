//! Benchmark of the dirty log and the checksums: their cost for writes, and the time of a resync.

use std::time::Duration;

use cellar_diskgroup::{File, Group, MountOptions, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use crate::Options;
use crate::report::Report;
use crate::rig::{Backing, Load, Place, Rig, SPARE, noise};
use crate::write::{Area, area_of};

const DEPTH: usize = 16;

/// Random 4 KB writes, not flushed, to all devices of an area.
fn cached(rig: &Rig, area: &Area, seconds: u64) -> Load {
    let (area, block) = (area.clone(), noise(4096));
    rig.drive(DEPTH, seconds, move |random| {
        let at = area.start + random % (area.bytes / 4096) * 4096;
        let (devices, block) = (area.devices.clone(), block.clone());
        async move {
            let legs = devices
                .iter()
                .map(|d| d.write_at(Io::FOREGROUND, at, block.clone(), Durability::Cached));
            for result in futures_util::future::join_all(legs).await {
                result.unwrap();
            }
        }
    })
}

/// Two disks with a mirrored file on them; the same number of bytes after the group is left to
/// writes without one.
struct Mirror {
    rig: Rig,
    place: Place,
    raw: Area,
    group: Group,
    file: File,
    _backings: Vec<Backing>,
}

impl Mirror {
    fn new(options: &Options, bytes: u64, raw_bytes: u64) -> Mirror {
        let rig = Rig::new();
        let used = bytes + SPARE;
        let backings: Vec<Backing> = (0..2)
            .map(|i| Backing::written(&options.dir, &format!("disk{i}"), used + raw_bytes))
            .collect();
        let place = Place {
            disks: backings.iter().map(Backing::path).collect(),
            redundancy: Redundancy::Normal,
            bytes: Some(used),
            shape: None,
        };
        rig.create(&place);
        let mut mount = MountOptions::default();
        if let Some(seconds) = options.target {
            mount.resync_target = Duration::from_secs(seconds);
        }
        let group = rig.mount(&place, mount);
        let file = rig.file(&group, "f", bytes, true);
        let raw = Area {
            devices: place.disks.iter().map(|p| rig.open(p)).collect(),
            start: used,
            bytes: raw_bytes,
        };
        Mirror { rig, place, raw, group, file, _backings: backings }
    }

    /// Bytes written to all disks since the mount.
    fn written(&self) -> u64 {
        let disks = self.group.disks();
        disks.iter().map(|d| d.counters["bytes_written"]).sum()
    }

    fn arms(&self, options: &Options, report: &mut Report, area: &Area, name: &str, goal: f64) {
        let (mut ours, mut plain, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let before = self.written();
            let load = cached(&self.rig, area, options.seconds);
            let written = self.written() - before;
            ours.push(load.iops());
            // Two copies of each.
            ratio.push(written as f64 / (load.count * 4096 * 2) as f64);
            if !options.alone {
                plain.push(cached(&self.rig, &self.raw, options.seconds).iops());
            }
        }
        let ours = report.arm(name, "cellar", "/s", &ours);
        let ratio = report.arm(&format!("{name}: written of needed"), "cellar", "x", &ratio);
        if !options.alone {
            let plain = report.arm(name, "2 legs", "/s", &plain);
            report.at_least(format!("{name}: of without"), ours / plain, goal);
        }
        if name.starts_with("hot") {
            report.at_most(format!("{name}: written of needed"), ratio, 1.05);
        }
    }
}

/// Random writes all over a large file. Without a group: both legs written directly, as many
/// bytes after the group as the file has.
pub fn cold(options: &Options, report: &mut Report) {
    let bytes = options.bytes(4 << 30);
    let mirror = Mirror::new(options, bytes, bytes);
    println!("dirty regions: {:?}", mirror.group.resync());
    // Until the maximum number of regions is dirty: the steady state is measured.
    cached(&mirror.rig, &area_of(&mirror.file), 2);
    let name = format!("random over {} MB", bytes >> 20);
    mirror.arms(options, report, &area_of(&mirror.file), &name, 0.7);
    mirror.rig.runtime.block_on(mirror.group.dismount()).unwrap();
}

/// Random writes in 256 MB.
pub fn hot(options: &Options, report: &mut Report) {
    let bytes = options.bytes(256 << 20);
    let mirror = Mirror::new(options, bytes, bytes);
    cached(&mirror.rig, &area_of(&mirror.file), 2);
    let name = format!("hot {} MB", bytes >> 20);
    mirror.arms(options, report, &area_of(&mirror.file), &name, 0.95);
    mirror.rig.runtime.block_on(mirror.group.dismount()).unwrap();
}

/// Pages of a heap written at once.
const BATCH: u64 = 127;

const PAGE: u64 = 8192;

/// Batches of random pages, each flushed, as a heap writes them; pages a second.
fn batches(rig: &Rig, file: &File, seconds: u64) -> f64 {
    let (file, pages, page) = (file.clone(), file.size() / PAGE, noise(PAGE as usize));
    let load = rig.drive(1, seconds, move |random| {
        let (file, page) = (file.clone(), page.clone());
        async move {
            let mut numbers: Vec<u64> =
                (0..BATCH).map(|at| random.wrapping_mul(2 * at + 1) % pages).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let writes = numbers.into_iter().map(|number| {
                file.write_at(Io::BACKGROUND, number * PAGE, page.clone(), Durability::Cached)
            });
            for written in futures_util::future::join_all(writes).await {
                written.unwrap();
            }
            file.flush(Io::BACKGROUND).await.unwrap();
        }
    });
    load.iops() * BATCH as f64
}

/// Random pages of a large heap file on a mirror: as an ordinary file, as a heap's, and with a dirty log
/// large enough for every region ever written, which is as if there were none.
pub fn pages(options: &Options, report: &mut Report) {
    let bytes = options.bytes(10 << 30);
    let Mirror { rig, place, raw, group, file, _backings } = Mirror::new(options, bytes, 0);
    drop((raw, file));
    let mut group = group;
    let (mut rates, mut marked) = ([vec![], vec![], vec![]], [vec![], vec![], vec![]]);
    for round in 0..options.rounds * 3 {
        rig.runtime.block_on(group.dismount()).unwrap();
        let mut mount = MountOptions::default();
        let arm = round % 3;
        if arm == 2 {
            mount.resync_target = Duration::from_secs(1 << 20);
        }
        group = rig.mount(&place, mount);
        let file = group.open("f").unwrap();
        if arm == 1 {
            file.recovered_by_owner();
        }
        // Until the number of dirty regions is steady.
        batches(&rig, &file, if arm == 0 { 3 } else { 10 });
        rates[arm].push(batches(&rig, &file, options.seconds));
        marked[arm].push(group.resync().dirty_regions as f64);
    }
    let names = ["of any file", "of a heap", "as without a dirty log"];
    let rates: Vec<f64> = names
        .iter()
        .zip(&rates)
        .map(|(name, rates)| report.arm(&format!("pages {name}"), "cellar", "/s", rates))
        .collect();
    for (name, marked) in names.iter().zip(&marked) {
        report.arm(&format!("regions dirty {name}"), "cellar", "", marked);
    }
    report.at_least("pages of a heap, of those without a dirty log", rates[1] / rates[2], 0.97);
    rig.runtime.block_on(group.dismount()).unwrap();
}

/// Dirties as many regions as allowed, drops the group as in a crash, and waits for the resync.
pub fn resync(options: &Options, report: &mut Report) {
    let bytes = options.bytes(4 << 30);
    let Mirror { rig, place, raw, group, file, _backings } = Mirror::new(options, bytes, 0);
    drop(raw);
    let (mut group, mut file) = (group, Some(file));
    let (mut took, mut regions) = (Vec::new(), Vec::new());
    let target = MountOptions::default().resync_target;
    for _ in 0..options.rounds {
        let open = file.take().expect("opened at the end of each round");
        cached(&rig, &area_of(&open), options.seconds);
        regions.push(group.resync().dirty_regions as f64);
        drop(open);
        group.abandon();
        group = rig.mount(&place, MountOptions::default());
        let env = rig.env();
        let left = group.clone();
        let (seconds, ()) = rig.time(async move {
            while left.resync().bytes_left > 0 {
                env.sleep(Duration::from_millis(5)).await;
            }
        });
        took.push(seconds);
        file = Some(group.open("f").unwrap());
    }
    report.arm("regions dirty at the crash", "cellar", "", &regions);
    let took = report.arm("resync", "cellar", "s", &took);
    report.at_most("resync: seconds of the target", took, target.as_secs_f64());
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
}
