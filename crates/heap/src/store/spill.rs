//! The task that moves older images of pages to a file when memory has too many of them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Buffer, EnvExt};
use cellar_page::{PAGE_BYTES, seal};
use cellar_wait::{Event as WaitEvent, Session};
use event_listener::Event;
use futures_util::future::select;
use futures_util::{StreamExt, stream};

use super::Inner;
use crate::bundle::Older;
use crate::error::Error;
use crate::lane::LaneRequest;
use crate::spilled::{SpillError, Spilled, offset_of};

/// Images that are written in one round,
const ROUND: usize = 256;

/// of which so many at once, where their slots follow each other,
const RUN: usize = 128;

/// and so many such writes beside each other.
const RUNS: usize = 4;

/// A file that is full or failing is left alone for this long, and one that nobody needs is kept for this long.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause after a round in which nothing left memory.
const MOMENT: Duration = Duration::from_millis(1);

/// The rounds of that task.
#[derive(Default)]
pub(super) struct Spilling {
    /// A round has ended,
    ended: Event,
    /// and so many images have left memory.
    moved: AtomicUsize,
    /// One is under way.
    is_busy: AtomicBool,
    /// The file has room for so many bytes.
    room: AtomicU64,
}

/// An image and its slot.
type Placed = (Older, u64);

/// The task, until it is dropped: then nobody waits for it any more.
struct Spiller(Arc<Spilled>, Weak<Inner>);

impl Drop for Spiller {
    fn drop(&mut self) {
        self.0.end();
        if let Some(inner) = self.1.upgrade() {
            inner.spilling.is_busy.store(false, Ordering::SeqCst);
            inner.spilling.ended.notify(usize::MAX);
        }
    }
}

impl Inner {
    /// Writes older images to the file as long as the store is open, if there is one.
    pub(super) fn start_spiller(self: &Arc<Self>) {
        let spilled = Arc::clone(self.pages.frames.spilled());
        let Some(file) = spilled.file().cloned() else { return };
        let (weak, env) = (Arc::downgrade(self), self.env.clone());
        // Gone with the task, also where that ends in the middle.
        let spiller = Spiller(spilled, weak);
        let task = async move {
            let Spiller(spilled, weak) = &spiller;
            let mut looked = env.now();
            loop {
                let Some(inner) = weak.upgrade() else { return };
                let wanted = inner.lane.listen_many_images();
                inner.spilling.is_busy.store(true, Ordering::SeqCst);
                let round = inner.round().await;
                inner.spilling.is_busy.store(false, Ordering::SeqCst);
                let Some((moved, has_more)) = round else { return };
                inner.spilling.moved.store(moved, Ordering::SeqCst);
                inner.spilling.ended.notify(usize::MAX);
                let now = env.now();
                if now.since(looked) >= PAUSE {
                    looked = now;
                    spilled.set_open();
                    if spilled.is_empty() {
                        file.clear();
                        inner.spilling.room.store(0, Ordering::SeqCst);
                    }
                }
                drop(inner);
                if moved == 0 {
                    // What is there later snapshots need too, for a moment: until it is durable.
                    env.sleep(MOMENT).await;
                    if !has_more {
                        select(wanted, env.sleep(PAUSE)).await;
                    }
                }
            }
        };
        self.env.spawn("spill of images", Box::pin(task));
    }

    /// Drops images in the file that nobody needs, and writes those that should leave memory. Returns how many
    /// have left it, and whether there are more to drop. `None`: the store has stopped.
    async fn round(&self) -> Option<(usize, bool)> {
        let spilled = self.pages.frames.spilled();
        self.check_running().ok()?;
        let has_more = spilled.collect(&self.pages.snapshots.horizon(|| self.lane.visible()));
        let moved = match self.lane.has_many_images() && spilled.takes_more() {
            true => self.spill().await?,
            false => 0,
        };
        Some((moved, has_more))
    }

    /// Writes older images to the file. Returns how many have left memory.
    async fn spill(&self) -> Option<usize> {
        let spilled = self.pages.frames.spilled();
        let request = LaneRequest { wanted: ROUND, ..LaneRequest::default() };
        let mut found = self.lane.run_request(request).await?.found;
        if found.is_empty() {
            return Some(0);
        }
        let slots = self.take_slots(found.len()).await;
        if slots.is_empty() {
            return Some(0);
        }
        found.truncate(slots.len());
        let (written, failed) = self.write_images(found.into_iter().zip(slots).collect()).await;
        spilled.release_slots(failed);
        let moved = written.len();
        let done = self.lane.run_request(LaneRequest { written, wanted: 0 }).await?;
        let unneeded = done.unneeded.len();
        spilled.release_slots(done.unneeded);
        Some(moved - unneeded)
    }

    /// Takes slots for up to so many images, for which there is room. None: it is said why.
    async fn take_slots(&self, count: usize) -> Vec<u64> {
        let (spilled, room) = (self.pages.frames.spilled(), &self.spilling.room);
        let mut slots = spilled.take_slots(count);
        let (Some(last), Some(file)) = (slots.last(), spilled.file()) else {
            let most = spilled.slots_max();
            spilled.set_full(&format!("{most} older images of pages are in a file, the most"));
            return Vec::new();
        };
        let wanted = offset_of(last + 1);
        if wanted <= room.load(Ordering::SeqCst) {
            return slots;
        }
        match file.make_room(wanted).await {
            Ok(()) => room.store(wanted, Ordering::SeqCst),
            Err(why) => {
                // Slots that were used before are where there is room.
                let room = room.load(Ordering::SeqCst);
                let inside = slots.partition_point(|slot| offset_of(slot + 1) <= room);
                spilled.release_slots(slots.split_off(inside));
                if slots.is_empty() {
                    spilled.set_full(&why.to_string());
                }
            }
        }
        slots
    }

    /// Writes images to their slots. Returns those that are there, and the slots of the others.
    async fn write_images(&self, mut images: Vec<Placed>) -> (Vec<Placed>, Vec<u64>) {
        let mut runs: Vec<Vec<Placed>> = Vec::new();
        for (image, slot) in images.drain(..) {
            match runs.last_mut() {
                Some(run)
                    if run.len() < RUN && run.last().is_some_and(|(_, last)| last + 1 == slot) =>
                {
                    run.push((image, slot));
                }
                _ => runs.push(vec![(image, slot)]),
            }
        }
        let writes = runs.into_iter().map(|run| async move {
            let written = self.write_run(&run).await;
            (run, written)
        });
        let mut writes = stream::iter(writes).buffer_unordered(RUNS);
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        while let Some((run, outcome)) = writes.next().await {
            match outcome {
                Ok(()) => written.extend(run),
                Err(why) => {
                    self.pages.frames.spilled().set_full(&why.to_string());
                    failed.extend(run.into_iter().map(|(_, slot)| slot));
                }
            }
        }
        (written, failed)
    }

    async fn write_run(&self, run: &[Placed]) -> Result<(), SpillError> {
        let Some((_, first)) = run.first() else { return Ok(()) };
        let Some(file) = self.pages.frames.spilled().file() else { return Ok(()) };
        let mut bytes = Buffer::new(run.len() * PAGE_BYTES);
        for ((older, _), page) in run.iter().zip(bytes.chunks_mut(PAGE_BYTES)) {
            page.copy_from_slice(older.image().raw());
            seal(page.try_into()?);
        }
        let bytes: Bytes = bytes.freeze();
        let place = [0, *first, run.len() as u64];
        let session = &self.writer.session;
        let wait = session.begin(WaitEvent::DIRECT_PATH_WRITE_TEMP, place, self.env.now().0);
        let written = file.write(offset_of(*first), bytes).await;
        wait.end(self.env.now().0);
        written
    }

    /// Whether something may be written to the file.
    pub(super) fn is_spilling(&self) -> bool {
        self.spilling.is_busy.load(Ordering::SeqCst)
    }

    /// The store has stopped: nobody waits any more.
    pub(super) fn wake_spiller(&self) {
        self.lane.notify_many_images();
        self.spilling.ended.notify(usize::MAX);
    }

    /// Waits while memory has as many older images as it may, and the file accepts more.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(super) async fn wait_for_spiller(&self, session: &Session) -> Result<(), Error> {
        let (spilled, max) = (self.pages.frames.spilled(), self.options.images_max);
        let is_full =
            || self.lane.images() > max && spilled.takes_more() && self.check_running().is_ok();
        if !is_full() {
            return Ok(());
        }
        let wait = session.begin(WaitEvent::FREE_BUFFER_WAITS, [0; 3], self.env.now().0);
        loop {
            let ended = self.spilling.ended.listen();
            if !is_full() {
                break;
            }
            self.lane.notify_many_images();
            ended.await;
            // Later snapshots need what is there, as long as it is not durable.
            if self.spilling.moved.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
        wait.end(self.env.now().0);
        self.check_running()
    }
}
