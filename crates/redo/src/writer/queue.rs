//! The queue of records: the open unit, the groups ahead, and what happens when there is no room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::lsn::{Abn, Lsn};
use crate::on_disk::block::{BLOCK_HEADER, HEARTBEAT, SWITCH};
use crate::on_disk::record::{RECORD_HEADER, RecordHeader};
use crate::options::Options;
use crate::writer::state::{MustWait, State};
use crate::writer::unit::{Chunk, OpenUnit, Shared};

/// Where a record is, and what its committer waits on.
pub(crate) struct Placed {
    pub lsn: Lsn,
    /// Everything below is durable when the record is.
    pub end: Lsn,
    pub unit: Arc<Shared>,
}

/// The share of a group after which the next one is prepared.
const PREPARE_AT: (u64, u64) = (3, 4);

/// Sizes that the queue works with.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of records in a block.
    pub payload: usize,
    /// Blocks of the longest unit.
    pub unit_blocks: u64,
    pub log_buffer: usize,
}

impl Sizes {
    pub fn new(block_size: u32, options: &Options) -> Sizes {
        Sizes {
            payload: block_size as usize - BLOCK_HEADER,
            unit_blocks: (options.unit_bytes / block_size as usize) as u64,
            log_buffer: options.log_buffer,
        }
    }
}

impl State {
    /// Queues a record, or says what is missing. Nobody overtakes those in line.
    pub fn append(
        &mut self,
        sizes: &Sizes,
        header: RecordHeader,
        body: &Bytes,
        turn: Option<u64>,
    ) -> Result<Placed, MustWait> {
        self.check_turn(turn)?;
        let length = RECORD_HEADER + body.len();
        let waiting = self.queued_bytes + self.reserved.bytes;
        if waiting > 0 && waiting + length > sizes.log_buffer {
            return Err(MustWait::Buffer);
        }
        self.find_room(sizes, length)?;
        Ok(self.place(sizes, header, body))
    }

    /// Nobody overtakes those in line.
    pub fn check_turn(&self, turn: Option<u64>) -> Result<(), MustWait> {
        match self.line.front().copied() == turn || self.line.is_empty() {
            true => Ok(()),
            false => Err(MustWait::Buffer),
        }
    }

    /// Splits a record over units; there is room for it.
    pub fn place(&mut self, sizes: &Sizes, header: RecordHeader, body: &Bytes) -> Placed {
        let head = header.encode();
        let length = RECORD_HEADER + body.len();
        self.queued_bytes += length;
        let (mut done, mut lsn) = (0, None);
        loop {
            let mut unit = self.open_unit(sizes);
            let count = unit.room(sizes.payload).min(length - done);
            let (from, to) = (done.min(RECORD_HEADER), (done + count).min(RECORD_HEADER));
            let body_from = done.saturating_sub(RECORD_HEADER);
            let body_to = (done + count).saturating_sub(RECORD_HEADER);
            unit.chunks.push(Chunk {
                head,
                from: from as u8,
                to: to as u8,
                body: body.slice(body_from..body_to),
            });
            if lsn.is_none() {
                unit.starts.push(unit.filled as u32);
                let block = unit.first + (unit.filled / sizes.payload) as u64;
                let offset = (BLOCK_HEADER + unit.filled % sizes.payload) as u64;
                lsn = Some(Lsn(Abn(block).lsn().0 + offset));
            }
            unit.filled += count;
            done += count;
            let shared = Arc::clone(&unit.shared);
            let end = Abn(unit.first + unit.blocks(sizes.payload)).lsn();
            match unit.room(sizes.payload) {
                0 => self.close(sizes, unit),
                _ => self.open = Some(unit),
            }
            if done == length {
                self.prepare_ahead();
                let lsn = lsn.expect("a record has at least its header");
                return Placed { lsn, end, unit: shared };
            }
        }
    }

    /// Takes the open unit out, or makes one; the caller has found room for it.
    fn open_unit(&mut self, sizes: &Sizes) -> OpenUnit {
        if let Some(unit) = self.open.take() {
            return unit;
        }
        assert!(self.enter_next_group(), "room was found before");
        let left = self.groups[self.current].end() - self.at;
        OpenUnit {
            group: self.current,
            first: self.at,
            blocks_max: left.min(sizes.unit_blocks),
            filled: 0,
            chunks: Vec::new(),
            starts: Vec::new(),
            flags: 0,
            shared: Arc::new(Shared::default()),
        }
    }

    /// Moves on to the next group where the current one is full; false where none is free.
    fn enter_next_group(&mut self) -> bool {
        if self.at < self.groups[self.current].end() {
            return true;
        }
        if self.next.is_empty() && self.assign_next().is_err() {
            return false;
        }
        let next = self.next.pop_front().expect("one was assigned just now");
        assert_eq!(self.groups[next].first, self.at, "groups follow each other");
        self.current = next;
        self.stats.redo_log_switches += 1;
        true
    }

    /// Whether reserved records have room after the group that a switch ends: the current one, or the next
    /// where that is full.
    fn has_room_behind(&mut self) -> bool {
        let is_full = self.open.is_none() && self.at >= self.groups[self.current].end();
        let behind = |state: &State| -> u64 {
            let next = state.next.iter().skip(usize::from(is_full));
            next.map(|group| state.groups[*group].capacity).sum()
        };
        while behind(self) < self.reserved.blocks {
            if self.assign_next().is_err() {
                return false;
            }
        }
        true
    }

    /// Nothing more goes into `unit`: it is the next in the queue.
    fn close(&mut self, sizes: &Sizes, mut unit: OpenUnit) {
        self.at = self.advance(sizes, &mut unit);
        self.full.push_back(unit);
    }

    /// Where the log goes on behind a unit that is closed now.
    fn advance(&self, sizes: &Sizes, unit: &mut OpenUnit) -> u64 {
        let end = self.groups[unit.group].end();
        let behind = unit.first + unit.blocks(sizes.payload);
        assert!(behind <= end, "a unit lies in one group");
        if behind == end {
            unit.flags |= SWITCH;
        }
        match unit.flags & SWITCH {
            0 => behind,
            _ => end,
        }
    }

    /// The unit that is written next, if there is one.
    pub fn front(&self) -> Option<&OpenUnit> {
        self.full.front().or(self.open.as_ref()).filter(|unit| unit.is_wanted())
    }

    /// Takes the unit that is written next out of the queue.
    pub fn take_front(&mut self, sizes: &Sizes) -> Option<OpenUnit> {
        self.front()?;
        let mut unit = match self.full.pop_front() {
            Some(unit) => unit,
            None => {
                let mut unit = self.open.take()?;
                self.at = self.advance(sizes, &mut unit);
                unit
            }
        };
        if unit.filled > 0 {
            unit.flags &= !HEARTBEAT;
        }
        let records: usize =
            unit.chunks.iter().map(|c| usize::from(c.to - c.from) + c.body.len()).sum();
        self.queued_bytes -= records;
        unit.shared.taken.store(true, Ordering::Release);
        Some(unit)
    }

    /// Puts an empty unit with `flag` at the end of the queue, or sets the flag on the open unit. `None`
    /// where a full group has no successor yet, or there is not the reserved room after it.
    pub fn flag_unit(&mut self, sizes: &Sizes, flag: u16) -> Option<Placed> {
        if flag == SWITCH && !self.has_room_behind() {
            return None;
        }
        if self.open.is_none() && !self.enter_next_group() {
            return None;
        }
        let mut unit = self.open_unit(sizes);
        unit.flags |= flag;
        let lsn = Abn(unit.first).lsn();
        let shared = Arc::clone(&unit.shared);
        let end = Abn(unit.first + unit.blocks(sizes.payload)).lsn();
        match flag {
            HEARTBEAT => self.open = Some(unit),
            _ => self.close(sizes, unit),
        }
        Some(Placed { lsn, end, unit: shared })
    }

    /// Whether `length` bytes fit beside what is reserved, assigning groups ahead as needed.
    fn find_room(&mut self, sizes: &Sizes, length: usize) -> Result<(), MustWait> {
        let bytes = |blocks: u64| blocks as u128 * sizes.payload as u128;
        let wanted = length as u128 + bytes(self.reserved.blocks);
        let end = self.groups[self.current].end();
        let mut room = match &self.open {
            Some(unit) => bytes(end - unit.first) - unit.filled as u128,
            None => bytes(end - self.at.min(end)),
        };
        room += self.next.iter().map(|g| bytes(self.groups[*g].capacity)).sum::<u128>();
        while room < wanted {
            let group = self.assign_next()?;
            room += bytes(self.groups[group].capacity);
        }
        Ok(())
    }

    /// Whether this many more blocks can be kept free, likewise. The open unit may be written as it is;
    /// even an empty one takes a block.
    pub fn find_blocks(&mut self, sizes: &Sizes, blocks: u64) -> Result<(), MustWait> {
        let mut left = self.blocks_left(sizes);
        while left < self.reserved.blocks + blocks {
            let group = self.assign_next()?;
            left += self.groups[group].capacity;
        }
        Ok(())
    }

    /// Blocks behind what is queued, in the groups that are assigned.
    pub fn blocks_left(&self, sizes: &Sizes) -> u64 {
        let end = self.groups[self.current].end();
        let left = match &self.open {
            Some(unit) => end - unit.first - unit.blocks(sizes.payload),
            None => end - self.at.min(end),
        };
        left + self.next.iter().map(|group| self.groups[*group].capacity).sum::<u64>()
    }

    /// Assigns the next group in time, so that no commit waits for its header.
    fn prepare_ahead(&mut self) {
        let group = &self.groups[self.current];
        let used = self.at - group.first;
        if self.next.is_empty() && used * PREPARE_AT.1 >= group.capacity * PREPARE_AT.0 {
            // Where none is free yet, the commit that needs it will wait.
            let _ = self.assign_next();
        }
    }

    /// Puts the group that has waited longest after those that are being written or assigned.
    pub fn assign_next(&mut self) -> Result<usize, MustWait> {
        let last = self.next.back().copied().unwrap_or(self.current);
        let Some(group) = self.oldest_unused() else { return Err(MustWait::Checkpoint) };
        self.is_free(group)?;
        let (sequence, first) = (self.groups[last].sequence + 1, self.groups[last].end());
        let next = &mut self.groups[group];
        (next.sequence, next.first) = (sequence, first);
        (next.used, next.has_headers, next.prepared) = (None, false, false);
        self.next.push_back(group);
        self.control_dirty = true;
        Ok(group)
    }

    /// The group that is written again next, when nobody needs it.
    pub fn oldest_unused(&self) -> Option<usize> {
        let unused =
            |g: &usize| *g != self.current && !self.next.contains(g) && !self.groups[*g].dropped;
        (0..self.groups.len()).filter(unused).min_by_key(|g| self.groups[*g].sequence)
    }

    /// Whether nobody needs what is in a group.
    pub fn is_free(&self, group: usize) -> Result<(), MustWait> {
        let at = &self.groups[group];
        if at.sequence == 0 {
            return Ok(());
        }
        let needed = self.checkpoint.min(self.pin.unwrap_or(u64::MAX));
        if needed < at.end() || self.tracked.iter().any(|unit| unit.group == group) {
            return Err(MustWait::Checkpoint);
        }
        match self.control.archiving && self.archived < at.sequence {
            true => Err(MustWait::Archive),
            false => Ok(()),
        }
    }
}
