//! A durable write that is alone: where that is quick, the thread waits for it in the kernel.
//!
//! On a file, a kernel thread finishes a durable write of the ring, because it must wait for the
//! flush; then the ring, the reactor and the task are woken one after the other. A thread that
//! waits itself is woken once. While it is away another thread runs its tasks. That costs more than
//! it gains unless the caller can go on at once, so only small writes wait here, and only while the
//! device is quick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::clock::Source;
use super::engine::Engine;
use super::engine::pool::Here;

/// The longest write that waits here, in bytes.
const BYTES_MAX: u64 = 64 << 10;
/// The slowest device that is waited for, in nanoseconds: above this the gain is less than a
/// fiftieth, and tasks that wait for the blocked thread should not notice.
const QUICK: u64 = 1_000_000;
/// The weight of one write in the expected time of the next is one part in this many.
const MEMORY: u64 = 8;

/// The timing of earlier writes that were alone, and the engine for the next one.
pub(super) struct Alone {
    clock: Arc<Source>,
    here: Here,
    /// The expected duration of the next write, in nanoseconds.
    expected: AtomicU64,
}

impl Alone {
    pub(super) fn new(clock: Arc<Source>) -> Alone {
        Alone { clock, here: Here::new(), expected: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The engine that waits here, if that suits a write of this many bytes.
    pub(super) fn engine(&self, bytes: u64) -> Option<&dyn Engine> {
        let quick = bytes <= BYTES_MAX && self.expected.load(Ordering::Relaxed) <= QUICK;
        // Elsewhere there is no other thread to run the tasks.
        let can = || {
            Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread)
        };
        (quick && can()).then_some(&self.here)
    }

    /// Records the duration of a write that began at `since`.
    pub(super) fn note(&self, since: u64) {
        let took = self.now().saturating_sub(since);
        let before = self.expected.load(Ordering::Relaxed);
        // Of two writes that end at once one may be lost: this is an estimate.
        let expected = (before / MEMORY * (MEMORY - 1)).saturating_add(took / MEMORY);
        self.expected.store(expected, Ordering::Relaxed);
    }
}
