//! Requests that the lane serves between commits, for the task that writes older images to a file: it finds
//! images, and drops them from memory once they are written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use event_listener::{Event, EventListener};

use crate::bundle::{Older, RetainedImages};
use crate::snapshots::Horizon;

/// A request to the lane.
#[derive(Default)]
pub(crate) struct LaneRequest {
    /// Images that are now in these slots of the file.
    pub written: Vec<(Older, u64)>,
    /// About this many further images to find.
    pub wanted: usize,
}

/// The result.
#[derive(Default)]
pub(crate) struct Done {
    /// Slots whose images nobody needs any more.
    pub unneeded: Vec<u64>,
    pub found: Vec<Older>,
}

/// The place where requests are left and fetched.
#[derive(Default)]
pub(super) struct RequestSlot {
    is_asked: AtomicBool,
    request: Mutex<Option<LaneRequest>>,
    done: Mutex<Option<Done>>,
    is_done: Event,
    /// There are images that should leave memory.
    wanted: Event,
}

fn take<T>(of: &Mutex<Option<T>>) -> Option<T> {
    of.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<T>(of: &Mutex<Option<T>>, value: T) {
    *of.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

impl RequestSlot {
    pub fn ask(&self, request: LaneRequest) {
        put(&self.request, request);
        self.is_asked.store(true, Ordering::SeqCst);
    }

    pub fn done(&self) -> Option<Done> {
        take(&self.done)
    }

    pub fn listen_done(&self) -> EventListener {
        self.is_done.listen()
    }

    pub fn listen_wanted(&self) -> EventListener {
        self.wanted.listen()
    }

    pub fn notify_wanted(&self) {
        self.wanted.notify(1);
    }

    /// Whether something is asked.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// Serves a request. Only the lane calls it.
    pub fn work(&self, retained: &mut RetainedImages, horizon: &Horizon) {
        self.is_asked.store(false, Ordering::SeqCst);
        let Some(LaneRequest { written, wanted }) = take(&self.request) else { return };
        let unneeded = retained.spill(horizon, written);
        let found = if wanted > 0 { retained.spillable(horizon, wanted) } else { Vec::new() };
        put(&self.done, Done { unneeded, found });
        self.is_done.notify(usize::MAX);
    }
}
