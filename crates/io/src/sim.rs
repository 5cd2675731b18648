//! A simulated machine: one thread, virtual time, and disks that a power cut tears.
//!
//! [`Sim`] runs futures on a scheduler that picks among the ready tasks by a seed and moves time
//! to the next timer when none is ready; [`SimDisk`] is a [`Device`](crate::Device) whose
//! unflushed writes are lost or kept, sector by sector, when the machine crashes. A run replays
//! exactly from its seed: [`Sim::trace_hash`] tells.
//!
//! ```
//! use cellar_io::sim::{Sim, SimDiskOptions};
//! use cellar_io::{DeviceExt, Durability, Io};
//!
//! let sim = Sim::new(7);
//! let disk = sim.disk("disk1", SimDiskOptions::default());
//! let ran = sim.run(async {
//!     let data = vec![1u8; 4096].into();
//!     disk.write_at(Io::FOREGROUND, 0, data, Durability::Cached).await
//! });
//! assert!(matches!(ran, Some(Ok(()))));
//! sim.crash();
//! sim.restart();
//! let first = sim.run(async { disk.read_at(Io::FOREGROUND, 0, 4096).await.unwrap()[0] });
//! assert!(matches!(first, Some(0 | 1)), "nothing was flushed");
//! ```

mod core;
mod disk;
mod fault;
mod image;
mod rng;
mod state;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use self::core::{Core, Event, MAIN, SimEnv, Step};
pub use self::disk::{SimDisk, SimDiskOptions};
pub use self::fault::{Snapshot, WriteDamage};
pub use self::rng::Rng;
use crate::env::{Instant, SharedEnv};

/// Steps without time moving on after which a run is called a livelock.
const STEPS_AT_ONE_TIME_MAX: u64 = 50_000_000;

/// A simulated machine with its disks. See the [module](self).
pub struct Sim {
    core: Arc<Core>,
    env: SharedEnv,
    disks: Mutex<Vec<Arc<SimDisk>>>,
}

impl Sim {
    /// A machine without disks, switched on, at time 0. Everything it does follows from `seed`.
    pub fn new(seed: u64) -> Sim {
        let core = Arc::new(Core::new(seed));
        Sim { env: Arc::new(SimEnv(Arc::clone(&core))), core, disks: Mutex::default() }
    }

    /// The clock, chance and tasks of the machine.
    pub fn env(&self) -> SharedEnv {
        Arc::clone(&self.env)
    }

    /// Virtual time. It goes on over crashes.
    pub fn now(&self) -> Instant {
        Instant(self.core.now())
    }

    /// Adds a disk, full of zeros.
    ///
    /// # Panics
    /// If the options contradict themselves: a sector that is not 512 to 4096, a size that is not
    /// a multiple of the sector, an empty latency range.
    pub fn disk(&self, name: &str, options: SimDiskOptions) -> Arc<SimDisk> {
        let mut disks = self.disks();
        let index = disks.len();
        let disk = Arc::new(SimDisk::new(Arc::clone(&self.core), index, name, options));
        disks.push(Arc::clone(&disk));
        disk
    }

    fn disks(&self) -> MutexGuard<'_, Vec<Arc<SimDisk>>> {
        self.disks.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Drives the machine until `future` is done. `None` if the machine crashed first: then every
    /// task, timer and this future are dropped and the disks have decided what they keep. Spawned
    /// tasks that are not done go on in the next `run`.
    ///
    /// # Panics
    /// If nothing can ever happen again although `future` is not done, if tasks wake each other
    /// without end while time stands still, or if the machine crashed and was not restarted.
    pub fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        assert!(!self.core.crashed(), "the machine crashed: call restart() before run()");
        let disks = self.disks().clone();
        let output = {
            let mut main = pin!(future);
            let task = self.core.main_waker();
            let waker = Waker::from(Arc::clone(&task));
            self.drive(&disks, task.key().id, || {
                task.arm();
                main.as_mut().poll(&mut Context::from_waker(&waker))
            })
        };
        if output.is_none() {
            self.cut_power();
        }
        output
    }

    fn drive<T>(
        &self,
        disks: &[Arc<SimDisk>],
        main: u64,
        mut poll_main: impl FnMut() -> Poll<T>,
    ) -> Option<T> {
        let (mut steps, mut last) = (0u64, self.now());
        loop {
            match self.core.step() {
                Step::Crash => return None,
                Step::Poll(key) if key.slot == MAIN => {
                    if key.id == main
                        && let Poll::Ready(output) = poll_main()
                    {
                        // A crash point reached in the last poll still counts.
                        return (!self.core.crashed()).then_some(output);
                    }
                }
                Step::Poll(key) => self.core.poll(key),
                Step::Fire(Event::Wake(waker)) => waker.wake(),
                Step::Fire(Event::Io { disk, op }) => match disks.get(disk) {
                    Some(disk) => disk.complete(op),
                    None => self.disks()[disk].clone().complete(op),
                },
                Step::Deadlock(tasks) => self.deadlock(disks, &tasks),
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_AT_ONE_TIME_MAX) {
                let now = self.now();
                assert!(
                    now > last,
                    "livelock: {STEPS_AT_ONE_TIME_MAX} steps without time moving on \
                     (seed {}, time {} ns)",
                    self.core.seed,
                    now.0,
                );
                last = now;
            }
        }
    }

    fn deadlock(&self, disks: &[Arc<SimDisk>], tasks: &[&'static str]) -> ! {
        let hung: Vec<String> = disks
            .iter()
            .filter(|disk| disk.hung_requests() > 0)
            .map(|disk| format!("{} ({} requests)", disk.name(), disk.hung_requests()))
            .collect();
        panic!(
            "deadlock: the future is not done, nothing is ready and no timer is set \
             (seed {}, time {} ns, {} I/O events; tasks waiting: {tasks:?}; disks that hang: {hung:?})",
            self.core.seed,
            self.now().0,
            self.io_events(),
        )
    }

    /// Cuts the power: now if nothing runs, else as soon as the task that calls it yields.
    pub fn crash(&self) {
        self.core.crash_after(Some(0));
    }

    /// Stops the machine at the `n`-th I/O event from now, 1 being the next. A submission and a
    /// completion are one event each. At a submission the request is on its way and may be partly
    /// done; at a completion it is done but nobody has heard of it.
    pub fn crash_after(&self, n: u64) {
        self.core.crash_after(Some(n));
    }

    /// Takes back [`crash_after`](Sim::crash_after), if it has not happened.
    pub fn crash_never(&self) {
        self.core.crash_after(None);
    }

    /// Whether the machine has crashed, or is about to, and was not restarted.
    pub fn crashed(&self) -> bool {
        self.core.crashed()
    }

    /// Switches the machine on again with the same disks and their faults; time goes on.
    pub fn restart(&self) {
        if self.core.crashed() {
            // A crash outside `run` has dropped nothing yet; one inside has left nothing.
            self.cut_power();
        }
        self.core.restart();
    }

    fn cut_power(&self) {
        self.core.power_off();
        for disk in self.disks().iter() {
            disk.power_cut();
        }
    }

    /// Shifts the time of day by this many nanoseconds from now on; the clock that only goes
    /// forward is not changed.
    pub fn set_wall(&self, off: i64) {
        self.core.wall_off.store(off, std::sync::atomic::Ordering::Relaxed);
    }

    /// Freezes the machine for a while: what was due meanwhile comes late, all at once.
    pub fn pause(&self, how_long: std::time::Duration) {
        self.core.pause(u64::try_from(how_long.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many I/O events there were: submissions and completions.
    pub fn io_events(&self) -> u64 {
        self.core.io_events()
    }

    /// A digest of everything that happened, in order: two runs of one seed have the same.
    pub fn trace_hash(&self) -> u64 {
        self.core.trace()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "simulated machine: seed {}, time {} ns, {} I/O events",
                self.core.seed,
                self.now().0,
                self.io_events()
            );
            return;
        }
        // Tasks hold the environment and the environment holds them.
        self.crash();
        self.core.power_off();
    }
}
