//! Opening of a store: torn pages are repaired, the log is replayed.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::Device;
use cellar_page::PAGE_BYTES;
use cellar_redo::{Log, Recovery, Report};
use cellar_wait::{Kind, Session};

use super::ahead::ahead_of_log;
use super::read::{Pages, View};
use super::{Header, Inner, InnerParts, OpenStore, Options, Store};
use crate::counters::{COUNTERS, decode};
use crate::dirty::Dirty;
use crate::doublewrite::Ring;
use crate::error::Error;
use crate::frames::{Frame, Frames};
use crate::pace::Limits;
use crate::recovery::{Replay, Replayed};
use crate::snapshots::Snapshots;
use crate::space::{Space, map};
use crate::spilled::Spilled;
use crate::writer::{RingPlace, Writer};

/// The result of an opening.
pub enum Opened {
    /// A store that can be read and written.
    Store(Store, Replayed),
    /// The pages are ahead of a log that was opened by force, now or before. The store is read-only, or
    /// changes of lost transactions would be mixed with others.
    Ahead {
        /// The remaining state: all that the log has, and of what it lost, whatever was in pages.
        reader: Reader,
        /// The log, which gets no records of this store.
        log: Log,
        /// What its recovery has found.
        report: Report,
    },
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opened::Store(store, _) => write!(f, "{store:?}"),
            Opened::Ahead { reader, .. } => write!(f, "Ahead({reader:?})"),
        }
    }
}

/// A store that is only read, as it was when the log was read.
pub struct Reader {
    pub(super) pages: Arc<Pages>,
    /// All commits are below.
    pub(super) end: u64,
    /// Some pages have what the log has lost.
    pub(super) is_ahead: bool,
    /// Where counters go on.
    pub(super) counters: BTreeMap<u32, i64>,
    /// Pages that are newer than on disk: they stay in memory, also for views that outlive this.
    pub(super) newer: Arc<(Arc<Dirty>, Vec<Arc<Frame>>)>,
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

    /// The value of a counter that would be taken next.
    ///
    /// # Errors
    /// [`Error::WrongObject`]: there is no such counter.
    pub fn peek_counter(&self, number: u32) -> Result<i64, Error> {
        let found = self.counters.get(&number).copied();
        found.ok_or(Error::WrongObject { object: number, expected: "counter" })
    }

    /// With its counters.
    pub(super) async fn with_counters(mut self, session: &Session) -> Result<Reader, Error> {
        if self.pages.space.check_table(COUNTERS).is_ok() {
            let rows = self.view().scan(session, COUNTERS).await?;
            self.counters = rows.iter().filter_map(|(_, row)| decode(row)).collect();
        }
        Ok(self)
    }

    /// Whether pages have changes that the log has lost, because it was opened by force.
    pub fn is_ahead(&self) -> bool {
        self.is_ahead
    }
}

impl Options {
    fn limits(&self, header: &Header) -> Limits {
        Limits {
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

/// Whether the log is as long as the store says that it is, and has each record that a page has. `newest`: the newest
/// LSN of a page that was written by way of the ring.
fn check_log_end(end: u64, header: &Header, replayed: &Replayed, newest: u64) -> Result<(), Error> {
    let older = |end, lsn| Err(Error::Older { what: "the log", other: "the store", end, lsn });
    // Part of a record may be there, so that the log goes on behind it.
    match newest.max(replayed.newest) {
        _ if header.checkpoint > end => older(end, header.checkpoint),
        newest if newest >= replayed.known => older(replayed.known, newest),
        _ => Ok(()),
    }
}

impl Store {
    /// Opens a store: the log is replayed, and then goes on.
    ///
    /// # Errors
    /// [`Error::HeaderDamaged`], [`Error::Older`], [`Error::PageDamaged`], [`Error::RedoUnfit`];
    /// [`Error::Ahead`] where it may only be read; those of the log and of the device.
    #[boxed]
    pub async fn open(open: OpenStore) -> Result<(Store, Replayed), Error> {
        match Store::open_any(open).await? {
            Opened::Store(store, replayed) => Ok((store, replayed)),
            Opened::Ahead { reader, report, .. } => {
                Err(Error::Ahead { end: report.end.0, below: reader.end })
            }
        }
    }

    /// As [`Store::open`], also a store that may only be read.
    ///
    /// # Errors
    /// As [`Store::open`], but for [`Error::Ahead`].
    #[boxed]
    pub async fn open_any(open: OpenStore) -> Result<Opened, Error> {
        let OpenStore { env, waits, device, mut recovery, options, growth, spill } = open;
        let session = waits.session("store writer", Kind::Background);
        let mut header = Header::read(&*device).await?;
        let extents = check_header(&header, &recovery, device.geometry().size)?;
        let Header { store, geometry, .. } = header;
        let ring = Ring::read(&*device, store, &geometry, header.checkpoint).await?;
        let (cache, disk) = (options.cache_pages, Arc::clone(&device));
        let spilled = Arc::new(Spilled::new(spill, options.spilled_max));
        let frames = Arc::new(Frames::new(store, env.clone(), disk, cache, spilled));
        let dirty = Arc::new(Dirty::default());
        let writer = Writer {
            env: env.clone(),
            session,
            frames: Arc::clone(&frames),
            geometry,
            dirty: Arc::clone(&dirty),
            place: RingPlace::behind(&ring),
        };
        let repaired = ring.repair(&*device, store).await?;
        let session = waits.session("store recovery", Kind::Background);
        let (from, done) = (header.checkpoint, Replayed { repaired, ..Replayed::default() });
        let (session, frames_of) = (&session, &*frames);
        let replay = Replay { env: &env, session, frames: frames_of, dirty: &dirty, from, done };
        let replayed = replay.run(&mut recovery).await?;
        let ahead = ahead_of_log(&recovery, &header, &replayed, &*device).await;
        if ahead > 0 {
            frames.set_limit(u64::MAX);
            frames.go_past_damage();
            let space = Space::load(&frames, session, geometry, header.extents, ahead).await?;
            // Before the log goes on: whoever opens it next must know, whichever copy it finds.
            header = Header { ahead, generation: header.generation + 1, ..header };
            header.write(&*device).await?;
            let (log, report) = recovery.open().await?;
            let pages = Pages { frames, geometry, space, snapshots: Arc::default() };
            let newer = Arc::new((dirty, Vec::new()));
            let (pages, end) = (Arc::new(pages), ahead.max(report.end.0));
            let counters = BTreeMap::new();
            let reader = Reader { pages, end, is_ahead: true, counters, newer };
            let reader = reader.with_counters(session).await?;
            return Ok(Opened::Ahead { reader, log, report });
        }
        header.rates = replayed.rates(header.rates);
        match recovery.is_forced() {
            // No page has it that is the newest by the ring: all were looked at.
            true => writer.forget_ring().await?,
            false => check_log_end(recovery.end().0, &header, &replayed, writer.newest())?,
        }
        let (log, report) = recovery.open().await?;
        frames.set_limit(report.end.0);
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
        inner.start_spiller();
        Ok(Opened::Store(Store(inner), replayed))
    }

    /// Opens a store for reading only: the log is replayed in memory, and nothing is written. Nobody else
    /// may have store or log open.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[boxed]
    pub async fn open_read_only(open: OpenStore) -> Result<(Reader, Replayed), Error> {
        let OpenStore { env, waits, device, recovery, options, .. } = open;
        let session = waits.session("store recovery", Kind::Background);
        let mut recovery = recovery.without_writes();
        let header = Header::read(&*device).await?;
        let is_ahead = header.ahead > 0;
        if is_ahead {
            recovery = recovery.by_force();
        }
        check_header(&header, &recovery, device.geometry().size)?;
        let Header { store, geometry, extents, checkpoint: from, .. } = header;
        let ring = Ring::read(&*device, store, &geometry, header.checkpoint).await?;
        let newest = ring.newest;
        let (cache, disk) = (options.cache_pages, Arc::clone(&device));
        let frames = Arc::new(Frames::new(store, env.clone(), disk, cache, Arc::default()));
        if is_ahead {
            frames.go_past_damage();
        }
        let torn = torn_pages(ring, &*device, &frames).await?;
        let dirty = Arc::new(Dirty::default());
        let done = Replayed { repaired: torn.len(), ..Replayed::default() };
        let (of, session) = (&*frames, &session);
        let replay = Replay { env: &env, session, frames: of, dirty: &dirty, from, done };
        let replayed = replay.run(&mut recovery).await?;
        let end = recovery.end().0;
        let end = match header.ahead {
            0 => {
                check_log_end(end, &header, &replayed, newest)?;
                frames.set_limit(end);
                end
            }
            ahead => {
                frames.set_limit(u64::MAX);
                end.max(ahead)
            }
        };
        let space = Space::load(&frames, session, geometry, extents, end).await?;
        let pages = Pages { frames, geometry, space, snapshots: Arc::default() };
        let newer = Arc::new((dirty, torn));
        let (pages, counters) = (Arc::new(pages), BTreeMap::new());
        let reader = Reader { pages, end, is_ahead, counters, newer };
        Ok((reader.with_counters(session).await?, replayed))
    }
}

/// Loads pages that are torn in their places, from the ring.
pub(super) async fn torn_pages(
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
