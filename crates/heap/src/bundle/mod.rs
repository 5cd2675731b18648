//! The page changes of one commit: private copies, until the record that describes them is in the log.

mod filled;
mod retained;
mod spares;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::Buffer;
use cellar_page::{PageMut, PageRef};
use cellar_redo::Appended;
use smallvec::SmallVec;

use crate::change::Change;
use crate::frames::{Frame, Frames, raw_mut};
use crate::geometry::Geometry;
pub(crate) use filled::FilledPage;
pub(crate) use retained::{ImageLimits, Older, RetainedImages};
pub(crate) use spares::Spares;

/// Why an operation cannot be done now.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The log does not take it: the log has stopped, or the record is too long.
    Log(cellar_redo::Error),
    /// The row to be changed is gone: somebody else has changed it.
    Changed,
    /// The page must be in memory.
    NeedsPage(u32),
    /// A free page of the object is needed.
    NeedsSpare(u32),
    /// The page has no room for the row.
    NoPlace,
    /// The log has no room for this many bytes right now: room must be reserved.
    NoRoom(usize),
    /// A slot of a filled page may not be used yet.
    Resting,
}

/// Up to this many pages are searched one by one.
const FEW: usize = 16;

/// The pages of a commit and its record.
pub(crate) struct Bundle<'a> {
    store: u64,
    geometry: Geometry,
    frames: &'a Frames,
    retained: &'a RetainedImages,
    freed: HashSet<(u32, usize)>,
    pages: SmallVec<[Open; 2]>,
    /// Where each page is, once there are many.
    places: HashMap<u32, usize>,
    /// The last page looked at: it is usually asked for again, and then changed.
    seen: RefCell<Option<Arc<Frame>>>,
    body: Vec<u8>,
}

/// A page that is being changed.
struct Open {
    frame: Arc<Frame>,
    bytes: Buffer,
    changes: u64,
}

impl<'a> Bundle<'a> {
    /// An empty one, whose redo takes about so many bytes.
    pub fn new(
        frames: &'a Frames,
        retained: &'a RetainedImages,
        geometry: Geometry,
        redo_bytes: usize,
    ) -> Bundle<'a> {
        let (store, body) = (frames.store(), Vec::with_capacity(redo_bytes));
        let (pages, freed, places) = (SmallVec::new(), HashSet::new(), HashMap::new());
        let seen = RefCell::default();
        Bundle { store, geometry, frames, retained, freed, pages, places, seen, body }
    }

    /// Whether a free slot may not be used yet: somebody may still refer to the row that it had.
    pub fn is_resting(&self, page: u32, slot: usize) -> bool {
        self.retained.is_resting(page, slot) || self.freed.contains(&(page, slot))
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The changes, as redo has them, to be taken once.
    pub fn take_body(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.body))
    }

    /// Looks at a page as this commit has left it so far.
    pub fn look<T>(&self, page: u32, look: impl FnOnce(PageRef<'_>) -> T) -> Result<T, Refused> {
        if let Some(at) = self.position(page) {
            let raw = self.pages[at].bytes[..].try_into().expect("a page");
            return Ok(look(PageRef::new(raw)));
        }
        let frame = match self.seen.take() {
            Some(frame) if frame.number() == page => frame,
            _ => self.resident(page)?,
        };
        let looked = look(frame.current().page());
        self.seen.replace(Some(frame));
        Ok(looked)
    }

    fn resident(&self, page: u32) -> Result<Arc<Frame>, Refused> {
        self.frames.resident(page).ok_or(Refused::NeedsPage(page))
    }

    fn position(&self, page: u32) -> Option<usize> {
        match self.pages.len() > FEW {
            true => self.places.get(&page).copied(),
            false => self.pages.iter().rposition(|open| open.frame.number() == page),
        }
    }

    /// Takes over a page that its write set has filled.
    pub fn take_over(&mut self, page: u32, filled: FilledPage) -> Result<(), Refused> {
        if self.retained.has_resting() && (0..filled.slots).any(|slot| self.is_resting(page, slot))
        {
            return Err(Refused::Resting);
        }
        // A page that counts as free by mistake, and has rows that this set changes.
        if self.position(page).is_some() {
            return Err(Refused::Changed);
        }
        let frame = self.resident(page)?;
        self.body.extend_from_slice(&filled.redo);
        self.push(Open { frame, bytes: filled.bytes, changes: filled.changes });
        Ok(())
    }

    fn open(&mut self, frame: Arc<Frame>) -> usize {
        let bytes = frame.current().copy();
        self.push(Open { frame, bytes, changes: 0 })
    }

    fn push(&mut self, open: Open) -> usize {
        self.pages.push(open);
        let last = self.pages.len() - 1;
        if last >= FEW {
            let from = self.places.len();
            let more = self.pages.iter().enumerate().skip(from);
            self.places.extend(more.map(|(place, open)| (open.frame.number(), place)));
        }
        last
    }

    /// Records that these pages were written around the log, and the generation of the header that has them.
    pub fn note_unlogged(&mut self, first: u32, pages: usize, generation: u64) {
        Change::Unlogged { pages, generation }.encode(first, &mut self.body);
    }

    /// Changes a page that can take it.
    pub fn change(&mut self, page: u32, change: Change<'_>) -> Result<(), Refused> {
        let at = match self.position(page) {
            Some(at) => at,
            None => {
                let seen = self.seen.take().filter(|frame| frame.number() == page);
                let frame = seen.map_or_else(|| self.resident(page), Ok)?;
                self.open(frame)
            }
        };
        if let Change::Free { slot } = change {
            self.freed.insert((page, slot));
        }
        change.encode(page, &mut self.body);
        let open = &mut self.pages[at];
        open.changes += 1;
        change.apply(self.store, page, raw_mut(&mut open.bytes));
        Ok(())
    }

    /// Makes the pages visible to all.
    pub fn publish(self, appended: Appended) -> Changed {
        let mut frames = SmallVec::new();
        for Open { frame, mut bytes, changes } in self.pages {
            PageMut::new(raw_mut(&mut bytes)).set_lsn(appended.lsn.0);
            let has_older = frame.publish(bytes, appended.end.0, changes);
            frames.push((frame, has_older));
        }
        Changed { frames, freed: self.freed }
    }
}

/// What a commit has changed.
pub(crate) struct Changed {
    /// Each with whether it has one more older image.
    pub frames: SmallVec<[(Arc<Frame>, bool); 2]>,
    /// Slots of pages that are free now.
    pub freed: HashSet<(u32, usize)>,
}
