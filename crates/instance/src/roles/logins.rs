//! Logins as they are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
struct Counters {
    cumulative: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

/// Counts logins since the start. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Logins(Arc<Counters>);

impl Logins {
    /// A login succeeded.
    pub fn succeeded(&self) {
        self.0.cumulative.fetch_add(1, Ordering::Relaxed);
    }

    /// A login failed to authenticate.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A login was refused, whatever the client could have proved.
    pub fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters of v$sysstat, by Oracle's names where it has them.
    pub fn statistics(&self) -> [(&'static str, u64); 3] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("logons cumulative", of(&self.0.cumulative)),
            ("logons failed", of(&self.0.failed)),
            ("logons refused", of(&self.0.refused)),
        ]
    }
}
