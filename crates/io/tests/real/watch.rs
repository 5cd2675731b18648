//! A disk that goes away while it is open.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::real::{OpenOptions, RealDisk};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, IoErrorKind};

use crate::support::{ENGINES, bytes, directory, disk_file, open, runtime};

/// What somebody outside does to a path.
type Act = fn(&std::path::Path);

const SIZE: usize = 1 << 20;

fn assert_gone(outcome: Result<(), cellar_io::IoError>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(matches!(error.kind, IoErrorKind::Gone { .. }), "{what}: {error}");
}

async fn everything_fails(disk: &Arc<RealDisk>) {
    let data = bytes(1, 4096);
    let write = disk.write_at(Io::SCAN, 0, data, Durability::Cached).await;
    assert_gone(write, "a write after the end");
    assert_gone(disk.flush(Io::COMMIT).await, "a flush after the end");
    let read = disk.read_at(Io::SCAN, 0, 4096).await;
    assert_gone(read.map(drop), "a read after the end");
}

#[test]
fn a_durable_write_to_an_unlinked_file_is_not_acknowledged() {
    let directory = directory();
    let runtime = runtime();
    for engine in ENGINES {
        let path = disk_file(&directory, "disk", SIZE);
        let disk = open(&runtime, &path, &OpenOptions { engine, ..Default::default() }).unwrap();
        runtime.block_on(async {
            let write = || disk.write_at(Io::COMMIT, 0, bytes(1, 4096), Durability::Durable);
            write().await.unwrap();
            std::fs::remove_file(&path).unwrap();
            // The kernel still takes it: the very next acknowledgement must be refused.
            assert_gone(write().await, "a durable write to an unlinked file");
            everything_fails(&disk).await;
        });
    }
}

#[test]
fn a_write_that_is_alone_to_a_file_that_went_away_is_not_acknowledged() {
    let directory = directory();
    let runtime = runtime();
    let acts: [(&str, Act); 2] = [
        ("removed", |path| std::fs::remove_file(path).unwrap()),
        ("replaced", |path| {
            std::fs::copy(path, path.with_extension("new")).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }),
    ];
    for (name, act) in acts {
        let path = disk_file(&directory, name, SIZE);
        let disk = open(&runtime, &path, &OpenOptions::default()).unwrap();
        runtime.block_on(async {
            let write = || disk.write_alone(Io::COMMIT, 0, vec![bytes(1, 4096)]);
            write().await.unwrap();
            act(&path);
            assert_gone(write().await, name);
            everything_fails(&disk).await;
        });
    }
}

#[test]
fn a_flush_of_a_replaced_file_is_not_acknowledged() {
    let directory = directory();
    let runtime = runtime();
    for engine in ENGINES {
        let path = disk_file(&directory, "disk", SIZE);
        let disk = open(&runtime, &path, &OpenOptions { engine, ..Default::default() }).unwrap();
        runtime.block_on(async {
            let data = bytes(1, 4096);
            disk.write_at(Io::SCAN, 0, data, Durability::Cached).await.unwrap();
            let other = disk_file(&directory, "other", SIZE);
            std::fs::rename(&other, &path).unwrap();
            assert_gone(disk.flush(Io::COMMIT).await, "a flush of a replaced file");
            everything_fails(&disk).await;
        });
    }
}

#[test]
fn the_watcher_sees_unlink_rename_and_truncate_unasked() {
    let directory = directory();
    let runtime = runtime();
    let acts: [(&str, Act); 3] = [
        ("unlink", |path| std::fs::remove_file(path).unwrap()),
        ("rename", |path| std::fs::rename(path, path.with_extension("away")).unwrap()),
        ("truncate", |path| {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(4096).unwrap();
        }),
    ];
    for (name, act) in acts {
        let path = disk_file(&directory, name, SIZE);
        let disk = open(&runtime, &path, &OpenOptions::default()).unwrap();
        assert_eq!(disk.gone(), None);
        let env = runtime.env();
        runtime.block_on(async {
            let start = env.now();
            act(&path);
            let reason = disk.wait_gone().await;
            assert!(env.now().since(start) < Duration::from_secs(2), "{name} was seen late");
            assert_eq!(disk.gone(), Some(reason));
            everything_fails(&disk).await;
        });
    }
}

#[test]
fn a_file_that_grows_is_a_disk_that_grows() {
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    let runtime = runtime();
    let disk = open(&runtime, &path, &OpenOptions::default()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(2 * SIZE as u64 + 100).unwrap();
    runtime.block_on(async {
        for _ in 0..200 {
            if disk.geometry().size == 2 * SIZE as u64 {
                return;
            }
            runtime.env().sleep(Duration::from_millis(10)).await;
        }
        panic!("the disk did not grow");
    });
}
