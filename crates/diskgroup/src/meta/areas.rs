//! Room for checkpoints: the AUs of an area.

use crate::group::inner::Core;
use crate::on_disk::superblock::{AuRun, RUNS_MAX, aus_in};

/// What a checkpoint area is to hold, in bytes.
pub(crate) struct AreaWants {
    /// With room to grow.
    pub wanted: u64,
    /// What it must hold.
    pub least: u64,
    /// Free AUs to be left to the other area.
    pub left: u32,
    pub au_size: u64,
}

impl AreaWants {
    /// Takes AUs behind those that an area has until it is large enough; none if it cannot be.
    pub fn make(&self, core: &mut Core, no: u16, mut runs: Vec<AuRun>) -> Option<Vec<AuRun>> {
        let room = |runs: &[AuRun]| u64::from(aus_in(runs)) * self.au_size;
        let mut taken = Vec::new();
        while room(&runs) < self.wanted && runs.len() < RUNS_MAX {
            if room(&runs) >= self.least && core.space.free_for_metadata(no) <= self.left {
                break;
            }
            // When the group is full, what is there will do if the content itself fits.
            let Some(au) = core.space.reserve(no) else { break };
            taken.push(au);
            match runs.last_mut() {
                Some(run) if run.start + run.count == au => run.count += 1,
                _ => runs.push(AuRun { start: au, count: 1 }),
            }
        }
        if room(&runs) >= self.least {
            return Some(runs);
        }
        taken.into_iter().for_each(|au| core.space.unreserve(no, au));
        None
    }
}
