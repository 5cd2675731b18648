//! Pieces of a column file through `object_store`: a group, the local file system, fio.

use std::sync::Arc;

use cellar_diskgroup::{GroupStore, Redundancy};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::Options;
use crate::fio::Fio;
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE, noise};

/// Bytes of a piece.
const PIECE: u64 = 256 << 10;
/// Pieces requested in one call.
const PIECES: u64 = 64;

/// Concurrent callers: one, whose calls leave the disk idle in between, and as many as scan
/// partitions of a table on two processors.
const CALLERS: [usize; 2] = [1, 2];

/// The results, round by round, in MB/s.
#[derive(Default)]
struct Arm {
    cellar: Vec<f64>,
    local_fs: Vec<f64>,
    fio: Vec<f64>,
}

/// Reads from the page cache would not reach the disk.
fn drop_page_cache() {
    std::process::Command::new("sync").status().expect("sync is there");
    std::fs::write("/proc/sys/vm/drop_caches", "1").expect("root may drop the page cache");
}

/// Every piece of the file once, in a random order, in calls.
fn calls_of(bytes: u64, seed: u64) -> Vec<Vec<std::ops::Range<u64>>> {
    let mut order: Vec<u64> = (0..bytes / PIECE).collect();
    let mut random = seed | 1;
    for i in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(i, (random % (i as u64 + 1)) as usize);
    }
    let ranges = |call: &[u64]| call.iter().map(|i| i * PIECE..(i + 1) * PIECE).collect();
    order.chunks(PIECES as usize).map(ranges).collect()
}

/// Bytes a second when `callers` share the calls for every piece of the file, each with one call at a
/// time.
fn rate(rig: &Rig, store: &Arc<dyn ObjectStore>, bytes: u64, callers: usize, seed: u64) -> f64 {
    let calls = Arc::new(calls_of(bytes, seed));
    let caller = |first: usize| {
        let (store, calls) = (Arc::clone(store), Arc::clone(&calls));
        let read = async move {
            let mut read = 0;
            for call in calls.iter().skip(first).step_by(callers) {
                let pieces = store.get_ranges(&Path::from("f"), call).await.unwrap();
                read += pieces.iter().map(|p| p.len() as u64).sum::<u64>();
            }
            read
        };
        cellar_io::EnvExt::run(&*rig.env(), "calls", read)
    };
    let (seconds, read) = rig.time(async {
        let all = (0..callers).map(caller).collect::<Vec<_>>();
        futures_util::future::join_all(all).await.into_iter().flatten().sum::<u64>()
    });
    assert_eq!(read, bytes, "every piece was read");
    bytes as f64 / seconds / 1e6
}

/// `get_ranges` over one disk, over a mirror, over the local file system; fio on a separate disk.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(1 << 30);
    let rig = Rig::new();
    let dir = options.dir.join(format!("cellar-bench-{}-local", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    write_file(&dir.join("f"), bytes);
    // fio has a separate disk: data just read by one is faster to read for the other, out
    // of a cache below this machine.
    let beside = Backing::written(&options.dir, "fio", bytes);
    let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(&dir).unwrap());
    for (name, disks, redundancy) in
        [("one disk", 1, Redundancy::External), ("two legs", 2, Redundancy::Normal)]
    {
        if !options.wants(name) {
            continue;
        }
        let backings: Vec<Backing> = (0..disks)
            .map(|i| Backing::written(&options.dir, &format!("disk{i}"), bytes + SPARE))
            .collect();
        let place = Place {
            disks: backings.iter().map(Backing::path).collect(),
            redundancy,
            bytes: None,
            shape: None,
        };
        let group = rig.group(&place);
        let ours: Arc<dyn ObjectStore> = Arc::new(GroupStore::new(group.clone()));
        let payload = noise(bytes as usize);
        rig.runtime.block_on(ours.put(&Path::from("f"), payload.into())).unwrap();
        let mut arms: [Arm; 2] = Default::default();
        for round in 0..options.rounds as u64 {
            for (arm, callers) in arms.iter_mut().zip(CALLERS) {
                arm.cellar.push(rate(&rig, &ours, bytes, callers, round + 7));
                if options.alone {
                    continue;
                }
                drop_page_cache();
                arm.local_fs.push(rate(&rig, &local, bytes, callers, round + 7));
                // Each piece once, as in the other arms: repeated reads come from some cache
                // below.
                let mut raw = Fio::new(&beside.path(), "randread", 32, 0);
                (raw.block, raw.size) = (PIECE, bytes);
                arm.fio.push(raw.run().bandwidth / 1e6);
            }
        }
        for (arm, callers) in arms.iter().zip(CALLERS) {
            let name = format!("{name}, get_ranges of 256 KiB by {callers}");
            let cellar = report.arm(&name, "cellar", "MB/s", &arm.cellar);
            if !options.alone {
                let local_fs = report.arm(&name, "local fs", "MB/s", &arm.local_fs);
                let fio = report.arm(&name, "fio", "MB/s", &arm.fio);
                let goal = (5.0 * local_fs).min(0.9 * fio);
                report.at_least(format!("{name}: MB/s of 5 x local or 0.9 x fio"), cellar, goal);
            }
        }
        drop(ours);
        rig.runtime.block_on(group.dismount()).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn write_file(path: &std::path::Path, bytes: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    let noise = noise(4 << 20);
    for _ in 0..bytes.div_ceil(noise.len() as u64) {
        std::io::Write::write_all(&mut file, &noise).unwrap();
    }
    file.sync_all().unwrap();
}
