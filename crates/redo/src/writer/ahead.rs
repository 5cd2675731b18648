//! The path from the queue to the media: a unit is taken, formed without the lock, and launched when a
//! slot is free. A unit that cannot grow any more is formed before that, so that a free slot does not
//! wait while a megabyte is copied and checksummed.

use std::sync::Arc;

use bytes::Bytes;

use crate::breakdown::UnitTimes;
use crate::on_disk::block::SWITCH;
use crate::options::Options;
use crate::writer::op::Write;
use crate::writer::queue::Sizes;
use crate::writer::state::State;
use crate::writer::unit::{OpenUnit, Shared};

/// The number of units that are formed before there are slots for them. They cost memory, and the
/// durable position written in them is slightly older.
const AHEAD: usize = 2;

/// A unit that a leader has taken, and what it needs to form it.
pub(crate) struct Taken {
    pub unit: OpenUnit,
    pub chain: u32,
    pub durable: u64,
    end: u64,
    times: UnitTimes,
}

/// A unit whose blocks are ready.
pub(crate) struct Formed {
    pub unit: OpenUnit,
    /// Where the log goes on behind it.
    pub end: u64,
    pub times: UnitTimes,
    pub bytes: Bytes,
    /// The CRC of its last block.
    pub crc: u32,
}

impl State {
    /// Takes the next unit, if nobody else forms one, and a slot is free or it is full.
    pub fn take(&mut self, sizes: &Sizes, options: &Options, now: u64) -> Option<Taken> {
        let front = self.front()?;
        if !self.groups[front.group].prepared || self.forming.is_some() || self.poisoned.is_some() {
            return None;
        }
        let has_slot = self.formed.is_empty() && self.has_slot(options);
        if !has_slot && (self.full.is_empty() || self.formed.len() >= AHEAD) {
            return None;
        }
        let unit = self.take_front(sizes)?;
        let end = match unit.flags & SWITCH {
            0 => unit.first + unit.blocks(sizes.payload),
            _ => self.groups[unit.group].end(),
        };
        self.forming = Some((end, Arc::clone(&unit.shared)));
        let times = UnitTimes { taken: now, busy: self.busy_until(now), ..UnitTimes::default() };
        Some(Taken { unit, chain: self.chain, durable: self.durable, end, times })
    }

    /// Whether leading is impossible: nobody can take the next unit or launch a formed one.
    pub fn is_busy(&self, options: &Options) -> bool {
        let has_slot = self.has_slot(options);
        let launches = has_slot && !self.formed.is_empty();
        let takes = self.forming.is_none()
            && (has_slot || !self.full.is_empty() && self.formed.len() < AHEAD);
        !launches && !takes
    }

    /// Whether another unit may be given to the media.
    fn has_slot(&self, options: &Options) -> bool {
        self.in_flight() < options.units_in_flight as u64
            && self.media.iter().all(|m| !m.is_active() || m.exposed <= options.exposure_bytes)
    }

    /// Takes in what was formed.
    pub fn take_formed(&mut self, taken: Taken, (bytes, crc): (Bytes, u32), now: u64) {
        let Taken { unit, end, mut times, .. } = taken;
        self.forming = None;
        self.chain = crc;
        times.formed = now;
        self.formed.push_back(Formed { unit, end, times, bytes, crc });
    }

    /// Gives units that are formed to the media, as far as there are slots; returns the writes.
    pub fn launch_formed(&mut self, sizes: &Sizes, options: &Options, now: u64) -> Vec<Write> {
        let mut writes = Vec::new();
        while !self.formed.is_empty() && self.poisoned.is_none() && self.has_slot(options) {
            if let Some(formed) = self.formed.pop_front() {
                self.launch(sizes, options, formed, now, &mut writes);
            }
        }
        writes
    }

    /// The committers of a unit that is not yet with the media, by where the log continues after it.
    pub fn before_launch(&self) -> impl Iterator<Item = (u64, &Arc<Shared>)> {
        let formed = self.formed.iter().map(|formed| (formed.end, &formed.unit.shared));
        formed.chain(self.forming.iter().map(|(end, shared)| (*end, shared)))
    }
}
