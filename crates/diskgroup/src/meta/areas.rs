//! Room for checkpoints: the AUs of an area.

use crate::base::core::Core;
use crate::disk::lock;
use crate::meta::commit::Committer;
use crate::on_disk::checkpoint::chunks_for;
use crate::on_disk::layout::{CHUNK_BYTES, au_count};
use crate::on_disk::superblock::{AuRun, RUNS_MAX, aus_in, aus_of, runs_before};
use crate::state::Op;

/// What a checkpoint area is to hold, in bytes.
struct AreaWants {
    /// With room to grow.
    wanted: u64,
    /// What it must hold.
    least: u64,
    /// Free AUs to be left to the other area.
    left: u32,
    au_size: u64,
}

impl AreaWants {
    /// Takes AUs behind those that an area has until it is large enough; none if it cannot be.
    fn make(&self, core: &mut Core, no: u16, mut runs: Vec<AuRun>) -> Option<Vec<AuRun>> {
        let room = |runs: &[AuRun]| u64::from(aus_in(runs)) * self.au_size;
        let mut taken = Vec::new();
        while room(&runs) < self.wanted && runs.len() < RUNS_MAX {
            if room(&runs) >= self.least && core.space.free_for_metadata(no) <= self.left {
                break;
            }
            // When the group is full, the existing area will do if the content itself fits.
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

impl Committer {
    /// Whether the area of each disk's next checkpoint holds that many bytes.
    pub(super) fn areas_hold(&self, disks: &[u16], bytes: u64) -> bool {
        let core = lock(&self.data.core);
        disks.iter().all(|no| {
            let (_, area) = self.next_checkpoint(*no);
            let runs = &core.state.disks[no].areas[usize::from(area)];
            u64::from(aus_in(runs)) * self.data.au_size >= bytes
        })
    }

    /// Makes the area that the next checkpoint goes to large enough on each disk, with room to
    /// grow. The operations are queued, so they are in the log before the area is named. Returns
    /// the disks that have the room.
    pub(super) fn make_areas(&mut self, disks: &[u16]) -> Vec<u16> {
        let mut core = lock(&self.data.core);
        // The state grows a little by the very operations queued here, and by what others queue
        // until the snapshot: an eighth and 64 KiB on top covers both.
        let content = core.state.encode().len() as u64;
        let wanted = chunks_for(content + content / 8 + (64 << 10)) * CHUNK_BYTES as u64;
        let least = chunks_for(content) * CHUNK_BYTES as u64;
        let needed = core.area_needed();
        let mut roomy = Vec::new();
        for no in disks {
            let (_, area) = self.next_checkpoint(*no);
            let disk = &core.state.disks[no];
            let had = disk.areas[usize::from(area)].clone();
            // What the other area lacks is left for it, as long as this one can do without.
            let left = needed.saturating_sub(aus_in(&disk.areas[1 - usize::from(area)]));
            let wants = AreaWants { wanted, least, left, au_size: self.data.au_size };
            // Of a disk that becomes smaller nothing behind its new end, if that will do.
            let end = au_count(disk.bytes_wanted(), self.data.au_size);
            let before = runs_before(&had, end);
            let made = wants.make(&mut core, *no, before);
            let made = made.or_else(|| wants.make(&mut core, *no, had.clone()));
            let Some(runs) = made else { continue };
            roomy.push(*no);
            if runs != had {
                for au in aus_of(&had).filter(|au| !aus_of(&runs).any(|kept| kept == *au)) {
                    core.space.unreserve(*no, au);
                }
                let queued = core.enqueue(&[Op::Area { disk: *no, area, runs }]);
                queued.expect("the disk is there, and its runs fit a superblock");
            }
        }
        roomy
    }
}
