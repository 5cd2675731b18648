//! Units on their way: taken by a leader, given to the media, acknowledged in order.

use std::sync::Arc;
use std::time::Duration;

use crate::breakdown::UnitTimes;
use crate::error::Error;
use crate::lsn::Abn;
use crate::on_disk::UNIT_BYTES_MAX;
use crate::on_disk::block::{BLOCK_HEADER, HEARTBEAT, SWITCH};
use crate::options::Options;
use crate::writer::ahead::Formed;
use crate::writer::layout::offset_of;
use crate::writer::op::{Done, Write};
use crate::writer::queue::Sizes;
use crate::writer::skip::Skip;
use crate::writer::state::{Pending, State, Tracked};
use crate::writer::unit::{OpenUnit, Shared};

/// Committers to be notified, once the lock is released.
pub(crate) type Settled = Vec<(Arc<Shared>, Result<UnitTimes, Error>)>;

/// After this many units in a row that were alone, the next one is taken to be alone too.
const ALONE_BEFORE: u32 = 3;

impl State {
    /// Gives a formed unit to every medium; adds the writes to submit.
    pub(super) fn launch(
        &mut self,
        sizes: &Sizes,
        options: &Options,
        formed: Formed,
        now: u64,
        writes: &mut Vec<Write>,
    ) {
        let Formed { unit, end, mut times, bytes, crc } = formed;
        self.last_launch = now;
        times.launched = now;
        let number = self.next_unit();
        let alone = self.is_alone(&unit);
        let blocks = unit.blocks(sizes.payload);
        (times.media, times.blocks) = (self.fed().count_ones().into(), blocks);
        if unit.flags & SWITCH != 0 {
            self.groups[unit.group].used = Some(unit.first + blocks);
        }
        self.stats.redo_writes += 1;
        self.stats.redo_blocks_written += blocks;
        self.stats.redo_size += unit.filled as u64;
        self.stats.redo_entries += unit.starts.len() as u64;
        self.stats.redo_wastage +=
            bytes.len() as u64 - blocks * BLOCK_HEADER as u64 - unit.filled as u64;
        self.stats.heartbeats += u64::from(unit.flags & HEARTBEAT != 0);
        self.tracked.push_back(Tracked {
            group: unit.group,
            first: unit.first,
            end,
            bytes: bytes.len() as u64,
            last_crc: crc,
            copies: 0,
            last: 0,
            quorum: false,
            is_heartbeat: unit.flags & HEARTBEAT != 0 && unit.filled == 0,
            times,
            shared: unit.shared,
        });
        self.note_slots(options.units_in_flight, now);
        for medium in 0..self.media.len() {
            if self.media[medium].is_fed() {
                let (first, bytes) = (unit.first, bytes.clone());
                let pending = Pending { unit: number, group: unit.group, first, bytes };
                self.media[medium].pending.push_back(pending);
                let write = self.next_write(medium, options, sizes, now);
                writes.extend(write.map(|write| Write { alone, ..write }));
            }
        }
    }

    /// Whether a unit is the only one in flight, as those before it were: one committer, who returns
    /// only when it is durable, and one medium.
    fn is_alone(&mut self, unit: &OpenUnit) -> bool {
        let alone = unit.starts.len() <= 1
            && self.tracked.is_empty()
            && self.formed.is_empty()
            && self.full.is_empty()
            && self.open.is_none()
            && self.fed().count_ones() == 1;
        self.alone = if alone { self.alone.saturating_add(1) } else { 0 };
        self.alone > ALONE_BEFORE
    }

    /// Whether several committed in the last units, or one while another's was on its way.
    pub(super) fn has_company(&self) -> bool {
        self.alone <= ALONE_BEFORE
    }

    /// What `medium` is to write next, if it has answered enough of what it was given: units that
    /// follow each other go as one write.
    fn next_write(
        &mut self,
        medium: usize,
        options: &Options,
        sizes: &Sizes,
        now: u64,
    ) -> Option<Write> {
        let at = &mut self.media[medium];
        if at.outstanding.len() >= options.units_in_flight {
            return None;
        }
        let first = at.pending.pop_front()?;
        let mut length = first.bytes.len();
        let mut units = first.unit..first.unit + 1;
        let mut slices = vec![first.bytes];
        let block_size = (sizes.payload + BLOCK_HEADER) as u64;
        while let Some(next) = at.pending.front()
            && next.group == first.group
            && (next.first - first.first) * block_size == length as u64
            && length + next.bytes.len() <= UNIT_BYTES_MAX
        {
            length += next.bytes.len();
            units.end = next.unit + 1;
            slices.extend(at.pending.pop_front().map(|next| next.bytes));
        }
        let id = self.next_write;
        self.next_write += 1;
        at.outstanding.insert(id, now);
        let group = &self.groups[first.group];
        let device =
            group.files[medium].clone().expect("a medium that gets units has a file in each group");
        let offset = offset_of(first.first - group.first, block_size);
        Some(Write { id, medium, units, device, offset, slices, alone: false })
    }

    /// Records how a write ended; returns the next one for its medium.
    pub fn complete(
        &mut self,
        sizes: &Sizes,
        options: &Options,
        done: Done,
        now: u64,
        settled: &mut Settled,
    ) -> Option<Write> {
        let medium = &mut self.media[done.medium];
        medium.stats.retries += u64::from(done.retries);
        let submitted = medium.outstanding.remove(&done.id);
        medium.answered = now;
        // An answer from a medium that was given up does not count.
        if !medium.is_fed() || self.poisoned.is_some() {
            return None;
        }
        let submitted = submitted.expect("each write is answered once");
        if let Err(error) = done.result {
            medium.error = Some(error);
            self.give_up(done.medium, Skip::Error);
            self.acknowledge(options, now, settled);
            return None;
        }
        let took = Duration::from_nanos(now.saturating_sub(submitted));
        medium.stats.writes += 1;
        medium.stats.slowest = medium.stats.slowest.max(took);
        let mut late = true;
        for number in done.units {
            late &= self.has_arrived(number, done.medium, now);
        }
        if took > options.outlier {
            let stats = &mut self.media[done.medium].stats;
            stats.outliers_prevented += u64::from(late);
            stats.outliers_actual += u64::from(!late);
        }
        self.acknowledge(options, now, settled);
        self.next_write(done.medium, options, sizes, now)
    }

    /// Records that a medium has a unit. Returns whether the unit had been acknowledged before.
    fn has_arrived(&mut self, number: u64, medium: usize, now: u64) -> bool {
        let acked = number < self.unacked;
        let unit = &mut self.tracked[(number - self.base) as usize];
        let at = &mut self.media[medium];
        if unit.copies == 0 {
            unit.times.first = now;
            at.stats.first += 1;
        }
        unit.copies |= 1 << medium;
        unit.last = now;
        at.stats.bytes += unit.bytes;
        // One that was acknowledged without it counted as given then.
        at.stats.given += u64::from(!acked);
        at.stats.in_time += u64::from(!acked);
        if acked {
            at.stats.late += 1;
            at.exposed -= unit.bytes;
            let age = Duration::from_nanos(now.saturating_sub(unit.times.acked));
            at.stats.exposure_time_max = at.stats.exposure_time_max.max(age);
        }
        acked
    }

    /// The log stops: only an opening clears that.
    pub fn poison(&mut self, why: Arc<str>) {
        self.poisoned.get_or_insert(why);
        self.control_dirty = false;
    }

    /// Empties a log that has stopped: everybody who waits is notified.
    pub fn drain_stopped(&mut self) -> Settled {
        let Some(why) = self.poisoned.clone() else { return Vec::new() };
        let acked = (self.unacked - self.base) as usize;
        let tracked = self.tracked.drain(..).skip(acked).map(|unit| unit.shared);
        let formed = self.formed.drain(..).map(|formed| formed.unit);
        let queued = formed.chain(self.full.drain(..)).chain(self.open.take());
        let queued = queued.map(|unit| unit.shared);
        let unknown = |shared| (shared, Err(Error::OutcomeUnknown { why: Arc::clone(&why) }));
        tracked.chain(queued).map(unknown).collect()
    }

    /// Acknowledges, in order, what enough media have; forgets what all of them have.
    pub fn acknowledge(&mut self, options: &Options, now: u64, settled: &mut Settled) {
        if self.poisoned.is_some() {
            return;
        }
        let from = (self.unacked - self.base) as usize;
        for index in from..self.tracked.len() {
            if !self.tracked[index].quorum && self.has_quorum(&self.tracked[index]) {
                self.tracked[index].quorum = true;
                self.tracked[index].times.quorum = now;
                let launched = self.tracked[index].times.launched;
                self.stats.redo_write_time += Duration::from_nanos(now.saturating_sub(launched));
            }
        }
        let before = self.unacked;
        loop {
            let at = (self.unacked - self.base) as usize;
            // Evaluated again: since enough media had it, another may have started or stopped
            // counting.
            if !self.tracked.get(at).is_some_and(|unit| self.has_quorum(unit)) {
                break;
            }
            let unit = &mut self.tracked[at];
            unit.times.acked = now;
            let number_of_unit = self.unacked;
            self.unacked += 1;
            self.durable = unit.end;
            self.durable_crc = unit.last_crc;
            self.last_was_heartbeat = unit.is_heartbeat;
            self.last_ack = now;
            let (bytes, copies) = (unit.bytes, unit.copies);
            settled.push((Arc::clone(&unit.shared), Ok(unit.times)));
            for (number, medium) in self.media.iter_mut().enumerate() {
                let is_owed = medium.is_fed() && number_of_unit >= medium.fed_from;
                if is_owed && copies & 1 << number == 0 {
                    medium.stats.given += 1;
                    medium.exposed += bytes;
                    let max = &mut medium.stats.exposure_bytes_max;
                    *max = medium.exposed.max(*max);
                }
            }
        }
        if self.unacked > before {
            self.note_slots(options.units_in_flight, now);
        }
        self.forget();
    }

    /// Drops units that every medium which gets them has.
    pub fn forget(&mut self) {
        while self.base < self.unacked {
            let get = self.mask_of(|m| m.is_fed() && m.fed_from <= self.base);
            if self.tracked.front().is_none_or(|unit| unit.copies & get != get) {
                return;
            }
            if let Some(unit) = self.tracked.pop_front() {
                self.stats.last.record(unit.last.saturating_sub(unit.times.launched));
            }
            self.base += 1;
        }
    }

    /// The end of what is acknowledged.
    pub fn durable(&self) -> Abn {
        Abn(self.durable)
    }
}
