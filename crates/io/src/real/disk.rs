//! A real disk: a regular file or a block device behind [`Device`].

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::buffer::Buffer;
use crate::device::{Device, Discard, Durability, Geometry, Io, IoFuture, check_request};
use crate::error::{IoError, IoErrorKind, Op};

use super::alone::Alone;
use super::effective::EffectiveAccess;
use super::engine::{Call, Engine, Memory, Ticket, Work};
use super::errno::kind_of;
use super::raw;
use super::watch::{Identity, Watch};

/// Zeros are written in pieces of this many bytes.
const ZEROS: usize = 1 << 20;

/// How often a call that was interrupted or had no resources is made again.
const RETRIES: u32 = 1000;

/// A file or block device, open.
pub struct RealDisk {
    /// All but the size, which is in the watch.
    pub(super) geometry: Geometry,
    pub(super) file: Arc<OwnedFd>,
    pub(super) engine: Arc<dyn Engine>,
    /// For operations that need a thread.
    pub(super) pool: Arc<dyn Engine>,
    /// What the addresses of memory must be multiples of; 1 when buffered.
    pub(super) memory_alignment: usize,
    /// For a durable write that is alone.
    pub(super) alone: Alone,
    pub(super) watch: Arc<Watch>,
    pub(super) effective: EffectiveAccess,
}

impl std::fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RealDisk({}, {})", self.geometry.name, self.effective)
    }
}

/// Waits for the kernel's answer, or for the device to go away.
struct Answer<'a> {
    ticket: Ticket,
    watch: &'a Watch,
}

impl Future for Answer<'_> {
    type Output = Result<(i32, Work), IoErrorKind>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(answer) = Pin::new(&mut self.ticket).poll(cx) {
            return Poll::Ready(Ok(answer));
        }
        // Checked after the waker is in place: whoever marks the device gone calls the wakers
        // afterwards.
        match self.watch.reason() {
            Some(reason) => Poll::Ready(Err(IoErrorKind::Gone { reason })),
            None => Poll::Pending,
        }
    }
}

impl RealDisk {
    /// The engine and the access that are in force, and why.
    pub fn effective(&self) -> &EffectiveAccess {
        &self.effective
    }

    /// The identity of the disk.
    pub fn identity(&self) -> Identity {
        self.watch.identity
    }

    /// Why the disk is gone, if it is. It never comes back: open it anew.
    pub fn gone(&self) -> Option<&'static str> {
        self.watch.reason()
    }

    /// Resolves when the disk is gone.
    pub async fn wait_gone(&self) -> &'static str {
        loop {
            let listener = self.watch.event.listen();
            if let Some(reason) = self.gone() {
                return reason;
            }
            listener.await;
        }
    }

    /// Runs `work` to its end: short transfers are continued, interrupted ones asked again.
    async fn perform(&self, engine: &dyn Engine, mut work: Work) -> Result<Work, IoErrorKind> {
        let mut retries = 0;
        loop {
            if let Some(reason) = self.gone() {
                return Err(IoErrorKind::Gone { reason });
            }
            let call = work.call;
            let answer = Answer { ticket: engine.submit(work), watch: &self.watch };
            let (answer, back) = answer.await?;
            work = back;
            match answer {
                0 if matches!(call, Call::Read | Call::Write { .. }) => {
                    self.watch.mark("it became shorter");
                }
                moved if moved >= 0 => {
                    if work.advance(moved as usize) {
                        return Ok(work);
                    }
                }
                error => match -error {
                    libc::EINTR | libc::EAGAIN | libc::ECANCELED | libc::ENOMEM
                        if retries < RETRIES =>
                    {
                        retries += 1;
                    }
                    error => return Err(self.verdict(error)),
                },
            }
        }
    }

    /// Sorts an errno; a device that says it is gone is taken at its word.
    fn verdict(&self, errno: i32) -> IoErrorKind {
        let kind = kind_of(errno);
        if let IoErrorKind::Gone { reason } = kind {
            self.watch.mark(reason);
        }
        kind
    }

    async fn write_all(
        &self,
        engine: &dyn Engine,
        offset: u64,
        data: Vec<Bytes>,
        durable: bool,
    ) -> Result<(), IoErrorKind> {
        let memory = Memory::Write(data);
        let work = Work::new(Arc::clone(&self.file), Call::Write { durable }, offset, memory);
        self.perform(engine, work).await.map(drop)
    }

    async fn write_durably(
        &self,
        engine: &dyn Engine,
        offset: u64,
        data: Vec<Bytes>,
    ) -> Result<(), IoErrorKind> {
        match self.write_all(engine, offset, data.clone(), true).await {
            // Some file systems know no per-request durability.
            Err(IoErrorKind::Unsupported { .. }) => {
                self.write_all(&*self.engine, offset, data, false).await?;
                self.flush_all().await
            }
            outcome => outcome,
        }
    }

    async fn flush_all(&self) -> Result<(), IoErrorKind> {
        let work = Work::new(Arc::clone(&self.file), Call::Flush, 0, Memory::None);
        self.perform(&*self.engine, work).await?;
        self.watch.still_there()
    }

    async fn range(&self, call: Call, offset: u64) -> Result<(), IoErrorKind> {
        let work = Work::new(Arc::clone(&self.file), call, offset, Memory::None);
        self.perform(&*self.pool, work).await.map(drop)
    }

    async fn forget(&self, offset: u64, length: u64) -> Result<(), IoErrorKind> {
        let call = if self.watch.identity.is_block {
            Call::Range { request: raw::BLKDISCARD, length }
        } else {
            Call::Allocate { mode: libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, length }
        };
        match self.range(call, offset).await {
            // A discard may keep the contents.
            Err(IoErrorKind::Unsupported { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    async fn zero(&self, offset: u64, length: u64) -> Result<(), IoErrorKind> {
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let calls = if self.watch.identity.is_block {
            vec![Call::Range { request: raw::BLKZEROOUT, length }]
        } else {
            vec![
                Call::Allocate { mode: libc::FALLOC_FL_ZERO_RANGE | keep, length },
                Call::Allocate { mode: libc::FALLOC_FL_PUNCH_HOLE | keep, length },
            ]
        };
        for call in calls {
            match self.range(call, offset).await {
                Err(IoErrorKind::Unsupported { .. }) => {}
                outcome => return outcome,
            }
        }
        let zeros = Buffer::zeroed(ZEROS.min(usize::try_from(length).unwrap_or(ZEROS))).freeze();
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(ZEROS as u64);
            let data = vec![zeros.slice(..piece as usize)];
            self.write_all(&*self.engine, offset + done, data, false).await?;
            done += piece;
        }
        Ok(())
    }

    fn check(
        &self,
        op: Op,
        offset: u64,
        lengths: impl Iterator<Item = usize> + Clone,
    ) -> Result<u64, IoError> {
        let sector = u64::from(self.geometry.logical_sector);
        let size = self.watch.size.load(Ordering::Relaxed);
        let mut total = 0u64;
        let mut aligned = offset.is_multiple_of(sector);
        for length in lengths.clone() {
            aligned &= (length as u64).is_multiple_of(sector);
            total = total.saturating_add(length as u64);
        }
        if aligned && offset.saturating_add(total) <= size {
            return Ok(total);
        }
        check_request(&self.geometry(), op, offset, lengths)
    }

    fn error(&self, kind: IoErrorKind, op: Op, offset: u64, length: u64) -> IoError {
        IoError::new(kind, &self.geometry.name, op, offset, length)
    }

    /// The slices; those whose address the kernel would refuse are copied.
    fn aligned(&self, mut data: Vec<Bytes>) -> Vec<Bytes> {
        for slice in &mut data {
            if !(slice.as_ptr() as usize).is_multiple_of(self.memory_alignment) {
                *slice = Buffer::copy_of(slice, slice.len()).freeze();
            }
        }
        data
    }
}

impl Device for RealDisk {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.watch.size.load(Ordering::Relaxed), ..self.geometry.clone() }
    }

    fn read(&self, _io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move {
            let total = self.check(Op::Read, offset, buffers.iter().map(|b| b.len()))?;
            if total == 0 {
                return Ok(buffers);
            }
            let memory = Memory::Read(buffers);
            let work = Work::new(Arc::clone(&self.file), Call::Read, offset, memory);
            match self.perform(&*self.engine, work).await {
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
            let total = self.check(Op::Write, offset, data.iter().map(Bytes::len))?;
            if total == 0 {
                return Ok(());
            }
            let data = self.aligned(data);
            match durability {
                Durability::Cached => self.write_all(&*self.engine, offset, data, false).await,
                Durability::Durable => {
                    let written = self.write_durably(&*self.engine, offset, data).await;
                    written.and_then(|()| self.watch.still_there())
                }
            }
            .map_err(|kind| self.error(kind, Op::Write, offset, total))
        })
    }

    fn write_alone(&self, _io: Io, offset: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let total = self.check(Op::Write, offset, data.iter().map(Bytes::len))?;
            if total == 0 {
                return Ok(());
            }
            let data = self.aligned(data);
            let engine = self.alone.engine(total).unwrap_or(&*self.engine);
            let since = self.alone.now();
            let written = self.write_durably(engine, offset, data).await;
            self.alone.note(since);
            let outcome = written.and_then(|()| self.watch.still_linked());
            outcome.map_err(|kind| self.error(kind, Op::Write, offset, total))
        })
    }

    fn flush(&self, _io: Io) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let outcome = self.flush_all().await;
            outcome.map_err(|kind| self.error(kind, Op::Flush, 0, 0))
        })
    }

    fn discard(&self, _io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let asked = usize::try_from(length).unwrap_or(usize::MAX);
            if self.check(Op::Discard, offset, std::iter::once(asked))? == 0 {
                return Ok(());
            }
            match how {
                Discard::Forget => self.forget(offset, length).await,
                Discard::Zero => self.zero(offset, length).await,
            }
            .map_err(|kind| self.error(kind, Op::Discard, offset, length))
        })
    }
}
