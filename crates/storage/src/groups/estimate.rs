//! EXPLAIN WORK: what a change of disks would do, and how long that would take.
//!
//! The time comes from a probe of both sides. Disks that are to join are probed themselves if they are
//! blank or former members; disks with other content may be in use, and are not written. For a file still
//! to be made, a scratch file beside it is probed and removed. Where no probe is possible, moves made
//! since the database was opened give the rates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::space::plan::PowerTime;
use cellar_diskgroup::{
    AlterDisks, GroupInfo, Loss, POWER_FULL, ProbeSpec, ProbeTarget, Rates, Work,
};
use cellar_io::Device;

use super::Groups;
use super::alter::{Joining, numbered};
use crate::disks::OpenDisk;
use crate::error::Result;
use crate::files::{make_file, prewrite_all};
use crate::mounted::Mounted;
use crate::request::ChangeRequest;
use crate::words::disk_state;

/// How long a probe takes unless the statement says otherwise.
pub const PROBE_TIME: Duration = Duration::from_secs(30);

/// The powers of a forecast.
const POWERS: [u32; 5] = [1, 2, 4, 8, POWER_FULL];
/// Total bytes of all scratch files of a probe.
const SCRATCH: u64 = 64 << 20;
/// The prefix of their names.
const SCRATCH_NAME: &str = ".cellar-probe-";

/// What a change of disks would do.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The plan, and the group after it.
    pub work: Work,
    /// The group now.
    pub info: GroupInfo,
    /// Disks by number, the new ones included: name and what becomes of it.
    pub disks: BTreeMap<u16, (String, &'static str)>,
    /// The paths of files, `+DATA/f`, by number.
    pub files: BTreeMap<u32, String>,
    /// What the loss of each failure group would cost now.
    pub losses: Vec<Loss>,
    /// How fast it would go.
    pub rates: Rates,
    /// How that is known.
    pub known: Known,
}

/// How the rates of a forecast are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// A probe of both sides.
    Probed,
    /// Moves made since the database was opened.
    Moved,
    /// Not at all, and why.
    Unknown(&'static str),
}

impl Explained {
    /// How long it takes at each power for which that is known.
    pub fn times(&self) -> Vec<(PowerTime, u64)> {
        let times = self.work.plan.times(self.work.au_size, &self.rates.by_power);
        times.into_iter().zip(self.rates.by_power.iter().map(|(_, rate)| *rate)).collect()
    }

    /// Bytes that are moved.
    pub fn bytes(&self) -> u64 {
        self.work.plan.bytes(self.work.au_size)
    }
}

impl Groups {
    /// What [`Groups::alter_disks`] would do. Changes nothing, and tries nothing.
    ///
    /// # Errors
    /// As that, but for what only the disks themselves can tell.
    pub fn explain_work(&self, group: &str, request: &ChangeRequest) -> Result<Explained> {
        let mounted = self.get(group)?;
        let joining = self.joining(&mounted, &request.add, false)?;
        let change = self.change_of(&mounted, request, &joining)?;
        let work = mounted.group.explain_work(&change)?;
        let by_power = mounted.group.rates_of_moves();
        let known = match by_power.is_empty() {
            true => Known::Unknown("nothing was tried"),
            false => Known::Moved,
        };
        Ok(Explained {
            disks: disks_of(&mounted, &change, &work),
            work,
            info: mounted.group.info(),
            files: files_of(&mounted),
            losses: mounted.group.losses(),
            rates: Rates { by_power, ..Rates::default() },
            known,
        })
    }

    /// What the change would do, and how long it would take, from a probe of both sides that lasts this
    /// long.
    ///
    /// # Errors
    /// As [`Groups::alter_disks`].
    #[boxed]
    pub async fn estimate_work(
        &self,
        group: &str,
        request: &ChangeRequest,
        time: Duration,
    ) -> Result<Explained> {
        let explained = self.explain_work(group, request)?;
        let plan = &explained.work.plan;
        let unknown = |why| Ok(Explained { known: Known::Unknown(why), ..explained.clone() });
        if plan.moves.is_empty() {
            return unknown("nothing is to be moved");
        }
        if !plan.unplaced.is_empty() {
            return unknown("it cannot be done");
        }
        if self.is_read_only() {
            return unknown("the database is open read-only");
        }
        // What other hosts may use is not written, although it would be the same again.
        if request.add.iter().any(|disk| disk.force || disk.erase.is_some()) {
            return unknown("a disk with FORCE or ERASE is not written before it joins");
        }
        let mounted = self.get(group)?;
        if mounted.group.operation().is_some_and(|operation| operation.actual > 0) {
            // It would compete with what it is to estimate.
            return match explained.known {
                Known::Moved => Ok(explained),
                _ => unknown("a rebalance is under way; ask again in a while"),
            };
        }
        self.release(&mounted).await;
        let joining = self.joining(&mounted, &request.add, true)?;
        let change = self.change_of(&mounted, request, &joining)?;
        let (targets, _open) = self.targets(&joining).await?;
        let mut powers = POWERS.to_vec();
        powers.extend(request.rebalance.power.filter(|power| *power > 0));
        powers.sort_unstable();
        powers.dedup();
        let rates = mounted.group.probe(&change, &ProbeSpec { time, powers, targets }).await?;
        if rates.holds.is_some() {
            return unknown("a new disk holds something, and is not written before it joins");
        }
        match rates.by_power.iter().all(|(_, rate)| *rate == 0) {
            true => unknown("what was tried could not be read or written"),
            false => Ok(Explained { rates, known: Known::Probed, ..explained }),
        }
    }

    /// The targets on which writing to each new disk is probed. Scratch files among them are removed when
    /// the returned value is dropped.
    async fn targets(&self, joining: &[Joining]) -> Result<(Vec<ProbeTarget>, Vec<Scratch>)> {
        let size = (SCRATCH / joining.len().max(1) as u64).max(4 << 20) >> 20 << 20;
        let (mut targets, mut scratch) = (Vec::new(), Vec::new());
        for j in joining {
            targets.push(match &j.open {
                Some(open) => ProbeTarget::Itself(open.device()),
                None => {
                    let beside = j.path.parent().unwrap_or(Path::new("."));
                    let open = self.scratch(beside, size)?;
                    let device = open.open.device();
                    scratch.push(open);
                    ProbeTarget::Scratch(device)
                }
            });
        }
        let new: Vec<(Arc<dyn Device>, std::ops::Range<u64>)> =
            scratch.iter().map(|s| (s.open.device(), 0..size)).collect();
        prewrite_all(&new, size * new.len() as u64, &|_, _| {}).await?;
        Ok((targets, scratch))
    }

    /// A file that nobody needs.
    fn scratch(&self, directory: &Path, size: u64) -> Result<Scratch> {
        remove_left(directory);
        let path = directory.join(format!("{SCRATCH_NAME}{:016x}", self.env().random()));
        let made = make_file(&path, size)?;
        // The lock of a disk is its own.
        drop(made);
        match self.disks().open(&path, true) {
            Ok(open) => Ok(Scratch { open, path }),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// Removes scratch files left by killed probes: files that nobody has locked, and that are not merely too
/// new to be locked.
fn remove_left(directory: &Path) {
    let is_left = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_old = |modified: std::time::SystemTime| {
            modified.elapsed().is_ok_and(|since| since > Duration::from_secs(60))
        };
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        name.is_some_and(|name| name.starts_with(SCRATCH_NAME))
            && modified.is_ok_and(is_old)
            && std::fs::File::open(path).is_ok_and(|file| rustix::fs::flock(&file, lock).is_ok())
    };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_left(&entry.path()) {
            // It does no harm where it stays.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A scratch file. It keeps its name while it is used: a disk whose name is gone counts as gone.
struct Scratch {
    open: OpenDisk,
    path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it is of no use to anybody, and does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Disks by number, with what becomes of each.
fn disks_of(
    mounted: &Mounted,
    change: &AlterDisks,
    work: &Work,
) -> BTreeMap<u16, (String, &'static str)> {
    let leaving: BTreeSet<&str> = change.drop.iter().map(|d| d.name.as_str()).collect();
    let mut disks: BTreeMap<u16, (String, &'static str)> = BTreeMap::new();
    for disk in mounted.group.disks() {
        let state = match leaving.contains(disk.name.as_str()) {
            true if disk.in_sync => "DROPPING",
            true => "FORCING",
            false => disk_state(&mounted.group, &disk),
        };
        disks.insert(disk.number, (disk.name, state));
    }
    let new = work.plan.disks.iter().map(|d| d.disk.0).filter(|no| !disks.contains_key(no));
    let new: Vec<u16> = new.collect();
    // They are numbered in the order in which they are added.
    for (no, disk) in new.into_iter().zip(&change.add) {
        let name = disk.name.clone().unwrap_or_else(|| numbered(mounted.group.name(), no));
        disks.insert(no, (name, "ADDING"));
    }
    disks
}

fn files_of(mounted: &Mounted) -> BTreeMap<u32, String> {
    let group = mounted.group.name();
    let files = mounted.group.files().into_iter();
    files
        .filter_map(|file| Some((file.number, format!("+{group}/{}", file.names.first()?))))
        .collect()
}
