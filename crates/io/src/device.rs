//! The trait that every disk, simulated disk, shaped disk and file of a disk group implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::buffer::Buffer;
use crate::error::IoError;

/// A boxed operation on a device. Dropping it does not cancel I/O that the kernel already has:
/// the engine keeps the memory until the kernel is done with it.
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + Send + 'a>>;

/// The class of a request: its purpose. The scheduler of a disk arbitrates between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Somebody waits for durability: redo, metadata log, dirty log.
    Commit = 0,
    /// Somebody waits for a block.
    Foreground = 1,
    /// Large sequential reads and writes of a query or a load.
    Scan = 2,
    /// Nobody waits: resync, rebalance, scrub, lazy checksums.
    Background = 3,
}

/// The issuer of a request; 0 is nobody in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Owner(pub u32);

/// The attributes that travel with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Io {
    /// The class, by which it is scheduled.
    pub class: Class,
    /// The issuer.
    pub owner: Owner,
}

impl Io {
    /// A request of `class` by nobody in particular.
    pub const fn of(class: Class) -> Io {
        Io { class, owner: Owner(0) }
    }
    /// Shorthand for [`Class::Commit`].
    pub const COMMIT: Io = Io::of(Class::Commit);
    /// Shorthand for [`Class::Foreground`].
    pub const FOREGROUND: Io = Io::of(Class::Foreground);
    /// Shorthand for [`Class::Scan`].
    pub const SCAN: Io = Io::of(Class::Scan);
    /// Shorthand for [`Class::Background`].
    pub const BACKGROUND: Io = Io::of(Class::Background);
}

/// The moment when a write may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// As soon as the device has accepted it; a later flush makes it durable.
    Cached,
    /// Forced unit access: only when it is durable, even if that costs a flush.
    Durable,
}

/// The content of a range after it was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discard {
    /// Anything: the contents are forgotten, the room may be given back.
    Forget,
    /// Zeros. Falls back to writing zeros where the device cannot do better.
    Zero,
}

/// The geometry of a device. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// A short name for messages, usually the path.
    pub name: Arc<str>,
    /// Size in bytes, a multiple of `logical_sector`.
    pub size: u64,
    /// The smallest legal unit of a request: offsets and lengths are multiples of it (512 or 4096).
    pub logical_sector: u32,
    /// The unit that the device works in, as far as is known; at least `logical_sector`.
    pub physical_sector: u32,
    /// The largest request that is not split by the layer below; 0 if unknown.
    pub transfer_max: u32,
    /// How many requests the device can usefully hold; 0 if unknown.
    pub queue_depth: u32,
    /// Whether a write that completed may be lost by a power cut until a flush.
    pub volatile_cache: bool,
    /// Whether `Discard::Zero` is cheaper than writing zeros.
    pub fast_zero: bool,
}

/// A random-access block device. All offsets and lengths are multiples of
/// `geometry().logical_sector`; anything else, or beyond `geometry().size`, is an error and
/// touches nothing.
///
/// Ordering: two requests in flight at once may happen in either order. A completed read or write
/// is seen by every request issued after it. A completed [`flush`](Device::flush) makes durable
/// every write that completed before the flush was issued, and nothing else is promised: after a
/// power cut each sector of a write that was not made durable is old or new, independently.
pub trait Device: Send + Sync + 'static {
    /// The geometry. Cheap to call; the size may grow while the device is open.
    fn geometry(&self) -> Geometry;

    /// Reads from `offset` on into `buffers`, one after the other, and returns them.
    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>>;

    /// Writes the slices of `data`, one after the other, from `offset` on. Slices need not be
    /// aligned in memory (an engine that needs it copies), their lengths are multiples of a
    /// logical sector.
    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()>;

    /// Writes as [`write`](Device::write) does with [`Durability::Durable`], for a caller whose task
    /// has nothing else to do meanwhile: a device may block the thread in the kernel where that is
    /// quicker, which also delays anything else that this task waits for. Other tasks are not
    /// delayed.
    fn write_alone(&self, io: Io, offset: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        self.write(io, offset, data, Durability::Durable)
    }

    /// Makes every completed write durable.
    fn flush(&self, io: Io) -> IoFuture<'_, ()>;

    /// Discards a range: its content is forgotten, or becomes zeros.
    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()>;
}

/// Conveniences over any [`Device`].
pub trait DeviceExt: Device {
    /// Reads `length` bytes at `offset` into one new buffer.
    fn read_at(
        &self,
        io: Io,
        offset: u64,
        length: usize,
    ) -> impl Future<Output = Result<Buffer, IoError>> + Send + '_ {
        let read = self.read(io, offset, vec![Buffer::new(length)]);
        async move {
            let mut buffers = read.await?;
            assert_eq!(buffers.len(), 1, "a read gives back the buffers it was given");
            Ok(buffers.remove(0))
        }
    }

    /// Writes one slice at `offset`.
    fn write_at(
        &self,
        io: Io,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        self.write(io, offset, vec![data], durability)
    }
}

impl<D: Device + ?Sized> DeviceExt for D {}

/// Checks a request against a geometry, as every device must before it touches anything.
///
/// # Errors
/// [`IoErrorKind::Misaligned`](crate::IoErrorKind::Misaligned) or
/// [`IoErrorKind::OutOfRange`](crate::IoErrorKind::OutOfRange).
pub fn check_request(
    geometry: &Geometry,
    op: crate::error::Op,
    offset: u64,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<u64, IoError> {
    use crate::error::IoErrorKind;
    let sector = u64::from(geometry.logical_sector);
    let mut total = 0u64;
    let mut aligned = offset.is_multiple_of(sector);
    for length in lengths {
        aligned &= (length as u64).is_multiple_of(sector);
        total = total.saturating_add(length as u64);
    }
    let kind = if !aligned {
        IoErrorKind::Misaligned { sector: geometry.logical_sector }
    } else if offset.saturating_add(total) > geometry.size {
        IoErrorKind::OutOfRange { size: geometry.size }
    } else {
        return Ok(total);
    };
    Err(IoError::new(kind, &geometry.name, op, offset, total))
}
