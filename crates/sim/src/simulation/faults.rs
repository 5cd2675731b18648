//! Every kind of fault in turn. One disk at a time is bad, so the others have everything; the
//! power may fail at any moment, and tears sectors.

use cellar_diskgroup::{BadPlace, DiskInfo, DiskStatus, FoundDisk, OnlineHow};
use cellar_io::sim::Snapshot;

use super::moves::Moves;
use super::returns::index_of;
use super::*;

/// Crashes in a row before anything is served, at most.
const RECOVERIES_MAX: u64 = 20;

/// The files in use.
pub type Handles = RefCell<Vec<std::rc::Rc<Open>>>;

/// The current faults.
pub struct Bad {
    rng: RefCell<Rng>,
    /// The disk that is bad.
    disk: Cell<Option<usize>>,
    /// It acknowledges writes as durable that are not.
    lies: Cell<bool>,
    /// It did so in this mount, before it failed.
    lied: Cell<bool>,
    /// It holds an earlier image: it returns by a full copy.
    anew: Cell<bool>,
    /// An earlier image of a disk, taken while nothing was mounted.
    image: RefCell<Option<(usize, Snapshot)>>,
    /// The disk is an older image of itself, which must be detected.
    stale: Cell<Option<usize>>,
    /// The number of events of an order that have happened.
    pub events: Cell<usize>,
}

impl Bad {
    /// Nothing is wrong yet; sectors tear.
    pub fn new(seed: u64, rig: &Rig) -> Bad {
        rig.disks.iter().for_each(|disk| disk.tear_sectors(true));
        Bad {
            rng: RefCell::new(Rng::stream(seed, 80)),
            disk: Cell::new(None),
            lies: Cell::new(false),
            lied: Cell::new(false),
            anew: Cell::new(false),
            image: RefCell::default(),
            stale: Cell::new(None),
            events: Cell::new(0),
        }
    }

    pub fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }
}

/// One mount: everything is read while the disk is still bad, then repaired, then used.
pub async fn life(w: &World, bad: &Bad, last: bool) {
    let (group, open) = begin(w, bad).await;
    make_whole(w, bad, &group).await;
    group_is_sound(w, &group).await;
    for _ in 0..if last { 20 } else { w.load.rounds(w) } {
        some_work(w, &group, &open).await;
        if !w.crashing.get() && bad.below(200) == 0 {
            both_copies(w, bad, &group, &open).await;
        }
    }
    if !last && w.below(3) == 0 && !w.rotten.get() {
        w.say("abandoned".into());
        group.abandon();
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
    end(w, bad, group, open, last).await;
}

/// Mounts, and reads everything while the disk is still bad.
pub async fn begin(w: &World, bad: &Bad) -> (Group, Handles) {
    if !w.created.get() {
        create_group(w).await;
    }
    w.rotted.set(true);
    let group = mount(w).await;
    w.clean.set(false);
    settle_names(w, &group);
    check_old_image(w, bad, &group);
    read_everything(w, &group).await;
    let open = RefCell::new(Vec::new());
    let numbers: Vec<(u32, u32)> = w.files.borrow().values().map(|f| (f.id, f.number)).collect();
    for (id, number) in numbers {
        let file = group.open_number(number).expect("it has a name");
        open.borrow_mut().push(std::rc::Rc::new(Open { id, file, busy: Cell::new(false) }));
    }
    (group, open)
}

/// Repairs everything and dismounts.
pub async fn end(w: &World, bad: &Bad, group: Group, open: Handles, last: bool) {
    make_whole(w, bad, &group).await;
    if last {
        moves::settle(w, &group).await;
    }
    group_is_sound(w, &group).await;
    if last {
        everything_goes(w, &group, &open).await;
    }
    w.say("dismount".into());
    drop(open);
    if let Err(error) = group.dismount().await {
        panic!("dismount: {error}");
    }
    let now = w.tick();
    for file in w.files.borrow_mut().values_mut() {
        file.flushed(now);
        file.crash(now);
    }
    w.soft.set(false);
    w.say("dismounted".into());
}

pub async fn read_everything(w: &World, group: &Group) {
    let ids: Vec<(u32, u32)> = w.files.borrow().values().map(|f| (f.id, f.number)).collect();
    for (id, number) in ids {
        let file = group.open_number(number).expect("it is there");
        read_all(w, id, &file).await;
        if w.is_settled(id) {
            w.with(id, FileModel::settled);
        }
    }
}

/// Counts whether an older image was detected.
fn check_old_image(w: &World, bad: &Bad, group: &Group) {
    let Some(disk) = bad.stale.take() else { return };
    let found = group.disks().into_iter().find(|d| index_of(d) == Some(disk) || d.path.is_none());
    let told = found.is_some_and(|d| d.status != DiskStatus::Online || !d.in_sync);
    w.say(format!("the older image of disk {disk} is told: {told}"));
    w.count(|s| match told {
        true => s.of(Fault::Vanish).detected += 1,
        false => s.of(Fault::Vanish).harmless += 1,
    });
}

/// Repairs the bad disk, brings it back, and corrects its contents.
pub async fn make_whole(w: &World, bad: &Bad, group: &Group) {
    if let Some(disk) = bad.disk.get() {
        let device = &w.rig.disks[disk];
        // A disk must not return with an unnoticed cache loss.
        group.probe_disks().await;
        group.env().sleep(Duration::from_secs(1)).await;
        if device.hung_requests() > 0 && bad.below(2) == 0 {
            // It executes its requests late, perhaps once it is open again and holds newer data.
            let late = [2000, 30_000][bad.below(2) as usize];
            device.unhang_late(1 + bad.below(late));
            w.rotten.set(true);
            group.env().sleep(Duration::from_micros(bad.below(100_000))).await;
        }
        damaged_blocks::heal(w, disk);
        w.say(format!("disk {disk} is well again"));
    }
    for _ in 0..8 {
        group.probe_disks().await;
        group.env().sleep(Duration::from_secs(1)).await;
        let gone = group.disks().into_iter().find(|d| d.status == DiskStatus::Offline);
        if let Some(gone) = gone {
            come_back(w, bad, group, &gone).await;
        }
        group.wait_returned().await.expect("it returns");
        // A disk that hung may still leave.
        group.env().sleep(Duration::from_secs(40)).await;
        if group.disks().iter().all(|d| d.in_sync && d.status.is_in_sync()) {
            break;
        }
    }
    let away = |d: &DiskInfo| matches!(d.status, DiskStatus::Offline | DiskStatus::Returning);
    assert!(!group.disks().iter().any(away), "all are back: {:?}", group.disks());
    while group.resync().bytes_left > 0 {
        group.check_running().expect("it runs");
        group.env().sleep(Duration::from_millis(20)).await;
    }
    bad.anew.set(false);
    bad.lied.set(false);
    if bad.lies.replace(false) {
        // No power cut came: the data held back was stored after all.
        w.count(|s| s.of(Fault::FlushLie).harmless += 1);
    }
    if let (Some(moves), true) = (&w.moves, w.rotten.get()) {
        let result = rot::scrub(w, moves, group).await;
        w.rotten.set(false);
        assert_eq!(result.found.left, 0, "everything has another copy: {:?}", result.found);
        w.count(|s| s.mended += result.found.repaired);
        damaged_blocks::settle(w);
    }
    bad.disk.set(None);
}

async fn come_back(w: &World, bad: &Bad, group: &Group, gone: &DiskInfo) {
    let Some(disk) = index_of(gone).or(bad.disk.get()) else { return };
    let mut how = OnlineHow { force: bad.anew.get(), power: None };
    for _ in 0..2 {
        let device = w.rig.found_of(&[disk]).remove(0).device;
        let found = FoundDisk { device, path: format!("/sim/disk{disk}") };
        w.asked();
        w.say(format!("online {} {how:?}", gone.name));
        match group.online_disk(&gone.name, found, how).await {
            Ok(()) => {
                w.count(|s| s.returned += 1);
                return w.say(format!("online {}: on its way", gone.name));
            }
            Err(error @ Error::Diverged { .. }) => {
                w.say(format!("online {}: {error}", gone.name));
                w.count(|s| s.diverged += 1);
                how.force = true;
            }
            // It lied, and lost even its label; or it is the image of a disk replaced since.
            Err(error @ Error::DiskUnusable { number: 15075, .. })
                if bad.lied.get() || bad.anew.get() =>
            {
                w.say(format!("online {}: {error}", gone.name));
                let replaced = returns::replace_by(w, group, &gone.name, disk).await;
                replaced.unwrap_or_else(|error| panic!("replace {}: {error}", gone.name));
                return w.count(|s| s.returned += 1);
            }
            // It returned by itself meanwhile.
            Err(error @ Error::DiskUnusable { number: 15281 | 15071 | 15054, .. }) => {
                return w.say(format!("online {}: {error}", gone.name));
            }
            Err(error) => panic!("online {}: {error}", gone.name),
        }
    }
}

/// Perhaps starts or ends a fault during other work.
pub async fn alter(w: &World, group: &Group) {
    let Some(bad) = w.bad.as_ref().filter(|_| w.mode == Mode::Faults) else { return };
    if bad.below(w.rarely(4)) > 0 {
        return;
    }
    let Some(moves) = &w.moves else { return };
    if bad.below(4) == 0 && !bad.lies.get() {
        return jump(w, bad);
    }
    if bad.disk.get().is_some() {
        // Data being moved may be rotten at its source.
        match bad.below(3) {
            0 if w.rotten.get() && all_here(group) => moves::change(w, moves, group).await,
            0 => {}
            _ if bad.lies.get() => {}
            _ => make_whole(w, bad, group).await,
        }
        return;
    }
    if !all_here(group) || !all_twice(group) {
        return;
    }
    let disks = group.disks();
    let Some(disk) = index_of(&disks[bad.below(disks.len() as u64) as usize]) else { return };
    spoil(w, bad, moves, group, disk).await;
}

fn all_here(group: &Group) -> bool {
    group.disks().iter().all(|d| d.in_sync && d.status == DiskStatus::Online)
}

/// Whether each disk is dispensable.
fn all_twice(group: &Group) -> bool {
    group.losses().iter().all(|l| !l.data && !l.stops)
}

/// The time of day jumps, or the machine pauses.
fn jump(w: &World, bad: &Bad) {
    const HOUR: i64 = 3_600_000_000_000;
    w.inject(Fault::Clock, 1);
    if bad.below(2) == 0 {
        let pause = [1, 100, 3000, 45_000][bad.below(4) as usize];
        w.say(format!("pause of {pause} ms"));
        w.rig.sim.pause(Duration::from_millis(pause));
    } else {
        let off = (bad.below(2001) as i64 - 1000) * HOUR / 1000;
        w.say(format!("the time of day is off by {} s", off / 1_000_000_000));
        w.rig.sim.set_wall(off);
    }
}

/// Makes one disk bad.
async fn spoil(w: &World, bad: &Bad, moves: &Moves, group: &Group, disk: usize) {
    let device = &w.rig.disks[disk];
    let what = bad.below(9);
    if matches!(what, 5 | 6) {
        // Rot in a dirty region cannot be told from a write in flight.
        while group.resync().bytes_left > 0 {
            group.env().sleep(Duration::from_millis(20)).await;
        }
        group.env().sleep(Duration::from_secs(15)).await;
        if !all_here(group) {
            return;
        }
    }
    if what == 2 && !w.crashing.get() {
        lie_for_a_while(w, bad, group, disk).await;
    }
    make_bad(w, bad, disk, what);
    match what {
        0..5 => {}
        5 | 6 => {
            w.rotten.set(true);
            for _ in 0..1 + moves.below(12) {
                rot::rot_from(w, moves, 0);
            }
            if w.crashing.get() {
                // Until it is repaired, nothing is written.
                make_whole(w, bad, group).await;
            }
        }
        7 if w.crashing.get() => {
            w.inject(Fault::FlushLie, 1);
            bad.lies.set(true);
            device.lying_flush(true);
            w.rig.sim.crash_after(1 + bad.below(6000));
        }
        _ if w.crashing.get() => bad.disk.set(None),
        _ => {
            w.rotten.set(true);
            let to = moves.below(device.geometry().size / 4096) * 4096;
            match moves.below(3) {
                0 => device.lose_next_write(),
                1 => device.misdirect_next_write(to),
                _ => device.misdirect_next_read(to),
            }
        }
    }
}

/// Makes the disk acknowledge flushes but hold the data back; a failure may lose it.
async fn lie_for_a_while(w: &World, bad: &Bad, group: &Group, disk: usize) {
    bad.disk.set(Some(disk));
    w.rotting.set(disk);
    w.say(format!("disk {disk} lies"));
    bad.lied.set(true);
    w.rig.disks[disk].lying_flush(true);
    w.inject(Fault::FlushLie, 1);
    // Not drawn from a random stream: earlier seeds keep their behaviour.
    group.env().sleep(Duration::from_secs((w.tick() % 16).into())).await;
    // Data it may have lost is copied to it, lost or not.
    w.count(|s| s.of(Fault::FlushLie).harmless += 1);
}

/// Makes the device bad: slow, hanging, gone, full, or failing writes.
pub fn make_bad(w: &World, bad: &Bad, disk: usize, what: u64) {
    let device = &w.rig.disks[disk];
    bad.disk.set(Some(disk));
    w.rotting.set(disk);
    w.say(format!("disk {disk} is bad: {what}"));
    match what {
        0 => {
            w.inject(Fault::Slow, 1);
            device.slow([10, 100, 1000, 10_000][bad.below(4) as usize]);
        }
        1 => {
            w.inject(Fault::Hang, 1);
            device.hang();
        }
        2 => {
            w.inject(Fault::Vanish, 1);
            match bad.below(2) {
                0 => device.vanish(),
                _ => device.lose_power(),
            }
        }
        3 => {
            w.inject(Fault::WriteError, 1);
            let size = device.geometry().size;
            let from = [0, bad.below(size)][bad.below(2) as usize];
            device.fail_writes(from..size);
            device.fail_flushes(bad.below(2) == 0);
        }
        4 => {
            w.inject(Fault::NoSpace, 1);
            device.fill_up(true);
        }
        _ => {}
    }
}

/// While nothing is mounted: perhaps replaces a disk by its earlier image, or crashes repeatedly.
pub fn while_closed(w: &World) {
    let Some(bad) = w.bad.as_ref().filter(|_| w.mode == Mode::Faults) else { return };
    if !w.created.get() {
        return;
    }
    if bad.lies.get() {
        after_a_lie(w, bad);
    }
    let whole = bad.disk.get().is_none() && !w.rotten.get();
    let image = bad.image.borrow_mut().take();
    match image {
        Some((disk, image)) if whole && bad.below(2) == 0 => {
            w.say(format!("disk {disk} is as it was some lives ago"));
            w.inject(Fault::Vanish, 1);
            w.rig.disks[disk].replace_with_snapshot(&image);
            bad.disk.set(Some(disk));
            bad.anew.set(true);
            bad.stale.set(Some(disk));
        }
        Some(image) if bad.below(3) > 0 => *bad.image.borrow_mut() = Some(image),
        _ if whole => {
            let disk = bad.below(w.shape.disks as u64) as usize;
            *bad.image.borrow_mut() = Some((disk, w.rig.disks[disk].snapshot()));
        }
        _ => {}
    }
    if bad.below(4) == 0 && !w.soft.get() {
        recoveries(w, bad);
    }
}

/// Repeated crashes while the group is mounted and resynced.
fn recoveries(w: &World, bad: &Bad) {
    for _ in 0..1 + bad.below(RECOVERIES_MAX) {
        w.rig.sim.crash_after(1 + bad.below([30, 200, 1000][bad.below(3) as usize]));
        let recovered = w.rig.run(async {
            let group = mount(w).await;
            while group.resync().bytes_left > 0 {
                group.check_running().expect("it runs");
                group.env().sleep(Duration::from_millis(20)).await;
            }
            group.env().sleep(Duration::from_secs(20)).await;
            group.abandon();
            group.env().sleep(Duration::from_secs(1)).await;
        });
        w.rig.sim.crash_never();
        match recovered {
            Some(()) => break,
            None => {
                w.inject(Fault::Recovery, 1);
                w.crashed();
                w.rig.sim.restart();
            }
        }
    }
}

/// A disk lied, and the power failed. Checks read-only whether the lie is detected. The owner then
/// takes the disk out; it returns by FORCE, which copies everything anew.
fn after_a_lie(w: &World, bad: &Bad) {
    let Some(disk) = bad.disk.get() else { return };
    let device = &w.rig.disks[disk];
    device.heal();
    let told = w.rig.run(tells_of_a_lie(w, disk)).expect("nothing crashes it");
    let (told, wrong) = told;
    w.say(format!("disk {disk} lied: told {told}, sectors read wrong {wrong}"));
    w.count(|s| match (told, wrong) {
        (true, _) => s.of(Fault::FlushLie).detected += 1,
        (false, 0) => s.of(Fault::FlushLie).harmless += 1,
        (false, _) => s.of(Fault::FlushLie).silent += 1,
    });
    device.vanish();
    bad.lies.set(false);
    bad.anew.set(true);
}

/// Whether anything detects the lie, and the number of reads that differ from the model.
async fn tells_of_a_lie(w: &World, disk: usize) -> (bool, u64) {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let group = match w.rig.mount_with(w.rig.found(), options).await {
        Ok(group) => group,
        Err(error) => panic!("mount, read only: {error}"),
    };
    let out = group.disks().iter().any(|d| index_of(d) == Some(disk) && !d.in_sync);
    let numbers: Vec<u32> = group.files().iter().map(|f| f.number).collect();
    let found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validate");
    let told = out || found.is_bad() || found.dirty_pieces_differing > 0;
    let files = w.files.borrow().clone();
    let mut wrong = 0;
    for mut model in files.into_values() {
        let Ok(file) = group.open_number(model.number) else { continue };
        let bytes = u64::from(model.sectors()) * u64::from(model.sector);
        if bytes == 0 || file.geometry().size < bytes {
            continue;
        }
        let read = file.read_at(Io::FOREGROUND, 0, bytes as usize).await;
        let right = read.is_ok_and(|b| model.check(&b, 0, w.tick(), None).is_ok());
        wrong += u64::from(!right);
    }
    group.abandon();
    group.env().sleep(Duration::from_secs(1)).await;
    (told, wrong)
}

/// One block is bad on every copy: reading it is an error, its place is reported, and nothing else is
/// affected.
async fn both_copies(w: &World, bad: &Bad, group: &Group, open: &RefCell<Vec<std::rc::Rc<Open>>>) {
    let all: Vec<std::rc::Rc<Open>> = open.borrow().clone();
    if all.is_empty() || bad.disk.get().is_some() || !all_here(group) {
        return;
    }
    let one = &all[bad.below(all.len() as u64) as usize];
    let (sectors, sector) = w.with(one.id, |f| (f.sectors(), f.sector));
    let block = 4096 / sector;
    if sectors < 8 * block {
        return;
    }
    // Data found by its content must be durable, and its region clean.
    flush(w, one).await;
    group.env().sleep(Duration::from_secs(20)).await;
    if !all_here(group) || group.resync().dirty_regions > 0 || group.resync().bytes_left > 0 {
        return;
    }
    let at = bad.below(u64::from(sectors / block)) * 4096;
    let right = one.file.read_at(Io::FOREGROUND, at, 4096).await.expect("nothing is bad");
    if right[..8] == [0; 8] {
        return;
    }
    let places = places_of(w, &right);
    for (disk, place) in &places {
        w.rig.disks[*disk].corrupt(*place, 4096);
    }
    w.say(format!("file {} at {at} is bad at {places:?}", one.id));
    w.inject(Fault::Both, 1);
    let read = one.file.read_at(Io::FOREGROUND, at, 4096).await;
    assert!(read.is_err(), "no copy of file {} at {at} is right, and it was read", one.id);
    // Nothing outside the unit is refused.
    let unit = u64::from(one.file.attributes().unit);
    let other = if at >= unit { at - at % unit - unit } else { at + unit - at % unit };
    let first = (other / u64::from(sector)) as u32;
    read_some(w, one.id, &one.file, first, block, false).await;
    let found = group.validate(&[one.file.number()], Copies::All, &|_| {}).await.expect("validate");
    let here = |p: &&BadPlace| {
        // Differing copies are reported per piece, wrong checksums per block.
        let grain = if p.what == "copies differ" { 65_536 } else { unit };
        p.file == one.file.number() && p.offset / grain == at / grain
    };
    assert!(found.places.iter().filter(here).count() > 1, "it is named: {:?}", found.places);
    assert!(found.places.iter().all(|p| here(&p)), "only it is named: {:?}", found.places);
    for (disk, place) in &places {
        w.rig.disks[*disk].poke(*place, &right);
    }
    w.count(|s| s.of(Fault::Both).detected += 1);
    read_some(w, one.id, &one.file, (at / u64::from(sector)) as u32, block, false).await;
}

/// The places where the disks hold these bytes.
fn places_of(w: &World, bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut places = Vec::new();
    for (disk, device) in w.rig.disks.iter().enumerate() {
        let size = device.geometry().size;
        for at in (8 << 20..size).step_by(4096) {
            if device.peek(at, 16) == bytes[..16] && device.peek(at, 4096) == bytes {
                places.push((disk, at));
            }
        }
    }
    places
}
