//! An index that the lane changes: entries come and go, pages split and are freed.

use cellar_page::{Kind, SLOT_BYTES};

use super::{Index, child_of, inner_cell, split_inner};
use crate::bundle::{Bundle, Refused, Spares};
use crate::change::Change;
use crate::space::allocate;

/// An index being changed.
pub(super) struct Edit<'a, 'b> {
    pub bundle: &'a mut Bundle<'b>,
    pub spares: &'a mut Spares,
    pub index: Index,
}

/// A page on the way down, and where in it the way goes on.
struct Step {
    page: u32,
    place: usize,
}

/// The path from the root to the leaf where `cell` is, or would be.
fn descend(bundle: &Bundle<'_>, index: Index, cell: &[u8]) -> Result<(Vec<Step>, u32), Refused> {
    let mut way = Vec::with_capacity(4);
    let mut page = index.root;
    loop {
        let below = bundle.look(page, |page| match page.kind() {
            Some(Kind::Leaf) if page.owner() == index.object => Ok(None),
            Some(Kind::Inner) if page.owner() == index.object => {
                child_of(page, cell).map(Some).ok_or(Refused::Changed)
            }
            _ => Err(Refused::Changed),
        })??;
        let Some((place, child)) = below else { return Ok((way, page)) };
        way.push(Step { page, place });
        page = child;
    }
}

impl Edit<'_, '_> {
    /// Puts an entry into the index.
    pub fn add(&mut self, cell: &[u8]) -> Result<(), Refused> {
        let (way, leaf) = descend(self.bundle, self.index, cell)?;
        let place = self.bundle.look(leaf, |page| page.search(|other| other.cmp(cell)))?;
        let Err(place) = place else { return Err(Refused::Changed) };
        self.insert(way, Step { page: leaf, place }, cell)
    }

    /// Puts entries into the index whose cells rise: the way to a leaf is searched once for all that come there.
    pub fn add_sorted(&mut self, cells: impl Iterator<Item = Vec<u8>>) -> Result<(), Refused> {
        let mut cells = cells.peekable();
        while let Some(mut cell) = cells.next() {
            let (way, leaf) = descend(self.bundle, self.index, &cell)?;
            let bound = self.bound(&way)?;
            loop {
                let (place, has_room) = self.bundle.look(leaf, |page| {
                    let place = page.search(|other| other.cmp(&cell));
                    (place, cell.len() + SLOT_BYTES <= page.room())
                })?;
                let Err(place) = place else { return Err(Refused::Changed) };
                if !has_room {
                    self.insert(way, Step { page: leaf, place }, &cell)?;
                    break;
                }
                self.bundle.change(leaf, Change::Insert { place, bytes: &cell })?;
                // A cell that does not rise after all is searched from the root.
                let is_here = |next: &Vec<u8>| {
                    *next > cell && bound.as_ref().is_none_or(|bound| next < bound)
                };
                match cells.next_if(is_here) {
                    Some(next) => cell = next,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// The lower bound of what follows the leaf at the end of a path; `None`: nothing does.
    fn bound(&self, way: &[Step]) -> Result<Option<Vec<u8>>, Refused> {
        for Step { page, place } in way.iter().rev() {
            let next = self.bundle.look(*page, |page| {
                let cell = page.cell(place + 1)?;
                split_inner(cell.bytes).map(|(least, _)| least.to_vec())
            })?;
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Puts a cell into a page, splitting that and those above it as needed.
    fn insert(&mut self, mut way: Vec<Step>, at: Step, cell: &[u8]) -> Result<(), Refused> {
        let Step { page, place } = at;
        if self.bundle.look(page, |page| cell.len() + SLOT_BYTES <= page.room())? {
            return self.bundle.change(page, Change::Insert { place, bytes: cell });
        }
        let (left, right_least, right) = self.split(page, place, cell)?;
        let right_cell = inner_cell(&right_least, right);
        let Some(above) = way.pop() else {
            let level = self.bundle.look(page, |page| page.level())? + 1;
            let (kind, owner) = (Kind::Inner, self.index.object);
            self.bundle.change(page, Change::Format { kind, owner, level })?;
            let cells = [inner_cell(b"", left), right_cell];
            return insert_all(self.bundle, page, &cells);
        };
        let behind = Step { page: above.page, place: above.place + 1 };
        self.insert(way, behind, &right_cell)
    }

    /// Splits the cells of a full page and a new one over two pages: the old one and a new one, or two new
    /// ones if it is the root. Returns the left one, the separator, and the right one.
    fn split(
        &mut self,
        page: u32,
        place: usize,
        cell: &[u8],
    ) -> Result<(u32, Vec<u8>, u32), Refused> {
        let (mut cells, kind, level) = self.bundle.look(page, |page| {
            let cells = (0..page.slots()).filter_map(|slot| page.cell(slot));
            let cells: Vec<Vec<u8>> = cells.map(|cell| cell.bytes.to_vec()).collect();
            (cells, page.kind(), page.level())
        })?;
        let kind = kind.ok_or(Refused::Changed)?;
        let is_last = place == cells.len();
        cells.insert(place, cell.to_vec());
        let at = division(&cells, is_last);
        let (is_root, owner) = (page == self.index.root, self.index.object);
        let right = allocate::use_page(self.bundle, self.spares, owner)?;
        self.bundle.change(right, Change::Format { kind, owner, level })?;
        insert_all(self.bundle, right, &cells[at..])?;
        let mut left = page;
        if is_root {
            left = allocate::use_page(self.bundle, self.spares, owner)?;
            self.bundle.change(left, Change::Format { kind, owner, level })?;
            insert_all(self.bundle, left, &cells[..at])?;
        } else if place < at {
            // One more than before is on this side.
            self.bundle.change(page, Change::Truncate { place: at - 1 })?;
            self.bundle.change(page, Change::Insert { place, bytes: cell })?;
        } else {
            self.bundle.change(page, Change::Truncate { place: at })?;
        }
        let least = match kind {
            Kind::Leaf => separator(&cells[at - 1], &cells[at]),
            _ => {
                split_inner(&cells[at]).map(|(least, _)| least.to_vec()).ok_or(Refused::Changed)?
            }
        };
        Ok((left, least, right))
    }

    /// Removes an entry from the index, and frees pages that are empty then.
    pub fn remove(&mut self, cell: &[u8]) -> Result<(), Refused> {
        let (mut way, leaf) = descend(self.bundle, self.index, cell)?;
        let place = self.bundle.look(leaf, |page| page.search(|other| other.cmp(cell)))?;
        let Ok(mut place) = place else { return Err(Refused::Changed) };
        let (mut page, owner) = (leaf, self.index.object);
        loop {
            self.bundle.change(page, Change::Remove { place })?;
            if self.bundle.look(page, |page| page.slots() > 0)? {
                return Ok(());
            }
            let Some(above) = way.pop() else {
                // Nothing is left below the root.
                return self
                    .bundle
                    .change(page, Change::Format { kind: Kind::Leaf, owner, level: 0 });
            };
            allocate::give_back(self.bundle, self.spares, owner, page)?;
            (page, place) = (above.page, above.place);
        }
    }
}

/// Puts cells into an empty page.
pub(super) fn insert_all(
    bundle: &mut Bundle<'_>,
    page: u32,
    cells: &[Vec<u8>],
) -> Result<(), Refused> {
    let mut cells = cells.iter().enumerate();
    cells.try_for_each(|(place, bytes)| bundle.change(page, Change::Insert { place, bytes }))
}

/// How many cells go left: half of the bytes, or all but the last where keys arrive in ascending order.
fn division(cells: &[Vec<u8>], is_last: bool) -> usize {
    if is_last {
        return cells.len() - 1;
    }
    let bytes: usize = cells.iter().map(|cell| cell.len() + SLOT_BYTES).sum();
    let mut left = 0;
    for (at, cell) in cells.iter().enumerate() {
        left += cell.len() + SLOT_BYTES;
        if left * 2 >= bytes {
            return (at + 1).min(cells.len() - 1);
        }
    }
    cells.len() - 1
}

/// The shortest bytes that are more than `left` and at most `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    right[..(common + 1).min(right.len())].to_vec()
}
