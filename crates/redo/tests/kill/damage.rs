//! Damage done to media between a kill and the recovery.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use cellar_redo::on_disk::block::BLOCK_MAGIC;
use cellar_redo::on_disk::control::ControlData;

use crate::record::Chance;
use crate::shape::{Place, Shape};

/// What is done to one medium between a kill and the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It is not there.
    Missing(usize),
    /// There is an empty one in its place.
    Wiped(usize),
    /// Its last block is torn.
    Torn(usize),
    /// Some of its blocks have rotted.
    Rotten(usize),
    /// One copy of a header has.
    Header(usize),
}

impl Fault {
    /// The medium that it is done to.
    pub fn medium(self) -> Option<usize> {
        match self {
            Fault::None => None,
            Fault::Missing(m)
            | Fault::Wiped(m)
            | Fault::Torn(m)
            | Fault::Rotten(m)
            | Fault::Header(m) => Some(m),
        }
    }
}

/// A block on a medium: its group, its offset in the file, its number.
struct At {
    group: u32,
    offset: u64,
    abn: u64,
}

/// What looks like a block of the log where it should be.
fn blocks(place: &Place, shape: &Shape, control: &ControlData, medium: usize) -> Vec<At> {
    let mut found = Vec::new();
    let size = shape.block_size as usize;
    for group in control.groups.iter().filter(|group| group.sequence > 0) {
        let bytes = fs::read(place.file(medium, group.number)).unwrap();
        let all = bytes[4096..].chunks_exact(size).take(group.capacity as usize);
        for (index, block) in all.enumerate() {
            let abn = u64::from_le_bytes(block[8..16].try_into().unwrap());
            let is_block = block[4..6] == BLOCK_MAGIC.to_le_bytes();
            if is_block && abn == group.first.0 + index as u64 {
                let offset = 4096 + (index * size) as u64;
                found.push(At { group: group.number, offset, abn });
            }
        }
    }
    found.sort_by_key(|at| at.abn);
    found
}

fn rubbish(chance: &mut Chance, length: usize) -> Vec<u8> {
    let fill = chance.next().to_le_bytes()[0] & u8::from(chance.percent(50)).wrapping_neg();
    (0..length).map(|_| if fill == 0 { 0 } else { chance.next() as u8 }).collect()
}

pub fn apply(
    fault: Fault,
    place: &Place,
    shape: &Shape,
    control: &ControlData,
    chance: &mut Chance,
) {
    let Some(medium) = fault.medium() else { return };
    let write = |group: u32, offset: u64, bytes: &[u8]| {
        let file = OpenOptions::new().write(true).open(place.file(medium, group)).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        // Direct reads follow.
        file.sync_all().unwrap();
    };
    let size = shape.block_size as usize;
    match fault {
        Fault::None | Fault::Missing(_) => {}
        Fault::Wiped(_) => {
            for group in 1..=shape.groups {
                write(group, 0, &vec![0; shape.file_size() as usize]);
            }
        }
        Fault::Torn(_) => {
            let Some(last) = blocks(place, shape, control, medium).pop() else { return };
            // From some sector on; a block of one sector is gone.
            let keep = 512 * chance.below(size as u64 / 512);
            write(last.group, last.offset + keep, &rubbish(chance, size - keep as usize));
        }
        Fault::Rotten(_) => {
            let all = blocks(place, shape, control, medium);
            for _ in 0..1 + chance.below(8) {
                let Some(at) = all.get(chance.below(all.len() as u64) as usize) else { return };
                write(at.group, at.offset, &rubbish(chance, size));
            }
        }
        Fault::Header(_) => {
            let group = 1 + chance.below(u64::from(shape.groups)) as u32;
            let offset = if chance.percent(50) { 0 } else { shape.file_size() - 4096 };
            write(group, offset, &rubbish(chance, 4096));
        }
    }
}
