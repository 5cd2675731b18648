//! The direct path: pages of an object are built separately and written straight to extents that belong to nobody
//! yet. When they are durable, one commit gives the extents to the object; after a crash before that they still
//! belong to nobody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cellar_io::{Buffer, Durability, EnvExt, Io};
use cellar_page::{CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageMut, seal};
use cellar_wait::{Event, Session};
use futures_util::future::join_all;

use super::{Inner, objects};
use crate::error::Error;
use crate::frames::raw_mut;
use crate::index::Pages;
use crate::lane::Operation;
use crate::space::allocate;

/// Pages that are written together.
const WRITE_PAGES: usize = 256;

/// Extents that are taken but belong to nobody. Unless adopted they are freed when all writes to them are
/// answered: a write whose caller has gone must not hit another owner.
pub(super) struct TakenExtents(Arc<Taken>);

struct Taken {
    inner: Arc<Inner>,
    extents: Mutex<Vec<u32>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let extents = self.extents.get_mut().unwrap_or_else(PoisonError::into_inner);
        extents.drain(..).for_each(|extent| self.inner.pages.space.return_extent(extent));
    }
}

/// An extent on its way to be taken.
struct Taking<'a>(&'a Inner, Option<u32>);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.1.take().into_iter().for_each(|extent| self.0.pages.space.return_extent(extent));
    }
}

/// One more that writes around the log, until it is dropped.
struct Writes<'a>(&'a AtomicUsize);

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TakenExtents {
    pub fn new(inner: &Arc<Inner>) -> TakenExtents {
        TakenExtents(Arc::new(Taken { inner: Arc::clone(inner), extents: Mutex::default() }))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        work(&mut self.0.extents.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The extent at a place of the order in which they were taken.
    pub fn get(&self, place: usize) -> Option<u32> {
        self.with(|extents| extents.get(place).copied())
    }

    pub fn count(&self) -> usize {
        self.with(|extents| extents.len())
    }

    /// They are no longer to come back.
    fn keep(&self) -> Vec<u32> {
        self.with(std::mem::take)
    }

    /// Takes another extent for this object, and returns how far the log may describe its pages. No recovery will
    /// read that, nothing in memory refers to them any more, and nothing will be written to them.
    pub async fn take(&self, session: &Session, object: u32) -> Result<(u32, u64), Error> {
        let inner = &self.0.inner;
        let extent = inner.take_extent(object).await?.0;
        let mut taking = Taking(inner, Some(extent));
        let touched = inner.pages.space.touched(extent);
        let first = inner.pages.geometry.first_page(extent);
        let pages = first..first + inner.pages.geometry.extent_pages;
        // Once the checkpoint is behind all that was said of these pages, none of them is to be written, and none
        // is being written. It stays at the last commit: so it needs one.
        while inner.checkpoint() <= touched {
            inner.commit_nothing(session).await?;
            inner.checkpoint_in_task().await?;
        }
        inner.pages.frames.forget(pages);
        taking.1 = None;
        self.with(|extents| extents.push(extent));
        Ok((extent, touched))
    }

    /// Writes runs of bytes, each to its place in the file, to the end also where nobody waits for that.
    pub async fn write(
        &self,
        session: &Session,
        event: Event,
        runs: Vec<(u64, Vec<Bytes>)>,
    ) -> Result<(), Error> {
        let inner = &self.0.inner;
        inner.check_running()?;
        let wait = session.begin(event, [0; 3], inner.env.now().0);
        let taken = Arc::clone(&self.0);
        let write = async move {
            let count = &taken.inner.schedule.direct_writes;
            count.fetch_add(1, Ordering::SeqCst);
            let _writes = Writes(count);
            let device = taken.inner.pages.frames.device();
            let writes = runs
                .into_iter()
                .map(|(at, run)| device.write(Io::FOREGROUND, at, run, Durability::Cached));
            join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()
        };
        let written = inner.env.run("direct path write", write).await;
        wait.end(inner.env.now().0);
        written.ok_or_else(objects::ended)??;
        Ok(())
    }
}

/// An extent of pages that are written by the direct path.
struct Extent {
    number: u32,
    /// All that was ever said of its pages before is at this record or below.
    lsn: u64,
    /// What its space page is to say.
    marks: Vec<u8>,
}

/// Pages of one object that are written by the direct path.
pub(super) struct DirectPages {
    inner: Arc<Inner>,
    taken: TakenExtents,
    object: u32,
    kind: Kind,
    /// Pages that are not used yet, the next one last.
    free: Vec<u32>,
    extents: Vec<Extent>,
    ready: Vec<(u32, Buffer)>,
}

impl DirectPages {
    /// For an object, whose pages have this kind: in an index that of leaves.
    pub fn begin(inner: &Arc<Inner>, object: u32, kind: Kind) -> Result<DirectPages, Error> {
        inner.check_running()?;
        let (taken, inner) = (TakenExtents::new(inner), Arc::clone(inner));
        let (free, extents, ready) = (Vec::new(), Vec::new(), Vec::new());
        Ok(DirectPages { inner, taken, object, kind, free, extents, ready })
    }

    /// Makes sure that there are at least this many free pages, and not too many that wait to be written.
    pub async fn prepare(&mut self, session: &Session, pages: usize) -> Result<(), Error> {
        if self.ready.len() >= WRITE_PAGES {
            self.write(session).await?;
        }
        while self.free.len() < pages {
            let (number, lsn) = self.taken.take(session, self.object).await?;
            let geometry = self.inner.pages.geometry;
            let first = geometry.first_page(number);
            self.free.splice(0..0, (first + 1..first + geometry.extent_pages).rev());
            let mut marks = vec![0; geometry.extent_pages as usize];
            marks[0] = allocate::IN_USE;
            self.extents.push(Extent { number, lsn, marks });
        }
        Ok(())
    }

    /// Makes a page, and leaves what is in it to `fill`; there must be a free one.
    pub fn put_page(
        &mut self,
        kind: Kind,
        level: u32,
        mark: u8,
        fill: impl FnOnce(&mut PageMut<'_>),
    ) -> u32 {
        let geometry = self.inner.pages.geometry;
        let number = self.free.pop().expect("pages were prepared");
        let extent = geometry.extent_of(number);
        let place = (number - geometry.first_page(extent)) as usize;
        let at = self.extents.iter_mut().rev().find(|at| at.number == extent);
        let at = at.expect("free pages are of these extents");
        at.marks[place] = mark;
        let lsn = at.lsn;
        let page = self.page(number, kind, lsn, |page| {
            page.set_level(level);
            fill(page);
        });
        self.ready.push((number, page));
        number
    }

    fn page(
        &self,
        number: u32,
        kind: Kind,
        lsn: u64,
        fill: impl FnOnce(&mut PageMut<'_>),
    ) -> Buffer {
        let mut bytes = Buffer::new(PAGE_BYTES);
        let raw = raw_mut(&mut bytes);
        let store = self.inner.pages.frames.store();
        let mut page = PageMut::format(raw, store, number, kind, self.object);
        page.set_lsn(lsn);
        fill(&mut page);
        seal(raw);
        bytes
    }

    /// The page that is made next.
    pub fn next_page(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Writes the pages that were made.
    async fn write(&mut self, session: &Session) -> Result<(), Error> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_unstable_by_key(|(number, _)| *number);
        let pages = ready.len() as u64;
        let mut runs: Vec<(u32, Vec<Bytes>)> = Vec::new();
        for (number, bytes) in ready {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == number => {
                    run.push(bytes.freeze());
                }
                _ => runs.push((number, vec![bytes.freeze()])),
            }
        }
        let offset = |page: u32| u64::from(page) * PAGE_BYTES as u64;
        let runs = runs.into_iter().map(|(first, run)| (offset(first), run)).collect();
        self.taken.write(session, Event::DIRECT_PATH_WRITE, runs).await?;
        let statistics = self.inner.pages.frames.statistics();
        statistics.count(self.object, |of| of.direct_writes += pages);
        Ok(())
    }

    /// Has all pages durable, those that say which are free as well. Returns what a commit must do.
    pub async fn finish(mut self, session: &Session) -> Result<Finished, Error> {
        let geometry = self.inner.pages.geometry;
        let spaces = self.extents.iter().map(|Extent { number, lsn, marks }| {
            let first = geometry.first_page(*number);
            (first, self.page(first, Kind::Space, *lsn, |page| page.write(HEADER_BYTES, marks)))
        });
        let spaces: Vec<_> = spaces.collect();
        self.ready.extend(spaces);
        self.write(session).await?;
        self.inner.pages.frames.device().flush(Io::FOREGROUND).await?;
        // Somebody who looked at one of these pages meanwhile may have read its old contents.
        for extent in &self.extents {
            let first = geometry.first_page(extent.number);
            self.inner.pages.frames.forget(first..first + geometry.extent_pages);
        }
        let kind =
            if self.kind == Kind::Heap { allocate::Use::Table } else { allocate::Use::Index };
        let DirectPages { inner, taken, object, extents, .. } = self;
        Ok(Finished { inner, taken, object, kind, extents })
    }
}

impl Pages for DirectPages {
    fn put(&mut self, level: u32, cells: &[Vec<u8>]) -> u32 {
        let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
        self.put_page(kind, level, allocate::IN_USE, |page| {
            for (place, cell) in cells.iter().enumerate() {
                page.insert(place, cell);
            }
        })
    }
}

/// Puts a row into a page that is being made.
pub(super) fn put_row(page: &mut PageMut<'_>, slot: usize, row: &[u8]) {
    page.put(slot, CellKind::Plain, row);
}

/// Pages that are durable, in extents that are nobody's yet.
pub(super) struct Finished {
    inner: Arc<Inner>,
    taken: TakenExtents,
    object: u32,
    kind: allocate::Use,
    extents: Vec<Extent>,
}

impl Finished {
    /// What a commit must do; the header has had this generation since they are durable.
    pub fn operations(&self, generation: u64) -> Vec<Operation> {
        let (object, kind) = (self.object, self.kind);
        let adopt = |extent: &Extent| Operation::AdoptExtent {
            extent: extent.number,
            object,
            kind,
            generation,
        };
        self.extents.iter().map(adopt).collect()
    }

    /// The commit is in the log: the extents are the object's.
    pub fn adopt(self) {
        self.taken.keep();
        for Extent { number, marks, .. } in &self.extents {
            self.inner.pages.space.adopt_extent(self.object, *number, marks);
        }
    }

    /// Whose the extents are is not known before the next opening.
    pub fn lose(self) {
        self.taken.keep();
    }
}
