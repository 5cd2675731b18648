//! The meaning of an errno: who must act.

use crate::error::{IoErrorKind, MEMORY, OPEN_FILES, OPEN_FILES_OF_ALL};

/// Sorts an errno by who must act.
pub(super) fn kind_of(errno: i32) -> IoErrorKind {
    match errno {
        libc::EIO | libc::EILSEQ | libc::EREMOTEIO | libc::ENODATA | libc::EBADMSG => {
            IoErrorKind::Media
        }
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM | libc::ESTALE => {
            IoErrorKind::Gone { reason: "no such device any more" }
        }
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::NoSpace,
        libc::EACCES | libc::EPERM | libc::EROFS => IoErrorKind::Permission,
        libc::EBUSY | libc::ETXTBSY | libc::EWOULDBLOCK => IoErrorKind::Busy,
        libc::ENOENT | libc::ENOTDIR => IoErrorKind::NotFound,
        libc::EMFILE => IoErrorKind::Exhausted { what: OPEN_FILES },
        libc::ENFILE => IoErrorKind::Exhausted { what: OPEN_FILES_OF_ALL },
        libc::ENOMEM => IoErrorKind::Exhausted { what: MEMORY },
        libc::EOPNOTSUPP | libc::ENOSYS => IoErrorKind::Unsupported { what: "this operation" },
        other => IoErrorKind::Os(other),
    }
}
