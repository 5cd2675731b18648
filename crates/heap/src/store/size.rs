//! Size estimates of a table and of a range of an index, for the planner.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::Session;

use super::read::View;
use super::scan::Page;
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

/// Rows of a sample, at most.
const SAMPLED: usize = 512;

/// About how large a table is, and some of its rows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Sample {
    /// About how large it is.
    pub size: TableSize,
    /// Rows from all over it, at most 512, as they are stored.
    pub rows: Vec<Bytes>,
}

impl View {
    /// About how large a table is, extrapolated from a sample of its extents and pages. What was loaded by the
    /// direct path begins in an extent of its own, so the first extent is often nearly empty, and the last can be
    /// full.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn size(&self, session: &Session, table: u32) -> Result<TableSize, Error> {
        Ok(self.looked_at(session, table).await?.0)
    }

    /// The same, with some of the rows that were looked at.
    ///
    /// # Errors
    /// As [`View::size`].
    #[boxed]
    pub async fn sample(&self, session: &Session, table: u32) -> Result<Sample, Error> {
        let (size, pages) = self.looked_at(session, table).await?;
        let places = || pages.iter().flat_map(|page| page.places().map(move |at| (page, at)));
        let step = places().count().div_ceil(SAMPLED).max(1);
        let rows = places().step_by(step);
        let rows = rows.map(|(page, place)| Bytes::copy_from_slice(page.row(place))).collect();
        Ok(Sample { size, rows })
    }

    /// The size of a table, and the pages that tell it.
    async fn looked_at(
        &self,
        session: &Session,
        table: u32,
    ) -> Result<(TableSize, Vec<Page>), Error> {
        let extents = self.extents_of(table)?;
        let (ends, between) = match &extents[..] {
            [first, between @ .., last] => (vec![*first, *last], between),
            ends => (ends.to_vec(), &[][..]),
        };
        let mut pages = Vec::new();
        let at_ends = self.size_of(session, table, &ends, &mut pages).await?;
        let count = between.len();
        let sample: Vec<u32> = match count > EXTENTS {
            true => (0..EXTENTS).map(|at| between[(2 * at + 1) * count / (2 * EXTENTS)]).collect(),
            false => between.to_vec(),
        };
        let sampled = self.size_of(session, table, &sample, &mut pages).await?;
        let of_all = |sum: u64| sum * count as u64 / sample.len().max(1) as u64;
        let size = TableSize {
            pages: at_ends.pages + of_all(sampled.pages),
            rows: at_ends.rows + of_all(sampled.rows),
        };
        Ok((size, pages))
    }

    /// About the size of some extents together.
    async fn size_of(
        &self,
        session: &Session,
        table: u32,
        extents: &[u32],
        looked_at: &mut Vec<Page>,
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
            looked_at.extend(pages);
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
