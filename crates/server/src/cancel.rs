//! The keys of sessions, by which another connection cancels what one of them does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_sql::Canceller;

use crate::wire::startup::Key;

/// What is stopped.
#[derive(Clone, Debug)]
struct Work {
    secret: u32,
    canceller: Canceller,
    is_at_work: Arc<AtomicBool>,
}

/// The sessions of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<i32, Work>>>);

/// A session among them, until it is dropped.
pub(crate) struct Kept {
    keys: Keys,
    pub key: Key,
    is_at_work: Arc<AtomicBool>,
}

/// A statement runs until this is dropped: only then is there something to cancel.
pub(crate) struct AtWork(Arc<AtomicBool>);

impl Keys {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key that nobody can guess, of the session that pg_backend_pid() and v$session know by `process`; `None`:
    /// the system has no random bytes.
    pub fn keep(&self, process: i32, canceller: Canceller) -> Option<Kept> {
        let is_at_work = Arc::<AtomicBool>::default();
        let secret = getrandom::u32().ok()?;
        let work = Work { secret, canceller, is_at_work: Arc::clone(&is_at_work) };
        self.lock().insert(process, work);
        Some(Kept { keys: self.clone(), key: Key { process, secret }, is_at_work })
    }

    /// Cancels what the session with a key does, if there is one and it does something.
    pub fn cancel(&self, key: Key) {
        let work = self.lock().get(&key.process).filter(|own| own.secret == key.secret).cloned();
        if let Some(work) = work.filter(|own| own.is_at_work.load(Ordering::Acquire)) {
            work.canceller.cancel();
        }
    }
}

impl Kept {
    /// Whether a statement runs.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_at_work)
    }

    pub fn at_work(&self) -> AtWork {
        self.is_at_work.store(true, Ordering::Release);
        AtWork(Arc::clone(&self.is_at_work))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut sessions = self.keys.lock();
        // The number may be another session's by now.
        if sessions.get(&self.key.process).is_some_and(|own| own.secret == self.key.secret) {
            sessions.remove(&self.key.process);
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
