//! Loads by the direct path: rows of a table with their index entries, in one commit. An empty index is built
//! bottom-up; an index with entries gets the new ones by redo, as with any commit.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_page::{CELL_BYTES_MAX, Kind, SLOT_BYTES};
use cellar_wait::Session;

use super::build::{Built, FillIndex, LoadIndex, Together, add_entry, check_key};
use super::direct::{DirectPages, put_row};
use super::plan::check_row;
use super::sorted::Sorted;
use super::{Change, Inner, LongValues, Outcome, Store};
use crate::error::{Error, TooMuch};
use crate::index::behind;
use crate::lane::{Operation, entry_redo_bytes};
use crate::locks::Held;
use crate::row_id::{RowId, RowRef};
use crate::space::allocate;

/// Whether several rows may have this key of a unique index, of that number: one with a NULL.
pub type MayShare = Arc<dyn Fn(u32, &[u8]) -> bool + Send + Sync>;

/// Where the entries of an index go.
enum Filling {
    /// Into pages of their own: it has nothing.
    Built(Sorted),
    /// To those that it has.
    Added(Vec<(Bytes, RowId)>),
}

/// A load by the direct path: rows that are added after all others of a table, and their index entries. Nobody
/// sees any of it before [`Load::commit`], and the log records only who owns the extents. Nobody else may change
/// table and indexes meanwhile. Dropping it cancels the load.
pub struct Load {
    store: Store,
    session: Session,
    table: u32,
    pages: DirectPages,
    /// Rows of the page that is being filled, and the room that they take.
    rows: Vec<Bytes>,
    bytes: usize,
    indexes: Vec<(LoadIndex, Filling)>,
    may_share: MayShare,
    /// The redo of the entries that are added.
    redo: usize,
    /// A row failed, or its caller gave up: the state is unknown.
    is_broken: bool,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Store {
    /// Begins a load of a table; entries of these indexes, which are empty, are sorted in about `memory`
    /// bytes.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; those of the log.
    #[boxed]
    pub async fn begin_load(
        &self,
        session: &Session,
        table: u32,
        indexes: &[LoadIndex],
        memory: usize,
    ) -> Result<Load, Error> {
        self.0.pages.space.check_table(table)?;
        let pages = DirectPages::begin(&self.0, table, Kind::Heap)?;
        let share = memory / indexes.len().max(1);
        let mut filled = Vec::with_capacity(indexes.len());
        for index in indexes {
            self.0.pages.space.index(index.index)?;
            filled.push((*index, Filling::Built(Sorted::new(&self.0, index.index, share))));
        }
        Ok(Load {
            store: self.clone(),
            session: session.clone(),
            table,
            pages,
            rows: Vec::new(),
            bytes: 0,
            indexes: filled,
            may_share: Arc::new(|_, _| false),
            redo: 0,
            is_broken: false,
        })
    }

    /// As [`Store::begin_load`], also where indexes have entries. `may_share`: which keys several rows may have.
    pub(crate) async fn begin_load_into(
        &self,
        session: &Session,
        (table, indexes): (u32, &[LoadIndex]),
        memory: usize,
        may_share: MayShare,
    ) -> Result<Load, Error> {
        let mut load = self.begin_load(session, table, indexes, memory).await?;
        load.may_share = may_share;
        for (index, filling) in &mut load.indexes {
            if !self.0.is_bare(session, index.index).await? {
                *filling = Filling::Added(Vec::new());
            }
        }
        Ok(load)
    }

    /// About how many bytes of changes one commit takes at most.
    pub(crate) fn transaction_bytes_max(&self) -> u64 {
        self.0.log.record_bytes_max() / 2
    }

    /// A row as it is now, also one of a load that is not committed.
    pub(crate) async fn row_now(
        &self,
        session: &Session,
        table: u32,
        row: RowRef,
    ) -> Result<Option<Bytes>, Error> {
        let RowRef::Stored(id) = row else { return Ok(None) };
        self.newest().row(session, table, id).await
    }
}

impl Inner {
    /// Whether an index can be built bottom-up: its root is empty.
    async fn is_bare(&self, session: &Session, index: u32) -> Result<bool, Error> {
        let root = self.pages.space.index(index)?.root;
        let frame = self.pages.frames.load(session, root).await?;
        let image = frame.current();
        Ok(image.page().kind() == Some(Kind::Leaf) && image.page().slots() == 0)
    }
}

impl Load {
    /// Adds a row; `keys` has one for each index, or `None` where the row has none.
    ///
    /// # Errors
    /// [`Error::RowTooLong`], [`Error::RowTooShort`], [`Error::KeyTooLong`]: the row is left out.
    /// [`Error::Full`], [`Error::TransactionTooLarge`] and those of the device end the load:
    /// [`Error::LoadBroken`].
    #[boxed]
    pub async fn row(&mut self, row: Bytes, keys: &[Option<Bytes>]) -> Result<RowId, Error> {
        check_row(&row)?;
        keys.iter().flatten().try_for_each(|key| check_key(key))?;
        assert_eq!(keys.len(), self.indexes.len(), "a key, or none, for each index");
        self.check_whole()?;
        self.is_broken = true;
        let id = self.add(row, keys).await?;
        self.is_broken = false;
        Ok(id)
    }

    fn check_whole(&self) -> Result<(), Error> {
        match self.is_broken {
            true => Err(Error::LoadBroken { table: self.table }),
            false => Ok(()),
        }
    }

    async fn add(&mut self, row: Bytes, keys: &[Option<Bytes>]) -> Result<RowId, Error> {
        let more = row.len() + SLOT_BYTES;
        if self.bytes + more > CELL_BYTES_MAX + SLOT_BYTES {
            self.close_page().await?;
        }
        if self.rows.is_empty() {
            self.pages.prepare(&self.session, 1).await?;
        }
        let page = self.pages.next_page().expect("a page was prepared");
        let id = RowId { page, slot: self.rows.len() as u16 };
        for ((_, filling), key) in self.indexes.iter_mut().zip(keys) {
            match (filling, key) {
                (_, None) => {}
                (Filling::Built(sorted), Some(key)) => {
                    add_entry(sorted, &self.session, key, id).await?;
                }
                (Filling::Added(entries), Some(key)) => {
                    self.redo += entry_redo_bytes(key);
                    entries.push((key.clone(), id));
                }
            }
        }
        // What a commit would refuse need not be gathered.
        let max = self.store.transaction_bytes_max();
        if self.redo as u64 > max {
            let what = TooMuch::Redo(self.redo as u64);
            return Err(Error::TransactionTooLarge { what, max });
        }
        self.rows.push(row);
        self.bytes += more;
        Ok(id)
    }

    async fn close_page(&mut self) -> Result<(), Error> {
        let (rows, bytes) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes));
        if rows.is_empty() {
            return Ok(());
        }
        let is_full = (CELL_BYTES_MAX + SLOT_BYTES) - bytes < crate::rows::FULL_BELOW;
        let mark = if is_full { allocate::FULL } else { allocate::IN_USE };
        self.pages.put_page(Kind::Heap, 0, mark, |page| {
            rows.iter().enumerate().for_each(|(slot, row)| put_row(page, slot, row));
        });
        self.pages.prepare(&self.session, 0).await
    }

    /// Commits all rows and entries.
    ///
    /// # Errors
    /// [`Error::Duplicate`] where two rows have the same key of a unique index; [`Error::Full`]; those of the
    /// log and of the device. Nothing was loaded, but where the log says that the outcome is unknown.
    #[boxed]
    pub async fn commit(self) -> Result<Outcome, Error> {
        self.close().await?.commit(Vec::new(), LongValues::default(), None).await
    }

    /// Makes all that was loaded durable, though it still belongs to nobody, and checks for duplicate keys.
    ///
    /// # Errors
    /// As [`Load::commit`].
    pub(crate) async fn close(mut self) -> Result<Loaded, Error> {
        self.check_whole()?;
        self.close_page().await?;
        let Load { store, session, pages, indexes, may_share, .. } = self;
        let mut built = vec![Built { finished: pages.finish(&session).await?, root: None }];
        let mut added = Vec::new();
        for (index, filling) in indexes {
            match filling {
                Filling::Built(sorted) => {
                    let may_repeat = |key: &[u8], _| may_share(index.index, key);
                    let load = FillIndex { index, may_repeat: &may_repeat, written: &|_| {} };
                    built.push(store.0.build(&session, load, sorted).await?);
                }
                Filling::Added(mut entries) => {
                    entries.sort_unstable();
                    check_unique(&store, &session, (index, &may_share), &entries).await?;
                    let index = store.0.pages.space.index(index.index)?;
                    added.push(Operation::AddEntries { index, entries });
                }
            }
        }
        Ok(Loaded { store, session, built, added })
    }
}

/// Looks whether sorted entries of an index, and those that it has, are of different keys where they must be.
/// Their leaves are in memory then.
async fn check_unique(
    store: &Store,
    session: &Session,
    (index, may_share): (LoadIndex, &MayShare),
    entries: &[(Bytes, RowId)],
) -> Result<(), Error> {
    let newest = store.newest();
    let mut before: Option<&(Bytes, RowId)> = None;
    for entry in entries {
        let (key, _) = entry;
        let end = behind(key);
        let bounds = (&key[..], Some(&end[..]));
        let found = newest.entries(session, index.index, bounds, false, 1).await?;
        let found = found.first().map(|(_, id)| *id);
        let twin = before.filter(|(own, _)| own == key).map(|(_, id)| *id);
        if index.is_unique
            && let Some(other) = found.or(twin)
            && !may_share(index.index, key)
        {
            return Err(Error::Duplicate { index: index.index, row: RowRef::Stored(other) });
        }
        before = Some(entry);
    }
    Ok(())
}

/// Rows and entries that are durable and nobody's yet.
pub(crate) struct Loaded {
    store: Store,
    session: Session,
    built: Vec<Built>,
    added: Vec<Operation>,
}

impl Loaded {
    /// Commits them, together with other changes.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn commit(
        self,
        changes: Vec<Change>,
        values: LongValues,
        locks: Option<Held>,
    ) -> Result<Outcome, Error> {
        let Loaded { store, session, built, added } = self;
        let together = Together { added, changes, values, locks };
        store.0.commit_load(&session, built, together).await
    }
}
