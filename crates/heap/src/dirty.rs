//! The list of pages that are newer in memory than on disk, in the order in which they became so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_listener::{Event, EventListener};

use crate::frames::Frame;

/// Pages that are to be written.
#[derive(Default)]
pub(crate) struct Dirty {
    list: Mutex<List>,
    /// Pages in the list, and pages that are being written.
    count: AtomicUsize,
    written: Event,
}

#[derive(Default)]
struct List {
    /// By the record from which on the page on disk lacks something, and by the page's number.
    frames: BTreeMap<(u64, u32), Arc<Frame>>,
    /// The least of those that are being written.
    writing: Option<u64>,
}

impl Dirty {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a record has changed a page, unless it is known as changed.
    pub fn note(&self, lsn: u64, frame: &Arc<Frame>) {
        if frame.list() {
            self.lock().frames.insert((lsn, frame.number()), Arc::clone(frame));
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How many pages are to be written, or are being written.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Takes up to `count` pages out, the oldest first. They count as lacking until `written`.
    pub fn take(&self, count: usize) -> Vec<(u64, Arc<Frame>)> {
        let mut list = self.lock();
        let mut taken = Vec::with_capacity(count.min(list.frames.len()));
        while taken.len() < count {
            let Some(((lsn, _), frame)) = list.frames.pop_first() else { break };
            taken.push((lsn, frame));
        }
        list.writing = taken.first().map(|(lsn, _)| *lsn);
        taken
    }

    /// Takes note of how pages were written: up to which record, `None` where they were not.
    pub fn written(&self, frames: Vec<(u64, Arc<Frame>, Option<u64>)>) {
        let (mut again, mut done) = (Vec::new(), 0);
        for (from, frame, written) in frames {
            match written {
                Some(lsn) if frame.is_written(lsn) => done += 1,
                Some(lsn) => {
                    // The lane may have listed it meanwhile, by a later record than it lacks: then it is
                    // in the list twice.
                    frame.list();
                    again.push((lsn + 1, frame));
                }
                None => again.push((from, frame)),
            }
        }
        let mut list = self.lock();
        list.frames.extend(again.into_iter().map(|(lsn, frame)| ((lsn, frame.number()), frame)));
        list.writing = None;
        drop(list);
        self.count.fetch_sub(done, Ordering::SeqCst);
        self.wake();
    }

    /// The first record that a page on disk lacks; `None` where none lacks anything.
    pub fn first(&self) -> Option<u64> {
        let list = self.lock();
        let least = list.frames.keys().next().map(|(lsn, _)| *lsn);
        least.into_iter().chain(list.writing).min()
    }

    /// Resolves when pages were written, or there is something else to look at.
    pub fn listen(&self) -> EventListener {
        self.written.listen()
    }

    /// Has those who wait for that look again.
    pub fn wake(&self) {
        self.written.notify(usize::MAX);
    }
}
