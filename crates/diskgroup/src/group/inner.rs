//! The shared heart of a mounted group: metadata behind one short lock, disks, and the queue to
//! the committer.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cellar_io::{EnvExt, IoError, SharedEnv};
use cellar_wait::{Event, Session, Wait};
use event_listener::Event as Notify;

use crate::codec::Writer;
use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::group::room::Room;
use crate::on_disk::Uuid;
use crate::on_disk::record::PAYLOAD_MAX;
use crate::state::{GroupState, Leg, Op};

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
        Core { state, space, queue: Vec::new(), queued: 0, frees: Vec::new() }
    }

    /// Applies `ops` and queues them as one: a crash keeps all of them or none.
    pub fn enqueue(&mut self, ops: &[Op]) -> u64 {
        let mut w = Writer::new();
        for op in ops {
            self.state.apply(op).expect("a change is checked before it is queued");
            op.put(&mut w);
        }
        let payload = w.into_bytes();
        assert!(payload.len() <= PAYLOAD_MAX, "large changes are cut into records");
        self.queued += 1;
        self.queue.push(Queued { payload, ticket: self.queued });
        self.queued
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
        (taken > 0).then_some(Batch { payload, ticket })
    }

    /// Whether changes wait for the log.
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty()
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

/// What the committer and everybody else tell each other.
#[derive(Default)]
pub(crate) struct LogShared {
    /// Something is queued, a disk failed, or the group is to stop.
    pub wanted: Notify,
    /// The newest durable change.
    durable: AtomicU64,
    /// `durable` moved, or an epoch was committed, or the group stopped.
    pub moved: Notify,
    /// Set when the committer is to end.
    pub end: std::sync::atomic::AtomicBool,
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
    /// A random number for this mount.
    pub life: u64,
    pub core: Mutex<Core>,
    pub disks: BTreeMap<u16, Arc<Disk>>,
    pub log: LogShared,
    pub data: Data,
    /// Too many regions are dirty.
    pub cleaner_wanted: Notify,
    /// An I/O unanswered for this long fails its disk.
    pub disk_timeout: Duration,
    /// Being dismounted: nothing may begin to change any more. Set while the core is held, so that
    /// no change that looked before is queued after.
    dismounting: AtomicBool,
    stopped: OnceLock<Arc<str>>,
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
            life: parts.life,
            core: Mutex::new(Core::new(parts.state, parts.space)),
            disks: parts.disks,
            log: LogShared::default(),
            data: parts.data,
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
        let (value, ticket) = self.change_later(plan)?;
        self.wait_durable(ticket).await?;
        Ok(value)
    }

    /// As [`Inner::change`], but returns at once with the ticket to wait for.
    pub fn change_later<T>(
        &self,
        plan: impl FnOnce(&mut Core) -> Result<(T, Vec<Op>), Error>,
    ) -> Result<(T, u64), Error> {
        let queued = {
            let mut core = lock(&self.core);
            self.check_writable()?;
            let (value, ops) = plan(&mut core)?;
            let ticket = if ops.is_empty() { core.queued } else { core.enqueue(&ops) };
            (value, ticket)
        };
        self.log.wanted.notify(1);
        Ok(queued)
    }

    /// A change by somebody whom the dismount waits for, or by the dismount itself.
    pub async fn change_inside(&self, ops: &[Op]) -> Result<(), Error> {
        let ticket = {
            let mut core = lock(&self.core);
            self.check_running()?;
            core.enqueue(ops)
        };
        self.log.wanted.notify(1);
        self.wait_durable(ticket).await
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
        self.log.durable.store(ticket, Ordering::Release);
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

    /// Runs `task` to its end, whether or not the caller stays for its result.
    pub async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.env.run(name, task).await;
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
    pub fn disk(&self, no: u16) -> Option<&Arc<Disk>> {
        self.disks.get(&no)
    }

    /// Disks that hold every acknowledged write.
    pub fn disks_in_sync(&self) -> impl Iterator<Item = &Arc<Disk>> {
        self.disks.values().filter(|d| d.is_in_sync())
    }

    /// Flushes all disks in sync. A disk that fails leaves by an epoch before this returns.
    pub async fn flush_disks(&self, io: cellar_io::Io) -> Result<(), Error> {
        let disks: Vec<Arc<Disk>> = self.disks_in_sync().cloned().collect();
        let flushes = disks.iter().map(|disk| async move {
            match disk.flush(io).await {
                Ok(()) => Ok(()),
                Err(error) => self.leg_failed(disk, error).await,
            }
        });
        futures_util::future::try_join_all(flushes).await?;
        Ok(())
    }

    /// What to do when a leg could not be written or flushed: wait for the epoch without it.
    pub async fn leg_failed(&self, disk: &Disk, error: IoError) -> Result<(), Error> {
        if !error.is_device_fault() {
            return Err(Error::Io(error));
        }
        disk.fail(error);
        self.wait_offline(disk).await
    }
}
