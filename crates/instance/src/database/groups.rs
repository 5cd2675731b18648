//! CREATE, DROP, MOUNT and DISMOUNT of groups of an open database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{CreateGroup, LabelStatus, NewDisk, Redundancy, create};

use super::alter::{NewFiles, matches_nothing};
use super::find::find_labelled;
use super::init::prewrite_all;
use super::{Database, Mounted, absolute, identity, patterns};
use crate::error::{Error, Result};
use crate::parameters::definitions::{self, DISK_STRING};
use crate::parameters::{Altered, Scope, Value};
use cellar_storage::disks::{OpenDisk, default_failgroups};

/// CREATE DISKGROUP, parsed.
#[derive(Clone, Debug)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// Copies by default.
    pub redundancy: Redundancy,
    /// Attributes, `au_size` and `sector_size` among them, names in lower case.
    pub attributes: BTreeMap<String, String>,
    /// Disks in order.
    pub disks: Vec<DiskRequest>,
}

/// A disk of CREATE DISKGROUP.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Its path, or a pattern that matches several.
    pub path: String,
    /// Its name.
    pub name: Option<String>,
    /// Its failure group.
    pub failgroup: Option<String>,
    /// Use fewer bytes than it has.
    pub size: Option<u64>,
    /// FORCE.
    pub force: bool,
    /// ERASE: gives up what is on the disk with this serial number.
    pub erase: Option<String>,
}

/// Reads 1M, 512K, 4194304.
fn bytes(what: &'static str, text: &str) -> Result<u64> {
    crate::size::parse(text).ok_or_else(|| {
        Error::new(15238, format!("{what} '{text}' is not a size"))
            .hint("write it as 4M or 4194304")
    })
}

impl Database {
    /// Whether anything may be written.
    pub fn is_writable(&self) -> bool {
        !self.mode.read_only
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.mode.read_only {
            return Err(Error::new(70041, "the database is open read-only"));
        }
        Ok(())
    }

    /// Opens the disks a request names, expanding patterns; each once. Files that are not there yet
    /// and have a size are made, and go with `files`.
    async fn open_requested(
        &self,
        request: &GroupRequest,
        files: &mut NewFiles,
    ) -> Result<Vec<(DiskRequest, OpenDisk)>> {
        let mut all = Vec::new();
        let mut new = Vec::new();
        for disk in &request.disks {
            super::alter::check_pattern(&disk.path, disk.erase.as_deref())?;
            let paths = if disk.path.contains(['*', '?']) {
                self.disks.find(std::slice::from_ref(&disk.path)).all()?
            } else {
                vec![PathBuf::from(&disk.path)]
            };
            if paths.is_empty() {
                let text = format!("disk specification '{}' matches no disks", disk.path);
                return Err(Error::new(15031, text).hint("see which disks there are: cellar disks"));
            }
            for path in paths {
                let path = absolute(&path);
                self.check_not_member(&path)?;
                let is_there = path.exists();
                let made = match (is_there, disk.size) {
                    (false, Some(_)) => Some(files.make(disk, &path)?),
                    _ => {
                        let free = self.disks.check_free(&path, disk.erase.as_deref());
                        let told = |error| if is_there { error } else { matches_nothing(disk) };
                        free.map(|()| None).map_err(told)?
                    }
                };
                let open = self.disks.open(&path, true)?;
                new.extend(made.map(|size| (open.device(), 0..size)));
                let clash = self
                    .groups()
                    .iter()
                    .any(|m| m.disks.all().iter().any(|d| absolute(&d.path) == path));
                if clash || all.iter().any(|(_, o): &(DiskRequest, OpenDisk)| o.path == path) {
                    let text = format!("disk {} is named twice or in use here", path.display());
                    return Err(Error::new(15020, text));
                }
                all.push((disk.clone(), open));
            }
        }
        let total = new.iter().map(|(_, range)| range.end).sum();
        prewrite_all(&new, total, &|_, _| {}).await?;
        Ok(all)
    }

    /// CREATE DISKGROUP: makes it and mounts it. The paths of its disks are durable in cellar.toml
    /// before any of them becomes a member.
    ///
    /// # Errors
    /// As of [`cellar_diskgroup::create`], or a disk cannot be opened.
    #[boxed]
    pub async fn create_group(&self, request: &GroupRequest) -> Result<Mounted> {
        let result = self.create_group_inner(request, false).await;
        result.map_err(|e| e.under(15018, "diskgroup cannot be created"))
    }

    pub(super) async fn create_group_inner(
        &self,
        request: &GroupRequest,
        holds_catalog: bool,
    ) -> Result<Mounted> {
        self.check_writable()?;
        let name = request.name.to_uppercase();
        if self.group(&name).is_ok() {
            return Err(Error::new(15030, format!("disk group name \"{name}\" is in use"))
                .hint("choose another name"));
        }
        let mut attributes = request.attributes.clone();
        let au_size = attributes.remove("au_size");
        let au_size = au_size.map_or(Ok(4 << 20), |text| bytes("au_size", &text))?;
        let sector = attributes.remove("sector_size");
        let sector = sector.map(|text| bytes("sector_size", &text)).transpose()?;
        let sector_size = sector.map(|s| u32::try_from(s).unwrap_or(0));
        let mut files = NewFiles::default();
        let opened = self.open_requested(request, &mut files).await?;
        self.check_name_is_free(&name, &opened).await?;
        let below: Vec<_> = opened.iter().map(|(_, o)| o.below.clone()).collect();
        let named = opened.iter().any(|(r, _)| r.failgroup.is_some());
        let default = match (request.redundancy, named) {
            (Redundancy::External, _) | (_, true) => vec![None; opened.len()],
            _ => default_failgroups(&below),
        };
        let _one_at_a_time = self.instance.changing().lock().await;
        let remembered = self.remember(opened.iter().map(|(_, o)| o.path.as_path()))?;
        let disks = opened.iter().zip(default).map(|((r, o), failgroup)| NewDisk {
            device: o.device(),
            path: o.path.to_string_lossy().into_owned(),
            name: r.name.clone(),
            failgroup: r.failgroup.clone().or(failgroup),
            size: r.size,
            force: r.force,
        });
        let spec = CreateGroup {
            name: name.clone(),
            redundancy: request.redundancy,
            au_size,
            sector_size,
            attributes,
            holds_catalog,
            disks: disks.collect(),
        };
        if let Err(error) = create(self.env(), spec).await {
            // A path that stays would bring the disks of another database here.
            let undone = self.forget_paths(&remembered);
            return Err(undone.err().into_iter().fold(error.into(), Error::over));
        }
        files.keep(true);
        let found = opened.into_iter().map(|(_, open)| open).collect();
        self.mount_found(&name, found).await
    }

    /// Refuses the name of a group that is found and not mounted: after a restart there would be
    /// two of it.
    async fn check_name_is_free(
        &self,
        name: &str,
        opened: &[(DiskRequest, OpenDisk)],
    ) -> Result<()> {
        let found = find_labelled(&self.instance, &self.directory, &*self.disks, false, &[]).await;
        found.check_looked()?;
        let requested: Vec<String> =
            opened.iter().map(|(_, o)| absolute(&o.path).to_string_lossy().into_owned()).collect();
        identity::check_free_name(name, &identity::groups_of(&found.labelled), &requested)
    }

    /// Disks that are of no group here any more: disk_string no longer names them, so that whoever
    /// takes them next does not bring them here. Their files in DIR/disks stay.
    pub(super) fn forget_disks<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
        if self.mode.read_only {
            return Ok(());
        }
        let paths: Vec<PathBuf> = paths.map(absolute).collect();
        let gone: Vec<String> = paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        self.left().extend(paths);
        self.forget_paths(&gone)
    }

    /// Adds paths that disk_string does not find to cellar.toml; tells which.
    pub(super) fn remember<'a>(
        &self,
        paths: impl Iterator<Item = &'a Path>,
    ) -> Result<Vec<String>> {
        let known = self.disks.find(&patterns(&self.instance, &self.directory)).paths;
        let known: Vec<PathBuf> = known.iter().map(|p| absolute(p)).collect();
        let new: Vec<String> = paths
            .filter(|p| !known.contains(&absolute(p)))
            .map(|p| p.to_string_lossy().into_owned())
            .collect();
        let mut list = self.instance.parameters().list(DISK_STRING);
        list.extend(new.iter().cloned());
        self.set_disk_string(list)?;
        Ok(new)
    }

    /// Takes paths out of disk_string again.
    pub(super) fn forget_paths(&self, paths: &[String]) -> Result<()> {
        let list = self.instance.parameters().list(DISK_STRING);
        self.set_disk_string(list.into_iter().filter(|path| !paths.contains(path)).collect())
    }

    fn set_disk_string(&self, list: Vec<String>) -> Result<()> {
        let parameters = self.instance.parameters();
        if parameters.list(DISK_STRING) != list {
            parameters.set_list(DISK_STRING, list, Some(Scope::Both))?;
        }
        Ok(())
    }

    /// `ALTER SYSTEM SET`, as [`crate::Instance::alter_system_set`] does it.
    ///
    /// # Errors
    /// Also 15014: a disk_string that no longer finds a disk of a mounted group; 15001 and 00096: a
    /// log_archive_dest that will not do.
    #[boxed]
    pub async fn alter_system_set(
        &self,
        name: &str,
        value: &str,
        scope: Option<Scope>,
    ) -> Result<Altered> {
        // Whose disk joins just now is in no list yet.
        let _one_at_a_time = self.instance.changing().lock().await;
        if name.eq_ignore_ascii_case(DISK_STRING)
            && let Some(Ok(Value::List(list))) = definitions::find(name).map(|d| d.parse(value))
        {
            self.check_finds_all(&list)?;
        }
        self.check_archive_parameter(name, Some(value))?;
        let mut altered = self.instance.alter_system_set(name, value, scope)?;
        self.redo_parameter_changed(&mut altered).await?;
        Ok(altered)
    }

    /// `ALTER SYSTEM RESET`, as [`crate::Instance::alter_system_reset`] does it.
    ///
    /// # Errors
    /// Also 15014 and 00096, as [`Database::alter_system_set`].
    #[boxed]
    pub async fn alter_system_reset(&self, name: &str, scope: Option<Scope>) -> Result<Altered> {
        let _one_at_a_time = self.instance.changing().lock().await;
        if name.eq_ignore_ascii_case(DISK_STRING) {
            self.check_finds_all(&[])?;
        }
        self.check_archive_parameter(name, None)?;
        let mut altered = self.instance.alter_system_reset(name, scope)?;
        self.redo_parameter_changed(&mut altered).await?;
        Ok(altered)
    }

    /// After the next start a group whose disks are not found is not there, with all its tables.
    fn check_finds_all(&self, list: &[String]) -> Result<()> {
        let find = |patterns: &[String]| -> Vec<PathBuf> {
            self.disks.find(patterns).paths.iter().map(|p| absolute(p)).collect()
        };
        let before = patterns(&self.instance, &self.directory);
        let mut after = before[..1].to_vec();
        after.extend_from_slice(list);
        let (before, after) = (find(&before), find(&after));
        for mounted in self.groups() {
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

    /// DROP DISKGROUP.
    ///
    /// # Errors
    /// It holds the catalog or columnar tables, or has files and `including_contents` is not set.
    #[boxed]
    pub async fn drop_group(&self, name: &str, including_contents: bool) -> Result<()> {
        self.check_writable()?;
        let mounted = self.group(name)?;
        if mounted.number == 1 {
            return Err(Error::new(
                15039,
                format!(
                    "disk group \"{}\" holds the catalog of this database",
                    mounted.group.name()
                ),
            )
            .hint("remove the whole directory instead, if nobody needs the database"));
        }
        self.check_no_redo(mounted.group.name(), 15039, "diskgroup not dropped")?;
        let _dropping = self.drop_without_tables(mounted.group.name())?;
        let result = mounted.group.drop_group(including_contents).await;
        result.map_err(|e| Error::from(e).under(15039, "diskgroup not dropped"))?;
        self.forget(mounted.group.name());
        let _one_at_a_time = self.instance.changing().lock().await;
        let all = mounted.disks.all();
        self.forget_disks(all.iter().map(|d| d.path.as_path()))
    }

    fn forget(&self, name: &str) {
        self.mounted.remove(name);
        self.instance.remove_group(name);
    }

    /// The groups whose disks are found and that are not mounted, by name.
    #[boxed]
    pub async fn unmounted_names(&self) -> Vec<String> {
        let here: Vec<PathBuf> =
            self.groups().iter().flat_map(|m| m.disks.all().to_vec()).map(|d| d.path).collect();
        let found =
            find_labelled(&self.instance, &self.directory, &*self.disks, false, &here).await;
        let members = found.labelled.into_iter().filter(|l| l.label.status == LabelStatus::Member);
        let mut names: Vec<String> = members.map(|l| l.label.group_name).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.group(name).is_err());
        names
    }

    /// ALTER DISKGROUP ... DISMOUNT.
    ///
    /// # Errors
    /// It holds the catalog, or had stopped.
    #[boxed]
    pub async fn dismount_group(&self, name: &str, force: bool) -> Result<()> {
        let mounted = self.group(name)?;
        if mounted.number == 1 {
            return Err(Error::new(
                15027,
                format!(
                    "disk group \"{}\" holds the catalog, which is in use",
                    mounted.group.name()
                ),
            ));
        }
        if !force {
            self.check_no_redo(mounted.group.name(), 15027, "disk group not dismounted")?;
        }
        self.instance().scans().let_go(mounted.group.name(), None);
        match mounted.group.dismount().await {
            Ok(()) => {}
            Err(_) if force => mounted.group.abandon(),
            Err(error) => return Err(error.into()),
        }
        self.forget(mounted.group.name());
        // A query that began before has perhaps opened a segment meanwhile.
        self.instance().scans().let_go(mounted.group.name(), None);
        Ok(())
    }

    /// ALTER DISKGROUP ... MOUNT.
    ///
    /// # Errors
    /// It is mounted already, or too few of its disks are found. A group that opening the database
    /// mounted by force answers the first MOUNT FORCE as done.
    #[boxed]
    pub async fn mount_group(&self, name: &str, force: bool) -> Result<Mounted> {
        let name = name.to_uppercase();
        if let Ok(mounted) = self.group(&name) {
            if force && self.forced().take_if(|forced| *forced == name).is_some() {
                return Ok(mounted);
            }
            return Err(Error::new(15013, format!("diskgroup \"{name}\" is already mounted")));
        }
        let here: Vec<PathBuf> =
            self.groups().iter().flat_map(|m| m.disks.all().to_vec()).map(|d| d.path).collect();
        let write = !self.mode.read_only;
        let found =
            find_labelled(&self.instance, &self.directory, &*self.disks, write, &here).await;
        let one = identity::check_one(&name, &identity::groups_of(&found.labelled));
        let whole =
            one.and_then(|()| found.check_allowed(write)).and_then(|()| found.check_free(&name));
        let whole = if force { whole.and_then(|()| found.check_all_read()) } else { whole };
        let failed = |error: Error| {
            error.under(15017, format!("disk group \"{name}\" cannot be mounted")).of_group(&name)
        };
        whole.map_err(failed)?;
        let problems = found.problems;
        let own: Vec<OpenDisk> = found
            .labelled
            .into_iter()
            .filter(|l| l.label.group_name == name && l.label.status != LabelStatus::Former)
            .map(|l| l.disk)
            .collect();
        let result = self.with_force(force).mount_found(&name, own).await;
        let mounted = result.map_err(|error| {
            failed(problems.iter().fold(error, |error, problem| error.over(problem.clone())))
        })?;
        // Tables may have been dropped while it was not here.
        if write && !force {
            self.sweep(std::slice::from_ref(&mounted)).await;
        }
        // Perhaps it is what the redo log lacked.
        let stopped = self.instance.redo().log().is_some_and(|log| log.log().stopped().is_some());
        if stopped || self.instance.redo().problem().is_some() {
            self.open_redo().await;
        } else if let Some(log) = self.instance.redo().log().filter(|_| write) {
            // Perhaps it is where the log is to be archived; if not, that was told before.
            let _ = self.apply_archive_dest(&log).await;
        }
        Ok(mounted)
    }

    /// Another handle to the same database.
    pub(crate) fn handle(&self) -> Database {
        Database {
            instance: Arc::clone(&self.instance),
            directory: self.directory.clone(),
            disks: Arc::clone(&self.disks),
            mode: self.mode,
            mounted: self.mounted.clone(),
            unmounted: Arc::clone(&self.unmounted),
            no_disks: Arc::clone(&self.no_disks),
            left: Arc::clone(&self.left),
            forced: Arc::clone(&self.forced),
            catalog: Arc::clone(&self.catalog),
            under_way: Arc::clone(&self.under_way),
        }
    }

    /// Another handle to the same database, to mount by force or not.
    pub(super) fn with_force(&self, force: bool) -> Database {
        Database { mode: super::OpenMode { force, ..self.mode }, ..self.handle() }
    }
}
