//! A file of the log that can be released early.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture, Op,
};

/// The log keeps its files open for as long as anybody holds it. A file of a failed medium, on an absent
/// disk, would keep that disk in its group for ever; a file of a stopped log, in a directory, would stay
/// locked against the next log. So a file can be released; it then refuses all requests.
pub struct HeldFile {
    file: Mutex<Option<Arc<dyn Device>>>,
    geometry: Geometry,
}

impl HeldFile {
    /// The file, until it is let go of.
    pub fn new(file: Arc<dyn Device>) -> Arc<HeldFile> {
        let geometry = file.geometry();
        Arc::new(HeldFile { file: Mutex::new(Some(file)), geometry })
    }

    /// Closes it; what is under way ends first.
    pub fn release(&self) {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        // With no lock held: closing a file may wait for its file system.
        drop(file);
    }

    fn file(&self, op: Op) -> Result<Arc<dyn Device>, IoError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kind = IoErrorKind::Gone {
            reason: "its medium has failed, its log group was dropped, or the log has ended",
        };
        file.ok_or_else(|| IoError::new(kind, &self.geometry.name, op, 0, 0))
    }
}

impl Device for HeldFile {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move { self.file(Op::Read)?.read(io, offset, buffers).await })
    }

    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Write)?.write(io, at, data, how).await })
    }

    fn write_alone(&self, io: Io, at: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Write)?.write_alone(io, at, data).await })
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Flush)?.flush(io).await })
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move { self.file(Op::Discard)?.discard(io, offset, length, how).await })
    }
}
