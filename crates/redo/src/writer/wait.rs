//! A committer's wait: it leads where it can, and drives the writes that it has submitted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use cellar_wait::Event as WaitEvent;

use crate::breakdown::UnitTimes;
use crate::error::Error;
use crate::options::Successor;
use crate::writer::log::Inner;
use crate::writer::op::{Done, Op};
use crate::writer::unit::Shared;

/// Waits for a unit. Dropping it loses nothing: writes in flight pass to another committer.
pub(crate) struct Waiting<'a> {
    inner: &'a Arc<Inner>,
    unit: Arc<Shared>,
    /// Its place among the committers of the unit.
    place: usize,
    ops: Vec<Op>,
    first: First,
}

/// Whether it has let others go first: a task that is ready may be a commit, which then needs no write of its
/// own.
#[derive(Clone, Copy)]
enum First {
    Not,
    /// Since then.
    Others(u64),
    Done,
}

/// Letting others go first for this many nanoseconds, and still being alone, was in vain.
const IN_VAIN: u64 = 500_000;

impl<'a> Waiting<'a> {
    pub fn new(inner: &'a Arc<Inner>, unit: Arc<Shared>) -> Waiting<'a> {
        let place = unit.join();
        Waiting { inner, unit, place, ops: Vec::new(), first: First::Not }
    }

    pub fn log(&self) -> &'a Arc<Inner> {
        self.inner
    }

    /// Once, where others commit too.
    fn lets_others_go_first(&mut self) -> bool {
        match self.first {
            First::Not if self.ops.is_empty() && self.inner.group_commit.goes_first() => {
                self.first = First::Others(self.inner.now());
                true
            }
            First::Others(since) => {
                self.first = First::Done;
                if self.unit.committers() <= 1 && self.inner.now().saturating_sub(since) > IN_VAIN {
                    self.inner.group_commit.stayed_away();
                }
                false
            }
            First::Not | First::Done => {
                self.first = First::Done;
                false
            }
        }
    }
}

impl Future for Waiting<'_> {
    type Output = Result<UnitTimes, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            this.unit.register(this.place, cx.waker(), &mut this.ops);
            if let Some(outcome) = this.unit.outcome.get() {
                return Poll::Ready(outcome.clone());
            }
            if !this.unit.taken.load(Ordering::Acquire) {
                if this.lets_others_go_first() {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.inner.lead(&mut this.ops);
            }
            if !poll_all(this.inner, &mut this.ops, cx) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut ops = std::mem::take(&mut self.ops);
        ops.extend(self.unit.leave(self.place));
        self.inner.hand_over(ops);
        if self.unit.outcome.get().is_none() && !self.unit.taken.load(Ordering::Acquire) {
            // It may have been woken to lead, and does not any more.
            self.inner.lead_for_others();
        }
    }
}

/// Polls every write, and those that follow from their completions. Whether any completed.
fn poll_all(inner: &Arc<Inner>, ops: &mut Vec<Op>, cx: &mut Context<'_>) -> bool {
    let (mut progress, mut at) = (false, 0);
    while let Some(op) = ops.get_mut(at) {
        match op.poll(cx) {
            Poll::Pending => at += 1,
            Poll::Ready(done) => {
                drop(ops.swap_remove(at));
                complete(inner, done, ops);
                progress = true;
                // The one that came in its place is not polled yet, unless it is behind.
                at = 0;
            }
        }
    }
    progress
}

/// Handles a completion: acknowledges, submits what follows, and makes somebody lead.
fn complete(inner: &Arc<Inner>, done: Done, ops: &mut Vec<Op>) {
    let now = inner.now();
    let mut settled = Vec::new();
    let (write, formed, waiting) = inner.with(|state| {
        let write = state.complete(&inner.sizes, &inner.options, done, now, &mut settled);
        let waiting = state.front().map(|unit| Arc::clone(&unit.shared));
        (write, !state.formed.is_empty(), waiting)
    });
    for (_, outcome) in &settled {
        if let Ok(times) = outcome {
            let what = [times.media, times.blocks, times.media];
            let wait =
                inner.session.begin(WaitEvent::LOG_FILE_PARALLEL_WRITE, what, times.launched);
            wait.end(times.quorum);
        }
    }
    ops.extend(write.map(|write| Op::new(write, &inner.env)));
    inner.settle(settled);
    let woken = |waiting: &Arc<Shared>| {
        // Who waits for a unit that is formed has nothing to lead.
        inner.options.successor == Successor::Waiter && !formed && waiting.wake_one()
    };
    if formed || waiting.is_some_and(|waiting| !woken(&waiting)) {
        inner.lead(ops);
    }
}

/// Drives writes to their end.
pub(crate) async fn drive(inner: Arc<Inner>, mut ops: Vec<Op>) {
    std::future::poll_fn(|cx| {
        while poll_all(&inner, &mut ops, cx) {}
        match ops.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
