//! The redo log of a database: its control file, its media on disk groups and directories, its archives,
//! and the statements that change it. What is in the log, `cellar_redo` knows.

mod archives;
mod block_size;
mod control;
mod log;
mod media;
mod open;
mod statements;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use archives::GroupArchives;
pub use block_size::{Chosen, choose};
pub use control::{CONTROL_PATH, ControlFile, Notes, Switch};
pub use log::{AnatomyTotals, RedoLog};
pub use media::{Place, REDO_DIR};
pub use statements::NewLogfile;

use cellar_redo::on_disk::control::ControlData;

use crate::error::Error;

/// The redo log as an instance has it.
#[derive(Debug, Default)]
pub struct Redo {
    state: Mutex<State>,
    /// Held by who opens, changes or closes the log.
    changing: futures_util::lock::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Arc<RedoLog>>,
    /// What was read of a log that is not open.
    seen: Option<(ControlData, Notes)>,
    /// Why it is not open.
    problem: Option<Error>,
}

impl Redo {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log, if it is open.
    pub fn log(&self) -> Option<Arc<RedoLog>> {
        self.state().open.clone()
    }

    /// Why there is a log and it is not open.
    pub fn problem(&self) -> Option<Error> {
        self.state().problem.clone()
    }

    /// What is known of a log that is not open.
    pub(crate) fn seen(&self) -> Option<(ControlData, Notes)> {
        self.state().seen.clone()
    }
}

impl From<cellar_redo::Error> for Error {
    fn from(error: cellar_redo::Error) -> Error {
        Error::new(error.number(), error.to_string()).hint(error.next_step())
    }
}
