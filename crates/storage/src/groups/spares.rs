//! Hot spares: disks that wait to take the place of one that fails.
//!
//! The parameter `hot_spares` names them. A disk that failed, and has been away for `hot_spare_delay`
//! seconds, is replaced by the first that will do, as by REPLACE DISK. One that somebody took offline
//! is not: that is work on the disk. What is away for `disk_repair_time` without a spare is dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{DiskInfo, LabelStatus};
use cellar_io::Instant;

use super::Groups;
use crate::disks::OpenDisk;
use crate::files::absolute;
use crate::mounted::Mounted;
use crate::request::DiskRequest;
use crate::settings::{HOT_SPARE_DELAY, HOT_SPARES};

/// How often one that could not be replaced is tried again.
const TRY_EVERY: Duration = Duration::from_secs(60);

/// A disk that was absent before the group was mounted may be slow to appear: it gets at least this long.
const AFTER_MOUNT: Duration = Duration::from_secs(300);

/// When absent disks were first seen, and last tried, by name.
#[derive(Default)]
pub(super) struct SparesTried(BTreeMap<String, (Instant, Option<Instant>)>);

/// What `hot_spares` names, judged for one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The disk, or the pattern that finds none.
    pub path: PathBuf,
    /// The disks whose places it could take, by name; none where it will not do.
    pub fits: Vec<String>,
    /// Why it will not do, for some or for all of them.
    pub why_not: Option<String>,
}

impl Groups {
    /// Every hot spare that is named, and whether it will do for the disks of a group.
    #[boxed]
    pub async fn judged_spares(&self, mounted: &Mounted) -> Vec<Spare> {
        let mut all = Vec::new();
        for pattern in self.settings().list(HOT_SPARES) {
            let found = self.disks().find(std::slice::from_ref(&pattern));
            if found.paths.is_empty() {
                let problem = found.problems.first().and_then(|error| error.stack().last());
                let why = problem.map_or("nothing is there", |entry| entry.message.as_str());
                let why_not = Some(why.to_owned());
                all.push(Spare { path: pattern.into(), fits: Vec::new(), why_not });
            }
            for path in found.paths {
                // One that took a place is a spare no longer.
                if !self.is_open(&path) {
                    all.push(self.judged(mounted, path).await);
                }
            }
        }
        all
    }

    fn is_open(&self, path: &Path) -> bool {
        let path = absolute(path);
        self.all().iter().any(|m| m.disks.all().iter().any(|d| absolute(&d.path) == path))
    }

    async fn judged(&self, mounted: &Mounted, path: PathBuf) -> Spare {
        let unfit =
            |path: PathBuf, why: String| Spare { path, fits: Vec::new(), why_not: Some(why) };
        let opened =
            self.disks().check_free(&path, None).and_then(|()| self.disks().open(&path, false));
        let open = match opened {
            Ok(open) => open,
            Err(error) => {
                let why = error.stack().last().map(|e| e.message.clone()).unwrap_or_default();
                return unfit(path, why);
            }
        };
        let label =
            self.finder().label(&path).await.filter(|label| label.status == LabelStatus::Member);
        if let Some(label) = label {
            let why = format!("it is {} of disk group {}", label.disk_name, label.group_name);
            return unfit(path, why);
        }
        let disks = mounted.group.disks();
        let (fits, small): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
            disks.iter().partition(|disk| is_large_enough(&open, disk));
        let mb = |bytes: u64| bytes >> 20;
        let bytes = mb(open.device().geometry().size);
        let why_not = small.iter().min_by_key(|disk| disk.bytes).map(|least| match fits.len() {
            0 => format!(
                "it has {bytes} MB, and the smallest disk of {}, {}, has {} MB",
                mounted.group.name(),
                least.name,
                mb(least.bytes)
            ),
            _ => format!("it has {bytes} MB, and {} has {} MB", least.name, mb(least.bytes)),
        });
        let fits = fits.iter().map(|disk| disk.name.clone()).collect();
        Spare { path, fits, why_not }
    }

    /// The hot spares that could be taken now: there, and of no group that is mounted.
    pub fn hot_spares(&self) -> Vec<PathBuf> {
        let patterns = self.settings().list(HOT_SPARES);
        let used: Vec<PathBuf> = self
            .all()
            .iter()
            .flat_map(|m| m.disks.all().to_vec())
            .map(|disk| absolute(&disk.path))
            .collect();
        let mut found = self.disks().find(&patterns).paths;
        found.retain(|path| {
            !used.contains(&absolute(path)) && self.disks().check_free(path, None).is_ok()
        });
        found
    }

    /// How long a disk is away before a hot spare takes its place.
    pub fn hot_spare_delay(&self) -> Duration {
        Duration::from_secs(self.settings().integer(HOT_SPARE_DELAY))
    }

    /// Puts hot spares in the places of disks that have been away for long enough.
    pub(super) async fn take_spares(&self, mounted: &Mounted, tried: &mut SparesTried) {
        if self.settings().list(HOT_SPARES).is_empty() {
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
            let disks = mounted.group.disks();
            let old = disks.iter().find(|d| d.name == disk.name);
            for spare in self.hot_spares() {
                // Before anything is done to the disk: what does not fit must not disturb it.
                let open = self.disks().open(&spare, false);
                let fits =
                    open.is_ok_and(|open| old.is_some_and(|old| is_large_enough(&open, old)));
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
        // The reason why a spare does not fit is reported by a REPLACE DISK done by hand; the next spare
        // may be larger.
        let replaced = self.replace_disk(mounted.group.name(), name, &with, None, &|_, _| {});
        replaced.await.is_ok()
    }
}

/// Whether a disk has room for what another one holds.
fn is_large_enough(open: &OpenDisk, old: &DiskInfo) -> bool {
    open.device().geometry().size >= old.bytes
}
