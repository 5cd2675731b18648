//! The list of dirty pages, in the order in which they became dirty.

use std::collections::{BTreeMap, HashMap};
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
    /// By the first record that the page on disk lacks, and by page number.
    frames: BTreeMap<(u64, u32), Arc<Frame>>,
    /// The record of each page in the list. A page is listed once, and not while it is being written.
    records: HashMap<u32, u64>,
    /// The least record of each batch that is being written.
    writing: Vec<u64>,
    /// Pages that are being written.
    in_flight: usize,
}

impl List {
    fn insert(&mut self, lsn: u64, frame: Arc<Frame>) {
        let number = frame.number();
        match self.records.get(&number) {
            Some(earlier) if *earlier <= lsn => return,
            Some(later) => drop(self.frames.remove(&(*later, number))),
            None => {}
        }
        self.records.insert(number, lsn);
        self.frames.insert((lsn, number), frame);
    }

    fn pop(&mut self) -> Option<(u64, Arc<Frame>)> {
        let ((lsn, number), frame) = self.frames.pop_first()?;
        self.records.remove(&number);
        Some((lsn, frame))
    }
}

impl Dirty {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a record has changed a page, unless it is known as changed.
    pub fn note(&self, lsn: u64, frame: &Arc<Frame>) {
        // If it is listed, or its batch is not done yet, the writer will see the new image anyway.
        if frame.is_listed() {
            return;
        }
        let mut list = self.lock();
        if frame.list() {
            list.insert(lsn, Arc::clone(frame));
            self.set_count(&list);
        }
    }

    fn set_count(&self, list: &List) {
        self.count.store(list.frames.len() + list.in_flight, Ordering::SeqCst);
    }

    /// How many pages are to be written, or are being written.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Takes up to `count` pages out, the oldest first. They count as dirty until `written`.
    pub fn take(&self, count: usize) -> Vec<(u64, Arc<Frame>)> {
        let mut list = self.lock();
        let count = count.min(list.frames.len());
        let taken: Vec<_> = (0..count).map_while(|_| list.pop()).collect();
        list.writing.extend(taken.first().map(|(lsn, _)| *lsn));
        list.in_flight += taken.len();
        taken
    }

    /// Records the outcome for pages that were taken together: up to which record each was written,
    /// `None` where it was not.
    pub fn written(&self, frames: Vec<(u64, Arc<Frame>, Option<u64>)>) {
        let (first, taken) = (frames.first().map(|(lsn, ..)| *lsn), frames.len());
        // The lane lists nothing meanwhile: each page is in the list once, and not while it is being
        // written.
        let mut list = self.lock();
        for (from, frame, written) in frames {
            match written {
                Some(lsn) if frame.is_written(lsn) => {}
                Some(lsn) => {
                    frame.list();
                    list.insert(lsn + 1, frame);
                }
                None => list.insert(from, frame),
            }
        }
        if let Some(at) = list.writing.iter().position(|lsn| Some(*lsn) == first) {
            list.writing.swap_remove(at);
        }
        list.in_flight -= taken;
        self.set_count(&list);
        drop(list);
        self.wake();
    }

    /// The first record that a page on disk lacks; `None` if no page is dirty.
    pub fn first(&self) -> Option<u64> {
        let list = self.lock();
        let least = list.frames.keys().next().map(|(lsn, _)| *lsn);
        least.into_iter().chain(list.writing.iter().copied()).min()
    }

    /// Resolves when pages were written, or there is another reason to check again.
    pub fn listen(&self) -> EventListener {
        self.written.listen()
    }

    /// Makes those who wait for that check again.
    pub fn wake(&self) {
        self.written.notify(usize::MAX);
    }
}
