//! Rows in pages: how the lane puts, changes, moves and deletes them.
//!
//! A row is identified by where it was first placed. If it outgrows that page it moves, and leaves a
//! pointer to its new place; a moved row carries its old place.

use cellar_page::{CELL_BYTES_MAX, CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageRef, SLOT_BYTES};

use crate::bundle::{Bundle, FilledPage, Refused, Spares};
use crate::change::Change;
use crate::long::contents;
use crate::row_id::{ROW_ID_BYTES, RowId};
use crate::space::allocate;

/// The longest row, in bytes: alone in its page, with its old place.
pub const ROW_BYTES_MAX: usize = CELL_BYTES_MAX - ROW_ID_BYTES;

/// The shortest row, in bytes: a pointer to its new place must fit.
pub const ROW_BYTES_MIN: usize = ROW_ID_BYTES;

/// A row as its page has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Here(&'a [u8]),
    /// It has moved there.
    Elsewhere(RowId),
}

/// The row in a slot of a page, if there is one that begins there.
pub(crate) fn find(page: PageRef<'_>, slot: u16) -> Option<Found<'_>> {
    let cell = page.cell(usize::from(slot))?;
    match cell.kind {
        CellKind::Plain => Some(Found::Here(cell.bytes)),
        CellKind::Forward => RowId::decode(cell.bytes).map(Found::Elsewhere),
        CellKind::Moved => None,
    }
}

/// The row that has moved into a slot, and where it is known.
pub(crate) fn find_moved(page: PageRef<'_>, slot: u16) -> Option<(RowId, &[u8])> {
    let cell = page.cell(usize::from(slot)).filter(|cell| cell.kind == CellKind::Moved)?;
    let (home, row) = cell.bytes.split_at_checked(ROW_ID_BYTES)?;
    Some((RowId::decode(home)?, row))
}

/// Whether a page is one of this table's.
fn check_table(page: PageRef<'_>, table: u32) -> Result<(), Refused> {
    match page.kind() == Some(Kind::Heap) && page.owner() == table {
        true => Ok(()),
        false => Err(Refused::Changed),
    }
}

/// Makes a free page one of the table's.
pub(crate) fn format(bundle: &mut Bundle<'_>, table: u32, page: u32) -> Result<(), Refused> {
    allocate::mark(bundle, page, allocate::IN_USE)?;
    bundle.change(page, Change::Format { kind: Kind::Heap, owner: table, level: 0 })
}

/// Makes a free page that has been filled one of the table's.
pub(crate) fn take_over(
    bundle: &mut Bundle<'_>,
    page: u32,
    filled: FilledPage,
) -> Result<(), Refused> {
    let is_full = filled.room() < FULL_BELOW;
    let state = if is_full { allocate::FULL } else { allocate::IN_USE };
    allocate::mark(bundle, page, state)?;
    bundle.take_over(page, filled)
}

/// Checks that a row is where a filled page should have it.
pub(crate) fn check_filled(bundle: &Bundle<'_>, id: RowId, row: &[u8]) -> Result<(), Refused> {
    let is_there = bundle.look(id.page, |page| match find(page, id.slot) {
        Some(Found::Here(there)) => there.len() == row.len(),
        _ => false,
    })?;
    if is_there { Ok(()) } else { Err(Refused::Changed) }
}

/// Puts a new row into a page.
pub(crate) fn insert(
    bundle: &mut Bundle<'_>,
    table: u32,
    page: u32,
    row: &[u8],
) -> Result<RowId, Refused> {
    let slot = put(bundle, table, page, CellKind::Plain, row)?;
    Ok(RowId { page, slot })
}

fn put(
    bundle: &mut Bundle<'_>,
    table: u32,
    page: u32,
    kind: CellKind,
    bytes: &[u8],
) -> Result<u16, Refused> {
    let (slot, room) = bundle.look(page, |at| {
        check_table(at, table)?;
        let is_free = |slot: &usize| at.cell(*slot).is_none() && !bundle.is_resting(page, *slot);
        let slot = (0..PAGE_BYTES).find(is_free).ok_or(Refused::NoPlace)?;
        let more = (slot + 1).saturating_sub(at.slots()) * SLOT_BYTES;
        match at.room().checked_sub(bytes.len() + more) {
            Some(left) => Ok((slot, (at.room(), left))),
            None => Err(Refused::NoPlace),
        }
    })??;
    bundle.change(page, Change::Put { slot, kind, bytes })?;
    if room.0 >= FULL_BELOW && room.1 < FULL_BELOW {
        allocate::mark(bundle, page, allocate::FULL)?;
    }
    Ok(slot as u16)
}

/// A page with less room than this counts as full.
pub(crate) const FULL_BELOW: usize = 1024;

/// A page with this much room no longer counts as full.
const OPEN_FROM: usize = 2048;

/// Frees a slot, and lists the page as having room if it now has.
fn free(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    table: u32,
    at: RowId,
) -> Result<(), Refused> {
    bundle.change(at.page, Change::Free { slot: usize::from(at.slot) })?;
    if bundle.look(at.page, |page| page.room())? >= OPEN_FROM {
        if allocate::state(bundle, at.page)? == allocate::FULL {
            allocate::mark(bundle, at.page, allocate::IN_USE)?;
        }
        spares.opened.push((table, at.page));
    }
    Ok(())
}

/// Where the bytes of a row are now.
fn locate(bundle: &Bundle<'_>, table: u32, id: RowId) -> Result<Option<RowId>, Refused> {
    bundle.look(id.page, |page| {
        check_table(page, table)?;
        match find(page, id.slot) {
            Some(Found::Here(_)) => Ok(None),
            Some(Found::Elsewhere(there)) => Ok(Some(there)),
            None => Err(Refused::Changed),
        }
    })?
}

/// Gives a row other bytes. Where they do not fit it moves to the page `elsewhere`.
pub(crate) fn update(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    (table, id): (u32, RowId),
    row: &[u8],
    elsewhere: Option<u32>,
) -> Result<(), Refused> {
    let moved = locate(bundle, table, id)?;
    let (now, skip) = moved.map_or((id, 0), |there| (there, ROW_ID_BYTES));
    let kind = if moved.is_some() { CellKind::Moved } else { CellKind::Plain };
    let change = bundle.look(now.page, |page| {
        let cell = page.cell(usize::from(now.slot)).ok_or(Refused::Changed)?;
        let old = cell.bytes.get(skip..).ok_or(Refused::Changed)?;
        let fits = row.len() <= old.len() + page.room();
        Ok(fits.then(|| difference(old, row)))
    })??;
    if let Some((new, removed)) = change {
        let (slot, at) = (usize::from(now.slot), skip + new.start);
        return bundle
            .change(now.page, Change::Splice { slot, kind, at, removed, bytes: &row[new] });
    }
    let target = elsewhere.ok_or(Refused::NoPlace)?;
    let mut cell = id.encode().to_vec();
    cell.extend_from_slice(row);
    let slot = put(bundle, table, target, CellKind::Moved, &cell)?;
    if let Some(there) = moved {
        free(bundle, spares, table, there)?;
    }
    let way = RowId { page: target, slot }.encode();
    let home = usize::from(id.slot);
    let removed =
        bundle.look(id.page, |page| page.cell(home).map_or(0, |cell| cell.bytes.len()))?;
    let kind = CellKind::Forward;
    bundle.change(id.page, Change::Splice { slot: home, kind, at: 0, removed, bytes: &way })
}

/// Deletes a row.
pub(crate) fn delete(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    table: u32,
    id: RowId,
) -> Result<(), Refused> {
    if let Some(there) = locate(bundle, table, id)? {
        free(bundle, spares, table, there)?;
    }
    free(bundle, spares, table, id)
}

/// Writes a long value into free pages.
pub(crate) fn put_long(
    bundle: &mut Bundle<'_>,
    table: u32,
    pages: &[u32],
    value: &[u8],
) -> Result<(), Refused> {
    contents(pages, value).try_for_each(|(page, level, body)| {
        allocate::mark(bundle, page, allocate::LONG)?;
        bundle.change(page, Change::Format { kind: Kind::Overflow, owner: table, level })?;
        bundle.change(page, Change::Bytes { at: HEADER_BYTES, bytes: &body })
    })
}

/// Frees the pages of a long value. They stay as they are: a reader that sees the value may still read it.
pub(crate) fn free_long(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    table: u32,
    pages: &[u32],
) -> Result<(), Refused> {
    for page in pages {
        if allocate::state(bundle, *page)? != allocate::LONG {
            return Err(Refused::Changed);
        }
        allocate::mark(bundle, *page, 0)?;
        spares.rested.push((table, *page));
    }
    Ok(())
}

/// Where `new` differs from `old`, and how many bytes of `old` that replaces.
fn difference(old: &[u8], new: &[u8]) -> (std::ops::Range<usize>, usize) {
    let start = common(old, new);
    let (old, rest) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(rest.iter().rev()).take_while(|(old, new)| old == new).count();
    (start..new.len() - end, old.len() - end)
}

/// How many bytes both begin with.
fn common(old: &[u8], new: &[u8]) -> usize {
    const STEP: usize = 32;
    let whole = old.chunks_exact(STEP).zip(new.chunks_exact(STEP));
    let start = whole.take_while(|(old, new)| old == new).count() * STEP;
    let rest = old[start..].iter().zip(&new[start..]);
    start + rest.take_while(|(old, new)| old == new).count()
}
