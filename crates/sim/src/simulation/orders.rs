//! All orders of six failures, returns and power cuts, one after the other: the real group on three
//! disks, one of which at a time is away. A seed is the number of an order; after the last they start
//! over, with other failures at other moments.

use super::faults::{Bad, begin, end, make_bad, make_whole, read_everything};
use super::*;

/// Disks of the group.
pub const DISKS: u64 = 3;
/// Events in an order.
const EVENTS: usize = 6;

/// The events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Lose(usize),
    Return,
    Crash,
}

/// The number of orders of this many events while all disks are there, and while one is away.
fn orders_of(events: usize) -> [u64; 2] {
    (0..events).fold([1, 1], |[whole, away], _| [DISKS * away + whole, whole + away])
}

/// The number of orders that a seed of [`Mode::Orders`] can select.
pub fn order_count() -> u64 {
    orders_of(EVENTS)[0]
}

/// The order with that number.
fn order(seed: u64) -> Vec<Event> {
    let (mut rank, mut is_away, mut events) = (seed % order_count(), false, Vec::new());
    for left in (0..EVENTS).rev() {
        let [whole, away] = orders_of(left);
        let next = match is_away {
            true => vec![(Event::Return, whole), (Event::Crash, away)],
            false => {
                let lose = (0..DISKS as usize).map(|disk| (Event::Lose(disk), away));
                lose.chain([(Event::Crash, whole)]).collect()
            }
        };
        for (event, orders) in next {
            if rank < orders {
                is_away = match event {
                    Event::Lose(_) => true,
                    Event::Return => false,
                    Event::Crash => is_away,
                };
                events.push(event);
                break;
            }
            rank -= orders;
        }
    }
    events
}

/// The order that a seed of [`Mode::Orders`] selects, in words.
pub fn order_of(seed: u64) -> String {
    format!("{:?}", order(seed))
}

/// All runs of one order.
pub fn live(w: &World, seed: u64) {
    let Some(bad) = &w.bad else { return };
    let order = order(seed);
    w.say(format!("{order:?}"));
    while w.rig.run(life(w, bad, &order)).is_none() {
        w.crashed();
        w.rig.sim.restart();
    }
}

async fn life(w: &World, bad: &Bad, order: &[Event]) {
    let (group, open) = begin(w, bad).await;
    while let Some(event) = order.get(bad.events.get()) {
        bad.events.set(bad.events.get() + 1);
        work(w, &group, &open, 1 + bad.below(6)).await;
        w.say(format!("{event:?}"));
        match event {
            Event::Lose(disk) => make_bad(w, bad, *disk, bad.below(4) + 1),
            Event::Return => make_whole(w, bad, &group).await,
            Event::Crash => {
                w.rig.sim.crash_after(1 + bad.below([5, 60, 400][bad.below(3) as usize]));
                while !w.rig.sim.crashed() {
                    work(w, &group, &open, 1).await;
                }
                // The power fails while this waits.
                std::future::pending::<()>().await;
            }
        }
    }
    work(w, &group, &open, 4).await;
    drop_unnamed(w, &open, false);
    read_everything(w, &group).await;
    end(w, bad, group, open, true).await;
}

async fn work(w: &World, group: &Group, open: &faults::Handles, rounds: u64) {
    for _ in 0..rounds {
        some_work(w, group, open).await;
    }
}
