//! Group commit around a store that has none: the first committer that finds the store idle takes
//! the queued records and commits them together; the others wait for it.

use std::sync::{Condvar, Mutex, MutexGuard};

use serde_json::Value;

use crate::Error;
use crate::load::Store;

/// A store that makes several records durable at once.
pub trait Together: Send + Sync {
    /// Returns when all are durable, each under its key.
    fn commit_all(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Error>;

    /// Version and settings, for people.
    fn about(&self) -> Value;
}

/// Each committer commits separately.
pub struct Alone<T>(pub T);

impl<T: Together> Store for Alone<T> {
    fn commit(&self, _: usize, key: u64, record: &[u8]) -> Result<(), Error> {
        self.0.commit_all(&[(key, record.to_vec())])
    }

    fn about(&self) -> Value {
        self.0.about()
    }
}

/// Concurrent committers commit together.
pub struct Grouped<T> {
    store: T,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<(u64, Vec<u8>)>,
    /// The group of newly queued records.
    next: u64,
    /// Groups below are durable.
    durable: u64,
    leading: bool,
    failed: Option<String>,
}

impl<T: Together> Grouped<T> {
    pub fn new(store: T) -> Grouped<T> {
        Grouped { store, state: Mutex::default(), done: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T: Together> Store for Grouped<T> {
    fn commit(&self, _: usize, key: u64, record: &[u8]) -> Result<(), Error> {
        let mut state = self.lock();
        state.queue.push((key, record.to_vec()));
        let mine = state.next;
        loop {
            if let Some(why) = &state.failed {
                return Err(why.clone().into());
            }
            if state.durable > mine {
                return Ok(());
            }
            if state.leading {
                state = self.done.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            let records = std::mem::take(&mut state.queue);
            state.leading = true;
            state.next += 1;
            drop(state);
            let result = self.store.commit_all(&records);
            state = self.lock();
            state.leading = false;
            match result {
                Ok(()) => state.durable = mine + 1,
                Err(error) => state.failed = Some(error.to_string()),
            }
            self.done.notify_all();
        }
    }

    fn about(&self) -> Value {
        let mut about = self.store.about();
        about["grouped"] = "by the benchmark: what is queued, in one transaction".into();
        about
    }
}
