//! Sorting of entries in bounded memory, with free extents of the store for what does not fit.

use std::sync::Arc;

use cellar_io::{Buffer, Io};
use cellar_page::PAGE_BYTES;
use cellar_wait::{Event, Session};

use super::Inner;
use super::direct::TakenExtents;
use crate::error::Error;
use crate::sorter::{Merge, Sorter};

/// Bytes of a run that are written or read at once: a CRC of what follows, its length, the entries, zeros.
const BLOCK_BYTES: usize = 256 << 10;
const HEAD_BYTES: usize = 8;
const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEAD_BYTES;

/// The least memory for sorting, in bytes.
const MEMORY_LEAST: usize = 4 << 10;

/// The entries of a block as it was read, if it is what was written.
fn checked(block: &[u8]) -> Option<&[u8]> {
    let (crc, rest) = block.split_first_chunk::<4>()?;
    let (length, entries) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let found = crc32c::crc32c(rest.get(..4 + length)?);
    entries.get(..length).filter(|_| found == u32::from_le_bytes(*crc))
}

/// Entries to be sorted.
pub(super) struct Sorted {
    inner: Arc<Inner>,
    object: u32,
    sorter: Sorter,
    space: TakenExtents,
    /// Bytes of the extents that are written.
    used: u64,
    runs: Vec<Run>,
}

/// Sorted entries, each behind its length, in 2 bytes.
struct Run {
    /// Where it begins, and how many bytes it has.
    from: u64,
    bytes: u64,
    at: u64,
    /// What was read and not yet taken.
    block: Vec<u8>,
    taken: usize,
}

impl Sorted {
    /// An empty one that takes about so much memory; `object` is what it is for.
    pub fn new(inner: &Arc<Inner>, object: u32, memory: usize) -> Sorted {
        let (sorter, space) = (Sorter::new(memory.max(MEMORY_LEAST)), TakenExtents::new(inner));
        Sorted { inner: Arc::clone(inner), object, sorter, space, used: 0, runs: Vec::new() }
    }

    /// Adds an entry, given in parts.
    pub async fn add(&mut self, session: &Session, parts: &[&[u8]]) -> Result<(), Error> {
        self.sorter.add(parts);
        match self.sorter.is_full() {
            true => self.put_aside(session).await,
            false => Ok(()),
        }
    }

    /// Sorts what is in memory and writes it as a run.
    async fn put_aside(&mut self, session: &Session) -> Result<(), Error> {
        self.inner.check_running()?;
        let mut sorter = std::mem::replace(&mut self.sorter, Sorter::new(0));
        sorter.sort();
        let from = self.used;
        let (mut block, mut bytes) = (Vec::with_capacity(BLOCK_BYTES), 0);
        for entry in sorter.entries() {
            for part in [&(entry.len() as u16).to_le_bytes()[..], entry] {
                block.extend_from_slice(part);
                bytes += part.len() as u64;
            }
            while block.len() >= PAYLOAD_BYTES {
                let rest = block.split_off(PAYLOAD_BYTES);
                self.write(session, &block).await?;
                block = rest;
            }
        }
        if !block.is_empty() {
            self.write(session, &block).await?;
        }
        self.runs.push(Run { from, bytes, at: 0, block: Vec::new(), taken: 0 });
        sorter.clear();
        self.sorter = sorter;
        Ok(())
    }

    /// Writes a block behind all others.
    async fn write(&mut self, session: &Session, block: &[u8]) -> Result<(), Error> {
        while self.room() < self.used + BLOCK_BYTES as u64 {
            self.space.take(session, self.object).await?;
        }
        let mut whole = vec![0; HEAD_BYTES];
        whole[4..].copy_from_slice(&(block.len() as u32).to_le_bytes());
        whole.extend_from_slice(block);
        let crc = crc32c::crc32c(&whole[4..]);
        whole[..4].copy_from_slice(&crc.to_le_bytes());
        let block = whole;
        let runs = self.pieces(self.used, BLOCK_BYTES).into_iter().map(|(offset, piece)| {
            let start = piece.start.min(block.len());
            let bytes = Buffer::copy_of(&block[start..piece.end.min(block.len())], piece.len());
            (offset, vec![bytes.freeze()])
        });
        self.space.write(session, Event::DIRECT_PATH_WRITE_TEMP, runs.collect()).await?;
        self.used += BLOCK_BYTES as u64;
        Ok(())
    }

    fn extent_bytes(&self) -> u64 {
        u64::from(self.inner.pages.geometry.extent_pages) * PAGE_BYTES as u64
    }

    fn room(&self) -> u64 {
        self.space.count() as u64 * self.extent_bytes()
    }

    /// Where in the file so many bytes are, a piece for each extent.
    fn pieces(&self, from: u64, bytes: usize) -> Vec<(u64, std::ops::Range<usize>)> {
        let (extent_bytes, mut at, mut pieces) = (self.extent_bytes(), 0, Vec::new());
        while at < bytes {
            let place = from + at as u64;
            let (extent, inside) = ((place / extent_bytes) as usize, place % extent_bytes);
            let length = ((extent_bytes - inside) as usize).min(bytes - at);
            let extent = self.space.get(extent).expect("room was taken");
            let first = self.inner.pages.geometry.first_page(extent);
            pieces.push((u64::from(first) * PAGE_BYTES as u64 + inside, at..at + length));
            at += length;
        }
        pieces
    }

    /// Ends the input.
    pub async fn read(mut self, session: &Session) -> Result<SortedEntries, Error> {
        let mut merge = Merge::default();
        if self.runs.is_empty() {
            self.sorter.sort();
            return Ok(SortedEntries { sorted: self, merge, next: 0 });
        }
        if !self.sorter.is_empty() {
            self.put_aside(session).await?;
        }
        for run in 0..self.runs.len() {
            if let Some(entry) = self.next_of(run, session).await? {
                merge.add(run, entry);
            }
        }
        Ok(SortedEntries { sorted: self, merge, next: 0 })
    }

    /// The next entry of a run.
    async fn next_of(&mut self, run: usize, session: &Session) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let at = &mut self.runs[run];
            let left = &at.block[at.taken..];
            if let Some((length, rest)) = left.split_first_chunk::<2>()
                && let Some(entry) = rest.get(..usize::from(u16::from_le_bytes(*length)))
            {
                at.taken += 2 + entry.len();
                return Ok(Some(entry.to_vec()));
            }
            if at.at >= at.bytes {
                return Ok(None);
            }
            self.read_block(run, session).await?;
        }
    }

    /// Reads the next block of a run.
    async fn read_block(&mut self, run: usize, session: &Session) -> Result<(), Error> {
        let (from, at) = (self.runs[run].from, self.runs[run].at);
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let wait = session.begin(Event::DIRECT_PATH_READ_TEMP, [0; 3], self.inner.env.now().0);
        let place = from + at / PAYLOAD_BYTES as u64 * BLOCK_BYTES as u64;
        for (offset, piece) in self.pieces(place, BLOCK_BYTES) {
            let buffers = vec![Buffer::new(piece.len())];
            let read =
                self.inner.pages.frames.device().read(Io::FOREGROUND, offset, buffers).await?;
            read.iter().for_each(|buffer| block.extend_from_slice(buffer));
        }
        wait.end(self.inner.env.now().0);
        let block = checked(&block).ok_or(Error::SortDamaged { object: self.object })?;
        let run = &mut self.runs[run];
        run.block.drain(..run.taken);
        run.taken = 0;
        run.at += block.len() as u64;
        run.block.extend_from_slice(block);
        match block.is_empty() || run.at > run.bytes {
            true => Err(Error::SortDamaged { object: self.object }),
            false => Ok(()),
        }
    }
}

/// Sorted entries that are read.
pub(super) struct SortedEntries {
    sorted: Sorted,
    merge: Merge,
    /// The next one, where all are in memory.
    next: usize,
}

impl SortedEntries {
    /// The next entry.
    pub async fn next(&mut self, session: &Session) -> Result<Option<Vec<u8>>, Error> {
        if self.sorted.runs.is_empty() {
            self.next += 1;
            return Ok(self.sorted.sorter.get(self.next - 1).map(<[u8]>::to_vec));
        }
        let Some((entry, run)) = self.merge.take() else { return Ok(None) };
        if let Some(next) = self.sorted.next_of(run, session).await? {
            self.merge.add(run, next);
        }
        Ok(Some(entry))
    }
}
