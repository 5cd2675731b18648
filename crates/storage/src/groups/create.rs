//! CREATE and DROP of groups.

use std::path::PathBuf;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{CreateGroup, NewDisk, Redundancy, create};

use super::Groups;
use super::alter::{NewFiles, matches_nothing};
use crate::disks::{OpenDisk, default_failgroups};
use crate::error::{Error, Result};
use crate::files::absolute;
use crate::files::prewrite_all;
use crate::finder::identity;
use crate::mounted::Mounted;
use crate::request::{DiskRequest, GroupRequest};

/// Reads 1M, 512K, 4194304.
fn bytes(what: &'static str, text: &str) -> Result<u64> {
    crate::size::parse(text).ok_or_else(|| {
        Error::new(15238, format!("{what} '{text}' is not a size"))
            .hint("write it as 4M or 4194304")
    })
}

impl Groups {
    /// Opens the disks a request names, patterns expanded, each once. Missing files that have a size are
    /// created, and are removed with `files`.
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
                self.disks().find(std::slice::from_ref(&disk.path)).all()?
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
                        let free = self.disks().check_free(&path, disk.erase.as_deref());
                        let told = |error| if is_there { error } else { matches_nothing(disk) };
                        free.map(|()| None).map_err(told)?
                    }
                };
                let open = self.disks().open(&path, true)?;
                new.extend(made.map(|size| (open.device(), 0..size)));
                let clash = self
                    .all()
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
    pub async fn create(&self, request: &GroupRequest) -> Result<Mounted> {
        let result = self.create_inner(request, false).await;
        result.map_err(|e| e.under(15018, "diskgroup cannot be created"))
    }

    pub(crate) async fn create_inner(
        &self,
        request: &GroupRequest,
        holds_catalog: bool,
    ) -> Result<Mounted> {
        self.check_writable()?;
        let name = request.name.to_uppercase();
        if self.get(&name).is_ok() {
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
        let _one_at_a_time = self.finder().changing().lock().await;
        let remembered = self.finder().remember(opened.iter().map(|(_, o)| o.path.as_path()))?;
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
            // A path left behind would bring the disks of another database here.
            let undone = self.finder().forget_paths(&remembered);
            return Err(undone.err().into_iter().fold(error.into(), Error::over));
        }
        files.keep(true);
        let found = opened.into_iter().map(|(_, open)| open).collect();
        self.mount_found(&name, found, self.mode().force).await
    }

    /// Refuses the name of a group that is found but not mounted: after a restart there would be two
    /// groups of that name.
    async fn check_name_is_free(
        &self,
        name: &str,
        opened: &[(DiskRequest, OpenDisk)],
    ) -> Result<()> {
        let found = self.finder().find_labelled(false, &[]).await;
        found.check_looked()?;
        let requested: Vec<String> =
            opened.iter().map(|(_, o)| absolute(&o.path).to_string_lossy().into_owned()).collect();
        identity::check_free_name(name, &identity::groups_of(&found.labelled), &requested)
    }

    /// The checks of DROP DISKGROUP that need no look at the contents of the group.
    ///
    /// # Errors
    /// No such group; it holds the catalog, or redo.
    pub fn check_drop(&self, name: &str) -> Result<Mounted> {
        self.check_writable()?;
        let mounted = self.get(name)?;
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
        self.redo().check_no_redo(mounted.group.name(), 15039, "diskgroup not dropped")?;
        Ok(mounted)
    }

    /// DROP DISKGROUP of one that [may be dropped](Groups::check_drop).
    ///
    /// # Errors
    /// It has files and `including_contents` is not set.
    #[boxed]
    pub async fn drop_group(&self, mounted: &Mounted, including_contents: bool) -> Result<()> {
        let result = mounted.group.drop_group(including_contents).await;
        result.map_err(|e| Error::from(e).under(15039, "diskgroup not dropped"))?;
        self.forget(mounted.group.name());
        let _one_at_a_time = self.finder().changing().lock().await;
        let all = mounted.disks.all();
        self.finder().forget_disks(all.iter().map(|d| d.path.as_path()))
    }
}
