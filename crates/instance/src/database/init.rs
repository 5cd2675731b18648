//! `cellar init`: a directory, its disks, one group with the catalog.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_storage::disks::Disks;
use cellar_storage::{InitSpec, Progress};

use super::{Database, OpenMode, host};
use crate::catalog::SharedCatalog;
use crate::directory::Directory;
use crate::error::Result;
use crate::instance::Instance;

/// Makes the disks and the group in a directory just [created](Directory::create) and locked, and
/// opens it. On failure the caller removes the directory; nothing outside it was touched but disks
/// that were named.
///
/// # Errors
/// No room, a disk that will not do, a value out of its range.
#[boxed]
pub async fn init(
    instance: Arc<Instance>,
    directory: Directory,
    disks: Arc<dyn Disks>,
    spec: &InitSpec,
    progress: &Progress<'_>,
) -> Result<Database> {
    let open = host::opening(&instance, &directory, disks, OpenMode::default());
    let storage = cellar_storage::init(open, spec, progress).await?;
    let (heap, kept) = Database::heap_in(&instance, &storage);
    let catalog = SharedCatalog::empty(Arc::clone(&kept) as _);
    Ok(Database::new(instance, directory, storage, (catalog, kept, heap)))
}
