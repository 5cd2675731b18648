//! Long values of a store: pages for them, and how they are read.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::{Bytes, BytesMut};
use cellar_wait::Session;
use futures_util::{StreamExt, TryStreamExt};

use super::{Inner, Store, View};
use crate::error::Error;
use crate::long::{LONG_BYTES_MAX, Part, pages_for, part};

/// Reads of its pages under way at once.
const READS: usize = 32;

/// Free pages that a long value will take; they are free again if it does not.
pub(crate) struct TakenPages {
    inner: Arc<Inner>,
    pub table: u32,
    pub pages: Vec<u32>,
}

impl TakenPages {
    /// They are in use from now on.
    pub fn keep(mut self) {
        self.pages.clear();
    }
}

impl Drop for TakenPages {
    fn drop(&mut self) {
        let table = self.table;
        self.inner.pages.space.return_pages(self.pages.drain(..).map(|page| (table, page)));
    }
}

/// The long values that a commit writes, and the pages of those that it frees.
#[derive(Default)]
pub(crate) struct LongValues {
    pub new: Vec<(TakenPages, Bytes)>,
    /// By table.
    pub freed: Vec<(u32, Vec<u32>)>,
}

impl LongValues {
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.freed.is_empty()
    }
}

impl Store {
    /// Free pages for a value of so many bytes.
    pub(crate) async fn pages_for_long(
        &self,
        session: &Session,
        table: u32,
        bytes: usize,
    ) -> Result<TakenPages, Error> {
        self.0.check_running()?;
        if bytes > LONG_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes, max: LONG_BYTES_MAX });
        }
        self.0.pages.space.check_table(table)?;
        let mut taken = TakenPages { inner: Arc::clone(&self.0), table, pages: Vec::new() };
        for _ in 0..pages_for(bytes) {
            taken.pages.push(self.0.free_page(session, table).await?);
        }
        Ok(taken)
    }
}

impl View {
    /// A long value of a row of this table, as the row has it: its first page, and its length in bytes.
    ///
    /// # Errors
    /// [`Error::NoValue`]; [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn long(
        &self,
        session: &Session,
        table: u32,
        page: u32,
        length: u32,
    ) -> Result<Bytes, Error> {
        let no_value = || Error::NoValue { page };
        let mut value = BytesMut::with_capacity((length as usize).min(LONG_BYTES_MAX));
        let (mut pages, mut directories) = (Vec::new(), 0);
        let mut next = Some(page);
        while let Some(at) = next.take() {
            let image = self.image(session, at).await?;
            match part(image.page(), table).ok_or_else(no_value)? {
                Part::Piece(piece) => value.extend_from_slice(piece),
                Part::Directory(named, behind) => {
                    pages.extend(named);
                    next = behind.filter(|_| directories < pages_for(length as usize));
                    directories += 1;
                }
            }
        }
        let reads = pages.into_iter().map(|page| self.image(session, page));
        let mut reads = futures_util::stream::iter(reads).buffered(READS);
        while let Some(image) = reads.try_next().await? {
            match part(image.page(), table) {
                Some(Part::Piece(piece)) => value.extend_from_slice(piece),
                _ => return Err(no_value()),
            }
        }
        match value.len() == length as usize {
            true => Ok(value.freeze()),
            false => Err(no_value()),
        }
    }

    /// All pages of a long value.
    pub(crate) async fn long_pages(
        &self,
        session: &Session,
        table: u32,
        page: u32,
    ) -> Result<Vec<u32>, Error> {
        let mut pages = Vec::new();
        let mut next = Some(page);
        while let Some(at) = next.take() {
            pages.push(at);
            let image = self.image(session, at).await?;
            if let Part::Directory(named, behind) =
                part(image.page(), table).ok_or(Error::NoValue { page })?
            {
                pages.extend(named);
                next = behind.filter(|_| pages.len() <= pages_for(LONG_BYTES_MAX));
            }
        }
        Ok(pages)
    }
}
