//! The stopwatch: the only clock here that is not simulated. No behaviour of a seed depends on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The current time of the machine's clock and of this thread's CPU clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Duration,
    cpu: Duration,
}

/// A duration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of this thread: excludes what other programs take of the core.
    pub cpu: Duration,
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    let seconds = Duration::from_secs(now.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(now.tv_nsec.unsigned_abs())
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Clock {
        Clock { wall: read(ClockId::Monotonic), cpu: read(ClockId::ThreadCPUTime) }
    }

    /// The time since the start.
    pub fn took(&self) -> Took {
        let now = Clock::start();
        Took { wall: now.wall.saturating_sub(self.wall), cpu: now.cpu.saturating_sub(self.cpu) }
    }
}

impl std::ops::AddAssign for Took {
    fn add_assign(&mut self, other: Took) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}
