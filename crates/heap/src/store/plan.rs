//! A write set being prepared: where rows go, and what the lane lacks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_page::{CELL_BYTES_MAX, SLOT_BYTES};
use cellar_wait::Session;

use super::filled::Filling;
use super::{Change, Inner, Key, LongValues, TakenPages};
use crate::bundle::Refused;
use crate::error::{Error, TooMuch};
use crate::index::{Entries, Entry, KEY_BYTES_MAX};
use crate::lane::{Applied, Operation, Refusal, WriteSet};
use crate::locks::Held;
use crate::row_id::ROW_ID_BYTES;
use crate::rows::{ROW_BYTES_MAX, ROW_BYTES_MIN};

/// A write set that is being made.
pub(super) struct Plan<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) session: &'a Session,
    pub(super) set: WriteSet,
    /// For each operation, whether the caller asked for it.
    pub(super) is_asked: Vec<bool>,
    /// Pages that become tables' by it, each with its table.
    new_pages: Vec<(u32, u32)>,
    /// Pages that become long values'.
    taken: Vec<TakenPages>,
    /// For each table the page that it fills, and the room that is left there.
    filling: BTreeMap<u32, (u32, usize)>,
    /// All that it may need was read.
    pub(super) is_read: bool,
    /// Free pages for splits that lacked in the lane.
    provided: usize,
    /// Pages filled before the lane.
    pub(super) filling_before: Filling,
    /// The lane has it: the fate of its pages is not known here.
    is_in_lane: bool,
}

impl<'a> Plan<'a> {
    pub fn new(inner: &'a Arc<Inner>, session: &'a Session) -> Plan<'a> {
        Plan {
            inner,
            session,
            set: WriteSet::default(),
            is_asked: Vec::new(),
            new_pages: Vec::new(),
            taken: Vec::new(),
            filling: BTreeMap::new(),
            is_read: false,
            provided: 0,
            filling_before: Filling::NotYet,
            is_in_lane: false,
        }
    }

    /// Locks that are held until it is applied.
    pub fn hold(&mut self, locks: Option<Held>) {
        self.set.locks = locks;
    }

    /// Adds an operation that the caller did not ask for.
    pub fn push(&mut self, operation: Operation, held: Vec<Arc<crate::frames::Frame>>) {
        self.set.operations.push(operation);
        self.is_asked.push(false);
        self.set.held.extend(held);
    }

    /// Adds the long values of a commit.
    pub async fn add_long(&mut self, values: LongValues) {
        for (taken, value) in values.new {
            let mut held = Vec::with_capacity(taken.pages.len());
            for page in &taken.pages {
                held.push(self.inner.pages.frames.fresh(*page).await);
            }
            let (table, pages) = (taken.table, taken.pages.clone());
            self.push(Operation::PutLong { table, pages, value }, held);
            self.taken.push(taken);
        }
        for (table, pages) in values.freed {
            self.push(Operation::FreeLong { table, pages }, Vec::new());
        }
    }

    fn entries(&self, keys: Vec<Key>) -> Result<Entries, Error> {
        let entry = |key: Key| {
            let (bytes, max) = (key.bytes.len(), KEY_BYTES_MAX);
            if bytes > max {
                return Err(Error::KeyTooLong { bytes, max });
            }
            Ok(Entry { index: self.inner.pages.space.index(key.index)?, key: key.bytes })
        };
        Ok(Entries(keys.into_iter().map(entry).collect::<Result<_, _>>()?))
    }

    pub async fn add(&mut self, change: Change) -> Result<(), Error> {
        let operation = match change {
            Change::Insert { table, row, keys } => {
                check_row(&row)?;
                let entries = self.entries(keys)?;
                let bytes = row.len() + SLOT_BYTES;
                let page = match self.filled_page(table, bytes) {
                    Some(page) => page,
                    None => self.page_for(table, bytes).await?,
                };
                Operation::Insert { table, page, row, entries, filled: None }
            }
            Change::Update { table, id, row, gone, new } => {
                check_row(&row)?;
                let (gone, new) = (self.entries(gone)?, self.entries(new)?);
                Operation::Update { table, id, row, elsewhere: None, gone, new }
            }
            Change::Delete { table, id, keys } => {
                Operation::Delete { table, id, gone: self.entries(keys)? }
            }
        };
        self.set.operations.push(operation);
        self.is_asked.push(true);
        Ok(())
    }

    /// The page of a table that this write set fills, if it has room for so many bytes.
    fn filled_page(&mut self, table: u32, bytes: usize) -> Option<u32> {
        let (page, room) = self.filling.get_mut(&table)?;
        *room = room.checked_sub(bytes)?;
        Some(*page)
    }

    /// Another page of a table for this many bytes: one that has room, or a free one. Whenever the lane finds too
    /// little room the write set starts again, so the room is checked here first. The rare futures are boxed, to
    /// keep that of a commit short.
    #[boxed]
    async fn page_for(&mut self, table: u32, bytes: usize) -> Result<u32, Error> {
        let (space, frames) = (&self.inner.pages.space, &self.inner.pages.frames);
        space.check_table(table)?;
        space.ensure(frames, self.session, table).await?;
        // A page that this write set has filled is not asked again.
        for _ in 0..OPEN_TRIES {
            let Some(page) = space.open_page(table) else { break };
            let frame = frames.load(self.session, page).await?;
            let room = frame.current().page().room();
            let is_filled = self.filling.get(&table).is_some_and(|(filled, _)| *filled == page);
            if room >= bytes && !is_filled {
                self.set.held.push(frame);
                self.filling.insert(table, (page, room - bytes));
                return Ok(page);
            }
            space.set_open(table, page, false);
        }
        let page = self.new_page(table, self.set.operations.len()).await?;
        self.filling.insert(table, (page, CELL_BYTES_MAX + SLOT_BYTES - bytes));
        Ok(page)
    }

    /// A free page, which operation `at` makes one of the table's.
    pub(super) async fn new_page(&mut self, table: u32, at: usize) -> Result<u32, Error> {
        let page = self.inner.free_page(self.session, table).await?;
        self.new_pages.push((table, page));
        self.set.held.push(self.inner.pages.frames.fresh(page).await);
        self.set.operations.insert(at, Operation::NewPage { table, page, filled: None });
        self.is_asked.insert(at, false);
        Ok(page)
    }

    /// Reads and provides what it needs, to find whether it is too large; nothing is done. `long`: pages and bytes
    /// that are to come.
    pub async fn dry_run(mut self, (pages, bytes): (usize, u64)) -> Result<(), Error> {
        self.ensure_known().await?;
        self.provision().await?;
        self.check_size(pages, bytes)
    }

    /// Has the lane apply it, providing what is missing until it can.
    pub async fn run(mut self) -> Result<Applied, Error> {
        let mut room = None;
        self.ensure_known().await?;
        self.provision().await?;
        loop {
            self.check_size(0, 0)?;
            self.fill_pages();
            self.is_in_lane = true;
            let outcome = self.inner.lane.apply(std::mem::take(&mut self.set), room).await;
            let Refusal { set, at, why } = match outcome {
                Ok(applied) => return Ok(self.finish(applied)),
                Err(refusal) => *refusal,
            };
            self.is_in_lane = false;
            (self.set, room) = (set, None);
            self.inner.begun_anew.fetch_add(1, Ordering::Relaxed);
            match why {
                Refused::Log(error) => return Err(error.into()),
                Refused::Changed => return Err(self.missing(at)),
                Refused::NeedsPage(page) => self.provide_page(page).await?,
                Refused::NeedsSpare(object) => self.provide_spares(object).await?,
                Refused::NoPlace => self.provide_place(at).await?,
                Refused::Resting => self.empty_pages(),
                Refused::NoRoom(bytes) => {
                    self.inner.press_writer();
                    let lengths = [bytes + ROOM_SLACK];
                    room = Some(self.inner.log.reserve(self.session, &lengths).await?);
                }
            }
        }
    }

    /// Brings a page into memory; the first time, all pages of rows, because each missing page costs a turn in the
    /// lane.
    #[boxed]
    async fn provide_page(&mut self, page: u32) -> Result<(), Error> {
        let mut pages = vec![page];
        if !std::mem::replace(&mut self.is_read, true) {
            pages.extend(self.set.operations.iter().filter_map(|operation| match operation {
                Operation::Update { id, .. } | Operation::Delete { id, .. } => Some(id.page),
                Operation::Insert { page, .. } => Some(*page),
                _ => None,
            }));
            pages.sort_unstable();
            pages.dedup();
        }
        for page in pages {
            let frame = self.inner.pages.frames.load(self.session, page).await?;
            self.set.held.push(frame);
        }
        Ok(())
    }

    /// Makes sure that the free pages are known of objects that may get some back: if they were read later, they
    /// would be listed twice.
    async fn ensure_known(&mut self) -> Result<(), Error> {
        let space = &self.inner.pages.space;
        let mut objects = BTreeSet::new();
        for operation in &self.set.operations {
            match operation {
                Operation::Update { gone, .. } | Operation::Delete { gone, .. } => {
                    objects.extend(gone.iter().map(|entry| entry.index.object));
                }
                Operation::FreeLong { table, .. } => drop(objects.insert(*table)),
                _ => {}
            }
        }
        for object in objects.into_iter().filter(|object| !space.is_loaded(*object)) {
            space.ensure(&self.inner.pages.frames, self.session, object).await?;
        }
        Ok(())
    }

    /// Whether it leaves room for others, in memory and in the log, with so many pages and bytes beside it.
    fn check_size(&self, pages: usize, bytes: u64) -> Result<(), Error> {
        self.check_pages(pages)?;
        let redo = self.set.redo_bytes() as u64 + bytes;
        if redo >= REDO_LEAST {
            let max = self.inner.log.record_bytes_max() / 2;
            if redo > max {
                return Err(Error::TransactionTooLarge { what: TooMuch::Redo(redo), max });
            }
        }
        Ok(())
    }

    /// Free pages for splits: as many as a way from a leaf to the root has, and each time as many as all before.
    #[boxed]
    async fn provide_spares(&mut self, object: u32) -> Result<(), Error> {
        let pages = self.provided.max(SPLIT_PAGES);
        self.provided += pages;
        for at in 0..pages {
            let page = match self.inner.free_page(self.session, object).await {
                Ok(page) => page,
                // Fewer may be enough where there are no more.
                Err(_) if at >= SPLIT_PAGES => break,
                Err(error) => return Err(error),
            };
            self.set.spares.add(object, [page]);
            self.set.held.push(self.inner.pages.frames.fresh(page).await);
        }
        Ok(())
    }

    /// A free page for an operation whose own has no room, and for those of the same table behind it.
    #[boxed]
    async fn provide_place(&mut self, at: usize) -> Result<(), Error> {
        let (table, full) = match &self.set.operations[at] {
            Operation::Insert { table, page, .. } => (*table, Some(*page)),
            Operation::Update { table, elsewhere, .. } => (*table, *elsewhere),
            _ => return Err(self.missing(at)),
        };
        if let Some(full) = full {
            self.inner.pages.space.set_open(table, full, false);
        }
        self.inner.pages.space.ensure(&self.inner.pages.frames, self.session, table).await?;
        let open = self.inner.pages.space.open_page(table);
        let (page, from) = match open {
            Some(page) => (page, at),
            None => (self.new_page(table, at).await?, at + 1),
        };
        for operation in &mut self.set.operations[from..] {
            match operation {
                Operation::Insert { table: of, page: place, .. }
                    if *of == table && Some(*place) == full =>
                {
                    *place = page;
                }
                Operation::Update { table: of, elsewhere, .. }
                    if *of == table && *elsewhere == full =>
                {
                    *elsewhere = Some(page);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Why an operation cannot be done: the row is not there.
    fn missing(&self, at: usize) -> Error {
        match &self.set.operations[at] {
            Operation::Update { id, .. } | Operation::Delete { id, .. } => {
                Error::NoRow { page: id.page, slot: id.slot }
            }
            Operation::SetRoot { index, .. } => {
                Error::WrongObject { object: index.object, expected: "empty index" }
            }
            Operation::AddEntries { index, .. } => {
                Error::WrongObject { object: index.object, expected: "index" }
            }
            Operation::Insert { table: object, .. }
            | Operation::NewPage { table: object, .. }
            | Operation::PutLong { table: object, .. }
            | Operation::FreeLong { table: object, .. }
            | Operation::TakeExtent { object, .. }
            | Operation::AdoptExtent { object, .. }
            | Operation::ReleaseExtents { object, .. } => {
                Error::WrongObject { object: *object, expected: "table" }
            }
        }
    }

    fn finish(mut self, mut applied: Applied) -> Applied {
        let space = &self.inner.pages.space;
        space.return_pages(applied.spares.left());
        self.taken.drain(..).for_each(TakenPages::keep);
        let lsn = applied.queued.appended.lsn.0;
        space.rest_pages(lsn, applied.spares.rested.drain(..));
        space.return_pages(applied.spares.freed.iter().copied());
        for (table, page) in self.new_pages.drain(..).chain(applied.spares.opened.drain(..)) {
            space.set_open(table, page, true);
        }
        let mut is_asked = self.is_asked.iter();
        applied.rows.retain(|_| is_asked.next().copied().unwrap_or(false));
        applied
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        // The lane may be using its pages by now: until the next opening they belong to nobody.
        if self.is_in_lane {
            self.taken.drain(..).for_each(TakenPages::keep);
        } else {
            self.inner.pages.space.return_pages(self.new_pages.drain(..));
            self.inner.pages.space.return_pages(self.set.spares.left());
        }
    }
}

/// Pages that may have room and are looked at before a free one is taken.
const OPEN_TRIES: usize = 8;

/// With so many operations free pages are provided.
pub(super) const MANY: usize = 100;

/// So many pages a transaction may have, however small the cache is.
pub(super) const PAGES_LEAST: u64 = 1024;

/// Less redo than this fits every log.
const REDO_LEAST: u64 = 64 << 10;

/// Bytes of an entry beside its key.
pub(super) const ENTRY_BYTES: usize = ROW_ID_BYTES + SLOT_BYTES;

/// What the redo of a write set may grow by while room for it is waited for: a few splits.
const ROOM_SLACK: usize = 64 << 10;

/// Pages that one entry may need: a new one on each level, and two for the root.
const SPLIT_PAGES: usize = 8;

pub(super) fn check_row(row: &Bytes) -> Result<(), Error> {
    match row.len() {
        bytes if bytes > ROW_BYTES_MAX => Err(Error::RowTooLong { bytes, max: ROW_BYTES_MAX }),
        bytes if bytes < ROW_BYTES_MIN => Err(Error::RowTooShort { bytes, least: ROW_BYTES_MIN }),
        _ => Ok(()),
    }
}
