//! Clocks, sleep and chance of the real environment.

use std::time::Duration;

use cellar_io::EnvExt;
use cellar_io::real::{Clock, Runtime, RuntimeOptions};

#[test]
fn sleep_ends_after_the_deadline_and_usually_within_a_moment() {
    for clock in [Clock::System, Clock::Counter] {
        let runtime = Runtime::new(&RuntimeOptions { clock, ..Default::default() }).unwrap();
        let env = runtime.env();
        let mut late: Vec<Duration> = runtime.block_on(async {
            let mut late = Vec::new();
            for round in 0..200u64 {
                let deadline = env.now().plus(Duration::from_micros(100 + 7 * round));
                env.sleep_until(deadline).await;
                let now = env.now();
                assert!(now >= deadline, "a sleep ended early");
                late.push(now.since(deadline));
            }
            late
        });
        late.sort();
        // Generous: other tests run beside. tokio's own timer would be a millisecond late.
        assert!(late[50] < Duration::from_micros(700), "a quarter is later than {:?}", late[50]);
    }
}

#[test]
fn sleepers_wake_in_order_and_dropped_ones_not_at_all() {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    let (send, receive) = std::sync::mpsc::channel();
    let start = env.now();
    for tenth in [5u64, 1, 3, 2, 4] {
        let deadline = start.plus(Duration::from_millis(10 * tenth));
        let (env, send) = (runtime.env(), send.clone());
        runtime.env().spawn(
            "sleeper",
            Box::pin(async move {
                env.sleep_until(deadline).await;
                send.send(tenth).unwrap();
            }),
        );
    }
    drop(env.sleep(Duration::from_millis(1)));
    drop(send);
    assert_eq!(receive.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[test]
fn results_of_tasks_come_back_and_chance_differs() {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    assert_eq!(runtime.block_on(env.run("sum", async { 2 + 2 })), Some(4));
    let numbers: std::collections::BTreeSet<u64> = (0..1000).map(|_| env.random()).collect();
    assert_eq!(numbers.len(), 1000);
    assert!(env.wall().unix_nanos > 1_700_000_000_000_000_000);
}
