//! Crash recovery: the log after the checkpoint is applied to the pages again. The LSN of a page shows what it
//! already has, so an interrupted recovery is simply started again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Buffer, SharedEnv};
use cellar_page::{PageMut, PageRef};
use cellar_redo::{Record, Recovery};
use cellar_wait::Session;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use smallvec::SmallVec;

use crate::change::{Change, Unfit};
use crate::dirty::Dirty;
use crate::error::Error;
use crate::frames::{Frame, Frames, raw_mut};
use crate::header::{Header, LSN_MAX};
use crate::lane::COMMIT;
use crate::pace::Rates;

/// Redo that is read before it is applied: its pages are read together, in their order.
const CHUNK_BYTES: usize = 4 << 20;

/// Pages that are read for it, about.
const CHUNK_PAGES: usize = 2048;

/// What a record takes in memory beside its bytes.
const RECORD_BYTES: usize = 64;

/// Reads of pages under way at once.
const READS: usize = 64;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Commits in the log.
    pub commits: u64,
    /// Bytes of their redo.
    pub bytes: u64,
    /// Changes that pages lacked.
    pub applied: u64,
    /// Pages that were torn, and are whole again.
    pub repaired: usize,
    /// The distance of LSNs that was read.
    pub redo: u64,
    /// Pages that were read.
    pub pages: u64,
    /// The last record of the log, if there is one behind the checkpoint.
    pub(crate) last: u64,
    /// No page may have this LSN or a higher one: the log has its whole records below, and what pages had before.
    pub(crate) known: u64,
    /// The newest LSN of a page that was looked at.
    pub(crate) newest: u64,
    /// How long the reads of pages took.
    pub reading: Duration,
    /// How long all took.
    pub time: Duration,
}

impl Replayed {
    /// What was measured, where there was enough to do.
    pub(crate) fn rates(&self, before: Rates) -> Rates {
        let rate = |count: u64, time: Duration, least: u64, before: u64| match count >= least
            && time >= MEASURED
        {
            true => (count as f64 / time.as_secs_f64()) as u64,
            false => before,
        };
        let applying = self.time.saturating_sub(self.reading);
        Rates {
            redo: rate(self.redo, applying, REDO_MEASURED, before.redo),
            pages: rate(self.pages, self.reading, PAGES_MEASURED, before.pages),
        }
        .sane()
    }
}

/// A shorter time says nothing about how long more work would take.
const MEASURED: Duration = Duration::from_millis(50);
const REDO_MEASURED: u64 = 16 << 20;
const PAGES_MEASURED: u64 = 512;

/// What is needed to apply redo.
pub(crate) struct Replay<'a> {
    pub env: &'a SharedEnv,
    pub session: &'a Session,
    pub frames: &'a Frames,
    pub dirty: &'a Dirty,
    /// What is logged below is in the pages.
    pub from: u64,
    pub done: Replayed,
}

impl Replay<'_> {
    /// Applies all that the log has.
    pub async fn run(mut self, recovery: &mut Recovery) -> Result<Replayed, Error> {
        let (start, mut last, mut known) = (self.env.now(), self.from, self.from);
        loop {
            let (mut records, mut bytes, mut pages) = (Vec::new(), 0, BTreeMap::new());
            let mut unlogged = None;
            while bytes < CHUNK_BYTES {
                let Some(record) = recovery.next().await? else { break };
                last = last.max(record.lsn.0);
                known = known.max(record.lsn.0 + 1);
                if record.kind == COMMIT && record.lsn.0 >= self.from {
                    bytes += record.body.len() + RECORD_BYTES;
                    let generation = note_pages(&record, &mut pages)?;
                    unlogged =
                        unlogged.max(generation.map(|generation| (generation, record.lsn.0)));
                    records.push(record);
                }
                if pages.len() >= CHUNK_PAGES {
                    break;
                }
            }
            if records.is_empty() {
                self.done.redo = last - self.from;
                self.done.last = last;
                self.done.known = known;
                self.done.time = self.env.now().since(start);
                return Ok(self.done);
            }
            if let Some((generation, lsn)) = unlogged {
                self.check_generation(generation, lsn).await?;
            }
            // Held, so that they stay in memory.
            let begun = self.env.now();
            let held = self.read(pages).await?;
            self.done.reading += self.env.now().since(begun);
            // Nothing is written before the log is open: its last records may not be durable yet.
            let mut open = OpenPages::new(held);
            for record in &records {
                open.apply(self.frames.store(), record, &mut self.done)?;
            }
            open.close(self.dirty);
        }
    }

    /// Refuses a file that is older than the pages written around the log before this record: replay would make
    /// earlier contents visible in their place.
    async fn check_generation(&self, generation: u64, lsn: u64) -> Result<(), Error> {
        let header = Header::read(&**self.frames.device()).await?;
        match generation <= header.generation {
            true => Ok(()),
            false => {
                let (what, other) = ("the store", "the log");
                Err(Error::Older { what, other, end: header.checkpoint, lsn })
            }
        }
    }

    /// Brings these pages into memory. A page that redo formats may be damaged on disk; if it is whole it may be
    /// newer, as its LSN shows.
    async fn read(&mut self, pages: BTreeMap<u32, bool>) -> Result<Vec<Arc<Frame>>, Error> {
        let (frames, session) = (self.frames, self.session);
        let read = async |page, is_fresh| match frames.load(session, page).await {
            Err(_) if is_fresh => Ok(frames.fresh(page).await),
            loaded => loaded,
        };
        let (mut reads, mut held) = (FuturesUnordered::new(), Vec::with_capacity(pages.len()));
        for (page, is_fresh) in pages {
            if let Some(frame) = frames.resident(page) {
                held.push(frame);
                continue;
            }
            if reads.len() >= READS {
                held.extend(reads.next().await.transpose()?);
            }
            self.done.pages += 1;
            reads.push(read(page, is_fresh));
        }
        while let Some(read) = reads.next().await {
            held.push(read?);
        }
        let newest = held.iter().map(|frame| frame.current().lsn()).max().unwrap_or(0);
        self.done.newest = self.done.newest.max(newest.min(LSN_MAX));
        Ok(held)
    }
}

/// Notes the pages of a record, and of each whether its first change makes it anew. Returns the generation of the
/// header that has what was written around the log before, if anything was.
fn note_pages(record: &Record, pages: &mut BTreeMap<u32, bool>) -> Result<Option<u64>, Error> {
    let mut unlogged = None;
    for change in changes(&record.body) {
        let (page, change) = change.map_err(|unfit| unfit_at(record, 0, unfit))?;
        if let Change::Unlogged { generation, .. } = change {
            unlogged = unlogged.max(Some(generation));
            continue;
        }
        pages.entry(page).or_insert(matches!(change, Change::Format { .. }));
    }
    Ok(unlogged)
}

/// A page to which redo is applied.
struct OpenPage {
    frame: Arc<Frame>,
    /// Its bytes, once they differ from the frame's.
    bytes: Option<Buffer>,
    /// It has all records up to this one.
    lsn: u64,
    /// The first record that it lacked.
    first: u64,
}

/// Pages to which redo is applied.
struct OpenPages(HashMap<u32, OpenPage>);

impl OpenPages {
    fn new(frames: Vec<Arc<Frame>>) -> OpenPages {
        let open = |frame: Arc<Frame>| {
            let lsn = frame.current().lsn();
            (frame.number(), OpenPage { frame, bytes: None, lsn, first: 0 })
        };
        OpenPages(frames.into_iter().map(open).collect())
    }

    /// Applies a record to the pages that lack it.
    fn apply(&mut self, store: u64, record: &Record, done: &mut Replayed) -> Result<(), Error> {
        let (lsn, mut changed) = (record.lsn.0, SmallVec::<[u32; 4]>::new());
        done.commits += 1;
        done.bytes += record.body.len() as u64;
        for change in changes(&record.body) {
            let (number, change) = change.map_err(|unfit| unfit_at(record, 0, unfit))?;
            if matches!(change, Change::Unlogged { .. }) {
                continue;
            }
            let page = self.0.get_mut(&number);
            let page = page.ok_or(unfit_at(record, number, Unfit("page in memory")))?;
            if page.lsn >= lsn {
                continue;
            }
            let bytes = match &mut page.bytes {
                Some(bytes) => bytes,
                None => {
                    page.first = lsn;
                    page.bytes.insert(page.frame.current().copy())
                }
            };
            let raw = raw_mut(bytes);
            change.check(PageRef::new(raw)).map_err(|unfit| unfit_at(record, number, unfit))?;
            change.apply(store, number, raw);
            changed.push(number);
            done.applied += 1;
        }
        for number in changed {
            if let Some(page) = self.0.get_mut(&number) {
                page.lsn = lsn;
            }
        }
        Ok(())
    }

    /// Puts what was changed into the frames.
    fn close(self, dirty: &Dirty) {
        for OpenPage { frame, bytes, lsn, first } in self.0.into_values() {
            let Some(mut bytes) = bytes else { continue };
            PageMut::new(raw_mut(&mut bytes)).set_lsn(lsn);
            frame.replace(bytes);
            dirty.note(first, &frame);
        }
    }
}

/// The changes of a commit, each with its page.
fn changes(mut body: &[u8]) -> impl Iterator<Item = Result<(u32, Change<'_>), Unfit>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        Some(Change::decode(body).map(|(page, change, rest)| {
            body = rest;
            (page, change)
        }))
    })
    .scan(false, |failed, change| {
        let ended = std::mem::replace(failed, change.is_err());
        (!ended).then_some(change)
    })
}

fn unfit_at(record: &Record, page: u32, Unfit(what): Unfit) -> Error {
    Error::RedoUnfit { lsn: record.lsn.0, page, what }
}
