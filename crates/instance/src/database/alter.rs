//! Changes to the definition of a heap table: its indexes, columns and name. New heap objects are made
//! and filled first; then the catalog of the transaction names them.

use std::sync::{Mutex, PoisonError};

use async_recursion::async_recursion as boxed;
use cellar_heap::{BuildIndex, Error as HeapError, LoadIndex, RowRef};
use cellar_wait::Session;

use super::Definitions;
use crate::catalog::{Index, RowTable, Table};
use crate::error::{Error, Result};
use crate::heap::{Begin, IndexKey, Statement, TableLock, Transaction, from_heap};

/// Memory for sorting the keys of an index.
const SORT_BYTES: usize = 32 << 20;

/// A table that nobody else uses, and what is made for it.
pub struct Alteration {
    definitions: Definitions,
    session: Session,
    was: Table,
    rows: RowTable,
    statement: Statement,
    has_own_changes: bool,
    is_snapshot: bool,
}

impl std::fmt::Debug for Alteration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alteration").field("table", &self.was.name).finish_non_exhaustive()
    }
}

/// The keys of an index.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// Builds the key of a row from its bytes.
    pub of: &'a (dyn Fn(&[u8]) -> Result<IndexKey> + Send + Sync),
    /// Whether a value of a key is NULL.
    pub has_null: &'a (dyn Fn(&[u8]) -> bool + Send + Sync),
}

impl std::fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// Why an index could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// The row with this number has a key of a unique index that another row has too.
    Duplicate(u64),
    /// Something else.
    Other(Error),
}

impl From<Error> for BuildError {
    fn from(error: Error) -> BuildError {
        BuildError::Other(error)
    }
}

impl Definitions {
    /// Waits until nobody else uses a table of the heap, keeps it so until the transaction ends, and begins to
    /// change what it is.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks.
    #[boxed]
    pub async fn alter(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        name: &str,
    ) -> Result<Alteration> {
        let locked = self.lock_table(transaction, name).await?;
        self.alteration(transaction, session, locked).await
    }

    /// Waits until nobody else changes or locks rows of a heap table, keeps it so until the transaction
    /// ends, and begins to move the rows. Readers of the table go on with the old one.
    ///
    /// # Errors
    /// As of [`Definitions::alter`].
    #[boxed]
    pub async fn begin_move(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        name: &str,
    ) -> Result<Alteration> {
        let locked = self.lock_table_as(transaction, name, TableLock::Exclusive).await?;
        self.alteration(transaction, session, locked).await
    }

    async fn alteration(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        (was, rows): (Table, RowTable),
    ) -> Result<Alteration> {
        Ok(Alteration {
            definitions: self.clone(),
            session: session.helper(),
            statement: transaction.statement().await?,
            has_own_changes: transaction.has_changed(&rows),
            is_snapshot: transaction.is_snapshot(),
            was,
            rows,
        })
    }
}

impl Alteration {
    /// The table as it is.
    pub fn table(&self) -> &Table {
        &self.was
    }

    /// Its rows and indexes.
    pub fn rows(&self) -> &RowTable {
        &self.rows
    }

    /// What the transaction sees of the table.
    pub fn statement(&self) -> Statement {
        self.statement.clone()
    }

    /// Whether the transaction has changed rows of it that are not yet final in the heap: an index built
    /// from the heap would lack them.
    pub fn has_own_changes(&self) -> bool {
        self.has_own_changes
    }

    /// An empty table in the heap, for rows written anew: its number.
    ///
    /// # Errors
    /// 70218 a transaction at a snapshot would not see its rows; no room; those of the log.
    #[boxed]
    pub async fn new_table(&mut self) -> Result<u32> {
        if self.is_snapshot {
            let text = "rows are not written anew by a transaction under REPEATABLE READ";
            return Err(Error::new(70218, text).hint("run the statement under READ COMMITTED"));
        }
        self.definitions.new_table(&self.session).await
    }

    /// Replaces the table by one filled with all rows as the transaction sees them. The transaction gives
    /// up its own changes to the old table, and can go back to no savepoint.
    ///
    /// # Errors
    /// As of [`Alteration::finish`].
    #[boxed]
    pub async fn move_rows(self, transaction: &mut Transaction, rows: RowTable) -> Result<()> {
        transaction.give_up(&self.rows);
        let table = Table { rows: Some(rows), ..self.was.clone() };
        self.finish(transaction, table).await
    }

    /// Begins a transaction of its own, to fill a new table.
    ///
    /// # Errors
    /// The heap is not open.
    pub fn filling(&self) -> Result<Transaction> {
        self.definitions.database().heap().begin(&self.session, Begin::default())
    }

    /// Builds an index of all rows of a table that nobody changes, and returns its number. Older
    /// snapshots find nothing in it.
    ///
    /// # Errors
    /// [`BuildError`]; no room; those of the log.
    #[boxed]
    pub async fn new_index(
        &mut self,
        table: u32,
        index: &Index,
        keys: &Keys<'_>,
    ) -> std::result::Result<u32, BuildError> {
        let heap = self.definitions.database().heap();
        let (store, number) = (heap.store()?, self.definitions.new_index(&self.session).await?);
        let (failed, repeated) = (Mutex::new(None), Mutex::new(None));
        fn set<T>(slot: &Mutex<Option<T>>, value: T) {
            slot.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
        }
        let of_row = |row: &[u8]| match (keys.of)(row) {
            Ok(key) => Ok(Some(key.bytes)),
            Err(error) => {
                set(&failed, error);
                // Whatever it is: it ends the build, and the other error is the one reported.
                Err(HeapError::WrongObject { object: number, expected: "index" })
            }
        };
        let may_repeat = |key: &[u8], row| {
            let may = (keys.has_null)(key);
            if !may {
                set(&repeated, RowRef::Stored(row).to_u64());
            }
            may
        };
        let build = BuildIndex {
            table,
            index: LoadIndex { index: number, is_unique: index.is_unique },
            memory: SORT_BYTES,
            key: &of_row,
            may_repeat: &may_repeat,
            progress: &|done, total| self.definitions.set_index_progress(done, total),
        };
        let building = self.definitions.index_building();
        let built = store.build_index(&self.session, &build).await;
        drop(building);
        let take = |slot: Mutex<Option<Error>>| slot.into_inner().unwrap_or_default();
        match built {
            Ok(_) => {
                heap.is_built(number)?;
                Ok(number)
            }
            Err(error) => Err(match (take(failed), repeated.into_inner().unwrap_or_default()) {
                (Some(error), _) => BuildError::Other(error),
                (None, Some(row)) => BuildError::Duplicate(row),
                (None, None) => BuildError::Other(from_heap(error)),
            }),
        }
    }

    /// Puts a table, with the objects made for it, in the place of the old one.
    ///
    /// # Errors
    /// 00955 a name is used; 00060, 30006 of locks.
    #[boxed]
    pub async fn finish(self, transaction: &mut Transaction, table: Table) -> Result<()> {
        let names = |table: &Table| -> std::collections::BTreeSet<String> {
            let indexes = table.rows.iter().flat_map(|rows| &rows.indexes);
            indexes.map(|index| index.name.clone()).chain([table.name.clone()]).collect()
        };
        if let Some(rows) = table.rows.as_ref().filter(|rows| rows.object != self.rows.object) {
            let indexes = rows.indexes.iter().map(|index| index.object);
            self.definitions.are_filled(indexes.chain([rows.object]));
        }
        // Those that come, and those that go.
        let changed = names(&table).symmetric_difference(&names(&self.was)).cloned().collect();
        self.definitions.lock_names(transaction, changed).await?;
        self.definitions.put_altered(&self.was, table)
    }
}
