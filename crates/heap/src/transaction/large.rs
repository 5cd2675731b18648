//! Transactions that may be too large for one commit: the check, and giving up the changes to a table that another
//! table replaces.

use async_recursion::async_recursion as boxed;

use super::Transaction;
use super::load::State;
use crate::error::Error;
use crate::locks::{LockError, LockTimeout, Mode, Resource};
use crate::row_id::RowId;

impl Transaction {
    /// Whether it may be more than one commit takes. It costs no I/O.
    pub fn may_be_too_large(&self) -> bool {
        // A load says so as rows come.
        let steps = self.own.steps() + self.own.long_size().0;
        matches!(self.load, State::None) && !self.store.surely_fits(steps, self.own.bytes())
    }

    /// Refuses what a commit would refuse now as too large. All that the commit reads is read for that, where it
    /// may be too large at all.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]; as [`Store::commit`](crate::Store::commit).
    #[boxed]
    pub async fn check_fits(&mut self) -> Result<(), Error> {
        if !self.may_be_too_large() {
            return Ok(());
        }
        let (changes, long) = (self.own.copied(), self.own.long_size());
        self.store.dry_run(&self.session, changes, long).await
    }

    /// The tables whose rows it has changed, each with how many rows, most first.
    pub fn changed_tables(&self) -> Vec<(u32, u64)> {
        let mut tables = self.own.tables();
        tables.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        tables
    }

    /// Gives up the changes to a table with these indexes, because another table replaces it. The transaction cannot
    /// return to an earlier savepoint.
    pub fn give_up(&mut self, table: u32, indexes: &[u32]) {
        self.own.give_up(table, indexes);
    }

    /// Locks a row, waiting for it as `timeout` says, and locks its table against anything that moves its rows.
    /// Nobody waits for a row while holding that table lock: whoever moves rows usually has some locked that others
    /// wait for, and would in turn wait for these others.
    pub(super) async fn lock_in_table(
        &mut self,
        table: u32,
        id: RowId,
        mode: Mode,
        timeout: LockTimeout,
    ) -> Result<(), Error> {
        let (row, table) = (Resource::Row(table, id), Resource::Table(table));
        loop {
            self.lock_within(row, mode, timeout).await?;
            if self.held.has(&table, Mode::RowShare) {
                return Ok(());
            }
            let before = self.held.mode(&table);
            let wanted = (self.held.owner(), table, Mode::RowShare);
            let (locks, env) = (self.store.locks().clone(), self.store.env().clone());
            match locks.acquire(&env, &self.session, wanted, LockTimeout::None).await {
                Ok(()) => {
                    self.held.add(table, Mode::RowShare);
                    return Ok(());
                }
                Err(LockError::Busy { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            // It was locked just now: with others before the table would be too.
            self.held.release(row);
            locks.acquire(&env, &self.session, wanted, self.timeout).await?;
            locks.weaken(self.held.owner(), table, before);
        }
    }
}
