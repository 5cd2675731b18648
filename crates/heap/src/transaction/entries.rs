//! Entries of indexes as a transaction sees them: those of a view, with what it has made of them itself.

use std::cmp::Ordering;
use std::ops::{Bound, RangeInclusive};
use std::vec::IntoIter;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::Session;

use super::Transaction;
use super::own::Changes;
use super::span::{Entry, Span};
use crate::error::Error;
use crate::row_id::RowRef;
use crate::store::View;

/// What entries are read from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub view: &'a View,
    pub session: &'a Session,
    pub own: &'a Changes,
}

/// Entries of pages that are read as they are asked for.
struct Stored<'a> {
    source: Source<'a>,
    span: &'a Span,
    /// The last one that was read.
    last: Option<Entry>,
    read: IntoIter<Entry>,
    is_over: bool,
}

impl Stored<'_> {
    /// Has the next one be read, if there is one: of at most so many that are wanted still.
    async fn fill(&mut self, wanted: usize) -> Result<(), Error> {
        if self.is_over || !self.read.as_slice().is_empty() {
            return Ok(());
        }
        let Source { view, session, .. } = self.source;
        let (low, high) = self.span.stored_after(self.last.as_ref());
        let (span, bounds) = (self.span, (&low[..], high.as_deref()));
        let found = view.entries(session, span.index, bounds, span.backwards, wanted).await?;
        let entry = |(key, id)| (Bytes::from(key), RowRef::Stored(id));
        let found: Vec<Entry> = found.into_iter().map(entry).collect();
        self.is_over = found.len() < wanted;
        self.last = found.last().cloned().or(self.last.take());
        self.read = found.into_iter();
        Ok(())
    }
}

impl Source<'_> {
    /// So many entries of a span, behind the one that was given last. Fewer: there are no others.
    pub async fn entries(
        self,
        span: &Span,
        after: Option<&Entry>,
        count: usize,
    ) -> Result<Vec<Entry>, Error> {
        let mut own = self.own.keys(span, after).peekable();
        let (last, read) = (after.cloned(), Vec::new().into_iter());
        let mut stored = Stored { source: self, span, last, read, is_over: false };
        let mut found = Vec::new();
        while found.len() < count {
            stored.fill(count - found.len()).await?;
            let order = match (stored.read.as_slice().first(), own.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, row)), Some((own_key, own_row, _))) => {
                    let order = (key, row).cmp(&(*own_key, own_row));
                    if span.backwards { order.reverse() } else { order }
                }
            };
            if order == Ordering::Less {
                found.extend(stored.read.next());
                continue;
            }
            if order == Ordering::Equal {
                stored.read.next();
            }
            let next = own.next().filter(|(_, _, is_present)| *is_present);
            found.extend(next.map(|(key, row, _)| (key.clone(), row)));
        }
        Ok(found)
    }
}

impl Transaction {
    /// The rows whose keys lie in a range, in the order of the keys.
    ///
    /// # Errors
    /// As [`Transaction::entries`].
    #[boxed]
    pub async fn range(
        &mut self,
        index: u32,
        keys: RangeInclusive<Bytes>,
    ) -> Result<Vec<(Bytes, RowRef)>, Error> {
        let (first, last) = keys.into_inner();
        let bounds = (Bound::Included(first), Bound::Included(last));
        self.entries(index, bounds, false, usize::MAX).await
    }

    /// The first so many rows whose keys lie between these bounds, in the order of the keys or backwards, each
    /// with its key. A bound stands for all keys that begin with it. No more than that is read.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn entries(
        &mut self,
        index: u32,
        bounds: (Bound<Bytes>, Bound<Bytes>),
        backwards: bool,
        count: usize,
    ) -> Result<Vec<(Bytes, RowRef)>, Error> {
        let (session, span) = (self.session.clone(), Span::new(index, bounds, backwards));
        self.view().await?;
        let Some(view) = self.view.as_deref() else { return Ok(Vec::new()) };
        let source = Source { view, session: &session, own: self.own.changes() };
        source.entries(&span, None, count).await
    }
}
