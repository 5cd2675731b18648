//! Changes of a transaction that nobody else sees: rows and keys, in the order of the keys, and how to
//! take the last changes back.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::layers::Layers;
use super::span::{Entry, Span};
use crate::change::CHANGE_BYTES;
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
    DroppedLong(u32, TakenPages, Option<Bytes>),
    /// That one, which was there before, was freed.
    FreedLong(u32),
}

/// The first row of all, and the last.
const FIRST: RowRef = RowRef::Stored(RowId { page: 0, slot: 0 });
const LAST: RowRef = RowRef::Own(u32::MAX);

/// What a transaction has made of rows, keys and long values.
#[derive(Default)]
pub(super) struct Changes {
    rows: Layers<(u32, RowRef), RowChange>,
    /// By index, key and row: whether the row has the key now.
    keys: Layers<(u32, Bytes, RowRef), bool>,
    /// New long values by their first pages.
    values: Layers<u32, Bytes>,
}

impl Changes {
    /// What it is now, which stays as it is.
    pub fn share(&mut self) -> Changes {
        let Changes { rows, keys, values } = self;
        Changes { rows: rows.share(), keys: keys.share(), values: values.share() }
    }

    /// A long value that was written.
    pub fn long(&self, page: u32) -> Option<Bytes> {
        self.values.get(&page).cloned()
    }

    /// What it says of a row: `None` where it does not know it, `Some(None)` where it is deleted.
    pub fn row(&self, table: u32, row: RowRef) -> Option<Option<Bytes>> {
        self.rows.get(&(table, row)).map(|change| change.row.clone())
    }

    /// The rows of a table that it knows, in order: `None` where one is deleted.
    pub fn rows(&self, table: u32) -> impl Iterator<Item = (RowRef, &Option<Bytes>)> {
        let (first, last) = ((table, FIRST), (table, LAST));
        let all = self.rows.range(Bound::Included(&first), Bound::Included(&last), false);
        all.map(|((_, row), change)| (*row, &change.row))
    }

    /// Its keys in a span, behind the entry that was given last: rows that have them now, and rows that have them
    /// no longer.
    pub fn keys(
        &self,
        span: &Span,
        after: Option<&Entry>,
    ) -> impl Iterator<Item = (&Bytes, RowRef, bool)> {
        let Span { index, low, high, backwards } = span;
        let mut from = Bound::Included((*index, low.clone(), FIRST));
        let mut to = match (high, index.checked_add(1)) {
            (Some(high), _) => Bound::Excluded((*index, high.clone(), FIRST)),
            (None, Some(next)) => Bound::Excluded((next, Bytes::new(), FIRST)),
            (None, None) => Bound::Unbounded,
        };
        if let Some((key, row)) = after {
            let place = Bound::Excluded((*index, key.clone(), *row));
            *(if *backwards { &mut to } else { &mut from }) = place;
        }
        let all = self.keys.range(from.as_ref(), to.as_ref(), *backwards);
        all.map(|((_, key, row), present)| (key, *row, *present))
    }
}

/// About how many bytes of redo a change of a row takes.
fn row_bytes(change: Option<&RowChange>) -> u64 {
    let row = change.and_then(|change| change.row.as_ref()).map_or(0, Bytes::len);
    (row + 2 * CHANGE_BYTES) as u64
}

/// The same of a key.
fn key_bytes(key: &Bytes) -> u64 {
    (key.len() + 2 * CHANGE_BYTES) as u64
}

/// The changes of a transaction.
#[derive(Default)]
pub(super) struct Own {
    changes: Changes,
    /// The pages of new long values, by the first.
    longs: BTreeMap<u32, TakenPages>,
    /// Long values that are freed, by their first pages: the table, and all pages.
    freed: BTreeMap<u32, (u32, Vec<u32>)>,
    undo: Vec<Undo>,
    /// Changes that are taken back no more.
    settled: usize,
    inserted: u32,
    /// Of all rows, keys and values.
    bytes: u64,
}

impl Own {
    /// About how many bytes of redo its changes take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.freed.is_empty() && self.changes.rows.is_empty()
    }

    /// What it has changed.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What it has changed so far, which stays as it is.
    pub fn share(&mut self) -> Changes {
        self.changes.share()
    }

    /// Adds a long value. Returns its first page.
    pub fn put_long(&mut self, pages: TakenPages, value: Bytes) -> Option<u32> {
        let first = *pages.pages.first()?;
        self.bytes += value.len() as u64;
        self.longs.insert(first, pages);
        self.changes.values.set(first, Some(value));
        self.undo.push(Undo::NewLong(first));
        Some(first)
    }

    /// Frees a long value that this transaction has written; false where it has not.
    pub fn drop_long(&mut self, page: u32) -> bool {
        let Some(pages) = self.longs.remove(&page) else { return false };
        let value = self.changes.values.set(page, None);
        self.bytes -= value.as_ref().map_or(0, |value| value.len() as u64);
        self.undo.push(Undo::DroppedLong(page, pages, value));
        true
    }

    /// Frees the pages of a long value that was there before.
    pub fn free_long(&mut self, table: u32, pages: Vec<u32>) {
        let Some(first) = pages.first().copied() else { return };
        if self.freed.insert(first, (table, pages)).is_none() {
            self.undo.push(Undo::FreedLong(first));
        }
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
        let before = self.changes.rows.get(&(table, id));
        let mut change = before.cloned().unwrap_or_default();
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
        self.bytes += row_bytes(change.as_ref());
        let before = self.changes.rows.set(at, change);
        self.undo.push(Undo::Row(at, before));
    }

    fn set_key(&mut self, key: &Key, row: RowRef, present: bool) {
        self.bytes += key_bytes(&key.bytes);
        let at = (key.index, key.bytes.clone(), row);
        let before = self.changes.keys.set(at.clone(), Some(present));
        self.undo.push(Undo::Key(at, before));
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    /// Takes back what was done since. One that was taken back itself counts for nothing.
    pub fn rollback_to(&mut self, Savepoint(length): Savepoint) {
        while self.undo.len() > length {
            match self.undo.pop() {
                Some(Undo::Row(at, before)) => {
                    let gone = self.changes.rows.set(at, before);
                    self.bytes -= row_bytes(gone.as_ref());
                }
                Some(Undo::Key(at, before)) => {
                    self.bytes -= key_bytes(&at.1);
                    self.changes.keys.set(at, before);
                }
                Some(Undo::NewLong(page)) => {
                    let gone = self.changes.values.set(page, None);
                    self.bytes -= gone.map_or(0, |value| value.len() as u64);
                    self.longs.remove(&page);
                }
                Some(Undo::DroppedLong(page, pages, value)) => {
                    self.bytes += value.as_ref().map_or(0, |value| value.len() as u64);
                    self.changes.values.set(page, value);
                    self.longs.insert(page, pages);
                }
                Some(Undo::FreedLong(page)) => drop(self.freed.remove(&page)),
                None => {}
            }
        }
    }

    /// How many changes of rows and keys there were; those that were taken back count for nothing.
    pub fn steps(&self) -> usize {
        self.settled + self.undo.len()
    }

    /// The pages and bytes of new long values.
    pub fn long_size(&self) -> (usize, u64) {
        let pages = self.longs.values().map(|taken| taken.pages.len()).sum();
        let lengths = self.longs.keys().filter_map(|first| self.changes.values.get(first));
        (pages, lengths.map(|value| value.len() as u64).sum())
    }

    /// The tables whose rows are changed, each with how many.
    pub fn tables(&self) -> Vec<(u32, u64)> {
        let mut found: Vec<(u32, u64)> = Vec::new();
        for ((table, _), _) in self.changes.rows.range(Bound::Unbounded, Bound::Unbounded, false) {
            match found.last_mut() {
                Some((last, rows)) if last == table => *rows += 1,
                _ => found.push((*table, 1)),
            }
        }
        found
    }

    /// Gives up all that was done to a table with these indexes. Nothing from before is taken back any more.
    pub fn give_up(&mut self, table: u32, indexes: &[u32]) {
        self.undo.clear();
        self.longs.retain(|first, taken| {
            let is_kept = taken.table != table;
            if !is_kept {
                self.changes.values.set(*first, None);
            }
            is_kept
        });
        self.freed.retain(|_, (of, _)| *of != table);
        let rows = self.changes.rows(table).map(|(row, _)| row).collect::<Vec<_>>();
        for row in rows {
            self.changes.rows.set((table, row), None);
        }
        for index in indexes {
            let all = Span::new(*index, (Bound::Unbounded, Bound::Unbounded), false);
            let keys = self.changes.keys(&all, None);
            let keys: Vec<_> = keys.map(|(key, row, _)| (*index, key.clone(), row)).collect();
            for key in keys {
                self.changes.keys.set(key, None);
            }
        }
        let Changes { rows, keys, .. } = &self.changes;
        let rows = rows.range(Bound::Unbounded, Bound::Unbounded, false);
        let rows = rows.map(|(_, change)| row_bytes(Some(change)));
        let keys = keys.range(Bound::Unbounded, Bound::Unbounded, false);
        let keys = keys.map(|((_, key, _), _)| key_bytes(key));
        let (mut settled, mut bytes) = (0, 0);
        rows.chain(keys).for_each(|own| (settled, bytes) = (settled + 1, bytes + own));
        (self.settled, self.bytes) = (settled, bytes + self.long_size().1);
    }

    /// The changes of rows and keys as a commit takes them, while it keeps them.
    pub fn copied(&mut self) -> Vec<Change> {
        as_changes(self.changes.share().rows)
    }

    /// The changes as a commit takes them.
    pub fn into_changes(self) -> (Vec<Change>, LongValues) {
        let Changes { rows, values, .. } = self.changes;
        let new = self.longs.into_iter().filter_map(|(first, pages)| {
            let value = values.get(&first).cloned();
            value.map(|value| (pages, value))
        });
        let values = LongValues { new: new.collect(), freed: self.freed.into_values().collect() };
        (as_changes(rows), values)
    }
}

fn as_changes(rows: Layers<(u32, RowRef), RowChange>) -> Vec<Change> {
    let change = |((table, id), RowChange { row, gone, new })| match (id, row) {
        (RowRef::Own(_), Some(row)) => Some(Change::Insert { table, row, keys: new }),
        (RowRef::Own(_), None) => None,
        (RowRef::Stored(id), Some(row)) => Some(Change::Update { table, id, row, gone, new }),
        (RowRef::Stored(id), None) => Some(Change::Delete { table, id, keys: gone }),
    };
    rows.into_map().filter_map(change).collect()
}
