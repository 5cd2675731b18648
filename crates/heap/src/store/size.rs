//! Sizes of a table and of a range of an index, more or less: for whoever chooses between them.

use async_recursion::async_recursion as boxed;
use cellar_wait::Session;

use super::read::View;
use crate::error::Error;
use crate::index::Cursor;

/// Extents between the first and the last that are looked at,
const EXTENTS: usize = 4;

/// and pages of an extent.
const PAGES: usize = 8;

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
    /// About how large a table is: as some of its extents have pages, and some of those rows. What was loaded by
    /// the direct path begins with an extent of its own, so that the first is often nearly empty, and the last is as
    /// full as it may be.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn size(&self, session: &Session, table: u32) -> Result<TableSize, Error> {
        let extents = self.extents_of(table)?;
        let (ends, between) = match &extents[..] {
            [first, between @ .., last] => (vec![*first, *last], between),
            ends => (ends.to_vec(), &[][..]),
        };
        let at_ends = self.size_of(session, table, &ends).await?;
        let count = between.len();
        let sample: Vec<u32> = match count > EXTENTS {
            true => (0..EXTENTS).map(|at| between[(2 * at + 1) * count / (2 * EXTENTS)]).collect(),
            false => between.to_vec(),
        };
        let sampled = self.size_of(session, table, &sample).await?;
        let of_all = |sum: u64| sum * count as u64 / sample.len().max(1) as u64;
        Ok(TableSize {
            pages: at_ends.pages + of_all(sampled.pages),
            rows: at_ends.rows + of_all(sampled.rows),
        })
    }

    /// About the size of some extents together.
    async fn size_of(
        &self,
        session: &Session,
        table: u32,
        extents: &[u32],
    ) -> Result<TableSize, Error> {
        let mut size = TableSize::default();
        for extent in extents {
            let used = self.used_pages(session, table, *extent).await?;
            let step = used.len().div_ceil(PAGES).max(1);
            let sample: Vec<u32> = used.iter().copied().step_by(step).collect();
            let count = sample.len().max(1) as u64;
            let pages = self.pages_with_rows(session, table, sample).await?;
            let rows: u64 = pages.iter().map(|page| page.slots() as u64).sum();
            size.pages += used.len() as u64 * pages.len() as u64 / count;
            size.rows += used.len() as u64 * rows / count;
        }
        Ok(size)
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
