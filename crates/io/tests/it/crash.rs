//! Power cuts of a simulated disk: what they take and what they leave.

use std::collections::BTreeSet;

use cellar_io::sim::{Rng, Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Discard, Durability, Io};
use futures_util::future::join_all;

const IO: Io = Io::FOREGROUND;

fn bytes(value: u8, length: usize) -> bytes::Bytes {
    vec![value; length].into()
}

/// The value that fills each sector; a sector with two values in it is a failure.
fn sectors(disk: &SimDisk, offset: u64, count: usize, sector: usize) -> Vec<u8> {
    let content = disk.peek(offset, (count * sector) as u64);
    content
        .chunks(sector)
        .map(|sector| {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is never torn inside");
            sector[0]
        })
        .collect()
}

fn options(sector: u32) -> SimDiskOptions {
    SimDiskOptions { logical_sector: sector, physical_sector: 4096, ..SimDiskOptions::default() }
}

#[test]
fn flushed_and_durable_writes_survive_every_crash() {
    for seed in 0..300 {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", options(512));
        sim.run(async {
            disk.write_at(IO, 0, bytes(1, 8192), Durability::Cached).await.unwrap();
            // Over an unflushed write: what is durable must not be undone by what is older.
            disk.write_at(IO, 16_384, bytes(1, 4096), Durability::Cached).await.unwrap();
            disk.write_at(IO, 16_384, bytes(3, 4096), Durability::Durable).await.unwrap();
            disk.flush(IO).await.unwrap();
            disk.write_at(IO, 4096, bytes(2, 8192), Durability::Cached).await.unwrap();
            disk.write_at(IO, 32_768, bytes(4, 4096), Durability::Cached).await.unwrap();
            disk.write_at(IO, 32_768, bytes(5, 4096), Durability::Durable).await.unwrap();
        });
        sim.crash();
        sim.restart();
        assert_eq!(sectors(&disk, 0, 8, 512), [1; 8]);
        assert!(sectors(&disk, 4096, 8, 512).iter().all(|v| [1, 2].contains(v)));
        assert!(sectors(&disk, 8192, 8, 512).iter().all(|v| [0, 2].contains(v)));
        assert_eq!(sectors(&disk, 16_384, 8, 512), [3; 8]);
        assert_eq!(sectors(&disk, 32_768, 8, 512), [5; 8]);
        assert_eq!(disk.peek(0, 65_536), disk.peek_durable(0, 65_536));
    }
}

#[test]
fn every_subset_of_three_pending_sectors_is_reached() {
    for (sector, in_flight) in [(512, false), (4096, false), (512, true), (4096, true)] {
        let mut reached = BTreeSet::new();
        for seed in 0..400 {
            let sim = Sim::new(seed);
            let disk = sim.disk("d", options(sector));
            if in_flight {
                // Three submissions, then the machine stops: none has completed.
                sim.crash_after(3);
            }
            sim.run(async {
                join_all((0..3).map(|i| {
                    let data = bytes(9, sector as usize);
                    disk.write_at(IO, i * 8192, data, Durability::Cached)
                }))
                .await
            });
            assert_eq!(sim.crashed(), in_flight);
            sim.crash();
            sim.restart();
            let kept: Vec<bool> =
                (0..3).map(|i| sectors(&disk, i * 8192, 1, sector as usize)[0] == 9).collect();
            reached.insert(kept);
        }
        assert_eq!(reached.len(), 8, "sector {sector}, in flight {in_flight}");
    }
}

#[test]
fn a_later_write_may_survive_an_earlier_one_and_the_other_way_round() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", options(4096));
        sim.run(async {
            for value in [1, 2, 3] {
                let data = bytes(value, 4096);
                disk.write_at(IO, 0, data, Durability::Cached).await.unwrap();
            }
        });
        sim.crash();
        sim.restart();
        seen.insert(sectors(&disk, 0, 1, 4096)[0]);
    }
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_flush_covers_what_completed_before_it_was_issued_and_no_more() {
    let mut lost = 0;
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", options(4096));
        sim.run(async {
            disk.write_at(IO, 0, bytes(1, 4096), Durability::Cached).await.unwrap();
            let flush = disk.flush(IO);
            let write = disk.write_at(IO, 4096, bytes(2, 4096), Durability::Cached);
            // Issued in this order, at one time.
            let (flushed, written) = futures_util::join!(flush, write);
            flushed.unwrap();
            written.unwrap();
        });
        sim.crash();
        sim.restart();
        assert_eq!(sectors(&disk, 0, 1, 4096), [1]);
        lost += u32::from(sectors(&disk, 4096, 1, 4096) == [0]);
    }
    assert!(lost > 20, "the second write was not flushed: {lost} of 200 lost it");
}

#[test]
fn every_crash_point_of_a_run_is_reachable_and_keeps_the_promise() {
    let run = |seed: u64, crash: Option<u64>| {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", options(512));
        if let Some(n) = crash {
            sim.crash_after(n);
        }
        let mut acknowledged = 0u8;
        let finished = sim.run(async {
            for value in 1..=6u8 {
                let offset = u64::from(value) * 4096;
                let data = bytes(value, 4096);
                if value % 2 == 0 {
                    disk.write_at(IO, offset, data, Durability::Durable).await.unwrap();
                } else {
                    disk.write_at(IO, offset, data, Durability::Cached).await.unwrap();
                    disk.flush(IO).await.unwrap();
                }
                acknowledged = value;
            }
        });
        let events = sim.io_events();
        sim.crash();
        sim.restart();
        for value in 1..=acknowledged {
            let found = sectors(&disk, u64::from(value) * 4096, 8, 512);
            assert_eq!(found, [value; 8], "acknowledged, so there");
        }
        (finished.is_some(), events)
    };
    let (_, events) = run(0, None);
    assert_eq!(events, 2 * 9);
    for point in 1..=events {
        for seed in 0..30 {
            assert_eq!(run(seed, Some(point)), (false, point));
        }
    }
}

#[test]
fn live_is_durable_plus_pending_after_any_mixture() {
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", SimDiskOptions { cache_bytes: 40_000, ..options(512) });
        let mut rng = Rng::new(seed);
        for _ in 0..5 {
            let crash = rng.coin().then(|| rng.within(1..=60));
            if let Some(n) = crash {
                sim.crash_after(n);
            } else {
                sim.crash_never();
            }
            let done = sim.run(join_all((0..30).map(|_| {
                let (offset, value) = (rng.below(40) * 512, rng.bits() as u8);
                let (kind, count) = (rng.below(8), rng.within(1..=9));
                let disk = &disk;
                async move {
                    let durable = if kind < 2 { Durability::Durable } else { Durability::Cached };
                    match kind {
                        0..5 => {
                            let data = bytes(value, count as usize * 512);
                            disk.write_at(IO, offset, data, durable).await.unwrap();
                        }
                        5 => disk.flush(IO).await.unwrap(),
                        6 => disk.discard(IO, offset, count * 512, Discard::Zero).await.unwrap(),
                        _ => drop(disk.read_at(IO, offset, count as usize * 512).await.unwrap()),
                    }
                }
            })));
            if done.is_none() {
                sim.restart();
                assert_eq!(disk.peek(0, 65_536), disk.peek_durable(0, 65_536));
                assert_eq!(disk.unflushed_bytes(), 0);
            } else {
                sim.crash_never();
                sim.run(disk.flush(IO)).unwrap().unwrap();
                assert_eq!(disk.peek(0, 65_536), disk.peek_durable(0, 65_536));
            }
        }
    }
}

#[test]
fn a_read_beside_a_write_sees_either_and_never_goes_back() {
    let (mut torn, mut lost_after_seen) = (0, 0);
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let options =
            SimDiskOptions { latency_ns_min: 10_000, latency_ns_max: 100_000, ..options(512) };
        let disk = sim.disk("d", options);
        let reader = async {
            let mut seen = vec![0u8; 8];
            for _ in 0..6 {
                let read = disk.read_at(IO, 0, 4096).await.unwrap();
                let now: Vec<u8> = read.chunks(512).map(|sector| sector[0]).collect();
                let back = seen.iter().zip(&now).any(|(old, new)| old > new);
                assert!(!back, "a sector that was new is old again: {seen:?}, {now:?}");
                torn += u32::from(now.contains(&0) && now.contains(&1));
                seen = now;
            }
            seen
        };
        disk.slow(4);
        let mut write = disk.write_at(IO, 0, bytes(1, 4096), Durability::Cached);
        let seen = sim.run(async {
            // The write is on its way, slowly; the reads are quick.
            let _ = futures_util::poll!(&mut write);
            disk.slow(1);
            reader.await
        });
        sim.crash();
        sim.restart();
        let left = sectors(&disk, 0, 8, 512);
        lost_after_seen += u32::from(seen.unwrap().iter().zip(left).any(|(s, l)| *s > l));
    }
    assert!(torn > 20, "half-done writes were seen: {torn} times");
    assert!(lost_after_seen > 20, "what was seen but not flushed may go: {lost_after_seen} times");
}
