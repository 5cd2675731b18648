//! Round trips: bytes written are read back, on every engine and access.

use std::sync::Arc;

use bytes::Bytes;
use cellar_io::real::{Access, EngineChoice, FilesystemIo, OpenOptions, RealDisk, io_mode};
use cellar_io::{Buffer, Device, DeviceExt, Discard, Durability, Io, IoErrorKind};

use crate::support::{ACCESSES, ENGINES, bytes, directory, disk_file, open, pattern, runtime};

const SIZE: usize = 8 << 20;

/// Every law of a device that one file can show.
async fn exercise(disk: &dyn Device, sector: usize) {
    single_pieces(disk, sector).await;
    many_pieces_then_none(disk, sector).await;
    wrong_requests(disk, sector).await;
    let first = disk.read_at(Io::FOREGROUND, 0, sector).await.unwrap();
    assert_eq!(&first[..], &pattern(0, sector)[..], "nobody touched the first sector");
}

async fn single_pieces(disk: &dyn Device, sector: usize) {
    for (place, durability) in [(0, Durability::Durable), (3, Durability::Cached)] {
        let offset = (place * sector) as u64;
        disk.write_at(Io::COMMIT, offset, bytes(place as u64, sector), durability).await.unwrap();
        let read = disk.read_at(Io::FOREGROUND, offset, sector).await.unwrap();
        assert_eq!(&read[..], &pattern(place as u64, sector)[..]);
    }
    disk.flush(Io::COMMIT).await.unwrap();
}

/// From a task of a worker, where the thread may wait, and between other tasks of the same worker.
async fn alone(disk: Arc<RealDisk>, sector: usize) {
    for round in 0..20 {
        let writes = (0..4).map(|task| {
            let disk = Arc::clone(&disk);
            let place = round * 4 + task;
            tokio::spawn(async move {
                let pieces = vec![bytes(place, sector), bytes(place + 1000, sector)];
                let offset = place * 2 * sector as u64;
                disk.write_alone(Io::COMMIT, offset, pieces).await.unwrap();
                let read = disk.read_at(Io::FOREGROUND, offset, 2 * sector).await.unwrap();
                assert_eq!(&read[..sector], &pattern(place, sector)[..]);
                assert_eq!(&read[sector..], &pattern(place + 1000, sector)[..]);
            })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap();
        }
    }
    let misplaced = disk.write_alone(Io::COMMIT, 1, vec![bytes(0, sector)]).await.unwrap_err();
    assert!(matches!(misplaced.kind, IoErrorKind::Misaligned { .. }), "{misplaced}");
    disk.write_alone(Io::COMMIT, 0, Vec::new()).await.unwrap();
}

#[test]
fn a_write_that_is_alone_is_read_on_every_engine_and_access() {
    let directory = directory();
    let runtime = runtime();
    for engine in ENGINES {
        for access in ACCESSES {
            let path = disk_file(&directory, "disk", SIZE);
            let options = OpenOptions { engine, access, ..OpenOptions::default() };
            let disk = open(&runtime, &path, &options).unwrap();
            let sector = disk.geometry().logical_sector as usize;
            runtime.block_on(alone(disk, sector));
        }
    }
}

async fn many_pieces_then_none(disk: &dyn Device, sector: usize) {
    // At odd addresses, and more than the kernel takes at once.
    let whole = pattern(7, 1500 * sector);
    let odd: Vec<Bytes> = whole
        .chunks(sector)
        .map(|piece| {
            let mut padded = vec![0u8; 3];
            padded.extend_from_slice(piece);
            Bytes::from(padded).slice(3..)
        })
        .collect();
    let offset = 8 * sector as u64;
    disk.write(Io::SCAN, offset, odd, Durability::Cached).await.unwrap();
    let mut rest = Buffer::new(whole.len());
    let mut buffers: Vec<Buffer> = (0..1499).map(|_| rest.split_to(sector)).collect();
    buffers.push(rest);
    let buffers = disk.read(Io::SCAN, offset, buffers).await.unwrap();
    let read: Vec<u8> = buffers.iter().flat_map(|b| b.iter().copied()).collect();
    assert!(read == whole, "1500 pieces come back as they were");
    // Zero and forget.
    let length = 64 * sector as u64;
    disk.discard(Io::BACKGROUND, offset, length, Discard::Zero).await.unwrap();
    let zeros = disk.read_at(Io::SCAN, offset, length as usize).await.unwrap();
    assert!(zeros.iter().all(|b| *b == 0));
    let kept = disk.read_at(Io::SCAN, offset + length, sector).await.unwrap();
    assert_eq!(&kept[..], &whole[64 * sector..65 * sector], "the neighbour is untouched");
    disk.discard(Io::BACKGROUND, offset, length, Discard::Forget).await.unwrap();
}

async fn wrong_requests(disk: &dyn Device, sector: usize) {
    let size = disk.geometry().size;
    assert!(disk.read(Io::SCAN, size, Vec::new()).await.unwrap().is_empty());
    let wrong = disk.read_at(Io::SCAN, 1, sector).await.unwrap_err();
    assert_eq!(wrong.kind, IoErrorKind::Misaligned { sector: sector as u32 });
    let data = Bytes::from(vec![1; sector / 2]);
    let wrong = disk.write_at(Io::SCAN, 0, data, Durability::Durable).await.unwrap_err();
    assert_eq!(wrong.kind, IoErrorKind::Misaligned { sector: sector as u32 });
    let wrong = disk.read_at(Io::SCAN, size - sector as u64, 2 * sector).await.unwrap_err();
    assert_eq!(wrong.kind, IoErrorKind::OutOfRange { size });
    let wrong = disk.discard(Io::SCAN, 0, size + sector as u64, Discard::Zero).await.unwrap_err();
    assert_eq!(wrong.kind, IoErrorKind::OutOfRange { size });
    let wrong = disk
        .write_at(Io::SCAN, u64::MAX - 4095, bytes(1, sector), Durability::Durable)
        .await
        .unwrap_err();
    assert_eq!(wrong.kind, IoErrorKind::OutOfRange { size });
}

pub fn exercise_on_every_engine(path: &std::path::Path, sector: Option<u32>) {
    let runtime = runtime();
    for engine in ENGINES {
        for access in ACCESSES {
            let options = OpenOptions { engine, access, sector, ..OpenOptions::default() };
            let disk = open(&runtime, path, &options).unwrap();
            assert_eq!(disk.effective().engine, engine, "{:?}", disk.effective().remarks);
            let sector = disk.geometry().logical_sector as usize;
            runtime.block_on(exercise(&*disk, sector));
            // The same from a task, so that it runs on a worker.
            let handle = runtime.real_env().tokio().spawn(async move {
                exercise(&*disk, sector).await;
            });
            runtime.block_on(handle).unwrap();
        }
    }
}

#[test]
fn what_is_written_is_read_on_every_engine_in_both_sectors() {
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    exercise_on_every_engine(&path, Some(4096));
    exercise_on_every_engine(&path, Some(512));
}

#[test]
fn hundreds_of_requests_in_flight_all_come_back() {
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    let runtime = runtime();
    for engine in ENGINES {
        let disk = open(&runtime, &path, &OpenOptions { engine, ..Default::default() }).unwrap();
        let blocks = SIZE / 4096;
        let tasks: Vec<_> = (0..blocks)
            .map(|block| {
                let disk = disk.clone();
                runtime.real_env().tokio().spawn(async move {
                    let offset = (block * 4096) as u64;
                    let data = bytes(block as u64, 4096);
                    disk.write_at(Io::SCAN, offset, data, Durability::Cached).await.unwrap();
                    let read = disk.read_at(Io::SCAN, offset, 4096).await.unwrap();
                    assert_eq!(&read[..], &pattern(block as u64, 4096)[..]);
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn a_dropped_future_leaves_nothing_broken() {
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    let runtime = runtime();
    for engine in ENGINES {
        let disk = open(&runtime, &path, &OpenOptions { engine, ..Default::default() }).unwrap();
        runtime.block_on(async {
            for round in 0..200u64 {
                let mut reads: Vec<_> = (0..8)
                    .map(|n| disk.read(Io::SCAN, n << 20, vec![Buffer::new(1 << 18)]))
                    .collect();
                for read in &mut reads {
                    // Once, so that the kernel has it.
                    let _ = futures_util::poll!(read);
                }
                drop(reads);
                // New memory may be the old memory: nobody may write to it behind our back.
                let mine = Buffer::copy_of(&pattern(round, 1 << 18), 1 << 18);
                let read = disk.read_at(Io::SCAN, 0, 4096).await.unwrap();
                assert!(mine[..] == pattern(round, 1 << 18)[..], "memory was overwritten");
                drop(read);
            }
        });
    }
}

#[test]
fn two_holders_conflict_and_the_error_names_the_disk() {
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    let runtime = runtime();
    let options = OpenOptions { lock: true, ..Default::default() };
    let first = open(&runtime, &path, &options).unwrap();
    let error = open(&runtime, &path, &options).unwrap_err();
    assert_eq!(error.kind, IoErrorKind::Busy);
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    drop(first);
    // The watcher may hold it for one more moment.
    runtime.block_on(async {
        use cellar_io::EnvExt;
        for _ in 0..100 {
            if open(&runtime, &path, &options).is_ok() {
                return;
            }
            runtime.env().sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("a lock outlived its holder");
    });
}

#[test]
fn what_cannot_be_a_disk_is_refused() {
    let directory = directory();
    let runtime = runtime();
    let refused = |path: &std::path::Path, options: &OpenOptions| {
        open(&runtime, path, options).unwrap_err().kind
    };
    let plain = OpenOptions::default();
    assert_eq!(refused(&directory.path().join("absent"), &plain), IoErrorKind::NotFound);
    assert!(matches!(refused(directory.path(), &plain), IoErrorKind::Unsupported { .. }));
    assert!(matches!(
        refused(std::path::Path::new("/dev/null"), &plain),
        IoErrorKind::Unsupported { .. }
    ));
    let path = disk_file(&directory, "disk", SIZE);
    for sector in [0, 1, 256, 1000, 8192] {
        let options = OpenOptions { sector: Some(sector), ..Default::default() };
        assert!(matches!(refused(&path, &options), IoErrorKind::Unsupported { .. }));
    }
    let options = OpenOptions { read_only: true, ..Default::default() };
    let disk = open(&runtime, &path, &options).unwrap();
    let write = disk.write_at(Io::COMMIT, 0, bytes(1, 4096), Durability::Durable);
    assert!(runtime.block_on(write).is_err(), "a disk opened read-only is not written");
}

#[test]
fn a_full_file_system_says_so() {
    // A file system of its own, of 1 MiB; only root may make one.
    let directory = directory();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(directory.path())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        eprintln!("not run: mounting a tmpfs needs root");
        return;
    }
    let path = directory.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let runtime = runtime();
    let outcomes: Vec<_> = ENGINES
        .iter()
        .map(|engine| {
            let options = OpenOptions { engine: *engine, ..Default::default() };
            let disk = open(&runtime, &path, &options).unwrap();
            assert!(!disk.effective().direct, "tmpfs is memory, whatever flags it takes");
            assert!(disk.effective().to_string().contains("tmpfs"));
            let data = bytes(1, 4 << 20);
            runtime.block_on(disk.write_at(Io::SCAN, 0, data, Durability::Cached)).unwrap_err()
        })
        .collect();
    drop(runtime);
    std::process::Command::new("umount").arg("-l").arg(directory.path()).status().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.kind, IoErrorKind::NoSpace);
    }
}

#[test]
fn oracles_parameters_choose_engine_and_access() {
    use Access::{Buffered, Direct};
    use EngineChoice::{Auto, Sync};
    use FilesystemIo::{Asynch, DirectIo, None, SetAll};
    for (option, on_file) in [
        (None, (Sync, Buffered)),
        (Asynch, (Auto, Buffered)),
        (DirectIo, (Sync, Direct)),
        (SetAll, (Auto, Direct)),
    ] {
        assert_eq!(io_mode(option, true, false), on_file);
        assert_eq!(io_mode(option, false, false), (Sync, on_file.1));
        assert_eq!(io_mode(option, true, true), (Auto, Direct), "block devices are direct");
        assert_eq!(io_mode(option, false, true), (Sync, Direct));
    }
}
