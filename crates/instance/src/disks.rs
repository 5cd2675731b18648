//! Disks as an instance opens them: found by path, with a scheduler in front, and a report of what
//! is in force.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cellar_io::Device;
use cellar_io::sched::Scheduled;

use crate::error::{Error, Result};

/// What is in force on a disk, never what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// io_uring, libaio or sync.
    pub engine: String,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// Why it is not what was asked for.
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
    pub in_force: InForce,
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

    /// Lets go of the disks for which `stays` is false, and says which: they are closed when nobody
    /// uses them.
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

    /// Refuses a disk that carries anything foreign: a partition, a signature, a mount; unless its
    /// serial number is given with ERASE.
    ///
    /// # Errors
    /// What it carries, and the clause that gives it up.
    fn check_free(&self, path: &Path, erase: Option<&str>) -> Result<()>;

    /// Paths that match patterns with `*` and `?` in the last part.
    fn find(&self, patterns: &[String]) -> Sought;
}

/// What was found where patterns look.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    /// Paths that match.
    pub paths: Vec<PathBuf>,
    /// Why places could not be looked at: others may match.
    pub problems: Vec<Error>,
}

impl Sought {
    /// All that match.
    ///
    /// # Errors
    /// Why it is not known whether others do.
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

/// A member of a group, as far as it decides where others join.
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

/// The failure group of each place, if each has one of its own and there are two failure groups or
/// more. A place whose disks are missing is not known, but its failure group counts.
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
    // Of one place nobody can tell, but by the name: who is his own failure group bears his name.
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
mod real {
    use std::io::ErrorKind;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use cellar_diskgroup::on_disk::label::is_label;
    use cellar_io::real::{
        DiskKind, EngineChoice, FilesystemIo, OpenOptions, RealEnv, io_mode, open_disk, probe,
    };
    use cellar_io::sched::{ScheduleOptions, Scheduled};
    use cellar_io::{Device, IoErrorKind, SharedEnv, shell};

    use super::{Below, Disks, InForce, OpenDisk, Sought};
    use crate::error::{Error, Remedy, Result};
    use crate::owner::denied;
    use crate::parameters::Parameters;
    use crate::parameters::definitions::{
        DISK_ASYNCH_IO, DISK_IO_ENGINE, FILESYSTEMIO_OPTIONS, SCAN_DEPTH,
    };

    /// The disks of this machine, opened as the parameters say.
    pub struct RealDisks {
        env: Arc<RealEnv>,
        shared: SharedEnv,
        filesystemio: FilesystemIo,
        asynch: bool,
        engine: EngineChoice,
        scan_depth: u32,
    }

    impl RealDisks {
        /// Disks opened as `parameters` say now.
        pub fn new(env: &Arc<RealEnv>, parameters: &Parameters) -> RealDisks {
            let filesystemio = match parameters.choice(FILESYSTEMIO_OPTIONS) {
                "none" => FilesystemIo::None,
                "asynch" => FilesystemIo::Asynch,
                "directio" => FilesystemIo::DirectIo,
                _ => FilesystemIo::SetAll,
            };
            let engine = match parameters.choice(DISK_IO_ENGINE) {
                "io_uring" => EngineChoice::IoUring,
                "libaio" => EngineChoice::LibAio,
                "sync" => EngineChoice::Sync,
                _ => EngineChoice::Auto,
            };
            RealDisks {
                env: Arc::clone(env),
                shared: Arc::clone(env) as SharedEnv,
                filesystemio,
                asynch: parameters.flag(DISK_ASYNCH_IO),
                engine,
                scan_depth: u32::try_from(parameters.integer(SCAN_DEPTH)).unwrap_or(32),
            }
        }
    }

    impl Disks for RealDisks {
        fn open(&self, path: &Path, write: bool) -> Result<OpenDisk> {
            let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => denied(path, write),
                _ => Error::system("open disk", path, &error),
            })?;
            let is_block = {
                use std::os::unix::fs::FileTypeExt;
                metadata.file_type().is_block_device()
            };
            let (mode, access) = io_mode(self.filesystemio, self.asynch, is_block);
            let engine = if mode == EngineChoice::Sync { mode } else { self.engine };
            let options =
                OpenOptions { engine, access, read_only: !write, lock: write, sector: None };
            let disk = open_disk(&self.env, path, &options).map_err(|error| match error.kind {
                IoErrorKind::Permission => denied(path, write),
                _ => Error::from(error),
            })?;
            let force = disk.in_force().clone();
            let scheduled = Scheduled::new(
                disk as Arc<dyn Device>,
                Arc::clone(&self.shared),
                ScheduleOptions { scan_depth: self.scan_depth, ..ScheduleOptions::default() },
                None,
            );
            Ok(OpenDisk {
                path: path.to_owned(),
                scheduled: Arc::new(scheduled),
                in_force: InForce {
                    engine: force.engine.to_string(),
                    direct: force.direct,
                    remarks: force.remarks,
                },
                below: below(path, !is_block),
            })
        }

        fn check_free(&self, path: &Path, erase: Option<&str>) -> Result<()> {
            let facts = probe(path, &[])?;
            let mut content = facts.content();
            if content.is_empty() && path.is_file() && holds_data(path)? {
                content.push("its first or last MiB is not zeros".to_owned());
            }
            // A file has none: what is known is that of the disk below, which holds more than it.
            let is_device = matches!(facts.kind, DiskKind::Block | DiskKind::Partition);
            let serial = facts.serial.as_deref().filter(|_| is_device).unwrap_or_default();
            may_be_taken(path, &facts.users(), &content, serial, erase)
        }

        fn find(&self, patterns: &[String]) -> Sought {
            let mut found = Sought::default();
            for pattern in patterns {
                match glob(pattern) {
                    Ok(paths) => found.paths.extend(paths),
                    Err(error) => found.problems.push(error),
                }
            }
            found.paths.sort();
            found.paths.dedup();
            found
        }
    }

    /// Refuses a disk that somebody uses, whatever is said, and one with content unless its serial
    /// number is said, as it stands on the disk.
    fn may_be_taken(
        path: &Path,
        users: &[String],
        content: &[String],
        serial: &str,
        erase: Option<&str>,
    ) -> Result<()> {
        let empty_it = empty_it(path);
        let path = path.display();
        if !users.is_empty() {
            let text = format!("disk {path} is in use: {}", users.join(", "));
            return Err(Error::new(15025, text).hint("release it first, or name another disk"));
        }
        if content.is_empty() {
            return Ok(());
        }
        match erase {
            Some(given) if !serial.is_empty() && given == serial => Ok(()),
            Some(given) => {
                let text =
                    format!("ERASE '{given}' does not name disk {path}, its serial is '{serial}'");
                Err(Error::new(15033, text))
            }
            None => {
                let text = format!("disk {path} is not empty: {}", content.join(", "));
                let error = Error::new(15033, text);
                Err(match serial.is_empty() {
                    true => error.hint(format!(
                        "name another disk; if nobody needs what is there, in a shell: {empty_it}"
                    )),
                    false => error
                        .hint(format!("ERASE '{serial}' gives up what is on it"))
                        .with_remedy(Remedy::Erase(serial.to_owned())),
                })
            }
        }
    }

    /// The command that takes away what is on a disk without a serial number.
    fn empty_it(path: &Path) -> String {
        let shown = shell::path(path);
        match std::fs::metadata(path) {
            Ok(about) if about.is_file() => {
                format!("truncate -s 0 {shown} && truncate -s {} {shown}", about.len())
            }
            _ => format!("wipefs -a {shown}"),
        }
    }

    /// Whether a regular file holds what somebody may want. A Cellar label is for the group to
    /// judge.
    fn holds_data(path: &Path) -> Result<bool> {
        use std::io::{Read, Seek, SeekFrom};
        let read = || -> std::io::Result<bool> {
            let mut file = std::fs::File::open(path)?;
            let length = file.metadata()?.len();
            let mut bytes = Vec::new();
            file.by_ref().take(1 << 20).read_to_end(&mut bytes)?;
            if is_label(&bytes) {
                return Ok(false);
            }
            file.seek(SeekFrom::Start(length.saturating_sub(1 << 20)))?;
            file.take(1 << 20).read_to_end(&mut bytes)?;
            Ok(bytes.iter().any(|byte| *byte != 0))
        };
        read().map_err(|error| Error::system("read", path, &error))
    }

    fn below(path: &Path, is_file: bool) -> Below {
        let Ok(facts) = probe(path, &[]) else { return Below { is_file, ..Below::default() } };
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        // A disk behind no known device is its own.
        let device = match facts.below.as_ref() {
            Some(device) => Some(text(device)),
            None if !is_file => Some(text(&facts.path)),
            None => None,
        };
        Below { path: facts.path_to_disk.as_ref().map(text), device, is_file }
    }

    /// Paths that match: `*` and `?` in the last part of one. None where the directory is not there.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn glob(pattern: &str) -> Result<Vec<PathBuf>> {
        let path = Path::new(pattern);
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Ok(vec![]) };
        let none = |error: std::io::Error, at: &Path| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(vec![]),
            ErrorKind::PermissionDenied => Err(denied(at, false)),
            _ => Err(Error::system("look into", at, &error)),
        };
        if !name.contains(['*', '?']) {
            return match path.try_exists() {
                Ok(true) => Ok(vec![path.to_owned()]),
                Ok(false) => Ok(vec![]),
                Err(error) => none(error, path),
            };
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let entries = match std::fs::read_dir(parent) {
            Ok(entries) => entries,
            Err(error) => return none(error, parent),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::system("look into", parent, &error))?;
            if entry.file_name().to_str().is_some_and(|n| matches(name, n)) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    fn matches(pattern: &str, name: &str) -> bool {
        match pattern.chars().next() {
            None => name.is_empty(),
            Some('*') => {
                let rest = &pattern[1..];
                name.char_indices()
                    .map(|(at, _)| at)
                    .chain([name.len()])
                    .any(|at| matches(rest, &name[at..]))
            }
            Some(p) => match name.chars().next() {
                Some(n) if p == '?' || p == n => {
                    matches(&pattern[p.len_utf8()..], &name[n.len_utf8()..])
                }
                _ => false,
            },
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_serial_number_gives_up_content_but_never_a_use() {
            let taken = |users: &[&str], content: &[&str], erase| {
                let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
                let (users, content): (Vec<String>, Vec<String>) = (owned(users), owned(content));
                let path = Path::new("/dev/sdx");
                may_be_taken(path, &users, &content, "S1", erase).map_err(|e| e.number())
            };
            assert_eq!(taken(&[], &[], None), Ok(()));
            assert_eq!(taken(&[], &["it has partitions sdx1"], None), Err(15033));
            assert_eq!(taken(&[], &["it has partitions sdx1"], Some("S2")), Err(15033));
            assert_eq!(taken(&[], &["it has partitions sdx1"], Some("S1")), Ok(()));
            assert_eq!(taken(&["mounted on /"], &["it has"], Some("S1")), Err(15025));
            let unnamed = may_be_taken(Path::new("f"), &[], &["x".into()], "", Some(""));
            assert_eq!(unnamed.map_err(|e| e.number()), Err(15033), "no serial is no name");
        }
    }
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
