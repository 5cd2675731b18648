//! The manager of the redo log: what its statements and its opening work on.

use std::sync::Arc;

use cellar_diskgroup::Group;
use cellar_io::SharedEnv;

use super::Redo;
use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::host::{Host, OpenMode, Surroundings};
use crate::mounted::{Mounted, MountedGroups};
use crate::settings::Settings;

/// What opens, changes and closes the redo log of a database. Clones are the same manager.
#[derive(Clone)]
pub struct RedoManager {
    around: Surroundings,
    mounted: MountedGroups,
    redo: Redo,
    mode: OpenMode,
}

impl std::fmt::Debug for RedoManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedoManager({:?})", self.redo.log())
    }
}

impl RedoManager {
    /// A manager of a log with media on these groups; what it knows is in `redo`.
    pub(crate) fn new(
        around: Surroundings,
        mounted: MountedGroups,
        redo: Redo,
        mode: OpenMode,
    ) -> RedoManager {
        RedoManager { around, mounted, redo, mode }
    }

    /// What is known of the log.
    pub fn shared(&self) -> &Redo {
        &self.redo
    }

    pub(super) fn env(&self) -> &SharedEnv {
        &self.around.env
    }

    pub(super) fn disks(&self) -> &Arc<dyn Disks> {
        &self.around.disks
    }

    pub(super) fn settings(&self) -> &dyn Settings {
        &*self.around.settings
    }

    pub(super) fn host(&self) -> &dyn Host {
        &*self.around.host
    }

    pub(super) fn mounted(&self) -> &MountedGroups {
        &self.mounted
    }

    pub(super) fn group(&self, name: &str) -> Result<Mounted> {
        self.mounted.get(name)
    }

    /// The group that has the catalog, and so the control file.
    pub(super) fn first_group(&self) -> Result<Group> {
        let first = self.mounted.first();
        first.map(|mounted| mounted.group).ok_or_else(|| {
            Error::new(15001, "no disk group is mounted that could have the control file")
        })
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.mode.read_only
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.mode.check_writable()
    }
}
