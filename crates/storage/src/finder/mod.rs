//! The finder of disks: where they are looked for, what they say they are, which of them are remembered.

mod find;
pub(crate) mod identity;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_diskgroup::{Label, read_labels};
use cellar_io::SharedEnv;

pub use find::NoDisk;
pub(crate) use find::{Found, Labelled};

use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::files::absolute;
use crate::host::Surroundings;
use crate::mounted::MountedGroups;
use crate::settings::{DISK_STRING, Settings};

/// What finds the disks of a database. Clones are the same finder.
#[derive(Clone)]
pub struct DiskFinder(Arc<Inner>);

struct Inner {
    around: Surroundings,
    /// Of the database: its own disks lie in the folder `disks` there.
    directory: PathBuf,
    read_only: bool,
    /// Disks that left while it is open.
    left: Mutex<Vec<PathBuf>>,
    changing: futures_util::lock::Mutex<()>,
}

impl std::fmt::Debug for DiskFinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskFinder({})", self.0.directory.display())
    }
}

impl DiskFinder {
    /// A finder for the database in `directory`; `read_only`: nothing is remembered or forgotten.
    pub(crate) fn new(around: Surroundings, directory: PathBuf, read_only: bool) -> DiskFinder {
        let (left, changing) = (Mutex::default(), futures_util::lock::Mutex::default());
        DiskFinder(Arc::new(Inner { around, directory, read_only, left, changing }))
    }

    /// How disks are opened.
    pub fn disks(&self) -> &Arc<dyn Disks> {
        &self.0.around.disks
    }

    fn env(&self) -> &SharedEnv {
        &self.0.around.env
    }

    fn settings(&self) -> &dyn Settings {
        &*self.0.around.settings
    }

    /// Held while the disks of a group, and disk_string with them, are changed.
    pub fn changing(&self) -> &futures_util::lock::Mutex<()> {
        &self.0.changing
    }

    pub(crate) fn left(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder with the database's own disks.
    pub(crate) fn folder(&self) -> PathBuf {
        self.0.directory.join("disks")
    }

    /// The patterns where disks are looked for: DIR/disks/*, then what was added.
    pub(crate) fn patterns(&self) -> Vec<String> {
        let own = self.folder().join("*").to_string_lossy().into_owned();
        let mut all = vec![own];
        all.extend(self.settings().list(DISK_STRING));
        all
    }

    pub(crate) fn nothing_found(&self, problems: &[Error]) -> Error {
        let places = self.patterns().join(", ");
        let error = Error::new(15063, format!("no disk of a disk group was found in {places}"))
            .hint("see which disks there are: cellar disks; set disk_string in cellar.toml");
        problems.iter().fold(error, |e, p| e.over(p.clone()))
    }

    /// The paths that a pattern with `*` and `?` matches.
    pub fn paths_of(&self, pattern: &str) -> Vec<PathBuf> {
        self.disks().find(&[pattern.to_owned()]).paths.iter().map(|path| absolute(path)).collect()
    }

    pub(crate) async fn label(&self, path: &Path) -> Option<Label> {
        let disk = self.disks().open(path, false).ok()?;
        let scan = read_labels(&disk.device()).await.ok()?;
        scan.newest().cloned()
    }

    /// Removes disks that no longer belong to a group here from disk_string, so that this database does
    /// not pick them up when they are reused. Their files in DIR/disks stay.
    pub(crate) fn forget_disks<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        let paths: Vec<PathBuf> = paths.map(absolute).collect();
        let gone: Vec<String> = paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        self.left().extend(paths);
        self.forget_paths(&gone)
    }

    /// Adds the paths that disk_string does not find to cellar.toml, and returns them.
    pub(crate) fn remember<'a>(
        &self,
        paths: impl Iterator<Item = &'a Path>,
    ) -> Result<Vec<String>> {
        let known = self.disks().find(&self.patterns()).paths;
        let known: Vec<PathBuf> = known.iter().map(|p| absolute(p)).collect();
        let new: Vec<String> = paths
            .filter(|p| !known.contains(&absolute(p)))
            .map(|p| p.to_string_lossy().into_owned())
            .collect();
        let mut list = self.settings().list(DISK_STRING);
        list.extend(new.iter().cloned());
        self.set_disk_string(list)?;
        Ok(new)
    }

    /// Takes paths out of disk_string again.
    pub(crate) fn forget_paths(&self, paths: &[String]) -> Result<()> {
        let list = self.settings().list(DISK_STRING);
        self.set_disk_string(list.into_iter().filter(|path| !paths.contains(path)).collect())
    }

    fn set_disk_string(&self, list: Vec<String>) -> Result<()> {
        if self.settings().list(DISK_STRING) != list {
            self.settings().set_list(DISK_STRING, list)?;
        }
        Ok(())
    }

    /// Refuses a disk_string that no longer finds a disk of a mounted group: after the next start the
    /// group, and all its tables, would be missing.
    ///
    /// # Errors
    /// 15014 with the disk.
    pub fn check_finds_all(&self, list: &[String], groups: &MountedGroups) -> Result<()> {
        let find = |patterns: &[String]| -> Vec<PathBuf> {
            self.disks().find(patterns).paths.iter().map(|p| absolute(p)).collect()
        };
        let before = self.patterns();
        let mut after = before[..1].to_vec();
        after.extend_from_slice(list);
        let (before, after) = (find(&before), find(&after));
        for mounted in groups.all() {
            let lost = mounted.disks.all().iter().map(|d| absolute(&d.path)).find(|path| {
                // One that is not there at all is no worse off.
                before.contains(path) && !after.contains(path)
            });
            if let Some(path) = lost {
                let group = mounted.group.name();
                let text = format!(
                    "disk_string would no longer find {}, a disk of the mounted group {group}",
                    path.display()
                );
                return Err(Error::new(15014, text).under(2097, "disk_string not changed").hint(
                    "name its path too: SHOW PARAMETER disk_string tells what finds it now",
                ));
            }
        }
        Ok(())
    }
}
