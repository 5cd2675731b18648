//! Benchmark of the clocks: the cost of one reading of each, and of a wait timed by it.
//!
//! `cargo bench -p cellar-io --profile release --bench clock [-- ROUNDS]`: goal 100 ns for a wait
//! timed by the system clock, 60 ns by the counter of cycles.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;

use cellar_io::real::{Clock, Runtime, RuntimeOptions};
use cellar_io::{Env, SharedEnv};
use cellar_wait::{Event, Kind, Waits};

const WAITS_PER_ROUND: u64 = 200_000;

/// Nanoseconds per repetition of `work`, one figure a round, in order of size.
fn measure(env: &SharedEnv, rounds: usize, mut work: impl FnMut()) -> Vec<f64> {
    let mut figures: Vec<f64> = (0..=rounds)
        .map(|_| {
            let start = env.now();
            for _ in 0..WAITS_PER_ROUND {
                work();
            }
            env.now().since(start).as_secs_f64() * 1e9 / WAITS_PER_ROUND as f64
        })
        .skip(1) // The first round makes the counters.
        .collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn main() {
    assert!(env!("CELLAR_OPT_LEVEL") != "0", "measure an optimised build, never a debug one");
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(31_usize).max(1);
    for (clock, name, goal) in
        [(Clock::System, "system clock", 100.0), (Clock::Counter, "counter of cycles", 60.0)]
    {
        let runtime = Runtime::new(&RuntimeOptions { clock, ..Default::default() }).unwrap();
        let real = runtime.real_env();
        if real.clock() != clock {
            println!("{name}: this machine has none that can be trusted");
            continue;
        }
        let env = runtime.env();
        let session = Waits::new().session("clock", Kind::User);
        let reading = measure(&env, rounds, || {
            black_box(real.now());
        });
        let timed = measure(&env, rounds, || {
            let wait = session.begin(Event::DB_FILE_SEQUENTIAL_READ, [1, 2, 8], real.now().0);
            black_box(wait.end(real.now().0));
        });
        let middle = |figures: &[f64]| figures[figures.len() / 2];
        println!("{name:<20} one reading {:6.1} ns", middle(&reading));
        println!(
            "{name:<20} a timed wait {:6.1} ns ({:.1}..{:.1})   goal {goal} ns",
            middle(&timed),
            timed[0],
            timed[timed.len() - 1],
        );
    }
}
