//! Benchmark of a mount of large disks: its time, clean and after a crash, and the memory of the maps.

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{FileSpec, MountOptions, Redundancy};

use crate::Options;
use crate::report::Report;
use crate::rig::{Backing, Place, Rig};

const DISKS: usize = 8;
const FILES: u64 = 1000;

/// 8 sparse disks of 2 TiB, nine tenths allocated in 1,000 files without any writes.
pub fn run(options: &Options, report: &mut Report) {
    let disk_bytes = options.bytes(2 << 40);
    let backings: Vec<Backing> = (0..DISKS)
        .map(|i| Backing::sparse(&options.dir, &format!("disk{i}"), disk_bytes))
        .collect();
    let rig = Rig::new();
    let place = Place {
        disks: backings.iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: None,
        shape: None,
    };
    let group = rig.group(&place);
    let au_size = group.info().au_size;
    let each = (group.info().writable_mb * 9 / 10 / FILES) << 20;
    let (seconds, ()) = rig.time(async {
        for i in 0..FILES {
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            file.set_size(each).await.unwrap();
            group.publish(&file, &format!("f{i}"), false).await.unwrap();
        }
    });
    println!("  made {FILES} files of {} MiB in {seconds:.1} s", each >> 20);
    let mut group = group;
    let (mut clean, mut crashed) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        rig.runtime.block_on(group.dismount()).unwrap();
        drop(group);
        group = timed_mount(&rig, &place, &mut clean);
        // Something for the log to replay.
        rig.runtime.block_on(async {
            let file = group.open("f0").unwrap();
            for i in 0..100 {
                file.set_size(each - i % 2 * 4096).await.unwrap();
            }
        });
        group.abandon();
        drop(group);
        group = timed_mount(&rig, &place, &mut crashed);
    }
    let clean = report.arm("mount, clean", "cellar", "s", &clean);
    report.at_most("mount, clean", clean, 3.0);
    let crashed = report.arm("mount, crashed", "cellar", "s", &crashed);
    report.at_most("mount, crashed", crashed, 3.0);
    let legs: u64 = group.files().iter().map(|f| f.space / au_size).sum();
    let bytes = group.info().map_bytes as f64 / legs as f64;
    report.arm("AUs and copies allocated", "cellar", "", &[legs as f64]);
    report.at_most("bytes of map an AU and copy", bytes, 24.0);
    rig.runtime.block_on(group.dismount()).unwrap();
}

fn timed_mount(rig: &Rig, place: &Place, times: &mut Vec<f64>) -> cellar_diskgroup::Group {
    let env = rig.env();
    let start = env.now();
    let group = rig.mount(place, MountOptions::default());
    times.push(env.now().since(start).as_secs_f64());
    group
}
