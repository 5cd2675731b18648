//! Loads by the direct path: rows of a table, and indexes that are built from the bottom, in one commit.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_page::{CELL_BYTES_MAX, Kind, SLOT_BYTES};
use cellar_redo::Queued;
use cellar_wait::Session;

use super::direct::{DirectPages, Finished, put_row};
use super::plan::{Plan, check_row};
use super::scan::Scan;
use super::sorted::Sorted;
use super::{Inner, Outcome, Store, objects};
use crate::error::Error;
use crate::index::{Index, KEY_BYTES_MAX, Tree, entry_of};
use crate::lane::Operation;
use crate::row_id::{ROW_ID_BYTES, RowId, RowRef};
use crate::rows::Found;
use crate::space::allocate;

/// An empty index that a load fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadIndex {
    /// Its number.
    pub index: u32,
    /// No two rows have the same key.
    pub is_unique: bool,
}

/// Makes the key of a row, of its bytes; `None` where it has none.
pub type KeyOf<'a> = &'a (dyn Fn(&[u8]) -> Result<Option<Bytes>, Error> + Send + Sync);

/// Whether a row may have this key of a unique index, which another row has.
pub type MayRepeat<'a> = &'a (dyn Fn(&[u8], RowId) -> bool + Send + Sync);

/// An index that is to be built.
#[derive(Clone, Copy)]
pub struct BuildIndex<'a> {
    /// The number of the table.
    pub table: u32,
    /// The index, which is empty.
    pub index: LoadIndex,
    /// It is sorted in about so many bytes.
    pub memory: usize,
    /// The key of a row.
    pub key: KeyOf<'a>,
    /// Is asked where another row has the key too, of a unique index: whether both may have it.
    pub may_repeat: MayRepeat<'a>,
    /// Is told how many rows were read.
    pub progress: &'a (dyn Fn(u64) + Send + Sync),
}

impl std::fmt::Debug for BuildIndex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BuildIndex { table, index, .. } = self;
        f.debug_struct("BuildIndex")
            .field("table", table)
            .field("index", index)
            .finish_non_exhaustive()
    }
}

/// Pages that one step of building an index may need: one on each level.
const STEP_PAGES: usize = 32;

/// A load by the direct path: rows that are put behind all others of a table, and entries of indexes that
/// are empty. Nobody sees any of it before [`Load::commit`], and nothing of it is in the log but whose the
/// extents are. Nobody else may change table and indexes meanwhile. Dropping it gives all up.
pub struct Load {
    store: Store,
    session: Session,
    table: u32,
    pages: DirectPages,
    /// Rows of the page that is being filled, and the room that they take.
    rows: Vec<Bytes>,
    bytes: usize,
    indexes: Vec<(LoadIndex, Sorted)>,
    /// A row failed, or nobody waited for it: what there is of it is not known.
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
        let mut sorted = Vec::with_capacity(indexes.len());
        for index in indexes {
            self.0.pages.space.index(index.index)?;
            sorted.push((*index, Sorted::new(&self.0, index.index, share)));
        }
        let (store, session) = (self.clone(), session.clone());
        let (rows, bytes, is_broken) = (Vec::new(), 0, false);
        Ok(Load { store, session, table, pages, rows, bytes, indexes: sorted, is_broken })
    }

    /// Fills an index, which is empty, with a key of each row of a table. Nobody else may change table and
    /// index meanwhile.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::KeyTooLong`], [`Error::Full`], [`Error::WrongObject`]; those of the log
    /// and of the device, and of [`BuildIndex::key`]. The index is as it was.
    #[boxed]
    pub async fn build_index(
        &self,
        session: &Session,
        build: &BuildIndex<'_>,
    ) -> Result<Outcome, Error> {
        let BuildIndex { table, index, memory, key, may_repeat, progress } = *build;
        self.0.pages.space.index(index.index)?;
        let mut sorted = Sorted::new(&self.0, index.index, memory);
        let mut scan = Scan::new(Arc::new(self.newest()), table)?;
        let mut count = 0;
        while let Some(page) = scan.next_page(session).await? {
            for (id, found) in page.rows() {
                let Found::Here(row) = found else { continue };
                if let Some(key) = key(row)? {
                    add_entry(&mut sorted, session, &key, id).await?;
                }
                count += 1;
            }
            progress(count);
        }
        let built = self.0.build(session, (index, may_repeat), sorted).await?;
        self.0.commit_load(session, vec![built]).await
    }
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    match (key.len(), KEY_BYTES_MAX) {
        (bytes, max) if bytes > max => Err(Error::KeyTooLong { bytes, max }),
        _ => Ok(()),
    }
}

async fn add_entry(
    sorted: &mut Sorted,
    session: &Session,
    key: &[u8],
    id: RowId,
) -> Result<(), Error> {
    check_key(key)?;
    sorted.add(session, &[key, &id.encode()]).await
}

impl Load {
    /// Adds a row; `keys` has one for each index, or `None` where the row has none.
    ///
    /// # Errors
    /// [`Error::RowTooLong`], [`Error::RowTooShort`], [`Error::KeyTooLong`]: the row is left out.
    /// [`Error::Full`] and those of the device end the load: [`Error::LoadBroken`].
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
        for ((_, sorted), key) in self.indexes.iter_mut().zip(keys) {
            if let Some(key) = key {
                add_entry(sorted, &self.session, key, id).await?;
            }
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
    pub async fn commit(mut self) -> Result<Outcome, Error> {
        self.check_whole()?;
        self.close_page().await?;
        let Load { store, session, pages, indexes, .. } = self;
        let mut built = vec![Built { finished: pages.finish(&session).await?, root: None }];
        for (index, sorted) in indexes {
            built.push(store.0.build(&session, (index, &|_, _| false), sorted).await?);
        }
        store.0.commit_load(&session, built).await
    }
}

/// Pages that are durable and nobody's, and what the root of their index is to be.
struct Built {
    finished: Finished,
    root: Option<Operation>,
}

impl Inner {
    /// Builds the pages of an index of sorted entries.
    async fn build(
        self: &Arc<Self>,
        session: &Session,
        (load, may_repeat): (LoadIndex, MayRepeat<'_>),
        sorted: Sorted,
    ) -> Result<Built, Error> {
        let LoadIndex { index: object, is_unique } = load;
        let index: Index = self.pages.space.index(object)?;
        let mut pages = DirectPages::begin(self, object, Kind::Leaf)?;
        let (mut tree, mut before) = (Tree::default(), Vec::new());
        let mut entries = sorted.read(session).await?;
        while let Some(cell) = entries.next(session).await? {
            let split = |cell: &[u8]| cell.len().saturating_sub(ROW_ID_BYTES);
            let (key, row) = cell.split_at(split(&cell));
            let is_same = is_unique && !before.is_empty() && key == &before[..split(&before)];
            if is_same && !RowId::decode(row).is_some_and(|row| may_repeat(key, row)) {
                let (_, first) = entry_of(&before).ok_or(Error::SortDamaged { object })?;
                return Err(Error::Duplicate { index: object, row: RowRef::Stored(first) });
            }
            pages.prepare(session, STEP_PAGES).await?;
            before.clone_from(&cell);
            tree.add(cell, &mut pages);
        }
        let root = tree.finish(&mut pages);
        let finished = pages.finish(session).await?;
        let (level, cells) = (root.level, root.cells);
        Ok(Built { finished, root: Some(Operation::SetRoot { index, level, cells }) })
    }

    /// Commits what was built. To its end, also where nobody waits for that: whose the extents are is known then.
    async fn commit_load(
        self: &Arc<Self>,
        session: &Session,
        built: Vec<Built>,
    ) -> Result<Outcome, Error> {
        self.check_running()?;
        let (inner, helper) = (Arc::clone(self), session.helper());
        let task = async move { inner.commit_built(&helper, built).await };
        let queued = self.env.run("store load", task).await.ok_or_else(objects::ended)??;
        let lsn = self.wait(session, queued).await?;
        Ok(Outcome { lsn, rows: Vec::new() })
    }

    async fn commit_built(
        self: &Arc<Self>,
        session: &Session,
        built: Vec<Built>,
    ) -> Result<Queued, Error> {
        self.empty_ring().await?;
        let mut plan = Plan::new(self, session);
        let mut finished = Vec::new();
        for mut built in built {
            for operation in std::mem::take(&mut built.finished.operations) {
                let mut held = Vec::new();
                if let Operation::AdoptExtent { extent, .. } = &operation {
                    let (map, _) = self.pages.geometry.map_entry(*extent);
                    held.push(self.pages.frames.load(session, map).await?);
                }
                plan.push(operation, held);
            }
            if let Some(root) = built.root {
                plan.push(root, Vec::new());
            }
            finished.push(built.finished);
        }
        let applied = match plan.run().await {
            Ok(applied) => applied,
            Err(error) => {
                // Whether the lane has done it is not known where it has stopped.
                let is_refused = matches!(
                    error,
                    Error::Log(cellar_redo::Error::RecordTooLong { .. })
                        | Error::TransactionTooLarge { .. }
                        | Error::WrongObject { .. }
                );
                if !is_refused {
                    finished.into_iter().for_each(Finished::lose);
                }
                return Err(error);
            }
        };
        finished.into_iter().for_each(Finished::adopt);
        Ok(applied.queued)
    }
}
