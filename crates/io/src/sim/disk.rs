//! A simulated disk: how requests come in, wait, and are answered.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use bytes::Bytes;

use super::core::{Core, Event};
use super::image::Payload;
use super::rng::Rng;
use super::state::{Kind, Request, State};
use crate::buffer::Buffer;
use crate::device::{Device, Discard, Durability, Geometry, Io, IoFuture, check_request};
use crate::error::{IoError, Op};

/// What a simulated disk is like.
#[derive(Clone, Debug)]
pub struct SimDiskOptions {
    /// Size in bytes, a multiple of `logical_sector`. Only what is written takes memory.
    pub size: u64,
    /// The unit of a request, and of what a power cut keeps or loses: 512 to 4096.
    pub logical_sector: u32,
    /// The unit the disk says it works in.
    pub physical_sector: u32,
    /// The shortest time a request takes, in nanoseconds.
    pub latency_ns_min: u64,
    /// The longest. Each request draws its time, so that requests overtake each other.
    pub latency_ns_max: u64,
    /// How many requests the disk works on at once; others wait in order. 0 is no limit.
    pub queue: u32,
    /// Whether a completed write may be lost until a flush. Without it each write is durable when
    /// it completes.
    pub volatile_cache: bool,
    /// How many bytes of unflushed writes the disk holds before it stores the oldest by itself.
    pub cache_bytes: u64,
}

impl Default for SimDiskOptions {
    /// 64 MiB of 512-byte sectors (4096 inside), 20 to 200 us, queue 64, a 64 MiB volatile cache.
    fn default() -> SimDiskOptions {
        SimDiskOptions {
            size: 64 << 20,
            logical_sector: 512,
            physical_sector: 4096,
            latency_ns_min: 20_000,
            latency_ns_max: 200_000,
            queue: 64,
            volatile_cache: true,
            cache_bytes: 64 << 20,
        }
    }
}

/// A disk of a [`Sim`](super::Sim), made by [`Sim::disk`](super::Sim::disk). A request is
/// submitted when its future is first polled; dropping the future later changes nothing for the
/// disk.
pub struct SimDisk {
    core: Arc<Core>,
    index: usize,
    state: Mutex<State>,
}

impl SimDisk {
    pub(super) fn new(
        core: Arc<Core>,
        index: usize,
        name: &str,
        options: SimDiskOptions,
    ) -> SimDisk {
        let sector = options.logical_sector;
        assert!(
            sector.is_power_of_two() && (512..=4096).contains(&sector),
            "a logical sector is 512 to 4096 bytes, not {sector}"
        );
        assert!(
            options.size.is_multiple_of(u64::from(sector)),
            "the size is a multiple of the logical sector"
        );
        assert!(
            options.latency_ns_min <= options.latency_ns_max,
            "the latency range has its short end first"
        );
        let geometry = Geometry {
            name: name.into(),
            size: options.size,
            logical_sector: sector,
            physical_sector: options.physical_sector.max(sector),
            transfer_max: 0,
            queue_depth: options.queue,
            volatile_cache: options.volatile_cache,
            fast_zero: true,
        };
        let rng = Rng::stream(core.seed, 1000 + index as u64);
        let state = State::new(geometry, options, rng);
        SimDisk { core, index, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The name it was made with.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.lock().geometry.name)
    }

    /// Requests that the disk has and has not answered.
    pub fn in_flight(&self) -> usize {
        let state = self.lock();
        state.requests.values().filter(|r| !r.answered).count()
    }

    /// Requests that a hanging disk swallowed.
    pub fn hung_requests(&self) -> usize {
        self.lock().hung.len()
    }

    /// Bytes of completed writes that a power cut may still take.
    pub fn unflushed_bytes(&self) -> u64 {
        self.lock().unflushed_bytes()
    }

    /// Makes the disk larger or smaller. What lies behind a smaller end is forgotten.
    pub fn resize(&self, size: u64) {
        let mut state = self.lock();
        assert!(
            size.is_multiple_of(u64::from(state.geometry.logical_sector)),
            "the size is a multiple of the logical sector"
        );
        if size < state.geometry.size {
            let gone = state.geometry.size - size;
            state.store(size, Payload::Zeros(gone), true);
        }
        state.geometry.size = size;
    }

    /// Ends a hang: what was swallowed is answered, after the usual time.
    pub(super) fn reissue_hung(&self) {
        let mut state = self.lock();
        let hung = std::mem::take(&mut state.hung);
        for id in hung {
            self.start(&mut state, id);
        }
    }

    /// Draws the time that request `id` takes and has it answered then.
    fn start(&self, state: &mut State, id: u64) {
        let range = state.options.latency_ns_min..=state.options.latency_ns_max;
        let latency = state.rng.within(range).saturating_mul(state.faults.slow());
        let when = self.core.now().saturating_add(latency);
        let event = Event::Io { disk: self.index, op: id };
        self.core.at(when, event);
    }

    fn submit(&self, mut request: Request) -> Result<u64, IoError> {
        let mut state = self.lock();
        let lengths: &mut dyn Iterator<Item = usize> = match &request.kind {
            Kind::Read => &mut request.buffers.iter().map(|b| b.len()),
            Kind::Write { .. } => &mut request.data.iter().map(|d| d.len()),
            Kind::Flush { .. } => &mut std::iter::empty(),
            Kind::Discard { length, .. } => &mut std::iter::once(*length as usize),
        };
        let op = request.kind.op();
        request.length = check_request(&state.geometry, op, request.offset, lengths)?;
        match &mut request.kind {
            Kind::Flush { upto } => *upto = state.next_seq,
            Kind::Write { .. } => request.place = state.faults.place(),
            _ => {}
        }
        let id = state.next_request;
        state.next_request += 1;
        let stamp = request
            .data
            .first()
            .and_then(|d| d.first_chunk().copied())
            .map_or(0, u64::from_le_bytes);
        let facts = [self.fact(1, op), request.offset, request.length, stamp];
        state.requests.insert(id, request);
        let queue = state.options.queue;
        if queue != 0 && state.working >= queue {
            state.waiting.push_back(id);
        } else {
            state.working += 1;
            self.start(&mut state, id);
        }
        drop(state);
        self.core.io_event(&facts);
        Ok(id)
    }

    fn fact(&self, what: u64, op: Op) -> u64 {
        (self.index as u64) << 8 | what << 4 | op as u64
    }

    /// The moment at which the disk answers request `id`.
    pub(super) fn complete(&self, id: u64) {
        let mut state = self.lock();
        if state.faults.hanging() {
            state.hung.push(id);
            return;
        }
        let Some(mut request) = state.requests.remove(&id) else {
            return;
        };
        let earlier = state.requests.range(..id).any(|(_, r)| !r.answered);
        state.disorder[0] += u64::from(earlier);
        state.disorder[1] += u64::from(request.abandoned);
        let result = state.execute(&mut request);
        let facts = [self.fact(2, request.kind.op()), request.offset, u64::from(result.is_ok())];
        let waker = request.waker.take();
        if !request.abandoned {
            request.answered = true;
            request.result = Some(result);
            state.requests.insert(id, request);
        }
        match state.waiting.pop_front() {
            Some(next) => self.start(&mut state, next),
            None => state.working = state.working.saturating_sub(1),
        }
        drop(state);
        self.core.io_event(&facts);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Everything on its way or unflushed survives or not; see [`Fate`].
    pub(super) fn power_cut(&self) {
        let mut state = self.lock();
        state.power_cut();
        let facts = [self.index as u64, state.next_seq];
        drop(state);
        self.core.note(&facts);
    }

    async fn request(&self, request: Request) -> Result<Vec<Buffer>, IoError> {
        if self.core.crashed() {
            // The machine has no power: nothing is sent and nothing is ever answered.
            return std::future::pending().await;
        }
        let guard = Abandon { disk: self, id: self.submit(request)? };
        poll_fn(|cx| {
            let mut state = self.lock();
            // Gone after a power cut: then nobody is there to answer.
            let Some(request) = state.requests.get_mut(&guard.id) else {
                return Poll::Pending;
            };
            if let Some(result) = request.result.take() {
                return Poll::Ready(result);
            }
            match &mut request.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }
}

/// Tells the disk that nobody waits for a request any more.
struct Abandon<'a> {
    disk: &'a SimDisk,
    id: u64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        let Some(request) = state.requests.get_mut(&self.id) else {
            return;
        };
        let waker = request.waker.take();
        if request.answered {
            state.requests.remove(&self.id);
        } else {
            request.abandoned = true;
        }
        drop(state);
        drop(waker);
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> Geometry {
        self.lock().geometry.clone()
    }

    fn read(&self, _io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let mut request = Request::new(Kind::Read, offset);
        request.buffers = buffers;
        Box::pin(self.request(request))
    }

    fn write(
        &self,
        _io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        let durable = durability == Durability::Durable;
        let mut request = Request::new(Kind::Write { durable }, offset);
        request.data = data;
        Box::pin(async move { self.request(request).await.map(drop) })
    }

    fn flush(&self, _io: Io) -> IoFuture<'_, ()> {
        let request = Request::new(Kind::Flush { upto: 0 }, 0);
        Box::pin(async move { self.request(request).await.map(drop) })
    }

    fn discard(&self, _io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        let request = Request::new(Kind::Discard { how, length }, offset);
        Box::pin(async move { self.request(request).await.map(drop) })
    }
}
