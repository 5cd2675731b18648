//! A scan of a table at a snapshot: page after page, with others on their way meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{EnvExt, Handle, Io};
use cellar_page::Kind;
use cellar_wait::Session;

use super::read::View;
use crate::error::Error;
use crate::frames::{Frame, Image};
use crate::row_id::RowId;
use crate::rows::{Found, find, find_moved};
use crate::space::allocate;

/// Extents that a scan reads at once, if the cache is large enough for them.
const AHEAD_MAX: usize = 16;

/// A scan under way.
pub(crate) struct Scan {
    view: Arc<View>,
    table: u32,
    extents: VecDeque<u32>,
    /// In tasks: who reads pages has them to itself until it is polled again.
    ahead: VecDeque<Handle<Result<Vec<Page>, Error>>>,
    read: VecDeque<Page>,
}

/// A page of rows.
pub(crate) struct Page {
    number: u32,
    image: Arc<Image>,
}

/// A row that is in a page.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Where it is known.
    pub id: RowId,
    /// Where its bytes are.
    at: u16,
    length: u16,
}

impl Page {
    /// The rows that are here.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let page = self.image.page();
        let start = page.bytes().as_ptr() as usize;
        (0..page.slots() as u16).filter_map(move |slot| {
            let (id, row) = match find(page, slot) {
                Some(Found::Here(row)) => (RowId { page: self.number, slot }, row),
                Some(Found::Elsewhere(_)) => return None,
                None => find_moved(page, slot)?,
            };
            // They are the page's own bytes.
            let at = row.as_ptr() as usize - start;
            Some(Place { id, at: at as u16, length: row.len() as u16 })
        })
    }

    /// Places for rows, some of which may be free.
    pub fn slots(&self) -> usize {
        self.image.page().slots()
    }

    /// The bytes of a row.
    pub fn row(&self, place: Place) -> &[u8] {
        let at = usize::from(place.at);
        self.image.page().bytes().get(at..at + usize::from(place.length)).unwrap_or_default()
    }

    /// The rows that begin here, and those that have moved here, each with where it is known.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, Found<'_>)> {
        let page = self.image.page();
        (0..page.slots() as u16).filter_map(move |slot| match find(page, slot) {
            Some(found) => Some((RowId { page: self.number, slot }, found)),
            None => find_moved(page, slot).map(|(home, row)| (home, Found::Here(row))),
        })
    }
}

impl View {
    /// Brings pages into memory for as long as the returned value lives. Missing pages are read together, in a
    /// task of their own, so that nobody waits for them if the caller is not polled.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        session: &Session,
        mut pages: Vec<u32>,
    ) -> Result<Vec<Arc<Frame>>, Error> {
        pages.sort_unstable();
        pages.dedup();
        let frames = &self.pages.frames;
        let mut held = Vec::with_capacity(pages.len());
        pages.retain(|page| match frames.resident(*page) {
            Some(frame) => {
                held.push(frame);
                false
            }
            None => true,
        });
        if !pages.is_empty() {
            let (view, session) = (Arc::clone(self), session.clone());
            let read =
                async move { view.pages.frames.load_all(&session, Io::FOREGROUND, pages).await };
            let read = frames.env().run("read of rows", read).await;
            held.extend(self.check(read.ok_or_else(super::objects::ended)?)?);
        }
        Ok(held)
    }

    /// All rows of a table, in no order.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn scan(&self, session: &Session, table: u32) -> Result<Vec<(RowId, Bytes)>, Error> {
        let mut rows = Vec::new();
        for extent in self.pages.space.extents(table)? {
            for page in self.pages_of(session, table, extent).await? {
                let here = page.rows().filter_map(|(id, found)| match found {
                    Found::Here(row) => Some((id, Bytes::copy_from_slice(row))),
                    Found::Elsewhere(_) => None,
                });
                rows.extend(here);
            }
        }
        Ok(rows)
    }

    /// The pages of an extent that have rows, read together.
    pub(super) async fn pages_of(
        &self,
        session: &Session,
        table: u32,
        extent: u32,
    ) -> Result<Vec<Page>, Error> {
        let used = self.used_pages(session, table, extent).await?;
        self.pages_with_rows(session, table, used).await
    }

    /// The numbers of the pages of an extent that may have rows.
    pub(super) async fn used_pages(
        &self,
        session: &Session,
        table: u32,
        extent: u32,
    ) -> Result<Vec<u32>, Error> {
        let (first, (map, at)) =
            (self.pages.geometry.first_page(extent), self.pages.geometry.map_entry(extent));
        // An extent that came back to the table may have been another's, or its own before a TRUNCATE.
        let map = self.image(session, map).await?;
        if map.raw()[at..at + 4] != table.to_le_bytes() {
            return Ok(Vec::new());
        }
        let space = self.image(session, first).await?;
        let is_known = space.page().kind() == Some(Kind::Space) && space.page().owner() == table;
        if !is_known && !self.pages.frames.goes_past_damage() {
            return Ok(Vec::new());
        }
        let used = (1..self.pages.geometry.extent_pages)
            .filter(|place| {
                !is_known
                    || match space.raw()[allocate::byte_of(*place)] {
                        allocate::IN_USE | allocate::FULL => true,
                        // Nothing, or a piece of a long value.
                        _ => false,
                    }
            })
            .map(|place| first + place);
        Ok(used.collect())
    }

    /// Those of some pages, which ascend, that are the table's and have rows, read together.
    pub(super) async fn pages_with_rows(
        &self,
        session: &Session,
        table: u32,
        numbers: Vec<u32>,
    ) -> Result<Vec<Page>, Error> {
        let mut pages = Vec::new();
        let frames = &self.pages.frames;
        let loaded = self.check(frames.load_all(session, Io::SCAN, numbers).await)?;
        let images = self.check(frames.images_at(session, &loaded, self.point()).await)?;
        for (number, image) in images {
            if image.page().kind() == Some(Kind::Heap) && image.page().owner() == table {
                pages.push(Page { number, image });
            }
        }
        Ok(pages)
    }
}

impl Scan {
    /// A scan of these extents of a table.
    pub fn of(view: Arc<View>, table: u32, extents: &[u32]) -> Scan {
        let extents = extents.iter().copied().collect();
        Scan { view, table, extents, ahead: VecDeque::new(), read: VecDeque::new() }
    }

    /// A scan of all of a table.
    pub fn new(view: Arc<View>, table: u32) -> Result<Scan, Error> {
        let extents = view.pages.space.extents(table)?.into();
        Ok(Scan { view, table, extents, ahead: VecDeque::new(), read: VecDeque::new() })
    }

    /// Extents of which not all pages were returned or are about to be.
    pub fn extents_left(&self) -> usize {
        self.extents.len() + self.ahead.len()
    }

    /// The next page; `None` after the last. Dropping the call loses no page.
    pub async fn next_page(&mut self, session: &Session) -> Result<Option<Page>, Error> {
        let frames = &self.view.pages.frames;
        let of_cache = frames.capacity() / 8 / u64::from(self.view.pages.geometry.extent_pages);
        let ahead = (of_cache as usize).clamp(1, AHEAD_MAX);
        while self.read.is_empty() {
            while self.ahead.len() < ahead
                && let Some(extent) = self.extents.pop_front()
            {
                let (view, session, table) = (Arc::clone(&self.view), session.clone(), self.table);
                let env = view.pages.frames.env().clone();
                let read = async move { view.pages_of(&session, table, extent).await };
                self.ahead.push_back(env.run("scan", read));
            }
            let Some(read) = self.ahead.front_mut() else { return Ok(None) };
            let read = read.await;
            self.ahead.pop_front();
            self.read.extend(read.ok_or_else(super::objects::ended)??);
        }
        Ok(self.read.pop_front())
    }
}
