//! The forecast of EXPLAIN WORK: room, redundancy and time after the change.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{DiskRole, Plan, PlanDisk, PlanInput};
use crate::space::room::survivable;
use crate::space::{COPIES_MAX, ExtentSets, FailGroupNo, writable};

/// The group after a plan was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// AUs of files that the disks may hold.
    pub total: u64,
    /// Free ones among them.
    pub free: u64,
    /// Failure groups that take extents.
    pub failgroups: u16,
    /// Extent sets of 1, 2 and 3 copies that will fit, each if only such are written.
    pub writable: [u64; COPIES_MAX],
    /// The same, keeping room to restore all copies after the loss of any one failure group.
    /// Negative: so many are there too much. 0 where nothing could be restored.
    pub writable_and_survive: [i64; COPIES_MAX],
    /// Whether all extents of two or more copies could get their copies back after such a loss.
    pub can_restore: bool,
    /// Legs that are missing still: lost, and without a place or a copy to read.
    pub missing: u64,
}

/// How long a plan takes at one power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerTime {
    /// The power.
    pub power: u32,
    /// The time; nothing where the rate is 0, as at power 0.
    pub time: Option<Duration>,
}

/// The most extent sets of `copies` legs that the active disks can hold. Exact.
#[must_use]
pub fn capacity(disks: &[PlanDisk], copies: u8) -> u64 {
    let mut groups: BTreeMap<FailGroupNo, u64> = BTreeMap::new();
    for disk in disks.iter().filter(|d| d.role == DiskRole::Active) {
        *groups.entry(disk.failgroup).or_default() += u64::from(disk.capacity);
    }
    writable(&groups.into_values().collect::<Vec<_>>(), copies)
}

impl Plan {
    /// Room and redundancy once this plan is done.
    #[must_use]
    pub fn forecast(&self, input: &PlanInput<'_>) -> Forecast {
        let mut groups: BTreeMap<FailGroupNo, (u64, u64)> = BTreeMap::new();
        for disk in self.disks.iter().filter(|d| d.capacity > 0) {
            let (total, free) = groups.entry(disk.failgroup).or_default();
            *total += disk.capacity;
            *free += disk.capacity.saturating_sub(disk.after);
        }
        let totals: Vec<u64> = groups.values().map(|g| g.0).collect();
        let frees: Vec<u64> = groups.values().map(|g| g.1).collect();
        let mut sets = ExtentSets::default();
        for file in &input.files {
            let copies = usize::from(file.copies).clamp(1, COPIES_MAX);
            sets.by_copies[copies - 1] += file.legs.len().div_ceil(copies) as u64;
        }
        let most_copies = sets.by_copies.iter().rposition(|&count| count > 0).map_or(1, |i| i + 1);
        let mut now = [0; COPIES_MAX];
        let mut survive = [0; COPIES_MAX];
        for (index, copies) in (1..=COPIES_MAX as u8).enumerate() {
            now[index] = writable(&frees, copies);
            let most = i64::try_from(now[index]).unwrap_or(i64::MAX);
            survive[index] = survivable(&totals, copies, &sets).min(most);
        }
        let legs: u64 = input.files.iter().map(|f| f.legs.len() as u64).sum();
        let after: u64 = self.disks.iter().map(|d| d.after).sum();
        Forecast {
            total: totals.iter().sum(),
            free: frees.iter().sum(),
            failgroups: groups.len() as u16,
            writable: now,
            writable_and_survive: survive,
            can_restore: most_copies > 1
                && totals.len() > most_copies
                && survive[most_copies - 1] >= 0,
            missing: legs.saturating_sub(after),
        }
    }

    /// How long the plan takes, given bytes per second by power.
    #[must_use]
    pub fn times(&self, au_size: u64, rates: &[(u32, u64)]) -> Vec<PowerTime> {
        let bytes = self.bytes(au_size);
        let time = |rate: u64| {
            (rate > 0).then(|| Duration::from_millis(bytes.saturating_mul(1000).div_ceil(rate)))
        };
        rates.iter().map(|&(power, rate)| PowerTime { power, time: time(rate) }).collect()
    }
}
