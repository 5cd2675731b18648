//! The queue to the committer, and what it tells: how far the log is durable.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use event_listener::Event as Notify;

use crate::base::core::Core;
use crate::error::Error;
use crate::state::Op;

/// Looks at the state and says the operations; or refuses.
pub(crate) type MakeOps = Box<dyn FnOnce(&mut Core) -> Result<Vec<Op>, Error> + Send>;

/// What only the committer can do.
pub(crate) enum Wanted {
    /// A change of which disks take part: the log has nothing else between what was queued before
    /// it and what is queued after it.
    Change(MakeOps),
    /// A checkpoint.
    Checkpoint,
    /// These disks are to leave, if nothing is lost by that.
    TakeOut(Vec<u16>),
    /// Blocks of a disk's ring that hold no live record are to be overwritten with zeros.
    ClearLog(u16, Vec<u64>),
}

/// A request to the committer.
pub(crate) struct Request {
    pub wanted: Wanted,
    pub done: futures_channel::oneshot::Sender<Result<(), Error>>,
}

/// What the committer and its callers share.
#[derive(Default)]
pub(crate) struct LogShared {
    /// Changes of who takes part that wait for the committer.
    pub requests: Mutex<VecDeque<Request>>,
    /// Something is queued, a disk failed, or the group is to stop.
    pub wanted: Notify,
    /// The newest durable change.
    durable: AtomicU64,
    /// Where the log goes on: every member has the records before.
    written_lsn: AtomicU64,
    /// `durable` moved, or an epoch was committed, or the group stopped.
    pub moved: Notify,
    /// Set when the committer is to end.
    pub end: AtomicBool,
}

impl LogShared {
    /// Whether the change with `ticket` is durable on every member.
    pub fn is_durable(&self, ticket: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= ticket
    }

    /// Tells the waiters that everything up to `ticket` is durable.
    pub fn made_durable(&self, ticket: u64) {
        self.durable.fetch_max(ticket, Ordering::AcqRel);
        self.moved.notify(usize::MAX);
    }

    /// Every member has the records before this place of the log.
    pub fn written_lsn(&self) -> u64 {
        self.written_lsn.load(Ordering::Acquire)
    }

    /// Notes that every member has the records before `lsn`.
    pub fn wrote_upto(&self, lsn: u64) {
        self.written_lsn.store(lsn, Ordering::Release);
    }
}
