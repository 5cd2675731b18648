//! The model of a file of a group: the contents that each sector may have. Simulated runs are checked against it.
//!
//! Every sector written carries a stamp of file, sector and write, so that a sector that is read shows
//! which write it came from. A write is *solid* when nothing may undo it: when it completed
//! (while nothing crashed), or when it was durable before the crash. A sector may hold any write
//! not replaced by a later solid write, or its previous content if there is no solid write at all.
//!
//! Where power cuts tear sectors, a sector may hold anything after a cut if a write to it was in flight
//! or in a cache; whatever is found there first must be found from then on.

use std::collections::BTreeMap;

/// The value of a sector that reads as zeros.
pub const ZERO: u32 = 0;
const UNDONE: u32 = u32::MAX;
/// The value of a sector that a power cut tore.
const TORN: u32 = u32::MAX - 1;
const MAGIC: u64 = 0x5354_414d << 32;

/// One write to a file.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// The time of its issue, which is also its id.
    id: u32,
    /// Sectors, half open.
    first: u32,
    end: u32,
    /// The stamp that it stores: its id, or [`ZERO`].
    value: u32,
    /// When it completed, or when a crash interrupted it.
    done: u32,
    durable: bool,
}

impl Write {
    fn covers(&self, sector: u32) -> bool {
        self.first <= sector && sector < self.end
    }
}

/// A file in the model.
#[derive(Clone, Debug)]
pub struct FileModel {
    /// The model's id for it: stamped into each sector.
    pub id: u32,
    /// The group's number for it.
    pub number: u32,
    /// How many copies it has.
    pub copies: u8,
    /// Whether it has checksums.
    pub checksums: bool,
    /// Bytes of a sector.
    pub sector: u32,
    /// Size set by its owner.
    pub size: u64,
    /// A change of size in progress: size and sectors afterwards.
    pub pending: Option<(u64, u32)>,
    base: Vec<u32>,
    /// Writes up to this one no longer matter for the sector.
    floor: Vec<u32>,
    writes: Vec<Write>,
    /// Reads in progress, by the time of their issue.
    reads: Vec<u32>,
    crashed: u32,
    /// Whether power cuts tear sectors.
    pub tears: bool,
    /// The contents of torn sectors.
    torn: BTreeMap<u32, Vec<u8>>,
}

/// Fills a sector with its stamp.
pub fn stamp(out: &mut [u8], file: u32, sector: u32, value: u32) {
    if value == ZERO {
        out.fill(0);
        return;
    }
    let seed = stamp_seed(file, sector, value);
    for (i, word) in (0u64..).zip(out.chunks_exact_mut(8)) {
        let bits = match i {
            0 => MAGIC | u64::from(file),
            1 => u64::from(sector) << 32 | u64::from(value),
            _ => seed.wrapping_add(i),
        };
        word.copy_from_slice(&bits.to_le_bytes());
    }
}

/// The write that a sector came from; an error text if it has no stamp or another place's.
///
/// # Errors
/// It is not whole, or has the stamp of another place.
pub fn value_of(bytes: &[u8], file: u32, sector: u32) -> Result<u32, String> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let (words, _) = bytes.as_chunks::<8>();
    let word = |i: usize| u64::from_le_bytes(words[i]);
    if word(0) == 0 {
        return match bytes == &ZEROS[..bytes.len()] {
            true => Ok(ZERO),
            false => Err("neither zeros nor a stamp".into()),
        };
    }
    let (owner, at, value) = (word(0) as u32, (word(1) >> 32) as u32, word(1) as u32);
    let first = stamp_seed(owner, at, value);
    // Folded without an early exit: that compares several words at once.
    let rest = (2u64..).zip(&words[2..]);
    let wrong =
        rest.fold(0, |wrong, (i, w)| wrong | (u64::from_le_bytes(*w) ^ (first.wrapping_add(i))));
    if wrong != 0 || word(0) != MAGIC | u64::from(owner) || value == ZERO {
        return Err(format!("a torn stamp of file {owner}, sector {at}, write {value}"));
    }
    if (owner, at) != (file, sector) {
        return Err(format!("the stamp of file {owner}, sector {at}, write {value}"));
    }
    Ok(value)
}

fn stamp_seed(file: u32, sector: u32, value: u32) -> u64 {
    let seed = (u64::from(file) << 32 | u64::from(value)) ^ u64::from(sector) << 17;
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl FileModel {
    /// An empty file.
    pub fn new(id: u32, number: u32, copies: u8, checksums: bool, sector: u32) -> FileModel {
        FileModel {
            id,
            number,
            copies,
            checksums,
            sector,
            size: 0,
            pending: None,
            base: Vec::new(),
            floor: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            crashed: 0,
            tears: false,
            torn: BTreeMap::new(),
        }
    }

    /// Sectors allocated to it.
    pub fn sectors(&self) -> u32 {
        self.base.len() as u32
    }

    /// Sets the number of sectors from `now` on; new ones are zeros.
    pub fn resize(&mut self, sectors: u32, now: u32) {
        self.base.resize(sectors as usize, ZERO);
        self.floor.resize(sectors as usize, now);
    }

    /// A write is issued.
    pub fn begin(&mut self, now: u32, first: u32, count: u32, zero: bool) {
        let write = Write {
            id: now,
            first,
            end: first + count,
            value: if zero { ZERO } else { now },
            done: UNDONE,
            durable: false,
        };
        self.writes.push(write);
    }

    /// Write `id` completed.
    ///
    /// # Panics
    /// If it was never begun.
    pub fn end(&mut self, id: u32, now: u32, durable: bool) {
        let write = self.writes.iter_mut().find(|w| w.id == id).expect("it was begun");
        write.done = now;
        write.durable = durable;
    }

    /// A flush that was issued at `issued` completed.
    pub fn flushed(&mut self, issued: u32) {
        let crashed = self.crashed;
        for w in self.writes.iter_mut().filter(|w| w.done < issued && w.id > crashed) {
            w.durable = true;
        }
        self.compact();
    }

    /// A read is issued.
    pub fn begin_read(&mut self, issued: u32) {
        self.reads.push(issued);
    }

    /// A read ended, or its caller went away.
    pub fn end_read(&mut self, issued: u32) {
        self.reads.retain(|r| *r != issued);
    }

    /// The machine crashed.
    pub fn crash(&mut self, now: u32) {
        self.crashed = now;
        for w in self.writes.iter_mut().filter(|w| w.done == UNDONE) {
            w.done = now;
        }
    }

    /// Folds durable writes without rivals into the base.
    fn compact(&mut self) {
        while let Some(w) = self.writes.first().copied() {
            let rival =
                |o: &Write| o.id != w.id && o.first < w.end && w.first < o.end && o.id < w.done;
            // A read in progress may still find the earlier content.
            let read = self.reads.iter().any(|issued| *issued < w.done);
            if !w.durable || read || self.writes.iter().any(rival) {
                return;
            }
            for s in w.first..w.end.min(self.sectors()) {
                if self.floor[s as usize] < w.id {
                    self.base[s as usize] = w.value;
                }
            }
            self.writes.remove(0);
        }
    }

    /// Checks the result of a read issued at `issued` from sector `first` on. With `pin` (no writes
    /// in progress) what was found after a crash must be found from here on.
    ///
    /// # Errors
    /// A sector has a content that it may not have; the text says which.
    pub fn check(
        &mut self,
        bytes: &[u8],
        first: u32,
        issued: u32,
        pin: Option<u32>,
    ) -> Result<(), String> {
        let size = self.sector as usize;
        let end = first + (bytes.len() / size) as u32;
        let near: Vec<Write> =
            self.writes.iter().filter(|w| w.first < end && first < w.end).copied().collect();
        for (s, sector) in (first..).zip(bytes.chunks_exact(size)) {
            let at = s as usize;
            let found = match value_of(sector, self.id, s) {
                Ok(found) => found,
                Err(_) if self.tears && self.torn.get(&s).is_none_or(|t| t == sector) => TORN,
                Err(what) => return Err(format!("file {} sector {s} holds {what}", self.id)),
            };
            let floor = self.floor[at];
            let here = || near.iter().filter(move |w| w.covers(s) && w.id > floor);
            // A write that completed during the read may have come after it.
            let solid = |w: &&Write| w.done < issued && (w.durable || w.id > self.crashed);
            let newest_solid = here().filter(solid).map(|w| w.id).max();
            // It was in flight, or unflushed, when the power failed.
            let tearable = |w: &&Write| w.id < self.crashed && !w.durable;
            let newer = |w: &&Write| newest_solid.is_none_or(|n| w.done > n);
            let torn = found == TORN && here().filter(tearable).any(|w| newer(&w));
            let may = torn
                || here().any(|w| w.value == found && newest_solid.is_none_or(|n| w.done > n))
                || (newest_solid.is_none() && found == self.base[at]);
            if !may {
                let writes: Vec<&Write> = here().collect();
                return Err(format!(
                    "file {} ({} copies, checksums {}, number {}) sector {s} holds write {found}, \
                     but its base is {} and its writes are {writes:?} (crashed at {})",
                    self.id, self.copies, self.checksums, self.number, self.base[at], self.crashed
                ));
            }
            let old_only = here().all(|w| w.id < self.crashed);
            if let Some(now) = pin.filter(|_| old_only) {
                self.base[at] = found;
                self.floor[at] = now;
                match found {
                    TORN => drop(self.torn.insert(s, sector.to_vec())),
                    _ => drop(self.torn.remove(&s)),
                }
            }
        }
        Ok(())
    }

    /// Everything before the last crash has been checked and is settled.
    pub fn settled(&mut self) {
        let crashed = self.crashed;
        self.writes.retain(|w| w.id > crashed);
    }
}
