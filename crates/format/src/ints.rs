//! A column of whole numbers: dates, times, decimals of at most 18 digits, codes of a dictionary, and what
//! else is one number of 64 bits.
//!
//! ```text
//! 0   8  smallest number of the column
//! 8   4  rows
//! 12  1  bits of a lane: 8, 16, 32 or 64
//! 13  51 zeros
//! 64  .. bits of each block's numbers, a byte each; zeros up to the next 64
//!     .. smallest number of each block less that of the column, a lane each; zeros up to the next 64
//!     .. the blocks, packed ([`bits`](crate::bits)), each number less the smallest of its block
//! ```
//!
//! All numbers are little-endian. A block is of 1,024 rows; the last one is filled up with its smallest
//! number, and ends with the last word (of every lane) that has a row's bits, so that few rows take few
//! bytes. Rows without a value hold any: whoever reads them knows which those are. A block's smallest
//! number and its bits bound what it holds, so a block can be passed over, or taken whole, unread.

use bytemuck::{cast_slice, try_cast_slice};

use crate::bits::{BLOCK, Lane, pack, packed_bytes, width_of};
use crate::kernel::{self, Mask};

/// Everything of a column begins at a multiple of this.
pub const ALIGN: usize = 64;

/// A column that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends too early, or too late.
    Length {
        /// Bytes that it should have at least.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// A field that nobody wrote so.
    Field {
        /// Which.
        name: &'static str,
        /// What it holds.
        value: u64,
    },
    /// It does not begin at a multiple of [`ALIGN`] in memory.
    Unaligned,
}

/// Puts zeros up to the next multiple of [`ALIGN`].
fn align(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// The bits of the narrowest lane that holds numbers of `width` bits.
fn lane_of(width: usize) -> u8 {
    match width {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// Encodes a column.
pub fn encode(numbers: &[i64]) -> Vec<u8> {
    let base = numbers.iter().copied().min().unwrap_or(0);
    let range = |numbers: &[i64]| {
        let (low, high) = (numbers.iter().min(), numbers.iter().max());
        (*low.unwrap_or(&0), *high.unwrap_or(&0))
    };
    let ranges: Vec<(i64, i64)> = numbers.chunks(BLOCK).map(range).collect();
    let above = |number: i64| number.wrapping_sub(base) as u64;
    // The lane holds each block's numbers, and each block's own base.
    let bits = |(low, high): &(i64, i64)| {
        width_of(high.wrapping_sub(*low) as u64).max(width_of(above(*low)))
    };
    let lane = lane_of(ranges.iter().map(bits).max().unwrap_or(0));
    let mut out = Vec::new();
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(
        &u32::try_from(numbers.len()).expect("rows of a row group").to_le_bytes(),
    );
    out.push(lane);
    align(&mut out);
    let width = |(low, high): &(i64, i64)| width_of(high.wrapping_sub(*low) as u64) as u8;
    out.extend(ranges.iter().map(width));
    align(&mut out);
    for (low, _) in &ranges {
        out.extend_from_slice(&above(*low).to_le_bytes()[..usize::from(lane / 8)]);
    }
    align(&mut out);
    for (numbers, range) in numbers.chunks(BLOCK).zip(&ranges) {
        let width = usize::from(width(range));
        match lane {
            8 => pack_block::<u8>(numbers, range.0, width, &mut out),
            16 => pack_block::<u16>(numbers, range.0, width, &mut out),
            32 => pack_block::<u32>(numbers, range.0, width, &mut out),
            _ => pack_block::<u64>(numbers, range.0, width, &mut out),
        }
    }
    out
}

/// Bytes of a block of so many rows: of those that a whole one has, the first.
fn block_bytes(rows: usize, width: usize, lane: u8) -> usize {
    let lane = usize::from(lane);
    // Words of the lane that has most.
    let words = (rows.div_ceil(BLOCK / lane) * width).div_ceil(lane);
    words * (BLOCK / 8)
}

fn pack_block<T: Lane>(numbers: &[i64], low: i64, width: usize, out: &mut Vec<u8>) {
    let mut block = [T::default(); BLOCK];
    for (code, number) in block.iter_mut().zip(numbers) {
        *code = T::of(number.wrapping_sub(low) as u64);
    }
    let mut packed = vec![T::default(); packed_bytes(width) / size_of::<T>()];
    pack(&block, width, &mut packed);
    let bytes = block_bytes(numbers.len(), width, T::BITS as u8);
    out.extend_from_slice(&cast_slice(&packed)[..bytes]);
}

/// A column as it is encoded.
#[derive(Clone, Debug)]
pub struct Ints<'a> {
    base: i64,
    rows: usize,
    lane: u8,
    widths: &'a [u8],
    bases: &'a [u8],
    packed: &'a [u8],
    /// Where each block begins in `packed`, and where the last one ends.
    starts: Vec<u32>,
}

impl<'a> Ints<'a> {
    /// Takes up a column.
    ///
    /// # Errors
    /// The bytes are no such column.
    pub fn new(bytes: &'a [u8]) -> Result<Ints<'a>, Damage> {
        let header = cut(bytes, 0, ALIGN)?;
        if !(bytes.as_ptr() as usize).is_multiple_of(8) {
            return Err(Damage::Unaligned);
        }
        let base = i64::from_le_bytes(header[..8].try_into().expect("eight"));
        let rows = u32::from_le_bytes(header[8..12].try_into().expect("four"));
        let lane = header[12];
        if ![8, 16, 32, 64].contains(&lane) {
            return Err(Damage::Field { name: "bits of a lane", value: lane.into() });
        }
        let rows = rows as usize;
        let blocks = rows.div_ceil(BLOCK);
        let widths = cut(bytes, ALIGN, blocks)?;
        let at = (ALIGN + blocks).next_multiple_of(ALIGN);
        let bases = cut(bytes, at, blocks * usize::from(lane / 8))?;
        let at = (at + bases.len()).next_multiple_of(ALIGN);
        let mut starts = Vec::with_capacity(blocks + 1);
        let mut length = 0;
        for (block, width) in widths.iter().enumerate() {
            if *width > lane {
                return Err(Damage::Field { name: "bits of a block", value: (*width).into() });
            }
            starts.push(length as u32);
            let rows = (rows - block * BLOCK).min(BLOCK);
            length += block_bytes(rows, (*width).into(), lane);
        }
        starts.push(length as u32);
        let packed = cut(bytes, at, length)?;
        if bytes.len() != at + length {
            return Err(Damage::Length { expected: at + length, found: bytes.len() });
        }
        Ok(Ints { base, rows, lane, widths, bases, packed, starts })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many blocks those are.
    pub fn blocks(&self) -> usize {
        self.widths.len()
    }

    /// The numbers of a block, and what is to be added to each.
    fn unpack<T: Lane>(&self, block: usize, out: &mut [T; BLOCK]) -> i64 {
        let width = usize::from(self.widths[block]);
        let packed = &self.packed[self.starts[block] as usize..self.starts[block + 1] as usize];
        let packed: &[T] = try_cast_slice(packed).expect("a column begins where a word does");
        let all = packed_bytes(width) / size_of::<T>();
        if packed.len() == all {
            kernel::unpack(packed, width, out);
        } else {
            let mut whole = [T::default(); BLOCK];
            whole[..packed.len()].copy_from_slice(packed);
            kernel::unpack(&whole[..all], width, out);
        }
        self.base_of(block)
    }

    /// The smallest number of a block.
    fn base_of(&self, block: usize) -> i64 {
        let size = usize::from(self.lane / 8);
        let mut base = [0; 8];
        base[..size].copy_from_slice(&self.bases[block * size..][..size]);
        self.base.wrapping_add(u64::from_le_bytes(base) as i64)
    }

    /// Decodes the block `block`: 1,024 numbers, of which those behind the last row say nothing.
    pub fn decode(&self, block: usize, out: &mut [i64; BLOCK]) {
        fn as_lane<T: Lane>(column: &Ints<'_>, block: usize, out: &mut [i64; BLOCK]) {
            let mut codes = [T::default(); BLOCK];
            let base = column.unpack(block, &mut codes);
            kernel::widen(&codes, base, out);
        }
        match self.lane {
            8 => as_lane::<u8>(self, block, out),
            16 => as_lane::<u16>(self, block, out),
            32 => as_lane::<u32>(self, block, out),
            _ => as_lane::<u64>(self, block, out),
        }
    }

    /// Room for what a block's numbers are above their base.
    pub fn codes(&self) -> Codes {
        match self.lane {
            8 => Codes::U8(Box::new([0; BLOCK])),
            16 => Codes::U16(Box::new([0; BLOCK])),
            32 => Codes::U32(Box::new([0; BLOCK])),
            _ => Codes::U64(Box::new([0; BLOCK])),
        }
    }

    /// Unpacks a block into room that [`Ints::codes`] gave; what is to be added to each number.
    pub fn unpack_codes(&self, block: usize, out: &mut Codes) -> i64 {
        match out {
            Codes::U8(out) => self.unpack(block, out),
            Codes::U16(out) => self.unpack(block, out),
            Codes::U32(out) => self.unpack(block, out),
            Codes::U64(out) => self.unpack(block, out),
        }
    }

    /// Leaves in `mask` those rows of a block whose number is from `low` to `high`.
    pub fn keep_range(&self, block: usize, low: i64, high: i64, mask: &mut Mask) {
        fn as_lane<T: Lane>(column: &Ints<'_>, block: usize, from: u64, to: u64, mask: &mut Mask) {
            let mut codes = [T::default(); BLOCK];
            column.unpack(block, &mut codes);
            kernel::keep_range(&codes, T::of(from), T::of(to - from), mask);
        }
        let base = self.base_of(block);
        // How far above its base a number of the block may be; one beyond 64 bits is in none.
        let width = usize::from(self.widths[block]);
        let most = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let reaches = i128::from(base) + i128::from(most) >= i128::from(low);
        if low > high || high < base || !reaches {
            return mask.fill(0);
        }
        let from = low.max(base).wrapping_sub(base) as u64;
        let to = (high.wrapping_sub(base) as u64).min(most);
        if from == 0 && to == most {
            return;
        }
        match self.lane {
            8 => as_lane::<u8>(self, block, from, to, mask),
            16 => as_lane::<u16>(self, block, from, to, mask),
            32 => as_lane::<u32>(self, block, from, to, mask),
            _ => as_lane::<u64>(self, block, from, to, mask),
        }
    }
}

/// A block of numbers, each as wide as the column's lanes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Codes {
    U8(Box<[u8; BLOCK]>),
    U16(Box<[u16; BLOCK]>),
    U32(Box<[u32; BLOCK]>),
    U64(Box<[u64; BLOCK]>),
}

/// Does the same with a block of numbers, however wide they are.
macro_rules! each_lane {
    ($codes:expr, $own:ident => $body:expr) => {
        match $codes {
            $crate::ints::Codes::U8($own) => $body,
            $crate::ints::Codes::U16($own) => $body,
            $crate::ints::Codes::U32($own) => $body,
            $crate::ints::Codes::U64($own) => $body,
        }
    };
}
pub(crate) use each_lane;

/// A part of some bytes.
pub(crate) fn cut(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], Damage> {
    let end = at.saturating_add(length);
    bytes.get(at..end).ok_or(Damage::Length { expected: end, found: bytes.len() })
}

/// A copy of some bytes that begins where a column may.
#[cfg(test)]
pub(crate) fn placed(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<i64>> {
        let span = prop_oneof![Just(0u32), 1..20u32, 30..40u32, Just(63u32)];
        let base = prop_oneof![Just(0i64), Just(i64::MIN), Just(i64::MAX), any::<i64>()];
        (span, base, 0..3000usize).prop_flat_map(|(span, base, rows)| {
            let number =
                any::<u64>().prop_map(move |n| base.wrapping_add((n >> (63 - span) >> 1) as i64));
            prop::collection::vec(number, rows)
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(numbers in numbers()) {
            let bytes = encode(&numbers);
            let words = placed(&bytes);
            let column = Ints::new(&cast_slice(&words)[..bytes.len()]).expect("a column");
            let mut back = Vec::new();
            for block in 0..column.blocks() {
                let mut out = [0; BLOCK];
                column.decode(block, &mut out);
                back.extend_from_slice(&out);
            }
            prop_assert!(back.len() >= numbers.len() && back.len() < numbers.len() + BLOCK);
            prop_assert_eq!(&back[..numbers.len()], &numbers[..]);
        }

        #[test]
        fn a_range_is_kept_as_the_numbers_say(
            numbers in numbers(), at in any::<prop::sample::Index>(), span in 0..40u32, turned: bool
        ) {
            prop_assume!(!numbers.is_empty());
            let bytes = encode(&numbers);
            let words = placed(&bytes);
            let column = Ints::new(&cast_slice(&words)[..bytes.len()]).expect("a column");
            let low = numbers[at.index(numbers.len())];
            let high = low.saturating_add((1i64 << span) - 1);
            let (low, high) = if turned { (i64::MIN, low) } else { (low, high) };
            for (block, numbers) in numbers.chunks(BLOCK).enumerate() {
                let mut mask = [0xff; BLOCK];
                column.keep_range(block, low, high, &mut mask);
                for (mask, number) in mask.iter().zip(numbers) {
                    prop_assert_eq!(*mask == 0xff, (low..=high).contains(number), "{}", number);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), lane in 0..5usize) {
            if let Some(byte) = bytes.get_mut(12) {
                *byte = [8, 16, 32, 64, 7][lane];
            }
            if bytes.len() > 12 {
                bytes[10..12].fill(0);
            }
            let words = placed(&bytes);
            if let Ok(column) = Ints::new(&cast_slice(&words)[..bytes.len()]) {
                for block in 0..column.blocks() {
                    column.decode(block, &mut [0; BLOCK]);
                    column.keep_range(block, -5, 5, &mut [0xff; BLOCK]);
                }
            }
        }
    }

    #[test]
    fn the_bytes_are_these() {
        let bytes = encode(&[-3, 1000, 5]);
        assert_eq!(bytes.len(), 64 * 3 + 128);
        assert_eq!(bytes[..13], [0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 16]);
        assert_eq!(
            (bytes[64], bytes[128], bytes[192..198].to_vec()),
            (10, 0, vec![0, 0, 235, 3, 8, 0])
        );
    }
}
