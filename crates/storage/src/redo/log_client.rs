//! The user of the redo log: the layer whose changes the records describe, as far as the log deals with
//! it.

use std::future::Future;
use std::pin::Pin;

use cellar_redo::{Log, Lsn, Recovery, Report};

use crate::error::Error;

/// A boxed future of a user.
pub type ClientFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a user could not open the log.
#[derive(Debug)]
pub enum OpenError {
    /// The log.
    Log(cellar_redo::Error),
    /// What its records are of.
    Client(Error),
}

/// What reads the records of the log when it is opened, writes the new ones, and knows up to where they
/// are needed. It never has two logs open: whoever opens the next has ended the one before.
pub trait LogClient: Send + Sync + 'static {
    /// Reads the records, and opens the log.
    fn open(&self, recovery: Recovery) -> ClientFuture<'_, Result<(Log, Report), OpenError>>;

    /// Reads the records of a log that is not being opened, and writes nothing.
    fn read(&self, recovery: Recovery) -> ClientFuture<'_, Result<(), OpenError>>;

    /// Makes every record that is durable now unnecessary. Returns where the first needed one lies.
    fn checkpoint(&self) -> ClientFuture<'_, Result<Lsn, Error>>;

    /// Ends in order, and closes the log.
    fn close(&self) -> ClientFuture<'_, Result<(), Error>>;

    /// Ends at once, as in a crash: returns when nothing of it writes any more.
    fn abandon(&self) -> ClientFuture<'_, ()>;
}
