//! One operation on one file, as every engine gets it.

#![expect(unsafe_code, reason = "raw addresses of owned buffers travel with the buffers")]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use bytes::Bytes;

use crate::buffer::Buffer;

/// The kernel takes at most this many pieces in one vectored call.
const IOV_MAX: usize = 1024;
/// The kernel moves at most 2 GiB less a page in one call; half of it keeps lengths aligned.
const PIECE_MAX: usize = 1 << 30;

/// The operation that is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    /// With `durable` the data is on the medium when the call returns.
    Write {
        durable: bool,
    },
    /// fdatasync.
    Flush,
    /// fallocate with this mode.
    Allocate {
        mode: i32,
        length: u64,
    },
    /// An ioctl of a block device that takes a range.
    Range {
        request: u64,
        length: u64,
    },
}

/// The memory that an operation reads from or writes to.
pub(crate) enum Memory {
    None,
    Read(Vec<Buffer>),
    Write(Vec<Bytes>),
}

/// An operation, with all the memory it needs.
pub(crate) struct Work {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) call: Call,
    pub(crate) offset: u64,
    memory: Memory,
    /// Bytes already moved by earlier calls.
    done: usize,
    /// The pieces of the next call when there are several; the kernel may look at them late.
    vectors: Vec<libc::iovec>,
}

// SAFETY: `vectors` points into `memory`, which travels with it.
unsafe impl Send for Work {}

/// What to hand to the kernel now.
pub(crate) enum Target {
    /// No memory involved.
    Nothing,
    /// One run of memory.
    One { start: *mut u8, length: u32 },
    /// Several, by the address of their table.
    Many { vectors: *const libc::iovec, count: u32 },
}

impl Work {
    pub(crate) fn new(file: Arc<OwnedFd>, call: Call, offset: u64, memory: Memory) -> Work {
        Work { file, call, offset, memory, done: 0, vectors: Vec::new() }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Where the next call starts on the device.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Notes that `moved` more bytes are done; true when that was all.
    pub(crate) fn advance(&mut self, moved: usize) -> bool {
        self.done += moved;
        self.done >= self.length()
    }

    /// All bytes of the operation.
    pub(crate) fn length(&self) -> usize {
        match &self.memory {
            Memory::None => 0,
            Memory::Read(buffers) => buffers.iter().map(|b| b.len()).sum(),
            Memory::Write(data) => data.iter().map(Bytes::len).sum(),
        }
    }

    /// Takes the buffers of a read back.
    pub(crate) fn into_buffers(self) -> Vec<Buffer> {
        match self.memory {
            Memory::Read(buffers) => buffers,
            _ => Vec::new(),
        }
    }

    fn piece(&mut self, index: usize) -> Option<(*mut u8, usize)> {
        match &mut self.memory {
            Memory::None => None,
            Memory::Read(buffers) => buffers.get_mut(index).map(|b| (b.as_mut_ptr(), b.len())),
            // The kernel only reads from it.
            Memory::Write(data) => data.get(index).map(|b| (b.as_ptr().cast_mut(), b.len())),
        }
    }

    /// The memory of the next call. The addresses stay right while `self` is moved, until it is
    /// dropped or asked again.
    pub(crate) fn target(&mut self) -> Target {
        let mut skip = self.done;
        self.vectors.clear();
        let mut first = None;
        let mut total = 0;
        for index in 0.. {
            let Some((start, length)) = self.piece(index) else {
                break;
            };
            if skip >= length {
                skip -= length;
                continue;
            }
            let length = (length - skip).min(PIECE_MAX - total);
            // SAFETY: `skip` is less than the length of this piece.
            let piece = (unsafe { start.add(skip) }, length);
            skip = 0;
            total += length;
            match first {
                None => first = Some(piece),
                Some((start, length)) => {
                    if self.vectors.is_empty() {
                        self.vectors.push(vector(start, length));
                    }
                    self.vectors.push(vector(piece.0, piece.1));
                }
            }
            if self.vectors.len() == IOV_MAX || total == PIECE_MAX {
                break;
            }
        }
        match first {
            None => Target::Nothing,
            Some((start, length)) if self.vectors.is_empty() => {
                Target::One { start, length: length as u32 }
            }
            Some(_) => {
                Target::Many { vectors: self.vectors.as_ptr(), count: self.vectors.len() as u32 }
            }
        }
    }
}

fn vector(start: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: length }
}
