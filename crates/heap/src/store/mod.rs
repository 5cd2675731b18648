//! A store: tables and indexes in one file, and the log that it is redone from.

mod apply;
mod header;
mod objects;
mod plan;
mod read;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_page::PAGE_BYTES;
use cellar_redo::{Log, Lsn, Queued, Recovery};
use cellar_wait::{Kind, Session, Waits};
use event_listener::Event;
use futures_util::future::select;

use crate::dirty::Dirty;
use crate::doublewrite::Ring;
use crate::error::Error;
use crate::frames::Frames;
use crate::geometry::Geometry;
use crate::lane::{Lane, LaneParts};
use crate::locks::Locks;
use crate::recovery::{Replay, Replayed};
use crate::snapshots::Snapshots;
use crate::space::{Space, map};
use crate::writer::Writer;

pub use apply::{Change, Key, Outcome};
pub use header::Header;
pub use read::View;

/// Parameters of an open store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pages that the buffer cache holds.
    pub cache_pages: usize,
    /// Changed pages that may wait to be written.
    pub dirty_max: usize,
    /// How often the checkpoint moves on.
    pub checkpoint_after: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_pages: 8192, dirty_max: 4096, checkpoint_after: Duration::from_secs(1) }
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
    writer: Writer,
    header: Mutex<Header>,
    options: Options,
    stopped: Mutex<Option<Arc<str>>>,
    /// Somebody writes pages.
    is_writing: AtomicBool,
    is_closing: AtomicBool,
    /// Pages are to be written before it is time.
    writer_wanted: Event,
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
        let header = Header { generation, store, database, geometry, extents, checkpoint: from.0 };
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
        let replay = Replay { session: &session, frames: &frames, dirty: &dirty, from, done };
        let replayed = replay.run(&mut recovery).await?;
        let (log, report) = recovery.open().await?;
        if header.checkpoint > report.end.0 {
            let (what, other) = ("the log", "the store");
            let (end, lsn) = (report.end.0, header.checkpoint);
            return Err(Error::Older { what, other, end, lsn });
        }
        frames.set_limit(report.end.0);
        if extents > header.extents {
            map::make(&*device, store, geometry, header.extents, extents).await?;
            (header.extents, header.generation) = (extents, header.generation + 1);
            header.write(&*device).await?;
        }
        let space = Space::load(&frames, &session, geometry, header.extents).await?;
        let snapshots = Arc::new(Snapshots::default());
        let lane = Lane::new(LaneParts {
            log: log.clone(),
            frames: Arc::clone(&frames),
            geometry,
            dirty,
            snapshots: Arc::clone(&snapshots),
            end: report.end.0,
        });
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
            writer,
            header: Mutex::new(header),
            options,
            stopped: Mutex::default(),
            is_writing: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            writer_wanted: Event::new(),
        });
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
        self.0.is_closing.store(true, Ordering::SeqCst);
        self.0.checkpoint_in_task().await?;
        self.0.stop(&Error::Stopped { why: "it was closed".into() });
        self.0.log.clone().close().await?;
        Ok(())
    }

    /// Ends it as it is, as a crash would, and returns when nothing of it writes any more: before that it must
    /// not be opened again. The log is abandoned by itself: see [`Log::abandon`].
    #[boxed]
    pub async fn abandon(self) {
        self.0.stop(&Error::Stopped { why: "it was abandoned".into() });
        drop(self.0.turn().await);
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

/// The turn of who writes pages, until it is dropped.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Inner {
    fn check_running(&self) -> Result<(), Error> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stopped.map_or(Ok(()), |why| Err(Error::Stopped { why }))
    }

    /// Waits until a commit is durable. Returns where its record begins.
    async fn wait(&self, session: &Session, queued: Queued) -> Result<u64, Error> {
        let lsn = queued.appended.lsn.0;
        self.log.wait(session, queued).await?;
        self.lane.acknowledge(lsn);
        self.wake_writer_if_due();
        Ok(lsn)
    }

    /// Stops the store: what is on disk, and not what is in memory, is the truth from now on.
    fn stop(&self, why: &Error) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| why.to_string().into());
    }

    /// Has pages be written soon.
    fn wake_writer(&self) {
        self.writer_wanted.notify(1);
    }

    /// Has pages be written soon if many are to be.
    fn wake_writer_if_due(&self) {
        if self.writer.dirty.count() > self.options.dirty_max {
            self.wake_writer();
        }
    }

    /// Writes pages from time to time, as long as the store is open.
    fn start_writer(self: &Arc<Self>) {
        let (weak, env) = (Arc::downgrade(self), self.env.clone());
        let pause = self.options.checkpoint_after;
        let task = async move {
            loop {
                let Some(wanted) = weak.upgrade().map(|inner| inner.writer_wanted.listen()) else {
                    return;
                };
                select(wanted, env.sleep(pause)).await;
                let Some(inner) = weak.upgrade() else { return };
                if inner.is_closing.load(Ordering::SeqCst) || inner.check_running().is_err() {
                    return;
                }
                // An error has stopped the store.
                let _ = inner.checkpoint().await;
            }
        };
        self.env.spawn("store writer", Box::pin(task));
    }

    /// As [`Inner::checkpoint`], to its end also where nobody waits for that.
    async fn checkpoint_in_task(self: &Arc<Self>) -> Result<(), Error> {
        let inner = Arc::clone(self);
        let task = self.env.run("store checkpoint", async move { inner.checkpoint().await });
        task.await.ok_or_else(objects::ended)?
    }

    /// Waits until nobody writes.
    async fn turn(&self) -> Turn<'_> {
        while self.is_writing.swap(true, Ordering::SeqCst) {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        Turn(&self.is_writing)
    }

    /// Writes the pages that are changed now, and moves the checkpoint behind what they lacked.
    async fn checkpoint(&self) -> Result<(), Error> {
        let turn = self.turn().await;
        // It may have been closed while somebody else wrote.
        self.check_running()?;
        let result = self.write_and_move().await;
        drop(turn);
        if let Err(error) = &result {
            self.stop(error);
        }
        result
    }

    async fn write_and_move(&self) -> Result<(), Error> {
        // Also those that nobody waits for.
        let (lsn, end) = self.lane.last();
        if self.log.durable_lsn().0 < end {
            self.log.wait_durable(&self.writer.session, Lsn(end)).await?;
        }
        self.lane.acknowledge(lsn);
        let mut left = self.writer.dirty.count();
        while left > 0 {
            let written = self.writer.write_batch(&self.log).await?;
            left = left.saturating_sub(written.max(1));
            self.check_running()?;
        }
        // In this order: what is acknowledged is written, or still in the list.
        let acknowledged = self.lane.visible().saturating_sub(1);
        let checkpoint = self.writer.dirty.first().unwrap_or(u64::MAX).min(acknowledged);
        let header = {
            let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
            header.generation += 1;
            let checkpoint = self.log.checkpoint_for(Lsn(checkpoint));
            header.checkpoint = header.checkpoint.max(checkpoint.0);
            *header
        };
        // The store's first: it is never behind the log's.
        header.write(&**self.frames.device()).await?;
        self.log.set_checkpoint(Lsn(header.checkpoint)).await?;
        Ok(())
    }
}
