//! A column of whole numbers: dates, times, decimals of at most 18 digits, codes of a dictionary, and
//! anything else that is a 64-bit number.
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
//! All numbers are little-endian. A block has 1,024 rows; the last one is padded with its smallest number,
//! and ends with the last word (of every lane) that has bits of a row, so that few rows take few bytes.
//! Rows without a value hold any number: the reader knows which they are. A block's smallest number and
//! its bit width bound its contents, so a block can be skipped, or accepted whole, without reading it.

pub mod patched_delta;

use bytemuck::{cast_slice, try_cast_slice};

use crate::bits::{BLOCK, Lane, one_of, pack, packed_bytes, width_of};
use crate::kernel::{self, Mask};

/// Everything of a column begins at a multiple of this.
pub const ALIGN: usize = 64;

/// A column that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends too early, or too late.
    Length {
        /// Bytes that it should have at least.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// A field with an impossible value.
    Field {
        /// The name of the field.
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

/// Does the same with lanes of so many bits.
macro_rules! of_lane {
    ($bits:expr, $t:ident => $body:expr) => {
        match $bits {
            8 => {
                type $t = u8;
                $body
            }
            16 => {
                type $t = u16;
                $body
            }
            32 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
use of_lane;

/// The range of the numbers of each block.
pub fn ranges_of(numbers: &[i64]) -> Vec<(i64, i64)> {
    let range = |numbers: &[i64]| {
        let ends = (numbers[0], numbers[0]);
        numbers.iter().fold(ends, |(low, high), number| (low.min(*number), high.max(*number)))
    };
    numbers.chunks(BLOCK).map(range).collect()
}

/// Encodes a column.
pub fn encode(numbers: &[i64]) -> Vec<u8> {
    encode_ranges(numbers, &ranges_of(numbers))
}

/// Encodes a column whose blocks have these ranges in whichever way is shorter; returns whether that is
/// the way of [`patched_delta`].
pub fn encode_best(numbers: &[i64], ranges: &[(i64, i64)]) -> (bool, Vec<u8>) {
    match patched_delta::encode(numbers, ranges) {
        Some(bytes) => (true, bytes),
        None => (false, encode_ranges(numbers, ranges)),
    }
}

/// The smallest of all, and the lane that holds each block's numbers and each block's own base.
fn base_and_lane(ranges: &[(i64, i64)]) -> (i64, u8) {
    let base = ranges.iter().map(|(low, _)| *low).min().unwrap_or(0);
    let bits = |(low, high): &(i64, i64)| {
        width_of(high.wrapping_sub(*low) as u64).max(width_of(low.wrapping_sub(base) as u64))
    };
    (base, lane_of(ranges.iter().map(bits).max().unwrap_or(0)))
}

fn encode_ranges(numbers: &[i64], ranges: &[(i64, i64)]) -> Vec<u8> {
    let (base, lane) = base_and_lane(ranges);
    let mut out = Head { base, rows: numbers.len(), lane }.write();
    let width = |(low, high): &(i64, i64)| width_of(high.wrapping_sub(*low) as u64) as u8;
    out.extend(ranges.iter().map(width));
    align(&mut out);
    for (low, _) in ranges {
        let above = low.wrapping_sub(base) as u64;
        out.extend_from_slice(&above.to_le_bytes()[..usize::from(lane / 8)]);
    }
    align(&mut out);
    for (numbers, range) in numbers.chunks(BLOCK).zip(ranges) {
        let codes = numbers.iter().map(|number| number.wrapping_sub(range.0) as u64);
        of_lane!(lane, T => pack_block::<T>(codes, width(range).into(), &mut out));
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

/// Packs the codes of a block, 1,024 or fewer.
fn pack_block<T: Lane>(codes: impl ExactSizeIterator<Item = u64>, width: usize, out: &mut Vec<u8>) {
    let bytes = block_bytes(codes.len(), width, T::BITS as u8);
    let mut block = [T::default(); BLOCK];
    block.iter_mut().zip(codes).for_each(|(block, code)| *block = T::of(code));
    let mut packed = vec![T::default(); packed_bytes(width) / size_of::<T>()];
    pack(&block, width, &mut packed);
    out.extend_from_slice(&cast_slice(&packed)[..bytes]);
}

/// What is known of a block before it is unpacked.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its smallest number.
    base: i64,
    /// Where it begins in what is packed, and where its words end.
    start: u32,
    end: u32,
    /// Bits of the largest of its codes.
    width: u8,
    /// The steps after unpacking.
    packed: u8,
    /// What is to be done when it is unpacked.
    more: Option<patched_delta::More>,
}

impl Block {
    /// The most that a code of it may be.
    fn most(&self) -> u64 {
        if self.width == 0 { 0 } else { u64::MAX >> (64 - self.width) }
    }
}

/// A column as it is encoded: each number is the smallest of its block and a multiple of its *code*.
#[derive(Clone, Debug)]
pub struct Ints<'a> {
    rows: usize,
    /// Bits of a code, and of a code times the factor.
    lane: u8,
    product: u8,
    factor: u64,
    blocks: Vec<Block>,
    packed: &'a [u8],
}

impl<'a> Ints<'a> {
    /// Opens a column.
    ///
    /// # Errors
    /// The bytes are no such column.
    pub fn new(bytes: &'a [u8]) -> Result<Ints<'a>, Damage> {
        let Head { base, rows, lane } = Head::read(bytes)?;
        let blocks = rows.div_ceil(BLOCK);
        let widths = cut(bytes, ALIGN, blocks)?;
        let at = (ALIGN + blocks).next_multiple_of(ALIGN);
        let size = usize::from(lane / 8);
        let bases = cut(bytes, at, blocks * size)?;
        let at = (at + bases.len()).next_multiple_of(ALIGN);
        let mut own = Vec::with_capacity(blocks);
        let mut length = 0;
        for (block, (width, above)) in widths.iter().zip(bases.chunks_exact(size)).enumerate() {
            if *width > lane {
                return Err(Damage::Field { name: "bits of a block", value: (*width).into() });
            }
            let start = length as u32;
            length += block_bytes((rows - block * BLOCK).min(BLOCK), (*width).into(), lane);
            let base = base.wrapping_add(word(above) as i64);
            let (end, width, packed) = (length as u32, *width, *width);
            own.push(Block { base, start, end, width, packed, more: None });
        }
        let packed = cut(bytes, at, length)?;
        if bytes.len() != at + length {
            return Err(Damage::Length { expected: at + length, found: bytes.len() });
        }
        Ok(Ints { rows, lane, product: lane, factor: 1, blocks: own, packed })
    }

    /// Opens a column that [`patched_delta`] has encoded.
    ///
    /// # Errors
    /// The bytes are no such column.
    pub fn patched_delta(bytes: &'a [u8]) -> Result<Ints<'a>, Damage> {
        patched_delta::read(bytes)
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many blocks those are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The codes of a block, and what is to be added to each, times the factor.
    fn unpack<T: Lane>(&self, block: usize, out: &mut [T; BLOCK]) -> i64 {
        let own = &self.blocks[block];
        let width = usize::from(own.packed);
        let packed: &[T] = self.words(own);
        let all = packed_bytes(width) / size_of::<T>();
        if packed.len() == all {
            kernel::unpack(packed, width, out);
        } else {
            let mut whole = [T::default(); BLOCK];
            whole[..packed.len()].copy_from_slice(packed);
            kernel::unpack(&whole[..all], width, out);
        }
        if let Some(more) = &own.more {
            more.finish(&self.packed[own.end as usize..], own.most(), out);
        }
        own.base
    }

    /// Decodes the block `block`: 1,024 numbers, of which those behind the last row say nothing.
    pub fn decode(&self, block: usize, out: &mut [i64; BLOCK]) {
        of_lane!(self.lane, T => {
            let mut codes = [0 as T; BLOCK];
            let base = self.unpack(block, &mut codes);
            match self.factor {
                1 => kernel::widen(&codes, base, out),
                factor => kernel::widen_times(&codes, factor, base, out),
            }
        });
    }

    /// The most that a number of a block may be above its base.
    pub fn most(&self, block: usize) -> u64 {
        self.blocks[block].most().saturating_mul(self.factor)
    }

    /// Room for what a block's numbers are above their base.
    pub fn codes(&self) -> Codes {
        match self.product {
            8 => Codes::U8(Box::new([0; BLOCK])),
            16 => Codes::U16(Box::new([0; BLOCK])),
            32 => Codes::U32(Box::new([0; BLOCK])),
            _ => Codes::U64(Box::new([0; BLOCK])),
        }
    }

    /// Unpacks a block into room that [`Ints::codes`] gave; what is to be added to each number.
    pub fn unpack_codes(&self, block: usize, out: &mut Codes) -> i64 {
        if self.factor != 1 {
            return of_lane!(self.lane, T => {
                let mut codes = [0 as T; BLOCK];
                let base = self.unpack(block, &mut codes);
                each_lane!(out, out => kernel::times(&codes, self.factor, out));
                base
            });
        }
        each_lane!(out, out => self.unpack(block, out))
    }

    /// Keeps in `mask` the rows of a block whose number is from `low` to `high`.
    pub fn keep_range(&self, block: usize, low: i64, high: i64, mask: &mut Mask) {
        let Block { base, .. } = self.blocks[block];
        // How far above its base a code of the block may be; a number beyond 64 bits is in none.
        let most = self.blocks[block].most();
        let reach = i128::from(most).saturating_mul(self.factor.into());
        if low > high || high < base || reach.saturating_add(base.into()) < low.into() {
            return mask.fill(0);
        }
        let (mut from, mut to) =
            (low.max(base).wrapping_sub(base) as u64, high.wrapping_sub(base) as u64);
        if self.factor != 1 {
            (from, to) = (from.div_ceil(self.factor), to / self.factor);
        }
        let to = to.min(most);
        if from > to {
            return mask.fill(0);
        }
        if from == 0 && to == most {
            return;
        }
        let own = &self.blocks[block];
        of_lane!(self.lane, T => {
            let (low, span) = (T::of(from), T::of(to - from));
            let packed: &[T] = self.words(own);
            let width = usize::from(own.packed);
            if own.more.is_none() && packed.len() == packed_bytes(width) / size_of::<T>() {
                return kernel::keep_packed(packed, width, low, span, mask);
            }
            let mut codes = [0 as T; BLOCK];
            self.unpack(block, &mut codes);
            kernel::keep_range(&codes, low, span, mask);
        });
    }

    /// The words of a block.
    fn words<T: Lane>(&self, own: &Block) -> &'a [T] {
        let packed = &self.packed[own.start as usize..own.end as usize];
        try_cast_slice(packed).expect("a column begins where a word does")
    }

    /// Passes the numbers of some rows of a block to `each`.
    pub fn some(
        &self,
        block: usize,
        rows: impl ExactSizeIterator<Item = usize>,
        mut each: impl FnMut(i64),
    ) {
        let own = &self.blocks[block];
        if own.more.is_some() || rows.len() > ONE_BY_ONE {
            let mut numbers = [0; BLOCK];
            self.decode(block, &mut numbers);
            return rows.for_each(|row| each(numbers[row]));
        }
        of_lane!(self.lane, T => {
            let (packed, width): (&[T], usize) = (self.words(own), own.packed.into());
            for row in rows {
                let code = one_of(packed, width, row).wide().wrapping_mul(self.factor);
                each(own.base.wrapping_add(code as i64));
            }
        });
    }
}

/// The number of values of a block up to which they are unpacked one by one.
const ONE_BY_ONE: usize = 64;

/// What a column of whole numbers begins with, however it is encoded.
struct Head {
    base: i64,
    rows: usize,
    lane: u8,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Head, Damage> {
        let header = cut(bytes, 0, ALIGN)?;
        if !(bytes.as_ptr() as usize).is_multiple_of(8) {
            return Err(Damage::Unaligned);
        }
        let base = word(&header[..8]) as i64;
        let (rows, lane) = (word(&header[8..12]) as usize, header[12]);
        if ![8, 16, 32, 64].contains(&lane) {
            return Err(Damage::Field { name: "bits of a lane", value: lane.into() });
        }
        Ok(Head { base, rows, lane })
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(
            &u32::try_from(self.rows).expect("rows of a row group").to_le_bytes(),
        );
        out.push(self.lane);
        align(&mut out);
        out
    }
}

/// A number of at most eight bytes.
fn word(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(eight)
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
            for (block, numbers) in numbers.chunks(BLOCK).enumerate() {
                for step in [1, 40] {
                    let rows: Vec<usize> = (0..numbers.len()).step_by(step).collect();
                    let mut some = Vec::new();
                    column.some(block, rows.iter().copied(), |number| some.push(number));
                    let expected: Vec<i64> = rows.iter().map(|row| numbers[*row]).collect();
                    prop_assert_eq!(some, expected);
                }
            }
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
