//! A scan of a table at a snapshot: page after page, with others on their way meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_page::Kind;
use cellar_wait::Session;
use futures_util::future::join_all;

use super::read::View;
use crate::error::Error;
use crate::frames::Image;
use crate::row_id::RowId;
use crate::rows::{Found, find, find_moved};
use crate::space::allocate;

/// A scan under way.
pub(crate) struct Scan {
    view: View,
    table: u32,
    extents: VecDeque<u32>,
    read: VecDeque<Page>,
}

/// A page of rows.
pub(crate) struct Page {
    number: u32,
    image: Arc<Image>,
}

impl Page {
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
    /// Begins a scan of all rows of a table.
    pub(crate) fn begin_scan(self, table: u32) -> Result<Scan, Error> {
        let extents = self.pages.space.extents(table)?.into();
        Ok(Scan { view: self, table, extents, read: VecDeque::new() })
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
    async fn pages_of(
        &self,
        session: &Session,
        table: u32,
        extent: u32,
    ) -> Result<Vec<Page>, Error> {
        let first = self.pages.geometry.first_page(extent);
        let space = self.image(session, first).await?;
        if space.page().kind() != Some(Kind::Space) || space.page().owner() != table {
            return Ok(Vec::new());
        }
        let used = (1..self.pages.geometry.extent_pages).filter(|place| {
            match space.raw()[allocate::byte_of(*place)] {
                allocate::IN_USE | allocate::FULL => true,
                // Nothing, or a piece of a long value.
                _ => false,
            }
        });
        let reads = used.map(async |place| {
            let number = first + place;
            Ok(Page { number, image: self.image(session, number).await? })
        });
        let read: Result<Vec<Page>, Error> = join_all(reads).await.into_iter().collect();
        let is_heap = |page: &Page| page.image.page().kind() == Some(Kind::Heap);
        Ok(read?.into_iter().filter(is_heap).collect())
    }
}

impl Scan {
    /// The next page; `None` behind the last one.
    pub async fn next_page(&mut self, session: &Session) -> Result<Option<Page>, Error> {
        while self.read.is_empty() {
            let Some(extent) = self.extents.pop_front() else { return Ok(None) };
            self.read.extend(self.view.pages_of(session, self.table, extent).await?);
        }
        Ok(self.read.pop_front())
    }
}
