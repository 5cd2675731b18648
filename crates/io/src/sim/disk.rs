//! A simulated disk: what it holds, what it has promised, and what it still works on.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use bytes::Bytes;

use super::core::{Core, Event};
use super::fault::Faults;
use super::image::{Entry, Fate, Image, Payload};
use super::rng::Rng;
use crate::buffer::Buffer;
use crate::device::{Device, Discard, Durability, Geometry, Io, IoFuture, check_request};
use crate::error::{IoError, IoErrorKind, Op};

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

#[derive(Debug)]
enum Kind {
    Read,
    Write { durable: bool },
    Flush { upto: u64 },
    Discard { how: Discard, length: u64 },
}

impl Kind {
    fn op(&self) -> Op {
        match self {
            Kind::Read => Op::Read,
            Kind::Write { .. } => Op::Write,
            Kind::Flush { .. } => Op::Flush,
            Kind::Discard { .. } => Op::Discard,
        }
    }
}

/// Where a write ends up.
enum Place {
    Right,
    Lost,
    Elsewhere(u64),
}

/// A request that the disk has.
struct Request {
    kind: Kind,
    offset: u64,
    length: u64,
    buffers: Vec<Buffer>,
    data: Vec<Bytes>,
    place: Place,
    /// Sectors of this write that a concurrent read has already seen.
    early: Vec<u64>,
    waker: Option<Waker>,
    abandoned: bool,
    answered: bool,
    result: Option<Result<Vec<Buffer>, IoError>>,
}

pub(super) struct State {
    pub(super) geometry: Geometry,
    options: SimDiskOptions,
    pub(super) rng: Rng,
    /// What a read sees: always `durable` with `pending` applied in order.
    pub(super) live: Image,
    /// What no power cut takes.
    durable: Image,
    pending: VecDeque<Entry>,
    pending_bytes: u64,
    next_seq: u64,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    waiting: VecDeque<u64>,
    working: u32,
    hung: Vec<u64>,
    pub(super) faults: Faults,
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
        let state = State {
            geometry,
            rng: Rng::stream(core.seed, 1000 + index as u64),
            options,
            live: Image::default(),
            durable: Image::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            next_seq: 0,
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: VecDeque::new(),
            working: 0,
            hung: Vec::new(),
            faults: Faults::default(),
        };
        SimDisk {
            core,
            index,
            state: Mutex::new(state),
        }
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
        let state = self.lock();
        let volatile = state.pending.iter().filter(|entry| !entry.durable);
        volatile.map(|entry| entry.payload.length()).sum()
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
        let event = Event::Io {
            disk: self.index,
            op: id,
        };
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
        let result = state.execute(&mut request);
        let facts = [
            self.fact(2, request.kind.op()),
            request.offset,
            u64::from(result.is_ok()),
        ];
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
        let guard = Abandon {
            disk: self,
            id: self.submit(request)?,
        };
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

impl State {
    fn execute(&mut self, request: &mut Request) -> Result<Vec<Buffer>, IoError> {
        let range = request.offset..request.offset + request.length;
        let fault = self.faults.verdict(request.kind.op(), &range);
        let error = fault.map(|kind| {
            let op = request.kind.op();
            let (offset, length) = (request.offset, request.length);
            IoError::new(kind, &self.geometry.name, op, offset, length)
        });
        match &request.kind {
            Kind::Read => {
                if error.is_none() {
                    self.read(request);
                }
            }
            Kind::Write { durable } => {
                let durable = *durable && !self.faults.lying();
                match &error {
                    None => self.write(request, durable),
                    Some(error) if error.kind == IoErrorKind::Media => self.write_badly(request),
                    Some(_) => {}
                }
            }
            Kind::Flush { upto } => {
                if error.is_none() && !self.faults.lying() {
                    self.settle(*upto);
                }
            }
            Kind::Discard { how, length } => {
                if error.is_none() {
                    self.discard(*how, request.offset, *length);
                }
            }
        }
        let buffers = std::mem::take(&mut request.buffers);
        error.map_or(Ok(buffers), Err)
    }

    fn read(&mut self, request: &mut Request) {
        self.show_some_in_flight(request.offset..request.offset + request.length);
        let mut at = request.offset;
        for buffer in &mut request.buffers {
            self.live.read(at, buffer);
            at += buffer.len() as u64;
        }
    }

    /// A read may see the new content of a write that has not completed. Once seen, it is there.
    fn show_some_in_flight(&mut self, range: Range<u64>) {
        let sector = u64::from(self.geometry.logical_sector);
        let mut shown = Vec::new();
        for request in self.requests.values_mut() {
            let overlaps =
                request.offset < range.end && range.start < request.offset + request.length;
            let (Kind::Write { durable }, Place::Right, false, true) =
                (&request.kind, &request.place, request.answered, overlaps)
            else {
                continue;
            };
            let durable = *durable;
            let payload = Payload::Data(request.data.clone());
            payload.for_each_sector(request.offset, sector, |at, bytes| {
                if range.contains(&at) && !request.early.contains(&at) && self.rng.coin() {
                    request.early.push(at);
                    shown.push((at, bytes, durable));
                }
            });
        }
        for (at, bytes, durable) in shown {
            self.store(at, Payload::one(bytes), durable);
        }
    }

    fn write(&mut self, request: &mut Request, durable: bool) {
        let payload = Payload::Data(std::mem::take(&mut request.data));
        let offset = match request.place {
            Place::Right => request.offset,
            Place::Lost => return,
            Place::Elsewhere(to) => to,
        };
        self.faults
            .written(&(request.offset..request.offset + request.length));
        if request.early.is_empty() {
            self.store(offset, payload, durable);
        } else {
            let sector = u64::from(self.geometry.logical_sector);
            payload.for_each_sector(offset, sector, |at, bytes| {
                if !request.early.contains(&at) {
                    self.store(at, Payload::one(bytes), durable);
                }
            });
        }
    }

    /// A write that failed has stored any of its sectors, or none.
    fn write_badly(&mut self, request: &mut Request) {
        let sector = u64::from(self.geometry.logical_sector);
        let payload = Payload::Data(std::mem::take(&mut request.data));
        payload.for_each_sector(request.offset, sector, |at, bytes| {
            if self.rng.coin() {
                self.store(at, Payload::one(bytes), false);
            }
        });
    }

    fn discard(&mut self, how: Discard, offset: u64, length: u64) {
        match how {
            Discard::Zero => self.store(offset, Payload::Zeros(length), false),
            // Anything may be there afterwards: what was, zeros, or rubbish.
            Discard::Forget => match self.rng.below(3) {
                0 => {}
                1 => self.store(offset, Payload::Zeros(length), false),
                _ => self.rubbish(offset, length),
            },
        }
    }

    fn rubbish(&mut self, offset: u64, length: u64) {
        let mut rubbish = vec![0u8; 4096];
        self.rng.fill(&mut rubbish);
        let rubbish = Bytes::from(rubbish);
        for block in self.live.present(offset, length) {
            let start = (block * 4096).max(offset);
            let end = (block * 4096 + 4096).min(offset + length);
            let bytes = rubbish.slice(..(end - start) as usize);
            self.store(start, Payload::one(bytes), false);
        }
    }

    /// Makes `payload` what reads see, and durable at once, or at a flush.
    pub(super) fn store(&mut self, offset: u64, payload: Payload, durable: bool) {
        payload.apply(&mut self.live, offset);
        let entry = Entry {
            seq: self.next_seq,
            offset,
            durable: durable || !self.options.volatile_cache,
            payload,
        };
        self.next_seq += 1;
        self.pending_bytes += entry.payload.length();
        self.pending.push_back(entry);
        while let Some(first) = self.pending.front()
            && (first.durable || self.pending_bytes > self.options.cache_bytes)
        {
            self.settle_first();
        }
    }

    /// Makes durable what was stored before `upto`.
    fn settle(&mut self, upto: u64) {
        while self.pending.front().is_some_and(|entry| entry.seq < upto) {
            self.settle_first();
        }
        while self.pending.front().is_some_and(|entry| entry.durable) {
            self.settle_first();
        }
    }

    fn settle_first(&mut self) {
        if let Some(entry) = self.pending.pop_front() {
            self.pending_bytes -= entry.payload.length();
            entry.payload.apply(&mut self.durable, entry.offset);
        }
    }

    /// What the worst power cut leaves: `durable`, and what is durable but waits for its turn.
    pub(super) fn worst(&self) -> Image {
        let mut image = self.durable.clone();
        for entry in self.pending.iter().filter(|entry| entry.durable) {
            entry.payload.apply(&mut image, entry.offset);
        }
        image
    }

    /// Replaces everything: the content of another time, or of another disk.
    pub(super) fn replace(&mut self, image: &Image) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.live = image.clone();
        self.durable = image.clone();
    }

    fn power_cut(&mut self) {
        let sector = u64::from(self.geometry.logical_sector);
        let mut entries: Vec<Entry> = self.pending.drain(..).collect();
        self.pending_bytes = 0;
        let in_flight = std::mem::take(&mut self.requests);
        for request in in_flight.into_values().filter(|r| !r.answered) {
            entries.extend(request.into_entries(sector));
        }
        self.waiting.clear();
        self.hung.clear();
        self.working = 0;
        if entries.is_empty() {
            return;
        }
        let fate = Fate::draw(&mut self.rng, entries.len() as u64);
        for (index, entry) in entries.iter().enumerate() {
            let image = &mut self.durable;
            fate.apply(&mut self.rng, index as u64, image, entry, sector);
        }
        for entry in &entries {
            let length = entry.payload.length();
            self.live.revert(&self.durable, entry.offset, length);
        }
    }
}

impl Request {
    fn new(kind: Kind, offset: u64) -> Request {
        Request {
            kind,
            offset,
            length: 0,
            buffers: Vec::new(),
            data: Vec::new(),
            place: Place::Right,
            early: Vec::new(),
            waker: None,
            abandoned: false,
            answered: false,
            result: None,
        }
    }

    /// What a power cut may find of a request that was not answered.
    fn into_entries(self, sector: u64) -> Vec<Entry> {
        let offset = match self.place {
            Place::Right => self.offset,
            Place::Lost => return Vec::new(),
            Place::Elsewhere(to) => to,
        };
        let entry = |offset, payload| Entry {
            seq: u64::MAX,
            offset,
            payload,
            durable: false,
        };
        match self.kind {
            Kind::Write { .. } if self.early.is_empty() => {
                vec![entry(offset, Payload::Data(self.data))]
            }
            Kind::Write { .. } => {
                let mut entries = Vec::new();
                Payload::Data(self.data).for_each_sector(offset, sector, |at, bytes| {
                    if !self.early.contains(&at) {
                        entries.push(entry(at, Payload::one(bytes)));
                    }
                });
                entries
            }
            Kind::Discard { length, .. } => vec![entry(offset, Payload::Zeros(length))],
            Kind::Read | Kind::Flush { .. } => Vec::new(),
        }
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

impl Faults {
    /// Where the next write goes.
    fn place(&mut self) -> Place {
        match self.take_next_write() {
            None => Place::Right,
            Some(None) => Place::Lost,
            Some(Some(to)) => Place::Elsewhere(to),
        }
    }
}
