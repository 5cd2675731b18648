//! The shared heart of a mounted group: metadata behind one short lock, disks, and the queue to
//! the committer.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use cellar_io::{EnvExt, IoError, SharedEnv};
use cellar_wait::{Event, Session, Wait};
use event_listener::Event as Notify;
use futures_util::future::Either;

use crate::codec::Writer;
use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::group::rebalance::Rebalance;
use crate::group::room::Room;
use crate::on_disk::layout::au_count;
use crate::on_disk::record::PAYLOAD_MAX;
use crate::on_disk::superblock::{aus_in, runs_before};
use crate::on_disk::{Damage, Uuid};
use crate::state::size::{area_kept, area_needed};
use crate::state::{DiskState, GroupState, Leg, Op};

/// Metadata in RAM and what waits to be logged. Held for microseconds, never over I/O.
pub(crate) struct Core {
    pub state: GroupState,
    /// Which AUs are free; follows from `state` but for extents whose freeing is not yet durable.
    pub space: Room,
    /// Changes applied to `state` and not yet in the log, in order.
    queue: Vec<Queued>,
    /// The ticket of the newest change.
    queued: u64,
    /// Extents to be freed once the change with that ticket is durable.
    frees: Vec<(u64, Vec<Leg>)>,
    /// Bytes of `queue`.
    queued_bytes: usize,
    /// Copies of extents on their way to another place, by file and extent set. Every write goes
    /// there too, so that what was copied stays right.
    pub moving: BTreeMap<(u32, u32), Moving>,
    broken: bool,
    /// Set while a checkpoint is under way.
    pub gate: bool,
    pub log_room: LogRoom,
    /// Bytes of the base of a checkpoint ([`crate::state::size`]), or a little more.
    base_bytes: u64,
    /// The most legs there can be.
    legs_max: u64,
}

/// A copy of an extent on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    /// The file's incarnation.
    pub incarnation: u32,
    /// Which copy.
    pub leg: u8,
    /// Where it will lie.
    pub to: Leg,
}

/// The largest part of a disk that is kept for metadata: with a group of many large disks, a small
/// one would have nothing else. Then growing may be refused for want of room for it.
const HELD_PART: u32 = 8;

/// Bytes that wait for the log, at which changes wait before they are made.
const QUEUE_MAX: usize = PAYLOAD_MAX / 2;

/// What the metadata log has room for while a checkpoint cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogRoom {
    /// Everything.
    Plenty,
    /// The disk of a member is full and the metadata does not fit there: only what makes it
    /// smaller.
    Shrink,
    /// The ring is nearly full, too: only who takes part.
    Nothing,
}

/// Why a change cannot be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("a change of {bytes} bytes")]
    TooLarge { bytes: usize },
    #[error("a change did not fit the state: {0}")]
    Misfit(Damage),
}

struct Queued {
    payload: Vec<u8>,
    ticket: u64,
}

/// A batch for the log.
pub(crate) struct Batch {
    pub payload: Vec<u8>,
    /// The newest change in it.
    pub ticket: u64,
}

impl Core {
    pub fn new(state: GroupState, space: Room) -> Core {
        let mut core = Core {
            base_bytes: 0,
            legs_max: state.legs_max(),
            state,
            space,
            queue: Vec::new(),
            queued: 0,
            frees: Vec::new(),
            queued_bytes: 0,
            moving: BTreeMap::new(),
            broken: false,
            gate: false,
            log_room: LogRoom::Plenty,
        };
        core.measure();
        core
    }

    /// Measures the base anew: changes only keep an upper bound.
    pub fn measure(&mut self) {
        self.base_bytes = self.state.base_bytes();
        self.hold();
    }

    fn au_size(&self) -> u64 {
        self.state.header.au_size.into()
    }

    /// Keeps the free AUs of each disk that its checkpoint areas may come to need.
    fn hold(&mut self) {
        let au_size = self.au_size();
        for (no, disk) in &self.state.disks {
            let end = au_count(disk.bytes_wanted(), au_size);
            self.space.hold(*no, self.held_of(disk, self.legs_max, end));
        }
    }

    /// AUs to be kept free on a disk of `end` AUs for its checkpoint areas.
    fn held_of(&self, disk: &DiskState, legs_max: u64, end: u32) -> u32 {
        let kept = area_kept(self.base_bytes, legs_max, self.au_size());
        // What lies behind the end has to come before it, whatever else is kept.
        let (mut missing, mut moves) = (0u32, 0);
        for runs in &disk.areas {
            let (before, all) = (aus_in(&runs_before(runs, end)), aus_in(runs));
            missing = missing.saturating_add(kept.saturating_sub(before));
            moves += all - before;
        }
        missing.min((end / HELD_PART).max(moves))
    }

    /// AUs for files on a disk if it had so many bytes.
    pub fn capacity_at(&self, no: u16, bytes: u64) -> u32 {
        let Some(disk) = self.state.disks.get(&no) else { return 0 };
        let au_size = self.au_size();
        let (now, end) = (au_count(disk.bytes, au_size), au_count(bytes, au_size));
        // Until a smaller disk ends where it should, all that it has counts.
        let legs_max = self.legs_max + u64::from(end.saturating_sub(now));
        let reserved = self.space.reserved_before(no, end);
        end.saturating_sub(reserved).saturating_sub(self.held_of(disk, legs_max, end))
    }

    /// The ticket of the newest change.
    pub fn newest_ticket(&self) -> u64 {
        self.queued
    }

    /// AUs that an area of each disk needs for what is there now, whatever is written to it.
    pub fn area_needed(&self) -> u32 {
        area_needed(self.base_bytes, self.space.legs(), self.au_size())
    }

    /// Whether the areas of every metadata disk can become large enough for a base that grows by
    /// `more` bytes.
    fn has_room_for(&self, more: u64) -> bool {
        let needed = area_needed(self.base_bytes + more, self.space.legs(), self.au_size());
        self.state.members.iter().filter_map(|no| Some((no, self.state.disks.get(no)?))).all(
            |(no, disk)| {
                let missing = disk.areas.iter().map(|runs| needed.saturating_sub(aus_in(runs)));
                missing.fold(0, u32::saturating_add) <= self.space.free_for_metadata(*no)
            },
        )
    }

    /// Applies `ops` and queues them as one: a crash keeps all of them or none.
    ///
    /// # Errors
    /// Together they do not fit a record, and nothing was done; or one does not fit the state, and
    /// [`Core::is_broken`] from now on.
    pub fn enqueue(&mut self, ops: &[Op]) -> Result<u64, ChangeError> {
        let mut w = Writer::new();
        ops.iter().for_each(|op| op.put(&mut w));
        let payload = w.into_bytes();
        if payload.len() > PAYLOAD_MAX {
            return Err(ChangeError::TooLarge { bytes: payload.len() });
        }
        let had = self.base_bytes;
        let (mut areas, mut disks) = (false, false);
        for op in ops {
            let change = self.state.base_change(op);
            self.base_bytes = self.base_bytes.saturating_add_signed(change);
            areas |= matches!(op, Op::Area { .. });
            disks |= op.changes_disks();
            if let Err(damage) = self.state.apply(op) {
                self.broken = true;
                return Err(ChangeError::Misfit(damage));
            }
        }
        if disks {
            self.legs_max = self.state.legs_max();
            self.measure();
        } else if areas || self.base_bytes != had {
            self.hold();
        }
        self.queued += 1;
        self.queued_bytes += payload.len();
        self.queue.push(Queued { payload, ticket: self.queued });
        Ok(self.queued)
    }

    /// Where a copy of that extent set is on its way to, if one is.
    pub fn moving_to(&self, file: u32, extent: u64) -> Option<Leg> {
        if self.moving.is_empty() {
            return None;
        }
        let key = (file, u32::try_from(extent).ok()?);
        self.moving.get(&key).map(|moving| moving.to)
    }

    /// Extent sets of a file from `extent` on are gone: what was on its way has no place to go.
    pub fn forget_moving(&mut self, file: u32, extent: u64) {
        self.moving.retain(|(f, e), _| *f != file || u64::from(*e) < extent);
    }

    /// Whether a change was applied in part: the state is of no use any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether another change may come now. While a checkpoint is under way, or much is queued
    /// already, it waits: what is queued when a checkpoint begins must fit the rest of the ring.
    fn takes_changes(&self) -> bool {
        !self.gate && self.queued_bytes < QUEUE_MAX
    }

    /// Refuses `ops` if the metadata has no room for them, and gives back the AUs they took.
    pub fn check_log_room(&mut self, group: &str, ops: &[Op]) -> Result<(), Error> {
        let fits = match self.log_room {
            LogRoom::Plenty => self.fits(ops),
            LogRoom::Shrink => !ops.iter().any(Op::grows),
            LogRoom::Nothing => ops.iter().all(|op| matches!(op, Op::Clean { .. })),
        };
        if fits {
            return Ok(());
        }
        for op in ops {
            if let Op::FileExtend { number, legs } = op {
                legs.iter().for_each(|leg| self.space.free(*leg));
                self.space.respread(*number, self.state.files.get(number));
            }
        }
        let why = "a metadata disk is full, and the metadata needs more room than it has there";
        Err(Error::NoSpace { group: group.to_owned(), wanted_mb: 0, why: why.to_owned() })
    }

    /// Whether a checkpoint of the state after `ops` will have room on every metadata disk.
    fn fits(&mut self, ops: &[Op]) -> bool {
        let more: i64 = ops.iter().map(|op| self.state.base_change(op)).sum();
        let extends = ops.iter().any(|op| matches!(op, Op::FileExtend { .. }));
        // What makes it no larger is never refused, nor what was counted when it was allocated.
        if more <= 0 && !extends {
            return true;
        }
        let more = u64::try_from(more).unwrap_or(0);
        if self.has_room_for(more) {
            return true;
        }
        self.measure();
        self.has_room_for(more)
    }

    /// Frees extents once the change with `ticket` is durable.
    pub fn free_after(&mut self, ticket: u64, legs: Vec<Leg>) {
        self.frees.push((ticket, legs));
    }

    /// Takes what fits a record.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let mut payload = Vec::new();
        let mut ticket = 0;
        let mut taken = 0;
        for queued in &self.queue {
            if !payload.is_empty() && payload.len() + queued.payload.len() > PAYLOAD_MAX {
                break;
            }
            payload.extend_from_slice(&queued.payload);
            ticket = queued.ticket;
            taken += 1;
        }
        self.queue.drain(..taken);
        self.queued_bytes = self.queue.iter().map(|q| q.payload.len()).sum();
        (taken > 0).then_some(Batch { payload, ticket })
    }

    /// The extents that may be given out again now that `ticket` is durable.
    pub fn take_frees(&mut self, ticket: u64) -> Vec<Leg> {
        let mut free = Vec::new();
        self.frees.retain_mut(|(at, legs)| {
            let due = *at <= ticket;
            if due {
                free.append(legs);
            }
            !due
        });
        free
    }
}

/// Looks at the state and says the operations; or refuses.
pub(crate) type MakeOps = Box<dyn FnOnce(&mut Core) -> Result<Vec<Op>, Error> + Send>;

/// A change of who takes part, made by the committer: nothing else is in the log between what was
/// queued before it and what is queued after.
pub(crate) struct Request {
    /// Looks at the state and says the operations; or refuses. `None`: a checkpoint is wanted.
    pub make: Option<MakeOps>,
    pub done: futures_channel::oneshot::Sender<Result<(), Error>>,
}

/// What the committer and everybody else tell each other.
#[derive(Default)]
pub(crate) struct LogShared {
    /// Changes of who takes part that wait for the committer.
    pub requests: Mutex<VecDeque<Request>>,
    /// Something is queued, a disk failed, or the group is to stop.
    pub wanted: Notify,
    /// The newest durable change.
    durable: AtomicU64,
    /// `durable` moved, or an epoch was committed, or the group stopped.
    pub moved: Notify,
    /// Set when the committer is to end.
    pub end: std::sync::atomic::AtomicBool,
}

/// The disks of a mounted group that are here, by number: looked up with every request, changed
/// when one comes or goes. Who has a disk keeps it until he is done; the device is closed with the
/// last of them.
pub(crate) struct Disks(ArcSwap<BTreeMap<u16, Arc<Disk>>>);

impl Disks {
    /// All of them as they are now.
    pub fn all(&self) -> Arc<BTreeMap<u16, Arc<Disk>>> {
        self.0.load_full()
    }

    /// The same for a moment: never kept over an await.
    pub fn look(&self) -> arc_swap::Guard<Arc<BTreeMap<u16, Arc<Disk>>>> {
        self.0.load()
    }

    /// A disk has come.
    pub fn insert(&self, disk: &Arc<Disk>) {
        self.0.rcu(|disks| {
            let mut disks = BTreeMap::clone(disks);
            disks.insert(disk.no, Arc::clone(disk));
            disks
        });
    }

    /// A disk has gone.
    pub fn remove(&self, no: u16) {
        self.0.rcu(|disks| {
            let mut disks = BTreeMap::clone(disks);
            disks.remove(&no);
            disks
        });
    }
}

/// A mounted group.
pub(crate) struct Inner {
    pub env: SharedEnv,
    /// The group's own background session: its waits are counted there.
    pub session: Session,
    pub name: String,
    pub uuid: Uuid,
    pub au_size: u64,
    pub sector_size: u32,
    pub read_only: bool,
    /// An instance keeps its catalog here.
    pub holds_catalog: bool,
    /// A random number for this mount.
    pub life: u64,
    /// The life that log records have: from the end of a dismount in order on, another one.
    pub log_life: AtomicU64,
    pub core: Mutex<Core>,
    pub disks: Disks,
    pub log: LogShared,
    pub data: Data,
    pub rebalance: Rebalance,
    /// Too many regions are dirty.
    pub cleaner_wanted: Notify,
    /// An I/O unanswered for this long fails its disk.
    pub disk_timeout: Duration,
    /// Being dismounted: nothing may begin to change any more. Set while the core is held, so that
    /// no change that looked before is queued after.
    dismounting: AtomicBool,
    stopped: OnceLock<Arc<str>>,
}

/// Stops the group if it is dropped by a panic: what the panic left half-done, in the metadata or
/// in the copies of a file, must not be built upon.
pub(crate) struct StopOnPanic<'a>(pub &'a Inner);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("something that was under way ended in a panic");
        }
    }
}

/// What a new [`Inner`] is made from.
pub(crate) struct InnerParts {
    pub env: SharedEnv,
    /// The group's own background session: its waits are counted there.
    pub session: Session,
    pub state: GroupState,
    pub space: Room,
    pub disks: BTreeMap<u16, Arc<Disk>>,
    pub read_only: bool,
    pub holds_catalog: bool,
    pub life: u64,
    pub data: Data,
    pub disk_timeout: Duration,
}

impl Inner {
    pub fn new(parts: InnerParts) -> Inner {
        let header = &parts.state.header;
        Inner {
            env: parts.env,
            session: parts.session,
            name: header.name.clone(),
            uuid: header.uuid,
            au_size: u64::from(header.au_size),
            sector_size: header.sector_size,
            read_only: parts.read_only,
            holds_catalog: parts.holds_catalog,
            life: parts.life,
            log_life: AtomicU64::new(parts.life),
            core: Mutex::new(Core::new(parts.state, parts.space)),
            disks: Disks(ArcSwap::from_pointee(parts.disks)),
            log: LogShared::default(),
            data: parts.data,
            rebalance: Rebalance::default(),
            cleaner_wanted: Notify::new(),
            disk_timeout: parts.disk_timeout,
            dismounting: AtomicBool::new(false),
            stopped: OnceLock::new(),
        }
    }

    /// Fails if the group has stopped.
    pub fn check_running(&self) -> Result<(), Error> {
        match self.stopped.get() {
            Some(why) => Err(Error::Stopped { group: self.name.clone(), why: Arc::clone(why) }),
            None => Ok(()),
        }
    }

    /// Fails if nothing may be changed.
    pub fn check_writable(&self) -> Result<(), Error> {
        self.check_running()?;
        if self.read_only {
            return Err(Error::ReadOnly { group: self.name.clone() });
        }
        if self.dismounting.load(Ordering::Acquire) {
            return Err(self.being_dismounted());
        }
        Ok(())
    }

    fn being_dismounted(&self) -> Error {
        Error::Stopped { group: self.name.clone(), why: "it is being dismounted".into() }
    }

    /// From here on nobody but the dismount changes anything: what has entered a file is waited
    /// for, what comes later is refused.
    pub async fn close_to_changes(&self) -> Result<(), Error> {
        {
            let _core = lock(&self.core);
            self.check_running()?;
            if self.dismounting.swap(true, Ordering::AcqRel) {
                return Err(self.being_dismounted());
            }
        }
        for file in self.data.open_files() {
            // One that is gone is used by nobody.
            let _ = file.close().await;
        }
        Ok(())
    }

    /// After the group has stopped: waits for those who still read, as a read may repair a copy.
    /// What they do to the disks must not come after what others do there.
    pub async fn wait_left(&self) {
        for file in self.data.open_files() {
            let _ = file.close().await;
        }
    }

    /// The dismount failed: the group goes on.
    pub fn open_to_changes(&self) {
        self.dismounting.store(false, Ordering::Release);
    }

    /// Waits until the group has stopped.
    pub async fn wait_stopped(&self) {
        loop {
            let listener = self.log.moved.listen();
            if self.is_stopped() {
                return;
            }
            listener.await;
        }
    }

    /// Stops the group for good: whoever waits is told, nothing is acknowledged any more.
    pub fn stop(&self, why: impl Into<Arc<str>>) {
        if self.stopped.set(why.into()).is_ok() {
            self.log.moved.notify(usize::MAX);
            self.log.wanted.notify(usize::MAX);
            self.data.wake_all();
            self.rebalance.wake();
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Makes a change: `plan` looks at the core and returns its result and the operations, or
    /// refuses. Waits until they are durable.
    pub async fn change<T>(
        &self,
        plan: impl FnOnce(&mut Core) -> Result<(T, Vec<Op>), Error>,
    ) -> Result<T, Error> {
        let mut plan = Some(plan);
        loop {
            self.wait_for_room().await?;
            if let Some((value, ticket)) = self.change_later(&mut plan)? {
                self.wait_durable(ticket).await?;
                return Ok(value);
            }
        }
    }

    pub async fn wait_for_room(&self) -> Result<(), Error> {
        let mut wait = None;
        loop {
            let listener = self.log.moved.listen();
            self.check_running()?;
            if lock(&self.core).takes_changes() {
                break;
            }
            wait = wait.or_else(|| Some(self.begin(Event::METADATA_LOG_WRITE)));
            listener.await;
        }
        if let Some(wait) = wait {
            self.end(wait);
        }
        Ok(())
    }

    /// As [`Inner::change`], but returns at once with the ticket to wait for. `None`, and the plan
    /// is still there, if others took the room meanwhile.
    fn change_later<T>(
        &self,
        plan: &mut Option<impl FnOnce(&mut Core) -> Result<(T, Vec<Op>), Error>>,
    ) -> Result<Option<(T, u64)>, Error> {
        let _watched = StopOnPanic(self);
        let queued = {
            let mut core = lock(&self.core);
            self.check_writable()?;
            if !core.takes_changes() {
                return Ok(None);
            }
            let plan = plan.take().expect("who made the change does not come again");
            let (value, ops) = plan(&mut core)?;
            let ticket = match ops.is_empty() {
                true => core.queued,
                false => {
                    core.check_log_room(&self.name, &ops)?;
                    self.enqueue(&mut core, &ops)?
                }
            };
            (value, ticket)
        };
        self.log.wanted.notify(1);
        Ok(Some(queued))
    }

    /// A change of who takes part. `make` is called when all that was queued before is on its way
    /// to the log; its operations are durable when this returns.
    pub async fn change_disks(
        &self,
        make: impl FnOnce(&mut Core) -> Result<Vec<Op>, Error> + Send + 'static,
    ) -> Result<(), Error> {
        self.check_writable()?;
        self.request(Some(Box::new(make))).await
    }

    /// Writes a checkpoint now: the other area of each metadata disk is in use afterwards.
    pub async fn checkpoint_now(&self) -> Result<(), Error> {
        self.request(None).await
    }

    async fn request(&self, make: Option<MakeOps>) -> Result<(), Error> {
        let (done, told) = futures_channel::oneshot::channel();
        lock(&self.log.requests).push_back(Request { make, done });
        self.log.wanted.notify(1);
        let stopped = std::pin::pin!(self.wait_stopped());
        match futures_util::future::select(told, stopped).await {
            Either::Left((Ok(result), _)) => result,
            _ => Err(self.check_running().err().unwrap_or_else(|| self.being_dismounted())),
        }
    }

    /// A change by somebody whom the dismount waits for, or by the dismount itself.
    pub async fn change_inside(&self, ops: &[Op]) -> Result<(), Error> {
        let ticket = loop {
            self.wait_for_room().await?;
            let mut core = lock(&self.core);
            self.check_running()?;
            if core.takes_changes() {
                core.check_log_room(&self.name, ops)?;
                break self.enqueue(&mut core, ops)?;
            }
        };
        self.log.wanted.notify(1);
        self.wait_durable(ticket).await
    }

    /// Applies and queues operations; stops the group if they do not fit its state.
    pub fn enqueue(&self, core: &mut Core, ops: &[Op]) -> Result<u64, Error> {
        core.enqueue(ops).map_err(|error| match error {
            ChangeError::TooLarge { bytes } => Error::BadValue {
                what: "a change of the metadata of",
                value: format!("{bytes} bytes"),
                allowed: format!("at most {PAYLOAD_MAX} bytes at once"),
            },
            ChangeError::Misfit(_) => {
                let why: Arc<str> = error.to_string().into();
                self.stop(Arc::clone(&why));
                Error::Stopped { group: self.name.clone(), why }
            }
        })
    }

    /// Waits until the change with `ticket` is durable on every member of the metadata set.
    pub async fn wait_durable(&self, ticket: u64) -> Result<(), Error> {
        if self.log.durable.load(Ordering::Acquire) >= ticket {
            return Ok(());
        }
        let wait = self.begin(Event::METADATA_LOG_WRITE);
        loop {
            let listener = self.log.moved.listen();
            if self.log.durable.load(Ordering::Acquire) >= ticket {
                self.end(wait);
                return Ok(());
            }
            self.check_running()?;
            listener.await;
        }
    }

    /// Tells the waiters that everything up to `ticket` is durable, and frees what waited for it.
    pub fn made_durable(&self, ticket: u64) {
        let frees = {
            let mut core = lock(&self.core);
            let frees = core.take_frees(ticket);
            for leg in &frees {
                core.space.free(*leg);
            }
            frees
        };
        self.data.forget_aus(&frees);
        self.log.durable.fetch_max(ticket, Ordering::AcqRel);
        self.log.moved.notify(usize::MAX);
    }

    /// A write to `disk` failed: waits until an epoch without it is committed. Only then may the
    /// write be acknowledged by the other legs.
    pub async fn wait_offline(&self, disk: &Disk) -> Result<(), Error> {
        self.log.wanted.notify(1);
        let wait = self.begin(Event::DISK_OFFLINE_EPOCH_COMMIT);
        loop {
            let listener = self.log.moved.listen();
            if !disk.is_in_sync() {
                self.end(wait);
                return Ok(());
            }
            self.check_running()?;
            listener.await;
        }
    }

    /// Runs `task` to its end, whether or not the caller stays for its result. A panic in it stops
    /// the group: copies may differ where nobody will look for it.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(self);
        let watched = async move {
            let _watched = StopOnPanic(&inner);
            task.await
        };
        let done = self.env.run(name, watched).await;
        done.unwrap_or_else(|| {
            Err(Error::Stopped { group: self.name.clone(), why: "the runtime ended".into() })
        })
    }

    /// Begins a wait of the group's own session.
    pub fn begin(&self, event: Event) -> Wait<'static> {
        self.session.begin_owned(event, [0; 3], self.env.now().0)
    }

    pub fn end(&self, wait: Wait<'static>) {
        wait.end(self.env.now().0);
    }

    /// The disk with that number.
    pub fn disk(&self, no: u16) -> Option<Arc<Disk>> {
        self.disks.look().get(&no).cloned()
    }

    /// Whether the disk with that number holds every acknowledged write.
    pub fn is_in_sync(&self, no: u16) -> bool {
        self.disks.look().get(&no).is_some_and(|disk| disk.is_in_sync())
    }

    /// Disks that hold every acknowledged write.
    pub fn disks_in_sync(&self) -> Vec<Arc<Disk>> {
        self.disks.look().values().filter(|d| d.is_in_sync()).cloned().collect()
    }

    /// Flushes all disks in sync. A disk that fails leaves by an epoch before this returns.
    pub async fn flush_disks(&self, io: cellar_io::Io) -> Result<(), Error> {
        let disks = self.disks_in_sync();
        let flushes = disks.iter().map(|disk| async move {
            match disk.flush(io).await {
                Ok(()) => Ok(()),
                Err(error) => self.leg_failed(disk, error).await,
            }
        });
        futures_util::future::try_join_all(flushes).await?;
        Ok(())
    }

    /// A read failed, and goes on with another copy: if it was the end of the disk, its departure
    /// begins, although nobody waits for it.
    pub fn tell_if_dead(&self, disk: &Disk) {
        if !disk.is_alive() {
            self.log.wanted.notify(1);
        }
    }

    /// What to do when a leg could not be written or flushed: wait for the epoch without it.
    /// Whatever the reason was: we ask for nothing that a disk of the group could not do, and a
    /// copy that lacks a write which others have must not be read again.
    pub async fn leg_failed(&self, disk: &Disk, error: IoError) -> Result<(), Error> {
        disk.fail(error);
        self.wait_offline(disk).await
    }
}
