//! An open database directory: the instance, its storage and its catalog.

mod first_catalog;
mod health;
mod host;
mod import;
mod init;
mod parameters;

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::SharedEnv;
use cellar_storage::Storage;
use cellar_storage::disks::Disks;
use cellar_storage::{Mounted, OpenMode};
use cellar_wait::Waits;

use crate::catalog::SharedCatalog;
use crate::catalog_file::GroupCatalog;
use crate::directory::Directory;
use crate::error::Result;
use crate::instance::Instance;
use crate::tables::Tables;
use crate::views::{self, Row, VHealth, Value, ViewDef};
pub use import::import;
pub use init::init;

use first_catalog::FirstGroupCatalog;

/// An open database directory. Clones are the same database.
#[derive(Clone)]
pub struct Database {
    instance: Arc<Instance>,
    directory: Directory,
    storage: Storage,
    tables: Tables,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.directory.path().display())
    }
}

impl Database {
    /// Opens the database in `directory`, which the caller has locked (or only reads): mounts every
    /// group found by `disk_string`, and reads the catalog.
    ///
    /// # Errors
    /// The group that holds the catalog cannot be mounted, or the catalog is damaged.
    #[boxed]
    pub async fn open(
        instance: Arc<Instance>,
        directory: Directory,
        disks: Arc<dyn Disks>,
        mode: OpenMode,
    ) -> Result<Database> {
        Database::open_forcing(instance, directory, disks, mode, None).await
    }

    /// As [`Database::open`]; where the group that holds the catalog is the one named `force`, and
    /// it cannot be proven that nothing newer than what is here exists elsewhere, it is mounted all
    /// the same. A group that mounts as it is is not forced.
    ///
    /// # Errors
    /// As [`Database::open`]; FORCE does not choose between two histories or two groups.
    #[boxed]
    pub async fn open_forcing(
        instance: Arc<Instance>,
        directory: Directory,
        disks: Arc<dyn Disks>,
        mode: OpenMode,
        force: Option<&str>,
    ) -> Result<Database> {
        let open = host::opening(&instance, &directory, disks, mode);
        let storage = Storage::open(open, force).await?;
        let store = Arc::new(FirstGroupCatalog(storage.groups().mounted().clone()));
        let catalog = SharedCatalog::open(store).await?;
        let opened = Database::new(instance, directory, storage, catalog);
        // A group mounted by force may have a catalog older than its tables.
        let groups = opened.storage.groups();
        if !mode.read_only && !mode.force && groups.mounted_by_force().is_none() {
            opened.tables.sweep(&opened.groups()).await;
        }
        if !mode.read_only {
            // One that an earlier version wrote has none.
            if let Some(first) = groups.mounted().first() {
                GroupCatalog::new(first.group).keep_spare().await;
            }
        }
        opened.storage.redo().open().await;
        Ok(opened)
    }

    fn new(
        instance: Arc<Instance>,
        directory: Directory,
        storage: Storage,
        catalog: SharedCatalog,
    ) -> Database {
        let (env, scans) = (Arc::clone(instance.env()), Arc::clone(instance.scans()));
        let (groups, redo) = (storage.groups().clone(), instance.redo().clone());
        let tables = Tables::new(env, groups, redo, scans, catalog);
        Database { instance, directory, storage, tables }
    }

    /// Dismounts every group cleanly.
    ///
    /// # Errors
    /// A group had stopped; the others are dismounted all the same.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        self.storage.close().await
    }

    /// The instance.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The directory of the database.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What it stands on: the finder of its disks, its groups, its redo log.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The catalog of tables.
    pub fn catalog(&self) -> &SharedCatalog {
        self.tables.catalog()
    }

    /// The tables in its groups.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The environment it runs in.
    pub fn env(&self) -> &SharedEnv {
        self.instance.env()
    }

    /// The registry of wait events.
    pub fn waits(&self) -> &Waits {
        self.instance.waits()
    }

    /// The rows of a view as they are now, each with one value for each of its columns.
    ///
    /// # Errors
    /// 00942 if nothing fills the view.
    pub fn rows(&self, view: &ViewDef) -> Result<Vec<Vec<Value>>> {
        if view.name != VHealth::VIEW.name {
            return self.instance.rows(view);
        }
        Ok(views::values(crate::health::rows(self.health_now())))
    }

    /// The mounted groups, by name.
    pub fn groups(&self) -> Vec<Mounted> {
        self.storage.groups().all()
    }

    /// A mounted group by its name, in any case.
    ///
    /// # Errors
    /// 15001 with the names of those that are mounted.
    pub fn group(&self, name: &str) -> Result<Mounted> {
        self.storage.groups().get(name)
    }

    /// Whether nothing is written here.
    pub fn is_read_only(&self) -> bool {
        self.storage.groups().is_read_only()
    }

    /// Whether anything may be written.
    pub fn is_writable(&self) -> bool {
        !self.is_read_only()
    }

    /// DROP DISKGROUP.
    ///
    /// # Errors
    /// It holds the catalog or columnar tables, or has files and `including_contents` is not set.
    #[boxed]
    pub async fn drop_group(&self, name: &str, including_contents: bool) -> Result<()> {
        let groups = self.storage.groups();
        let mounted = groups.check_drop(name)?;
        let _dropping = self.tables.drop_without_tables(mounted.group.name())?;
        groups.drop_group(&mounted, including_contents).await
    }

    /// ALTER DISKGROUP ... MOUNT.
    ///
    /// # Errors
    /// It is mounted already, or too few of its disks are found. A group that opening the database
    /// mounted by force answers the first MOUNT FORCE as done.
    #[boxed]
    pub async fn mount_group(&self, name: &str, force: bool) -> Result<Mounted> {
        let groups = self.storage.groups();
        if force && let Some(mounted) = groups.take_forced(name) {
            return Ok(mounted);
        }
        let mounted = groups.mount(name, force).await?;
        // Tables may have been dropped while it was not here.
        if self.is_writable() && !force {
            self.tables.sweep(std::slice::from_ref(&mounted)).await;
        }
        self.storage.redo().group_is_here().await;
        Ok(mounted)
    }
}
