//! A durable write that is alone: where it is quick the thread waits for it in the kernel.
//!
//! On a file a durable write of a ring is finished by a thread of the kernel, which waits for the
//! flush in its place; then the ring, the reactor and the task are woken one after the other. A
//! thread that waits itself is woken once. While it is away another thread runs its tasks, which
//! costs more than it brings where the caller could not be back at once anyway: so only small
//! writes wait here, and only while the device is quick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::clock::Source;
use super::engine::Engine;
use super::engine::pool::Here;

/// A longer write has better things to do than to wait here, in bytes.
const BYTES_MAX: u64 = 64 << 10;
/// A device that takes longer is not waited for, in nanoseconds: what can be gained is a fiftieth
/// of that, and who waits behind a thread that is away should not notice.
const QUICK: u64 = 1_000_000;
/// A write counts for one part in so many of what is expected of the next.
const MEMORY: u64 = 8;

/// How writes that were alone fared, and the engine for the next.
pub(super) struct Alone {
    clock: Arc<Source>,
    here: Here,
    /// What is expected of the next write, in nanoseconds.
    expected: AtomicU64,
}

impl Alone {
    pub(super) fn new(clock: Arc<Source>) -> Alone {
        Alone { clock, here: Here::new(), expected: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The engine that waits here, where that is right for a write of so many bytes.
    pub(super) fn engine(&self, bytes: u64) -> Option<&dyn Engine> {
        let quick = bytes <= BYTES_MAX && self.expected.load(Ordering::Relaxed) <= QUICK;
        // Elsewhere there is no other thread to run the tasks.
        let can = || {
            Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread)
        };
        (quick && can()).then_some(&self.here)
    }

    /// Takes in how long a write took that began at `since`.
    pub(super) fn note(&self, since: u64) {
        let took = self.now().saturating_sub(since);
        let before = self.expected.load(Ordering::Relaxed);
        // Two that end at once may lose one of them: it is an estimate.
        let expected = (before / MEMORY * (MEMORY - 1)).saturating_add(took / MEMORY);
        self.expected.store(expected, Ordering::Relaxed);
    }
}
