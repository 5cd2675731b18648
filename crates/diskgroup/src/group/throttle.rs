//! The throttle of moves: how a rebalance makes way for who reads and writes files.

use std::sync::Mutex;
use std::time::Duration;

use cellar_io::{EnvExt, Instant};

use crate::data::relocate::MovePace;
use crate::disk::lock;
use crate::group::inner::Inner;
use crate::group::progress::Pass;
use crate::group::rebalance::{may_read, may_work, power_of};

/// The throttle of one move. Below `POWER_FULL` it makes way for whoever waits: after each step it rests
/// for a multiple of the time that the step took, if anybody wanted anything meanwhile.
pub(crate) struct Throttle<'a> {
    inner: &'a Inner,
    drive: Drive,
    step: Mutex<Step>,
}

/// What a throttle is for.
enum Drive {
    /// A move, at the power of the group, which may change on the way.
    Moving(Pass),
    /// A probe at this power.
    Probing(u32),
    /// A disk that came back gets what it missed, at this power.
    Resync(u32),
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

/// From this power on a rebalance makes way for nobody.
pub const POWER_FULL: u32 = 11;
/// The longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(1);

impl<'a> Throttle<'a> {
    /// The throttle of a move.
    pub(crate) fn new(inner: &'a Inner, pass: Pass) -> Throttle<'a> {
        Throttle::with(inner, Drive::Moving(pass))
    }

    /// The throttle that a move would have at that power.
    pub(crate) fn probing(inner: &'a Inner, power: u32) -> Throttle<'a> {
        Throttle::with(inner, Drive::Probing(power))
    }

    /// The throttle of a resync at that power.
    pub(crate) fn resync(inner: &'a Inner, power: u32) -> Throttle<'a> {
        Throttle::with(inner, Drive::Resync(power))
    }

    fn with(inner: &'a Inner, drive: Drive) -> Throttle<'a> {
        let (began, foreground) = (inner.env.now(), foreground_of(inner));
        let step = Mutex::new(Step { began, foreground, bytes: 0, told: 0 });
        Throttle { inner, drive, step }
    }

    fn power(&self) -> u32 {
        match self.drive {
            Drive::Moving(_) => power_of(self.inner),
            Drive::Probing(power) | Drive::Resync(power) => power,
        }
    }

    fn may_work(&self) -> bool {
        match self.drive {
            Drive::Moving(_) => may_work(self.inner),
            Drive::Probing(_) => may_read(self.inner),
            Drive::Resync(_) => !self.inner.is_ending() && self.inner.returning.may_work(),
        }
    }

    /// How long to rest now.
    fn rest(&self) -> Duration {
        let (now, foreground) = (self.inner.env.now(), foreground_of(self.inner));
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
        let (au_size, now) = (self.inner.au_size, self.inner.env.now());
        lock(&self.inner.rebalance.progress).end(pass, told, moved, au_size, now);
    }

    /// So many bytes more were copied.
    fn tell(&self, bytes: u64) {
        if let Drive::Moving(pass) = self.drive {
            lock(&self.inner.rebalance.progress).of(pass).part += bytes;
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
            let changed = self.inner.rebalance.wanted.listen();
            let pause = self.inner.env.sleep(rest);
            futures_util::future::select(changed, pause).await;
        }
        let (began, foreground) = (self.inner.env.now(), foreground_of(self.inner));
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

fn foreground_of(inner: &Inner) -> u64 {
    inner.data.asked_count()
}
