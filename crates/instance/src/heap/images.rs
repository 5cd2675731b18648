//! The TEMPFILE of the heap: older page images that do not fit in memory, for as long as somebody reads
//! them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cellar_diskgroup::Group;
use cellar_heap::{SpillError, SpillFile};
use futures_util::future::BoxFuture;

use crate::error::{Error, Result};
use crate::temp::{TempFile, TempSpace};

/// The file is extended by this much at a time.
const STEP: u64 = 64 << 20;

const MIB: u64 = 1 << 20;

/// A file in the group of the heap, which is there while it is needed.
pub(super) struct ImageFile {
    group: Group,
    space: Arc<TempSpace>,
    file: Mutex<Option<(TempFile, u64)>>,
}

impl ImageFile {
    pub fn new(group: Group, space: Arc<TempSpace>) -> ImageFile {
        ImageFile { group, space, file: Mutex::default() }
    }

    /// The file, and how long it is.
    fn current(&self) -> MutexGuard<'_, Option<(TempFile, u64)>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> Result<TempFile> {
        let file = self.current().as_ref().map(|(file, _)| file.clone());
        file.ok_or_else(|| Error::new(27072, "the file of older images is there no longer"))
    }

    async fn make_room(&self, bytes: u64) -> Result<()> {
        let current = self.current().clone();
        let room = current.as_ref().map_or(0, |(_, room)| *room);
        if bytes <= room {
            return Ok(());
        }
        let wanted = bytes.next_multiple_of(STEP);
        // Half of the space that is free otherwise stays so: rows need it more.
        let writable = self.group.info().writable_mb.saturating_mul(MIB);
        if wanted > writable.saturating_add(room) / 2 {
            let name = self.group.name();
            let text = format!(
                "disk group \"{name}\" has no room for {} MiB of older images",
                wanted / MIB
            );
            return Err(Error::new(1652, text).hint("add a disk to the group"));
        }
        let file = match current {
            Some((file, _)) => file,
            None => TempFile::make_in(&self.group).await?,
        };
        file.make_room(wanted).await?;
        self.space.allocated.fetch_add(wanted - room, Ordering::Relaxed);
        *self.current() = Some((file, wanted));
        Ok(())
    }
}

impl SpillFile for ImageFile {
    fn make_room(&self, bytes: u64) -> BoxFuture<'_, std::result::Result<(), SpillError>> {
        Box::pin(async move { Ok(self.make_room(bytes).await?) })
    }

    fn write(&self, at: u64, bytes: Bytes) -> BoxFuture<'_, std::result::Result<(), SpillError>> {
        Box::pin(async move {
            let length = bytes.len() as u64;
            self.file()?.write(at, bytes).await?;
            self.space.written.fetch_add(length, Ordering::Relaxed);
            Ok(())
        })
    }

    fn read(
        &self,
        at: u64,
        length: usize,
    ) -> BoxFuture<'_, std::result::Result<Bytes, SpillError>> {
        Box::pin(async move {
            let bytes = self.file()?.read(at, length as u64).await?;
            self.space.read.fetch_add(length as u64, Ordering::Relaxed);
            Ok(bytes)
        })
    }

    fn clear(&self) {
        let Some((_, room)) = self.current().take() else { return };
        self.space.allocated.fetch_sub(room, Ordering::Relaxed);
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        self.clear();
    }
}
