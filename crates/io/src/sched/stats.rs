//! Lock-free statistics of a disk, by request class and operation.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Class;
use crate::error::Op;

/// Buckets of [`OpStats::sizes`]: powers of two up to 2^39.
pub const SIZE_BUCKETS: usize = 40;

/// The largest request that counts as small, in bytes, as in Oracle's V$IOSTAT_FILE.
pub const SMALL_BYTES: u64 = 128 << 10;

/// Totals of one kind of request since the disk was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes in them; a discard counts none.
    pub bytes: u64,
    /// Answers that were a fault of the device.
    pub errors: u64,
    /// Time from sending to answer, summed.
    pub nanos: u64,
    /// `sizes[i]` requests had at least 2^i bytes and less than 2^(i+1).
    pub sizes: [u64; SIZE_BUCKETS],
    /// Those of [`SMALL_BYTES`] and less.
    pub small: SmallStats,
}

/// Totals of small requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmallStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Time from sending to answer, summed.
    pub nanos: u64,
}

/// Totals of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Time from sending to answer, summed.
    pub nanos: u64,
    /// Requests that had to queue.
    pub queued: u64,
    /// Time that they spent in the queue, summed.
    pub queued_nanos: u64,
    /// Requests that are in the queue now.
    pub waiting: u64,
}

/// What a disk has done since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
    /// Flushes.
    pub flush: OpStats,
    /// Discards and zeroings.
    pub discard: OpStats,
    /// By class, in the order of [`Class`].
    pub classes: [ClassStats; 4],
    /// Requests that are at the device now.
    pub in_flight: u64,
}

struct OpCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
    sizes: [AtomicU64; SIZE_BUCKETS],
    /// Requests, bytes and nanoseconds of those that are small.
    small: [AtomicU64; 3],
}

impl Default for OpCounters {
    fn default() -> OpCounters {
        OpCounters {
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            sizes: [const { AtomicU64::new(0) }; SIZE_BUCKETS],
            small: [const { AtomicU64::new(0) }; 3],
        }
    }
}

#[derive(Default)]
struct ClassCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    queued: AtomicU64,
    queued_nanos: AtomicU64,
}

#[derive(Default)]
pub(super) struct Counters {
    ops: [OpCounters; 4],
    classes: [ClassCounters; 4],
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The place of `op` among the counters; opening is no request.
fn index(op: Op) -> usize {
    match op {
        Op::Open | Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

impl Counters {
    pub(super) fn queued(&self, class: Class, nanos: u64) {
        let counters = &self.classes[class as usize];
        add(&counters.queued, 1);
        add(&counters.queued_nanos, nanos);
    }

    pub(super) fn served(&self, class: Class, op: Op, bytes: u64, nanos: u64, ok: bool) {
        let counters = &self.ops[index(op)];
        add(&counters.requests, 1);
        add(&counters.bytes, bytes);
        add(&counters.nanos, nanos);
        if !ok {
            add(&counters.errors, 1);
        }
        if let Some(power) = bytes.checked_ilog2() {
            add(&counters.sizes[(power as usize).min(SIZE_BUCKETS - 1)], 1);
        }
        if bytes <= SMALL_BYTES {
            let [requests, sum, time] = &counters.small;
            add(requests, 1);
            add(sum, bytes);
            add(time, nanos);
        }
        let counters = &self.classes[class as usize];
        add(&counters.requests, 1);
        add(&counters.bytes, bytes);
        add(&counters.nanos, nanos);
    }

    pub(super) fn read(&self, in_flight: u32, waiting: [usize; 4]) -> DiskStats {
        let op = |op: Op| {
            let counters = &self.ops[index(op)];
            OpStats {
                requests: get(&counters.requests),
                bytes: get(&counters.bytes),
                errors: get(&counters.errors),
                nanos: get(&counters.nanos),
                sizes: std::array::from_fn(|i| get(&counters.sizes[i])),
                small: {
                    let [requests, bytes, nanos] = &counters.small;
                    SmallStats { requests: get(requests), bytes: get(bytes), nanos: get(nanos) }
                },
            }
        };
        let class = |index: usize| {
            let counters = &self.classes[index];
            ClassStats {
                requests: get(&counters.requests),
                bytes: get(&counters.bytes),
                nanos: get(&counters.nanos),
                queued: get(&counters.queued),
                queued_nanos: get(&counters.queued_nanos),
                waiting: waiting[index] as u64,
            }
        };
        DiskStats {
            read: op(Op::Read),
            write: op(Op::Write),
            flush: op(Op::Flush),
            discard: op(Op::Discard),
            classes: std::array::from_fn(class),
            in_flight: u64::from(in_flight),
        }
    }
}
