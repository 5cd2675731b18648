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
/// Pieces asked for in one call.
const PIECES: u64 = 64;

/// Whoever reads from the page cache reads nothing from the disk.
fn drop_page_cache() {
    std::process::Command::new("sync").status().expect("sync is there");
    std::fs::write("/proc/sys/vm/drop_caches", "1").expect("root may drop the page cache");
}

/// Bytes a second of calls for every piece of the file, in a random order.
fn rate(rig: &Rig, store: &Arc<dyn ObjectStore>, bytes: u64, seed: u64) -> f64 {
    let count = bytes / PIECE;
    let mut order: Vec<u64> = (0..count).collect();
    let mut random = seed | 1;
    for i in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(i, (random % (i as u64 + 1)) as usize);
    }
    let store = Arc::clone(store);
    let read = async move {
        let mut read = 0;
        for call in order.chunks(PIECES as usize) {
            let ranges: Vec<_> = call.iter().map(|i| i * PIECE..(i + 1) * PIECE).collect();
            let pieces = store.get_ranges(&Path::from("f"), &ranges).await.unwrap();
            read += pieces.iter().map(|p| p.len() as u64).sum::<u64>();
        }
        read
    };
    let (seconds, read) =
        rig.time(async { cellar_io::EnvExt::run(&*rig.env(), "calls", read).await });
    assert_eq!(read, Some(bytes), "every piece was read");
    bytes as f64 / seconds / 1e6
}

/// `get_ranges` over one disk, over a mirror, over the local file system; fio on one of the disks.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(1 << 30);
    let rig = Rig::new();
    let dir = options.dir.join(format!("cellar-bench-{}-local", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    write_file(&dir.join("f"), bytes);
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
        let (mut cellar, mut local_fs, mut fio) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.rounds as u64 {
            cellar.push(rate(&rig, &ours, bytes, round + 7));
            if options.alone {
                continue;
            }
            drop_page_cache();
            local_fs.push(rate(&rig, &local, bytes, round + 7));
            // Each piece once, as the others do: what is read again comes out of some cache below.
            let mut raw = Fio::new(&backings[0].path(), "randread", 32, 0);
            (raw.block, raw.size) = (PIECE, bytes);
            fio.push(raw.run().bandwidth / 1e6);
        }
        let arm = format!("{name}, get_ranges of 256 KiB");
        let cellar = report.arm(&arm, "cellar", "MB/s", &cellar);
        if !options.alone {
            let local_fs = report.arm(&arm, "local fs", "MB/s", &local_fs);
            let fio = report.arm(&arm, "fio", "MB/s", &fio);
            let goal = (5.0 * local_fs).min(0.9 * fio);
            report.at_least(format!("{arm}: MB/s of 5 x local or 0.9 x fio"), cellar, goal);
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
