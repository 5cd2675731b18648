//! A span of keys of an index, in the order in which it is read.

use std::ops::Bound;

use bytes::Bytes;

use crate::index::{behind, leaf_cell};
use crate::row_id::RowRef;

/// An entry of an index: the key, and the row that has it.
pub(super) type Entry = (Bytes, RowRef);

/// A span of keys of an index.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub index: u32,
    /// Keys are at least this.
    pub low: Bytes,
    /// Keys are less than this.
    pub high: Option<Bytes>,
    pub backwards: bool,
}

impl Span {
    /// The keys between these bounds. One that is meant stands for all keys that begin with it, and so does one
    /// that is not meant.
    pub fn new(index: u32, bounds: (Bound<Bytes>, Bound<Bytes>), backwards: bool) -> Span {
        let low = match bounds.0 {
            Bound::Included(key) => key,
            Bound::Excluded(key) => behind(&key).into(),
            Bound::Unbounded => Bytes::new(),
        };
        let high = match bounds.1 {
            Bound::Included(key) => Some(behind(&key).into()),
            Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        Span { index, low, high, backwards }
    }

    /// Those with one key.
    pub fn of(index: u32, key: &Bytes) -> Span {
        Span { index, low: key.clone(), high: Some(behind(key).into()), backwards: false }
    }

    /// Between which bytes, the first included, the entries of pages are that come behind the one that was given
    /// last.
    pub fn stored_after(&self, after: Option<&Entry>) -> (Bytes, Option<Bytes>) {
        let (low, high) = (self.low.clone(), self.high.clone());
        let Some((key, row)) = after else { return (low, high) };
        // Own rows come behind all stored ones that have the key.
        let cell = match row {
            RowRef::Stored(id) => leaf_cell(key, *id),
            RowRef::Own(_) => behind(key),
        };
        match (self.backwards, row) {
            (true, _) => (low, Some(cell.into())),
            (false, RowRef::Own(_)) => (cell.into(), high),
            (false, RowRef::Stored(_)) => ([&cell[..], &[0]].concat().into(), high),
        }
    }
}
