//! Attributes of a block device, from `/sys`.

use std::path::{Path, PathBuf};

/// A block device in `/sys`, a partition or a whole disk.
pub(super) struct Block {
    /// The device itself.
    pub(super) own: PathBuf,
    /// The whole disk: the parent of a partition, else the device itself.
    pub(super) disk: PathBuf,
}

impl Block {
    /// The device with this number, if `/sys` knows it.
    pub(super) fn by_number(number: u64) -> Option<Block> {
        let (major, minor) = (libc::major(number), libc::minor(number));
        let link = format!("/sys/dev/block/{major}:{minor}");
        Block::at(&std::fs::canonicalize(link).ok()?)
    }

    /// The device at a resolved path below `/sys`.
    pub(super) fn at(own: &Path) -> Option<Block> {
        let disk = if own.join("partition").exists() {
            own.parent()?.to_path_buf()
        } else {
            own.to_path_buf()
        };
        Some(Block { own: own.to_path_buf(), disk })
    }

    /// A word about the whole disk, such as `queue/rotational`.
    pub(super) fn word(&self, name: &str) -> Option<String> {
        read(&self.disk.join(name))
    }

    /// A number about the whole disk.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }

    /// The name below `/dev`.
    pub(super) fn name(&self) -> String {
        last(&self.own)
    }
}

/// A file of `/sys` without the line end; `None` if absent or empty.
pub(super) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The last part of a path.
pub(super) fn last(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The names in a directory, sorted; none if it cannot be read.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
