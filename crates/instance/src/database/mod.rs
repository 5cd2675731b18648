//! An open database directory: the instance, its storage and its catalog.

mod alter;
mod define_columnar;
mod definitions;
mod enums;
mod health;
mod host;
mod import;
mod init;
mod kept_catalog;
mod parameters;
mod rights;
mod roles;
mod row_tables;
mod schemas;
mod sequences;
mod takeover;

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::SharedEnv;
use cellar_storage::Storage;
use cellar_storage::disks::Disks;
use cellar_storage::{Mounted, OpenMode};
use cellar_wait::Waits;

use crate::catalog::{CatalogStore, SharedCatalog, Stub};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::instance::Instance;
use crate::tables::Tables;
use crate::views::{self, Value, ViewDef};
pub use alter::{Alteration, BuildError, Keys};
pub use definitions::{Defined, Definitions};
pub use import::import;
pub use init::init;

use kept_catalog::KeptCatalog;

/// An open database directory. Clones are the same database.
#[derive(Clone)]
pub struct Database {
    instance: Arc<Instance>,
    directory: Directory,
    storage: Storage,
    tables: Tables,
    kept: Arc<KeptCatalog>,
    heap: Heap,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.directory.path().display())
    }
}

/// Why the tables are not known.
fn unreadable(why: Error) -> Error {
    why.under(70162, "the catalog cannot be read")
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
        let (heap, kept) = Database::heap_in(&instance, &storage);
        let stub = kept.find().await?;
        let is_done = stub.as_ref().is_some_and(|stub| stub.is_done);
        if is_done || (stub.is_some() && !mode.read_only) {
            heap.expect_new(!is_done);
            storage.redo().set_user(Arc::new(heap.clone()));
            storage.redo().open().await;
        }
        if is_done && !heap.is_open() {
            // One whose log was given up is read; why others are not open is told of the log.
            let _ = heap.open_alone(false).await;
        }
        let store = Arc::clone(&kept) as Arc<dyn CatalogStore>;
        let catalog = match !is_done || heap.is_open() {
            true => match SharedCatalog::open(Arc::clone(&store)).await {
                // What can be read of it is still to be had.
                Err(why) if heap.is_ahead() => SharedCatalog::unknown(store, unreadable(why)),
                opened => opened?,
            },
            false => {
                let why = storage.redo().log().err().unwrap_or_else(crate::heap::closed);
                SharedCatalog::unknown(store, unreadable(why))
            }
        };
        let opened = Database::new(instance, directory, storage, (catalog, kept, heap));
        opened.finish_opening(stub, mode).await?;
        Ok(opened)
    }

    /// From the catalog on.
    async fn finish_opening(&self, stub: Option<Stub>, mode: OpenMode) -> Result<()> {
        if stub.as_ref().is_some_and(|stub| !stub.is_done) && self.heap.is_open() {
            // What cannot be done now is tried at the next opening; until then nothing changes.
            let _ = self.fill_heap(&self.catalog().current()).await;
        }
        // A group mounted by force may have a catalog older than its tables.
        let groups = self.storage.groups();
        if !mode.read_only && !mode.force && groups.mounted_by_force().is_none() && self.may_sweep()
        {
            self.tables.sweep(&self.groups()).await;
            self.sweep_objects().await;
            // What cannot be dropped now nobody sees.
            let _ = self.drop_temporary(None).await;
        }
        if !mode.read_only {
            // One that an earlier version wrote has none.
            self.kept.file()?.keep_spare().await;
        }
        let is_open = stub.as_ref().is_some_and(|stub| stub.is_done);
        if stub.is_none() || (mode.read_only && !is_open) {
            self.storage.redo().open().await;
        }
        Ok(())
    }

    /// Reads the catalog where that could not be read before: what the redo log lacked may be here now.
    ///
    /// # Errors
    /// It is damaged; no room for the heap.
    #[boxed]
    pub async fn find_catalog(&self) -> Result<()> {
        if !self.heap.is_open() || self.is_read_only() {
            return Ok(());
        }
        match self.kept.find().await? {
            None => Ok(()),
            Some(stub) if stub.is_done => match self.catalog().reload().await {
                Err(why) if self.heap.is_ahead() => {
                    self.catalog().forget(unreadable(why));
                    Ok(())
                }
                reloaded => reloaded,
            },
            Some(_) => {
                let before = self.kept.file()?.before().await?;
                self.fill_heap(&before).await?;
                self.catalog().reload().await
            }
        }
    }

    /// Whether a file or heap object that no table names is a leftover: not if the catalog cannot be
    /// read, and not if the log was opened by force, which may have undone changes of the catalog.
    fn may_sweep(&self) -> bool {
        let forced =
            self.storage.redo().shared().log().is_some_and(|log| log.control().notes().was_forced);
        let forced = forced || self.heap.is_ahead();
        self.catalog().known().is_ok() && !(self.kept.is_in_heap() && forced)
    }

    /// Whether the catalog is rows of the heap.
    pub(crate) fn is_catalog_in_heap(&self) -> bool {
        self.kept.is_in_heap()
    }

    /// The heap of a database that is being opened, and where its catalog is.
    fn heap_in(instance: &Instance, storage: &Storage) -> (Heap, Arc<KeptCatalog>) {
        let groups = storage.groups().mounted();
        let (env, sessions) = (Arc::clone(instance.env()), instance.sessions().clone());
        let (budget, settings) = (instance.budget().clone(), instance.settings());
        let temp = Arc::clone(instance.temp());
        let heap = Heap::new(env, sessions, groups.clone(), budget, temp, settings);
        let kept = Arc::new(KeptCatalog::new(groups.clone(), heap.clone()));
        (heap, kept)
    }

    fn new(
        instance: Arc<Instance>,
        directory: Directory,
        storage: Storage,
        (catalog, kept, heap): (SharedCatalog, Arc<KeptCatalog>, Heap),
    ) -> Database {
        let (env, scans) = (Arc::clone(instance.env()), Arc::clone(instance.scans()));
        let (groups, redo) = (storage.groups().clone(), instance.redo().clone());
        let tables = Tables::new(env, groups, redo, scans, catalog);
        Database { instance, directory, storage, tables, kept, heap }
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

    /// The store of rows that change, open or not.
    pub fn heap(&self) -> &Heap {
        &self.heap
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
        Ok(match view.name {
            "v$buffer_pool_statistics" => views::values(self.heap.buffer_pool()),
            "v$comment" => {
                let catalog = self.catalog().known()?;
                views::values(views::comment::rows(&catalog))
            }
            "v$health" => views::values(crate::health::rows(self.health_now())),
            "v$instance_recovery" => views::values(self.heap.instance_recovery()),
            "v$segment_statistics" => {
                // What is in the heap is counted also where nobody knows its names.
                let catalog = self.catalog().known().unwrap_or_default();
                views::values(self.heap.segment_statistics(&catalog))
            }
            _ => return self.instance.rows(view),
        })
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

    /// Whether it is read-only.
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
        self.catalog().known()?;
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
        self.storage.redo().group_is_here().await;
        self.find_catalog().await?;
        // Tables may have been dropped while it was not here.
        if self.is_writable() && !force && self.may_sweep() {
            self.tables.sweep(std::slice::from_ref(&mounted)).await;
            self.sweep_objects().await;
        }
        Ok(mounted)
    }
}
