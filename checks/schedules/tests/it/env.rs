//! The world outside, in which time is the order of steps.

use std::sync::Arc;

use cellar_io::{Env, Instant, SharedEnv, Task, WallTime};
use shuttle::rand::{Rng, thread_rng};

struct Steps;

impl Env for Steps {
    fn now(&self) -> Instant {
        Instant(0)
    }

    fn wall(&self) -> WallTime {
        WallTime::default()
    }

    /// Some steps of others later.
    fn sleep_until(&self, _: Instant) -> Task {
        Box::pin(async {
            for _ in 0..below(20) {
                shuttle::future::yield_now().await;
            }
        })
    }

    fn spawn(&self, _: &'static str, task: Task) {
        drop(shuttle::future::spawn(task));
    }

    fn random(&self) -> u64 {
        thread_rng().r#gen()
    }
}

pub fn env() -> SharedEnv {
    Arc::new(Steps)
}

/// A number below this, by chance.
pub fn below(end: u64) -> u64 {
    thread_rng().gen_range(0..end)
}
