//! The host of storage: what the code that opens it provides, and what storage reports to it.

use std::any::Any;
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_wait::Session;

use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::mounted::Mounted;
use crate::settings::Settings;

/// The code that opens storage, as far as storage deals with it. No method may block.
pub trait Host: Send + Sync + 'static {
    /// Begins a session of storage's own, under this name.
    fn background(&self, program: &str) -> Background;

    /// Bytes that the checksums of a group may have in memory.
    fn checksum_bytes(&self) -> u64;

    /// A group is mounted, under this name.
    fn mounted(&self, name: &str, mounted: &Mounted);

    /// A group is about to go, or has gone: whatever is open in it must be released.
    fn release(&self, name: &str);

    /// A group has gone.
    fn gone(&self, name: &str);
}

/// A session of storage's own: it ends when this is dropped.
pub struct Background {
    waits: Session,
    /// Keeps it for whoever shows sessions.
    _shown: Box<dyn Any + Send + Sync>,
}

impl Background {
    /// A session with these waits, shown as long as `shown` is kept.
    pub fn new(waits: Session, shown: Box<dyn Any + Send + Sync>) -> Background {
        Background { waits, _shown: shown }
    }

    /// The handle on which its waits begin.
    pub fn waits(&self) -> &Session {
        &self.waits
    }
}

/// How storage is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenMode {
    /// Read-only: the log is replayed in RAM, nothing is resynced.
    pub read_only: bool,
    /// Mount even if it cannot be proven that nothing newer exists elsewhere.
    pub force: bool,
}

impl OpenMode {
    /// Refuses to write if storage is open read-only.
    pub(crate) fn check_writable(self) -> Result<()> {
        match self.read_only {
            true => Err(Error::new(70041, "the database is open read-only")),
            false => Ok(()),
        }
    }
}

/// What storage is given.
#[derive(Clone)]
pub struct Surroundings {
    /// Time, chance and tasks.
    pub env: SharedEnv,
    /// How disks are opened and found.
    pub disks: Arc<dyn Disks>,
    /// The parameters that it obeys.
    pub settings: Arc<dyn Settings>,
    /// Who opens it.
    pub host: Arc<dyn Host>,
}
