//! Cancellation of a session's running statement, from outside the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::Error;
use crate::host::Host;

/// Cancels the running statement of a session, but none that begins later. Clones cancel the same session's.
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
            // Listens before looking: otherwise what happens in between would be missed.
            used.as_mut().enable();
            if self.count() != count {
                return;
            }
            used.await;
        }
    }
}

/// When a statement began, and what ends it.
#[derive(Clone)]
pub(super) struct Began {
    host: Arc<dyn Host>,
    at: Instant,
    /// How long it may take.
    time: Option<Duration>,
    canceller: Canceller,
    count: u64,
}

impl Began {
    /// The result of a future, unless it times out or is cancelled. A commit in progress is not abandoned:
    /// it may be durable already, and its outcome is reported.
    pub async fn ends<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        if self.canceller.count() != self.count {
            return Err(cancelled());
        }
        let end = self.time.map(|time| self.at + time);
        let mut work = std::pin::pin!(work);
        let stopped = tokio::select! {
            biased;
            told = &mut work => return Ok(told),
            () = self.canceller.used_since(self.count) => cancelled(),
            () = at(end) => timed_out(self.time.unwrap_or_default()),
        };
        match self.host.rows().is_some_and(|rows| rows.commits()) {
            true => Ok(work.await),
            false => Err(stopped),
        }
    }
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The error for a statement that has used up its time.
fn timed_out(time: Duration) -> Error {
    let text = format!("the statement was stopped: it may take {} ms", time.as_millis());
    Error::new(1013, "57014", text).next("set statement_timeout = 0, or to more")
}

/// The error for a statement that somebody has stopped.
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
        let (count, host) = (canceller.count(), Arc::clone(&self.host));
        Began { host, at: Instant::now(), time, canceller, count }
    }
}
