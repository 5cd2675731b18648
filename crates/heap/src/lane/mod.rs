//! The apply lane: commits become pages here, one at a time, in the order of the log. Who comes first does
//! the work of all that come meanwhile. It never waits for a disk, a page or room: what is lacking is said,
//! nothing is done, and whoever asked provides it and comes again.

mod write_set;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_redo::{Log, Queued, Reservation};
use futures_channel::oneshot;

use crate::bundle::{Bundle, Kept, Refused, Spares};
use crate::dirty::Dirty;
use crate::frames::Frames;
use crate::geometry::Geometry;
use crate::locks::Held;
use crate::row_id::RowId;
use crate::snapshots::Snapshots;

pub(crate) use write_set::{Operation, WriteSet};

/// The kind of a record that is a commit.
pub(crate) const COMMIT: u8 = 1;

/// A write set that was applied.
pub(crate) struct Applied {
    pub queued: Queued,
    /// The row of each operation.
    pub rows: Vec<Option<RowId>>,
    /// What is left of its free pages, and what it gave back.
    pub spares: Spares,
    /// The locks of who asked: released when they are dropped.
    pub locks: Option<Held>,
}

/// A write set of which nothing was done.
pub(crate) struct Refusal {
    pub set: WriteSet,
    /// The operation that cannot be done.
    pub at: usize,
    pub why: Refused,
}

type Outcome = Result<Applied, Box<Refusal>>;

struct Entry {
    set: WriteSet,
    room: Option<Reservation>,
    outcome: oneshot::Sender<Outcome>,
}

/// What becomes of an entry that comes to the queue.
enum Place {
    Behind,
    Leads(Entry),
    Broken(Entry),
}

#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    /// Somebody is at work, and sees to the queue before leaving.
    is_led: bool,
    /// Who was at work ended in the middle of it.
    is_broken: bool,
}

/// Work in the lane, until it is done.
struct Lead<'a>(&'a Lane);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = lock(&self.0.queue);
            queue.is_broken = true;
            queue.entries.clear();
        }
    }
}

/// What everybody is told after a fault of the program in the lane: memory may lack what the log has.
fn broken() -> Refused {
    Refused::Log(cellar_redo::Error::Stopped { why: "a commit failed in the middle".into() })
}

/// The lane of a store.
pub(crate) struct Lane {
    log: Log,
    frames: Arc<Frames>,
    geometry: Geometry,
    dirty: Arc<Dirty>,
    snapshots: Arc<Snapshots>,
    queue: Mutex<Queue>,
    /// Only the leader is here.
    kept: Mutex<Kept>,
    /// Older images that are kept.
    images: AtomicUsize,
    /// Every commit below is acknowledged.
    visible: AtomicU64,
    /// Every commit below is in its pages.
    applied: AtomicU64,
    /// The end of the last of them.
    applied_end: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Older images that may be kept.
    pub images_max: usize,
}

impl Lane {
    pub fn new(parts: LaneParts) -> Lane {
        let LaneParts { log, frames, geometry, dirty, snapshots, end, images_max } = parts;
        Lane {
            log,
            frames,
            geometry,
            dirty,
            snapshots,
            queue: Mutex::default(),
            kept: Mutex::new(Kept::new(images_max)),
            images: AtomicUsize::new(0),
            visible: AtomicU64::new(end),
            applied: AtomicU64::new(end),
            applied_end: AtomicU64::new(end),
        }
    }

    /// Applies a write set: here and now where the lane is free, else it is done by who is in it.
    pub async fn apply(&self, set: WriteSet, room: Option<Reservation>) -> Outcome {
        if self.may_lead() {
            return self.lead(set, room);
        }
        let (outcome, receiver) = oneshot::channel();
        match self.queue_behind_leader(Entry { set, room, outcome }) {
            Place::Behind => {}
            Place::Leads(entry) => return self.lead(entry.set, entry.room),
            Place::Broken(entry) => {
                return Err(Box::new(Refusal { set: entry.set, at: 0, why: broken() }));
            }
        }
        let gone = || Box::new(Refusal { set: WriteSet::default(), at: 0, why: broken() });
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Whether the caller leads from now on.
    fn may_lead(&self) -> bool {
        let mut queue = lock(&self.queue);
        !queue.is_broken && !std::mem::replace(&mut queue.is_led, true)
    }

    /// Queues an entry, unless its owner leads from now on.
    fn queue_behind_leader(&self, entry: Entry) -> Place {
        let mut queue = lock(&self.queue);
        if queue.is_broken {
            return Place::Broken(entry);
        }
        if !std::mem::replace(&mut queue.is_led, true) {
            return Place::Leads(entry);
        }
        queue.entries.push(entry);
        Place::Behind
    }

    /// Applies one's own write set, then those of others until none is left.
    fn lead(&self, set: WriteSet, room: Option<Reservation>) -> Outcome {
        let _lead = Lead(self);
        let mut kept = lock(&self.kept);
        let outcome = self.apply_one(&mut kept, set, room);
        let mut entries = Vec::new();
        loop {
            kept.collect(&self.snapshots, || self.visible());
            self.images.store(kept.images(), Ordering::Relaxed);
            {
                let mut queue = lock(&self.queue);
                if queue.entries.is_empty() {
                    // Before the next leader may come.
                    drop(kept);
                    queue.is_led = false;
                    return outcome;
                }
                // Both keep their memory.
                std::mem::swap(&mut entries, &mut queue.entries);
            }
            for Entry { set, room, outcome } in entries.drain(..) {
                // Who asked may have gone: it is done all the same.
                let _ = outcome.send(self.apply_one(&mut kept, set, room));
            }
        }
    }

    fn apply_one(&self, kept: &mut Kept, set: WriteSet, room: Option<Reservation>) -> Outcome {
        let refuse = |set, at, why| Err(Box::new(Refusal { set, at, why }));
        let mut set = set;
        let mut bundle = Bundle::new(&self.frames, kept, self.geometry, set.redo_bytes());
        let mut spares = set.spares.clone();
        let mut rows = Vec::with_capacity(set.operations.len());
        for (at, operation) in set.operations.iter().enumerate() {
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
        for frame in changed.frames {
            self.dirty.note(lsn, &frame);
            kept.note(lsn, frame);
        }
        for (page, slot) in changed.freed {
            kept.note_freed(lsn, page, slot);
        }
        // In this order: who sees the commit finds its end.
        self.applied_end.store(appended.end.0, Ordering::SeqCst);
        self.applied.store(appended.lsn.0 + 1, Ordering::SeqCst);
        Ok(Applied { queued, rows, spares, locks: set.locks.take() })
    }

    /// Older images that are kept for snapshots.
    pub fn images(&self) -> usize {
        self.images.load(Ordering::Relaxed)
    }

    /// The point of a snapshot that sees all that is acknowledged.
    pub fn visible(&self) -> u64 {
        self.visible.load(Ordering::SeqCst)
    }

    /// The point of a snapshot that sees also what is not durable yet.
    pub fn newest(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    /// The last commit that is in its pages: where it begins, and the end of it or of a later one.
    pub fn last(&self) -> (u64, u64) {
        let lsn = self.applied.load(Ordering::SeqCst).saturating_sub(1);
        (lsn, self.applied_end())
    }

    /// The end of the last commit that a snapshot at `newest` may see, or of a later one.
    pub fn applied_end(&self) -> u64 {
        self.applied_end.load(Ordering::SeqCst)
    }

    /// Says that all below this point, at which somebody has looked at the newest, is durable.
    pub fn see(&self, point: u64) {
        self.visible.fetch_max(point, Ordering::SeqCst);
    }

    /// Says that a commit, and so all before it, is durable.
    pub fn acknowledge(&self, lsn: u64) {
        self.visible.fetch_max(lsn + 1, Ordering::SeqCst);
    }
}
