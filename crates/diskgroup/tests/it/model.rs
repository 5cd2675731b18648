//! What a file of a group may hold, sector by sector: the model that simulated runs are held
//! against.
//!
//! Every sector written carries a stamp of file, sector and write, so that what is read tells
//! which write it came from. A write is *solid* when nothing may take it back: when it completed
//! (while nothing crashed), or when it was durable before the crash. A sector may hold any write
//! that no later solid write replaced, or what it held before if there is no solid write at all.

/// The value of a sector that reads as zeros.
pub const ZERO: u32 = 0;
const UNDONE: u32 = u32::MAX;
const MAGIC: u64 = 0x5354_414d << 32;

/// One write to a file.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// When it was issued; its name.
    id: u32,
    /// Sectors, half open.
    first: u32,
    end: u32,
    /// What it stores: its id, or [`ZERO`].
    value: u32,
    /// When it completed, or when the machine crashed under it.
    done: u32,
    durable: bool,
}

impl Write {
    fn covers(&self, sector: u32) -> bool {
        self.first <= sector && sector < self.end
    }
}

/// A file as the model knows it.
#[derive(Clone, Debug)]
pub struct FileModel {
    /// The model's own name for it: stamped into each sector.
    pub id: u32,
    /// The group's number for it.
    pub number: u32,
    pub copies: u8,
    pub checksums: bool,
    pub sector: u32,
    /// Size as its owner set it.
    pub size: u64,
    /// A change of size under way: size and sectors afterwards.
    pub pending: Option<(u64, u32)>,
    base: Vec<u32>,
    /// Writes up to this one no longer matter for the sector.
    floor: Vec<u32>,
    writes: Vec<Write>,
    /// Reads under way, by when they were issued.
    reads: Vec<u32>,
    crashed: u32,
}

/// Fills a sector with its stamp.
pub fn stamp(out: &mut [u8], file: u32, sector: u32, value: u32) {
    if value == ZERO {
        out.fill(0);
        return;
    }
    let seed = (u64::from(file) << 32 | u64::from(value)) ^ u64::from(sector) << 17;
    for (i, word) in (0u64..).zip(out.chunks_exact_mut(8)) {
        let bits = match i {
            0 => MAGIC | u64::from(file),
            1 => u64::from(sector) << 32 | u64::from(value),
            _ => seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(i),
        };
        word.copy_from_slice(&bits.to_le_bytes());
    }
}

/// Which write a sector came from; an error in words if it is nobody's or another's.
pub fn value_of(bytes: &[u8], file: u32, sector: u32) -> Result<u32, String> {
    let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
    if word(0) == 0 {
        return match bytes.iter().all(|b| *b == 0) {
            true => Ok(ZERO),
            false => Err("neither zeros nor a stamp".into()),
        };
    }
    let (owner, at, value) = (word(0) as u32, (word(1) >> 32) as u32, word(1) as u32);
    let mut whole = vec![0; bytes.len()];
    stamp(&mut whole, owner, at, value);
    if whole != bytes {
        return Err(format!("a torn stamp of file {owner}, sector {at}, write {value}"));
    }
    if (owner, at) != (file, sector) {
        return Err(format!("the stamp of file {owner}, sector {at}, write {value}"));
    }
    Ok(value)
}

impl FileModel {
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
        }
    }

    /// Sectors that it has room for.
    pub fn sectors(&self) -> u32 {
        self.base.len() as u32
    }

    /// It has so many sectors from `now` on; new ones are zeros.
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

    /// A read ended, or is not waited for any more.
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

    /// Folds durable writes that nothing competes with into the base.
    fn compact(&mut self) {
        while let Some(w) = self.writes.first().copied() {
            let rival =
                |o: &Write| o.id != w.id && o.first < w.end && w.first < o.end && o.id < w.done;
            // A read under way may find what was there before.
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

    /// Checks what a read issued at `issued` found from sector `first` on. With `pin` (nothing is
    /// being written) what was found after a crash must be found from here on.
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
            let found = value_of(sector, self.id, s)
                .map_err(|what| format!("file {} sector {s} holds {what}", self.id))?;
            let at = s as usize;
            let floor = self.floor[at];
            let here = || near.iter().filter(move |w| w.covers(s) && w.id > floor);
            // One that completed while the read was under way may have come after it.
            let solid = |w: &&Write| w.done < issued && (w.durable || w.id > self.crashed);
            let newest_solid = here().filter(solid).map(|w| w.id).max();
            let may = here().any(|w| w.value == found && newest_solid.is_none_or(|n| w.done > n))
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
            }
        }
        Ok(())
    }

    /// Everything before the last crash has been looked at and is settled.
    pub fn settled(&mut self) {
        let crashed = self.crashed;
        self.writes.retain(|w| w.id > crashed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectors(file: u32, values: &[u32]) -> Vec<u8> {
        let mut out = vec![0; values.len() * 512];
        for (s, (chunk, value)) in (0u32..).zip(out.chunks_mut(512).zip(values)) {
            stamp(chunk, file, s, *value);
        }
        out
    }

    fn file() -> FileModel {
        let mut f = FileModel::new(7, 256, 2, true, 512);
        f.resize(4, 0);
        f
    }

    #[test]
    fn a_completed_write_is_there_until_a_crash_takes_it() {
        let mut f = file();
        f.begin(1, 0, 2, false);
        assert!(f.check(&sectors(7, &[1, 0, 0, 0]), 0, 2, None).is_ok(), "in flight, any part");
        f.end(1, 3, false);
        assert!(f.check(&sectors(7, &[1, 0, 0, 0]), 0, 4, None).is_err(), "complete, all of it");
        assert!(f.check(&sectors(7, &[1, 1, 0, 0]), 0, 4, None).is_ok());
        f.crash(5);
        assert!(f.check(&sectors(7, &[0, 1, 0, 0]), 0, 6, Some(6)).is_ok(), "not flushed");
        assert!(f.check(&sectors(7, &[1, 1, 0, 0]), 0, 7, None).is_err(), "once read, it stays");
    }

    #[test]
    fn a_flushed_write_is_there_after_a_crash_and_so_is_what_came_later_or_not() {
        let mut f = file();
        f.begin(1, 0, 4, false);
        f.end(1, 2, false);
        f.flushed(3);
        f.begin(4, 1, 1, false);
        f.end(4, 5, false);
        f.crash(6);
        assert!(f.clone().check(&sectors(7, &[1, 1, 1, 1]), 0, 7, None).is_ok());
        assert!(f.clone().check(&sectors(7, &[1, 4, 1, 1]), 0, 7, None).is_ok());
        assert!(f.clone().check(&sectors(7, &[1, 0, 1, 1]), 0, 7, None).is_err());
        assert!(f.check(&sectors(8, &[1, 1, 1, 1]), 0, 7, None).is_err(), "another file's data");
    }
}
