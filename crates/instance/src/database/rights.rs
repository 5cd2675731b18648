//! Owners and grants that a transaction changes.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;

use super::Definitions;
use crate::catalog::Table;
use crate::error::Result;
use crate::heap::Transaction;

impl Definitions {
    /// Locks objects and roles, by their keys, until the transaction ends, so that nobody else changes
    /// their rights meanwhile. Reading and changing rows goes on.
    ///
    /// # Errors
    /// 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_rights(
        &self,
        transaction: &mut Transaction,
        keys: BTreeSet<String>,
    ) -> Result<()> {
        self.lock_names(transaction, keys).await?;
        self.settle().await;
        Ok(())
    }

    /// Changes the owner or the grants of a [locked](Definitions::lock_rights) object.
    ///
    /// # Errors
    /// 00942 it is gone meanwhile.
    pub fn put_rights(&self, key: &str, of: impl FnOnce(&Table) -> Table) -> Result<()> {
        self.define(|catalog| catalog.with_rights(key, of))
    }
}
