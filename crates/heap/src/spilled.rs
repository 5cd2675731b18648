//! Older images of pages that were moved to a file because memory has no room for them: which they are and
//! where, and the free places of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cellar_page::PAGE_BYTES;
use futures_util::future::BoxFuture;
use smallvec::SmallVec;

use crate::snapshots::Horizon;

/// A file for older images of pages. It is not needed after a crash, and need not survive one.
pub trait SpillFile: Send + Sync {
    /// Makes room for this many bytes in all. Nobody else does so, or writes, meanwhile.
    fn make_room(&self, bytes: u64) -> BoxFuture<'_, Result<(), SpillError>>;

    /// Writes whole pages at an offset where there is room.
    fn write(&self, at: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), SpillError>>;

    /// Reads so many bytes that were written.
    fn read(&self, at: u64, length: usize) -> BoxFuture<'_, Result<Bytes, SpillError>>;

    /// Gives back all room: nothing in it is wanted any more.
    fn clear(&self);
}

/// Why such a file could not be written or read, in words for users.
pub type SpillError = Box<dyn std::error::Error + Send + Sync>;

/// An image in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where the record begins that made it,
    pub lsn: u64,
    /// and that of the next image of the page.
    pub until: u64,
    pub slot: u64,
}

/// After dropping this many, others get a chance to look.
const COLLECTED: usize = 4096;

/// The images of a page that are in the file.
type Entries = SmallVec<[Entry; 1]>;

#[derive(Default)]
struct State {
    pages: BTreeMap<u32, Entries>,
    /// Page and slot of each, by a snapshot that needs it.
    needed: BTreeMap<u64, Vec<(u32, u64)>>,
    /// Slots below `end` that are free.
    free: BTreeSet<u64>,
    /// No slot is used from here on.
    end: u64,
}

/// The images that are in a file.
#[derive(Default)]
pub(crate) struct Spilled {
    file: Option<Arc<dyn SpillFile>>,
    slots_max: u64,
    state: Mutex<State>,
    /// Images that are there.
    count: AtomicUsize,
    /// It accepts no more for now.
    is_full: AtomicBool,
    /// Why it last accepted no more.
    why_full: Mutex<Option<Arc<str>>>,
    /// Nobody writes to it any more.
    is_ended: AtomicBool,
}

impl Spilled {
    /// Nothing yet; later up to so many images in a file, if there is one.
    pub fn new(file: Option<Arc<dyn SpillFile>>, slots_max: u64) -> Spilled {
        Spilled { file, slots_max, ..Spilled::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn file(&self) -> Option<&Arc<dyn SpillFile>> {
        self.file.as_ref()
    }

    /// How many images are there.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether more can be written, as far as is known.
    pub fn takes_more(&self) -> bool {
        let is_full = self.is_full.load(Ordering::SeqCst) || self.is_ended.load(Ordering::SeqCst);
        self.file.is_some() && !is_full
    }

    /// Says that nobody writes to it any more.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
    }

    /// Says that it takes no more, and why.
    pub fn set_full(&self, why: &str) {
        *self.why_full.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.into());
        self.is_full.store(true, Ordering::SeqCst);
    }

    /// Says that it may take more.
    pub fn set_open(&self) {
        self.is_full.store(false, Ordering::SeqCst);
    }

    /// Why it last took no more; `None`: it always has.
    pub fn why_full(&self) -> Option<Arc<str>> {
        self.why_full.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The most images that may be there.
    pub fn slots_max(&self) -> u64 {
        self.slots_max
    }

    /// Takes up to so many slots, in order.
    pub fn take_slots(&self, count: usize) -> Vec<u64> {
        let mut state = self.lock();
        let mut slots = Vec::with_capacity(count);
        while slots.len() < count {
            match state.free.pop_first() {
                Some(slot) => slots.push(slot),
                None if state.end < self.slots_max => {
                    slots.push(state.end);
                    state.end += 1;
                }
                None => break,
            }
        }
        slots
    }

    /// Gives slots back that have nothing anybody needs.
    pub fn release_slots(&self, slots: Vec<u64>) {
        let mut state = self.lock();
        state.free.extend(slots);
        state.trim();
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.lock().end == 0
    }

    /// Notes an image that is in its slot, and is needed by a snapshot at `point`.
    pub fn add(&self, page: u32, point: u64, entry: Entry) {
        let mut state = self.lock();
        state.pages.entry(page).or_default().push(entry);
        state.needed.entry(point).or_default().push((page, entry.slot));
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes an image that was just added; its slot can be reused when this returns.
    pub fn remove(&self, page: u32, slot: u64) {
        let mut state = self.lock();
        if let Some(entries) = state.pages.get_mut(&page) {
            entries.retain(|entry| entry.slot != slot);
            if entries.is_empty() {
                state.pages.remove(&page);
            }
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The image of a page that a snapshot at this point sees, if it is here.
    pub fn find(&self, page: u32, point: u64) -> Option<Entry> {
        if self.count() == 0 {
            return None;
        }
        let state = self.lock();
        let entries = state.pages.get(&page)?;
        let seen = entries.iter().filter(|entry| entry.lsn < point && point <= entry.until);
        seen.max_by_key(|entry| entry.lsn).copied()
    }

    /// Lets go of images that no snapshot can see any more, or of some of them; whether there may be more.
    pub fn collect(&self, horizon: &Horizon) -> bool {
        if self.count() == 0 {
            return false;
        }
        let (mut state, mut left) = (self.lock(), COLLECTED);
        let over: Vec<u64> =
            state.needed.keys().copied().filter(|point| !horizon.has(*point)).collect();
        for point in over {
            let mut images = state.needed.remove(&point).unwrap_or_default();
            let some = images.split_off(images.len().saturating_sub(left));
            left -= some.len();
            for (page, slot) in some {
                if !state.keep(page, slot, horizon) {
                    self.count.fetch_sub(1, Ordering::SeqCst);
                    self.set_open();
                }
            }
            if !images.is_empty() {
                state.needed.insert(point, images);
                break;
            }
        }
        state.trim();
        left == 0
    }
}

impl State {
    /// Lists an image again that was needed by a snapshot that has ended; false: it is dropped.
    fn keep(&mut self, page: u32, slot: u64, horizon: &Horizon) -> bool {
        // What was removed is not counted any more.
        let Some(entries) = self.pages.get_mut(&page) else { return true };
        let Some(at) = entries.iter().position(|entry| entry.slot == slot) else { return true };
        if let Some(point) = horizon.between(entries[at].lsn, entries[at].until) {
            self.needed.entry(point).or_default().push((page, slot));
            return true;
        }
        entries.swap_remove(at);
        if entries.is_empty() {
            self.pages.remove(&page);
        }
        self.free.insert(slot);
        false
    }

    /// Forgets free slots at the end.
    fn trim(&mut self) {
        while self.end > 0 && self.free.last() == Some(&(self.end - 1)) {
            self.free.pop_last();
            self.end -= 1;
        }
    }
}

/// Where a slot is in the file, in bytes.
pub(crate) fn offset_of(slot: u64) -> u64 {
    slot * PAGE_BYTES as u64
}
