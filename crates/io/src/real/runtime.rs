//! The environment of production: tokio, the clocks of the system, true chance.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use crate::env::{Env, Instant, SharedEnv, Task, WallTime};

use super::engine::Engine;
use super::engine::uring::Uring;

/// How a [`Runtime`] is made.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Threads that run tasks; 0 is as many as the machine has processors, at least 2.
    pub workers: usize,
}

impl Default for RuntimeOptions {
    fn default() -> RuntimeOptions {
        RuntimeOptions { workers: 0 }
    }
}

/// A tokio runtime with the environment that belongs to it.
pub struct Runtime {
    tokio: tokio::runtime::Runtime,
    env: Arc<RealEnv>,
}

/// The [`Env`] of a [`Runtime`]; devices are opened in it.
pub struct RealEnv {
    handle: Handle,
    start: std::time::Instant,
    uring: Mutex<Option<Arc<Uring>>>,
}

impl Runtime {
    /// Starts the threads.
    ///
    /// # Errors
    /// What the system says when threads or descriptors run out.
    pub fn new(options: &RuntimeOptions) -> io::Result<Runtime> {
        let workers = match options.workers {
            0 => std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
            n => n,
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(workers).thread_name("cellar-worker").enable_all();
        let tokio = builder.build()?;
        #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
        let start = std::time::Instant::now();
        let env = Arc::new(RealEnv {
            handle: tokio.handle().clone(),
            start,
            uring: Mutex::new(None),
        });
        Ok(Runtime { tokio, env })
    }

    /// The environment for code that only knows [`Env`].
    pub fn env(&self) -> SharedEnv {
        self.env.clone()
    }

    /// The environment that disks are opened in.
    pub fn real_env(&self) -> &Arc<RealEnv> {
        &self.env
    }

    /// Runs `future` on this thread while tasks run beside it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.tokio.block_on(future)
    }
}

impl RealEnv {
    pub(crate) fn uring(&self) -> io::Result<Arc<dyn Engine>> {
        let mut uring = self.uring.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(uring) = &*uring {
            return Ok(uring.clone());
        }
        let made = Arc::new(Uring::new(&self.handle)?);
        *uring = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Env for RealEnv {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> WallTime {
        #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallTime {
            unix_nanos: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn sleep_until(&self, deadline: Instant) -> Task {
        let until = self.start + Duration::from_nanos(deadline.0);
        Box::pin(async move { tokio::time::sleep_until(until.into()).await })
    }

    fn spawn(&self, _name: &'static str, task: Task) {
        self.handle.spawn(task);
    }

    fn random(&self) -> u64 {
        0
    }
}
