//! The interface between the program and the instance: it opens a database, serves other processes that
//! want the same one, or sends commands to the process that has it open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::DiskInfo;
use cellar_instance::database::Database as InstanceDatabase;
use cellar_instance::directory::{Directory, Entered, Handler, Responder, Shortcoming, TIMEOUT};
use cellar_instance::session::Session;
use cellar_instance::wire::{Frame, Request};
use cellar_instance::{Instance, health};
use cellar_io::real::RealEnv;
use cellar_io::shell;
use cellar_io::{EnvExt, SharedEnv};
#[cfg(feature = "sql")]
use cellar_sql::host::instance::{InstanceHost, views};
#[cfg(feature = "sql")]
use cellar_sql::{Engine, EngineOptions, Host};
use cellar_storage::OpenMode;
use cellar_storage::disks::RealDisks;
use cellar_storage::finder::NoDisk;
use cellar_storage::words::some;
use cellar_wait::Waits;
use futures_util::StreamExt;

use super::fault::Fault;
use super::output::{self, Piece, REMOTE, Remote};

/// An open database, and the session of the command that uses it.
#[derive(Clone)]
pub struct Database {
    /// Groups, catalog, parameters.
    pub inner: Arc<InstanceDatabase>,
    /// The session of this command.
    pub session: Session,
}

/// The environment that commands run in.
#[derive(Clone)]
pub struct Place {
    /// Clock, tasks.
    pub env: SharedEnv,
    /// The real environment, for opening disks.
    pub real: Arc<RealEnv>,
}

impl From<cellar_instance::Error> for Fault {
    fn from(error: cellar_instance::Error) -> Fault {
        Fault::Refused(Box::new(error))
    }
}

impl From<cellar_diskgroup::Error> for Fault {
    fn from(error: cellar_diskgroup::Error) -> Fault {
        cellar_instance::Error::from(error).into()
    }
}

#[cfg(feature = "sql")]
impl Database {
    /// The database as SQL needs it.
    pub fn host(&self) -> Arc<dyn Host> {
        Arc::new(InstanceHost::new(Arc::clone(&self.inner), self.session.clone()))
    }

    /// An SQL engine on it.
    ///
    /// # Errors
    /// If the engine cannot start.
    pub async fn engine(&self) -> Result<Engine, Fault> {
        let instance = self.inner.instance();
        let limit = instance.budget().limit(cellar_instance::budget::Consumer::SqlWork);
        let options = EngineOptions {
            memory_limit: usize::try_from(limit).unwrap_or(usize::MAX),
            target_partitions: cores(),
        };
        Ok(Engine::open(self.host(), views(&self.inner), &options).await?)
    }
}

/// Cores this process may use.
#[cfg(feature = "sql")]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// An instance of a directory, with nothing mounted.
///
/// # Errors
/// cellar.toml cannot be read.
pub fn instance(directory: &Directory, env: &SharedEnv) -> Result<Arc<Instance>, Fault> {
    Ok(Arc::new(Instance::open(Arc::clone(env), Waits::new(), directory)?))
}

/// The way a database was reached.
pub enum Reached {
    /// This process has it open: use it, then call [`Held::close`].
    Here(Held),
    /// Another process has it open.
    There(cellar_instance::directory::Client),
}

/// A database that this process has open.
pub struct Held {
    /// The database.
    pub database: Database,
    server: Option<cellar_instance::directory::Server>,
    /// For a command that does not serve others.
    _lock: Option<cellar_instance::directory::Lock>,
}

impl Held {
    /// Waits for the clients of the socket, then dismounts cleanly.
    ///
    /// # Errors
    /// A group had stopped.
    pub async fn close(self) -> Result<(), Fault> {
        if let Some(server) = &self.server {
            let env = self.database.inner.env();
            let drained = server.drain();
            let mut drained = std::pin::pin!(drained);
            // Clients that are about to leave are not reported.
            let soon = futures_util::future::select(drained.as_mut(), env.sleep(LEAVING));
            if let futures_util::future::Either::Right(_) = soon.await {
                output::notice(&stays_for(server.clients()));
                drained.await;
            }
        }
        // A read-only command leaves no work behind: it did none.
        if !self.database.inner.is_read_only() {
            let inner = &self.database.inner;
            for line in super::asm::left_running(&inner.groups(), inner.directory().path()) {
                output::notice(&format!("Notice: {line}"));
            }
        }
        self.database.inner.close().await?;
        Ok(())
    }
}

/// The time after which the user is told that a command of another process keeps this one
/// from ending.
const LEAVING: std::time::Duration = std::time::Duration::from_millis(300);

/// The reason why a finished command does not end.
fn stays_for(others: usize) -> String {
    let work = match others {
        1 => "another command works through this process".to_owned(),
        others => format!("{others} other commands work through this process"),
    };
    format!("Notice: this command is done, but {work}: it ends with that, and Ctrl-C ends both")
}

/// How a command opens the database.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Read-only, or for work.
    pub mode: OpenMode,
    /// The group that the first statement mounts by force.
    pub force: Option<String>,
    /// Other processes wait until it is done, and are not served: a command that arrives during a brief
    /// read-only one must not get a read-only database.
    pub alone: bool,
}

/// Opens the database in `dir`, or connects to the process that has it open.
///
/// # Errors
/// A numbered error with the next step.
pub async fn reach(dir: &Path, place: &Place, opening: Opening) -> Result<Reached, Fault> {
    let directory = Directory::open(dir)?;
    let lock = match directory.enter(&place.env, TIMEOUT).await? {
        Entered::Client(client) => return Ok(Reached::There(client)),
        Entered::Holder(lock) => lock,
    };
    let instance = instance(&directory, &place.env)?;
    for line in instance.parameters().notices() {
        output::notice(&format!("Notice: {line}"));
    }
    let disks = Arc::new(RealDisks::new(&place.real, instance.parameters()));
    let force = opening.force.as_deref();
    let mut mode = opening.mode;
    if lock.shortcoming() == Some(Shortcoming::ReadOnly) && !mode.read_only {
        mode = OpenMode { read_only: true, ..mode };
        output::notice(&format!(
            "Notice: {} is on a read-only file system: the database is open only to be read",
            dir.display()
        ));
    }
    let opened = InstanceDatabase::open_forcing(instance, directory, disks, mode, force).await;
    let inner = opened.map_err(|error| health::or_force(error, dir, force))?;
    remarks(&inner);
    if let Some(name) = inner.storage().groups().mounted_by_force() {
        forced(&inner, &name).iter().for_each(|line| output::notice(line));
    }
    if opening.alone {
        let (database, _lock) = (database_of(inner), Some(lock));
        return Ok(Reached::Here(Held { database, server: None, _lock }));
    }
    held(inner, lock, place).map(Reached::Here)
}

/// The effects of FORCE, for the user who requested it; empty if each missing disk is reported
/// already.
fn forced(database: &InstanceDatabase, name: &str) -> Option<String> {
    let disks = database.group(name).map(|m| m.group.disks()).unwrap_or_default();
    let named = |wanted: &dyn Fn(&DiskInfo) -> bool| -> Option<String> {
        let names: Vec<&str> = disks.iter().filter(|d| wanted(d)).map(|d| &*d.name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let gone = named(&|d| d.path.is_none())
        .map(|names| format!("continues without {names}; what was written there alone is lost"));
    let aged = named(&|d| d.aged).map(|names| {
        format!(
            "took {names} as it is, an older image: what has its only copy there is of an earlier \
             time"
        )
    });
    let older = database.group(name).map(|m| m.group.taken_older().files).unwrap_or_default();
    let older = (!older.is_empty()).then(|| {
        let paths: Vec<String> = older.iter().map(|path| format!("+{name}/{path}")).collect();
        format!("has {} files of which that may be so: {}", older.len(), some(&paths))
    });
    let told: Vec<String> = gone.into_iter().chain(aged).chain(older).collect();
    (!told.is_empty()).then(|| format!("Notice: disk group \"{name}\" {}", told.join("; it ")))
}

/// Makes a newly opened database available to other processes.
///
/// # Errors
/// The socket cannot be created.
pub fn held(
    inner: InstanceDatabase,
    lock: cellar_instance::directory::Lock,
    place: &Place,
) -> Result<Held, Fault> {
    let database = database_of(inner);
    let handler = handler(database.clone(), place.clone());
    let kept = lock.clone();
    match lock.serve(Arc::clone(&place.env), env!("CARGO_PKG_VERSION"), handler) {
        Ok(server) => Ok(Held { database, server: Some(server), _lock: None }),
        // This command does not depend on it.
        Err(error) => {
            let why = error.stack().last().map_or("", |entry| entry.message.as_str());
            output::notice(&format!(
                "Notice: other commands have to wait until this one ends: {why}"
            ));
            Ok(Held { database, server: None, _lock: Some(kept) })
        }
    }
}

fn database_of(inner: InstanceDatabase) -> Database {
    let inner = Arc::new(inner);
    let session = inner.instance().sessions().user("cellar", &user());
    Database { inner, session }
}

fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "local".to_owned())
}

/// Reports missing groups, and once, by name, disks that are not opened as requested.
fn remarks(database: &InstanceDatabase) {
    for error in health::not_mounted(database.storage().groups(), database.directory().path()) {
        output::notice(&format!("Notice: {error}"));
    }
    redo_left_out(database);
    let mut said: Vec<String> = Vec::new();
    for mounted in database.groups() {
        if !database.is_read_only() {
            left_out(
                &mounted.group,
                database.storage().groups().no_disks(),
                database.directory().path(),
            );
        }
        for remark in mounted.disks.all().iter().flat_map(|d| &d.in_force.remarks) {
            if !said.contains(remark) {
                output::notice(&format!("Notice: {remark}"));
                said.push(remark.clone());
            }
        }
    }
}

/// Reports media that the redo log opened without, or that lost redo.
fn redo_left_out(database: &InstanceDatabase) {
    let Some(log) = database.instance().redo().log() else { return };
    let report = log.report();
    if !report.left_out.is_empty() {
        let dir = shell::path(database.directory().path());
        let names = report.left_out.join(", ");
        output::notice(&format!(
            "Notice: redo continues without {names}; see why: cellar status {dir}"
        ));
    }
    for refused in &report.refused {
        output::notice(&format!("Notice: {refused}"));
    }
    if !report.lost_writes.is_empty() {
        let names = report.lost_writes.join(", ");
        output::notice(&format!(
            "Notice: {names} had acknowledged redo and lost it; other media had all of it"
        ));
    }
}

/// Reports the disks that a group continues without, and why: from the next write on they are out of date.
fn left_out(group: &cellar_diskgroup::Group, no_disks: &[NoDisk], dir: &Path) {
    let gone = group.disks().into_iter().filter(|d| !d.in_sync && !d.status.is_leaving());
    let mut absent = false;
    let gone: Vec<String> = gone
        .map(|d| match (d.path, d.refused) {
            (Some(path), Some(why)) => format!("{} ({path}: {why})", d.name),
            (path, _) => {
                absent |= path.is_none();
                d.name
            }
        })
        .collect();
    if gone.is_empty() {
        return;
    }
    output::notice(&format!(
        "Notice: {} continues without {}; see why: cellar status {}",
        group.name(),
        gone.join(", "),
        shell::path(dir)
    ));
    // One of these may be a missing disk.
    for at in no_disks.iter().filter(|_| absent) {
        let why = at.why.clone().map_next_step(|next| next.in_directory(dir));
        output::notice(&format!("Notice: {why}"));
    }
}

/// Answers commands of other processes with the database that this one has open.
fn handler(database: Database, place: Place) -> Handler {
    Arc::new(move |request: Request, responder: Responder| {
        let sessions = database.inner.instance().sessions();
        let database = Database {
            inner: Arc::clone(&database.inner),
            session: sessions.user("cellar (socket)", &user()),
        };
        let place = place.clone();
        Box::pin(async move { answer(request, responder, database, place).await })
    })
}

async fn answer(
    request: Request,
    mut responder: Responder,
    database: Database,
    place: Place,
) -> u8 {
    let (cwd, width) = place_of(&request.body);
    let (pieces, mut received) = futures_channel::mpsc::unbounded();
    let remote = Remote { pieces, cwd, width };
    let work = REMOTE.scope(remote, super::answer(request.words, database, place));
    let work = Box::pin(work);
    let mut work = futures_util::FutureExt::fuse(work);
    let code = loop {
        futures_util::select_biased! {
            piece = received.next() => match piece {
                Some(piece) => if send(&mut responder, piece).await.is_err() {
                    return 1;
                },
                // The task owns the sender; when that is gone, so is the task.
                None => break 1,
            },
            code = work => break code,
        }
    };
    drop(work);
    while let Some(piece) = received.next().await {
        if send(&mut responder, piece).await.is_err() {
            return 1;
        }
    }
    code
}

/// The directory in which a command was typed, and the width of its terminal.
fn place_of(body: &[u8]) -> (PathBuf, usize) {
    let text = String::from_utf8_lossy(body);
    let (cwd, width) = text.split_once('\0').unwrap_or((&text, ""));
    (cwd.into(), width.parse().unwrap_or(80))
}

async fn send(responder: &mut Responder, piece: Piece) -> cellar_instance::Result<()> {
    match piece {
        Piece::Out(bytes) => responder.stdout(&bytes).await,
        Piece::Err(bytes) => responder.stderr(&bytes).await,
    }
}

/// Sends a command to the process that has the database open; its output becomes ours.
///
/// # Errors
/// That process went away.
pub fn forward(
    client: &mut cellar_instance::directory::Client,
    words: Vec<String>,
) -> Result<u8, Fault> {
    use std::io::Write;
    let cwd = std::env::current_dir()?;
    let body = format!("{}\0{}", cwd.to_string_lossy(), output::width()).into_bytes();
    let request = Request { words, body };
    let code = client.call(request, &mut |frame| {
        let failed = |e: std::io::Error| cellar_instance::Error::new(70105, e.to_string());
        match frame {
            Frame::Stdout(bytes) => {
                let mut out = std::io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush()).map_err(failed)
            }
            Frame::Stderr(bytes) => std::io::stderr().write_all(&bytes).map_err(failed),
            _ => Ok(()),
        }
    })?;
    Ok(code)
}
