//! Counters are merged over threads, live ones and ended ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use cellar_wait::{Event, EventTotals, Kind, Waits};

fn of(waits: &Waits, event: Event) -> EventTotals {
    waits.totals().into_iter().find(|total| total.event == event).expect("the event happened")
}

#[test]
fn waits_of_ended_threads_stay_counted_once() {
    let waits = Waits::new();
    let threads: Vec<_> = (1..=8u64)
        .map(|n| {
            let waits = waits.clone();
            thread::spawn(move || {
                let session = waits.session("worker", Kind::User);
                for i in 0..1_000 {
                    session.begin(Event::DIRECT_PATH_READ, [n, i, 1], i).end(i + n * 1_000);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the worker ends");
    }
    let total = of(&waits, Event::DIRECT_PATH_READ);
    assert_eq!(total.count, 8_000);
    assert_eq!(total.nanos, 36_000_000);
    assert_eq!(total.max, 8_000);
    assert_eq!(total.histogram.count(), 8_000);
    assert_eq!(total.histogram.count_below(4_000), 3_000);
    assert_eq!(total.foreground_count, 8_000);
    assert_eq!(of(&waits, Event::DIRECT_PATH_READ).count, 8_000, "reading changes nothing");
}

#[test]
fn live_threads_are_counted_before_they_end() {
    let waits = Waits::new();
    let (counted, until_counted) = mpsc::channel();
    let (go_on, until_go_on) = mpsc::channel::<()>();
    let worker = thread::spawn({
        let waits = waits.clone();
        move || {
            waits.record(Event::DISK_WRITE, Kind::Background, 5_000);
            counted.send(()).expect("the test listens");
            until_go_on.recv().expect("the test lets go");
        }
    });
    until_counted.recv().expect("the worker counts");
    assert_eq!(of(&waits, Event::DISK_WRITE).count, 1);
    go_on.send(()).expect("the worker listens");
    worker.join().expect("the worker ends");
    let total = of(&waits, Event::DISK_WRITE);
    assert_eq!((total.count, total.foreground_count, total.foreground_nanos), (1, 0, 0));
}

#[test]
fn timeouts_are_waits_too_and_a_dropped_wait_is_none() {
    let waits = Waits::new();
    let session = waits.session("s", Kind::User);
    session.begin(Event::LOG_FILE_SYNC, [0; 3], 10).end_timeout(1_010);
    session.begin(Event::LOG_FILE_SYNC, [0; 3], 2_000).end(3_000);
    drop(session.begin(Event::LOG_FILE_SYNC, [0; 3], 4_000));
    let total = of(&waits, Event::LOG_FILE_SYNC);
    assert_eq!((total.count, total.timeouts, total.foreground_timeouts), (2, 1, 1));
    assert_eq!(total.nanos, 2_000);
}

#[test]
fn registries_do_not_mix() {
    let (one, two) = (Waits::new(), Waits::new());
    one.record(Event::DISK_READ, Kind::User, 1);
    two.record(Event::DISK_READ, Kind::User, 2);
    two.record(Event::DISK_READ, Kind::User, 3);
    assert_eq!(of(&one, Event::DISK_READ).count, 1);
    assert_eq!(of(&two, Event::DISK_READ).nanos, 5);
}

#[test]
fn totals_read_meanwhile_only_grow_and_agree_with_their_histogram() {
    let waits = Waits::new();
    waits.record(Event::DISK_READ, Kind::User, 1);
    let stop = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut n = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        waits.record(Event::DISK_READ, Kind::User, n % 100_000);
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        let mut last = 0;
        for _ in 0..500 {
            let total = of(&waits, Event::DISK_READ);
            assert_eq!(total.count, total.histogram.count());
            assert!(total.count >= last, "{} after {last}", total.count);
            last = total.count;
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|w| w.join().expect("the writer ends")).sum::<u64>()
    });
    assert_eq!(of(&waits, Event::DISK_READ).count, written + 1);
}

#[test]
fn a_clock_that_steps_back_counts_nothing_negative() {
    let waits = Waits::new();
    let session = waits.session("s", Kind::User);
    assert_eq!(session.begin(Event::DISK_READ, [0; 3], 500).end(400), 0);
    assert_eq!(session.begin(Event::DISK_READ, [0; 3], 0).end(u64::MAX), u64::MAX);
    assert_eq!(of(&waits, Event::DISK_READ).max, u64::MAX);
}
