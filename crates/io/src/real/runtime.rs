//! The environment of production: tokio, the clocks of the system, true chance.

#![expect(unsafe_code, reason = "the system call for random bytes")]

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use crate::env::{Env, Instant, SharedEnv, Task, WallTime};

use super::clock::{Clock, Source};
use super::engine::Engine;
use super::engine::libaio::LibAio;
use super::engine::pool::Pool;
use super::engine::uring::Uring;
use super::limits;
use super::timer::Timer;

/// Threads of the synchronous engine, and thus its queue depth.
const POOL_THREADS: usize = 32;

/// How a [`Runtime`] is made.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Threads that run tasks; 0 is as many as the machine has processors, at least 2.
    pub workers: usize,
    /// Which clock `now` reads.
    pub clock: Clock,
}

/// A tokio runtime with the environment that belongs to it. Dropping it stops its tasks.
pub struct Runtime {
    // Dropped first, so that no task runs any more when the engines go.
    tokio: tokio::runtime::Runtime,
    env: Arc<RealEnv>,
}

/// The [`Env`] of a [`Runtime`]; disks are opened in it.
pub struct RealEnv {
    handle: Handle,
    clock: Arc<Source>,
    timer: Arc<Timer>,
    chance: AtomicU64,
    engines: Mutex<Engines>,
}

/// The engines that were needed so far.
#[derive(Default)]
struct Engines {
    uring: Option<Arc<Uring>>,
    libaio: Option<Arc<LibAio>>,
    pool: Option<Arc<Pool>>,
}

impl Runtime {
    /// Starts the threads, and raises the open file limit of this process as far as its user may.
    ///
    /// # Errors
    /// What the system says when threads or descriptors run out.
    pub fn new(options: &RuntimeOptions) -> io::Result<Runtime> {
        limits::raise_open_files();
        limits::check_open_files()?;
        let workers = match options.workers {
            0 => std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
            n => n,
        };
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("cellar-worker")
            .enable_all()
            .build()?;
        let handle = tokio.handle().clone();
        let clock = Arc::new(Source::new(options.clock));
        let env = Arc::new(RealEnv {
            timer: Timer::new(&handle, &clock)?,
            handle,
            clock,
            chance: AtomicU64::new(seed()?),
            engines: Mutex::new(Engines::default()),
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
    ///
    /// # Panics
    /// When called from a task.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.tokio.block_on(future)
    }
}

impl RealEnv {
    /// Which clock is in force.
    pub fn clock(&self) -> Clock {
        self.clock.effective()
    }

    /// The tokio runtime below, for libraries that want one.
    pub fn tokio(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn clock_source(&self) -> Arc<Source> {
        Arc::clone(&self.clock)
    }

    pub(super) fn uring(&self) -> io::Result<Arc<dyn Engine>> {
        let mut engines = self.engines.lock().unwrap_or_else(|e| e.into_inner());
        if engines.uring.is_none() {
            engines.uring = Some(Arc::new(Uring::new(&self.handle)?));
        }
        Ok(engines.uring.clone().expect("made just above"))
    }

    pub(super) fn libaio(&self) -> io::Result<Arc<dyn Engine>> {
        let mut engines = self.engines.lock().unwrap_or_else(|e| e.into_inner());
        if engines.libaio.is_none() {
            engines.libaio = Some(Arc::new(LibAio::new(&self.handle)?));
        }
        Ok(engines.libaio.clone().expect("made just above"))
    }

    pub(super) fn pool(&self) -> Arc<dyn Engine> {
        let mut engines = self.engines.lock().unwrap_or_else(|e| e.into_inner());
        let pool = engines.pool.get_or_insert_with(|| Arc::new(Pool::new(POOL_THREADS)));
        Arc::clone(pool) as Arc<dyn Engine>
    }
}

impl Env for RealEnv {
    fn now(&self) -> Instant {
        Instant(self.clock.now())
    }

    fn wall(&self) -> WallTime {
        #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallTime { unix_nanos: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn sleep_until(&self, deadline: Instant) -> Task {
        Box::pin(self.timer.sleep_until(deadline.0))
    }

    fn spawn(&self, _name: &'static str, task: Task) {
        self.handle.spawn(task);
    }

    fn random(&self) -> u64 {
        // SplitMix64 from a seed of the system.
        let mut z = self.chance.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

fn seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes at most 8 bytes to the array; so few come all at once.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != 8 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_le_bytes(bytes))
}
