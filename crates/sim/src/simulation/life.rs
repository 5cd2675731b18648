//! One run of the process: from start to dismount, end, or crash.

use super::*;

pub async fn create_group(w: &World) {
    let mut spec = w.rig.spec(&w.shape);
    spec.disks.truncate(w.shape.disks);
    loop {
        match cellar_diskgroup::create(&w.rig.env(), spec.clone()).await {
            Ok(()) => break,
            // A crash interrupted a creation; its leftovers may be used with FORCE.
            Err(Error::DiskUnusable { number: 15033, disk, .. }) => {
                let bad = spec.disks.iter_mut().find(|d| d.path == disk).expect("one of ours");
                assert!(!bad.force, "FORCE takes a disk");
                bad.force = true;
            }
            Err(error) => panic!("create: {error}"),
        }
    }
    w.created.set(true);
    w.say("created".into());
}

pub async fn mount(w: &World) -> Group {
    let options = MountOptions {
        checksum_cache_bytes: 8192,
        resync_target: Duration::from_millis(200),
        // Many blocks of the dirty log in half of the mounts.
        dirty_block_entries: [2, 252][w.below(2) as usize],
        ..MountOptions::default()
    };
    w.count(|s| s.mounts += 1);
    loop {
        match w.rig.mount_with(w.rig.found(), options.clone()).await {
            Ok(group) => {
                w.say(format!("mounted, epoch {}", group.info().epoch));
                return group;
            }
            // The leg failed before an epoch without it was committed, and the set had two members: the
            // other one alone must not be trusted. The leg comes back.
            Err(Error::NotProven { why, members, .. }) if w.lost.get() && !w.departed.get() => {
                let fgs = w.shape.failgroups.len();
                let two = w.shape.disks == 2 || (fgs > 0 && fgs < 3) || members == 2;
                assert!(two, "not proven: {why}");
                w.say(format!("not proven: {why}; the leg comes back"));
                w.count(|s| s.not_proven += 1);
                let (disk, _) = w.plan.get().expect("a leg was lost");
                w.rig.disks[disk].heal();
            }
            Err(error) => panic!("mount: {error}"),
        }
    }
}

/// Opens the named files, every other one as recovered by its owner.
fn reopened(w: &World, group: &Group) -> Vec<std::rc::Rc<Open>> {
    let files = w.files.borrow();
    let open = files.values().map(|model| {
        let file = group.open_number(model.number).expect("it has a name");
        if model.number.is_multiple_of(2) {
            file.recovered_by_owner();
        }
        std::rc::Rc::new(Open { id: model.id, file, busy: Cell::new(false) })
    });
    open.collect()
}

/// One run of the process: from start to dismount, end, or crash.
pub async fn life(w: &World, last: bool) {
    if let Some(bad) = &w.bad {
        return faults::life(w, bad, last).await;
    }
    if !w.created.get() {
        create_group(w).await;
    }
    w.lost_in_life.set(w.lost.get());
    w.changing.set(false);
    let group = mount(w).await;
    rot::begin(w, &group).await;
    let look = last || w.below(4) > 0;
    verify(w, &group, look).await;
    let open = RefCell::new(reopened(w, &group));
    let work = if last { 2 } else { w.load.rounds(w) };
    for _ in 0..work {
        some_work(w, &group, &open).await;
    }
    if !last && w.below(3) == 0 && !(rot::is_on(w) && w.rotten.get()) {
        w.say("abandoned".into());
        group.abandon();
        // Requests in flight finish before anybody can mount again.
        w.rig.env().sleep(Duration::from_secs(1)).await;
        w.ended();
        w.soft.set(true);
        return;
    }
    drop_unnamed(w, &open, false);
    let held: Vec<std::rc::Rc<Open>> = open.borrow().clone();
    for one in &held {
        read_all(w, one.id, &one.file).await;
    }
    drop(held);
    rot::end(w, &group).await;
    if last {
        moves::settle(w, &group).await;
        returns::settle(w, &group).await;
    }
    group_is_sound(w, &group).await;
    if last {
        everything_goes(w, &group, &open).await;
    } else {
        drop_unnamed(w, &open, false);
    }
    w.say("dismount".into());
    let rest = if last { vec![] } else { leftovers(w, &open) };
    let dismount = async {
        if let Err(error) = group.dismount().await {
            panic!("dismount: {error}");
        }
    };
    w.leaving.set(true);
    futures_util::future::join(dismount, futures_util::future::join_all(rest)).await;
    w.leaving.set(false);
    // Everything acknowledged is there, except data with its only copy on a lost leg; refused changes
    // may be there.
    let (now, lost) = (w.tick(), w.lost.get() || w.lost_in_life.get());
    for file in w.files.borrow_mut().values_mut() {
        if !(lost && file.copies == 1) {
            file.flushed(now);
        }
        file.crash(now);
    }
    // Data with its only copy on an absent disk stays dirty until the disk is back.
    w.clean.set(!w.lost.get() && !w.lost_in_life.get());
    w.soft.set(false);
    w.say("dismounted".into());
}
