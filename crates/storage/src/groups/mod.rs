//! The mounted groups of a database, and what is done with them: made, altered, mounted, estimated.

mod alter;
mod create;
mod deadline;
mod estimate;
mod mount;
mod resize;
mod returning;
mod spares;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cellar_io::SharedEnv;

pub use alter::Changed;
pub use deadline::{MARGIN, PowerChoice};
pub use estimate::{Explained, Known, PROBE_TIME};
pub use spares::Spare;

use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::finder::{DiskFinder, NoDisk};
use crate::host::{Host, OpenMode, Surroundings};
use crate::mounted::{Mounted, MountedGroups};
use crate::redo::RedoManager;
use crate::settings::Settings;

/// The groups of a database. Clones are the same.
#[derive(Clone)]
pub struct Groups(Arc<Inner>);

struct Inner {
    around: Surroundings,
    mode: OpenMode,
    mounted: MountedGroups,
    finder: DiskFinder,
    redo: RedoManager,
    /// Why groups were not mounted when it was opened.
    unmounted: Mutex<Vec<Error>>,
    /// Paths of this database where no disk of a group could be made out when it was opened.
    no_disks: OnceLock<Vec<NoDisk>>,
    /// The group that was mounted by force when it was opened, until the statement that asked for it has
    /// been answered.
    forced: Mutex<Option<String>>,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Groups({:?})", self.0.mounted)
    }
}

impl Groups {
    /// No groups yet, on disks that `finder` finds; `redo` is of the log that they may have.
    pub(crate) fn new(
        around: Surroundings,
        mode: OpenMode,
        mounted: MountedGroups,
        finder: DiskFinder,
        redo: RedoManager,
    ) -> Groups {
        Groups(Arc::new(Inner {
            around,
            mode,
            mounted,
            finder,
            redo,
            unmounted: Mutex::default(),
            no_disks: OnceLock::new(),
            forced: Mutex::default(),
        }))
    }

    /// The mounted groups, by name.
    pub fn all(&self) -> Vec<Mounted> {
        self.0.mounted.all()
    }

    /// A mounted group by its name, in any case.
    ///
    /// # Errors
    /// 15001 with the names of those that are mounted.
    pub fn get(&self, name: &str) -> Result<Mounted> {
        self.0.mounted.get(name)
    }

    /// The handle by which others find the mounted groups.
    pub fn mounted(&self) -> &MountedGroups {
        &self.0.mounted
    }

    /// Whether it is read-only.
    pub fn is_read_only(&self) -> bool {
        self.0.mode.read_only
    }

    /// Refuses to write if the database is open read-only.
    ///
    /// # Errors
    /// 70041.
    pub fn check_writable(&self) -> Result<()> {
        self.mode().check_writable()
    }

    /// The group that was mounted by force when it was opened, until an ALTER DISKGROUP ... MOUNT FORCE of
    /// it was answered.
    pub fn mounted_by_force(&self) -> Option<String> {
        self.forced().clone()
    }

    /// Groups that could not be mounted when it was opened, each as an error.
    pub fn not_mounted(&self) -> Vec<Error> {
        self.unmounted().clone()
    }

    /// Paths of this database where no disk of a group could be made out when it was opened, and
    /// why: where a group misses a disk, it may be there.
    pub fn no_disks(&self) -> &[NoDisk] {
        self.0.no_disks.get().map_or(&[], Vec::as_slice)
    }

    fn set_no_disks(&self, no_disks: Vec<NoDisk>) {
        // Once: when it is opened.
        let _ = self.0.no_disks.set(no_disks);
    }

    fn unmounted(&self) -> MutexGuard<'_, Vec<Error>> {
        self.0.unmounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forced(&self) -> MutexGuard<'_, Option<String>> {
        self.0.forced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn env(&self) -> &SharedEnv {
        &self.0.around.env
    }

    fn settings(&self) -> &dyn Settings {
        &*self.0.around.settings
    }

    fn host(&self) -> &dyn Host {
        &*self.0.around.host
    }

    fn disks(&self) -> &Arc<dyn Disks> {
        &self.0.around.disks
    }

    fn finder(&self) -> &DiskFinder {
        &self.0.finder
    }

    fn redo(&self) -> &RedoManager {
        &self.0.redo
    }

    fn mode(&self) -> OpenMode {
        self.0.mode
    }

    /// The paths of all disks that are open.
    fn here(&self) -> Vec<PathBuf> {
        self.all().iter().flat_map(|m| m.disks.all().to_vec()).map(|d| d.path).collect()
    }

    /// Closes the disks that have left a group, and has disk_string forget them.
    async fn release(&self, mounted: &Mounted) {
        let gone = mounted.close_gone();
        if gone.is_empty() {
            return;
        }
        let _one_at_a_time = self.finder().changing().lock().await;
        // One of them may have come back meanwhile.
        let here = self.here();
        let gone = gone.iter().filter(|path| !here.contains(path));
        // A path left behind matters only if another database takes the disk.
        let _ = self.finder().forget_disks(gone.map(PathBuf::as_path));
    }
}
