//! Changes that are committed together: where they go, and what the lane lacks for them.

use bytes::Bytes;
use cellar_redo::Queued;
use cellar_wait::Session;

use super::{Inner, Store};
use crate::error::Error;
use crate::index::{Entries, Entry, KEY_BYTES_MAX};
use crate::lane::{Applied, Operation, Refusal, Refused, WriteSet};
use crate::rows::{ROW_BYTES_MAX, ROW_BYTES_MIN, RowId};
use crate::space::allocate::Use;
use async_recursion::async_recursion as boxed;

/// A key of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The number of the index.
    pub index: u32,
    /// Its bytes, in the order of the keys; no key begins with another one.
    pub bytes: Bytes,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new row.
    Insert {
        /// The number of the table.
        table: u32,
        /// Its bytes.
        row: Bytes,
        /// Its keys.
        keys: Vec<Key>,
    },
    /// A row gets other bytes.
    Update {
        /// The number of the table.
        table: u32,
        /// Which row.
        id: RowId,
        /// Its new bytes.
        row: Bytes,
        /// Keys that it has no longer.
        gone: Vec<Key>,
        /// Keys that it has from now on.
        new: Vec<Key>,
    },
    /// A row is deleted.
    Delete {
        /// The number of the table.
        table: u32,
        /// Which row.
        id: RowId,
        /// Its keys.
        keys: Vec<Key>,
    },
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where its record begins in the log.
    pub lsn: u64,
    /// The row of each change; `None` for one that was deleted.
    pub rows: Vec<Option<RowId>>,
}

impl Store {
    /// Makes an empty table with this number.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_table(&self, session: &Session, table: u32) -> Result<(), Error> {
        self.0.create_object(session, table, Use::Table).await
    }

    /// Makes an empty index with this number.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_index(&self, session: &Session, index: u32) -> Result<(), Error> {
        self.0.create_object(session, index, Use::Index).await
    }

    /// Does all these changes or none, and returns when that is durable. Nobody else may change the same
    /// rows and keys meanwhile.
    ///
    /// # Errors
    /// [`Error::RowTooLong`], [`Error::KeyTooLong`], [`Error::NoRow`], [`Error::Full`]; those of the log,
    /// after which the outcome is unknown.
    #[boxed]
    pub async fn commit(&self, session: &Session, changes: Vec<Change>) -> Result<Outcome, Error> {
        self.commit_then(session, changes, || ()).await
    }

    /// As [`Store::commit`]; `applied` is called when the changes are in the log and seen by who looks at
    /// what is newest.
    pub(crate) async fn commit_then(
        &self,
        session: &Session,
        changes: Vec<Change>,
        applied: impl FnOnce() + Send,
    ) -> Result<Outcome, Error> {
        let inner = &self.0;
        inner.check_running()?;
        let mut plan = Plan::new(inner, session);
        for (place, change) in changes.into_iter().enumerate() {
            plan.add(place, change).await?;
        }
        let Applied { queued, rows, .. } = plan.run().await?;
        applied();
        let lsn = inner.wait(session, queued).await?;
        Ok(Outcome { lsn, rows })
    }
}

/// A write set that is being made, and the change that each of its operations belongs to.
struct Plan<'a> {
    inner: &'a Inner,
    session: &'a Session,
    set: WriteSet,
    of: Vec<Option<usize>>,
    /// Pages that become tables' by it, each with its table.
    new_pages: Vec<(u32, u32)>,
}

impl<'a> Plan<'a> {
    fn new(inner: &'a Inner, session: &'a Session) -> Plan<'a> {
        let set = WriteSet::default();
        Plan { inner, session, set, of: Vec::new(), new_pages: Vec::new() }
    }

    fn push(&mut self, of: Option<usize>, operation: Operation) {
        self.set.operations.push(operation);
        self.of.push(of);
    }

    fn entries(&self, keys: Vec<Key>) -> Result<Entries, Error> {
        let entry = |key: Key| {
            let (bytes, max) = (key.bytes.len(), KEY_BYTES_MAX);
            if bytes > max {
                return Err(Error::KeyTooLong { bytes, max });
            }
            Ok(Entry { index: self.inner.space.index(key.index)?, key: key.bytes })
        };
        Ok(Entries(keys.into_iter().map(entry).collect::<Result<_, _>>()?))
    }

    async fn add(&mut self, place: usize, change: Change) -> Result<(), Error> {
        let operation = match change {
            Change::Insert { table, row, keys } => {
                check_row(&row)?;
                let entries = self.entries(keys)?;
                let page = self.page_for(table).await?;
                Operation::Insert { table, page, row, entries }
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
        self.push(Some(place), operation);
        Ok(())
    }

    /// A page of a table that may have room: the last one of this write set, one that is known to have
    /// some, or a free one.
    async fn page_for(&mut self, table: u32) -> Result<u32, Error> {
        let own = self.set.operations.iter().rev().find_map(|operation| match operation {
            Operation::Insert { table: of, page, .. } if *of == table => Some(*page),
            _ => None,
        });
        if let Some(page) = own {
            return Ok(page);
        }
        self.inner.space.ensure(&self.inner.frames, self.session, table).await?;
        match self.inner.space.open_page(table) {
            Some(page) => Ok(page),
            None => self.new_page(table, self.set.operations.len()).await,
        }
    }

    /// A free page, which operation `at` makes one of the table's.
    async fn new_page(&mut self, table: u32, at: usize) -> Result<u32, Error> {
        let page = self.inner.free_page(self.session, table, Use::Table).await?;
        self.set.held.push(self.inner.frames.fresh(page));
        self.set.operations.insert(at, Operation::NewPage { table, page });
        self.of.insert(at, None);
        self.new_pages.push((table, page));
        Ok(page)
    }

    /// Has the lane apply it, and provides what it lacks until it can.
    async fn run(mut self) -> Result<Applied, Error> {
        let mut room = None;
        loop {
            let refusal = match self.inner.lane.apply(std::mem::take(&mut self.set), room).await {
                Ok(applied) => return Ok(self.finish(applied)),
                Err(refusal) => *refusal,
            };
            let Refusal { set, at, why } = refusal;
            (self.set, room) = (set, None);
            let provided = match why {
                Refused::Stopped(error) => Err(error.into()),
                Refused::Changed => Err(self.missing(at)),
                Refused::NeedsPage(page) => self.provide_page(page).await,
                Refused::NeedsSpare(object) => self.provide_spares(object).await,
                Refused::NoPlace => self.provide_place(at).await,
                Refused::NoRoom(bytes) => {
                    let lengths = [bytes + ROOM_SLACK];
                    let reserved = self.inner.log.reserve(self.session, &lengths).await;
                    reserved.map(|reserved| room = Some(reserved)).map_err(Error::from)
                }
            };
            if let Err(error) = provided {
                self.abandon();
                return Err(error);
            }
        }
    }

    async fn provide_page(&mut self, page: u32) -> Result<(), Error> {
        let frame = self.inner.frames.load(self.session, page).await?;
        self.set.held.push(frame);
        Ok(())
    }

    /// Free pages for splits: as many as a way from a leaf to the root has.
    async fn provide_spares(&mut self, object: u32) -> Result<(), Error> {
        for _ in 0..SPLIT_PAGES {
            let page = self.inner.free_page(self.session, object, Use::Index).await?;
            self.set.held.push(self.inner.frames.fresh(page));
            self.set.spares.add(object, [page]);
        }
        Ok(())
    }

    /// A free page for an operation whose own has no room, and for those of the same table behind it.
    async fn provide_place(&mut self, at: usize) -> Result<(), Error> {
        let (table, full) = match &self.set.operations[at] {
            Operation::Insert { table, page, .. } => (*table, Some(*page)),
            Operation::Update { table, elsewhere, .. } => (*table, *elsewhere),
            _ => return Err(self.missing(at)),
        };
        if let Some(full) = full {
            self.inner.space.set_open(table, full, false);
        }
        self.inner.space.ensure(&self.inner.frames, self.session, table).await?;
        let open = self.inner.space.open_page(table);
        let (page, from) = match open {
            Some(page) => (page, at),
            None => (self.new_page(table, at).await?, at + 1),
        };
        for operation in &mut self.set.operations[from..] {
            match operation {
                Operation::Insert { table: of, page: place, .. } if *of == table => *place = page,
                Operation::Update { table: of, elsewhere, .. } if *of == table => {
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
            Operation::Insert { table: object, .. }
            | Operation::NewPage { table: object, .. }
            | Operation::TakeExtent { object, .. } => {
                Error::WrongObject { object: *object, expected: "table" }
            }
        }
    }

    /// Gives back what it did not use.
    fn abandon(&self) {
        let own = self.new_pages.iter().copied();
        self.inner.space.return_pages(own.chain(self.set.spares.left()));
    }

    fn finish(self, mut applied: Applied) -> Applied {
        let freed = applied.spares.freed.clone();
        self.inner.space.return_pages(applied.spares.left().chain(freed));
        for (table, page) in self.new_pages {
            self.inner.space.set_open(table, page, true);
        }
        let mut rows = Vec::new();
        for (of, row) in self.of.iter().zip(&applied.rows) {
            if of.is_some() {
                rows.push(*row);
            }
        }
        applied.rows = rows;
        applied
    }
}

/// What the redo of a write set may grow by while room for it is waited for: a few splits.
const ROOM_SLACK: usize = 64 << 10;

/// Pages that one entry may need: a new one on each level, and two for the root.
const SPLIT_PAGES: usize = 8;

fn check_row(row: &Bytes) -> Result<(), Error> {
    match row.len() {
        bytes if bytes > ROW_BYTES_MAX => Err(Error::RowTooLong { bytes, max: ROW_BYTES_MAX }),
        bytes if bytes < ROW_BYTES_MIN => Err(Error::RowTooShort { bytes, least: ROW_BYTES_MIN }),
        _ => Ok(()),
    }
}

impl Inner {
    async fn create_object(&self, session: &Session, object: u32, kind: Use) -> Result<(), Error> {
        self.check_running()?;
        if object == 0 || self.space.objects().iter().any(|(other, _)| *other == object) {
            let expected = "free number";
            return Err(Error::WrongObject { object, expected });
        }
        let queued = self.add_extent(session, object, kind).await?;
        self.wait(session, queued).await?;
        Ok(())
    }

    /// Waits until a commit is durable. Returns where its record begins.
    async fn wait(&self, session: &Session, queued: Queued) -> Result<u64, Error> {
        let lsn = queued.appended.lsn.0;
        self.log.wait(session, queued).await?;
        self.lane.acknowledge(lsn);
        Ok(lsn)
    }

    /// A free page of the object.
    async fn free_page(&self, session: &Session, object: u32, kind: Use) -> Result<u32, Error> {
        self.space.ensure(&self.frames, session, object).await?;
        loop {
            if let Some(page) = self.space.take_page(object) {
                return Ok(page);
            }
            // Durable with what it is needed for.
            let _ = self.add_extent(session, object, kind).await?;
        }
    }

    /// Gives an object another extent. That is a commit of its own: what it is needed for may fail.
    async fn add_extent(&self, session: &Session, object: u32, kind: Use) -> Result<Queued, Error> {
        let (extent, is_first) = self.space.take_extent(object)?;
        let mut plan = Plan::new(self, session);
        let (map, _) = self.geometry.map_entry(extent);
        plan.set.held.push(self.frames.load(session, map).await?);
        let first = self.geometry.first_page(extent);
        plan.set.held.extend([first, first + 1].map(|page| self.frames.fresh(page)));
        plan.push(None, Operation::TakeExtent { extent, object, kind, is_first });
        match Box::pin(plan.run()).await {
            Ok(applied) => {
                self.space.add_extent(object, kind, extent);
                Ok(applied.queued)
            }
            Err(error) => {
                self.space.return_extent(extent);
                Err(error)
            }
        }
    }
}
