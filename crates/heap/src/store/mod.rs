//! A store: tables and indexes in one file, and the log that it is redone from.

mod apply;
mod build;
mod checkpoint;
mod counters;
mod direct;
mod header;
mod long;
mod objects;
mod plan;
mod read;
mod scan;
mod sorted;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_page::PAGE_BYTES;
use cellar_redo::{Log, Lsn, Queued, Recovery};
use cellar_wait::{Kind, Session, Waits};

use crate::counters::Counters;
use crate::dirty::Dirty;
use crate::doublewrite::Ring;
use crate::error::Error;
use crate::frames::Frames;
use crate::geometry::Geometry;
use crate::lane::{Lane, LaneParts};
use crate::locks::Locks;
use crate::pace::{Limits, Pace, Rates, RecoveryEstimate};
use crate::recovery::{Replay, Replayed};
use crate::snapshots::Snapshots;
use crate::space::{Space, map};
use crate::writer::Writer;

pub use apply::{Change, Key, Outcome};
pub use build::{BuildIndex, KeyOf, Load, LoadIndex};
use checkpoint::Schedule;
pub use header::Header;
pub(crate) use long::{LongValues, TakenPages};
pub use read::View;

/// Parameters of an open store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pages that the buffer cache holds.
    pub cache_pages: usize,
    /// Changed pages that may wait to be written: then commits wait.
    pub dirty_max: usize,
    /// After so long without a commit all pages are written.
    pub checkpoint_after: Duration,
    /// Pages are written so that an opening after a crash takes about this long, or as much less as the
    /// other limits ask for.
    pub recovery_target: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let recovery_target = Duration::from_secs(5);
        let checkpoint_after = Duration::from_secs(1);
        Options { cache_pages: 8192, dirty_max: 6144, checkpoint_after, recovery_target }
    }
}

/// The parameters for opening a store.
pub struct OpenStore {
    /// Clock, chance and tasks.
    pub env: SharedEnv,
    /// Where waits are counted.
    pub waits: Waits,
    /// The file.
    pub device: Arc<dyn Device>,
    /// The log, which nobody has read from yet.
    pub recovery: Recovery,
    /// Parameters.
    pub options: Options,
}

/// An open store. Clones are handles of the same store; [`Store::close`] ends it in order, and dropping it
/// amounts to a crash.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

pub(crate) struct Inner {
    env: SharedEnv,
    log: Log,
    frames: Arc<Frames>,
    geometry: Geometry,
    space: Space,
    lane: Lane,
    snapshots: Arc<Snapshots>,
    locks: Arc<Locks>,
    owners: AtomicU64,
    counters: Counters,
    writer: Writer,
    header: Mutex<Header>,
    options: Options,
    is_stopped: AtomicBool,
    stopped: Mutex<Option<Arc<str>>>,
    schedule: Schedule,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dirty", &self.0.writer.dirty.count())
            .field("visible", &self.0.lane.visible())
            .finish_non_exhaustive()
    }
}

/// The parameters for making a store.
#[derive(Clone, Copy, Debug)]
pub struct NewStore {
    /// Tells it from all other stores.
    pub store: u64,
    /// The database whose log it is redone from.
    pub database: u128,
    /// Sizes.
    pub geometry: Geometry,
    /// Where the log is now: what is in it was not of this store.
    pub from: Lsn,
}

/// Makes an empty store of a file, whatever was in it.
///
/// # Errors
/// [`Error::TooSmall`]; [`Error::Io`].
#[boxed]
pub async fn create(device: &Arc<dyn Device>, new: NewStore) -> Result<(), Error> {
    let NewStore { store, database, geometry, from } = new;
    if !geometry.is_possible() {
        return Err(Error::BadGeometry { geometry });
    }
    let (bytes, least) = (device.geometry().size, geometry.least_bytes());
    if bytes < least {
        return Err(Error::TooSmall { bytes, least });
    }
    // Both copies: what was there before must not be taken for newer.
    let extents = geometry.extents(bytes);
    map::make(&**device, store, geometry, 0, extents).await?;
    for generation in [1, 2] {
        let (checkpoint, rates) = (from.0, Rates::default());
        let header = Header { generation, store, database, geometry, extents, checkpoint, rates };
        header.write(&**device).await?;
    }
    Ok(())
}

/// Whether file and log belong together. Returns the extents of the file.
fn check_header(header: &Header, recovery: &Recovery, bytes: u64) -> Result<u32, Error> {
    let (found, expected) = (header.database, recovery.database().0);
    if found != expected {
        return Err(Error::OtherDatabase { found, expected });
    }
    let (end, lsn) = (header.checkpoint, recovery.checkpoint().0);
    if end < lsn {
        return Err(Error::Older { what: "the store", other: "the log", end, lsn });
    }
    let extents = header.geometry.extents(bytes);
    if extents < header.extents {
        let pages = u64::from(header.extents) * u64::from(header.geometry.extent_pages);
        return Err(Error::TooSmall { bytes, least: pages * PAGE_BYTES as u64 });
    }
    Ok(extents)
}

/// Whether the log is as long as the store says that it is.
fn check_log_end(end: u64, lsn: u64) -> Result<(), Error> {
    match lsn <= end {
        true => Ok(()),
        false => Err(Error::Older { what: "the log", other: "the store", end, lsn }),
    }
}

impl Options {
    fn limits(&self, header: &Header) -> Limits {
        Limits {
            target: self.recovery_target,
            rates: header.rates,
            dirty_max: self.dirty_max.max(1) as u64,
            cache_pages: self.cache_pages as u64,
            batch_pages: u64::from(header.geometry.batch_pages),
        }
    }
}

impl Store {
    /// Opens a store: the log is replayed, and then goes on.
    ///
    /// # Errors
    /// [`Error::HeaderDamaged`], [`Error::Older`], [`Error::PageDamaged`], [`Error::RedoUnfit`]; those of
    /// the log and of the device.
    #[boxed]
    pub async fn open(open: OpenStore) -> Result<(Store, Replayed), Error> {
        let OpenStore { env, waits, device, mut recovery, options } = open;
        let session = waits.session("store writer", Kind::Background);
        let mut header = Header::read(&*device).await?;
        let extents = check_header(&header, &recovery, device.geometry().size)?;
        let Header { store, geometry, .. } = header;
        let ring = Ring::read(&*device, store, &geometry).await?;
        let batch = AtomicU64::new(ring.last);
        let repaired = ring.repair(&*device, store).await?;
        let cache = options.cache_pages;
        let frames = Arc::new(Frames::new(store, env.clone(), Arc::clone(&device), cache));
        let dirty = Arc::new(Dirty::default());
        let (env_of, frames_of, dirty_of) = (env.clone(), Arc::clone(&frames), Arc::clone(&dirty));
        let writer =
            Writer { env: env_of, session, frames: frames_of, geometry, dirty: dirty_of, batch };
        let session = waits.session("store recovery", Kind::Background);
        let (from, done) = (header.checkpoint, Replayed { repaired, ..Replayed::default() });
        let (session, frames_of) = (&session, &*frames);
        let replay = Replay { env: &env, session, frames: frames_of, dirty: &dirty, from, done };
        let replayed = replay.run(&mut recovery).await?;
        header.rates = replayed.rates(header.rates);
        let (log, report) = recovery.open().await?;
        let end = report.end.0;
        check_log_end(end, header.checkpoint.max(replayed.newest + 1))?;
        frames.set_limit(end);
        if extents > header.extents {
            map::make(&*device, store, geometry, header.extents, extents).await?;
            (header.extents, header.generation) = (extents, header.generation + 1);
            header.write(&*device).await?;
        }
        let space = Space::load(&frames, session, geometry, header.extents).await?;
        let snapshots = Arc::new(Snapshots::default());
        let lane = Lane::new(LaneParts {
            log: log.clone(),
            frames: Arc::clone(&frames),
            geometry,
            dirty,
            snapshots: Arc::clone(&snapshots),
            end,
        });
        let pace = Pace::new(options.limits(&header), header.checkpoint);
        let inner = Arc::new(Inner {
            env,
            log,
            frames,
            geometry,
            space,
            lane,
            snapshots,
            locks: Arc::new(Locks::new()),
            owners: AtomicU64::new(0),
            counters: Counters::default(),
            writer,
            header: Mutex::new(header),
            options,
            is_stopped: AtomicBool::new(false),
            stopped: Mutex::default(),
            schedule: Schedule::new(pace, end, replayed.pages),
        });
        inner.set_pace();
        inner.load_counters(session).await?;
        inner.start_writer();
        Ok((Store(inner), replayed))
    }

    /// The log of the store.
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    pub(crate) fn env(&self) -> &SharedEnv {
        &self.0.env
    }

    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.0.locks
    }

    /// How many rows, keys and tables are locked, or waited for.
    pub fn locked(&self) -> usize {
        self.0.locks.count()
    }

    /// A number for another transaction.
    pub(crate) fn next_owner(&self) -> u64 {
        self.0.owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The end of the last commit that is in its pages.
    pub(crate) fn applied_end(&self) -> u64 {
        self.0.lane.applied_end()
    }

    /// Waits until the log is durable up to `end`.
    pub(crate) async fn wait_end(&self, session: &Session, end: u64) -> Result<(), Error> {
        if self.0.log.durable_lsn().0 < end {
            self.0.log.wait_durable(session, Lsn(end)).await?;
        }
        Ok(())
    }

    /// Writes all that changed, moves the checkpoint to the end, and closes the log.
    ///
    /// # Errors
    /// Those of the log and of the device.
    #[boxed]
    pub async fn close(self) -> Result<(), Error> {
        self.0.check_running()?;
        let inner = Arc::clone(&self.0);
        // To its end, also where nobody waits for that.
        let task = self.0.env.run("store close", async move { inner.close().await });
        task.await.ok_or_else(objects::ended)?
    }

    /// Ends it as it is, as a crash would, and returns when nothing of it writes any more: before that it must
    /// not be opened again. The log is abandoned by itself: see [`Log::abandon`].
    #[boxed]
    pub async fn abandon(self) {
        self.0.stop(&Error::Stopped { why: "it was abandoned".into() });
        drop(self.0.turn().await);
    }

    /// What an opening would have to do after a crash now.
    pub fn recovery_estimate(&self) -> RecoveryEstimate {
        self.0.estimate()
    }

    /// Writes all that has changed so far, and moves the checkpoint.
    ///
    /// # Errors
    /// Those of the log and of the device.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<(), Error> {
        self.0.check_running()?;
        self.0.checkpoint_in_task().await
    }
}

impl Inner {
    fn check_running(&self) -> Result<(), Error> {
        if !self.is_stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stopped.map_or(Ok(()), |why| Err(Error::Stopped { why }))
    }

    /// Waits until a commit is durable. Returns where its record begins.
    async fn wait(&self, session: &Session, queued: Queued) -> Result<u64, Error> {
        let (lsn, end) = (queued.appended.lsn.0, queued.appended.end.0);
        self.log.wait(session, queued).await?;
        self.lane.acknowledge(lsn);
        self.wake_writer_if_due(end);
        Ok(lsn)
    }

    /// Stops the store: what is on disk, and not what is in memory, is the truth from now on.
    fn stop(&self, why: &Error) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| why.to_string().into());
        self.is_stopped.store(true, Ordering::SeqCst);
        self.writer.dirty.wake();
    }
}
