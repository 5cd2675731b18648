//! Request timeouts: how long a request to a disk may go unanswered.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, EnvExt, IoError, IoErrorKind, Op, SharedEnv};
use futures_util::future::{Either, select};

use crate::disk::FLUSH_TIMES;

/// How long one request to a disk may go unanswered, as on the data path; a flush may take a
/// multiple of that.
#[derive(Clone, Copy)]
pub(crate) struct RequestTimeout<'a> {
    env: &'a SharedEnv,
    limit: Duration,
    sooner: Option<(Duration, &'a (dyn Fn() -> bool + Send + Sync))>,
}

/// A timer that fires this much too late: the machine stood still.
const LATE: Duration = Duration::from_millis(250);

impl<'a> RequestTimeout<'a> {
    pub fn new(env: &'a SharedEnv, limit: Duration) -> RequestTimeout<'a> {
        RequestTimeout { env, limit, sooner: None }
    }

    /// Ends after the shorter `limit` if `may` agrees then: the disk can be done without.
    pub fn sooner(
        self,
        limit: Duration,
        may: &'a (dyn Fn() -> bool + Send + Sync),
    ) -> RequestTimeout<'a> {
        RequestTimeout { sooner: Some((limit.min(self.limit), may)), ..self }
    }

    /// Whether a disk that did not answer can be done without.
    pub fn does_without(self) -> bool {
        self.sooner.is_some_and(|(_, may)| may())
    }

    /// Waits for `request`, but not past the limit.
    pub async fn wait<T>(
        self,
        device: &Arc<dyn Device>,
        op: Op,
        request: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        let times = if op == Op::Flush { FLUSH_TIMES } else { 1 };
        let timed_out = |limit: Duration| {
            let after_ms = limit.as_millis() as u64;
            let name = &device.geometry().name;
            Err(IoError::new(IoErrorKind::Timeout { after_ms }, name, op, 0, 0))
        };
        let mut request = std::pin::pin!(request);
        let mut left = self.limit;
        if let Some((limit, may)) = self.sooner {
            let began = self.env.now();
            let answer = within(self.env, limit * times, request.as_mut()).await;
            // If the machine stood still, the disk has not had that time.
            let late = self.env.now().since(began) > limit * times + LATE;
            match answer {
                Some(result) => return result,
                None if !late && may() => return timed_out(limit),
                None => left -= limit,
            }
        }
        let answer = within(self.env, left * times, request).await;
        answer.unwrap_or_else(|| timed_out(self.limit))
    }
}

/// The result of `future`, unless it takes longer than `limit`.
pub(crate) async fn within<T>(
    env: &SharedEnv,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), env.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
