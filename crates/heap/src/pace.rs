//! The pace at which dirty pages are written, set so that recovery after a crash takes no longer than its target.
//! Pages are written no earlier than that requires, because a page that is changed again and again is then
//! written only once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The rates of recovery, as measured by the last one that had enough to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Redo that is read and applied, as a distance of LSNs.
    pub redo: u64,
    /// Pages that are read.
    pub pages: u64,
}

impl Default for Rates {
    /// For a store that was never recovered: the rates of a slow SSD.
    fn default() -> Rates {
        Rates { redo: 100 << 20, pages: 5000 }
    }
}

impl Rates {
    /// The rates, or what a disk does at least where they cannot be; nothing was measured where they are 0.
    pub fn sane(self) -> Rates {
        let Rates { redo, pages } = Rates::default();
        let of = |rate: u64, default: u64| if rate == 0 { default } else { rate };
        Rates {
            redo: of(self.redo, redo).clamp(1 << 20, 1 << 40),
            pages: of(self.pages, pages).clamp(50, 1 << 30),
        }
    }

    /// How long so much takes.
    pub fn time(&self, redo: u64, pages: u64) -> Duration {
        let seconds =
            redo as f64 / self.redo.max(1) as f64 + pages as f64 / self.pages.max(1) as f64;
        Duration::from_secs_f64(seconds.min(1e9))
    }
}

/// What recovery would have to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryEstimate {
    /// Redo to be read, as a distance of LSNs.
    pub redo: u64,
    /// Pages to be read, at most.
    pub pages: u64,
    /// How long that takes at the rates of the last opening that had enough to do.
    pub time: Duration,
    /// The recovery target: pages are written so that recovery takes at most this long, or less if the other
    /// limits require it.
    pub target: Duration,
    /// The redo, as a distance of LSNs, that may accumulate before pages are written.
    pub redo_max: u64,
}

/// Limits that do not change while the store is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub rates: Rates,
    /// Changed pages that may wait to be written.
    pub dirty_max: u64,
    pub cache_pages: u64,
    /// Pages that are written together.
    pub batch_pages: u64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When pages are to be written.
pub(crate) struct Pace {
    limits: Limits,
    /// How long an opening may take, in nanoseconds.
    target: AtomicU64,
    /// The most redo between the first change that a page on disk lacks and the end of the log.
    redo_max: AtomicU64,
    /// The end of the log when pages were written last.
    last: AtomicU64,
}

impl Pace {
    pub fn new(limits: Limits, target: Duration, end: u64) -> Pace {
        let (redo_max, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(end));
        Pace { limits, target: AtomicU64::new(nanos(target)), redo_max, last }
    }

    /// How long an opening may take.
    pub fn target(&self) -> Duration {
        Duration::from_nanos(self.target.load(Ordering::SeqCst))
    }

    /// Has an opening take so long from now on; [`Pace::set`] is to be told next.
    pub fn set_target(&self, target: Duration) {
        self.target.store(nanos(target), Ordering::SeqCst);
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// This many dirty pages are enough to write.
    fn pages_max(&self) -> u64 {
        let Limits { rates, dirty_max, cache_pages, .. } = self.limits;
        let by_time = (self.target().as_secs_f64() * rates.pages as f64 / 2.0) as u64;
        // Not below a tenth of the cache: a slow disk would be made slower.
        by_time.max(cache_pages / 10).min(dirty_max - dirty_max / 8).max(1)
    }

    /// Says how long the ring of the log is, as a distance of LSNs, and how many pages an opening would read.
    pub fn set(&self, ring: u64, pages: u64) {
        let (target, rates) = (self.target(), self.limits.rates);
        let left = target.saturating_sub(rates.time(0, pages)).max(target / 10);
        let by_time = (left.as_secs_f64() * rates.redo as f64) as u64;
        // Of two groups the one that comes next must be free before the current one is full.
        let redo_max = by_time.min(ring / 5 * 2).max(1);
        self.redo_max.store(redo_max, Ordering::SeqCst);
    }

    /// The most redo between the first change that a page on disk lacks and the end of the log.
    pub fn redo_max(&self) -> u64 {
        self.redo_max.load(Ordering::SeqCst)
    }

    /// Whether a batch is due, if the log ends at `end` and this many pages are dirty: all dirty pages are
    /// written once while the log advances by `redo_max`, evenly, so that none gets older than that.
    pub fn is_due(&self, end: u64, dirty: usize) -> bool {
        let dirty = dirty as u64;
        if dirty == 0 {
            return false;
        }
        let since = end.saturating_sub(self.last.load(Ordering::SeqCst));
        let batch = self.limits.batch_pages;
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        dirty >= self.pages_max()
            || product(since, dirty.max(batch)) >= product(self.redo_max(), batch)
    }

    /// Says that a batch was written when the log ended at `end`.
    pub fn note(&self, end: u64) {
        self.last.store(end, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn pace(target: Duration, dirty_max: u64) -> Pace {
        let rates = Rates { redo: 100_000_000, pages: 10_000 };
        let limits = Limits { rates, dirty_max, cache_pages: 10_000, batch_pages: 100 };
        Pace::new(limits, target, 0)
    }

    /// Commits of 1,000 bytes change `pages` pages in turn: how old a page gets, in bytes of redo, and how
    /// many writes there are for each commit.
    fn simulate(pace: &Pace, pages: u64, commits: u64) -> (u64, f64) {
        let (mut list, mut is_listed) = (VecDeque::new(), vec![false; pages as usize]);
        let (mut oldest, mut writes) = (0, 0);
        for commit in 0..commits {
            let (end, page) = (commit * 1000, (commit % pages) as usize);
            if !std::mem::replace(&mut is_listed[page], true) {
                list.push_back((end, page));
            }
            pace.set(u64::MAX, list.len() as u64);
            while pace.is_due(end, list.len()) {
                for (from, page) in list.drain(..list.len().min(100)) {
                    oldest = oldest.max(end - from);
                    is_listed[page] = false;
                    writes += 1;
                }
                pace.note(end);
            }
        }
        (oldest, writes as f64 / commits as f64)
    }

    #[test]
    fn pages_are_written_once_in_the_time_that_an_opening_may_take() {
        for pages in [10, 1_000, 5_000] {
            let pace = pace(Duration::from_secs(2), 100_000);
            let (oldest, writes) = simulate(&pace, pages, 2_000_000);
            let most = 200_000_000 - pages * 10_000;
            assert!(oldest <= most + most / 20, "{pages} pages: {oldest} of {most}");
            // Each once for every `most` bytes of redo; a quarter more while they come to be many.
            let needed = pages as f64 * 1000.0 / most as f64;
            assert!(writes <= needed * 1.25 + 0.001, "{pages} pages: {writes} of {needed}");
        }
    }

    #[test]
    fn more_pages_than_may_wait_are_written_at_once() {
        let pace = pace(Duration::from_secs(100), 4_000);
        pace.set(u64::MAX, 0);
        assert!(!pace.is_due(10, 3_499));
        assert!(pace.is_due(10, 3_500), "an eighth stays for those who commit meanwhile");
    }

    #[test]
    fn another_target_is_obeyed_at_once() {
        let pace = pace(Duration::from_secs(2), 100_000);
        pace.set(u64::MAX, 0);
        assert_eq!((pace.target(), pace.redo_max()), (Duration::from_secs(2), 200_000_000));
        assert!(!pace.is_due(100_000_000, 50));
        pace.set_target(Duration::from_secs(1));
        pace.set(u64::MAX, 0);
        assert_eq!(pace.redo_max(), 100_000_000);
        assert!(pace.is_due(100_000_000, 50));
    }

    #[test]
    fn a_short_ring_counts_before_the_target() {
        let pace = pace(Duration::from_secs(100), 4_000);
        pace.set(1_000_000, 0);
        assert_eq!(pace.redo_max(), 400_000);
        assert!(!pace.is_due(399_999, 50) && pace.is_due(400_000, 50));
    }
}
