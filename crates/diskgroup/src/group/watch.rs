//! Looking after the disks: which do not answer, and which are slow.

use std::sync::Arc;
use std::time::Duration;

use crate::disk::{Disk, lock};
use crate::group::inner::Inner;
use crate::group::report::only_on;
use crate::meta::rules;

/// How often the group looks.
pub(super) const EVERY: Duration = Duration::from_millis(250);
/// A read that has waited for so long goes to another copy, ...
const PATIENCE_MIN: Duration = Duration::from_millis(500);
/// ... or for so many times as long as the others take.
const PATIENCE_TIMES: u64 = 20;

/// One look.
pub(super) fn look(inner: &Arc<Inner>) {
    let disks = inner.disks_taking_part();
    for disk in &disks {
        if disk.is_alive() {
            disk.check_timeout(limit(inner, disk, &disks));
        }
        // Also one that a read found dead: who reads waits for no epoch.
        if !disk.is_alive() {
            inner.log.wanted.notify(1);
        }
    }
    let alive: Vec<&Arc<Disk>> = disks.iter().filter(|disk| disk.is_alive()).collect();
    if alive.iter().any(|disk| disk.silent() > inner.detach_timeout / 2) {
        // Whether it is that disk, or the machine that stands still: the others may be idle.
        alive.iter().for_each(|disk| try_pace(inner, disk));
    }
    for disk in &alive {
        let mut others = means(&alive, disk);
        let usual = others.iter().copied().max().unwrap_or(0);
        let patience = PATIENCE_MIN.max(Duration::from_nanos(usual.saturating_mul(PATIENCE_TIMES)));
        disk.look_at_pace(patience);
        let was = disk.pace.is_slow();
        disk.pace.judge(&mut others);
        if was {
            try_pace(inner, disk);
        }
    }
}

/// Reads a block of a disk, so that it is known how long that takes.
fn try_pace(inner: &Arc<Inner>, disk: &Arc<Disk>) {
    if !inner.is_stopped() {
        let tried = Arc::clone(disk);
        inner.env.spawn("disk tried", Box::pin(async move { tried.try_pace().await }));
    }
}

/// What the other disks are like.
fn means(disks: &[&Arc<Disk>], own: &Disk) -> Vec<u64> {
    disks.iter().filter(|disk| disk.no != own.no).map(|disk| disk.pace.mean()).collect()
}

/// How long a request to a disk may go unanswered: not so long where the disk can be done without,
/// and another has answered meanwhile. If none has, the machine stands still, and not the disk.
fn limit(inner: &Inner, disk: &Disk, disks: &[Arc<Disk>]) -> Duration {
    let (usual, short) = (inner.disk_timeout, inner.detach_timeout);
    let silent = disk.silent();
    if silent <= short || short >= usual {
        return usual;
    }
    let half = inner.env.now().0.saturating_sub(silent.as_nanos() as u64 / 2);
    let answers = |other: &&Arc<Disk>| {
        other.no != disk.no && other.is_alive() && other.last_answer().0 >= half
    };
    if !disks.iter().any(|other| answers(&other)) {
        return usual;
    }
    let core = lock(&inner.core);
    let members = &core.state.members;
    let stays = |no: &&u16| {
        let here = disks.iter().find(|d| d.no == **no);
        **no != disk.no && here.is_some_and(|d| d.is_alive() && d.is_in_sync())
    };
    let left = members.iter().filter(stays).count();
    let goes_on = left == members.len() || rules::may_continue(members.len(), left);
    match goes_on && only_on(&core.state, &[disk.no]).is_none() {
        true => short,
        false => usual,
    }
}
