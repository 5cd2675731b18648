//! Whether a disk is still the disk that was opened.

use std::sync::OnceLock;

use crate::error::IoErrorKind;

/// The verdict about one disk, once there is one.
pub(super) struct Gone {
    reason: OnceLock<&'static str>,
}

impl Gone {
    pub(super) fn new() -> Gone {
        Gone { reason: OnceLock::new() }
    }
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }
    pub(super) fn still_there(&self) -> Result<(), IoErrorKind> {
        Ok(())
    }
}
