//! Objects of a store: its tables and indexes, and the room that they take.

use cellar_page::PAGE_BYTES;

use super::Store;
use crate::counters::COUNTERS;
use crate::error::Error;
use crate::space::allocate::Use;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A table.
    Table,
    /// An index.
    Index,
}

/// A table or an index of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its number.
    pub number: u32,
    /// What it is.
    pub kind: ObjectKind,
    /// The extents that it has.
    pub extents: u32,
    /// The room that they take in the file, in bytes.
    pub bytes: u64,
}

impl Store {
    /// All tables and indexes by their numbers, without what the store has for itself. One that is being made is
    /// among them: who removes what nobody knows makes none meanwhile.
    pub fn objects(&self) -> Vec<StoredObject> {
        let extent = u64::from(self.0.pages.geometry.extent_pages) * PAGE_BYTES as u64;
        let objects = self.0.pages.space.objects().into_iter();
        let objects = objects.filter(|(number, ..)| *number != COUNTERS);
        let object = |(number, kind, extents): (u32, Use, u32)| {
            let kind = match kind {
                Use::Table => ObjectKind::Table,
                Use::Index => ObjectKind::Index,
            };
            StoredObject { number, kind, extents, bytes: u64::from(extents) * extent }
        };
        objects.map(object).collect()
    }

    /// A table or an index.
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn object(&self, number: u32) -> Result<StoredObject, Error> {
        let found = self.objects().into_iter().find(|object| object.number == number);
        found.ok_or(Error::WrongObject { object: number, expected: "table or index" })
    }

    /// No view is below this point, now or later: what a commit at a lower LSN took the place of is seen by nobody,
    /// and can be dropped.
    pub fn oldest_view(&self) -> u64 {
        self.0.oldest()
    }
}
