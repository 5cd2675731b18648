//! Counts over simulated lives of a log.

/// What was counted over lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lives: u64,
    /// Openings, each after a crash or in order; those that a crash cut off included.
    pub openings: u64,
    pub crashes: u64,
    pub crashes_in_recovery: u64,
    pub acknowledged: u64,
    pub recovered: u64,
    pub repaired: u64,
    pub failures: u64,
    pub stopped: u64,
    /// Groups that were added or dropped while the log was open.
    pub grown: u64,
    /// Groups that were archived.
    pub archived: u64,
    /// Groups that were cleared before that.
    pub cleared: u64,
    /// Media that came back.
    pub returned: u64,
    /// Media that were added, came back or were dropped while the log was open.
    pub joined: u64,
    pub faults: [u64; FAULTS],
}

pub const FAULTS: usize = 12;
pub const FAULT_NAMES: [&str; FAULTS] = [
    "crash alone",
    "torn sectors",
    "write errors",
    "hang",
    "slow medium",
    "medium missing at restart",
    "bit rot",
    "lying flush",
    "stale medium at restart",
    "read errors",
    "write errors for a while",
    "hang at restart",
];

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.lives += other.lives;
        self.openings += other.openings;
        self.crashes += other.crashes;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.acknowledged += other.acknowledged;
        self.recovered += other.recovered;
        self.repaired += other.repaired;
        self.failures += other.failures;
        self.stopped += other.stopped;
        self.grown += other.grown;
        self.archived += other.archived;
        self.cleared += other.cleared;
        self.returned += other.returned;
        self.joined += other.joined;
        self.faults.iter_mut().zip(other.faults).for_each(|(sum, more)| *sum += more);
    }
}
