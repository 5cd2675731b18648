//! Reading for one statement, apart from its transaction: what was committed when it began, and what the
//! transaction had changed by then.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;
use std::vec::IntoIter;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::Session;

use super::entries::Source;
use super::own::Changes;
use super::span::{Entry, Span};
use super::{Isolation, Transaction};
use crate::error::Error;
use crate::locks::Mode;
use crate::row_id::{RowId, RowRef};
use crate::store::{Key, Page, Place, Reader, Sample, Scan, TableSize, View};

/// What a statement reads. Clones read the same, also beside each other and beside its transaction, which
/// goes on; it stays as it is until the last of them is dropped.
#[derive(Clone)]
pub struct StatementView(Arc<Parts>);

struct Parts {
    view: Arc<View>,
    session: Session,
    own: Changes,
}

impl std::fmt::Debug for StatementView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementView").field("point", &self.point()).finish_non_exhaustive()
    }
}

impl Transaction {
    /// What the current statement reads: what it sees of others, and what this transaction has changed so far.
    /// Changes that follow are not in it. It costs no I/O, and copies nothing of what was changed.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn statement(&mut self) -> Result<StatementView, Error> {
        let view = Arc::clone(self.view().await?);
        let (session, own) = (self.session.clone(), self.own.share());
        Ok(StatementView(Arc::new(Parts { view, session, own })))
    }

    /// What is committed now, also what no statement of this transaction sees, with what it has changed so far: for
    /// who has locked a key, and looks who has referred to it before. Under READ COMMITTED a statement begins with it.
    ///
    /// # Errors
    /// The store has stopped.
    #[boxed]
    pub async fn look_anew(&mut self) -> Result<StatementView, Error> {
        self.saw_all();
        if self.isolation() == Isolation::ReadCommitted {
            self.begin_statement().await?;
            return self.statement().await;
        }
        let view = Arc::new(self.store.newest());
        let (session, own) = (self.session.clone(), self.own.share());
        Ok(StatementView(Arc::new(Parts { view, session, own })))
    }

    /// Whether a row has a key of a unique index now. Nobody takes the key from it, or gives it to one, before the
    /// transaction ends.
    ///
    /// # Errors
    /// [`Error::Lock`]; those of the device.
    #[boxed]
    pub async fn refer_to(&mut self, key: &Key) -> Result<bool, Error> {
        self.lock_key(key, Mode::Share).await?;
        let (newest, span) = (self.store.newest(), Span::of(key.index, &key.bytes));
        let source = Source { view: &newest, session: &self.session, own: self.own.changes() };
        let found = source.entries(&span, None, 1).await?;
        self.saw(&newest);
        Ok(!found.is_empty())
    }
}

impl Reader {
    /// What a statement reads in a read-only store.
    pub fn statement(&self, session: &Session) -> StatementView {
        let (view, session, own) = (Arc::new(self.view()), session.clone(), Changes::default());
        StatementView(Arc::new(Parts { view, session, own }))
    }
}

impl StatementView {
    /// Commits with LSNs below are seen.
    pub fn point(&self) -> u64 {
        self.0.view.point()
    }

    /// The bytes of a row; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn row(&self, table: u32, row: RowRef) -> Result<Option<Bytes>, Error> {
        self.read(table, row).await
    }

    /// The bytes of several rows, each `None` where there is none. Pages that are not in memory are read
    /// together.
    ///
    /// # Errors
    /// As [`StatementView::row`].
    #[boxed]
    pub async fn rows(&self, table: u32, rows: &[RowRef]) -> Result<Vec<Option<Bytes>>, Error> {
        let Parts { view, session, .. } = &*self.0;
        let mut found = Vec::with_capacity(rows.len());
        for some in rows.chunks(ROWS_TOGETHER) {
            let pages = some.iter().filter_map(|row| match row {
                RowRef::Stored(id) => Some(id.page),
                RowRef::Own(_) => None,
            });
            // They stay in memory until these rows are read.
            let _held = view.prepare(session, pages.collect()).await?;
            for row in some {
                found.push(self.read(table, *row).await?);
            }
        }
        Ok(found)
    }

    async fn read(&self, table: u32, row: RowRef) -> Result<Option<Bytes>, Error> {
        let Parts { view, session, own } = &*self.0;
        match (own.row(table, row), row) {
            (Some(own), _) => Ok(own),
            (None, RowRef::Stored(id)) => view.row(session, table, id).await,
            (None, RowRef::Own(_)) => Ok(None),
        }
    }

    /// Begins a scan of all rows of a table, in no order.
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn scan(&self, table: u32) -> Result<TableScan, Error> {
        let (changed, own) = self.own_rows(table);
        let (scan, session) = (Scan::new(Arc::clone(&self.0.view), table)?, self.0.session.clone());
        Ok(TableScan { scan, session, changed, own: own.into_iter() })
    }

    /// Divides a table among tasks that scan it in parallel. The division is fixed: a share is the same whenever it is
    /// read, even if the table grows meanwhile.
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn shares(&self, table: u32, shares: usize) -> Result<TableShares, Error> {
        let extents = self.0.view.extents_of(table)?;
        let (changed, own) = self.own_rows(table);
        Ok(TableShares { of: self.clone(), table, shares: shares.max(1), extents, changed, own })
    }

    /// The stored rows of a table that the transaction has changed or deleted, and what it has made of them,
    /// with those that it has inserted.
    fn own_rows(&self, table: u32) -> (Arc<HashSet<RowId>>, Vec<(RowRef, Bytes)>) {
        let (mut changed, mut own) = (HashSet::new(), Vec::new());
        for (row, bytes) in self.0.own.rows(table) {
            if let RowRef::Stored(id) = row {
                changed.insert(id);
            }
            own.extend(bytes.clone().map(|bytes| (row, bytes)));
        }
        (Arc::new(changed), own)
    }

    /// Begins to read the rows whose keys lie between these bounds, in the order of the keys or backwards. A bound
    /// stands for all keys that begin with it.
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn range(
        &self,
        index: u32,
        bounds: (Bound<Bytes>, Bound<Bytes>),
        backwards: bool,
    ) -> Result<RangeScan, Error> {
        self.0.view.check_index(index)?;
        let span = Span::new(index, bounds, backwards);
        Ok(RangeScan { of: self.clone(), span, last: None, is_over: false })
    }

    /// About how large a table is, without what the transaction has changed itself.
    ///
    /// # Errors
    /// As [`StatementView::row`]; [`Error::WrongObject`].
    #[boxed]
    pub async fn size(&self, table: u32) -> Result<TableSize, Error> {
        self.0.view.size(&self.0.session, table).await
    }

    /// The same, with some of its rows.
    ///
    /// # Errors
    /// As [`StatementView::size`].
    #[boxed]
    pub async fn sample(&self, table: u32) -> Result<Sample, Error> {
        self.0.view.sample(&self.0.session, table).await
    }

    /// About how many rows have keys between these bounds, without what the transaction has changed itself.
    ///
    /// # Errors
    /// As [`StatementView::size`].
    #[boxed]
    pub async fn expected(
        &self,
        index: u32,
        bounds: (Bound<Bytes>, Bound<Bytes>),
    ) -> Result<u64, Error> {
        let Span { low, high, .. } = Span::new(index, bounds, false);
        let bounds = (&low[..], high.as_deref());
        self.0.view.expected(&self.0.session, index, bounds).await
    }

    /// A long value, as a row has it: its first page, and its length in bytes.
    ///
    /// # Errors
    /// [`Error::NoValue`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn long(&self, table: u32, page: u32, length: u32) -> Result<Bytes, Error> {
        let Parts { view, session, own } = &*self.0;
        match own.long(page) {
            Some(value) => Ok(value),
            None => view.long(session, table, page, length).await,
        }
    }
}

/// Rows whose pages are read together.
const ROWS_TOGETHER: usize = 64;

/// Own rows that a scan gives at once.
const OWN_TOGETHER: usize = 256;

/// A table, divided among tasks that scan it.
#[derive(Debug)]
pub struct TableShares {
    of: StatementView,
    table: u32,
    shares: usize,
    extents: Vec<u32>,
    changed: Arc<HashSet<RowId>>,
    own: Vec<(RowRef, Bytes)>,
}

/// Rows of the transaction's own that are worth a task.
const OWN_OF_A_SHARE: usize = 1000;

impl TableShares {
    /// How many shares there are.
    pub fn count(&self) -> usize {
        self.shares
    }

    /// Begins to scan a share, from 0 on; those behind the last are empty.
    pub fn scan(&self, share: usize) -> TableScan {
        let part = |of: usize| {
            let (from, to) = (share * of / self.shares, (share + 1) * of / self.shares);
            from.min(of)..to.min(of)
        };
        let StatementView(parts) = &self.of;
        let extents = &self.extents[part(self.extents.len())];
        let scan = Scan::of(Arc::clone(&parts.view), self.table, extents);
        // Few rows come in the order in which they were inserted, behind those that are stored.
        let own = match self.own.len() < OWN_OF_A_SHARE * self.shares {
            true if share + 1 == self.shares => 0..self.own.len(),
            true => 0..0,
            false => part(self.own.len()),
        };
        let own = Vec::from(&self.own[own]).into_iter();
        TableScan { scan, session: parts.session.helper(), changed: Arc::clone(&self.changed), own }
    }
}

/// A scan of a table under way, or of a share of it.
pub struct TableScan {
    scan: Scan,
    session: Session,
    /// Stored rows that the transaction has changed or deleted.
    changed: Arc<HashSet<RowId>>,
    /// What it has made of them, and those that it has inserted.
    own: IntoIter<(RowRef, Bytes)>,
}

impl std::fmt::Debug for TableScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableScan").field("own", &self.own.len()).finish_non_exhaustive()
    }
}

impl TableScan {
    /// The next rows, mostly those of one page; `None` after the last. Others are read ahead. Dropping the call loses
    /// no row.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<RowBatch>, Error> {
        while let Some(page) = self.scan.next_page(&self.session).await? {
            let mut places: Vec<Place> = page.places().collect();
            if !self.changed.is_empty() {
                places.retain(|place| !self.changed.contains(&place.id));
            }
            if !places.is_empty() {
                return Ok(Some(RowBatch(Rows::Stored(page, places))));
            }
        }
        let own: Vec<(RowRef, Bytes)> = self.own.by_ref().take(OWN_TOGETHER).collect();
        Ok(if own.is_empty() { None } else { Some(RowBatch(Rows::Own(own))) })
    }
}

/// Rows that are read together. Their bytes are not copied: they stay in memory as long as this does.
pub struct RowBatch(Rows);

enum Rows {
    /// A page, and where its rows are.
    Stored(Page, Vec<Place>),
    Own(Vec<(RowRef, Bytes)>),
}

impl std::fmt::Debug for RowBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowBatch").field("rows", &self.len()).finish_non_exhaustive()
    }
}

impl RowBatch {
    /// How many rows it has: one or more.
    pub fn len(&self) -> usize {
        match &self.0 {
            Rows::Stored(_, places) => places.len(),
            Rows::Own(rows) => rows.len(),
        }
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of its rows.
    pub fn get(&self, at: usize) -> Option<(RowRef, &[u8])> {
        match &self.0 {
            Rows::Stored(page, places) => {
                let place = *places.get(at)?;
                Some((RowRef::Stored(place.id), page.row(place)))
            }
            Rows::Own(rows) => rows.get(at).map(|(row, bytes)| (*row, &bytes[..])),
        }
    }

    /// Its rows, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (RowRef, &[u8])> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

/// A range of an index that is read bit by bit.
#[derive(Debug)]
pub struct RangeScan {
    of: StatementView,
    span: Span,
    /// The entry that was given last.
    last: Option<Entry>,
    is_over: bool,
}

impl RangeScan {
    /// The next rows, at most this many, each with its key. Fewer: there are no others. Dropping the call loses no
    /// row.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn next(&mut self, count: usize) -> Result<Vec<(Bytes, RowRef)>, Error> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let Parts { view, session, own } = &*self.of.0;
        let source = Source { view, session, own };
        let found = source.entries(&self.span, self.last.as_ref(), count).await?;
        self.is_over = found.len() < count;
        self.last = found.last().cloned().or(self.last.take());
        Ok(found)
    }
}
