//! Advisory locks: numbers that a session locks until it releases them, or its transaction ends.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_heap::Error as HeapError;
use cellar_heap::locks::{LockError, LockTimeout, SessionLocks};
use cellar_wait::Session;

use super::transaction::Transaction;
use super::{Heap, from_heap};
use crate::error::Result;

/// A lock: a number, or two of them in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryKey {
    /// They are two.
    pub is_pair: bool,
    /// The number.
    pub number: u64,
}

/// How one is locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvisoryMode {
    /// Shared: others may lock it the same way.
    pub is_shared: bool,
    /// Until the transaction ends.
    pub in_transaction: bool,
}

/// The locks of a session: they are released when this is dropped.
#[derive(Debug)]
pub struct AdvisoryLocks(SessionLocks);

impl Heap {
    /// Locks of a session, of which it has none yet.
    ///
    /// # Errors
    /// 70162 the heap is not open, 70041 it is open read-only.
    pub fn advisory_locks(&self, session: &Session) -> Result<AdvisoryLocks> {
        Ok(AdvisoryLocks(self.store()?.session_locks(session)))
    }
}

impl AdvisoryLocks {
    /// The transaction of the session: who waits for it waits for these locks too.
    pub fn join(&self, transaction: Option<&Transaction>) {
        self.0.join(transaction.map(Transaction::number));
    }

    /// Locks a number, and waits at most this long for it; `None`: as long as it takes.
    ///
    /// # Errors
    /// 00060 deadlock, 30006 the lock timeout.
    #[boxed]
    pub async fn lock(
        &mut self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        most: Option<Duration>,
    ) -> Result<()> {
        let timeout = most.map_or(LockTimeout::Forever, LockTimeout::Until);
        self.ask(key, mode, timeout).await.map_err(|error| from_heap(HeapError::Lock(error)))
    }

    /// Locks a number if nobody is in the way; returns whether it did.
    ///
    /// # Errors
    /// None that is known.
    #[boxed]
    pub async fn try_lock(&mut self, key: AdvisoryKey, mode: AdvisoryMode) -> Result<bool> {
        match self.ask(key, mode, LockTimeout::None).await {
            Ok(()) => Ok(true),
            Err(LockError::Busy { .. }) => Ok(false),
            Err(error) => Err(from_heap(HeapError::Lock(error))),
        }
    }

    async fn ask(
        &mut self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        timeout: LockTimeout,
    ) -> std::result::Result<(), LockError> {
        let how = (mode.is_shared, mode.in_transaction);
        self.0.lock((key.is_pair, key.number), how, timeout).await
    }

    /// Releases one lock of the session; returns whether the session held it.
    pub fn unlock(&mut self, key: AdvisoryKey, is_shared: bool) -> bool {
        self.0.unlock((key.is_pair, key.number), is_shared)
    }

    /// Lets go of all that the session holds.
    pub fn unlock_all(&mut self) {
        self.0.unlock_all();
    }

    /// The transaction has ended.
    pub fn end_transaction(&mut self) {
        self.0.end_transaction();
    }
}
