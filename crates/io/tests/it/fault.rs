//! Every fault does what it says, and ends when it is told to.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, IoErrorKind};

const IO: Io = Io::FOREGROUND;

fn machine() -> (Sim, Arc<SimDisk>) {
    let sim = Sim::new(11);
    let disk = sim.disk("d", SimDiskOptions::default());
    (sim, disk)
}

async fn put(disk: &SimDisk, offset: u64, value: u8) -> Result<(), IoErrorKind> {
    let data = vec![value; 4096].into();
    let write = disk.write_at(IO, offset, data, Durability::Cached).await;
    write.map_err(|e| e.kind)
}

async fn get(disk: &SimDisk, offset: u64) -> Result<u8, IoErrorKind> {
    let buffer = disk.read_at(IO, offset, 4096).await.map_err(|e| e.kind)?;
    Ok(buffer[100])
}

#[test]
fn medium_errors_hit_their_range_only() {
    let (sim, disk) = machine();
    sim.run(async {
        for offset in [0, 4096, 8192] {
            put(&disk, offset, 1).await.unwrap();
        }
        disk.fail_reads(4096..4097);
        assert_eq!(get(&disk, 4096).await, Err(IoErrorKind::Media));
        assert_eq!(get(&disk, 0).await, Ok(1));
        put(&disk, 4096, 2).await.unwrap();
        assert_eq!(get(&disk, 4096).await, Err(IoErrorKind::Media), "until healed");
        disk.heal();
        assert_eq!(get(&disk, 4096).await, Ok(2));

        disk.fail_reads_until_written(0..8192);
        assert_eq!(get(&disk, 0).await, Err(IoErrorKind::Media));
        put(&disk, 0, 3).await.unwrap();
        assert_eq!(get(&disk, 0).await, Ok(3), "rewriting remaps");
        assert_eq!(get(&disk, 4096).await, Err(IoErrorKind::Media));
        disk.heal();

        disk.fail_writes(8192..12_288);
        assert_eq!(put(&disk, 8192, 4).await, Err(IoErrorKind::Media));
        assert!([1, 4].contains(&get(&disk, 8192).await.unwrap()));
        disk.fail_flushes(true);
        assert!(disk.flush(IO).await.is_err());
        disk.heal();
        disk.flush(IO).await.unwrap();
    });
}

#[test]
fn a_pulled_disk_says_gone_and_comes_back_with_its_content() {
    let (sim, disk) = machine();
    sim.run(async {
        put(&disk, 0, 1).await.unwrap();
        disk.vanish();
        assert!(matches!(get(&disk, 0).await, Err(IoErrorKind::Gone { .. })));
        assert!(matches!(put(&disk, 0, 2).await, Err(IoErrorKind::Gone { .. })));
        assert!(disk.flush(IO).await.is_err());
        disk.come_back();
        assert_eq!(get(&disk, 0).await, Ok(1));
    });
}

#[test]
fn a_hanging_disk_answers_later_or_never() {
    let (sim, disk) = machine();
    let env = sim.env();
    sim.run(async {
        put(&disk, 0, 1).await.unwrap();
        disk.hang();
        let asked = disk.clone();
        let read = env.run("reader", async move { get(&asked, 0).await });
        env.sleep(Duration::from_secs(100)).await;
        assert_eq!(disk.hung_requests(), 1);
        disk.unhang();
        assert_eq!(read.await, Some(Ok(1)));
        disk.hang();
        // Given up: the write may still happen, later.
        let patience = env.sleep(Duration::from_secs(1));
        let write = Box::pin(put(&disk, 0, 7));
        let _ = futures_util::future::select(patience, write).await;
        assert_eq!(disk.peek(0, 1), [1]);
        disk.unhang();
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(disk.peek(0, 1), [7]);
    });
}

#[test]
fn silent_faults_are_silent() {
    let (sim, disk) = machine();
    sim.run(async {
        for offset in [0, 4096, 8192] {
            put(&disk, offset, 1).await.unwrap();
        }
        disk.lose_next_write();
        put(&disk, 0, 2).await.unwrap();
        assert_eq!(get(&disk, 0).await, Ok(1), "lost");
        put(&disk, 0, 3).await.unwrap();
        assert_eq!(get(&disk, 0).await, Ok(3), "only one");

        disk.misdirect_next_write(8192);
        put(&disk, 4096, 4).await.unwrap();
        assert_eq!(get(&disk, 4096).await, Ok(1));
        assert_eq!(get(&disk, 8192).await, Ok(4));

        disk.misdirect_next_read(8192);
        assert_eq!(get(&disk, 0).await, Ok(4));
        assert_eq!(get(&disk, 0).await, Ok(3), "only one");

        let before = disk.peek(0, 12_288);
        disk.corrupt(4096, 4096);
        let after = disk.peek(0, 12_288);
        assert_eq!(before[..4096], after[..4096]);
        assert_ne!(before[4096..8192], after[4096..8192]);
        assert_eq!(before[8192..], after[8192..]);
        assert_eq!(disk.peek_durable(4096, 4096), after[4096..8192]);
        disk.poke(5, b"hello");
        assert_eq!(disk.peek_durable(4, 7), [3, b'h', b'e', b'l', b'l', b'o', 3]);
    });
}

#[test]
fn a_flush_that_lies_loses_writes_at_a_crash() {
    let mut lost = 0;
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", SimDiskOptions::default());
        disk.lying_flush(true);
        sim.run(async {
            put(&disk, 0, 1).await.unwrap();
            disk.flush(IO).await.unwrap();
            let data = vec![1; 4096].into();
            disk.write_at(IO, 4096, data, Durability::Durable).await.unwrap();
        });
        assert_eq!(disk.unflushed_bytes(), 8192);
        sim.crash();
        sim.restart();
        lost += u32::from(disk.peek(0, 8192) != [1; 8192]);
    }
    assert!(lost > 20, "{lost} of 60");
}

#[test]
fn a_snapshot_brings_an_old_time_back() {
    let (sim, disk) = machine();
    sim.run(async {
        put(&disk, 0, 1).await.unwrap();
        let old = disk.snapshot();
        put(&disk, 0, 2).await.unwrap();
        put(&disk, 4096, 2).await.unwrap();
        disk.flush(IO).await.unwrap();
        disk.replace_with_snapshot(&old);
        assert_eq!((get(&disk, 0).await, get(&disk, 4096).await), (Ok(1), Ok(0)));
        assert_eq!(disk.peek_durable(0, 1), [1]);
    });
}

#[test]
fn a_slow_disk_takes_its_factor_longer() {
    let sim = Sim::new(1);
    let options =
        SimDiskOptions { latency_ns_min: 1000, latency_ns_max: 1000, ..Default::default() };
    let disk = sim.disk("d", options);
    sim.run(async {
        let start = sim.now();
        put(&disk, 0, 1).await.unwrap();
        assert_eq!(sim.now().since(start), Duration::from_nanos(1000));
        disk.slow(500);
        put(&disk, 0, 1).await.unwrap();
        assert_eq!(sim.now().since(start), Duration::from_nanos(501_000));
    });
}
