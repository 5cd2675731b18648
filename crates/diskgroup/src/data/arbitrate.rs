//! The choice of the right copy of a unit, from the copies as read and the checksums that each disk
//! keeps of its own.
//!
//! 1. A copy that has all its own checksums is right. If several are, and they are not the same (a
//!    disk lost a write together with its checksum), more than half of the copies that can be read
//!    must agree.
//! 2. If no copy has all of its own, because they are not known: a copy in which each block has a
//!    checksum that some disk knows for it, or for which none is known. Again more than half must
//!    agree if there are several.
//! 3. If every copy has a bad block: the blocks that are right, from whichever copy, but only where
//!    all disks know the same checksums: then they are of one and the same write.
//!
//! This choice must not be contradicted by the checksums of a disk whose own copy is bad, because
//! those may be of a later write.
//!
//! If no rule applies, nobody can know, and nothing is chosen: a guess would turn rot into truth.

use bytes::Bytes;

use crate::on_disk::checksum::{UNKNOWN, checksum_of};
use crate::on_disk::layout::BLOCK;

/// One copy of a unit.
pub(crate) struct UnitCopy {
    /// What was read; `None` where it could not be.
    pub bytes: Option<Bytes>,
    /// The checksums that its disk keeps, one for each block.
    pub sums: Vec<u32>,
}

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFault {
    /// The disk cannot read it.
    Unreadable,
    /// It does not match its checksums: it rotted, was overwritten by a misdirected write, or a write
    /// to it was lost.
    Checksum,
    /// It matches its checksums, as far as they are known, but differs from the others: a write to it
    /// was lost together with its checksum, or there are no checksums to tell.
    Differs,
}

/// What is known of the copies of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What all copies should hold; `None` where that cannot be known.
    pub right: Option<Bytes>,
    /// What is wrong with each copy.
    pub faults: Vec<Option<CopyFault>>,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.right.is_some() && self.faults.iter().all(Option::is_none)
    }
}

/// How well a copy agrees with its own checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Unreadable,
    Wrong,
    /// Some are not known, the others are right.
    Unknown,
    Right,
}

fn own(copy: &UnitCopy) -> Own {
    let Some(bytes) = &copy.bytes else { return Own::Unreadable };
    let mut all_known = true;
    for (block, sum) in bytes.chunks(BLOCK).zip(&copy.sums) {
        if *sum == UNKNOWN {
            all_known = false;
        } else if checksum_of(block) != *sum {
            return Own::Wrong;
        }
    }
    if all_known { Own::Right } else { Own::Unknown }
}

/// Decides about a unit.
pub(crate) fn decide(copies: &[UnitCopy]) -> Verdict {
    let owns: Vec<Own> = copies.iter().map(own).collect();
    let of = |wanted: Own| {
        let with = copies.iter().zip(&owns).filter(move |(_, own)| **own == wanted);
        with.filter_map(|(copy, _)| copy.bytes.as_ref())
    };
    let right: Vec<&Bytes> = of(Own::Right).collect();
    let unknown: Vec<&Bytes> = of(Own::Unknown).filter(|bytes| is_known(bytes, copies)).collect();
    let chosen = match (right.is_empty(), unknown.is_empty()) {
        (false, _) => most(&right, copies),
        (true, false) => most(&unknown, copies),
        (true, true) => joined(copies, &owns),
    };
    let chosen = chosen.filter(|bytes| !is_contradicted(bytes, copies));
    let faults = copies.iter().zip(&owns).map(|(copy, own)| match (own, &chosen) {
        (Own::Unreadable, _) => Some(CopyFault::Unreadable),
        // Its data may be right, and the checksum may be what rotted: that is a single fault.
        (Own::Wrong, _) => Some(CopyFault::Checksum),
        (_, Some(right)) if copy.bytes.as_ref() == Some(right) => None,
        _ => Some(CopyFault::Differs),
    });
    let faults = faults.collect();
    Verdict { right: chosen, faults }
}

/// Whether a disk whose copy is lost knows that something else was written, and no majority says
/// otherwise: then more than one thing went wrong, and the copy at hand may be older.
fn is_contradicted(bytes: &Bytes, copies: &[UnitCopy]) -> bool {
    let holds = copies.iter().filter(|copy| copy.bytes.as_ref() == Some(bytes)).count();
    let knows_other = |copy: &&UnitCopy| {
        let mut blocks = bytes.chunks(BLOCK).zip(&copy.sums);
        blocks.any(|(block, sum)| *sum != UNKNOWN && *sum != checksum_of(block))
    };
    let others = copies.iter().filter(|copy| copy.bytes.as_ref() != Some(bytes));
    holds * 2 <= copies.len() && others.into_iter().any(|copy| knows_other(&copy))
}

/// Whether each block has a checksum that some disk knows for it, or for which none is known.
fn is_known(bytes: &Bytes, copies: &[UnitCopy]) -> bool {
    bytes.chunks(BLOCK).enumerate().all(|(i, block)| {
        let mut sums = copies.iter().map(|copy| copy.sums[i]).filter(|sum| *sum != UNKNOWN);
        sums.clone().next().is_none() || sums.any(|sum| sum == checksum_of(block))
    })
}

/// The only one of some contents, or the one that more than half of the readable copies hold.
fn most(among: &[&Bytes], copies: &[UnitCopy]) -> Option<Bytes> {
    let first = among[0];
    if among.iter().all(|bytes| *bytes == first) {
        return Some(first.clone());
    }
    let readable = copies.iter().filter(|copy| copy.bytes.is_some()).count();
    let holds = |bytes: &Bytes| copies.iter().filter(|c| c.bytes.as_ref() == Some(bytes)).count();
    among.iter().find(|bytes| holds(bytes) * 2 > readable).map(|bytes| (*bytes).clone())
}

/// The right blocks of copies none of which is right as a whole.
fn joined(copies: &[UnitCopy], owns: &[Own]) -> Option<Bytes> {
    let readable = copies.iter().zip(owns).filter(|(_, own)| **own != Own::Unreadable);
    let readable: Vec<&UnitCopy> = readable.map(|(copy, _)| copy).collect();
    let length = readable.first()?.bytes.as_ref()?.len();
    let mut whole = Vec::with_capacity(length);
    for i in 0..length.div_ceil(BLOCK) {
        let range = i * BLOCK..((i + 1) * BLOCK).min(length);
        let mut known = copies.iter().map(|copy| copy.sums[i]).filter(|sum| *sum != UNKNOWN);
        let sum = known.next()?;
        if known.any(|other| other != sum) {
            return None;
        }
        let blocks = readable.iter().filter_map(|copy| copy.bytes.as_ref());
        let mut blocks = blocks.map(|bytes| &bytes[range.clone()]);
        whole.extend_from_slice(blocks.find(|block| checksum_of(block) == sum)?);
    }
    Some(Bytes::from(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(seeds: [u8; 2]) -> Bytes {
        Bytes::from(seeds.map(|seed| vec![seed; BLOCK]).concat())
    }

    fn sums_of(bytes: &Bytes) -> Vec<u32> {
        bytes.chunks(BLOCK).map(checksum_of).collect()
    }

    /// A copy that holds `bytes` and has the checksums of `of`.
    fn copy(bytes: &Bytes, of: &Bytes) -> UnitCopy {
        UnitCopy { bytes: Some(bytes.clone()), sums: sums_of(of) }
    }

    fn without(bytes: Option<&Bytes>) -> UnitCopy {
        UnitCopy { bytes: bytes.cloned(), sums: vec![UNKNOWN; 2] }
    }

    fn told(copies: &[UnitCopy], right: Option<&Bytes>, faults: &[Option<CopyFault>]) {
        let verdict = decide(copies);
        assert_eq!(verdict.right.as_ref(), right, "{:?}", verdict.faults);
        assert_eq!(verdict.faults, faults);
        assert_eq!(verdict.is_good(), right.is_some() && faults.iter().all(Option::is_none));
    }

    use CopyFault::{Checksum, Differs, Unreadable};

    #[test]
    fn the_copy_with_its_checksums_is_right() {
        let (new, old, half) = (unit([1, 2]), unit([8, 9]), unit([1, 9]));
        told(&[copy(&new, &new), copy(&new, &new)], Some(&new), &[None, None]);
        for rotten in [&old, &half] {
            told(&[copy(&new, &new), copy(rotten, &new)], Some(&new), &[None, Some(Checksum)]);
            told(&[copy(rotten, &new), copy(&new, &new)], Some(&new), &[Some(Checksum), None]);
        }
        // The data are right, and what rotted or was lost is the checksum.
        told(&[copy(&new, &old), copy(&new, &new)], Some(&new), &[Some(Checksum), None]);
        let unreadable = UnitCopy { bytes: None, sums: sums_of(&new) };
        told(&[unreadable, copy(&new, &new)], Some(&new), &[Some(Unreadable), None]);
    }

    #[test]
    fn a_write_lost_with_its_checksum_is_known_only_to_a_majority() {
        let (new, old) = (unit([1, 2]), unit([8, 9]));
        let two = [copy(&new, &new), copy(&old, &old)];
        told(&two, None, &[Some(Differs), Some(Differs)]);
        let three = [copy(&new, &new), copy(&old, &old), copy(&new, &new)];
        told(&three, Some(&new), &[None, Some(Differs), None]);
        // Without checksums the same holds.
        told(&[without(Some(&new)), without(Some(&old))], None, &[Some(Differs); 2]);
        let three = [without(Some(&new)), without(Some(&old)), without(Some(&new))];
        told(&three, Some(&new), &[None, Some(Differs), None]);
        told(&[without(None), without(Some(&old))], Some(&old), &[Some(Unreadable), None]);
    }

    #[test]
    fn what_one_disk_knows_holds_for_the_others() {
        let (new, old) = (unit([1, 2]), unit([8, 9]));
        // The checksums of one disk are gone: those of the other tell.
        told(&[without(Some(&new)), copy(&new, &new)], Some(&new), &[None, None]);
        told(&[without(Some(&old)), copy(&new, &new)], Some(&new), &[Some(Differs), None]);
        told(&[without(Some(&new)), copy(&old, &new)], Some(&new), &[None, Some(Checksum)]);
        let unreadable = UnitCopy { bytes: None, sums: sums_of(&new) };
        told(&[without(Some(&new)), unreadable], Some(&new), &[None, Some(Unreadable)]);
        let unreadable = UnitCopy { bytes: None, sums: sums_of(&new) };
        told(&[without(Some(&old)), unreadable], None, &[Some(Differs), Some(Unreadable)]);
    }

    #[test]
    fn a_lone_copy_that_another_disk_contradicts_is_not_believed() {
        let (new, old, rotten) = (unit([1, 2]), unit([8, 9]), unit([1, 7]));
        told(&[copy(&old, &old), copy(&rotten, &new)], None, &[Some(Differs), Some(Checksum)]);
        let unreadable = UnitCopy { bytes: None, sums: sums_of(&new) };
        told(&[copy(&old, &old), unreadable], None, &[Some(Differs), Some(Unreadable)]);
        let three = [copy(&new, &new), copy(&new, &new), copy(&rotten, &old)];
        told(&three, Some(&new), &[None, None, Some(Checksum)]);
    }

    #[test]
    fn right_blocks_are_joined_only_if_they_are_of_one_write() {
        let new = unit([1, 2]);
        let bad = |seeds| copy(&unit(seeds), &new);
        told(&[bad([1, 9]), bad([9, 2])], Some(&new), &[Some(Checksum); 2]);
        told(&[bad([1, 9]), bad([1, 8])], None, &[Some(Checksum); 2]);
        // Each half is right of itself, and they are halves of different writes.
        let halves = [copy(&unit([1, 9]), &new), copy(&unit([9, 4]), &unit([3, 4]))];
        told(&halves, None, &[Some(Checksum); 2]);
        told(&[UnitCopy { bytes: None, sums: vec![] }], None, &[Some(Unreadable)]);
    }
}
