//! A real disk: a regular file or a block device behind [`Device`].

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::device::{Device, Discard, Durability, Geometry, Io, IoFuture, check_request};
use crate::error::{IoError, IoErrorKind, Op};

use super::engine::{Call, Engine, Memory, Ticket, Work};
use super::runtime::RealEnv;
use super::watch::Gone;

/// A file or block device, open.
pub struct RealDisk {
    pub(super) geometry: Geometry,
    pub(super) file: Arc<OwnedFd>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) direct: bool,
    pub(super) gone: Arc<Gone>,
}

/// Waits for the kernel's answer, or for the device to go away.
struct Answer<'a> {
    ticket: Ticket,
    gone: &'a Gone,
}

impl Future for Answer<'_> {
    type Output = Result<(i32, Work), IoErrorKind>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = Pin::new(&mut self.ticket).poll(cx) {
            return Poll::Ready(Ok(answer));
        }
        // Asked after the waker is in place: who marks the device gone wakes afterwards.
        match self.gone.reason() {
            Some(reason) => Poll::Ready(Err(IoErrorKind::Gone { reason })),
            None => Poll::Pending,
        }
    }
}

impl RealDisk {
    /// Runs `work` to its end: short transfers are continued, interrupted ones asked again.
    async fn perform(&self, mut work: Work) -> Result<Work, IoErrorKind> {
        loop {
            if let Some(reason) = self.gone.reason() {
                return Err(IoErrorKind::Gone { reason });
            }
            let call = work.call;
            let answer = Answer {
                ticket: self.engine.submit(work),
                gone: &self.gone,
            };
            let (answer, back) = answer.await?;
            work = back;
            match answer {
                0 if matches!(call, Call::Read | Call::Write { .. }) => {
                    // The end came before the end: the file is shorter than it was.
                    return Err(IoErrorKind::Gone { reason: "it became shorter" });
                }
                moved if moved >= 0 => {
                    if work.advance(moved as usize) {
                        return Ok(work);
                    }
                }
                error => match -error {
                    libc::EINTR | libc::EAGAIN | libc::ECANCELED => {}
                    error => return Err(kind_of(error)),
                },
            }
        }
    }

    fn error(&self, kind: IoErrorKind, op: Op, offset: u64, length: u64) -> IoError {
        IoError::new(kind, &self.geometry.name, op, offset, length)
    }
}

/// Sorts an errno by who must act.
pub(super) fn kind_of(errno: i32) -> IoErrorKind {
    match errno {
        libc::EIO | libc::EILSEQ | libc::EREMOTEIO | libc::ENODATA => IoErrorKind::Media,
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM | libc::ESTALE => IoErrorKind::Gone {
            reason: "no such device any more",
        },
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::NoSpace,
        libc::EACCES | libc::EPERM | libc::EROFS => IoErrorKind::Permission,
        libc::EBUSY | libc::ETXTBSY => IoErrorKind::Busy,
        libc::ENOENT | libc::ENOTDIR => IoErrorKind::NotFound,
        libc::EOPNOTSUPP | libc::ENOSYS => IoErrorKind::Unsupported {
            what: "this operation",
        },
        other => IoErrorKind::Os(other),
    }
}

impl Device for RealDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, _io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move {
            let lengths = buffers.iter().map(|b| b.len());
            let total = check_request(&self.geometry, Op::Read, offset, lengths)?;
            if total == 0 {
                return Ok(buffers);
            }
            let work =
                Work::new(Arc::clone(&self.file), Call::Read, offset, Memory::Read(buffers));
            match self.perform(work).await {
                Ok(work) => Ok(work.into_buffers()),
                Err(kind) => Err(self.error(kind, Op::Read, offset, total)),
            }
        })
    }

    fn write(
        &self,
        _io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let lengths = data.iter().map(Bytes::len);
            let total = check_request(&self.geometry, Op::Write, offset, lengths)?;
            if total == 0 {
                return Ok(());
            }
            let data = if self.direct { aligned(data) } else { data };
            let durable = durability == Durability::Durable;
            let call = Call::Write { durable };
            let work = Work::new(Arc::clone(&self.file), call, offset, Memory::Write(data));
            let mut outcome = self.perform(work).await.map(drop);
            if durable && outcome.is_ok() {
                outcome = self.gone.still_there();
            }
            outcome.map_err(|kind| self.error(kind, Op::Write, offset, total))
        })
    }

    fn flush(&self, _io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let work = Work::new(Arc::clone(&self.file), Call::Flush, 0, Memory::None);
            let outcome = self.perform(work).await.map(drop);
            outcome
                .and_then(|()| self.gone.still_there())
                .map_err(|kind| self.error(kind, Op::Flush, 0, 0))
        })
    }

    fn discard(&self, _io: Io, _offset: u64, _length: u64, _how: Discard) -> IoFuture<'_, ()> {
        todo!()
    }
}

/// The slices, with those copied that the kernel would refuse for their address.
fn aligned(mut data: Vec<Bytes>) -> Vec<Bytes> {
    for slice in &mut data {
        if !(slice.as_ptr() as usize).is_multiple_of(ALIGNMENT) {
            *slice = Buffer::copy_of(slice, slice.len()).freeze();
        }
    }
    data
}
