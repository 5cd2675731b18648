//! A store: tables and indexes in one file, and the log that it is recovered from.

mod ahead;
mod apply;
mod build;
mod checkpoint;
mod counters;
mod direct;
mod filled;
mod grow;
mod list;
mod load;
mod long;
mod objects;
mod open;
mod plan;
mod provision;
mod read;
mod scan;
mod size;
mod sorted;
mod spill;
mod without_log;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_redo::{Log, Lsn, Queued, Recovery, Report};
use cellar_wait::{Session, Waits};

use crate::bundle::ImageLimits;
use crate::counters::Counters;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::lane::{Lane, LaneParts};
use crate::locks::Locks;
use crate::pace::{Limits, Pace, Rates, RecoveryEstimate};
use crate::space::map;
use crate::spilled::SpillFile;
use crate::statistics::{CacheStatistics, ObjectStatistics};
use crate::writer::Writer;

pub use crate::header::Header;
pub use apply::{Change, Key, Outcome};
pub use build::{BuildIndex, KeyOf, LoadIndex, MayRepeat};
use checkpoint::Schedule;
use grow::Growing;
pub use grow::{Growth, GrowthError};
pub use list::{ObjectKind, StoredObject};
pub(crate) use load::Loaded;
pub use load::{Load, MayShare};
pub(crate) use long::{LongValues, TakenPages};
pub use open::{Opened, Reader};
use read::Pages;
pub use read::View;
pub(crate) use scan::{Page, Place, Scan};
pub use size::{Sample, TableSize};
use spill::Spilling;
pub use without_log::OpenWithoutLog;

/// Parameters of an open store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pages that the buffer cache holds.
    pub cache_pages: usize,
    /// The limit of dirty pages: above it commits wait.
    pub dirty_max: usize,
    /// Older images of pages that may be kept in memory for views. Above this they go to [`OpenStore::spill`], or
    /// the oldest view ends.
    pub images_max: usize,
    /// Older images that may be in that file. Above this the oldest view ends.
    pub spilled_max: u64,
    /// After this much time without a commit all dirty pages are written, and older images that no view needs are
    /// dropped.
    pub checkpoint_after: Duration,
    /// Pages are written so that recovery after a crash takes about this long, or less if the other limits require
    /// it: see also [`Store::set_recovery_target`].
    pub recovery_target: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let recovery_target = Duration::from_secs(5);
        let checkpoint_after = Duration::from_secs(1);
        Options {
            cache_pages: 8192,
            dirty_max: 6144,
            images_max: 8192,
            spilled_max: 16 * 8192,
            checkpoint_after,
            recovery_target,
        }
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
    /// Makes the file longer when it is full; without it the file keeps its size.
    pub growth: Option<Arc<dyn Growth>>,
    /// A file for older images of pages that memory has no room for.
    pub spill: Option<Arc<dyn SpillFile>>,
}

/// An open store. Clones are handles of the same store; [`Store::close`] ends it in order, and dropping it
/// amounts to a crash.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

pub(crate) struct Inner {
    env: SharedEnv,
    log: Log,
    report: Report,
    pages: Arc<Pages>,
    lane: Lane,
    locks: Arc<Locks>,
    owners: AtomicU64,
    counters: Counters,
    writer: Writer,
    header: Mutex<Header>,
    options: Options,
    is_stopped: AtomicBool,
    stopped: Mutex<Option<Arc<str>>>,
    schedule: Schedule,
    growing: Growing,
    spilling: Spilling,
    begun_anew: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("dirty", &self.0.writer.dirty.count())
            .field("visible", &self.0.lane.visible())
            .finish_non_exhaustive()
    }
}

/// What a transaction has seen of commits that were not durable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// All of it is below this point,
    pub point: u64,
    /// and durable when the log is up to here.
    pub end: u64,
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
        let ahead = 0;
        let header =
            Header { generation, store, database, geometry, extents, checkpoint, rates, ahead };
        header.write(&**device).await?;
    }
    Ok(())
}

/// What an open store is made of.
struct InnerParts {
    env: SharedEnv,
    log: Log,
    report: Report,
    pages: Arc<Pages>,
    writer: Writer,
    header: Header,
    options: Options,
    limits: Limits,
    growth: Option<Arc<dyn Growth>>,
}

impl Inner {
    /// An open store, for which so many pages were read.
    fn new(parts: InnerParts, read: u64) -> Arc<Inner> {
        let InnerParts { env, log, report, pages, writer, header, options, limits, growth } = parts;
        let end = report.end.0;
        let lane = Lane::new(LaneParts {
            log: log.clone(),
            frames: Arc::clone(&pages.frames),
            geometry: pages.geometry,
            dirty: Arc::clone(&writer.dirty),
            snapshots: Arc::clone(&pages.snapshots),
            end,
            images: ImageLimits {
                most: options.images_max,
                beyond: options.images_max
                    + (options.cache_pages / 4).max(plan::PAGES_LEAST as usize),
            },
        });
        let statistics = pages.frames.statistics();
        statistics.know(pages.space.objects().into_iter().map(|(number, ..)| number));
        let locks = Arc::new(Locks::new(Arc::clone(statistics)));
        let pace = Pace::new(limits, options.recovery_target, header.checkpoint);
        Arc::new(Inner {
            env,
            log,
            report,
            pages,
            lane,
            locks,
            owners: AtomicU64::new(0),
            counters: Counters::default(),
            writer,
            header: Mutex::new(header),
            options,
            is_stopped: AtomicBool::new(false),
            stopped: Mutex::default(),
            schedule: Schedule::new(pace, end, read),
            growing: Growing::new(growth),
            spilling: Spilling::default(),
            begun_anew: AtomicU64::new(0),
        })
    }
}

impl Store {
    /// The log of the store.
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// Refuses a store that has stopped: it might show something older than what is durable.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn check_running(&self) -> Result<(), Error> {
        self.0.check_running()?;
        match self.0.log.stopped() {
            None => Ok(()),
            Some(why) => Err(Error::Stopped { why }),
        }
    }

    /// What the recovery of the log found.
    pub fn log_report(&self) -> &Report {
        &self.0.report
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

    /// How many older images of pages are kept in memory for views.
    pub fn kept_images(&self) -> usize {
        self.0.lane.images()
    }

    /// How many are in a file.
    pub fn spilled_images(&self) -> usize {
        self.0.pages.frames.spilled().count()
    }

    /// What was done to each table and index since the store was opened, by number. It looks at each page of the
    /// cache, and holds nobody up.
    pub fn object_statistics(&self) -> Vec<ObjectStatistics> {
        self.0.pages.frames.object_statistics()
    }

    /// The buffer cache as it is now. As [`Store::object_statistics`] it looks at each of its pages.
    pub fn cache_statistics(&self) -> CacheStatistics {
        CacheStatistics {
            dirty: self.0.writer.dirty.count() as u64,
            kept_images: self.0.lane.images() as u64,
            spilled_images: self.spilled_images() as u64,
            ..self.0.pages.frames.cache_statistics()
        }
    }

    /// How often a write set started again because something that it needed was not in memory or not free when its
    /// turn came.
    pub fn begun_anew(&self) -> u64 {
        self.0.begun_anew.load(Ordering::Relaxed)
    }

    /// A number for another transaction.
    pub(crate) fn next_owner(&self) -> u64 {
        self.0.owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Commits below are seen by all.
    pub(crate) fn visible(&self) -> u64 {
        self.0.lane.visible()
    }

    /// The end of the last commit that is in its pages.
    pub(crate) fn applied_end(&self) -> u64 {
        self.0.lane.applied_end()
    }

    /// Waits until what a transaction has seen is durable: then all see it.
    pub(crate) async fn wait_seen(&self, session: &Session, seen: Seen) -> Result<(), Error> {
        self.wait_end(session, seen.end).await?;
        // Who has committed it may not have been told yet.
        self.0.lane.see(seen.point);
        Ok(())
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

    /// Ends the store as a crash would, and returns when nothing in it writes any more: it must not be opened
    /// again before that. The log is abandoned separately: see [`Log::abandon`].
    #[boxed]
    pub async fn abandon(self) {
        self.0.stop(&Error::Stopped { why: "it was abandoned".into() });
        self.0.end_of_writes().await;
    }

    /// What recovery would have to do after a crash now.
    pub fn recovery_estimate(&self) -> RecoveryEstimate {
        self.0.estimate()
    }

    /// Pages are written from now on so that an opening after a crash takes about this long.
    pub fn set_recovery_target(&self, target: Duration) {
        self.0.schedule.pace.set_target(target);
        self.0.set_pace();
        self.0.wake_writer_if_due(self.0.lane.applied_end());
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

    /// Stops the store: from now on the truth is what is on disk, not what is in memory.
    fn stop(&self, why: &Error) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| why.to_string().into());
        self.is_stopped.store(true, Ordering::SeqCst);
        self.writer.dirty.wake();
        self.wake_spiller();
    }
}
