//! Durable 4 KB writes on two legs, compared with fio on one.

use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::{File, Redundancy};
use cellar_io::shape::ShapeOptions;
use cellar_io::{Device, DeviceExt, Durability, Io};

use crate::Options;
use crate::fio::{Fio, Sync};
use crate::report::Report;
use crate::rig::{Backing, Load, Place, Rig, SPARE, noise};

/// The method of making a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A write and a flush.
    Flush,
    /// One write that is durable when acknowledged.
    Durable,
}

/// A device written in 4 KB blocks from an offset on.
#[derive(Clone)]
pub struct Area {
    pub devices: Vec<Arc<dyn Device>>,
    pub start: u64,
    pub bytes: u64,
}

/// Writes 4 KB blocks at random places, durably, to all devices of an area at once.
pub fn writes(rig: &Rig, area: &Area, how: How, depth: usize, seconds: u64) -> Load {
    let (area, block) = (area.clone(), noise(4096));
    rig.drive(depth, seconds, move |random| {
        let at = area.start + random % (area.bytes / 4096) * 4096;
        let (devices, block) = (area.devices.clone(), block.clone());
        async move {
            if let [device] = &devices[..] {
                durable(device, at, block, how).await;
            } else {
                let legs = devices.iter().map(|d| durable(d, at, block.clone(), how));
                futures_util::future::join_all(legs).await;
            }
        }
    })
}

async fn durable(device: &Arc<dyn Device>, at: u64, block: Bytes, how: How) {
    match how {
        How::Durable => {
            let write = device.write_at(Io::COMMIT, at, block, Durability::Durable);
            write.await.unwrap();
        }
        How::Flush => {
            let write = device.write_at(Io::COMMIT, at, block, Durability::Cached);
            write.await.unwrap();
            device.flush(Io::COMMIT).await.unwrap();
        }
    }
}

/// The area of a whole file.
pub fn area_of(file: &File) -> Area {
    Area { bytes: file.geometry().size, devices: vec![Arc::new(file.clone())], start: 0 }
}

/// Runs every arm round by round: ours, both legs without a group, fio on each leg.
pub fn against_raw(options: &Options, report: &mut Report) {
    let bytes = options.bytes(512 << 20);
    let rig = Rig::new();
    // The end of each disk is left to fio.
    let used = bytes + SPARE;
    let backings: Vec<Backing> =
        (0..2).map(|i| Backing::written(&options.dir, &format!("disk{i}"), used + bytes)).collect();
    let place = Place {
        disks: backings.iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: Some(used),
        shape: None,
    };
    let group = rig.group(&place);
    for (sums, checksums) in [("sums", true), ("no sums", false)] {
        if !options.wants(sums) {
            continue;
        }
        let file = rig.file(&group, "f", bytes, checksums);
        let raw =
            Area { devices: place.disks.iter().map(|p| rig.open(p)).collect(), start: used, bytes };
        raw_arms(options, report, &rig, (&area_of(&file), &raw), &place.disks, sums);
        drop(file);
        rig.runtime.block_on(group.remove("f")).unwrap();
    }
    rig.runtime.block_on(group.dismount()).unwrap();
    drop(backings);
    if options.wants("shaped") {
        shaped(options, report, &rig);
    }
}

/// Legs simulated as if they did not share a device: each answers 400 us after the request, which is longer
/// than the underlying device needs for both.
fn shaped(options: &Options, report: &mut Report, rig: &Rig) {
    let bytes = 64 << 20;
    let latency = std::time::Duration::from_micros(400);
    let shape = ShapeOptions { latency, ..ShapeOptions::default() };
    let backings: Vec<Backing> =
        (0..3).map(|i| Backing::written(&options.dir, &format!("leg{i}"), bytes + SPARE)).collect();
    let place = Place {
        disks: backings[..2].iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: None,
        shape: Some(shape),
    };
    let group = rig.group(&place);
    let file = rig.file(&group, "f", bytes, true);
    let leg = Area { devices: vec![rig.open_shaped(&backings[2].path(), shape)], start: 0, bytes };
    let ours = area_of(&file);
    for (how, depth, name) in
        [(How::Flush, 1, "shaped, write + flush"), (How::Durable, 1, "shaped, durable write")]
    {
        writes(rig, &ours, how, depth, 1);
        let (mut cellar, mut one) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            cellar.push(writes(rig, &ours, how, depth, options.seconds).mean_us());
            one.push(writes(rig, &leg, how, depth, options.seconds).mean_us());
        }
        let cellar = report.arm(name, "2 legs", "us", &cellar);
        let one = report.arm(name, "one disk", "us", &one);
        report.at_most(format!("{name}: times one leg"), cellar / one, 1.25);
    }
    rig.runtime.block_on(group.dismount()).unwrap();
}

fn raw_arms(
    options: &Options,
    report: &mut Report,
    rig: &Rig,
    (ours, legs): (&Area, &Area),
    disks: &[String],
    sums: &str,
) {
    let arms = [
        (How::Flush, 1, "write + flush"),
        (How::Durable, 1, "durable write"),
        (How::Flush, 16, "write + flush x 16"),
    ];
    for (how, depth, name) in arms {
        let name = format!("{name}, {sums}");
        // The first writes mark regions; that is not measured here.
        writes(rig, ours, how, depth, 1);
        let (mut cellar, mut plain) = (Vec::new(), Vec::new());
        let mut fio = vec![Vec::new(); disks.len()];
        let mut both = Vec::new();
        for _ in 0..options.rounds {
            cellar.push(writes(rig, ours, how, depth, options.seconds).mean_us());
            if options.alone {
                continue;
            }
            plain.push(writes(rig, legs, how, depth, options.seconds).mean_us());
            for (disk, times) in disks.iter().zip(&mut fio) {
                let mut fio = Fio::new(disk, "randwrite", 1, options.seconds);
                (fio.offset, fio.size, fio.jobs) = (legs.start, legs.bytes, depth);
                fio.sync = Sync::Data;
                times.push(fio.run().mean_us);
                if disk == &disks[0] {
                    fio.files = disks.to_vec();
                    both.push(fio.run().mean_us);
                }
            }
        }
        let cellar = report.arm(&name, "cellar", "us", &cellar);
        if options.alone {
            continue;
        }
        report.arm(&name, "2 legs", "us", &plain);
        let slower =
            fio.iter().map(|times| report.arm(&name, "fio", "us", times)).fold(0.0, f64::max);
        let both = report.arm(&name, "fio, all", "us", &both);
        let what = format!("{name}: times the slower leg");
        report.at_most(what, cellar / slower, 1.25);
        // Disks on one device share its flushes: the cost of a leg while the other works too.
        report.at_most(format!("{name}: times a leg beside the other"), cellar / both, 1.25);
    }
}
