//! Disks that leave for a while: OFFLINE, ONLINE and REPLACE as calls of the instance, and in words
//! what they set going.

use cellar_diskgroup::OnlineHow;
use cellar_instance::database::{DropTarget, Mounted, OfflineTarget};

use super::disks::disks;
use super::waiting::What;
use super::{InstanceHost, disk_request, group_error};
use crate::error::Error;
use crate::statement::{Dropped, GroupAction, OfflineDisks, OnlineDisks, Rebalance, ReplaceDisks};

impl InstanceHost {
    /// Does `action` if it is one on disks that leave or return; what was done, in words.
    pub(super) async fn alter_away(
        &self,
        mounted: &Mounted,
        action: &GroupAction,
    ) -> Result<Option<String>, Error> {
        let told = match action {
            GroupAction::Offline(offline) => self.offline(mounted, offline).await?,
            GroupAction::Online(online) => self.online(mounted, online).await?,
            GroupAction::Replace(replace) => self.replace(mounted, replace).await?,
            _ => return Ok(None),
        };
        Ok(Some(format!("{}: {told}.", mounted.group.name())))
    }

    async fn offline(&self, mounted: &Mounted, offline: &OfflineDisks) -> Result<String, Error> {
        let targets: Vec<DropTarget> = offline.disks.iter().map(target).collect();
        let group = &mounted.group;
        let names = self
            .database
            .storage()
            .groups()
            .offline_disks(group.name(), &targets, offline.drop_after)
            .await?;
        if names.is_empty() {
            return Ok("no disk of it was online".to_owned());
        }
        let away = group.away_disks();
        let time = away.iter().filter(|d| names.contains(&d.name)).map(|d| d.drop_in).min();
        let minutes = time.map_or(0, |time| time.as_secs().div_ceil(60));
        let stuck = away.iter().filter(|d| names.contains(&d.name)).find_map(|d| d.stuck.as_ref());
        let after = match stuck {
            Some(why) => format!("not dropped by itself: {why}"),
            None => format!("dropped after {minutes} minutes unless ONLINE DISK brings them back"),
        };
        Ok(format!("{} offline; changes are tracked for resync; {after}", disks(names.len())))
    }

    async fn online(&self, mounted: &Mounted, online: &OnlineDisks) -> Result<String, Error> {
        let target = match &online.disks {
            None => OfflineTarget::All,
            Some(disks) => OfflineTarget::Some(disks.iter().map(target).collect()),
        };
        let how = OnlineHow { force: online.force, power: online.rebalance.power };
        let names = self
            .database
            .storage()
            .groups()
            .online_disks(mounted.group.name(), &target, how)
            .await?;
        if names.is_empty() {
            return Ok("no disk of it was offline".to_owned());
        }
        let what = format!("{} online", disks(names.len()));
        self.returned(mounted, online.rebalance, &names, what).await
    }

    async fn replace(&self, mounted: &Mounted, replace: &ReplaceDisks) -> Result<String, Error> {
        let group = mounted.group.name();
        for (name, with) in replace.names.iter().zip(&replace.with) {
            let request = disk_request(with.clone());
            let making = self.waiting.for_what(What::Making(0, 0));
            let wrote = |done, total| making.now(What::Making(done, total));
            let power = replace.rebalance.power;
            self.database
                .storage()
                .groups()
                .replace_disk(group, name, &request, power, &wrote)
                .await?;
        }
        let what = format!("{} replaced", disks(replace.names.len()));
        self.returned(mounted, replace.rebalance, &replace.names, what).await
    }

    /// How much is to be copied; or, where WAIT asks for it, that it was.
    async fn returned(
        &self,
        mounted: &Mounted,
        rebalance: Rebalance,
        names: &[String],
        what: String,
    ) -> Result<String, Error> {
        let group = &mounted.group;
        let sum: u64 = group.returns().iter().map(|r| r.bytes_total).sum();
        let mb = sum.div_ceil(1 << 20);
        if !rebalance.wait {
            return Ok(match mb {
                0 => format!("{what}; nothing was missed"),
                _ => format!("{what} once {mb} MB that were missed are copied; {}", self.shows()),
            });
        }
        let waiting = self.waiting.for_what(What::Return(group.clone()));
        group.wait_returned().await.map_err(group_error)?;
        drop(waiting);
        let gone = group.disks().into_iter().find(|d| names.contains(&d.name) && !d.in_sync);
        if let Some(disk) = gone {
            let text = format!("disk {} left again before it had what it missed", disk.name);
            return Err(Error::new(15281, "55000", text).next("see why: cellar status"));
        }
        Ok(match mb {
            0 => format!("{what}; nothing was missed"),
            _ => format!("{what}; {mb} MB that were missed were copied"),
        })
    }
}

fn target(named: &Dropped) -> DropTarget {
    match named {
        Dropped::Disk(name) => DropTarget::Disk(name.clone()),
        Dropped::FailGroup(name) => DropTarget::FailGroup(name.clone()),
    }
}
