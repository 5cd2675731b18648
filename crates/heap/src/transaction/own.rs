//! What a transaction has changed and nobody else sees: rows and keys, in the order of the keys, and how to
//! take the last changes back.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::row_id::{RowId, RowRef};
use crate::store::{Change, Key, LongValues, TakenPages};

/// What becomes of a row.
#[derive(Clone, Debug, Default)]
struct RowChange {
    /// `None`: it is deleted.
    row: Option<Bytes>,
    gone: Vec<Key>,
    new: Vec<Key>,
}

/// Where the last changes can be taken back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(usize);

/// How a change is taken back.
enum Undo {
    Row((u32, RowRef), Option<RowChange>),
    Key((u32, Bytes, RowRef), Option<bool>),
    /// The long value that begins in this page was written.
    NewLong(u32),
    /// That one, written by this transaction, was freed.
    DroppedLong(u32, NewLong),
    /// That one, which was there before, was freed.
    FreedLong(u32),
}

/// A long value that nobody else sees, and its pages.
type NewLong = (TakenPages, Bytes);

/// The changes of a transaction.
#[derive(Default)]
pub(super) struct Own {
    rows: BTreeMap<(u32, RowRef), RowChange>,
    /// By index, key and row: whether the row has the key now.
    keys: BTreeMap<(u32, Bytes, RowRef), bool>,
    /// Long values by their first pages.
    longs: BTreeMap<u32, NewLong>,
    /// Long values that are freed, by their first pages: the table, and all pages.
    freed: BTreeMap<u32, (u32, Vec<u32>)>,
    undo: Vec<Undo>,
    inserted: u32,
}

impl Own {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.freed.is_empty()
    }

    /// A long value that this transaction has written.
    pub fn long(&self, page: u32) -> Option<Bytes> {
        self.longs.get(&page).map(|(_, value)| value.clone())
    }

    /// Adds a long value. Returns its first page.
    pub fn put_long(&mut self, pages: TakenPages, value: Bytes) -> Option<u32> {
        let first = *pages.pages.first()?;
        self.longs.insert(first, (pages, value));
        self.undo.push(Undo::NewLong(first));
        Some(first)
    }

    /// Frees a long value that this transaction has written; false where it has not.
    pub fn drop_long(&mut self, page: u32) -> bool {
        let Some(long) = self.longs.remove(&page) else { return false };
        self.undo.push(Undo::DroppedLong(page, long));
        true
    }

    /// Frees the pages of a long value that was there before.
    pub fn free_long(&mut self, table: u32, pages: Vec<u32>) {
        let Some(first) = pages.first().copied() else { return };
        if self.freed.insert(first, (table, pages)).is_none() {
            self.undo.push(Undo::FreedLong(first));
        }
    }

    /// What it says of a row: `None` where it does not know it, `Some(None)` where it is deleted.
    pub fn row(&self, table: u32, row: RowRef) -> Option<Option<Bytes>> {
        self.rows.get(&(table, row)).map(|change| change.row.clone())
    }

    /// Its keys in a range: rows that have them now, and rows that have them no longer.
    pub fn range(
        &self,
        index: u32,
        keys: RangeInclusive<Bytes>,
    ) -> impl Iterator<Item = (&Bytes, RowRef, bool)> {
        let (first, last) = keys.into_inner();
        let from = (index, first, RowRef::Stored(RowId { page: 0, slot: 0 }));
        let all = self.keys.range(from..);
        let inside = all.take_while(move |((of, key, _), _)| {
            *of == index && (*key <= last || key.starts_with(&last))
        });
        inside.map(|((_, key, row), present)| (key, *row, *present))
    }

    /// Adds a row.
    pub fn insert(&mut self, table: u32, row: Bytes, keys: Vec<Key>) -> RowRef {
        let id = RowRef::Own(self.inserted);
        self.inserted += 1;
        keys.iter().for_each(|key| self.set_key(key, id, true));
        self.set_row((table, id), Some(RowChange { row: Some(row), gone: Vec::new(), new: keys }));
        id
    }

    /// Gives a row other bytes (`None`: deletes it) and other keys.
    pub fn change(
        &mut self,
        (table, id): (u32, RowRef),
        row: Option<Bytes>,
        gone: Vec<Key>,
        new: Vec<Key>,
    ) {
        gone.iter().for_each(|key| self.set_key(key, id, false));
        new.iter().for_each(|key| self.set_key(key, id, true));
        let mut change = self.rows.get(&(table, id)).cloned().unwrap_or_default();
        change.row = row;
        for key in gone {
            // One that it got here was never in the index.
            match change.new.iter().position(|other| *other == key) {
                Some(place) => drop(change.new.swap_remove(place)),
                None => change.gone.push(key),
            }
        }
        for key in new {
            match change.gone.iter().position(|other| *other == key) {
                Some(place) => drop(change.gone.swap_remove(place)),
                None => change.new.push(key),
            }
        }
        let is_nothing = change.row.is_none() && matches!(id, RowRef::Own(_));
        self.set_row((table, id), if is_nothing { None } else { Some(change) });
    }

    fn set_row(&mut self, at: (u32, RowRef), change: Option<RowChange>) {
        let before = match change {
            Some(change) => self.rows.insert(at, change),
            None => self.rows.remove(&at),
        };
        self.undo.push(Undo::Row(at, before));
    }

    fn set_key(&mut self, key: &Key, row: RowRef, present: bool) {
        let at = (key.index, key.bytes.clone(), row);
        let before = self.keys.insert(at.clone(), present);
        self.undo.push(Undo::Key(at, before));
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    /// Takes back what was done since. One that was taken back itself counts for nothing.
    pub fn rollback_to(&mut self, Savepoint(length): Savepoint) {
        while self.undo.len() > length {
            match self.undo.pop() {
                Some(Undo::Row(at, Some(before))) => drop(self.rows.insert(at, before)),
                Some(Undo::Row(at, None)) => drop(self.rows.remove(&at)),
                Some(Undo::Key(at, Some(before))) => drop(self.keys.insert(at, before)),
                Some(Undo::Key(at, None)) => drop(self.keys.remove(&at)),
                Some(Undo::NewLong(page)) => drop(self.longs.remove(&page)),
                Some(Undo::DroppedLong(page, long)) => drop(self.longs.insert(page, long)),
                Some(Undo::FreedLong(page)) => drop(self.freed.remove(&page)),
                None => {}
            }
        }
    }

    /// The changes as a commit takes them.
    pub fn into_changes(self) -> (Vec<Change>, LongValues) {
        let change = |((table, id), RowChange { row, gone, new })| match (id, row) {
            (RowRef::Own(_), Some(row)) => Some(Change::Insert { table, row, keys: new }),
            (RowRef::Own(_), None) => None,
            (RowRef::Stored(id), Some(row)) => Some(Change::Update { table, id, row, gone, new }),
            (RowRef::Stored(id), None) => Some(Change::Delete { table, id, keys: gone }),
        };
        let (new, freed) = (self.longs.into_values(), self.freed.into_values());
        let values = LongValues { new: new.collect(), freed: freed.collect() };
        (self.rows.into_iter().filter_map(change).collect(), values)
    }
}
