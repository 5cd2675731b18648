//! Counters, from which sequences are made: outside transactions, logged ahead, so that most values cost no
//! redo. After a crash a counter continues after all values that were ever handed out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use event_listener::{Event, EventListener};

use crate::error::Error;
use crate::row_id::RowId;

/// The number of the table that stores a row for each counter.
pub const COUNTERS: u32 = u32::MAX;

/// This many values are logged ahead.
const AHEAD: i64 = 32;

/// A row of the counters' table.
pub(crate) fn encode(number: u32, logged: i64) -> Bytes {
    let mut row = number.to_le_bytes().to_vec();
    row.extend_from_slice(&logged.to_le_bytes());
    Bytes::from(row)
}

/// The number and the logged value of a row, if it is one.
pub(crate) fn decode(row: &[u8]) -> Option<(u32, i64)> {
    let (number, logged) = row.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), i64::from_le_bytes(logged.try_into().ok()?)))
}

/// The counters of a store.
#[derive(Default)]
pub(crate) struct Counters(Mutex<HashMap<u32, Arc<Counter>>>);

/// A counter.
pub(crate) struct Counter {
    /// Its row.
    pub id: RowId,
    state: Mutex<State>,
    logged: Event,
}

#[derive(Clone, Copy)]
struct State {
    next: i64,
    /// The value from which the counter goes on according to the log.
    logged: i64,
    /// What the log says is unknown, or is not where the counter goes on.
    is_unknown: bool,
    /// It was set after somebody began to log: the value being logged is already out of date.
    is_set: bool,
    /// The values handed out are durable when the log is durable up to here.
    end: u64,
    /// Somebody is logging it.
    is_logging: bool,
}

/// The step of a counter, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// What is added for each value; not 0.
    pub step: i64,
    /// The least value.
    pub least: i64,
    /// The greatest value.
    pub most: i64,
    /// Whether it starts again after its last value.
    pub cycles: bool,
}

impl Steps {
    /// The value after which it starts again from the other end.
    fn again(&self) -> i64 {
        if self.step < 0 { self.most } else { self.least }
    }
}

/// The answer to a request to make all values durable that were taken ahead.
pub(crate) enum Flush {
    /// The log has them, and must be durable up to here.
    Done(u64),
    /// The right to log this value first.
    Log(Logging, i64),
    /// Somebody logs: look again then.
    Wait(EventListener),
}

/// The answer to a request for a value.
pub(crate) enum Take {
    /// The value, and how far the log must be durable before anybody may see it.
    Value(i64, u64),
    /// The right to log this value first.
    Log(Logging, i64),
    /// Somebody logs: look again then.
    Wait(EventListener),
}

/// The right to log a counter, until it is dropped, and whether that was done.
pub(crate) struct Logging(Arc<Counter>, bool);

impl Drop for Logging {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_logging = false;
        if !self.1 {
            // The next value is logged first.
            state.is_unknown = true;
        }
        drop(state);
        self.0.logged.notify(usize::MAX);
    }
}

impl Logging {
    /// Records that the log has the value, and where that record ends; `next`: where the counter goes on.
    pub fn done(mut self, logged: i64, end: u64, next: Option<i64>) {
        self.1 = true;
        let mut state = self.0.lock();
        (state.logged, state.end) = (logged, end);
        // If it was set meanwhile, that is still to be logged, unless this sets it to the logged value.
        state.is_unknown = state.is_set && next.is_none();
        state.next = next.unwrap_or(state.next);
    }
}

impl Counters {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Counter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a counter that goes on with `next`; false where the number is taken.
    pub fn add(&self, number: u32, id: RowId, next: i64) -> bool {
        let (is_unknown, is_set, is_logging) = (false, false, false);
        let state = State { next, logged: next, is_unknown, is_set, end: 0, is_logging };
        let counter = Counter { id, state: Mutex::new(state), logged: Event::new() };
        match self.lock().entry(number) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(Arc::new(counter));
                true
            }
        }
    }

    pub fn get(&self, number: u32) -> Result<Arc<Counter>, Error> {
        let found = self.lock().get(&number).cloned();
        found.ok_or(Error::WrongObject { object: number, expected: "counter" })
    }

    /// All of them, in order.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.lock().keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    pub fn remove(&self, number: u32) {
        self.lock().remove(&number);
    }
}

impl State {
    /// Notes that it goes on elsewhere than the log says.
    fn set(&mut self) {
        (self.is_unknown, self.is_set) = (true, true);
    }

    /// Notes that somebody logs.
    fn begin_logging(&mut self) {
        (self.is_logging, self.is_set) = (true, false);
    }

    /// Whether the log says that it goes on there, or further on. It goes up or down; a step in the other
    /// direction than the logged one is logged anew.
    fn covers(&self, next: i64, step: i64) -> bool {
        let is_behind = if step >= 0 { next <= self.logged } else { next >= self.logged };
        is_behind && !self.is_unknown
    }
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next value and moves the counter on by `step`.
    pub fn take(self: &Arc<Self>, number: u32, step: i64) -> Result<Take, Error> {
        let mut state = self.lock();
        let State { next, end, is_logging, .. } = *state;
        let after = next.checked_add(step).ok_or(Error::CounterEnds { number, value: next })?;
        if state.covers(after, step) {
            state.next = after;
            return Ok(Take::Value(next, end));
        }
        if is_logging {
            return Ok(Take::Wait(self.logged.listen()));
        }
        state.begin_logging();
        drop(state);
        let ahead = next.saturating_add(step.saturating_mul(AHEAD));
        Ok(Take::Log(Logging(Arc::clone(self), false), ahead))
    }

    /// Takes the right to log the counter.
    pub fn begin_logging(self: &Arc<Self>) -> Result<Logging, EventListener> {
        let mut state = self.lock();
        if state.is_logging {
            return Err(self.logged.listen());
        }
        state.begin_logging();
        drop(state);
        Ok(Logging(Arc::clone(self), false))
    }

    /// The value that is taken next.
    pub fn peek(&self) -> i64 {
        self.lock().next
    }

    /// Takes the next value at once, whether or not the log has it: nobody else may see it before
    /// [`Counter::flush`].
    pub fn take_ahead(&self, number: u32, steps: &Steps) -> Result<i64, Error> {
        let mut state = self.lock();
        let mut value = state.next;
        if value < steps.least || value > steps.most {
            if !steps.cycles {
                return Err(Error::CounterEnds { number, value });
            }
            value = steps.again();
            // Where it was is behind what comes now.
            state.set();
        }
        state.next = match value.checked_add(steps.step) {
            Some(next) => next,
            None if steps.cycles => steps.again(),
            None => return Err(Error::CounterEnds { number, value }),
        };
        Ok(value)
    }

    /// Has it go on with `next` at once, whether or not the log has that.
    pub fn set_ahead(&self, next: i64) {
        let mut state = self.lock();
        state.next = next;
        state.set();
    }

    /// Makes the log say exactly where it goes on, if it says something else.
    pub fn settle(&self) {
        let mut state = self.lock();
        if state.next != state.logged {
            state.set();
        }
    }

    /// Makes sure that the log has the values that were taken ahead, or set.
    pub fn flush(self: &Arc<Self>, step: i64) -> Flush {
        let mut state = self.lock();
        if state.is_logging {
            return Flush::Wait(self.logged.listen());
        }
        if state.covers(state.next, step) {
            return Flush::Done(state.end);
        }
        state.begin_logging();
        // What was set is logged as it is.
        let ahead = match state.is_unknown {
            true => state.next,
            false => state.next.saturating_add(step.saturating_mul(AHEAD)),
        };
        drop(state);
        Flush::Log(Logging(Arc::clone(self), false), ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(next: i64) -> Arc<Counter> {
        let counters = Counters::default();
        assert!(counters.add(7, RowId { page: 1, slot: 0 }, next));
        counters.get(7).unwrap()
    }

    fn to_log(flush: Flush) -> (Logging, i64) {
        match flush {
            Flush::Log(logging, ahead) => (logging, ahead),
            Flush::Done(end) => panic!("nothing is to be logged: {end}"),
            Flush::Wait(_) => panic!("somebody logs"),
        }
    }

    #[test]
    fn what_is_set_while_somebody_logs_is_logged_next() {
        let counter = counter(100);
        counter.set_ahead(200);
        let (logging, ahead) = to_log(counter.flush(1));
        assert_eq!(ahead, 200);
        counter.set_ahead(5);
        assert!(matches!(counter.flush(1), Flush::Wait(_)));
        logging.done(ahead, 1, None);
        let (logging, ahead) = to_log(counter.flush(1));
        assert_eq!(ahead, 5, "the log would have it go on at 200");
        logging.done(ahead, 2, None);
        assert!(matches!(counter.flush(1), Flush::Done(2)));
    }

    #[test]
    fn a_cycle_that_ends_while_somebody_logs_is_logged_next() {
        let steps = Steps { step: 1, least: 1, most: 3, cycles: true };
        let counter = counter(2);
        assert_eq!(counter.take_ahead(7, &steps).unwrap(), 2);
        let (logging, ahead) = to_log(counter.flush(1));
        assert_eq!(counter.take_ahead(7, &steps).unwrap(), 3);
        assert_eq!(counter.take_ahead(7, &steps).unwrap(), 1);
        logging.done(ahead, 1, None);
        assert_eq!(to_log(counter.flush(1)).1, 2);
    }

    #[test]
    fn what_is_set_with_the_log_is_what_it_says() {
        let counter = counter(1);
        let logging = counter.begin_logging().ok().unwrap();
        counter.set_ahead(50);
        logging.done(9, 1, Some(9));
        assert_eq!(counter.peek(), 9);
        assert!(matches!(counter.flush(1), Flush::Done(1)));
    }
}
