//! A slot shows one wait at a time: what it is, since when, and what the one before was.
//!
//! One writer at a time, who takes the slot by a flag; any number of readers, who never make the
//! writer wait: the fields are a sequence lock made of atomics.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use crate::events::Event;
use crate::registry::add;

/// The kind of a waiter, by which its waits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Somebody waits for the answer: counted as foreground.
    User,
    /// A part of the instance works on its own.
    Background,
}

/// What a slot does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// It has not waited yet.
    NeverWaited,
    /// It has waited since this many nanoseconds on the caller's clock.
    Waiting {
        /// When the wait began.
        since: u64,
    },
    /// It does not wait; the last wait took `nanos` and ended at `ended`.
    Waited {
        /// How long the last wait took.
        nanos: u64,
        /// When it ended.
        ended: u64,
        /// Whether it timed out.
        timed_out: bool,
    },
}

/// What a session, or one of its helpers, waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// The number of the session, from 1; a number is used again after its session has ended.
    pub sid: u32,
    /// Tells apart sessions that had the same number.
    pub serial: u32,
    /// 0 for the session itself, then its helpers.
    pub helper: u32,
    /// What the session was called when it began.
    pub name: String,
    /// Who waits.
    pub kind: Kind,
    /// Waiting or not.
    pub state: WaitState,
    /// The present wait, or the last one.
    pub event: Option<Event>,
    /// The meaning depends on the event.
    pub p: [u64; 3],
    /// Counts the waits of this slot.
    pub seq: u64,
}

/// What one session has waited for, helpers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEventTotals {
    /// The number of the session.
    pub sid: u32,
    /// Tells apart sessions that had the same number.
    pub serial: u32,
    /// The event.
    pub event: Event,
    /// How many waits ended.
    pub count: u64,
    /// How many of them timed out.
    pub timeouts: u64,
    /// The total time, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub max: u64,
}

/// The counts of one event in one slot.
#[derive(Default)]
pub(crate) struct SlotCounters {
    pub(crate) count: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) nanos: AtomicU64,
    pub(crate) max: AtomicU64,
}

const IDLE: u64 = u64::MAX;

/// Where one wait is shown.
pub(crate) struct Slot {
    busy: AtomicBool,
    /// Odd while the fields below change.
    sequence: AtomicU64,
    /// `EVENT#` of the present wait.
    event: AtomicU64,
    p: [AtomicU64; 3],
    /// When the present wait began; `IDLE` if there is none.
    since: AtomicU64,
    seq: AtomicU64,
    /// The last wait that was counted.
    /// `IDLE` before the first.
    last_event: AtomicU64,
    last_p: [AtomicU64; 3],
    last_nanos: AtomicU64,
    last_ended: AtomicU64,
    last_timed_out: AtomicBool,
    totals: OnceLock<Box<[SlotCounters; Event::COUNT]>>,
}

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot {
            busy: AtomicBool::new(false),
            sequence: AtomicU64::new(0),
            event: AtomicU64::new(IDLE),
            p: [const { AtomicU64::new(0) }; 3],
            since: AtomicU64::new(IDLE),
            seq: AtomicU64::new(0),
            last_event: AtomicU64::new(IDLE),
            last_p: [const { AtomicU64::new(0) }; 3],
            last_nanos: AtomicU64::new(0),
            last_ended: AtomicU64::new(0),
            last_timed_out: AtomicBool::new(false),
            totals: OnceLock::new(),
        }
    }

    /// Makes the caller the only writer, until [`leave`](Slot::leave); false if there is one.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        self.busy.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    #[inline]
    fn leave(&self) {
        self.busy.store(false, Release);
    }

    /// Changes fields so that readers see all of the change or nothing. Only the writer calls it.
    #[inline]
    fn change(&self, fields: impl FnOnce()) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        fence(Release);
        fields();
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// Shows a wait. The caller has entered.
    #[inline]
    pub(crate) fn begin(&self, event: Event, p: [u64; 3], now: u64) {
        self.change(|| {
            self.event.store(u64::from(event.number()), Relaxed);
            for (slot, value) in self.p.iter().zip(p) {
                slot.store(value, Relaxed);
            }
            // A clock that reads the idle mark has run for 584 years.
            self.since.store(now.min(IDLE - 1), Relaxed);
            add(&self.seq, 1);
        });
    }

    /// Counts the wait, shows that it is over and leaves the slot.
    #[inline]
    pub(crate) fn end(&self, event: Event, nanos: u64, now: u64, timed_out: bool) {
        let totals =
            self.totals.get_or_init(|| Box::new(std::array::from_fn(|_| SlotCounters::default())));
        totals[usize::from(event.number())].add(nanos, timed_out);
        self.change(|| {
            self.since.store(IDLE, Relaxed);
            self.last_event.store(u64::from(event.number()), Relaxed);
            for (last, p) in self.last_p.iter().zip(&self.p) {
                last.store(p.load(Relaxed), Relaxed);
            }
            self.last_nanos.store(nanos, Relaxed);
            self.last_ended.store(now, Relaxed);
            self.last_timed_out.store(timed_out, Relaxed);
        });
        self.leave();
    }

    /// Shows that the wait was given up, counts nothing and leaves the slot.
    pub(crate) fn abandon(&self) {
        self.change(|| self.since.store(IDLE, Relaxed));
        self.leave();
    }

    /// The wait that the slot shows.
    pub(crate) fn read(&self) -> (WaitState, Option<Event>, [u64; 3], u64) {
        loop {
            let before = self.sequence.load(Acquire);
            let since = self.since.load(Relaxed);
            let last = self.last_event.load(Relaxed);
            let (event, p) = if since == IDLE {
                (last, &self.last_p)
            } else {
                (self.event.load(Relaxed), &self.p)
            };
            let p = [p[0].load(Relaxed), p[1].load(Relaxed), p[2].load(Relaxed)];
            let seq = self.seq.load(Relaxed);
            let nanos = self.last_nanos.load(Relaxed);
            let ended = self.last_ended.load(Relaxed);
            let timed_out = self.last_timed_out.load(Relaxed);
            fence(Acquire);
            if before % 2 == 1 || self.sequence.load(Relaxed) != before {
                // The writer needs a few nanoseconds, unless it was preempted.
                std::thread::yield_now();
                continue;
            }
            let state = if since != IDLE {
                WaitState::Waiting { since }
            } else if last != IDLE {
                WaitState::Waited { nanos, ended, timed_out }
            } else {
                WaitState::NeverWaited
            };
            return (state, Event::from_number(event), p, seq);
        }
    }

    /// The counts of this slot.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (Event, &SlotCounters)> {
        let totals = self.totals.get().map_or(&[][..], |totals| &totals[..]);
        Event::all().zip(totals)
    }
}

impl SlotCounters {
    #[inline]
    fn add(&self, nanos: u64, timed_out: bool) {
        add(&self.count, 1);
        add(&self.nanos, nanos);
        if nanos > self.max.load(Relaxed) {
            self.max.store(nanos, Relaxed);
        }
        if timed_out {
            add(&self.timeouts, 1);
        }
    }
}
