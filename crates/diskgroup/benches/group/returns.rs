//! Return of an absent disk: the bytes copied, and the time it takes, compared with a return
//! by FORCE that copies everything anew, and with btrfs raid1 on the same devices, scrubbed when its
//! device is back.

use std::os::unix::fs::FileExt;

use cellar_diskgroup::{FoundDisk, OnlineHow, Redundancy};
use cellar_io::{Device, Durability, Io};

use crate::Options;
use crate::btrfs::{Loop, Mounted, sh};
use crate::fio::{Fio, Sync};
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE, noise};

/// Number of writes while the disk is away.
const WRITES: u64 = 10_000;
const WRITE: u64 = 8192;

/// Their places: the same for both.
fn places(bytes: u64) -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    (0..WRITES).map(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) % (bytes / WRITE) * WRITE
    })
}

/// Bytes written to a block device since it was created.
fn written(device: &str) -> u64 {
    let name = device.trim_start_matches("/dev/");
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
}

/// 10,000 random writes of 8 KB over the file while a leg is away, then its return.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(10 << 30);
    let half = (bytes + (1 << 30)).next_multiple_of(1 << 20);
    let names = ["loop0", "loop1"];
    let backings = names.map(|name| Backing::written(&options.dir, name, 2 * half));
    let [(mb, seconds), (full_mb, full_seconds)] = ours(&backings, half, bytes);
    report.arm("returns: copied", "cellar", "MB", &[mb]);
    report.arm("returns: took", "cellar", "s", &[seconds]);
    report.arm("returns: copied", "cellar, all of it (FORCE)", "MB", &[full_mb]);
    report.arm("returns: took", "cellar, all of it (FORCE)", "s", &[full_seconds]);
    if !options.alone {
        let (their_mb, their_seconds) = theirs(options, &backings, half, bytes);
        report.arm("returns: copied", "btrfs", "MB", &[their_mb]);
        report.arm("returns: took", "btrfs", "s", &[their_seconds]);
        report.at_most("returns: time, of btrfs' scrub", seconds / their_seconds, 1.0);
    }
    report.at_most("returns: copied, MiB", mb * 1e6 / (1 << 20) as f64, 1024.0);
}

/// A normal return, and then a full one.
fn ours(backings: &[Backing; 2], half: u64, bytes: u64) -> [(f64, f64); 2] {
    let loops = backings.each_ref().map(|b| Loop::on(b, 0, half));
    let rig = Rig::new();
    let place = Place {
        disks: loops.iter().map(|l| l.0.clone()).collect(),
        redundancy: Redundancy::Normal,
        bytes: Some(bytes + SPARE),
        shape: None,
    };
    let group = rig.group(&place);
    let file = rig.file(&group, "f", bytes, true);
    let data = noise(WRITE as usize);
    let away = group.disks()[1].name.clone();
    let back = |force: bool| {
        let found = FoundDisk { device: rig.open(&loops[1].0), path: loops[1].0.clone() };
        let (group, away, env) = (group.clone(), away.clone(), rig.env());
        let device = loops[1].0.clone();
        async move {
            let (before, start) = (written(&device), env.now());
            let how = OnlineHow { power: Some(64), force };
            group.online_disk(&away, found, how).await.unwrap();
            group.wait_returned().await.unwrap();
            let took = env.now().since(start).as_secs_f64();
            ((written(&device) - before) as f64 / 1e6, took)
        }
    };
    let told = rig.runtime.block_on(async {
        group.offline_disks(std::slice::from_ref(&away), None).await.unwrap();
        for at in places(bytes) {
            file.write(Io::FOREGROUND, at, vec![data.clone()], Durability::Cached).await.unwrap();
        }
        file.flush(Io::FOREGROUND).await.unwrap();
        group.close_disk(&away);
        let missed = back(false).await;
        group.offline_disks(std::slice::from_ref(&away), None).await.unwrap();
        group.close_disk(&away);
        [missed, back(true).await]
    });
    let numbers = [file.number()];
    let validate = group.validate(&numbers, cellar_diskgroup::Copies::All, &|_| {});
    let found = rig.runtime.block_on(validate).unwrap();
    assert!(!found.is_bad() && found.absent_bytes == 0, "{found:?}");
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
    told
}

fn theirs(options: &Options, backings: &[Backing; 2], half: u64, bytes: u64) -> (f64, f64) {
    let mut loops: Vec<Loop> = backings.iter().map(|b| Loop::on(b, half, half)).collect();
    let at = options.dir.join(format!("cellar-bench-{}-btrfs", std::process::id()));
    let at = at.display().to_string();
    let mounted = Mounted::raid1(&loops, at.clone());
    let path = format!("{at}/f");
    let mut fill = Fio::new(&path, "write", 8, 0);
    (fill.block, fill.size, fill.sync) = (1 << 20, bytes, Sync::No);
    fill.run();
    sh("sync", &["-f", &path]);
    drop(mounted);
    drop(loops.pop());
    std::fs::create_dir_all(&at).unwrap();
    // The kernel would otherwise reassemble the missing device with the other one.
    sh("btrfs", &["device", "scan", "--forget"]);
    sh("mount", &["-t", "btrfs", "-o", "noatime,degraded", &loops[0].0, &at]);
    let data = noise(WRITE as usize);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    places(bytes).for_each(|place| file.write_all_at(&data, place).unwrap());
    file.sync_all().unwrap();
    drop(file);
    sh("umount", &[&at]);
    loops.push(Loop::on(&backings[1], half, half));
    sh("btrfs", &["device", "scan", &loops[0].0, &loops[1].0]);
    sh("mount", &["-t", "btrfs", "-o", "noatime", &loops[0].0, &at]);
    let mounted = Mounted(at.clone());
    let before = written(&loops[1].0);
    // It exits with an error if it repaired something.
    let (took, scrub) = Rig::new().time(async {
        std::process::Command::new("btrfs").args(["scrub", "start", "-B", &at]).output()
    });
    println!("{}", String::from_utf8_lossy(&scrub.unwrap().stdout).trim());
    let copied = written(&loops[1].0) - before;
    drop(mounted);
    (copied as f64 / 1e6, took)
}
