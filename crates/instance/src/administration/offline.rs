//! Disks that leave for a while: OFFLINE, ONLINE and REPLACE as calls of storage, and messages about what
//! they started.

use cellar_storage::Mounted;
use cellar_storage::request::{OfflineRequest, OnlineRequest, Rebalance, ReplaceRequest};

use super::Administrator;
use super::disks::disks;
use super::waiting::What;
use crate::error::{Error, NextStep, Result};

impl Administrator {
    pub(super) async fn offline(
        &self,
        mounted: &Mounted,
        request: &OfflineRequest,
    ) -> Result<String> {
        let group = &mounted.group;
        let names = self.groups().offline_disks(group.name(), request).await?;
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

    pub(super) async fn online(
        &self,
        mounted: &Mounted,
        request: &OnlineRequest,
    ) -> Result<String> {
        let names = self.groups().online_disks(mounted.group.name(), request).await?;
        if names.is_empty() {
            return Ok("no disk of it was offline".to_owned());
        }
        let what = format!("{} online", disks(names.len()));
        self.returned(mounted, request.rebalance, &names, what).await
    }

    pub(super) async fn replace(
        &self,
        mounted: &Mounted,
        request: &ReplaceRequest,
    ) -> Result<String> {
        let group = mounted.group.name();
        for (name, with) in &request.disks {
            let making = self.waiting.for_what(What::Making(0, 0));
            let wrote = |done, total| making.now(What::Making(done, total));
            let power = request.rebalance.power;
            self.groups().replace_disk(group, name, with, power, &wrote).await?;
        }
        let names: Vec<String> = request.disks.iter().map(|(name, _)| name.clone()).collect();
        let what = format!("{} replaced", disks(names.len()));
        self.returned(mounted, request.rebalance, &names, what).await
    }

    /// How much is to be copied; or, where WAIT asks for it, that it was.
    async fn returned(
        &self,
        mounted: &Mounted,
        rebalance: Rebalance,
        names: &[String],
        what: String,
    ) -> Result<String> {
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
        self.groups().wait_returned(mounted).await?;
        drop(waiting);
        let gone = group.disks().into_iter().find(|d| names.contains(&d.name) && !d.in_sync);
        if let Some(disk) = gone {
            let text = format!("disk {} left again before it had what it missed", disk.name);
            return Err(
                Error::new(15281, text).hint(NextStep::from("see why: ").cellar("status", ""))
            );
        }
        Ok(match mb {
            0 => format!("{what}; nothing was missed"),
            _ => format!("{what}; {mb} MB that were missed were copied"),
        })
    }
}
