//! MOUNT and DISMOUNT of groups: all that are found when storage is opened, then each by a statement.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{FoundDisk, Group, LabelStatus, MountOptions};
use cellar_io::EnvExt;

use super::{Groups, returning, spares};
use crate::disks::{OpenDisk, OpenDisks};
use crate::error::{Error, Result};
use crate::finder::{Found, identity};
use crate::mounted::Mounted;
use crate::settings::{DISK_DETACH_TIMEOUT, DISK_TIMEOUT, RESYNC_TARGET};

/// How often each disk of a group is checked, whether or not it is in use.
const PROBE_EVERY: Duration = Duration::from_millis(500);

impl Groups {
    /// Mounts every group that is found, first the one with the catalog: that one by force, if it is
    /// named `force` and does not mount as it is.
    pub(crate) async fn mount_all(&self, force: Option<&str>) -> Result<()> {
        let write = !self.is_read_only();
        let found = self.finder().find_labelled(write, &[]).await;
        let looked = found.check_allowed(write);
        looked.map_err(|e| e.under(15017, "no disk group is mounted"))?;
        let (labelled, problems) = (&found.labelled, &found.problems);
        let groups = identity::groups_of(labelled);
        if groups.is_empty() {
            return Err(self.finder().nothing_found(problems));
        }
        let first = identity::catalog_group(&groups, &self.finder().folder()).map_err(|error| {
            let error = problems.iter().fold(error, |e, p| e.over(p.clone()));
            error.under(15017, "the disk group of the catalog cannot be mounted")
        })?;
        let mut names: Vec<(bool, String)> =
            groups.iter().map(|g| (g.name != first, g.name.clone())).collect();
        names.sort();
        names.dedup();
        self.set_no_disks(found.no_disks.clone());
        for (not_first, name) in names {
            let own = labelled.iter().filter(|l| l.label.group_name == name);
            let own = own.map(|l| l.disk.clone()).collect();
            let forced = force.is_some_and(|f| !not_first && name.eq_ignore_ascii_case(f));
            let whole = identity::check_one(&name, &groups).and_then(|()| found.check_free(&name));
            let mounted = match whole {
                Ok(()) if forced => self.mount_or_force(&name, own, &found).await,
                Ok(()) => self.mount_found(&name, own, self.mode().force).await,
                Err(error) => Err(error),
            };
            match mounted {
                Ok(_) => {}
                // The first group must mount; if another one does not, the rest are served.
                Err(error) if not_first => {
                    let text = format!("disk group \"{name}\" cannot be mounted");
                    self.unmounted().push(error.under(15017, text).of_group(&name));
                }
                Err(error) => {
                    let error = problems.iter().fold(error, |e, p| e.over(p.clone()));
                    let text = format!("disk group \"{name}\" cannot be mounted");
                    return Err(error.under(15017, text).of_group(&name));
                }
            }
        }
        Ok(())
    }

    /// Mounts a group as it is, and only where that cannot be proven to be right, by force.
    async fn mount_or_force(
        &self,
        name: &str,
        own: Vec<OpenDisk>,
        found: &Found,
    ) -> Result<Mounted> {
        match self.mount_found(name, own.clone(), self.mode().force).await {
            Err(error) if error.force_helps() => {}
            mounted => return mounted,
        }
        found.check_all_read()?;
        let mounted = self.mount_found(name, own, true).await?;
        *self.forced() = Some(name.to_owned());
        Ok(mounted)
    }

    pub(super) async fn mount_found(
        &self,
        name: &str,
        found: Vec<OpenDisk>,
        force: bool,
    ) -> Result<Mounted> {
        let settings = self.settings();
        let options = MountOptions {
            read_only: self.is_read_only(),
            force,
            disk_timeout: Duration::from_secs(settings.integer(DISK_TIMEOUT)),
            detach_timeout: Duration::from_secs(settings.integer(DISK_DETACH_TIMEOUT)),
            resync_target: Duration::from_secs(settings.integer(RESYNC_TARGET)),
            checksum_cache_bytes: usize::try_from(self.host().checksum_bytes())
                .unwrap_or(usize::MAX),
            ..MountOptions::default()
        };
        let session = self.host().background(&format!("group {name}"));
        let disks = found
            .iter()
            .map(|d| FoundDisk { device: d.device(), path: d.path.to_string_lossy().into_owned() })
            .collect();
        let env = self.env();
        let group = Group::mount(env, session.waits().clone(), name, disks, options).await?;
        // Descriptors of disks that turned out not to belong are closed here.
        let own: Vec<String> = group.disks().into_iter().filter_map(|d| d.path).collect();
        let disks = found
            .into_iter()
            .filter(|d| own.iter().any(|p| *p == d.path.to_string_lossy()))
            .collect();
        let mounted = self.mounted().add(name, group, OpenDisks::new(disks));
        if !self.is_read_only() {
            let (mounted, env) = (mounted.clone(), Arc::clone(env));
            let this = self.clone();
            let probe = async move {
                let mut tried = returning::Tried::default();
                let mut spares = spares::SparesTried::default();
                while mounted.group.probe_disks().await {
                    this.release(&mounted).await;
                    this.return_found(&mounted, &mut tried).await;
                    this.take_spares(&mounted, &mut spares).await;
                    this.redo().give_up_failed_media(&mounted);
                    this.redo().return_failed_media(&mounted).await;
                    env.sleep(PROBE_EVERY).await;
                }
            };
            self.env().spawn("disk probe", Box::pin(probe));
        }
        self.host().mounted(name, &mounted);
        Ok(mounted)
    }

    /// The group of that name, if opening mounted it by force and no MOUNT FORCE was answered since: the
    /// first one is answered by this.
    pub fn take_forced(&self, name: &str) -> Option<Mounted> {
        let name = name.to_uppercase();
        let mounted = self.get(&name).ok()?;
        self.forced().take_if(|forced| *forced == name).map(|_| mounted)
    }

    /// ALTER DISKGROUP ... MOUNT.
    ///
    /// # Errors
    /// It is mounted already, or too few of its disks are found.
    #[boxed]
    pub async fn mount(&self, name: &str, force: bool) -> Result<Mounted> {
        let name = name.to_uppercase();
        if self.get(&name).is_ok() {
            return Err(Error::new(15013, format!("diskgroup \"{name}\" is already mounted")));
        }
        let write = !self.is_read_only();
        let found = self.finder().find_labelled(write, &self.here()).await;
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
        let result = self.mount_found(&name, own, force).await;
        result.map_err(|error| {
            failed(problems.iter().fold(error, |error, problem| error.over(problem.clone())))
        })
    }

    /// The groups whose disks are found and that are not mounted, by name.
    #[boxed]
    pub async fn unmounted_names(&self) -> Vec<String> {
        let found = self.finder().find_labelled(false, &self.here()).await;
        let members = found.labelled.into_iter().filter(|l| l.label.status == LabelStatus::Member);
        let mut names: Vec<String> = members.map(|l| l.label.group_name).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.get(name).is_err());
        names
    }

    /// ALTER DISKGROUP ... DISMOUNT.
    ///
    /// # Errors
    /// It holds the catalog, or had stopped.
    #[boxed]
    pub async fn dismount(&self, name: &str, force: bool) -> Result<()> {
        let mounted = self.get(name)?;
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
            self.redo().check_no_redo(mounted.group.name(), 15027, "disk group not dismounted")?;
        }
        self.host().release(mounted.group.name());
        match mounted.group.dismount().await {
            Ok(()) => {}
            Err(_) if force => mounted.group.abandon(),
            Err(error) => return Err(error.into()),
        }
        self.forget(mounted.group.name());
        // A query that began earlier may have opened a segment meanwhile.
        self.host().release(mounted.group.name());
        Ok(())
    }

    pub(super) fn forget(&self, name: &str) {
        self.mounted().remove(name);
        self.host().gone(name);
    }

    /// Dismounts every group cleanly.
    pub(crate) async fn dismount_all(&self) -> Result<()> {
        let mut failure = Ok(());
        for mounted in self.all() {
            self.release(&mounted).await;
            self.host().release(mounted.group.name());
            if let Err(error) = mounted.group.dismount().await {
                failure = Err(Error::from(error));
            }
            self.host().gone(mounted.group.name());
        }
        self.mounted().clear();
        failure
    }
}
