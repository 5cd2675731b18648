//! The takeover of the catalog by the heap, step by step. What a crash leaves behind each step:
//!
//! | step | what the next opening finds |
//! |---|---|
//! | a redo log is made, where there is none | the catalog in its file, as before |
//! | the catalog is kept under another name | the same |
//! | a stub takes the place of its file: programs that know no heap refuse the database | the stub: it goes on |
//! | the log is opened for the heap, whose file is made if there is none | the same |
//! | tables for the catalog; in one transaction all that is in it | the same, or the catalog in the heap |
//! | the stub says that the heap has it | the catalog in the heap |

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::Group;
use cellar_io::EnvExt;
use cellar_storage::Progress;
use cellar_storage::redo::LogClient;
use cellar_storage::request::NewLogfile;

use super::Database;
use crate::catalog::{Catalog, CatalogStore, Stub};
use crate::catalog_file::BEFORE_PATH;
use crate::error::{Error, INTERNAL, Result};
use crate::heap::{HEAP_PATH, check_names};

/// Groups of a redo log that is made by itself, and the least and the most bytes of each.
const LOG_GROUPS: usize = 3;
const LOG_GROUP_MIN: u64 = 2 << 20;
const LOG_GROUP_MAX: u64 = 256 << 20;

/// Such a log group takes one part in so many of the room that is free.
const LOG_PART: u64 = 32;

/// Removes the file of a heap that nothing is in.
async fn remove_heap(group: &Group) -> Result<()> {
    match group.remove(HEAP_PATH).await {
        Ok(()) | Err(cellar_diskgroup::Error::NoSuchFile { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Database {
    /// Moves the catalog into the heap, if it is not there yet: only then can there be tables whose rows
    /// change. If the database has no redo log, one is made.
    ///
    /// # Errors
    /// No room, or the log is not open; the catalog is where it was.
    #[boxed]
    pub async fn use_heap(&self, progress: &Progress<'_>) -> Result<()> {
        if self.kept.is_in_heap() {
            return self.heap.store().map(|_| ());
        }
        self.storage.groups().check_writable()?;
        let redo = self.storage.redo();
        self.make_log(None, progress).await?;
        redo.log()?;
        let this = self.clone();
        // Runs to its end even if nobody waits for it any more: it must be known where the catalog is.
        let work = async move {
            let inside = this.clone();
            this.catalog().unchanged(|now| async move { inside.take_over(&now).await }).await
        };
        self.env().run("takeover of the catalog", work).await.unwrap_or_else(|| {
            Err(Error::new(INTERNAL, "the takeover of the catalog stopped half-way")
                .hint("open the database again: it goes on with it"))
        })
    }

    /// Makes a redo log where there is none: three groups of `size` bytes each, or by the room that is free.
    ///
    /// # Errors
    /// 15041 there is no room; a size that a log cannot have; a disk reports one.
    #[boxed]
    pub async fn make_log(&self, size: Option<u64>, progress: &Progress<'_>) -> Result<()> {
        let redo = self.storage.redo();
        if !redo.shared().is_there() {
            redo.add_logfiles(&self.new_log(size)?, progress).await?;
        }
        Ok(())
    }

    /// The groups of a log for this database.
    fn new_log(&self, size: Option<u64>) -> Result<Vec<NewLogfile>> {
        if size.is_some() {
            return Ok(vec![NewLogfile { size, ..NewLogfile::default() }; LOG_GROUPS]);
        }
        let group = self.kept.group()?;
        let free: u64 = group.disks().iter().map(|disk| disk.free_mb << 20).sum();
        let free = free / u64::from(group.info().redundancy.copies());
        let size = (free / LOG_PART).clamp(LOG_GROUP_MIN, LOG_GROUP_MAX) >> 20 << 20;
        let new = NewLogfile { size: Some(size), ..NewLogfile::default() };
        Ok(vec![new; LOG_GROUPS])
    }

    async fn take_over(&self, now: &Catalog) -> Result<()> {
        // Somebody else was faster.
        if self.kept.is_in_heap() {
            return Ok(());
        }
        check_names(now)?;
        let file = self.kept.file()?;
        // One of a takeover that failed: its log is of before.
        remove_heap(&self.kept.group()?).await?;
        file.keep_before(now).await?;
        file.put_stub(&Stub::new(HEAP_PATH, BEFORE_PATH, false)).await?;
        match self.finish_takeover(now).await {
            Ok(()) => Ok(()),
            Err(error) => {
                // Back to where it was: if that fails as well, the next opening goes on from the stub, with
                // the log as the heap has left it.
                if file.replace(now, now).await.is_ok() {
                    self.heap.expect_new(false);
                    let _ = self.storage.redo().open_for(None).await;
                    let _ = remove_heap(&self.kept.group()?).await;
                }
                Err(error)
            }
        }
    }

    /// From the stub on.
    pub(super) async fn finish_takeover(&self, now: &Catalog) -> Result<()> {
        self.heap.expect_new(true);
        let user = Arc::new(self.heap.clone()) as Arc<dyn LogClient>;
        self.storage.redo().open_for(Some(user)).await?;
        self.fill_heap(now).await
    }

    /// From the open heap on.
    pub(super) async fn fill_heap(&self, now: &Catalog) -> Result<()> {
        let in_heap = self.kept.in_heap();
        in_heap.make().await?;
        // What is found is of a takeover that did not come to its end: what was before it counts.
        match in_heap.load().await? {
            None => in_heap.replace(&Catalog::default(), now).await?,
            Some(found) if found == *now => {}
            Some(found) => in_heap.replace(&found, now).await?,
        }
        self.kept.file()?.put_stub(&Stub::new(HEAP_PATH, BEFORE_PATH, true)).await?;
        self.heap.expect_new(false);
        self.kept.set_in_heap();
        Ok(())
    }
}
