//! The simulated machine, the model of its contents, and the planned faults.

use super::*;

/// How a leg is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Vanish,
    /// Vanishes and loses unflushed data.
    Power,
    FailWrites,
    Hang,
}

impl Loss {
    /// The kind of fault that this is.
    pub fn kind(self) -> Fault {
        match self {
            Loss::Vanish | Loss::Power => Fault::Vanish,
            Loss::FailWrites => Fault::WriteError,
            Loss::Hang => Fault::Hang,
        }
    }
}

pub struct World {
    /// The changes of disks.
    pub mode: Mode,
    pub rig: Rig,
    /// The load between crashes.
    pub load: Load,
    pub shape: Shape,
    pub rng: RefCell<Rng>,
    /// The counter of issues and completions.
    pub clock: Cell<u32>,
    pub files: RefCell<BTreeMap<u32, FileModel>>,
    pub names: RefCell<Names>,
    /// Names as they will be if the change in progress takes effect.
    pub names_next: RefCell<Option<Names>>,
    pub next_file: Cell<u32>,
    pub created: Cell<bool>,
    /// The process ended without a power cut: data that is read may not be durable.
    pub soft: Cell<bool>,
    /// Dismounted cleanly, and unchanged since.
    pub clean: Cell<bool>,
    /// Being dismounted: concurrent work may be refused.
    pub leaving: Cell<bool>,
    /// The leg to be lost, and how.
    pub plan: Cell<Option<(usize, Loss)>>,
    /// The current fault, in a mode with every kind of fault.
    pub bad: Option<Bad>,
    /// Damage injected on disks, and not checked since.
    pub hurts: RefCell<Vec<DamagedBlock>>,
    /// Whether disks come and go.
    pub moves: Option<Moves>,
    pub lost: Cell<bool>,
    /// A disk was lost in this mount: access to data with its only copy there may have been refused since.
    pub lost_in_life: Cell<bool>,
    /// Disks are currently being made to leave or return.
    pub changing: Cell<bool>,
    /// The next return is by FORCE.
    pub forced: Cell<bool>,
    /// A return by FORCE was begun, and may have been interrupted.
    pub force_tried: Cell<bool>,
    /// An acknowledged change shows that the group continued without the leg.
    pub departed: Cell<bool>,
    /// The disk that rots, whether it has any damage now, and whether it ever had.
    pub rotting: Cell<usize>,
    pub rotten: Cell<bool>,
    pub rotted: Cell<bool>,
    /// A crash may come in this mount.
    pub crashing: Cell<bool>,
    pub stats: Cell<Stats>,
    pub history: RefCell<Vec<String>>,
}

/// The shape of the group, and the leg to be lost.
fn draw_shape(rng: &mut Rng, mode: Mode, load: Load) -> (Shape, Option<(usize, Loss)>) {
    let rots = mode == Mode::Rot || mode.is_hostile();
    let redundancy = match rng.below(5) {
        0 if !mode.returns() && !rots => Redundancy::External,
        1 if mode != Mode::Orders => Redundancy::High,
        _ => Redundancy::Normal,
    };
    let au_size = match load {
        Load::Usual => 1u64 << (20 + rng.below(3)),
        Load::Dense => 1 << (20 + rng.below(8) / 7),
    };
    let least = match redundancy {
        Redundancy::External => 1,
        Redundancy::Normal => 2,
        Redundancy::High => 3,
    };
    // Of three disks the others know the newest state, whichever is bad.
    let fewest = if mode.is_hostile() { 3 } else { 2 };
    let most = if mode == Mode::Orders { orders::DISKS } else { 6 };
    let disks = rng.within(least.max(fewest)..=most) as usize;
    let failgroups = if rng.one_in(3) && disks > least as usize && !mode.is_hostile() {
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
    let loses = loses && !mode.returns() && !rots;
    let kinds = [Loss::Vanish, Loss::Vanish, Loss::FailWrites, Loss::Hang];
    let plan = loses.then(|| (rng.below(disks as u64) as usize, kinds[rng.below(4) as usize]));
    (shape, plan)
}

impl World {
    pub fn new(seed: u64, mode: Mode, load: Load) -> World {
        let mut rng = Rng::stream(seed, 77);
        let (shape, plan) = draw_shape(&mut rng, mode, load);
        let disks = shape.disks;
        let mut rig = Rig::new(seed, &shape);
        rig.depth = [None, None, Some(1), Some(4)][rng.below(4) as usize];
        let moves = (mode != Mode::Stay).then(|| Moves::new(seed, mode, &shape, &mut rig));
        let bad = mode.is_hostile().then(|| Bad::new(seed, &rig));
        World {
            mode,
            rig,
            bad,
            hurts: RefCell::default(),
            load,
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

    pub fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    /// The interval of work as long as many operations, meant to happen once in `n` usual rounds.
    pub fn rarely(&self, n: u64) -> u64 {
        match self.load {
            Load::Usual => n,
            Load::Dense => n * 16,
        }
    }

    /// The interval of work that reads everything, meant to happen once in `n` usual rounds.
    pub fn hardly_ever(&self, n: u64) -> u64 {
        match self.load {
            Load::Usual => n,
            Load::Dense => n * 100,
        }
    }

    pub fn tick(&self) -> u32 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Counts one operation on the group.
    pub fn asked(&self) {
        self.count(|s| s.ops += 1);
    }

    /// Counts `times` faults.
    pub fn inject(&self, fault: Fault, times: u64) {
        self.count(|s| s.of(fault).injected += times);
    }

    pub fn count(&self, what: impl FnOnce(&mut Stats)) {
        let mut stats = self.stats.get();
        what(&mut stats);
        self.stats.set(stats);
    }

    pub fn say(&self, what: String) {
        let now = self.rig.sim.now().0 / 1000;
        self.history.borrow_mut().push(format!("{now:>10} us {:>6}  {what}", self.clock.get()));
    }

    pub fn with<T>(&self, id: u32, what: impl FnOnce(&mut FileModel) -> T) -> T {
        what(self.files.borrow_mut().get_mut(&id).expect("the model knows the file"))
    }

    /// Whether the only copy of the file may have gone with the lost leg.
    pub fn may_be_gone(&self, id: u32) -> bool {
        let lost = self.lost.get() || self.lost_in_life.get();
        lost && self.with(id, |f| f.copies == 1)
    }

    /// Whether data read from a file is final, as it was durable.
    pub fn is_settled(&self, id: u32) -> bool {
        let may_return = returns::are_on(self) && self.may_be_gone(id);
        !self.soft.get() && !may_return
    }

    /// Loses the planned leg, unless it already is lost.
    pub fn lose_leg(&self) {
        let Some((disk, how)) = self.plan.get() else { return };
        if self.lost.replace(true) {
            return;
        }
        self.departed.set(false);
        self.count(|s| s.lost_legs += 1);
        self.say(format!("LOSS of disk {disk}: {how:?}"));
        let disk = &self.rig.disks[disk];
        self.inject(how.kind(), 1);
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

    /// Counts requests completed out of order, or with the caller gone.
    pub fn count_disorder(&self, right: bool) {
        for disk in &self.rig.disks {
            self.inject(Fault::Reorder, disk.disorder().iter().sum());
            self.inject(Fault::Torn, disk.torn_sectors());
            self.inject(Fault::MisdirectedRead, disk.wrong_answers());
            if right {
                // Nothing that was read was wrong, so each of them was detected.
                self.count(|s| s.of(Fault::MisdirectedRead).detected += disk.wrong_answers());
            }
        }
    }

    /// After a crash: everything in progress ended, one way or the other.
    pub fn crashed(&self) {
        self.count(|s| s.crashes += 1);
        self.inject(Fault::Crash, 1);
        self.soft.set(false);
        self.say("CRASH".into());
        self.ended();
    }

    /// The process ended: everything in progress ended, one way or the other.
    pub fn ended(&self) {
        self.clean.set(false);
        let now = self.tick();
        for file in self.files.borrow_mut().values_mut() {
            file.crash(now);
        }
    }
}

/// A file in use.
pub struct Open {
    pub id: u32,
    pub file: File,
    /// A size change is in progress: no other may start.
    pub busy: Cell<bool>,
}
