//! Mirror on loop devices, compared with btrfs raid1 on loop devices over the same files.

use std::process::Command;

use cellar_diskgroup::Redundancy;
use cellar_io::{Buffer, Device, Io};

use crate::Options;
use crate::fio::{Fio, Sync};
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE};
use crate::write::{How, area_of, writes};

pub fn sh(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device with 4 KB sectors on a part of a file; detached when dropped.
pub struct Loop(pub String);

impl Loop {
    pub fn on(backing: &Backing, offset: u64, bytes: u64) -> Loop {
        Loop(sh(
            "losetup",
            &[
                "-f",
                "--show",
                "-b",
                "4096",
                "--direct-io=on",
                &format!("--offset={offset}"),
                &format!("--sizelimit={bytes}"),
                &backing.path(),
            ],
        ))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Nothing else can be done about it here.
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A mounted file system; unmounted when dropped.
pub struct Mounted(pub String);

impl Mounted {
    pub fn raid1(devices: &[Loop], at: String) -> Mounted {
        let names: Vec<&str> = devices.iter().map(|d| d.0.as_str()).collect();
        let mut arguments = vec!["-q", "-f", "-d", "raid1", "-m", "raid1"];
        arguments.extend(&names);
        sh("mkfs.btrfs", &arguments);
        // The kernel knows the second device only after a scan.
        sh("btrfs", &["device", "scan", names[0], names[1]]);
        std::fs::create_dir_all(&at).unwrap();
        sh("mount", &["-t", "btrfs", "-o", "noatime", names[0], &at]);
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nothing else can be done about it here.
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

struct Sides {
    rig: Rig,
    file: cellar_diskgroup::File,
    rival: String,
    bytes: u64,
}

/// Write and flush at 1 and 16 jobs, random reads.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(768 << 20);
    let half = (bytes + (512 << 20)).next_multiple_of(1 << 20);
    let backings: Vec<Backing> =
        (0..2).map(|i| Backing::written(&options.dir, &format!("loop{i}"), 2 * half)).collect();
    let ours: Vec<Loop> = backings.iter().map(|b| Loop::on(b, 0, half)).collect();
    let theirs: Vec<Loop> = backings.iter().map(|b| Loop::on(b, half, half)).collect();
    let at = options.dir.join(format!("cellar-bench-{}-btrfs", std::process::id()));
    let mounted = Mounted::raid1(&theirs, at.display().to_string());
    println!("btrfs: raid1 data and metadata, noatime, checksums on, 4 KB sectors, direct I/O");
    let rival = format!("{}/f", mounted.0);
    let mut fill = Fio::new(&rival, "write", 8, 0);
    (fill.block, fill.size, fill.sync) = (1 << 20, bytes, Sync::No);
    fill.run();
    sh("sync", &["-f", &rival]);
    let rig = Rig::new();
    let place = Place {
        disks: ours.iter().map(|l| l.0.clone()).collect(),
        redundancy: Redundancy::Normal,
        bytes: Some(bytes + SPARE),
        shape: None,
    };
    let group = rig.group(&place);
    let file = rig.file(&group, "f", bytes, true);
    let sides = Sides { rig, file, rival, bytes };
    for (depth, goal) in [(1, 3.0), (16, 10.0)] {
        if options.wants("write") {
            write_arm(options, report, &sides, depth, goal);
        }
    }
    if options.wants("read") {
        read_arm(options, report, &sides);
    }
    sides.rig.runtime.block_on(group.dismount()).unwrap();
    drop((sides, group));
}

fn write_arm(options: &Options, report: &mut Report, sides: &Sides, depth: usize, goal: f64) {
    let area = area_of(&sides.file);
    writes(&sides.rig, &area, How::Flush, depth, 1);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let load = writes(&sides.rig, &area, How::Flush, depth, options.seconds);
        ours.push(load.iops());
        if !options.alone {
            let mut fio = Fio::new(&sides.rival, "randwrite", 1, options.seconds);
            (fio.size, fio.jobs, fio.sync, fio.engine) = (sides.bytes, depth, Sync::Full, "sync");
            theirs.push(fio.run().iops);
        }
    }
    let name = format!("write + flush, {depth} jobs");
    let ours = report.arm(&name, "cellar", "/s", &ours);
    if !options.alone {
        let theirs = report.arm(&name, "btrfs", "/s", &theirs);
        report.at_least(format!("{name}: of btrfs"), ours / theirs, goal);
    }
}

fn read_arm(options: &Options, report: &mut Report, sides: &Sides) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let blocks = sides.bytes / 4096;
    for _ in 0..options.rounds {
        let file = sides.file.clone();
        let load = sides.rig.drive(64, options.seconds, move |random| {
            let file = file.clone();
            async move {
                let at = random % blocks * 4096;
                let buffers = vec![Buffer::new(4096)];
                file.read(Io::FOREGROUND, at, buffers).await.unwrap();
            }
        });
        ours.push(load.iops());
        if !options.alone {
            let mut fio = Fio::new(&sides.rival, "randread", 16, options.seconds);
            (fio.size, fio.jobs) = (sides.bytes, 4);
            theirs.push(fio.run().iops);
        }
    }
    let name = "4K read, depth 16 x 4 jobs";
    let ours = report.arm(name, "cellar", "/s", &ours);
    if !options.alone {
        let theirs = report.arm(name, "btrfs", "/s", &theirs);
        report.at_least(format!("{name}: of btrfs"), ours / theirs, 1.0);
    }
}
