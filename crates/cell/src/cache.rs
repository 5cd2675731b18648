//! Columns of row groups, as they are encoded, kept in memory.
//!
//! A segment never changes and its number is never reused, so cached data is never stale. A scan larger
//! than the cache does not evict what others use again and again: a piece read for the first time is
//! short-lived (the policy is that of quick_cache, a kind of S3-FIFO).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache as Pieces;

/// Overhead of a cached piece in bytes, besides its data.
const OVERHEAD: u64 = 128;
/// Assumed average size of a piece in bytes, from which the number of slots is estimated.
const USUAL: u64 = 32 << 10;

/// A column of a row group: its segment's number, its position there, the column's number.
pub(crate) type Key = (u64, u32, u16);

/// The bytes of a column, aligned for its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    words: Arc<[u64]>,
    length: usize,
}

impl Piece {
    pub fn copy_of(bytes: &[u8]) -> Piece {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Piece { words: words.into(), length: bytes.len() }
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Piece> for Bytes {
    fn weight(&self, _: &Key, piece: &Piece) -> u64 {
        piece.length as u64 + OVERHEAD
    }
}

/// The column cache of a cell. Clones are cheap and share it.
#[derive(Clone)]
pub struct Cache {
    pieces: Arc<Pieces<Key, Piece, Bytes>>,
    hits: Arc<AtomicU64>,
    misses: Arc<AtomicU64>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.used(), self.size())
    }
}

impl Cache {
    /// A cache of so many bytes; at 0 nothing is cached.
    pub fn new(bytes: u64) -> Cache {
        let places = usize::try_from(bytes / USUAL).unwrap_or(usize::MAX).clamp(16, 1 << 24);
        Cache {
            pieces: Arc::new(Pieces::with_weighter(places, bytes, Bytes)),
            hits: Arc::default(),
            misses: Arc::default(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Piece> {
        let found = self.pieces.get(key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether a piece is there, without counting it as used.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.pieces.contains_key(key)
    }

    pub(crate) fn put(&self, key: Key, piece: Piece) {
        self.pieces.insert(key, piece);
    }

    /// Empties the cache: the next scan reads from disk.
    pub fn clear(&self) {
        self.pieces.clear();
    }

    /// Changes the size of the cache; what no longer fits is evicted.
    pub fn resize(&self, bytes: u64) {
        self.pieces.set_capacity(bytes);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.pieces.weight()
    }

    /// Bytes that it may use.
    pub fn size(&self) -> u64 {
        self.pieces.capacity()
    }

    /// The counts of hits and misses.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_kept_up_to_the_size_and_forgotten_when_asked() {
        let cache = Cache::new(100_000);
        for position in 0..100 {
            cache.put((1, position, 0), Piece::copy_of(&[7; 3001]));
        }
        assert!(cache.used() <= 100_000, "{cache:?}");
        let kept = (0..100).filter(|position| cache.get(&(1, *position, 0)).is_some()).count();
        assert!(kept > 20, "{kept}");
        cache.clear();
        assert_eq!(cache.used(), 0);
        assert!(cache.get(&(1, 99, 0)).is_none());
        assert_eq!(Piece::copy_of(&[1, 2, 3]).bytes(), [1, 2, 3]);
    }
}
