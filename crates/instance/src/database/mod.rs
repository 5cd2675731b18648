//! An open database directory: the instance, its mounted groups and its catalog.

mod alter;
mod estimate;
mod find;
mod groups;
mod identity;
mod import;
pub(crate) mod init;
pub(crate) mod mounted;
mod resize;
mod returning;
mod spares;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{Group, MountOptions};
use cellar_io::{EnvExt, SharedEnv};
use cellar_wait::Waits;

use crate::budget::Consumer;
use crate::catalog::{CatalogStore, SharedCatalog, StoreFuture};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::groups::{GroupCatalog, MountedGroup};
use crate::instance::Instance;
use crate::parameters::definitions::{
    DISK_DETACH_TIMEOUT, DISK_STRING, DISK_TIMEOUT, RESYNC_TARGET,
};
use crate::tables::UnderWay;
use cellar_storage::disks::{Disks, OpenDisk, OpenDisks};

pub use alter::{ChangeRequest, Changed, DropRequest, DropTarget};
pub use estimate::{Explained, Known, PROBE_TIME};
pub(crate) use find::Labelled;
pub use find::NoDisk;
use find::{Found, find_labelled};
pub use groups::{DiskRequest, GroupRequest};
pub use import::import;
pub use init::{InitDisk, InitSpec, Progress, init};
pub use mounted::{Mounted, MountedGroups, split_group_path};
pub use resize::{ResizeRequest, ResizeTarget};
pub use returning::OfflineTarget;
pub use spares::Spare;

/// How often each disk of a group is looked at, whether or not anybody uses it.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// Options for opening a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenMode {
    /// Write nothing: the log is replayed in RAM, nothing is resynced.
    pub read_only: bool,
    /// Mount although it cannot be proven that nothing newer exists elsewhere.
    pub force: bool,
}

/// An open database directory.
pub struct Database {
    instance: Arc<Instance>,
    directory: Directory,
    disks: Arc<dyn Disks>,
    mode: OpenMode,
    mounted: MountedGroups,
    /// Why groups were not mounted when the database was opened.
    unmounted: Arc<Mutex<Vec<Error>>>,
    /// Paths of this database where no disk of a group could be made out when it was opened.
    no_disks: Arc<Vec<NoDisk>>,
    /// Disks that left while the database was open.
    left: Arc<Mutex<Vec<PathBuf>>>,
    /// The group that was mounted by force when the database was opened, until the statement that
    /// asked for it has been answered.
    forced: Arc<Mutex<Option<String>>>,
    /// Also for tasks that change tables.
    pub(crate) catalog: Arc<SharedCatalog>,
    /// Segments that are not in the catalog yet.
    pub(crate) under_way: Arc<UnderWay>,
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
        let mounted = MountedGroups::default();
        let store = Arc::new(FirstGroupCatalog(mounted.clone()));
        let found = find_labelled(&instance, &directory, &*disks, !mode.read_only, &[]).await;
        let looked = found.check_allowed(!mode.read_only);
        looked.map_err(|e| e.under(15017, "no disk group is mounted"))?;
        let (labelled, problems) = (&found.labelled, &found.problems);
        let groups = identity::groups_of(labelled);
        if groups.is_empty() {
            return Err(nothing_found(&instance, &directory, problems));
        }
        let first =
            identity::catalog_group(&groups, &directory.path().join("disks")).map_err(|error| {
                let error = problems.iter().fold(error, |e, p| e.over(p.clone()));
                error.under(15017, "the disk group of the catalog cannot be mounted")
            })?;
        let mut names: Vec<(bool, String)> =
            groups.iter().map(|g| (g.name != first, g.name.clone())).collect();
        names.sort();
        names.dedup();
        let database = |catalog| Database {
            instance: Arc::clone(&instance),
            directory: directory.clone(),
            disks: Arc::clone(&disks),
            mode,
            mounted: mounted.clone(),
            unmounted: Arc::default(),
            no_disks: Arc::new(found.no_disks.clone()),
            left: Arc::default(),
            forced: Arc::default(),
            catalog: Arc::new(catalog),
            under_way: Arc::default(),
        };
        // Mount with an empty catalog first; it is read from the group once that is there.
        let opening = database(SharedCatalog::empty(Arc::clone(&store) as Arc<dyn CatalogStore>));
        for (not_first, name) in names {
            let own = labelled.iter().filter(|l| l.label.group_name == name);
            let own = own.map(|l| l.disk.clone()).collect();
            let forced = force.is_some_and(|f| !not_first && name.eq_ignore_ascii_case(f));
            let whole = identity::check_one(&name, &groups).and_then(|()| found.check_free(&name));
            let mounted = match whole {
                Ok(()) if forced => opening.mount_or_force(&name, own, &found).await,
                Ok(()) => opening.mount_found(&name, own).await,
                Err(error) => Err(error),
            };
            match mounted {
                Ok(_) => {}
                // The first must be there; without another one the rest is served.
                Err(error) if not_first => {
                    let text = format!("disk group \"{name}\" cannot be mounted");
                    opening.unmounted().push(error.under(15017, text).of_group(&name));
                }
                Err(error) => {
                    let error = problems.iter().fold(error, |e, p| e.over(p.clone()));
                    let text = format!("disk group \"{name}\" cannot be mounted");
                    return Err(error.under(15017, text).of_group(&name));
                }
            }
        }
        let catalog = Arc::new(SharedCatalog::open(store).await?);
        let opened = Database { catalog, ..opening };
        // A group mounted by force may have a catalog older than its tables.
        if !mode.read_only && !mode.force && opened.mounted_by_force().is_none() {
            opened.sweep(&opened.groups()).await;
        }
        if !mode.read_only {
            // One that an earlier version wrote has none.
            if let Some(first) = opened.mounted.first() {
                GroupCatalog::new(first.group).keep_spare().await;
            }
        }
        opened.open_redo().await;
        Ok(opened)
    }

    /// Mounts a group as it is, and only where that cannot be proven to be right, by force.
    async fn mount_or_force(
        &self,
        name: &str,
        own: Vec<OpenDisk>,
        found: &Found,
    ) -> Result<Mounted> {
        match self.mount_found(name, own.clone()).await {
            Err(error) if error.force_helps() => {}
            mounted => return mounted,
        }
        found.check_all_read()?;
        let mounted = self.with_force(true).mount_found(name, own).await?;
        *self.forced() = Some(name.to_owned());
        Ok(mounted)
    }

    /// Dismounts every group cleanly.
    ///
    /// # Errors
    /// A group had stopped; the others are dismounted all the same.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        let all = self.mounted.all();
        let mut failure = self.close_redo().await;
        for mounted in all {
            self.let_go(&mounted).await;
            self.instance.scans().let_go(mounted.group.name(), None);
            if let Err(error) = mounted.group.dismount().await {
                failure = Err(Error::from(error));
            }
            self.instance.remove_group(mounted.group.name());
        }
        self.mounted.clear();
        failure
    }

    fn unmounted(&self) -> MutexGuard<'_, Vec<Error>> {
        self.unmounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the disks that have left a group, and has disk_string forget them.
    async fn let_go(&self, mounted: &Mounted) {
        let gone = mounted.close_gone();
        if gone.is_empty() {
            return;
        }
        let _one_at_a_time = self.instance.changing().lock().await;
        // One of them may have come back meanwhile.
        let here: Vec<PathBuf> =
            self.groups().iter().flat_map(|m| m.disks.all().to_vec()).map(|d| d.path).collect();
        let gone = gone.iter().filter(|path| !here.contains(path));
        // A path that stays is a trouble only if another database takes the disk.
        let _ = self.forget_disks(gone.map(PathBuf::as_path));
    }

    fn forced(&self) -> MutexGuard<'_, Option<String>> {
        self.forced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group that was mounted by force when the database was opened, until an ALTER DISKGROUP
    /// ... MOUNT FORCE of it was answered.
    pub fn mounted_by_force(&self) -> Option<String> {
        self.forced().clone()
    }

    /// Groups that could not be mounted when the database was opened, each as an error.
    pub fn not_mounted(&self) -> Vec<Error> {
        self.unmounted().clone()
    }

    /// Paths of this database where no disk of a group could be made out when it was opened, and
    /// why: where a group misses a disk, it may be there.
    pub fn no_disks(&self) -> &[NoDisk] {
        &self.no_disks
    }

    /// The instance.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The directory of the database.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The catalog of tables.
    pub fn catalog(&self) -> &SharedCatalog {
        &self.catalog
    }

    pub(crate) fn disks(&self) -> &Arc<dyn Disks> {
        &self.disks
    }

    /// The environment it runs in.
    pub fn env(&self) -> &SharedEnv {
        self.instance.env()
    }

    /// The registry of wait events.
    pub fn waits(&self) -> &Waits {
        self.instance.waits()
    }

    /// The handle by which others find the mounted groups.
    pub(crate) fn mounted(&self) -> &MountedGroups {
        &self.mounted
    }

    /// The mounted groups, by name.
    pub fn groups(&self) -> Vec<Mounted> {
        self.mounted.all()
    }

    /// A mounted group by its name, in any case.
    ///
    /// # Errors
    /// 15001 with the names of those that are mounted.
    pub fn group(&self, name: &str) -> Result<Mounted> {
        self.mounted.get(name)
    }

    async fn mount_found(&self, name: &str, found: Vec<OpenDisk>) -> Result<Mounted> {
        let parameters = self.instance.parameters();
        let options = MountOptions {
            read_only: self.mode.read_only,
            force: self.mode.force,
            disk_timeout: Duration::from_secs(parameters.integer(DISK_TIMEOUT)),
            detach_timeout: Duration::from_secs(parameters.integer(DISK_DETACH_TIMEOUT)),
            resync_target: Duration::from_secs(parameters.integer(RESYNC_TARGET)),
            checksum_cache_bytes: usize::try_from(
                self.instance.budget().limit(Consumer::Checksums),
            )
            .unwrap_or(usize::MAX),
            ..MountOptions::default()
        };
        let session = self.instance.sessions().background(&format!("group {name}"));
        let disks = found
            .iter()
            .map(|d| cellar_diskgroup::FoundDisk {
                device: d.device(),
                path: d.path.to_string_lossy().into_owned(),
            })
            .collect();
        let env = self.instance.env();
        let group = Group::mount(env, session.waits().clone(), name, disks, options).await?;
        // Descriptors of disks that turned out not to belong are closed here.
        let own: Vec<String> = group.disks().into_iter().filter_map(|d| d.path).collect();
        let disks = found
            .into_iter()
            .filter(|d| own.iter().any(|p| *p == d.path.to_string_lossy()))
            .collect();
        let mounted = self.mounted.add(name, group, OpenDisks::new(disks));
        if !self.mode.read_only {
            let (mounted, env) = (mounted.clone(), Arc::clone(env));
            let this = self.with_force(self.mode.force);
            let probe = async move {
                let mut tried = returning::Tried::default();
                let mut spares = spares::SparesTried::default();
                while mounted.group.probe_disks().await {
                    this.let_go(&mounted).await;
                    this.return_found(&mounted, &mut tried).await;
                    this.take_spares(&mounted, &mut spares).await;
                    this.give_up_failed_media(&mounted);
                    this.return_failed_media(&mounted).await;
                    env.sleep(PROBE_EVERY).await;
                }
            };
            self.instance.env().spawn("disk probe", Box::pin(probe));
        }
        let rows = MountedGroup::new(mounted.group.clone(), mounted.number, "cellar")
            .with_disks(mounted.disks.clone());
        self.instance.add_group(name, Arc::new(rows));
        Ok(mounted)
    }
}

/// The patterns where disks are looked for: DIR/disks/*, then what was added.
pub(crate) fn patterns(instance: &Instance, directory: &Directory) -> Vec<String> {
    let own = directory.path().join("disks").join("*").to_string_lossy().into_owned();
    let mut all = vec![own];
    all.extend(instance.parameters().list(DISK_STRING));
    all
}

fn nothing_found(instance: &Instance, directory: &Directory, problems: &[Error]) -> Error {
    let places = patterns(instance, directory).join(", ");
    let error = Error::new(15063, format!("no disk of a disk group was found in {places}"))
        .hint("see which disks there are: cellar disks; set disk_string in cellar.toml");
    problems.iter().fold(error, |e, p| e.over(p.clone()))
}

/// The catalog in the group that was mounted first, once one is.
struct FirstGroupCatalog(MountedGroups);

impl FirstGroupCatalog {
    fn group(&self) -> Result<Group> {
        let first = self.0.first().map(|mounted| mounted.group);
        first.ok_or_else(|| Error::new(15001, "no disk group is mounted that holds the catalog"))
    }
}

impl CatalogStore for FirstGroupCatalog {
    fn read(&self) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { GroupCatalog::new(self.group()?).read().await })
    }

    fn replace(&self, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let catalog = GroupCatalog::new(self.group()?);
            catalog.replace(bytes).await?;
            catalog.keep_spare().await;
            Ok(())
        })
    }
}

/// An absolute form of a path, as labels and cellar.toml keep it.
pub(crate) fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
