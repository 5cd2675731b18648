//! The clock of a session: the start of its transaction, and of its statement.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds since 1970; 0: nothing has begun.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    transaction: AtomicU64,
    statement: AtomicU64,
}

fn told(nanos: &AtomicU64) -> Option<u64> {
    Some(nanos.load(Ordering::Relaxed)).filter(|nanos| *nanos != 0)
}

impl Clock {
    /// A transaction begins.
    pub fn begin(&self, nanos: u64) {
        self.transaction.store(nanos, Ordering::Relaxed);
        self.statement.store(nanos, Ordering::Relaxed);
    }

    /// A statement of a transaction begins.
    pub fn begin_statement(&self, nanos: u64) {
        self.statement.store(nanos, Ordering::Relaxed);
    }

    /// The start of the transaction: the value of now().
    pub fn transaction(&self) -> Option<u64> {
        told(&self.transaction)
    }

    /// The start of the statement.
    pub fn statement(&self) -> Option<u64> {
        told(&self.statement)
    }
}
