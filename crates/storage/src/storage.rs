//! Storage as one thing that is opened: a handle of the finder of disks, the groups and the redo log.

use std::path::PathBuf;

use async_recursion::async_recursion as boxed;

use crate::error::Result;
use crate::finder::DiskFinder;
use crate::groups::Groups;
use crate::host::{OpenMode, Surroundings};
use crate::mounted::MountedGroups;
use crate::redo::{Redo, RedoManager};

/// What storage is opened with.
#[derive(Clone)]
pub struct OpenStorage {
    /// Time, disks, parameters, and who opens it.
    pub around: Surroundings,
    /// The directory of the database.
    pub directory: PathBuf,
    /// How it is opened.
    pub mode: OpenMode,
    /// Where what becomes known of the redo log is kept.
    pub redo: Redo,
}

/// The storage of a database. Clones are the same.
#[derive(Clone, Debug)]
pub struct Storage {
    finder: DiskFinder,
    groups: Groups,
    redo: RedoManager,
}

impl Storage {
    /// Storage without groups yet.
    pub(crate) fn new(open: OpenStorage) -> Storage {
        let OpenStorage { around, directory, mode, redo } = open;
        let mounted = MountedGroups::default();
        let finder = DiskFinder::new(around.clone(), directory, mode.read_only);
        let redo = RedoManager::new(around.clone(), mounted.clone(), redo, mode);
        let groups = Groups::new(around, mode, mounted, finder.clone(), redo.clone());
        Storage { finder, groups, redo }
    }

    /// Opens what `disk_string` finds: mounts every group; not the redo log, which the caller
    /// [opens](RedoManager::open) when it is ready. If the group that holds the catalog is the one named
    /// `force`, and it cannot be proven that nothing newer exists elsewhere, it is mounted all the same.
    /// A group that mounts normally is not forced.
    ///
    /// # Errors
    /// The group that holds the catalog cannot be mounted; FORCE does not choose between two histories or
    /// two groups.
    #[boxed]
    pub async fn open(open: OpenStorage, force: Option<&str>) -> Result<Storage> {
        let storage = Storage::new(open);
        storage.groups.mount_all(force).await?;
        Ok(storage)
    }

    /// What finds its disks.
    pub fn finder(&self) -> &DiskFinder {
        &self.finder
    }

    /// Its groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Its redo log.
    pub fn redo(&self) -> &RedoManager {
        &self.redo
    }

    /// Closes the redo log, and dismounts every group cleanly.
    ///
    /// # Errors
    /// The log or a group had stopped; the others are dismounted all the same.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        let closed = self.redo.close().await;
        self.groups.dismount_all().await.and(closed)
    }
}
