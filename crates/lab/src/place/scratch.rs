//! Scratch files: checks for space, and removal of leftovers of killed runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};

use crate::error::LabError;

const PREFIX: &str = "cellar-lab-";
/// A file system reserves a little for itself.
const RESERVE: u64 = 64 << 20;

/// A file that is removed with its handle.
pub(crate) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may be gone already; there is nobody to report it to.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    /// Creates it in `dir`, as a sparse file.
    pub(crate) fn new(dir: &Path, what: &str, bytes: u64) -> Result<Scratch, LabError> {
        let path = path(dir, what);
        let fault = |source| LabError::Scratch { path: path.clone(), source };
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(fault)?;
        let scratch = Scratch(path.clone());
        file.set_len(bytes).map_err(fault)?;
        Ok(scratch)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// The name of a scratch file of this process.
pub(crate) fn path(dir: &Path, what: &str) -> PathBuf {
    dir.join(format!("{PREFIX}{}-{what}", std::process::id()))
}

/// Removes leftovers of killed runs in `dir`, and refuses `needed` bytes of new files if
/// there is not enough space.
pub(crate) fn prepare(dir: &Path, needed: u64) -> Result<(), LabError> {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if is_left(&entry.path()) {
            // One that cannot be removed stays.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let Ok(stat) = statvfs(dir) else { return Ok(()) };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed.saturating_add(RESERVE) > free {
        return Err(LabError::Room { dir: dir.to_owned(), needed, free });
    }
    Ok(())
}

/// Whether it is a scratch file of a process that no longer exists.
fn is_left(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let made_by = name.and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
    let Some(process) = made_by.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { return false };
    if Path::new("/proc").join(process.to_string()).exists() {
        return false;
    }
    // A process in another container may have another pid here, but it locks its files.
    File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_goes_and_what_is_used_or_somebody_elses_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let own = Scratch::new(dir.path(), "0", 4096).expect("made");
        // No process has this pid: they end at 4194304.
        for name in ["cellar-lab-4200000-0", "cellar-lab-4200000-1", "cellar-lab-x-0", "letter"] {
            std::fs::write(at(name), "x").expect("written");
        }
        let used = File::open(at("cellar-lab-4200000-1")).expect("opened");
        flock(&used, FlockOperation::NonBlockingLockExclusive).expect("locked");
        prepare(dir.path(), 4096).expect("there is room");
        let left = |name: &str| at(name).exists();
        assert!(!left("cellar-lab-4200000-0") && left("cellar-lab-4200000-1"));
        assert!(own.path().exists() && left("letter") && left("cellar-lab-x-0"));
        let refused = prepare(dir.path(), u64::MAX).expect_err("no file system has that");
        assert!(refused.to_string().contains("CELLAR-70111"), "{refused}");
    }
}
