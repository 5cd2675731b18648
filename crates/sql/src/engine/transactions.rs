//! Transactions of a session: BEGIN, COMMIT, ROLLBACK, and what surrounds each statement that may read or change
//! tables in the heap.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::OWNER_OID;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Set, Statement as SqlStatement, TransactionAccessMode, TransactionIsolationLevel,
    TransactionMode,
};

use futures_util::TryStreamExt;

use crate::engine::resolving::makes_temporary;
use crate::engine::table_options::TableOptions;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::explain::Explained;
use crate::explain::options::ExplainOptions;
use crate::names::folded;
use crate::rows::{Block, Modes, PLANNED_BEFORE, References, RowTables, Scope, Standing};
use crate::statement::{Define, Statement};

/// How often a statement is planned while others change its tables.
const PLANS: usize = 10;

/// Errors of names that the catalog does not have: of a table, a type, a schema, an index, a role, a sequence.
const NO_SUCH: [u32; 6] = [942, 902, 1435, 1418, 1918, 2289];

impl Engine {
    /// Runs a statement for DataFusion, or one about transactions.
    pub(super) async fn in_transaction(
        &self,
        sql: &str,
        statement: DfStatement,
    ) -> Result<Outcome, Error> {
        let Some(rows) = self.host.rows() else { return self.query(sql, statement).await };
        if let DfStatement::Statement(inner) = &statement
            && let Some(answer) = self.about_transactions(rows, inner).await?
        {
            return Ok(answer);
        }
        let is_filled_heap = |mut statement: DfStatement| {
            TableOptions::of(&mut statement).or_as(&self.settings.now()).is_filled_heap()
        };
        if !rows.are_open() && (makes_temporary(&statement) || is_filled_heap(statement.clone())) {
            // The first of all tables in the heap is made and filled in one transaction, too.
            rows.database().use_heap(&|_, _| ()).await?;
        }
        if !rows.are_open() {
            let statement = self.resolved(statement)?;
            return self.query(sql, statement).await;
        }
        let _turn = self.turn.lock().await;
        let scope = rows.begin_statement().await?;
        let in_scope = self.in_scope(scope.clone());
        let statement = match self.resolved(statement) {
            Ok(statement) => statement,
            Err(error) => {
                drop(in_scope);
                return self.ended(rows, &scope, Err(error)).await;
            }
        };
        let changed = self.changing(&scope, &statement).await;
        let is_change = changed.is_some();
        let (outcome, scope) = match changed {
            None => (Box::pin(self.planned_anew(&scope, sql, statement)).await, scope),
            Some(Ok((outcome, scope))) => (Ok(outcome), scope),
            Some(Err(error)) => (Err(error), scope),
        };
        drop(in_scope);
        let is_read = matches!(outcome, Ok(Outcome::Rows(_) | Outcome::Refused(..))) && !is_change;
        if is_read && !scope.in_block {
            rows.leave_statement();
            return outcome;
        }
        let outcome = outcome.map(|outcome| self.fails_with_its_rows(outcome));
        self.ended(rows, &scope, outcome).await
    }

    /// Concludes each statement: an error, wherever it comes from, fails the open transaction.
    pub(super) async fn concluded<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        let (Err(error), Some(rows)) = (&outcome, self.host.rows()) else { return outcome };
        {
            let _turn = self.turn.lock().await;
            rows.fail().await;
            // A block that was stopped could not end its transaction itself.
            if self.in_block.swap(false, Ordering::AcqRel) {
                let _ = self.end_with_path(rows, false).await;
            }
        }
        // A missing object may be in a catalog that cannot be read.
        match rows.catalog() {
            Err(unknown) if NO_SUCH.contains(&error.number) => Err(unknown),
            _ => outcome,
        }
    }

    /// Refuses a statement in a failed transaction, unless it ends the transaction.
    pub(super) async fn refuse_behind_failure(&self, statement: &Statement) -> Result<(), Error> {
        if let Statement::Query(query) = statement
            && let DfStatement::Statement(inner) = query.as_ref()
            && matches!(**inner, SqlStatement::Commit { .. } | SqlStatement::Rollback { .. })
        {
            return Ok(());
        }
        self.refuse_in_failure().await
    }

    /// Refuses whatever does not end a failed transaction.
    pub(super) async fn refuse_in_failure(&self) -> Result<(), Error> {
        let Some(rows) = self.host.rows() else { return Ok(()) };
        // While another statement is running, the answer is not known yet.
        match self.turn.try_lock() {
            Some(_turn) => rows.refuse_behind_failure().await,
            None => Ok(()),
        }
    }

    /// Ends a statement that has made changes, once the sequence values it has taken are durable.
    pub(super) async fn ended(
        &self,
        rows: &RowTables,
        scope: &Scope,
        outcome: Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let outcome = match outcome {
            Ok(outcome) => self.settle_references(scope).await.map(|()| outcome),
            Err(error) => Err(error),
        };
        let outcome = match rows.keep_values().await {
            Ok(()) => outcome,
            Err(error) => outcome.and(Err(error)),
        };
        let outcome = match outcome {
            Ok(outcome) if !scope.in_block => {
                let in_scope = self.in_scope(scope.clone());
                let left = self.on_commit(scope).await;
                drop(in_scope);
                left.map(|()| outcome)
            }
            outcome => outcome,
        };
        let ended = rows.end_statement(scope, outcome.is_ok()).await;
        let outcome = outcome?;
        ended?;
        Ok(outcome)
    }

    /// Carries out the actions and checks of foreign keys at the end of a statement.
    ///
    /// # Errors
    /// 02291, 02292 one is violated; those of changes.
    pub(super) async fn settle_references(&self, scope: &Scope) -> Result<(), Error> {
        if !scope.has_pending() {
            return Ok(());
        }
        let state = self.state();
        let in_scope = self.in_scope(scope.clone());
        let settled = Box::pin(References::new(&state, scope).check_all()).await;
        drop(in_scope);
        settled
    }

    /// Runs a statement of our own that defines something.
    pub(super) async fn defined(&self, define: Define) -> Result<Outcome, Error> {
        let Some(rows) = self.host.rows() else { return self.define(define).await };
        if !rows.are_open() && define.needs_heap() {
            rows.database().use_heap(&|_, _| ()).await?;
        }
        if !rows.are_open() {
            return self.define(define).await;
        }
        let _turn = self.turn.lock().await;
        if matches!(define, Define::Lock { .. }) {
            // It reads nothing, so it must not take the transaction's snapshot.
            return self.define(define).await;
        }
        let scope = rows.begin_statement().await?;
        let in_scope = self.in_scope(scope.clone());
        let outcome = self.define(define).await;
        drop(in_scope);
        self.ended(rows, &scope, outcome).await
    }

    /// Runs a statement, and replans it if a table's columns have changed, or its rows moved, since it began.
    async fn planned_anew(
        &self,
        scope: &Scope,
        sql: &str,
        statement: DfStatement,
    ) -> Result<Outcome, Error> {
        // To undo the table that a CREATE TABLE AS has already created.
        let before = (scope.savepoint().await.ok(), scope.definitions.savepoint());
        for _ in 0..PLANS {
            match self.query(sql, statement.clone()).await {
                Err(error) if error.number == PLANNED_BEFORE => {
                    let (Some(savepoint), defined) = &before else { return Err(error) };
                    scope.definitions.back_to(defined);
                    self.set_scope(Some(scope.anew(*savepoint).await?));
                }
                outcome => return outcome,
            }
        }
        self.query(sql, statement).await
    }

    /// Makes an error while the rows are read fail the transaction, as an earlier one would.
    fn fails_with_its_rows(&self, outcome: Outcome) -> Outcome {
        let Outcome::Rows(stream) = outcome else { return outcome };
        let (host, schema) = (Arc::clone(&self.host), stream.schema());
        let watched = stream.inspect_err(move |_| {
            if let Some(rows) = host.rows() {
                rows.has_failed();
            }
        });
        Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, watched)))
    }

    /// EXPLAIN, with what its statement would read.
    pub(super) async fn explained(
        &self,
        options: &ExplainOptions,
        statement: DfStatement,
    ) -> Result<Outcome, Error> {
        let fast = self.explained_fast(&statement).await;
        if let (Some(line), DfStatement::Statement(inner)) = (&fast, &statement)
            && !matches!(**inner, SqlStatement::Query(_))
            && !options.analyze
        {
            return Ok(Outcome::Plan(Box::new(Explained::of_text(line))));
        }
        if options.analyze && is_change(&statement) {
            return Box::pin(self.analyzed_change(fast, statement)).await;
        }
        let statement = self.resolved(statement)?;
        let Some(rows) = self.host.rows().filter(|rows| rows.are_open()) else {
            return Box::pin(self.explain(options, statement)).await;
        };
        let _turn = self.turn.lock().await;
        let scope = rows.begin_statement().await?;
        let in_scope = self.in_scope(scope.clone());
        let outcome = Box::pin(self.explain(options, statement)).await;
        drop(in_scope);
        rows.end_statement(&scope, outcome.is_ok()).await?;
        Ok(match (outcome?, fast) {
            (Outcome::Plan(plan), Some(line)) => Outcome::Plan(Box::new(plan.with_head(line))),
            (outcome, _) => outcome,
        })
    }

    /// EXPLAIN ANALYZE of a change: it is made, and reported with its number of rows and time.
    async fn analyzed_change(
        &self,
        fast: Option<String>,
        statement: DfStatement,
    ) -> Result<Outcome, Error> {
        let began = tokio::time::Instant::now();
        let told = match Box::pin(self.in_transaction(&statement.to_string(), statement)).await? {
            Outcome::Rows(mut rows) => {
                let mut count = 0;
                while let Some(batch) = rows.try_next().await.map_err(|e| self.failure(&e))? {
                    count += batch.num_rows();
                }
                format!("{count} rows returned.")
            }
            Outcome::Refused(_, error) => return Err(error),
            other => match other.message() {
                Some(told) => told.into_owned(),
                None => return Ok(other),
            },
        };
        let took = began.elapsed().as_secs_f64() * 1e3;
        let how = fast.map(|line| format!("{line}\n")).unwrap_or_default();
        let text =
            format!("{how}{told}\ntime: {took:.3} ms, its commit included where it is alone");
        Ok(Outcome::Plan(Box::new(Explained::of_text(&text))))
    }

    /// BEGIN, COMMIT, ROLLBACK; `None`: it is another statement.
    async fn about_transactions(
        &self,
        rows: &RowTables,
        statement: &SqlStatement,
    ) -> Result<Option<Outcome>, Error> {
        match statement {
            SqlStatement::StartTransaction { modes, statements, .. } => {
                if !statements.is_empty() {
                    return Err(Error::not_yet("a block of statements"));
                }
                let was_begun = rows.begin(modes_of(modes)?).await?;
                if !was_begun {
                    self.paths.begin();
                }
                let mut outcome = done("Transaction begun.");
                if let (true, Outcome::Done { notices, .. }) = (was_begun, &mut outcome) {
                    notices.push("a transaction was begun already: it goes on".to_owned());
                }
                Ok(Some(outcome))
            }
            SqlStatement::Set(Set::SetTransaction { snapshot: Some(_), .. }) => {
                Err(Error::not_yet("SET TRANSACTION SNAPSHOT"))
            }
            SqlStatement::Set(Set::SetTransaction { modes, session: false, .. }) => {
                let is_open = rows.set_modes(modes_of(modes)?).await?;
                let notice = "SET TRANSACTION has effect in a transaction alone".to_owned();
                Ok(Some(match is_open {
                    true => done("The transaction has these modes."),
                    false => {
                        let message = "Nothing is set.".to_owned();
                        Outcome::Done { message, notices: vec![notice] }
                    }
                }))
            }
            SqlStatement::Commit { chain, .. } => {
                Ok(Some(self.end_block(rows, true, *chain).await?))
            }
            SqlStatement::Rollback { savepoint: None, chain } => {
                Ok(Some(self.end_block(rows, false, *chain).await?))
            }
            SqlStatement::Rollback { savepoint: Some(name), .. } => {
                let name = folded(name);
                rows.back_to_savepoint(&name).await?;
                self.paths.back_to(&name);
                Ok(Some(done(format!("Rolled back to savepoint {name}."))))
            }
            SqlStatement::Savepoint { name } => {
                let name = folded(name);
                rows.savepoint(name.clone()).await?;
                self.paths.savepoint(&name);
                Ok(Some(done(format!("Savepoint {name} created."))))
            }
            SqlStatement::ReleaseSavepoint { name } => {
                let name = folded(name);
                rows.release_savepoint(&name).await?;
                self.paths.release(&name);
                Ok(Some(done(format!("Savepoint {name} released."))))
            }
            _ => Ok(None),
        }
    }

    /// COMMIT, or ROLLBACK. `chain`: another transaction like the one that ends begins at once.
    async fn end_block(
        &self,
        rows: &RowTables,
        commits: bool,
        chain: bool,
    ) -> Result<Outcome, Error> {
        let what = if commits { "commit" } else { "roll back" };
        if !chain {
            return Ok(ended(self.end_with_path(rows, commits).await?, what));
        }
        if !rows.is_in_block().await {
            return Err(Error::new(
                70172,
                "25P01",
                format!("{what} and chain outside a transaction"),
            )
            .next("begin one: BEGIN"));
        }
        let block = self.end_with_path(rows, commits).await?;
        rows.begin(rows.modes()).await?;
        self.paths.begin();
        Ok(match ended(block, what) {
            Outcome::Done { message, notices } => {
                Outcome::Done { message: format!("{message} Another one begun."), notices }
            }
            other => other,
        })
    }

    /// Ends a transaction, including its search path settings and the ON COMMIT actions of temporary tables.
    async fn end_with_path(&self, rows: &RowTables, commits: bool) -> Result<Block, Error> {
        let left = match commits {
            true => self.before_commit(rows).await,
            false => Ok(()),
        };
        let block = rows.end(commits && left.is_ok()).await;
        let is_kept = commits && matches!(block, Ok(Block::Committed | Block::None));
        self.paths.end(is_kept && left.is_ok());
        left?;
        block
    }

    /// Refuses statements that are not transactional in a transaction.
    pub(super) async fn refuse_in_block(&self, what: &str) -> Result<(), Error> {
        let Some(rows) = self.host.rows() else { return Ok(()) };
        match rows.is_in_block().await {
            false => Ok(()),
            true => Err(Error::not_yet(format!("{what} in a transaction"))
                .next("COMMIT first: it is durable at once, whatever becomes of the transaction")),
        }
    }

    /// Fails the open transaction, because a request to the session has failed.
    #[boxed]
    pub async fn has_failed(&self) {
        if let Some(rows) = self.host.rows() {
            let _turn = self.turn.lock().await;
            rows.fail().await;
        }
    }

    /// Whether a transaction is open.
    #[boxed]
    pub async fn standing(&self) -> Standing {
        match self.host.rows() {
            Some(rows) => rows.standing().await,
            None => Standing::Idle,
        }
    }

    /// Gives up a transaction that is open; whether there was one.
    ///
    /// # Errors
    /// None that matters: it is gone.
    pub async fn end_session(&self) -> bool {
        let Some(rows) = self.host.rows() else { return false };
        let ended = rows.end(false).await;
        self.paths.end(false);
        if self.paths.has_temporary() {
            // Whatever remains is dropped when the database is next opened.
            let _ = rows.database().drop_temporary(Some(self.paths.temporary())).await;
        }
        rows.end_session().await;
        !matches!(ended, Ok(Block::None))
    }

    /// Sets the scope of the running statement until the returned guard is dropped, even if the statement is
    /// abandoned.
    pub(super) fn in_scope(&self, scope: Scope) -> InScope<'_> {
        // A dropped role creates nothing: its statements are refused earlier.
        let maker = if self.settings.is_owner() { None } else { self.who().ok() };
        scope.definitions.make_as(maker.map_or(OWNER_OID, |who| who.oid));
        self.set_scope(Some(scope));
        InScope(self)
    }

    /// The scope of the running statement.
    pub(super) fn set_scope(&self, scope: Option<Scope>) {
        *self.scope.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = scope;
    }

    /// The same.
    pub(super) fn scope(&self) -> Option<Scope> {
        self.scope.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// See [`Engine::in_scope`].
pub(super) struct InScope<'a>(&'a Engine);

impl Drop for InScope<'_> {
    fn drop(&mut self) {
        self.0.set_scope(None);
    }
}

/// Whether a statement changes rows.
fn is_change(statement: &DfStatement) -> bool {
    let DfStatement::Statement(inner) = statement else { return false };
    matches!(**inner, SqlStatement::Insert(_) | SqlStatement::Update(_) | SqlStatement::Delete(_))
}

fn ended(block: Block, what: &str) -> Outcome {
    match block {
        Block::Committed => done("Transaction committed."),
        Block::RolledBack => done("Transaction rolled back."),
        Block::None => Outcome::Done {
            message: "No transaction was open.".to_owned(),
            notices: vec![format!(
                "there is nothing to {what}: each statement is durable by itself"
            )],
        },
    }
}

/// What BEGIN says of a transaction.
fn modes_of(said: &[TransactionMode]) -> Result<Modes, Error> {
    let mut modes = Modes::default();
    for mode in said {
        match mode {
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::ReadCommitted
                | TransactionIsolationLevel::ReadUncommitted,
            ) => modes.is_snapshot = Some(false),
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot,
            ) => modes.is_snapshot = Some(true),
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(Error::not_yet("SERIALIZABLE")
                    .next("REPEATABLE READ, and lock the rows that must not change"));
            }
            TransactionMode::AccessMode(mode) => {
                modes.is_read_only = Some(*mode == TransactionAccessMode::ReadOnly);
            }
        }
    }
    Ok(modes)
}
