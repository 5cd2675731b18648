//! A column of byte strings of which many differ: comments, addresses, names.
//!
//! ```text
//! 0   4  rows
//! 4   1  packing: 0 PLAIN, 1 FSST, 2 ZSTD
//! 5   1  FSST: how many symbols, 0 to 255; else 0
//! 6   2  zeros
//! 8   4  ZSTD: how many frames; else 0
//! 12  4  plain bytes of the largest block
//! 16  4  bytes of the lengths
//! 20  4  bytes of the packed strings
//! 24  40 zeros
//! 64  .. the length of each string: a column of whole numbers; zeros up to the next 64
//!     .. where each block begins, and where the last ends, 4 bytes each; zeros up to the next 64
//!     .. FSST: the symbols, ZSTD: the frames, PLAIN: nothing; zeros up to the next 64
//!     .. the packed strings, one right behind the other
//! ```
//!
//! All numbers are little-endian; columns of whole numbers are those of [`ints`](crate::ints). A
//! block has 1,024 rows, the last one whatever is left. The column says how many plain bytes its
//! largest block has, at most [`BLOCK_BYTES_MAX`]: a reader can check that before it allocates
//! memory.
//!
//! - PLAIN: the bytes as they are. Lengths, and where blocks begin, count them.
//! - FSST (VLDB 2020): a byte is a *code*. Code `c` below the number of symbols stands for symbol
//!   `c`, of 1 to 8 bytes; 255 stands for the byte that follows it; there are no others. No code
//!   reaches over the end of a string, so each is decoded alone. The symbols are stored as their
//!   lengths, a byte each, and then their bytes, one right behind the other. Lengths, and where
//!   blocks begin, count *codes*: these are needed to find a string, are smaller numbers than the
//!   plain lengths, and those come out of decoding anyway.
//! - ZSTD: frames (RFC 8878), each of whole blocks: as many as take [`FRAME_BYTES`] plain bytes at
//!   most, or one. For each frame its first block and where it begins in the packed strings, 4
//!   bytes each; then the number of blocks, and where the last frame ends. Lengths, and where
//!   blocks begin, count plain bytes.

mod decode;
mod encode;
mod symbols;
#[cfg(test)]
mod tests;

use symbols::{SYMBOL_BYTES, Symbols};

use crate::bits::BLOCK;
use crate::ints::{ALIGN, Damage, Ints, cut};

pub use decode::Reader;
pub use encode::encode;

/// Plain bytes that a block may have.
pub const BLOCK_BYTES_MAX: usize = 1 << 28;

/// Plain bytes that a frame of more than one block may have.
pub const FRAME_BYTES: usize = 1 << 18;

/// How the strings of a column are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// Each alone, by symbols that are the column's own.
    Fsst,
    /// Many together.
    Zstd,
}

/// Strings, one right behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The bytes of all.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<u32>,
}

impl Strings {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string `i`.
    ///
    /// # Panics
    /// There are not that many.
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    /// Adds a string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Clears it, and keeps the allocation.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Numbers of 4 bytes, side by side.
#[derive(Clone, Copy, Debug)]
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn get(&self, i: usize) -> usize {
        let four: [u8; 4] = self.0[i * 4..][..4].try_into().expect("four");
        u32::from_le_bytes(four) as usize
    }
}

/// What a packing needs to be undone.
#[derive(Clone, Debug)]
enum Key<'a> {
    Plain,
    Fsst(Symbols),
    /// Pairs of a block and a place.
    Zstd(Numbers<'a>),
}

/// A column as it is encoded.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    lengths: Ints<'a>,
    starts: Numbers<'a>,
    largest: usize,
    key: Key<'a>,
    packed: &'a [u8],
}

impl<'a> Text<'a> {
    /// Opens a column.
    ///
    /// # Errors
    /// The bytes are no such column. What is wrong inside a block, decoding it finds.
    pub fn new(bytes: &'a [u8]) -> Result<Text<'a>, Damage> {
        let header = cut(bytes, 0, ALIGN)?;
        let number = Numbers(header);
        let (rows, symbols, frames) = (number.get(0), usize::from(header[5]), number.get(2));
        let (largest, length, packed) = (number.get(3), number.get(4), number.get(5));
        if let Some(other) = header[6..8].iter().chain(&header[24..]).find(|byte| **byte != 0) {
            return Err(field("zeros of the header", usize::from(*other)));
        }
        let blocks = rows.div_ceil(BLOCK);
        let lengths = Ints::new(cut(bytes, ALIGN, length)?)?;
        if lengths.rows() != rows {
            return Err(field("rows of the lengths", lengths.rows()));
        }
        let at = (ALIGN + length).next_multiple_of(ALIGN);
        let starts = Numbers(cut(bytes, at, (blocks + 1) * 4)?);
        let at = (at + starts.0.len()).next_multiple_of(ALIGN);
        let (key, length) = match (header[4], symbols, frames) {
            (0, 0, 0) => (Key::Plain, 0),
            (1, _, 0) => {
                let (symbols, length) = Symbols::read(&bytes[at.min(bytes.len())..], symbols)?;
                (Key::Fsst(symbols), length)
            }
            (2, 0, _) => {
                let frames = cut(bytes, at, (frames + 1) * 8)?;
                (Key::Zstd(Numbers(frames)), frames.len())
            }
            (packing, ..) => return Err(field("packing", packing.into())),
        };
        let at = (at + length).next_multiple_of(ALIGN);
        let packed = cut(bytes, at, packed)?;
        if bytes.len() != at + packed.len() {
            return Err(Damage::Length { expected: at + packed.len(), found: bytes.len() });
        }
        let text = Text { lengths, starts, largest, key, packed };
        text.check_blocks()?;
        text.check_frames()?;
        Ok(text)
    }

    /// Whether blocks follow each other, and the largest is as large as is said.
    fn check_blocks(&self) -> Result<(), Damage> {
        let (mut end, mut largest) = (0, 0);
        for block in 0..=self.blocks() {
            let next = self.starts.get(block);
            if next < end || (block == 0 && next != 0) {
                return Err(field("start of a block", next));
            }
            largest = largest.max(next - end);
            end = next;
        }
        let is_so = match &self.key {
            Key::Plain | Key::Zstd(_) => self.largest == largest,
            Key::Fsst(_) => self.largest <= largest.saturating_mul(SYMBOL_BYTES),
        };
        if !is_so || self.largest > BLOCK_BYTES_MAX {
            return Err(field("plain bytes of the largest block", self.largest));
        }
        // The end of the last frame is known by its bytes alone.
        if !matches!(self.key, Key::Zstd(_)) && end != self.packed.len() {
            return Err(field("end of the last block", end));
        }
        Ok(())
    }

    /// Whether frames follow each other, and are no larger than they may be.
    fn check_frames(&self) -> Result<(), Damage> {
        let Key::Zstd(frames) = &self.key else { return Ok(()) };
        let count = frames.0.len() / 8 - 1;
        let (mut block, mut at) = (0, 0);
        for i in 0..=count {
            let (next, start) = (frames.get(i * 2), frames.get(i * 2 + 1));
            let follows = if i == 0 { (next, start) == (0, 0) } else { next > block && start > at };
            if !follows || next > self.blocks() {
                return Err(field("start of a frame", start));
            }
            let plain = self.starts.get(next) - self.starts.get(block);
            if next > block + 1 && plain > FRAME_BYTES {
                return Err(field("plain bytes of a frame", plain));
            }
            (block, at) = (next, start);
        }
        if (block, at) != (self.blocks(), self.packed.len()) {
            return Err(field("end of the last frame", at));
        }
        Ok(())
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.lengths.rows()
    }

    /// How many blocks those are.
    pub fn blocks(&self) -> usize {
        self.lengths.blocks()
    }

    /// How its strings are packed.
    pub fn packing(&self) -> Packing {
        match self.key {
            Key::Plain => Packing::Plain,
            Key::Fsst(_) => Packing::Fsst,
            Key::Zstd(_) => Packing::Zstd,
        }
    }

    /// Plain bytes of the largest block: no block decodes to more.
    pub fn largest(&self) -> usize {
        self.largest
    }
}

fn field(name: &'static str, value: usize) -> Damage {
    Damage::Field { name, value: value as u64 }
}
