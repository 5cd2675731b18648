//! The content of one file: durable in a backing file, volatile in a write cache that a power cut discards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::chance::Chance;
use crate::cut::{Cut, Lost};

/// The unit that is kept or lost.
pub(crate) const SECTOR: u64 = 512;
/// A block that a modern drive writes as one.
const BLOCK_SECTORS: u64 = 8;
/// Unflushed versions of one sector that are remembered; no drive keeps all of them forever.
const VERSIONS_MAX: usize = 8;

type Sector = [u8; SECTOR as usize];

/// One file.
pub(crate) struct Content {
    backing: File,
    size: u64,
    /// Every version since the last flush, oldest first: a cut may leave any of them.
    cache: BTreeMap<u64, Vec<Sector>>,
}

/// Whether a write bypasses the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Cached,
    Durable,
}

impl Content {
    pub(crate) fn new(backing: File) -> io::Result<Content> {
        let size = backing.metadata()?.len();
        Ok(Content { backing, size, cache: BTreeMap::new() })
    }

    pub(crate) fn backing(&self) -> &File {
        &self.backing
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Sectors that a cut can lose.
    pub(crate) fn unflushed(&self) -> u64 {
        self.cache.len() as u64
    }

    /// The bytes at `offset`, the cache over the durable state; short at the end of the file.
    pub(crate) fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let end = offset.saturating_add(length).min(self.size);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).unwrap_or(0)];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        self.backing.read_exact_at(&mut bytes, offset)?;
        for (number, versions) in self.cache.range(offset / SECTOR..end.div_ceil(SECTOR)) {
            let Some(newest) = versions.last() else { continue };
            let start = number * SECTOR;
            let from = start.max(offset);
            let to = (start + SECTOR).min(end);
            let target = (from - offset) as usize..(to - offset) as usize;
            bytes[target].copy_from_slice(&newest[(from - start) as usize..(to - start) as usize]);
        }
        Ok(bytes)
    }

    /// Stores the sectors of `data` that `wanted` selects; returns their number. The file grows at once.
    pub(crate) fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        durability: Durability,
        mut wanted: impl FnMut() -> bool,
    ) -> io::Result<u64> {
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if end > self.size {
            self.backing.set_len(end)?;
            self.size = end;
        }
        let mut stored = 0;
        let mut at = offset;
        while at < end {
            let number = at / SECTOR;
            let to = ((number + 1) * SECTOR).min(end);
            if wanted() {
                let part = &data[(at - offset) as usize..(to - offset) as usize];
                self.store(number, (at % SECTOR) as usize, part, durability)?;
                stored += 1;
            }
            at = to;
        }
        Ok(stored)
    }

    fn store(
        &mut self,
        number: u64,
        from: usize,
        part: &[u8],
        durability: Durability,
    ) -> io::Result<()> {
        let mut sector = [0; SECTOR as usize];
        if part.len() < sector.len() {
            let old = self.read(number * SECTOR, SECTOR)?;
            sector[..old.len()].copy_from_slice(&old);
        }
        sector[from..from + part.len()].copy_from_slice(part);
        if durability == Durability::Durable {
            // It overrides what was written to the sector before.
            self.cache.remove(&number);
            return self.keep(number, &sector);
        }
        let versions = self.cache.entry(number).or_default();
        if versions.len() == VERSIONS_MAX {
            versions.remove(0);
        }
        versions.push(sector);
        Ok(())
    }

    /// Makes a sector durable, as far as it is within the file.
    fn keep(&self, number: u64, sector: &Sector) -> io::Result<()> {
        let start = number * SECTOR;
        let length = self.size.saturating_sub(start).min(SECTOR) as usize;
        self.backing.write_all_at(&sector[..length], start)
    }

    /// Makes everything durable; returns the number of sectors.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        let flushed = self.unflushed();
        // Neighbours in one write: a flush of a new file is 200,000 sectors.
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (number, versions) in std::mem::take(&mut self.cache) {
            let Some(newest) = versions.last() else { continue };
            let at = number * SECTOR;
            if !run.is_empty() && (start + run.len() as u64 != at || run.len() >= 1 << 20) {
                self.keep_run(start, &run)?;
                run.clear();
            }
            if run.is_empty() {
                start = at;
            }
            run.extend_from_slice(&newest[..]);
        }
        self.keep_run(start, &run)?;
        Ok(flushed)
    }

    fn keep_run(&self, start: u64, run: &[u8]) -> io::Result<()> {
        let length = self.size.saturating_sub(start).min(run.len() as u64) as usize;
        self.backing.write_all_at(&run[..length], start)
    }

    /// The power goes: of each sector any unflushed version survives, or none.
    pub(crate) fn lose(&mut self, cut: &Cut, chance: &mut Chance) -> io::Result<Lost> {
        let mut lost = Lost::default();
        let cache = std::mem::take(&mut self.cache);
        let mut block: Option<(u64, Choice)> = None;
        for (number, versions) in cache {
            let this = number / BLOCK_SECTORS;
            let choice = match block {
                Some((known, choice)) if known == this && !cut.torn => choice,
                _ => Choice::of(cut, chance),
            };
            block = Some((this, choice));
            match choice.version(&versions) {
                Some(sector) => {
                    self.keep(number, sector)?;
                    lost.kept += 1;
                }
                None => lost.dropped += 1,
            }
        }
        Ok(lost)
    }

    /// Changes the length, at once and durably.
    pub(crate) fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.backing.set_len(size)?;
        self.size = size;
        self.cache.split_off(&size.div_ceil(SECTOR));
        let rest = (size % SECTOR) as usize;
        if rest > 0
            && let Some(versions) = self.cache.get_mut(&(size / SECTOR))
        {
            for sector in versions {
                sector[rest..].fill(0);
            }
        }
        Ok(())
    }

    /// Allocates a range, durably; the file grows if requested.
    pub(crate) fn allocate(&mut self, offset: u64, length: u64, grow: bool) -> io::Result<()> {
        let flags = match grow {
            true => rustix::fs::FallocateFlags::empty(),
            false => rustix::fs::FallocateFlags::KEEP_SIZE,
        };
        rustix::fs::fallocate(&self.backing, flags, offset, length)?;
        self.size = self.backing.metadata()?.len();
        Ok(())
    }
}

/// The fate of the sectors of one block.
#[derive(Clone, Copy)]
struct Choice {
    kept: bool,
    /// Which of the versions: 0 to 65535 stands for oldest to newest.
    age: u64,
}

impl Choice {
    fn of(cut: &Cut, chance: &mut Chance) -> Choice {
        let kept = chance.below(100) < u64::from(cut.keep_percent);
        // Mostly the newest: older ones only if the drive wrote some of them back in between.
        let age = if chance.below(4) == 0 { chance.below(1 << 16) } else { (1 << 16) - 1 };
        Choice { kept, age }
    }

    fn version<'a>(&self, versions: &'a [Sector]) -> Option<&'a Sector> {
        let index = (self.age * versions.len() as u64) >> 16;
        versions.get(index as usize).filter(|_| self.kept)
    }
}
