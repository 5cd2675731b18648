//! The writer: dirty pages go to disk after their log records, and the checkpoint moves up after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_io::SharedEnv;
use cellar_redo::{Log, Lsn};
use cellar_wait::{Event, Session, Wait};

use crate::dirty::Dirty;
use crate::doublewrite::{Batch, Ring};
use crate::error::Error;
use crate::frames::{Frame, Frames, Image};
use crate::geometry::Geometry;

/// What writes the pages of a store.
pub(crate) struct Writer {
    pub env: SharedEnv,
    pub session: Session,
    pub frames: Arc<Frames>,
    pub geometry: Geometry,
    pub dirty: Arc<Dirty>,
    pub place: RingPlace,
}

/// How far the ring is written.
pub(crate) struct RingPlace {
    /// The number of the last batch.
    batch: AtomicU64,
    /// The newest LSN of a page that was written.
    newest: AtomicU64,
}

impl RingPlace {
    /// Behind what is there.
    pub fn behind(ring: &Ring) -> RingPlace {
        RingPlace { batch: AtomicU64::new(ring.last), newest: AtomicU64::new(ring.newest) }
    }

    /// The number of the next batch, and the newest LSN so far, this one included.
    fn next(&self, newest: u64) -> (u64, u64) {
        let before = self.newest.fetch_max(newest, Ordering::Relaxed);
        (self.batch.fetch_add(1, Ordering::Relaxed) + 1, newest.max(before))
    }
}

/// A batch that is in the ring, and not yet in its places.
pub(crate) struct InRing {
    batch: Batch,
    /// Each page, and the record from which on its place lacks something.
    taken: Vec<(u64, Arc<Frame>)>,
    /// Each page's LSN in the batch.
    lsns: BTreeMap<u32, u64>,
}

impl InRing {
    pub fn pages(&self) -> usize {
        self.lsns.len()
    }
}

impl Writer {
    /// Writes up to a batch of the oldest dirty pages to the ring, once their changes are durable; `None` if no page
    /// is dirty. Nobody else may do so meanwhile: a batch is durable in the ring before the next one begins, so that
    /// a crash can interrupt only the last one.
    pub async fn write_to_ring(&self, log: &Log) -> Result<Option<InRing>, Error> {
        let taken = self.dirty.take(self.geometry.batch_pages as usize);
        if taken.is_empty() {
            return Ok(None);
        }
        match self.try_ring(&taken, log).await {
            Ok((batch, lsns)) => Ok(Some(InRing { batch, taken, lsns })),
            Err(error) => {
                let not = taken.into_iter().map(|(from, frame)| (from, frame, None));
                self.dirty.written(not.collect());
                Err(error)
            }
        }
    }

    /// Writes an empty batch to the ring: its slot then names no page. Likewise nobody else may do so.
    pub async fn pass_slot(&self) -> Result<(), Error> {
        let (number, newest) = self.place.next(0);
        let batch = Batch::new(self.frames.store(), number, newest, &[]);
        batch.write_to_ring(&**self.frames.device(), self.geometry.ring_slot(number)).await
    }

    /// The newest LSN of a page that was ever written by way of the ring, as far as that is known.
    pub fn newest(&self) -> u64 {
        self.place.newest.load(Ordering::Relaxed)
    }

    /// Forgets that LSN, also in the ring, whose pages must be whole in their places.
    pub async fn forget_ring(&self) -> Result<(), Error> {
        self.place.newest.store(0, Ordering::Relaxed);
        for _ in 0..self.geometry.ring_batches {
            self.pass_slot().await?;
        }
        Ok(())
    }

    async fn try_ring(
        &self,
        taken: &[(u64, Arc<Frame>)],
        log: &Log,
    ) -> Result<(Batch, BTreeMap<u32, u64>), Error> {
        let images: BTreeMap<u32, Arc<Image>> =
            taken.iter().map(|(_, frame)| (frame.number(), Arc::clone(&frame.current()))).collect();
        let end = images.values().map(|image| image.end).max().unwrap_or(0);
        if log.durable_lsn() < Lsn(end) {
            log.wait_durable(&self.session, Lsn(end)).await?;
        }
        let pages: Vec<_> = images.iter().map(|(number, image)| (*number, image.raw())).collect();
        let newest = images.values().map(|image| image.lsn()).max().unwrap_or(0);
        let (number, newest) = self.place.next(newest);
        let batch = Batch::new(self.frames.store(), number, newest, &pages);
        let wait = self.begin_write(pages.len());
        let slot = self.geometry.ring_slot(number);
        let written = batch.write_to_ring(&**self.frames.device(), slot).await;
        wait.end(self.env.now().0);
        written?;
        Ok((batch, images.iter().map(|(number, image)| (*number, image.lsn())).collect()))
    }

    /// Writes a batch to its places. The future must be polled to completion.
    pub async fn write_to_places(&self, in_ring: InRing) -> Result<(), Error> {
        let InRing { batch, taken, lsns } = in_ring;
        let wait = self.begin_write(lsns.len());
        let result = batch.write_to_places(&**self.frames.device()).await;
        wait.end(self.env.now().0);
        if result.is_ok() {
            let owners = taken.iter().map(|(_, frame)| frame.owner());
            self.frames.statistics().count_each(owners, |of| of.physical_writes += 1);
        }
        let written = taken.into_iter().map(|(from, frame)| {
            let lsn = lsns.get(&frame.number()).copied().filter(|_| result.is_ok());
            (from, frame, lsn)
        });
        self.dirty.written(written.collect());
        result
    }

    fn begin_write(&self, pages: usize) -> Wait<'_> {
        let place = [pages as u64, 0, 0];
        self.session.begin(Event::DB_FILE_PARALLEL_WRITE, place, self.env.now().0)
    }
}
