//! The file of the heap in the first disk group.

use std::sync::Arc;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{FileSpec, Group};
use cellar_heap::{Geometry, NewStore};
use cellar_io::Device;
use cellar_redo::Recovery;

use super::{Heap, PAGE, from_heap};
use crate::error::{Error, Result};

/// Where the heap is in its group.
pub const HEAP_PATH: &str = "cellar/heap";

/// The least and the most bytes that a new file has.
const SIZE_MIN: u64 = 16 << 20;
const SIZE_MAX: u64 = 16 << 30;

/// A new file takes one part in so many of the room that is free.
const PART: u64 = 8;

impl Heap {
    /// The file, for a log that is being recovered. It is made where there is none and there may be none.
    ///
    /// # Errors
    /// 70163 it is missing; what the group reports.
    pub(super) async fn file(&self, recovery: &Recovery) -> Result<Arc<dyn Device>> {
        let group = self.group()?;
        match group.open(HEAP_PATH) {
            Ok(file) => return Ok(Arc::new(file)),
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) if self.is_new() => {}
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) => return Err(missing(&group)),
            Err(error) => return Err(error.into()),
        }
        let spec = FileSpec {
            unit: Some(PAGE as u32),
            template: Some(String::new()),
            ..FileSpec::new(FileType::Datafile)
        };
        let file = group.create_file(&spec).await?;
        let size = first_size(&group);
        file.allocate(size).await?;
        file.set_size(size).await?;
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
        Ok(device)
    }
}

/// Bytes of a new file in this group.
fn first_size(group: &Group) -> u64 {
    let free: u64 = group.disks().iter().map(|disk| disk.free_mb << 20).sum();
    let free = free / u64::from(group.info().redundancy.copies());
    (free / PART).clamp(SIZE_MIN, SIZE_MAX).next_multiple_of(1 << 20)
}

fn missing(group: &Group) -> Error {
    let text = format!("the heap is missing: there is no file \"+{}/{HEAP_PATH}\"", group.name());
    Error::new(70163, text).hint("bring back the disks that have it: cellar status DIR names them")
}
