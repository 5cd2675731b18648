//! I/O counters of the disk below a directory, as the kernel keeps them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The statistics of a whole disk: a partition counts no flushes.
pub struct Disk {
    stat: PathBuf,
    name: String,
}

/// Counts since boot; includes the work of other programs.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub writes: u64,
    pub bytes: u64,
    pub flushes: u64,
}

impl Disk {
    /// The disk of a directory; `None` if the kernel has none, as for tmpfs.
    pub fn of(dir: &Path) -> Option<Disk> {
        let device = std::fs::metadata(dir).ok()?.dev();
        let number = format!("{}:{}", libc::major(device), libc::minor(device));
        let path = std::fs::canonicalize(Path::new("/sys/dev/block").join(number)).ok()?;
        let path = match path.join("partition").exists() {
            true => path.parent()?.to_owned(),
            false => path,
        };
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Disk { stat: path.join("stat"), name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Documentation/block/stat.rst: the 5th is writes, the 7th their sectors of 512 bytes, the
    /// 16th flushes.
    pub fn counts(&self) -> Result<Counts, Error> {
        let text = std::fs::read_to_string(&self.stat)?;
        let words: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        Ok(Counts { writes: word(4), bytes: word(6) * 512, flushes: word(15) })
    }
}

impl Counts {
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            writes: self.writes - before.writes,
            bytes: self.bytes - before.bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}
