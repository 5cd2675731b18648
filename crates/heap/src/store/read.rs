//! Reading at a snapshot.

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_page::{Kind, PAGE_BYTES};
use cellar_wait::Session;

use super::Store;
use crate::error::Error;
use crate::frames::{Frames, Image};
use crate::geometry::Geometry;
use crate::index::{Cursor, KEY_BYTES_MAX, behind};
use crate::row_id::{ROW_ID_BYTES, RowId};
use crate::rows::{Found, find, find_moved};
use crate::snapshots::{Snapshot, Snapshots};
use crate::space::Space;

/// The pages of a store, in memory and on disk, and what is known of them.
pub(super) struct Pages {
    pub frames: Arc<Frames>,
    pub geometry: Geometry,
    pub space: Space,
    pub snapshots: Arc<Snapshots>,
}

/// The store as it was at one moment.
pub struct View {
    pub(super) pages: Arc<Pages>,
    snapshot: Snapshot,
    /// The newest LSN of the pages that were read.
    looked: AtomicU64,
    /// Keeps pages in memory that it may need.
    _keeps: Arc<dyn Any + Send + Sync>,
}

impl Store {
    /// Everything that is acknowledged now, and whatever else is durable; it does not change.
    pub fn view(&self) -> View {
        View::new(&self.0.pages, Arc::clone(&self.0) as _, || self.0.lane.visible())
    }

    /// Everything that is committed now, including what a crash could still undo.
    pub fn newest(&self) -> View {
        View::new(&self.0.pages, Arc::clone(&self.0) as _, || self.0.lane.newest())
    }
}

impl View {
    /// At the point that `newest` says.
    pub(super) fn new(
        pages: &Arc<Pages>,
        keeps: Arc<dyn Any + Send + Sync>,
        newest: impl FnOnce() -> u64,
    ) -> View {
        let (snapshot, pages) = (pages.snapshots.take(newest), Arc::clone(pages));
        View { pages, snapshot, looked: AtomicU64::new(0), _keeps: keeps }
    }

    /// A page as this view sees it.
    pub(super) async fn image(&self, session: &Session, page: u32) -> Result<Arc<Image>, Error> {
        let frames = &self.pages.frames;
        let frame = self.check(frames.load(session, page).await)?;
        let image = self.check(frames.image_at(session, &frame, self.point()).await)?;
        self.looked.fetch_max(image.lsn(), Ordering::Relaxed);
        Ok(image)
    }

    /// Bytes of the extents of all tables and indexes.
    pub fn bytes(&self) -> u64 {
        let extents =
            self.pages.space.objects().iter().map(|(.., extents)| u64::from(*extents)).sum::<u64>();
        extents * u64::from(self.pages.geometry.extent_pages) * PAGE_BYTES as u64
    }

    /// The newest LSN of the pages that were read: the result is as of this LSN.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    /// What was read, if nothing that it needs can have been gone.
    pub(crate) fn check<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        match self.snapshot.is_over() {
            true => {
                let cause = self.pages.frames.spilled().why_full();
                Err(Error::SnapshotTooOld { point: self.point(), cause })
            }
            false => read,
        }
    }

    /// Commits with LSNs below are seen.
    pub fn point(&self) -> u64 {
        self.snapshot.point()
    }

    pub(crate) fn frames(&self) -> &Frames {
        &self.pages.frames
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.pages.geometry
    }

    /// The extents of the file that the extent map tells of.
    pub(crate) fn extents(&self) -> u32 {
        self.pages.space.file_extents()
    }

    /// The bytes of a row; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn row(
        &self,
        session: &Session,
        table: u32,
        id: RowId,
    ) -> Result<Option<Bytes>, Error> {
        let image = self.image(session, id.page).await?;
        let page = image.page();
        if page.kind() != Some(Kind::Heap) || page.owner() != table {
            return Ok(None);
        }
        let there = match find(page, id.slot) {
            None => return Ok(None),
            Some(Found::Here(row)) => return Ok(Some(Bytes::copy_from_slice(row))),
            Some(Found::Elsewhere(there)) => there,
        };
        let image = self.image(session, there.page).await?;
        match find_moved(image.page(), there.slot).filter(|(home, _)| *home == id) {
            Some((_, row)) => Ok(Some(Bytes::copy_from_slice(row))),
            None => Err(Error::NoRow { page: there.page, slot: there.slot }),
        }
    }

    /// The rows whose keys lie in a range of bytes, in the order of the keys, or backwards.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::PageDamaged`], [`Error::SnapshotTooOld`]; those of the device.
    #[boxed]
    pub async fn range(
        &self,
        session: &Session,
        index: u32,
        keys: RangeInclusive<&[u8]>,
        backwards: bool,
        count: usize,
    ) -> Result<Vec<(Vec<u8>, RowId)>, Error> {
        let (first, last) = (*keys.start(), behind(keys.end()));
        self.entries(session, index, (first, Some(&last)), backwards, count).await
    }

    /// The extents of a table, as they are now.
    pub(crate) fn extents_of(&self, table: u32) -> Result<Vec<u32>, Error> {
        self.pages.space.extents(table)
    }

    /// Whether this is the number of an index.
    pub(crate) fn check_index(&self, index: u32) -> Result<(), Error> {
        self.pages.space.index(index).map(drop)
    }

    /// As [`View::range`], of the entries from some bytes on and before others, or to the end.
    pub(crate) async fn entries(
        &self,
        session: &Session,
        index: u32,
        (first, last): (&[u8], Option<&[u8]>),
        backwards: bool,
        count: usize,
    ) -> Result<Vec<(Vec<u8>, RowId)>, Error> {
        let index = self.pages.space.index(index)?;
        let from = if backwards { last.unwrap_or(&END) } else { first };
        let frames = &self.pages.frames;
        let sought = Cursor::seek(frames, session, index, self.point(), from).await;
        let mut cursor = self.check(sought)?;
        let mut found = Vec::new();
        while found.len() < count {
            let next = match backwards {
                true => cursor.previous(session).await,
                false => cursor.next(session).await,
            };
            let Some((key, id)) = self.check(next)? else { break };
            let is_inside = match backwards {
                true => &key[..] >= first,
                false => last.is_none_or(|last| &key[..] < last),
            };
            if !is_inside {
                break;
            }
            found.push((key, id));
        }
        self.looked.fetch_max(cursor.newest, Ordering::Relaxed);
        Ok(found)
    }
}

/// Bytes behind all entries.
pub(super) const END: [u8; KEY_BYTES_MAX + ROW_ID_BYTES + 1] =
    [0xFF; KEY_BYTES_MAX + ROW_ID_BYTES + 1];
