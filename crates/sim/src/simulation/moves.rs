//! Disks that come and go during all other activity.

use std::sync::Arc;

use cellar_diskgroup::{AlterDisks, DiskStatus, DropDisk, NewDisk, Operation, ResizeDisk};

use super::*;

/// The changes of disks in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None.
    Stay,
    /// They are added and dropped.
    ComeAndGo,
    /// They are added and dropped, and change their sizes.
    Resize,
    /// They leave for a while, and come back.
    Return,
    /// They leave for a while and come back, and are added and dropped meanwhile.
    ReturnAndMove,
    /// They stay, and one of them rots.
    Rot,
    /// Every kind of fault: one disk at a time is bad, and the power may fail at any moment.
    Faults,
    /// All orders of six failures, returns and power cuts; a seed is an order.
    Orders,
}

impl Mode {
    /// All of them, in the order in which they are run.
    pub const ALL: [Mode; 8] = [
        Mode::Stay,
        Mode::ComeAndGo,
        Mode::Resize,
        Mode::Return,
        Mode::ReturnAndMove,
        Mode::Rot,
        Mode::Faults,
        Mode::Orders,
    ];

    /// The name of the mode on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Stay => "stay",
            Mode::ComeAndGo => "come-and-go",
            Mode::Resize => "resize",
            Mode::Return => "return",
            Mode::ReturnAndMove => "return-and-move",
            Mode::Rot => "rot",
            Mode::Faults => "faults",
            Mode::Orders => "orders",
        }
    }

    /// A description of the mode.
    pub fn about(self) -> &'static str {
        match self {
            Mode::Stay => "power cuts and one lost disk",
            Mode::ComeAndGo => "and disks are added and dropped",
            Mode::Resize => "and disks change their sizes too",
            Mode::Return => "disks leave for a while, and come back or are replaced",
            Mode::ReturnAndMove => "and are added and dropped meanwhile",
            Mode::Rot => "one disk rots, a scrub mends it",
            Mode::Faults => "every kind of fault, on any one disk at a time",
            Mode::Orders => "all 568 orders of six failures, returns and power cuts",
        }
    }

    /// Whether one disk at a time is bad in every possible way.
    pub fn is_hostile(self) -> bool {
        matches!(self, Mode::Faults | Mode::Orders)
    }

    /// Whether disks leave for a while.
    pub fn returns(self) -> bool {
        matches!(self, Mode::Return | Mode::ReturnAndMove)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// State that only runs with moving disks have. It uses a separate random stream, so that other runs
/// do not change.
pub struct Moves {
    pub mode: Mode,
    rng: RefCell<Rng>,
}

impl Moves {
    /// Adds some unused disks to the machine.
    pub fn new(seed: u64, mode: Mode, shape: &Shape, rig: &mut Rig) -> Moves {
        let mut rng = Rng::stream(seed, 79);
        let first = rig.disks.len();
        for i in first..first + 1 + rng.below(3) as usize {
            let options = cellar_io::sim::SimDiskOptions {
                size: (10 << 20) + shape.au_size * rng.within(16..=40),
                logical_sector: shape.sector,
                ..Default::default()
            };
            rig.disks.push(rig.sim.disk(&format!("disk{i}"), options));
        }
        Moves { mode, rng: RefCell::new(rng) }
    }

    pub fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }
}

/// Accepts refusals possible at any time and, for drops, a lack of failure groups.
fn change_may_be(result: Result<(), Error>, w: &World, change: &AlterDisks, what: &str) {
    match result {
        Err(error @ Error::FailGroups { .. }) if !change.drop.is_empty() => {
            w.say(format!("{what}: {error}"));
        }
        other => may_be(other, w, what),
    }
}

/// Accepts refusals that are possible at any time.
fn may_be(result: Result<(), Error>, w: &World, what: &str) {
    match result {
        Ok(()) => w.say(format!("{what}: done")),
        Err(Error::NoSpace { why, .. }) => w.say(format!("{what}: no space, {why}")),
        // Data that only the lost leg had cannot be moved.
        Err(error @ (Error::NoCopy { .. } | Error::Lost { .. } | Error::Io(_))) if w.lost.get() => {
            w.say(format!("{what}: {error}"));
        }
        // It left, or began to return, meanwhile.
        Err(error @ Error::DiskUnusable { number: 15071 | 15084, .. }) if returns::are_on(w) => {
            w.say(format!("{what}: {error}"));
        }
        Err(error @ Error::ForceNotNeeded { .. }) if returns::are_on(w) => {
            w.say(format!("{what}: {error}"));
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Perhaps changes the set of disks.
pub async fn alter(w: &World, group: &Group) {
    let Some(moves) = w
        .moves
        .as_ref()
        .filter(|m| !matches!(m.mode, Mode::Return | Mode::Rot | Mode::Faults | Mode::Orders))
    else {
        return;
    };
    if moves.below(w.rarely(4)) == 0 {
        change(w, moves, group).await;
    }
}

/// Changes the set of disks.
pub async fn change(w: &World, moves: &Moves, group: &Group) {
    w.asked();
    if moves.mode == Mode::Resize && moves.below(3) > 0 {
        return resize_some(w, moves, group).await;
    }
    match moves.below(10) {
        0..=3 => add(w, moves, group).await,
        4..=6 => drop_some(w, moves, group).await,
        7 => {
            let undropped = group.undrop_disks().await.map(|_| ());
            may_be(undropped, w, "undrop");
        }
        8 => {
            let power = [0, 1, 8, 64][moves.below(4) as usize];
            may_be(group.rebalance(power).await, w, &format!("rebalance power {power}"));
        }
        _ => wait(w, group).await,
    }
}

async fn wait(w: &World, group: &Group) {
    may_be(group.wait_rebalanced().await, w, "wait for the rebalance");
}

fn power(moves: &Moves) -> Option<u32> {
    [None, Some(1), Some(3), Some(16), Some(0)][moves.below(5) as usize]
}

async fn add(w: &World, moves: &Moves, group: &Group) {
    let here: Vec<String> = group.disks().into_iter().filter_map(|d| d.path).collect();
    let free: Vec<usize> = (0..w.rig.disks.len())
        .filter(|i| !here.contains(&format!("/sim/disk{i}")))
        .filter(|i| w.plan.get().is_none_or(|(lost, _)| lost != *i))
        .collect();
    if free.is_empty() {
        return;
    }
    let i = free[moves.below(free.len() as u64) as usize];
    if returns::are_on(w) {
        // It may have failed as a member, and been dropped.
        w.rig.disks[i].heal();
    }
    let failgroup = match moves.below(2) {
        0 if !w.shape.failgroups.is_empty() => Some("A".to_owned()),
        _ => None,
    };
    let device = Arc::clone(&w.rig.disks[i]) as Arc<dyn Device>;
    let path = format!("/sim/disk{i}");
    let new = NewDisk { device, path, name: None, failgroup, size: None, force: false };
    let mut change = AlterDisks { add: vec![new], power: power(moves), ..Default::default() };
    if moves.below(4) == 0 {
        change.drop.extend(any_online(w, moves, group));
    }
    let what = format!("add disk {i}, drop {:?}, power {:?}", change.drop, change.power);
    w.say(what.clone());
    let result = match group.alter_disks(&change).await {
        // A crash came between DiskGone and its label.
        Err(Error::DiskUnusable { number: 15033, .. }) => {
            change.add[0].force = true;
            group.alter_disks(&change).await
        }
        other => other,
    };
    change_may_be(result, w, &change, &what);
}

fn any_online(w: &World, moves: &Moves, group: &Group) -> Option<DropDisk> {
    // With a leg about to be lost, dropping another could leave too few.
    if w.plan.get().is_some() && !returns::are_on(w) {
        return None;
    }
    let disks = group.disks();
    let online: Vec<_> = disks.iter().filter(|d| d.status == DiskStatus::Online).collect();
    // Three of three know the newest state whatever happens to one.
    let least = if moves.mode == Mode::Faults { 4 } else { 2 };
    if online.len() < least || (returns::are_on(w) && online.len() < disks.len()) {
        return None;
    }
    let one = online[moves.below(online.len() as u64) as usize];
    Some(DropDisk { name: one.name.clone(), force: false })
}

async fn drop_some(w: &World, moves: &Moves, group: &Group) {
    let gone = group.disks().into_iter().find(|d| d.status == DiskStatus::Offline);
    let drop: Vec<DropDisk> = match gone {
        Some(disk) => vec![DropDisk { name: disk.name, force: true }],
        None => any_online(w, moves, group).into_iter().collect(),
    };
    if drop.is_empty() {
        return;
    }
    let change = AlterDisks { drop, power: power(moves), ..Default::default() };
    let what = format!("drop {:?}, power {:?}", change.drop, change.power);
    w.say(what.clone());
    change_may_be(group.alter_disks(&change).await, w, &change, &what);
}

/// A size for a disk: smaller or larger than its size, or that of its device.
fn any_size(w: &World, moves: &Moves, bytes: u64) -> Option<u64> {
    match moves.below(8) {
        0 => None,
        1 => Some(bytes),
        _ => Some((10 << 20) + w.shape.au_size * (4 + moves.below(40)) + 4096 * moves.below(9)),
    }
}

/// Resizes disks; a device is extended first, and perhaps truncated afterwards.
async fn resize_some(w: &World, moves: &Moves, group: &Group) {
    let disks = group.disks();
    let online: Vec<_> = disks.iter().filter(|d| d.status == DiskStatus::Online).collect();
    if online.is_empty() {
        return;
    }
    let several = if moves.below(3) == 0 { online.len() } else { 1 };
    let first = moves.below(online.len() as u64) as usize;
    let mut resize = Vec::new();
    for disk in online.iter().cycle().skip(first).take(several) {
        let bytes = any_size(w, moves, disk.bytes);
        let device = disk.path.as_ref().and_then(|path| path.strip_prefix("/sim/disk"));
        let device = device.map(|i| &w.rig.disks[i.parse::<usize>().expect("a number")]);
        if let (Some(device), Some(bytes)) = (device, bytes)
            && bytes > device.geometry().size
            && moves.below(8) > 0
        {
            device.resize(bytes);
        }
        resize.push(ResizeDisk { name: disk.name.clone(), bytes });
    }
    let mut change = AlterDisks { resize, power: power(moves), ..Default::default() };
    if moves.below(6) == 0 {
        let one = any_online(w, moves, group);
        change.drop.extend(one.filter(|d| change.resize.iter().all(|r| r.name != d.name)));
    }
    let what =
        format!("resize {:?}, drop {:?}, power {:?}", change.resize, change.drop, change.power);
    w.say(what.clone());
    match group.alter_disks(&change).await {
        // The device is smaller, the size is below the minimum, or the disk left meanwhile.
        Err(Error::DiskUnusable { number, .. }) if [15057, 15036, 15084].contains(&number) => {}
        other => change_may_be(other, w, &change, &what),
    }
    if moves.below(3) == 0 && power_is_on(group) {
        wait(w, group).await;
        cut_devices(w, moves, group);
    }
}

fn power_is_on(group: &Group) -> bool {
    group.operation().is_none_or(|operation| operation.power > 0)
}

/// Truncates devices to the group's part of them, once that is durable.
fn cut_devices(w: &World, moves: &Moves, group: &Group) {
    if group.operation().is_some() {
        return;
    }
    for disk in group.disks() {
        let Some(i) = disk.path.as_ref().and_then(|path| path.strip_prefix("/sim/disk")) else {
            continue;
        };
        let device = &w.rig.disks[i.parse::<usize>().expect("a number")];
        if disk.bytes < device.geometry().size && moves.below(2) == 0 {
            w.say(format!("disk {i} is cut to {}", disk.bytes));
            device.resize(disk.bytes);
        }
    }
}

/// Before the end: everything begun is finished, or waits for space.
pub async fn settle(w: &World, group: &Group) {
    if w.moves.as_ref().is_none_or(|m| m.mode == Mode::Return) {
        return;
    }
    may_be(group.rebalance(64).await, w, "the last rebalance");
    wait(w, group).await;
    match group.operation() {
        None => {
            let leaving = |d: &cellar_diskgroup::DiskInfo| {
                matches!(d.status, DiskStatus::Dropping | DiskStatus::Forcing)
            };
            assert!(!group.disks().iter().any(leaving), "who left is gone: {:?}", group.disks());
        }
        Some(Operation { error, .. }) => {
            let why = error.expect("only what is stuck does not end");
            w.say(format!("it does not end: {why}"));
        }
    }
}
