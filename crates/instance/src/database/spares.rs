//! Hot spares: disks that wait to take the place of one that fails.
//!
//! The parameter `hot_spares` names them. A disk that failed, and has been away for `hot_spare_delay`
//! seconds, is replaced by the first that will do, as by REPLACE DISK. One that somebody took offline
//! is not: that is work on the disk. What is away for `disk_repair_time` without a spare is dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cellar_io::Instant;

use super::groups::DiskRequest;
use super::{Database, Mounted, absolute};
use crate::parameters::definitions::{HOT_SPARE_DELAY, HOT_SPARES};

/// How often one that could not be replaced is tried again.
const TRY_EVERY: Duration = Duration::from_secs(60);

/// A disk that was away before the group was mounted may be slow to come: it has so long at least.
const AFTER_MOUNT: Duration = Duration::from_secs(300);

/// When disks that are away were seen first, and last tried, by name.
#[derive(Default)]
pub(super) struct SparesTried(BTreeMap<String, (Instant, Option<Instant>)>);

impl Database {
    /// The hot spares that could be taken now: there, and of no group that is mounted.
    pub fn hot_spares(&self) -> Vec<PathBuf> {
        let patterns = self.instance.parameters().list(HOT_SPARES);
        let used: Vec<PathBuf> = self
            .groups()
            .iter()
            .flat_map(|m| m.disks.all().to_vec())
            .map(|disk| absolute(&disk.path))
            .collect();
        let mut found = self.disks.find(&patterns).paths;
        found.retain(|path| {
            !used.contains(&absolute(path)) && self.disks.check_free(path, None).is_ok()
        });
        found
    }

    /// How long a disk is away before a hot spare takes its place.
    pub fn hot_spare_delay(&self) -> Duration {
        Duration::from_secs(self.instance.parameters().integer(HOT_SPARE_DELAY))
    }

    /// Puts hot spares in the places of disks that have been away for long enough.
    pub(super) async fn take_spares(&self, mounted: &Mounted, tried: &mut SparesTried) {
        if self.instance.parameters().list(HOT_SPARES).is_empty() {
            return;
        }
        let delay = self.hot_spare_delay();
        let now = self.env().now();
        let away = mounted.group.away_disks();
        tried.0.retain(|name, _| away.iter().any(|disk| disk.name == *name));
        for disk in away {
            let (first, last) = tried.0.entry(disk.name.clone()).or_insert((now, None));
            let waits = last.is_some_and(|at| now.since(at) < TRY_EVERY)
                || now.since(*first) < delay.min(AFTER_MOUNT);
            if disk.by_command || disk.coming || disk.since < delay || waits {
                continue;
            }
            *last = Some(now);
            let bytes = mounted.group.disks().iter().find(|d| d.name == disk.name).map(|d| d.bytes);
            for spare in self.hot_spares() {
                // Before anything is done to the disk: what does not fit must not disturb it.
                let fits = self.disks.open(&spare, false).is_ok_and(|open| {
                    bytes.is_some_and(|bytes| open.device().geometry().size >= bytes)
                });
                if fits && self.take_spare(mounted, &disk.name, &spare).await {
                    break;
                }
            }
        }
    }

    async fn take_spare(&self, mounted: &Mounted, name: &str, spare: &Path) -> bool {
        let with = DiskRequest {
            path: spare.to_string_lossy().into_owned(),
            name: None,
            failgroup: None,
            size: None,
            force: false,
            erase: None,
        };
        // Why one will not do is told to who replaces the disk by hand; the next may be larger.
        let replaced = self.replace_disk(mounted.group.name(), name, &with, None, &|_, _| {});
        replaced.await.is_ok()
    }
}
