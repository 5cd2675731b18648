//! The means to stop the statement of a session that is in progress, from outside of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::Error;

/// Stops the statement of a session that is in progress; one that begins later is not touched. Clones stop the same.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How often it was used.
    count: AtomicU64,
    used: Notify,
}

impl Canceller {
    /// Stops it: the statement ends with 57014.
    pub fn cancel(&self) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        self.0.used.notify_waiters();
    }

    fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    async fn used_since(&self, count: u64) {
        loop {
            let used = self.0.used.notified();
            let mut used = std::pin::pin!(used);
            // To listen before looking: what comes between would not be heard.
            used.as_mut().enable();
            if self.count() != count {
                return;
            }
            used.await;
        }
    }
}

/// When a statement began, and what ends it.
#[derive(Clone, Debug)]
pub(super) struct Began {
    at: Instant,
    /// How long it may take.
    time: Option<Duration>,
    canceller: Canceller,
    count: u64,
}

impl Began {
    /// What a future gives, if it is in time and nobody stops it.
    pub async fn ends<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let end = self.time.map(|time| self.at + time);
        tokio::select! {
            biased;
            told = work => Ok(told),
            () = self.canceller.used_since(self.count) => Err(cancelled()),
            () = at(end) => Err(timed_out(self.time.unwrap_or_default())),
        }
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The error of a statement that has taken its time.
fn timed_out(time: Duration) -> Error {
    let text = format!("the statement was stopped: it may take {} ms", time.as_millis());
    Error::new(1013, "57014", text).next("set statement_timeout = 0, or to more")
}

/// The error of a statement that somebody has stopped.
fn cancelled() -> Error {
    Error::new(1013, "57014", "canceling statement due to user request")
}

impl Engine {
    /// What stops the statement in progress.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// A statement begins.
    pub(super) fn began(&self) -> Began {
        let (canceller, time) = (self.canceller.clone(), self.settings.now().statement_timeout);
        let count = canceller.count();
        Began { at: Instant::now(), time, canceller, count }
    }
}
