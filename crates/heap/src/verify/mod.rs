//! Verification of a store at a snapshot: whether each page matches what every reference to it says, whether space
//! pages know which pages are in use, and whether indexes and tables agree.
//!
//! It handles one table or index after the other. It keeps in memory a byte for each page of a table and of one of
//! its indexes, and a limited number of findings: no rows, no entries.

mod agree;
mod finding;
mod index;
mod long;
mod pages;
mod space;
mod table;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_page::{check, seal};
use cellar_wait::Session;

use crate::error::Error;
use crate::frames::{Image, raw_mut};
use crate::space::allocate::Use;
use crate::store::View;
use crate::transaction::RowKey;

use agree::{Agree, Expected};
pub use finding::Finding;
pub use long::{LongValue, LongsOf};
use pages::Pages;
use space::Objects;

/// A table and the indexes of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOf {
    /// The number of the table.
    pub table: u32,
    /// The numbers of its indexes.
    pub indexes: Vec<u32>,
}

/// The keys of a row of a table, by its bytes; `None` where they cannot be read as a row of that table.
pub type KeysOf<'a> = dyn Fn(u32, &[u8]) -> Option<Vec<RowKey>> + Send + Sync + 'a;

/// What the caller knows of the bytes of rows.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    /// Their keys. Without, rows and entries are compared by the rows' places only, one entry for each row.
    pub keys: Option<&'a KeysOf<'a>>,
    /// Their long values. Without, no page of one is missed.
    pub longs: Option<&'a LongsOf<'a>>,
}

impl std::fmt::Debug for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keys, longs) = (self.keys.is_some(), self.longs.is_some());
        f.debug_struct("Known").field("keys", &keys).field("longs", &longs).finish()
    }
}

/// Is told of bytes of pages that were looked at, as they come.
pub type Read<'a> = dyn Fn(u64) + Send + Sync + 'a;

/// What a check has looked at, and what it has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Pages that are in use, and those that say which are.
    pub pages: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Entries of all indexes.
    pub entries: u64,
    /// The findings, up to the limit.
    pub findings: Vec<Finding>,
    /// How many more findings there were.
    pub left_out: u64,
}

/// The most findings that a report has.
const FINDINGS_MAX: usize = 1000;

impl Report {
    fn find(&mut self, finding: Finding) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(finding),
            false => self.left_out += 1,
        }
    }
}

/// A check in progress.
struct Verify<'a> {
    view: &'a View,
    session: &'a Session,
    keys: Option<&'a KeysOf<'a>>,
    longs: Option<&'a LongsOf<'a>>,
    read: &'a Read<'a>,
    report: Report,
    /// The page that was looked at last: it is often asked for again at once.
    last: Option<(u32, Arc<Image>)>,
}

impl View {
    /// Checks the whole store as this view sees it. All pages of all objects are read; of the tables that
    /// are given it also looks whether their indexes have an entry for each row and no others. Without
    /// `keys` it compares rows and entries by the rows' places only, one entry for each row.
    ///
    /// Pages that are in memory are checked there, and not read again from the disk.
    ///
    /// A damaged page has no consequences: pages that only it refers to, and index entries for its rows, are not
    /// reported.
    ///
    /// # Errors
    /// Those of the device. A damaged page is a finding, and no error.
    #[boxed]
    pub async fn verify(
        &self,
        session: &Session,
        tables: &[TableOf],
        keys: Option<&KeysOf<'_>>,
    ) -> Result<Report, Error> {
        self.verify_telling(session, tables, keys, &|_| ()).await
    }

    /// The same; `read` is told how it goes on, of at most [`View::bytes`] or somewhat more.
    ///
    /// # Errors
    /// As [`View::verify`].
    #[boxed]
    pub async fn verify_telling(
        &self,
        session: &Session,
        tables: &[TableOf],
        keys: Option<&KeysOf<'_>>,
        read: &Read<'_>,
    ) -> Result<Report, Error> {
        self.verify_with(session, tables, Known { keys, longs: None }, read).await
    }

    /// The same; where the long values of rows are known each is followed from its row, and pages that none leads to
    /// are found.
    ///
    /// # Errors
    /// As [`View::verify`].
    #[boxed]
    pub async fn verify_with<'a>(
        &'a self,
        session: &'a Session,
        tables: &'a [TableOf],
        known: Known<'a>,
        read: &'a Read<'a>,
    ) -> Result<Report, Error> {
        let (report, last, Known { keys, longs }) = (Report::default(), None, known);
        let mut verify = Verify { view: self, session, keys, longs, read, report, last };
        verify.run(tables).await?;
        Ok(verify.report)
    }
}

impl Verify<'_> {
    async fn run(&mut self, tables: &[TableOf]) -> Result<(), Error> {
        let objects = self.objects().await?;
        let listed: BTreeSet<u32> = tables.iter().flat_map(|of| of.indexes.clone()).collect();
        let wanted = tables.iter().map(|of| (of.table, Use::Table));
        for (object, kind) in wanted.chain(listed.iter().map(|index| (*index, Use::Index))) {
            self.check_there(&objects, object, kind);
        }
        let mut done: BTreeSet<u32> = BTreeSet::new();
        for table in objects.of_kind(Use::Table) {
            let of = tables.iter().find(|of| of.table == table);
            let indexes = of.map_or(&[][..], |of| &of.indexes[..]);
            self.table_and_indexes(&objects, table, indexes).await?;
            done.extend(indexes);
        }
        for index in objects.of_kind(Use::Index).filter(|index| !done.contains(index)) {
            let mut pages = self.pages(&objects, index).await?;
            self.index(&objects, &mut pages, None).await?;
        }
        Ok(())
    }

    /// Whether the caller's objects are in the store, as far as the extent map can be read.
    fn check_there(&mut self, objects: &Objects, object: u32, kind: Use) {
        if !objects.is_of(object, kind) && objects.dark.is_empty() {
            let expected = if kind == Use::Table { "table" } else { "index" };
            self.report.find(Finding::NotThere { object, expected });
        }
    }

    async fn table_and_indexes(
        &mut self,
        objects: &Objects,
        table: u32,
        indexes: &[u32],
    ) -> Result<(), Error> {
        let mut rows = self.pages(objects, table).await?;
        let indexes = indexes.iter().filter(|index| objects.is_of(**index, Use::Index));
        let mut expected: Vec<Expected> = indexes.map(|index| Expected::of(*index)).collect();
        self.table(&mut rows, &mut expected).await?;
        for expected in &expected {
            let mut pages = self.pages(objects, expected.index).await?;
            let mut agree = Agree::new(expected.index, &mut rows);
            let root = self.index(objects, &mut pages, Some(&mut agree)).await?;
            if let Some(root) = root.filter(|_| !agree.is_as(expected)) {
                self.missing(root, &mut rows).await?;
            }
        }
        Ok(())
    }

    /// A page as the view sees it, or what is wrong with it. Pages in memory are checked like those on disk.
    async fn load(&mut self, page: u32) -> Result<Result<Arc<Image>, Finding>, Error> {
        if let Some((_, image)) = self.last.as_ref().filter(|(last, _)| *last == page) {
            return Ok(Ok(Arc::clone(image)));
        }
        (self.read)(cellar_page::PAGE_BYTES as u64);
        let frames = self.view.frames();
        let frame = match frames.load(self.session, page).await {
            Ok(frame) => frame,
            Err(Error::PageDamaged { page, damage }) => {
                return Ok(Err(Finding::PageDamaged { page, damage }));
            }
            Err(Error::Older { lsn, end, .. }) => {
                return Ok(Err(Finding::PageNewer { page, lsn, end }));
            }
            Err(error) => return Err(error),
        };
        let image = frames.image_at(self.session, &frame, self.view.point()).await;
        let image = self.view.check(image)?;
        let mut copy = image.copy();
        let raw = raw_mut(&mut copy);
        seal(raw);
        if let Err(damage) = check(raw, frames.store(), page) {
            return Ok(Err(Finding::PageDamaged { page, damage }));
        }
        self.last = Some((page, Arc::clone(&image)));
        Ok(Ok(image))
    }

    /// Something leads to a page that is what it should be: notes that, and finds it where its space page says
    /// that it is free.
    fn reach(&mut self, pages: &mut Pages, page: u32) {
        if pages.get(page).is_some_and(|mark| mark.is_free()) {
            let (space, object) = (pages.space_of(page), pages.object);
            self.report.find(Finding::MarkedFree { page, space, object });
        }
        pages.set_reached(page);
    }
}
