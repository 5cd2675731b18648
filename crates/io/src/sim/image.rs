//! The content of a simulated disk: sparse 4 KiB blocks, copied on write.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::rng::Rng;

const BLOCK: u64 = 4096;
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// Numbered bytes; a block that was never written reads as zeros. Each block is a part of what was
/// written: what reads see and what is durable share it, and nothing is copied.
#[derive(Clone, Default)]
pub(super) struct Image {
    blocks: BTreeMap<u64, Bytes>,
}

/// The pieces of `offset..offset + length`, each inside one block: (block, first byte, bytes).
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let inside = at % BLOCK;
        let count = (BLOCK - inside).min(end - at);
        let piece = (at / BLOCK, inside as usize, count as usize);
        at += count;
        Some(piece)
    })
}

/// The blocks that `offset..offset + length` touches.
fn blocks_of(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / BLOCK..(offset + length).div_ceil(BLOCK)
}

impl Image {
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let end = offset + into.len() as u64;
        let place = |at: u64| (at - offset) as usize;
        // Most of a disk was never written: what is between two blocks is cleared in one go.
        let mut at = offset;
        for (block, bytes) in self.blocks.range(blocks_of(offset, into.len() as u64)) {
            let start = (block * BLOCK).max(offset);
            let stop = (block * BLOCK + BLOCK).min(end);
            into[place(at)..place(start)].fill(0);
            let inside = (start % BLOCK) as usize;
            let found = &bytes[inside..inside + (stop - start) as usize];
            into[place(start)..place(stop)].copy_from_slice(found);
            at = stop;
        }
        into[place(at)..].fill(0);
    }

    pub(super) fn write(&mut self, offset: u64, data: &Bytes) {
        let mut at = 0;
        for (block, from, count) in pieces(offset, data.len() as u64) {
            let piece = at..at + count;
            at += count;
            if count == BLOCK as usize {
                self.blocks.insert(block, data.slice(piece));
            } else {
                self.change(block, from, &data[piece]);
            }
        }
    }

    /// Changes a part of a block: its own copy of it.
    fn change(&mut self, block: u64, from: usize, data: &[u8]) {
        let bytes = self.blocks.entry(block).or_default();
        let old = std::mem::take(bytes);
        let mut own = match old.is_empty() {
            true => BytesMut::zeroed(BLOCK as usize),
            false => old.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..])),
        };
        own[from..from + data.len()].copy_from_slice(data);
        *bytes = own.freeze();
    }

    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        for block in self.present(offset, length) {
            let start = (block * BLOCK).max(offset);
            let end = ((block + 1) * BLOCK).min(offset + length);
            if end - start == BLOCK {
                self.blocks.remove(&block);
            } else {
                self.change(block, (start % BLOCK) as usize, &ZEROS[..(end - start) as usize]);
            }
        }
    }

    /// The blocks of a range that were ever written.
    pub(super) fn present(&self, offset: u64, length: u64) -> Vec<u64> {
        let range = blocks_of(offset, length);
        self.blocks.range(range).map(|(block, _)| *block).collect()
    }

    /// Makes every block that the range touches what it is in `other`.
    pub(super) fn revert(&mut self, other: &Image, offset: u64, length: u64) {
        for block in self.present(offset, length) {
            if !other.blocks.contains_key(&block) {
                self.blocks.remove(&block);
            }
        }
        for (block, bytes) in other.blocks.range(blocks_of(offset, length)) {
            self.blocks.insert(*block, bytes.clone());
        }
    }
}

/// What a write stores.
#[derive(Clone)]
pub(super) enum Payload {
    Data(Vec<Bytes>),
    Zeros(u64),
}

impl Payload {
    pub(super) fn one(data: Bytes) -> Payload {
        Payload::Data(vec![data])
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Payload::Data(slices) => slices.iter().map(|s| s.len() as u64).sum(),
            Payload::Zeros(length) => *length,
        }
    }

    /// Stores all of it.
    pub(super) fn apply(&self, image: &mut Image, offset: u64) {
        match self {
            Payload::Data(slices) => {
                let mut at = offset;
                for slice in slices {
                    image.write(at, slice);
                    at += slice.len() as u64;
                }
            }
            Payload::Zeros(length) => image.zero(offset, *length),
        }
    }

    /// Stores the sectors that `keep` says yes to; it is asked once a sector (for zeros: once a
    /// sector that holds something).
    pub(super) fn apply_some(
        &self,
        image: &mut Image,
        offset: u64,
        sector: u64,
        mut keep: impl FnMut() -> bool,
    ) {
        match self {
            Payload::Data(_) => self.for_each_sector(offset, sector, |at, bytes| {
                if keep() {
                    image.write(at, &bytes);
                }
            }),
            Payload::Zeros(length) => {
                for block in image.present(offset, *length) {
                    let mut at = (block * BLOCK).max(offset);
                    while at < ((block + 1) * BLOCK).min(offset + length) {
                        if keep() {
                            image.zero(at, sector);
                        }
                        at += sector;
                    }
                }
            }
        }
    }

    /// Calls `f` with the place and bytes of every sector of data; zeros have no sectors.
    pub(super) fn for_each_sector(&self, offset: u64, sector: u64, mut f: impl FnMut(u64, Bytes)) {
        let Payload::Data(slices) = self else { return };
        let mut at = offset;
        for slice in slices {
            for start in (0..slice.len()).step_by(sector as usize) {
                f(at, slice.slice(start..start + sector as usize));
                at += sector;
            }
        }
    }
}

/// A write that the device has and a power cut may take.
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) offset: u64,
    pub(super) payload: Payload,
    /// Survives a power cut; waits here only for its place in the order.
    pub(super) durable: bool,
}

/// How a power cut treats what was pending. One is drawn for each disk and cut, so that the
/// extremes come up as often as the mixtures.
pub(super) enum Fate {
    Nothing,
    Everything,
    /// Everything up to the n-th entry, nothing behind it: the orderly crash.
    Prefix(u64),
    /// Each write as a whole.
    Writes,
    /// Each sector alone, kept `n` times in 8.
    Sectors(u64),
}

impl Fate {
    pub(super) fn draw(rng: &mut Rng, entries: u64) -> Fate {
        match rng.below(6) {
            0 => Fate::Nothing,
            1 => Fate::Everything,
            2 => Fate::Prefix(rng.within(0..=entries)),
            3 => Fate::Writes,
            4 => Fate::Sectors(4),
            _ => Fate::Sectors([1, 7][rng.below(2) as usize]),
        }
    }

    /// Stores what survives of the `index`-th entry.
    pub(super) fn apply(
        &self,
        rng: &mut Rng,
        index: u64,
        image: &mut Image,
        entry: &Entry,
        sector: u64,
    ) {
        let all = entry.durable
            || match self {
                Fate::Nothing => false,
                Fate::Everything => true,
                Fate::Prefix(count) => index < *count,
                Fate::Writes => rng.coin(),
                Fate::Sectors(_) => false,
            };
        if all {
            entry.payload.apply(image, entry.offset);
        } else if let Fate::Sectors(eighths) = self {
            let keep = || rng.below(8) < *eighths;
            entry.payload.apply_some(image, entry.offset, sector, keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_reads_what_was_written_across_blocks() {
        let mut image = Image::default();
        let data: Vec<u8> = (0..9000u32).map(|i| i as u8 | 1).collect();
        image.write(512, &Bytes::copy_from_slice(&data[..8704]));
        image.zero(1024, 512);
        let mut seen = vec![9u8; 10_240];
        image.read(0, &mut seen);
        assert!(seen[..512].iter().all(|b| *b == 0));
        assert_eq!(seen[512..1024], data[..512]);
        assert!(seen[1024..1536].iter().all(|b| *b == 0));
        assert_eq!(seen[1536..9216], data[1024..8704]);
        assert!(seen[9216..].iter().all(|b| *b == 0));
        let mut other = image.clone();
        other.zero(0, 16_384);
        assert!(other.blocks.is_empty());
        other.revert(&image, 0, 16_384);
        other.read(512, &mut seen[..512]);
        assert_eq!(seen[..512], data[..512]);
    }
}
