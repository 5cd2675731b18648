//! Benchmark of one timed wait: goal 100 ns with the system clock, 60 ns with a counter of cycles.
//!
//! `cargo bench -p cellar-wait --bench wait_cost [-- ROUNDS]`
//!
//! Also the accounting alone, with a clock that costs nothing: add two readings of any clock to
//! get the cost of a wait timed by it. The cycle counter itself is in `cellar_io`: reading
//! it needs `unsafe` code, which this crate does not contain.

use std::hint::black_box;
use std::time::Instant;

use cellar_wait::{Event, Kind, Session, Waits};

const WAITS_PER_ROUND: u32 = 200_000;

#[expect(clippy::disallowed_methods, reason = "a program that measures the cost of the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds per repetition of `work`, one figure a round, in order of size.
fn measure(rounds: usize, mut work: impl FnMut(u64)) -> Vec<f64> {
    let mut figures: Vec<f64> = (0..=rounds)
        .map(|_| {
            let start = now();
            for n in 0..u64::from(WAITS_PER_ROUND) {
                work(black_box(n));
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(WAITS_PER_ROUND)
        })
        .skip(1) // The first round makes the counters.
        .collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn report(what: &str, goal: &str, figures: &[f64]) {
    println!(
        "{what:<44} median {:6.1} ns   min {:6.1}   max {:6.1}   {goal}",
        figures[figures.len() / 2],
        figures[0],
        figures[figures.len() - 1],
    );
}

fn wait(session: &Session, begin: u64, end: u64) {
    let wait = session.begin(Event::DB_FILE_SEQUENTIAL_READ, [1, begin, 8], begin);
    black_box(wait.end(end));
}

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(31_usize);
    let rounds = rounds.max(1);
    let waits = Waits::new();
    let session = waits.session("wait_cost", Kind::User);
    let origin = now();
    let nanos = || u64::try_from(now().duration_since(origin).as_nanos()).unwrap_or(u64::MAX);

    println!("{rounds} rounds of {WAITS_PER_ROUND} waits");
    let clock = measure(rounds, |_| {
        black_box(nanos());
    });
    report("one reading of the system clock", "", &clock);
    let bare = measure(rounds, |n| wait(&session, n, n + 80_000));
    report("a wait without its clock", "", &bare);
    let record = measure(rounds, |n| waits.record(Event::DISK_READ, Kind::User, n));
    report("a duration counted, no session", "", &record);
    let timed = measure(rounds, |_| wait(&session, nanos(), nanos()));
    report("a wait timed by the system clock", "goal 100 ns", &timed);

    let counted: u64 = waits.totals().iter().map(|total| total.count).sum();
    let expected = 3 * (rounds as u64 + 1) * u64::from(WAITS_PER_ROUND);
    assert_eq!(counted, expected, "every wait was counted");
}
