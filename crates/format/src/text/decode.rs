//! Decoding blocks of a column of strings, all of their rows or some.

use zstd::bulk::Decompressor;

use super::symbols::{SLACK, SYMBOL_BYTES, Symbols};
use super::{Key, Numbers, Strings, Text, field};
use crate::bits::BLOCK;
use crate::ints::Damage;
use crate::kernel::Mask;

impl<'a> Text<'a> {
    /// Decodes one block after the other, or some of them: as [`Text::decode`] does, but what
    /// blocks have in common is unpacked once.
    pub fn reader(&self) -> Reader<'_, 'a> {
        Reader { text: self, zstd: None, held: None, plain: Vec::new() }
    }

    /// Appends the strings of the block `block`: 1,024, or fewer in the last one.
    ///
    /// # Errors
    /// The block is damaged; `out` is as it was.
    ///
    /// # Panics
    /// There is no such block.
    pub fn decode(&self, block: usize, out: &mut Strings) -> Result<(), Damage> {
        self.reader().decode(block, out)
    }

    /// Appends the strings of a block that `wanted` has; an empty one for each of the others.
    ///
    /// # Errors
    /// The block is damaged; `out` is as it was. Damage of strings that nobody wants may be
    /// overlooked.
    ///
    /// # Panics
    /// There is no such block.
    pub fn decode_some(
        &self,
        block: usize,
        wanted: &Mask,
        out: &mut Strings,
    ) -> Result<(), Damage> {
        self.reader().decode_some(block, wanted, out)
    }

    /// Where each string of a block ends in what is packed, counted from where the block begins;
    /// how many there are.
    fn ends(&self, block: usize, out: &mut [u32; BLOCK]) -> Result<usize, Damage> {
        let rows = (self.rows() - block * BLOCK).min(BLOCK);
        let all = self.starts.get(block + 1) - self.starts.get(block);
        let mut lengths = [0; BLOCK];
        self.lengths.decode(block, &mut lengths);
        let mut end = 0u64;
        for (out, length) in out.iter_mut().zip(&lengths[..rows]) {
            // A negative one is too large as well.
            let length = *length as u64;
            if length > all as u64 {
                return Err(Damage::Field { name: "length of a string", value: length });
            }
            end += length;
            *out = end as u32;
        }
        if end != all as u64 {
            return Err(Damage::Field { name: "lengths of a block", value: end });
        }
        Ok(rows)
    }
}

/// What decodes the blocks of a column, and remembers the frame it unpacked last.
pub struct Reader<'t, 'a> {
    text: &'t Text<'a>,
    zstd: Option<Decompressor<'static>>,
    /// The frame that is in `plain`.
    held: Option<usize>,
    plain: Vec<u8>,
}

impl Reader<'_, '_> {
    /// As [`Text::decode`].
    ///
    /// # Errors
    /// The block is damaged; `out` is as it was.
    ///
    /// # Panics
    /// There is no such block.
    pub fn decode(&mut self, block: usize, out: &mut Strings) -> Result<(), Damage> {
        self.append(block, None, out)
    }

    /// As [`Text::decode_some`].
    ///
    /// # Errors
    /// The block is damaged; `out` is as it was.
    ///
    /// # Panics
    /// There is no such block.
    pub fn decode_some(
        &mut self,
        block: usize,
        wanted: &Mask,
        out: &mut Strings,
    ) -> Result<(), Damage> {
        self.append(block, Some(wanted), out)
    }

    fn append(
        &mut self,
        block: usize,
        wanted: Option<&Mask>,
        out: &mut Strings,
    ) -> Result<(), Damage> {
        assert!(block < self.text.blocks(), "block {block} of {}", self.text.blocks());
        let (text, length, rows) = (self.text, out.bytes.len(), out.ends.len());
        if length + text.largest > u32::MAX as usize {
            return Err(field("bytes of decoded strings", length + text.largest));
        }
        let mut ends = [0; BLOCK];
        let count = text.ends(block, &mut ends)?;
        let ends = &ends[..count];
        let (from, to) = (text.starts.get(block), text.starts.get(block + 1));
        match &text.key {
            Key::Plain => copy(&text.packed[from..to], ends, wanted, out),
            Key::Fsst(symbols) => {
                let codes = &text.packed[from..to];
                let done = decode_codes(symbols, codes, ends, wanted, text.largest, out);
                if done.is_err() {
                    out.bytes.truncate(length);
                    out.ends.truncate(rows);
                }
                done?;
            }
            Key::Zstd(frames) => {
                let first = self.hold(*frames, block)?;
                let start = text.starts.get(first);
                copy(&self.plain[from - start..to - start], ends, wanted, out);
            }
        }
        Ok(())
    }

    /// Unpacks the frame that has a block; the first block of that frame.
    fn hold(&mut self, frames: Numbers<'_>, block: usize) -> Result<usize, Damage> {
        let count = frames.0.len() / 8 - 1;
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if frames.get(middle * 2) <= block { low = middle } else { high = middle }
        }
        let (first, next) = (frames.get(low * 2), frames.get(low * 2 + 2));
        if self.held == Some(low) {
            return Ok(first);
        }
        self.held = None;
        let damaged = || field("ZSTD frame", low);
        let packed = &self.text.packed[frames.get(low * 2 + 1)..frames.get(low * 2 + 3)];
        let plain = self.text.starts.get(next) - self.text.starts.get(first);
        // A frame says its length: what does not fit it is not worth the room.
        let said = zstd::zstd_safe::get_frame_content_size(packed);
        if !matches!(said, Ok(Some(said)) if said == plain as u64) {
            return Err(damaged());
        }
        self.plain.clear();
        self.plain.reserve(plain);
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new().map_err(|_| damaged())?),
        };
        let got = zstd.decompress_to_buffer(packed, &mut self.plain);
        if got.ok() != Some(plain) || self.plain.len() != plain {
            return Err(damaged());
        }
        self.held = Some(low);
        Ok(first)
    }
}

/// Appends plain strings of a block.
fn copy(plain: &[u8], ends: &[u32], wanted: Option<&Mask>, out: &mut Strings) {
    let base = out.bytes.len() as u32;
    let Some(wanted) = wanted else {
        out.bytes.extend_from_slice(plain);
        return out.ends.extend(ends.iter().map(|end| base + end));
    };
    let mut start = 0;
    for (end, wanted) in ends.iter().zip(wanted) {
        if *wanted != 0 {
            out.bytes.extend_from_slice(&plain[start as usize..*end as usize]);
        }
        out.ends.push(out.bytes.len() as u32);
        start = *end;
    }
}

/// Appends the strings of a block of codes, whose plain bytes are at most `largest`.
fn decode_codes(
    symbols: &Symbols,
    codes: &[u8],
    ends: &[u32],
    wanted: Option<&Mask>,
    largest: usize,
    out: &mut Strings,
) -> Result<(), Damage> {
    let is_wanted = |row: usize| wanted.is_none_or(|wanted| wanted[row] != 0);
    let starts = || std::iter::once(&0).chain(ends);
    let rows = || starts().zip(ends).enumerate().filter(|(row, _)| is_wanted(*row));
    let count: usize = rows().map(|(_, (start, end))| (end - start) as usize).sum();
    let base = out.bytes.len();
    let most = largest.min(count * SYMBOL_BYTES);
    out.bytes.resize(base + most + SLACK, 0);
    let mut at = base;
    for (row, (start, end)) in starts().zip(ends).enumerate() {
        if is_wanted(row) {
            at = symbols.decode(&codes[*start as usize..*end as usize], &mut out.bytes, at)?;
        }
        out.ends.push(at as u32);
    }
    if at > base + most {
        return Err(field("plain bytes of a block", at - base));
    }
    out.bytes.truncate(at);
    Ok(())
}
