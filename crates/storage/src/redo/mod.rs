//! The redo log of a database: its control file, its media on disk groups and directories, its archives,
//! and the statements that change it. What is in the log, `cellar_redo` knows.

mod archives;
mod control;
mod failed;
mod inspect;
mod log;
mod log_client;
mod log_file;
mod manager;
mod media;
mod members;
mod new_file;
mod open;
mod place;
mod settings;
mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use archives::GroupArchives;
pub use control::{CONTROL_PATH, ControlFile, FILE_BYTES, Notes, SECTOR, Switch};
pub use inspect::inspect;
pub use log::{BreakdownTotals, RedoLog};
pub use log_client::{ClientFuture, LogClient, OpenError};
pub use manager::RedoManager;
pub use media::{Place, REDO_DIR};

use cellar_redo::on_disk::control::ControlData;

use crate::error::Error;

/// What is known of the redo log of a database, be it open or not. Clones are the same.
#[derive(Clone, Default)]
pub struct Redo {
    state: Arc<Mutex<State>>,
    /// What its records are of; `None`: whoever commits them by itself.
    user: Arc<Mutex<Option<Arc<dyn LogClient>>>>,
    /// Held while the log is opened, changed or closed.
    changing: Arc<futures_util::lock::Mutex<()>>,
    /// Directories of media that do not answer.
    asked: place::Asked,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Arc<RedoLog>>,
    /// What was read of a log that is not open.
    seen: Option<(ControlData, Notes)>,
    /// The path and the copies of its control file.
    control: Option<(Arc<str>, u8)>,
    /// Media of such a log of which files cannot be opened.
    missing: Vec<String>,
    /// Why it is not open.
    problem: Option<Error>,
}

impl std::fmt::Debug for Redo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redo({:?})", self.state())
    }
}

impl Redo {
    fn user(&self) -> Option<Arc<dyn LogClient>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_user(&self, user: Option<Arc<dyn LogClient>>) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = user;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log, if it is open.
    pub fn log(&self) -> Option<Arc<RedoLog>> {
        self.state().open.clone()
    }

    /// Whether there is a log, open or not.
    pub fn is_there(&self) -> bool {
        let state = self.state();
        state.open.is_some() || state.seen.is_some() || state.problem.is_some()
    }

    /// Why there is a log and it is not open.
    pub fn problem(&self) -> Option<Error> {
        self.state().problem.clone()
    }

    /// How many media at least hold each acknowledged commit, and the names of those that count.
    pub fn counting(&self) -> Option<(usize, Vec<String>)> {
        let (data, active): (ControlData, Vec<String>) = match (self.log(), self.seen()) {
            (Some(log), _) => {
                let data = ControlData::decode(&log.control().redo()).ok()?;
                let media = log.log().media().into_iter().filter(|medium| medium.active);
                (data, media.map(|medium| medium.name).collect())
            }
            (None, Some((data, _))) => {
                let missing = self.missing();
                let active = data
                    .media
                    .iter()
                    .filter(|medium| medium.state.is_active() && !missing.contains(&medium.name));
                let active = active.map(|medium| medium.name.clone()).collect();
                (data, active)
            }
            (None, None) => return None,
        };
        Some((data.quorum.of(active.len()), active))
    }

    /// The failure groups of a disk group whose loss would lose acknowledged commits now.
    pub fn at_risk(&self, group: &str) -> BTreeSet<String> {
        let Some((quorum, active)) = self.counting() else { return BTreeSet::new() };
        let mut here: BTreeMap<String, usize> = BTreeMap::new();
        for name in &active {
            if let Place::Group { group: own, failgroup } = Place::of_name(name)
                && own == group
            {
                *here.entry(failgroup).or_default() += 1;
            }
        }
        here.into_iter().filter(|(_, media)| *media >= quorum).map(|(name, _)| name).collect()
    }

    /// Path and copies of the control file, if it could be read.
    pub fn control_file(&self) -> Option<(Arc<str>, u8)> {
        match self.log() {
            Some(log) => Some((log.control().name(), log.control().copies())),
            None => self.state().control.clone(),
        }
    }

    /// Media of a log that was only looked at, and is not open, of which files cannot be opened.
    pub fn missing(&self) -> Vec<String> {
        self.state().missing.clone()
    }

    /// What is known of a log that is not open.
    pub fn seen(&self) -> Option<(ControlData, Notes)> {
        self.state().seen.clone()
    }
}
