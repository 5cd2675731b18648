//! io_uring: a ring per thread, submitted to inline, its descriptor in the reactor.

#![expect(unsafe_code, reason = "queue entries carry raw addresses; the queues are shared by hand")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::slots::{Slots, Ticket};
use super::work::{Call, Target, Work};
use super::{Engine, Lanes, watch};

const SUBMISSIONS: u32 = 256;
/// IORING_ENTER_GETEVENTS.
const GETEVENTS: u32 = 1;
/// What does not fit is kept by the kernel until there is room.
const COMPLETIONS: u32 = 4096;
/// How many completions are handled before the lock is given back.
const BATCH: usize = 32;

/// The io_uring engine of a runtime.
pub(crate) struct Uring {
    handle: Handle,
    lanes: Lanes<Lane>,
}

struct Lane {
    ring: IoUring,
    /// Guards the submission queue.
    submission: Mutex<()>,
    /// Its lock also guards the completion queue.
    slots: Arc<Slots>,
    /// Entries that the kernel would not take yet.
    stuck: AtomicBool,
    reaper: OnceLock<AbortHandle>,
}

impl Uring {
    pub(crate) fn new(handle: &Handle) -> io::Result<Uring> {
        let first = Lane::new(handle)?;
        Ok(Uring { handle: handle.clone(), lanes: Lanes::new(first) })
    }
}

impl Engine for Uring {
    fn submit(&self, work: Work) -> Ticket {
        self.lanes.mine(|| Lane::new(&self.handle)).submit(work)
    }

    fn wake_all(&self) {
        for lane in self.lanes.all() {
            lane.slots.wake_all();
        }
    }
}

impl Lane {
    fn new(handle: &Handle) -> io::Result<Arc<Lane>> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(COMPLETIONS);
        // A completion need not interrupt a thread that runs: it enters the kernel soon anyway.
        let ring = builder.setup_coop_taskrun().build(SUBMISSIONS).or_else(|e| {
            if e.raw_os_error() != Some(libc::EINVAL) {
                return Err(e);
            }
            IoUring::builder().setup_clamp().setup_cqsize(COMPLETIONS).build(SUBMISSIONS)
        })?;
        let lane = Arc::new(Lane {
            ring,
            submission: Mutex::new(()),
            slots: Slots::new(),
            stuck: AtomicBool::new(false),
            reaper: OnceLock::new(),
        });
        let watched = watch(handle, &lane.ring)?;
        let reaper = handle.spawn(reap_when_ready(watched, Arc::downgrade(&lane)));
        lane.reaper.get_or_init(|| reaper.abort_handle());
        Ok(lane)
    }

    fn submit(&self, mut work: Work) -> Ticket {
        let entry = entry_of(&mut work);
        let ticket = self.slots.insert(work);
        let entry = entry.user_data(u64::from(ticket.key()));
        {
            let _alone = self.submission.lock().unwrap_or_else(|e| e.into_inner());
            // SAFETY: the submission queue is guarded by the lock just taken; the memory that the
            // entry names is in the slot until the kernel answers.
            while unsafe { self.ring.submission_shared().push(&entry) }.is_err() {
                // Full: the kernel refused the earlier entries. Completions may make room.
                self.enter();
                self.reap();
                std::thread::yield_now();
            }
            self.enter();
        }
        self.reap();
        ticket
    }

    /// Tells the kernel about new entries. The caller holds the submission lock.
    fn enter(&self) {
        loop {
            match self.ring.submit() {
                Ok(_) => {
                    self.stuck.store(false, Ordering::Relaxed);
                    return;
                }
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                Err(_) => {
                    // No memory or no room for completions just now; the reaper tries again.
                    self.stuck.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    fn retry_stuck(&self) {
        if self.stuck.load(Ordering::Relaxed) {
            let _alone = self.submission.lock().unwrap_or_else(|e| e.into_inner());
            self.enter();
        }
    }

    /// Hands out every completion that is there.
    fn reap(&self) {
        loop {
            let mut wakers: [Option<Waker>; BATCH] = [const { None }; BATCH];
            let mut count = 0;
            let mut unwanted = Vec::new();
            {
                let mut slots = self.slots.lock();
                // SAFETY: the completion queue is guarded by the lock of the slots.
                let mut completions = unsafe { self.ring.completion_shared() };
                while count < BATCH
                    && let Some(completion) = completions.next()
                {
                    let key = completion.user_data() as u32;
                    let (waker, work) = slots.land(key, completion.result());
                    wakers[count] = waker;
                    count += 1;
                    unwanted.extend(work);
                }
            }
            for waker in wakers.iter_mut().filter_map(Option::take) {
                waker.wake();
            }
            if count == BATCH {
                continue;
            }
            // The lock is needed even to look: when the view of the queue is dropped, it stores the
            // tail that it saw, which would undo an entry pushed meanwhile. Whoever holds the lock
            // reaps afterwards.
            let Ok(alone) = self.submission.try_lock() else {
                return;
            };
            // SAFETY: the submission queue is guarded by the lock just taken.
            let overflowed = unsafe { self.ring.submission_shared() }.cq_overflow();
            drop(alone);
            if !overflowed {
                return;
            }
            // The kernel keeps completions for which there was no room until it is entered.
            let flush = || {
                let submitter = self.ring.submitter();
                // SAFETY: enters the kernel for its pending completions; nothing is passed.
                unsafe { submitter.enter::<libc::sigset_t>(0, 0, GETEVENTS, None) }
            };
            if flush().is_err() {
                return;
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(reaper) = self.reaper.get() {
            reaper.abort();
        }
        for _ in 0..50 {
            self.reap();
            if self.slots.lock().flying() == 0 {
                return;
            }
            let patience = types::Timespec::from(Duration::from_millis(100));
            let arguments = types::SubmitArgs::new().timespec(&patience);
            // An error is a timeout or a signal: look again.
            let _ = self.ring.submitter().submit_with_args(1, &arguments);
        }
        // A dead device: its memory is given up, because the kernel may yet write to it.
        self.slots.lock().leak();
    }
}

async fn reap_when_ready(watched: AsyncFd<OwnedFd>, lane: Weak<Lane>) {
    loop {
        let ready = match lane.upgrade() {
            Some(lane) if lane.stuck.load(Ordering::Relaxed) => {
                drop(lane);
                tokio::time::timeout(Duration::from_millis(1), watched.readable()).await.ok()
            }
            Some(lane) => {
                drop(lane);
                Some(watched.readable().await)
            }
            None => return,
        };
        match ready {
            // Cleared before the queue is emptied, so that what comes later shows again.
            Some(Ok(mut guard)) => guard.clear_ready(),
            // The runtime stops.
            Some(Err(_)) => return,
            None => {}
        }
        let Some(lane) = lane.upgrade() else { return };
        lane.retry_stuck();
        lane.reap();
    }
}

fn entry_of(work: &mut Work) -> squeue::Entry {
    let fd = types::Fd(work.fd());
    let position = work.position();
    let flags = match work.call {
        Call::Write { durable: true } => libc::RWF_DSYNC,
        _ => 0,
    };
    let call = work.call;
    match (call, work.target()) {
        (Call::Read, Target::One { start, length }) => {
            opcode::Read::new(fd, start, length).offset(position).build()
        }
        (Call::Read, Target::Many { vectors, count }) => {
            opcode::Readv::new(fd, vectors, count).offset(position).build()
        }
        (Call::Write { .. }, Target::One { start, length }) => {
            opcode::Write::new(fd, start, length).offset(position).rw_flags(flags).build()
        }
        (Call::Write { .. }, Target::Many { vectors, count }) => {
            opcode::Writev::new(fd, vectors, count).offset(position).rw_flags(flags).build()
        }
        (Call::Flush, _) => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        _ => unreachable!("ranges go to the pool, empty transfers to nobody"),
    }
}
