//! The throttle of moves: how a rebalance yields to reads and writes of files.

use std::sync::Mutex;
use std::time::Duration;

use cellar_io::{EnvExt, Instant};

use crate::data::relocate::MovePace;
use crate::disk::lock;
use crate::moves::progress::Pass;
use crate::moves::rebalance::{Rebalance, may_read, may_work, power_of};

/// The throttle of one move. Below `POWER_FULL` it yields to whoever waits: after each step it rests for
/// a multiple of the time that the step took, if anybody wanted anything meanwhile.
pub(crate) struct Throttle<'a> {
    moves: &'a Rebalance,
    drive: Drive<'a>,
    step: Mutex<Step>,
}

/// What a throttle is for.
enum Drive<'a> {
    /// A move, at the power of the group, which may change on the way.
    Moving(Pass),
    /// A probe at this power.
    Probing(u32),
    /// The copying to a disk that came back, at this power and as long as it may go on.
    Resync(u32, &'a (dyn Fn() -> bool + Send + Sync)),
}

/// The last step of a move.
struct Step {
    began: Instant,
    /// Reads and writes that somebody waited for, by then.
    foreground: u64,
    /// How many bytes it copies; 0 before the first.
    bytes: u64,
    /// What this move has copied, as it was told to the group: half of the step under way counts.
    told: u64,
}

/// From this power on a rebalance yields to nobody.
pub const POWER_FULL: u32 = 11;
/// The longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(1);

impl<'a> Throttle<'a> {
    /// The throttle of a move.
    pub(crate) fn new(moves: &'a Rebalance, pass: Pass) -> Throttle<'a> {
        Throttle::with(moves, Drive::Moving(pass))
    }

    /// The throttle that a move would have at that power.
    pub(crate) fn probing(moves: &'a Rebalance, power: u32) -> Throttle<'a> {
        Throttle::with(moves, Drive::Probing(power))
    }

    /// The throttle of a resync at that power, while it may go on.
    pub(crate) fn resync(
        moves: &'a Rebalance,
        power: u32,
        may: &'a (dyn Fn() -> bool + Send + Sync),
    ) -> Throttle<'a> {
        Throttle::with(moves, Drive::Resync(power, may))
    }

    fn with(moves: &'a Rebalance, drive: Drive<'a>) -> Throttle<'a> {
        let (began, foreground) = (moves.env.now(), foreground_of(moves));
        let step = Mutex::new(Step { began, foreground, bytes: 0, told: 0 });
        Throttle { moves, drive, step }
    }

    fn power(&self) -> u32 {
        match self.drive {
            Drive::Moving(_) => power_of(self.moves),
            Drive::Probing(power) | Drive::Resync(power, _) => power,
        }
    }

    fn may_work(&self) -> bool {
        match self.drive {
            Drive::Moving(_) => may_work(self.moves),
            Drive::Probing(_) => may_read(self.moves),
            Drive::Resync(_, may) => !self.moves.is_ending() && may(),
        }
    }

    /// How long to rest now.
    fn rest(&self) -> Duration {
        let (now, foreground) = (self.moves.env.now(), foreground_of(self.moves));
        let step = lock(&self.step);
        let power = self.power().max(1);
        if power >= POWER_FULL || foreground == step.foreground {
            return Duration::ZERO;
        }
        // Power 1 works a tenth of the time, 9 and 10 half of it.
        (now.since(step.began) * (POWER_FULL - 1 - power).max(1)).min(REST_MAX)
    }

    /// The move has ended: what it copied counts as moved, or no more.
    pub(crate) fn end(&self, moved: bool) {
        let Drive::Moving(pass) = self.drive else { return };
        let told = lock(&self.step).told;
        let (au_size, now) = (self.moves.au_size, self.moves.env.now());
        lock(&self.moves.progress).end(pass, told, moved, au_size, now);
    }

    /// So many bytes more were copied.
    fn tell(&self, bytes: u64) {
        if let Drive::Moving(pass) = self.drive {
            lock(&self.moves.progress).of(pass).part += bytes;
        }
    }
}

impl MovePace for Throttle<'_> {
    fn step(&self) -> u64 {
        // Small steps let others in between; large ones cost less.
        if self.power() < POWER_FULL { 256 << 10 } else { 1 << 20 }
    }

    async fn go_on(&self, bytes: u64) -> bool {
        let rest = self.rest();
        if rest > Duration::ZERO && self.may_work() {
            let changed = self.moves.wanted.listen();
            let pause = self.moves.env.sleep(rest);
            futures_util::future::select(changed, pause).await;
        }
        let (began, foreground) = (self.moves.env.now(), foreground_of(self.moves));
        let copied = {
            let mut step = lock(&self.step);
            let copied = step.bytes - step.bytes / 2 + bytes / 2;
            *step = Step { began, foreground, bytes, told: step.told + copied };
            copied
        };
        self.tell(copied);
        self.may_work()
    }

    fn copied(&self) {
        let rest = {
            let mut step = lock(&self.step);
            let rest = step.bytes - step.bytes / 2;
            (step.bytes, step.told) = (0, step.told + rest);
            rest
        };
        self.tell(rest);
    }
}

fn foreground_of(moves: &Rebalance) -> u64 {
    moves.data.asked_count()
}
