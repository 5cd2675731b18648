//! One seed, one history; and how fast histories are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cellar_io::sim::{Rng, Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};

const IO: Io = Io::FOREGROUND;

/// Writes, reads and flushes at random; gives back a digest of what was read.
async fn wander(env: SharedEnv, disk: Arc<SimDisk>, requests: u32) -> u64 {
    let mut seen = 0u64;
    for _ in 0..requests {
        let offset = env.random() % 64 * 4096;
        match env.random() % 8 {
            0 => disk.flush(IO).await.unwrap(),
            1..4 => {
                let data = vec![env.random() as u8; 4096].into();
                let write = disk.write_at(IO, offset, data, Durability::Cached);
                write.await.unwrap();
            }
            _ => {
                let read = disk.read_at(IO, offset, 4096).await.unwrap();
                seen = seen.rotate_left(5) ^ u64::from(read[17]);
            }
        }
    }
    seen
}

fn history(seed: u64, crash: Option<u64>) -> (Option<Vec<u64>>, u64, u64, u64) {
    let sim = Sim::new(seed);
    let env = sim.env();
    let disks: Vec<_> =
        (0..3).map(|i| sim.disk(&format!("disk{i}"), SimDiskOptions::default())).collect();
    assert_eq!(disks[0].geometry().logical_sector, 512);
    if let Some(n) = crash {
        sim.crash_after(n);
    }
    let digests = sim.run(async {
        let tasks: Vec<_> = (0..12)
            .map(|i| {
                let (env, disk) = (env.clone(), disks[i % 3].clone());
                env.clone().run("wander", wander(env, disk, 50))
            })
            .collect();
        let mut digests = Vec::new();
        for task in tasks {
            digests.push(task.await.expect("a task that is driven to its end"));
        }
        digests
    });
    if digests.is_none() {
        sim.restart();
    }
    let content = disks[1].peek(0, 64 * 4096);
    let sum = content.iter().fold(0u64, |a, b| a.rotate_left(3) ^ u64::from(*b));
    (digests, sim.trace_hash(), sim.io_events(), sum)
}

#[test]
fn two_runs_of_one_seed_are_equal() {
    for seed in 0..20 {
        assert_eq!(history(seed, None), history(seed, None));
        let crashed = history(seed, Some(100 + seed));
        assert_eq!(crashed.0, None, "the crash point was reached");
        assert_eq!(crashed.2, 100 + seed, "the machine stopped at that event");
        assert_eq!(crashed, history(seed, Some(100 + seed)));
    }
    assert_ne!(history(1, None).1, history(2, None).1);
}

#[test]
fn time_jumps_to_the_next_timer_and_tasks_are_picked_by_the_seed() {
    let mut first = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let env = sim.env();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        sim.run(async {
            let tasks: Vec<_> = (0..4)
                .map(|i| {
                    let order = order.clone();
                    env.run("t", async move { order.lock().unwrap().push(i) })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            let before = env.now();
            env.sleep(Duration::from_secs(3600)).await;
            assert_eq!(env.now().since(before), Duration::from_secs(3600));
        });
        first.insert(order.lock().unwrap()[0]);
    }
    assert_eq!(first.len(), 4, "each task comes first with some seed");
}

#[test]
#[should_panic(expected = "deadlock: the future is not done")]
fn a_future_that_can_never_end_is_named() {
    Sim::new(1).run(std::future::pending::<()>());
}

#[test]
fn a_crash_drops_tasks_and_the_machine_lives_again() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let sim = Sim::new(3);
    let env = sim.env();
    let result = sim.run(async {
        for _ in 0..5 {
            let counted = Counted(dropped.clone());
            env.spawn(
                "sleeper",
                Box::pin(async move {
                    std::future::pending::<()>().await;
                    drop(counted);
                }),
            );
        }
        env.sleep(Duration::from_millis(1)).await;
        sim.crash();
        env.sleep(Duration::from_millis(1)).await;
        unreachable!("the machine has stopped");
    });
    assert!(result.is_none());
    assert_eq!(dropped.load(Ordering::Relaxed), 5);
    let before = sim.now();
    sim.restart();
    assert_eq!(sim.run(async { env.now() }), Some(before), "time goes on");
}

#[test]
fn a_million_requests_take_well_under_a_minute() {
    let mut rng = Rng::new(5);
    let clock = cputime();
    let sim = Sim::new(rng.bits());
    let env = sim.env();
    let disk = sim.disk("disk", SimDiskOptions::default());
    sim.run(async {
        let tasks: Vec<_> =
            (0..16).map(|_| env.run("wander", wander(env.clone(), disk.clone(), 12_500))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(sim.io_events(), 2 * 16 * 12_500);
    let spent = cputime() - clock;
    println!("{:.2} us of CPU a simulated request", spent * 1e6 / 2e5);
    assert!(spent < 12.0, "200,000 requests took {spent} s of CPU");
}

#[test]
fn a_crash_and_recovery_cycle_is_cheap() {
    let clock = cputime();
    for seed in 0..2000 {
        let sim = Sim::new(seed);
        let env = sim.env();
        let disk = sim.disk("disk", SimDiskOptions::default());
        sim.crash_after(20 + seed % 20);
        let crashed = sim.run(wander(env.clone(), disk.clone(), 100));
        assert!(crashed.is_none());
        sim.restart();
        sim.run(wander(env, disk, 10)).unwrap();
    }
    let spent = cputime() - clock;
    println!("{:.1} us of CPU a crash and recovery", spent * 1e6 / 2e3);
    assert!(spent < 4.0, "2,000 cycles took {spent} s of CPU");
}

/// Seconds of CPU this thread has used: elapsed time would measure the neighbours.
pub(crate) fn cputime() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos: f64 = stat.split(' ').next().unwrap().parse().unwrap();
    nanos / 1e9
}
