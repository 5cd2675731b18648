//! Transactions: changes that nobody sees before the commit, locks, and the snapshots that statements read.

mod entries;
mod large;
mod layers;
mod load;
mod long;
mod own;
mod span;
mod statement;

use std::collections::HashSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::Session;

use crate::error::Error;
use crate::locks::{Held, LockTimeout, Mode, Owner, Resource, SessionLocks};
use crate::row_id::{RowId, RowRef};
use crate::store::{Key, Outcome, Seen, Store, View};
use entries::Source;
use own::Own;
pub use own::Savepoint;
use span::Span;
pub use statement::{RangeScan, RowBatch, StatementView, TableScan, TableShares};

/// The isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed when the first began; a row that somebody else has changed
    /// since cannot be changed. PostgreSQL's REPEATABLE READ.
    Snapshot,
}

/// A key of a row, and whether no other row may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// The key.
    pub key: Key,
    /// No other row has it.
    pub is_unique: bool,
}

/// A row that was locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedRow {
    /// The row as it is now; `None` where it is gone.
    pub bytes: Option<Bytes>,
    /// It differs from what the statement sees: others have changed, deleted or inserted it since.
    pub is_changed: bool,
}

/// A transaction. Dropping it rolls it back.
pub struct Transaction {
    store: Store,
    session: Session,
    isolation: Isolation,
    timeout: LockTimeout,
    view: Option<Arc<View>>,
    own: Own,
    held: Held,
    /// Rows that were there when they were locked for a change: nobody else has changed them since.
    found: HashSet<(u32, RowId)>,
    seen: Seen,
    /// Rows of a table that are loaded by the direct path, which nobody sees before the commit.
    load: load::State,
}

/// The locks of a transaction that has committed, until this is dropped.
#[must_use = "the locks are given back when this is dropped"]
pub struct LocksOf {
    _held: Option<Held>,
}

impl std::fmt::Debug for LocksOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocksOf")
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("number", &self.held.owner())
            .field("isolation", &self.isolation)
            .field("locks", &self.held.count())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Locks of a session beside its transactions.
    pub fn session_locks(&self, session: &Session) -> SessionLocks {
        let (locks, env) = (self.locks(), self.env().clone());
        SessionLocks::new(locks, env, session.clone(), self.next_owner())
    }

    /// Begins a transaction. `timeout`: how long it waits for locks.
    pub fn begin(
        &self,
        session: &Session,
        isolation: Isolation,
        timeout: LockTimeout,
    ) -> Transaction {
        Transaction {
            store: self.clone(),
            session: session.clone(),
            isolation,
            timeout,
            view: None,
            own: Own::default(),
            held: Held::new(Arc::clone(self.locks()), self.next_owner()),
            found: HashSet::new(),
            seen: Seen::default(),
            load: load::State::default(),
        }
    }
}

impl Transaction {
    /// Its number, by which others see who holds a lock.
    pub fn number(&self) -> Owner {
        self.held.owner()
    }

    /// How long it waits for the locks that come next; returns how long it waited so far.
    pub fn set_lock_timeout(&mut self, timeout: LockTimeout) -> LockTimeout {
        std::mem::replace(&mut self.timeout, timeout)
    }

    /// Begins a statement: under READ COMMITTED it sees what is committed now. If this transaction has locked something
    /// that is not durable yet it waits for that: a statement sees all that earlier ones have seen.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn begin_statement(&mut self) -> Result<(), Error> {
        if self.isolation == Isolation::ReadCommitted {
            self.view = None;
        }
        self.view().await.map(|_| ())
    }

    /// The point at which the current statement reads.
    async fn view(&mut self) -> Result<&Arc<View>, Error> {
        if self.view.is_none() {
            self.store.wait_seen(&self.session, self.seen).await?;
        }
        Ok(self.view.get_or_insert_with(|| Arc::new(self.store.view())))
    }

    /// The bytes of a row; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; those of the device.
    #[boxed]
    pub async fn row(&mut self, table: u32, row: RowRef) -> Result<Option<Bytes>, Error> {
        if let Some(own) = self.own.changes().row(table, row) {
            return Ok(own);
        }
        let RowRef::Stored(id) = row else { return Ok(None) };
        let session = self.session.clone();
        self.view().await?.row(&session, table, id).await
    }

    /// Locks a row for a change, waits for its holder, and returns the row as it is then, which may be newer than what
    /// the statement sees. `None`: it is gone.
    ///
    /// # Errors
    /// [`Error::Lock`]; [`Error::Serialization`] where a snapshot sees another one; those of the device.
    #[boxed]
    pub async fn lock_row(
        &mut self,
        table: u32,
        row: RowRef,
        mode: Mode,
    ) -> Result<Option<Bytes>, Error> {
        if let Some(known) = self.lock_known(table, row, mode, self.timeout).await? {
            return Ok(known);
        }
        let locked = self.lock_stored(table, row, mode, self.isolation == Isolation::Snapshot);
        Ok(locked.await?.bytes)
    }

    /// As [`Transaction::lock_row`], and also tells whether the row differs from what the statement sees: a statement
    /// at READ COMMITTED then starts again, with what it has locked.
    ///
    /// # Errors
    /// As [`Transaction::lock_row`]; [`Error::SnapshotTooOld`].
    #[boxed]
    pub async fn lock_row_seen(
        &mut self,
        table: u32,
        row: RowRef,
        mode: Mode,
    ) -> Result<LockedRow, Error> {
        match self.lock_known(table, row, mode, self.timeout).await? {
            Some(bytes) => Ok(LockedRow { bytes, is_changed: false }),
            None => self.lock_stored(table, row, mode, true).await,
        }
    }

    /// As [`Transaction::lock_row_seen`], and does not wait for who has locked the row; for who has locked the table it
    /// waits.
    ///
    /// # Errors
    /// As [`Transaction::lock_row_seen`].
    #[boxed]
    pub async fn lock_row_at_once(
        &mut self,
        table: u32,
        row: RowRef,
        mode: Mode,
    ) -> Result<LockedRow, Error> {
        match self.lock_known(table, row, mode, LockTimeout::None).await? {
            Some(bytes) => Ok(LockedRow { bytes, is_changed: false }),
            None => self.lock_stored(table, row, mode, true).await,
        }
    }

    /// Locks a row, and returns what this transaction knows of it: of a row that it has changed or inserted.
    async fn lock_known(
        &mut self,
        table: u32,
        row: RowRef,
        mode: Mode,
        timeout: LockTimeout,
    ) -> Result<Option<Option<Bytes>>, Error> {
        let RowRef::Stored(id) = row else { return self.row(table, row).await.map(Some) };
        self.lock_in_table(table, id, mode, timeout).await?;
        Ok(self.own.changes().row(table, row))
    }

    /// The row that was locked, as it is now; compared with what the statement sees where that is wanted.
    async fn lock_stored(
        &mut self,
        table: u32,
        row: RowRef,
        mode: Mode,
        is_compared: bool,
    ) -> Result<LockedRow, Error> {
        let RowRef::Stored(id) = row else {
            return Ok(LockedRow { bytes: None, is_changed: false });
        };
        let session = self.session.clone();
        let newest = self.store.newest();
        let bytes = newest.row(&session, table, id).await?;
        self.saw(&newest);
        let looked = newest.looked();
        drop(newest);
        let mut is_changed = false;
        if is_compared {
            let seen = self.view().await?;
            // Pages that are as the statement sees them need not be looked at again.
            is_changed = looked >= seen.point() && seen.row(&session, table, id).await? != bytes;
        }
        if is_changed && self.isolation == Isolation::Snapshot {
            return Err(Error::Serialization { page: id.page, slot: id.slot });
        }
        if bytes.is_some() && mode.covers(Mode::Exclusive) {
            self.found.insert((table, id));
        }
        Ok(LockedRow { bytes, is_changed })
    }

    /// Records what was seen in a view of what is committed now: if that is not durable yet, the acknowledgement of the
    /// commit and the next statement wait for it.
    fn saw(&mut self, newest: &View) {
        if newest.looked() < self.store.visible() {
            return;
        }
        let (point, end) = (newest.point(), self.store.applied_end());
        self.seen = Seen { point: self.seen.point.max(point), end: self.seen.end.max(end) };
    }

    /// Records that everything committed was seen, durable or not: whoever has waited until nobody else changes a table
    /// must find all changes.
    fn saw_all(&mut self) {
        let newest = self.store.newest();
        let (point, end) = (newest.point(), self.store.applied_end());
        self.seen = Seen { point: self.seen.point.max(point), end: self.seen.end.max(end) };
    }

    /// Locks something until the transaction ends.
    ///
    /// # Errors
    /// [`Error::Lock`].
    #[boxed]
    pub async fn lock(&mut self, resource: Resource, mode: Mode) -> Result<(), Error> {
        self.lock_within(resource, mode, self.timeout).await
    }

    async fn lock_within(
        &mut self,
        resource: Resource,
        mode: Mode,
        timeout: LockTimeout,
    ) -> Result<(), Error> {
        if self.held.has(&resource, mode) {
            return Ok(());
        }
        let what = (self.held.owner(), resource, mode);
        self.store.locks().acquire(self.store.env(), &self.session, what, timeout).await?;
        self.held.add(resource, mode);
        if matches!(resource, Resource::Table(_)) && !mode.bears(Mode::RowExclusive) {
            self.saw_all();
        }
        Ok(())
    }

    /// Locks a key of an index until the transaction ends, also one that no row has.
    ///
    /// # Errors
    /// [`Error::Lock`].
    #[boxed]
    pub async fn lock_key(&mut self, key: &Key, mode: Mode) -> Result<(), Error> {
        self.lock(Resource::Key(key.index, hash_of(&key.bytes)), mode).await
    }

    /// Whether it has changed, added or deleted rows of a table.
    pub fn has_changed(&self, table: u32) -> bool {
        self.own.changes().rows(table).next().is_some()
    }

    /// At which point it reads.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Lock`]; those of the device.
    #[boxed]
    pub async fn insert(
        &mut self,
        table: u32,
        row: Bytes,
        keys: Vec<RowKey>,
    ) -> Result<RowRef, Error> {
        self.lock(Resource::Table(table), Mode::RowExclusive).await?;
        self.claim(&keys, None).await?;
        Ok(self.own.insert(table, row, keys.into_iter().map(|key| key.key).collect()))
    }

    /// Gives a row that is locked other bytes and keys.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Lock`], [`Error::NoRow`]; those of the device.
    #[boxed]
    pub async fn update(
        &mut self,
        (table, row): (u32, RowRef),
        bytes: Bytes,
        gone: Vec<RowKey>,
        new: Vec<RowKey>,
    ) -> Result<(), Error> {
        self.lock(Resource::Table(table), Mode::RowExclusive).await?;
        self.expect_row(table, row).await?;
        self.claim(&gone, Some(row)).await?;
        self.claim(&new, Some(row)).await?;
        let plain = |keys: Vec<RowKey>| keys.into_iter().map(|key| key.key).collect();
        self.own.change((table, row), Some(bytes), plain(gone), plain(new));
        Ok(())
    }

    /// Deletes a row that is locked.
    ///
    /// # Errors
    /// [`Error::Lock`], [`Error::NoRow`]; those of the device.
    #[boxed]
    pub async fn delete(
        &mut self,
        table: u32,
        row: RowRef,
        keys: Vec<RowKey>,
    ) -> Result<(), Error> {
        self.lock(Resource::Table(table), Mode::RowExclusive).await?;
        self.expect_row(table, row).await?;
        self.claim(&keys, Some(row)).await?;
        let gone = keys.into_iter().map(|key| key.key).collect();
        self.own.change((table, row), None, gone, Vec::new());
        Ok(())
    }

    /// Locks the row for a change, which must be there.
    async fn expect_row(&mut self, table: u32, row: RowRef) -> Result<(), Error> {
        if let RowRef::Stored(id) = row
            && self.found.contains(&(table, id))
            && self.own.changes().row(table, row).is_none()
        {
            return Ok(());
        }
        let found = self.lock_row(table, row, Mode::Exclusive).await?;
        match (found, row) {
            (Some(_), _) => Ok(()),
            (None, RowRef::Stored(id)) => Err(Error::NoRow { page: id.page, slot: id.slot }),
            (None, RowRef::Own(_)) => Err(Error::NoRow { page: 0, slot: 0 }),
        }
    }

    /// Locks unique keys, and looks whether another row than `owner` has one.
    async fn claim(&mut self, keys: &[RowKey], owner: Option<RowRef>) -> Result<(), Error> {
        for RowKey { key, .. } in keys.iter().filter(|key| key.is_unique) {
            let hash = hash_of(&key.bytes);
            self.lock(Resource::Key(key.index, hash), Mode::Exclusive).await?;
            let (newest, span) = (self.store.newest(), Span::of(key.index, &key.bytes));
            let (view, session, own) = (&newest, &self.session, self.own.changes());
            let source = Source { view, session, own };
            let found = source.entries(&span, None, usize::MAX).await?;
            self.saw(&newest);
            if let Some((_, row)) = found.into_iter().find(|(_, row)| Some(*row) != owner) {
                return Err(Error::Duplicate { index: key.index, row });
            }
        }
        Ok(())
    }

    /// The next value of a counter, as [`Store::take`]: it stays taken if the transaction is rolled back.
    /// The answer to the commit comes when nobody can get it again.
    ///
    /// # Errors
    /// As [`Store::take`].
    #[boxed]
    pub async fn take(&mut self, number: u32, step: i64) -> Result<i64, Error> {
        let (value, end) = self.store.take_undurable(&self.session, number, step).await?;
        self.seen.end = self.seen.end.max(end);
        Ok(value)
    }

    /// A savepoint: later changes can be rolled back to it.
    pub fn savepoint(&self) -> Savepoint {
        self.own.savepoint()
    }

    /// Rolls back the changes since, and what was loaded; locks stay.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.load = load::State::default();
        self.own.rollback_to(savepoint);
    }

    /// Commits. Others may have the locks as soon as the changes are in the log; the answer comes when they
    /// are durable.
    ///
    /// # Errors
    /// As [`Store::commit`].
    #[boxed]
    pub async fn commit(self) -> Result<Outcome, Error> {
        Ok(self.commit_until(false).await?.0)
    }

    /// As [`Transaction::commit`], but nobody else gets the locks before the returned value is dropped: for changes
    /// that others find in memory only, once they are durable.
    ///
    /// # Errors
    /// As [`Store::commit`]. The locks are given back then.
    #[boxed]
    pub async fn commit_locked(self) -> Result<(Outcome, LocksOf), Error> {
        let (outcome, held) = self.commit_until(true).await?;
        Ok((outcome, LocksOf { _held: held }))
    }

    async fn commit_until(self, is_kept: bool) -> Result<(Outcome, Option<Held>), Error> {
        let Transaction { store, session, own, held, seen, load, .. } = self;
        let (held, kept) = if is_kept { (None, Some(held)) } else { (Some(held), None) };
        let outcome = if let Some(loaded) = load.loaded()? {
            let (changes, values) = own.into_changes();
            loaded.commit(changes, values, held).await?
        } else if own.is_empty() {
            drop(held);
            store.wait_seen(&session, seen).await?;
            Outcome { lsn: 0, rows: Vec::new() }
        } else {
            let (changes, values) = own.into_changes();
            store.commit_with(&session, changes, values, held).await?
        };
        Ok((outcome, kept))
    }

    /// Rolls everything back. Costs no I/O.
    pub fn rollback(self) {}
}

/// FNV-1a, 64 bits: keys with the same hash wait for each other, no more.
fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
