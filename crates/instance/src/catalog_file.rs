//! The catalog in a file of a group. A new one is written beside the old one, made durable, and
//! takes its name: after a crash there is one of both, whole.
//!
//! A second file, as large as the catalog, is kept for that: the two swap names. So a change that does
//! not enlarge the catalog needs no space, even if the group is full to its last AU, and DROP and
//! TRUNCATE can free space.

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_io::{Device, DeviceExt, Durability, Io};

use crate::catalog::{Catalog, CatalogStore, StoreFuture, Stub};
use crate::error::{Error, Result};

/// Where the catalog is in its group.
pub const CATALOG_PATH: &str = "cellar/catalog";
/// Where the next one is written.
pub(crate) const SPARE_PATH: &str = "cellar/catalog.next";

/// Where the catalog is kept as it was before the heap had it.
pub(crate) const BEFORE_PATH: &str = "cellar/catalog.before";

/// Files are read and written in these units, whatever their size.
const BLOCK: usize = 4096;

/// The catalog in a file of a group.
pub struct GroupCatalog(Group);

impl GroupCatalog {
    /// The catalog in `group`.
    pub fn new(group: Group) -> GroupCatalog {
        GroupCatalog(group)
    }

    /// The file of that name; `None`: there is none.
    fn file(&self, path: &str) -> Result<Option<File>> {
        match self.0.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The stub in the place of the catalog, if the catalog is in the heap.
    ///
    /// # Errors
    /// The group reports one, or it is damaged.
    pub(crate) async fn stub(&self) -> Result<Option<Stub>> {
        match self.read_all(CATALOG_PATH).await? {
            Some(bytes) => Stub::decode(&bytes),
            None => Ok(None),
        }
    }

    /// Puts a stub in the place of the catalog.
    ///
    /// # Errors
    /// No room; the group reports another one. The file is the old one then, or the new one.
    pub(crate) async fn put_stub(&self, stub: &Stub) -> Result<()> {
        self.write_all(stub.encode()?).await
    }

    /// Keeps a catalog under another name: as it is before the heap has it.
    ///
    /// # Errors
    /// No room; the group reports another one.
    pub(crate) async fn keep_before(&self, catalog: &Catalog) -> Result<()> {
        let mut bytes = catalog.encode()?;
        let size = bytes.len();
        bytes.resize(size.next_multiple_of(BLOCK), 0);
        let file = self.0.create_file(&GroupCatalog::spec()).await?;
        file.set_size(size as u64).await?;
        file.write_at(Io::COMMIT, 0, Bytes::from(bytes), Durability::Durable).await?;
        Ok(self.0.publish(&file, BEFORE_PATH, true).await?)
    }

    /// The catalog that was kept so.
    ///
    /// # Errors
    /// 70108 it is missing or damaged; the group reports another one.
    pub(crate) async fn before(&self) -> Result<Catalog> {
        match self.read_all(BEFORE_PATH).await? {
            Some(bytes) => Catalog::decode(&bytes),
            None => Err(Error::new(70108, format!("file \"{BEFORE_PATH}\" is missing"))),
        }
    }

    async fn read_all(&self, path: &str) -> Result<Option<Vec<u8>>> {
        loop {
            let Some(file) = self.file(path)? else { return Ok(None) };
            let size = usize::try_from(file.size()).unwrap_or(usize::MAX);
            if size == 0 {
                return Ok(Some(Vec::new()));
            }
            let read = file.read_at(Io::FOREGROUND, 0, size.next_multiple_of(BLOCK)).await;
            // A file that has lost the name meanwhile is written to again.
            let now = self.file(path)?;
            if now.is_some_and(|now| now.number() == file.number() && now.size() == size as u64) {
                return Ok(Some(read?[..size].to_vec()));
            }
        }
    }

    fn spec() -> FileSpec {
        // Whatever a template says of control files: without the catalog no table is known.
        FileSpec {
            template: Some(String::new()),
            checksums: Some(true),
            ..FileSpec::new(FileType::Controlfile)
        }
    }

    async fn write_all(&self, mut bytes: Vec<u8>) -> Result<()> {
        let size = bytes.len();
        bytes.resize(size.next_multiple_of(BLOCK), 0);
        let bytes = Bytes::from(bytes);
        if let Some(spare) = self.spare()?
            && let Some(current) = self.file(CATALOG_PATH)?
        {
            // Both of them first: when the catalog becomes smaller again, neither needs more.
            spare.allocate(size as u64).await?;
            current.allocate(size as u64).await?;
            spare.set_size_within(size as u64).await?;
            spare.write_at(Io::COMMIT, 0, bytes, Durability::Durable).await?;
            self.0.exchange(SPARE_PATH, CATALOG_PATH).await?;
            return Ok(());
        }
        let file = self.0.create_file(&GroupCatalog::spec()).await?;
        file.set_size(size as u64).await?;
        file.write_at(Io::COMMIT, 0, bytes, Durability::Durable).await?;
        self.0.publish(&file, CATALOG_PATH, true).await?;
        Ok(())
    }

    /// The file that the next catalog is written to, if it is one of ours.
    fn spare(&self) -> Result<Option<File>> {
        let spare = self.file(SPARE_PATH)?;
        let is_ours = |file: &File| {
            let attributes = file.attributes();
            let copies = self.0.info().redundancy.copies();
            attributes.file_type == FileType::Controlfile
                && attributes.checksums
                && attributes.copies == copies
        };
        Ok(spare.filter(is_ours))
    }

    /// Reserves space for the next catalog, if there is a catalog and there is space. If not, the next
    /// change needs some.
    pub async fn keep_spare(&self) {
        // What cannot be done now is tried with the next change.
        let _ = self.try_keep_spare().await;
    }

    async fn try_keep_spare(&self) -> Result<()> {
        let Some(current) = self.file(CATALOG_PATH)? else { return Ok(()) };
        let room = current.geometry().size;
        match self.file(SPARE_PATH)? {
            Some(_) => {
                if let Some(spare) = self.spare()?.filter(|spare| spare.geometry().size < room) {
                    spare.allocate(room).await?;
                }
            }
            None => {
                let spare = self.0.create_file(&GroupCatalog::spec()).await?;
                spare.allocate(room).await?;
                self.0.publish(&spare, SPARE_PATH, false).await?;
            }
        }
        Ok(())
    }
}

impl CatalogStore for GroupCatalog {
    fn load(&self) -> StoreFuture<'_, Option<Catalog>> {
        Box::pin(async {
            let bytes = self.read_all(CATALOG_PATH).await?;
            bytes.map(|bytes| Catalog::decode(&bytes)).transpose()
        })
    }

    fn replace<'a>(&'a self, _now: &'a Catalog, next: &'a Catalog) -> StoreFuture<'a, ()> {
        Box::pin(async { self.write_all(next.encode()?).await })
    }
}
