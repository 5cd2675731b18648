//! Memory for transfers: slabs of huge pages, cut into chunks of one size each.
//!
//! A device is told of memory page by page. With huge pages a request is a few long runs instead of
//! 64 short ones: fio, which read 256 KiB pieces at 1.3 to 1.7 GB/s into pages of 4 KiB, read 2.3 to
//! 3.3 GB/s into pages of 2 MiB from the same disk (virtio, interleaved). Chunks are kept for reuse
//! as well: a new 1 MiB chunk costs 256 page faults, about 60 us; a kept one costs none.

#![expect(unsafe_code, reason = "memory is asked of the kernel, aligned for huge pages")]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Every chunk starts on a multiple of this many bytes, and is at least as long.
pub(crate) const SMALLEST: usize = 4096;

/// A huge page; slabs are whole ones.
const HUGE: usize = 2 << 20;
/// Sizes are powers of two from 4 KiB to 8 MiB; a longer chunk is a slab that is not kept.
const CLASSES: usize = 12;
/// How many free bytes of each size stay for reuse.
const KEPT_BYTES: usize = 64 << 20;

static FREE: [Mutex<Vec<Chunk>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

fn free_of(class: usize) -> MutexGuard<'static, Vec<Chunk>> {
    FREE[class].lock().unwrap_or_else(|e| e.into_inner())
}

fn class_of(capacity: usize) -> Option<usize> {
    let class = capacity.trailing_zeros() as usize - SMALLEST.trailing_zeros() as usize;
    (capacity.is_power_of_two() && class < CLASSES).then_some(class)
}

/// A run of memory, initialised: zeros, later whatever its last user left.
pub(crate) struct Chunk {
    start: NonNull<u8>,
    capacity: usize,
    slab: Arc<Slab>,
}

// SAFETY: whoever has a chunk is the only one to use its memory.
unsafe impl Send for Chunk {}
// SAFETY: as above; `&Chunk` gives no access to the memory.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// One of at least `length` bytes.
    pub(crate) fn new(length: usize) -> Chunk {
        let capacity = length.max(SMALLEST).next_power_of_two();
        let Some(class) = class_of(capacity) else {
            let whole = length.next_multiple_of(HUGE);
            let slab = Arc::new(Slab::new(whole, 1));
            return Chunk { start: slab.start, capacity: whole, slab };
        };
        {
            let mut free = free_of(class);
            if let Some(chunk) = free.pop() {
                chunk.slab.free.fetch_sub(1, Ordering::Relaxed);
                return chunk;
            }
        }
        let bytes = capacity.max(HUGE);
        let slab = Arc::new(Slab::new(bytes, bytes / capacity));
        let mut chunks = Slab::cut(&slab, capacity);
        let first = chunks.pop().expect("a slab has a chunk at least");
        let mut free = free_of(class);
        slab.free.store(chunks.len(), Ordering::Relaxed);
        free.append(&mut chunks);
        first
    }

    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Keeps the chunk for reuse; gives an unused slab back when enough memory is kept.
    pub(crate) fn give_back(self) {
        let Some(class) = class_of(self.capacity) else { return };
        let capacity = self.capacity;
        let slab = Arc::as_ptr(&self.slab);
        let mut unused = Vec::new();
        let mut free = free_of(class);
        let all_free = self.slab.free.fetch_add(1, Ordering::Relaxed) + 1 == self.slab.chunks;
        free.push(self);
        if all_free && free.len() * capacity > KEPT_BYTES {
            unused.extend(free.extract_if(.., |chunk| std::ptr::eq(&*chunk.slab, slab)));
        }
        drop(free);
        // The last of its chunks takes the slab with it, without the lock.
        drop(unused);
    }
}

/// Memory asked of the kernel at once.
struct Slab {
    start: NonNull<u8>,
    bytes: usize,
    /// How many chunks it was cut into.
    chunks: usize,
    /// How many of them are free; changed under the lock of their class only.
    free: AtomicUsize,
}

// SAFETY: it only remembers where the memory is; chunks govern its use.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(bytes: usize, chunks: usize) -> Slab {
        let start = map(bytes).unwrap_or_else(|| handle_alloc_error(layout(bytes)));
        Slab { start, bytes, chunks, free: AtomicUsize::new(0) }
    }

    fn cut(slab: &Arc<Slab>, capacity: usize) -> Vec<Chunk> {
        let chunk = |i: usize| {
            // SAFETY: inside the slab: there are `bytes / capacity` of them.
            let start = unsafe { slab.start.add(i * capacity) };
            Chunk { start, capacity, slab: Arc::clone(slab) }
        };
        // The lowest is used first.
        (0..slab.chunks).rev().map(chunk).collect()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, HUGE).expect("a length of memory, below isize::MAX")
}

/// Zeroed memory that starts on a huge page boundary, for which huge pages are requested.
#[cfg(feature = "real")]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let more = bytes.checked_add(HUGE)?;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address of the kernel's choice.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), more, access, kind, -1, 0) };
    if got == libc::MAP_FAILED {
        return None;
    }
    let skip = got.addr().next_multiple_of(HUGE) - got.addr();
    // SAFETY: `skip` is less than HUGE, so all of what follows lies in the new memory; its ends,
    // which nobody knows of, are given back.
    unsafe {
        let start = got.byte_add(skip);
        if skip > 0 {
            libc::munmap(got, skip);
        }
        libc::munmap(start.byte_add(bytes), HUGE - skip);
        // Refused where huge pages are switched off: small ones do, slower.
        libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
        NonNull::new(start.cast())
    }
}

#[cfg(feature = "real")]
fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: mapped by `map` with this length, and no chunk of it is left.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// Zeroed memory. Without real devices its pages do not matter.
#[cfg(not(feature = "real"))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a slab has at least one huge page.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)) })
}

#[cfg(not(feature = "real"))]
fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: allocated by `map` with this layout, and no chunk of it is left.
    unsafe { std::alloc::dealloc(start.as_ptr(), layout(bytes)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_slab_are_apart_and_aligned() {
        let chunks: Vec<Chunk> = (0..80).map(|_| Chunk::new(64 << 10)).collect();
        let mut starts: Vec<usize> = chunks.iter().map(|c| c.start.as_ptr() as usize).collect();
        starts.sort_unstable();
        assert!(starts.iter().all(|s| s.is_multiple_of(64 << 10)));
        assert!(starts.windows(2).all(|w| w[1] - w[0] >= 64 << 10));
        chunks.into_iter().for_each(Chunk::give_back);
    }

    #[test]
    fn what_nobody_uses_goes_back_to_the_kernel_beyond_what_is_kept() {
        // A size that no other test uses.
        let size = 512 << 10;
        let class = class_of(size).expect("a class");
        let chunks: Vec<Chunk> = (0..400).map(|_| Chunk::new(size)).collect();
        let slab = Arc::downgrade(&chunks[399].slab);
        chunks.into_iter().for_each(Chunk::give_back);
        let kept = free_of(class).len() * size;
        assert!(kept <= KEPT_BYTES + HUGE, "{kept}");
        assert!(slab.upgrade().is_none(), "the last ones went");
    }

    #[test]
    fn a_long_chunk_is_as_long_as_it_must_be() {
        let chunk = Chunk::new((8 << 20) + 1);
        assert_eq!(chunk.capacity, 10 << 20);
        let slab = Arc::downgrade(&chunk.slab);
        chunk.give_back();
        assert!(slab.upgrade().is_none());
    }
}
