//! Definitions of a transaction: the catalog as of its commit, and the heap objects made for it. Heap
//! objects are made at once, under numbers that nothing names; the catalog names them in the
//! transaction's own commit, and an object that it no longer names is removed when nobody sees it. If the
//! transaction is rolled back, or the machine stops first, what was made is removed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::EnvExt;
use cellar_wait::Session;

use cellar_diskgroup::File;

use super::Database;
use super::define_columnar::{files_of, left_segments};
use crate::budget::Consumer;
use crate::catalog::{Catalog, Draft, OWNER_OID, RowTable, Segment, Table, both_changed, name};
use crate::error::{Error, INTERNAL, Result};
use crate::heap::{Making, Moved, TableLock, Transaction, from_heap, remove_number};
use crate::tables::{Published, SegmentFigures};

/// So often, and after so long each time, it is looked whether the catalog is being changed.
const SETTLE_TRIES: usize = 100;
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

/// What a transaction defines. Clones are of the same transaction.
#[derive(Clone)]
pub struct Definitions(Arc<Shared>);

/// Shared by clones: one handle of the database for a whole statement.
struct Shared {
    database: Database,
    inner: Mutex<Inner>,
    /// The number of the role that owns what is made.
    maker: AtomicU32,
    /// How far the index is that is being built: steps done, and steps in all.
    building: [AtomicU64; 2],
}

#[derive(Default)]
struct Inner {
    /// `None`: nothing is defined yet.
    draft: Option<Draft>,
    /// What was made in the heap.
    made: BTreeSet<u32>,
    /// What of that has rows that there were before, elsewhere.
    filled: BTreeSet<u32>,
    /// Keeps them from being taken for leftovers of a crash.
    making: Option<Making>,
    /// Segments of columnar tables that have names but are in no catalog.
    published: Vec<Published>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A transaction that was abandoned without a rollback.
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.database.heap.release(&inner.made);
        self.database.tables.release(std::mem::take(&mut inner.published));
    }
}

/// See [`Definitions::index_building`].
pub(super) struct Building<'a>(&'a Definitions);

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.set_index_progress(0, 0);
    }
}

/// What was defined at one time.
#[derive(Clone)]
pub struct Defined(Option<Draft>);

impl std::fmt::Debug for Definitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definitions").field("made", &self.inner().made).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Defined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Defined({})", self.0.is_some())
    }
}

impl Database {
    /// What a transaction that has just begun defines: nothing.
    pub fn definitions(&self) -> Definitions {
        Definitions(Arc::new(Shared {
            database: self.clone(),
            inner: Mutex::default(),
            maker: AtomicU32::new(OWNER_OID),
            building: Default::default(),
        }))
    }
}

impl Definitions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database.
    pub(super) fn database(&self) -> &Database {
        &self.0.database
    }

    /// The catalog as the transaction sees it: with its own changes, and with what others have committed.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn catalog(&self) -> Result<Arc<Catalog>> {
        let shared = self.database().catalog().known()?;
        let mut inner = self.inner();
        let Some(draft) = &mut inner.draft else { return Ok(shared) };
        // Conflicts with the changes of others are reported by COMMIT.
        if !draft.is_of(&shared)
            && let Ok(newer) = draft.onto(&shared)
        {
            *draft = newer;
        }
        Ok(Arc::clone(draft.catalog()))
    }

    /// The most bytes of row changes that a transaction keeps in memory, with their keys and what is
    /// needed to undo them.
    pub fn changed_bytes_max(&self) -> u64 {
        self.database().instance().budget().limit(Consumer::SqlWork) / 2
    }

    /// As [`Definitions::catalog`], for whoever must not miss what others have committed.
    ///
    /// # Errors
    /// 08177 it contradicts what the transaction defines; why it cannot be read.
    pub fn newest_catalog(&self) -> Result<Arc<Catalog>> {
        let shared = self.database().catalog().known()?;
        let catalog = self.catalog()?;
        match &self.inner().draft {
            Some(draft) if !draft.is_of(&shared) => draft.onto(&shared).map(|_| catalog),
            _ => Ok(catalog),
        }
    }

    /// How far the index is that is being built: steps done, and an estimate of all; `None`: there is none.
    pub fn index_progress(&self) -> Option<(u64, u64)> {
        let [done, total] = self.0.building.each_ref().map(|n| n.load(Ordering::Relaxed));
        (total > 0).then_some((done.min(total), total))
    }

    /// An index is being built until the returned value is dropped.
    pub(super) fn index_building(&self) -> Building<'_> {
        Building(self)
    }

    /// How far it is.
    pub(super) fn set_index_progress(&self, done: u64, total: u64) {
        let both = self.0.building.iter().zip([done, total]);
        both.for_each(|(n, value)| n.store(value, Ordering::Relaxed));
    }

    /// Objects made from now on belong to this role.
    pub fn make_as(&self, role: u32) {
        self.0.maker.store(role, Ordering::Relaxed);
    }

    /// Whether the catalog is the transaction's own.
    pub fn is_changed(&self) -> bool {
        self.inner().draft.is_some()
    }

    /// What is defined now.
    pub fn savepoint(&self) -> Defined {
        Defined(self.inner().draft.clone())
    }

    /// Restores the definitions as of a mark, and nothing else.
    pub fn back_to(&self, savepoint: &Defined) {
        self.inner().draft.clone_from(&savepoint.0);
    }

    /// Changes the catalog for this transaction. Its names are [locked](Definitions::lock_names) first, and
    /// tables that change [alone](Definitions::lock_table).
    ///
    /// # Errors
    /// Those of the change.
    pub fn define(&self, next: impl FnOnce(&Catalog) -> Result<Catalog>) -> Result<()> {
        if !self.database().kept.is_in_heap() {
            let text = "the catalog is not in the heap yet";
            return Err(Error::new(INTERNAL, text));
        }
        let now = self.catalog()?;
        let mut next = next(&now)?;
        next.own_new(&now, self.0.maker.load(Ordering::Relaxed));
        if let Some(fault) = next.fault() {
            return Err(Error::new(INTERNAL, format!("the catalog would be damaged: {fault}")));
        }
        let mut inner = self.inner();
        let draft = inner.draft.get_or_insert_with(|| Draft::of(now)).with(next);
        inner.draft = Some(draft);
        Ok(())
    }

    /// Locks names until the transaction ends: others that want to make an object of such a name wait.
    ///
    /// # Errors
    /// 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_names(
        &self,
        transaction: &mut Transaction,
        names: BTreeSet<String>,
    ) -> Result<()> {
        let has_schema = names.iter().any(|name| name.contains(name::SEPARATOR));
        for name in names {
            transaction.lock_name(&name).await?;
        }
        if has_schema {
            self.settle().await;
        }
        Ok(())
    }

    /// Locks the names that the transaction adds and removes, so that its commit waits for none of them:
    /// the commit holds the turn to change the catalog, which other holders of such names wait for.
    ///
    /// # Errors
    /// 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_defined(&self, transaction: &mut Transaction) -> Result<()> {
        let names = self.inner().draft.as_ref().map(Draft::names).unwrap_or_default();
        for name in names {
            transaction.lock_name(&name).await?;
        }
        Ok(())
    }

    /// Waits until a catalog change that is being committed is visible: its locks are released before
    /// that. Not for long, because it may wait for this transaction; COMMIT then reports the conflict.
    pub(super) async fn settle(&self) {
        let database = self.database();
        for _ in 0..SETTLE_TRIES {
            if !database.catalog().is_changing() {
                return;
            }
            database.env().sleep(SETTLE_PAUSE).await;
        }
    }

    /// Waits until nobody else uses a table of the heap, and keeps it so until the transaction ends.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_table(
        &self,
        transaction: &mut Transaction,
        name: &str,
    ) -> Result<(Table, RowTable)> {
        self.lock_table_as(transaction, name, TableLock::AccessExclusive).await
    }

    /// A table of the heap as it is now, locked until the transaction ends as LOCK TABLE says.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_to_define(
        &self,
        transaction: &mut Transaction,
        name: &str,
        lock: TableLock,
    ) -> Result<(Table, RowTable)> {
        self.lock_table_as(transaction, name, lock).await
    }

    /// As [`Definitions::lock_table`], in any mode.
    pub(super) async fn lock_table_as(
        &self,
        transaction: &mut Transaction,
        name: &str,
        lock: TableLock,
    ) -> Result<(Table, RowTable)> {
        loop {
            let (was, rows) = self.row_table(name)?;
            transaction.lock_table(&rows, lock, false).await?;
            self.database().catalog().settled().await;
            let (now, _) = self.row_table(name)?;
            if now == was {
                return Ok((was, rows));
            }
        }
    }

    /// Notes that these tables and indexes have rows that existed before, elsewhere: an older snapshot
    /// sees none of them.
    pub(super) fn are_filled(&self, objects: impl Iterator<Item = u32>) {
        self.inner().filled.extend(objects);
    }

    /// Whether somebody's commit may already have moved the rows of a table while the catalog does not
    /// say so yet: it does once that is [settled](crate::catalog::SharedCatalog::settled).
    pub fn may_have_moved(&self, table: &RowTable) -> bool {
        let database = self.database();
        database.catalog().is_changing() && database.heap().is_leaving(table.object)
    }

    /// Waits until the catalog says what the commit that is under way has done.
    #[boxed]
    pub async fn settled(&self) {
        self.database().catalog().settled().await;
    }

    fn row_table(&self, name: &str) -> Result<(Table, RowTable)> {
        let catalog = self.catalog()?;
        let found = catalog.row_table(name).map(|(table, rows)| (table.clone(), rows.clone()));
        found.ok_or_else(|| Error::new(942, format!("table \"{name}\" does not exist")))
    }

    /// An empty table in the heap: its number.
    ///
    /// # Errors
    /// No room; those of the log.
    #[boxed]
    pub async fn new_table(&self, session: &Session) -> Result<u32> {
        let number = self.new_number().await?;
        let store = self.database().heap.store()?;
        store.create_table(session, number).await.map_err(from_heap)?;
        Ok(number)
    }

    /// An empty index in the heap: its number.
    ///
    /// # Errors
    /// As [`Definitions::new_table`].
    #[boxed]
    pub async fn new_index(&self, session: &Session) -> Result<u32> {
        let number = self.new_number().await?;
        let store = self.database().heap.store()?;
        store.create_index(session, number).await.map_err(from_heap)?;
        Ok(number)
    }

    pub(super) async fn new_number(&self) -> Result<u32> {
        let mut making =
            self.inner().making.take().unwrap_or_else(|| self.database().heap.making());
        let number = making.new_number().await;
        let mut inner = self.inner();
        inner.making = Some(making);
        inner.made.extend(number.iter());
        number
    }

    /// Makes what a table has in the heap.
    async fn make_objects(&self, session: &Session, rows: &mut RowTable) -> Result<()> {
        rows.object = self.new_table(session).await?;
        for index in &mut rows.indexes {
            index.object = self.new_index(session).await?;
        }
        Ok(())
    }

    /// Makes a segment durable, and names it.
    pub(super) async fn publish(
        &self,
        table: &Table,
        file: File,
        figures: SegmentFigures,
    ) -> Result<Segment> {
        let published = self.database().tables.publish(table, file, figures).await?;
        let segment = published.segment().clone();
        self.inner().published.push(published);
        Ok(segment)
    }

    /// Adds a table to the heap, with numbers of its own in place of those that it and its indexes have.
    ///
    /// # Errors
    /// 00955 a name is used; 00060, 30006 of locks; no room.
    #[boxed]
    pub async fn create_table(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        mut table: Table,
    ) -> Result<()> {
        let indexes = table.rows.iter().flat_map(|rows| &rows.indexes);
        let names = indexes.map(|index| index.name.clone()).chain([table.name.clone()]);
        self.lock_names(transaction, names.collect()).await?;
        self.catalog()?.with(table.clone(), false)?;
        if let Some(rows) = &mut table.rows {
            self.make_objects(session, rows).await?;
        }
        self.define(|catalog| catalog.with(table, false))
    }

    /// Drops a table of the heap, when nobody else uses it any more.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks.
    #[boxed]
    pub async fn drop_table(&self, transaction: &mut Transaction, name: &str) -> Result<()> {
        let (_, rows) = self.lock_table(transaction, name).await?;
        // Others may be about to change its rights, and those of the sequences that go with it.
        let owned = rows.owned.iter().map(|owned| owned.sequence.clone());
        self.lock_names(transaction, owned.chain([name.to_owned()]).collect()).await?;
        self.define(|catalog| Ok(catalog.without(name)?.0))
    }

    /// Takes all rows from a table of the heap, when nobody else uses it any more.
    ///
    /// # Errors
    /// As [`Definitions::drop_table`]; no room.
    #[boxed]
    pub async fn truncate_table(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        name: &str,
    ) -> Result<()> {
        let (was, mut rows) = self.lock_table(transaction, name).await?;
        self.make_objects(session, &mut rows).await?;
        let table = Table { rows: Some(rows), ..was.clone() };
        self.put_altered(&was, table)
    }

    /// Replaces a locked table by another, with the rights that it got meanwhile: changing rights waits
    /// for no table.
    pub(super) fn put_altered(&self, was: &Table, table: Table) -> Result<()> {
        self.define(|catalog| {
            let current = catalog.table(&was.name).filter(|current| *current != was);
            match current.and_then(|now| Some((now, both_changed(was, &table, now)?))) {
                Some((current, both)) => catalog.altered(current, both),
                None => catalog.altered(was, table),
            }
        })
    }

    /// Commits a transaction with all that it defines: durable when it returns.
    ///
    /// # Errors
    /// Those of the commit; 08177 others have defined the same; 00060, 30006 of locks. All is as before then.
    #[boxed]
    pub async fn commit(&self, mut transaction: Transaction) -> Result<()> {
        if self.is_changed()
            && let Err(error) = self.lock_defined(&mut transaction).await
        {
            self.roll_back(Some(transaction)).await;
            return Err(error);
        }
        let draft = self.inner().draft.take().filter(Draft::is_changed);
        let Some(draft) = draft else {
            let committed = transaction.commit().await;
            self.remove_made(&BTreeSet::new(), None).await;
            return committed;
        };
        // Boxed: nearly all transactions define nothing, and should not pay for the size of this future.
        Box::pin(self.commit_definitions(transaction, draft)).await
    }

    async fn commit_definitions(&self, transaction: Transaction, draft: Draft) -> Result<()> {
        // The caller may go away half-way: memory must match what is stored.
        let (this, database) = (self.clone(), self.database().clone());
        database.to_the_end(async move { this.commit_draft(transaction, draft).await }).await
    }

    async fn commit_draft(&self, transaction: Transaction, draft: Draft) -> Result<()> {
        let (database, heap) = (self.database(), self.database().heap());
        let objects = draft.objects();
        let next = |current: &Arc<Catalog>| Ok(Catalog::clone(draft.onto(current)?.catalog()));
        let filled = std::mem::take(&mut self.inner().filled);
        let moved = Moved { left: objects.left.clone(), filled };
        let replace =
            |now: Arc<Catalog>, next: Arc<Catalog>| heap.commit_with(transaction, now, next, moved);
        let committed = database.catalog().change_by(next, replace).await;
        match &committed {
            Ok(()) => {
                // Readers that began earlier may still use what was named.
                heap.leave(objects.left.into_iter()).await;
                for table in left_segments(draft.before(), draft.catalog()) {
                    database.tables.remove_segments(&table).await;
                }
                self.remove_made(&objects.named, Some(draft.catalog())).await;
            }
            Err(_) => self.remove_made(&BTreeSet::new(), None).await,
        }
        committed
    }

    /// Rolls a transaction back, with all that it has defined.
    #[boxed]
    pub async fn roll_back(&self, transaction: Option<Transaction>) {
        drop(transaction);
        self.inner().draft = None;
        self.remove_made(&BTreeSet::new(), None).await;
    }

    /// Removes what was made and is not named: what cannot be removed now is swept at the next opening. `catalog`:
    /// the one that was committed.
    async fn remove_made(&self, named: &BTreeSet<u32>, catalog: Option<&Catalog>) {
        let (made, published) = {
            let mut inner = self.inner();
            (std::mem::take(&mut inner.made), std::mem::take(&mut inner.published))
        };
        // The case of nearly all transactions.
        if !made.is_empty() || !published.is_empty() {
            Box::pin(self.remove_unnamed(made, published, named, catalog)).await;
        }
    }

    async fn remove_unnamed(
        &self,
        made: BTreeSet<u32>,
        published: Vec<Published>,
        named: &BTreeSet<u32>,
        catalog: Option<&Catalog>,
    ) {
        let files: BTreeSet<&str> = catalog.map(|now| files_of(now).collect()).unwrap_or_default();
        for one in published {
            if !files.contains(&*one.segment().file) {
                self.database().tables.remove_unnamed(one).await;
            }
        }
        let session = self.database().heap.session();
        if let Ok(store) = self.database().heap.store() {
            for object in made.difference(named) {
                let _ = remove_number(&store, &session, *object).await;
            }
        }
        self.inner().making = None;
    }
}
