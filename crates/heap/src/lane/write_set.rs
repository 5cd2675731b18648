//! The write set of a transaction, which the lane applies.

use std::sync::Arc;

use bytes::Bytes;

use crate::bundle::{Bundle, FilledPage, Refused, Spares};
use crate::change::CHANGE_BYTES;
use crate::frames::Frame;
use crate::index::{Entries, Index, add_entries, set_root};
use crate::locks::Held;
use crate::row_id::RowId;
use crate::rows;
use crate::space::allocate;

/// All that one commit does.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub operations: Vec<Operation>,
    /// Free pages of each object, for what grows.
    pub spares: Spares,
    /// Frames that stay in memory until it is applied.
    pub held: Vec<Arc<Frame>>,
    /// Locks that are held until it is applied.
    pub locks: Option<Held>,
}

/// One thing that a commit does.
pub(crate) enum Operation {
    /// A free page becomes one of a table's rows; it may have been filled already.
    NewPage { table: u32, page: u32, filled: Option<Box<FilledPage>> },
    /// A new row, with its entries in indexes; or one that is in this slot of a page that has been filled, and whose
    /// entries come with those of others.
    Insert { table: u32, page: u32, row: Bytes, entries: Entries, filled: Option<u16> },
    /// A row gets new bytes; index entries go and come. If it no longer fits its page it moves to this one.
    Update {
        table: u32,
        id: RowId,
        row: Bytes,
        elsewhere: Option<u32>,
        gone: Entries,
        new: Entries,
    },
    /// A row goes, with its entries.
    Delete { table: u32, id: RowId, gone: Entries },
    /// A long value, in free pages of its table.
    PutLong { table: u32, pages: Vec<u32>, value: Bytes },
    /// The pages of a long value are free.
    FreeLong { table: u32, pages: Vec<u32> },
    /// An extent becomes an object's; the first of an index has its root.
    TakeExtent { extent: u32, object: u32, kind: allocate::Use, is_first: bool },
    /// An extent whose pages were written by the direct path becomes an object's; the header has had this
    /// generation since.
    AdoptExtent { extent: u32, object: u32, kind: allocate::Use, generation: u64 },
    /// Entries of an index, in their order, of rows that were written by the direct path or are in filled pages.
    AddEntries { index: Index, entries: Vec<(Bytes, RowId)> },
    /// An empty index gets these cells in its root.
    SetRoot { index: Index, level: u32, cells: Vec<Vec<u8>> },
    /// Extents are an object's no longer.
    ReleaseExtents { object: u32, extents: Vec<u32> },
}

impl WriteSet {
    /// About how many bytes its redo takes.
    pub fn redo_bytes(&self) -> usize {
        self.operations.iter().map(Operation::redo_bytes).sum()
    }
}

/// About how many bytes the redo of an entry takes.
pub(crate) fn entry_redo_bytes(key: &[u8]) -> usize {
    key.len() + 2 * CHANGE_BYTES
}

impl Operation {
    fn redo_bytes(&self) -> usize {
        let of = |entries: &Entries| -> usize {
            entries.iter().map(|entry| entry_redo_bytes(&entry.key)).sum()
        };
        match self {
            Operation::Insert { row, filled: Some(_), .. } => 2 * CHANGE_BYTES + row.len(),
            Operation::Insert { row, entries, .. } => 2 * CHANGE_BYTES + row.len() + of(entries),
            Operation::Update { row, gone, new, .. } => {
                2 * CHANGE_BYTES + row.len() + of(gone) + of(new)
            }
            Operation::Delete { gone, .. } => 2 * CHANGE_BYTES + of(gone),
            Operation::PutLong { pages, value, .. } => 4 * CHANGE_BYTES * pages.len() + value.len(),
            Operation::FreeLong { pages, .. } => CHANGE_BYTES * pages.len(),
            Operation::TakeExtent { .. } | Operation::NewPage { .. } => 8 * CHANGE_BYTES,
            Operation::AdoptExtent { .. } => 4 * CHANGE_BYTES,
            Operation::AddEntries { entries, .. } => {
                entries.iter().map(|(key, _)| entry_redo_bytes(key)).sum()
            }
            Operation::SetRoot { cells, .. } => {
                cells.iter().map(|cell| CHANGE_BYTES + cell.len()).sum()
            }
            Operation::ReleaseExtents { extents, .. } => 2 * CHANGE_BYTES * extents.len(),
        }
    }

    /// Applies it and returns its row, or why that is impossible; the bundle must be discarded then.
    pub fn apply(
        &mut self,
        bundle: &mut Bundle<'_>,
        spares: &mut Spares,
    ) -> Result<Option<RowId>, Refused> {
        match self {
            Operation::NewPage { table, page, filled } => {
                match filled.take() {
                    Some(filled) => rows::take_over(bundle, *page, *filled)?,
                    None => rows::format(bundle, *table, *page)?,
                }
                Ok(None)
            }
            Operation::Insert { page, row, filled: Some(slot), .. } => {
                let id = RowId { page: *page, slot: *slot };
                rows::check_filled(bundle, id, row)?;
                Ok(Some(id))
            }
            Operation::Insert { table, page, row, entries, filled: None } => {
                let id = rows::insert(bundle, *table, *page, row)?;
                entries.add(bundle, spares, id)?;
                Ok(Some(id))
            }
            Operation::Update { table, id, row, elsewhere, gone, new } => {
                rows::update(bundle, spares, (*table, *id), row, *elsewhere)?;
                gone.remove(bundle, spares, *id)?;
                new.add(bundle, spares, *id)?;
                Ok(Some(*id))
            }
            Operation::Delete { table, id, gone } => {
                rows::delete(bundle, spares, *table, *id)?;
                gone.remove(bundle, spares, *id)?;
                Ok(None)
            }
            Operation::PutLong { table, pages, value } => {
                rows::put_long(bundle, *table, pages, value)?;
                Ok(None)
            }
            Operation::FreeLong { table, pages } => {
                rows::free_long(bundle, spares, *table, pages)?;
                Ok(None)
            }
            Operation::AdoptExtent { extent, object, kind, generation } => {
                allocate::adopt_extent(bundle, *extent, (*object, *kind), *generation)?;
                Ok(None)
            }
            Operation::AddEntries { index, entries } => {
                add_entries(bundle, spares, *index, entries)?;
                Ok(None)
            }
            Operation::SetRoot { index, level, cells } => {
                set_root(bundle, *index, *level, cells)?;
                Ok(None)
            }
            Operation::ReleaseExtents { object, extents } => {
                allocate::release_extents(bundle, *object, extents)?;
                Ok(None)
            }
            Operation::TakeExtent { extent, object, kind, is_first } => {
                allocate::take_extent(bundle, *extent, *object, *kind, *is_first)?;
                Ok(None)
            }
        }
    }
}
