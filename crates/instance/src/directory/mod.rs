//! DIR, the directory of an instance: which process may use it, and how others reach that process.
//!
//! One process at a time holds the lock on DIR/cellar.lock. It may answer on DIR/cellar.sock, so
//! that every other command works through it. Both are reached through the open directory, never
//! by path: a socket path may have 108 bytes, DIR may have more, and DIR may be renamed.

mod client;
mod server;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, SharedEnv, shell};
use cellar_storage::replace::NO_LINK;

pub use client::Client;
pub use server::{Handler, Responder, Server};

use crate::error::{Error, Result};
use crate::parameters::Spfile;
use crate::parameters::spfile::FILE_NAME as SPFILE;

const LOCK: &str = "cellar.lock";
const SOCKET: &str = "cellar.sock";

/// How long [`Directory::enter`] tries: a killed process may hold the lock until the kernel has
/// closed its rings.
/// A process that only looks answers nobody, and may have to wait for a disk to return its label.
pub const TIMEOUT: Duration = Duration::from_secs(40);

const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Refuses a file that is not one of ours alone: a link to another, of either kind.
fn check_plain(file: &File, shown: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let about = file.metadata().map_err(|error| Error::system("examine", shown, &error))?;
    match about.is_file() && about.nlink() <= 1 {
        true => Ok(()),
        false => Err(foreign(shown)),
    }
}

fn foreign(shown: &Path) -> Error {
    let text = format!("{} is a link to something else, which is not written to", shown.display());
    Error::new(70110, text)
        .hint(format!("see where it leads, and remove it: rm {}", shell::path(shown)))
}

/// What the system says of a name that may be a link.
fn no_link(error: &std::io::Error, shown: &Path) -> Error {
    match error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        true => foreign(shown),
        false => Error::system("lock", shown, error),
    }
}

/// Whether a directory has disks in it, as that of a database.
fn holds_database(path: &Path) -> bool {
    let mut disks = std::fs::read_dir(path.join("disks")).into_iter().flatten();
    disks.any(|entry| entry.is_ok())
}

/// DIR without its parameter file: the data is there all the same.
fn without_spfile(path: &Path) -> Error {
    let (shown, plain) = (shell::path(&path.join(SPFILE)), path.display());
    let text = format!("{plain} holds a database, and its cellar.toml is gone");
    Error::new(70103, text).hint(format!(
        "nothing else is lost. Put cellar.toml back; or make an empty one, with which every \
         parameter has its default: touch {shown}. Disks that are not in {plain}/disks must be named \
         in it before anything is written: disk_string = ['/dev/..']. cellar status {} tells which \
         are missing, and writes nothing",
        shell::path(path)
    ))
}

/// The error for a name that is taken when DIR is to be made.
pub fn taken(path: &Path) -> Error {
    let error = Error::new(70102, format!("{} exists already", path.display()));
    match path.join(SPFILE).exists() || holds_database(path) {
        true => error.hint(format!(
            "it holds a database: cellar status {} tells how it is; choose another directory for a \
             new one",
            shell::path(path)
        )),
        false => error.hint("choose another directory"),
    }
}

/// An open DIR.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    handle: Arc<File>,
}

/// The right to be the one process that uses DIR, until dropped.
#[derive(Clone, Debug)]
pub struct Lock {
    directory: Directory,
    /// Shared by clones: it is given back with the last of them.
    _files: Arc<Vec<File>>,
    shortcoming: Option<Shortcoming>,
}

/// Why nothing can be made in DIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcoming {
    /// Its file system is full.
    Full,
    /// Its file system is mounted read-only.
    ReadOnly,
}

impl Shortcoming {
    fn of(error: &std::io::Error) -> Option<Shortcoming> {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Shortcoming::Full),
            ErrorKind::ReadOnlyFilesystem => Some(Shortcoming::ReadOnly),
            _ => None,
        }
    }
}

/// How DIR was entered.
#[derive(Debug)]
pub enum Entered {
    /// Nobody has it: this process does now.
    Holder(Lock),
    /// Another process has it, and answers.
    Client(Client),
}

impl Directory {
    /// Makes DIR, for its owner alone, with a cellar.toml that sets nothing.
    ///
    /// # Errors
    /// 70102 if anything has that name, 70110 if the system refuses.
    pub fn create(path: &Path) -> Result<Directory> {
        DirBuilder::new().mode(0o700).create(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => taken(path),
            _ => Error::system("create", path, &error),
        })?;
        Spfile::new(path).write()?;
        Directory::open(path)
    }

    /// Opens DIR.
    ///
    /// # Errors
    /// 70103 if it is none, 70110 if the system refuses.
    pub fn open(path: &Path) -> Result<Directory> {
        let none = |why: &str| {
            Error::new(70103, format!("{} is not a Cellar directory: {why}", path.display()))
                .hint(format!("make one: cellar init {}", shell::path(path)))
        };
        let handle = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => none("no such directory"),
            _ => Error::system("open", path, &error),
        })?;
        let about = handle.metadata().map_err(|error| Error::system("examine", path, &error))?;
        if !about.is_dir() {
            return Err(none("it is no directory"));
        }
        if !path.join(SPFILE).exists() {
            return Err(match holds_database(path) {
                true => without_spfile(path),
                false => none("it has no cellar.toml"),
            });
        }
        Ok(Directory { path: path.to_owned(), handle: Arc::new(handle) })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in DIR, short however long DIR's own path is.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.handle.as_raw_fd()))
    }

    /// Takes the lock; `None` if another process, or another part of this one, has it. Where the file
    /// of the lock cannot be made or written, because the file system is full or read-only, the
    /// directory itself is the lock.
    ///
    /// # Errors
    /// 70110.
    pub fn try_lock(&self) -> Result<Option<Lock>> {
        let shown = self.path.join(LOCK);
        let refused = |error: &std::io::Error| Error::system("lock", &shown, error);
        // Opened anew: a lock belongs to who opened the file.
        let own = File::open(self.inside(".")).map_err(|error| refused(&error))?;
        let mut files = vec![own];
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NO_LINK)
            .open(self.inside(LOCK));
        let mut shortcoming = None;
        match opened {
            Ok(file) => {
                check_plain(&file, &shown)?;
                files.push(file);
            }
            Err(error) => {
                let why = Shortcoming::of(&error).ok_or_else(|| no_link(&error, &shown))?;
                shortcoming = Some(why);
                let mut look = OpenOptions::new();
                let there = look.read(true).custom_flags(NO_LINK).open(self.inside(LOCK));
                files.extend(there.ok());
            }
        }
        let several = files.len() > 1;
        for (at, file) in files.iter().enumerate() {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Not every file system can lock directories; then only the file is locked.
                Err(TryLockError::Error(_)) if at == 0 && several => {}
                Err(TryLockError::Error(error)) => return Err(refused(&error)),
            }
        }
        if let (Some(file), None) = (files.get_mut(1), shortcoming) {
            // Only for the message of the next opener: on a full file system there is no room for it.
            let mut note = || {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                writeln!(file, "{}", std::process::id())
            };
            let _: std::io::Result<()> = note();
        }
        Ok(Some(Lock { directory: self.clone(), _files: Arc::new(files), shortcoming }))
    }

    /// Reaches the process that has DIR; `None` if nobody answers.
    ///
    /// # Errors
    /// 70104 another version answers, 70106 another user's process does, 70110.
    pub fn connect(&self) -> Result<Option<Client>> {
        Client::connect(&self.inside(SOCKET), &self.path.join(SOCKET))
    }

    /// Takes the lock, or reaches its holder; keeps trying for `patience` ([`TIMEOUT`] in production).
    ///
    /// # Errors
    /// 70101 if the lock stayed taken and nobody answered, and those of
    /// [`try_lock`](Directory::try_lock) and [`connect`](Directory::connect).
    #[boxed]
    pub async fn enter(&self, env: &SharedEnv, patience: Duration) -> Result<Entered> {
        let deadline = env.now().plus(patience);
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(Entered::Holder(lock));
            }
            if let Some(client) = self.connect()? {
                return Ok(Entered::Client(client));
            }
            if env.now() >= deadline {
                return Err(self.taken(patience));
            }
            env.sleep(BETWEEN_TRIES).await;
        }
    }

    fn taken(&self, patience: Duration) -> Error {
        let mut pid = String::new();
        let noted = File::open(self.inside(LOCK)).and_then(|mut f| f.read_to_string(&mut pid));
        let who = match noted {
            Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
            _ => "another process".to_owned(),
        };
        let (path, seconds) = (self.path.display(), patience.as_secs());
        Error::new(70101, format!("{who} has {path} and did not answer for {seconds} s"))
            .hint(format!("wait until it ends, or see what it does: ps -p {}", pid.trim()))
    }
}

impl Lock {
    /// Why nothing can be made in the directory, where the lock met that.
    pub fn shortcoming(&self) -> Option<Shortcoming> {
        self.shortcoming
    }

    /// The directory that is locked.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Answers on DIR/cellar.sock. Each request is handed to `handler`, whose future runs in
    /// `env`; `version` is this program's, for people.
    ///
    /// # Errors
    /// 70110 if the socket cannot be made.
    pub fn serve(self, env: SharedEnv, version: &str, handler: Handler) -> Result<Server> {
        Server::start(self, env, version, handler)
    }
}
