//! The file of the heap in the first disk group: it is small at first, and grows while it is open.

use std::sync::Arc;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_heap::{Geometry, Growth, GrowthError, NewStore};
use cellar_io::Device;
use cellar_redo::Recovery;
use futures_util::future::BoxFuture;

use super::{Heap, PAGE, from_heap};
use crate::error::{Error, NextStep, Result};

/// Where the heap is in its group.
pub const HEAP_PATH: &str = "cellar/heap";

/// Bytes of a new file.
const SIZE: u64 = 16 << 20;

/// What makes the file longer, as long as its group has room.
pub(super) struct FileGrowth(pub Arc<File>);

impl FileGrowth {
    /// Says that all the room of the file is in use, as a store takes it: also room that a crash came behind, and
    /// what rounds it up to whole allocation units. Who copies the file without the heap copies so much of it.
    pub async fn set_size(&self) -> std::result::Result<u64, cellar_diskgroup::Error> {
        let room = self.0.geometry().size;
        if self.0.size() < room {
            self.0.set_size_within(room).await?;
        }
        Ok(room)
    }

    async fn grow_to(&self, bytes: u64) -> std::result::Result<u64, GrowthError> {
        self.0.allocate(bytes).await?;
        Ok(self.set_size().await?)
    }
}

/// The file of the heap is missing.
const MISSING: u32 = 70163;

impl Growth for FileGrowth {
    fn grow(&self, to_bytes: u64) -> BoxFuture<'_, std::result::Result<u64, GrowthError>> {
        Box::pin(self.grow_to(to_bytes))
    }
}

impl Heap {
    /// The file that is there.
    ///
    /// # Errors
    /// 70163 it is missing; what the group reports.
    pub(super) fn existing_file(&self) -> Result<Arc<File>> {
        let group = self.group()?;
        match group.open(HEAP_PATH) {
            Ok(file) => {
                // Redo names each page that was written since the checkpoint.
                file.recovered_by_owner();
                Ok(Arc::new(file))
            }
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) => Err(missing(&group)),
            Err(error) => Err(error.into()),
        }
    }

    /// The file, for a log that is being recovered. It is made where there is none and there may be none.
    ///
    /// # Errors
    /// 70163 it is missing; what the group reports.
    pub(super) async fn file(&self, recovery: &Recovery) -> Result<Arc<File>> {
        match self.existing_file() {
            Err(error) if error.has(MISSING) && self.is_new() => {}
            found => return found,
        }
        let group = self.group()?;
        let spec = FileSpec {
            unit: Some(PAGE as u32),
            template: Some(String::new()),
            ..FileSpec::new(FileType::Datafile)
        };
        let file = group.create_file(&spec).await?;
        file.allocate(SIZE).await?;
        file.recovered_by_owner();
        let file = Arc::new(file);
        let device = Arc::clone(&file) as Arc<dyn Device>;
        let new = NewStore {
            store: self.0.env.random(),
            database: recovery.database().0,
            geometry: Geometry::default(),
            from: recovery.checkpoint(),
        };
        cellar_heap::create(&device, new).await.map_err(from_heap)?;
        // Named when it is whole: what has no name is gone at the next mount.
        group.publish(&file, HEAP_PATH, false).await?;
        Ok(file)
    }
}

fn missing(group: &Group) -> Error {
    let text = format!("the heap is missing: there is no file \"+{}/{HEAP_PATH}\"", group.name());
    Error::new(MISSING, text).hint(
        NextStep::from("bring back the disks that have it: ")
            .cellar("status", "")
            .then(" names them"),
    )
}
