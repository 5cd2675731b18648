//! Callers that go away half-way: what they began ends, or never began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Copies, File, FileSpec, Group};
use cellar_io::{Device, DeviceExt, Discard, Durability, EnvExt, Io};

use cellar_sim::rig::{Rig, Shape};

const PIECE: usize = 65536;

fn rig_with_queues(seed: u64) -> (Rig, Shape) {
    let shape = Shape { disks: 2, ..Shape::default() };
    let mut rig = Rig::new(seed, &shape);
    rig.depth = Some(1);
    (rig, shape)
}

/// A group with a file of one written piece.
async fn start(rig: &Rig, shape: &Shape) -> (Group, File) {
    rig.create(shape).await.unwrap();
    let group = rig.mount().await.unwrap();
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
    file.set_size(8 << 20).await.unwrap();
    file.write_at(Io::SCAN, 0, ones(), Durability::Durable).await.unwrap();
    group.publish(&file, "f", false).await.unwrap();
    (group, file)
}

fn ones() -> Bytes {
    Bytes::from(vec![1; PIECE])
}

/// Keeps a queue before every disk until told to end.
fn load(rig: &Rig, file: &File) -> Arc<AtomicBool> {
    let end = Arc::new(AtomicBool::new(false));
    for _ in 0..6 {
        let (end, file) = (Arc::clone(&end), file.clone());
        let task = async move {
            while !end.load(Ordering::Relaxed) {
                file.read_at(Io::FOREGROUND, 0, PIECE).await.unwrap();
            }
        };
        rig.env().spawn("load", Box::pin(task));
    }
    end
}

async fn go_away_after(rig: &Rig, micros: u64, what: impl Future<Output = ()>) {
    let limit = rig.env().sleep(Duration::from_micros(micros));
    futures_util::future::select(Box::pin(what), limit).await;
}

fn checksum_errors(group: &Group) -> u64 {
    group.disks().iter().map(|disk| disk.counters["checksum_errs"]).sum()
}

#[test]
fn a_discard_that_nobody_waits_for_leaves_what_was_or_zeros() {
    for n in 0..40 {
        let (rig, shape) = rig_with_queues(300 + n);
        rig.run(async {
            let (group, file) = start(&rig, &shape).await;
            let end = load(&rig, &file);
            let discard = async {
                file.discard(Io::SCAN, 0, PIECE as u64, Discard::Zero).await.unwrap();
            };
            go_away_after(&rig, n * 50, discard).await;
            end.store(true, Ordering::Relaxed);
            rig.env().sleep(Duration::from_millis(50)).await;
            let read = file.read_at(Io::FOREGROUND, 0, PIECE).await.unwrap();
            for sector in read.chunks(512) {
                assert!(sector.iter().all(|b| *b == sector[0]), "whole sectors");
            }
            assert_eq!(checksum_errors(&group), 0);
            let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
            assert!(!found.is_bad(), "{found:?}");
        })
        .unwrap();
    }
}

#[test]
fn a_flush_after_one_that_nobody_waited_for_has_the_checksums_too() {
    for n in 0..40 {
        let (rig, shape) = rig_with_queues(400 + n);
        rig.run(async {
            let (_, file) = start(&rig, &shape).await;
            let at = 2 << 20;
            file.write_at(Io::SCAN, at, ones(), Durability::Cached).await.unwrap();
            let end = load(&rig, &file);
            rig.env().sleep(Duration::from_millis(1)).await;
            go_away_after(&rig, n * 50, async { file.flush(Io::COMMIT).await.unwrap() }).await;
            end.store(true, Ordering::Relaxed);
            file.flush(Io::COMMIT).await.unwrap();
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let group = rig.mount().await.unwrap();
            let file = group.open("f").unwrap();
            let found = group.validate(&[file.number()], Copies::All, &|_| {}).await.unwrap();
            assert!(!found.is_bad(), "{found:?}");
            assert_eq!(found.checksums_unknown, 0, "{n}: {found:?}");
            assert_eq!(found.checksums_right, 4 * 16);
        });
    }
}
