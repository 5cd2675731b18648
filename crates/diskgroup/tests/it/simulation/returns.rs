//! Disks that leave for a while and come back, or are replaced.

use cellar_diskgroup::{DiskInfo, DiskStatus, FoundDisk, NewDisk, OnlineHow};

use super::moves::{Mode, Moves};
use super::*;

/// Whether disks leave and return in this run.
pub fn are_on(w: &World) -> bool {
    w.moves.as_ref().is_some_and(|moves| moves.mode == Mode::Return)
}

/// Whether the group says that the lost leg is out; it cannot be back then.
pub fn know_of_the_loss(w: &World, group: &Group) -> bool {
    let out = |d: &DiskInfo| !d.status.is_in_sync() && d.status != DiskStatus::Returning;
    w.lost.get() && group.disks().iter().any(out)
}

/// Perhaps lets a disk leave, or the one that left come back. One at a time is away, so that nothing
/// may ever be lost.
pub async fn alter(w: &World, group: &Group) {
    let Some(moves) = w.moves.as_ref().filter(|_| are_on(w)) else { return };
    if moves.below(5) > 0 {
        return;
    }
    w.count(|s| s.ops += 1);
    let disks = group.disks();
    match disks.iter().find(|d| d.status != DiskStatus::Online) {
        None if w.lost.get() => {
            // It may have failed and nobody noticed yet, or be back already.
            if moves.below(2) == 0 && w.plan.get().is_some_and(|(disk, _)| is_whole(w, disk)) {
                w.lost.set(false);
            }
        }
        None => leave(w, moves, group).await,
        Some(gone) if gone.status == DiskStatus::Returning => match moves.below(4) {
            0 => lose(w, moves, index_of(gone).expect("it is here")),
            1 => offline(w, group, gone).await,
            2 => wait(w, group).await,
            _ => {}
        },
        Some(gone) => come_back(w, moves, group, gone).await,
    }
}

fn index_of(disk: &DiskInfo) -> Option<usize> {
    disk.path.as_ref()?.strip_prefix("/sim/disk")?.parse().ok()
}

fn is_whole(w: &World, disk: usize) -> bool {
    w.rig.disks[disk].is_whole()
}

/// The device fails from now on.
fn lose(w: &World, moves: &Moves, disk: usize) {
    let how = [Loss::Vanish, Loss::FailWrites, Loss::Hang][moves.below(3) as usize];
    w.plan.set(Some((disk, how)));
    w.lost.set(false);
    w.departed.set(false);
    w.lose_leg();
}

async fn leave(w: &World, moves: &Moves, group: &Group) {
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
    match group.offline_disks(std::slice::from_ref(&disk.name), None).await {
        Ok(()) => {
            w.departed.set(true);
            w.say(format!("offline {}: done", disk.name));
        }
        // It left or came meanwhile.
        Err(Error::DiskUnusable { number: 15281, .. }) => w.lost.set(was),
        Err(error) => panic!("offline {}: {error}", disk.name),
    }
}

async fn come_back(w: &World, moves: &Moves, group: &Group, gone: &DiskInfo) {
    // While it was hanging, its place in the group may not be known.
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
    let how = OnlineHow { force: moves.below(6) == 0, power };
    w.say(format!("online {} {how:?}", gone.name));
    match group.online_disk(&gone.name, found, how).await {
        Ok(()) => w.say(format!("online {}: on its way", gone.name)),
        Err(error @ (Error::DiskUnusable { number: 15281, .. } | Error::Stopped { .. })) => {
            w.say(format!("online {}: {error}", gone.name));
        }
        Err(error) => panic!("online {}: {error}", gone.name),
    }
    if moves.below(3) == 0 {
        wait(w, group).await;
    }
}

/// Puts another device in the place of a disk that is away; false if there is none that will do.
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
    let device = w.rig.found_of(&[i]).remove(0).device;
    let path = format!("/sim/disk{i}");
    let new = NewDisk { device, path, name: None, failgroup: None, size: None, force: true };
    w.say(format!("replace {} with disk {i}", gone.name));
    let replaced = match group.replace_disk(&gone.name, new.clone(), None).await {
        Err(Error::ForceNotNeeded { .. }) => {
            group.replace_disk(&gone.name, NewDisk { force: false, ..new }, None).await
        }
        other => other,
    };
    match replaced {
        Ok(()) => {
            w.say(format!("replace {}: on its way", gone.name));
            w.count(|s| s.replaced += 1);
            w.plan.set(Some((i, Loss::Vanish)));
        }
        Err(Error::DiskUnusable { number: 15281, .. }) => {}
        Err(error) => panic!("replace {}: {error}", gone.name),
    }
    true
}

async fn wait(w: &World, group: &Group) {
    match group.wait_returned().await {
        Ok(()) => {
            w.count(|s| s.returned += 1);
            w.say("all that return are back".into());
        }
        Err(error) => panic!("wait for the return: {error}"),
    }
    if group.disks().iter().all(|d| d.status == DiskStatus::Online)
        && w.plan.get().is_some_and(|(disk, _)| is_whole(w, disk))
    {
        w.lost.set(false);
    }
}

/// Before the end: all of them are here.
pub async fn settle(w: &World, group: &Group) {
    let Some(moves) = w.moves.as_ref().filter(|_| are_on(w)) else { return };
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
    // One that hung may leave even now.
    group.env().sleep(Duration::from_secs(40)).await;
    if group.disks().iter().any(|d| d.status != DiskStatus::Online) {
        return Box::pin(settle(w, group)).await;
    }
    w.lost.set(false);
}
