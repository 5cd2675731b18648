//! Work that its caller does, and that continues if the caller goes away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use cellar_io::SharedEnv;

use crate::error::Error;

type Work<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A computation that its caller polls. Dropped half-way, it continues as a task of its own; dropped
/// before it has begun, it is not done at all.
pub(crate) struct Staying<T: Send + 'static> {
    pub(super) env: SharedEnv,
    pub(super) name: &'static str,
    pub(super) task: Option<Work<T>>,
    pub(super) has_begun: bool,
}

impl<T: Send + 'static> Future for Staying<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.has_begun = true;
        // Taken out while it runs: after a panic it is not continued.
        let mut task = self.task.take().expect("it is not polled again after its end");
        let polled = task.as_mut().poll(context);
        if polled.is_pending() {
            self.task = Some(task);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Staying<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take().filter(|_| self.has_begun) {
            // Nobody waits for its result any more.
            let rest = async move { drop(task.await) };
            self.env.spawn(self.name, Box::pin(rest));
        }
    }
}
