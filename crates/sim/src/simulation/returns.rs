//! Disks that leave for a while and come back, or are replaced.

use cellar_diskgroup::{DiskInfo, DiskStatus, FoundDisk, NewDisk, OnlineHow};

use super::moves::Moves;
use super::*;

/// Whether disks leave and return in this run.
pub fn are_on(w: &World) -> bool {
    w.moves.as_ref().is_some_and(|moves| moves.mode.returns())
}

/// Whether the group reports the lost leg as out; it cannot be back then.
pub fn know_of_the_loss(w: &World, group: &Group) -> bool {
    let out = |d: &DiskInfo| !d.status.is_in_sync() && d.status != DiskStatus::Returning;
    w.lost.get() && group.disks().iter().any(out)
}

/// Perhaps makes a disk leave, or the one that left return. Only one is away at a time, so nothing may
/// ever be lost.
pub async fn alter(w: &World, group: &Group) {
    let Some(moves) = w.moves.as_ref().filter(|_| are_on(w)) else { return };
    if moves.below(w.rarely(5)) > 0 || w.changing.replace(true) {
        return;
    }
    w.asked();
    // At some point during other activity.
    group.env().sleep(Duration::from_micros(moves.below(3000))).await;
    let disks = group.disks();
    let gone =
        disks.iter().find(|d| matches!(d.status, DiskStatus::Offline | DiskStatus::Returning));
    match gone {
        None => leave(w, moves, group).await,
        Some(gone) if gone.status == DiskStatus::Returning => match moves.below(4) {
            0 => lose(w, moves, index_of(gone).expect("it is here")),
            1 => offline(w, group, gone).await,
            2 => wait(w, group).await,
            _ => {}
        },
        Some(gone) => come_back(w, moves, group, gone).await,
    }
    w.changing.set(false);
}

/// Whether everything is redundant, durably: then one disk may be lost.
async fn is_all_well(w: &World, group: &Group) -> bool {
    let well = || {
        group.disks().iter().all(|d| d.in_sync && d.status == DiskStatus::Online)
            && group.losses().iter().all(|l| (!l.data || l.single) && !l.stops)
            && w.plan.get().is_none_or(|(disk, _)| is_whole(w, disk) || !is_here(group, disk))
    };
    if !well() || group.rebalance(1).await.is_err() {
        return false;
    }
    well()
}

fn is_here(group: &Group, disk: usize) -> bool {
    group.disks().iter().any(|d| index_of(d) == Some(disk))
}

pub fn index_of(disk: &DiskInfo) -> Option<usize> {
    disk.path.as_ref()?.strip_prefix("/sim/disk")?.parse().ok()
}

fn is_whole(w: &World, disk: usize) -> bool {
    w.rig.disks[disk].is_whole()
}

/// Makes the device fail.
fn lose(w: &World, moves: &Moves, disk: usize) {
    let kinds = [Loss::Vanish, Loss::Power, Loss::FailWrites, Loss::Hang];
    w.plan.set(Some((disk, kinds[moves.below(4) as usize])));
    w.lost.set(false);
    w.departed.set(false);
    w.lost_in_life.set(true);
    w.lose_leg();
    single_copies_may_be_lost(w);
}

/// Unflushed data with its only copy on a disk that left may be lost with it.
fn single_copies_may_be_lost(w: &World) {
    let now = w.tick();
    for file in w.files.borrow_mut().values_mut().filter(|f| f.copies == 1) {
        file.crash(now);
    }
}

/// Pulls the disk that was last away, and may be back, while nothing is mounted.
pub fn lose_while_closed(w: &World) {
    if are_on(w) && w.lost.get() {
        let Some((disk, _)) = w.plan.get() else { return };
        w.say(format!("disk {disk} is pulled"));
        w.departed.set(false);
        w.rig.disks[disk].vanish();
    }
}

async fn leave(w: &World, moves: &Moves, group: &Group) {
    if !is_all_well(w, group).await {
        return;
    }
    w.lost.set(false);
    let disks = group.disks();
    let one = &disks[moves.below(disks.len() as u64) as usize];
    let Some(disk) = index_of(one) else { return };
    if moves.below(3) > 0 {
        return lose(w, moves, disk);
    }
    w.plan.set(Some((disk, Loss::Vanish)));
    offline(w, group, one).await;
}

async fn offline(w: &World, group: &Group, disk: &DiskInfo) {
    w.say(format!("offline {}", disk.name));
    let was = w.lost.replace(true);
    // It may leave at any moment now, and a reader may notice first.
    w.lost_in_life.set(true);
    single_copies_may_be_lost(w);
    match group.offline_disks(std::slice::from_ref(&disk.name), None).await {
        Ok(()) => {
            w.departed.set(true);
            // An unpublished file may have had its only copy there.
            single_copies_may_be_lost(w);
            w.say(format!("offline {}: done", disk.name));
        }
        // It left or returned meanwhile.
        Err(Error::DiskUnusable { number: 15281 | 15071 | 15054, .. }) => w.lost.set(was),
        // There is a single-copy file, or data not yet mirrored again.
        Err(Error::CannotOffline { why, .. }) => {
            w.say(format!("offline {}: {why}", disk.name));
            w.lost.set(was);
        }
        Err(error) => panic!("offline {}: {error}", disk.name),
    }
}

async fn come_back(w: &World, moves: &Moves, group: &Group, gone: &DiskInfo) {
    // While it hung, its state in the group may have been unknown.
    let Some((disk, _)) = w.plan.get() else { return };
    if moves.below(5) == 0 && replace(w, moves, group, gone).await {
        return;
    }
    w.rig.disks[disk].heal();
    let found = FoundDisk {
        device: w.rig.found_of(&[disk]).remove(0).device,
        path: format!("/sim/disk{disk}"),
    };
    let power = [None, Some(1), Some(11)][moves.below(3) as usize];
    let how = OnlineHow { force: w.forced.replace(false) || moves.below(6) == 0, power };
    w.force_tried.set(w.force_tried.get() || how.force);
    w.say(format!("online {} {how:?}", gone.name));
    match group.online_disk(&gone.name, found, how).await {
        Ok(()) => w.say(format!("online {}: on its way", gone.name)),
        Err(error @ Error::DiskUnusable { number: 15281 | 15071 | 15054, .. }) => {
            w.say(format!("online {}: {error}", gone.name));
        }
        // ONLINE FORCE was interrupted, or a mount before its first record.
        Err(error @ Error::Diverged { .. }) => {
            assert!(w.force_tried.get(), "it is what it was: {error}");
            w.say(format!("online {}: {error}", gone.name));
            w.count(|s| s.diverged += 1);
            w.forced.set(true);
        }
        Err(error) => panic!("online {}: {error}", gone.name),
    }
    if moves.below(3) == 0 {
        wait(w, group).await;
    }
}

/// Replaces a disk that is away with disk `i`, with FORCE if necessary.
pub async fn replace_by(w: &World, group: &Group, name: &str, i: usize) -> Result<(), Error> {
    let device = w.rig.found_of(&[i]).remove(0).device;
    let path = format!("/sim/disk{i}");
    let new = NewDisk { device, path, name: None, failgroup: None, size: None, force: true };
    w.say(format!("replace {name} with disk {i}"));
    match group.replace_disk(name, new.clone(), None).await {
        Err(Error::ForceNotNeeded { .. }) => {
            group.replace_disk(name, NewDisk { force: false, ..new }, None).await
        }
        other => other,
    }
}

/// Replaces a disk that is away with another device; false if there is none suitable.
async fn replace(w: &World, moves: &Moves, group: &Group, gone: &DiskInfo) -> bool {
    let here: Vec<usize> = group.disks().iter().filter_map(index_of).collect();
    let free: Vec<usize> = (0..w.rig.disks.len())
        .filter(|i| !here.contains(i) && w.plan.get().is_none_or(|(lost, _)| lost != *i))
        .filter(|i| w.rig.disks[*i].geometry().size >= gone.bytes)
        .collect();
    if free.is_empty() {
        return false;
    }
    let i = free[moves.below(free.len() as u64) as usize];
    w.rig.disks[i].heal();
    match replace_by(w, group, &gone.name, i).await {
        Ok(()) => {
            w.say(format!("replace {}: on its way", gone.name));
            w.count(|s| s.replaced += 1);
            w.plan.set(Some((i, Loss::Vanish)));
        }
        Err(Error::DiskUnusable { number: 15281 | 15071 | 15054, .. } | Error::Lost { .. }) => {
            return false;
        }
        Err(error) => panic!("replace {}: {error}", gone.name),
    }
    true
}

async fn wait(w: &World, group: &Group) {
    let back = group.returns().len() as u64;
    match group.wait_returned().await {
        Ok(()) => {
            w.count(|s| s.returned += back);
            w.say(format!("all that return are back, {back}"));
        }
        Err(error) => panic!("wait for the return: {error}"),
    }
}

/// Before the end: brings all disks back.
pub async fn settle(w: &World, group: &Group) {
    let Some(moves) = w.moves.as_ref().filter(|_| are_on(w)) else { return };
    // A disk must not return with an unnoticed cache loss.
    group.probe_disks().await;
    group.env().sleep(Duration::from_secs(1)).await;
    loop {
        let gone = group.disks().into_iter().find(|d| d.status == DiskStatus::Offline);
        match gone {
            Some(gone) => come_back(w, moves, group, &gone).await,
            None => break,
        }
    }
    if let Some((disk, _)) = w.plan.get() {
        w.rig.disks[disk].heal();
    }
    wait(w, group).await;
    // A disk that hung may still leave.
    group.env().sleep(Duration::from_secs(40)).await;
    let away = |d: &DiskInfo| matches!(d.status, DiskStatus::Offline | DiskStatus::Returning);
    if group.disks().iter().any(away) {
        return Box::pin(settle(w, group)).await;
    }
    // A disk dropped by force, whose copies have no space, is still lost.
    w.lost.set(group.disks().iter().any(|d| d.status == DiskStatus::Forcing));
}
