//! Counters of requests, cuts and faults, so that a test can prove that its fault took place.

use crate::cut::Lost;

/// Counts since the file system was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes, including durable ones.
    pub writes: u64,
    /// `fsync` and `fdatasync`.
    pub flushes: u64,
    /// 512-byte sectors put into the cache.
    pub sectors_cached: u64,
    /// Sectors that flushes made durable.
    pub sectors_flushed: u64,
    /// Sectors that were durable at once (`O_DSYNC`, `RWF_DSYNC`).
    pub sectors_durable: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Unflushed sectors that cuts left durable.
    pub sectors_kept: u64,
    /// Unflushed sectors that cuts lost.
    pub sectors_dropped: u64,
    /// Requests answered with an error, because of a fault or because the power was off.
    pub failed: u64,
    /// Requests that were delayed.
    pub delayed: u64,
    /// Requests that hung.
    pub held: u64,
    /// Flushes and durable writes that were acknowledged but not done.
    pub lies: u64,
    /// Writes of which only some sectors were stored.
    pub torn: u64,
}

impl Counters {
    pub(crate) fn note_cut(&mut self, lost: Lost) {
        self.cuts += 1;
        self.sectors_kept += lost.kept;
        self.sectors_dropped += lost.dropped;
    }
}
