//! Slots for operations in flight in the kernel: the memory of an operation stays in its slot until the
//! kernel is done with it, even if the future that asked for it has been dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::work::Work;

const NONE: u32 = u32::MAX;

enum Slot {
    Free {
        next: u32,
    },
    Flying {
        work: Work,
        waker: Option<Waker>,
        /// False once the ticket was dropped.
        wanted: bool,
    },
    Landed {
        work: Work,
        answer: i32,
    },
}

/// The slots of one ring, context or pool.
pub(crate) struct Slots(Mutex<Inner>);

/// The slots while they are locked. Whoever holds this may also touch the completion queue.
pub(crate) struct Inner {
    slots: Vec<Slot>,
    free: u32,
    flying: u32,
}

impl Slots {
    pub(crate) fn new() -> Arc<Slots> {
        Arc::new(Slots(Mutex::new(Inner { slots: Vec::new(), free: NONE, flying: 0 })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes `work` in; the ticket resolves when [`Inner::land`] is called with its key.
    pub(crate) fn insert(self: &Arc<Slots>, work: Work) -> Ticket {
        let mut inner = self.lock();
        let slot = Slot::Flying { work, waker: None, wanted: true };
        let key = inner.free;
        let key = if key == NONE {
            inner.slots.push(slot);
            u32::try_from(inner.slots.len() - 1).expect("fewer than 2^32 operations in flight")
        } else {
            let Slot::Free { next } = inner.slots[key as usize] else {
                unreachable!("the free list holds only free slots")
            };
            inner.free = next;
            inner.slots[key as usize] = slot;
            key
        };
        inner.flying += 1;
        drop(inner);
        Ticket { slots: Arc::clone(self), key, taken: false }
    }

    /// Wakes everybody who waits, so that they look at their device again.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self
            .lock()
            .slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Flying { waker: Some(waker), .. } => Some(waker.clone()),
                _ => None,
            })
            .collect();
        for waker in wakers {
            waker.wake();
        }
    }
}

impl Inner {
    /// The kernel answered. Returns whom to wake once the lock is gone, and memory that nobody
    /// wants any more.
    pub(crate) fn land(&mut self, key: u32, answer: i32) -> (Option<Waker>, Option<Work>) {
        let slot = std::mem::replace(&mut self.slots[key as usize], Slot::Free { next: self.free });
        let Slot::Flying { work, waker, wanted } = slot else {
            unreachable!("the kernel answers each operation once")
        };
        self.flying -= 1;
        if wanted {
            self.slots[key as usize] = Slot::Landed { work, answer };
            (waker, None)
        } else {
            self.free = key;
            (None, Some(work))
        }
    }

    /// How many operations the kernel has.
    pub(crate) fn flying(&self) -> u32 {
        self.flying
    }

    /// Gives up all memory that the kernel may still write to; only for a ring that will not
    /// answer before it goes.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
        self.free = NONE;
        self.flying = 0;
    }

    fn take(&mut self, key: u32) -> Option<(i32, Work)> {
        if !matches!(self.slots[key as usize], Slot::Landed { .. }) {
            return None;
        }
        let slot = std::mem::replace(&mut self.slots[key as usize], Slot::Free { next: self.free });
        self.free = key;
        let Slot::Landed { work, answer } = slot else { unreachable!("looked at just above") };
        Some((answer, work))
    }
}

/// A claim to the answer of one operation: the kernel's result and the memory back.
pub(crate) struct Ticket {
    slots: Arc<Slots>,
    key: u32,
    taken: bool,
}

impl Ticket {
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

impl Future for Ticket {
    type Output = (i32, Work);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(i32, Work)> {
        let key = self.key;
        let mut inner = self.slots.lock();
        if let Some(answer) = inner.take(key) {
            drop(inner);
            self.taken = true;
            return Poll::Ready(answer);
        }
        if let Slot::Flying { waker, .. } = &mut inner.slots[key as usize] {
            match waker {
                Some(old) => old.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut inner = self.slots.lock();
        if let Some(landed) = inner.take(self.key) {
            drop(inner);
            drop(landed);
        } else if let Some(Slot::Flying { wanted, waker, .. }) =
            inner.slots.get_mut(self.key as usize)
        {
            *wanted = false;
            *waker = None;
        }
    }
}
