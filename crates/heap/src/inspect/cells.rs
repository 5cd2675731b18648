//! The cells of pages of rows and of indexes, slot by slot.

use cellar_page::{Cell, CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageRef, Raw, SLOT_BYTES};

use super::text;
use super::tree::Inspection;
use crate::counters;
use crate::index::{entry_of, split_inner};
use crate::row_id::RowId;
use crate::rows::{Found, ROW_BYTES_MIN, find, find_moved};

/// The most slots that lie within a page.
const SLOTS_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / SLOT_BYTES;

/// Describes all slots of a page of this kind.
pub(super) fn describe(page: PageRef<'_>, kind: Kind) -> Vec<Inspection> {
    // What compares with the next cell: cells of indexes are in order.
    let mut before = None;
    let mut describe = |slot: usize| {
        let name = format!("slot {slot}");
        let told = match (page.cell(slot), kind) {
            (None, Kind::Heap) if is_free(page.bytes(), slot) => Ok("free".to_owned()),
            (None, _) => Err(nonsense(page.bytes(), slot)),
            (Some(cell), Kind::Heap) => row(page, slot, cell),
            (Some(cell), _) if cell.kind != CellKind::Plain => {
                Err(format!("a cell of rows in an index: {}", text::bytes(cell.bytes)))
            }
            (Some(cell), Kind::Leaf) => ordered(&mut before, Some(cell.bytes), entry(cell.bytes)),
            (Some(cell), _) => {
                let least = split_inner(cell.bytes).map(|(least, _)| least);
                // The first one stands for all that is less, whatever it says.
                ordered(&mut before, least.filter(|_| slot > 0), child(cell.bytes))
            }
        };
        Inspection::of(name, told)
    };
    (0..page.slots().min(SLOTS_MAX)).map(&mut describe).collect()
}

fn slot_bytes(raw: &Raw, slot: usize) -> &[u8] {
    let at = HEADER_BYTES + slot * SLOT_BYTES;
    raw.get(at..at + SLOT_BYTES).unwrap_or_default()
}

fn is_free(raw: &Raw, slot: usize) -> bool {
    slot_bytes(raw, slot) == [0; SLOT_BYTES]
}

fn nonsense(raw: &Raw, slot: usize) -> String {
    match is_free(raw, slot) {
        true => "free, in a page of an index".to_owned(),
        false => format!("it leads to no cell: {}", text::bytes(slot_bytes(raw, slot))),
    }
}

/// What a cell says, if it is behind the one before.
fn ordered<'a>(
    before: &mut Option<&'a [u8]>,
    this: Option<&'a [u8]>,
    told: Result<String, String>,
) -> Result<String, String> {
    let is_behind = match (*before, this) {
        (Some(before), Some(this)) => before < this,
        _ => true,
    };
    *before = this.or(*before);
    match is_behind {
        true => told,
        false => told.and_then(|told| Err(format!("it is not behind the slot before: {told}"))),
    }
}

/// A cell of a page of rows.
fn row(page: PageRef<'_>, slot: usize, cell: Cell<'_>) -> Result<String, String> {
    let number = u16::try_from(slot).unwrap_or(u16::MAX);
    let bytes = text::bytes(cell.bytes);
    if cell.kind == CellKind::Moved {
        let (home, row) = find_moved(page, number)
            .ok_or_else(|| format!("a row that has moved, and not from where: {bytes}"))?;
        return Ok(format!("row moved from {}, {}", place(home), text::bytes(row)));
    }
    match find(page, number) {
        Some(Found::Elsewhere(to)) => Ok(format!("forward to {}", place(to))),
        Some(Found::Here(row)) if row.len() < ROW_BYTES_MIN => {
            Err(format!("a row has {ROW_BYTES_MIN} bytes at least: {bytes}"))
        }
        Some(Found::Here(row)) if page.owner() == counters::COUNTERS => match counters::decode(row)
        {
            Some((counter, next)) => Ok(format!("counter {counter}, goes on with {next}")),
            None => Err(format!("no row of a counter: {bytes}")),
        },
        Some(Found::Here(_)) => Ok(format!("row, {bytes}")),
        None => Err(format!("a forward that leads nowhere: {bytes}")),
    }
}

fn place(id: RowId) -> String {
    format!("page {} slot {}", id.page, id.slot)
}

/// A cell of a leaf.
fn entry(cell: &[u8]) -> Result<String, String> {
    let (key, id) =
        entry_of(cell).ok_or_else(|| format!("no entry of an index: {}", text::bytes(cell)))?;
    Ok(format!("row in {}, key of {}", place(id), text::bytes(&key)))
}

/// A cell of an inner page.
fn child(cell: &[u8]) -> Result<String, String> {
    let (least, child) =
        split_inner(cell).ok_or_else(|| format!("no way to a page: {}", text::bytes(cell)))?;
    Ok(format!("page {child}, from {}", text::bytes(least)))
}
