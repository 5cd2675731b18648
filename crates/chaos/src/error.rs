//! Errors of a chaos disk.

use std::path::PathBuf;

/// An error of the library; requests on the files fail with error numbers of the system.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// The file system cannot be mounted.
    #[error("cannot mount a FUSE file system on {}: {source}", path.display())]
    Mount {
        /// The intended mount point.
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
        /// The requested name.
        name: String,
    },
    /// A line that is not a command.
    #[error("{line:?} is no command; help lists them")]
    NoSuchCommand {
        /// The line.
        line: String,
    },
}
