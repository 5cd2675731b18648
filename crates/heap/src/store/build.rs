//! Bottom-up building of indexes by the direct path, and the commit of what was built.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_page::Kind;
use cellar_redo::Queued;
use cellar_wait::Session;

use super::direct::{DirectPages, Finished};
use super::plan::Plan;
use super::scan::Scan;
use super::sorted::Sorted;
use super::{Change, Inner, LongValues, Outcome, Store, objects};
use crate::error::Error;
use crate::index::{Index, KEY_BYTES_MAX, Tree, entry_of};
use crate::lane::{Applied, Operation};
use crate::locks::Held;
use crate::row_id::{ROW_ID_BYTES, RowId, RowRef};
use crate::rows::Found;

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

/// Whether a row may have this key of a unique index that another row has too.
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
    /// Called where another row has the key too, in a unique index: whether both may have it.
    pub may_repeat: MayRepeat<'a>,
    /// Is told what was done, and of how much: a row counts once when it is read and once when its entry is in a
    /// page. How many rows there are is estimated until all are read.
    pub progress: &'a (dyn Fn(u64, u64) + Send + Sync),
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

impl Store {
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
        let (extents, mut count) = (scan.extents_left(), 0);
        while let Some(page) = scan.next_page(session).await? {
            for (id, found) in page.rows() {
                let Found::Here(row) = found else { continue };
                if let Some(key) = key(row)? {
                    add_entry(&mut sorted, session, &key, id).await?;
                }
                count += 1;
            }
            let read = extents.saturating_sub(scan.extents_left()).max(1) as u64;
            progress(count, 2 * count.saturating_mul(extents as u64) / read);
        }
        let written = |entries| progress(count + entries, 2 * count);
        let load = FillIndex { index, may_repeat, written: &written };
        let built = self.0.build(session, load, sorted).await?;
        self.0.commit_load(session, vec![built], Together::default()).await
    }
}

/// An empty index that gets sorted entries.
pub(super) struct FillIndex<'a> {
    pub index: LoadIndex,
    pub may_repeat: MayRepeat<'a>,
    /// Is told how many entries are in pages.
    pub written: &'a (dyn Fn(u64) + Send + Sync),
}

pub(super) fn check_key(key: &[u8]) -> Result<(), Error> {
    match (key.len(), KEY_BYTES_MAX) {
        (bytes, max) if bytes > max => Err(Error::KeyTooLong { bytes, max }),
        _ => Ok(()),
    }
}

pub(super) async fn add_entry(
    sorted: &mut Sorted,
    session: &Session,
    key: &[u8],
    id: RowId,
) -> Result<(), Error> {
    check_key(key)?;
    sorted.add(session, &[key, &id.encode()]).await
}

/// Pages that are durable and nobody's, and what the root of their index is to be.
pub(super) struct Built {
    pub finished: Finished,
    pub root: Option<Operation>,
}

/// What is committed together with what was built.
#[derive(Default)]
pub(super) struct Together {
    /// Entries of indexes that have others.
    pub added: Vec<Operation>,
    /// Changes of rows.
    pub changes: Vec<Change>,
    /// Their long values.
    pub values: LongValues,
    /// Locks that are held until it is applied.
    pub locks: Option<Held>,
}

impl Inner {
    /// Builds the pages of an index of sorted entries.
    pub(super) async fn build(
        self: &Arc<Self>,
        session: &Session,
        filling: FillIndex<'_>,
        sorted: Sorted,
    ) -> Result<Built, Error> {
        let FillIndex { index: LoadIndex { index: object, is_unique }, may_repeat, written } =
            filling;
        let index: Index = self.pages.space.index(object)?;
        let mut pages = DirectPages::begin(self, object, Kind::Leaf)?;
        let (mut tree, mut before) = (Tree::default(), Vec::new());
        let (mut entries, mut count) = (sorted.read(session).await?, 0);
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
            count += 1;
            written(count);
        }
        let root = tree.finish(&mut pages);
        let finished = pages.finish(session).await?;
        let (level, cells) = (root.level, root.cells);
        Ok(Built { finished, root: Some(Operation::SetRoot { index, level, cells }) })
    }

    /// Commits what was built. Runs to the end even if nobody waits, so that the owner of the extents is known.
    pub(super) async fn commit_load(
        self: &Arc<Self>,
        session: &Session,
        built: Vec<Built>,
        together: Together,
    ) -> Result<Outcome, Error> {
        self.check_running()?;
        let (inner, helper) = (Arc::clone(self), session.helper());
        let task = async move { inner.commit_built(&helper, built, together).await };
        let queued = self.env.run("store load", task).await.ok_or_else(objects::ended)??;
        let lsn = self.wait(session, queued).await?;
        Ok(Outcome { lsn, rows: Vec::new() })
    }

    async fn commit_built(
        self: &Arc<Self>,
        session: &Session,
        built: Vec<Built>,
        Together { added, changes, values, locks }: Together,
    ) -> Result<Queued, Error> {
        let generation = self.begin_adoption().await?;
        let mut plan = Plan::new(self, session);
        plan.hold(locks);
        if !values.is_empty() {
            plan.add_long(values).await;
        }
        for change in changes {
            plan.add(change).await?;
        }
        for operation in added {
            plan.push(operation, Vec::new());
        }
        let mut finished = Vec::new();
        for built in built {
            for operation in built.finished.operations(generation) {
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
        let Applied { queued, locks, .. } = match plan.run().await {
            Ok(applied) => applied,
            Err(error) => {
                // Whether the lane has done it is not known where it has stopped.
                let is_refused = matches!(
                    error,
                    Error::Log(cellar_redo::Error::RecordTooLong { .. })
                        | Error::TransactionTooLarge { .. }
                        | Error::Full { .. }
                        | Error::WrongObject { .. }
                );
                if !is_refused {
                    finished.into_iter().for_each(Finished::lose);
                }
                return Err(error);
            }
        };
        finished.into_iter().for_each(Finished::adopt);
        drop(locks);
        Ok(queued)
    }
}
