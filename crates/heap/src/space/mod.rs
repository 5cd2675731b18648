//! Free space: which extents and pages are unused, and who gets them. This is decided here, in memory, before
//! the lane; what a commit did not use comes back.

pub(crate) mod allocate;
pub(crate) mod map;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cellar_page::Kind;
use cellar_wait::Session;

use crate::error::Error;
use crate::frames::Frames;
use crate::geometry::{EXTENTS_PER_MAP, Geometry};
use crate::index::Index;
use allocate::Use;

/// The free space of a store.
pub(crate) struct Space {
    geometry: Geometry,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Extents of the file that the extent map tells of.
    extents: u32,
    free_extents: BTreeSet<u32>,
    /// The last record about each freed extent in the log.
    touched: BTreeMap<u32, u64>,
    /// The last record about any other extent, at most.
    touched_before: u64,
    /// Extents that were freed, by the record that freed them: older snapshots see what was in them.
    resting: VecDeque<(u64, u32)>,
    /// Pages that were freed as they are, each with its object, likewise.
    resting_pages: VecDeque<(u64, u32, u32)>,
    objects: BTreeMap<u32, Object>,
}

/// A table or an index, and its space.
struct Object {
    kind: Use,
    extents: BTreeSet<u32>,
    /// Where an index has its root.
    root: u32,
    /// It is being dropped, and gets no more extents.
    is_leaving: bool,
    /// What follows is known.
    is_loaded: bool,
    free: BTreeSet<u32>,
    /// Pages of rows that may have room.
    open: BTreeSet<u32>,
}

impl Space {
    /// Reads the extent map. The last record of the log is `last`.
    pub async fn load(
        frames: &Frames,
        session: &Session,
        geometry: Geometry,
        extents: u32,
        last: u64,
    ) -> Result<Space, Error> {
        let mut state = State { extents, touched_before: last, ..State::default() };
        for first in map::with_maps(geometry, extents) {
            let frame = frames.load(session, geometry.first_page(first)).await?;
            let image = frame.current();
            for extent in first + 1..extents.min(first + EXTENTS_PER_MAP) {
                state.add_extent(geometry, extent, image.raw());
            }
        }
        Ok(Space { geometry, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Extents of the file that the extent map tells of.
    pub fn file_extents(&self) -> u32 {
        self.lock().extents
    }

    /// The file has grown, and the extent map tells of all extents up to these.
    pub fn adopt(&self, known: u32, extents: u32) {
        let mut state = self.lock();
        let maps: BTreeSet<u32> = map::with_maps(self.geometry, extents).collect();
        state.free_extents.extend((known..extents).filter(|extent| !maps.contains(extent)));
        state.extents = extents;
    }

    /// The index with this number.
    pub fn index(&self, object: u32) -> Result<Index, Error> {
        match self.lock().objects.get(&object) {
            Some(Object { kind: Use::Index, root, .. }) if *root > 0 => {
                Ok(Index { object, root: *root })
            }
            _ => Err(Error::WrongObject { object, expected: "index" }),
        }
    }

    /// Whether this is the number of a table.
    pub fn check_table(&self, table: u32) -> Result<(), Error> {
        match self.lock().objects.get(&table) {
            Some(Object { kind: Use::Table, .. }) => Ok(()),
            _ => Err(Error::WrongObject { object: table, expected: "table" }),
        }
    }

    /// All tables and indexes, by their numbers: what each is, and how many extents it has.
    pub fn objects(&self) -> Vec<(u32, Use, u32)> {
        let state = self.lock();
        let of = |(number, at): (&u32, &Object)| (*number, at.kind, at.extents.len() as u32);
        state.objects.iter().map(of).collect()
    }

    /// The extents of a table, in order.
    pub fn extents(&self, table: u32) -> Result<Vec<u32>, Error> {
        match self.lock().objects.get(&table) {
            Some(Object { kind: Use::Table, extents, .. }) => Ok(extents.iter().copied().collect()),
            _ => Err(Error::WrongObject { object: table, expected: "table" }),
        }
    }

    /// Whether the free pages of an object are known.
    pub fn is_loaded(&self, object: u32) -> bool {
        self.lock().objects.get(&object).is_none_or(|at| at.is_loaded)
    }

    /// Reads which pages of an object are free, unless that is known already.
    pub async fn ensure(
        &self,
        frames: &Frames,
        session: &Session,
        object: u32,
    ) -> Result<(), Error> {
        let mut read = BTreeMap::new();
        // It may get an extent while others are read.
        while let Some(extents) = self.extents_to_read(object, &read)? {
            for extent in extents {
                let frame = frames.load(session, self.geometry.first_page(extent)).await?;
                let image = frame.current();
                if image.page().kind() != Some(Kind::Space) || image.page().owner() != object {
                    return Err(Error::WrongObject { object, expected: "owner of its extents" });
                }
                let byte = |place| image.raw()[allocate::byte_of(place)];
                read.insert(extent, (0..self.geometry.extent_pages).map(byte).collect());
            }
        }
        Ok(())
    }

    /// The extents of an object whose marks are to be read beside these. `None` where there are none: then it is
    /// known which of its pages are free.
    fn extents_to_read(
        &self,
        object: u32,
        read: &BTreeMap<u32, Vec<u8>>,
    ) -> Result<Option<Vec<u32>>, Error> {
        let mut state = self.lock();
        let at = state.objects.get_mut(&object);
        let at = at.ok_or(Error::WrongObject { object, expected: "table or index" })?;
        if at.is_loaded {
            return Ok(None);
        }
        let lacking: Vec<u32> =
            at.extents.iter().copied().filter(|extent| !read.contains_key(extent)).collect();
        if !lacking.is_empty() {
            return Ok(Some(lacking));
        }
        at.is_loaded = true;
        for (extent, marks) in read {
            if at.extents.contains(extent) {
                at.take_marks(self.geometry.first_page(*extent), marks);
            }
        }
        Ok(None)
    }

    /// A free page of an object whose space is known; `None` where it needs another extent.
    pub fn take_page(&self, object: u32) -> Option<u32> {
        self.lock().objects.get_mut(&object)?.free.pop_first()
    }

    /// Has pages be free when no snapshot sees what was in them, before this record freed them.
    pub fn rest_pages(&self, lsn: u64, pages: impl IntoIterator<Item = (u32, u32)>) {
        let pages = pages.into_iter().map(|(object, page)| (lsn, object, page));
        self.lock().resting_pages.extend(pages);
    }

    /// Has pages be free in which no snapshot sees anything. `oldest`: none is below this.
    pub fn wake_pages(&self, oldest: u64) {
        let mut state = self.lock();
        while state.resting_pages.front().is_some_and(|(lsn, ..)| *lsn < oldest) {
            let Some((_, object, page)) = state.resting_pages.pop_front() else { break };
            let extent = self.geometry.extent_of(page);
            if let Some(at) = state.objects.get_mut(&object)
                && at.extents.contains(&extent)
            {
                at.free.insert(page);
            }
        }
    }

    /// Takes a number for a new object, which has no extent yet.
    pub fn begin_object(&self, object: u32, kind: Use) -> Result<(), Error> {
        let mut state = self.lock();
        if object == 0 || state.objects.contains_key(&object) {
            return Err(Error::WrongObject { object, expected: "free number" });
        }
        state.objects.insert(object, Object::new(kind, true));
        Ok(())
    }

    /// The creation of a new object failed.
    pub fn forget_object(&self, object: u32) {
        self.lock().objects.remove(&object);
    }

    /// Takes a free extent for an object; what that is for, and whether it is its first. `oldest`: no
    /// snapshot is below this.
    pub fn take_extent(&self, object: u32, oldest: u64) -> Result<(u32, Use, bool), Error> {
        let mut state = self.lock();
        let at = state.objects.get(&object).filter(|at| !at.is_leaving);
        let at = at.ok_or(Error::WrongObject { object, expected: "table or index" })?;
        let (kind, is_first) = (at.kind, at.extents.is_empty());
        let extent = state.free_extent(oldest);
        let extent = extent.ok_or_else(|| state.full(object))?;
        Ok((extent, kind, is_first))
    }

    /// Up to which record the log may describe pages of a free extent.
    pub fn touched(&self, extent: u32) -> u64 {
        let state = self.lock();
        state.touched.get(&extent).copied().unwrap_or(state.touched_before)
    }

    /// Begins to take all extents from an object; with `is_emptied` it gets a new first one. Returns that one
    /// and its purpose, and the others.
    pub fn begin_removal(
        &self,
        object: u32,
        is_emptied: bool,
        oldest: u64,
    ) -> Result<(Option<u32>, Use, Vec<u32>), Error> {
        let mut state = self.lock();
        let at = state.objects.get(&object).filter(|at| !at.is_leaving && !at.extents.is_empty());
        let at = at.ok_or(Error::WrongObject { object, expected: "table or index" })?;
        let (kind, extents) = (at.kind, at.extents.iter().copied().collect());
        let first = match is_emptied {
            true => {
                let first = state.free_extent(oldest);
                Some(first.ok_or_else(|| state.full(object))?)
            }
            false => None,
        };
        if let Some(at) = state.objects.get_mut(&object) {
            at.is_leaving = true;
        }
        Ok((first, kind, extents))
    }

    /// Completes that: the extents rest from this record on, or everything is as before.
    pub fn end_removal(&self, object: u32, first: Option<u32>, removed: Option<u64>) {
        let mut state = self.lock();
        let Some(lsn) = removed else {
            state.free_extents.extend(first);
            if let Some(at) = state.objects.get_mut(&object) {
                at.is_leaving = false;
            }
            return;
        };
        let Some(old) = state.objects.remove(&object) else { return };
        state.resting.extend(old.extents.iter().map(|extent| (lsn, *extent)));
        state.touched.extend(old.extents.iter().map(|extent| (*extent, lsn)));
        state.resting_pages.retain(|(_, of, _)| *of != object);
        if let Some(first) = first {
            state.objects.insert(object, Object::new(old.kind, true));
            drop(state);
            self.add_extent(object, first);
        }
    }

    /// An extent that was taken was not used.
    pub fn return_extent(&self, extent: u32) {
        self.lock().free_extents.insert(extent);
    }

    /// An extent that was taken belongs to the object now.
    pub fn add_extent(&self, object: u32, extent: u32) {
        let first = self.geometry.first_page(extent);
        let mut state = self.lock();
        let Some(at) = state.objects.get_mut(&object) else { return };
        let is_first = at.extents.is_empty();
        at.extents.insert(extent);
        let mut pages = first + 1..first + self.geometry.extent_pages;
        if is_first && at.kind == Use::Index {
            at.root = first + 1;
            pages.next();
        }
        at.free.extend(pages);
    }

    /// An extent that was taken belongs to the object now, and this is what its space page says.
    pub fn adopt_extent(&self, object: u32, extent: u32, marks: &[u8]) {
        let first = self.geometry.first_page(extent);
        let mut state = self.lock();
        let Some(at) = state.objects.get_mut(&object) else { return };
        at.extents.insert(extent);
        // Where the others are not known yet, all are read together later.
        if at.is_loaded {
            at.take_marks(first, marks);
        }
    }

    /// Pages that were taken are free, or were given back.
    pub fn return_pages(&self, pages: impl IntoIterator<Item = (u32, u32)>) {
        let mut state = self.lock();
        for (object, page) in pages {
            // The extent may have gone with a TRUNCATE meanwhile.
            let extent = self.geometry.extent_of(page);
            if let Some(at) = state.objects.get_mut(&object)
                && at.extents.contains(&extent)
            {
                at.open.remove(&page);
                at.free.insert(page);
            }
        }
    }

    /// A page of a table that may have room for a row; `None` where none is known.
    pub fn open_page(&self, table: u32) -> Option<u32> {
        self.lock().objects.get(&table)?.open.last().copied()
    }

    /// Says whether a page of a table may have room for a row.
    pub fn set_open(&self, table: u32, page: u32, is_open: bool) {
        let mut state = self.lock();
        let Some(at) = state.objects.get_mut(&table) else { return };
        match is_open {
            true => at.open.insert(page),
            false => at.open.remove(&page),
        };
    }
}

impl State {
    fn full(&self, object: u32) -> Error {
        Error::Full { object, extents: self.extents, cause: None }
    }

    /// A free extent whose old contents no snapshot can see.
    fn free_extent(&mut self, oldest: u64) -> Option<u32> {
        while self.resting.front().is_some_and(|(lsn, _)| *lsn < oldest) {
            self.free_extents.extend(self.resting.pop_front().map(|(_, extent)| extent));
        }
        self.free_extents.pop_first()
    }

    /// What the map says of an extent.
    fn add_extent(&mut self, geometry: Geometry, extent: u32, map: &cellar_page::Raw) {
        let (_, at) = geometry.map_entry(extent);
        let object = u32::from_le_bytes([map[at], map[at + 1], map[at + 2], map[at + 3]]);
        let Some(kind) = Use::from_number(map[at + 4]).filter(|_| object != 0) else {
            self.free_extents.insert(extent);
            return;
        };
        let entry = self.objects.entry(object).or_insert_with(|| Object::new(kind, false));
        entry.extents.insert(extent);
        if map[at + 5] == 1 {
            entry.root = geometry.first_page(extent) + 1;
        }
    }
}

impl Object {
    fn new(kind: Use, is_loaded: bool) -> Object {
        let (extents, free, open) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Object { kind, extents, root: 0, is_leaving: false, is_loaded, free, open }
    }

    /// What the space page `first` says of itself and of the pages behind it.
    fn take_marks(&mut self, first: u32, marks: &[u8]) {
        for (page, mark) in (first..).zip(marks).skip(1) {
            match *mark {
                0 => self.free.insert(page),
                allocate::IN_USE if self.kind == Use::Table => self.open.insert(page),
                _ => false,
            };
        }
    }
}
