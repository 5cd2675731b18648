//! Disks as storage opens them: found by path, each with a scheduler in front and a report of the I/O
//! modes in effect.

#[cfg(feature = "real")]
mod real;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cellar_io::Device;
use cellar_io::sched::Scheduled;

use crate::error::{Error, Result};

/// The I/O modes in effect on a disk, never those requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveModes {
    /// io_uring, libaio or sync.
    pub engine: String,
    /// Whether I/O bypasses the page cache.
    pub direct: bool,
    /// Why the modes are not those requested.
    pub remarks: Vec<String>,
}

/// An open disk.
#[derive(Clone)]
pub struct OpenDisk {
    /// Its path, as it was given or found.
    pub path: PathBuf,
    /// The disk with its scheduler: what groups use.
    pub scheduled: Arc<Scheduled>,
    /// What is in force.
    pub in_force: EffectiveModes,
    /// What fails together with it: controller or enclosure, and the device below it.
    pub below: Below,
}

impl OpenDisk {
    /// The disk as a device.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.scheduled) as Arc<dyn Device>
    }
}

/// The open disks of a mounted group: they come and go while it is mounted. Clones share them.
#[derive(Clone, Default)]
pub struct OpenDisks(Arc<Mutex<Arc<Vec<OpenDisk>>>>);

impl OpenDisks {
    /// These disks.
    pub fn new(disks: Vec<OpenDisk>) -> OpenDisks {
        OpenDisks(Arc::new(Mutex::new(Arc::new(disks))))
    }

    /// The disks as they are open now.
    pub fn all(&self) -> Arc<Vec<OpenDisk>> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The disk that was opened under this path.
    pub fn find(&self, path: &str) -> Option<OpenDisk> {
        self.all().iter().find(|d| d.path.to_string_lossy() == path).cloned()
    }

    /// Takes in a disk that was opened.
    pub fn add(&self, disk: OpenDisk) {
        let mut disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut disks).push(disk);
    }

    /// Releases the disks for which `stays` is false, and returns which: each is closed when its last
    /// user is done.
    pub fn keep(&self, stays: impl Fn(&OpenDisk) -> bool) -> Vec<PathBuf> {
        let mut disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<PathBuf> =
            disks.iter().filter(|d| !stays(d)).map(|d| d.path.clone()).collect();
        if !gone.is_empty() {
            Arc::make_mut(&mut disks).retain(stays);
        }
        gone
    }
}

/// What a disk stands on; disks with the same value fail together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Enclosure, or the controller it hangs on.
    pub path: Option<String>,
    /// The device: a disk itself, or the device of the file system of a file.
    pub device: Option<String>,
    /// Whether it is a file.
    pub is_file: bool,
}

/// How disks are opened and found; real in production, simulated in tests.
pub trait Disks: Send + Sync + 'static {
    /// Opens a disk: for writing, and locked against every other process, or for reading only.
    ///
    /// # Errors
    /// It is not there, in use, or not allowed, with the next step.
    fn open(&self, path: &Path, write: bool) -> Result<OpenDisk>;

    /// Refuses a disk that carries anything foreign (a partition, a signature, a mount), unless its
    /// serial number is given with ERASE.
    ///
    /// # Errors
    /// What it carries, and the clause that gives it up.
    fn check_free(&self, path: &Path, erase: Option<&str>) -> Result<()>;

    /// Paths that match patterns with `*` and `?` in the last part.
    fn find(&self, patterns: &[String]) -> PatternMatches;
}

/// The result of expanding patterns.
#[derive(Clone, Debug, Default)]
pub struct PatternMatches {
    /// Paths that match.
    pub paths: Vec<PathBuf>,
    /// Why some directories could not be searched; there may be more matches in them.
    pub problems: Vec<Error>,
}

impl PatternMatches {
    /// All that match.
    ///
    /// # Errors
    /// Some directory could not be searched, so there may be more matches.
    pub fn all(self) -> Result<Vec<PathBuf>> {
        self.problems.into_iter().next().map_or(Ok(self.paths), Err)
    }
}

/// The failure group of each disk by the rule of the design: enclosure or path where two or more
/// differ, else the device where two or more differ, else each disk is its own (`None`).
pub fn default_failgroups(disks: &[Below]) -> Vec<Option<String>> {
    let distinct = |keys: &[Option<&String>]| {
        let known: std::collections::BTreeSet<&&String> = keys.iter().flatten().collect();
        keys.iter().all(Option::is_some) && known.len() >= 2
    };
    let by_path: Vec<Option<&String>> = disks.iter().map(|d| d.path.as_ref()).collect();
    let by_device: Vec<Option<&String>> = disks.iter().map(|d| d.device.as_ref()).collect();
    let chosen = if distinct(&by_path) {
        by_path
    } else if distinct(&by_device) {
        by_device
    } else {
        return vec![None; disks.len()];
    };
    let mut seen: Vec<&String> = Vec::new();
    chosen
        .into_iter()
        .flatten()
        .map(|key| {
            let at = seen.iter().position(|s| *s == key).unwrap_or_else(|| {
                seen.push(key);
                seen.len() - 1
            });
            Some(format!("FG{}", at + 1))
        })
        .collect()
}

/// What is known of a group member that decides the failure groups of disks joining later.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Its failure group.
    pub failgroup: String,
    /// What it stands on; `None` if it is missing.
    pub below: Option<Below>,
}

/// The failure groups of disks that join a group whose `members` are in these failure groups. Where
/// the members follow what they stand on, the new ones do too: beside those on the same path or
/// device, else in a failure group of their own.
pub fn joining_failgroups(members: &[Standing], new: &[Below]) -> Vec<Option<String>> {
    let keys: [fn(&Below) -> Option<&String>; 2] = [|b| b.path.as_ref(), |b| b.device.as_ref()];
    let Some((mut known, key)) = keys.iter().find_map(|key| Some((follows(members, *key)?, *key)))
    else {
        return vec![None; new.len()];
    };
    let mut join = |below: &Below| -> Option<String> {
        let place = key(below)?;
        if let Some(failgroup) = known.get(place) {
            return Some(failgroup.clone());
        }
        let free = (1u32..).map(|n| format!("FG{n}")).find(|name| {
            members.iter().all(|m| m.failgroup != *name) && known.values().all(|own| own != name)
        })?;
        known.insert(place.clone(), free.clone());
        Some(free)
    };
    new.iter().map(&mut join).collect()
}

/// The failure group of each place (path or device), if each place has one of its own and there are two
/// failure groups or more. The place of a missing disk is unknown, but its failure group counts.
fn follows(
    members: &[Standing],
    key: impl Fn(&Below) -> Option<&String>,
) -> Option<std::collections::BTreeMap<String, String>> {
    let mut known = std::collections::BTreeMap::<String, String>::new();
    let here = || members.iter().filter_map(|m| Some((m, m.below.as_ref()?)));
    for (member, below) in here() {
        let own = known.entry(key(below)?.clone()).or_insert_with(|| member.failgroup.clone());
        if *own != member.failgroup {
            return None;
        }
    }
    let of_places: std::collections::BTreeSet<&String> = known.values().collect();
    let all: std::collections::BTreeSet<&String> = members.iter().map(|m| &m.failgroup).collect();
    // A single place proves nothing; only names help: a disk that is its own failure group has the same
    // name as it.
    let shared = known.len() >= 2 || here().all(|(member, _)| member.failgroup != member.name);
    (!known.is_empty() && all.len() >= 2 && of_places.len() == known.len() && shared)
        .then_some(known)
}

/// What the loss of one failure group leaves standing.
pub fn survives(disks: &[(Option<String>, Below)]) -> &'static str {
    let groups: std::collections::BTreeSet<&Option<String>> =
        disks.iter().map(|(group, _)| group).collect();
    if groups.len() < 2 && disks.iter().any(|(group, _)| group.is_some()) {
        return "nothing";
    }
    let mut owner: std::collections::BTreeMap<&String, &Option<String>> = Default::default();
    let mut shared = false;
    for (group, below) in disks {
        let Some(device) = &below.device else { continue };
        let first = owner.entry(device).or_insert(group);
        shared |= *first != group || group.is_none();
    }
    if shared { "file" } else { "device" }
}

#[cfg(feature = "real")]
pub use real::{RealDisks, glob};

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &str, device: &str) -> Below {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        Below { path: some(path), device: some(device), is_file: false }
    }

    #[test]
    fn failure_groups_follow_what_differs() {
        let files = [below("", "sda"), below("", "sda")];
        assert_eq!(default_failgroups(&files), [None, None]);
        let two = [below("c0", "a"), below("c0", "b"), below("c0", "a")];
        let groups: Vec<_> = default_failgroups(&two).into_iter().flatten().collect();
        assert_eq!(groups, ["FG1", "FG2", "FG1"]);
        let paths = [below("c0", "a"), below("c1", "b"), below("c0", "c")];
        let groups: Vec<_> = default_failgroups(&paths).into_iter().flatten().collect();
        assert_eq!(groups, ["FG1", "FG2", "FG1"]);
    }

    #[test]
    fn a_disk_joins_the_failure_group_of_what_it_stands_on() {
        let standing = |group: &str, below| Standing {
            name: "DATA_0000".into(),
            failgroup: group.to_owned(),
            below,
        };
        let member = |group: &str, device: &str| standing(group, Some(below("", device)));
        let two = [member("FG1", "sda"), member("FG2", "sdb"), member("FG1", "sda")];
        let new = [below("", "sdb"), below("", "sdc"), below("", "sdc"), below("", "")];
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(joining_failgroups(&two, &new), [some("FG2"), some("FG3"), some("FG3"), None]);
        // Files on one device are each their own, and so is one more.
        let files = [member("DATA_0000", "vda"), member("DATA_0001", "vda")];
        assert_eq!(joining_failgroups(&files, &new[..1]), [None]);
        // The other one is missing: the place that is left still has its failure group.
        let lost = [member("FG1", "sda"), standing("FG2", None)];
        let new = [below("", "sda"), below("", "sdc")];
        assert_eq!(joining_failgroups(&lost, &new), [some("FG1"), some("FG3")]);
        // A file that takes the place of another one is a failure group of its own, as that was.
        let lost = [member("DATA_0000", "sda"), standing("DATA_0001", None)];
        assert_eq!(joining_failgroups(&lost, &new), [None, None]);
        let mixed = [member("A", "sda"), member("B", "sda"), member("C", "sdb")];
        assert_eq!(joining_failgroups(&mixed, &new[..1]), [None]);
    }

    #[test]
    fn four_files_on_one_device_survive_the_loss_of_a_file() {
        let own = |n: usize, d: &str| (Some(format!("D{n}")), below("", d));
        assert_eq!(survives(&[own(1, "vda"), own(2, "vda")]), "file");
        assert_eq!(survives(&[own(1, "sda"), own(2, "sdb")]), "device");
        assert_eq!(survives(&[own(1, "sda"), own(1, "sdb")]), "nothing");
    }
}
