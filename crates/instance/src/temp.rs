//! Temporary data: TEMPFILEs of a disk group, for what queries have no memory for.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_io::{DeviceExt, Durability, Io, IoError};

use cellar_storage::Mounted;
use cellar_storage::groups::Groups;

use crate::error::{Error, NextStep, Result};

/// Bytes of a block, in which v$sysstat counts.
pub const BLOCK: u64 = 4096;

/// Free space from which on all groups count as equal, in MiB.
const MUCH_MB: u64 = 1024;

/// What was done with temporary data since the instance was started, in bytes.
#[derive(Debug, Default)]
pub struct TempSpace {
    /// Room that TEMPFILEs have now, of one copy.
    pub allocated: AtomicU64,
    /// Read from them.
    pub read: AtomicU64,
    /// Written into them.
    pub written: AtomicU64,
}

impl TempSpace {
    /// The counters of v$sysstat, by Oracle's names.
    pub fn statistics(&self) -> [(&'static str, u64); 3] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("physical reads direct temporary tablespace", value(&self.read) / BLOCK),
            ("physical writes direct temporary tablespace", value(&self.written) / BLOCK),
            ("temp space allocated (bytes)", value(&self.allocated)),
        ]
    }
}

/// A file for temporary data. Cheap to clone; gone when the last handle is dropped or the machine stops.
#[derive(Clone, Debug)]
pub struct TempFile(File);

fn failed(error: &IoError) -> Error {
    Error::new(27072, format!("temporary data: {error}"))
        .hint(NextStep::default().cellar("status", "").then(" tells which disks are missing"))
}

impl TempFile {
    /// An empty TEMPFILE without a name, in the first group that has room: where none has much, in the one
    /// that has most.
    ///
    /// # Errors
    /// No group is mounted, or the database is open read-only.
    #[boxed]
    pub async fn make(groups: &Groups) -> Result<TempFile> {
        groups.check_writable()?;
        let free = |mounted: &Mounted| mounted.group.info().writable_mb.min(MUCH_MB);
        let all = groups.all().into_iter();
        let best = all.max_by_key(|mounted| (free(mounted), Reverse(mounted.number)));
        let Some(best) = best else {
            return Err(Error::new(
                1652,
                "no disk group is mounted that could take temporary data",
            )
            .hint("mount one: ALTER DISKGROUP name MOUNT"));
        };
        TempFile::make_in(&best.group).await
    }

    /// An empty TEMPFILE without a name in this group.
    ///
    /// # Errors
    /// What the group reports.
    #[boxed]
    pub async fn make_in(group: &Group) -> Result<TempFile> {
        Ok(TempFile(group.create_file(&FileSpec::new(FileType::Tempfile)).await?))
    }

    /// Its number in the disk group.
    pub fn number(&self) -> u32 {
        self.0.number()
    }

    /// Extends the file to so many bytes in all.
    ///
    /// # Errors
    /// The group has no room.
    #[boxed]
    pub async fn make_room(&self, bytes: u64) -> Result<()> {
        Ok(self.0.allocate(bytes).await?)
    }

    /// Writes whole blocks into space that is there. They are not durable: nobody wants them after a
    /// crash.
    ///
    /// # Errors
    /// No copy can be written.
    #[boxed]
    pub async fn write(&self, at: u64, bytes: Bytes) -> Result<()> {
        let written = self.0.write_at(Io::SCAN, at, bytes, Durability::Cached).await;
        written.map_err(|error| failed(&error))
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// No copy can be read.
    #[boxed]
    pub async fn read(&self, at: u64, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let buffer = self.0.read_at(Io::SCAN, at, length).await;
        Ok(buffer.map_err(|error| failed(&error))?.freeze())
    }
}
