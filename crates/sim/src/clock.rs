//! The stopwatch: the only clock here that is not simulated. Nothing that a seed does depends on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock of the machine and on that of this thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Duration,
    cpu: Duration,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// By the clock on the wall.
    pub wall: Duration,
    /// Of one core: what other programs take of it is not in here.
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

    /// Since then.
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
