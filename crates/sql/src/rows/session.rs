//! A session's transactions, and what one statement of it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cellar_instance::catalog::{Catalog, RowTable, Table};
use cellar_instance::database::{Database, Defined, Definitions};
use cellar_instance::heap::{AdvisoryLocks, Begin, Savepoint, TableLock, Transaction};
use cellar_instance::session::Session;
use futures_util::lock::Mutex;

use super::advisory::Advisory;
use super::deferred::{self, Deferred};
use super::large::Committer;
use super::pending::Pending;
use super::refusals::in_table;
use super::refusals::{changed, ended_in_failure, is_over, no_block, no_savepoint, too_late};
use super::scope::{ReadOnly, Scope, Since};
use super::sequence::Values;
use crate::catalog::SessionCatalog;
use crate::error::Error;
use crate::settings::{self, Settings};

/// A transaction with several holders; it is taken out when it ends.
pub(crate) type Shared = Arc<Mutex<Option<Transaction>>>;

/// What a session has begun.
#[derive(Default)]
enum State {
    /// Nothing: each statement is a transaction.
    #[default]
    Idle,
    /// BEGIN.
    Open(Begun),
    /// BEGIN, and a statement that failed.
    Failed(Failed),
}

/// What is left of a transaction that has failed.
struct Failed {
    /// What savepoints keep.
    begun: Option<Begun>,
    /// The settings before the transaction.
    settings: settings::Savepoint,
}

/// A transaction that BEGIN has begun.
struct Begun {
    /// None where nothing can be changed.
    transaction: Shared,
    /// Whether rows of the database can only be read.
    only_reads: bool,
    definitions: Definitions,
    /// The names of savepoints among its changes, in their order.
    savepoints: Vec<(String, Place)>,
    is_read_only: bool,
    /// A statement of it has read, changed or locked something.
    is_used: AtomicBool,
    /// The settings before it.
    settings: settings::Savepoint,
    /// The foreign key checks it has deferred.
    deferred: Deferred,
}

/// A place among the changes of a transaction.
struct Place {
    rows: Option<Savepoint>,
    defined: Defined,
    settings: settings::Savepoint,
    deferred: deferred::Savepoint,
}

impl Begun {
    /// The place of a savepoint: the last one of that name.
    fn position(&self, name: &str) -> Result<usize, Error> {
        let found = self.savepoints.iter().rposition(|(own, _)| own == name);
        found.ok_or_else(|| no_savepoint(name, self.savepoints.last().map(|(last, _)| last)))
    }

    /// Rolls back all changes.
    async fn roll_back(&self) {
        let transaction = self.transaction.lock().await.take();
        self.definitions.roll_back(transaction).await;
    }

    /// Undoes the changes after a savepoint.
    async fn back_to(&self, at: usize) {
        let place = &self.savepoints[at].1;
        if let (Some(open), Some(savepoint)) = (self.transaction.lock().await.as_mut(), place.rows)
        {
            open.back_to(savepoint);
        }
        self.definitions.back_to(&place.defined);
        self.deferred.back_to(&place.deferred);
    }
}

/// The modes that BEGIN sets for a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    /// All its statements share one snapshot; `None`: as the settings say.
    pub is_snapshot: Option<bool>,
    /// It changes nothing.
    pub is_read_only: Option<bool>,
}

/// Whether a session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not.
    Idle,
    /// BEGIN has begun one.
    Open,
    /// It is in one that has failed.
    Failed,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// There was none.
    None,
    /// Its changes are durable.
    Committed,
    /// Its changes are gone.
    RolledBack,
}

/// The tables in the heap for one session, and its transaction.
pub struct RowTables {
    database: Arc<Database>,
    session: Session,
    state: Mutex<State>,
    catalog: Arc<SessionCatalog>,
    settings: Arc<Settings>,
    /// What the last BEGIN said.
    modes: std::sync::Mutex<Modes>,
    advisory: Advisory,
    /// What it has taken from sequences.
    pub(super) values: std::sync::Mutex<Values>,
    /// A statement is running. An abandoned one leaves this set: its transaction has failed.
    at_work: AtomicBool,
    /// A commit is in progress: whoever cancels the statement now waits for its outcome.
    commits: AtomicBool,
}

/// A guard: a commit is in progress until it is dropped.
struct Committing<'a>(&'a AtomicBool);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for RowTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowTables({:?})", self.database)
    }
}

impl RowTables {
    /// The tables of `database` for `session`.
    pub(crate) fn new(
        database: Arc<Database>,
        session: Session,
        catalog: Arc<SessionCatalog>,
    ) -> RowTables {
        let (state, settings) = (Mutex::default(), Arc::default());
        let (values, at_work) = (std::sync::Mutex::default(), AtomicBool::new(false));
        let (modes, advisory) = (std::sync::Mutex::default(), Advisory::default());
        let commits = AtomicBool::new(false);
        RowTables {
            database,
            session,
            state,
            catalog,
            settings,
            advisory,
            modes,
            values,
            at_work,
            commits,
        }
    }

    /// The database.
    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The session.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Whether there can be any now.
    pub fn are_open(&self) -> bool {
        self.database.heap().is_open()
    }

    /// The catalog as the session sees it: with what its transaction has defined.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        self.catalog.known()
    }

    /// Whether the catalog is the one that all sessions see.
    pub(crate) fn sees_what_all_see(&self) -> bool {
        !self.catalog.is_changed()
    }

    /// A table as the session sees it.
    pub(crate) fn table(&self, name: &str) -> Option<(Table, RowTable)> {
        let catalog = self.catalog.current();
        catalog.row_table(name).map(|(table, rows)| (table.clone(), rows.clone()))
    }

    /// The names of all of them.
    pub fn names(&self) -> Vec<String> {
        let catalog = self.catalog.current();
        let tables = catalog.tables.iter().filter(|table| table.rows.is_some());
        tables.map(|table| table.name.clone()).collect()
    }

    /// The names of all views.
    pub fn view_names(&self) -> Vec<String> {
        let catalog = self.catalog().unwrap_or_default();
        let views = catalog.tables.iter().filter(|table| table.view.is_some());
        views.map(|table| table.name.clone()).collect()
    }

    /// The settings of the session.
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// How transactions of this session begin.
    pub(crate) fn beginning(&self) -> Begin {
        let now = self.settings.now();
        Begin { is_snapshot: now.is_snapshot, lock_timeout: now.lock_timeout }
    }

    /// When the transaction of the next statement began: now, if none is open.
    pub(crate) fn transaction_time(&self) -> u64 {
        let began = self.settings.clock.transaction().filter(|_| self.catalog.of_block().is_some());
        began.unwrap_or_else(|| self.wall())
    }

    pub(super) fn advisory(&self) -> &Advisory {
        &self.advisory
    }

    /// Ties advisory locks to the open transaction, if there is one.
    pub(super) async fn join_open(&self, locks: &AdvisoryLocks) {
        if let State::Open(begun) = &*self.state.lock().await {
            locks.join(begun.transaction.lock().await.as_ref());
        }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn wall(&self) -> u64 {
        self.database.env().wall().unix_nanos
    }

    /// The modes with which the open transaction, or the last one, was begun.
    pub(crate) fn modes(&self) -> Modes {
        *self.modes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The scope of a statement in a read-only database; `None`: changes are possible.
    ///
    /// # Errors
    /// 25P02 after a failure.
    async fn reading(&self) -> Result<Option<Scope>, Error> {
        let heap = self.database.heap();
        let Some(why) = heap.only_read() else { return Ok(None) };
        let Some(statement) = heap.reading(self.session.waits()) else { return Ok(None) };
        let in_block = match &*self.state.lock().await {
            State::Failed(_) => return Err(ended_in_failure()),
            State::Open(begun) => {
                begun.is_used.store(true, Ordering::Release);
                true
            }
            State::Idle => false,
        };
        let definitions = self.database.definitions();
        if in_block {
            self.settings.clock.begin_statement(self.wall());
            self.at_work.store(true, Ordering::Release);
            self.catalog.begin(&definitions, true);
        }
        Ok(Some(Scope {
            transaction: Shared::default(),
            statement,
            definitions,
            in_block,
            zone: Arc::clone(&self.settings.now().zone),
            read_only: ReadOnly::Database(Box::new(why.into())),
            since: Since::Always,
            pending: Pending::default(),
            deferred: None,
        }))
    }

    /// Begins a statement.
    ///
    /// # Errors
    /// 25P02 after a failure; the heap is not open.
    pub(crate) async fn begin_statement(&self) -> Result<Scope, Error> {
        self.fail_if_given_up().await;
        if let Some(scope) = self.reading().await? {
            return Ok(scope);
        }
        let mut deferred = None;
        let (transaction, definitions, in_block, read_only) = match &*self.state.lock().await {
            State::Failed(_) => return Err(ended_in_failure()),
            State::Open(begun) => {
                begun.is_used.store(true, Ordering::Release);
                deferred = Some(begun.deferred.clone());
                let only =
                    if begun.is_read_only { ReadOnly::Transaction } else { ReadOnly::Nothing };
                (Arc::clone(&begun.transaction), begun.definitions.clone(), true, only)
            }
            State::Idle => {
                let waits = self.session.waits();
                let begun = self.database.heap().begin(waits, self.beginning())?;
                let transaction = Arc::new(Mutex::new(Some(begun)));
                let is_read_only = self.settings.now().is_read_only;
                let only = if is_read_only { ReadOnly::Transaction } else { ReadOnly::Nothing };
                (transaction, self.database.definitions(), false, only)
            }
        };
        match in_block {
            true => self.settings.clock.begin_statement(self.wall()),
            false => self.settings.clock.begin(self.wall()),
        }
        let patience = self.settings.now().lock_timeout;
        // Before the snapshot is taken, so that it sees what these tables hold.
        let mut since = Since::Catalog(definitions.catalog()?);
        let statement = match transaction.lock().await.as_mut() {
            Some(open) => {
                if open.is_snapshot() {
                    since = Since::FirstStatement;
                }
                open.set_lock_timeout(patience);
                if !in_block {
                    self.advisory.end_transaction().await;
                }
                self.advisory.join(open).await;
                open.statement().await?
            }
            None => return Err(is_over()),
        };
        self.at_work.store(true, Ordering::Release);
        self.catalog.begin(&definitions, in_block);
        let zone = Arc::clone(&self.settings.now().zone);
        let pending = Pending::default();
        Ok(Scope {
            transaction,
            statement,
            definitions,
            in_block,
            zone,
            read_only,
            since,
            pending,
            deferred,
        })
    }

    /// Fails a transaction whose last statement was abandoned.
    async fn fail_if_given_up(&self) {
        if self.at_work.swap(false, Ordering::AcqRel) {
            self.fail().await;
        }
    }

    /// Ends a statement that has made changes: outside a transaction block they are committed or rolled back.
    ///
    /// # Errors
    /// Those of the commit.
    pub(crate) async fn end_statement(&self, scope: &Scope, is_done: bool) -> Result<(), Error> {
        let fits = match is_done && !scope.in_block {
            true => self.make_fit(&scope.definitions, &scope.transaction).await,
            false => Ok(()),
        };
        self.at_work.store(false, Ordering::Release);
        if scope.in_block {
            if !is_done {
                self.fail().await;
            }
            return Ok(());
        }
        self.catalog.end();
        self.settings.end_transaction();
        let transaction = scope.transaction.lock().await.take();
        let ended = match transaction {
            Some(transaction) if is_done && fits.is_ok() => {
                let _committing = self.committing();
                scope.definitions.commit(transaction).await
            }
            transaction => {
                scope.definitions.roll_back(transaction).await;
                Ok(())
            }
        };
        self.advisory.end_transaction().await;
        fits?;
        Ok(ended?)
    }

    /// Makes a transaction fit one commit, which then waits for nobody. If this is abandoned, the transaction goes on.
    async fn make_fit(&self, definitions: &Definitions, transaction: &Shared) -> Result<(), Error> {
        let mut open = transaction.lock().await;
        let Some(open) = open.as_mut() else { return Ok(()) };
        if definitions.is_changed() {
            definitions.lock_defined(open).await?;
        }
        if !open.may_be_too_large() {
            return Ok(());
        }
        let (database, session) = (&self.database, self.session.waits());
        let committer = Committer { database, session, definitions };
        Box::pin(committer.make_fit(open)).await
    }

    /// Makes the open transaction fit one commit.
    async fn make_open_fit(&self) -> Result<(), Error> {
        let (transaction, definitions) = match &*self.state.lock().await {
            State::Open(begun) => (Arc::clone(&begun.transaction), begun.definitions.clone()),
            State::Idle | State::Failed(_) => return Ok(()),
        };
        self.at_work.store(true, Ordering::Release);
        let fits = self.make_fit(&definitions, &transaction).await;
        self.at_work.store(false, Ordering::Release);
        fits
    }

    fn committing(&self) -> Committing<'_> {
        self.commits.store(true, Ordering::Release);
        Committing(&self.commits)
    }

    /// Whether a commit is in progress: it is or becomes durable, whether or not anybody waits for it.
    pub(crate) fn commits(&self) -> bool {
        self.commits.load(Ordering::Acquire)
    }

    /// A read-only statement has returned its row stream, which keeps what it needs.
    pub(crate) fn leave_statement(&self) {
        if self.catalog.of_block().is_none() {
            self.settings.end_transaction();
        }
        self.catalog.end_statement();
        self.at_work.store(false, Ordering::Release);
    }

    /// Rows of a statement could not be read to their end.
    pub(crate) fn has_failed(&self) {
        self.at_work.store(true, Ordering::Release);
    }

    /// A statement of an open transaction has failed: the transaction's changes are rolled back, except those
    /// before the last savepoint, to which it can return.
    pub(crate) async fn fail(&self) {
        let mut state = self.state.lock().await;
        *state = match std::mem::take(&mut *state) {
            State::Open(begun) if begun.savepoints.is_empty() => {
                begun.roll_back().await;
                self.catalog.end();
                State::Failed(Failed { begun: None, settings: begun.settings })
            }
            State::Open(begun) => {
                begun.back_to(begun.savepoints.len() - 1).await;
                let settings = begun.settings.clone();
                State::Failed(Failed { begun: Some(begun), settings })
            }
            other => other,
        };
    }

    /// BEGIN; whether one was begun before.
    ///
    /// # Errors
    /// The heap is not open; 25P02.
    pub(crate) async fn begin(&self, modes: Modes) -> Result<bool, Error> {
        if !self.are_open() {
            self.database.use_heap(&|_, _| ()).await?;
        }
        let why = self.database.heap().only_read();
        if let (Some(why), Some(false)) = (&why, modes.is_read_only) {
            return Err(why.clone().into());
        }
        self.fail_if_given_up().await;
        let mut state = self.state.lock().await;
        match &*state {
            State::Failed(_) => Err(ended_in_failure()),
            State::Open(_) => Ok(true),
            State::Idle => {
                let now = self.settings.now();
                let is_snapshot = modes.is_snapshot.unwrap_or(now.is_snapshot);
                let begin = Begin { is_snapshot, ..self.beginning() };
                let begun = match why {
                    None => Some(self.database.heap().begin(self.session.waits(), begin)?),
                    Some(_) => None,
                };
                let (definitions, only_reads) = (self.database.definitions(), begun.is_none());
                self.catalog.begin(&definitions, true);
                *self.modes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = modes;
                *state = State::Open(Begun {
                    transaction: Arc::new(Mutex::new(begun)),
                    only_reads,
                    definitions,
                    savepoints: Vec::new(),
                    is_read_only: only_reads || modes.is_read_only.unwrap_or(now.is_read_only),
                    is_used: AtomicBool::new(false),
                    settings: self.settings.savepoint(),
                    deferred: Deferred::default(),
                });
                self.settings.clock.begin(self.wall());
                Ok(false)
            }
        }
    }

    /// SET TRANSACTION; whether one is open.
    ///
    /// # Errors
    /// 25001 it comes too late; 25P02.
    pub(crate) async fn set_modes(&self, said: Modes) -> Result<bool, Error> {
        self.fail_if_given_up().await;
        let mut state = self.state.lock().await;
        let begun = match &mut *state {
            State::Idle => return Ok(false),
            State::Failed(_) => return Err(ended_in_failure()),
            State::Open(begun) => begun,
        };
        let is_used = begun.is_used.load(Ordering::Acquire);
        if begun.only_reads {
            return match self.database.heap().only_read() {
                Some(why) if said.is_read_only == Some(false) => Err(why.into()),
                // All of its statements share one snapshot anyway.
                _ => Ok(true),
            };
        }
        let mut transaction = begun.transaction.lock().await;
        let is_snapshot = transaction.as_ref().ok_or_else(is_over)?.is_snapshot();
        let other = said.is_snapshot.filter(|wanted| *wanted != is_snapshot);
        if other.is_some() && !begun.savepoints.is_empty() {
            return Err(too_late("the isolation level must be set before a savepoint"));
        }
        if other.is_some() && is_used {
            return Err(too_late("the isolation level must be set before any query"));
        }
        if said.is_read_only == Some(false) && begun.is_read_only && is_used {
            return Err(too_late("READ WRITE must be set before any query"));
        }
        if let Some(is_snapshot) = other {
            let begin = Begin { is_snapshot, ..self.beginning() };
            *transaction = Some(self.database.heap().begin(self.session.waits(), begin)?);
        }
        drop(transaction);
        begun.is_read_only = said.is_read_only.unwrap_or(begun.is_read_only);
        let mut modes = self.modes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        modes.is_snapshot = said.is_snapshot.or(modes.is_snapshot);
        modes.is_read_only = said.is_read_only.or(modes.is_read_only);
        Ok(true)
    }

    /// LOCK TABLE. It takes no snapshot: that of a REPEATABLE READ transaction is taken by its first statement.
    ///
    /// # Errors
    /// 25P01 no transaction is open; 42P01 the table was dropped meanwhile; 55P03, 40P01 of the lock.
    pub(crate) async fn lock_table(
        &self,
        name: &str,
        (lock, is_nowait): (TableLock, bool),
    ) -> Result<(), Error> {
        self.fail_if_given_up().await;
        let transaction = match &*self.state.lock().await {
            State::Idle => return Err(no_block("LOCK TABLE")),
            State::Failed(_) => return Err(ended_in_failure()),
            // Nobody changes it.
            State::Open(begun) if begun.only_reads => return Ok(()),
            State::Open(begun) => {
                begun.is_used.store(true, Ordering::Release);
                Arc::clone(&begun.transaction)
            }
        };
        let mut transaction = transaction.lock().await;
        let open = transaction.as_mut().ok_or_else(is_over)?;
        open.set_lock_timeout(self.settings.now().lock_timeout);
        // If abandoned, it has failed.
        self.at_work.store(true, Ordering::Release);
        loop {
            let was = self.catalog.current().table(name).cloned().ok_or_else(|| changed(name))?;
            match &was.rows {
                Some(rows) => {
                    let locked = open.lock_table(rows, lock, is_nowait).await;
                    locked.map_err(in_table(name))?;
                }
                None => open.keep_name(name, is_nowait).await?,
            }
            self.database.catalog().settled().await;
            // The previous holder may have changed it; a columnar table may have got rows, which is fine.
            let now = self.catalog.current().table(name).cloned();
            if now.is_some_and(|now| now == was || was.rows.is_none() && now.id == was.id) {
                break;
            }
        }
        self.at_work.store(false, Ordering::Release);
        Ok(())
    }

    /// COMMIT, or ROLLBACK.
    ///
    /// # Errors
    /// Those of the commit: the transaction is over all the same.
    pub(crate) async fn end(&self, commits: bool) -> Result<Block, Error> {
        self.fail_if_given_up().await;
        let fits = if commits { self.make_open_fit().await } else { Ok(()) };
        let ended = std::mem::take(&mut *self.state.lock().await);
        self.catalog.end();
        let told = self.ended(ended, commits && fits.is_ok()).await;
        self.advisory.end_transaction().await;
        fits.and(told)
    }

    async fn ended(&self, ended: State, commits: bool) -> Result<Block, Error> {
        match ended {
            State::Idle => Ok(Block::None),
            State::Failed(Failed { begun, settings }) => {
                if let Some(begun) = begun {
                    begun.roll_back().await;
                }
                self.settings.back_to(&settings);
                Ok(Block::RolledBack)
            }
            State::Open(begun) => {
                let transaction = begun.transaction.lock().await.take();
                match transaction {
                    Some(transaction) if commits => {
                        let committed = {
                            let _committing = self.committing();
                            begun.definitions.commit(transaction).await
                        };
                        match committed {
                            Ok(()) => self.settings.end_transaction(),
                            Err(_) => self.settings.back_to(&begun.settings),
                        }
                        committed?;
                        Ok(Block::Committed)
                    }
                    None if commits && begun.only_reads => {
                        self.settings.end_transaction();
                        Ok(Block::Committed)
                    }
                    transaction => {
                        self.settings.back_to(&begun.settings);
                        begun.definitions.roll_back(transaction).await;
                        Ok(Block::RolledBack)
                    }
                }
            }
        }
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// 25P01 no transaction is open; 25P02.
    pub(crate) async fn savepoint(&self, name: String) -> Result<(), Error> {
        self.fail_if_given_up().await;
        let mut state = self.state.lock().await;
        let begun = match &mut *state {
            State::Idle => return Err(no_block("SAVEPOINT")),
            State::Failed(_) => return Err(ended_in_failure()),
            State::Open(begun) => begun,
        };
        let rows = begun.transaction.lock().await.as_ref().map(Transaction::savepoint);
        if rows.is_none() && !begun.only_reads {
            return Err(is_over());
        }
        let defined = begun.definitions.savepoint();
        let (settings, deferred) = (self.settings.savepoint(), begun.deferred.savepoint());
        begun.savepoints.push((name, Place { rows, defined, settings, deferred }));
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT, also after a failure.
    ///
    /// # Errors
    /// 25P01 no transaction is open; 3B001 there is no such savepoint.
    pub(crate) async fn back_to_savepoint(&self, name: &str) -> Result<(), Error> {
        self.fail_if_given_up().await;
        let mut state = self.state.lock().await;
        let begun = match &mut *state {
            State::Idle => return Err(no_block("ROLLBACK TO SAVEPOINT")),
            State::Failed(Failed { begun: None, .. }) => return Err(no_savepoint(name, None)),
            State::Open(begun) | State::Failed(Failed { begun: Some(begun), .. }) => begun,
        };
        let at = begun.position(name)?;
        begun.back_to(at).await;
        self.settings.back_to(&begun.savepoints[at].1.settings);
        begun.savepoints.truncate(at + 1);
        *state = match std::mem::take(&mut *state) {
            State::Failed(Failed { begun: Some(begun), .. }) => State::Open(begun),
            other => other,
        };
        Ok(())
    }

    /// RELEASE SAVEPOINT: it is dropped, with those after it; the changes stay.
    ///
    /// # Errors
    /// As [`RowTables::back_to_savepoint`]; 25P02.
    pub(crate) async fn release_savepoint(&self, name: &str) -> Result<(), Error> {
        self.fail_if_given_up().await;
        let mut state = self.state.lock().await;
        let begun = match &mut *state {
            State::Idle => return Err(no_block("RELEASE SAVEPOINT")),
            State::Failed(_) => return Err(ended_in_failure()),
            State::Open(begun) => begun,
        };
        let at = begun.position(name)?;
        begun.savepoints.truncate(at);
        Ok(())
    }

    /// Ends the session and releases everything it holds.
    pub(crate) async fn end_session(&self) {
        self.advisory.end().await;
    }

    /// Refuses anything that follows a failure.
    ///
    /// # Errors
    /// 25P02.
    pub(crate) async fn refuse_behind_failure(&self) -> Result<(), Error> {
        self.fail_if_given_up().await;
        match *self.state.lock().await {
            State::Failed(_) => Err(ended_in_failure()),
            State::Open(_) | State::Idle => Ok(()),
        }
    }

    /// The modes of the open transaction, or of the next: whether its statements share one snapshot, and
    /// whether it is read-only.
    pub(crate) async fn modes_now(&self) -> (bool, bool) {
        if let State::Open(begun) = &*self.state.lock().await {
            let is_snapshot = begun.transaction.lock().await.as_ref().map(Transaction::is_snapshot);
            let said = || self.modes().is_snapshot.unwrap_or(self.settings.now().is_snapshot);
            return (is_snapshot.unwrap_or_else(said), begun.is_read_only);
        }
        let (now, only_reads) = (self.settings.now(), self.database.heap().only_read().is_some());
        (now.is_snapshot, now.is_read_only || only_reads)
    }

    /// Whether a transaction is open, or has failed.
    pub async fn standing(&self) -> Standing {
        self.fail_if_given_up().await;
        match &*self.state.lock().await {
            State::Idle => Standing::Idle,
            State::Open(_) => Standing::Open,
            State::Failed(_) => Standing::Failed,
        }
    }

    /// Whether the open transaction has deferred any check.
    pub(crate) async fn has_deferred(&self) -> bool {
        match &*self.state.lock().await {
            State::Open(begun) => !begun.deferred.is_empty(),
            State::Idle | State::Failed(_) => false,
        }
    }

    /// Whether a transaction is open, or has failed.
    pub async fn is_in_block(&self) -> bool {
        !matches!(*self.state.lock().await, State::Idle)
    }
}
