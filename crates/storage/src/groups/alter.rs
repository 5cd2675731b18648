//! ALTER DISKGROUP of disks: ADD and DROP, UNDROP, RENAME, REBALANCE.
//!
//! The path of a disk is durable in disk_string before the disk becomes a member; a refused ADD removes
//! it again, with any file made for the disk. Work that has begun runs to its end even if the caller goes
//! away.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_diskgroup::{
    AlterDisks, DiskInfo, DropDisk, LabelStatus, NewDisk, POWER_DEFAULT, POWER_MAX, Redundancy,
};
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture, Op,
};
use futures_util::StreamExt;

use super::Groups;
use super::resize::resized;
use crate::disks::{Below, OpenDisk, Standing, joining_failgroups};
use crate::error::{Error, NextStep, Result};
use crate::files::absolute;
use crate::files::{make_file, prewrite_all};
use crate::mounted::Mounted;
use crate::request::{ChangeRequest, DiskRequest, DiskTarget, DropRequest};
use crate::settings::ASM_POWER_LIMIT;

/// What a change of disks started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Names of the disks that joined.
    pub added: Vec<String>,
    /// Names of the disks that are leaving.
    pub dropped: Vec<String>,
    /// Names of the disks that get another size.
    pub resized: Vec<String>,
    /// Those among them whose files have holes for which the file system has no space.
    pub sparse: Vec<String>,
    /// AUs that the rebalance will move.
    pub aus: u64,
    /// At which power.
    pub power: u32,
}

/// A disk that is to join.
pub(super) struct Joining {
    request: DiskRequest,
    pub path: PathBuf,
    /// `None` for a file that is still to be made.
    pub open: Option<OpenDisk>,
    below: Below,
}

impl Groups {
    /// ADD and DROP: one change of the metadata, one rebalance, which this does not wait for.
    ///
    /// # Errors
    /// A disk, name or power that will not do, or no room for what must move: then nothing has
    /// changed. Or a disk fails.
    #[boxed]
    pub async fn alter_disks(
        &self,
        group: &str,
        request: &ChangeRequest,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Changed> {
        self.check_writable()?;
        let mounted = self.get(group)?;
        self.release(&mounted).await;
        let mut joining = self.joining(&mounted, &request.add, true)?;
        // Most faults are found before gigabytes are written.
        let change = self.change_of(&mounted, request, &joining)?;
        mounted.group.explain_work(&change)?;
        let mut files = NewFiles::default();
        self.make_files(&mut joining, &mut files, progress).await?;
        let change = self.change_of(&mounted, request, &joining)?;
        let this = self.clone();
        let (told, answer) = futures_channel::oneshot::channel();
        let (say, mut heard) = futures_channel::mpsc::unbounded();
        let task = async move {
            // The caller may be gone.
            let written = move |done, total| {
                let _ = say.unbounded_send((done, total));
            };
            let result = this.alter_to_the_end(&mounted, joining, change, files, &written).await;
            let _ = told.send(result);
        };
        self.env().spawn("alter disk group", Box::pin(task));
        while let Some((done, total)) = heard.next().await {
            progress(done, total);
        }
        answer.await.map_err(|_| Error::new(1013, "the program ends"))?
    }

    /// A refusal to drop disks. If the redo log has files on them, it offers the way out: such a file is
    /// tied to one failure group, and does not move.
    fn or_move_the_log(&self, mounted: &Mounted, change: &AlterDisks, error: Error) -> Error {
        let goes = |disk: &&DiskInfo| change.drop.iter().any(|drop| drop.name == disk.name);
        let disks = mounted.group.disks();
        let (going, staying): (Vec<&DiskInfo>, Vec<&DiskInfo>) = disks.iter().partition(goes);
        let mut goes: BTreeSet<&str> = going.iter().map(|disk| &*disk.failgroup).collect();
        staying.iter().for_each(|disk| _ = goes.remove(&*disk.failgroup));
        let media = self.redo().media_in(mounted.group.name(), &goes);
        let (false, Some(first)) = (staying.is_empty(), media.first()) else { return error };
        let group = mounted.group.name();
        let add = format!("alter database add logfile member '+{group}'");
        let drop = format!("alter database drop logfile member '{first}'");
        error
            .under(
                15028,
                format!("the redo log is on {}, and its files stay there", media.join(", ")),
            )
            .hint(format!("move it first: {add}; {drop}"))
    }

    async fn alter_to_the_end(
        &self,
        mounted: &Mounted,
        joining: Vec<Joining>,
        change: AlterDisks,
        mut files: NewFiles,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Changed> {
        let _one_at_a_time = self.finder().changing().lock().await;
        let group = &mounted.group;
        // Held until the file is in use: zeros of one RESIZE must not overwrite the data of another.
        let sparse = self.make_larger(mounted, &change.resize, progress).await?;
        let aus = group.explain_work(&change)?.plan.moves.len() as u64;
        let before: BTreeSet<u16> = group.disks().iter().map(|d| d.number).collect();
        let remembered = self.finder().remember(joining.iter().map(|j| j.path.as_path()))?;
        // If this is cut off in the middle, it is unknown whether they joined.
        files.kept = true;
        if let Err(error) = group.alter_disks(&change).await {
            // If the group has stopped, only the next mount knows which disks joined.
            if group.info().stopped.is_some() {
                return Err(error.into());
            }
            files.kept = false;
            // A path left behind would bring the disks of another database here.
            let undone = self.finder().forget_paths(&remembered);
            let error = self.or_move_the_log(mounted, &change, error.into());
            return Err(undone.err().into_iter().fold(error, Error::over));
        }
        joining.into_iter().filter_map(|j| j.open).for_each(|open| mounted.disks.add(open));
        let added = group.disks().into_iter().filter(|d| !before.contains(&d.number));
        Ok(Changed {
            added: added.map(|d| d.name).collect(),
            dropped: change.drop.into_iter().map(|d| d.name).collect(),
            resized: change.resize.into_iter().map(|d| d.name).collect(),
            sparse,
            aus,
            power: change.power.unwrap_or_default(),
        })
    }

    /// The request for the library: failure groups replaced by the names of their disks, and a failure
    /// group for each new disk.
    pub(super) fn change_of(
        &self,
        mounted: &Mounted,
        request: &ChangeRequest,
        joining: &[Joining],
    ) -> Result<AlterDisks> {
        let members = mounted.group.disks();
        let external = mounted.group.info().redundancy == Redundancy::External;
        // Of one that is missing nobody knows what it stood on.
        let known: Vec<Standing> = members
            .iter()
            .map(|d| {
                let open = d.path.as_deref().and_then(|path| mounted.disks.find(path));
                let (name, failgroup) = (d.name.clone(), d.failgroup.clone());
                Standing { name, failgroup, below: open.map(|open| open.below) }
            })
            .collect();
        let below: Vec<Below> = joining.iter().map(|j| j.below.clone()).collect();
        let default = match external {
            true => vec![None; joining.len()],
            false => joining_failgroups(&known, &below),
        };
        let add = joining.iter().zip(default).map(|(j, failgroup)| NewDisk {
            device: j.device(),
            path: j.path.to_string_lossy().into_owned(),
            name: j.request.name.clone(),
            failgroup: j.request.failgroup.clone().or(failgroup),
            size: j.request.size,
            force: j.request.force,
        });
        Ok(AlterDisks {
            add: add.collect(),
            drop: leaving(mounted.group.name(), &members, &request.drop)?,
            resize: resized(mounted.group.name(), &members, &request.resize)?,
            power: Some(self.power(request.rebalance.power)?),
        })
    }

    /// The power of a rebalance for which perhaps none was given.
    ///
    /// # Errors
    /// 15238: it is out of its range.
    pub fn power(&self, given: Option<u32>) -> Result<u32> {
        let limit = self.settings().integer(ASM_POWER_LIMIT);
        match given.unwrap_or(u32::try_from(limit).unwrap_or(POWER_DEFAULT)) {
            power if power <= POWER_MAX => Ok(power),
            power => Err(Error::new(15238, format!("POWER {power} is out of its range"))
                .hint(format!("use 0 (stop) to {POWER_MAX}"))),
        }
    }

    /// The disks of an ADD: opened if they are there, for writing if `write`.
    pub(super) fn joining(
        &self,
        mounted: &Mounted,
        add: &[DiskRequest],
        write: bool,
    ) -> Result<Vec<Joining>> {
        let mut all: Vec<Joining> = Vec::new();
        for request in add {
            check_pattern(&request.path, request.erase.as_deref())?;
            let paths = match request.path.contains(['*', '?']) {
                true => self.disks().find(std::slice::from_ref(&request.path)).all()?,
                false => vec![absolute(Path::new(&request.path))],
            };
            if paths.is_empty() {
                return Err(matches_nothing(request));
            }
            for path in paths {
                let path = absolute(&path);
                self.check_not_member(&path)?;
                if all.iter().any(|j| j.path == path) {
                    let text = format!("disk {} is named twice", path.display());
                    return Err(Error::new(15020, text).hint("name each disk once"));
                }
                let new = match path.exists() {
                    true => {
                        self.disks().check_free(&path, request.erase.as_deref())?;
                        let open = self.disks().open(&path, write)?;
                        let below = open.below.clone();
                        Joining { request: request.clone(), path, open: Some(open), below }
                    }
                    false => not_there_yet(mounted, request, path)?,
                };
                all.push(new);
            }
        }
        Ok(all)
    }

    /// Refuses a disk that is already one of a mounted group, by whatever path, links included.
    pub(super) fn check_not_member(&self, path: &Path) -> Result<()> {
        let wanted = Place::of(path);
        for mounted in self.all() {
            let is_it = |d: &DiskInfo| {
                let own = d.path.as_deref().map(Path::new);
                own.is_some_and(|own| {
                    own == path || wanted.is_some_and(|w| Place::of(own) == Some(w))
                })
            };
            let Some(disk) = mounted.group.disks().into_iter().find(is_it) else { continue };
            let (group, name) = (mounted.group.name(), &disk.name);
            let own = disk.path.as_deref().filter(|own| Path::new(own) != path);
            let by = own.map_or(String::new(), |own| format!(", as {own}"));
            let text = format!(
                "disk {} is already mounted: it is {name} of disk group {group}{by}",
                path.display()
            );
            let hint = match disk.in_sync || disk.status.is_leaving() {
                true => NextStep::from("name another disk; see which there are: cellar disks, ")
                    .cellar("asm", "lsdsk -k"),
                false => format!(
                    "it is OFFLINE and has missed what was written since: ALTER DISKGROUP {group} \
                     ONLINE DISK {name} brings it back"
                )
                .into(),
            };
            return Err(Error::new(15029, text).hint(hint));
        }
        Ok(())
    }

    /// As [`Groups::make_files`]; they go with what this gives back.
    pub(super) async fn made_files(
        &self,
        joining: &mut [Joining],
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<NewFiles> {
        let mut files = NewFiles::default();
        self.make_files(joining, &mut files, progress).await?;
        Ok(files)
    }

    /// Makes the files that are not there yet, written with zeros, and opens them.
    async fn make_files(
        &self,
        joining: &mut [Joining],
        files: &mut NewFiles,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<()> {
        let mut new = Vec::new();
        for j in joining.iter_mut().filter(|j| j.open.is_none()) {
            let size = j.request.size.expect("a file to be made has a size");
            let made = make_file(&j.path, size)?;
            // Whoever opens it first has it: from then on it is not ours to remove.
            let id = made.metadata().map(|m| (m.dev(), m.ino())).ok();
            drop(made);
            let open = self.disks().open(&j.path, true)?;
            files.made.extend(id.map(|id| (j.path.clone(), id)));
            new.push((open.device(), 0..size));
            j.below = open.below.clone();
            j.open = Some(open);
        }
        let total = new.iter().map(|(_, range)| range.end).sum();
        prewrite_all(&new, total, progress).await
    }

    /// The path of a disk that has left a group and is marked FORMER, so that it may be unplugged. `disk`
    /// is the name it had, in any case, or its path. Returns both.
    #[boxed]
    pub async fn former(&self, disk: &str) -> Option<(String, PathBuf)> {
        let wanted = disk.to_uppercase();
        let members: Vec<DiskInfo> = self.all().iter().flat_map(|m| m.group.disks()).collect();
        let own: BTreeSet<PathBuf> =
            members.iter().filter_map(|d| Some(absolute(Path::new(d.path.as_deref()?)))).collect();
        let mut paths = self.disks().find(&self.finder().patterns()).paths;
        // Disks that left while this database was open: disk_string no longer has their paths.
        paths.extend(self.finder().left().iter().cloned());
        paths.push(PathBuf::from(disk));
        for path in paths.into_iter().map(|p| absolute(&p)).filter(|p| !own.contains(p)) {
            let Some(label) = self.finder().label(&path).await else { continue };
            let is_it = label.disk_name == wanted || path == absolute(Path::new(disk));
            if is_it && label.status == LabelStatus::Former {
                return Some((label.disk_name, path));
            }
        }
        None
    }
}

/// The target of a path, however the path is written: a device, or a file of a file system.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Device(u64),
    File(u64, u64),
}

impl Place {
    fn of(path: &Path) -> Option<Place> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(match metadata.file_type().is_block_device() {
            true => Place::Device(metadata.rdev()),
            false => Place::File(metadata.dev(), metadata.ino()),
        })
    }
}

/// The new files of a change: removed again unless the change succeeds.
#[derive(Default)]
pub(super) struct NewFiles {
    /// Each with its device and inode.
    made: Vec<(PathBuf, (u64, u64))>,
    kept: bool,
}

impl NewFiles {
    /// Makes the file of a disk that is not there yet, if it may be made; its size.
    pub(super) fn make(&mut self, request: &DiskRequest, path: &Path) -> Result<u64> {
        let (_, size) = may_be_made(request, path)?;
        let made = make_file(path, size)?;
        let id = made.metadata().map(|m| (m.dev(), m.ino())).ok();
        self.made.extend(id.map(|id| (path.to_owned(), id)));
        Ok(size)
    }

    /// Whether they stay.
    pub(super) fn keep(&mut self, keep: bool) {
        self.kept = keep;
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        if !self.kept {
            for (path, id) in &self.made {
                let here = std::fs::symlink_metadata(path);
                if here.is_ok_and(|m| (m.dev(), m.ino()) == *id) {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }
}

impl Joining {
    fn device(&self) -> Arc<dyn Device> {
        match &self.open {
            Some(open) => open.device(),
            None => Arc::new(Planned {
                path: self.path.to_string_lossy().into(),
                size: self.request.size.unwrap_or(0),
            }),
        }
    }
}

pub(super) fn matches_nothing(request: &DiskRequest) -> Error {
    let text = format!("disk specification '{}' matches no disks", request.path);
    Error::new(15031, text).hint(
        "see which disks there are: cellar disks; or give a SIZE, and a file of that size is made",
    )
}

/// ERASE gives up one disk: a pattern may also match its partitions, which have the same serial number.
pub(super) fn check_pattern(path: &str, erase: Option<&str>) -> Result<()> {
    match (path.contains(['*', '?']), erase) {
        (true, Some(serial)) => {
            let text = format!("ERASE '{serial}' is given for '{path}', which may be many disks");
            Err(Error::new(15033, text).hint("name the disk that is to be erased by its path"))
        }
        _ => Ok(()),
    }
}

/// The directory and the size of a file that is to be made.
fn may_be_made<'a>(request: &DiskRequest, path: &'a Path) -> Result<(&'a Path, u64)> {
    let parent = path.parent().filter(|p| p.is_dir() && !p.starts_with("/dev"));
    let (Some(parent), Some(size)) = (parent, request.size) else {
        return Err(matches_nothing(request));
    };
    if let Some(serial) = &request.erase {
        let text = format!("ERASE '{serial}' is given, and {} is not there", path.display());
        return Err(Error::new(15031, text).hint("leave ERASE out, or check the path"));
    }
    Ok((parent, size))
}

/// A file that is to be made: not below /dev, where a misspelt name would become a file.
fn not_there_yet(mounted: &Mounted, request: &DiskRequest, path: PathBuf) -> Result<Joining> {
    let (parent, _) = may_be_made(request, &path)?;
    // What it will stand on, if a disk here stands on the same file system.
    let device = |path: &Path| std::fs::metadata(path).ok().map(|m| m.dev());
    let here = device(parent);
    let disks = mounted.disks.all();
    let beside = disks.iter().find(|d| d.below.is_file && device(&d.path) == here);
    let below = beside.map(|d| d.below.clone());
    let below = below.unwrap_or(Below { is_file: true, ..Below::default() });
    Ok(Joining { request: request.clone(), path, open: None, below })
}

/// The disks that a statement wants to leave, by name.
fn leaving(group: &str, members: &[DiskInfo], drop: &[DropRequest]) -> Result<Vec<DropDisk>> {
    let mut all = Vec::new();
    for request in drop {
        let force = request.force;
        match &request.target {
            DiskTarget::Disk(name) => all.push(DropDisk { name: name.to_uppercase(), force }),
            DiskTarget::FailGroup(name) => {
                let wanted = name.to_uppercase();
                let of_it = members.iter().filter(|d| d.failgroup == wanted);
                let before = all.len();
                all.extend(of_it.map(|d| DropDisk { name: d.name.clone(), force }));
                if all.len() == before {
                    return Err(no_failgroup(group, members, &wanted));
                }
            }
        }
    }
    Ok(all)
}

pub(super) fn no_failgroup(group: &str, members: &[DiskInfo], wanted: &str) -> Error {
    let known: BTreeSet<&str> = members.iter().map(|d| d.failgroup.as_str()).collect();
    let known: Vec<&str> = known.into_iter().collect();
    let text = format!("disk group \"{group}\" has no failure group \"{wanted}\"");
    Error::new(15054, text).hint(format!("its failure groups are {}", known.join(", ")))
}

/// The name that a disk gets for which none is given.
pub(super) fn numbered(group: &str, no: u16) -> String {
    use cellar_diskgroup::names::{DiskName, GroupName};
    GroupName::new(group).map_or_else(
        |_| format!("{group}_{no:04}"),
        |group| DiskName::numbered(&group, no).as_str().to_owned(),
    )
}

/// A file that does not exist yet: only its size is known, and it can be neither read nor written.
struct Planned {
    path: Arc<str>,
    size: u64,
}

impl Planned {
    fn absent<T>(&self, op: Op) -> IoFuture<'static, T>
    where
        T: Send + 'static,
    {
        let error = IoError::new(IoErrorKind::NotFound, &self.path, op, 0, 0);
        Box::pin(async move { Err(error) })
    }
}

impl Device for Planned {
    fn geometry(&self) -> Geometry {
        Geometry {
            name: Arc::clone(&self.path),
            size: self.size,
            logical_sector: 512,
            physical_sector: 4096,
            transfer_max: 0,
            queue_depth: 0,
            volatile_cache: true,
            fast_zero: false,
        }
    }

    fn read(&self, _: Io, _: u64, _: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.absent(Op::Read)
    }

    fn write(&self, _: Io, _: u64, _: Vec<Bytes>, _: Durability) -> IoFuture<'_, ()> {
        self.absent(Op::Write)
    }

    fn flush(&self, _: Io) -> IoFuture<'_, ()> {
        self.absent(Op::Flush)
    }

    fn discard(&self, _: Io, _: u64, _: u64, _: Discard) -> IoFuture<'_, ()> {
        self.absent(Op::Discard)
    }
}
