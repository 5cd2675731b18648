//! Archives: the contents of a group, stored elsewhere before the group is reused.
//!
//! [`Log::archive`](crate::Log::archive) writes the oldest finished group that has not been archived;
//! [`ArchiveReader`] returns the same records with the same LSNs. An archive is published whole, and
//! only then recorded in the control data: after a crash in between the same bytes are published again.

mod reader;
mod writer;

use bytes::Bytes;
use cellar_io::IoFuture;

pub use reader::ArchiveReader;
pub use writer::Archived;

/// The store of archives, by name.
pub trait ArchiveStore: Send + Sync + 'static {
    /// Begins an archive, which is not visible under its name yet. An unpublished one that was begun
    /// under the same name is discarded.
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>>;

    /// Reads bytes of a published archive; fewer than `length` bytes only at its end.
    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes>;
}

/// An archive that is being written. Dropping it discards it.
pub trait ArchiveFile: Send {
    /// Appends bytes.
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()>;

    /// Makes all appended bytes durable. It is called once, and never again after an error.
    fn sync(&mut self) -> IoFuture<'_, ()>;

    /// Gives the archive its name, durably, replacing one that has it: after a crash meanwhile either
    /// the old or the new one is there, whole.
    fn publish(self: Box<Self>) -> IoFuture<'static, ()>;
}

/// The name of the archive of a sequence. Names sort like sequences.
pub fn archive_name(sequence: u64) -> String {
    format!("redo-{sequence:020}.arc")
}
