//! An open file, which is a device again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{
    Buffer, Class, Device, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture,
    Op as IoOp, check_request,
};
use cellar_wait::{Event, Session};

use crate::data::access::Access;
use crate::data::file::FileRuntime;
use crate::disk::lock;
use crate::error::Error;
use crate::group::files::{delete_file, grow, shrink};
use crate::group::inner::Inner;
use crate::state::{FileAttributes, Op};

/// A log write of at most this many bytes is done by its caller, which polls all of its writes to their end: a
/// separate task would be a good part of the cost of a lone commit. A longer write gains from another core for its
/// checksums. Other callers may hold one write while they wait for the next, which wants the same range.
const HERE_BYTES_MAX: usize = 64 << 10;

/// The reason that I/O of a file gives when its group has stopped ([`IoErrorKind::Gone`]).
pub const STOPPED: &str = "the disk group stopped";

/// A handle to a file of a group. As a [`Device`] it is as large as its extents; [`File::size`] is
/// what its owner last set. A file without a name is deleted when its last handle goes.
pub struct File {
    inner: Arc<Inner>,
    file: Arc<FileRuntime>,
    name: Arc<str>,
    session: Option<Session>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({})", self.name)
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        self.file.users.fetch_add(1, Ordering::AcqRel);
        File {
            inner: Arc::clone(&self.inner),
            file: Arc::clone(&self.file),
            name: Arc::clone(&self.name),
            session: self.session.clone(),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.file.users.fetch_sub(1, Ordering::AcqRel) > 1 || self.inner.is_ending() {
            return;
        }
        let number = self.file.number;
        let doomed = {
            let core = lock(&self.inner.core);
            let file = core.state.files.get(&number);
            file.is_some_and(|f| f.temporary && f.incarnation == self.file.incarnation)
        };
        if doomed && !self.inner.read_only {
            let inner = Arc::clone(&self.inner);
            let task = async move {
                // If the group stops first, the next mount does it.
                if !inner.data.in_use(number) {
                    let _ = delete_file(&inner, number).await;
                }
            };
            self.inner.env.spawn("delete file", Box::pin(task));
        }
    }
}

impl File {
    pub(crate) fn new(inner: Arc<Inner>, file: Arc<FileRuntime>) -> File {
        file.users.fetch_add(1, Ordering::AcqRel);
        let name = format!("+{}/{}.{}", inner.name, file.number, file.incarnation).into();
        File { inner, file, name, session: None }
    }

    /// The same file, with its waits counted on `session`.
    #[must_use]
    pub fn for_session(&self, session: &Session) -> File {
        let mut file = self.clone();
        file.session = Some(session.clone());
        file
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.file.number
    }

    /// Its attributes.
    pub fn attributes(&self) -> &FileAttributes {
        &self.file.attributes
    }

    /// Declares that after a crash the owner reads whatever may then differ between the copies, as a store does
    /// that has redo for each page: reading makes the copies equal. So more of its regions may be dirty at once
    /// than [`MountOptions::resync_target`](crate::MountOptions::resync_target) allows, and random writes all over
    /// a large file do not wait for regions to become clean. Holds as long as the group is mounted.
    pub fn recovered_by_owner(&self) {
        self.inner.data.regions.recovered_by_owner(self.file.number, self.file.incarnation);
    }

    /// Its size in bytes, as its owner last set it.
    pub fn size(&self) -> u64 {
        let core = lock(&self.inner.core);
        core.state.files.get(&self.file.number).map_or(0, |f| f.size)
    }

    fn allocated(&self) -> u64 {
        let core = lock(&self.inner.core);
        core.state.files.get(&self.file.number).map_or(0, |f| f.allocated(self.inner.au_size))
    }

    /// Allocates room for `bytes`, durably; the new room reads as zeros.
    ///
    /// # Errors
    /// There is no room; size and content are as before.
    #[boxed]
    pub async fn allocate(&self, bytes: u64) -> Result<(), Error> {
        grow(&self.inner, self.file.number, bytes).await
    }

    /// Sets the size, durably, and allocates or frees room to match.
    ///
    /// # Errors
    /// No room.
    #[boxed]
    pub async fn set_size(&self, bytes: u64) -> Result<(), Error> {
        grow(&self.inner, self.file.number, bytes).await?;
        let at_ns = self.inner.env.wall().unix_nanos;
        let op = Op::FileSize { number: self.file.number, size: bytes, at_ns };
        let number = self.file.number;
        self.inner
            .change(|core| match core.state.files.contains_key(&number) {
                true => Ok(((), vec![op])),
                false => Err(Error::NoSuchFile { name: self.name.to_string() }),
            })
            .await?;
        shrink(&self.inner, number, bytes).await
    }

    /// Sets the size, durably, and keeps the room that the file has.
    ///
    /// # Errors
    /// It has less room than that.
    #[boxed]
    pub async fn set_size_within(&self, bytes: u64) -> Result<(), Error> {
        let at_ns = self.inner.env.wall().unix_nanos;
        let number = self.file.number;
        let set = self.inner.change(|core| {
            let file = core.state.files.get(&number);
            let room = file.map(|file| file.allocated(self.inner.au_size));
            match room {
                Some(room) if bytes <= room => {
                    Ok(((), vec![Op::FileSize { number, size: bytes, at_ns }]))
                }
                Some(room) => Err(Error::BadValue {
                    what: "size",
                    value: format!("{bytes} bytes"),
                    allowed: format!("at most {room} bytes"),
                }),
                None => Err(Error::NoSuchFile { name: self.name.to_string() }),
            }
        });
        set.await
    }

    fn io_error(&self, op: IoOp, offset: u64, length: u64, error: Error) -> IoError {
        let kind = match error {
            Error::Io(error) => return error,
            Error::Corrupt { .. } => IoErrorKind::Media,
            Error::NoSpace { .. } => IoErrorKind::NoSpace,
            Error::ReadOnly { .. } => IoErrorKind::Permission,
            Error::NoCopy { .. } => IoErrorKind::Gone { reason: "no copy is online" },
            Error::NoSuchFile { .. } => IoErrorKind::Gone { reason: "the file was deleted" },
            _ => IoErrorKind::Gone { reason: STOPPED },
        };
        IoError::new(kind, &self.name, op, offset, length)
    }

    /// Reads; errors are those of the group.
    ///
    /// # Errors
    /// No copy can be read, or all are damaged.
    #[boxed]
    pub async fn read_group(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Error> {
        let wait = self.session.as_ref().map(|session| {
            let bytes: usize = buffers.iter().map(|b| b.len()).sum();
            let event = if io.class == cellar_io::Class::Scan {
                Event::DIRECT_PATH_READ
            } else {
                Event::DB_FILE_SEQUENTIAL_READ
            };
            let p = [self.file.number.into(), offset / 4096, bytes as u64 / 4096];
            session.begin_owned(event, p, self.inner.env.now().0)
        });
        let result = Access::new(&self.inner.data, &self.file, io).read(offset, buffers).await;
        if let Some(wait) = wait {
            wait.end(self.inner.env.now().0);
        }
        result
    }

    /// Writes; errors are those of the group.
    ///
    /// # Errors
    /// No copy can be written.
    #[boxed]
    pub async fn write_group(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), Error> {
        self.write_as(io, offset, data, (durability, false)).await
    }

    /// Writes, durably or not, alone or not.
    async fn write_as(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        (durability, is_alone): (Durability, bool),
    ) -> Result<(), Error> {
        let bytes: usize = data.iter().map(|b| b.len()).sum();
        let wait = self.session.as_ref().map(|session| {
            let p = [self.file.number.into(), offset / 4096, bytes as u64 / 4096];
            session.begin_owned(Event::DIRECT_PATH_WRITE, p, self.inner.env.now().0)
        });
        // A task of its own, from the beginning or when the caller goes away half-way: the range and the regions
        // must not be released while the devices still have the write.
        let (inner, file) = (Arc::clone(&self.inner), Arc::clone(&self.file));
        let task = async move {
            let access = Access { is_alone, ..Access::new(&inner.data, &file, io) };
            access.write(offset, data, durability).await
        };
        let result = match io.class == Class::Commit && bytes <= HERE_BYTES_MAX {
            true => self.inner.run_here("write", Box::pin(task)).await,
            false => Box::pin(self.inner.run("write", task)).await,
        };
        if let Some(wait) = wait {
            wait.end(self.inner.env.now().0);
        }
        result
    }
}

impl Device for File {
    fn geometry(&self) -> Geometry {
        Geometry {
            name: Arc::clone(&self.name),
            size: self.allocated(),
            logical_sector: self.inner.sector_size,
            physical_sector: 4096,
            transfer_max: 1 << 20,
            queue_depth: 0,
            volatile_cache: true,
            fast_zero: true,
        }
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move {
            let lengths = buffers.iter().map(|b| b.len());
            let total = check_request(&self.geometry(), IoOp::Read, offset, lengths)?;
            let result = self.read_group(io, offset, buffers).await;
            result.map_err(|e| self.io_error(IoOp::Read, offset, total, e))
        })
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let lengths = data.iter().map(Bytes::len);
            let total = check_request(&self.geometry(), IoOp::Write, offset, lengths)?;
            let result = self.write_group(io, offset, data, durability).await;
            result.map_err(|e| self.io_error(IoOp::Write, offset, total, e))
        })
    }

    fn write_alone(&self, io: Io, offset: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let lengths = data.iter().map(Bytes::len);
            let total = check_request(&self.geometry(), IoOp::Write, offset, lengths)?;
            let result = self.write_as(io, offset, data, (Durability::Durable, true)).await;
            result.map_err(|e| self.io_error(IoOp::Write, offset, total, e))
        })
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let result = Access::new(&self.inner.data, &self.file, io).flush().await;
            result.map_err(|e| self.io_error(IoOp::Flush, 0, 0, e))
        })
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let lengths = [usize::try_from(length).unwrap_or(usize::MAX)];
            check_request(&self.geometry(), IoOp::Discard, offset, lengths)?;
            if how == Discard::Forget || length == 0 {
                return Ok(());
            }
            // A task of its own, as a write is.
            let (inner, file) = (Arc::clone(&self.inner), Arc::clone(&self.file));
            let task =
                async move { Access::new(&inner.data, &file, io).zero(offset, length).await };
            let result = self.inner.run("discard", task).await;
            result.map_err(|e| self.io_error(IoOp::Discard, offset, length, e))
        })
    }
}
