//! A file of the host that is being written: under a name of its own beside its target, until it
//! replaces the target as a whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

/// The prefix and the suffix of such names. Other programs skip names with a leading dot.
const BEGINNING: &str = ".cellar-";
const END: &str = ".tmp";
/// The letters between the two.
const LETTERS: usize = 16;
/// New names that are tried if others remove the file, or use the name.
const TRIES: usize = 16;

/// Whether a file of that name is being written, or was left by a writer that died.
pub(crate) fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(BEGINNING).and_then(|rest| rest.strip_suffix(END));
    middle.is_some_and(|m| m.len() == LETTERS && m.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A file that will replace `target`. If dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Temporary {
    file: Arc<File>,
    path: PathBuf,
    target: PathBuf,
    placed: bool,
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let (number, state) = match error.kind() {
        ErrorKind::PermissionDenied => (27040, "42501"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (27072, "53100"),
        _ => (27072, "58030"),
    };
    let next = match error.kind() {
        ErrorKind::PermissionDenied => "choose a directory that you may write to",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there, or write to another file system or into a group: '+DATA/..'"
        }
        _ => "see to the file system, then try again: nothing was changed",
    };
    Error::new(number, state, format!("cannot write \"{}\": {error}", path.display())).next(next)
}

/// The real path of a file: symbolic links are followed.
fn resolved(target: &Path) -> Result<PathBuf, Error> {
    let metadata = match fs::metadata(target) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(target.to_owned()),
        Err(e) => return Err(failed(target, &e)),
    };
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
        let text = format!("cannot write \"{}\": it is {what}", target.display());
        return Err(Error::new(27040, "42809", text).next("name a file; of a directory: 'DIR/'"));
    }
    fs::canonicalize(target).map_err(|e| failed(target, &e))
}

impl Temporary {
    /// A new, empty file for `target`. What dead writers left in that directory is removed.
    pub(crate) fn new(target: &Path) -> Result<Temporary, Error> {
        let target = resolved(target)?;
        let directory = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(|e| failed(directory, &e))?;
        sweep(directory);
        let made = (0..TRIES).find_map(|_| create(directory).transpose());
        let none = || Err(io::Error::other("no free name for a temporary file"));
        let (file, path) = made.unwrap_or_else(none).map_err(|e| failed(&target, &e))?;
        Ok(Temporary { file: Arc::new(file), path, target, placed: false })
    }

    /// The file, for writes at any offset.
    pub(crate) fn writer(&self) -> Writer {
        Writer { file: Arc::clone(&self.file), target: self.target.clone() }
    }

    /// Makes all of it durable, and renames it to the target.
    pub(crate) fn place(mut self) -> Result<(), Error> {
        let run = || {
            if let Ok(old) = fs::metadata(&self.target) {
                self.file.set_permissions(old.permissions())?;
            }
            self.file.sync_all()?;
            fs::rename(&self.path, &self.target)
        };
        run().map_err(|e| failed(&self.target, &e))?;
        self.placed = true;
        let directory = self.target.parent().unwrap_or(Path::new("/"));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|e| failed(&self.target, &e))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            // The next writer there removes what is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A writer to such a file.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    file: Arc<File>,
    target: PathBuf,
}

impl Writer {
    /// Writes bytes at an offset.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, offset).map_err(|e| failed(&self.target, &e))
    }
}

/// A new file, locked as long as it is written; `None` if another process took it for an abandoned one
/// before it was locked, or uses the name.
fn create(directory: &Path) -> io::Result<Option<(File, PathBuf)>> {
    let mut letters = [0u8; LETTERS / 2];
    getrandom::fill(&mut letters).map_err(|e| io::Error::other(e.to_string()))?;
    let letters: String = letters.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{BEGINNING}{letters}{END}"));
    let file = match OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(e) => return Err(e),
    };
    // On a file system without locks, abandoned files are never removed.
    match file.lock() {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Some((file, path))),
        Err(e) => return Err(e),
    }
    let own = file.metadata()?;
    let there = fs::symlink_metadata(&path).ok();
    let is_own = there.is_some_and(|m| (m.dev(), m.ino()) == (own.dev(), own.ino()));
    Ok(is_own.then_some((file, path)))
}

/// Removes files of dead writers: nobody holds their locks.
pub(crate) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(is_temporary) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = OpenOptions::new().read(true).open(&path) else { continue };
        match file.try_lock() {
            // It may belong to another user; then it stays.
            Ok(()) => drop(fs::remove_file(&path)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_its_place_whole_or_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("deep/t.csv");
        let temporary = Temporary::new(&target).unwrap();
        temporary.writer().write(0, b"old").unwrap();
        assert!(!target.exists());
        temporary.place().unwrap();
        let temporary = Temporary::new(&target).unwrap();
        temporary.writer().write(0, b"new rows").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        drop(temporary);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(names(&dir.path().join("deep")), ["t.csv"]);
        assert!(Temporary::new(dir.path()).unwrap_err().to_string().contains("is a directory"));
    }

    #[test]
    fn what_the_dead_left_goes_and_what_the_living_write_stays() {
        let dir = tempfile::tempdir().unwrap();
        let left = ".cellar-00112233445566ff.tmp";
        fs::write(dir.path().join(left), "half").unwrap();
        for other in [".cellar-x.tmp", "a.tmp", ".cellar-00112233445566f.tmp"] {
            fs::write(dir.path().join(other), "theirs").unwrap();
            assert!(!is_temporary(other));
        }
        let first = Temporary::new(&dir.path().join("a")).unwrap();
        let second = Temporary::new(&dir.path().join("b")).unwrap();
        assert!(!names(dir.path()).contains(&left.to_owned()));
        assert_eq!(names(dir.path()).iter().filter(|name| is_temporary(name)).count(), 2);
        first.place().unwrap();
        second.place().unwrap();
        assert_eq!(names(dir.path()).len(), 5);
    }

    #[test]
    fn a_link_is_followed_and_a_mode_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let temporary = Temporary::new(&link).unwrap();
        temporary.writer().write(0, b"new").unwrap();
        temporary.place().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
