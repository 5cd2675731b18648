//! Changes of what a table of the heap is: its indexes, its columns, its name. What is to be in the heap is made
//! and filled first; then one change of the catalog names it; then what that names no more is removed. A crash
//! leaves the table as before, or as after: the rest is swept at the next opening.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_recursion::async_recursion as boxed;
use cellar_heap::{BuildIndex, Error as HeapError, LoadIndex, RowRef};
use cellar_wait::Session;

use super::Database;
use crate::catalog::{Index, RowTable, Table};
use crate::error::{Error, Result};
use crate::heap::{Begin, IndexKey, Making, Statement, Transaction, from_heap};

/// Keys of an index are sorted in so much memory.
const SORT_BYTES: usize = 32 << 20;

/// A table that nobody else uses, and what is made for it.
pub struct Alteration {
    database: Database,
    session: Session,
    begin: Begin,
    was: Table,
    rows: RowTable,
    alone: Transaction,
    made: BTreeSet<u32>,
    /// Keeps what was made from being taken for what a crash has left.
    making: Making,
}

impl std::fmt::Debug for Alteration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alteration").field("table", &self.was.name).finish_non_exhaustive()
    }
}

/// The keys of an index.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// Makes the key of a row, of its bytes.
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
    /// The row of this number has a key of a unique index that another one has.
    Duplicate(u64),
    /// Something else.
    Other(Error),
}

impl From<Error> for BuildError {
    fn from(error: Error) -> BuildError {
        BuildError::Other(error)
    }
}

impl Database {
    /// Waits until nobody else uses a table of the heap, and keeps it so.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks; the heap is not open.
    #[boxed]
    pub async fn alter_row_table(
        &self,
        session: &Session,
        name: &str,
        begin: Begin,
    ) -> Result<Alteration> {
        loop {
            let (was, rows) = self.known_row_table(name)?;
            let mut alone = self.heap.begin(session, begin)?;
            alone.lock_alone(&rows).await?;
            let (now, _) = self.known_row_table(name)?;
            if now == was {
                let (database, session, made) = (self.clone(), session.helper(), BTreeSet::new());
                let making = self.heap.making();
                return Ok(Alteration { database, session, begin, was, rows, alone, made, making });
            }
        }
    }

    fn known_row_table(&self, name: &str) -> Result<(Table, RowTable)> {
        let catalog = self.catalog().known()?;
        let found = catalog.row_table(name).map(|(table, rows)| (table.clone(), rows.clone()));
        found.ok_or_else(|| Error::new(942, format!("table \"{name}\" does not exist")))
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

    /// Begins to read the table as it is.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn statement(&mut self) -> Result<Statement> {
        self.alone.statement().await
    }

    /// An empty table in the heap: its number.
    ///
    /// # Errors
    /// No room; those of the log.
    #[boxed]
    pub async fn new_table(&mut self) -> Result<u32> {
        let (store, number) = (self.database.heap.store()?, self.making.new_number().await?);
        self.made.insert(number);
        store.create_table(&self.session, number).await.map_err(from_heap)?;
        Ok(number)
    }

    /// Begins a transaction of its own, to fill a new table.
    ///
    /// # Errors
    /// The heap is not open.
    pub fn filling(&self) -> Result<Transaction> {
        self.database.heap.begin(&self.session, self.begin)
    }

    /// An index of all rows of a table that nobody changes: its number. No snapshot that is older finds
    /// anything in it.
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
        let (store, number) = (self.database.heap.store()?, self.making.new_number().await?);
        self.made.insert(number);
        store.create_index(&self.session, number).await.map_err(from_heap)?;
        let (failed, repeated) = (Mutex::new(None), Mutex::new(None));
        fn set<T>(slot: &Mutex<Option<T>>, value: T) {
            slot.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
        }
        let of_row = |row: &[u8]| match (keys.of)(row) {
            Ok(key) => Ok(Some(key.bytes)),
            Err(error) => {
                set(&failed, error);
                // Whatever it is: it ends the build, and what is told is the other one.
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
            progress: &|_| {},
        };
        let built = store.build_index(&self.session, &build).await;
        let take = |slot: Mutex<Option<Error>>| slot.into_inner().unwrap_or_default();
        match built {
            Ok(_) => {
                self.database.heap.is_built(number)?;
                Ok(number)
            }
            Err(error) => Err(match (take(failed), repeated.into_inner().unwrap_or_default()) {
                (Some(error), _) => BuildError::Other(error),
                (None, Some(row)) => BuildError::Duplicate(row),
                (None, None) => BuildError::Other(from_heap(error)),
            }),
        }
    }

    /// Has a table, with what was made, in the place of the one that there was. Durable when it returns.
    ///
    /// # Errors
    /// 00955 a name is used; those of the log. All is as before then.
    #[boxed]
    pub async fn commit(self, table: Table) -> Result<()> {
        let database = self.database.clone();
        database.to_the_end(async move { self.commit_now(table).await }).await
    }

    async fn commit_now(self, table: Table) -> Result<()> {
        let altered = self.database.catalog().alter(&self.was, table.clone()).await;
        let named = if altered.is_ok() { &table } else { &self.was };
        let named: BTreeSet<u32> = named.rows.iter().flat_map(RowTable::objects).collect();
        // Who began before may still read what was named.
        let left = self.rows.objects().filter(|object| !named.contains(object));
        self.database.heap.leave(left).await;
        let unnamed = self.made.iter().copied().filter(|object| !named.contains(object));
        self.database.remove_objects(&self.session, unnamed).await;
        altered
    }

    /// Gives it up: what was made goes.
    #[boxed]
    pub async fn give_up(self) {
        self.database.remove_objects(&self.session, self.made).await;
    }
}
