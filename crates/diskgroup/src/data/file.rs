//! The runtime state of a file in use, in RAM.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_recursion::async_recursion as boxed;
use event_listener::Event;

use crate::data::range_lock::RangeLocks;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::RegionKey;
use crate::state::{FileAttributes, FileState};

/// The runtime part of a file; its durable part is in the group's state.
pub(crate) struct FileRuntime {
    me: Weak<FileRuntime>,
    pub number: u32,
    pub incarnation: u32,
    pub attributes: FileAttributes,
    pub locks: RangeLocks,
    /// Handles that are open.
    pub users: AtomicUsize,
    /// Pieces whose first write completed and is not yet known durable, by region.
    fresh: Mutex<BTreeMap<u32, u64>>,
    /// Writes that are not durable by themselves: how many began, how many ended, and how many of
    /// those a flush has covered.
    begun: AtomicU64,
    ended: AtomicU64,
    flushed: AtomicU64,
    /// A disk with the only copy of something left before such a write was flushed.
    lost: AtomicBool,
    gate: Gate,
}

impl FileRuntime {
    pub fn new(file: &FileState) -> Arc<FileRuntime> {
        Arc::new_cyclic(|me| FileRuntime {
            me: Weak::clone(me),
            number: file.number,
            incarnation: file.incarnation,
            attributes: file.attributes.clone(),
            locks: RangeLocks::default(),
            users: AtomicUsize::new(0),
            fresh: Mutex::new(BTreeMap::new()),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            gate: Gate::default(),
        })
    }

    /// This file for a task, by somebody who has entered it: the task is inside until it drops
    /// this, also when the one who began it goes away.
    pub fn stay(&self) -> Inside {
        let me = self.me.upgrade().expect("who calls this has it by its only handle, an `Arc`");
        let mut state = lock(&self.gate.state);
        // The caller may have come before the turn that somebody waits for, and so counts there.
        let before = 1 - state.turn;
        let turn = if state.inside[before] > 0 { before } else { state.turn };
        assert!(state.inside[turn] > 0, "only who is inside may stay there");
        state.inside[turn] += 1;
        drop(state);
        Inside(me, turn)
    }

    fn leave(&self, turn: usize) {
        let mut state = lock(&self.gate.state);
        state.inside[turn] -= 1;
        let wake = state.inside[turn] == 0 && (state.closed || state.turn != turn);
        drop(state);
        if wake {
            self.gate.moved.notify(usize::MAX);
        }
    }

    /// Waits until everyone who is inside now has left; newcomers are let in. After this nobody
    /// uses what they could only have learned before. Callers that come while one waits share the
    /// next turn.
    #[boxed]
    pub async fn turn_over(&self) {
        // A turn that begins from here on sees whoever is inside now.
        let wanted = lock(&self.gate.state).begun + 1;
        loop {
            let listener = self.gate.moved.listen();
            {
                let mut state = lock(&self.gate.state);
                if state.ended >= wanted {
                    return;
                }
                // Somebody who gave up waiting may have left a turn incomplete.
                if !state.turning && state.inside[1 - state.turn] == 0 {
                    state.turning = true;
                    state.begun += 1;
                    state.turn = 1 - state.turn;
                    break;
                }
            }
            listener.await;
        }
        let turning = Turning(&self.gate);
        loop {
            let listener = self.gate.moved.listen();
            {
                let mut state = lock(&self.gate.state);
                if state.inside[1 - state.turn] == 0 {
                    state.ended = state.begun;
                    break;
                }
            }
            listener.await;
        }
        drop(turning);
    }

    pub fn key(&self, region: u32) -> RegionKey {
        RegionKey { file: self.number, incarnation: self.incarnation, index: region }
    }

    /// Whether regions of this file are tracked: copies may differ, or checksums may be behind.
    pub fn is_tracked(&self) -> bool {
        self.attributes.copies > 1 || self.attributes.checksums
    }

    /// Fresh pieces of a region.
    pub fn fresh_of(&self, region: u32) -> u64 {
        lock(&self.fresh).get(&region).copied().unwrap_or(0)
    }

    pub fn add_fresh(&self, region: u32, pieces: u64) {
        if pieces != 0 {
            *lock(&self.fresh).entry(region).or_insert(0) |= pieces;
        }
    }

    /// All fresh pieces.
    pub fn fresh(&self) -> BTreeMap<u32, u64> {
        lock(&self.fresh).clone()
    }

    /// These pieces are durable now, or unwritten again.
    pub fn remove_fresh(&self, region: u32, pieces: u64) {
        let mut fresh = lock(&self.fresh);
        if let Some(map) = fresh.get_mut(&region) {
            *map &= !pieces;
            if *map == 0 {
                fresh.remove(&region);
            }
        }
    }

    /// Whether nobody uses the file, and nothing of it waits for a flush.
    pub fn is_idle(&self) -> bool {
        let gate = lock(&self.gate.state);
        let used = gate.inside != [0, 0] || gate.turning || gate.closed || gate.gone;
        let begun = self.begun.load(Ordering::Acquire);
        let waits = begun > self.flushed.load(Ordering::Acquire) || !lock(&self.fresh).is_empty();
        !used
            && !waits
            && self.users.load(Ordering::Acquire) == 0
            && !self.lost.load(Ordering::Acquire)
    }

    /// Begins a write that is not durable by itself; it ends when the returned value is dropped.
    pub fn begin_cached(&self) -> CachedWrite<'_> {
        self.begun.fetch_add(1, Ordering::AcqRel);
        CachedWrite(self)
    }

    /// So many such writes have ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// A flush that began when this many writes had ended is done. False, once, if some were lost.
    pub fn flushed(&self, ended: u64) -> bool {
        self.flushed.fetch_max(ended, Ordering::AcqRel);
        !self.lost.swap(false, Ordering::AcqRel)
    }

    /// A disk with the only copy of a part of the file has left.
    pub fn lost_copy(&self) {
        if self.begun.load(Ordering::Acquire) > self.flushed.load(Ordering::Acquire) {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Enters the file for an I/O. Waits while somebody has it exclusively; fails when it is gone.
    pub async fn enter(&self) -> Result<GateGuard<'_>, Error> {
        loop {
            let listener = {
                let mut state = lock(&self.gate.state);
                if state.gone {
                    return Err(Error::NoSuchFile { name: format!("file {}", self.number) });
                }
                if !state.closed {
                    let turn = state.turn;
                    state.inside[turn] += 1;
                    return Ok(GateGuard(self, turn));
                }
                self.gate.moved.listen()
            };
            listener.await;
        }
    }

    /// Waits until no I/O is under way and keeps new ones out until the guard is dropped.
    pub async fn close(&self) -> Result<ClosedGuard<'_>, Error> {
        let mut closed = None;
        loop {
            let listener = {
                let mut state = lock(&self.gate.state);
                if state.gone {
                    return Err(Error::NoSuchFile { name: format!("file {}", self.number) });
                }
                if closed.is_none() && !state.closed {
                    state.closed = true;
                    closed = Some(ClosedGuard(self));
                }
                if closed.is_some() && state.inside == [0, 0] {
                    break;
                }
                self.gate.moved.listen()
            };
            listener.await;
        }
        Ok(closed.expect("set before the loop ends"))
    }

    pub fn wake_all(&self) {
        self.gate.moved.notify(usize::MAX);
    }
}

/// A write under way that is not durable by itself.
pub(crate) struct CachedWrite<'a>(&'a FileRuntime);

impl Drop for CachedWrite<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// Lets many I/Os in, or one who changes the file's extents.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    /// A turn has ended, or nobody is inside any more.
    moved: Event,
}

/// Held by the one who waits for a turn to end.
struct Turning<'a>(&'a Gate);

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).turning = false;
        self.0.moved.notify(usize::MAX);
    }
}

#[derive(Default)]
struct GateState {
    /// Those who came in turn 0 and in turn 1.
    inside: [usize; 2],
    /// The turn of those who come now.
    turn: usize,
    /// Whether somebody waits for a turn to end.
    turning: bool,
    /// Turns that began, and the newest that came to its end.
    begun: u64,
    ended: u64,
    closed: bool,
    gone: bool,
}

/// An I/O under way.
pub(crate) struct GateGuard<'a>(&'a FileRuntime, usize);

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// A file for a task that is inside.
pub(crate) struct Inside(Arc<FileRuntime>, usize);

impl std::ops::Deref for Inside {
    type Target = FileRuntime;

    fn deref(&self) -> &FileRuntime {
        &self.0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// The file is closed to I/O.
pub(crate) struct ClosedGuard<'a>(&'a FileRuntime);

impl ClosedGuard<'_> {
    /// The file is gone for good: whoever waits to enter fails.
    pub fn mark_gone(&self) {
        lock(&self.0.gate.state).gone = true;
    }
}

impl Drop for ClosedGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.gate.state).closed = false;
        self.0.gate.moved.notify(usize::MAX);
    }
}
