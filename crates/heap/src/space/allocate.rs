//! Pages and extents that the lane takes into use and gives back.
//!
//! The first page of an extent has a byte for each of its pages: 0 where it is free. The extent map says
//! whose an extent is. Who may use which free page is decided in memory, before the lane: see `Space`.

use cellar_page::{HEADER_BYTES, Kind};

use crate::bundle::{Bundle, Refused, Spares};
use crate::change::Change;

/// What an extent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Use {
    Table = 1,
    Index = 2,
}

impl Use {
    pub fn from_number(number: u8) -> Option<Use> {
        [Use::Table, Use::Index].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Where in the first page of an extent the byte of its page `place` is.
pub(crate) fn byte_of(place: u32) -> usize {
    HEADER_BYTES + place as usize
}

/// The states of a page that is not free: it is in use; in a table it has hardly any room, or is one of a
/// long value.
pub(crate) const IN_USE: u8 = 1;
pub(crate) const FULL: u8 = 2;
pub(crate) const LONG: u8 = 3;

/// The state of a page.
pub(crate) fn state(bundle: &Bundle<'_>, page: u32) -> Result<u8, Refused> {
    let geometry = bundle.geometry();
    let first = geometry.first_page(geometry.extent_of(page));
    bundle.look(first, |at| at.bytes()[byte_of(page - first)])
}

/// Marks a page of an extent.
pub(crate) fn mark(bundle: &mut Bundle<'_>, page: u32, state: u8) -> Result<(), Refused> {
    let geometry = bundle.geometry();
    let first = geometry.first_page(geometry.extent_of(page));
    bundle.change(first, Change::Bytes { at: byte_of(page - first), bytes: &[state] })
}

/// Takes a free page of the object into use; the caller formats it.
pub(crate) fn use_page(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    object: u32,
) -> Result<u32, Refused> {
    let page = spares.take(object).ok_or(Refused::NeedsSpare(object))?;
    mark(bundle, page, IN_USE)?;
    Ok(page)
}

/// Gives a page back that nothing leads to any more.
pub(crate) fn give_back(
    bundle: &mut Bundle<'_>,
    spares: &mut Spares,
    object: u32,
    page: u32,
) -> Result<(), Refused> {
    bundle.change(page, Change::Format { kind: Kind::Free, owner: object, level: 0 })?;
    mark(bundle, page, 0)?;
    spares.freed.push((object, page));
    Ok(())
}

/// Makes an extent an object's.
pub(crate) fn take_extent(
    bundle: &mut Bundle<'_>,
    extent: u32,
    object: u32,
    kind: Use,
    is_first: bool,
) -> Result<(), Refused> {
    let geometry = bundle.geometry();
    let (map, at) = geometry.map_entry(extent);
    let [a, b, c, d] = object.to_le_bytes();
    let entry = [a, b, c, d, kind as u8, u8::from(is_first)];
    bundle.change(map, Change::Bytes { at, bytes: &entry })?;
    let first = geometry.first_page(extent);
    let format = Change::Format { kind: Kind::Space, owner: object, level: 0 };
    bundle.change(first, format)?;
    bundle.change(first, Change::Bytes { at: byte_of(0), bytes: &[IN_USE] })?;
    if is_first && kind == Use::Index {
        mark(bundle, first + 1, IN_USE)?;
        let root = Change::Format { kind: Kind::Leaf, owner: object, level: 0 };
        bundle.change(first + 1, root)?;
    }
    Ok(())
}

/// Makes an extent whose pages were written by the direct path an object's; this generation of the header has them.
pub(crate) fn adopt_extent(
    bundle: &mut Bundle<'_>,
    extent: u32,
    (object, kind): (u32, Use),
    generation: u64,
) -> Result<(), Refused> {
    let geometry = bundle.geometry();
    let (map, at) = geometry.map_entry(extent);
    let [a, b, c, d] = object.to_le_bytes();
    bundle.change(map, Change::Bytes { at, bytes: &[a, b, c, d, kind as u8, 0] })?;
    let (first, pages) = (geometry.first_page(extent), geometry.extent_pages as usize);
    bundle.note_unlogged(first, pages, generation);
    Ok(())
}

/// Takes extents away from an object: nobody's from then on.
pub(crate) fn release_extents(
    bundle: &mut Bundle<'_>,
    object: u32,
    extents: &[u32],
) -> Result<(), Refused> {
    for extent in extents {
        let (map, at) = bundle.geometry().map_entry(*extent);
        let owner = bundle.look(map, |page| {
            let bytes = page.bytes()[at..].first_chunk::<4>();
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        })?;
        if owner != object {
            return Err(Refused::Changed);
        }
        bundle.change(map, Change::Bytes { at, bytes: &[0; 6] })?;
    }
    Ok(())
}
