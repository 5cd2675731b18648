//! Owned memory, aligned for direct I/O, that can be cut into pieces and shared once it is full.

#![expect(unsafe_code, reason = "disjoint mutable pieces of one chunk")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

use crate::slab::{Chunk, SMALLEST};

/// Every buffer starts on a multiple of this many bytes.
pub const ALIGNMENT: usize = SMALLEST;

/// Gives its chunk back to the pool when the last piece goes.
struct Shared(Option<Chunk>);

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(chunk) = self.0.take() {
            chunk.give_back();
        }
    }
}

/// An exclusive, aligned run of bytes. Its contents start unspecified (but initialised).
pub struct Buffer {
    shared: Arc<Shared>,
    /// The start of this piece, kept here so that readers need not look it up in the chunk.
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a buffer is the only one to use its part of the chunk, which may be used on any thread.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `length` bytes of unspecified contents, aligned to [`ALIGNMENT`].
    pub fn new(length: usize) -> Buffer {
        let chunk = Chunk::new(length);
        let start = chunk.start();
        Buffer { shared: Arc::new(Shared(Some(chunk))), start, length }
    }

    /// `length` zero bytes.
    pub fn zeroed(length: usize) -> Buffer {
        let mut buffer = Buffer::new(length);
        buffer.fill(0);
        buffer
    }

    /// A copy of `bytes`, followed by zeros up to `length`.
    pub fn copy_of(bytes: &[u8], length: usize) -> Buffer {
        assert!(bytes.len() <= length, "the copy must fit");
        let mut buffer = Buffer::new(length);
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer[bytes.len()..].fill(0);
        buffer
    }

    /// `length` incompressible bytes, different for each `seed`: data to measure with.
    pub fn noise(length: usize, seed: u64) -> Buffer {
        let mut buffer = Buffer::new(length);
        let mut state = seed | 1;
        for word in buffer.chunks_mut(8) {
            // xorshift64: fast, and without a pattern that a device could compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
        buffer
    }

    /// Cuts off and returns the first `at` bytes; `self` keeps the rest.
    pub fn split_to(&mut self, at: usize) -> Buffer {
        assert!(at <= self.length, "split inside the buffer");
        let head = Buffer { shared: Arc::clone(&self.shared), start: self.start, length: at };
        // SAFETY: at most the end of this piece, which lies in the chunk.
        self.start = unsafe { self.start.add(at) };
        self.length -= at;
        head
    }

    /// Rejoins the piece that was cut off directly after this one. Gives it back if it is not that
    /// piece.
    pub fn unsplit(&mut self, tail: Buffer) -> Result<(), Buffer> {
        // SAFETY: the end of this piece, which lies in the chunk.
        let end = unsafe { self.start.add(self.length) };
        if Arc::ptr_eq(&self.shared, &tail.shared) && end == tail.start {
            self.length += tail.length;
            return Ok(());
        }
        Err(tail)
    }

    /// Shares the bytes from now on; nobody can change them any more.
    pub fn freeze(self) -> Bytes {
        if self.length == 0 {
            return Bytes::new();
        }
        Bytes::from_owner(self)
    }

    /// Where the bytes are, for an engine.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the chunk, is initialised, and no other piece overlaps it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_disjoint_aligned_and_join_again() {
        let mut rest = Buffer::zeroed(3 * ALIGNMENT);
        let mut head = rest.split_to(ALIGNMENT);
        head.fill(1);
        rest.fill(2);
        assert!(head.iter().all(|b| *b == 1));
        assert!((rest.as_mut_ptr() as usize).is_multiple_of(ALIGNMENT));
        assert!(head.unsplit(rest).is_ok());
        assert_eq!(head.len(), 3 * ALIGNMENT);
        let other = Buffer::new(ALIGNMENT);
        assert!(head.unsplit(other).is_err(), "a stranger is given back");
        let bytes = head.freeze();
        assert_eq!((bytes[0], bytes[ALIGNMENT]), (1, 2));
    }

    #[test]
    fn memory_is_reused_only_when_every_piece_is_gone() {
        let mut a = Buffer::new(1 << 20);
        a.fill(7);
        let piece = a.split_to(ALIGNMENT).freeze();
        drop(a);
        let mut b = Buffer::new(1 << 20);
        b.fill(9);
        assert!(piece.iter().all(|byte| *byte == 7));
    }
}
