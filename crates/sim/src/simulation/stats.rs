//! Statistics of a run: the work done, and the faults injected.

/// One known kind of fault of a disk, or of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKind {
    /// A description.
    pub name: &'static str,
    /// Whether it leaves wrong data on a disk or in an answer, which is then detected or not.
    pub is_damage: bool,
}

/// All of them. `docs/faults.md` says how each is simulated.
pub const FAULTS: [FaultKind; 18] = [
    kind("power cut at any I/O"),
    kind("torn write, rubbish in a sector"),
    damage("lost write"),
    damage("flush or FUA that lies, then a power cut"),
    damage("misdirected write"),
    damage("misdirected read"),
    damage("sector that cannot be read"),
    damage("bit rot, zeros, blocks of elsewhere"),
    kind("EIO on write, stored in part"),
    kind("ENOSPC, short write"),
    kind("slow disk"),
    kind("hang, answered late or after reopening"),
    damage("vanished; came back as it was earlier"),
    kind("completions overtake, come after cancel"),
    damage("the same place bad on both copies"),
    kind("clock jump, pause"),
    kind("allocation failure"),
    kind("crash during recovery, again and again"),
];

const fn kind(name: &'static str) -> FaultKind {
    FaultKind { name, is_damage: false }
}

const fn damage(name: &'static str) -> FaultKind {
    FaultKind { name, is_damage: true }
}

/// The kinds by their names in the code: an index into [`FAULTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A power cut.
    Crash,
    /// A sector that was being written holds part of it, or rubbish.
    Torn,
    /// Acknowledged and never stored.
    LostWrite,
    /// Acknowledged as durable, but not durable.
    FlushLie,
    /// Stored elsewhere.
    MisdirectedWrite,
    /// Answered from elsewhere.
    MisdirectedRead,
    /// EIO on read until rewritten.
    Latent,
    /// Replaced by something else.
    Rot,
    /// EIO on write.
    WriteError,
    /// No space below.
    NoSpace,
    /// Answers are slow.
    Slow,
    /// Answers never come, or come much later.
    Hang,
    /// Gone, or back in an earlier state.
    Vanish,
    /// Out of order, or with the caller gone.
    Reorder,
    /// Beyond the redundancy.
    Both,
    /// Clock jumps.
    Clock,
    /// Not simulated: Rust cannot refuse memory.
    Memory,
    /// Repeated crashes before anything is served.
    Recovery,
}

/// The outcome of the faults of one kind. Damage is counted by 4 KiB blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Faults injected.
    pub injected: u64,
    /// Found, and repaired from another copy, or refused.
    pub detected: u64,
    /// In an unused place, or overwritten before it was read.
    pub harmless: u64,
    /// Read wrong, and not detected.
    pub silent: u64,
}

/// The totals of all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Seeds that ran.
    pub seeds: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Mounts.
    pub mounts: u64,
    /// Operations on the group: reads, writes, flushes, sizes, names, changes of disks.
    pub ops: u64,
    /// Disks that failed.
    pub lost_legs: u64,
    /// Mounts that were rightly refused until the lost disk was back.
    pub not_proven: u64,
    /// Disks that came back.
    pub returned: u64,
    /// Disks that were replaced by another.
    pub replaced: u64,
    /// Disks that were refused because they had diverged.
    pub diverged: u64,
    /// Scrubs started.
    pub scrubs: u64,
    /// Blocks that they repaired.
    pub mended: u64,
    /// Faults injected into the disks, by kind: see [`FAULTS`].
    pub faults: [Count; 18],
}

impl Stats {
    /// Adds the totals of another run.
    pub fn add(&mut self, other: Stats) {
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
        for (mine, others) in self.faults.iter_mut().zip(other.faults) {
            mine.injected += others.injected;
            mine.detected += others.detected;
            mine.harmless += others.harmless;
            mine.silent += others.silent;
        }
    }

    /// The count of one kind of fault.
    pub fn of(&mut self, fault: Fault) -> &mut Count {
        &mut self.faults[fault as usize]
    }
}
