//! Counters, from which sequences are made: outside transactions, logged ahead, so that most values cost no
//! redo. After a crash a counter goes on behind all values that anybody was given.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use event_listener::{Event, EventListener};

use crate::error::Error;
use crate::row_id::RowId;

/// The number of the table that has a row for each counter.
pub(crate) const COUNTERS: u32 = u32::MAX;

/// So many values are logged ahead.
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
    /// The log says that it goes on here.
    logged: i64,
    /// What was given is durable when the log is up to here.
    end: u64,
    /// Somebody logs.
    is_logging: bool,
}

/// What somebody who wants a value gets.
pub(crate) enum Take {
    /// The value, and where the log must be durable before anybody may see it.
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
            // What the log says is not known: the next value is logged first.
            state.logged = state.next;
        }
        drop(state);
        self.0.logged.notify(usize::MAX);
    }
}

impl Logging {
    /// Says that the log has the value, and where that record ends; `next`: where the counter goes on.
    pub fn done(mut self, logged: i64, end: u64, next: Option<i64>) {
        self.1 = true;
        let mut state = self.0.lock();
        (state.logged, state.end) = (logged, end);
        state.next = next.unwrap_or(state.next);
    }
}

impl Counters {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Counter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a counter that goes on with `next`; false where the number is taken.
    pub fn add(&self, number: u32, id: RowId, next: i64) -> bool {
        let state = State { next, logged: next, end: 0, is_logging: false };
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

    /// The numbers of all.
    pub fn numbers(&self) -> Vec<u32> {
        self.lock().keys().copied().collect()
    }

    pub fn remove(&self, number: u32) {
        self.lock().remove(&number);
    }
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next value, behind which the counter goes on `step` further.
    pub fn take(self: &Arc<Self>, number: u32, step: i64) -> Result<Take, Error> {
        let mut state = self.lock();
        let State { next, logged, end, is_logging } = *state;
        let after = next.checked_add(step).ok_or(Error::CounterEnds { number, value: next })?;
        // It goes up or down; a step in the other direction than what was logged is logged anew.
        let is_covered = match step >= 0 {
            true => after <= logged,
            false => after >= logged,
        };
        if is_covered {
            state.next = after;
            return Ok(Take::Value(next, end));
        }
        if is_logging {
            return Ok(Take::Wait(self.logged.listen()));
        }
        state.is_logging = true;
        drop(state);
        let ahead = next.saturating_add(step.saturating_mul(AHEAD));
        Ok(Take::Log(Logging(Arc::clone(self), false), ahead))
    }

    /// Takes the right to log it.
    pub fn begin_logging(self: &Arc<Self>) -> Result<Logging, EventListener> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_logging, true) {
            return Err(self.logged.listen());
        }
        drop(state);
        Ok(Logging(Arc::clone(self), false))
    }
}
