//! The ways to hand an operation to the kernel.
//!
//! Every engine owns one *lane* (ring, context) per submitting thread, so that a thread submits,
//! and usually reaps, without contention.

#![expect(unsafe_code, reason = "tokio wants a promise about the descriptors it watches")]

pub(crate) mod libaio;
pub(crate) mod pool;
pub(crate) mod slots;
pub(crate) mod uring;
pub(crate) mod work;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

pub(crate) use slots::Ticket;
pub(crate) use work::{Call, Memory, Work};

/// Threads beyond this many share lanes.
const LANES: usize = 64;

/// One way to hand operations to the kernel.
pub(crate) trait Engine: Send + Sync {
    /// Hands `work` over. The ticket gives the kernel's answer (a count, or minus an errno) and
    /// the memory back; dropping it leaves the operation to finish alone.
    fn submit(&self, work: Work) -> Ticket;

    /// Wakes all who wait for an answer, so that they look at their device again.
    fn wake_all(&self);
}

/// The lanes of an engine, made when a thread first needs one.
pub(crate) struct Lanes<L> {
    first: Arc<L>,
    others: [OnceLock<Arc<L>>; LANES],
}

impl<L> Lanes<L> {
    pub(crate) fn new(first: Arc<L>) -> Lanes<L> {
        Lanes { first, others: [const { OnceLock::new() }; LANES] }
    }

    /// The lane of this thread. A thread for which none can be made shares the first.
    pub(crate) fn mine<E>(&self, make: impl FnOnce() -> Result<Arc<L>, E>) -> &Arc<L> {
        let number = thread_number();
        if number == 0 {
            return &self.first;
        }
        self.others[number % LANES]
            .get_or_init(|| make().unwrap_or_else(|_| Arc::clone(&self.first)))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<L>> {
        std::iter::once(&self.first).chain(self.others.iter().filter_map(OnceLock::get))
    }
}

/// Numbers of threads that ended, to be given out again.
static NUMBERS: Mutex<(usize, BTreeSet<usize>)> = Mutex::new((0, BTreeSet::new()));

struct Number(Cell<Option<usize>>);

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(number) = self.0.get() {
            let mut numbers = NUMBERS.lock().unwrap_or_else(|e| e.into_inner());
            numbers.1.insert(number);
        }
    }
}

thread_local! {
    static NUMBER: Number = const { Number(Cell::new(None)) };
}

/// A small number that no other living thread has.
fn thread_number() -> usize {
    // A thread that is just ending uses lane 0, which can always be shared.
    NUMBER
        .try_with(|mine| {
            if let Some(number) = mine.0.get() {
                return number;
            }
            let mut numbers = NUMBERS.lock().unwrap_or_else(|e| e.into_inner());
            let number = numbers.1.pop_first().unwrap_or_else(|| {
                numbers.0 += 1;
                numbers.0 - 1
            });
            mine.0.set(Some(number));
            number
        })
        .unwrap_or(0)
}

/// Has the reactor watch a copy of `source` for readability.
pub(crate) fn watch(handle: &Handle, source: &impl AsRawFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: whoever lends `source` keeps it open for this call.
    let source = unsafe { BorrowedFd::borrow_raw(source.as_raw_fd()) };
    let copy = source.try_clone_to_owned()?;
    let _context = handle.enter();
    // SAFETY: the copy is owned by the `AsyncFd`, open, and never replaced.
    unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) }.map_err(io::Error::from)
}
