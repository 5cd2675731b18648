//! The ledger of damage done to disks, block by block, and its outcome.

use super::*;

const BLOCK: u64 = 4096;

/// One damaged block.
pub struct DamagedBlock {
    fault: Fault,
    disk: usize,
    offset: u64,
    should: Vec<u8>,
}

/// Notes that disk `disk` was damaged from `at` on, where it held `before`.
pub fn note(w: &World, fault: Fault, disk: usize, at: u64, before: &[u8]) {
    let device = &w.rig.disks[disk];
    let mut hurts = w.hurts.borrow_mut();
    for (offset, should) in (at..).step_by(BLOCK as usize).zip(before.chunks(BLOCK as usize)) {
        let is = device.peek(offset, should.len() as u64);
        if fault != Fault::Latent && is == should {
            continue;
        }
        w.inject(fault, 1);
        hurts.push(DamagedBlock { fault, disk, offset, should: should.to_vec() });
    }
}

/// Adds the damage of lost and misdirected writes.
fn gather(w: &World) {
    for (disk, device) in w.rig.disks.iter().enumerate() {
        for damage in device.take_write_damage() {
            let fault = if damage.misdirected { Fault::MisdirectedWrite } else { Fault::LostWrite };
            let pieces = damage.should.chunks(BLOCK as usize).zip(damage.is.chunks(BLOCK as usize));
            for (offset, (should, is)) in (damage.offset..).step_by(BLOCK as usize).zip(pieces) {
                if should == is {
                    continue;
                }
                w.inject(fault, 1);
                let should = should.to_vec();
                w.hurts.borrow_mut().push(DamagedBlock { fault, disk, offset, should });
            }
        }
    }
}

/// Heals a disk of its read faults, counting those that needed no repair.
pub fn heal(w: &World, disk: usize) {
    let device = &w.rig.disks[disk];
    let left = |hurt: &mut DamagedBlock| {
        let end = hurt.offset + hurt.should.len() as u64;
        hurt.fault == Fault::Latent && hurt.disk == disk && device.is_latent(&(hurt.offset..end))
    };
    let healed = w.hurts.borrow_mut().extract_if(.., left).count() as u64;
    w.count(|s| s.of(Fault::Latent).harmless += healed);
    device.heal();
}

/// Settles the ledger once everything is verified: a block that is right again was detected and repaired;
/// any other is in an unused place or was overwritten.
pub fn settle(w: &World) {
    gather(w);
    for hurt in w.hurts.take() {
        let device = &w.rig.disks[hurt.disk];
        let end = hurt.offset + hurt.should.len() as u64;
        let now = device.peek(hurt.offset, hurt.should.len() as u64);
        let readable = hurt.fault != Fault::Latent || !device.is_latent(&(hurt.offset..end));
        let mended = now == hurt.should && readable;
        w.count(|s| match mended {
            true => s.of(hurt.fault).detected += 1,
            false => s.of(hurt.fault).harmless += 1,
        });
    }
}
