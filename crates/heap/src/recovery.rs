//! Crash recovery: what the log has beyond the checkpoint is done to the pages again. A page that has it
//! already says so by its LSN, so that a recovery that is cut off is simply begun anew.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cellar_io::Buffer;
use cellar_page::{PageMut, PageRef};
use cellar_redo::{Record, Recovery};
use cellar_wait::Session;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::change::{Change, Unfit};
use crate::dirty::Dirty;
use crate::error::Error;
use crate::frames::{Frame, Frames, raw_mut};
use crate::lane::COMMIT;

/// Redo that is read before it is applied: its pages are read together, in their order.
const CHUNK_BYTES: usize = 4 << 20;

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
}

/// What is needed to apply redo.
pub(crate) struct Replay<'a> {
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
        loop {
            let (mut records, mut bytes) = (Vec::new(), 0);
            while bytes < CHUNK_BYTES {
                let Some(record) = recovery.next().await? else { break };
                if record.kind == COMMIT && record.lsn.0 >= self.from {
                    bytes += record.body.len();
                    records.push(record);
                }
            }
            if records.is_empty() {
                return Ok(self.done);
            }
            // Held, so that they stay in memory.
            let _held = self.read(&records).await?;
            // Nothing is written before the log is open: what it ends with may not be durable yet.
            for record in &records {
                self.apply(record)?;
            }
        }
    }

    /// Reads the pages of these records, but for those that redo makes anew.
    async fn read(&self, records: &[Record]) -> Result<Vec<Arc<Frame>>, Error> {
        let (mut pages, mut fresh) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            for change in changes(&record.body) {
                let (page, change) = change.map_err(|unfit| unfit_at(record, 0, unfit))?;
                if !pages.contains(&page) && matches!(change, Change::Format { .. }) {
                    fresh.insert(page);
                } else if !fresh.contains(&page) {
                    pages.insert(page);
                }
            }
        }
        let (mut reads, mut held) = (FuturesUnordered::new(), Vec::new());
        for page in pages {
            if reads.len() >= READS {
                held.extend(reads.next().await.transpose()?);
            }
            reads.push(self.frames.load(self.session, page));
        }
        while let Some(read) = reads.next().await {
            held.push(read?);
        }
        // A page that is made anew may be whole on disk, and newer: then it says so.
        for page in fresh {
            match self.frames.load(self.session, page).await {
                Ok(frame) => held.push(frame),
                Err(_) => held.push(self.frames.fresh(page).await),
            }
        }
        Ok(held)
    }

    fn apply(&mut self, record: &Record) -> Result<(), Error> {
        let lsn = record.lsn.0;
        self.done.commits += 1;
        self.done.bytes += record.body.len() as u64;
        let mut open: BTreeMap<u32, (Arc<Frame>, Buffer)> = BTreeMap::new();
        for change in changes(&record.body) {
            let (page, change) = change.map_err(|unfit| unfit_at(record, 0, unfit))?;
            let (_, bytes) = match open.entry(page) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let frame = self.frames.resident(page);
                    let frame = frame.ok_or(unfit_at(record, page, Unfit("page in memory")))?;
                    if frame.current().lsn() >= lsn {
                        continue;
                    }
                    let bytes = frame.current().copy();
                    entry.insert((frame, bytes))
                }
            };
            let raw = raw_mut(bytes);
            change.check(PageRef::new(raw)).map_err(|unfit| unfit_at(record, page, unfit))?;
            change.apply(self.frames.store(), page, raw);
            self.done.applied += 1;
        }
        for (frame, mut bytes) in open.into_values() {
            PageMut::new(raw_mut(&mut bytes)).set_lsn(lsn);
            frame.replace(bytes);
            self.dirty.note(lsn, &frame);
        }
        Ok(())
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
