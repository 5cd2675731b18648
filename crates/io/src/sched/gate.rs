//! The admission gate of a disk's scheduler: slots, a queue for each of four classes, and the choice of
//! the next request by weight.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::device::Class;

/// Shares of foreground, scan and background when all three wait. Commit goes before them.
const WEIGHTS: [u64; 4] = [0, 8, 4, 1];
/// The fixed cost of a request, in bytes that could have been moved instead.
const COST_BASE: u64 = 64 << 10;
/// After this many commits in a row another class has a turn, so that none starves.
const COMMITS_IN_A_ROW_MAX: u32 = 64;

/// An admission gate with a limited number of slots.
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    depth: u32,
    scan_depth: u32,
    in_flight: u32,
    scans_in_flight: u32,
    next_ticket: u64,
    queues: [BTreeMap<u64, Waiter>; 4],
    /// Stride scheduling: what each class has had, divided by its weight.
    pass: [u64; 4],
    /// The pass of the last choice, where a class that was idle starts.
    clock: u64,
    commits_in_a_row: u32,
    /// Tickets that have been given a slot and do not know it yet.
    granted: BTreeSet<u64>,
}

struct Waiter {
    waker: Waker,
    cost: u64,
}

/// A slot; dropping it lets the next one in.
pub(crate) struct Slot<'a> {
    gate: &'a Gate,
    class: Class,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.gate.release(self.class);
    }
}

impl State {
    fn has_room(&self, class: Class) -> bool {
        self.in_flight < self.depth
            && (class != Class::Scan || self.scans_in_flight < self.scan_depth)
    }

    fn take(&mut self, class: Class) {
        self.in_flight += 1;
        self.scans_in_flight += u32::from(class == Class::Scan);
    }

    /// The class whose turn it is among those that wait and may go.
    fn choose(&self) -> Option<Class> {
        let waits = |class: Class| {
            let some = !self.queues[class as usize].is_empty();
            (some && self.has_room(class)).then_some(class)
        };
        let commit = waits(Class::Commit);
        let other = [Class::Foreground, Class::Scan, Class::Background]
            .into_iter()
            .filter_map(waits)
            .min_by_key(|class| self.pass[*class as usize]);
        if other.is_some() && self.commits_in_a_row >= COMMITS_IN_A_ROW_MAX {
            return other;
        }
        commit.or(other)
    }

    /// Gives free slots to those who wait; the caller wakes them without the lock.
    fn dispatch(&mut self, woken: &mut Vec<Waker>) {
        while let Some(class) = self.choose() {
            let Some((ticket, waiter)) = self.queues[class as usize].pop_first() else {
                return;
            };
            if class == Class::Commit {
                self.commits_in_a_row += 1;
            } else {
                self.commits_in_a_row = 0;
                self.clock = self.pass[class as usize];
                self.pass[class as usize] += waiter.cost / WEIGHTS[class as usize];
            }
            self.take(class);
            self.granted.insert(ticket);
            woken.push(waiter.waker);
        }
    }

    fn enqueue(&mut self, class: Class, bytes: u64, waker: Waker) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let index = class as usize;
        if self.queues[index].is_empty() {
            self.pass[index] = self.pass[index].max(self.clock);
        }
        let cost = COST_BASE.saturating_add(bytes);
        self.queues[index].insert(ticket, Waiter { waker, cost });
        ticket
    }
}

impl Gate {
    pub(crate) fn new(depth: u32, scan_depth: u32) -> Gate {
        Gate {
            state: Mutex::new(State {
                depth: depth.max(1),
                scan_depth: scan_depth.max(1),
                ..State::default()
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Changes the state, then wakes who got a slot by it.
    fn change(&self, f: impl FnOnce(&mut State)) {
        let mut woken = Vec::new();
        let mut state = self.lock();
        f(&mut state);
        state.dispatch(&mut woken);
        drop(state);
        for waker in woken {
            waker.wake();
        }
    }

    fn release(&self, class: Class) {
        self.change(|state| {
            state.in_flight -= 1;
            state.scans_in_flight -= u32::from(class == Class::Scan);
        });
    }

    pub(crate) fn set_depth(&self, depth: u32) {
        self.change(|state| state.depth = depth.max(1));
    }

    pub(crate) fn set_scan_depth(&self, depth: u32) {
        self.change(|state| state.scan_depth = depth.max(1));
    }

    /// (depth, scan depth, in flight, waiting in each class)
    pub(crate) fn now(&self) -> (u32, u32, u32, [usize; 4]) {
        let state = self.lock();
        let waiting = std::array::from_fn(|class| state.queues[class].len());
        (state.depth, state.scan_depth, state.in_flight, waiting)
    }

    /// A slot, if one is free. Those who wait have been given every slot that they may have, so a free
    /// one belongs to nobody.
    pub(crate) fn try_enter(&self, class: Class) -> Option<Slot<'_>> {
        let mut state = self.lock();
        if !state.has_room(class) {
            return None;
        }
        state.take(class);
        Some(Slot { gate: self, class })
    }

    /// Waits for a slot, in order within the class. `bytes` is the size of the request.
    pub(crate) async fn enter(&self, class: Class, bytes: u64) -> Slot<'_> {
        if let Some(slot) = self.try_enter(class) {
            return slot;
        }
        let mut waiting = Waiting { gate: self, class, ticket: None };
        poll_fn(|cx| {
            let mut state = self.lock();
            let Some(ticket) = waiting.ticket else {
                if state.has_room(class) {
                    state.take(class);
                    return Poll::Ready(());
                }
                waiting.ticket = Some(state.enqueue(class, bytes, cx.waker().clone()));
                return Poll::Pending;
            };
            if state.granted.remove(&ticket) {
                waiting.ticket = None;
                return Poll::Ready(());
            }
            if let Some(waiter) = state.queues[class as usize].get_mut(&ticket) {
                waiter.waker.clone_from(cx.waker());
            }
            Poll::Pending
        })
        .await;
        Slot { gate: self, class }
    }
}

/// A place in a queue; dropping it leaves the queue, or gives back a slot just granted.
struct Waiting<'a> {
    gate: &'a Gate,
    class: Class,
    ticket: Option<u64>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.gate.lock();
        let waiter = state.queues[self.class as usize].remove(&ticket);
        let granted = waiter.is_none() && state.granted.remove(&ticket);
        drop(state);
        drop(waiter);
        if granted {
            self.gate.release(self.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues `count` requests of each class behind a full gate, lets them out one by one, and
    /// gives the classes in the order they went.
    fn order(count: usize, classes: &[Class]) -> Vec<Class> {
        let gate = Gate::new(1, 1);
        let held = gate.try_enter(Class::Background);
        let mut owner = BTreeMap::new();
        for class in classes {
            for _ in 0..count {
                let ticket = gate.lock().enqueue(*class, 4096, Waker::noop().clone());
                owner.insert(ticket, *class);
            }
        }
        drop(held);
        let mut order = Vec::new();
        loop {
            let Some(ticket) = gate.lock().granted.pop_first() else {
                return order;
            };
            order.push(owner[&ticket]);
            gate.release(owner[&ticket]);
        }
    }

    #[test]
    fn shares_are_eight_to_four_to_one() {
        use Class::{Background, Foreground, Scan};
        let order = order(800, &[Foreground, Scan, Background]);
        let first = &order[..1300];
        let count = |class| first.iter().filter(|c| **c == class).count();
        assert!((798..=802).contains(&count(Foreground)), "{}", count(Foreground));
        assert!((398..=402).contains(&count(Scan)), "{}", count(Scan));
        assert!((98..=102).contains(&count(Background)), "{}", count(Background));
        assert_eq!(order.len(), 2400, "and in the end all are served");
    }

    #[test]
    fn commits_go_first_but_not_for_ever() {
        let order = order(200, &[Class::Background, Class::Commit]);
        assert!(order[..64].iter().all(|c| *c == Class::Commit));
        assert_eq!(order[64], Class::Background);
        assert!(order[65..129].iter().all(|c| *c == Class::Commit));
    }

    #[test]
    fn a_class_that_was_idle_has_no_credit() {
        let gate = Gate::new(1, 1);
        let held = gate.try_enter(Class::Foreground);
        let waker = || Waker::noop().clone();
        let queue = |class| gate.lock().enqueue(class, 4096, waker());
        for _ in 0..1000 {
            queue(Class::Foreground);
        }
        drop(held);
        for _ in 0..500 {
            gate.lock().granted.pop_first();
            gate.release(Class::Foreground);
        }
        let late: BTreeSet<u64> = (0..100).map(|_| queue(Class::Background)).collect();
        let mut background = 0;
        for _ in 0..90 {
            let ticket = gate.lock().granted.pop_first().expect("somebody waits");
            let class = if late.contains(&ticket) {
                background += 1;
                Class::Background
            } else {
                Class::Foreground
            };
            gate.release(class);
        }
        assert!((9..=11).contains(&background), "{background} of 90");
    }
}
