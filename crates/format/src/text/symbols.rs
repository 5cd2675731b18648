//! Symbols of 1 to 8 bytes, and codes that stand for them. The symbols are found by fsst-rs; what a code
//! means is said in [`text`](crate::text), and coding and decoding are here, as fsst-rs does both with
//! unsafe code that trusts what it reads.

use crate::ints::{Damage, cut};

use super::field;

/// Bytes of the longest symbol.
pub const SYMBOL_BYTES: usize = 8;

/// Bytes behind the last decoded string that decoding may write.
pub const SLACK: usize = SYMBOL_BYTES;

/// The code that says that a byte follows as it is.
pub const ESCAPE: u8 = 255;

/// A code without a symbol has one of length 0.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    bytes: [u8; SYMBOL_BYTES],
    length: u8,
}

/// The symbol of each code.
#[derive(Clone, Debug)]
pub struct Symbols(Box<[Symbol; 256]>);

impl Symbols {
    /// Takes up `count` symbols; how many bytes they take.
    pub fn read(bytes: &[u8], count: usize) -> Result<(Symbols, usize), Damage> {
        let mut symbols = Symbols(Box::new([Symbol::default(); 256]));
        let lengths = cut(bytes, 0, count)?;
        let mut at = count;
        for (symbol, length) in symbols.0.iter_mut().zip(lengths) {
            let size = usize::from(*length);
            if !(1..=SYMBOL_BYTES).contains(&size) {
                return Err(field("length of a symbol", size));
            }
            symbol.bytes[..size].copy_from_slice(cut(bytes, at, size)?);
            symbol.length = *length;
            at += size;
        }
        Ok((symbols, at))
    }

    /// Decodes a string to where `at` is in `out`; where it ends. Up to [`SLACK`] bytes behind that are
    /// overwritten.
    #[inline(always)]
    pub fn decode(&self, codes: &[u8], out: &mut [u8], mut at: usize) -> Result<usize, Damage> {
        let mut codes = codes.iter();
        while let Some(code) = codes.next() {
            let symbol = &self.0[usize::from(*code)];
            let Some(room) = out.get_mut(at..).and_then(|out| out.first_chunk_mut()) else {
                return Err(field("plain bytes of a block", at));
            };
            *room = symbol.bytes;
            if symbol.length == 0 {
                let (ESCAPE, Some(byte)) = (*code, codes.next()) else {
                    return Err(field("code of a symbol", usize::from(*code)));
                };
                room[0] = *byte;
                at = at.wrapping_add(1);
            }
            at = at.wrapping_add(usize::from(symbol.length));
        }
        Ok(at)
    }
}

/// A symbol of three bytes or more.
#[derive(Clone, Copy)]
struct Long {
    word: u64,
    /// The bits of a word that it has.
    mask: u64,
    /// The code and, in the high bits, the length.
    both: u16,
}

/// No symbol: no word is like it.
const NONE: Long = Long { word: 1, mask: 0, both: 0 };

/// The bits of so many bytes.
const MASKS: [u64; SYMBOL_BYTES + 1] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    u32::MAX as u64,
    u64::MAX >> 24,
    u64::MAX >> 16,
    u64::MAX >> 8,
    u64::MAX,
];

/// Places for long symbols, by their first three bytes.
const PLACES: usize = 1 << 11;

/// Finds codes for strings.
pub struct Coder {
    symbols: Vec<Vec<u8>>,
    longs: Box<[Long; PLACES]>,
    /// By the first two bytes: the code and, in the high bits, the length of the longest symbol of at
    /// most two; [`ESCAPE`] if there is none.
    shorts: Vec<u16>,
}

impl Coder {
    /// Learns symbols from strings that are like those to be coded.
    pub fn learn(sample: &Vec<&[u8]>) -> Coder {
        let learned = fsst::Compressor::train(sample);
        let symbols = learned.symbol_table().iter().zip(learned.symbol_lengths());
        Coder::of(
            symbols.map(|(symbol, length)| {
                symbol.to_u64().to_le_bytes()[..usize::from(*length)].to_vec()
            }),
        )
    }

    /// Takes the symbols that are there.
    pub fn of(symbols: impl Iterator<Item = Vec<u8>>) -> Coder {
        let mut coder = Coder {
            symbols: Vec::new(),
            longs: Box::new([NONE; PLACES]),
            shorts: vec![u16::from(ESCAPE) | 1 << 8; 1 << 16],
        };
        // Behind the end of a string there are zeros to the coder. A symbol that ends in one could
        // reach over the end.
        let fits = |symbol: &Vec<u8>| symbol.len() == 1 || symbol.last() != Some(&0);
        coder.symbols.extend(symbols.filter(fits).take(usize::from(ESCAPE)));
        for (code, symbol) in (0..).zip(&coder.symbols) {
            if let [first] = symbol[..] {
                for second in 0..256 {
                    coder.shorts[usize::from(first) | second << 8] = code | 1 << 8;
                }
            }
        }
        for (code, symbol) in (0..).zip(&coder.symbols) {
            let mut bytes = [0; SYMBOL_BYTES];
            bytes[..symbol.len()].copy_from_slice(symbol);
            let word = u64::from_le_bytes(bytes);
            match symbol.len() {
                0 | 1 => {}
                2 => coder.shorts[word as usize] = code | 2 << 8,
                length => {
                    let both = code | (length as u16) << 8;
                    coder.longs[place(word)] = Long { word, mask: MASKS[length], both };
                }
            }
        }
        coder
    }

    /// How many symbols there are.
    pub fn count(&self) -> usize {
        self.symbols.len()
    }

    /// The symbols as a column has them.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.symbols.iter().map(|symbol| symbol.len() as u8));
        self.symbols.iter().for_each(|symbol| out.extend_from_slice(symbol));
    }

    /// Appends the codes of each of some strings, and how many they are.
    ///
    /// What is found decides where to look next, and the processor waits for that. So some parts of the
    /// strings are coded side by side, and then put together.
    pub fn encode(&self, strings: &[&[u8]], out: &mut Vec<u8>, lengths: &mut Vec<i64>) {
        let mut plain = Vec::new();
        let mut ends = Vec::with_capacity(strings.len());
        for string in strings {
            plain.extend_from_slice(string);
            ends.push(plain.len());
        }
        // A word is read where a byte is left.
        plain.resize(plain.len() + SYMBOL_BYTES, 0);
        let part = strings.len().div_ceil(LANES);
        let first = lengths.len();
        lengths.resize(first + strings.len(), 0);
        // A byte is two of code at most, and one more is written in passing.
        let mut codes = vec![0; 2 * plain.len() + LANES];
        let (mut start, mut room) = (0, &mut codes[..]);
        let mut lanes: [Lane<'_>; LANES] = Default::default();
        let parts = ends.chunks(part.max(1)).zip(lengths[first..].chunks_mut(part.max(1)));
        for (lane, (ends, lengths)) in lanes.iter_mut().zip(parts) {
            let end = *ends.last().unwrap_or(&start);
            let (own, rest) = room.split_at_mut(2 * (end - start) + 1);
            *lane = Lane { ends, lengths, row: 0, at: start, end: start, out: own, from: 0, to: 0 };
            lane.next();
            (start, room) = (end, rest);
        }
        while lanes.iter().all(Lane::has_more) {
            let [a, b, c, d] = &mut lanes;
            self.step(&plain, a);
            self.step(&plain, b);
            self.step(&plain, c);
            self.step(&plain, d);
        }
        for lane in &mut lanes {
            while lane.has_more() {
                self.step(&plain, lane);
            }
            out.extend_from_slice(&lane.out[..lane.to]);
        }
    }

    /// Codes what a string goes on with.
    #[inline(always)]
    fn step(&self, plain: &[u8], lane: &mut Lane<'_>) {
        let eight = plain[lane.at..].first_chunk().expect("there are so many behind the last");
        // Behind the end of the string there are zeros.
        let left = lane.end - lane.at;
        let word = u64::from_le_bytes(*eight) & MASKS[left.min(SYMBOL_BYTES)];
        let long = &self.longs[place(word)];
        let short = self.shorts[word as usize & 0xffff];
        // Not by a branch, as nobody can tell which it will be.
        let is_long = u16::from(word & long.mask == long.word).wrapping_neg();
        let both = short ^ ((short ^ long.both) & is_long);
        let two = lane.out[lane.to..].first_chunk_mut().expect("two for each byte");
        *two = [both as u8, word as u8];
        lane.to = lane.to.wrapping_add(1 + usize::from(both as u8 == ESCAPE));
        lane.at = lane.at.wrapping_add(usize::from(both >> 8));
        if lane.at >= lane.end {
            lane.lengths[lane.row] = (lane.to - lane.from) as i64;
            lane.from = lane.to;
            lane.row += 1;
            lane.next();
        }
    }
}

/// Parts that are coded side by side.
const LANES: usize = 4;

/// Some strings on their way to codes.
#[derive(Default)]
struct Lane<'a> {
    /// Where each string ends.
    ends: &'a [usize],
    lengths: &'a mut [i64],
    /// The string that is coded, where it goes on, and where it ends.
    row: usize,
    at: usize,
    end: usize,
    /// The codes, where those of the string begin, and where they go on.
    out: &'a mut [u8],
    from: usize,
    to: usize,
}

impl Lane<'_> {
    /// Goes on to the next string that has any bytes.
    #[inline(always)]
    fn next(&mut self) {
        while self.row < self.ends.len() {
            self.end = self.ends[self.row];
            if self.end > self.at {
                break;
            }
            self.row += 1;
        }
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        self.row < self.ends.len()
    }
}

/// Where a long symbol is; fsst-rs has no two in one place, as it hashes them like this itself.
#[inline(always)]
fn place(word: u64) -> usize {
    let three = word & 0xff_ffff;
    (three.wrapping_mul(2_971_215_073) ^ (three >> 15)) as usize % PLACES
}
