//! Counters: values that nobody gets twice, also after a crash.

use cellar_heap::locks::LockTimeout;
use cellar_heap::{Error, Isolation};
use cellar_io::EnvExt;

use crate::support::Rig;

const COUNTER: u32 = 7;

#[test]
fn values_go_on_behind_all_that_were_given() {
    for seed in 0..60 {
        let rig = Rig::new(seed, 4 << 20, 1 << 20);
        let mut last = 0;
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_counter(&session, COUNTER, 1).await.unwrap();
            for _ in 0..seed {
                let value = store.take(&session, COUNTER, 1).await.unwrap();
                assert_eq!(value, last + 1, "without a crash no value is left out");
                last = value;
            }
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let value = store.take(&rig.session(), COUNTER, 1).await.unwrap();
            assert!(value > last && value <= last + 33, "seed {seed}: {value} after {last}");
        });
    }
}

#[test]
fn a_value_of_a_transaction_is_lost_with_it_and_given_once() {
    let rig = Rig::new(3, 4 << 20, 1 << 20);
    let given = rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        store.create_counter(&rig.session(), COUNTER, -5).await.unwrap();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (store, session) = (store.clone(), rig.session());
                rig.sim.env().run("taker", async move {
                    let mut given = Vec::new();
                    for round in 0..50 {
                        let mut transaction =
                            store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
                        given.push(transaction.take(COUNTER, -2).await.unwrap());
                        match round % 2 {
                            0 => transaction.rollback(),
                            _ => drop(transaction.commit().await.unwrap()),
                        }
                    }
                    given
                })
            })
            .collect();
        let mut given = Vec::new();
        for task in tasks {
            given.extend(task.await.unwrap());
        }
        given
    });
    let mut sorted = given.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let all: Vec<i64> = (0..200).map(|n| -5 - 2 * n).collect();
    assert_eq!(sorted, all);
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let value = store.take(&rig.session(), COUNTER, -2).await.unwrap();
        // What only transactions that were rolled back have seen may come again.
        assert!(value <= all[199] + 2 * 66, "{value}");
    });
}

#[test]
fn a_counter_is_set_ends_and_is_dropped() {
    let rig = Rig::new(4, 4 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        let missing = store.take(&session, COUNTER, 1).await.unwrap_err();
        assert_eq!(missing.to_string(), "object 7 is no counter");
        store.create_counter(&session, COUNTER, 1).await.unwrap();
        let again = store.create_counter(&session, COUNTER, 1).await.unwrap_err();
        assert!(matches!(again, Error::WrongObject { object: 7, .. }), "{again}");
        store.set_counter(&session, COUNTER, i64::MAX - 1).await.unwrap();
        assert_eq!(store.take(&session, COUNTER, 1).await.unwrap(), i64::MAX - 1);
        let ended = store.take(&session, COUNTER, 1).await.unwrap_err();
        assert_eq!(ended.number(), 8004);
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        store.set_counter(&session, COUNTER, 10).await.unwrap();
        store.drop_counter(&session, COUNTER).await.unwrap();
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        assert!(store.take(&session, COUNTER, 1).await.is_err());
        store.create_counter(&session, COUNTER, 3).await.unwrap();
        assert_eq!(store.take(&session, COUNTER, 1).await.unwrap(), 3);
        assert!(store.create_table(&session, u32::MAX).await.is_err());
    });
}

#[test]
fn values_taken_ahead_stay_within_their_bounds_and_are_given_once() {
    use cellar_heap::Steps;
    let rig = Rig::new(5, 4 << 20, 1 << 20);
    let up = Steps { step: 3, least: 1, most: 10, cycles: false };
    let far = Steps { step: 1, least: i64::MIN, most: i64::MAX, cycles: false };
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_counter(&session, COUNTER, 1).await.unwrap();
        let given: Vec<i64> = (0..4).map(|_| store.take_ahead(COUNTER, &up).unwrap()).collect();
        assert_eq!(given, [1, 4, 7, 10]);
        let ends = store.take_ahead(COUNTER, &up);
        assert!(matches!(ends, Err(Error::CounterEnds { value: 13, .. })), "{ends:?}");
        let again = Steps { cycles: true, ..up };
        assert_eq!(store.take_ahead(COUNTER, &again).unwrap(), 1);
        let down = Steps { step: -4, ..again };
        store.set_ahead(COUNTER, 5).unwrap();
        let given: Vec<i64> = (0..3).map(|_| store.take_ahead(COUNTER, &down).unwrap()).collect();
        assert_eq!(given, [5, 1, 10]);
        store.set_ahead(COUNTER, 100).unwrap();
        for value in 100..1100 {
            assert_eq!(store.take_ahead(COUNTER, &far).unwrap(), value);
        }
        store.flush_counter(&session, COUNTER, 1).await.unwrap();
        assert_eq!(store.peek_counter(COUNTER).unwrap(), 1100);
    });
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let (reader, _) = rig.open_read_only().await.unwrap();
        let next = reader.peek_counter(COUNTER).unwrap();
        assert!((1100..=1132).contains(&next), "{next}");
        assert!(reader.peek_counter(COUNTER + 1).is_err());
    });
    rig.run(async {
        let (store, _) = rig.open().await.unwrap();
        let value = store.take_ahead(COUNTER, &far).unwrap();
        assert!((1100..=1132).contains(&value), "{value}");
    });
}
