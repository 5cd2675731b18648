//! A database on real files, and sessions that use it at once.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use cellar_diskgroup::Redundancy;
use cellar_instance::directory::Directory;
use cellar_instance::parameters::Scope;
use cellar_instance::{Database, Instance};
use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_sql::host::instance::{InstanceHost, views};
use cellar_sql::output::{Format, Writer};
use cellar_sql::{Common, Engine, EngineOptions, Outcome, Parameter, Prepared};
use cellar_storage::disks::RealDisks;
use cellar_storage::{InitDisk, InitSpec};
use cellar_wait::Waits;
use futures_util::TryStreamExt;

/// A database of its own, in a directory that goes with it.
pub struct TestDatabase {
    runtime: Runtime,
    database: Arc<Database>,
    /// What its sessions have in common, as those of a server do.
    common: Arc<Common>,
    _directory: tempfile::TempDir,
}

impl TestDatabase {
    /// An empty database.
    pub fn new() -> TestDatabase {
        TestDatabase::with_memory("0")
    }

    /// An empty database with this `memory_target`.
    pub fn with_memory(target: &str) -> TestDatabase {
        let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("db")).unwrap();
        let instance = instance(&runtime, &directory);
        let memory = Some(Scope::Memory);
        instance.alter_system_set("memory_target", target, memory).unwrap();
        let disks = Arc::new(RealDisks::new(runtime.real_env(), instance.parameters()));
        let spec = InitSpec {
            name: "DATA".into(),
            redundancy: Redundancy::External,
            au_size: 1 << 20,
            sector_size: None,
            disks: vec![InitDisk::File { size: 256 << 20 }],
            failgroups: Vec::new(),
            erase: std::collections::BTreeMap::new(),
        };
        let made = cellar_instance::database::init(instance, directory, disks, &spec, &|_, _| ());
        let database = Arc::new(runtime.block_on(made).unwrap());
        let options = EngineOptions { memory_limit: 64 << 20, target_partitions: 2 };
        let common = Arc::new(Common::new(views(&database), &options).unwrap());
        TestDatabase { runtime, database, common, _directory: parent }
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Runs what is no statement.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// How many objects of the catalog last as long as a session.
    pub fn temporary(&self) -> usize {
        let catalog = self.database.catalog().current();
        let names = catalog.tables.iter().map(|table| table.name.as_str());
        names.filter(|name| name.starts_with("pg_temp_")).count()
    }

    /// Waits until something is so.
    #[expect(clippy::disallowed_methods, reason = "a test of the real clock")]
    pub fn wait_for(&self, is_so: impl Fn(&TestDatabase) -> bool) {
        for _ in 0..600 {
            if is_so(self) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("it has not come to be so");
    }

    /// A session of its own.
    pub fn session(&self) -> Session<'_> {
        let database = &self.database;
        let session = database.instance().sessions().user("test", "tester");
        let host = Arc::new(InstanceHost::new(Arc::clone(database), session));
        let engine = Arc::new(Engine::of_session(host, &self.common));
        Session { runtime: &self.runtime, engine, statements: AtomicUsize::new(0) }
    }
}

fn instance(runtime: &Runtime, directory: &Directory) -> Arc<Instance> {
    Arc::new(Instance::open(runtime.env(), Waits::new(), directory).unwrap())
}

/// A session.
pub struct Session<'a> {
    runtime: &'a Runtime,
    engine: Arc<Engine>,
    statements: AtomicUsize,
}

/// A session rests before each statement of so many, which must not be seen.
const REST: usize = 5;

/// What a statement that was begun will tell.
pub struct Answer<'a> {
    runtime: &'a Runtime,
    task: tokio::task::JoinHandle<String>,
}

impl Answer<'_> {
    /// It, where it comes within half a minute: else somebody waits for ever.
    #[track_caller]
    pub fn soon(self) -> String {
        let Answer { runtime, task } = self;
        let limit = std::time::Duration::from_secs(30);
        let told = runtime.block_on(async { tokio::time::timeout(limit, task).await });
        told.expect("it does not wait for ever").unwrap()
    }

    /// The client has gone.
    pub fn give_up(self) {
        self.task.abort();
    }

    /// It.
    pub fn get(self) -> String {
        self.runtime.block_on(self.task).unwrap()
    }
}

impl<'a> Session<'a> {
    /// Runs a statement: its rows, each with commas, between blanks; or what it tells; or its error; or what COPY
    /// gives. Rows of a COPY FROM STDIN follow it, as in a file of statements.
    pub fn run(&self, sql: &str) -> String {
        if self.statements.fetch_add(1, Ordering::Relaxed) % REST == REST - 1 {
            self.engine.rest();
        }
        self.runtime.block_on(answer(&self.engine, sql))
    }

    /// What a statement tells, or its error.
    ///
    /// # Errors
    /// Those of the statement, or of its rows.
    pub fn tried(&self, sql: &str) -> Result<Reply, cellar_sql::Error> {
        self.runtime.block_on(async { rows_of(begun(&self.engine, sql).await?).await })
    }

    /// Runs statements that fail, each with this number and SQLSTATE and with these words.
    #[track_caller]
    pub fn fails(&self, failing: &[(&str, u32, &str, &str)]) {
        for (sql, number, sqlstate, words) in failing {
            let error = match self.tried(sql) {
                Err(error) => error,
                Ok(told) => panic!("{}: {told:?}", shortened(sql)),
            };
            let deepest = error.stack().last().unwrap();
            let found = (deepest.number, deepest.sqlstate);
            assert_eq!(found, (*number, *sqlstate), "{}: {error}", shortened(sql));
            assert!(error.to_string().contains(words), "{}: {error}", shortened(sql));
        }
    }

    /// What a prepared statement gives, as [`Session::run`] tells it.
    pub fn execute(&self, prepared: &Prepared, parameters: &[Parameter]) -> String {
        self.runtime.block_on(async {
            match self.engine.execute_prepared(prepared, parameters).await {
                Ok(answer) => told(Ok(answer.outcome())).await,
                Err(error) => told(Err(error)).await,
            }
        })
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// The statement is none.
    pub fn prepare(&self, sql: &str) -> Result<Prepared, cellar_sql::Error> {
        self.runtime.block_on(self.engine.prepare_statement(sql, &[]))
    }

    /// Begins a statement.
    pub fn begin(&self, sql: &str) -> Answer<'a> {
        let (engine, sql) = (Arc::clone(&self.engine), sql.to_owned());
        let tokio = self.runtime.block_on(async { tokio::runtime::Handle::current() });
        let task = tokio.spawn(async move { answer(&engine, &sql).await });
        Answer { runtime: self.runtime, task }
    }

    /// Runs statements, and they give what is wanted.
    #[track_caller]
    pub fn answers(&self, answers: &[(&str, &str)]) {
        for (sql, wanted) in answers {
            assert_eq!(self.run(sql), *wanted, "{sql}");
        }
    }

    /// Runs statements that tell something, whatever it is.
    #[track_caller]
    pub fn done(&self, statements: &[&str]) {
        for statement in statements {
            let told = self.run(statement);
            assert!(!told.starts_with("CELLAR-"), "{statement}: {told}");
        }
    }

    /// Runs statements that fail, each with this SQLSTATE.
    #[track_caller]
    pub fn states(&self, failing: &[(&str, &str)]) {
        for (sql, wanted) in failing {
            let outcome = self.runtime.block_on(self.engine.execute(sql));
            let state = outcome.err().map(|error| (error.sqlstate, error.to_string()));
            let is = state.as_ref().is_some_and(|(state, _)| state == wanted);
            assert!(is, "{sql}: {state:?}, not {wanted}");
        }
    }

    /// Runs statements that are refused, each with this in its words.
    #[track_caller]
    pub fn refuses(&self, refused: &[(&str, &str)]) {
        for (sql, wanted) in refused {
            let told = self.run(sql);
            assert!(told.starts_with("CELLAR-") && told.contains(wanted), "{sql}: {told}");
        }
    }
}

/// What a statement told.
#[derive(Debug)]
pub enum Reply {
    /// Rows.
    Rows(arrow::datatypes::SchemaRef, Vec<RecordBatch>),
    /// What COPY gave.
    Copied(String),
    /// What was done.
    Done(String),
}

async fn rows_of(outcome: Outcome) -> Result<Reply, cellar_sql::Error> {
    let failed = |error| cellar_sql::failure::from_datafusion(&error);
    match outcome {
        Outcome::Rows(stream) => {
            let schema = stream.schema();
            Ok(Reply::Rows(schema, stream.try_collect().await.map_err(failed)?))
        }
        Outcome::Copied(copied) => {
            let bytes: Vec<bytes::Bytes> = copied.bytes.try_collect().await?;
            Ok(Reply::Copied(String::from_utf8(bytes.concat()).unwrap()))
        }
        Outcome::Refused(_, error) => Err(error),
        changed @ (Outcome::Changed(..) | Outcome::Filled { .. }) => {
            Ok(Reply::Done(changed.message().unwrap_or_default().into_owned()))
        }
        Outcome::Done { message, .. } => Ok(Reply::Done(message)),
        Outcome::Plan(plan) => Ok(Reply::Done(format!("{plan:?}"))),
    }
}

/// So much of a statement as a message can show.
pub fn shortened(sql: &str) -> String {
    sql.chars().take(300).collect()
}

async fn answer(engine: &Engine, sql: &str) -> String {
    told(begun(engine, sql).await).await
}

async fn begun(engine: &Engine, sql: &str) -> Result<Outcome, cellar_sql::Error> {
    match cellar_sql::first(sql) {
        Some((piece, end)) if cellar_sql::parse::reads_stream(piece.sql) => {
            let rest = &sql[end + 1..];
            let rows = rest[cellar_sql::split::rows(rest).0].to_owned();
            // In pieces that end anywhere.
            let pieces: Vec<_> = rows.into_bytes().chunks(7).map(<[u8]>::to_vec).collect();
            let pieces = pieces.into_iter().map(|piece| Ok(bytes::Bytes::from(piece)));
            engine.copy_in(piece.sql, Box::pin(futures_util::stream::iter(pieces))).await
        }
        _ => engine.execute(sql).await,
    }
}

/// An outcome in words.
async fn told(outcome: Result<Outcome, cellar_sql::Error>) -> String {
    let stream = match outcome {
        Ok(Outcome::Rows(stream)) => stream,
        Ok(Outcome::Copied(copied)) => {
            let bytes: Result<Vec<bytes::Bytes>, _> = copied.bytes.try_collect().await;
            return match bytes {
                Ok(bytes) => String::from_utf8(bytes.concat()).unwrap(),
                Err(error) => format!("{error}"),
            };
        }
        Ok(changed @ (Outcome::Changed(..) | Outcome::Filled { .. })) => {
            return changed.message().unwrap_or_default().into_owned();
        }
        Ok(Outcome::Done { message, .. }) => return message,
        Ok(other) => return format!("{other:?}"),
        Err(error) => return format!("{error}"),
    };
    let schema = stream.schema();
    let rows: Vec<RecordBatch> = match stream.try_collect().await {
        Ok(rows) => rows,
        Err(error) => return format!("CELLAR- {error}"),
    };
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Format::Csv, &schema, 80).unwrap();
    rows.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().skip(1).collect::<Vec<_>>().join(" ")
}
