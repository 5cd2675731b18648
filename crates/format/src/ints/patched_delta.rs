//! A column of whole numbers with more structure than a range: all are multiples of a number (quantities kept
//! with two decimal places), neighbours differ little (keys and times in order of arrival), or a few are far
//! from the others.
//!
//! ```text
//! 0   8  smallest number of the column
//! 8   4  rows
//! 12  1  bits of a lane: 8, 16, 32 or 64
//! 13  3  zeros
//! 16  8  factor, at least 1: what each number is above the smallest is a multiple of it
//! 24  40 zeros
//! 64  .. blocks, 32 bytes each; zeros up to the next 64
//!     .. what is packed: of each block words, places and patches
//!
//! block
//! 0   8  smallest code of the block
//! 8   8  steps: the first code less that; else 0
//! 16  8  steps: the least; else 0
//! 24  1  bits of the largest code less the smallest, at most a lane
//! 25  1  bits of what is packed, at most a lane
//! 26  1  0: codes are packed, less the smallest; 1: steps
//! 27  1  zero
//! 28  2  patches, at most 1,024
//! 30  2  zeros
//! ```
//!
//! All numbers are little-endian. The *code* of a number is its distance from the smallest of the column,
//! divided by the factor. A block packs either its codes less the smallest of them, or *steps*: the
//! difference between each code and the one before it, less the least such difference, modulo 2^lane; the
//! step of the first row is zero. Codes are recovered from steps by summing, modulo 2^width, the bits of the
//! largest code. Values that need more bits than are packed are *patched*: after the words of the block
//! ([`bits`](crate::bits), cut as in [`ints`](crate::ints)) come the places of such rows, 2 bytes each, and
//! their values in place of the packed ones, a lane each; zeros up to the next 8. Places ascend.
//!
//! This encoding is used where it saves an eighth: unpacking costs a little more.

mod encode;
#[cfg(test)]
mod tests;

use super::{ALIGN, Block, Damage, Head, Ints, block_bytes, cut, lane_of, word};
use crate::bits::{BLOCK, Lane, width_of};
use crate::kernel;

pub(super) use encode::encode;

/// Bytes of a block's description.
const ENTRY: usize = 32;
/// What is done to a block when it is unpacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct More {
    patches: u16,
    /// The first code and the least step, if steps are packed.
    steps: Option<(u64, u64)>,
}

impl More {
    /// Turns packed values into codes, of which `most` is the largest; `rest` is what follows the words.
    pub(super) fn finish<T: Lane>(&self, rest: &[u8], most: u64, out: &mut [T; BLOCK]) {
        for (place, patch) in self.patches(rest, T::BITS / 8) {
            if let Some(out) = out.get_mut(place) {
                *out = T::of(patch);
            }
        }
        if let Some((first, least)) = self.steps {
            // Whatever the steps are, no code exceeds the bound that filters rely on.
            kernel::walk(out, T::of(first), T::of(least), T::of(most));
        }
    }

    /// The rows that are patched, and with what; `rest` is what follows the words.
    fn patches<'a>(&self, rest: &'a [u8], lane: usize) -> impl Iterator<Item = (usize, u64)> + 'a {
        let count = usize::from(self.patches);
        let (places, rest) = rest.split_at_checked(count * 2).unwrap_or_default();
        let patches = places.chunks_exact(2).zip(rest.chunks_exact(lane));
        patches.map(|(place, patch)| (word(place) as usize, word(patch)))
    }
}

/// Bytes of the patches of a block.
fn patch_bytes(patches: usize, lane: u8) -> usize {
    (patches * (2 + usize::from(lane / 8))).next_multiple_of(8)
}

/// Takes up a column.
pub(super) fn read(bytes: &[u8]) -> Result<Ints<'_>, Damage> {
    let Head { base, rows, lane } = Head::read(bytes)?;
    let factor = word(&bytes[16..24]);
    if factor == 0 {
        return Err(Damage::Field { name: "factor of a column", value: 0 });
    }
    let count = rows.div_ceil(BLOCK);
    let entries = cut(bytes, ALIGN, count.saturating_mul(ENTRY))?;
    let at = (ALIGN + entries.len()).next_multiple_of(ALIGN);
    let mut blocks = Vec::with_capacity(count);
    let (mut length, mut product) = (0, lane);
    for (block, entry) in entries.chunks_exact(ENTRY).enumerate() {
        let own = read_block(entry, lane, length)?;
        let words = block_bytes((rows - block * BLOCK).min(BLOCK), own.packed.into(), lane);
        let patches = own.more.map_or(0, |more| usize::from(more.patches));
        let end = (length + words) as u32;
        let base = base.wrapping_add(word(&entry[..8]).wrapping_mul(factor) as i64);
        blocks.push(Block { base, end, ..own });
        length += words + patch_bytes(patches, lane);
        product = product.max(lane_of(width_of(own.most().saturating_mul(factor))));
    }
    let packed = cut(bytes, at, length)?;
    if bytes.len() != at + length {
        return Err(Damage::Length { expected: at + length, found: bytes.len() });
    }
    for (block, own) in blocks.iter().enumerate() {
        check_patches(own, &packed[own.end as usize..], lane, (rows - block * BLOCK).min(BLOCK))?;
    }
    Ok(Ints { rows, lane, product, factor, blocks, packed })
}

/// Their places ascend, and each is a row's; of codes none is beyond the largest.
fn check_patches(own: &Block, rest: &[u8], lane: u8, rows: usize) -> Result<(), Damage> {
    let Some(more) = &own.more else { return Ok(()) };
    let mut next = 0;
    for (place, patch) in more.patches(rest, usize::from(lane / 8)) {
        if place < next || place >= rows {
            return Err(Damage::Field { name: "place of a patch", value: place as u64 });
        }
        if more.steps.is_none() && patch > own.most() {
            return Err(Damage::Field { name: "patch of a block", value: patch });
        }
        next = place + 1;
    }
    Ok(())
}

/// What is said of a block whose words begin at `start`.
fn read_block(entry: &[u8], lane: u8, start: usize) -> Result<Block, Damage> {
    let (width, packed, how) = (entry[24], entry[25], entry[26]);
    let patches = word(&entry[28..30]) as u16;
    let wrong = |name, value: u64| Err(Damage::Field { name, value });
    if width.max(packed) > lane {
        return wrong("bits of a block", width.max(packed).into());
    }
    if how > 1 || usize::from(patches) > BLOCK {
        return wrong("patches of a block", patches.into());
    }
    // Of codes that are packed the largest has as many bits as are packed, unless that is patched.
    if how == 0 && (packed > width || (patches == 0 && packed < width)) {
        return wrong("bits of what is packed", packed.into());
    }
    let steps = (how == 1).then(|| (word(&entry[8..16]), word(&entry[16..24])));
    let more = (patches > 0 || how == 1).then_some(More { patches, steps });
    Ok(Block { base: 0, start: start as u32, end: 0, width, packed, more })
}
