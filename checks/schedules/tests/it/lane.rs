//! The lane's hand-over: every piece of work is done once, one at a time, in the order of the log, and each
//! who waits is answered; who goes has it done all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use shuttle::future::block_on;
use shuttle::sync::atomic::AtomicBool;
use shuttle::thread;

use crate::env::below;
use crate::handover::{Handover, Leader};
use crate::in_many_orders;

/// Work of somebody: who, and which of theirs.
type Work = (u64, u64);

#[derive(Default)]
struct Log {
    /// Somebody works.
    is_busy: AtomicBool,
    /// How often all that was there was done.
    pauses: AtomicU64,
}

impl Leader for Log {
    type State = Vec<Work>;
    type Work = Work;
    /// The place in the log.
    type Answer = usize;

    fn work(&self, state: &mut Vec<Work>, work: Work) -> usize {
        assert!(!self.is_busy.swap(true, Ordering::SeqCst), "two lead at once");
        state.push(work);
        thread::yield_now();
        assert!(self.is_busy.swap(false, Ordering::SeqCst));
        state.len() - 1
    }

    fn pause(&self, _: &mut Vec<Work>) {
        assert!(!self.is_busy.load(Ordering::SeqCst), "two lead at once");
        self.pauses.fetch_add(1, Ordering::SeqCst);
    }
}

const WORKERS: u64 = 3;
const PIECES: u64 = 3;

struct Lane {
    log: Log,
    handover: Handover<Log>,
    /// Places in the log that were answered are below.
    answered: AtomicU64,
}

/// Brings pieces of work, and waits for most of them.
fn work(lane: &Lane, worker: u64) {
    for piece in 0..PIECES {
        let before = lane.answered.load(Ordering::SeqCst);
        let mut apply = Box::pin(lane.handover.apply(&lane.log, (worker, piece)));
        if below(4) == 0 {
            // Goes, whether it is done or not.
            let _ = apply.as_mut().now_or_never();
            continue;
        }
        let place = block_on(apply).unwrap() as u64;
        assert!(place >= before, "what was answered before came is before it");
        lane.answered.fetch_max(place + 1, Ordering::SeqCst);
    }
}

#[test]
fn every_piece_of_work_is_done_once_and_in_order() {
    in_many_orders(|| {
        let (log, handover) = (Log::default(), Handover::new(Vec::new()));
        let lane = Arc::new(Lane { log, handover, answered: AtomicU64::new(0) });
        let mut threads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let lane = Arc::clone(&lane);
                thread::spawn(move || work(&lane, worker))
            })
            .collect();
        let visited = Arc::clone(&lane);
        threads.push(thread::spawn(move || visited.handover.visit(&visited.log, |_| ())));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lane.handover.visit(&lane.log, |done| {
            let all = WORKERS * PIECES;
            assert_eq!(done.len() as u64, all, "{done:?}");
            for worker in 0..WORKERS {
                let of = done.iter().filter(|(of, _)| *of == worker).map(|(_, piece)| *piece);
                assert!(of.eq(0..PIECES), "{done:?}");
            }
        });
        assert!(lane.log.pauses.load(Ordering::SeqCst) > 0);
    });
}
