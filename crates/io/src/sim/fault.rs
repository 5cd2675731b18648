//! Fault injection for a simulated disk: faults are switched on and off while it runs.

use std::ops::Range;

use bytes::Bytes;

use super::disk::SimDisk;
use super::image::{Image, Payload};
use crate::error::{IoErrorKind, Op};

/// The faults in force.
#[derive(Default, PartialEq)]
pub(super) struct Faults {
    bad_reads: Vec<Range<u64>>,
    /// Latent errors: a write heals them.
    latent: Vec<Range<u64>>,
    bad_writes: Vec<Range<u64>>,
    bad_flushes: bool,
    full: bool,
    gone: bool,
    hang: bool,
    slow: Option<u64>,
    lying_flush: bool,
    lose_next: bool,
    misdirect_next: Option<u64>,
    misdirect_next_read: Option<u64>,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Faults {
    /// The error that a request must report, if any.
    pub(super) fn verdict(&self, op: Op, range: &Range<u64>) -> Option<IoErrorKind> {
        if self.gone {
            return Some(IoErrorKind::Gone { reason: "the simulated disk was pulled" });
        }
        let bad = match op {
            Op::Read => self.bad_reads.iter().chain(&self.latent).any(|bad| overlap(bad, range)),
            Op::Write | Op::Discard => self.bad_writes.iter().any(|bad| overlap(bad, range)),
            Op::Flush => self.bad_flushes,
            Op::Open => false,
        };
        let full = self.full && op == Op::Write;
        bad.then_some(IoErrorKind::Media).or(full.then_some(IoErrorKind::NoSpace))
    }

    pub(super) fn slow(&self) -> u64 {
        self.slow.unwrap_or(1)
    }

    pub(super) fn hanging(&self) -> bool {
        self.hang
    }

    pub(super) fn lying(&self) -> bool {
        self.lying_flush
    }

    /// `Some(None)` if the next write is lost, `Some(Some(to))` if it goes elsewhere.
    pub(super) fn take_next_write(&mut self) -> Option<Option<u64>> {
        if std::mem::take(&mut self.lose_next) {
            return Some(None);
        }
        self.misdirect_next.take().map(Some)
    }

    /// Where the next read is taken from instead.
    pub(super) fn take_next_read(&mut self) -> Option<u64> {
        self.misdirect_next_read.take()
    }

    /// Heals latent errors under a write.
    pub(super) fn written(&mut self, range: &Range<u64>) {
        if self.latent.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.latent);
        for bad in old {
            let left = bad.start..bad.end.min(range.start);
            let right = bad.start.max(range.end)..bad.end;
            self.latent.extend([left, right].into_iter().filter(|r| !r.is_empty()));
        }
    }
}

/// A place where a lost or misdirected write left something else than a sound disk would hold.
#[derive(Clone, Debug)]
pub struct WriteDamage {
    /// Where, in bytes.
    pub offset: u64,
    /// What a sound disk would hold there.
    pub should: Bytes,
    /// What is there instead.
    pub is: Bytes,
    /// Whether the write came from elsewhere, or is one that is not here.
    pub misdirected: bool,
}

/// What a disk held at some time; see [`SimDisk::snapshot`].
#[derive(Clone)]
pub struct Snapshot(Image);

/// Faults and a look behind the scenes. All take effect at once, also for requests on their way.
impl SimDisk {
    /// Reads that touch `range` (bytes) fail with a medium error, until [`heal`](Self::heal).
    pub fn fail_reads(&self, range: Range<u64>) {
        self.lock().faults.bad_reads.push(range);
    }

    /// Reads that touch `range` fail until the bytes are written again, as a disk remaps a bad
    /// sector.
    pub fn fail_reads_until_written(&self, range: Range<u64>) {
        self.lock().faults.latent.push(range);
    }

    /// Writes and discards that touch `range` fail with a medium error; a failed write has stored
    /// any of its sectors.
    pub fn fail_writes(&self, range: Range<u64>) {
        self.lock().faults.bad_writes.push(range);
    }

    /// Whether the file system below is full: writes fail after storing their beginning.
    pub fn fill_up(&self, full: bool) {
        self.lock().faults.full = full;
    }

    /// Whether flushes fail with a medium error.
    pub fn fail_flushes(&self, fail: bool) {
        self.lock().faults.bad_flushes = fail;
    }

    /// The disk is pulled: everything fails with `Gone`, its content stays.
    pub fn vanish(&self) {
        self.lock().faults.gone = true;
    }

    /// The disk is pulled, and what it had not flushed is lost or kept as in a power cut.
    pub fn lose_power(&self) {
        let mut state = self.lock();
        state.faults.gone = true;
        state.lose_cache();
    }

    /// The disk is plugged in again.
    pub fn come_back(&self) {
        self.lock().faults.gone = false;
    }

    /// The disk hangs: it answers no request.
    pub fn hang(&self) {
        self.lock().faults.hang = true;
    }

    /// The disk answers again, including requests that came meanwhile.
    pub fn unhang(&self) {
        self.lock().faults.hang = false;
        self.reissue_hung();
    }

    /// The disk answers again. It does the requests that came meanwhile up to `factor` times later
    /// than usual, when it may have been reopened.
    pub fn unhang_late(&self, factor: u64) {
        let mut state = self.lock();
        state.faults.hang = false;
        let slow = state.faults.slow.replace(factor.max(1));
        drop(state);
        self.reissue_hung();
        self.lock().faults.slow = slow;
    }

    /// Whether a power cut may leave rubbish, or a part, in a sector that was being written; also
    /// after [`heal`](Self::heal).
    pub fn tear_sectors(&self, tear: bool) {
        self.lock().tears = tear;
    }

    /// Sectors that power cuts have torn so far.
    pub fn torn_sectors(&self) -> u64 {
        self.lock().torn
    }

    /// Requests so far that were answered before one that came earlier, and those whose answer
    /// nobody waited for any more.
    pub fn disorder(&self) -> [u64; 2] {
        self.lock().disorder
    }

    /// Where lost and misdirected writes left something wrong since this was asked last.
    pub fn take_write_damage(&self) -> Vec<WriteDamage> {
        std::mem::take(&mut self.lock().damages)
    }

    /// Reads so far that were answered from elsewhere with something other than what is here.
    pub fn wrong_answers(&self) -> u64 {
        self.lock().wrong_answers
    }

    /// Whether bytes of `range` cannot be read.
    pub fn is_latent(&self, range: &Range<u64>) -> bool {
        self.lock().faults.latent.iter().any(|bad| overlap(bad, range))
    }

    /// Latency times `factor` for requests from now on; 1 is healthy.
    pub fn slow(&self, factor: u64) {
        self.lock().faults.slow = Some(factor.max(1));
    }

    /// Whether flushes, and writes that ask to be durable, are acknowledged without being so.
    pub fn lying_flush(&self, lie: bool) {
        self.lock().faults.lying_flush = lie;
    }

    /// The next write submitted is acknowledged and never stored.
    pub fn lose_next_write(&self) {
        self.lock().faults.lose_next = true;
    }

    /// The next write submitted is stored at byte `to`, a multiple of the sector, instead.
    pub fn misdirect_next_write(&self, to: u64) {
        let mut state = self.lock();
        assert!(
            to.is_multiple_of(u64::from(state.geometry.logical_sector)),
            "a misdirected write lands on a sector"
        );
        state.faults.misdirect_next = Some(to);
    }

    /// The next read answered returns what is stored at byte `from`, a multiple of the sector,
    /// instead.
    pub fn misdirect_next_read(&self, from: u64) {
        self.lock().faults.misdirect_next_read = Some(from);
    }

    /// Ends every fault but those done to the content. A hang ends too.
    pub fn heal(&self) {
        self.lock().faults = Faults::default();
        self.reissue_hung();
    }

    /// Whether no fault is in force.
    pub fn is_whole(&self) -> bool {
        self.lock().faults == Faults::default()
    }

    /// Flips one to eight bits, durably, in the given bytes (at least one in each 4096 of them).
    pub fn corrupt(&self, offset: u64, length: u64) {
        let mut bytes = self.peek(offset, length);
        let mut state = self.lock();
        for piece in bytes.chunks_mut(4096) {
            // Distinct bytes, so that no two flips undo each other.
            let step = piece.len().div_ceil(8);
            let flips = state.rng.within(1..=8) as usize;
            for part in piece.chunks_mut(step).take(flips) {
                let at = state.rng.below(part.len() as u64) as usize;
                part[at] ^= 1 << state.rng.below(8);
            }
        }
        drop(state);
        self.poke(offset, &bytes);
    }

    /// What a read would see, past all faults; needs no alignment.
    pub fn peek(&self, offset: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        self.lock().live.read(offset, &mut bytes);
        bytes
    }

    /// What would be left after the worst power cut.
    pub fn peek_durable(&self, offset: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        self.lock().worst().read(offset, &mut bytes);
        bytes
    }

    /// Changes the content behind everybody's back, durably; needs no alignment. The sectors it
    /// touches become durable as they are.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.lock();
        let sector = u64::from(state.geometry.logical_sector);
        let start = offset - offset % sector;
        let end = (offset + bytes.len() as u64).next_multiple_of(sector);
        let mut whole = vec![0; (end - start) as usize];
        state.live.read(start, &mut whole);
        let from = (offset - start) as usize;
        whole[from..from + bytes.len()].copy_from_slice(bytes);
        state.store(start, Payload::one(Bytes::from(whole)), true);
    }

    /// What the disk holds now, unflushed writes included.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().live.clone())
    }

    /// The disk comes back as it was when `snapshot` was taken, of this disk or another.
    pub fn replace_with_snapshot(&self, snapshot: &Snapshot) {
        self.lock().replace(&snapshot.0);
    }
}
