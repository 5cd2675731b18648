//! The catalog of a database where it is kept: in a file of its first group, or in the heap once that has it.

use std::sync::{Mutex, PoisonError};

use cellar_diskgroup::Group;
use cellar_storage::MountedGroups;

use crate::catalog::{Catalog, CatalogStore, StoreFuture, Stub};
use crate::catalog_file::GroupCatalog;
use crate::error::{Error, NextStep, Result};
use crate::heap::{Heap, HeapCatalog};

/// The place of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Its file.
    #[default]
    File,
    /// The file of another name: on its way to the heap.
    Before,
    /// The heap.
    Heap,
}

/// A catalog and its place.
pub(super) struct KeptCatalog {
    groups: MountedGroups,
    heap: Heap,
    place: Mutex<Place>,
}

impl KeptCatalog {
    /// The catalog of the database in these groups, in a file for all that is known.
    pub fn new(groups: MountedGroups, heap: Heap) -> KeptCatalog {
        KeptCatalog { groups, heap, place: Mutex::default() }
    }

    /// The group that has it: the one that was mounted first.
    pub fn group(&self) -> Result<Group> {
        let first = self.groups.first().map(|mounted| mounted.group);
        first.ok_or_else(|| Error::new(15001, "no disk group is mounted that holds the catalog"))
    }

    /// The file.
    pub fn file(&self) -> Result<GroupCatalog> {
        self.group().map(GroupCatalog::new)
    }

    fn place(&self) -> Place {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_place(&self, place: Place) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The stub in the place of the file, if the catalog is in the heap or on its way there: from now on
    /// the catalog is looked for where the stub says.
    pub async fn find(&self) -> Result<Option<Stub>> {
        let stub = self.file()?.stub().await?;
        self.set_place(match &stub {
            None => Place::File,
            Some(stub) if stub.is_done => Place::Heap,
            Some(_) => Place::Before,
        });
        Ok(stub)
    }

    /// Whether the heap has it.
    pub fn is_in_heap(&self) -> bool {
        self.place() == Place::Heap
    }

    /// The heap has it from now on.
    pub fn set_in_heap(&self) {
        self.set_place(Place::Heap);
    }

    /// The catalog in the heap.
    pub fn in_heap(&self) -> HeapCatalog {
        HeapCatalog(self.heap.clone())
    }
}

impl CatalogStore for KeptCatalog {
    fn load(&self) -> StoreFuture<'_, Option<Catalog>> {
        Box::pin(async move {
            match self.place() {
                Place::File => self.file()?.load().await,
                Place::Before => self.file()?.before().await.map(Some),
                Place::Heap => match self.in_heap().load().await? {
                    Some(catalog) => Ok(Some(catalog)),
                    None => Err(lacking()),
                },
            }
        })
    }

    fn replace<'a>(&'a self, now: &'a Catalog, next: &'a Catalog) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            match self.place() {
                Place::Heap => self.in_heap().replace(now, next).await,
                Place::Before => Err(moving()),
                Place::File => {
                    let file = self.file()?;
                    file.replace(now, next).await?;
                    file.keep_spare().await;
                    Ok(())
                }
            }
        })
    }
}

fn moving() -> Error {
    let text = "the catalog is on its way to the heap, which is not open";
    Error::new(70162, text)
        .hint(NextStep::default().cellar("status", "").then(" tells what the redo log lacks"))
}

fn lacking() -> Error {
    let text = "the catalog is damaged: the heap has none, though it is said to be there";
    Error::new(70108, text).hint(NextStep::from("see what else is: ").cellar("validate", ""))
}
