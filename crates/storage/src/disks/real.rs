//! The disks of this machine.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::on_disk::label::is_label;
use cellar_io::real::{
    DiskKind, EngineChoice, FilesystemIo, OpenOptions, RealEnv, io_mode, open_disk, probe,
};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::{Device, IoErrorKind, SharedEnv, shell};

use super::{Below, Disks, EffectiveModes, OpenDisk, PatternMatches};
use crate::error::{Error, Remedy, Result};
use crate::owner::denied;
use crate::settings::{DISK_ASYNCH_IO, DISK_IO_ENGINE, FILESYSTEMIO_OPTIONS, SCAN_DEPTH, Settings};

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
    /// Disks opened as `settings` say now.
    pub fn new(env: &Arc<RealEnv>, settings: &dyn Settings) -> RealDisks {
        let filesystemio = match settings.choice(FILESYSTEMIO_OPTIONS) {
            "none" => FilesystemIo::None,
            "asynch" => FilesystemIo::Asynch,
            "directio" => FilesystemIo::DirectIo,
            _ => FilesystemIo::SetAll,
        };
        let engine = match settings.choice(DISK_IO_ENGINE) {
            "io_uring" => EngineChoice::IoUring,
            "libaio" => EngineChoice::LibAio,
            "sync" => EngineChoice::Sync,
            _ => EngineChoice::Auto,
        };
        RealDisks {
            env: Arc::clone(env),
            shared: Arc::clone(env) as SharedEnv,
            filesystemio,
            asynch: settings.flag(DISK_ASYNCH_IO),
            engine,
            scan_depth: u32::try_from(settings.integer(SCAN_DEPTH)).unwrap_or(32),
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
        let options = OpenOptions { engine, access, read_only: !write, lock: write, sector: None };
        let disk = open_disk(&self.env, path, &options).map_err(|error| match error.kind {
            IoErrorKind::Permission => denied(path, write),
            _ => Error::from(error),
        })?;
        let force = disk.effective().clone();
        let scheduled = Scheduled::new(
            disk as Arc<dyn Device>,
            Arc::clone(&self.shared),
            ScheduleOptions { scan_depth: self.scan_depth, ..ScheduleOptions::default() },
            None,
        );
        Ok(OpenDisk {
            path: path.to_owned(),
            scheduled: Arc::new(scheduled),
            in_force: EffectiveModes {
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
        // A file has no serial number: the one that is known is of the disk below, which holds more than
        // this file.
        let is_device = matches!(facts.kind, DiskKind::Block | DiskKind::Partition);
        let serial = facts.serial.as_deref().filter(|_| is_device).unwrap_or_default();
        may_be_taken(path, &facts.users(), &content, serial, erase)
    }

    fn find(&self, patterns: &[String]) -> PatternMatches {
        let mut found = PatternMatches::default();
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
                    "name another disk; if nobody needs its content, in a shell: {empty_it}"
                )),
                false => error
                    .hint(format!("ERASE '{serial}' gives up what is on it"))
                    .with_remedy(Remedy::Erase(serial.to_owned())),
            })
        }
    }
}

/// The command that wipes a disk without a serial number.
fn empty_it(path: &Path) -> String {
    let shown = shell::path(path);
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() => {
            format!("truncate -s 0 {shown} && truncate -s {} {shown}", about.len())
        }
        _ => format!("wipefs -a {shown}"),
    }
}

/// Whether a regular file holds something that somebody may want. A Cellar label is for the group to
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
