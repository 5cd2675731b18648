//! Sizes of a table and of a range of an index, more or less: for whoever chooses between them.

use async_recursion::async_recursion as boxed;
use cellar_wait::Session;

use super::read::View;
use crate::error::Error;
use crate::index::Cursor;

/// About how large a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSize {
    /// Pages with rows.
    pub pages: u64,
    /// Rows.
    pub rows: u64,
}

impl View {
    /// About how large a table is: as its first and its last extent have pages and rows.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn size(&self, session: &Session, table: u32) -> Result<TableSize, Error> {
        let extents = self.extents_of(table)?;
        let (Some(first), Some(last)) = (extents.first(), extents.last()) else {
            return Ok(TableSize::default());
        };
        let first = self.size_of(session, table, *first).await?;
        let others = (extents.len() as u64).saturating_sub(2);
        let last = match extents.len() {
            1 => TableSize::default(),
            _ => self.size_of(session, table, *last).await?,
        };
        Ok(TableSize {
            pages: first.pages * (others + 1) + last.pages,
            rows: first.rows * (others + 1) + last.rows,
        })
    }

    async fn size_of(
        &self,
        session: &Session,
        table: u32,
        extent: u32,
    ) -> Result<TableSize, Error> {
        let pages = self.pages_of(session, table, extent).await?;
        let rows = pages.iter().map(|page| page.slots() as u64).sum();
        Ok(TableSize { pages: pages.len() as u64, rows })
    }

    /// About how many entries of an index lie between these bytes, the first included, or go on to the end: in one
    /// leaf it is known, over several it is as the pages on the ways to both ends are filled.
    ///
    /// # Errors
    /// As [`View::size`].
    #[boxed]
    pub async fn expected(
        &self,
        session: &Session,
        index: u32,
        (first, last): (&[u8], Option<&[u8]>),
    ) -> Result<u64, Error> {
        let index = self.pages.space.index(index)?;
        let frames = &self.pages.frames;
        let low = Cursor::seek(frames, session, index, self.point(), first).await;
        let low = self.check(low)?;
        let last = last.unwrap_or(&super::read::END);
        let high = Cursor::seek(frames, session, index, self.point(), last).await;
        let high = self.check(high)?;
        Ok(low.distance(&high))
    }
}
