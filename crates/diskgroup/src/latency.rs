//! Detection of slow disks: one that answers much more slowly than the others of its group is *slow*.
//! It keeps every copy and gets every write, but reads turn to other copies as long as there are any.
//!
//! The measure is the mean time of a read for each 128 KiB begun, over the last few looks; an
//! unanswered read counts with the time that it has waited so far.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The bytes that count as one piece of work.
const WORK_BYTES: u64 = 128 << 10;
/// So many times slower than the others ...
const SLOW_TIMES: u64 = 5;
/// ... and at least so slow that somebody notices.
const SLOW_MIN: Duration = Duration::from_millis(4);
/// Healthy again when it is at most this many times slower than the others.
const WELL_TIMES: u64 = 2;
/// Consecutive checks after which it counts as slow.
const SLOW_LOOKS: u32 = 3;
/// The lead of good checks over bad ones after which it is healthy again.
const WELL_LOOKS: u32 = 8;

/// The read latency of a disk.
#[derive(Default)]
pub(crate) struct Latency {
    /// Pieces of work since the last look, and the nanoseconds they took.
    work: AtomicU64,
    ns: AtomicU64,
    /// The mean of late, in nanoseconds; 0: nothing is known.
    mean: AtomicU64,
    slow: AtomicBool,
    /// Checks that contradict `slow`: consecutive ones, or, for a slow disk, the lead of good over bad
    /// ones. A busy machine delays one check in four, and that must not make a disk count as slow.
    looks: AtomicU32,
}

impl Latency {
    /// A read of so many bytes was answered after so many nanoseconds.
    pub fn answered(&self, bytes: u64, ns: u64) {
        self.work.fetch_add(1 + bytes / WORK_BYTES, Ordering::Relaxed);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Evaluates the reads since the last check, and how long the oldest unanswered read has waited;
    /// returns whether there were any.
    pub fn look(&self, waited: Duration) -> bool {
        let (work, ns) = (self.work.swap(0, Ordering::Relaxed), self.ns.swap(0, Ordering::Relaxed));
        let waited = waited.as_nanos() as u64;
        let sample = ns.checked_div(work).unwrap_or(0).max(waited);
        if sample == 0 {
            return false;
        }
        let mean = self.mean();
        self.mean
            .store(if mean == 0 { sample } else { (mean * 3 + sample) / 4 }, Ordering::Relaxed);
        true
    }

    /// The mean of late, in nanoseconds; 0: nothing is known.
    pub fn mean(&self) -> u64 {
        self.mean.load(Ordering::Relaxed)
    }

    /// Decides whether it is slow, from the means of the others in nanoseconds.
    pub fn judge(&self, others: &mut Vec<u64>) {
        others.retain(|mean| *mean > 0);
        others.sort_unstable();
        let mean = self.mean();
        let Some(usual) = others.get(others.len().saturating_sub(1) / 2).copied() else { return };
        let slow = self.is_slow();
        let otherwise = match slow {
            false => mean > usual * SLOW_TIMES && mean > SLOW_MIN.as_nanos() as u64,
            true => mean < usual * WELL_TIMES || mean < SLOW_MIN.as_nanos() as u64 / 2,
        };
        if !otherwise {
            let left = if slow { self.looks.load(Ordering::Relaxed).saturating_sub(1) } else { 0 };
            self.looks.store(left, Ordering::Relaxed);
            return;
        }
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        if looks >= if slow { WELL_LOOKS } else { SLOW_LOOKS } {
            self.slow.store(!slow, Ordering::Relaxed);
            self.looks.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is slow, or may soon be found slow: the current means of the others are needed.
    pub fn is_in_doubt(&self) -> bool {
        self.is_slow() || self.looks.load(Ordering::Relaxed) > 0
    }

    /// Whether it is much slower than the others.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn looked(latency: &Latency, ns: u64, usual: u64, looks: u32) -> bool {
        for _ in 0..looks {
            latency.answered(4096, ns);
            latency.look(Duration::ZERO);
            latency.judge(&mut vec![usual, usual]);
        }
        latency.is_slow()
    }

    #[test]
    fn much_slower_than_the_others_for_a_while_is_slow() {
        let latency = Latency::default();
        assert!(!looked(&latency, 10 * MS, MS, SLOW_LOOKS - 1), "one hiccup is none");
        assert!(looked(&latency, 10 * MS, MS, 1));
        assert!(looked(&latency, MS, MS, 3), "it has to be well for a while");
        assert!(!looked(&latency, MS, MS, 2 * WELL_LOOKS));
    }

    #[test]
    fn a_look_that_a_busy_machine_delays_keeps_no_disk_slow() {
        let latency = Latency::default();
        looked(&latency, 10 * MS, MS, SLOW_LOOKS);
        let mut slow = true;
        for _ in 0..10 {
            looked(&latency, MS, MS, 6);
            slow = looked(&latency, 8 * MS, MS, 1);
        }
        assert!(!slow);
        // One that is as often slow as not stays so.
        looked(&latency, 30 * MS, MS, 20);
        assert!((0..40).all(|_| {
            looked(&latency, 10 * MS, MS, 3);
            looked(&latency, MS, MS, 3)
        }));
    }

    #[test]
    fn as_slow_as_the_others_or_hardly_noticed_is_not_slow() {
        assert!(!looked(&Latency::default(), 50 * MS, 40 * MS, 100));
        assert!(!looked(&Latency::default(), MS, MS / 100, 100), "a disk beside two of RAM");
        let alone = Latency::default();
        alone.answered(4096, 1000 * MS);
        alone.look(Duration::ZERO);
        alone.judge(&mut Vec::new());
        assert!(!alone.is_slow(), "there is nobody to compare it with");
    }

    #[test]
    fn a_read_that_is_not_answered_counts_with_its_wait() {
        let latency = Latency::default();
        for ms in [250, 500, 750] {
            latency.look(Duration::from_millis(ms));
            latency.judge(&mut vec![MS]);
        }
        assert!(latency.is_slow());
    }

    #[test]
    fn a_large_read_is_not_slow_for_its_size() {
        let latency = Latency::default();
        latency.answered(8 << 20, 65 * MS);
        latency.look(Duration::ZERO);
        assert_eq!(latency.mean(), MS);
    }
}
