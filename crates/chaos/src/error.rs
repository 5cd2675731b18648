//! Errors of a chaos disk.

use std::path::PathBuf;

/// An error of the library; what the files answer are error numbers of the system.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// The file system cannot be mounted.
    #[error("cannot mount a FUSE file system on {}: {source}", path.display())]
    Mount {
        /// The directory it was to be seen in.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A backing file cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Backing {
        /// The directory or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no such file.
    #[error("there is no file {name:?}")]
    NoSuchFile {
        /// The name that was asked for.
        name: String,
    },
    /// A line that is no command.
    #[error("{line:?} is no command; help lists them")]
    NoSuchCommand {
        /// The line.
        line: String,
    },
}
