//! The heap of a database: the store of rows that change, in a file of its first disk group. Its changes
//! are the records of the redo log, so it is opened and closed with that.

mod advisory;
mod catalog_rows;
mod check;
mod error;
mod file;
mod images;
mod incomplete_objects;
mod load;
mod log_client;
mod removal;
mod sequence;
mod statistics;
mod transaction;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellar_diskgroup::Group;
use cellar_heap::{Options, Reader, Store, View};
use cellar_io::SharedEnv;
use cellar_redo::Log;
use cellar_storage::{MountedGroups, Settings};
use cellar_wait::Session;

use crate::budget::{Budget, Consumer};
use crate::error::{Error, INTERNAL, NextStep, Result};
use crate::parameters::definitions::RECOVERY_TARGET;
use crate::session::Sessions;
use crate::temp::TempSpace;

pub use advisory::{AdvisoryKey, AdvisoryLocks, AdvisoryMode};
use catalog_rows::NUMBERS;
pub(crate) use catalog_rows::{HeapCatalog, check_names};
pub use check::{KeysOfRow, KnowsRows, LongsOfRow, RowReader, RowsChecked, WrongRows};
pub(crate) use error::from_heap;
pub use file::HEAP_PATH;
use incomplete_objects::{IncompleteObjects, Leaving};
pub use load::MayShare;
use removal::Removal;
pub(crate) use removal::{Making, remove_number};
pub(crate) use transaction::Moved;
pub use transaction::{
    Begin, ChangeError, Entries, IndexKey, LockedRow, RowLock, Rows, Savepoint, Scan, Shares,
    Statement, TableLock, TableSize, Transaction,
};

/// Bytes of a page.
const PAGE: u64 = 8192;

/// One in this many pages in memory may be an older image, kept for its readers.
const IMAGES: u64 = 5;

/// This many times the pages in memory may be older images in a file: memory records where each one is.
const SPILLED: u64 = 8;

/// The fewest pages that the buffer cache has.
const PAGES_MIN: u64 = 1024;

#[derive(Default)]
enum State {
    #[default]
    Closed,
    Open(Store),
    ReadOnly(Reader),
    /// Its pages are ahead of a log that was opened by force, and has no records of it from now on.
    Ahead(Reader, Log),
}

struct Inner {
    env: SharedEnv,
    sessions: Sessions,
    groups: MountedGroups,
    budget: Budget,
    temp: Arc<TempSpace>,
    settings: Arc<dyn Settings>,
    state: Mutex<State>,
    /// Whether there may be no file yet: it is made with the next opening then.
    is_new: Mutex<bool>,
    removal: Mutex<Removal>,
    incomplete: IncompleteObjects,
}

/// The heap of a database, open or not. Clones are the same.
#[derive(Clone)]
pub struct Heap(Arc<Inner>);

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.state() {
            State::Closed => f.write_str("Heap(closed)"),
            State::Open(store) => write!(f, "Heap({store:?})"),
            State::ReadOnly(reader) | State::Ahead(reader, _) => write!(f, "Heap({reader:?})"),
        }
    }
}

impl Heap {
    /// The heap in the first of these groups; it is closed.
    pub(crate) fn new(
        env: SharedEnv,
        sessions: Sessions,
        groups: MountedGroups,
        budget: Budget,
        temp: Arc<TempSpace>,
        settings: Arc<dyn Settings>,
    ) -> Heap {
        Heap(Arc::new(Inner {
            env,
            sessions,
            groups,
            budget,
            temp,
            settings,
            state: Mutex::default(),
            is_new: Mutex::new(false),
            removal: Mutex::default(),
            incomplete: IncompleteObjects::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next opening makes the file where there is none.
    pub(crate) fn expect_new(&self, is_new: bool) {
        *self.0.is_new.lock().unwrap_or_else(PoisonError::into_inner) = is_new;
    }

    fn is_new(&self) -> bool {
        *self.0.is_new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group that has the file.
    fn group(&self) -> Result<Group> {
        let first = self.0.groups.first().map(|mounted| mounted.group);
        first.ok_or_else(|| Error::new(15001, "no disk group is mounted that holds the heap"))
    }

    /// Whether it can be read.
    pub fn is_open(&self) -> bool {
        !matches!(*self.state(), State::Closed)
    }

    /// Why rows are read-only; `None`: they may be changed, or it is not open.
    pub fn only_read(&self) -> Option<Error> {
        match &*self.state() {
            State::Ahead(..) => Some(ahead()),
            State::ReadOnly(reader) if reader.is_ahead() => Some(ahead()),
            State::ReadOnly(_) => Some(Error::new(70041, "the database is open read-only")),
            State::Open(_) | State::Closed => None,
        }
    }

    /// The store, to change rows.
    ///
    /// # Errors
    /// 70162 it is not open, 70041 it is open read-only, 70214 it is ahead of its log.
    pub(crate) fn store(&self) -> Result<Store> {
        if let State::Open(store) = &*self.state() {
            return Ok(store.clone());
        }
        Err(self.only_read().unwrap_or_else(closed))
    }

    /// Everything that is acknowledged now.
    ///
    /// # Errors
    /// 70162 it is not open, 01092 it has stopped.
    pub(crate) fn view(&self) -> Result<View> {
        match &*self.state() {
            State::Open(store) => {
                store.check_running().map_err(from_heap)?;
                Ok(store.view())
            }
            State::ReadOnly(reader) | State::Ahead(reader, _) => Ok(reader.view()),
            State::Closed => Err(closed()),
        }
    }

    /// What a statement reads of a heap that is open read-only; `None`: it is not.
    pub fn reading(&self, session: &Session) -> Option<Statement> {
        match &*self.state() {
            State::ReadOnly(reader) | State::Ahead(reader, _) => {
                let statement = Statement::of(reader.statement(session), self.0.incomplete.clone());
                Some(match reader.is_ahead() {
                    true => statement.without_indexes(),
                    false => statement,
                })
            }
            State::Open(_) | State::Closed => None,
        }
    }

    /// Whether it is read-only because the log was opened by force, and has lost changes that are in
    /// pages.
    pub fn is_ahead(&self) -> bool {
        match &*self.state() {
            State::ReadOnly(reader) | State::Ahead(reader, _) => reader.is_ahead(),
            State::Open(_) | State::Closed => false,
        }
    }

    /// A number for a new table or index, which nothing else ever has.
    ///
    /// # Errors
    /// The heap is not open; those of the log.
    async fn new_number(&self) -> Result<u32> {
        let number = self.store()?.take(&self.session(), NUMBERS, 1).await.map_err(from_heap)?;
        u32::try_from(number)
            .map_err(|_| Error::new(INTERNAL, format!("number {number} is too large")))
    }

    /// These lose their names by a commit that begins.
    fn leaving(&self, objects: &BTreeSet<u32>) -> Leaving {
        self.0.incomplete.leave(objects)
    }

    /// A table or index has all rows for whoever sees the commit at this LSN.
    fn is_filled(&self, object: u32, lsn: u64) {
        self.0.incomplete.add(object, lsn + 1);
    }

    /// Whether a commit that is under way takes the name from a table or index: it may have done so already.
    pub(crate) fn is_leaving(&self, object: u32) -> bool {
        self.0.incomplete.is_leaving(object)
    }

    /// An index has all rows from now on.
    pub(crate) fn is_built(&self, index: u32) -> Result<()> {
        let point = self.store()?.newest().point();
        self.0.incomplete.add(index, point);
        Ok(())
    }

    /// A session of its own, for what no user does.
    pub(crate) fn session(&self) -> Session {
        self.0.sessions.background("heap").waits().clone()
    }

    /// How the store is opened: the buffer cache has its share of memory.
    fn options(&self) -> Options {
        let pages = (self.0.budget.limit(Consumer::BufferCache) / PAGE).max(PAGES_MIN);
        let images = pages / IMAGES;
        let frames = pages - images;
        let count = |pages: u64| usize::try_from(pages).unwrap_or(usize::MAX);
        Options {
            cache_pages: count(frames),
            dirty_max: count(frames / 4 * 3),
            images_max: count(images),
            spilled_max: pages * SPILLED,
            recovery_target: self.recovery_target(),
            ..Options::default()
        }
    }

    fn recovery_target(&self) -> Duration {
        Duration::from_secs(self.0.settings.integer(RECOVERY_TARGET))
    }

    /// Has an open store do what the parameters in force mean for it.
    pub(crate) fn obey_parameters(&self) {
        if let State::Open(store) = &*self.state() {
            store.set_recovery_target(self.recovery_target());
        }
    }
}

/// The error for a change to a heap that is ahead of its log.
pub(crate) fn ahead() -> Error {
    let text = "tables can only be read: the redo log was opened by force, and pages have changes that it has lost";
    Error::new(70214, text).hint(
        "copy the tables out (pg_dump, or COPY .. TO), look them over, and load them into a new database: of a \
         transaction that was lost some rows may be there, and others not",
    )
}

pub(crate) fn closed() -> Error {
    let error = Error::new(70162, "tables whose rows change cannot be used: the heap is not open");
    error.hint(
        NextStep::from("see why: ").cellar("status", "").then(" tells what the redo log lacks"),
    )
}
