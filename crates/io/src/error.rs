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
    /// Caller: the request extends past the end of the device.
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
        /// The timeout.
        after_ms: u64,
    },
    /// Operator: the device went away, or its path now names another file.
    #[error("the device is gone: {reason}")]
    Gone {
        /// What was seen: unlinked, replaced, shorter, no such device.
        reason: &'static str,
    },
    /// Operator: the file system below a sparse file is full.
    #[error("no room on the file system below")]
    NoSpace,
    /// Operator: no permission to open or lock it.
    #[error("permission denied")]
    Permission,
    /// Operator: another process holds it.
    #[error("in use by another process")]
    Busy,
    /// Operator: no such path.
    #[error("no such file or device")]
    NotFound,
    /// Operator: this process or machine has run out of a resource that the request needs. That
    /// says nothing about the device.
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
    /// Any other error from the operating system.
    #[error("system error {0}")]
    Os(i32),
}

/// [`IoErrorKind::Exhausted`]: the limit of open files of this process.
pub const OPEN_FILES: &str = "this process has too many files open (EMFILE, error 24)";
/// [`IoErrorKind::Exhausted`]: the limit of open files of the machine.
pub const OPEN_FILES_OF_ALL: &str = "too many files are open on this machine (ENFILE, error 23)";
/// [`IoErrorKind::Exhausted`]: memory, of the process or of the kernel.
pub const MEMORY: &str = "there is not enough memory (ENOMEM, error 12)";

/// A failed request and its details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {}{device}: {kind}", place(*offset, *length))]
pub struct IoError {
    /// What went wrong.
    pub kind: IoErrorKind,
    /// The name of the device.
    pub device: Arc<str>,
    /// The operation.
    pub op: Op,
    /// The offset in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
}

/// The range in a device; an operation on the whole device, such as an open, has none.
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

    /// Whether the device is at fault, and not the caller (then a leg may be left out).
    pub fn is_device_fault(&self) -> bool {
        let callers =
            matches!(self.kind, IoErrorKind::Misaligned { .. } | IoErrorKind::OutOfRange { .. });
        !callers && !self.is_ours()
    }

    /// Whether this process lacks a resource that the request needs: then nothing is known about
    /// the device.
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
