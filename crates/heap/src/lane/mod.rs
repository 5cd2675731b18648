//! The apply lane: commits become pages here, one at a time, in the order of the log. Who comes first does
//! the work of all that come meanwhile. It never sleeps, reads or fails: all that it needs was reserved.

mod bundle;
mod write_set;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cellar_redo::{Appended, Log, Queued, Reservation};
use cellar_wait::Session;
use futures_channel::oneshot;

use crate::frames::Frame;
use crate::snapshots::Snapshots;

pub(crate) use bundle::Bundle;
pub(crate) use write_set::{Operation, WriteSet};

/// The kind of a record that is a commit.
const COMMIT: u8 = 1;

/// What came of a write set.
pub(crate) type Outcome = Result<Queued, Refused>;

/// Why a write set was not applied: nothing of it was done.
pub(crate) enum Refused {
    /// The log has stopped.
    Stopped(cellar_redo::Error),
    /// A page has changed so that it does not apply any more; it is to be made anew.
    Changed,
    /// The log has no room at once: it is to be reserved.
    NoRoom(WriteSet),
}

struct Entry {
    set: WriteSet,
    reservation: Option<Reservation>,
    outcome: oneshot::Sender<Outcome>,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    /// Somebody is at work, and sees to the queue before leaving.
    is_led: bool,
}

/// The lane of a store.
pub(crate) struct Lane {
    store: u64,
    log: Log,
    queue: Mutex<Queue>,
    /// Only the leader is here.
    work: Mutex<Work>,
    snapshots: Arc<Snapshots>,
    /// Below this every commit is acknowledged, and every page of it in its place.
    visible: AtomicU64,
}

#[derive(Default)]
struct Work {
    body: Vec<u8>,
    /// Pages with older images, in the order in which these were replaced.
    kept: VecDeque<(u64, Arc<Frame>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    pub fn new(store: u64, log: Log, snapshots: Arc<Snapshots>) -> Lane {
        Lane {
            store,
            log,
            queue: Mutex::default(),
            work: Mutex::default(),
            snapshots,
            visible: AtomicU64::new(0),
        }
    }

    /// Applies a write set and waits until it is durable.
    pub async fn commit(&self, session: &Session, set: WriteSet) -> Result<Appended, Refused> {
        let queued = match self.apply(set, None).await {
            Err(Refused::NoRoom(set)) => {
                let room = self.log.reserve(session, &[set.redo_bytes()]).await;
                self.apply(set, Some(room.map_err(Refused::Stopped)?)).await?
            }
            outcome => outcome?,
        };
        let appended = queued.appended;
        self.log.wait(session, queued).await.map_err(Refused::Stopped)?;
        self.visible.fetch_max(appended.lsn.0 + 1, Ordering::SeqCst);
        Ok(appended)
    }

    /// Applies a write set: here and now where the lane is free, else it is done by who is in it.
    async fn apply(&self, set: WriteSet, reservation: Option<Reservation>) -> Outcome {
        let receiver = {
            let mut queue = lock(&self.queue);
            if queue.is_led {
                let (outcome, receiver) = oneshot::channel();
                queue.entries.push(Entry { set, reservation, outcome });
                receiver
            } else {
                queue.is_led = true;
                drop(queue);
                return self.lead(set, reservation);
            }
        };
        receiver.await.unwrap_or_else(|_| panic!("the leader leaves nobody behind"))
    }

    /// Applies one's own write set, then those of others until none is left.
    fn lead(&self, set: WriteSet, reservation: Option<Reservation>) -> Outcome {
        let mut work = lock(&self.work);
        let outcome = self.apply_one(&mut work, set, reservation);
        loop {
            let entries = {
                let mut queue = lock(&self.queue);
                if queue.entries.is_empty() {
                    queue.is_led = false;
                    return outcome;
                }
                std::mem::take(&mut queue.entries)
            };
            for Entry { set, reservation, outcome } in entries {
                // Who asked may have gone: it is done all the same.
                let _ = outcome.send(self.apply_one(&mut work, set, reservation));
            }
        }
    }

    fn apply_one(
        &self,
        work: &mut Work,
        set: WriteSet,
        reservation: Option<Reservation>,
    ) -> Outcome {
        let mut bundle = Bundle::new(self.store, std::mem::take(&mut work.body));
        for operation in &set.operations {
            operation.apply(&mut bundle)?;
        }
        let body = Bytes::copy_from_slice(bundle.body());
        let queued = match reservation {
            Some(mut room) => room.append(COMMIT, 0, &body).map(Some),
            None => self.log.try_append(COMMIT, 0, &body),
        };
        let Some(queued) = queued.map_err(Refused::Stopped)? else {
            return Err(Refused::NoRoom(set));
        };
        let kept = |frame: Arc<Frame>| work.kept.push_back((queued.appended.lsn.0, frame));
        work.body = bundle.publish(queued.appended, kept);
        self.collect(work);
        Ok(queued)
    }

    /// Lets go of images that nobody can need any more.
    fn collect(&self, work: &mut Work) {
        let visible = self.visible();
        if work.kept.front().is_none_or(|(replaced, _)| *replaced >= visible) {
            return;
        }
        let horizon = self.snapshots.horizon(|| self.visible());
        while let Some((replaced, _)) = work.kept.front() {
            if *replaced >= horizon.floor() {
                break;
            }
            let Some((_, frame)) = work.kept.pop_front() else { break };
            frame.collect(&horizon);
        }
    }

    /// The point of a snapshot that sees all that is acknowledged.
    pub fn visible(&self) -> u64 {
        self.visible.load(Ordering::SeqCst)
    }
}
