//! Invariants of the metadata, checked after reading a checkpoint and in tests.

use std::collections::BTreeSet;

use super::{GroupState, Leg};
use crate::on_disk::Damage;
use crate::on_disk::layout::{au_count, is_checksum_au};

impl GroupState {
    /// Invariants that are cheap to check: every leg names a disk and an AU that exist.
    ///
    /// # Errors
    /// The first thing that is impossible.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        let bad = |field, value: u64| Damage::Field { field, value };
        let au_size = u64::from(self.header.au_size);
        if !self.header.au_size.is_power_of_two() || au_size < 1 << 20 {
            return Err(bad("au_size", au_size));
        }
        if self.members.is_empty() || self.members.iter().any(|m| !self.disks.contains_key(m)) {
            return Err(bad("members", self.members.len() as u64));
        }
        let mut aus = vec![0u32; usize::from(u16::MAX) + 1];
        for (no, disk) in &self.disks {
            aus[usize::from(*no)] = au_count(disk.bytes, au_size);
        }
        for file in self.files.values() {
            let ok = |leg: &Leg| leg.au < aus[usize::from(leg.disk)] && !is_checksum_au(leg.au);
            if let Some(leg) = file.legs.iter().find(|leg| !ok(leg)) {
                return Err(bad("leg", leg.au.into()));
            }
        }
        Ok(())
    }

    /// The costly invariant: no AU has two owners. For tests, `validate` and mount of damaged
    /// groups.
    ///
    /// # Errors
    /// The first leg that is owned twice.
    pub fn check_no_double_allocation(&self) -> Result<(), Leg> {
        let mut seen = BTreeSet::new();
        for (no, disk) in &self.disks {
            for run in disk.areas.iter().flatten() {
                for au in run.start..run.start.saturating_add(run.count) {
                    let leg = Leg { disk: *no, au };
                    if !seen.insert(leg) {
                        return Err(leg);
                    }
                }
            }
        }
        for leg in self.files.values().flat_map(|f| &f.legs) {
            if !seen.insert(*leg) {
                return Err(*leg);
            }
        }
        Ok(())
    }
}
