//! The direct path: pages of an object that are built aside and written straight to extents that are nobody's
//! yet. One commit, when they are durable, makes the extents the object's; after a crash before it they are
//! nobody's still.

use std::sync::Arc;

use cellar_io::{Buffer, Durability, Io};
use cellar_page::{CellKind, Kind, PAGE_BYTES, PageMut, seal};
use cellar_wait::{Event, Session};
use futures_util::future::join_all;

use super::Inner;
use crate::error::Error;
use crate::frames::raw_mut;
use crate::index::Pages;
use crate::lane::Operation;
use crate::space::allocate;

/// Pages that are written together.
const WRITE_PAGES: usize = 256;

/// Extents that are taken and nobody's: they come back unless they are adopted.
pub(super) struct TakenExtents {
    inner: Arc<Inner>,
    pub extents: Vec<u32>,
}

impl TakenExtents {
    pub fn new(inner: &Arc<Inner>) -> TakenExtents {
        TakenExtents { inner: Arc::clone(inner), extents: Vec::new() }
    }

    /// Takes another one for this object. Nothing in memory speaks of its pages any more, and nothing will
    /// be written to them.
    pub async fn take(&mut self, object: u32) -> Result<u32, Error> {
        let (extent, ..) = self.inner.pages.space.take_extent(object, self.inner.oldest())?;
        self.extents.push(extent);
        let first = self.inner.pages.geometry.first_page(extent);
        let pages = first..first + self.inner.pages.geometry.extent_pages;
        while self.inner.writer.dirty.has_any(pages.clone()) {
            self.inner.checkpoint_in_task().await?;
        }
        self.inner.pages.frames.forget(pages);
        Ok(extent)
    }
}

impl Drop for TakenExtents {
    fn drop(&mut self) {
        self.extents.drain(..).for_each(|extent| self.inner.pages.space.return_extent(extent));
    }
}

/// Pages of one object that are written by the direct path.
pub(super) struct DirectPages {
    taken: TakenExtents,
    object: u32,
    kind: Kind,
    /// Pages that are not used yet, the next one last.
    free: Vec<u32>,
    /// For each extent what its space page says of its pages.
    marks: Vec<Vec<u8>>,
    /// All that was ever said of these pages before is below.
    lsn: u64,
    ready: Vec<(u32, Buffer)>,
}

impl DirectPages {
    /// For an object, whose pages have this kind: in an index that of leaves.
    pub async fn begin(inner: &Arc<Inner>, object: u32, kind: Kind) -> Result<DirectPages, Error> {
        inner.check_running()?;
        // What these pages were is durable in the log before they are anything else: a later record of theirs is
        // never below this.
        inner.await_last().await?;
        let (lsn, _) = inner.lane.last();
        let taken = TakenExtents::new(inner);
        let (free, marks, ready) = (Vec::new(), Vec::new(), Vec::new());
        Ok(DirectPages { taken, object, kind, free, marks, lsn, ready })
    }

    /// Has at least so many free pages, and not too many that wait to be written.
    pub async fn prepare(&mut self, session: &Session, pages: usize) -> Result<(), Error> {
        if self.ready.len() >= WRITE_PAGES {
            self.write(session).await?;
        }
        while self.free.len() < pages {
            let extent = self.taken.take(self.object).await?;
            let geometry = self.taken.inner.pages.geometry;
            let first = geometry.first_page(extent);
            self.free.splice(0..0, (first + 1..first + geometry.extent_pages).rev());
            let mut marks = vec![0; geometry.extent_pages as usize];
            marks[0] = allocate::IN_USE;
            self.marks.push(marks);
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
        let inner = &self.taken.inner;
        let number = self.free.pop().expect("pages were prepared");
        let mut bytes = Buffer::new(PAGE_BYTES);
        let raw = raw_mut(&mut bytes);
        let mut page = PageMut::format(raw, inner.pages.frames.store(), number, kind, self.object);
        page.set_level(level);
        page.set_lsn(self.lsn);
        fill(&mut page);
        seal(raw);
        let extent = inner.pages.geometry.extent_of(number);
        let place = (number - inner.pages.geometry.first_page(extent)) as usize;
        if let Some(at) = self.taken.extents.iter().rposition(|taken| *taken == extent) {
            self.marks[at][place] = mark;
        }
        self.ready.push((number, bytes));
        number
    }

    /// The page that is made next.
    pub fn next_page(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Writes the pages that were made.
    async fn write(&mut self, session: &Session) -> Result<(), Error> {
        let inner = &self.taken.inner;
        inner.check_running()?;
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_unstable_by_key(|(number, _)| *number);
        let mut runs: Vec<(u32, Vec<bytes::Bytes>)> = Vec::new();
        for (number, bytes) in ready {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == number => {
                    run.push(bytes.freeze())
                }
                _ => runs.push((number, vec![bytes.freeze()])),
            }
        }
        let wait = session.begin(Event::DIRECT_PATH_WRITE, [0; 3], inner.env.now().0);
        let device = inner.pages.frames.device();
        let writes = runs.into_iter().map(|(first, run)| {
            let offset = u64::from(first) * PAGE_BYTES as u64;
            device.write(Io::FOREGROUND, offset, run, Durability::Cached)
        });
        let answers = join_all(writes).await;
        wait.end(inner.env.now().0);
        answers.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    /// Has all pages durable. Returns what a commit must do, and what then must be said of the extents.
    pub async fn finish(mut self, session: &Session) -> Result<Finished, Error> {
        self.write(session).await?;
        let inner = &self.taken.inner;
        inner.pages.frames.device().flush(Io::FOREGROUND).await?;
        let kind =
            if self.kind == Kind::Heap { allocate::Use::Table } else { allocate::Use::Index };
        let adopt = |(extent, marks): (&u32, &Vec<u8>)| Operation::AdoptExtent {
            extent: *extent,
            object: self.object,
            kind,
            marks: marks.clone().into(),
        };
        let operations = self.taken.extents.iter().zip(&self.marks).map(adopt).collect();
        let DirectPages { taken, object, marks, .. } = self;
        Ok(Finished { taken, object, marks, operations })
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
    taken: TakenExtents,
    object: u32,
    marks: Vec<Vec<u8>>,
    pub operations: Vec<Operation>,
}

impl Finished {
    /// The commit is in the log: the extents are the object's.
    pub fn adopt(mut self) {
        let inner = Arc::clone(&self.taken.inner);
        for (extent, marks) in self.taken.extents.drain(..).zip(&self.marks) {
            inner.pages.space.adopt_extent(self.object, extent, marks);
        }
    }

    /// Whose the extents are is not known before the next opening.
    pub fn lose(mut self) {
        self.taken.extents.clear();
    }
}
