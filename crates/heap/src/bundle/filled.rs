//! A page of new rows that a large write set has filled before it enters the lane, which only takes it over.

use cellar_io::Buffer;
use cellar_page::{CellKind, Kind, PAGE_BYTES, PageRef, SLOT_BYTES};

use crate::change::Change;
use crate::frames::raw_mut;

/// A page that nobody else can see yet.
pub(crate) struct FilledPage {
    store: u64,
    page: u32,
    pub bytes: Buffer,
    /// How many changes it has had.
    pub changes: u64,
    /// These changes, as redo has them.
    pub redo: Vec<u8>,
    /// Slots that it uses, from 0.
    pub slots: usize,
}

impl FilledPage {
    /// An empty page of a table.
    pub fn new(store: u64, page: u32, table: u32) -> FilledPage {
        let (bytes, redo) = (Buffer::zeroed(PAGE_BYTES), Vec::with_capacity(PAGE_BYTES));
        let mut filled = FilledPage { store, page, bytes, changes: 0, redo, slots: 0 };
        filled.change(Change::Format { kind: Kind::Heap, owner: table, level: 0 });
        filled
    }

    fn change(&mut self, change: Change<'_>) {
        change.encode(self.page, &mut self.redo);
        change.apply(self.store, self.page, raw_mut(&mut self.bytes));
        self.changes += 1;
    }

    /// Bytes for another row and its slot.
    pub fn room(&self) -> usize {
        let raw = self.bytes[..].try_into().expect("it has the length of a page");
        PageRef::new(raw).room()
    }

    /// Puts a row into the next slot; false: it has no room.
    pub fn put(&mut self, row: &[u8]) -> bool {
        if row.len() + SLOT_BYTES > self.room() {
            return false;
        }
        self.change(Change::Put { slot: self.slots, kind: CellKind::Plain, bytes: row });
        self.slots += 1;
        true
    }
}
