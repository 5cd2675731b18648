//! What can go wrong in the lab.

use std::path::PathBuf;

/// Why an experiment did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An option that will not do.
    #[error("--{name} {value} will not do: allowed is {allowed}")]
    Option {
        /// Its name.
        name: &'static str,
        /// As given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A disk failed.
    #[error(transparent)]
    Io(#[from] cellar_io::IoError),
    /// The group failed.
    #[error(transparent)]
    Group(#[from] cellar_diskgroup::Error),
    /// A scratch file could not be made.
    #[error("{}: {source}", path.display())]
    Scratch {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What was read is not what was written.
    #[error("the read at byte {offset} gave what was written for byte {found}: not a measurement")]
    WrongBytes {
        /// Offset in the file.
        offset: u64,
        /// The offset that stands in the bytes.
        found: u64,
    },
    /// Validate found bad copies.
    #[error("validate found bad copies in the file of this experiment: not a measurement")]
    BadCopies,
    /// A task ended before its work.
    #[error("the machine stopped before the experiment was done")]
    Stopped,
}
