//! The list of pages that are newer in memory than on disk, about in the order in which they became so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::frames::Frame;

/// Pages that are to be written.
#[derive(Default)]
pub(crate) struct Dirty(Mutex<List>);

#[derive(Default)]
struct List {
    /// The record from which on the page on disk lacks something, and the page.
    frames: VecDeque<(u64, Arc<Frame>)>,
    /// The least of those that are being written.
    writing: Option<u64>,
}

impl Dirty {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a record has changed a page, unless it is known as changed.
    pub fn note(&self, lsn: u64, frame: &Arc<Frame>) {
        if frame.list() {
            self.lock().frames.push_back((lsn, Arc::clone(frame)));
        }
    }

    /// How many pages are to be written.
    pub fn count(&self) -> usize {
        self.lock().frames.len()
    }

    /// Takes up to `count` pages out, the oldest first. They count as lacking until `written`.
    pub fn take(&self, count: usize) -> Vec<(u64, Arc<Frame>)> {
        let mut list = self.lock();
        let count = count.min(list.frames.len());
        let taken: Vec<_> = list.frames.drain(..count).collect();
        list.writing = taken.iter().map(|(lsn, _)| *lsn).min();
        taken
    }

    /// Takes note of how pages were written: up to which record, `None` where they were not.
    pub fn written(&self, frames: Vec<(u64, Arc<Frame>, Option<u64>)>) {
        let mut again = Vec::new();
        for (from, frame, written) in frames {
            match written {
                Some(lsn) if frame.is_written(lsn) => {}
                Some(lsn) => {
                    // The lane may have listed it meanwhile: by a later record than it lacks.
                    frame.list();
                    again.push((lsn + 1, frame));
                }
                None => again.push((from, frame)),
            }
        }
        let mut list = self.lock();
        // At the end: pages that change all the time do not keep the others waiting.
        list.frames.extend(again);
        list.writing = None;
    }

    /// The first record that a page on disk lacks; `None` where none lacks anything.
    pub fn first(&self) -> Option<u64> {
        let list = self.lock();
        let least = list.frames.iter().map(|(lsn, _)| *lsn).min();
        least.into_iter().chain(list.writing).min()
    }
}
