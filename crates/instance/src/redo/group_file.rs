//! A file of a disk group as a file of the log, which can be let go of.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cellar_diskgroup::File;
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture, Op,
};

/// The log keeps its files open for as long as it is open itself. One of a medium that has failed, on a
/// disk that is away, would keep that disk in its group for ever: it is let go of, and refuses what comes
/// then.
pub struct GroupFile {
    file: Mutex<Option<File>>,
    geometry: Geometry,
}

impl GroupFile {
    /// The file, until it is let go of.
    pub fn new(file: File) -> Arc<GroupFile> {
        let geometry = file.geometry();
        Arc::new(GroupFile { file: Mutex::new(Some(file)), geometry })
    }

    /// Closes it; what is under way ends first.
    pub fn let_go(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn file(&self, op: Op) -> Result<File, IoError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kind =
            IoErrorKind::Gone { reason: "its medium has failed, or its log group was dropped" };
        file.ok_or_else(|| IoError::new(kind, &self.geometry.name, op, 0, 0))
    }
}

impl Device for GroupFile {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move { self.file(Op::Read)?.read(io, offset, buffers).await })
    }

    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Write)?.write(io, at, data, how).await })
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Flush)?.flush(io).await })
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Discard)?.discard(io, offset, length, how).await })
    }
}
