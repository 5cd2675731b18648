//! DIR, the directory of an instance: who may use it, and how others reach who does.
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

use async_recursion::async_recursion;
use cellar_io::{EnvExt, SharedEnv};

pub use client::Client;
pub use server::{Handler, Responder, Server};

use crate::error::{Error, Result};
use crate::parameters::Spfile;
use crate::parameters::spfile::FILE_NAME as SPFILE;

const LOCK: &str = "cellar.lock";
const SOCKET: &str = "cellar.sock";

/// How long [`Directory::enter`] tries: a killed process may hold the lock until the kernel has
/// closed its rings.
/// One who only looks answers nobody, and may have to wait for a disk to tell its label.
pub const PATIENCE: Duration = Duration::from_secs(40);

const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// An open DIR.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    handle: Arc<File>,
}

/// The right to be the one process that uses DIR, until dropped.
#[derive(Debug)]
pub struct Lock {
    directory: Directory,
    _file: File,
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
            std::io::ErrorKind::AlreadyExists => {
                Error::new(70102, format!("{} exists already", path.display()))
                    .hint("choose another directory, or remove that one if nobody needs it")
            }
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
                .hint(format!("make one: cellar init {}", cellar_io::shell::path(path)))
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
            return Err(none("it has no cellar.toml"));
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

    /// Takes the lock; `None` if another process, or another part of this one, has it.
    ///
    /// # Errors
    /// 70110.
    pub fn try_lock(&self) -> Result<Option<Lock>> {
        let refused = |error: &std::io::Error| Error::system("lock", &self.path.join(LOCK), error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.inside(LOCK))
            .map_err(|error| refused(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(refused(&error)),
        }
        // Only for the message of whoever comes next.
        let mut note = || {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", std::process::id())
        };
        note().map_err(|error| refused(&error))?;
        Ok(Some(Lock { directory: self.clone(), _file: file }))
    }

    /// Reaches the process that has DIR; `None` if nobody answers.
    ///
    /// # Errors
    /// 70104 another version answers, 70106 another user's process does, 70110.
    pub fn connect(&self) -> Result<Option<Client>> {
        Client::connect(&self.inside(SOCKET), &self.path.join(SOCKET))
    }

    /// Takes the lock, or reaches who has it, for `patience` ([`PATIENCE`] in production).
    ///
    /// # Errors
    /// 70101 if the lock stayed taken and nobody answered, and those of
    /// [`try_lock`](Directory::try_lock) and [`connect`](Directory::connect).
    #[async_recursion]
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
