//! A page that is changed. The same changes to the same page give the same bytes: redo relies on it.

use crate::header::{
    CELLS_START, HEADER_BYTES, HOLES, KIND, Kind, LEVEL, LSN, NUMBER, OWNER, PAGE_BYTES, Raw,
    SLOTS, STORE, VERSION, VERSION_AT, set_u16, set_u32, u16_at,
};
use crate::slots::{
    CELLS_END, CellKind, PageRef, SLOT_BYTES, Slot, slot_at, slot_bytes, slot_position,
};

/// A page being changed. The caller must know that a change fits: it asks [`PageRef::room`] first.
pub struct PageMut<'a>(&'a mut Raw);

impl std::fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl<'a> PageMut<'a> {
    /// Changes `page`.
    #[inline]
    pub fn new(page: &'a mut Raw) -> PageMut<'a> {
        PageMut(page)
    }

    /// Makes an empty page of these bytes, whatever they were.
    pub fn format(
        page: &'a mut Raw,
        store: u64,
        number: u32,
        kind: Kind,
        owner: u32,
    ) -> PageMut<'a> {
        page.fill(0);
        page[STORE..STORE + 8].copy_from_slice(&store.to_le_bytes());
        set_u32(page, NUMBER, number);
        page[KIND] = kind as u8;
        page[VERSION_AT] = VERSION;
        set_u16(page, CELLS_START, CELLS_END);
        set_u32(page, OWNER, owner);
        PageMut(page)
    }

    /// The page as it is now.
    #[inline]
    pub fn get(&self) -> PageRef<'_> {
        PageRef(self.0)
    }

    /// Sets the record that changed it last.
    #[inline]
    pub fn set_lsn(&mut self, lsn: u64) {
        self.0[LSN..LSN + 8].copy_from_slice(&lsn.to_le_bytes());
    }

    /// Sets its level above the leaves.
    pub fn set_level(&mut self, level: u32) {
        set_u32(self.0, LEVEL, level);
    }

    /// Writes bytes to a page that has no cells.
    ///
    /// # Panics
    /// It has cells, or there is no such place after the header.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(self.get().slots() == 0 && at >= HEADER_BYTES, "bytes behind the header, no cells");
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts a cell of a byte or more into a free slot, or into one past the last. Slots in between
    /// become free slots.
    ///
    /// # Panics
    /// The slot is in use, or there is no room.
    pub fn put(&mut self, slot: usize, kind: CellKind, bytes: &[u8]) {
        let slots = self.get().slots();
        assert!(slot >= slots || slot_at(self.0, slot).is_none(), "slot {slot} is in use");
        assert!(!bytes.is_empty(), "a cell has a byte at least");
        let more = (slot + 1).saturating_sub(slots) * SLOT_BYTES;
        assert!(bytes.len() + more <= self.get().room(), "a cell of {} bytes fits", bytes.len());
        if more + bytes.len() > self.get().gap() {
            self.compact();
        }
        if more > 0 {
            let (from, to) = (slot_position(slots), slot_position(slot + 1));
            self.0[from..to].fill(0);
            set_u16(self.0, SLOTS, slot + 1);
        }
        self.write_cell(slot, kind, bytes);
    }

    /// Frees a slot; the others keep their numbers.
    ///
    /// # Panics
    /// It is free.
    pub fn free(&mut self, slot: usize) {
        self.drop_cell(slot);
        self.write_slot(slot, None);
        let slots = self.get().slots();
        let used = (0..slots).rev().find(|slot| slot_at(self.0, *slot).is_some());
        set_u16(self.0, SLOTS, used.map_or(0, |last| last + 1));
    }

    /// Inserts a cell before the one at `place`; that one and all after it move up.
    ///
    /// # Panics
    /// There is no such place, or no room.
    pub fn insert(&mut self, place: usize, bytes: &[u8]) {
        let slots = self.get().slots();
        assert!(place <= slots, "place {place} of {slots}");
        assert!(!bytes.is_empty(), "a cell has a byte at least");
        assert!(bytes.len() + SLOT_BYTES <= self.get().room(), "{} bytes fit", bytes.len());
        if bytes.len() + SLOT_BYTES > self.get().gap() {
            self.compact();
        }
        let (from, end) = (slot_position(place), slot_position(slots));
        self.0.copy_within(from..end, from + SLOT_BYTES);
        set_u16(self.0, SLOTS, slots + 1);
        self.write_cell(place, CellKind::Plain, bytes);
    }

    /// Removes the cell at `place`; those after it move down.
    ///
    /// # Panics
    /// There is none.
    pub fn remove(&mut self, place: usize) {
        self.drop_cell(place);
        let slots = self.get().slots();
        let (from, end) = (slot_position(place), slot_position(slots));
        self.0.copy_within(from + SLOT_BYTES..end, from);
        set_u16(self.0, SLOTS, slots - 1);
    }

    /// Removes all cells from `place` on.
    pub fn truncate(&mut self, place: usize) {
        for slot in (place..self.get().slots()).rev() {
            if slot_at(self.0, slot).is_some() {
                self.drop_cell(slot);
            }
        }
        set_u16(self.0, SLOTS, place);
    }

    /// Replaces the bytes `at..at + removed` of a cell by others, and its kind.
    ///
    /// # Panics
    /// There is no such cell, it is shorter, or there is no room.
    pub fn splice(&mut self, slot: usize, kind: CellKind, at: usize, removed: usize, bytes: &[u8]) {
        let old = slot_at(self.0, slot).unwrap_or_else(|| panic!("slot {slot} has a cell"));
        assert!(at + removed <= old.length, "{at} + {removed} is in the cell");
        if removed == bytes.len() {
            self.0[old.at + at..old.at + at + removed].copy_from_slice(bytes);
            self.write_slot(slot, Some(Slot { kind, ..old }));
            return;
        }
        let length = old.length - removed + bytes.len();
        assert!(length <= old.length + self.get().room(), "the longer cell fits");
        assert!(length > 0, "a cell has a byte at least");
        let mut cell = [0; PAGE_BYTES];
        let behind = old.at + at + removed;
        cell[..at].copy_from_slice(&self.0[old.at..old.at + at]);
        cell[at..at + bytes.len()].copy_from_slice(bytes);
        cell[at + bytes.len()..length].copy_from_slice(&self.0[behind..old.at + old.length]);
        if length < old.length {
            // The rest of its place becomes a hole.
            self.0[old.at..old.at + length].copy_from_slice(&cell[..length]);
            self.write_slot(slot, Some(Slot { length, kind, ..old }));
            self.add_hole(old.length - length);
            return;
        }
        self.drop_cell(slot);
        self.write_slot(slot, None);
        if length > self.get().gap() {
            self.compact();
        }
        self.write_cell(slot, kind, &cell[..length]);
    }

    /// Moves the cells together, so that all room is between them and the slots.
    fn compact(&mut self) {
        let old = *self.0;
        let mut start = CELLS_END;
        for slot in 0..self.get().slots() {
            let Some(cell) = slot_at(&old, slot) else { continue };
            start -= cell.length;
            self.0[start..start + cell.length]
                .copy_from_slice(&old[cell.at..cell.at + cell.length]);
            self.write_slot(slot, Some(Slot { at: start, ..cell }));
        }
        set_u16(self.0, CELLS_START, start);
        set_u16(self.0, HOLES, 0);
    }

    fn write_cell(&mut self, slot: usize, kind: CellKind, bytes: &[u8]) {
        let at = self.get().cells_start() - bytes.len();
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        set_u16(self.0, CELLS_START, at);
        self.write_slot(slot, Some(Slot { at, length: bytes.len(), kind }));
    }

    fn write_slot(&mut self, slot: usize, value: Option<Slot>) {
        let position = slot_position(slot);
        self.0[position..position + SLOT_BYTES].copy_from_slice(&slot_bytes(value));
    }

    /// Makes the place of a cell free.
    fn drop_cell(&mut self, slot: usize) {
        let cell = slot_at(self.0, slot).unwrap_or_else(|| panic!("slot {slot} has a cell"));
        if cell.at == self.get().cells_start() {
            set_u16(self.0, CELLS_START, cell.at + cell.length);
            return;
        }
        self.add_hole(cell.length);
    }

    fn add_hole(&mut self, bytes: usize) {
        let holes = usize::from(u16_at(self.0, HOLES)) + bytes;
        set_u16(self.0, HOLES, holes);
    }
}

const _: () = assert!(HEADER_BYTES < PAGE_BYTES && CELLS_END <= u16::MAX as usize);
