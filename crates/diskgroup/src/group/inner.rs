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

use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::group::free_space::FreeSpace;
use crate::group::rebalance::Rebalance;
use crate::group::repair::Repair;
use crate::group::resync_progress::Returning;
use crate::group::scrub::Scrub;
use crate::meta::labels::Patience;
use crate::on_disk::Uuid;
use crate::on_disk::layout::BLOCK_U64;
use crate::on_disk::record::PAYLOAD_MAX;
use crate::state::{GroupState, Op};

pub(crate) use crate::group::core::{Batch, ChangeError, Core, LogRoom, Moving};

/// Looks at the state and says the operations; or refuses.
pub(crate) type MakeOps = Box<dyn FnOnce(&mut Core) -> Result<Vec<Op>, Error> + Send>;

/// What only the committer can do.
pub(crate) enum Wanted {
    /// A change of who takes part: nothing else is in the log between what was queued before it and
    /// what is queued after.
    Change(MakeOps),
    /// A checkpoint.
    Checkpoint,
    /// These disks are to leave, if everything survives that.
    TakeOut(Vec<u16>),
    /// Blocks of a disk's ring that hold no record that counts are to be written with zeros.
    ClearLog(u16, Vec<u64>),
}

/// What somebody wants of the committer.
pub(crate) struct Request {
    pub wanted: Wanted,
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
    /// Where the log goes on: every member has the records before.
    written_lsn: AtomicU64,
    /// `durable` moved, or an epoch was committed, or the group stopped.
    pub moved: Notify,
    /// Set when the committer is to end.
    pub end: std::sync::atomic::AtomicBool,
}

impl LogShared {
    /// Every member has the records before this place of the log.
    pub fn written_lsn(&self) -> u64 {
        self.written_lsn.load(Ordering::Acquire)
    }

    /// Notes that every member has the records before `lsn`.
    pub fn wrote_upto(&self, lsn: u64) {
        self.written_lsn.store(lsn, Ordering::Release);
    }
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

    /// All of them, borrowed for a moment: never kept over an await.
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
    /// See [`crate::group::RescueMount`].
    pub strict: bool,
    /// An instance keeps its catalog here.
    pub holds_catalog: bool,
    /// A random number for this mount.
    pub mount_id: u64,
    /// The mount id that log records have: from the end of a dismount in order on, another one.
    pub log_mount_id: AtomicU64,
    /// The mount id that labels may have from the end of a dismount on, before any record has it; or 0.
    pub end_life: AtomicU64,
    pub core: Mutex<Core>,
    pub disks: Disks,
    pub log: LogShared,
    pub data: Data,
    pub rebalance: Rebalance,
    /// Disks on their way back.
    pub returning: Returning,
    /// Disks that are away, and for how long.
    pub repair: Repair,
    /// The scrub that is wanted.
    pub scrub: Scrub,
    /// Too many regions are dirty.
    pub cleaner_wanted: Notify,
    /// An I/O unanswered for this long fails its disk.
    pub disk_timeout: Duration,
    /// A request unanswered for this long fails a disk that the group can do without, while the others
    /// answer.
    pub detach_timeout: Duration,
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
    pub space: FreeSpace,
    pub disks: BTreeMap<u16, Arc<Disk>>,
    pub read_only: bool,
    pub strict: bool,
    pub holds_catalog: bool,
    pub mount_id: u64,
    pub data: Data,
    pub disk_timeout: Duration,
    pub detach_timeout: Duration,
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
            strict: parts.strict,
            holds_catalog: parts.holds_catalog,
            mount_id: parts.mount_id,
            log_mount_id: AtomicU64::new(parts.mount_id),
            end_life: AtomicU64::new(0),
            core: Mutex::new(Core::new(parts.state, parts.space)),
            disks: Disks(ArcSwap::from_pointee(parts.disks)),
            log: LogShared::default(),
            data: parts.data,
            rebalance: Rebalance::default(),
            returning: Returning::default(),
            repair: Repair::default(),
            scrub: Scrub::default(),
            cleaner_wanted: Notify::new(),
            disk_timeout: parts.disk_timeout,
            detach_timeout: parts.detach_timeout,
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
        if self.is_dismounting() {
            return Err(self.being_dismounted());
        }
        Ok(())
    }

    /// Whether nothing may begin to change any more.
    pub fn is_dismounting(&self) -> bool {
        self.dismounting.load(Ordering::Acquire)
    }

    pub fn being_dismounted(&self) -> Error {
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
            self.returning.wake();
            self.scrub.wake();
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
                true => core.newest_ticket(),
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
        self.request(Wanted::Change(Box::new(make))).await
    }

    /// Writes a checkpoint now: the other area of each metadata disk is in use afterwards.
    pub async fn checkpoint_now(&self) -> Result<(), Error> {
        self.request(Wanted::Checkpoint).await
    }

    /// Writes zeros to those of these blocks of a disk's ring that hold no record that counts: a block
    /// that could not be read can be read then.
    pub async fn clear_log(&self, disk: u16, blocks: Vec<u64>) -> Result<(), Error> {
        self.request(Wanted::ClearLog(disk, blocks)).await
    }

    /// Lets disks leave by an epoch, if the group can go on without them and nothing is lost.
    pub async fn take_out(&self, disks: Vec<u16>) -> Result<(), Error> {
        self.check_writable()?;
        self.request(Wanted::TakeOut(disks)).await
    }

    async fn request(&self, wanted: Wanted) -> Result<(), Error> {
        let (done, told) = futures_channel::oneshot::channel();
        lock(&self.log.requests).push_back(Request { wanted, done });
        self.log.wanted.notify(1);
        let stopped = std::pin::pin!(self.wait_stopped());
        match futures_util::future::select(told, stopped).await {
            Either::Left((Ok(result), _)) => result,
            _ => Err(self.check_running().err().unwrap_or_else(|| self.being_dismounted())),
        }
    }

    /// A change by somebody whom the dismount waits for, or by the dismount itself.
    pub async fn change_inside(&self, ops: &[Op]) -> Result<(), Error> {
        self.change_inside_as(|_| ops.to_vec()).await
    }

    /// Such a change, with operations made from the state as it is when they are queued.
    pub async fn change_inside_as(&self, make: impl Fn(&Core) -> Vec<Op>) -> Result<(), Error> {
        let ticket = loop {
            self.wait_for_room().await?;
            let mut core = lock(&self.core);
            self.check_running()?;
            if core.takes_changes() {
                let ops = make(&core);
                if ops.is_empty() {
                    // What made it so may still be on its way to the log.
                    break core.newest_ticket();
                }
                core.check_log_room(&self.name, &ops)?;
                break self.enqueue(&mut core, &ops)?;
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
            if !disk.takes_part() {
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

    /// Disks leave. What was written where they have the only copy, and was not flushed, may be lost:
    /// the next flush of its file says so.
    pub fn lost_unflushed(&self, disks: &[u16]) {
        for file in self.data.open_files().iter().filter(|f| f.attributes.copies == 1) {
            let core = lock(&self.core);
            let Some(state) = core.state.files.get(&file.number) else { continue };
            if state.legs.iter().any(|leg| disks.contains(&leg.disk)) {
                file.lost_copy();
            }
        }
    }

    /// A disk is back. What had its only copy there, and was not flushed, was never written.
    pub fn forget_unflushed(&self, disk: u16) {
        for file in self.data.open_files().iter().filter(|f| f.attributes.copies == 1) {
            let core = lock(&self.core);
            let Some(state) = core.state.files.get(&file.number) else { continue };
            for region in file.fresh().into_keys() {
                file.remove_fresh(region, state.pieces_on(disk, region, self.au_size));
            }
        }
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

    /// Disks that every write goes to: those in sync, and those that return.
    pub fn disks_taking_part(&self) -> Vec<Arc<Disk>> {
        self.disks.look().values().filter(|d| d.takes_part()).cloned().collect()
    }

    /// What the disks write as one: their largest physical sector. A part of it is read, changed and written
    /// whole by the disk itself.
    pub fn written_at_once(&self) -> u64 {
        let disks = self.disks.look();
        let physical = disks.values().map(|disk| disk.device().geometry().physical_sector);
        let largest = physical.max().unwrap_or(0).max(self.sector_size);
        u64::from(largest).next_power_of_two().min(BLOCK_U64)
    }

    /// How long a disk has to answer what is asked of it beside the data path.
    pub fn patience(&self) -> Patience<'_> {
        Patience::new(&self.env, self.disk_timeout)
    }

    /// Flushes all disks that are written to. One that fails leaves by an epoch before this returns.
    pub async fn flush_disks(&self, io: cellar_io::Io) -> Result<(), Error> {
        let disks = self.disks_taking_part();
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
    pub fn report_if_dead(&self, disk: &Disk) {
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
