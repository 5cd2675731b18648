//! A device slowed down to match a model: a disk measured elsewhere, on whatever disk is here.
//!
//! [`Shaped`] performs the request on the inner device and answers when the model says. The model is
//! a link that moves one request at a time: a request that arrives while the link is busy waits its
//! turn, moves for `max(bytes / bandwidth, 1 / iops)`, and is answered `latency` later. With
//! [`ReadAhead`] a read first waits for the disk behind the link: briefly if it continues where the
//! last one ended and comes soon enough, longer if not; meanwhile the link is free for others. A
//! rotating disk is faster at its first byte, on the outer tracks, than at its last, and its head
//! must seek to where a request begins, which holds up other requests. A disk that works in [`Page`]s
//! must read and rewrite each page that a write covers in part, which holds them up too. And some
//! answers may come [`Late`].

mod parse;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

pub use self::parse::{ShapeError, parse};
use crate::buffer::Buffer;
use crate::device::{Class, Device, Discard, Durability, Geometry, Io, IoFuture, check_request};
use crate::env::SharedEnv;
use crate::error::{IoError, Op};
use crate::sched::{Gate, Slot};

/// What a [`Shaped`] device is like. Zero means: no limit, no delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ShapeOptions {
    /// Bytes the link moves in a second.
    pub bytes_per_second: u64,
    /// Requests the link moves in a second, flushes and discards included.
    pub iops: u64,
    /// From the end of the transfer to the answer.
    pub latency: Duration,
    /// Requests inside at once; more wait in order.
    pub queue_depth: u32,
    /// A disk behind the link that reads ahead.
    pub read_ahead: Option<ReadAhead>,
    /// Bytes a second at the last byte of a rotating disk, on its inner tracks; `bytes_per_second` is
    /// then the rate at its first byte. Zero: the same everywhere.
    pub inner_bytes_per_second: u64,
    /// The seek time of a read or write that does not begin where the last one ended.
    pub seek: Duration,
    /// A disk that works in units larger than the sectors it accepts.
    pub page: Option<Page>,
    /// Answers that come late now and then.
    pub late: Option<Late>,
}

/// A disk that works in pages: it must read and rewrite a page that a write covers only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Bytes of a page; they begin at multiples of it.
    pub bytes: u64,
    /// The cost of each page covered in part, on top of the transfer. The disk does nothing else
    /// meanwhile.
    pub rewrite: Duration,
}

/// A disk that answers some writes late, as flash does when it must erase, and any disk when its
/// cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Late writes in a million.
    pub per_million: u32,
    /// How much later. Other requests do not wait for it.
    pub by: Duration,
}

/// A disk that reads ahead for a sequential reader who comes back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The delay of a read that starts where the last one ended, at most `window` after its answer.
    pub hit_latency: Duration,
    /// The delay of any other read.
    pub miss_latency: Duration,
    /// How long the disk remembers.
    pub window: Duration,
}

/// The most lateness that is made up for: a machine that slept longer was suspended.
const LATE_MAX: u64 = 2_000_000;

/// A request that comes this soon after an answer is taken to follow from it.
const FOLLOWS_WITHIN: u64 = 1_000_000;

/// Picoseconds count: a nanosecond of rounding in each request would be seen after a million.
const PICOS: u128 = 1000;

/// The state of the link. Times in nanoseconds unless they say otherwise.
#[derive(Default)]
struct Link {
    free_at_picos: u128,
    /// Where the last read ended and when it was, or will be, answered.
    last_read: Option<(u64, u64)>,
    /// How late the last answer was against the model (a timer, a slow inner device), and when it was
    /// given. A request that follows from it counts as made that much earlier; otherwise a reader at
    /// depth 1 would lose that time with each request.
    late: (u64, u64),
    /// Where the head of a disk that turns is.
    head: u64,
}

/// A device with a model in front. See the [module](self).
pub struct Shaped {
    inner: Arc<dyn Device>,
    env: SharedEnv,
    options: ShapeOptions,
    /// Of the device, in bytes.
    size: u64,
    gate: Option<Gate>,
    link: Mutex<Link>,
}

/// What a request asks of the link.
enum Load {
    Read { offset: u64, bytes: u64 },
    Write { offset: u64, bytes: u64 },
    Nothing,
}

impl Load {
    fn is_legal(&self, geometry: &Geometry) -> bool {
        match self {
            Load::Read { offset, bytes } | Load::Write { offset, bytes } => {
                let lengths = [*bytes as usize];
                check_request(geometry, Op::Read, *offset, lengths).is_ok()
            }
            Load::Nothing => true,
        }
    }
}

impl ShapeOptions {
    /// How long the link is busy with `bytes` at `rate`, in picoseconds.
    fn service_picos(&self, bytes: u64, rate: u64) -> u128 {
        let second = 1_000_000_000_000;
        let per = |count: u64, rate: u64| match rate {
            0 => 0,
            rate => u128::from(count) * second / u128::from(rate),
        };
        per(bytes, rate).max(per(1, self.iops))
    }

    /// How many pages a write covers in part.
    fn torn_pages(&self, offset: u64, bytes: u64) -> u32 {
        let Some(Page { bytes: page, .. }) = self.page.filter(|page| page.bytes > 0) else {
            return 0;
        };
        let end = offset.saturating_add(bytes);
        let is_torn = |at: u64| !at.is_multiple_of(page);
        match offset / page == end / page {
            // Begins and ends inside of one page.
            true => u32::from(bytes > 0),
            false => u32::from(is_torn(offset)) + u32::from(is_torn(end)),
        }
    }

    /// Bytes a second at `offset` of a disk of `size` bytes. All tracks have as many bits an inch and
    /// turn equally fast, so the rate goes with the radius, and what lies outside of it with the
    /// area.
    pub fn rate_at(&self, offset: u64, size: u64) -> u64 {
        let (outer, inner) = (self.bytes_per_second as f64, self.inner_bytes_per_second as f64);
        if self.inner_bytes_per_second == 0 || size == 0 {
            return self.bytes_per_second;
        }
        let part = offset.min(size) as f64 / size as f64;
        (outer * outer - part * (outer * outer - inner * inner)).max(1.0).sqrt() as u64
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Link {
    /// Puts a request on the link at `now`; gives the time of its answer.
    fn admit(&mut self, options: &ShapeOptions, size: u64, now: u64, load: &Load) -> u64 {
        let (late, answered) = std::mem::take(&mut self.late);
        let follows = now.saturating_sub(answered) <= FOLLOWS_WITHIN;
        let now = if follows { now.saturating_sub(late) } else { now };
        let (offset, bytes) = match load {
            Load::Read { offset, bytes } | Load::Write { offset, bytes } => (*offset, *bytes),
            Load::Nothing => (self.head, 0),
        };
        let wait = match (load, options.read_ahead) {
            (Load::Read { offset, .. }, Some(ahead)) => {
                let window = nanos(ahead.window);
                let hit = self.last_read.is_some_and(|(end, answered)| {
                    end == *offset && now <= answered.saturating_add(window)
                });
                nanos(if hit { ahead.hit_latency } else { ahead.miss_latency })
            }
            _ => 0,
        };
        let ready = u128::from(now.saturating_add(wait)) * PICOS;
        let seek = if offset == self.head { Duration::ZERO } else { options.seek };
        self.head = offset.saturating_add(bytes);
        let torn = match load {
            Load::Write { offset, bytes } => options.torn_pages(*offset, *bytes),
            _ => 0,
        };
        let rewrite = options.page.map_or(Duration::ZERO, |page| page.rewrite) * torn;
        let held = u128::from(nanos(seek.saturating_add(rewrite))) * PICOS;
        let start = self.free_at_picos.max(ready) + held;
        self.free_at_picos = start + options.service_picos(bytes, options.rate_at(offset, size));
        let moved = u64::try_from(self.free_at_picos.div_ceil(PICOS)).unwrap_or(u64::MAX);
        let answer = moved.saturating_add(nanos(options.latency));
        if let Load::Read { offset, bytes } = load {
            self.last_read = Some((offset.saturating_add(*bytes), answer));
        }
        answer
    }

    /// Notes that the request due at `answer` is answered now.
    fn answered(&mut self, answer: u64, now: u64) {
        let late = now.saturating_sub(answer);
        self.late = (if late > LATE_MAX { 0 } else { late }, now);
    }
}

impl Shaped {
    /// Shapes `inner` by the clock of `env`.
    pub fn new(inner: Arc<dyn Device>, env: SharedEnv, options: ShapeOptions) -> Shaped {
        let depth = options.queue_depth;
        Shaped {
            size: inner.geometry().size,
            inner,
            env,
            options,
            gate: (depth > 0).then(|| Gate::new(depth, depth)),
            link: Mutex::default(),
        }
    }

    /// The model.
    pub fn options(&self) -> ShapeOptions {
        self.options
    }

    async fn enter(&self) -> Option<Slot<'_>> {
        match &self.gate {
            // One class for all: a disk does not know why it is asked.
            Some(gate) => Some(gate.enter(Class::Foreground, 0).await),
            None => None,
        }
    }

    fn link<T>(&self, f: impl FnOnce(&mut Link) -> T) -> T {
        f(&mut self.link.lock().unwrap_or_else(|e| e.into_inner()))
    }

    async fn pass<'a, T>(
        &'a self,
        load: Load,
        request: impl FnOnce(&'a dyn Device) -> IoFuture<'a, T>,
    ) -> Result<T, IoError> {
        if !load.is_legal(&self.inner.geometry()) {
            // Refused below, before it costs the link anything.
            return request(&*self.inner).await;
        }
        let slot = self.enter().await;
        let now = self.env.now().0;
        let answer = self.link(|link| link.admit(&self.options, self.size, now, &load));
        let answer = answer.saturating_add(self.lateness(&load));
        let result = request(&*self.inner).await;
        self.sleep_until(answer).await;
        let now = self.env.now().0;
        self.link(|link| link.answered(answer, now));
        drop(slot);
        result
    }

    /// How much later than the link says a request is answered, in nanoseconds.
    fn lateness(&self, load: &Load) -> u64 {
        match (load, self.options.late) {
            (Load::Write { .. }, Some(late))
                if self.env.random() % 1_000_000 < u64::from(late.per_million) =>
            {
                nanos(late.by)
            }
            _ => 0,
        }
    }

    fn sleep_until(&self, when: u64) -> impl Future<Output = ()> + use<> {
        self.env.sleep_until(crate::env::Instant(when))
    }
}

impl Device for Shaped {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.inner.geometry();
        let depth = self.options.queue_depth;
        if depth > 0 && (geometry.queue_depth == 0 || depth < geometry.queue_depth) {
            geometry.queue_depth = depth;
        }
        if let Some(page) = self.options.page {
            let page = u32::try_from(page.bytes).unwrap_or(u32::MAX);
            geometry.physical_sector = geometry.physical_sector.max(page);
        }
        geometry
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let bytes = buffers.iter().map(|b| b.len() as u64).sum();
        let load = Load::Read { offset, bytes };
        Box::pin(self.pass(load, move |inner| inner.read(io, offset, buffers)))
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        let bytes = data.iter().map(|d| d.len() as u64).sum();
        Box::pin(self.pass(Load::Write { offset, bytes }, move |inner| {
            inner.write(io, offset, data, durability)
        }))
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(self.pass(Load::Nothing, move |inner| inner.flush(io)))
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(self.pass(Load::Nothing, move |inner| inner.discard(io, offset, length, how)))
    }
}
