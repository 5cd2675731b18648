//! A transaction of a session, and what its statements read: wrappers of the store's, with errors as
//! users see them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_heap::locks::{LockError, LockTimeout, Mode, Resource};
use cellar_heap::{
    Error as HeapError, Isolation, Key, LocksOf, RangeScan, RowBatch, RowKey, RowRef,
    Savepoint as HeapSavepoint, StatementView, TableScan, TableShares,
};
use cellar_wait::Session;

use super::catalog_rows::{keep_name, lock_name};
use super::incomplete_objects::{IncompleteObjects, Leaving};
use super::{Heap, from_heap};
use crate::catalog::{Catalog, Index, RowTable};
use crate::error::{Error, Result};

/// How a transaction reads and waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// REPEATABLE READ: all statements see what was committed when the first began.
    pub is_snapshot: bool,
    /// How long it waits for a lock; `None`: as long as it takes.
    pub lock_timeout: Option<Duration>,
}

/// A key of a row, for one of the indexes of its table.
#[derive(Clone, Debug)]
pub struct IndexKey {
    /// Its bytes.
    pub bytes: Bytes,
    /// Whether it contains a NULL: then it equals no other key.
    pub has_null: bool,
}

/// Why a row could not be changed.
#[derive(Debug)]
pub enum ChangeError {
    /// Another row has its key.
    Duplicate {
        /// Of which index of the table, from 0.
        index: usize,
        /// The number of the row that has it.
        row: u64,
    },
    /// Something else.
    Other(Error),
}

impl From<HeapError> for ChangeError {
    fn from(error: HeapError) -> ChangeError {
        ChangeError::Other(from_heap(error))
    }
}

/// A row that was locked for a change.
#[derive(Clone, Debug)]
pub struct LockedRow {
    /// Its bytes now; `None`: it is gone.
    pub bytes: Option<Bytes>,
    /// Whether it differs from the row that the statement saw.
    pub is_changed: bool,
}

/// How a row is locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowLock {
    /// FOR SHARE: others may lock it the same way.
    pub is_shared: bool,
    /// NOWAIT: fail rather than wait.
    pub is_nowait: bool,
}

/// How LOCK TABLE locks a table: PostgreSQL's modes, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLock {
    /// ACCESS SHARE.
    AccessShare,
    /// ROW SHARE.
    RowShare,
    /// ROW EXCLUSIVE.
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE.
    ShareUpdateExclusive,
    /// SHARE.
    Share,
    /// SHARE ROW EXCLUSIVE.
    ShareRowExclusive,
    /// EXCLUSIVE.
    Exclusive,
    /// ACCESS EXCLUSIVE.
    AccessExclusive,
}

impl TableLock {
    fn mode(self) -> Mode {
        match self {
            TableLock::AccessShare => Mode::AccessShare,
            TableLock::RowShare => Mode::RowShare,
            TableLock::RowExclusive => Mode::RowExclusive,
            TableLock::ShareUpdateExclusive => Mode::ShareUpdateExclusive,
            TableLock::Share => Mode::Share,
            TableLock::ShareRowExclusive => Mode::ShareRowExclusive,
            TableLock::Exclusive => Mode::Exclusive,
            TableLock::AccessExclusive => Mode::AccessExclusive,
        }
    }
}

/// A guard: until it is dropped the transaction waits for no lock, even if the caller gives up half-way.
struct AtOnce<'a>(&'a mut cellar_heap::Transaction, LockTimeout);

impl AtOnce<'_> {
    fn of(transaction: &mut cellar_heap::Transaction) -> AtOnce<'_> {
        let before = transaction.set_lock_timeout(LockTimeout::None);
        AtOnce(transaction, before)
    }
}

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        self.0.set_lock_timeout(self.1);
    }
}

/// A savepoint among the changes of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint(HeapSavepoint);

/// A transaction. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction(pub(super) cellar_heap::Transaction, IncompleteObjects);

/// What a statement reads: the tables as they were when it began, with the changes of its own
/// transaction. Clones read the same.
#[derive(Clone)]
pub struct Statement {
    view: StatementView,
    /// What came to have its rows meanwhile; `None`: no index is gone by, as it may lack rows that are there.
    incomplete: Option<IncompleteObjects>,
}

impl Heap {
    /// Begins a transaction.
    ///
    /// # Errors
    /// 70162 the heap is not open, 70041 it is open read-only.
    pub fn begin(&self, session: &Session, begin: Begin) -> Result<Transaction> {
        let isolation = match begin.is_snapshot {
            true => Isolation::Snapshot,
            false => Isolation::ReadCommitted,
        };
        let timeout = begin.lock_timeout.map_or(LockTimeout::Forever, LockTimeout::Until);
        let begun = self.store()?.begin(session, isolation, timeout);
        Ok(Transaction(begun, self.0.incomplete.clone()))
    }
}

/// What a commit does to tables and indexes.
pub(crate) struct Moved {
    /// The catalog names them no more.
    pub left: BTreeSet<u32>,
    /// They have rows that others have left.
    pub filled: BTreeSet<u32>,
}

impl Heap {
    /// Commits a transaction together with a change of the catalog. Its locks are not free before the
    /// returned value is dropped: those who wait for one must find the catalog that is durable.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; 70164 the catalog is another one.
    pub(crate) async fn commit_with(
        &self,
        transaction: Transaction,
        now: Arc<Catalog>,
        next: Arc<Catalog>,
        moved: Moved,
    ) -> Result<(LocksOf, Leaving)> {
        let leaving = self.leaving(&moved.left);
        let Transaction(mut transaction, _) = transaction;
        // It has the turn to change the catalog, for which they wait who have what it would wait for.
        transaction.set_lock_timeout(LockTimeout::None);
        let (locks, lsn) = self.commit_change(transaction, &now, &next).await?;
        moved.filled.into_iter().for_each(|object| self.is_filled(object, lsn));
        Ok((locks, leaving))
    }
}

impl Transaction {
    /// Locks a table against DDL until the transaction ends.
    ///
    /// # Errors
    /// 00060 deadlock, 30006 the lock timeout.
    #[boxed]
    pub async fn lock_to_read(&mut self, table: &RowTable) -> Result<()> {
        let resource = Resource::Table(table.object);
        self.0.lock(resource, Mode::AccessShare).await.map_err(from_heap)
    }

    /// Locks a table until the transaction ends, as LOCK TABLE says.
    ///
    /// # Errors
    /// As [`Transaction::lock_to_read`]; 00054 others hold it, and `is_nowait`.
    #[boxed]
    pub async fn lock_table(
        &mut self,
        table: &RowTable,
        lock: TableLock,
        is_nowait: bool,
    ) -> Result<()> {
        let (resource, mode) = (Resource::Table(table.object), lock.mode());
        if !is_nowait {
            return self.0.lock(resource, mode).await.map_err(from_heap);
        }
        let at_once = AtOnce::of(&mut self.0);
        at_once.0.lock(resource, mode).await.map_err(from_heap)
    }

    /// Locks the name of a table, an index or another object until the transaction ends, even a name that
    /// nothing has.
    ///
    /// # Errors
    /// As [`Transaction::lock_to_read`].
    #[boxed]
    pub async fn lock_name(&mut self, name: &str) -> Result<()> {
        lock_name(&mut self.0, name).await.map_err(from_heap)
    }

    /// Keeps an object under its name, and its rows, until the transaction ends: others may do the same.
    ///
    /// # Errors
    /// As [`Transaction::lock_to_read`]; 00054 NOWAIT, and somebody is about to drop it.
    #[boxed]
    pub async fn keep_name(&mut self, name: &str, is_nowait: bool) -> Result<()> {
        if !is_nowait {
            return keep_name(&mut self.0, name).await.map_err(from_heap);
        }
        let at_once = AtOnce::of(&mut self.0);
        keep_name(&mut *at_once.0, name).await.map_err(from_heap)
    }

    /// Whether it has loaded rows: going back to a mark takes them back.
    pub fn has_loaded(&self) -> bool {
        self.0.has_loaded()
    }

    /// Whether it has changed rows of a table.
    pub fn has_changed(&self, table: &RowTable) -> bool {
        self.0.has_changed(table.object)
    }

    /// Whether it may be more than one commit takes. Costs no I/O.
    pub fn may_be_too_large(&self) -> bool {
        self.0.may_be_too_large()
    }

    /// Refuses what a commit would refuse now as too large.
    ///
    /// # Errors
    /// 70207; no room; the disk reports one.
    #[boxed]
    pub async fn check_fits(&mut self) -> Result<()> {
        self.0.check_fits().await.map_err(from_heap)
    }

    /// The numbers in the heap of the tables whose rows it has changed, those with the most rows first.
    pub fn changed_tables(&self) -> Vec<u32> {
        self.0.changed_tables().into_iter().map(|(table, _)| table).collect()
    }

    /// Discards its changes to a table: another one takes its place.
    pub(crate) fn give_up(&mut self, table: &RowTable) {
        let indexes: Vec<u32> = table.indexes.iter().map(|index| index.object).collect();
        self.0.give_up(table.object, &indexes);
    }

    /// Its number, by which others see who holds a lock.
    pub(super) fn number(&self) -> u64 {
        self.0.number()
    }

    /// How long it waits for a lock from now on; `None`: as long as it takes.
    pub fn set_lock_timeout(&mut self, time: Option<Duration>) {
        self.0.set_lock_timeout(time.map_or(LockTimeout::Forever, LockTimeout::Until));
    }

    /// Whether all its statements see what was committed when the first began.
    pub fn is_snapshot(&self) -> bool {
        self.0.isolation() == Isolation::Snapshot
    }

    /// Begins a statement.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn statement(&mut self) -> Result<Statement> {
        self.0.begin_statement().await.map_err(from_heap)?;
        self.again().await
    }

    /// The statement that is under way, with what it has changed so far.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn again(&mut self) -> Result<Statement> {
        Ok(Statement::of(self.0.statement().await.map_err(from_heap)?, self.1.clone()))
    }

    /// What is committed now, even if no statement of the transaction sees it, with the transaction's own
    /// changes. Under READ COMMITTED a statement begins with it.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn look_anew(&mut self) -> Result<Statement> {
        Ok(Statement::of(self.0.look_anew().await.map_err(from_heap)?, self.1.clone()))
    }

    /// Whether a row has a key of a unique index now. Nobody takes the key from it, or gives it to one, before the
    /// transaction ends.
    ///
    /// # Errors
    /// 00060, 30006; the disk reports one.
    #[boxed]
    pub async fn refer_to(&mut self, index: &Index, key: Bytes) -> Result<bool> {
        let key = Key { index: index.object, bytes: key };
        self.0.refer_to(&key).await.map_err(from_heap)
    }

    /// Locks a row.
    ///
    /// # Errors
    /// 00060, 30006, 00054; 08177 at a snapshot, where others have changed it; the disk reports one.
    #[boxed]
    pub async fn lock_row(
        &mut self,
        table: &RowTable,
        row: u64,
        how: RowLock,
    ) -> Result<LockedRow> {
        let found = self.lock_row_as(table, row, how).await.map_err(from_heap)?;
        let cellar_heap::LockedRow { bytes, is_changed } = found;
        Ok(LockedRow { bytes, is_changed })
    }

    /// As [`Transaction::lock_row`] without waiting; `None`: others have it.
    ///
    /// # Errors
    /// As [`Transaction::lock_row`].
    #[boxed]
    pub async fn lock_free_row(
        &mut self,
        table: &RowTable,
        row: u64,
        how: RowLock,
    ) -> Result<Option<LockedRow>> {
        let how = RowLock { is_nowait: true, ..how };
        match self.lock_row_as(table, row, how).await {
            Ok(found) => {
                let cellar_heap::LockedRow { bytes, is_changed } = found;
                Ok(Some(LockedRow { bytes, is_changed }))
            }
            Err(HeapError::Lock(LockError::Busy { .. })) => Ok(None),
            Err(error) => Err(from_heap(error)),
        }
    }

    async fn lock_row_as(
        &mut self,
        table: &RowTable,
        row: u64,
        how: RowLock,
    ) -> std::result::Result<cellar_heap::LockedRow, HeapError> {
        let Some(at) = RowRef::from_u64(row) else {
            return Ok(cellar_heap::LockedRow { bytes: None, is_changed: false });
        };
        let mode = if how.is_shared { Mode::Share } else { Mode::Exclusive };
        match how.is_nowait {
            true => self.0.lock_row_at_once(table.object, at, mode).await,
            false => self.0.lock_row_seen(table.object, at, mode).await,
        }
    }

    /// Adds a row, with a key for each index.
    ///
    /// # Errors
    /// [`ChangeError::Duplicate`]; 00060, 30006; the disk reports one.
    #[boxed]
    pub async fn insert(
        &mut self,
        table: &RowTable,
        row: Bytes,
        keys: &[IndexKey],
    ) -> std::result::Result<u64, ChangeError> {
        let keys = table.indexes.iter().zip(keys).map(|(index, key)| row_key(index, key)).collect();
        match self.0.insert(table.object, row, keys).await {
            Ok(row) => Ok(row.to_u64()),
            Err(error) => Err(change_error(table, error)),
        }
    }

    /// As [`Transaction::insert`]; of several keys that others have, one of the index `first` is told.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    #[boxed]
    pub async fn insert_looking_first(
        &mut self,
        table: &RowTable,
        row: Bytes,
        keys: &[IndexKey],
        first: usize,
    ) -> std::result::Result<u64, ChangeError> {
        let pairs = table.indexes.iter().zip(keys);
        let mut keys: Vec<RowKey> = pairs.map(|(index, key)| row_key(index, key)).collect();
        if first < keys.len() {
            keys[..=first].rotate_right(1);
        }
        match self.0.insert(table.object, row, keys).await {
            Ok(row) => Ok(row.to_u64()),
            Err(error) => Err(change_error(table, error)),
        }
    }

    /// Gives a locked row new bytes, and new keys where they differ.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    #[boxed]
    pub async fn update(
        &mut self,
        table: &RowTable,
        row: u64,
        bytes: Bytes,
        keys: (&[IndexKey], &[IndexKey]),
    ) -> std::result::Result<(), ChangeError> {
        let (old_keys, new_keys) = differing(table, keys);
        let at = (table.object, row_ref(row).map_err(ChangeError::Other)?);
        let updated = self.0.update(at, bytes, old_keys, new_keys).await;
        updated.map_err(|error| change_error(table, error))
    }

    /// The first half of [`Transaction::update`]: the row has the other bytes, and gives up the keys that
    /// differ.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    #[boxed]
    pub async fn give_up_keys(
        &mut self,
        table: &RowTable,
        row: u64,
        bytes: Bytes,
        keys: (&[IndexKey], &[IndexKey]),
    ) -> std::result::Result<(), ChangeError> {
        let at = (table.object, row_ref(row).map_err(ChangeError::Other)?);
        let (old, _) = differing(table, keys);
        let updated = self.0.update(at, bytes, old, Vec::new()).await;
        updated.map_err(|error| change_error(table, error))
    }

    /// The second half: the row takes the new keys.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    #[boxed]
    pub async fn take_keys(
        &mut self,
        table: &RowTable,
        row: u64,
        bytes: Bytes,
        keys: (&[IndexKey], &[IndexKey]),
    ) -> std::result::Result<(), ChangeError> {
        let at = (table.object, row_ref(row).map_err(ChangeError::Other)?);
        let (_, new) = differing(table, keys);
        let updated = self.0.update(at, bytes, Vec::new(), new).await;
        updated.map_err(|error| change_error(table, error))
    }

    /// Deletes a row that is locked.
    ///
    /// # Errors
    /// 00060, 30006; the disk reports one.
    #[boxed]
    pub async fn delete(
        &mut self,
        table: &RowTable,
        row: u64,
        keys: &[IndexKey],
    ) -> std::result::Result<(), ChangeError> {
        let keys = table.indexes.iter().zip(keys).map(|(index, key)| row_key(index, key)).collect();
        let at = row_ref(row).map_err(ChangeError::Other)?;
        let deleted = self.0.delete(table.object, at, keys).await;
        deleted.map_err(|error| change_error(table, error))
    }

    /// Stores a value in pages of its own; returns the first of them.
    ///
    /// # Errors
    /// 70206 it is too long; no room.
    #[boxed]
    pub async fn put_long(&mut self, table: &RowTable, value: Bytes) -> Result<u32> {
        self.0.put_long(table.object, value).await.map_err(from_heap)
    }

    /// Frees a long value of a locked row, which then no longer refers to it.
    ///
    /// # Errors
    /// The disk reports one.
    #[boxed]
    pub async fn free_long(&mut self, table: &RowTable, page: u32) -> Result<()> {
        self.0.free_long(table.object, page).await.map_err(from_heap)
    }

    /// A savepoint to which the changes that follow can be undone.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.0.savepoint())
    }

    /// Undoes the changes since; locks stay.
    pub fn back_to(&mut self, savepoint: Savepoint) {
        self.0.rollback_to(savepoint.0);
    }

    /// Commits: durable when it returns.
    ///
    /// # Errors
    /// 70207 it is too large, no room; 70152 whether it is durable is not known.
    #[boxed]
    pub async fn commit(self) -> Result<()> {
        self.0.commit().await.map_err(from_heap)?;
        Ok(())
    }
}

/// The keys that a row has in one state and not in the other.
fn differing(
    table: &RowTable,
    (gone, new): (&[IndexKey], &[IndexKey]),
) -> (Vec<RowKey>, Vec<RowKey>) {
    let pairs = table.indexes.iter().zip(gone.iter().zip(new));
    let differ = pairs.filter(|(_, (old, new))| old.bytes != new.bytes);
    differ.map(|(index, (old, new))| (row_key(index, old), row_key(index, new))).unzip()
}

fn row_ref(number: u64) -> Result<RowRef> {
    let found = RowRef::from_u64(number);
    found.ok_or_else(|| Error::new(1410, format!("{number} is the number of no row")))
}

pub(super) fn row_key(index: &Index, key: &IndexKey) -> RowKey {
    let is_unique = index.is_unique && !key.has_null;
    RowKey { key: Key { index: index.object, bytes: key.bytes.clone() }, is_unique }
}

pub(super) fn change_error(table: &RowTable, error: HeapError) -> ChangeError {
    if let HeapError::Duplicate { index, row } = &error
        && let Some(at) = table.indexes.iter().position(|own| own.object == *index)
    {
        return ChangeError::Duplicate { index: at, row: row.to_u64() };
    }
    error.into()
}

/// A scan of a table under way.
pub struct Scan(TableScan);

/// A scan of an index under way.
pub struct Entries(RangeScan);

/// About how large a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Pages with rows.
    pub pages: u64,
    /// Rows.
    pub rows: u64,
}

/// A table, divided among tasks that scan it beside each other.
#[derive(Debug)]
pub struct Shares(TableShares);

impl Shares {
    /// Begins to scan a share, from 0 on.
    pub fn scan(&self, share: usize) -> Scan {
        Scan(self.0.scan(share))
    }
}

impl Statement {
    pub(super) fn of(view: StatementView, incomplete: IncompleteObjects) -> Statement {
        Statement { view, incomplete: Some(incomplete) }
    }

    /// The same, which goes by no index.
    pub(super) fn without_indexes(self) -> Statement {
        Statement { incomplete: None, ..self }
    }

    /// Whether a table has all visible rows: not if it was rewritten after this statement's snapshot.
    pub fn has_all_rows(&self, table: &RowTable) -> bool {
        self.incomplete
            .as_ref()
            .is_none_or(|incomplete| incomplete.is_whole(table.object, self.view.point()))
    }

    /// Whether an index has all visible rows: not if it was built after this statement's snapshot.
    pub fn is_complete_index(&self, index: &Index) -> bool {
        self.incomplete
            .as_ref()
            .is_some_and(|incomplete| incomplete.is_whole(index.object, self.view.point()))
    }

    /// Divides a table among so many tasks.
    ///
    /// # Errors
    /// The table is gone.
    pub fn shares(&self, table: &RowTable, shares: usize) -> Result<Shares> {
        Ok(Shares(self.view.shares(table.object, shares).map_err(from_heap)?))
    }

    /// The bytes of a row; `None` where there is none.
    ///
    /// # Errors
    /// 01578 a page is damaged, 01555 the snapshot is too old; the disk reports one.
    #[boxed]
    pub async fn row(&self, table: &RowTable, row: u64) -> Result<Option<Bytes>> {
        self.view.row(table.object, row_ref(row)?).await.map_err(from_heap)
    }

    /// The bytes of several rows.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn rows(&self, table: &RowTable, rows: &[u64]) -> Result<Vec<Option<Bytes>>> {
        let rows = rows.iter().map(|row| row_ref(*row)).collect::<Result<Vec<_>>>()?;
        self.view.rows(table.object, &rows).await.map_err(from_heap)
    }

    /// Begins to read the rows whose keys lie between these bounds. A bound stands for all keys that begin
    /// with it.
    ///
    /// # Errors
    /// The index is gone; 08177 it is not [whole](Statement::is_complete_index).
    pub fn range(
        &self,
        index: &Index,
        bounds: (Bound<Bytes>, Bound<Bytes>),
        backwards: bool,
    ) -> Result<Entries> {
        if !self.is_complete_index(index) {
            let text = format!("index \"{}\" was built behind this snapshot", index.name);
            return Err(Error::new(8177, text).hint("run the transaction again"));
        }
        Ok(Entries(self.view.range(index.object, bounds, backwards).map_err(from_heap)?))
    }

    /// About how many pages and rows a table has.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn size(&self, table: &RowTable) -> Result<TableSize> {
        let size = self.view.size(table.object).await.map_err(from_heap)?;
        Ok(TableSize { pages: size.pages, rows: size.rows })
    }

    /// The same, with some of its rows, as they are stored.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn sample(&self, table: &RowTable) -> Result<(TableSize, Vec<Bytes>)> {
        let sample = self.view.sample(table.object).await.map_err(from_heap)?;
        let size = TableSize { pages: sample.size.pages, rows: sample.size.rows };
        Ok((size, sample.rows))
    }

    /// About how many rows have keys between these bounds.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn expected(
        &self,
        index: &Index,
        bounds: (Bound<Bytes>, Bound<Bytes>),
    ) -> Result<u64> {
        self.view.expected(index.object, bounds).await.map_err(from_heap)
    }

    /// A long value, as a row has it.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn long(&self, table: &RowTable, page: u32, length: u32) -> Result<Bytes> {
        self.view.long(table.object, page, length).await.map_err(from_heap)
    }
}

/// Rows that a scan gave together.
pub struct Rows(RowBatch);

impl Rows {
    /// Each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().map(|(row, bytes)| (row.to_u64(), bytes))
    }
}

impl Scan {
    /// The next rows; `None` behind the last.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        Ok(self.0.next().await.map_err(from_heap)?.map(Rows))
    }
}

impl Entries {
    /// The next rows, at most so many; none behind the last.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn next(&mut self, count: usize) -> Result<Vec<u64>> {
        let entries = self.0.next(count).await.map_err(from_heap)?;
        Ok(entries.into_iter().map(|(_, row)| row.to_u64()).collect())
    }

    /// The next rows, each with its key, at most so many; none behind the last.
    ///
    /// # Errors
    /// As [`Statement::row`].
    #[boxed]
    pub async fn next_keys(&mut self, count: usize) -> Result<Vec<(Bytes, u64)>> {
        let entries = self.0.next(count).await.map_err(from_heap)?;
        Ok(entries.into_iter().map(|(key, row)| (key, row.to_u64())).collect())
    }
}
