//! The housekeeper: looks after the log every few milliseconds while it is used, writes the beacon
//! when it is not used any more, and ends.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{EnvExt, IoError, IoErrorKind, Op as IoOp};

use crate::on_disk::block::BEACON;
use crate::options::Options;
use crate::writer::log::Inner;
use crate::writer::state::State;

/// What the housekeeper found.
enum Look {
    /// Something is on its way, or was a moment ago.
    Busy,
    /// A beacon was queued.
    Beacon,
    /// Nothing will happen unless somebody comes.
    Idle,
}

impl Inner {
    pub fn start_housekeeper(self: &Arc<Self>) {
        // A log that was dropped must not write a beacon where the next one may write already.
        let (inner, env) = (Arc::downgrade(self), Arc::clone(&self.env));
        let pause = self.options.beacon_after;
        let task = async move {
            loop {
                env.sleep(pause).await;
                match inner.upgrade() {
                    Some(inner) if inner.keep_house() => {}
                    _ => return,
                }
            }
        };
        self.env.spawn("redo housekeeper", Box::pin(task));
    }

    /// Looks once; whether there will be something to look after.
    fn keep_house(self: &Arc<Inner>) -> bool {
        let now = self.now();
        let mut settled = Vec::new();
        let look = self.with(|state| {
            state.check_media(&self.options, now);
            state.acknowledge(&self.options, now, &mut settled);
            state.look(&self.sizes, &self.options, now)
        });
        self.settle(settled);
        match look {
            Look::Idle => return false,
            Look::Busy | Look::Beacon => self.lead_for_others(),
        }
        true
    }
}

impl State {
    fn look(&mut self, sizes: &crate::writer::queue::Sizes, options: &Options, now: u64) -> Look {
        let pending = self.media.iter().any(|m| m.is_fed() && !m.outstanding.is_empty());
        if self.poisoned.is_some() {
            self.housekeeper = false;
            return Look::Idle;
        }
        // A log whose committers are delayed is not idle: a beacon would take the room they spare.
        if !self.is_quiet() || pending || self.has_failing() || self.paused > 0 {
            return Look::Busy;
        }
        if self.last_was_beacon || self.closing || self.last_launch == 0 {
            self.housekeeper = false;
            return Look::Idle;
        }
        let idle = Duration::from_nanos(now.saturating_sub(self.last_ack));
        if idle < options.beacon_after {
            return Look::Busy;
        }
        match self.flag_unit(sizes, BEACON) {
            Some(_) => Look::Beacon,
            // The group is full and none is free: the next commit will say so.
            None => {
                self.housekeeper = false;
                Look::Idle
            }
        }
    }

    /// Gives up media that are late: beyond the timeout, or beyond the exposure limits where the
    /// others are enough.
    pub fn check_media(&mut self, options: &Options, now: u64) {
        for medium in 0..self.media.len() {
            let active = self.active();
            let at = &self.media[medium];
            // One that does not count can always be done without.
            let counts = at.is_active();
            if !at.is_fed() || (counts && active.count_ones() < 2) {
                continue;
            }
            let oldest = at.outstanding.values().chain(at.headers.values()).min().copied();
            let waited = oldest.map_or(0, |since| now.saturating_sub(since));
            let others = active & !(1 << medium);
            let enough = !counts || others.count_ones() >= self.quorum(active);
            let fed_from = at.fed_from;
            let acked = (self.unacked - self.base) as usize;
            let lacks = |unit: &&super::state::Tracked| unit.copies & 1 << medium == 0;
            let before = fed_from.saturating_sub(self.base) as usize;
            let lacked = self.tracked.iter().take(acked).skip(before).find(lacks);
            let age = lacked.map_or(0, |unit| now.saturating_sub(unit.times.acked));
            let stats = &mut self.media[medium].stats;
            stats.exposure_time_max = stats.exposure_time_max.max(Duration::from_nanos(age));
            let exposed = Duration::from_nanos(age) >= options.exposure_age
                || self.media[medium].exposed > options.exposure_bytes;
            if Duration::from_nanos(waited) >= options.write_timeout || (exposed && enough) {
                let after_ms = waited.max(age) / 1_000_000;
                let name = self.media[medium].name.as_str().into();
                let kind = IoErrorKind::Timeout { after_ms };
                self.media[medium].error = Some(IoError::new(kind, &name, IoOp::Write, 0, 0));
                self.give_up(medium);
            }
        }
    }
}
