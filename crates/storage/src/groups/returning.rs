//! OFFLINE, ONLINE and REPLACE DISK: which device a disk that is away comes back by.
//!
//! A disk is found by its label wherever disk_string looks, whatever its path is now. A device that is
//! still open here, because the disk failed or was taken offline, is closed first: its lock is ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{DiskInfo, DiskStatus, FoundDisk, LabelStatus, NewDisk, OnlineHow};
use cellar_io::EnvExt;

use super::Groups;
use super::alter::no_failgroup;
use crate::disks::OpenDisk;
use crate::error::{Error, Result};
use crate::files::absolute;
use crate::finder::Labelled;
use crate::mounted::Mounted;
use crate::request::{DiskRequest, DiskTarget, OfflineRequest, OnlineRequest};

/// How long the remaining users of a closed device may take to release it.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
const CLOSED_EVERY: Duration = Duration::from_millis(20);
/// The same for a disk that left because it did not answer: an hour.
const HUNG_ROUNDS_MAX: u32 = 7200;
/// Rounds of the probe after which an absent disk is retried at the latest: a minute.
const ROUNDS_MAX: u32 = 120;

impl Groups {
    /// OFFLINE DISK: takes disks out for a while. Returns their names.
    ///
    /// # Errors
    /// No such disk, or something would be lost.
    #[boxed]
    pub async fn offline_disks(
        &self,
        group: &str,
        request: &OfflineRequest,
    ) -> Result<Vec<String>> {
        self.check_writable()?;
        let mounted = self.get(group)?;
        let online = |d: &DiskInfo| matches!(d.status, DiskStatus::Online | DiskStatus::Returning);
        let names = named(&mounted, &request.disks, online)?;
        let disks = mounted.group.disks();
        let leave = disks.iter().filter(|disk| names.contains(&disk.name));
        let failgroups = leave.map(|disk| disk.failgroup.clone()).collect();
        if self.redo().redo_is_lost_without(mounted.group.name(), &failgroups) {
            let text = format!("acknowledged commits may be on {} alone", names.join(", "));
            return Err(Error::new(15066, text)
                .hint("add another medium for redo first, or bring a failed one back"));
        }
        mounted.group.offline_disks(&names, request.drop_after).await?;
        Ok(names)
    }

    /// ONLINE DISK: brings disks back. Returns their names; what they missed is copied in the background.
    ///
    /// # Errors
    /// No such disk; its device is not found, or is not as it was. Those before it are back.
    #[boxed]
    pub async fn online_disks(&self, group: &str, request: &OnlineRequest) -> Result<Vec<String>> {
        self.check_writable()?;
        let how = OnlineHow { force: request.force, power: request.rebalance.power };
        let mounted = self.get(group)?;
        let away = |d: &DiskInfo| d.status == DiskStatus::Offline;
        let names = match &request.disks {
            Some(targets) => named(&mounted, targets, away)?,
            None => {
                let disks = mounted.group.disks().into_iter().filter(away);
                disks.map(|d| d.name).collect()
            }
        };
        let mut failure = Ok(());
        for name in &names {
            // A disk that is not there does not hold up the others.
            let back = self.online_disk(&mounted, name, how).await;
            failure = failure.and(back);
        }
        failure.map(|()| names)
    }

    /// Waits until returning disks have what they missed, and the redo log is on them again.
    ///
    /// # Errors
    /// One does not get it.
    #[boxed]
    pub async fn wait_returned(&self, mounted: &Mounted) -> Result<()> {
        mounted.group.wait_returned().await?;
        self.redo().return_media(mounted).await
    }

    async fn online_disk(&self, mounted: &Mounted, name: &str, how: OnlineHow) -> Result<()> {
        let (this, mounted) = (self.clone(), mounted.clone());
        let name = name.to_owned();
        let (told, answer) = futures_channel::oneshot::channel();
        // Runs to its end even if the caller goes away: the path must stay what it is.
        let task = async move {
            let _one_at_a_time = this.finder().changing().lock().await;
            // The caller may be gone.
            let _ = told.send(this.online_locked(&mounted, &name, how).await);
        };
        self.env().spawn("online disk", Box::pin(task));
        answer.await.map_err(|_| Error::new(1013, "the program ends"))?
    }

    async fn online_locked(&self, mounted: &Mounted, name: &str, how: OnlineHow) -> Result<()> {
        let disks = mounted.group.disks();
        let disk = disks.iter().find(|d| d.name == name);
        if disk.is_some_and(|d| d.status == DiskStatus::Returning) {
            // The mount, or another, has begun with it.
            return Ok(());
        }
        let disk = disk.filter(|d| d.status == DiskStatus::Offline);
        // Faults of other disks are reported by the library.
        let Some(disk) = disk else {
            return Err(mounted.group.check_away(name).err().map_or_else(
                || Error::new(15281, format!("disk {name} is not away any more")),
                Error::from,
            ));
        };
        // One that answers, as after a mount, comes back by the device that is open.
        if let (None, Some(path)) = (&disk.failure, &disk.path)
            && let Some(open) = mounted.disks.find(path)
        {
            let found = FoundDisk { device: open.device(), path: path.clone() };
            return match mounted.group.online_disk(name, found, how).await {
                Err(cellar_diskgroup::Error::DiskUnusable { number: 15281, .. }) => Ok(()),
                other => Ok(other?),
            };
        }
        self.close_away(mounted, disk).await;
        let open = self.device_of(mounted, disk).await?;
        let path = open.path.to_string_lossy().into_owned();
        let found = FoundDisk { device: open.device(), path };
        mounted.group.online_disk(name, found, how).await?;
        mounted.disks.add(open);
        Ok(())
    }

    /// Closes the device of a disk that is away, so that it can be opened again.
    async fn close_away(&self, mounted: &Mounted, disk: &DiskInfo) {
        let Some(path) = disk.path.as_deref() else { return };
        let closed = mounted.disks.find(path);
        // In this order: a disk that is open here and of no group is one that left for good.
        mounted.disks.keep(|open| open.path.to_string_lossy() != path);
        mounted.group.close_disk(&disk.name);
        let Some(closed) = closed else { return };
        let device = Arc::downgrade(&closed.device());
        drop(closed);
        // Requests that never completed may still hold it.
        let began = self.env().now();
        while device.strong_count() > 0 && self.env().now().since(began) < CLOSED_WITHIN {
            self.env().sleep(CLOSED_EVERY).await;
        }
    }

    /// The device with a disk's label, opened.
    async fn device_of(&self, mounted: &Mounted, disk: &DiskInfo) -> Result<OpenDisk> {
        let here: Vec<PathBuf> =
            self.all().iter().flat_map(|m| m.disks.all().to_vec()).map(|d| d.path).collect();
        let found = self.finder().find_labelled(true, &here).await;
        found.check_looked()?;
        let group = mounted.group.uuid();
        let is_it = |l: &Labelled| {
            l.label.group == group
                && l.label.disk == disk.uuid
                && l.label.status == LabelStatus::Member
        };
        let problems = found.problems;
        match found.labelled.into_iter().find(is_it) {
            Some(found) => Ok(found.disk),
            None => {
                let text = format!("disk {} is not found where disk_string looks", disk.name);
                let path = disk.path.as_deref();
                let at = path.map_or(String::new(), |path| format!(" ({path})"));
                let error = Error::new(15075, format!("{text}{at}")).hint(format!(
                    "plug it in again; or put another in its place: ALTER DISKGROUP {} REPLACE \
                     DISK {} WITH 'path'",
                    mounted.group.name(),
                    disk.name
                ));
                Err(problems.iter().fold(error, |e, p| e.over(p.clone())))
            }
        }
    }

    /// REPLACE DISK: another device takes the place of an absent disk. A path where nothing exists yet
    /// becomes a file of its SIZE, or of that of the disk.
    ///
    /// # Errors
    /// No such disk, or it is not away; the device will not do.
    #[boxed]
    pub async fn replace_disk(
        &self,
        group: &str,
        name: &str,
        with: &DiskRequest,
        power: Option<u32>,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<()> {
        self.check_writable()?;
        let mounted = self.get(group)?;
        let name = name.to_uppercase();
        mounted.group.check_away(&name)?;
        let old = mounted.group.disks().into_iter().find(|d| d.name == name);
        let bytes = old.as_ref().map(|d| d.bytes);
        if let Some(old) = &old {
            // The new one may be in the same place.
            let _one_at_a_time = self.finder().changing().lock().await;
            self.close_away(&mounted, old).await;
        }
        let with = DiskRequest { size: with.size.or(bytes), ..with.clone() };
        let mut joining = self.joining(&mounted, std::slice::from_ref(&with), true)?;
        let [_] = joining.as_slice() else {
            let text = format!("'{}' names {} disks, and one is needed", with.path, joining.len());
            return Err(Error::new(15031, text).hint("name one disk by its path"));
        };
        let files = self.made_files(&mut joining, progress).await?;
        let (this, force) = (self.clone(), with.force);
        let (told, answer) = futures_channel::oneshot::channel();
        let task = async move {
            let _one_at_a_time = this.finder().changing().lock().await;
            let mut files = files;
            let result = async {
                let remembered =
                    this.finder().remember(joining.iter().map(|j| j.path.as_path()))?;
                let Some(open) = joining.pop().and_then(|j| j.open) else {
                    return Err(Error::new(15031, "the new disk is not there"));
                };
                let new = NewDisk {
                    device: open.device(),
                    path: open.path.to_string_lossy().into_owned(),
                    name: None,
                    failgroup: None,
                    size: None,
                    force,
                };
                // Files of the log have one copy each: those of the lost disk are made anew, on the new
                // one.
                let failgroup = old.as_ref().map_or(name.as_str(), |old| old.failgroup.as_str());
                this.redo().drop_lost_files(mounted.group.name(), failgroup).await?;
                files.keep(true);
                if let Err(error) = mounted.group.replace_disk(&name, new, power).await {
                    let now = mounted.group.disks().into_iter().find(|d| d.name == name);
                    let taken = now.map(|d| d.uuid) != old.as_ref().map(|d| d.uuid);
                    if taken || mounted.group.info().stopped.is_some() {
                        // It has the place now, and returns like any other absent disk.
                        mounted.disks.add(open);
                        return Err(error.into());
                    }
                    files.keep(false);
                    let undone = this.finder().forget_paths(&remembered);
                    return Err(undone.err().into_iter().fold(error.into(), Error::over));
                }
                mounted.disks.add(open);
                this.forget_replaced(&mounted, old)
            };
            // The caller may be gone.
            let _ = told.send(result.await);
        };
        self.env().spawn("replace disk", Box::pin(task));
        answer.await.map_err(|_| Error::new(1013, "the program ends"))?
    }

    /// The path of a disk that was replaced is of no group any more.
    fn forget_replaced(&self, mounted: &Mounted, old: Option<DiskInfo>) -> Result<()> {
        let kept = |path: &String| mounted.disks.find(path).is_some();
        match old.and_then(|disk| disk.path).filter(|path| !kept(path)) {
            Some(path) => self.finder().forget_disks(std::iter::once(Path::new(&path))),
            None => Ok(()),
        }
    }

    /// Checks whether disks that went away by themselves are there again, and brings them back.
    pub(super) async fn return_found(&self, mounted: &Mounted, tried: &mut Tried) {
        let away = mounted.group.offline_names();
        for name in away {
            let disks = mounted.group.disks();
            let Some(disk) = disks.iter().find(|d| d.name == name) else { continue };
            match disk.path.as_deref() {
                // It failed in another way than by being gone: the next mount tries it.
                Some(_) if !disk.gone => continue,
                Some(path) if !absolute(Path::new(path)).exists() => continue,
                _ => {}
            }
            // At once, then less and less often, even if it came back: what is there may not be the disk,
            // and if it is, it may leave again at once.
            let wait = tried.0.entry(name.clone()).or_default();
            if wait.left > 0 {
                wait.left -= 1;
                continue;
            }
            wait.last = match disk.timed_out {
                // A disk that stalls under load would only stall again, and hold up the writers.
                true => (wait.last * 4).clamp(ROUNDS_MAX, HUNG_ROUNDS_MAX),
                false => (wait.last * 2).clamp(4, ROUNDS_MAX),
            };
            wait.left = wait.last;
            // The reason why a disk does not come back is reported to a statement that asks for it.
            let _ = self.online_disk(mounted, &name, OnlineHow::default()).await;
        }
    }
}

/// When disks that are away are tried again, by name.
#[derive(Default)]
pub(super) struct Tried(BTreeMap<String, Wait>);

/// Rounds until the next try, and how many there were until this one.
#[derive(Clone, Copy, Default)]
struct Wait {
    left: u32,
    last: u32,
}

/// The names of the disks that are named, each once.
fn named(
    mounted: &Mounted,
    targets: &[DiskTarget],
    of_group: impl Fn(&DiskInfo) -> bool,
) -> Result<Vec<String>> {
    let members = mounted.group.disks();
    let mut names: Vec<String> = Vec::new();
    for target in targets {
        match target {
            DiskTarget::Disk(name) => names.push(name.to_uppercase()),
            DiskTarget::FailGroup(name) => {
                let wanted = name.to_uppercase();
                let mut of_it = members.iter().filter(|d| d.failgroup == wanted).peekable();
                if of_it.peek().is_none() {
                    return Err(no_failgroup(mounted.group.name(), &members, &wanted));
                }
                names.extend(of_it.filter(|d| of_group(d)).map(|d| d.name.clone()));
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}
