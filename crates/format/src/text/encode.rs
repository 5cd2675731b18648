//! Encoding a column of strings, and choosing how.

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

use super::symbols::Coder;
use super::{BLOCK_BYTES_MAX, FRAME_BYTES, Packing};
use crate::bits::{BLOCK, width_of};
use crate::ints::{self, ALIGN};

/// Plain bytes that are looked at to choose a packing.
const SAMPLE_BYTES: usize = 1 << 15;

/// Places of the column that those are from, so that each is long enough to repeat itself.
const SAMPLE_PLACES: usize = 4;

/// Plain bytes that symbols are learned from: fsst-rs takes 16 KiB, and chooses itself of more.
const LEARN_BYTES: usize = 16_000;

/// Places of the column that those are from.
const LEARN_PLACES: usize = 256;

/// How hard ZSTD tries.
const ZSTD_LEVEL: i32 = 1;

/// What is behind the header of a column.
struct Parts {
    packing: Packing,
    count: usize,
    largest: usize,
    lengths: Vec<i64>,
    starts: Vec<usize>,
    key: Vec<u8>,
    packed: Vec<u8>,
}

/// Encodes a column; without a packing, with the one that suits it: FSST, or ZSTD if that takes
/// less than 0.8 of it, and none if neither saves a tenth. That is decided on a part of the column.
///
/// # Panics
/// A block has more than [`BLOCK_BYTES_MAX`] plain bytes, or the column more than 32 bits can
/// count: it was to be cut into row groups long before.
pub fn encode(strings: &[&[u8]], packing: Option<Packing>) -> Vec<u8> {
    let mut coder = None;
    let chosen = packing.unwrap_or_else(|| choose(strings, &mut coder));
    let parts = match chosen {
        Packing::Plain => plain(strings),
        Packing::Fsst => fsst(strings, &coder.unwrap_or_else(|| learn(strings))),
        Packing::Zstd => zstd(strings),
    };
    // A part may have told little about the whole.
    let total: usize = strings.iter().map(|string| string.len()).sum();
    if packing.is_none() && saves_little(parts.key.len() + parts.packed.len(), total) {
        return assemble(&plain(strings));
    }
    assemble(&parts)
}

/// Puts a column together.
fn assemble(parts: &Parts) -> Vec<u8> {
    let of_32 = |number: usize| u32::try_from(number).expect("a row group's").to_le_bytes();
    assert!(parts.largest <= BLOCK_BYTES_MAX, "a block of {} bytes", parts.largest);
    let lengths = ints::encode(&parts.lengths);
    let (packing, symbols, frames) = match parts.packing {
        Packing::Plain => (0, 0, 0),
        Packing::Fsst => (1, parts.count, 0),
        Packing::Zstd => (2, 0, parts.count),
    };
    let mut out = Vec::with_capacity(parts.packed.len() + lengths.len() + 4096);
    out.extend_from_slice(&of_32(parts.lengths.len()));
    out.extend_from_slice(&[packing, symbols as u8, 0, 0]);
    for number in [frames, parts.largest, lengths.len(), parts.packed.len()] {
        out.extend_from_slice(&of_32(number));
    }
    let starts: Vec<u8> = parts.starts.iter().flat_map(|start| of_32(*start)).collect();
    for part in [&lengths, &starts, &parts.key, &parts.packed] {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out.extend_from_slice(part);
    }
    out
}

fn plain(strings: &[&[u8]]) -> Parts {
    let lengths = strings.iter().map(|string| string.len() as i64).collect();
    let mut starts = vec![0];
    let mut packed = Vec::with_capacity(strings.iter().map(|string| string.len()).sum());
    let mut largest = 0;
    for block in strings.chunks(BLOCK) {
        let start = packed.len();
        block.iter().for_each(|string| packed.extend_from_slice(string));
        largest = largest.max(packed.len() - start);
        starts.push(packed.len());
    }
    let packing = Packing::Plain;
    Parts { packing, count: 0, largest, lengths, starts, key: Vec::new(), packed }
}

fn fsst(strings: &[&[u8]], coder: &Coder) -> Parts {
    let mut lengths = Vec::with_capacity(strings.len());
    let (mut starts, mut packed) = (vec![0], Vec::new());
    let mut largest = 0;
    for block in strings.chunks(BLOCK) {
        coder.encode(block, &mut packed, &mut lengths);
        largest = largest.max(block.iter().map(|string| string.len()).sum());
        starts.push(packed.len());
    }
    let mut key = Vec::new();
    coder.write(&mut key);
    Parts { packing: Packing::Fsst, count: coder.count(), largest, lengths, starts, key, packed }
}

fn zstd(strings: &[&[u8]]) -> Parts {
    let mut parts = plain(strings);
    let plain = std::mem::take(&mut parts.packed);
    let mut zstd = Zstd::new();
    let mut first = 0;
    let blocks = parts.starts.len() - 1;
    while first < blocks {
        let start = parts.starts[first];
        // At least one block, and further ones while they fit.
        let mut next = first + 1;
        while next < blocks && parts.starts[next + 1] - start <= FRAME_BYTES {
            next += 1;
        }
        for number in [first, parts.packed.len()] {
            parts.key.extend_from_slice(&(number as u32).to_le_bytes());
        }
        zstd.append(&plain[start..parts.starts[next]], &mut parts.packed);
        parts.count += 1;
        first = next;
    }
    for number in [blocks, parts.packed.len()] {
        parts.key.extend_from_slice(&(number as u32).to_le_bytes());
    }
    Parts { packing: Packing::Zstd, ..parts }
}

struct Zstd {
    zstd: Compressor<'static>,
    frame: Vec<u8>,
}

impl Zstd {
    fn new() -> Zstd {
        let zstd = Compressor::new(ZSTD_LEVEL).expect("a level that there is");
        Zstd { zstd, frame: Vec::new() }
    }

    /// Appends some bytes as a frame; how long that is.
    fn append(&mut self, plain: &[u8], out: &mut Vec<u8>) -> usize {
        self.frame.clear();
        self.frame.reserve(compress_bound(plain.len()));
        let length = self.zstd.compress_to_buffer(plain, &mut self.frame);
        out.extend_from_slice(&self.frame);
        length.expect("there is room for whatever comes out")
    }
}

/// Strings from some places of a column, in order, about `bytes` in all.
fn sample<'a>(strings: &[&'a [u8]], bytes: usize, places: usize) -> Vec<&'a [u8]> {
    let total: usize = strings.iter().map(|string| string.len()).sum();
    if total <= bytes {
        return strings.to_vec();
    }
    let mut sample = Vec::new();
    let part = strings.len().div_ceil(places);
    for strings in strings.chunks(part) {
        let mut left = bytes / places;
        for string in strings {
            // Of a long string, its beginning.
            sample.push(&string[..string.len().min(left)]);
            left -= string.len().min(left);
            if left == 0 {
                break;
            }
        }
    }
    sample
}

fn learn(strings: &[&[u8]]) -> Coder {
    Coder::learn(&sample(strings, LEARN_BYTES, LEARN_PLACES))
}

/// Whether a packing to `packed` bytes is not worth it.
fn saves_little(packed: usize, plain: usize) -> bool {
    packed as f64 > plain as f64 * 0.9
}

/// The packing that suits a column, and the symbols if they were asked for.
fn choose(strings: &[&[u8]], coder: &mut Option<Coder>) -> Packing {
    let sample = sample(strings, SAMPLE_BYTES, SAMPLE_PLACES);
    let part: usize = sample.iter().map(|string| string.len()).sum();
    let total: usize = strings.iter().map(|string| string.len()).sum();
    if total == 0 {
        return Packing::Plain;
    }
    let whole = |packed: usize| (packed as f64 * total as f64 / part as f64) as usize;
    let learned = coder.insert(learn(strings));
    let (mut codes, mut lengths) = (Vec::new(), Vec::new());
    learned.encode(&sample, &mut codes, &mut lengths);
    let mut symbols = Vec::new();
    learned.write(&mut symbols);
    let by_fsst = whole(codes.len()) + symbols.len();
    let by_zstd = whole(Zstd::new().append(&sample.concat(), &mut Vec::new()));
    if saves_little(by_fsst.min(by_zstd), total) {
        return Packing::Plain;
    }
    // The lengths are of the column too, and those of codes take less.
    let plain = sample.iter().map(|string| string.len() as i64);
    let bits = |lengths: &mut dyn Iterator<Item = i64>| {
        width_of(lengths.max().unwrap_or(0) as u64) * strings.len() / 8
    };
    let by_fsst = by_fsst + bits(&mut lengths.iter().copied());
    let by_zstd = by_zstd + bits(&mut plain.into_iter());
    if (by_zstd as f64) < by_fsst as f64 * 0.8 { Packing::Zstd } else { Packing::Fsst }
}

#[cfg(test)]
pub(super) fn encode_with_symbols(strings: &[&[u8]], symbols: &[&[u8]]) -> Vec<u8> {
    let coder = Coder::of(symbols.iter().map(|symbol| symbol.to_vec()));
    assemble(&fsst(strings, &coder))
}
