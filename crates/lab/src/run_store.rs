//! Kept runs: one JSON file each, numbered from 1, written atomically.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::run::Run;

/// The directory of kept runs.
#[derive(Clone, Debug)]
pub struct RunStore(PathBuf);

impl RunStore {
    /// Runs in `dir`, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> RunStore {
        RunStore(dir.into())
    }

    /// Their directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Checks whether a run can be kept here, before it is made.
    ///
    /// # Errors
    /// The directory, or the one in which it would be created, cannot be written.
    #[cfg(feature = "real")]
    pub fn check(&self) -> Result<(), LabError> {
        // It is created with the first run; the deepest existing directory on its path must be writable.
        let there = self.0.ancestors().find(|dir| dir.is_dir()).unwrap_or(&self.0);
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(there, access).map_err(|e| self.fault(there, e.into()))
    }

    /// Keeps a run; its number is one more than the last.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep(&self, run: &Run) -> Result<u64, LabError> {
        std::fs::create_dir_all(&self.0).map_err(|e| self.fault(&self.0, e))?;
        let text = run.to_json()?;
        let temporary =
            Temporary::written(&self.0, text.as_bytes()).map_err(|e| self.fault(&self.0, e))?;
        let mut number = self.numbers()?.last().map_or(1, |last| last + 1);
        loop {
            let path = self.path(number);
            // Linking is atomic and never replaces a file: two processes get different
            // numbers.
            match std::fs::hard_link(&temporary.0, &path) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(self.fault(&path, error)),
            }
        }
        drop(temporary);
        let sync = File::open(&self.0).and_then(|dir| dir.sync_all());
        sync.map_err(|e| self.fault(&self.0, e))?;
        Ok(number)
    }

    /// The numbers of the kept runs, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn numbers(&self) -> Result<Vec<u64>, LabError> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.fault(&self.0, error)),
        };
        let number = |entry: std::fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok()
        };
        let mut numbers: Vec<u64> = entries.filter_map(|entry| number(entry.ok()?)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A run as it was kept.
    ///
    /// # Errors
    /// There is none with this number, or it cannot be read.
    pub fn load(&self, number: u64) -> Result<Run, LabError> {
        let path = self.path(number);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(LabError::NoRun {
                    number,
                    known: told(&self.numbers()?),
                    dir: self.0.clone(),
                });
            }
            Err(error) => return Err(self.fault(&path, error)),
        };
        Run::from_json(&text).map_err(|source| LabError::Damaged { path, source })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number}.json"))
    }

    fn fault(&self, path: &Path, source: std::io::Error) -> LabError {
        LabError::Scratch { path: path.to_owned(), source }
    }
}

/// Numbers in words: `1 to 7, 9`.
fn told(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    });
    let runs: Vec<String> = runs.collect();
    if runs.is_empty() { "none".to_owned() } else { runs.join(", ") }
}

/// A file under a unique name that is removed with its handle.
struct Temporary(PathBuf);

impl Temporary {
    fn written(dir: &Path, bytes: &[u8]) -> std::io::Result<Temporary> {
        let path = dir.join(format!(".new-{}", std::process::id()));
        // A file that a killed process of this pid left belongs to nobody.
        let _ = std::fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let temporary = Temporary(path);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(temporary)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Not a kept run, whatever happens to it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a file atomically, or leaves it as it was.
///
/// # Errors
/// It cannot be written.
pub fn write_whole(path: &Path, text: &str) -> Result<(), LabError> {
    let fault = |source| LabError::Scratch { path: path.to_owned(), source };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    // Anything but a regular file (a pipe, /dev/stdout) is written directly; a disk is not.
    if path.exists() && !path.is_file() {
        let kind = std::fs::metadata(path).map_err(fault)?.file_type();
        if std::os::unix::fs::FileTypeExt::is_block_device(&kind) {
            return Err(fault(std::io::Error::other(
                "it is a block device, not a place for a file",
            )));
        }
        return std::fs::write(path, text).map_err(fault);
    }
    let temporary = Temporary::written(dir, text.as_bytes()).map_err(fault)?;
    std::fs::rename(&temporary.0, path).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_and_a_missing_run_is_told_with_those_that_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let kept = RunStore::at(dir.path().join("lab"));
        assert!(matches!(kept.load(1), Err(LabError::NoRun { .. })), "no directory yet");
        let run = Run { finding: "well".to_owned(), ..Run::default() };
        assert_eq!([1, 2, 3].map(|_| kept.keep(&run).unwrap()), [1, 2, 3]);
        assert_eq!(kept.load(2).unwrap(), run);
        std::fs::remove_file(dir.path().join("lab/2.json")).unwrap();
        assert_eq!(kept.keep(&run).unwrap(), 4, "a number is not used twice");
        let error = kept.load(2).unwrap_err().to_string();
        assert!(error.contains("1, 3 to 4"), "{error}");
        std::fs::write(dir.path().join("lab/9.json"), "{").unwrap();
        assert!(kept.load(9).unwrap_err().to_string().contains("9.json"));
        let left = std::fs::read_dir(dir.path().join("lab")).unwrap();
        assert_eq!(left.count(), 4, "nothing but runs");
    }

    #[test]
    fn at_once_each_gets_a_number_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let kept = RunStore::at(dir.path());
        kept.keep(&Run::default()).unwrap();
        // Two processes that saw the same last number.
        let text = Run::default().to_json().unwrap();
        std::fs::write(dir.path().join("2.json"), &text).unwrap();
        assert_eq!(kept.keep(&Run::default()).unwrap(), 3);
    }
}
