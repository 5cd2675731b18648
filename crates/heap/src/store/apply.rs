//! Changes that are committed together.

use bytes::Bytes;
use cellar_wait::Session;

use super::plan::{PAGES_LEAST, Plan};
use super::{LongValues, Store};
use crate::error::Error;
use crate::lane::Applied;
use crate::locks::Held;
use crate::row_id::RowId;
use async_recursion::async_recursion as boxed;

/// A key of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The number of the index.
    pub index: u32,
    /// Its bytes, in the order of the keys; no key begins with another one.
    pub bytes: Bytes,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new row.
    Insert {
        /// The number of the table.
        table: u32,
        /// Its bytes.
        row: Bytes,
        /// Its keys.
        keys: Vec<Key>,
    },
    /// A row gets other bytes.
    Update {
        /// The number of the table.
        table: u32,
        /// Which row.
        id: RowId,
        /// Its new bytes.
        row: Bytes,
        /// Keys that it has no longer.
        gone: Vec<Key>,
        /// Keys that it has from now on.
        new: Vec<Key>,
    },
    /// A row is deleted.
    Delete {
        /// The number of the table.
        table: u32,
        /// Which row.
        id: RowId,
        /// Its keys.
        keys: Vec<Key>,
    },
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where its record begins in the log.
    pub lsn: u64,
    /// The row of each change; `None` for one that was deleted.
    pub rows: Vec<Option<RowId>>,
}

impl Store {
    /// Does all these changes or none, and returns when that is durable. Nobody else may change the same
    /// rows and keys meanwhile.
    ///
    /// # Errors
    /// [`Error::RowTooLong`], [`Error::KeyTooLong`], [`Error::NoRow`], [`Error::Full`]; those of the log,
    /// after which the outcome is unknown.
    #[boxed]
    pub async fn commit(&self, session: &Session, changes: Vec<Change>) -> Result<Outcome, Error> {
        self.commit_with(session, changes, LongValues::default(), None).await
    }

    /// As [`Store::commit`]; the locks are released when the changes are in the log, and seen by who looks
    /// at what is newest.
    pub(crate) async fn commit_with(
        &self,
        session: &Session,
        changes: Vec<Change>,
        values: LongValues,
        locks: Option<Held>,
    ) -> Result<Outcome, Error> {
        let inner = &self.0;
        inner.check_running()?;
        inner.wait_for_writer(session).await?;
        inner.wait_for_spiller(session).await?;
        let mut plan = Plan::new(inner, session);
        plan.hold(locks);
        if !values.is_empty() {
            plan.add_long(values).await;
        }
        for change in changes {
            plan.add(change).await?;
        }
        let Applied { queued, rows, locks, .. } = plan.run().await?;
        drop(locks);
        let lsn = inner.wait(session, queued).await?;
        Ok(Outcome { lsn, rows })
    }

    /// Whether so many changes of rows and keys, with so many bytes, are never too large.
    pub(crate) fn surely_fits(&self, changes: usize, bytes: u64) -> bool {
        let pages = (self.0.options.cache_pages as u64 / 4).max(PAGES_LEAST);
        // One change may need another page on each level of an index; below is little else.
        changes as u64 <= pages / 2 && bytes <= self.transaction_bytes_max() / 2
    }

    /// Reads and provides what a commit of these changes needs, and of `long` values with so many pages and bytes,
    /// and does not commit.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]; as [`Store::commit`].
    pub(crate) async fn dry_run(
        &self,
        session: &Session,
        changes: Vec<Change>,
        long: (usize, u64),
    ) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_running()?;
        let mut plan = Plan::new(inner, session);
        for change in changes {
            plan.add(change).await?;
        }
        plan.dry_run(long).await
    }
}
