//! A disk of a mounted group: its device, its health, and flushes shared by all who wait for one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{
    Buffer, Class, Device, Durability, Instant, Io, IoError, IoErrorKind, IoFuture, Op, SharedEnv,
};
use event_listener::Event;
use futures_util::future::{Either, select};

use crate::latency::Latency;
use crate::on_disk::Uuid;
use crate::on_disk::layout::BLOCK;
use crate::refused::Refused;

/// Locks a mutex whose critical sections cannot panic half-way.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    /// Copies that were not what the others hold, although they had their checksums.
    pub differing: AtomicU64,
    pub repaired: AtomicU64,
    /// Reads that went to another copy because this disk did not answer.
    pub hedged: AtomicU64,
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
    /// Whether it is back, and gets every write, although it does not have all that it missed.
    returning: AtomicBool,
    /// The generation of its newest superblock, and the checkpoint area that it names, as they were
    /// when the disk came back.
    superblock: OnceLock<(u64, u8)>,
    /// The generation of the superblock that was written last, or found by the mount; 0: none.
    newest_superblock: AtomicU64,
    /// Whether it was taken offline by a user.
    wanted_away: AtomicBool,
    /// Whether it answered when it was asked just before that.
    answered_last: AtomicBool,
    /// Whether FORCE accepted it as in sync although it is an older image of itself.
    aged: AtomicBool,
    /// Why it is not used although it is here, as the mount found.
    refused: OnceLock<Refused>,
    /// The error count when a scrub last left nothing wrong.
    errors_cleared: AtomicU64,
    /// Why it is no longer used, once it is not.
    failed: OnceLock<IoError>,
    failed_event: Event,
    /// Requests the device has not answered.
    in_flight: Mutex<InFlight>,
    load: AtomicUsize,
    /// When the device last answered anything, in nanoseconds on the clock.
    answered: AtomicU64,
    /// When it last answered a write or a flush.
    written: AtomicU64,
    /// When it last did what it was asked, before it failed.
    well: AtomicU64,
    pub latency: Latency,
    /// It is leaving reads unanswered just now.
    stalled: AtomicBool,
    /// Somebody is testing whether it is fast again.
    tried: AtomicBool,
    flushes: Flushes,
}

/// Why a disk that somebody took out is not used.
pub(crate) const TAKEN_OFFLINE: &str = "it was taken offline";
/// A flush writes out whatever the device has cached, and may take this many times longer.
pub(crate) const FLUSH_TIMES: u32 = 4;
/// A request that waited this many times longer was lost, whatever else the device answers.
const LOST_TIMES: u32 = 10;

/// The requests that wait for the device, in reusable places.
#[derive(Default)]
struct InFlight {
    places: Vec<Option<Waiting>>,
    free: Vec<usize>,
}

struct Waiting {
    since: Instant,
    flush: bool,
    read: ReadWait,
    waker: Waker,
}

/// What may happen to an unanswered request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadWait {
    /// It is no read.
    No,
    /// There is nobody else to ask, or nobody waits for it.
    Stays,
    /// Another copy can be read instead.
    MayLeave,
    /// Another copy is to be read instead.
    Leaves,
}

/// Removes the request from the books when it ends or is dropped.
struct Ticket<'a> {
    disk: &'a Disk,
    since: Instant,
    flush: bool,
    read: ReadWait,
    place: Option<usize>,
}

impl Ticket<'_> {
    fn new(disk: &Disk, since: Instant, flush: bool, read: ReadWait) -> Ticket<'_> {
        disk.load.fetch_add(1, Ordering::Relaxed);
        Ticket { disk, since, flush, read, place: None }
    }

    /// Whether it is not to be waited for any longer.
    fn leaves(&self) -> bool {
        let Some(place) = self.place.filter(|_| self.read == ReadWait::MayLeave) else {
            return false;
        };
        let in_flight = lock(&self.disk.in_flight);
        in_flight.places[place].as_ref().is_some_and(|w| w.read == ReadWait::Leaves)
    }

    /// Notes whom to wake when the disk dies.
    fn wait(&mut self, waker: &Waker) {
        let mut in_flight = lock(&self.disk.in_flight);
        if let Some(place) = self.place {
            if let Some(waiting) = &mut in_flight.places[place] {
                waiting.waker.clone_from(waker);
            }
            return;
        }
        let waker = waker.clone();
        let Ticket { since, flush, read, .. } = *self;
        let waiting = Some(Waiting { since, flush, read, waker });
        self.place = Some(match in_flight.free.pop() {
            Some(place) => {
                in_flight.places[place] = waiting;
                place
            }
            None => {
                in_flight.places.push(waiting);
                in_flight.places.len() - 1
            }
        });
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.disk.load.fetch_sub(1, Ordering::Relaxed);
        let Some(place) = self.place else { return };
        let mut in_flight = lock(&self.disk.in_flight);
        let gone = in_flight.places[place].take();
        in_flight.free.push(place);
        drop(in_flight);
        drop(gone);
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
        let DiskIdentity { no, uuid, name, failgroup, path } = identity;
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
            returning: AtomicBool::new(false),
            superblock: OnceLock::new(),
            newest_superblock: AtomicU64::new(0),
            wanted_away: AtomicBool::new(false),
            answered_last: AtomicBool::new(false),
            aged: AtomicBool::new(false),
            refused: OnceLock::new(),
            errors_cleared: AtomicU64::new(0),
            failed: OnceLock::new(),
            failed_event: Event::new(),
            in_flight: Mutex::new(InFlight::default()),
            load: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            written: AtomicU64::new(0),
            well: AtomicU64::new(0),
            latency: Latency::default(),
            stalled: AtomicBool::new(false),
            tried: AtomicBool::new(false),
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

    /// It lacks recent writes; another copy is better.
    pub fn age(&self) {
        self.aged.store(true, Ordering::Release);
    }

    /// Whether it was an older image of itself at the mount.
    pub fn is_aged(&self) -> bool {
        self.aged.load(Ordering::Acquire)
    }

    /// Nothing is read from it or written to it, for that reason.
    pub fn refuse(&self, why: Refused) {
        self.left();
        // Set once: a disk that is tried again is another `Disk`.
        let _ = self.refused.set(why);
        let kind = IoErrorKind::Gone { reason: why.reason() };
        self.fail(IoError::new(kind, &self.device.geometry().name, Op::Open, 0, 0));
    }

    /// Why it is not used although it is here.
    pub fn refused(&self) -> Option<Refused> {
        self.refused.get().copied()
    }

    /// Whether every write goes to the disk, and every flush: it holds every acknowledged write, or
    /// will.
    pub fn takes_part(&self) -> bool {
        // In this order: a disk that gets in sync meanwhile is one of them at every moment.
        self.returning.load(Ordering::Acquire) || self.is_in_sync()
    }

    /// The disk was away and is back: from here on every write goes to it. `superblock` is what its
    /// newest one says, if it has one.
    pub fn come_back(&self, superblock: Option<(u64, u8)>) {
        self.in_sync.store(false, Ordering::Release);
        if let Some(found) = superblock {
            // Set once: a disk comes back as another `Disk` each time.
            let _ = self.superblock.set(found);
        }
        self.returning.store(true, Ordering::Release);
    }

    /// Whether it is back, and lacks something still.
    pub fn is_returning(&self) -> bool {
        self.returning.load(Ordering::Acquire)
    }

    /// The newest superblock of a disk that came back: generation, and the area that it names.
    pub fn superblock(&self) -> Option<(u64, u8)> {
        self.superblock.get().copied()
    }

    /// A superblock of that generation is its newest.
    pub fn wrote_superblock(&self, generation: u64) {
        self.newest_superblock.store(generation, Ordering::Release);
    }

    /// The generation of the newest superblock of a member.
    pub fn newest_superblock(&self) -> u64 {
        self.newest_superblock.load(Ordering::Acquire)
    }

    /// It has all that it missed, and an epoch says so.
    pub fn caught_up(&self) {
        self.in_sync.store(true, Ordering::Release);
        self.returning.store(false, Ordering::Release);
    }

    /// An epoch without the disk is committed.
    pub fn left(&self) {
        self.in_sync.store(false, Ordering::Release);
        self.returning.store(false, Ordering::Release);
    }

    pub fn is_alive(&self) -> bool {
        self.failed.get().is_none()
    }

    /// Wrong checksums, differing copies and failed requests since the mount.
    pub fn errors(&self) -> u64 {
        let c = &self.counters;
        let all = [&c.checksum_errors, &c.differing, &c.read_errors, &c.write_errors];
        all.into_iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// A scrub has found everything right, or made it so.
    pub fn clear_errors(&self) {
        self.errors_cleared.store(self.errors(), Ordering::Relaxed);
    }

    /// Errors since then.
    pub fn errors_since_cleared(&self) -> u64 {
        self.errors().saturating_sub(self.errors_cleared.load(Ordering::Relaxed))
    }

    /// Stops using the disk, for good: whoever waits for it is told at once.
    pub fn fail(&self, why: IoError) {
        if self.failed.set(why).is_ok() {
            self.failed_event.notify(usize::MAX);
            let wakers: Vec<Waker> = lock(&self.in_flight)
                .places
                .iter()
                .flatten()
                .map(|waiting| waiting.waker.clone())
                .collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// As [`Disk::fail`], because somebody wants the disk to leave.
    pub fn fail_as_wanted(&self) {
        self.wanted_away.store(true, Ordering::Release);
        let kind = IoErrorKind::Gone { reason: TAKEN_OFFLINE };
        self.fail(IoError::new(kind, &self.device.geometry().name, Op::Open, 0, 0));
    }

    /// Records, just before somebody takes it out, whether it answered when it was asked.
    pub fn answered_last(&self, answered: bool) {
        self.answered_last.store(answered, Ordering::Release);
    }

    /// Whether it leaves because somebody wants it.
    pub fn left_as_wanted(&self) -> bool {
        self.wanted_away.load(Ordering::Acquire)
    }

    /// Since when it may have been away, if it has failed: when it last did what it was asked. Nothing
    /// for one that somebody took out and that answered to the last.
    pub fn lost_since(&self) -> Option<Instant> {
        let well = Instant(self.well.load(Ordering::Relaxed));
        let kind = self.failed.get().map(|error| &error.kind);
        let wanted = matches!(kind, Some(IoErrorKind::Gone { reason }) if *reason == TAKEN_OFFLINE);
        let believed = wanted && self.answered_last.load(Ordering::Acquire);
        (!believed).then_some(well)
    }

    /// How many requests are under way: the measure by which reads choose a leg.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Fails the disk if it left a request unanswered for longer than `limit` and answered nothing
    /// else meanwhile. Requests queue before they reach the device, and one that is in a long queue,
    /// or behind a flush, does not show that the disk is dead.
    pub fn check_timeout(&self, limit: Duration) {
        let now = self.env.now();
        let waited = {
            let in_flight = lock(&self.in_flight);
            let waiting = || in_flight.places.iter().flatten();
            // A flush may hold up whatever else was asked of the device.
            let times = if waiting().any(|w| w.flush) { FLUSH_TIMES } else { 1 };
            waiting().map(|w| now.since(w.since) / times).max()
        };
        let Some(waited) = waited else { return };
        let silent = now.since(Instant(self.answered.load(Ordering::Relaxed)));
        if waited > limit && (silent > limit || waited > limit * LOST_TIMES) {
            let after_ms = limit.as_millis() as u64;
            let name = &self.device.geometry().name;
            self.fail(IoError::new(IoErrorKind::Timeout { after_ms }, name, Op::Open, 0, 0));
        }
    }

    /// How long the oldest read has been unanswered while the device answered no other read; or the
    /// oldest write or flush, likewise, because a device may serve one kind and not the other. A flush
    /// writes out what others wrote, and what waits for it counts for less.
    pub fn silent(&self) -> Duration {
        let now = self.env.now();
        let (mut read, mut write, mut flushes) = (Duration::ZERO, Duration::ZERO, false);
        for waiting in lock(&self.in_flight).places.iter().flatten() {
            let oldest = if waiting.read == ReadWait::No { &mut write } else { &mut read };
            *oldest = (*oldest).max(now.since(waiting.since));
            flushes |= waiting.flush;
        }
        let since = |at: &AtomicU64| now.since(Instant(at.load(Ordering::Relaxed)));
        let silent = read.min(since(&self.answered)).max(write.min(since(&self.written)));
        if flushes { silent / FLUSH_TIMES } else { silent }
    }

    /// When the device last answered anything.
    pub fn last_answer(&self) -> Instant {
        Instant(self.answered.load(Ordering::Relaxed))
    }

    /// Looks at what came since the last time; whether that was anything. Reads that have waited for
    /// longer than `request_timeout` go to another copy, where there is one.
    pub fn look_at_latency(&self, request_timeout: Duration) -> bool {
        let now = self.env.now();
        let (mut oldest, mut leave) = (Duration::ZERO, Vec::new());
        let may_leave = |w: &&mut Waiting| w.read != ReadWait::No && w.read != ReadWait::Stays;
        for waiting in lock(&self.in_flight).places.iter_mut().flatten().filter(may_leave) {
            let waited = now.since(waiting.since);
            oldest = oldest.max(waited);
            if waited > request_timeout && waiting.read == ReadWait::MayLeave {
                waiting.read = ReadWait::Leaves;
                leave.push(waiting.waker.clone());
            }
        }
        let stalls = oldest > request_timeout;
        if stalls {
            self.stalled.store(true, Ordering::Relaxed);
        }
        leave.into_iter().for_each(Waker::wake);
        self.latency.look(if stalls { oldest } else { Duration::ZERO })
    }

    /// Whether it leaves reads unanswered just now.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Whether another copy should be preferred: this disk is slow, or is not answering just now.
    pub fn is_avoided(&self) -> bool {
        self.latency.is_slow() || self.stalled.load(Ordering::Relaxed)
    }

    /// Measures how fast it is, at some place on it, unless somebody already does: a slow disk gets no
    /// reads otherwise, and a single place might be in its cache.
    #[boxed]
    pub async fn try_latency(&self) {
        if !self.tried.swap(true, Ordering::SeqCst) {
            let (block, blocks) = (BLOCK as u64, self.device.geometry().size / BLOCK as u64);
            let at = self.env.random() % blocks.max(1) * block;
            let (bytes, began) = (block, self.env.now());
            // What a failure means is noted by the read itself.
            if self.read_at(Io::BACKGROUND, at, BLOCK).await.is_ok() {
                let took = self.env.now().since(began);
                self.latency.answered(bytes, took.as_nanos() as u64);
            }
            self.tried.store(false, Ordering::SeqCst);
        }
    }

    /// Runs a request that begins at `now`, but not past the death of the disk.
    async fn guarded<T>(
        &self,
        now: Instant,
        flush: bool,
        read: ReadWait,
        request: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        if let Some(why) = self.failed.get() {
            return Err(why.clone());
        }
        let mut request = pin!(request);
        let mut ticket = Ticket::new(self, now, flush, read);
        poll_fn(|cx| {
            if let Poll::Ready(result) = request.as_mut().poll(cx) {
                if result.is_ok() && self.is_alive() {
                    self.well.fetch_max(self.env.now().0, Ordering::Relaxed);
                }
                return Poll::Ready(result);
            }
            ticket.wait(cx.waker());
            // Asked after the waker is in its place: who fails the disk wakes afterwards.
            match self.failed.get() {
                Some(why) => Poll::Ready(Err(why.clone())),
                None if ticket.leaves() => {
                    let waited = self.env.now().since(now).as_millis() as u64;
                    let kind = IoErrorKind::Timeout { after_ms: waited };
                    let name = &self.device.geometry().name;
                    Poll::Ready(Err(IoError::new(kind, name, Op::Read, 0, 0)))
                }
                None => Poll::Pending,
            }
        })
        .await
    }

    /// A request that began at `started` was answered; how long it took, in nanoseconds.
    fn took(&self, started: Instant) -> u64 {
        let now = self.env.now();
        self.answered.store(now.0, Ordering::Relaxed);
        self.stalled.store(false, Ordering::Relaxed);
        now.since(started).as_nanos() as u64
    }

    /// Reads into `buffers` from `offset` on.
    #[boxed]
    pub async fn read(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, IoError> {
        self.read_as(io, offset, buffers, ReadWait::Stays).await
    }

    /// As [`Disk::read`], for a caller that can read another copy: if the disk leaves this read
    /// unanswered for long it ends with an error, and the disk stays in use.
    #[boxed]
    pub async fn read_or_leave(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, IoError> {
        // A request that yields to others waits longer by design, and says nothing about the disk.
        let wait = match io.class {
            Class::Foreground | Class::Commit => ReadWait::MayLeave,
            _ => ReadWait::Stays,
        };
        self.read_as(io, offset, buffers, wait).await
    }

    async fn read_as(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<Buffer>,
        wait: ReadWait,
    ) -> Result<Vec<Buffer>, IoError> {
        let bytes: u64 = buffers.iter().map(|b| b.len() as u64).sum();
        let started = self.env.now();
        let read = self.device.read(io, offset, buffers);
        let result = self.guarded(started, false, wait, read).await;
        let left = matches!(&result, Err(e) if matches!(e.kind, IoErrorKind::Timeout { .. }));
        if left && self.is_alive() {
            // The disk has not answered.
            self.counters.hedged.fetch_add(1, Ordering::Relaxed);
            return result;
        }
        let took = self.took(started);
        if result.is_ok() && matches!(io.class, Class::Foreground | Class::Commit) {
            self.latency.answered(bytes, took);
        }
        let c = &self.counters;
        c.reads.fetch_add(1, Ordering::Relaxed);
        c.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        c.read_ns.fetch_add(took, Ordering::Relaxed);
        if let Err(error) = &result {
            c.read_errors.fetch_add(1, Ordering::Relaxed);
            match error.kind {
                IoErrorKind::Timeout { .. } => {
                    c.read_timeouts.fetch_add(1, Ordering::Relaxed);
                }
                // A bad sector does not mean a dead disk; a device that is gone does.
                IoErrorKind::Gone { .. } | IoErrorKind::Stopped => self.fail(error.clone()),
                _ => {}
            }
        }
        result
    }

    /// Reads `length` bytes at `offset`.
    #[boxed]
    pub async fn read_at(&self, io: Io, offset: u64, length: usize) -> Result<Buffer, IoError> {
        let mut buffers = self.read(io, offset, vec![Buffer::new(length)]).await?;
        Ok(buffers.pop().expect("a read gives back the buffers it was given"))
    }

    /// Writes; any fault of the device is the end of the disk (habit: after a failed write, stop).
    #[boxed]
    pub async fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let bytes: u64 = data.iter().map(|b| b.len() as u64).sum();
        let write = self.device.write(io, offset, data, durability);
        self.written(bytes, write).await
    }

    /// Writes durably, for a caller who has nothing else to do: see [`Device::write_alone`].
    #[boxed]
    pub async fn write_alone(&self, io: Io, offset: u64, data: Vec<Bytes>) -> Result<(), IoError> {
        let bytes: u64 = data.iter().map(|b| b.len() as u64).sum();
        let write = self.device.write_alone(io, offset, data);
        self.written(bytes, write).await
    }

    /// Waits for a write of so many bytes, and counts it.
    async fn written(&self, bytes: u64, write: IoFuture<'_, ()>) -> Result<(), IoError> {
        let started = self.env.now();
        let result = self.guarded(started, false, ReadWait::No, write).await;
        let took = self.took(started);
        self.written.store(self.env.now().0, Ordering::Relaxed);
        let c = &self.counters;
        c.writes.fetch_add(1, Ordering::Relaxed);
        c.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        c.write_ns.fetch_add(took, Ordering::Relaxed);
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
    #[boxed]
    pub async fn flush(&self, io: Io) -> Result<(), IoError> {
        let wanted = self.flushes.ticket();
        loop {
            let listener = self.flushes.done.listen();
            match self.flushes.step(wanted) {
                // A disk that failed meanwhile may have lost what an earlier flush was to keep.
                FlushStep::Done => {
                    return self.failed.get().map_or(Ok(()), |why| Err(why.clone()));
                }
                FlushStep::Wait => {
                    if let Some(why) = self.failed.get() {
                        return Err(why.clone());
                    }
                    match select(listener, self.failed_event.listen()).await {
                        Either::Left(_) | Either::Right(_) => {}
                    }
                }
                FlushStep::Lead(covers) => {
                    let lead = FlushLead { flushes: &self.flushes, covers, ok: false };
                    let now = self.env.now();
                    let flush = self.device.flush(io);
                    let result = self.guarded(now, true, ReadWait::No, flush).await;
                    self.took(now);
                    self.written.store(self.env.now().0, Ordering::Relaxed);
                    if let Err(error) = &result {
                        // What a failed flush left behind is unknown; never retry and assume. Marked
                        // before the others hear that this one ended: none of them may try.
                        self.fail(error.clone());
                    }
                    lead.end(result.is_ok());
                    result?;
                }
            }
        }
    }
}

/// Flushes of one disk, shared and numbered. A few may run at once: the layers below merge them, and a
/// caller that comes while one runs need not wait for its end first. They count in the order in which
/// they began, so that none counts as done while an earlier one may yet fail.
#[derive(Default)]
struct Flushes {
    state: Mutex<FlushState>,
    done: Event,
}

/// Flushes of a disk at once.
const FLUSHES_AT_ONCE: usize = 4;

#[derive(Default)]
struct FlushState {
    /// The newest flush that began.
    begun: u64,
    /// Those that run.
    running: Vec<u64>,
    /// Those that ended well after an earlier one that still runs.
    early: Vec<u64>,
    /// The newest flush that ended well, and none before it runs.
    ended: u64,
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
        } else if state.running.iter().any(|r| *r >= wanted)
            || state.early.iter().any(|e| *e >= wanted)
            || state.running.len() >= FLUSHES_AT_ONCE
        {
            FlushStep::Wait
        } else {
            state.begun += 1;
            let number = state.begun;
            state.running.push(number);
            FlushStep::Lead(number)
        }
    }
}

/// The flusher for all waiters; if it is dropped half-way, another takes over.
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
        state.running.retain(|r| *r != self.covers);
        if self.ok {
            state.early.push(self.covers);
        }
        let oldest = state.running.iter().min().copied().unwrap_or(u64::MAX);
        let FlushState { early, ended, .. } = &mut *state;
        early.retain(|e| {
            let counts = *e < oldest;
            if counts {
                *ended = (*ended).max(*e);
            }
            !counts
        });
        drop(state);
        self.flushes.done.notify(usize::MAX);
    }
}
