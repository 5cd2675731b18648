//! Checkpoints: pages are written as the log advances, and the checkpoint moves up after them.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cellar_io::EnvExt;
use cellar_redo::Lsn;
use cellar_wait::{Event as WaitEvent, Session};
use event_listener::Event;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesOrdered;

use super::{Inner, objects};
use crate::error::Error;
use crate::pace::{Pace, RecoveryEstimate};

/// Blocks of the log are apart by this, as LSNs are counted.
const LSN_BLOCK: u64 = 4096;

/// When pages are written, and who does it.
pub(super) struct Schedule {
    pub pace: Pace,
    /// Somebody writes pages.
    is_writing: AtomicBool,
    pub is_closing: AtomicBool,
    /// The log is full: all pages must be written.
    is_pressed: AtomicBool,
    /// Pages must be written ahead of schedule.
    wanted: Event,
    /// How many wait for their turn to write.
    waiting: AtomicUsize,
    /// Writes of the direct path under way.
    pub direct_writes: AtomicUsize,
    /// How many pages were written, each time, and where the log ended then.
    cleaned: Mutex<VecDeque<(u64, u64)>>,
}

impl Schedule {
    /// An opening has read so many pages, and the log ended at `end` then.
    pub fn new(pace: Pace, end: u64, read: u64) -> Schedule {
        Schedule {
            pace,
            is_writing: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_pressed: AtomicBool::new(false),
            wanted: Event::new(),
            cleaned: Mutex::new(VecDeque::from([(end, read)])),
            waiting: AtomicUsize::new(0),
            direct_writes: AtomicUsize::new(0),
        }
    }

    /// Pages that were written since the log ended at `from`, at most.
    fn cleaned_since(&self, from: u64) -> u64 {
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        while cleaned.front().is_some_and(|(end, _)| *end <= from) {
            cleaned.pop_front();
        }
        cleaned.iter().map(|(_, pages)| pages).sum()
    }

    fn note(&self, end: u64, pages: usize) {
        self.pace.note(end);
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        cleaned.push_back((end, pages as u64));
    }
}

/// The turn to write pages, until it is dropped.
pub(super) struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Inner {
    /// Has all pages be written soon: somebody waits for room in the log.
    pub(super) fn press_writer(&self) {
        self.schedule.is_pressed.store(true, Ordering::SeqCst);
        self.schedule.wanted.notify(1);
    }

    /// Has pages be written soon if it is time.
    pub(super) fn wake_writer_if_due(&self, end: u64) {
        if self.schedule.pace.is_due(end, self.writer.dirty.count()) {
            self.schedule.wanted.notify(1);
        }
    }

    /// Waits while the number of dirty pages is at its limit.
    pub(super) async fn wait_for_writer(&self, session: &Session) -> Result<(), Error> {
        let (dirty, max) = (&self.writer.dirty, self.options.dirty_max.max(1));
        if dirty.count() < max {
            return Ok(());
        }
        let wait = session.begin(WaitEvent::FREE_BUFFER_WAITS, [0; 3], self.env.now().0);
        let result = loop {
            let written = dirty.listen();
            let is_running = self.check_running();
            if is_running.is_err() || dirty.count() < max {
                break is_running;
            }
            self.schedule.wanted.notify(1);
            written.await;
        };
        wait.end(self.env.now().0);
        result
    }

    /// Writes pages from time to time, as long as the store is open.
    pub(super) fn start_writer(self: &Arc<Self>) {
        let (weak, env) = (Arc::downgrade(self), self.env.clone());
        let pause = self.options.checkpoint_after;
        let task = async move {
            let mut idle_at = 0;
            loop {
                let Some(inner) = weak.upgrade() else { return };
                let wanted = inner.schedule.wanted.listen();
                // Asked after that: nobody's wish is lost.
                let is_due = inner.is_due();
                drop(inner);
                let is_woken = is_due || {
                    let first = select(wanted, env.sleep(pause)).await;
                    matches!(first, Either::Left(_))
                };
                let Some(inner) = weak.upgrade() else { return };
                if inner.schedule.is_closing.load(Ordering::SeqCst)
                    || inner.check_running().is_err()
                {
                    return;
                }
                inner.lane.collect();
                let end = inner.lane.applied_end();
                let is_idle = !is_woken && end == std::mem::replace(&mut idle_at, end);
                // An error has stopped the store.
                let _ = inner.write_in_turn(is_idle).await;
                // Who waits for a turn looks again each millisecond.
                if inner.schedule.waiting.load(Ordering::SeqCst) > 0 {
                    env.sleep(Duration::from_millis(2)).await;
                }
            }
        };
        self.env.spawn("store writer", Box::pin(task));
    }

    fn is_due(&self) -> bool {
        let Schedule { pace, is_pressed, .. } = &self.schedule;
        is_pressed.load(Ordering::SeqCst)
            || pace.is_due(self.lane.applied_end(), self.writer.dirty.count())
    }

    /// As [`Inner::write_in_turn`], all, to the end even if nobody waits.
    pub(super) async fn checkpoint_in_task(self: &Arc<Self>) -> Result<(), Error> {
        let inner = Arc::clone(self);
        let task = self.env.run("store checkpoint", async move { inner.write_in_turn(true).await });
        task.await.ok_or_else(objects::ended)?
    }

    /// Waits until nobody writes.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let Schedule { is_writing, waiting, .. } = &self.schedule;
        let _waits = Waits::begin(waiting);
        while is_writing.swap(true, Ordering::SeqCst) {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        Turn(is_writing)
    }

    /// Waits until nobody writes to the file: the store has stopped, and nobody begins to.
    pub(super) async fn end_of_writes(&self) {
        let _turn = self.turn().await;
        while self.schedule.direct_writes.load(Ordering::SeqCst) > 0 || self.is_spilling() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Writes all that changed and ends the store, and its log.
    pub(super) async fn close(self: &Arc<Self>) -> Result<(), Error> {
        self.schedule.is_closing.store(true, Ordering::SeqCst);
        self.write_in_turn(true).await?;
        self.stop(&Error::Stopped { why: "it was closed".into() });
        // Who had its turn in between has ended when nothing of it is written any more.
        self.end_of_writes().await;
        self.log.clone().close().await?;
        Ok(())
    }

    /// Writes the dirty pages, or those that are due, and moves the checkpoint past what they lacked.
    async fn write_in_turn(&self, all: bool) -> Result<(), Error> {
        let turn = self.turn().await;
        // It may have been closed while somebody else wrote.
        self.check_running()?;
        let ended = Ended(self);
        let is_pressed = self.schedule.is_pressed.swap(false, Ordering::SeqCst);
        let result = match all || is_pressed {
            true => self.write_all().await,
            false => self.write_due().await,
        };
        std::mem::forget(ended);
        if let Err(error) = &result {
            self.stop(error);
        }
        drop(turn);
        result
    }

    /// Clears the ring: if a page that was written around the ring is rotten, an older image of it must not be
    /// taken for it. Also gives the header a new generation, which is returned: a file with an older one may lack
    /// what was written around the log.
    pub(super) async fn begin_adoption(&self) -> Result<u64, Error> {
        let turn = self.turn().await;
        self.check_running()?;
        let ended = Ended(self);
        let mut result = Ok(());
        for _ in 0..self.pages.geometry.ring_batches {
            result = result.and(self.writer.pass_slot().await);
        }
        let header = {
            let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
            header.generation += 1;
            *header
        };
        if result.is_ok() {
            result = header.write(&**self.pages.frames.device()).await;
        }
        std::mem::forget(ended);
        if let Err(error) = &result {
            self.stop(error);
        }
        drop(turn);
        result.map(|()| header.generation)
    }

    async fn write_all(&self) -> Result<(), Error> {
        self.await_last().await?;
        let mut left = self.writer.dirty.count();
        let more = || {
            let is_left = left > 0;
            left = left.saturating_sub(self.pages.geometry.batch_pages as usize);
            is_left
        };
        self.write_batches(more).await?;
        self.move_checkpoint().await
    }

    async fn write_due(&self) -> Result<(), Error> {
        let mut batches = 0..BATCHES;
        self.write_batches(|| batches.next().is_some() && self.is_due()).await?;
        let (before, next) = (self.checkpoint(), self.next_checkpoint());
        match next.saturating_sub(before) >= self.schedule.pace.redo_max() / CHECKPOINTS {
            true => self.move_checkpoint().await,
            false => Ok(()),
        }
    }

    /// Writes batches as long as there is more to write: one after the other to the ring, and meanwhile those
    /// before it to their places, but for one of which the next takes the slot.
    async fn write_batches(&self, mut more: impl FnMut() -> bool) -> Result<(), Error> {
        let (mut placing, slots) =
            (FuturesOrdered::new(), self.pages.geometry.ring_batches as usize);
        let mut result = Ok(());
        while result.is_ok() && more() {
            while placing.len() >= slots {
                result = result.and(placing.next().await.unwrap_or(Ok(())));
            }
            // The slot of a batch that is not in its places is not used again.
            if result.is_err() {
                break;
            }
            let mut ring = pin!(self.writer.write_to_ring(&self.log));
            let in_ring = loop {
                if placing.is_empty() {
                    break ring.await;
                }
                match select(ring.as_mut(), placing.next()).await {
                    Either::Left((in_ring, _)) => break in_ring,
                    Either::Right((placed, _)) => {
                        result = result.and(placed.unwrap_or(Ok(())));
                    }
                }
            };
            match in_ring {
                Ok(Some(in_ring)) => {
                    self.note_written(in_ring.pages());
                    placing.push_back(self.writer.write_to_places(in_ring));
                }
                Ok(None) => break,
                Err(error) => result = result.and(Err(error)),
            }
            result = result.and(self.check_running());
        }
        // All are answered before anything is said: a late one must not meet a later batch.
        while let Some(placed) = placing.next().await {
            result = result.and(placed);
        }
        result
    }

    fn note_written(&self, pages: usize) {
        self.schedule.note(self.lane.applied_end(), pages);
        self.set_pace();
    }

    /// Says what an opening would have to do, and how long the log's ring is.
    pub(super) fn set_pace(&self) {
        let (_, blocks) = self.log.ring();
        self.schedule.pace.set(blocks * LSN_BLOCK, self.estimate().pages);
    }

    /// Waits until the last commit is durable, also where nobody else waits for it.
    pub(super) async fn await_last(&self) -> Result<(), Error> {
        let (lsn, end) = self.lane.last();
        if self.log.durable_lsn().0 < end {
            self.log.wait_durable(&self.writer.session, Lsn(end)).await?;
        }
        self.lane.acknowledge(lsn);
        Ok(())
    }

    /// Where an opening would begin to read the log.
    pub(super) fn checkpoint(&self) -> u64 {
        self.header.lock().unwrap_or_else(PoisonError::into_inner).checkpoint
    }

    /// What recovery would have to do if the log ended here.
    pub(super) fn estimate(&self) -> RecoveryEstimate {
        let checkpoint = self.checkpoint();
        let redo = self.lane.applied_end().saturating_sub(checkpoint);
        let waiting = self.writer.dirty.count() as u64;
        let pages = waiting + self.schedule.cleaned_since(checkpoint);
        let pace = &self.schedule.pace;
        let time = pace.limits().rates.time(redo, pages);
        RecoveryEstimate { redo, pages, time, target: pace.target(), redo_max: pace.redo_max() }
    }

    /// Everything logged below is in the pages on disk.
    fn next_checkpoint(&self) -> u64 {
        // In this order: what is acknowledged is written, or still in the list.
        let acknowledged = self.lane.visible().saturating_sub(1);
        self.writer.dirty.first().unwrap_or(u64::MAX).min(acknowledged)
    }

    async fn move_checkpoint(&self) -> Result<(), Error> {
        let checkpoint = self.log.checkpoint_for(Lsn(self.next_checkpoint())).0;
        let header = {
            let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
            if checkpoint <= header.checkpoint {
                return Ok(());
            }
            header.generation += 1;
            header.checkpoint = checkpoint;
            *header
        };
        // The store's first: it is never behind the log's.
        header.write(&**self.pages.frames.device()).await?;
        self.log.set_checkpoint(Lsn(header.checkpoint)).await?;
        Ok(())
    }
}

/// One more that waits, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Waits<'_> {
    fn begin(count: &AtomicUsize) -> Waits<'_> {
        count.fetch_add(1, Ordering::SeqCst);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Stops the store when dropped: a write was interrupted, and the state on disk is unknown.
pub(super) struct Ended<'a>(pub &'a Inner);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.stop(&Error::Stopped { why: "a write of pages was ended in the middle".into() });
    }
}

/// Batches after which it is looked whether the checkpoint is to move.
const BATCHES: usize = 16;

/// So often the checkpoint moves while all pages are written once.
const CHECKPOINTS: u64 = 16;
