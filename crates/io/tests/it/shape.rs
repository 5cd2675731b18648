//! The figures of shaped devices, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::shape::{self, Page, ReadAhead, ShapeOptions, Shaped, parse};
use cellar_io::sim::{Sim, SimDiskOptions};
use cellar_io::{
    Device, DeviceExt, Durability, Env, EnvExt, Instant, Io, SharedEnv, Task, WallTime,
};
use futures_util::stream::{self, StreamExt};

const MB: u64 = 1_000_000;

/// A sector size that divides 1 MB would not be a power of two: requests of 1 MiB then, and rates
/// in bytes.
const REQUEST: u64 = 1 << 20;

fn disk(sim: &Sim, name: &str) -> Arc<dyn Device> {
    sim.disk(
        name,
        SimDiskOptions {
            size: 1 << 40,
            latency_ns_min: 0,
            latency_ns_max: 0,
            queue: 0,
            ..SimDiskOptions::default()
        },
    )
}

fn shaped(sim: &Sim, name: &str, options: ShapeOptions) -> Arc<Shaped> {
    Arc::new(Shaped::new(disk(sim, name), sim.env(), options))
}

/// Reads `count` MiB, striped over `disks` by the MiB, `depth` at once; bytes a second.
fn scan(sim: &Sim, disks: &[Arc<Shaped>], count: u64, depth: usize) -> f64 {
    let start = sim.now();
    sim.run(async {
        stream::iter(0..count)
            .map(|i| {
                let disk = disks[(i % disks.len() as u64) as usize].clone();
                let offset = i / disks.len() as u64 * REQUEST;
                async move { disk.read_at(Io::SCAN, offset, REQUEST as usize).await.map(drop) }
            })
            .buffered(depth)
            .for_each(async |read| read.unwrap())
            .await;
    });
    (count * REQUEST) as f64 / sim.now().since(start).as_secs_f64()
}

#[test]
fn two_disks_are_exactly_twice_one() {
    let options = ShapeOptions { bytes_per_second: 200 * MB, ..ShapeOptions::default() };
    let sim = Sim::new(1);
    let pair = [shaped(&sim, "a", options), shaped(&sim, "b", options)];
    let one = scan(&sim, &pair[..1], 1000, 32);
    let two = scan(&sim, &pair, 2000, 64);
    assert!((one / 200e6 - 1.0).abs() < 1e-6, "{one}");
    assert!((two / one - 2.0).abs() < 1e-6, "{two} over {one}");
}

#[test]
fn iops_latency_and_depth_bound_the_rate() {
    let sim = Sim::new(1);
    let rate = |words: &str, depth| {
        let disk = shaped(&sim, words, parse(words).unwrap());
        scan(&sim, &[disk], 500, depth) / REQUEST as f64
    };
    assert!((rate("250iops", 8) - 250.0).abs() < 0.01);
    assert!((rate("250iops,10GB/s", 1) - 250.0).abs() < 0.01, "the slower of the two decides");
    assert!((rate("4ms", 1) - 250.0).abs() < 0.01, "latency alone, one at a time");
    assert!((rate("4ms", 8) - 2000.0).abs() < 20.0, "and eight at once");
    assert!((rate("4ms,qd2", 8) - 500.0).abs() < 5.0, "of which two get in");
    let both = shaped(&sim, "g", parse("1iops,qd7").unwrap());
    assert_eq!(both.geometry().queue_depth, 7);
}

#[test]
fn writes_and_flushes_take_their_time_too() {
    let sim = Sim::new(1);
    let disk = shaped(&sim, "w", parse("200MB/s,1ms").unwrap());
    sim.run(async {
        let start = sim.now();
        let data = vec![7; 2 << 20].into();
        disk.write_at(Io::COMMIT, 0, data, Durability::Cached).await.unwrap();
        let nanos = (2 << 20) * 5 + 1_000_000;
        assert_eq!(sim.now().since(start), Duration::from_nanos(nanos));
        disk.flush(Io::COMMIT).await.unwrap();
        assert_eq!(sim.now().since(start), Duration::from_nanos(nanos + 1_000_000));
        let read = disk.read_at(Io::COMMIT, 1 << 20, 4096).await.unwrap();
        assert!(read.iter().all(|b| *b == 7), "the request is really done");
    });
}

#[test]
fn a_disk_that_turns_is_slower_inside_and_its_head_takes_time() {
    let sim = Sim::new(1);
    let options = parse("200MB/s,inner:100MB/s,seek:5ms").unwrap();
    let disk = shaped(&sim, "t", options);
    let size = disk.geometry().size;
    let time = |offset: u64| {
        sim.run(async {
            let start = sim.now();
            disk.read_at(Io::SCAN, offset, REQUEST as usize).await.unwrap();
            sim.now().since(start).as_secs_f64()
        })
        .unwrap()
    };
    let transfer = |rate: f64| REQUEST as f64 / rate;
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-4, "{a}, not {b}");
    near(time(0), transfer(200e6));
    near(time(REQUEST), transfer(200e6));
    near(time(size - REQUEST), 0.005 + transfer(100e6));
    // Half of the bytes lie outside of where the rate is the root of the mean square.
    near(time(size / 2), 0.005 + transfer((2.5e16_f64).sqrt()));
}

/// A storage array on a 2 Gbit link that forgets a reader who is away for 2 ms.
fn array_lun() -> ShapeOptions {
    ShapeOptions {
        bytes_per_second: 196 * MB,
        read_ahead: Some(ReadAhead {
            hit_latency: Duration::from_micros(4000),
            miss_latency: Duration::from_micros(7300),
            window: Duration::from_millis(2),
        }),
        ..ShapeOptions::default()
    }
}

#[test]
fn a_serial_reader_is_faster_on_one_link_than_in_turns_on_two() {
    let sim = Sim::new(1);
    let pair = [shaped(&sim, "a", array_lun()), shaped(&sim, "b", array_lun())];
    let one = scan(&sim, &pair[..1], 2000, 1) / 1e6;
    let turns = scan(&sim, &pair, 2000, 1) / 1e6;
    assert!((109.0..114.0).contains(&one), "one link: {one} MB/s");
    assert!((80.0..85.0).contains(&turns), "two in turns: {turns} MB/s");
    let deep = scan(&sim, &pair, 4000, 64) / 1e6;
    assert!((388.0..392.1).contains(&deep), "two at depth 32 each: {deep} MB/s");
}

#[test]
fn a_hit_is_the_next_byte_within_the_window() {
    let sim = Sim::new(1);
    let env = sim.env();
    let disk = shaped(&sim, "a", array_lun());
    let transfer = Duration::from_nanos(4096 * 1000 / 196 + 1);
    let (hit, miss) = (Duration::from_millis(4), Duration::from_micros(7300));
    sim.run(async {
        for (pause_us, offset, wait) in [
            (0, 0, miss),
            (0, 4096, hit),
            (1999, 8192, hit),
            (2001, 12_288, miss),
            (0, 20_480, miss),
            (0, 20_480, miss),
            (0, 24_576, hit),
        ] {
            env.sleep(Duration::from_micros(pause_us)).await;
            let start = env.now();
            disk.read_at(Io::SCAN, offset, 4096).await.unwrap();
            let took = env.now().since(start);
            assert!(
                took.abs_diff(wait + transfer) <= Duration::from_nanos(2),
                "{offset}: {took:?}"
            );
        }
    });
}

/// An environment whose timers are late, as real ones are.
struct Late(SharedEnv);

impl Env for Late {
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn wall(&self) -> WallTime {
        self.0.wall()
    }
    fn sleep_until(&self, deadline: Instant) -> Task {
        let late = self.0.random() % 150_000 + 1;
        self.0.sleep_until(deadline.plus(Duration::from_nanos(late)))
    }
    fn spawn(&self, name: &'static str, task: Task) {
        self.0.spawn(name, task);
    }
    fn random(&self) -> u64 {
        self.0.random()
    }
}

#[test]
fn late_timers_do_not_change_the_long_run() {
    let sim = Sim::new(1);
    let env: SharedEnv = Arc::new(Late(sim.env()));
    for (depth, expected) in [(1, 112e6), (32, 196e6)] {
        let lun = Shaped::new(disk(&sim, "late"), env.clone(), array_lun());
        let rate = scan(&sim, &[Arc::new(lun)], 1000, depth);
        let exact = Sim::new(1);
        let lun = shaped(&exact, "exact", array_lun());
        let want = scan(&exact, &[lun], 1000, depth);
        assert!((rate / want - 1.0).abs() < 0.01, "depth {depth}: {rate} for {want}");
        assert!((want / expected - 1.0).abs() < 0.02, "{want}");
    }
}

/// What `count` durable writes of `bytes` take, one after the other, each where the last one ended.
fn log_writes(sim: &Sim, disk: &Arc<Shaped>, bytes: usize, count: u64) -> Vec<Duration> {
    let env = sim.env();
    sim.run(async {
        let mut times = Vec::new();
        for i in 0..count {
            let (start, data) = (env.now(), vec![7u8; bytes].into());
            let write = disk.write_at(Io::COMMIT, i * bytes as u64, data, Durability::Durable);
            write.await.unwrap();
            times.push(env.now().since(start));
        }
        times
    })
    .unwrap()
}

#[test]
fn a_page_that_a_write_covers_in_part_costs_a_rewrite() {
    let (latency, rewrite) = (Duration::from_micros(100), Duration::from_micros(300));
    let page = Some(Page { bytes: 4096, rewrite });
    let options = ShapeOptions { latency, page, ..ShapeOptions::default() };
    let sim = Sim::new(1);
    let flash = shaped(&sim, "flash", options);
    assert_eq!(flash.geometry().physical_sector, 4096);
    assert!(log_writes(&sim, &flash, 4096, 8).iter().all(|time| *time == latency));
    assert!(log_writes(&sim, &flash, 512, 16).iter().all(|time| *time == latency + rewrite));
    // Pages that each write of 1536 bytes covers in part: it begins at sector 0, 3, 6 of 8 and so on.
    let torn = [1, 1, 2, 1, 1, 2, 1, 1];
    let took = log_writes(&sim, &flash, 1536, 8);
    assert!(
        took.iter().zip(torn).all(|(time, torn)| *time == latency + rewrite * torn),
        "{took:?}"
    );
    // 10 KiB: two whole pages and half of one.
    assert_eq!(log_writes(&sim, &flash, 10_240, 1), [latency + rewrite]);
    // Two at once that share a page: the second waits for the first.
    let env = sim.env();
    let start = sim.now();
    sim.run(async {
        let write =
            |at: u64| flash.write_at(Io::COMMIT, at, vec![7u8; 512].into(), Durability::Durable);
        let (a, b) = futures_util::join!(write(0), write(512));
        a.and(b).unwrap();
    });
    assert_eq!(env.now().since(start), latency + rewrite * 2);
}

#[test]
fn as_many_writes_are_late_as_it_says() {
    let (latency, by) = (Duration::from_micros(50), Duration::from_millis(20));
    let late = Some(shape::Late { per_million: 10_000, by });
    let sim = Sim::new(1);
    let disk = shaped(&sim, "disk", ShapeOptions { latency, late, ..ShapeOptions::default() });
    let took = log_writes(&sim, &disk, 4096, 10_000);
    let late = took.iter().filter(|time| **time == latency + by).count();
    assert!((70..130).contains(&late), "{late} of 10000");
    assert!(took.iter().all(|time| *time == latency || *time == latency + by));
}
