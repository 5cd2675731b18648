//! Monitoring of the disks: which do not answer, and which are slow.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Instant, IoError, IoErrorKind, Op};

use crate::disk::{Disk, lock};
use crate::group::inner::Inner;
use crate::meta::rules::goes_on_without;

/// How often the group looks.
pub(super) const EVERY: Duration = Duration::from_millis(250);
/// A check that comes this much too late: the machine stood still, and not the disks.
const LATE: Duration = Duration::from_secs(1);
/// After that the disks have this long to answer earlier requests.
const GRACE: Duration = Duration::from_secs(5);
/// A read that has waited for so long goes to another copy, ...
const TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// ... or for so many times as long as the others take.
const TIMEOUT_FACTOR: u64 = 20;

/// When it looked.
pub(super) struct Watch {
    last: Instant,
    /// No disk is judged before this.
    from: Instant,
}

impl Watch {
    pub fn new(inner: &Inner) -> Watch {
        let now = inner.env.now();
        Watch { last: now, from: now }
    }

    /// One look.
    pub fn look(&mut self, inner: &Arc<Inner>) {
        let now = inner.env.now();
        if now.since(self.last) > EVERY + LATE {
            self.from = now.plus(GRACE);
        }
        self.last = now;
        let disks = inner.disks_taking_part();
        if now >= self.from {
            fail_silent(inner, &disks);
        }
        // Also one that a read found dead: a read does not wait for an epoch.
        if disks.iter().any(|disk| !disk.is_alive()) {
            inner.log.wanted.notify(1);
        }
        let alive: Vec<&Arc<Disk>> = disks.iter().filter(|disk| disk.is_alive()).collect();
        // A disk is compared with the others as they are now: how they were some time ago, when the
        // machine was less busy, says nothing.
        let compared = alive.iter().any(|disk| disk.latency.is_in_doubt());
        for disk in &alive {
            let mut others = means(&alive, disk);
            let usual = others.iter().copied().max().unwrap_or(0);
            let usual = Duration::from_nanos(usual.saturating_mul(TIMEOUT_FACTOR));
            let was_read = disk.look_at_latency(TIMEOUT_MIN.max(usual));
            if was_read && now >= self.from {
                disk.latency.judge(&mut others);
            }
            if disk.is_avoided() || compared && !was_read {
                // No reads come by themselves, and nothing else may show that it answers again.
                try_latency(inner, disk);
            }
        }
    }
}

/// Reads a block of a disk, so that it is known how long that takes.
fn try_latency(inner: &Arc<Inner>, disk: &Arc<Disk>) {
    if !inner.is_stopped() {
        let tried = Arc::clone(disk);
        inner.env.spawn("disk tried", Box::pin(async move { tried.try_latency().await }));
    }
}

/// What the other disks are like.
fn means(disks: &[&Arc<Disk>], own: &Disk) -> Vec<u64> {
    disks.iter().filter(|disk| disk.no != own.no).map(|disk| disk.latency.mean()).collect()
}

/// Fails disks that leave requests unanswered: soon, if the group can do without all of them together
/// and another disk has answered meanwhile; otherwise when there is no hope for them.
fn fail_silent(inner: &Arc<Inner>, disks: &[Arc<Disk>]) {
    let short = inner.detach_timeout;
    let alive = || disks.iter().filter(|disk| disk.is_alive());
    let silent: Vec<&Arc<Disk>> = alive().filter(|disk| disk.silent() > short).collect();
    if !silent.is_empty() && short < inner.disk_timeout && can_detach(inner, disks, &silent) {
        for disk in silent {
            let after_ms = short.as_millis() as u64;
            let name = &disk.device().geometry().name;
            disk.fail(IoError::new(IoErrorKind::Timeout { after_ms }, name, Op::Open, 0, 0));
        }
    } else if alive().any(|disk| disk.silent() > short / 2) {
        // Either those disks or the whole machine stands still: the others may be idle.
        alive().filter(|d| d.silent() <= short / 2).for_each(|disk| try_latency(inner, disk));
    }
    alive().for_each(|disk| disk.check_timeout(inner.disk_timeout));
}

/// Whether the group loses nothing without these disks and those that failed already: the committer
/// checks the same before it lets them go, because otherwise it would stop.
fn can_detach(inner: &Inner, disks: &[Arc<Disk>], silent: &[&Arc<Disk>]) -> bool {
    let longest = silent.iter().map(|disk| disk.silent()).max().unwrap_or_default();
    let half = inner.env.now().0.saturating_sub(longest.as_nanos() as u64 / 2);
    let goes = |no: u16| {
        let here = disks.iter().find(|disk| disk.no == no);
        here.is_none_or(|d| !d.is_alive()) || silent.iter().any(|disk| disk.no == no)
    };
    if !disks.iter().any(|disk| !goes(disk.no) && disk.last_answer().0 >= half) {
        return false;
    }
    goes_on_without(&lock(&inner.core).state, goes)
}
