//! The writer: changed pages go to disk behind the log, and the checkpoint follows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_io::SharedEnv;
use cellar_redo::{Log, Lsn};
use cellar_wait::{Event, Session};

use crate::dirty::Dirty;
use crate::doublewrite::Batch;
use crate::error::Error;
use crate::frames::{Frames, Image};
use crate::geometry::Geometry;

/// What writes the pages of a store.
pub(crate) struct Writer {
    pub env: SharedEnv,
    pub session: Session,
    pub frames: Arc<Frames>,
    pub geometry: Geometry,
    pub dirty: Arc<Dirty>,
    /// The number of the last batch.
    pub batch: AtomicU64,
}

impl Writer {
    /// Writes up to a batch of the pages that changed first, once what changed them is durable. Returns
    /// how many. Nobody else may write meanwhile, and it must be polled to its end.
    pub async fn write_batch(&self, log: &Log) -> Result<usize, Error> {
        let taken = self.dirty.take(self.geometry.batch_pages as usize);
        let result = self.write(&taken, log).await;
        let written = taken.into_iter().map(|(from, frame)| {
            let lsn = result.as_ref().ok().and_then(|lsns| lsns.get(&frame.number()).copied());
            (from, frame, lsn)
        });
        self.dirty.written(written.collect());
        result.map(|lsns| lsns.len())
    }

    /// The LSN of each page as it was written.
    async fn write(
        &self,
        taken: &[(u64, Arc<crate::frames::Frame>)],
        log: &Log,
    ) -> Result<BTreeMap<u32, u64>, Error> {
        let images: BTreeMap<u32, Arc<Image>> =
            taken.iter().map(|(_, frame)| (frame.number(), Arc::clone(&frame.current()))).collect();
        let Some(end) = images.values().map(|image| image.end).max() else {
            return Ok(BTreeMap::new());
        };
        if log.durable_lsn() < Lsn(end) {
            log.wait_durable(&self.session, Lsn(end)).await?;
        }
        let pages: Vec<_> = images.iter().map(|(number, image)| (*number, image.raw())).collect();
        let batch = self.batch.fetch_add(1, Ordering::Relaxed) + 1;
        let wait = [pages.len() as u64, 0, 0];
        let wait = self.session.begin(Event::DB_FILE_PARALLEL_WRITE, wait, self.env.now().0);
        let written = Batch::new(self.frames.store(), batch, &pages)
            .write(&**self.frames.device(), self.geometry.ring_slot(batch))
            .await;
        wait.end(self.env.now().0);
        written?;
        Ok(images.iter().map(|(number, image)| (*number, image.lsn())).collect())
    }
}
