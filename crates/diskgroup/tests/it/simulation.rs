//! Seeded runs of everything a group does, with crashes at any I/O and one lost leg, held against
//! a byte-level model.
//!
//! `CELLAR_SIM_SEED=n` reruns one seed, `CELLAR_SIM_SEEDS=n` runs so many, `CELLAR_SIM_FROM=n`
//! says where they begin.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::{FileType, Striping};
use cellar_diskgroup::{Copies, Error, File, FileSpec, Group, MountOptions, Redundancy};
use cellar_io::sim::Rng;
use cellar_io::{Device, DeviceExt, Discard, Durability, EnvExt, Io};

use ends::{everything_goes, leftovers};
use moves::{Mode, Moves};
use names::{name_op, settle_names};

use crate::model::{FileModel, stamp};
use crate::rig::{Rig, Shape};

type Step<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
/// Path to file, by the model's name for it; `None` is a directory.
type Names = BTreeMap<String, Option<u32>>;

/// What was done in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub seeds: u64,
    pub crashes: u64,
    pub mounts: u64,
    pub ops: u64,
    pub lost_legs: u64,
    pub not_proven: u64,
    pub returned: u64,
    pub replaced: u64,
    pub diverged: u64,
    pub scrubs: u64,
    pub mended: u64,
}

impl Stats {
    fn add(&mut self, other: Stats) {
        self.seeds += other.seeds;
        self.crashes += other.crashes;
        self.mounts += other.mounts;
        self.ops += other.ops;
        self.lost_legs += other.lost_legs;
        self.not_proven += other.not_proven;
        self.returned += other.returned;
        self.replaced += other.replaced;
        self.diverged += other.diverged;
        self.scrubs += other.scrubs;
        self.mended += other.mended;
    }
}

/// How a leg is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Vanish,
    /// And what it did not flush is lost.
    Power,
    FailWrites,
    Hang,
}

struct World {
    rig: Rig,
    shape: Shape,
    rng: RefCell<Rng>,
    /// Counts issues and completions.
    clock: Cell<u32>,
    files: RefCell<BTreeMap<u32, FileModel>>,
    names: RefCell<Names>,
    /// Names as they will be if the change under way happens.
    names_next: RefCell<Option<Names>>,
    next_file: Cell<u32>,
    created: Cell<bool>,
    /// The process ended and the power did not: what is read is not durable for that.
    soft: Cell<bool>,
    /// Dismounted in order, and not touched since.
    clean: Cell<bool>,
    /// Being dismounted: what runs beside it may be refused.
    leaving: Cell<bool>,
    /// The leg to be lost, and how.
    plan: Cell<Option<(usize, Loss)>>,
    /// Whether disks come and go.
    moves: Option<Moves>,
    lost: Cell<bool>,
    /// One was lost in this life: what had its only copy there may have been refused since.
    lost_in_life: Cell<bool>,
    /// Disks are just being made to leave or return.
    changing: Cell<bool>,
    /// The next return is by FORCE.
    forced: Cell<bool>,
    /// A return by FORCE was begun, and may have been cut off.
    force_tried: Cell<bool>,
    /// An acknowledged change tells that the group went on without the leg.
    departed: Cell<bool>,
    /// The disk that rots, whether anything there is wrong now, and whether anything ever was.
    rotting: Cell<usize>,
    rotten: Cell<bool>,
    rotted: Cell<bool>,
    /// A crash may come in this life.
    crashing: Cell<bool>,
    stats: Cell<Stats>,
    history: RefCell<Vec<String>>,
}

impl World {
    fn new(seed: u64, mode: Mode) -> World {
        let mut rng = Rng::stream(seed, 77);
        let redundancy = match rng.below(5) {
            0 if !mode.returns() && mode != Mode::Rot => Redundancy::External,
            1 => Redundancy::High,
            _ => Redundancy::Normal,
        };
        let au_size = 1u64 << (20 + rng.below(3));
        let least = match redundancy {
            Redundancy::External => 1,
            Redundancy::Normal => 2,
            Redundancy::High => 3,
        };
        let disks = rng.within(least.max(2)..=6) as usize;
        let failgroups = if rng.one_in(3) && disks > least as usize {
            ["A", "B", "C", "D", "A", "B"][..disks].to_vec()
        } else {
            vec![]
        };
        let distinct = if failgroups.is_empty() { disks } else { disks.min(4) };
        let shape = Shape {
            disks,
            disk_bytes: (10 << 20) + au_size * rng.within(16..=28),
            redundancy,
            au_size,
            sector: if rng.coin() { 512 } else { 4096 },
            failgroups,
        };
        let loses = redundancy != Redundancy::External && distinct >= 2 && rng.coin();
        let loses = loses && !mode.returns() && mode != Mode::Rot;
        let kinds = [Loss::Vanish, Loss::Vanish, Loss::FailWrites, Loss::Hang];
        let plan = loses.then(|| (rng.below(disks as u64) as usize, kinds[rng.below(4) as usize]));
        let mut rig = Rig::new(seed, &shape);
        rig.depth = [None, None, Some(1), Some(4)][rng.below(4) as usize];
        let moves = (mode != Mode::Stay).then(|| Moves::new(seed, mode, &shape, &mut rig));
        World {
            rig,
            shape,
            rng: RefCell::new(rng),
            clock: Cell::new(1),
            files: RefCell::default(),
            names: RefCell::default(),
            names_next: RefCell::default(),
            next_file: Cell::new(1),
            created: Cell::new(false),
            soft: Cell::new(false),
            clean: Cell::new(false),
            leaving: Cell::new(false),
            plan: Cell::new(plan),
            moves,
            lost: Cell::new(false),
            lost_in_life: Cell::new(false),
            changing: Cell::new(false),
            forced: Cell::new(false),
            force_tried: Cell::new(false),
            departed: Cell::new(false),
            rotting: Cell::new((seed % disks as u64) as usize),
            rotten: Cell::new(false),
            rotted: Cell::new(false),
            crashing: Cell::new(false),
            stats: Cell::new(Stats { seeds: 1, ..Stats::default() }),
            history: RefCell::default(),
        }
    }

    fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    fn tick(&self) -> u32 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn count(&self, what: impl FnOnce(&mut Stats)) {
        let mut stats = self.stats.get();
        what(&mut stats);
        self.stats.set(stats);
    }

    fn say(&self, what: String) {
        let now = self.rig.sim.now().0 / 1000;
        self.history.borrow_mut().push(format!("{now:>10} us {:>6}  {what}", self.clock.get()));
    }

    fn with<T>(&self, id: u32, what: impl FnOnce(&mut FileModel) -> T) -> T {
        what(self.files.borrow_mut().get_mut(&id).expect("the model knows the file"))
    }

    /// Whether the only copy of the file may have gone with the lost leg.
    fn may_be_gone(&self, id: u32) -> bool {
        let lost = self.lost.get() || self.lost_in_life.get();
        lost && self.with(id, |f| f.copies == 1)
    }

    /// Whether what is read of a file is so for good: it was read from what is durable.
    fn is_settled(&self, id: u32) -> bool {
        let may_return = returns::are_on(self) && self.may_be_gone(id);
        !self.soft.get() && !may_return
    }

    /// The planned leg is lost now, unless it is already.
    fn lose_leg(&self) {
        let Some((disk, how)) = self.plan.get() else { return };
        if self.lost.replace(true) {
            return;
        }
        self.departed.set(false);
        self.count(|s| s.lost_legs += 1);
        self.say(format!("LOSS of disk {disk}: {how:?}"));
        let disk = &self.rig.disks[disk];
        match how {
            Loss::Vanish => disk.vanish(),
            Loss::Power => disk.lose_power(),
            Loss::FailWrites => {
                disk.fail_writes(0..u64::MAX);
                disk.fail_flushes(true);
            }
            Loss::Hang => disk.hang(),
        }
    }

    /// After a crash: what was under way ended, one way or the other.
    fn crashed(&self) {
        self.count(|s| s.crashes += 1);
        self.soft.set(false);
        self.say("CRASH".into());
        self.ended();
    }

    /// The process ended: what was under way ended, one way or the other.
    fn ended(&self) {
        self.clean.set(false);
        let now = self.tick();
        for file in self.files.borrow_mut().values_mut() {
            file.crash(now);
        }
    }
}

/// A file in use.
struct Open {
    id: u32,
    file: File,
    /// A size change is under way: no other change of it now.
    busy: Cell<bool>,
}

async fn create_group(w: &World) {
    let mut spec = w.rig.spec(&w.shape);
    spec.disks.truncate(w.shape.disks);
    loop {
        match cellar_diskgroup::create(&w.rig.env(), spec.clone()).await {
            Ok(()) => break,
            // A crash cut a creation off; what it left behind may be taken with FORCE.
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

async fn mount(w: &World) -> Group {
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
            // The leg went before an epoch without it was committed, and the set was two: the
            // other one alone must not be believed. The leg comes back.
            Err(Error::NotProven { why, .. }) if w.lost.get() && !w.departed.get() => {
                let fgs = w.shape.failgroups.len();
                let two = w.shape.disks == 2 || (fgs > 0 && fgs < 3) || why.contains("its 2 ");
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

/// Reads a whole file and holds it against the model.
async fn read_all(w: &World, id: u32, file: &File) {
    let (sectors, sector) = w.with(id, |f| (f.sectors(), f.sector));
    let step = (1 << 20) / sector;
    for first in (0..sectors).step_by(step as usize) {
        let count = step.min(sectors - first);
        read_some(w, id, file, first, count, true).await;
    }
}

/// A read that the model knows of, until it ends or its caller goes away.
struct Reading<'a>(&'a World, u32, u32);

impl Reading<'_> {
    fn new(w: &World, id: u32, issued: u32) -> Reading<'_> {
        w.with(id, |f| f.begin_read(issued));
        Reading(w, id, issued)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // The file may be gone.
        if let Some(file) = self.0.files.borrow_mut().get_mut(&self.1) {
            file.end_read(self.2);
        }
    }
}

async fn read_some(w: &World, id: u32, file: &File, first: u32, count: u32, pin: bool) {
    let issued = w.tick();
    let sector = w.with(id, |f| f.sector);
    let at = u64::from(first) * u64::from(sector);
    let _reading = Reading::new(w, id, issued);
    match file.read_at(Io::FOREGROUND, at, (count * sector) as usize).await {
        Ok(bytes) => {
            let pin = (pin && w.is_settled(id)).then(|| w.tick());
            let checked = w.with(id, |f| f.check(&bytes, first, issued, pin));
            if let Err(what) = checked {
                panic!("read: {what}");
            }
        }
        Err(_) if w.may_be_gone(id) => {}
        Err(error) => panic!("read of file {id} at {at}: {error}"),
    }
}

/// Everything is read and right, copies agree, checksums are known.
async fn verify(w: &World, group: &Group, look: bool) {
    let was_clean = w.clean.replace(false);
    if was_clean {
        assert_eq!(group.resync().dirty_regions, 0, "a clean dismount leaves nothing dirty");
    }
    settle_names(w, group);
    if look {
        let ids: Vec<(u32, u32)> = w.files.borrow().values().map(|f| (f.id, f.number)).collect();
        for (id, number) in ids {
            let file = group.open_number(number).expect("it is there");
            read_all(w, id, &file).await;
            // What could not be read is not settled.
            if w.is_settled(id) {
                w.with(id, FileModel::settled);
            }
        }
        group_is_sound(w, group).await;
    }
}

async fn group_is_sound(w: &World, group: &Group) {
    while group.resync().bytes_left > 0 {
        group.check_running().expect("it runs");
        group.env().sleep(Duration::from_millis(20)).await;
    }
    group.check().expect("metadata holds together");
    nothing_was_corrupt(w, group);
    for checksums in [true, false] {
        let numbers: Vec<u32> = w
            .files
            .borrow()
            .values()
            .filter(|f| f.checksums == checksums)
            .map(|f| f.number)
            .collect();
        let mut found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validate");
        assert_eq!(found.pieces_differing, 0, "copies differ: {:?}", found.places);
        assert_eq!(found.checksums_wrong, 0, "wrong checksums: {:?}", found.places);
        if checksums && found.checksums_unknown > 0 {
            // A crash tore a checksum block: having been looked at, it is made again.
            group.env().sleep(Duration::from_secs(1)).await;
            found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validate");
        }
        assert_eq!(found.pieces_differing, 0, "copies differ: {:?}", found.places);
        assert_eq!(found.checksums_wrong, 0, "wrong checksums: {:?}", found.places);
        assert_eq!(found.dirty_pieces, 0, "resync is done");
        if !w.lost.get() {
            assert_eq!(found.unreadable_bytes, 0, "unreadable: {:?}", found.places);
            assert_eq!(found.absent_bytes, 0, "absent");
        }
        if checksums {
            assert_eq!(found.checksums_unknown, 0, "unknown checksums: {:?}", found.places);
        }
    }
    nothing_was_corrupt(w, group);
}

/// Where no disk rots, a checksum that was wrong, or a repair, is a mistake that reading has hidden.
fn nothing_was_corrupt(w: &World, group: &Group) {
    if w.rotted.get() {
        return;
    }
    for disk in group.disks() {
        let count = |name: &str| disk.counters.get(name).copied().unwrap_or(0);
        let (wrong, repaired) = (count("checksum_errs"), count("repaired"));
        assert_eq!((wrong, repaired), (0, 0), "wrong checksums, repairs on {}", disk.name);
    }
}

async fn write_some(w: &World, open: &Open, zero: bool) {
    let (sectors, sector) = w.with(open.id, |f| (f.sectors(), f.sector));
    if sectors == 0 {
        return;
    }
    let first = w.below(sectors.into()) as u32;
    let most = match w.below(4) {
        0 => 1,
        1 => 16,
        2 => 256,
        _ => 6144 * 512 / sector,
    };
    let count = (1 + w.below(most.into()) as u32).min(sectors - first);
    let durability = if w.below(4) == 0 { Durability::Durable } else { Durability::Cached };
    let (at, length) = (u64::from(first * sector), (count * sector) as usize);
    let id = w.tick();
    w.with(open.id, |f| f.begin(id, first, count, zero));
    w.say(format!(
        "write {id} file {} sectors {first}+{count} {durability:?} zero {zero}",
        open.id
    ));
    let result = if zero {
        open.file.discard(Io::SCAN, at, length as u64, Discard::Zero).await
    } else {
        let mut data = vec![0; length];
        for (s, chunk) in (first..).zip(data.chunks_exact_mut(sector as usize)) {
            stamp(chunk, open.id, s, id);
        }
        // Cut anywhere, as a caller may.
        let mut data = Bytes::from(data);
        let cut = w.below(count.into()) as usize * sector as usize;
        let head = data.split_to(cut);
        open.file.write(Io::SCAN, at, vec![head, data], durability).await
    };
    match result {
        Err(error) if w.leaving.get() && error.to_string().contains("stopped") => {
            w.say(format!("write {id} refused"));
            return;
        }
        Err(_) if w.may_be_gone(open.id) => {
            w.say(format!("write {id}: its copy is gone"));
            return;
        }
        Err(error) => panic!("write {id} to file {}: {error}", open.id),
        Ok(()) => {}
    }
    let durable = durability == Durability::Durable && !zero;
    let now = w.tick();
    w.with(open.id, |f| f.end(id, now, durable));
    w.say(format!("write {id} done"));
}

async fn flush(w: &World, open: &Open) {
    let issued = w.tick();
    match open.file.flush(Io::COMMIT).await {
        Err(error) if w.leaving.get() && error.to_string().contains("stopped") => return,
        Err(_) if w.may_be_gone(open.id) => return,
        Err(error) => panic!("flush of file {}: {error}", open.id),
        Ok(()) => {}
    }
    w.with(open.id, |f| f.flushed(issued));
    w.say(format!("flush {issued} of file {} done", open.id));
}

async fn read_random(w: &World, open: &Open) {
    let sectors = w.with(open.id, |f| f.sectors());
    if sectors > 0 {
        let first = w.below(sectors.into()) as u32;
        let count = (1 + w.below(512) as u32).min(sectors - first);
        read_some(w, open.id, &open.file, first, count, false).await;
    }
}

/// Grows or shrinks. Nobody else uses the file when it may shrink.
async fn resize(w: &World, open: &Open, may_shrink: bool) {
    if open.busy.replace(true) {
        return;
    }
    let (had, sector, old) = w.with(open.id, |f| (f.sectors(), f.sector, f.size));
    let most = 12 << 20;
    let mut size = w.below(most) / 512 * 512;
    if !may_shrink {
        size = size.max(u64::from(had) * u64::from(sector));
    }
    let attributes = open.file.attributes();
    let au = w.shape.au_size;
    let sets = match attributes.striping {
        Striping::Coarse => size.div_ceil(au),
        Striping::Fine => size.div_ceil(au * 8) * 8,
    };
    let wanted = (sets * au / u64::from(sector)) as u32;
    w.with(open.id, |f| f.pending = Some((size, wanted)));
    w.say(format!("resize file {} from {old} to {size}", open.id));
    match open.file.set_size(size).await {
        Ok(()) => {
            w.say(format!("resize file {} done", open.id));
            let now = w.tick();
            w.with(open.id, |f| {
                f.pending = None;
                f.size = size;
                f.resize(wanted, now);
            });
        }
        Err(Error::NoSpace { .. }) => {
            w.say(format!("resize file {}: no space", open.id));
            w.with(open.id, |f| f.pending = None);
        }
        Err(error) => panic!("resize of file {}: {error}", open.id),
    }
    open.busy.set(false);
}

async fn create_file(w: &World, group: &Group) -> Option<Open> {
    let distinct = match w.shape.failgroups.len() {
        0 => w.shape.disks,
        n => n.min(4),
    };
    let spec = {
        let mut rng = w.rng.borrow_mut();
        let least = match w.plan.get() {
            _ if returns::are_on(w) => 1 + u64::from(!rng.one_in(5)),
            _ if rot::is_on(w) => 2,
            Some(_) if !rng.one_in(6) => 2,
            _ => 1,
        };
        let most = if w.shape.redundancy == Redundancy::External { 1 } else { distinct.min(3) };
        let copies = rng.within(least..=(most as u64).max(least)) as u8;
        FileSpec {
            copies: Some(copies),
            striping: Some(if rng.one_in(5) { Striping::Fine } else { Striping::Coarse }),
            unit: Some(if rng.coin() { 4096 } else { 8192 }),
            // Without checksums nobody can tell which of two copies rotted.
            checksums: Some(!rng.one_in(3) || rot::is_on(w)),
            ..FileSpec::new(FileType::Datafile)
        }
    };
    let knew = returns::know_of_the_loss(w, group);
    let file = match group.create_file(&spec).await {
        Ok(file) => file,
        Err(error) => panic!("create file: {error}"),
    };
    if knew {
        w.departed.set(true);
    }
    let id = w.next_file.get();
    w.next_file.set(id + 1);
    let (copies, checksums) = (spec.copies.unwrap_or(1), spec.checksums == Some(true));
    let model = FileModel::new(id, file.number(), copies, checksums, w.shape.sector);
    w.files.borrow_mut().insert(id, model);
    w.say(format!("file {id} is number {}, {spec:?}", file.number()));
    Some(Open { id, file, busy: Cell::new(false) })
}

/// Forgets files that have neither a name nor a handle.
fn drop_unnamed(w: &World, open: &RefCell<Vec<std::rc::Rc<Open>>>, keep: bool) {
    let named: Vec<u32> = w.names.borrow().values().flatten().copied().collect();
    let mut handles = open.borrow_mut();
    handles.retain(|o| keep || named.contains(&o.id));
    let held: Vec<u32> = handles.iter().map(|o| o.id).collect();
    w.files.borrow_mut().retain(|id, _| named.contains(id) || held.contains(id));
}

/// Several operations at once, then perhaps a pause.
async fn some_work(w: &World, group: &Group, open: &RefCell<Vec<std::rc::Rc<Open>>>) {
    let all: Vec<std::rc::Rc<Open>> = open.borrow().clone();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let alone = w.below(5) == 0;
    let count = if alone { 1 } else { 1 + w.below(6) };
    for _ in 0..count {
        w.count(|s| s.ops += 1);
        if all.is_empty() {
            break;
        }
        let one = all[w.below(all.len() as u64) as usize].clone();
        let what = w.below(20);
        let patience = if w.below(10) == 0 { Some(w.below(4000)) } else { None };
        let step = async move {
            match what {
                0..=8 => write_some(w, &one, false).await,
                9 => write_some(w, &one, true).await,
                10..=12 => flush(w, &one).await,
                13..=16 => read_random(w, &one).await,
                _ => resize(w, &one, alone).await,
            }
        };
        steps.push(match patience {
            // The caller goes away; what it asked for may happen or not.
            Some(micros) if what <= 16 => Box::pin(async move {
                let limit = w.rig.env().sleep(Duration::from_micros(micros));
                futures_util::future::select(Box::pin(step), limit).await;
            }),
            _ => Box::pin(step),
        });
    }
    if w.below(3) == 0 {
        w.count(|s| s.ops += 1);
        steps.push(Box::pin(name_op(w, group, open)));
    }
    if returns::are_on(w) {
        steps.push(Box::pin(returns::alter(w, group)));
    }
    futures_util::future::join_all(steps).await;
    if all.len() < 4 && w.below(2) == 0 {
        w.count(|s| s.ops += 1);
        if let Some(new) = create_file(w, group).await {
            resize(w, &new, false).await;
            open.borrow_mut().push(std::rc::Rc::new(new));
        }
    }
    drop_unnamed(w, open, w.below(3) > 0);
    if w.below(8) == 0 {
        let pause = [1, 50, 1500, 7000][w.below(4) as usize];
        group.env().sleep(Duration::from_millis(pause)).await;
    }
    if w.below(12) == 0 && !returns::are_on(w) {
        w.lose_leg();
    }
    moves::alter(w, group).await;
    rot::alter(w, group).await;
}

/// One life of the process: from start to dismount, end, or crash.
async fn life(w: &World, last: bool) {
    if !w.created.get() {
        create_group(w).await;
    }
    w.lost_in_life.set(w.lost.get());
    w.changing.set(false);
    let group = mount(w).await;
    rot::begin(w, &group).await;
    let look = last || w.below(4) > 0;
    verify(w, &group, look).await;
    let open = RefCell::new(Vec::new());
    let numbers: Vec<(u32, u32)> = w.files.borrow().values().map(|f| (f.id, f.number)).collect();
    for (id, number) in numbers {
        let file = group.open_number(number).expect("it has a name");
        open.borrow_mut().push(std::rc::Rc::new(Open { id, file, busy: Cell::new(false) }));
    }
    let work = if last { 2 } else { 4 + w.below(24) };
    for _ in 0..work {
        some_work(w, &group, &open).await;
    }
    if !last && w.below(3) == 0 && !(rot::is_on(w) && w.rotten.get()) {
        w.say("abandoned".into());
        group.abandon();
        // What is on its way lands before anybody can mount again.
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
    // What was acknowledged is there, but for what had its only copy on a lost leg; what was refused
    // may be.
    let (now, lost) = (w.tick(), w.lost.get() || w.lost_in_life.get());
    for file in w.files.borrow_mut().values_mut() {
        if !(lost && file.copies == 1) {
            file.flushed(now);
        }
        file.crash(now);
    }
    // What has its only copy on a disk that is away stays dirty until it is back.
    w.clean.set(!w.lost.get() && !w.lost_in_life.get());
    w.soft.set(false);
    w.say("dismounted".into());
}

mod ends;
mod moves;
mod names;
mod returns;
mod rot;
mod runs;
