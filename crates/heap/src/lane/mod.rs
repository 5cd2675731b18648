//! The apply lane: commits become pages here, one at a time, in the order of the log. Whoever comes first does
//! the work of all that come meanwhile. The lane never waits for a disk, a page or room: if anything is missing
//! it does nothing and says what, and the caller provides it and tries again.

mod handover;
mod request;
mod write_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cellar_io::EnvExt;
use cellar_redo::{Log, Queued, Reservation};
use event_listener::EventListener;
use futures_util::future::select;

use crate::bundle::{Bundle, ImageLimits, Refused, RetainedImages, Spares};
use crate::dirty::Dirty;
use crate::frames::Frames;
use crate::geometry::Geometry;
use crate::locks::Held;
use crate::row_id::RowId;
use crate::snapshots::Snapshots;

use handover::{Broken, Handover, Leader};
use request::RequestSlot;
pub(crate) use request::{Done, LaneRequest};
pub(crate) use write_set::{Operation, WriteSet, entry_redo_bytes};

/// The kind of a record that is a commit.
pub(crate) const COMMIT: u8 = 1;

/// A write set that was applied.
pub(crate) struct Applied {
    pub queued: Queued,
    /// The row of each operation.
    pub rows: Vec<Option<RowId>>,
    /// What is left of its free pages, and what it gave back.
    pub spares: Spares,
    /// The locks of the caller: dropping them releases them.
    pub locks: Option<Held>,
}

/// A write set of which nothing was applied.
pub(crate) struct Refusal {
    pub set: WriteSet,
    /// The operation that cannot be done.
    pub at: usize,
    pub why: Refused,
}

/// After so long it is asked again whether somebody leads.
const LED: Duration = Duration::from_millis(1);

type Outcome = Result<Applied, Box<Refusal>>;

/// The error after a bug in the lane: memory may lack what the log has.
fn broken() -> Refused {
    Refused::Log(cellar_redo::Error::Stopped { why: "a commit failed in the middle".into() })
}

/// The lane of a store.
pub(crate) struct Lane {
    handover: Handover<Apply>,
    apply: Apply,
}

/// How write sets are applied, by whoever leads.
struct Apply {
    log: Log,
    frames: Arc<Frames>,
    geometry: Geometry,
    dirty: Arc<Dirty>,
    snapshots: Arc<Snapshots>,
    request_slot: RequestSlot,
    /// Older images in memory.
    images: AtomicUsize,
    /// More than these are to leave it.
    images_few: usize,
    /// Every commit below is acknowledged.
    visible: AtomicU64,
    /// Every commit below is in its pages.
    applied: AtomicU64,
    /// The end of the last of them.
    applied_end: AtomicU64,
}

/// What a lane works on.
pub(crate) struct LaneParts {
    pub log: Log,
    pub frames: Arc<Frames>,
    pub geometry: Geometry,
    pub dirty: Arc<Dirty>,
    pub snapshots: Arc<Snapshots>,
    /// Where recovery ended.
    pub end: u64,
    /// Older images that may be kept in memory.
    pub images: ImageLimits,
}

impl Lane {
    pub fn new(parts: LaneParts) -> Lane {
        let LaneParts { log, frames, geometry, dirty, snapshots, end, images } = parts;
        let retained = RetainedImages::new(images, Arc::clone(frames.spilled()));
        let apply = Apply {
            log,
            frames,
            geometry,
            dirty,
            snapshots,
            request_slot: RequestSlot::default(),
            images: AtomicUsize::new(0),
            images_few: images.most / 2,
            visible: AtomicU64::new(end),
            applied: AtomicU64::new(end),
            applied_end: AtomicU64::new(end),
        };
        Lane { handover: Handover::new(retained), apply }
    }

    /// Applies a write set: at once if the lane is free, else whoever is in the lane does it.
    pub async fn apply(&self, set: WriteSet, room: Option<Reservation>) -> Outcome {
        match self.handover.apply(&self.apply, (set, room)).await {
            Ok(outcome) => outcome,
            Err(Broken { work }) => {
                let set = work.map(|(set, _)| set).unwrap_or_default();
                Err(Box::new(Refusal { set, at: 0, why: broken() }))
            }
        }
    }

    /// Drops older images that nobody can need any more. Each commit does this too; this is for when none comes.
    pub fn collect(&self) {
        if self.images() > 0 {
            self.handover.visit(&self.apply, |retained| {
                retained.collect_all(&self.apply.snapshots, || self.visible());
            });
        }
    }

    /// Older images that are kept in memory for snapshots.
    pub fn images(&self) -> usize {
        self.apply.images.load(Ordering::Relaxed)
    }

    /// Whether there are so many that some should go to a file.
    pub fn has_many_images(&self) -> bool {
        self.images() > self.apply.images_few
    }

    /// Is woken when there are so many.
    pub fn listen_many_images(&self) -> EventListener {
        self.apply.request_slot.listen_wanted()
    }

    /// Wakes who listens.
    pub fn notify_many_images(&self) {
        self.apply.request_slot.notify_wanted();
    }

    /// Has a request served as soon as the lane has finished its current work; `None`: the lane has stopped.
    /// There is one request at a time.
    pub async fn run_request(&self, request: LaneRequest) -> Option<Done> {
        let request_slot = &self.apply.request_slot;
        request_slot.ask(request);
        loop {
            let done = request_slot.listen_done();
            // Who leads sees to it in the next pause.
            self.handover.visit(&self.apply, |_| ());
            if let Some(done) = request_slot.done() {
                return Some(done);
            }
            if self.handover.is_broken() {
                return None;
            }
            select(done, self.apply.frames.env().sleep(LED)).await;
        }
    }

    /// The point for a snapshot that sees everything acknowledged.
    pub fn visible(&self) -> u64 {
        self.apply.visible.load(Ordering::SeqCst)
    }

    /// The point for a snapshot that also sees what is not durable yet.
    pub fn newest(&self) -> u64 {
        self.apply.applied.load(Ordering::SeqCst)
    }

    /// The last commit that is in its pages: where it begins, and the end of it or of a later one.
    pub fn last(&self) -> (u64, u64) {
        let lsn = self.apply.applied.load(Ordering::SeqCst).saturating_sub(1);
        (lsn, self.applied_end())
    }

    /// The end of the last commit that a snapshot at `newest` may see, or of a later one.
    pub fn applied_end(&self) -> u64 {
        self.apply.applied_end.load(Ordering::SeqCst)
    }

    /// Records that everything below this point, at which somebody read the newest state, is durable.
    pub fn see(&self, point: u64) {
        self.apply.visible.fetch_max(point, Ordering::SeqCst);
    }

    /// Says that a commit, and so all before it, is durable.
    pub fn acknowledge(&self, lsn: u64) {
        self.apply.visible.fetch_max(lsn + 1, Ordering::SeqCst);
    }
}

impl Leader for Apply {
    type State = RetainedImages;
    type Work = (WriteSet, Option<Reservation>);
    type Answer = Outcome;

    fn work(&self, retained: &mut RetainedImages, (set, room): Self::Work) -> Outcome {
        let outcome = self.apply_one(retained, set, room);
        // Not in a pause: that may be for who is woken by this.
        if retained.images() > self.images_few {
            self.request_slot.notify_wanted();
        }
        outcome
    }

    fn pause(&self, retained: &mut RetainedImages) {
        let visible = || self.visible.load(Ordering::SeqCst);
        match self.request_slot.is_asked() {
            true => {
                retained.collect_all(&self.snapshots, visible);
                self.request_slot.work(retained, &self.snapshots.horizon(visible));
            }
            false => retained.collect(&self.snapshots, visible),
        }
        self.images.store(retained.images(), Ordering::Relaxed);
    }
}

impl Apply {
    fn apply_one(
        &self,
        retained: &mut RetainedImages,
        set: WriteSet,
        room: Option<Reservation>,
    ) -> Outcome {
        let refuse = |set, at, why| Err(Box::new(Refusal { set, at, why }));
        let mut set = set;
        let mut bundle = Bundle::new(&self.frames, retained, self.geometry, set.redo_bytes());
        let mut spares = set.spares.clone();
        let mut rows = Vec::with_capacity(set.operations.len());
        for (at, operation) in set.operations.iter_mut().enumerate() {
            match operation.apply(&mut bundle, &mut spares) {
                Ok(row) => rows.push(row),
                Err(why) => return refuse(set, at, why),
            }
        }
        let body = bundle.take_body();
        let queued = match room.filter(|room| room.has_room_for(body.len())) {
            Some(mut room) => room.append(COMMIT, 0, &body).map(Some),
            None => self.log.try_append(COMMIT, 0, &body),
        };
        let queued = match queued {
            Ok(Some(queued)) => queued,
            Ok(None) => return refuse(set, 0, Refused::NoRoom(body.len())),
            Err(error) => return refuse(set, 0, Refused::Log(error)),
        };
        let appended = queued.appended;
        self.frames.set_limit(appended.end.0);
        let (lsn, changed) = (appended.lsn.0, bundle.publish(appended));
        for (frame, has_older) in changed.frames {
            self.dirty.note(lsn, &frame);
            if has_older {
                retained.note(lsn, frame);
            }
        }
        for (page, slot) in changed.freed {
            retained.note_freed(lsn, page, slot);
        }
        // In this order: who sees the commit finds its end.
        self.applied_end.store(appended.end.0, Ordering::SeqCst);
        self.applied.store(appended.lsn.0 + 1, Ordering::SeqCst);
        Ok(Applied { queued, rows, spares, locks: set.locks.take() })
    }
}
