//! The scheduler of one disk: a [`Device`] around a [`Device`] that all users of the disk share.
//!
//! While the disk has a free slot a request goes straight on. When it has none, commits go first;
//! foreground, scan and background share by 8 : 4 : 1 (a request costs its bytes plus 64 KiB), in
//! order of arrival within a class. Scans have a limit of their own below the depth, so that a
//! block that somebody waits for never stands behind 64 megabytes.

mod gate;
mod stats;

use std::sync::Arc;

use bytes::Bytes;

pub(crate) use self::gate::{Gate, Slot};
use self::stats::Counters;
pub use self::stats::{ClassStats, DiskStats, OpStats, SIZE_BUCKETS, SMALL_BYTES, SmallStats};
use crate::buffer::Buffer;
use crate::device::{Class, Device, Discard, Durability, Geometry, Io, IoFuture};
use crate::env::SharedEnv;
use crate::error::{IoError, Op};

/// Limits of a [`Scheduled`] device, to be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleOptions {
    /// Most requests that the device holds at once; at least 1.
    pub depth: u32,
    /// Most scan requests (1 MB each, as a rule) among them; at least 1.
    pub scan_depth: u32,
}

impl Default for ScheduleOptions {
    /// 64, and 32 scans.
    fn default() -> ScheduleOptions {
        ScheduleOptions { depth: 64, scan_depth: 32 }
    }
}

/// Observes every request, on the task that made it; must be quick and never block.
pub trait Observer: Send + Sync + 'static {
    /// A request of `class` stood in the queue for `nanos`. Not called when it did not.
    fn queued(&self, class: Class, nanos: u64);

    /// The device answered after `nanos`. `ok` is false when the device failed; an invalid request
    /// counts as answered.
    fn served(&self, class: Class, op: Op, bytes: u64, nanos: u64, ok: bool);
}

/// A device with a scheduler in front. See the [module](self).
pub struct Scheduled {
    inner: Arc<dyn Device>,
    env: SharedEnv,
    gate: Gate,
    counters: Counters,
    observer: Option<Arc<dyn Observer>>,
}

impl Scheduled {
    /// Puts a scheduler before `inner`, with the clock of `env`.
    pub fn new(
        inner: Arc<dyn Device>,
        env: SharedEnv,
        options: ScheduleOptions,
        observer: Option<Arc<dyn Observer>>,
    ) -> Scheduled {
        Scheduled {
            inner,
            env,
            gate: Gate::new(options.depth, options.scan_depth),
            counters: Counters::default(),
            observer,
        }
    }

    /// The device behind the scheduler.
    pub fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    /// The limits in force.
    pub fn options(&self) -> ScheduleOptions {
        let (depth, scan_depth, ..) = self.gate.now();
        ScheduleOptions { depth, scan_depth }
    }

    /// Changes the limits; requests that are already at the device are not recalled.
    pub fn set_options(&self, options: ScheduleOptions) {
        self.gate.set_depth(options.depth);
        self.gate.set_scan_depth(options.scan_depth);
    }

    /// The statistics so far.
    pub fn stats(&self) -> DiskStats {
        let (_, _, in_flight, waiting) = self.gate.now();
        self.counters.read(in_flight, waiting)
    }

    async fn enter(&self, class: Class, bytes: u64) -> Slot<'_> {
        if let Some(slot) = self.gate.try_enter(class) {
            return slot;
        }
        let since = self.env.now();
        let slot = self.gate.enter(class, bytes).await;
        let nanos = self.nanos_since(since);
        self.counters.queued(class, nanos);
        if let Some(observer) = &self.observer {
            observer.queued(class, nanos);
        }
        slot
    }

    fn nanos_since(&self, since: crate::env::Instant) -> u64 {
        self.env.now().0.saturating_sub(since.0)
    }

    /// Takes a slot, has `request` made and completed, and counts it. The request is made only now:
    /// a device may begin when it is called, not when it is awaited.
    async fn pass<'a, T>(
        &'a self,
        io: Io,
        op: Op,
        bytes: u64,
        request: impl FnOnce(&'a dyn Device) -> IoFuture<'a, T>,
    ) -> Result<T, IoError> {
        let slot = self.enter(io.class, bytes).await;
        let start = self.env.now();
        let result = request(&*self.inner).await;
        let nanos = self.nanos_since(start);
        drop(slot);
        let ok = result.as_ref().map_or_else(|e| !e.is_device_fault(), |_| true);
        self.counters.served(io.class, op, bytes, nanos, ok);
        if let Some(observer) = &self.observer {
            observer.served(io.class, op, bytes, nanos, ok);
        }
        result
    }
}

impl Device for Scheduled {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let bytes = buffers.iter().map(|b| b.len() as u64).sum();
        Box::pin(self.pass(io, Op::Read, bytes, move |inner| inner.read(io, offset, buffers)))
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        let bytes = data.iter().map(|d| d.len() as u64).sum();
        Box::pin(
            self.pass(io, Op::Write, bytes, move |inner| inner.write(io, offset, data, durability)),
        )
    }

    fn write_alone(&self, io: Io, offset: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        let bytes = data.iter().map(|d| d.len() as u64).sum();
        Box::pin(self.pass(io, Op::Write, bytes, move |inner| inner.write_alone(io, offset, data)))
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(self.pass(io, Op::Flush, 0, move |inner| inner.flush(io)))
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        // Its length says nothing about the work it makes.
        Box::pin(self.pass(io, Op::Discard, 0, move |inner| inner.discard(io, offset, length, how)))
    }
}
