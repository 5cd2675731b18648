//! The catalog of a database as its first group holds it.

use cellar_diskgroup::Group;
use cellar_storage::MountedGroups;

use crate::catalog::{CatalogStore, StoreFuture};
use crate::catalog_file::GroupCatalog;
use crate::error::{Error, Result};

/// The catalog in the group that was mounted first, once one is.
pub(super) struct FirstGroupCatalog(pub MountedGroups);

impl FirstGroupCatalog {
    fn group(&self) -> Result<Group> {
        let first = self.0.first().map(|mounted| mounted.group);
        first.ok_or_else(|| Error::new(15001, "no disk group is mounted that holds the catalog"))
    }
}

impl CatalogStore for FirstGroupCatalog {
    fn read(&self) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { GroupCatalog::new(self.group()?).read().await })
    }

    fn replace(&self, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let catalog = GroupCatalog::new(self.group()?);
            catalog.replace(bytes).await?;
            catalog.keep_spare().await;
            Ok(())
        })
    }
}
