//! A disk of a mounted group: its device, whether it still answers, and flushes shared by all who
//! wait for one.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Buffer, Device, Durability, Instant, Io, IoError, IoErrorKind, Op, SharedEnv};
use event_listener::Event;
use futures_util::future::{Either, select};

use crate::on_disk::Uuid;

/// Locks a mutex whose critical sections cannot panic half-way.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Counters of one disk since the mount.
#[derive(Default, Debug)]
pub(crate) struct DiskCounters {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    pub read_errors: AtomicU64,
    pub write_errors: AtomicU64,
    pub read_timeouts: AtomicU64,
    pub write_timeouts: AtomicU64,
    pub read_ns: AtomicU64,
    pub write_ns: AtomicU64,
    pub checksum_errors: AtomicU64,
    pub repaired: AtomicU64,
}

/// One disk.
pub(crate) struct Disk {
    pub no: u16,
    pub uuid: Uuid,
    pub name: String,
    pub failgroup: String,
    pub path: String,
    pub counters: DiskCounters,
    device: Arc<dyn Device>,
    env: SharedEnv,
    /// Whether it holds every acknowledged write; cleared only once an epoch says so durably.
    in_sync: AtomicBool,
    /// Why it is no longer used, once it is not.
    failed: OnceLock<IoError>,
    failed_event: Event,
    /// Requests the device has not answered: when they were sent.
    in_flight: Mutex<InFlight>,
    flushes: Flushes,
}

#[derive(Default)]
struct InFlight {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

/// Takes the request out of the books when it ends or is dropped.
struct Ticket<'a>(&'a Disk, u64);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        lock(&self.0.in_flight).since.remove(&self.1);
    }
}

/// What a disk is, apart from its device.
pub(crate) struct DiskIdentity {
    pub no: u16,
    pub uuid: Uuid,
    pub name: String,
    pub failgroup: String,
    pub path: String,
}

impl Disk {
    pub fn new(identity: DiskIdentity, device: Arc<dyn Device>, env: SharedEnv) -> Disk {
        let DiskIdentity {
            no,
            uuid,
            name,
            failgroup,
            path,
        } = identity;
        Disk {
            no,
            uuid,
            name,
            failgroup,
            path,
            counters: DiskCounters::default(),
            device,
            env,
            in_sync: AtomicBool::new(true),
            failed: OnceLock::new(),
            failed_event: Event::new(),
            in_flight: Mutex::new(InFlight::default()),
            flushes: Flushes::default(),
        }
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Why the disk is no longer used, if so.
    pub fn failure(&self) -> Option<&IoError> {
        self.failed.get()
    }

    /// Whether the disk holds every acknowledged write, as far as the committed epoch says.
    pub fn is_in_sync(&self) -> bool {
        self.in_sync.load(Ordering::Acquire)
    }

    /// An epoch without the disk is committed.
    pub fn left(&self) {
        self.in_sync.store(false, Ordering::Release);
    }

    pub fn is_alive(&self) -> bool {
        self.failed.get().is_none()
    }

    /// Stops using the disk, for good: whoever waits for it is told at once.
    pub fn fail(&self, why: IoError) {
        if self.failed.set(why).is_ok() {
            self.failed_event.notify(usize::MAX);
        }
    }

    /// How many requests are under way: the measure by which reads choose a leg.
    pub fn load(&self) -> usize {
        lock(&self.in_flight).since.len()
    }

    /// Fails the disk if it left a request unanswered for longer than `limit`.
    pub fn check_timeout(&self, limit: Duration) {
        let oldest = lock(&self.in_flight).since.values().min().copied();
        let Some(oldest) = oldest else { return };
        if self.env.now().since(oldest) > limit {
            let after_ms = limit.as_millis() as u64;
            let name = &self.device.geometry().name;
            self.fail(IoError::new(
                IoErrorKind::Timeout { after_ms },
                name,
                Op::Open,
                0,
                0,
            ));
        }
    }

    /// Runs a request, but not past the death of the disk.
    async fn guarded<T>(
        &self,
        request: impl Future<Output = Result<T, IoError>> + Unpin,
    ) -> Result<T, IoError> {
        if let Some(why) = self.failed.get() {
            return Err(why.clone());
        }
        let ticket = {
            let now = self.env.now();
            let mut in_flight = lock(&self.in_flight);
            in_flight.next += 1;
            let id = in_flight.next;
            in_flight.since.insert(id, now);
            Ticket(self, id)
        };
        let died = self.failed_event.listen();
        if let Some(why) = self.failed.get() {
            return Err(why.clone());
        }
        let result = match select(request, died).await {
            Either::Left((result, _)) => result,
            Either::Right(((), _)) => Err(self
                .failed
                .get()
                .expect("the event follows the reason")
                .clone()),
        };
        drop(ticket);
        result
    }

    /// Reads into `buffers` from `offset` on.
    pub async fn read(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, IoError> {
        let bytes: u64 = buffers.iter().map(|b| b.len() as u64).sum();
        let started = self.env.now();
        let result = self.guarded(self.device.read(io, offset, buffers)).await;
        let c = &self.counters;
        c.reads.fetch_add(1, Ordering::Relaxed);
        c.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        c.read_ns.fetch_add(
            self.env.now().since(started).as_nanos() as u64,
            Ordering::Relaxed,
        );
        if let Err(error) = &result {
            c.read_errors.fetch_add(1, Ordering::Relaxed);
            match error.kind {
                IoErrorKind::Timeout { .. } => {
                    c.read_timeouts.fetch_add(1, Ordering::Relaxed);
                }
                // A bad sector is not a dead disk; one that went away is.
                IoErrorKind::Gone { .. } | IoErrorKind::Stopped => self.fail(error.clone()),
                _ => {}
            }
        }
        result
    }

    /// Reads `length` bytes at `offset`.
    pub async fn read_at(&self, io: Io, offset: u64, length: usize) -> Result<Buffer, IoError> {
        let mut buffers = self.read(io, offset, vec![Buffer::new(length)]).await?;
        Ok(buffers
            .pop()
            .expect("a read gives back the buffers it was given"))
    }

    /// Writes; any fault of the device is the end of the disk (habit: after a failed write, stop).
    pub async fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let bytes: u64 = data.iter().map(|b| b.len() as u64).sum();
        let started = self.env.now();
        let result = self
            .guarded(self.device.write(io, offset, data, durability))
            .await;
        let c = &self.counters;
        c.writes.fetch_add(1, Ordering::Relaxed);
        c.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        c.write_ns.fetch_add(
            self.env.now().since(started).as_nanos() as u64,
            Ordering::Relaxed,
        );
        if let Err(error) = &result {
            c.write_errors.fetch_add(1, Ordering::Relaxed);
            if matches!(error.kind, IoErrorKind::Timeout { .. }) {
                c.write_timeouts.fetch_add(1, Ordering::Relaxed);
            }
            if error.is_device_fault() {
                self.fail(error.clone());
            }
        }
        result
    }

    /// Makes durable what completed before the call. Callers that come while a flush runs share
    /// the next one.
    pub async fn flush(&self, io: Io) -> Result<(), IoError> {
        let wanted = self.flushes.ticket();
        loop {
            let listener = self.flushes.done.listen();
            match self.flushes.step(wanted) {
                FlushStep::Done => return Ok(()),
                FlushStep::Wait => {
                    if let Some(why) = self.failed.get() {
                        return Err(why.clone());
                    }
                    match select(listener, self.failed_event.listen()).await {
                        Either::Left(_) | Either::Right(_) => {}
                    }
                }
                FlushStep::Lead(covers) => {
                    let lead = FlushLead {
                        flushes: &self.flushes,
                        covers,
                        ok: false,
                    };
                    let result = self.guarded(self.device.flush(io)).await;
                    lead.end(result.is_ok());
                    if let Err(error) = result {
                        // What a failed flush left behind is not known; never retry and assume.
                        self.fail(error.clone());
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Flushes of one disk, shared: numbered, one at a time.
#[derive(Default)]
struct Flushes {
    state: Mutex<FlushState>,
    done: Event,
}

#[derive(Default)]
struct FlushState {
    /// The newest flush that began.
    begun: u64,
    /// The newest flush that ended well.
    ended: u64,
    running: bool,
}

enum FlushStep {
    Done,
    Wait,
    Lead(u64),
}

impl Flushes {
    /// The flush that covers everything completed until now: the next one to begin.
    fn ticket(&self) -> u64 {
        lock(&self.state).begun + 1
    }

    fn step(&self, wanted: u64) -> FlushStep {
        let mut state = lock(&self.state);
        if state.ended >= wanted {
            FlushStep::Done
        } else if state.running {
            FlushStep::Wait
        } else {
            state.running = true;
            state.begun += 1;
            FlushStep::Lead(state.begun)
        }
    }
}

/// The one who flushes for all; if it is dropped half-way, another takes over.
struct FlushLead<'a> {
    flushes: &'a Flushes,
    covers: u64,
    ok: bool,
}

impl FlushLead<'_> {
    fn end(mut self, ok: bool) {
        self.ok = ok;
    }
}

impl Drop for FlushLead<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.flushes.state);
        state.running = false;
        if self.ok {
            state.ended = self.covers;
        }
        drop(state);
        self.flushes.done.notify(usize::MAX);
    }
}
