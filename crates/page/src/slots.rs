//! A page that is read: its header, its slots, its cells.
//!
//! A page that is read here has passed [`crate::check`], or was made by [`crate::PageMut`].

use std::cmp::Ordering;

use crate::header::{
    CELLS_START, HEADER_BYTES, HOLES, KIND, Kind, LEVEL, LSN, NUMBER, OWNER, PAGE_BYTES, Raw,
    SLOTS, STORE, u16_at, u32_at, u64_at,
};

/// Bytes of a slot: where its cell begins (2), how long it is (13 bits) and of which kind (3 bits).
pub const SLOT_BYTES: usize = 4;

const LENGTH_BITS: u16 = 13;
const LENGTH_MASK: u16 = (1 << LENGTH_BITS) - 1;

/// What a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellKind {
    /// A row in its place, or an entry of an index.
    Plain = 1,
    /// The row is elsewhere, at this page (4 bytes) and slot (2).
    Forward = 2,
    /// A row that has moved here: the page and slot that point to it, then the row.
    Moved = 3,
}

impl CellKind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<CellKind> {
        [CellKind::Plain, CellKind::Forward, CellKind::Moved]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A cell and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// What it is.
    pub kind: CellKind,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A slot that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub at: usize,
    pub length: usize,
    pub kind: CellKind,
}

impl Slot {
    /// Whether it is possible in a page whose cells begin at `start`.
    pub fn is_within(self, start: usize) -> bool {
        self.at >= start && self.length > 0 && self.at + self.length <= CELLS_END
    }
}

/// Where the slot with this number is.
#[inline]
pub(crate) fn slot_position(slot: usize) -> usize {
    HEADER_BYTES + slot * SLOT_BYTES
}

/// A slot as it is stored; `None` where it is free or impossible.
#[inline]
pub(crate) fn slot_at(page: &Raw, slot: usize) -> Option<Slot> {
    let position = slot_position(slot);
    let (at, length) = (u16_at(page, position), u16_at(page, position + 2));
    let kind = CellKind::from_number((length >> LENGTH_BITS) as u8)?;
    Some(Slot { at: usize::from(at), length: usize::from(length & LENGTH_MASK), kind })
}

/// What stands in a slot.
pub(crate) fn slot_bytes(slot: Option<Slot>) -> [u8; SLOT_BYTES] {
    let Some(slot) = slot else { return [0; SLOT_BYTES] };
    assert!(slot.length <= usize::from(LENGTH_MASK), "a cell fits a page");
    let length = slot.length as u16 | u16::from(slot.kind as u8) << LENGTH_BITS;
    let (at, length) = ((slot.at as u16).to_le_bytes(), length.to_le_bytes());
    [at[0], at[1], length[0], length[1]]
}

/// A page to be read.
#[derive(Clone, Copy)]
pub struct PageRef<'a>(pub(crate) &'a Raw);

impl std::fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, lsn) = (self.number(), self.lsn());
        write!(f, "page {number} ({:?}, {} slots, LSN {lsn})", self.kind(), self.slots())
    }
}

impl<'a> PageRef<'a> {
    /// Looks at `page`.
    #[inline]
    pub fn new(page: &'a Raw) -> PageRef<'a> {
        PageRef(page)
    }

    /// Its number in the store.
    #[inline]
    pub fn number(self) -> u32 {
        u32_at(self.0, NUMBER)
    }

    /// The store that it belongs to.
    pub fn store(self) -> u64 {
        u64_at(self.0, STORE)
    }

    /// Where the redo record that changed it last begins.
    #[inline]
    pub fn lsn(self) -> u64 {
        u64_at(self.0, LSN)
    }

    /// What it holds; `None` for a page that was never written.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_number(self.0[KIND])
    }

    /// The number of the table or index that it belongs to.
    pub fn owner(self) -> u32 {
        u32_at(self.0, OWNER)
    }

    /// In an index, its level above the leaves.
    pub fn level(self) -> u32 {
        u32_at(self.0, LEVEL)
    }

    /// How many slots it has, free ones included.
    #[inline]
    pub fn slots(self) -> usize {
        usize::from(u16_at(self.0, SLOTS))
    }

    /// The cell of a slot; `None` where the slot is free or absent.
    #[inline]
    pub fn cell(self, slot: usize) -> Option<Cell<'a>> {
        if slot >= self.slots() {
            return None;
        }
        let Slot { at, length, kind } = slot_at(self.0, slot)?;
        Some(Cell { kind, bytes: self.0.get(at..at + length)? })
    }

    /// Bytes that cells and slots can still take, if the cells are moved together.
    #[inline]
    pub fn room(self) -> usize {
        self.gap() + usize::from(u16_at(self.0, HOLES))
    }

    /// Bytes between the slots and the cells.
    #[inline]
    pub(crate) fn gap(self) -> usize {
        self.cells_start() - slot_position(self.slots())
    }

    #[inline]
    pub(crate) fn cells_start(self) -> usize {
        usize::from(u16_at(self.0, CELLS_START))
    }

    /// The first free slot; if there is none, the one past the last.
    pub fn free_slot(self) -> usize {
        let slots = self.slots();
        (0..slots).find(|slot| slot_at(self.0, *slot).is_none()).unwrap_or(slots)
    }

    /// In a page whose cells are in order: the place where `order` finds its match, or where that
    /// would go.
    #[inline]
    pub fn search(self, mut order: impl FnMut(&[u8]) -> Ordering) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.slots());
        while from < to {
            let middle = (from + to) / 2;
            let bytes = self.cell(middle).map_or(&[][..], |cell| cell.bytes);
            match order(bytes) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// The bytes of the page.
    pub fn bytes(self) -> &'a Raw {
        self.0
    }
}

/// The end of the page, where the first cell ends.
pub(crate) const CELLS_END: usize = PAGE_BYTES;
