//! Statistics of a run: the work done, and the faults injected.

/// One of the kinds of fault that a disk, or the machine, is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKind {
    /// What it is, in words.
    pub name: &'static str,
    /// Whether it leaves something wrong on a disk or in an answer, which is then detected or not.
    pub is_damage: bool,
}

/// All of them. `docs/faults.md` tells how each is simulated.
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

/// The kinds, by what they are called in the code: an index into [`FAULTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes.
    Crash,
    /// A sector that was being written holds a part of it, or rubbish.
    Torn,
    /// Acknowledged and never stored.
    LostWrite,
    /// Acknowledged as durable, and not.
    FlushLie,
    /// Stored elsewhere.
    MisdirectedWrite,
    /// Answered from elsewhere.
    MisdirectedRead,
    /// EIO on read until it is written.
    Latent,
    /// Something else is there.
    Rot,
    /// EIO on write.
    WriteError,
    /// No room below.
    NoSpace,
    /// Answers take long.
    Slow,
    /// Answers do not come, or much later.
    Hang,
    /// Gone, or there as it was earlier.
    Vanish,
    /// Out of order, or to nobody.
    Reorder,
    /// Beyond what the copies cover.
    Both,
    /// Time jumps.
    Clock,
    /// Not simulated: Rust gives no way to refuse memory.
    Memory,
    /// Crash upon crash before anything is served.
    Recovery,
}

/// What became of the faults of one kind. Of a damage each 4 KiB block counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often it was done.
    pub injected: u64,
    /// Found, and made right from another copy, or refused.
    pub detected: u64,
    /// Nobody used the place, or it was written anew before anybody looked.
    pub harmless: u64,
    /// Read wrong, and not told by anything.
    pub silent: u64,
}

/// What was done in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Seeds that ran.
    pub seeds: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Mounts.
    pub mounts: u64,
    /// What was asked of the group: reads, writes, flushes, sizes, names, changes of disks.
    pub ops: u64,
    /// Disks that failed.
    pub lost_legs: u64,
    /// Mounts that were rightly refused until the lost disk was back.
    pub not_proven: u64,
    /// Disks that came back.
    pub returned: u64,
    /// Disks that another took the place of.
    pub replaced: u64,
    /// Disks that were refused because they had gone another way.
    pub diverged: u64,
    /// Scrubs that were begun.
    pub scrubs: u64,
    /// What they made right.
    pub mended: u64,
    /// What was done to the disks, by kind: see [`FAULTS`].
    pub faults: [Count; 18],
}

impl Stats {
    /// Adds what others did.
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
