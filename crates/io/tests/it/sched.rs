//! The scheduler of a disk, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::sched::{Observer, ScheduleOptions, Scheduled};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{
    Buffer, Class, Device, DeviceExt, Discard, Durability, EnvExt, Geometry, Io, IoFuture, Op,
    Owner,
};
use futures_util::future::{join_all, select};

use crate::replay::cputime;

const SERVICE: Duration = Duration::from_micros(100);

/// A disk that takes exactly 100 us for each request, any number at once, behind a scheduler.
fn scheduled(sim: &Sim, options: ScheduleOptions) -> (Arc<SimDisk>, Arc<Scheduled>) {
    let disk = sim.disk(
        "d",
        SimDiskOptions {
            latency_ns_min: 100_000,
            latency_ns_max: 100_000,
            queue: 0,
            ..SimDiskOptions::default()
        },
    );
    let scheduled = Scheduled::new(disk.clone(), sim.env(), options, None);
    (disk, Arc::new(scheduled))
}

fn limits(depth: u32, scan_depth: u32) -> ScheduleOptions {
    ScheduleOptions { depth, scan_depth }
}

#[test]
fn three_busy_classes_share_eight_to_four_to_one_and_none_starves() {
    for seed in 0..5 {
        let sim = Sim::new(seed);
        let (disk, device) = scheduled(&sim, limits(8, 8));
        let env = sim.env();
        let served: Arc<[AtomicU64; 4]> = Arc::default();
        sim.run(async {
            for client in 0..96u64 {
                let (device, served) = (device.clone(), served.clone());
                let class =
                    [Class::Foreground, Class::Scan, Class::Background][client as usize % 3];
                let work = async move {
                    loop {
                        let io = Io { class, owner: Owner(1) };
                        device.read_at(io, client * 4096, 4096).await.unwrap();
                        served[class as usize].fetch_add(1, Ordering::Relaxed);
                    }
                };
                env.spawn("client", Box::pin(work));
            }
            for _ in 0..100 {
                env.sleep(Duration::from_millis(10)).await;
                assert!(disk.in_flight() <= 8, "the depth is kept");
            }
        });
        let share = |class: Class| served[class as usize].load(Ordering::Relaxed) as f64 / 80_000.0;
        for (class, expected) in [
            (Class::Foreground, 8.0 / 13.0),
            (Class::Scan, 4.0 / 13.0),
            (Class::Background, 1.0 / 13.0),
        ] {
            let share = share(class);
            assert!((share / expected - 1.0).abs() < 0.01, "{class:?}: {share}, not {expected}");
        }
    }
}

#[test]
fn a_commit_waits_for_one_answer_at_most() {
    let sim = Sim::new(1);
    let (_, device) = scheduled(&sim, limits(4, 4));
    let env = sim.env();
    sim.run(async {
        for i in 0..200u64 {
            let device = device.clone();
            env.spawn(
                "load",
                Box::pin(async move {
                    drop(device.read_at(Io::BACKGROUND, i * 4096, 4096).await);
                }),
            );
        }
        for i in 0..20u64 {
            env.sleep(Duration::from_micros(37)).await;
            let start = env.now();
            let data = vec![1; 4096].into();
            device.write_at(Io::COMMIT, i * 4096, data, Durability::Durable).await.unwrap();
            assert!(env.now().since(start) <= 2 * SERVICE);
        }
    });
}

#[test]
fn scans_leave_room_for_a_block_somebody_waits_for() {
    let sim = Sim::new(1);
    let (disk, device) = scheduled(&sim, ScheduleOptions::default());
    let env = sim.env();
    sim.run(async {
        let scans: Vec<_> = (0..100u64)
            .map(|i| {
                let device = device.clone();
                env.run("scan", async move {
                    device.read_at(Io::SCAN, (i % 8) << 20, 1 << 20).await.map(drop)
                })
            })
            .collect();
        env.sleep(Duration::from_micros(1)).await;
        assert_eq!(disk.in_flight(), 32);
        assert_eq!(device.stats().classes[Class::Scan as usize].waiting, 68);
        let start = env.now();
        device.read_at(Io::FOREGROUND, 0, 4096).await.unwrap();
        assert_eq!(env.now().since(start), SERVICE, "it did not stand in a queue");
        for scan in scans {
            scan.await.unwrap().unwrap();
        }
    });
    let stats = device.stats();
    assert_eq!(stats.classes[Class::Foreground as usize].queued, 0);
    assert_eq!(stats.classes[Class::Scan as usize].queued, 68);
    assert_eq!(stats.classes[Class::Scan as usize].bytes, 100 << 20);
}

#[test]
fn one_class_is_served_in_order() {
    let sim = Sim::new(9);
    let (_, device) = scheduled(&sim, limits(1, 1));
    let order = Mutex::new(Vec::new());
    sim.run(join_all((0..50u64).map(|i| {
        let (device, order) = (&device, &order);
        async move {
            device.read_at(Io::FOREGROUND, 0, 4096).await.unwrap();
            order.lock().unwrap().push(i);
        }
    })));
    assert_eq!(order.into_inner().unwrap(), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_dropped_request_leaves_the_queue_or_its_slot() {
    let sim = Sim::new(2);
    let (disk, device) = scheduled(&sim, limits(2, 2));
    let env = sim.env();
    sim.run(async {
        let read = |offset| Box::pin(device.read_at(Io::FOREGROUND, offset, 4096));
        let (first, second) = (read(0), read(4096));
        let patience = |nanos| env.sleep(Duration::from_nanos(nanos));
        // Two in flight, two in the queue; then the third and one in flight are given up.
        let two = futures_util::future::join(first, second);
        let (third, fourth) = (read(8192), read(12_288));
        let start = env.now();
        let both = select(two, Box::pin(join_all([third, fourth])));
        drop(select(both, patience(50_000)).await);
        let stats = device.stats();
        assert_eq!((stats.in_flight, stats.classes[1].waiting), (0, 0));
        assert_eq!(disk.in_flight(), 2, "the disk goes on all the same");
        read(0).await.unwrap();
        assert_eq!(env.now().since(start), Duration::from_micros(150));
    });
}

#[test]
fn a_slot_granted_to_a_request_that_is_dropped_goes_to_the_next() {
    // Whichever of the two tasks runs first after the slot is free, nobody may wait for ever.
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let (_, device) = scheduled(&sim, limits(1, 1));
        let env = sim.env();
        sim.run(async {
            let tasks: Vec<_> = (0..20u64)
                .map(|i| {
                    let (device, env) = (device.clone(), env.clone());
                    env.clone().run("impatient", async move {
                        let read = Box::pin(device.read_at(Io::FOREGROUND, 0, 4096));
                        if i % 2 == 0 {
                            // Given up at the very moment at which a slot may be granted.
                            drop(select(read, env.sleep(SERVICE * (i as u32 + 1))).await);
                        } else {
                            read.await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(device.stats().in_flight, 0);
        assert!(device.stats().read.requests >= 10);
    }
}

#[test]
fn limits_change_while_it_runs() {
    let sim = Sim::new(2);
    let (disk, device) = scheduled(&sim, limits(1, 1));
    let env = sim.env();
    sim.run(async {
        for _ in 0..40 {
            let device = device.clone();
            env.spawn(
                "load",
                Box::pin(async move {
                    drop(device.read_at(Io::SCAN, 0, 4096).await);
                }),
            );
        }
        env.sleep(Duration::from_micros(10)).await;
        assert_eq!(disk.in_flight(), 1);
        device.set_options(limits(8, 5));
        env.sleep(Duration::from_micros(10)).await;
        assert_eq!(disk.in_flight(), 5);
        device.set_options(limits(2, 5));
        env.sleep(SERVICE * 2).await;
        assert_eq!(disk.in_flight(), 2);
        assert_eq!(device.options(), limits(2, 5));
        env.sleep(SERVICE * 40).await;
        assert_eq!(device.stats().read.requests, 40);
    });
}

type Served = (Class, Op, u64, u64, bool);

#[derive(Default)]
struct Ear {
    queued: Mutex<Vec<(Class, u64)>>,
    served: Mutex<Vec<Served>>,
}

impl Observer for Ear {
    fn queued(&self, class: Class, nanos: u64) {
        self.queued.lock().unwrap().push((class, nanos));
    }

    fn served(&self, class: Class, op: Op, bytes: u64, nanos: u64, ok: bool) {
        self.served.lock().unwrap().push((class, op, bytes, nanos, ok));
    }
}

#[test]
fn what_was_done_is_counted_and_told() {
    let sim = Sim::new(2);
    let (disk, _) = scheduled(&sim, limits(1, 1));
    let ear = Arc::new(Ear::default());
    let device = Scheduled::new(disk.clone(), sim.env(), limits(1, 1), Some(ear.clone()));
    sim.run(async {
        let data = || vec![vec![1u8; 8192].into()];
        let write = device.write(Io::COMMIT, 0, data(), Durability::Cached);
        let second = device.write(Io::COMMIT, 8192, data(), Durability::Cached);
        let (a, b) = futures_util::join!(write, second);
        a.and(b).unwrap();
        device.flush(Io::COMMIT).await.unwrap();
        device.read_at(Io::SCAN, 0, 4096 * 3).await.unwrap();
        disk.fail_reads(0..1);
        assert!(device.read_at(Io::FOREGROUND, 0, 512).await.is_err());
        assert!(device.read_at(Io::FOREGROUND, 1, 512).await.is_err(), "misaligned");
    });
    let stats = device.stats();
    assert_eq!((stats.write.requests, stats.write.bytes, stats.write.sizes[13]), (2, 16_384, 2));
    assert_eq!((stats.read.requests, stats.read.errors), (3, 1), "our own mistake is no fault");
    assert_eq!((stats.read.sizes[13], stats.read.sizes[9]), (1, 2), "12 KB counts as 8 to 16");
    let small = stats.write.small;
    assert_eq!((small.requests, small.bytes, small.nanos), (2, 16_384, stats.write.nanos));
    assert_eq!((stats.flush.requests, stats.flush.bytes), (1, 0));
    assert_eq!(stats.write.nanos, 200_000);
    assert_eq!((stats.classes[0].queued, stats.classes[0].queued_nanos), (1, 100_000));
    assert_eq!(*ear.queued.lock().unwrap(), [(Class::Commit, 100_000)]);
    let served = ear.served.lock().unwrap();
    assert_eq!(served.len(), 6);
    assert_eq!(served[0], (Class::Commit, Op::Write, 8192, 100_000, true));
    assert!(!served[4].4 && served[5].4);
}

/// Answers at once, so that what is left is the scheduler.
struct Nothing;

impl Device for Nothing {
    fn geometry(&self) -> Geometry {
        unreachable!("nobody asks")
    }
    fn read(&self, _: Io, _: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move { Ok(buffers) })
    }
    fn write(&self, _: Io, _: u64, _: Vec<Bytes>, _: Durability) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn flush(&self, _: Io) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn discard(&self, _: Io, _: u64, _: u64, _: Discard) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_request_that_does_not_wait_costs_next_to_nothing() {
    const COUNT: u32 = 1_000_000;
    let sim = Sim::new(1);
    let measure = |device: &dyn Device| {
        let start = cputime();
        sim.run(async {
            for _ in 0..COUNT {
                device.read(Io::FOREGROUND, 0, Vec::new()).await.unwrap();
            }
        });
        (cputime() - start) / f64::from(COUNT) * 1e9
    };
    let bare = measure(&Nothing);
    let options = ScheduleOptions::default();
    let scheduled = measure(&Scheduled::new(Arc::new(Nothing), sim.env(), options, None));
    println!("{bare:.0} ns bare, {scheduled:.0} ns scheduled, clock reads not counted");
    assert!(scheduled - bare < 1000.0, "{bare} ns bare, {scheduled} ns scheduled");
}
