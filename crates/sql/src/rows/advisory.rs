//! Advisory locks of one session.

use std::sync::Arc;

use cellar_instance::heap::{AdvisoryKey, AdvisoryLocks, AdvisoryMode, Transaction};
use futures_util::lock::Mutex;

use super::session::RowTables;
use crate::error::Error;

/// A request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// Wait for it.
    Lock,
    /// Do not wait.
    Try,
    /// Release it.
    Unlock,
    /// Release all.
    UnlockAll,
}

/// The locks of a session, once it has requested one.
#[derive(Clone, Debug, Default)]
pub(super) struct Advisory(Arc<Mutex<Option<AdvisoryLocks>>>);

impl Advisory {
    /// The session is in this transaction.
    pub async fn join(&self, transaction: &Transaction) {
        if let Some(locks) = &*self.0.lock().await {
            locks.join(Some(transaction));
        }
    }

    /// The transaction has ended.
    pub async fn end_transaction(&self) {
        if let Some(locks) = &mut *self.0.lock().await {
            locks.end_transaction();
        }
    }

    /// Releases all of them.
    pub async fn end(&self) {
        *self.0.lock().await = None;
    }
}

impl RowTables {
    /// Locks or releases a number; whether that was possible.
    ///
    /// # Errors
    /// 00060 deadlock, 30006 the lock timeout; the heap is not open.
    pub(crate) async fn advise(
        &self,
        ask: Ask,
        key: AdvisoryKey,
        mode: AdvisoryMode,
    ) -> Result<bool, Error> {
        if !self.are_open() {
            self.database().use_heap(&|_, _| ()).await?;
        }
        let advisory = self.advisory();
        let mut locks = advisory.0.lock().await;
        if locks.is_none() {
            *locks = Some(self.database().heap().advisory_locks(self.session().waits())?);
        }
        let Some(locks) = locks.as_mut() else { return Ok(false) };
        self.join_open(locks).await;
        match ask {
            Ask::Lock => {
                locks.lock(key, mode, self.settings().now().lock_timeout).await?;
                Ok(true)
            }
            Ask::Try => Ok(locks.try_lock(key, mode).await?),
            Ask::Unlock => Ok(locks.unlock(key, mode.is_shared)),
            Ask::UnlockAll => {
                locks.unlock_all();
                Ok(true)
            }
        }
    }
}
