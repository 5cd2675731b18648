//! Indexes: B+trees of keys and the rows that have them. The bytes of keys sort as the keys do, and no key
//! is a prefix of another one, so that entries are compared as bytes: the key, then the row's place.
//!
//! The root of an index never moves. Pages know neither their siblings nor their parents: a reader descends
//! from the root at one snapshot, and the lane, which alone changes them, sees the newest images.

mod edit;
mod search;
mod tree;

use bytes::Bytes;
use cellar_page::{Kind, PageRef};

use crate::bundle::{Bundle, Refused, Spares};
use crate::change::Change;
use crate::row_id::RowId;

use edit::Edit;
pub(crate) use search::{Cursor, Index, behind, entry_of};
pub(crate) use tree::{Pages, Tree};

/// The longest key, in bytes: four entries fit a page, so that halves of a split are never empty.
pub const KEY_BYTES_MAX: usize = 1980;

/// An entry that comes or goes.
pub(crate) struct Entry {
    pub index: Index,
    pub key: Bytes,
}

/// Entries that come or go with a row.
#[derive(Default)]
pub(crate) struct Entries(pub Vec<Entry>);

impl Entries {
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// Puts them into their indexes.
    pub fn add(
        &self,
        bundle: &mut Bundle<'_>,
        spares: &mut Spares,
        id: RowId,
    ) -> Result<(), Refused> {
        self.0.iter().try_for_each(|Entry { index, key }| {
            let mut edit = Edit { bundle: &mut *bundle, spares: &mut *spares, index: *index };
            edit.add(&leaf_cell(key, id))
        })
    }

    /// Takes them out of their indexes.
    pub fn remove(
        &self,
        bundle: &mut Bundle<'_>,
        spares: &mut Spares,
        id: RowId,
    ) -> Result<(), Refused> {
        self.0.iter().try_for_each(|Entry { index, key }| {
            let mut edit = Edit { bundle: &mut *bundle, spares: &mut *spares, index: *index };
            edit.remove(&leaf_cell(key, id))
        })
    }
}

/// Puts entries of several rows into an index.
pub(crate) fn add_entries(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    index: Index,
    entries: &[(Bytes, RowId)],
) -> Result<(), Refused> {
    let mut edit = Edit { bundle, spares, index };
    edit.add_sorted(entries.iter().map(|(key, id)| leaf_cell(key, *id)))
}

/// Puts the cells of a root into the root of an empty index.
pub(crate) fn set_root(
    bundle: &mut Bundle<'_>,
    index: Index,
    level: u32,
    cells: &[Vec<u8>],
) -> Result<(), Refused> {
    let is_empty = bundle.look(index.root, |page| {
        page.kind() == Some(Kind::Leaf) && page.owner() == index.object && page.slots() == 0
    })?;
    if !is_empty {
        return Err(Refused::Changed);
    }
    let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
    bundle.change(index.root, Change::Format { kind, owner: index.object, level })?;
    edit::insert_all(bundle, index.root, cells)
}

/// Bytes of the page number in a cell of an inner page.
const CHILD_BYTES: usize = 4;

/// The cell of a leaf.
pub(crate) fn leaf_cell(key: &[u8], id: RowId) -> Vec<u8> {
    let mut cell = Vec::with_capacity(key.len() + crate::row_id::ROW_ID_BYTES);
    cell.extend_from_slice(key);
    cell.extend_from_slice(&id.encode());
    cell
}

/// The cell of an inner page: the lower bound of all entries below, and the page that has them.
fn inner_cell(least: &[u8], child: u32) -> Vec<u8> {
    let mut cell = Vec::with_capacity(least.len() + CHILD_BYTES);
    cell.extend_from_slice(least);
    cell.extend_from_slice(&child.to_be_bytes());
    cell
}

/// The contents of an inner cell: the lower bound of all entries below, and the page that has them.
pub(crate) fn split_inner(cell: &[u8]) -> Option<(&[u8], u32)> {
    let (least, child) = cell.split_last_chunk::<CHILD_BYTES>()?;
    Some((least, u32::from_be_bytes(*child)))
}

/// The cell of an inner page below which `target` is. The first cell covers everything less than the second.
pub(crate) fn child_of(page: PageRef<'_>, target: &[u8]) -> Option<(usize, u32)> {
    let found = page.search(|cell| {
        let least = &cell[..cell.len().saturating_sub(CHILD_BYTES)];
        least.cmp(target)
    });
    let place = found.unwrap_or_else(|behind| behind.saturating_sub(1));
    let (_, child) = split_inner(page.cell(place)?.bytes)?;
    Some((place, child))
}
