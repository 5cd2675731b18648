//! The few system calls about files and block devices that no library wraps.

#![expect(unsafe_code, reason = "system calls that write to memory passed by address")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub(super) const BLKDISCARD: u64 = 0x1277;
pub(super) const BLKZEROOUT: u64 = 0x127f;
const BLKSSZGET: u64 = 0x1268;
const BLKPBSZGET: u64 = 0x127b;

/// What statx says about direct I/O on a file: alignment of memory and of offsets, in bytes.
pub(super) fn direct_alignment(file: &impl AsFd) -> Option<(u32, u32)> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is empty and ends with 0; the kernel writes to `answer`.
    let outcome = unsafe {
        libc::statx(
            file.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut answer,
        )
    };
    let known = outcome == 0 && answer.stx_mask & libc::STATX_DIOALIGN != 0;
    (known && answer.stx_dio_offset_align > 0)
        .then_some((answer.stx_dio_mem_align, answer.stx_dio_offset_align))
}

/// Logical and physical sector size of a block device.
pub(super) fn sectors(file: &impl AsFd) -> io::Result<(u32, u32)> {
    let mut logical: libc::c_int = 0;
    let mut physical: libc::c_uint = 0;
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: both requests write one int.
    let failed = unsafe {
        libc::ioctl(fd, BLKSSZGET as _, &raw mut logical) != 0
            || libc::ioctl(fd, BLKPBSZGET as _, &raw mut physical) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok((u32::try_from(logical).unwrap_or(512), physical))
}

/// Whether `length` bytes at `offset` can be read; for finding out what is legal.
pub(super) fn can_read(file: &impl AsFd, offset: i64, buffer: &mut [u8]) -> bool {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most the length of the buffer.
    unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), offset) >= 0 }
}
