//! Errors of a scan.

use cellar_format::Damage;
use cellar_io::IoError;

/// Why a scan ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A disk, or the group over it, could not give what was asked for.
    #[error(transparent)]
    Io(#[from] IoError),
    /// What was read is not what was written, on no copy.
    #[error("{what} of {segment} is damaged: {damage:?}")]
    Damaged {
        /// Which part.
        what: String,
        /// Of which segment.
        segment: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// What was summed up cannot be given out as the table's columns.
    #[error("groups cannot be given out: {0}")]
    Groups(String),
    /// A filter that is evaluated elsewhere could not be.
    #[error("{0}")]
    Residual(Box<dyn std::error::Error + Send + Sync>),
    /// A read was abandoned before its end, so rows would be missing.
    #[error("a read of it was stopped")]
    Stopped,
}
