//! The base of a mounted group, which everything above stands on: metadata behind one short lock, disks,
//! and the queue to the committer.

mod change;
pub(crate) mod core;
mod disks;
pub(crate) mod free_space;
pub(crate) mod listeners;
pub(crate) mod log;
pub(crate) mod request_timeout;
mod staying;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cellar_io::{EnvExt, IoError, SharedEnv};
use cellar_wait::{Event, Session, Wait};

use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::Uuid;
use crate::on_disk::layout::BLOCK_U64;
use crate::state::GroupState;
use core::Core;
use disks::Disks;
use free_space::FreeSpace;
use listeners::Listeners;
use log::LogShared;
use request_timeout::RequestTimeout;
use staying::Staying;

/// The shared part of a mounted group.
pub(crate) struct Base {
    pub env: SharedEnv,
    /// The group's own background session: its waits are counted there.
    pub session: Session,
    pub name: String,
    pub uuid: Uuid,
    pub au_size: u64,
    pub sector_size: u32,
    pub read_only: bool,
    /// See [`crate::meta::options::RescueMount`].
    pub strict: bool,
    /// An instance keeps its catalog here.
    pub holds_catalog: bool,
    /// A random number for this mount.
    pub mount_id: u64,
    /// The mount id in log records: from the end of a clean dismount on, another one.
    pub log_mount_id: AtomicU64,
    /// The mount id in labels from the end of a dismount on, before any record has it; or 0.
    pub end_life: AtomicU64,
    pub core: Mutex<Core>,
    pub disks: Disks,
    pub log: LogShared,
    /// Held while labels of disks that come or go are written: a disk that was released and is added again
    /// must not get its old label after its new one.
    pub labels: futures_util::lock::Mutex<()>,
    /// Who is told what happens.
    pub listeners: Listeners,
    /// An I/O unanswered for this long fails its disk.
    pub disk_timeout: Duration,
    /// A request unanswered for this long fails a disk that the group can do without, while the others
    /// answer.
    pub detach_timeout: Duration,
    /// Being dismounted: no new change may begin. Set while the core is held, so that a change that checked
    /// earlier is not queued later.
    dismounting: AtomicBool,
    stopped: OnceLock<Arc<str>>,
}

/// Stops the group if it is dropped by a panic: nothing may build on what the panic left half-done, in the
/// metadata or in the copies of a file.
pub(crate) struct StopOnPanic<'a>(pub &'a Base);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("something that was under way ended in a panic");
        }
    }
}

/// What a new [`Base`] is made from.
pub(crate) struct BaseParts {
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
    pub disk_timeout: Duration,
    pub detach_timeout: Duration,
}

impl Base {
    pub fn new(parts: BaseParts) -> Base {
        let header = &parts.state.header;
        Base {
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
            disks: Disks::new(parts.disks),
            log: LogShared::default(),
            labels: futures_util::lock::Mutex::default(),
            listeners: Listeners::default(),
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

    /// Whether no new change may begin.
    pub fn is_dismounting(&self) -> bool {
        self.dismounting.load(Ordering::Acquire)
    }

    pub fn being_dismounted(&self) -> Error {
        Error::Stopped { group: self.name.clone(), why: "it is being dismounted".into() }
    }

    /// From here on only the dismount changes anything. Changes that have begun are completed.
    pub fn begin_dismount(&self) -> Result<(), Error> {
        let _core = lock(&self.core);
        self.check_running()?;
        if self.dismounting.swap(true, Ordering::AcqRel) {
            return Err(self.being_dismounted());
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
            self.listeners.tell(|listener| listener.stopped());
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    pub fn is_ending(&self) -> bool {
        self.log.end.load(Ordering::Acquire) || self.is_stopped()
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
        let done = self.env.run(name, self.watched(task)).await;
        done.unwrap_or_else(|| {
            Err(Error::Stopped { group: self.name.clone(), why: "the runtime ended".into() })
        })
    }

    /// Runs `task` as [`run`](Base::run) does, but in the caller as long as it stays: if the caller goes
    /// away after it has begun, a separate task takes over.
    pub fn run_here<T: Send + 'static>(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Staying<T> {
        let task = Some(Box::pin(self.watched(task)) as _);
        Staying { env: Arc::clone(&self.env), name, task, has_begun: false }
    }

    /// `task`, whose panic stops the group.
    fn watched<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static {
        let base = Arc::clone(self);
        async move {
            let _watched = StopOnPanic(&base);
            task.await
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

    /// Whether the group uses this very disk under its number.
    pub fn is_current(&self, disk: &Arc<Disk>) -> bool {
        self.disk(disk.no).is_some_and(|now| Arc::ptr_eq(&now, disk))
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

    /// The unit that the disks write as one: their largest physical sector. A disk itself reads, changes and
    /// writes it as a whole when a part of it is written.
    pub fn written_at_once(&self) -> u64 {
        let disks = self.disks.look();
        let physical = disks.values().map(|disk| disk.device().geometry().physical_sector);
        let largest = physical.max().unwrap_or(0).max(self.sector_size);
        u64::from(largest).next_power_of_two().min(BLOCK_U64)
    }

    /// How long a disk has to answer requests beside the data path.
    pub fn request_timeout(&self) -> RequestTimeout<'_> {
        RequestTimeout::new(&self.env, self.disk_timeout)
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

    /// A read failed, and goes on with another copy. If the disk has died its departure begins, although
    /// nobody waits for it.
    pub fn report_if_dead(&self, disk: &Disk) {
        if !disk.is_alive() {
            self.log.wanted.notify(1);
        }
    }

    /// What to do when a leg could not be written or flushed: wait for the epoch without it, whatever the
    /// reason. We ask for nothing that a disk of the group could not do, and a copy that lacks a write which
    /// others have must not be read again.
    pub async fn leg_failed(&self, disk: &Disk, error: IoError) -> Result<(), Error> {
        disk.fail(error);
        self.wait_offline(disk).await
    }
}
