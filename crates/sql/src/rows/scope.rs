//! The scope in which a statement reads and writes: its transaction, its snapshot, and the current tables.

use std::sync::Arc;

use cellar_instance::catalog::Catalog;
use cellar_instance::database::{Database, Definitions};
use cellar_instance::heap::{Savepoint, Statement, Transaction};
use futures_util::lock::{MappedMutexGuard, Mutex, MutexGuard};

use super::deferred::Deferred;
use super::pending::Pending;
use super::refusals::in_table;
use super::refusals::{changed, is_over, planned_before, table_was_rewritten};
use super::session::Shared;
use super::table::RowColumns;
use crate::error::Error;
use crate::instants::zoned::KEPT;

/// What a statement reads and changes; all scans of it share it.
#[derive(Clone)]
pub(crate) struct Scope {
    /// The transaction.
    pub transaction: Shared,
    /// The snapshot through which tables are seen.
    pub statement: Statement,
    /// What the transaction defines.
    pub definitions: Definitions,
    /// Whether the transaction continues after the statement.
    pub in_block: bool,
    /// The time zone of the session.
    pub(super) zone: Arc<str>,
    /// Whether changes are refused: by the database, which then has no transaction, or by the transaction.
    pub(super) read_only: ReadOnly,
    /// The tables as of the snapshot.
    pub(super) since: Since,
    /// The statement's changes to keys of foreign keys.
    pub(super) pending: Pending,
    /// The checks of these that its transaction defers; `None`: the transaction ends with the statement.
    pub(super) deferred: Option<Deferred>,
}

/// What is known of the tables that existed when a statement's snapshot was taken.
#[derive(Clone)]
pub(super) enum Since {
    /// Nobody else changes the tables concerned.
    Always,
    /// Those that the transaction's first statement saw.
    FirstStatement,
    /// These, or newer ones.
    Catalog(Arc<Catalog>),
}

/// What may not be changed.
#[derive(Clone, Debug)]
pub(super) enum ReadOnly {
    Nothing,
    Transaction,
    /// Why.
    Database(Box<Error>),
}

impl Since {
    /// For a snapshot that is taken later.
    ///
    /// # Errors
    /// Why the catalog cannot be read.
    pub fn now(&self, definitions: &Definitions) -> Result<Since, Error> {
        match self {
            Since::Catalog(_) => Ok(Since::Catalog(definitions.catalog()?)),
            other => Ok(other.clone()),
        }
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("in_block", &self.in_block).finish_non_exhaustive()
    }
}

impl Scope {
    /// The scope that fills a table nobody sees yet with what a statement reads.
    pub fn filling(
        database: &Arc<Database>,
        transaction: Transaction,
        statement: Statement,
    ) -> Scope {
        let transaction = Arc::new(Mutex::new(Some(transaction)));
        let (in_block, read_only) = (false, ReadOnly::Nothing);
        let (definitions, since) = (database.definitions(), Since::Always);
        let zone = KEPT.into();
        let (pending, deferred) = (Pending::default(), None);
        Scope {
            transaction,
            statement,
            definitions,
            in_block,
            zone,
            read_only,
            since,
            pending,
            deferred,
        }
    }

    /// The transaction, for exclusive use.
    ///
    /// # Errors
    /// 25000 it is over.
    pub async fn open(
        &self,
    ) -> Result<MappedMutexGuard<'_, Option<Transaction>, Transaction>, Error> {
        let guard = self.transaction.lock().await;
        if let ReadOnly::Database(why) = &self.read_only {
            return Err((**why).clone());
        }
        if guard.is_none() {
            return Err(is_over());
        }
        fn there(open: &mut Option<Transaction>) -> &mut Transaction {
            open.as_mut().expect("it is there, and locked")
        }
        Ok(MutexGuard::map(guard, there))
    }

    /// A table as the catalog has it now, locked against DDL until the transaction ends: the plan may have
    /// been made before a TRUNCATE.
    ///
    /// # Errors
    /// Those of locks; 00942 it is gone, or has other columns.
    pub async fn current(&self, planned: &Arc<RowColumns>) -> Result<Arc<RowColumns>, Error> {
        let columns = self.locked(planned).await?;
        match self.knows(&columns) {
            true => Ok(columns),
            false => Err(table_was_rewritten(&columns.name)),
        }
    }

    /// As [`Scope::current`], for a statement that only adds rows: it need not see any.
    ///
    /// # Errors
    /// As [`Scope::current`].
    pub async fn locked(&self, planned: &Arc<RowColumns>) -> Result<Arc<RowColumns>, Error> {
        let mut columns = Arc::clone(planned);
        loop {
            if !matches!(self.read_only, ReadOnly::Database(_)) {
                let locked = self.open().await?.lock_to_read(&columns.rows).await;
                locked.map_err(in_table(&columns.name))?;
                if self.definitions.may_have_moved(&columns.rows) {
                    self.definitions.settled().await;
                }
            }
            let catalog = self.definitions.catalog()?;
            let now = catalog.row_table(&columns.name);
            match now {
                Some((_, rows)) if *rows == columns.rows && columns.has_types_of(&catalog) => {
                    return Ok(columns);
                }
                Some((table, rows)) => {
                    let found = RowColumns::of(table, rows, (&self.zone, &*catalog))?;
                    if found.schema != planned.schema {
                        return Err(planned_before(&planned.name));
                    }
                    columns = Arc::new(found);
                }
                None => return Err(changed(&planned.name)),
            }
        }
    }

    /// Whether the statement's snapshot sees the rows of a table: not if the table was filled later, to replace
    /// another one.
    fn knows(&self, columns: &RowColumns) -> bool {
        let before = match &self.since {
            Since::Always => return true,
            Since::FirstStatement => None,
            Since::Catalog(before) => before.row_table(&columns.name),
        };
        self.statement.has_all_rows(&columns.rows)
            && before.is_none_or(|(_, before)| before.object == columns.rows.object)
    }

    /// Refuses changes just made to rows of a table that others have moved meanwhile. Once a row is changed, its table
    /// can no longer be moved.
    ///
    /// # Errors
    /// 70219 it was moved; 08177 the catalog contradicts what the transaction defines.
    pub fn check_place(&self, columns: &RowColumns) -> Result<(), Error> {
        if matches!(self.since, Since::Always) {
            return Ok(());
        }
        match self.definitions.newest_catalog()?.row_table(&columns.name) {
            Some((_, rows)) if rows.object == columns.rows.object => Ok(()),
            _ => Err(table_was_rewritten(&columns.name)),
        }
    }

    /// Refuses changes a transaction has just made to rows of a table: as [`Scope::check_place`], and if its changes
    /// take too much memory.
    ///
    /// # Errors
    /// 70219 the table was moved; 04031.
    pub fn check_changes(
        &self,
        transaction: &Transaction,
        columns: &RowColumns,
    ) -> Result<(), Error> {
        if matches!(self.since, Since::Always) {
            return Ok(());
        }
        let (bytes, most) = (transaction.changed_bytes(), self.definitions.changed_bytes_max());
        if bytes > most {
            let text =
                format!("{bytes} bytes of changes are too many for memory: {most} are the most");
            let next = "raise memory_target, or change fewer rows in a transaction";
            return Err(Error::new(4031, "53200", text).next(next));
        }
        self.check_place(columns)
    }

    /// Refuses a change where none may be made.
    ///
    /// # Errors
    /// 25006 the transaction, or the database, is read-only.
    pub fn check_writable(&self) -> Result<(), Error> {
        match &self.read_only {
            ReadOnly::Nothing => Ok(()),
            ReadOnly::Transaction => {
                let text = "the transaction is read-only: it changes nothing";
                Err(Error::new(1456, "25006", text).next("ROLLBACK, then begin without READ ONLY"))
            }
            ReadOnly::Database(why) => Err((**why).clone()),
        }
    }

    /// A savepoint to which later changes of the statement can be rolled back.
    ///
    /// # Errors
    /// 25000 the transaction is over.
    pub async fn savepoint(&self) -> Result<Savepoint, Error> {
        Ok(self.open().await?.savepoint())
    }

    /// The statement restarted on a new snapshot: its changes are rolled back, its locks stay.
    ///
    /// # Errors
    /// 25000 the transaction is over; the store has stopped.
    pub async fn anew(&self, savepoint: Savepoint) -> Result<Scope, Error> {
        let since = self.since.now(&self.definitions)?;
        let mut open = self.open().await?;
        open.back_to(savepoint);
        let statement = open.statement().await?;
        drop(open);
        self.pending.clear();
        Ok(Scope { statement, since, ..self.clone() })
    }

    /// The same scope with another snapshot.
    ///
    /// # Errors
    /// Why the catalog cannot be read.
    pub fn seeing(&self, statement: Statement) -> Result<Scope, Error> {
        let since = self.since.now(&self.definitions)?;
        Ok(Scope { statement, since, ..self.clone() })
    }

    /// The time zone of the session.
    pub(super) fn zone(&self) -> &Arc<str> {
        &self.zone
    }

    /// Where key changes are recorded; `None` when filling a table, whose foreign keys are checked elsewhere.
    pub(super) fn pending(&self) -> Option<&Pending> {
        (!matches!(self.since, Since::Always)).then_some(&self.pending)
    }

    /// The foreign key checks its transaction defers, if it continues.
    pub fn deferred(&self) -> Option<&Deferred> {
        self.deferred.as_ref()
    }

    /// Whether anything must be settled when the statement ends.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}
