//! SQL over an instance: DataFusion with our statements, views and external tables.

mod advisory_calls;
mod alter;
mod altered;
mod block;
pub mod cancel;
mod columnar;
mod comments;
mod common;
mod context;
mod copy;
mod ddl;
mod deferred;
mod dml;
mod enums;
mod explain;
mod external;
mod fast;
mod foreign;
mod grants;
mod indexes;
mod like;
mod namespaces;
mod open;
mod origins;
mod permitted;
mod planner;
pub mod prepared;
mod reindex;
mod resolving;
mod rights;
mod roles;
mod rows;
mod run;
mod schema_calls;
mod schemas;
mod sequence_calls;
mod sequence_row;
mod sequences;
mod session_calls;
mod settings;
mod sleep;
mod table_locks;
mod table_options;
mod tables;
mod targets;
mod temporary;
mod transactions;
mod views;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_recursion::async_recursion as boxed;
use cellar_instance::administration::UnderWay;
use cellar_instance::catalog::name;
use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::datasource::TableType;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CascadeOption, ObjectType, Statement as SqlStatement, TableObject, TruncateIdentityOption,
};
use futures_util::StreamExt;
use object_store::ObjectStore;

use crate::allowed;
use crate::blocks;
use crate::copy::CopyOutput;
use crate::engine::cancel::Canceller;
pub use crate::engine::common::Common;
use crate::engine::origins::Origins;
use crate::engine::planner::Planner;
use crate::engine::run::Planned;
use crate::engine::table_options::TableOptions;
use crate::engine::tables::Tables;
use crate::engine::write::writes;
use crate::error::{Error, shown};
use crate::explain::Explained;
use crate::failure::{from_datafusion, ours};
use crate::fast::{NamedStatements, Plans};
use crate::files::host::HostStore;
use crate::host::Host;
use crate::instants::zoned::rows_in_zone;
use crate::name_position::located;
use crate::names::path::Paths;
use crate::names::{self, CATALOG};
use crate::parse::parse;
use crate::path::{SCHEME, group_of_host};
use crate::recorded_errors::{RecordedErrors, RecordingStore};
use crate::rows::Scope;
use crate::settings::Settings;
use crate::statement::Statement;
use crate::suggestions::suggestions;
use crate::unwind::{caught, caught_stream};
use crate::view::{ViewSource, schema_of, to_batch};

/// The schemas as SQL names them.
const PUBLIC: &str = "public";
const VIEWS: &str = "cellar";

/// Resource limits of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Bytes that queries may hold together; more is spilled into a disk group (into the system's
    /// directory for temporary files where there are no columnar tables) or refused.
    pub memory_limit: usize,
    /// The number of partitions of a plan that run at once: the cores.
    pub target_partitions: usize,
}

/// The outcome of a statement.
pub enum Outcome {
    /// Rows, as a stream.
    Rows(SendableRecordBatchStream),
    /// Rows that describe a change, and the reason why it cannot be done.
    Refused(SendableRecordBatchStream, Error),
    /// The bytes of a COPY TO STDOUT, as a stream.
    Copied(CopyOutput),
    /// The output of an EXPLAIN.
    Plan(Box<Explained>),
    /// The number of rows that were changed, and how: `inserted`, `updated`, `deleted`, `copied`.
    Changed(u64, &'static str),
    /// A table was made from a query.
    Filled {
        /// One line: what was done.
        message: String,
        /// The number of its rows; `None`: it existed already, or was to have none.
        rows: Option<u64>,
    },
    /// A statement without rows.
    Done {
        /// One line: what was done.
        message: String,
        /// What else the user should know, for stderr.
        notices: Vec<String>,
    },
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Rows(stream) => write!(f, "Rows({:?})", stream.schema()),
            Outcome::Refused(_, error) => write!(f, "Refused({error:?})"),
            Outcome::Copied(output) => write!(f, "Copied({output:?})"),
            Outcome::Plan(plan) => write!(f, "Plan({plan:?})"),
            Outcome::Changed(count, verb) => write!(f, "Changed({count}, {verb})"),
            Outcome::Filled { message, .. } | Outcome::Done { message, .. } => {
                write!(f, "Done({message})")
            }
        }
    }
}

impl Outcome {
    /// One line that says what was done; `None`: there are rows to read.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        match self {
            Outcome::Changed(count, verb) => {
                let word = if *count == 1 { "row" } else { "rows" };
                Some(format!("{count} {word} {verb}.").into())
            }
            Outcome::Filled { message, .. } | Outcome::Done { message, .. } => Some(message.into()),
            _ => None,
        }
    }

    /// With names as users write them.
    fn shown(self) -> Outcome {
        match self {
            Outcome::Done { message, notices } => Outcome::Done {
                message: shown(message),
                notices: notices.into_iter().map(shown).collect(),
            },
            Outcome::Filled { message, rows } => Outcome::Filled { message: shown(message), rows },
            other => other,
        }
    }
}

/// A number that no other session ever has, not even one before a crash.
fn session_number(host: &dyn Host) -> u64 {
    host.rows().map(|rows| rows.database().env().random()).unwrap_or_default()
}

fn done(message: impl Into<String>) -> Outcome {
    Outcome::Done { message: message.into(), notices: Vec::new() }
}

/// SQL over an instance. Cheap to share behind an `Arc`; statements may run at the same time.
pub struct Engine {
    planner: Arc<Planner>,
    host: Arc<dyn Host>,
    /// The directory to which local paths in statements are relative; `None`: the directory of this
    /// process.
    directory: Option<PathBuf>,
    /// Errors of the groups' stores, which DataFusion may reduce to plain text.
    recorded: Arc<RecordedErrors>,
    /// Tables of the catalog, and files by their paths.
    tables: Arc<Tables>,
    /// What the statement in progress reads and changes in the heap.
    scope: Mutex<Option<Scope>>,
    /// Held by the statement in progress, if there are tables in the heap.
    turn: futures_util::lock::Mutex<()>,
    /// Plans of the fast path that only this session may use.
    plans: Plans,
    /// The settings made by SET.
    settings: Arc<Settings>,
    /// The search path of the session.
    paths: Arc<Paths>,
    /// Stops the statement in progress.
    canceller: Canceller,
    /// Named prepared statements.
    prepared: Arc<NamedStatements>,
    /// A block has begun the transaction in progress, and not ended it.
    in_block: AtomicBool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine over {:?}", self.host)
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

/// Object stores by URL: `group://` asks the instance each time, because groups come and go.
struct Stores {
    host: Arc<dyn Host>,
    recorded: Arc<RecordedErrors>,
    others: DefaultObjectStoreRegistry,
}

impl ObjectStoreRegistry for Stores {
    fn register_store(
        &self,
        url: &url::Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.others.register_store(url, store)
    }

    fn get_store(&self, url: &url::Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        if url.scheme() == "file" {
            return Ok(Arc::new(RecordingStore::new(
                Arc::new(HostStore::default()),
                &self.recorded,
            )));
        }
        if url.scheme() != SCHEME {
            return self.others.get_store(url);
        }
        let group = group_of_host(url.host_str().unwrap_or_default());
        match self.host.store(&group) {
            Some(store) => Ok(Arc::new(RecordingStore::new(store, &self.recorded))),
            None => Err(DataFusionError::External(Box::new(no_group(&group, &*self.host)))),
        }
    }
}

fn no_group(group: &str, host: &dyn Host) -> Error {
    let mounted = host.groups();
    let error = Error::new(
        15001,
        "42704",
        format!("disk group \"{group}\" does not exist or is not mounted"),
    );
    if mounted.is_empty() {
        error.next(format!("alter diskgroup {} mount", group.to_lowercase()))
    } else {
        error.next(format!("the mounted groups are {}", mounted.join(", ")))
    }
}

impl Engine {
    /// An engine over `host` with `views`. The tables of the catalog are opened when a statement names
    /// them; one that cannot be opened (its file is gone) does not affect the others.
    ///
    /// # Errors
    /// The directory for spilled data cannot be used.
    #[boxed]
    pub async fn open(
        host: Arc<dyn Host>,
        views: Vec<Arc<dyn ViewSource>>,
        options: &EngineOptions,
    ) -> Result<Engine, Error> {
        Ok(Engine::of_session(host, &Arc::new(Common::new(views, options)?)))
    }

    /// The engine of a session that shares with others what they have in common.
    pub fn of_session(host: Arc<dyn Host>, common: &Arc<Common>) -> Engine {
        let recorded = Arc::<RecordedErrors>::default();
        let settings = host.rows().map(|rows| Arc::clone(rows.settings())).unwrap_or_default();
        let paths = Arc::new(Paths::new(session_number(&*host)));
        let tables = Arc::new(Tables::new(&host, &common.system));
        let prepared = Arc::<NamedStatements>::default();
        let planner = Arc::new(Planner {
            common: Arc::clone(common),
            host: Arc::clone(&host),
            settings: Arc::clone(&settings),
            paths: Arc::clone(&paths),
            recorded: Arc::clone(&recorded),
            tables: Arc::clone(&tables),
            prepared: Arc::clone(&prepared),
            made: Mutex::default(),
        });
        let weak = Arc::downgrade(&planner);
        tables.open_with(move || weak.upgrade().map(|planner| planner.context().state()));
        Engine {
            planner,
            host,
            directory: None,
            recorded,
            tables,
            scope: Mutex::default(),
            turn: futures_util::lock::Mutex::default(),
            plans: Plans::default(),
            settings,
            paths,
            prepared,
            canceller: Canceller::default(),
            in_block: AtomicBool::new(false),
        }
    }

    /// DataFusion's context of this session.
    fn context(&self) -> SessionContext {
        self.planner.context()
    }

    /// Whether [`Engine::rest`] would drop anything.
    pub fn can_rest(&self) -> bool {
        self.planner.is_made()
    }

    /// Drops what only speeds up the next statement, while the session is idle.
    pub fn rest(&self) {
        self.planner.rest();
    }

    /// This engine with `directory` as its working directory: relative local paths in statements start
    /// there.
    #[must_use]
    pub fn in_directory(mut self, directory: PathBuf) -> Engine {
        self.tables.in_directory(directory.clone());
        self.directory = Some(directory);
        self
    }

    /// Tables that could not be opened when a statement last named them, and why.
    pub fn broken_tables(&self) -> BTreeMap<String, Error> {
        self.tables.broken()
    }

    /// Opens every external table once; returns those that cannot be opened, and why.
    #[boxed]
    pub async fn check_tables(&self) -> BTreeMap<String, Error> {
        for table in self.host.tables() {
            let opened = self.tables.open_external(&table).await;
            self.tables.set_broken(&table.name, opened.err());
        }
        self.broken_tables()
    }

    /// The names a shell may complete: tables and views.
    pub fn names(&self) -> Vec<String> {
        let schema = self.context().catalog(CATALOG).and_then(|c| c.schema(PUBLIC));
        let mut names = schema.map(|s| s.table_names()).unwrap_or_default();
        names.extend(
            self.planner.common.views.table_names().into_iter().map(|n| format!("{VIEWS}.{n}")),
        );
        let keys = self.tables.keys().into_iter();
        let keys = keys.filter(|key| name::parts(key).0 != PUBLIC);
        names.extend(keys.filter(|key| !name::is_temporary(key)).map(shown));
        names.sort();
        names
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// A numbered error with the next step; 00600 for a defect.
    #[boxed]
    pub async fn execute(&self, sql: &str) -> Result<Outcome, Error> {
        let began = self.began();
        let outcome = began.ends(caught(Box::pin(self.run(sql)))).await.and_then(|ran| ran);
        let outcome = outcome.map_err(|error| located(error, sql));
        match self.told_in_time(self.concluded(outcome).await?.shown(), &began) {
            Outcome::Rows(stream) => Ok(Outcome::Rows(caught_stream(stream))),
            other => Ok(other),
        }
    }

    async fn run(&self, sql: &str) -> Result<Outcome, Error> {
        self.check_role()?;
        match self.by_fast_path(sql).await? {
            Some(outcome) => Ok(outcome),
            None => Box::pin(self.run_common(sql)).await,
        }
    }

    /// Runs a statement by the common path.
    async fn run_common(&self, sql: &str) -> Result<Outcome, Error> {
        if blocks::is_block(sql) {
            self.refuse_in_failure().await?;
            return self.run_block(sql).await;
        }
        let statement = parse(sql)?;
        self.refuse_behind_failure(&statement).await?;
        match statement {
            Statement::Command(mut command) => {
                self.check_superuser("to administer the instance")?;
                for disk in command.new_disks() {
                    disk.path = self.absolute(&disk.path)?;
                }
                for directory in command.directories() {
                    *directory = self.absolute(directory)?;
                }
                let reply = self.host.run(command).await?;
                Ok(Outcome::Done { message: reply.message, notices: reply.notices })
            }
            Statement::ExplainWork(mut work) => {
                self.check_superuser("to administer the instance")?;
                for disk in &mut work.change.add {
                    disk.path = self.absolute(&disk.path)?;
                }
                let found = self.host.explain_work(work).await?;
                let schema = schema_of(found.columns);
                let batch = to_batch(&schema, found.columns, &found.rows);
                let rows = futures_util::stream::once(async { Ok(batch) });
                let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
                Ok(match found.refused {
                    Some(error) => Outcome::Refused(rows, error),
                    None => Outcome::Rows(rows),
                })
            }
            Statement::ShowParameter(pattern) => {
                let pattern = pattern.unwrap_or_default().replace('\'', "''");
                let query = format!(
                    "select name, value from {VIEWS}.parameter \
                     where strpos(name, '{pattern}') > 0 or '{pattern}' = '' order by name"
                );
                let Statement::Query(statement) = parse(&query)? else {
                    unreachable!("a select is a query");
                };
                self.plan_and_run(*statement).await
            }
            Statement::Explain(options, statement) => {
                Box::pin(self.explained(&options, self.unprepared(*statement)?)).await
            }
            Statement::Define(define) => self.defined(define).await,
            Statement::Copy(copy) => self.copy(sql, *copy, None).await,
            Statement::Setting(setting) => self.about_settings(setting).await,
            Statement::Query(statement) => {
                if let Some(outcome) = self.about_search_path(&statement).await? {
                    return Ok(outcome);
                }
                match self.about_prepared(sql, &statement).await? {
                    Some(outcome) => Ok(outcome),
                    None => Box::pin(self.in_transaction(sql, *statement)).await,
                }
            }
        }
    }

    /// The progress of the long-running work that a statement of this engine currently waits for, if any.
    pub fn progress(&self) -> Option<UnderWay> {
        self.host.progress().or_else(|| self.index_progress())
    }

    /// The steps before a statement is planned, or explained.
    async fn prepare(&self, statement: &mut DfStatement) -> Result<(), Error> {
        allowed::check(statement)?;
        self.resolve_target(statement)?;
        self.check_targets(statement).await
    }

    async fn query(&self, sql: &str, mut statement: DfStatement) -> Result<Outcome, Error> {
        self.prepare(&mut statement).await?;
        self.check_rights(&statement)?;
        if let Some(outcome) = self.defining(&statement).await? {
            return Ok(outcome);
        }
        match &statement {
            DfStatement::CreateExternalTable(table) => {
                return self.create_external_table(sql, table.clone()).await;
            }
            DfStatement::Statement(inner) => match inner.as_ref() {
                SqlStatement::CreateTable(_) => return self.create_table(statement).await,
                SqlStatement::Update(_) | SqlStatement::Delete(_) => {
                    return Err(self.no_change(inner));
                }
                SqlStatement::Truncate(truncate) => {
                    let names = truncate.table_names.iter().map(|t| t.name.to_string());
                    let restarts = truncate.identity == Some(TruncateIdentityOption::Restart);
                    let cascades = truncate.cascade == Some(CascadeOption::Cascade);
                    return self.truncate_tables(names.collect(), (restarts, cascades)).await;
                }
                SqlStatement::Insert(insert)
                    if matches!(&insert.table, TableObject::TableName(name)
                        if self.is_columnar(&name.to_string())) =>
                {
                    return self.append(statement).await;
                }
                SqlStatement::Drop { object_type, names, if_exists, cascade, .. } => {
                    let names = names.iter().map(ToString::to_string).collect();
                    let how = (*if_exists, *cascade);
                    return match object_type {
                        ObjectType::View => self.drop_views(names, how).await,
                        _ => self.drop_tables(names, how).await,
                    };
                }
                SqlStatement::CreateView(view) => {
                    return self.create_view(sql, view).await;
                }
                _ => {}
            },
            _ => {}
        }
        self.plan_and_run(statement).await
    }

    /// A local path of a statement, made absolute.
    fn absolute(&self, path: &str) -> Result<String, Error> {
        absolute(self.directory.as_deref(), path)
    }

    /// The state that statements are currently planned with.
    fn state(&self) -> SessionState {
        let mut state = self.context().state();
        let set = self.host.target_partitions();
        let partitions = set.unwrap_or(state.config().target_partitions());
        let most = match state.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => context::most_partitions(bytes),
            _ => usize::MAX,
        };
        state.config_mut().options_mut().execution.target_partitions = partitions.min(most);
        let zone = self.settings.now().zone.to_string();
        state.config_mut().options_mut().execution.time_zone = Some(zone);
        // now() is the start of the transaction.
        let began = self.settings.clock.transaction().filter(|_| self.scope().is_some());
        let began = began.and_then(|nanos| i64::try_from(nanos).ok());
        if let Some(nanos) = began {
            let began = chrono::DateTime::from_timestamp_nanos(nanos);
            state.execution_props_mut().query_execution_start_time = Some(began);
        }
        if let Some(scope) = self.scope() {
            state.config_mut().set_extension(Arc::new(scope));
        }
        state
    }

    /// The rows of a plan; a plan that only changes the session is executed. Errors in reading a file
    /// name the file.
    async fn stream(
        &self,
        plan: LogicalPlan,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let rows = match plan {
            LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
                self.context().execute_logical_plan(plan).await?.execute_stream().await?
            }
            // The context would plan it with its initial options.
            plan => Planned::of(self.state(), &plan).await?.rows(plan)?,
        };
        Ok(self.kept(rows_in_zone(rows, &self.settings.now().zone)))
    }

    async fn plan_and_run(&self, statement: DfStatement) -> Result<Outcome, Error> {
        let state = self.state();
        let plan = match state.statement_to_plan(statement.clone()).await {
            Ok(plan) => plan,
            Err(e) => {
                return Err(self.missing_table(&statement).unwrap_or_else(|| self.failure(&e)));
            }
        };
        if let LogicalPlan::Ddl(ddl) = &plan
            && !matches!(ddl, DdlStatement::CreateView(_))
        {
            // SELECT ... INTO is one of these.
            return self.create_of_plan(plan, &TableOptions::default()).await;
        }
        let mut plan = plan;
        let counted = match &mut plan {
            LogicalPlan::Copy(copy) => {
                names::check_unique(copy.input.schema().as_arrow())?;
                let named = names::unmarked(Arc::clone(&copy.input));
                copy.input = named.map_err(|e| self.failure(&e))?;
                Some("copied")
            }
            LogicalPlan::Dml(_) => Some("written"),
            _ => None,
        };
        let silent = matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
        if writes(&plan) {
            self.check_superuser("to write files of the server")?;
            return self.write(plan, counted).await;
        }
        let origins = self.origins(&plan);
        let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        if silent && stream.schema().fields().is_empty() {
            return Ok(done("Done."));
        }
        let recorded = Arc::clone(&self.recorded);
        let schema = stream.schema();
        let shown = origins.tell(names::shown_schema(&schema).unwrap_or(Arc::clone(&schema)));
        let renamed = (!Arc::ptr_eq(&shown, &schema)).then(|| Arc::clone(&shown));
        let stream = stream.map(move |batch| match (batch, &renamed) {
            (Ok(batch), Some(schema)) => with_names(&batch, schema),
            (Err(e), _) => Err(match told(&e, &recorded) {
                Some(error) => DataFusionError::External(Box::new(error)),
                None => e,
            }),
            (batch, None) => batch,
        });
        Ok(Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(shown, stream))))
    }

    /// The table columns from which the columns of a plan come.
    fn origins(&self, plan: &LogicalPlan) -> Origins {
        self.catalog().map_or_else(|_| Origins::default(), |catalog| Origins::of(plan, &catalog))
    }

    /// The numbered error for one of DataFusion's.
    fn failure(&self, error: &DataFusionError) -> Error {
        told(error, &self.recorded).unwrap_or_else(|| from_datafusion(error))
    }

    /// An error, or the more specific one that a store has given in its place.
    fn restored(&self, error: Error) -> Error {
        let deepest = error.stack().last().map(|entry| entry.message.clone()).unwrap_or_default();
        self.recorded.find(&deepest).filter(|_| error.cause.is_none()).unwrap_or(error)
    }

    /// The error for the first table of `statement` that does not exist.
    fn missing_table(&self, statement: &DfStatement) -> Option<Error> {
        let state = self.state();
        let references = state.resolve_table_references(statement).ok()?;
        let mut broken = self.broken_tables();
        let target = made_by(statement);
        let missing = references.into_iter().find(|r| {
            let is_broken = is_public(r) && broken.contains_key(r.table());
            // A path is not a name in the catalog: its errors were found when it was opened.
            target.as_deref() != Some(r.table())
                && (is_broken || !tables::is_file(r.table()))
                && !state.table_functions().contains_key(r.table())
                && (is_broken || !self.context().table_exist(r.clone()).unwrap_or(false))
        })?;
        let name = missing.to_string();
        if let Some(cause) = broken.remove(missing.table()).map(|e| self.restored(e)) {
            if tables::is_file(missing.table()) && !self.has_table(missing.table()) {
                return Some(cause);
            }
            let message = format!("the table \"{name}\" cannot be opened");
            return Some(Error::new(29913, "58P01", message).caused_by(cause));
        }
        let parts = missing.schema().into_iter().chain([missing.table()]);
        let error = Error::new(942, "42P01", format!("table or view \"{name}\" does not exist"))
            .of_name(parts);
        if name == "v" {
            return Some(error.next(
                "a shell replaces $name inside \"double quotes\": write 'single quotes', or \
                 cellar.asm_disk for v$asm_disk",
            ));
        }
        let names = suggestions(&name, self.names());
        Some(error.next(format!("the nearest names are {}", names.join(", "))))
    }

    // --- names, and what they stand for ---

    /// Whether the catalog has a table of that name.
    fn has_table(&self, name: &str) -> bool {
        self.host.tables().iter().any(|t| t.name == name)
            || self.host.columnar().is_some_and(|columnar| columnar.has(name))
            || self.host.rows().is_some_and(|rows| rows.table(name).is_some())
    }

    async fn is_view(&self, reference: &TableReference) -> bool {
        let found = self.context().table_provider(reference.clone()).await;
        found.is_ok_and(|table| table.table_type() == TableType::View)
    }

    /// Refuses a name of ours in anything but a read.
    fn check_own(&self, reference: &TableReference) -> Result<(), Error> {
        let own = match reference.schema() {
            None | Some(PUBLIC) => self.planner.common.system.table_exist(reference.table()),
            Some(VIEWS) => self.planner.common.views.table_exist(reference.table()),
            Some(schema) => schema == "information_schema",
        };
        if !own {
            return Ok(());
        }
        let name = reference.table();
        Err(Error::new(
            2030,
            "42809",
            format!("\"{name}\" is a system view, which can only be read"),
        )
        .next(format!("select * from {reference}; a table or view of yours needs another name")))
    }

    fn check_view_name(&self, name: &str) -> Result<(), Error> {
        let reference = TableReference::parse_str(name);
        self.check_own(&reference)?;
        let name = reference.table();
        if self.has_table(name) {
            return Err(Error::new(955, "42P07", format!("there is already a table \"{name}\""))
                .next("give the view another name"));
        }
        Ok(())
    }
}

/// A local path, made absolute, so that it means the same in another process.
fn absolute(directory: Option<&Path>, path: &str) -> Result<String, Error> {
    let plain = path.strip_prefix("file://").unwrap_or(path);
    let from_here = match directory {
        Some(directory) => directory.join(plain),
        None => PathBuf::from(plain),
    };
    let mut absolute = std::path::absolute(from_here)
        .map_err(|e| Error::new(27037, "58030", format!("\"{path}\": {e}")))?
        .to_string_lossy()
        .into_owned();
    if plain.ends_with('/') && !absolute.ends_with('/') {
        absolute.push('/');
    }
    Ok(absolute)
}

fn with_names(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The table that a statement creates: it is not an error that it does not exist.
fn made_by(statement: &DfStatement) -> Option<String> {
    let DfStatement::Statement(inner) = statement else { return None };
    match inner.as_ref() {
        SqlStatement::CreateTable(create) => {
            Some(TableReference::parse_str(&create.name.to_string()).table().to_owned())
        }
        _ => None,
    }
}

/// The error for a type that does not exist.
fn no_such_type() -> Error {
    Error::new(902, "42704", "there is no such type")
}

fn is_public(reference: &TableReference) -> bool {
    reference.catalog().is_none_or(|c| c == CATALOG)
        && reference.schema().is_none_or(|s| s == PUBLIC)
}

/// The error that a store gave, if `error` came from one: itself, or recovered from its text.
fn told(error: &DataFusionError, recorded: &RecordedErrors) -> Option<Error> {
    ours(error).or_else(|| recorded.find(&error.to_string()))
}
