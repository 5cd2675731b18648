//! An environment of plain threads and the system clock, and a way to wait for a future.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use cellar_io::{Env, Instant, SharedEnv, Task, WallTime};

pub struct Threads {
    start: std::time::Instant,
}

#[expect(clippy::disallowed_methods, reason = "the clock of the tests' environment")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

pub fn threads() -> SharedEnv {
    Arc::new(Threads { start: now() })
}

impl Env for Threads {
    fn now(&self) -> Instant {
        Instant(u64::try_from(now().duration_since(self.start).as_nanos()).expect("584 years"))
    }

    fn wall(&self) -> WallTime {
        WallTime { unix_nanos: 1_700_000_000_000_000_000 }
    }

    fn sleep_until(&self, deadline: Instant) -> Task {
        let left = deadline.since(self.now());
        Box::pin(async move { pause(left) })
    }

    fn spawn(&self, name: &'static str, task: Task) {
        thread::Builder::new().name(name.into()).spawn(|| block_on(task)).expect("a thread");
    }

    fn random(&self) -> u64 {
        4
    }
}

pub fn pause(duration: Duration) {
    let until = now() + duration;
    while let Some(left) = until.checked_duration_since(now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
