//! Openings of a store: what was torn is mended, the log is replayed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_recursion::async_recursion as boxed;
use cellar_io::Device;
use cellar_page::PAGE_BYTES;
use cellar_redo::Recovery;
use cellar_wait::Kind;

use super::read::{Pages, View};
use super::{Header, Inner, InnerParts, OpenStore, Options, Store};
use crate::dirty::Dirty;
use crate::doublewrite::Ring;
use crate::error::Error;
use crate::frames::{Frame, Frames};
use crate::pace::Limits;
use crate::recovery::{Replay, Replayed};
use crate::snapshots::Snapshots;
use crate::space::{Space, map};
use crate::writer::Writer;

/// A store that is only read, as it was when the log was read.
pub struct Reader {
    pages: Arc<Pages>,
    /// All commits are below.
    end: u64,
    /// Pages that are newer than on disk: they stay in memory, also for views that outlive this.
    newer: Arc<(Arc<Dirty>, Vec<Arc<Frame>>)>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Reader {
    /// All that was committed.
    pub fn view(&self) -> View {
        View::new(&self.pages, Arc::clone(&self.newer) as _, || self.end)
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

impl Store {
    /// Opens a store: the log is replayed, and then goes on.
    ///
    /// # Errors
    /// [`Error::HeaderDamaged`], [`Error::Older`], [`Error::PageDamaged`], [`Error::RedoUnfit`]; those of
    /// the log and of the device.
    #[boxed]
    pub async fn open(open: OpenStore) -> Result<(Store, Replayed), Error> {
        let OpenStore { env, waits, device, mut recovery, options, growth } = open;
        let session = waits.session("store writer", Kind::Background);
        let mut header = Header::read(&*device).await?;
        let extents = check_header(&header, &recovery, device.geometry().size)?;
        let Header { store, geometry, .. } = header;
        let ring = Ring::read(&*device, store, &geometry, header.checkpoint).await?;
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
        let last = replayed.last.max(header.checkpoint);
        let space = Space::load(&frames, session, geometry, header.extents, last).await?;
        let snapshots = Arc::new(Snapshots::default());
        let pages = Arc::new(Pages { frames, geometry, space, snapshots });
        let limits = options.limits(&header);
        let parts = InnerParts { env, log, report, pages, writer, header, options, limits, growth };
        let inner = Inner::new(parts, replayed.pages);
        inner.set_pace();
        inner.load_counters(session).await?;
        inner.start_writer();
        Ok((Store(inner), replayed))
    }

    /// Opens a store to read it: the log is replayed in memory, and nothing is written. Nobody else may have
    /// store or log open.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[boxed]
    pub async fn open_read_only(open: OpenStore) -> Result<(Reader, Replayed), Error> {
        let OpenStore { env, waits, device, recovery, options, .. } = open;
        let session = waits.session("store recovery", Kind::Background);
        let mut recovery = recovery.without_writes();
        let header = Header::read(&*device).await?;
        check_header(&header, &recovery, device.geometry().size)?;
        let Header { store, geometry, extents, checkpoint: from, .. } = header;
        let ring = Ring::read(&*device, store, &geometry, header.checkpoint).await?;
        let cache = options.cache_pages;
        let frames = Arc::new(Frames::new(store, env.clone(), Arc::clone(&device), cache));
        let torn = torn_pages(ring, &*device, &frames).await?;
        let dirty = Arc::new(Dirty::default());
        let done = Replayed { repaired: torn.len(), ..Replayed::default() };
        let (of, session) = (&*frames, &session);
        let replay = Replay { env: &env, session, frames: of, dirty: &dirty, from, done };
        let replayed = replay.run(&mut recovery).await?;
        let end = recovery.end().0;
        check_log_end(end, header.checkpoint.max(replayed.newest + 1))?;
        frames.set_limit(end);
        let space = Space::load(&frames, session, geometry, extents, end).await?;
        let pages = Pages { frames, geometry, space, snapshots: Arc::default() };
        let newer = Arc::new((dirty, torn));
        Ok((Reader { pages: Arc::new(pages), end, newer }, replayed))
    }
}

/// Has pages in memory, as the ring has them, that are torn in their places.
async fn torn_pages(
    ring: Ring,
    device: &dyn Device,
    frames: &Frames,
) -> Result<Vec<Arc<Frame>>, Error> {
    let mut torn = Vec::new();
    for (number, image) in ring.torn(device, frames.store()).await {
        let frame = frames.fresh(number).await;
        frame.replace(image);
        torn.push(frame);
    }
    Ok(torn)
}
