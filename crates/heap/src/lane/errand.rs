//! Requests that the lane serves between commits, for the task that writes older images to a file: it finds
//! images, and drops them from memory once they are written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use event_listener::{Event, EventListener};

use crate::bundle::{Kept, Older};
use crate::snapshots::Horizon;

/// A request to the lane.
#[derive(Default)]
pub(crate) struct Errand {
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
pub(super) struct Desk {
    is_asked: AtomicBool,
    errand: Mutex<Option<Errand>>,
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

impl Desk {
    pub fn ask(&self, errand: Errand) {
        put(&self.errand, errand);
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
    pub fn work(&self, kept: &mut Kept, horizon: &Horizon) {
        self.is_asked.store(false, Ordering::SeqCst);
        let Some(Errand { written, wanted }) = take(&self.errand) else { return };
        let unneeded = kept.spill(horizon, written);
        let found = if wanted > 0 { kept.spillable(horizon, wanted) } else { Vec::new() };
        put(&self.done, Done { unneeded, found });
        self.is_done.notify(usize::MAX);
    }
}
