//! The door through which time, chance and tasks enter. Real in production; simulated, from a
//! seed and in virtual time, in tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;

/// Nanoseconds on a clock that only goes forward and starts anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Nanoseconds from `earlier` to here, 0 if it is not earlier.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant plus `d`, at most the end of time.
    pub fn plus(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Seconds and nanoseconds since 1970, for labels and reports only: it may jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime {
    /// Nanoseconds since 1970-01-01 UTC.
    pub unix_nanos: u64,
}

/// A boxed future that runs as a task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// The environment that code runs in: its clock, its random numbers, its tasks.
pub trait Env: Send + Sync + 'static {
    /// Now, on a clock that only goes forward.
    fn now(&self) -> Instant;

    /// The time of day.
    fn wall(&self) -> WallTime;

    /// Resolves at `deadline`, or soon after; precise to well under 100 us when the machine is idle.
    fn sleep_until(&self, deadline: Instant) -> Task;

    /// Runs `task` beside the caller until it ends. `name` is for people.
    fn spawn(&self, name: &'static str, task: Task);

    /// 64 random bits.
    fn random(&self) -> u64;
}

/// A spawned computation. Dropping the handle lets it run on.
pub struct Handle<T>(oneshot::Receiver<T>);

impl<T> Future for Handle<T> {
    /// `None` when the task was dropped before its end: the machine stopped, or it panicked.
    type Output = Option<T>;

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// Conveniences over any [`Env`].
pub trait EnvExt: Env {
    /// Resolves after `d`.
    fn sleep(&self, d: Duration) -> Task {
        self.sleep_until(self.now().plus(d))
    }

    /// Runs `future` beside the caller and hands its result back.
    fn run<T, F>(&self, name: &'static str, future: F) -> Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (send, receive) = oneshot::channel();
        self.spawn(
            name,
            Box::pin(async move {
                // Nobody may be waiting any more; the work is done all the same.
                let _ = send.send(future.await);
            }),
        );
        Handle(receive)
    }
}

impl<E: Env + ?Sized> EnvExt for E {}

/// A shared environment.
pub type SharedEnv = Arc<dyn Env>;
