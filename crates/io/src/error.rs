//! Errors of devices and of opening them.

use std::sync::Arc;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Opening, locking or asking what the device is.
    Open,
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard or zeroing.
    Discard,
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Op::Open => "open",
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
        })
    }
}

/// What went wrong, sorted by who must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoErrorKind {
    /// Caller: offset or length is not a multiple of the logical sector.
    #[error("not a multiple of the sector size, {sector} bytes")]
    Misaligned {
        /// The logical sector size in bytes.
        sector: u32,
    },
    /// Caller: the request ends behind the end of the device.
    #[error("beyond the end of the device, {size} bytes")]
    OutOfRange {
        /// The size of the device in bytes.
        size: u64,
    },
    /// Disk: the medium could not do it (EIO and its kin).
    #[error("the device reports a medium error")]
    Media,
    /// Disk: no answer in time. Whether it happened is unknown.
    #[error("no answer within {after_ms} ms")]
    Timeout {
        /// How long was waited.
        after_ms: u64,
    },
    /// Operator: the device went away, or its path now names another file.
    #[error("the device is gone: {reason}")]
    Gone {
        /// What was seen: unlinked, replaced, shorter, no such device.
        reason: &'static str,
    },
    /// Operator: no room below a sparse file.
    #[error("no room on the file system below")]
    NoSpace,
    /// Operator: may not be opened or locked.
    #[error("permission denied")]
    Permission,
    /// Operator: another process holds it.
    #[error("in use by another process")]
    Busy,
    /// Operator: no such path.
    #[error("no such file or device")]
    NotFound,
    /// Operator: this process or machine has nothing left of what a request needs. It says nothing
    /// about the device.
    #[error("{what}")]
    Exhausted {
        /// What ran out, with the system's name for it.
        what: &'static str,
    },
    /// The layer below cannot do this at all.
    #[error("not supported here: {what}")]
    Unsupported {
        /// What was asked.
        what: &'static str,
    },
    /// The simulated machine lost power, or the runtime stopped.
    #[error("the machine stopped")]
    Stopped,
    /// Anything else the system says.
    #[error("system error {0}")]
    Os(i32),
}

/// [`IoErrorKind::Exhausted`]: the limit of open files of this process.
pub const OPEN_FILES: &str = "this process has too many files open (EMFILE, error 24)";
/// [`IoErrorKind::Exhausted`]: the limit of open files of the machine.
pub const OPEN_FILES_OF_ALL: &str = "too many files are open on this machine (ENFILE, error 23)";
/// [`IoErrorKind::Exhausted`]: memory, of the process or of the kernel.
pub const MEMORY: &str = "there is not enough memory (ENOMEM, error 12)";

/// A failed request, with what it was about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {}{device}: {kind}", place(*offset, *length))]
pub struct IoError {
    /// What went wrong.
    pub kind: IoErrorKind,
    /// The name of the device.
    pub device: Arc<str>,
    /// What was tried.
    pub op: Op,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
}

/// Where in a device; an operation on all of it, such as an open, has no place.
fn place(offset: u64, length: u64) -> String {
    match length {
        0 => "of ".to_owned(),
        _ => format!("of {length} bytes at {offset} on "),
    }
}

impl IoError {
    /// An error about a range of a device.
    pub fn new(kind: IoErrorKind, device: &Arc<str>, op: Op, offset: u64, length: u64) -> IoError {
        IoError { kind, device: Arc::clone(device), op, offset, length }
    }

    /// Whether the fault is the device's (then a leg may be left out), not the caller's.
    pub fn is_device_fault(&self) -> bool {
        let callers =
            matches!(self.kind, IoErrorKind::Misaligned { .. } | IoErrorKind::OutOfRange { .. });
        !callers && !self.is_ours()
    }

    /// Whether this process lacks what it needs to ask: then nothing is known about the device.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, IoErrorKind::Exhausted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_place_tells_it() {
        let device: Arc<str> = "/dev/sdz".into();
        let told = |op, offset, length| {
            IoError::new(IoErrorKind::Permission, &device, op, offset, length).to_string()
        };
        assert_eq!(told(Op::Open, 0, 0), "open of /dev/sdz: permission denied");
        assert_eq!(told(Op::Flush, 0, 0), "flush of /dev/sdz: permission denied");
        let read = "read of 4096 bytes at 0 on /dev/sdz: permission denied";
        assert_eq!(told(Op::Read, 0, 4096), read);
    }

    #[test]
    fn what_this_process_lacks_is_no_fault_of_a_device() {
        let what = OPEN_FILES;
        let kind = IoErrorKind::Exhausted { what };
        let error = IoError::new(kind, &"/dev/sdz".into(), Op::Open, 0, 0);
        assert!(error.is_ours() && !error.is_device_fault(), "{error}");
        assert!(error.to_string().contains("EMFILE, error 24"), "{error}");
        let error = IoError::new(IoErrorKind::Media, &"/dev/sdz".into(), Op::Open, 0, 0);
        assert!(!error.is_ours() && error.is_device_fault());
    }
}
