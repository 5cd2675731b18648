//! State of one chaos disk: its files, their power and their faults, and the effect of requests on them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::chance::Chance;
use crate::content::{Content, Durability};
use crate::counters::Counters;
use crate::cut::{Cut, Lost, When};
use crate::fault::{Faults, Op};

/// A file.
pub(crate) struct Node {
    /// None once unlinked.
    pub(crate) name: Option<OsString>,
    pub(crate) content: Content,
    pub(crate) faults: Faults,
    /// The kernel's lookups of it that it has not yet forgotten.
    pub(crate) lookups: u64,
    on: bool,
    /// Power cuts so far. A handle opened before the last one is invalid.
    cuts: u64,
}

/// Checks and faults to apply before a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    None,
    For(Duration),
    UntilReleased,
}

/// An armed cut, of everything or of one file.
struct Armed {
    file: Option<u64>,
    when: When,
    cut: Cut,
}

/// All files of a chaos disk, with power and faults.
pub(crate) struct State {
    dir: PathBuf,
    pub(crate) nodes: BTreeMap<u64, Node>,
    names: BTreeMap<OsString, u64>,
    on: bool,
    armed: Option<Armed>,
    /// The result of the last cut of everything.
    pub(crate) last_cut: Option<Lost>,
    chance: Chance,
    pub(crate) counters: Counters,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl State {
    /// The regular files of `dir`.
    pub(crate) fn open(dir: &Path) -> io::Result<State> {
        let mut state = State {
            dir: dir.to_owned(),
            nodes: BTreeMap::new(),
            names: BTreeMap::new(),
            on: true,
            armed: None,
            last_cut: None,
            chance: Chance::new(1),
            counters: Counters::default(),
        };
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let file = OpenOptions::new().read(true).write(true).open(entry.path())?;
                state.add(entry.file_name(), file)?;
            }
        }
        Ok(state)
    }

    fn add(&mut self, name: OsString, backing: File) -> io::Result<u64> {
        let number = backing.metadata()?.ino();
        let node = Node {
            name: Some(name.clone()),
            content: Content::new(backing)?,
            faults: Faults::default(),
            lookups: 0,
            on: true,
            cuts: 0,
        };
        self.nodes.insert(number, node);
        self.names.insert(name, number);
        Ok(number)
    }

    /// Fails while the power is off.
    pub(crate) fn powered(&self) -> io::Result<()> {
        if self.on { Ok(()) } else { Err(error(libc::EIO)) }
    }

    pub(crate) fn find(&self, name: &OsStr) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| error(libc::ENOENT))
    }

    pub(crate) fn node(&mut self, number: u64) -> io::Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or_else(|| error(libc::ESTALE))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&OsString, u64)> {
        self.names.iter().map(|(name, number)| (name, *number))
    }

    /// The token that a handle presents with each request.
    pub(crate) fn handle(&mut self, number: u64) -> io::Result<u64> {
        let node = self.node(number)?;
        if node.on { Ok(node.cuts) } else { Err(error(libc::EIO)) }
    }

    pub(crate) fn create(&mut self, name: &OsStr, mode: u32) -> io::Result<u64> {
        use std::os::unix::fs::OpenOptionsExt;
        if let Ok(number) = self.find(name) {
            return Ok(number);
        }
        let path = self.dir.join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(mode).open(path)?;
        self.add(name.to_owned(), file)
    }

    pub(crate) fn unlink(&mut self, name: &OsStr) -> io::Result<()> {
        let number = self.find(name)?;
        std::fs::remove_file(self.dir.join(name))?;
        self.names.remove(name);
        self.unname(number);
        Ok(())
    }

    fn unname(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.name = None;
        }
        self.forget(number, 0);
    }

    /// The kernel forgets this many lookups; a file without names and lookups is gone.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 && node.name.is_none() {
                self.nodes.remove(&number);
            }
        }
    }

    pub(crate) fn rename(&mut self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let number = self.find(from)?;
        let old = self.find(to).ok();
        if old.is_some() && !replace {
            return Err(error(libc::EEXIST));
        }
        std::fs::rename(self.dir.join(from), self.dir.join(to))?;
        self.names.remove(from);
        self.names.insert(to.to_owned(), number);
        if let Some(old) = old.filter(|old| *old != number) {
            self.unname(old);
        }
        self.node(number)?.name = Some(to.to_owned());
        Ok(())
    }

    /// Whether a request has to wait first.
    pub(crate) fn pause(&mut self, number: u64, op: Op) -> Pause {
        let Some(node) = self.nodes.get(&number).filter(|node| self.on && node.on) else {
            return Pause::None;
        };
        if node.faults.hanging.contains(&op) {
            self.counters.held += 1;
            return Pause::UntilReleased;
        }
        match node.faults.delay(op) {
            Duration::ZERO => Pause::None,
            delay => {
                self.counters.delayed += 1;
                Pause::For(delay)
            }
        }
    }

    /// Counts a request and fails it if a fault says so; cuts the power when the armed cut is due.
    fn admit(&mut self, number: u64, handle: u64, op: Op, range: (u64, u64)) -> io::Result<()> {
        match op {
            Op::Read => self.counters.reads += 1,
            Op::Write => self.counters.writes += 1,
            Op::Flush => self.counters.flushes += 1,
        }
        let on = self.on;
        let node = self.node(number)?;
        let fails = !on || !node.on || node.cuts != handle;
        let range = range.0..range.0.saturating_add(range.1);
        if fails || node.faults.fails(op, &range) {
            self.counters.failed += 1;
            return Err(error(libc::EIO));
        }
        Ok(())
    }

    /// Whether the armed cut is due with this request.
    fn cut_is_due(&mut self, number: u64, op: Op) -> Option<Armed> {
        let armed = self.armed.as_mut().filter(|armed| armed.file.is_none_or(|f| f == number))?;
        let left = match &mut armed.when {
            When::Flushes(_) if op != Op::Flush => return None,
            When::Flushes(left) | When::Requests(left) => left,
        };
        *left = left.saturating_sub(1);
        if *left > 0 { None } else { self.armed.take() }
    }

    /// The armed cut happens; the request that triggered it is not executed.
    fn strike(&mut self, armed: &Armed) -> io::Result<()> {
        match armed.file {
            Some(file) => self.cut_file(file, &armed.cut)?,
            None => self.cut(&armed.cut)?,
        };
        Err(error(libc::EIO))
    }

    pub(crate) fn read(
        &mut self,
        number: u64,
        handle: u64,
        offset: u64,
        length: u64,
    ) -> io::Result<Vec<u8>> {
        self.admit(number, handle, Op::Read, (offset, length))?;
        self.node(number)?.content.read(offset, length)
    }

    pub(crate) fn write(
        &mut self,
        number: u64,
        handle: u64,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> io::Result<()> {
        let admitted = self.admit(number, handle, Op::Write, (offset, data.len() as u64));
        let live = self.on && self.node(number)?.is_live(handle);
        if admitted.is_err() && !live {
            return admitted;
        }
        let armed = if admitted.is_ok() { self.cut_is_due(number, Op::Write) } else { None };
        let (chance, counters) = (&mut self.chance, &mut self.counters);
        let node = self.nodes.get_mut(&number).ok_or_else(|| error(libc::ESTALE))?;
        let torn = admitted.is_err() || std::mem::take(&mut node.faults.tear_next);
        counters.torn += u64::from(torn);
        let durable = durability == Durability::Durable;
        counters.lies += u64::from(durable && node.faults.lying);
        // A write in flight when the power goes is in the cache, or on its way there.
        let cached = armed.is_some() || node.faults.lying || !durable;
        let to = if cached { Durability::Cached } else { Durability::Durable };
        // A failed write has stored a random subset of its sectors.
        let stored = node.content.write(offset, data, to, || !torn || chance.below(2) == 0)?;
        match to {
            Durability::Cached => counters.sectors_cached += stored,
            Durability::Durable => counters.sectors_durable += stored,
        }
        match armed {
            Some(armed) => self.strike(&armed),
            None => admitted,
        }
    }

    pub(crate) fn flush(&mut self, number: u64, handle: u64) -> io::Result<()> {
        self.admit(number, handle, Op::Flush, (0, u64::MAX))?;
        if let Some(armed) = self.cut_is_due(number, Op::Flush) {
            return self.strike(&armed);
        }
        let node = self.node(number)?;
        if node.faults.lying {
            self.counters.lies += 1;
            return Ok(());
        }
        let flushed = node.content.flush()?;
        self.counters.sectors_flushed += flushed;
        Ok(())
    }

    /// Allocates, or writes zeros.
    pub(crate) fn allocate(
        &mut self,
        (number, handle): (u64, u64),
        offset: u64,
        length: u64,
        mode: i32,
    ) -> io::Result<()> {
        const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE;
        const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE;
        let grow = mode & libc::FALLOC_FL_KEEP_SIZE == 0;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => {
                self.admit(number, handle, Op::Write, (offset, length))?;
                self.node(number)?.content.allocate(offset, length, grow)
            }
            ZERO_RANGE | PUNCH_HOLE => {
                let size = self.node(number)?.content.size();
                let end = offset.saturating_add(length);
                let end = if grow { end } else { end.min(size) };
                let zeros = vec![0; 1 << 20];
                let mut at = offset;
                while at < end {
                    let step = (end - at).min(zeros.len() as u64);
                    let zeros = &zeros[..step as usize];
                    self.write(number, handle, at, zeros, Durability::Cached)?;
                    at += step;
                }
                Ok(())
            }
            _ => Err(error(libc::EOPNOTSUPP)),
        }
    }

    /// Cuts the power of everything.
    pub(crate) fn cut(&mut self, cut: &Cut) -> io::Result<Lost> {
        let mut lost = Lost::default();
        let mut chance = Chance::new(cut.seed);
        for node in self.nodes.values_mut() {
            lost += node.content.lose(cut, &mut chance)?;
            node.cuts += 1;
        }
        self.on = false;
        self.armed = None;
        self.last_cut = Some(lost);
        self.counters.note_cut(lost);
        Ok(lost)
    }

    /// Cuts the power of one file.
    pub(crate) fn cut_file(&mut self, number: u64, cut: &Cut) -> io::Result<Lost> {
        let node = self.node(number)?;
        let lost = node.content.lose(cut, &mut Chance::new(cut.seed))?;
        node.cuts += 1;
        node.on = false;
        self.counters.note_cut(lost);
        Ok(lost)
    }

    pub(crate) fn arm(&mut self, file: Option<u64>, when: When, cut: Cut) {
        self.armed = Some(Armed { file, when, cut });
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Turns all power on again.
    pub(crate) fn power_on(&mut self) {
        self.on = true;
        self.armed = None;
        self.nodes.values_mut().for_each(Node::power_on);
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Node {
    pub(crate) fn power_on(&mut self) {
        self.on = true;
    }

    fn is_live(&self, handle: u64) -> bool {
        self.on && self.cuts == handle
    }
}
