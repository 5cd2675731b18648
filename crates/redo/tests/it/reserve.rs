//! Room that was reserved is there, whatever others do meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::{Error, Log, Lsn, Reservation};
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::support::{Rig, Shape};

/// A record that fills a block of 512 bytes, with 8 for its header.
const WHOLE: usize = 464;

fn body(number: u8, length: usize) -> Bytes {
    Bytes::from(vec![number; length])
}

/// Fills the log until a commit has to wait for room; it goes on waiting in a task.
async fn fill(rig: &Rig, log: &Log) -> impl Future<Output = Option<Result<(), Error>>> + use<> {
    let (log, session) = (log.clone(), rig.session());
    let task = rig.env().run("filler", async move {
        let mut done = Ok(());
        while done.is_ok() {
            done = log.commit(&session, 200, 0, body(200, WHOLE)).await.map(|_| ());
        }
        done
    });
    rig.env().sleep(Duration::from_secs(60)).await;
    task
}

#[test]
fn what_was_reserved_is_appended_at_once_into_a_full_log() {
    let rig = Rig::new(71, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let mut room = log.reserve(&session, &[WHOLE; 10]).await.unwrap();
        let filler = fill(&rig, &log).await;
        assert!(filler.now_or_never().is_none(), "nobody may take what is reserved");
        let mut end = Lsn(0);
        for number in 0..10 {
            end = room.append(number, 0, &body(number, WHOLE)).unwrap().appended.end;
            // Each in a unit of its own.
            log.wait_durable(&session, end).await.unwrap();
        }
        assert!(log.durable_lsn() >= end);
        drop(room);
        assert!(log.reserve(&session, &[1]).now_or_never().is_none(), "now it is full");
        log.abandon().await.unwrap();
    })
    .unwrap();
    rig.sim.crash();
    rig.sim.restart();
    rig.run(async {
        let (_, records, _) = rig.open().await.unwrap();
        let kinds: Vec<u8> = records.iter().map(|r| r.kind).filter(|k| *k < 200).collect();
        assert_eq!(kinds, (0..10).collect::<Vec<u8>>());
    })
    .unwrap();
}

#[test]
fn what_is_left_of_a_reservation_is_given_back() {
    let rig = Rig::new(72, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        // All but what the current group has left.
        let room = log.reserve(&session, &[WHOLE; 60]).await.unwrap();
        let before = log.durable_lsn();
        let filler = fill(&rig, &log).await;
        let stands = log.durable_lsn();
        assert!(stands > before);
        drop(room);
        rig.env().sleep(Duration::from_secs(60)).await;
        assert!(log.durable_lsn() > stands, "who waited goes on");
        drop(filler);
        log.abandon().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_switch_waits_for_the_room_that_is_reserved_behind_it() {
    let rig = Rig::new(73, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, body(0, WHOLE)).await.unwrap();
        log.switch(&session).await.unwrap();
        // More than the third group has, and the first is still needed.
        let mut room = log.reserve(&session, &[WHOLE; 40]).await.unwrap();
        let (switched, session) = (log.clone(), rig.session());
        let switch = rig.env().run("switch", async move { switched.switch(&session).await });
        let mut switch = std::pin::pin!(switch);
        rig.env().sleep(Duration::from_secs(5)).await;
        assert!(switch.as_mut().now_or_never().is_none(), "the third group has but 32 blocks");
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        // The first group is free once the second is begun.
        let one = room.append(1, 0, &body(1, WHOLE)).unwrap();
        log.wait(&rig.session(), one).await.unwrap();
        assert!(switch.await.unwrap().is_ok());
        for _ in 0..39 {
            let _ = room.append(1, 0, &body(1, WHOLE)).unwrap();
        }
        log.close().await.unwrap();
        let (_, records, _) = rig.open().await.unwrap();
        assert_eq!(records.iter().filter(|r| r.kind == 1).count(), 40);
    })
    .unwrap();
}

#[test]
fn what_cannot_be_reserved_is_refused() {
    let rig = Rig::new(74, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let refused = log.reserve(&session, &[WHOLE; 65]).await;
        assert!(matches!(refused, Err(Error::RecordTooLong { .. })), "{refused:?}");
        let mut room = log.reserve(&session, &[100, 100]).await.unwrap();
        let _ = room.append(1, 0, &body(1, 100)).unwrap();
        log.abandon().await.unwrap();
        let stopped = room.append(1, 0, &body(1, 100));
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
        assert!(matches!(log.reserve(&session, &[1]).await, Err(Error::Stopped { .. })));
    })
    .unwrap();
}

/// Reservations of any lengths, held and dropped in any order, beside commits, switches, checkpoints and
/// idle times: an append that finds no room would panic.
#[test]
fn reserved_room_is_there_in_any_order_of_events() {
    for seed in 0..150 {
        let groups = 3 + (seed % 2) as u32;
        let rig = Rig::new(7_100 + seed, Shape { blocks: 24, groups, ..Shape::default() });
        let appended = rig.run(async {
            rig.create().await.unwrap();
            let (log, _, _) = rig.open().await.unwrap();
            any_order(&rig, &log, seed).await
        });
        let appended = appended.unwrap();
        rig.sim.crash();
        rig.sim.restart();
        rig.run(async {
            let (_, records, _) = rig.open().await.unwrap();
            let last = records.iter().filter(|r| r.kind == 1).map(|r| r.lsn).max();
            assert!(last.is_none_or(|last| appended.contains(&last)), "seed {seed}");
        })
        .unwrap();
    }
}

async fn any_order(rig: &Rig, log: &Log, seed: u64) -> Vec<Lsn> {
    let session = rig.session();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let mut held: VecDeque<(Reservation, VecDeque<usize>)> = VecDeque::new();
    let mut appended = Vec::new();
    for _ in 0..120 {
        match below(8) {
            0 | 1 => {
                let lengths: Vec<usize> = (0..=below(4)).map(|_| below(1500) as usize).collect();
                let wait = rig.env().sleep(Duration::from_millis(2));
                let room = match select(Box::pin(log.reserve(&session, &lengths)), wait).await {
                    Either::Left((room, _)) => room.ok(),
                    Either::Right(_) => None,
                };
                if let Some(room) = room {
                    held.push_back((room, lengths.into()));
                }
            }
            2 | 3 => {
                let Some((mut room, mut lengths)) = held.pop_front() else { continue };
                let length = lengths.pop_front().unwrap();
                let done = room.append(1, 0, &body(1, length)).unwrap().appended;
                appended.push(done.lsn);
                if below(3) == 0 {
                    log.wait_durable(&session, done.end).await.unwrap();
                }
                if !lengths.is_empty() && below(5) > 0 {
                    held.push_back((room, lengths));
                }
            }
            4 | 5 => {
                let wait = rig.env().sleep(Duration::from_millis(2));
                let commit = log.commit(&session, 2, 0, body(2, below(900) as usize));
                // One that is late may or may not be in the log.
                drop(select(Box::pin(commit), wait).await);
            }
            6 => {
                let wait = rig.env().sleep(Duration::from_millis(5));
                drop(select(Box::pin(log.switch(&session)), wait).await);
            }
            _ => {
                rig.env().sleep(Duration::from_millis(below(40))).await;
                log.set_checkpoint(log.durable_lsn()).await.unwrap();
            }
        }
    }
    for (mut room, lengths) in held {
        for length in lengths {
            appended.push(room.append(1, 0, &body(1, length)).unwrap().appended.lsn);
        }
    }
    appended
}
