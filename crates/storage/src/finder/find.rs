//! Looking for the disks of a database: those of its directory, and those that disk_string finds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cellar_diskgroup::on_disk::{Damage, Uuid};
use cellar_diskgroup::{Label, LabelScan, LabelStatus, read_labels};
use cellar_io::{EnvExt, IoError};
use futures_util::future::{Either, select};

use super::DiskFinder;
use crate::disks::OpenDisk;
use crate::error::{Error, Result};
use crate::settings::DISK_STRING;

/// How long to wait for the disks of a killed process to be released: it releases the directory first. A
/// mount without them would leave them out for good.
const BUSY_OWN: Duration = Duration::from_secs(10);
/// The same for a disk whose group is not known to be of this database.
const BUSY_OTHER: Duration = Duration::from_secs(1);
/// How long a disk may take to return its label: one that never answers must not hold up the others.
const LABELS_WITHIN: Duration = Duration::from_secs(30);
/// How often they are tried.
const BUSY_EVERY: Duration = Duration::from_millis(50);

/// A disk with a Cellar label.
pub(crate) struct Labelled {
    pub disk: OpenDisk,
    pub label: Label,
}

/// A path of this database where no disk of a group could be identified.
#[derive(Clone, Debug)]
pub struct NoDisk {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub why: Error,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub labelled: Vec<Labelled>,
    /// Why others could not be opened or read.
    pub problems: Vec<Error>,
    /// Paths in the directory, or named in disk_string, that may be a disk that a group misses.
    pub no_disks: Vec<NoDisk>,
    /// A resource that this process had run out of: then nothing is known of the disks that it could not
    /// open.
    exhausted: Option<Error>,
    /// A disk in the directory, or named in disk_string, that this process has no right to open.
    denied: Option<Error>,
    /// Disks of groups that another process did not release.
    busy: Vec<(Label, Error)>,
    /// Why disks in the directory, or named in disk_string, could not be opened.
    shut: Vec<Error>,
}

/// A disk that another process holds.
struct Busy {
    path: PathBuf,
    error: Error,
    label: Option<Label>,
}

impl Found {
    /// Refuses everything if this process could not examine a disk for reasons of its own: to go on
    /// without the disk would leave it out for good.
    pub fn check_looked(&self) -> Result<()> {
        self.exhausted.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Refuses everything as `check_looked` does; for a caller that will write, also if this process
    /// lacks permission to open a disk.
    pub fn check_allowed(&self, write: bool) -> Result<()> {
        self.check_looked()?;
        self.denied.as_ref().filter(|_| write).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Refuses a group one of whose disks is present but in use: what only that disk knows would be lost.
    pub fn check_free(&self, group: &str) -> Result<()> {
        let held = self.busy.iter().find(|(label, _)| label.group_name == group);
        held.map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Refuses FORCE if a disk is present but unreadable: it may be the missing one.
    pub fn check_all_read(&self) -> Result<()> {
        self.shut.first().map_or(Ok(()), |error| Err(error.clone()))
    }

    async fn take(&mut self, finder: &DiskFinder, path: &Path, disk: OpenDisk, own: bool) {
        let scan = match finder.labels_of(&disk).await {
            Some(Ok(scan)) => scan,
            Some(Err(error)) => return self.unreadable(path, own, error.into()),
            None => {
                let text = format!("{} does not tell its label in time", path.display());
                return self.unreadable(path, own, Error::new(15080, text));
            }
        };
        if let Some(label) = scan.newest() {
            self.labelled.push(Labelled { disk, label: label.clone() });
            return;
        }
        let size = disk.device().geometry().size;
        match scan.damage() {
            Some(damage) if !matches!(damage, Damage::Blank) => {
                let text = format!("the label of {} cannot be read: {damage}", path.display());
                let error = Error::new(15196, text);
                self.problems.push(error.clone());
                self.unreadable(path, own, error);
            }
            _ => {
                let text = format!("{} has no label: it has {size} bytes", path.display());
                self.unreadable(path, own, Error::new(15036, text));
            }
        }
    }

    /// A disk that is open and does not say whose it is.
    fn unreadable(&mut self, path: &Path, own: bool, why: Error) {
        if why.is_exhausted() {
            self.exhausted.get_or_insert(why);
        } else if own {
            self.no_disks.push(NoDisk { path: path.to_owned(), why });
        }
    }

    fn refused(&mut self, path: &Path, own: bool, error: Error) {
        if error.is_exhausted() {
            self.exhausted.get_or_insert(error);
            return;
        }
        if own {
            if error.is_denied() {
                self.denied.get_or_insert_with(|| error.clone());
            }
            self.shut.push(error.clone());
            self.no_disks.push(NoDisk { path: path.to_owned(), why: error.clone() });
        }
        self.problems.push(error);
    }
}

impl DiskFinder {
    /// The labels of a disk; nothing if it does not answer in time.
    async fn labels_of(&self, disk: &OpenDisk) -> Option<std::result::Result<LabelScan, IoError>> {
        let device = disk.device();
        let read = std::pin::pin!(read_labels(&device));
        match select(read, self.env().sleep(LABELS_WITHIN)).await {
            Either::Left((scan, _)) => Some(scan),
            Either::Right(_) => None,
        }
    }

    /// Opens every disk that carries a label; says which could not be opened. Leaves out those that are
    /// open `here` already.
    pub(crate) async fn find_labelled(&self, write: bool, here: &[PathBuf]) -> Found {
        let mut found = Found::default();
        let mut busy = Vec::new();
        let sought = self.disks().find(&self.patterns());
        for problem in sought.problems {
            found.refused(&self.0.directory, false, problem);
        }
        for path in sought.paths {
            if here.contains(&path) {
                continue;
            }
            let own = self.is_own(&path);
            match self.disks().open(&path, write) {
                Ok(disk) => found.take(self, &path, disk, own).await,
                Err(error) if error.is_busy() => {
                    // Without the lock: only to learn whose it is.
                    let label = match self.disks().open(&path, false) {
                        Ok(disk) => self.labels_of(&disk).await.and_then(|scan| scan.ok()),
                        Err(_) => None,
                    };
                    let label = label.and_then(|scan| scan.newest().cloned());
                    busy.push(Busy { path, error, label });
                }
                Err(error) => found.refused(&path, own, error),
            }
        }
        self.wait_for(busy, &mut found).await;
        found
    }

    /// Opens disks once their holders release them, if that happens in time.
    async fn wait_for(&self, mut busy: Vec<Busy>, found: &mut Found) {
        let began = self.env().now();
        while !busy.is_empty() {
            let known: Vec<Uuid> = found.labelled.iter().map(|l| l.label.group).collect();
            let waited = self.env().now().since(began);
            let mut still = Vec::new();
            for b in busy {
                let member = b.label.as_ref().filter(|label| label.status != LabelStatus::Former);
                let own = self.is_own(&b.path);
                let patience = match member {
                    Some(label) if own || known.contains(&label.group) => BUSY_OWN,
                    Some(_) => BUSY_OTHER,
                    None => Duration::ZERO,
                };
                match self.disks().open(&b.path, true) {
                    Ok(disk) => found.take(self, &b.path, disk, own).await,
                    Err(error) if error.is_busy() && waited < patience => still.push(b),
                    Err(error) => {
                        found.busy.extend(member.map(|label| (label.clone(), b.error.clone())));
                        found.refused(&b.path, own, error);
                    }
                }
            }
            busy = still;
            if !busy.is_empty() {
                self.env().sleep(BUSY_EVERY).await;
            }
        }
    }

    /// Whether a disk lies in the directory or is named in disk_string, not only matched there.
    fn is_own(&self, path: &Path) -> bool {
        let listed = self.settings().list(DISK_STRING);
        path.starts_with(self.folder()) || listed.iter().any(|own| Path::new(own) == path)
    }
}
