//! Symbols of 1 to 8 bytes, and codes that stand for them. The symbols are found by fsst-rs; the
//! meaning of codes is described in [`text`](crate::text). Coding and decoding are here, because
//! fsst-rs does both with unsafe code that trusts its input.

use super::field;
use crate::ints::{Damage, cut};

/// The length of the longest symbol, in bytes.
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

    /// Decodes a string to where `at` is in `out`; where it ends. Up to [`SLACK`] bytes behind that
    /// are overwritten.
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
    /// By the first two bytes: the code and, in the high bits, the length of the longest symbol of
    /// at most two; [`ESCAPE`] if there is none.
    shorts: Box<[u16; 1 << 16]>,
}

impl Coder {
    /// Learns symbols from strings similar to those to be coded.
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
            shorts: Box::new([u16::from(ESCAPE) | 1 << 8; 1 << 16]),
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
    /// Each match decides where to look next, and the processor waits for it. So four parts of the
    /// strings are coded side by side, and then joined.
    pub fn encode(&self, strings: &[&[u8]], out: &mut Vec<u8>, lengths: &mut Vec<i64>) {
        // A byte is two of code at most, and one more is written in passing, by each part.
        let plain: usize = strings.iter().map(|string| string.len()).sum();
        let mut codes = vec![0; 2 * plain + 4];
        let mut own = vec![0; strings.len()];
        let (mut rest, mut rest_lengths) = (strings, &mut own[..]);
        let (mut room, mut left) = (&mut codes[..], 4);
        let mut lanes = std::array::from_fn::<_, 4, _>(|_| {
            let strings = rest.split_off(..rest.len().div_ceil(left)).expect("no more than all");
            let lengths = rest_lengths.split_off_mut(..strings.len()).expect("as many");
            let plain: usize = strings.iter().map(|string| string.len()).sum();
            let codes = room.split_off_mut(..2 * plain + 1).expect("room for all");
            left -= 1;
            let mut lane =
                Lane { strings, lengths, row: 0, string: &[], at: 0, codes, from: 0, to: 0 };
            self.next(&mut lane);
            lane
        });
        let [a, b, c, d] = &mut lanes;
        while a.has_more() & b.has_more() & c.has_more() & d.has_more() {
            self.step(a);
            self.step(b);
            self.step(c);
            self.step(d);
        }
        for lane in &mut lanes {
            while lane.has_more() {
                self.step(lane);
            }
            out.extend_from_slice(&lane.codes[..lane.to]);
        }
        lengths.extend_from_slice(&own);
    }

    /// Codes what the string of a lane goes on with.
    #[inline(always)]
    fn step(&self, lane: &mut Lane<'_>) {
        // At its end, the last eight bytes, without those that are coded: zeros follow.
        let from = lane.at.min(lane.string.len().wrapping_sub(SYMBOL_BYTES));
        let eight = lane.string[from..].first_chunk().expect("short strings are coded elsewhere");
        let word = u64::from_le_bytes(*eight) >> ((lane.at.wrapping_sub(from) * 8) & 63);
        lane.at = lane.at.wrapping_add(self.code(word, lane));
        if lane.at == lane.string.len() {
            lane.end();
            self.next(lane);
        }
    }

    /// Codes what a word begins with; how many bytes of it that is.
    #[inline(always)]
    fn code(&self, word: u64, lane: &mut Lane<'_>) -> usize {
        let long = &self.longs[place(word)];
        let short = self.shorts[word as usize & 0xffff];
        // Without a branch, because it would be unpredictable.
        let is_long = u16::from(word & long.mask == long.word).wrapping_neg();
        let both = short ^ ((short ^ long.both) & is_long);
        let two = lane.codes[lane.to..].first_chunk_mut().expect("two for each byte");
        *two = [both as u8, word as u8];
        lane.to = lane.to.wrapping_add(1 + usize::from(both as u8 == ESCAPE));
        usize::from(both >> 8)
    }

    /// Goes on to the next string that is no shorter than a word, and codes those before it.
    #[inline(always)]
    fn next(&self, lane: &mut Lane<'_>) {
        while let Some(string) = lane.strings.get(lane.row) {
            if string.len() >= SYMBOL_BYTES {
                (lane.string, lane.at) = (string, 0);
                break;
            }
            let mut eight = [0; SYMBOL_BYTES];
            eight[..string.len()].copy_from_slice(string);
            let (mut word, mut left) = (u64::from_le_bytes(eight), string.len());
            while left > 0 {
                let length = self.code(word, lane);
                left -= length;
                word >>= 8 * length;
            }
            lane.end();
        }
    }
}

/// Where coding some strings is.
struct Lane<'a> {
    strings: &'a [&'a [u8]],
    lengths: &'a mut [i64],
    /// The string that is coded, and where it goes on.
    row: usize,
    string: &'a [u8],
    at: usize,
    /// The codes, where those of the string begin, and where they go on.
    codes: &'a mut [u8],
    from: usize,
    to: usize,
}

impl Lane<'_> {
    #[inline(always)]
    fn has_more(&self) -> bool {
        self.row < self.strings.len()
    }

    /// Ends a string.
    #[inline(always)]
    fn end(&mut self) {
        self.lengths[self.row] = self.to.wrapping_sub(self.from) as i64;
        self.from = self.to;
        self.row += 1;
    }
}

/// Where a long symbol is; fsst-rs has no two in one place, as it hashes them like this itself.
#[inline(always)]
fn place(word: u64) -> usize {
    let three = word & 0xff_ffff;
    (three.wrapping_mul(2_971_215_073) ^ (three >> 15)) as usize % PLACES
}
