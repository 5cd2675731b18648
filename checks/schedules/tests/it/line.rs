//! Locks: nobody holds what another one's lock excludes, who comes first is served first, a circle is told to one
//! of it, whoever is granted a lock goes on, and who goes leaves nothing. Where all wait, shuttle says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_wait::{Kind, Session, Waits};
use futures_util::FutureExt;
use shuttle::future::{block_on, yield_now};
use shuttle::sync::Barrier;
use shuttle::thread;

use crate::env::{below, env};
use crate::in_many_orders;
use crate::locks::{Held, LockError, LockTimeout, Locks, Mode, Owner, Resource};
use crate::row_id::RowId;

/// Something that can be locked: a row, a key, the table.
fn resource(number: u64) -> Resource {
    match number {
        0 => Resource::Row(1, RowId { page: 7, slot: 0 }),
        1 => Resource::Key(1, 0x0123_4567_89AB_CDEF),
        _ => Resource::Table(number as u32),
    }
}

fn locks() -> Arc<Locks> {
    Arc::new(Locks::new(Arc::default()))
}

fn session() -> Session {
    Waits::new().session("client", Kind::User)
}

/// Asks for a lock, and notes it.
async fn lock(
    locks: &Arc<Locks>,
    held: &mut Held,
    (resource, mode): (Resource, Mode),
    patience: LockTimeout,
) -> Result<(), LockError> {
    let what = (held.owner(), resource, mode);
    locks.acquire(&env(), &session(), what, patience).await?;
    held.add(resource, mode);
    Ok(())
}

/// Who holds what, as those know it who hold it.
#[derive(Default)]
struct Truth(Mutex<HashMap<Resource, Vec<(Owner, Mode)>>>);

impl Truth {
    fn note(&self, owner: Owner, resource: Resource, mode: Mode) {
        let mut truth = self.0.lock().unwrap();
        let holders = truth.entry(resource).or_default();
        let before = holders.iter().position(|(holder, _)| *holder == owner);
        let mode = before.map_or(mode, |at| holders.swap_remove(at).1.with(mode));
        for (holder, held) in holders.iter() {
            assert!(mode.bears(*held), "{owner} has {mode:?}, {holder} has {held:?}");
        }
        holders.push((owner, mode));
    }

    fn forget(&self, owner: Owner) {
        let mut truth = self.0.lock().unwrap();
        truth.values_mut().for_each(|holders| holders.retain(|(holder, _)| *holder != owner));
    }
}

/// A transaction that locks some things, in any order, and lets go of them.
async fn transact(locks: Arc<Locks>, truth: Arc<Truth>, owner: Owner) {
    let mut held = Held::new(Arc::clone(&locks), owner);
    for _ in 0..3 {
        let resource = resource(below(3));
        let modes = [Mode::RowShare, Mode::RowExclusive, Mode::Share, Mode::Exclusive];
        let mode = modes[below(4) as usize];
        let patience = match below(4) {
            0 => LockTimeout::None,
            1 => LockTimeout::Until(Duration::from_secs(1)),
            _ => LockTimeout::Forever,
        };
        match lock(&locks, &mut held, (resource, mode), patience).await {
            Ok(()) => truth.note(owner, resource, mode),
            Err(LockError::Deadlock { .. }) => break,
            Err(_) => {}
        }
        yield_now().await;
    }
    truth.forget(owner);
    drop(held);
}

#[test]
fn nobody_holds_what_another_one_s_lock_excludes_and_nobody_is_forgotten() {
    in_many_orders(|| {
        let (locks, truth) = (locks(), Arc::new(Truth::default()));
        let threads: Vec<_> = (1..=3)
            .map(|owner| {
                let run = transact(Arc::clone(&locks), Arc::clone(&truth), owner);
                thread::spawn(move || block_on(run))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(locks.count(), 0, "nothing is left");
    });
}

/// Each locks a thing of its own, then that of the next. Returns how many were told of a circle.
fn ring(members: u64) -> usize {
    let (locks, barrier) = (locks(), Arc::new(Barrier::new(members as usize)));
    let threads: Vec<_> = (0..members)
        .map(|owner| {
            let (locks, barrier) = (Arc::clone(&locks), Arc::clone(&barrier));
            thread::spawn(move || {
                let mut held = Held::new(Arc::clone(&locks), owner + 1);
                let of = |owner| (resource(owner), Mode::Exclusive);
                block_on(lock(&locks, &mut held, of(owner), LockTimeout::Forever)).unwrap();
                barrier.wait();
                let next = of((owner + 1) % members);
                let locked = block_on(lock(&locks, &mut held, next, LockTimeout::Forever));
                matches!(locked, Err(LockError::Deadlock { .. }))
            })
        })
        .collect();
    let told: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(locks.count(), 0, "nothing is left");
    told.into_iter().filter(|told| *told).count()
}

#[test]
fn a_circle_is_told_to_one_of_it() {
    in_many_orders(|| assert_eq!(ring(2), 1));
    in_many_orders(|| assert_eq!(ring(3), 1));
}

#[test]
fn two_who_share_a_lock_and_want_more_are_a_circle_of_which_one_is_told() {
    in_many_orders(|| {
        let (locks, barrier) = (locks(), Arc::new(Barrier::new(2)));
        let threads: Vec<_> = (1..=2)
            .map(|owner| {
                let (locks, barrier) = (Arc::clone(&locks), Arc::clone(&barrier));
                thread::spawn(move || {
                    let mut held = Held::new(Arc::clone(&locks), owner);
                    let of = |mode| (resource(0), mode);
                    let shared = of(Mode::Share);
                    block_on(lock(&locks, &mut held, shared, LockTimeout::Forever)).unwrap();
                    barrier.wait();
                    let more = of(Mode::Exclusive);
                    let more = block_on(lock(&locks, &mut held, more, LockTimeout::Forever));
                    usize::from(more.is_err())
                })
            })
            .collect();
        let told: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!((told, locks.count()), (1, 0));
    });
}

#[test]
fn who_comes_first_is_served_first_and_who_goes_leaves_nothing() {
    in_many_orders(|| {
        let (locks, served) = (locks(), Arc::new(Mutex::new(Vec::new())));
        let what = (resource(1), Mode::Exclusive);
        let mut first = Held::new(Arc::clone(&locks), 1);
        block_on(lock(&locks, &mut first, what, LockTimeout::Forever)).unwrap();
        let goes = 2 + below(3);
        let mut threads = Vec::new();
        for owner in 2..=4 {
            let (locks, served) = (Arc::clone(&locks), Arc::clone(&served));
            let mut waiter = Box::pin(async move {
                let mut held = Held::new(Arc::clone(&locks), owner);
                lock(&locks, &mut held, what, LockTimeout::Forever).await.unwrap();
                served.lock().unwrap().push(owner);
                yield_now().await;
                drop(held);
            });
            // It stands in line from here on.
            assert!(waiter.as_mut().now_or_never().is_none());
            threads.push(thread::spawn(move || match owner == goes {
                true => drop(waiter),
                false => block_on(waiter),
            }));
        }
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let served = served.lock().unwrap();
        let stayed: Vec<Owner> = (2..=4).filter(|owner| *owner != goes).collect();
        assert_eq!((&*served, locks.count()), (&stayed, 0));
    });
}
