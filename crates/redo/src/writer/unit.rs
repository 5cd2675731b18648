//! A unit while it is filled, and how it becomes blocks.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;

use bytes::Bytes;
use cellar_io::Buffer;

use crate::breakdown::UnitTimes;
use crate::error::Error;
use crate::lsn::Abn;
use crate::on_disk::block::{self, BLOCK_HEADER, BlockHeader, Seed};
use crate::on_disk::record::RECORD_HEADER;
use crate::writer::op::Op;

/// A piece of a record: a part of its header, then a part of its body.
pub(crate) struct Chunk {
    pub head: [u8; RECORD_HEADER],
    /// Which bytes of `head`.
    pub from: u8,
    pub to: u8,
    pub body: Bytes,
}

/// A unit that still takes records.
pub(crate) struct OpenUnit {
    /// Its group, by place.
    pub group: usize,
    pub first: u64,
    /// How many blocks it may have.
    pub blocks_max: u64,
    /// Bytes of records in it.
    pub filled: usize,
    pub chunks: Vec<Chunk>,
    /// Where records begin, in bytes of payload.
    pub starts: Vec<u32>,
    /// `SWITCH` or `HEARTBEAT`, or nothing.
    pub flags: u16,
    pub shared: Arc<Shared>,
}

/// What its committers wait on.
#[derive(Default)]
pub(crate) struct Shared {
    /// A leader has taken it: there is nothing to do but wait.
    pub taken: AtomicBool,
    pub outcome: OnceLock<Result<UnitTimes, Error>>,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// By committer; absent when it does not wait now.
    wakers: Vec<Option<Waker>>,
    /// How many committers are left.
    alive: usize,
    /// Writes that the first committer to wake is to drive.
    handed: Vec<Op>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A place for one more committer.
    pub fn join(&self) -> usize {
        let mut waiters = self.lock();
        waiters.alive += 1;
        waiters.wakers.push(None);
        waiters.wakers.len() - 1
    }

    /// How many have joined.
    pub fn committers(&self) -> usize {
        self.lock().wakers.len()
    }

    /// Wakes `waker` when there is something to do; returns what was handed over.
    pub fn register(&self, place: usize, waker: &Waker, ops: &mut Vec<Op>) {
        let mut waiters = self.lock();
        ops.append(&mut waiters.handed);
        match &mut waiters.wakers[place] {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The committer at `place` is gone; returns what was handed to it if nobody is left.
    pub fn leave(&self, place: usize) -> Vec<Op> {
        let mut waiters = self.lock();
        waiters.alive -= 1;
        waiters.wakers[place] = None;
        if waiters.handed.is_empty() {
            return Vec::new();
        }
        let next = waiters.wakers.iter_mut().find_map(Option::take);
        match next {
            Some(waker) => {
                drop(waiters);
                waker.wake();
                Vec::new()
            }
            None => std::mem::take(&mut waiters.handed),
        }
    }

    /// Hands writes to a committer of this unit, or gives them back where none waits.
    pub fn hand(&self, ops: Vec<Op>) -> Result<(), Vec<Op>> {
        let mut waiters = self.lock();
        if self.outcome.get().is_some() {
            return Err(ops);
        }
        let Some(waker) = waiters.wakers.iter_mut().find_map(Option::take) else {
            return Err(ops);
        };
        waiters.handed.extend(ops);
        drop(waiters);
        waker.wake();
        Ok(())
    }

    /// Wakes one committer, so that it leads; false where none waits.
    pub fn wake_one(&self) -> bool {
        let waker = self.lock().wakers.iter_mut().find_map(Option::take);
        waker.map(Waker::wake).is_some()
    }

    /// Tells every committer how it went.
    pub fn settle(&self, outcome: Result<UnitTimes, Error>) {
        if self.outcome.set(outcome).is_err() {
            return;
        }
        let wakers: Vec<Waker> = {
            let mut waiters = self.lock();
            waiters.wakers.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl OpenUnit {
    /// Payload bytes that still fit.
    pub fn room(&self, payload: usize) -> usize {
        self.blocks_max as usize * payload - self.filled
    }

    /// How many blocks it is.
    pub fn blocks(&self, payload: usize) -> u64 {
        (self.filled.div_ceil(payload) as u64).max(1)
    }

    /// Whether there is any reason to write it.
    pub fn is_wanted(&self) -> bool {
        self.filled > 0 || self.flags != 0
    }
}

/// What the blocks of a unit need to know of the log.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub block_size: usize,
    pub seed: Seed,
    pub incarnation: u32,
    /// CRC of the block before.
    pub chain: u32,
    /// Blocks below are durable.
    pub durable: u64,
    /// The first block of the incarnation.
    pub start: u64,
}

/// Copies records into blocks and seals these. Returns them with the CRC of the last.
pub(crate) fn form(unit: &OpenUnit, context: &Context) -> (Bytes, u32) {
    let payload = context.block_size - BLOCK_HEADER;
    let blocks = unit.blocks(payload);
    let mut buffer = Buffer::new(blocks as usize * context.block_size);
    copy(unit, &mut buffer, context.block_size);
    let mut chain = context.chain;
    let mut starts = unit.starts.iter().map(|at| *at as usize).peekable();
    for (index, bytes) in buffer.chunks_exact_mut(context.block_size).enumerate() {
        let (from, to) = (index * payload, unit.filled.min((index + 1) * payload));
        let mut flags = 0;
        if index == 0 {
            flags |= block::FIRST;
            if unit.first == context.start {
                flags |= block::INCARNATION_START;
            }
        }
        if index as u64 + 1 == blocks {
            flags |= block::LAST | unit.flags;
        }
        let first =
            starts.peek().filter(|at| **at < to).map(|at| (BLOCK_HEADER + at - from) as u16);
        while starts.next_if(|at| *at < to).is_some() {}
        let header = BlockHeader {
            flags,
            abn: Abn(unit.first + index as u64),
            incarnation: context.incarnation,
            chain,
            durable: Abn(context.durable),
            unit_blocks: blocks as u16,
            unit_index: index as u16,
            used: (BLOCK_HEADER + to.saturating_sub(from)) as u16,
            first_record: first,
        };
        chain = header.seal(bytes, context.seed);
    }
    (buffer.freeze(), chain)
}

/// Copies the payload around the places of the headers; what is left of the last block is zeros.
fn copy(unit: &OpenUnit, buffer: &mut [u8], block_size: usize) {
    let mut at = 0;
    let mut append = |mut bytes: &[u8]| {
        while !bytes.is_empty() {
            if at % block_size == 0 {
                at += BLOCK_HEADER;
            }
            let count = bytes.len().min(block_size - at % block_size);
            let (now, rest) = bytes.split_at(count);
            buffer[at..at + count].copy_from_slice(now);
            at += count;
            bytes = rest;
        }
    };
    for chunk in &unit.chunks {
        append(&chunk.head[usize::from(chunk.from)..usize::from(chunk.to)]);
        append(&chunk.body);
    }
    let end = at.max(BLOCK_HEADER);
    buffer[end..].fill(0);
}
