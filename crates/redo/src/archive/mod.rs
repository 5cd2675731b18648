//! Archives: what was in a group, kept elsewhere before the group is written again.
//!
//! [`Log::archive`](crate::Log::archive) writes the oldest finished group that was not archived;
//! [`ArchiveReader`] gives the same records with the same LSNs. An archive is published whole, and
//! only then the control data says so: a crash in between has the same bytes published again.

mod reader;
mod writer;

use bytes::Bytes;
use cellar_io::IoFuture;

pub use reader::ArchiveReader;
pub use writer::Archived;

/// Where archives are kept, by name.
pub trait ArchiveStore: Send + Sync + 'static {
    /// Begins an archive that nobody sees under its name yet. One that was begun under the name
    /// and not published is forgotten.
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>>;

    /// Bytes of a published archive; fewer than `length`, in bytes, only at its end.
    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes>;
}

/// An archive that is being written. Dropping it gives it up.
pub trait ArchiveFile: Send {
    /// Puts bytes behind those that are there.
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()>;

    /// Makes durable what was appended. It is asked for once, and never again after an error.
    fn sync(&mut self) -> IoFuture<'_, ()>;

    /// Gives it its name, durably, in place of an archive that has it: after a crash within, one or
    /// the other is there, whole.
    fn publish(self: Box<Self>) -> IoFuture<'static, ()>;
}

/// The name of the archive of a sequence. Names sort like sequences.
pub fn archive_name(sequence: u64) -> String {
    format!("redo-{sequence:020}.arc")
}
