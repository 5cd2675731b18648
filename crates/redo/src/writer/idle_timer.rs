//! The idle timer: checks the log every few milliseconds while it is in use, writes the heartbeat when
//! it falls idle, and ends.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::EnvExt;

use crate::on_disk::block::HEARTBEAT;
use crate::on_disk::header::Quorum;
use crate::options::Options;
use crate::writer::log::Inner;
use crate::writer::skip::Skip;
use crate::writer::state::{MediumAt, State, Tracked};

/// What the idle timer found.
enum Look {
    /// Something is on its way, or was a moment ago.
    Busy,
    /// A heartbeat was queued.
    Heartbeat,
    /// Nothing will happen unless somebody comes.
    Idle,
}

impl Inner {
    pub fn start_idle_timer(self: &Arc<Self>) {
        // A log that was dropped must not write a heartbeat where the next one may write already.
        let (inner, env) = (Arc::downgrade(self), Arc::clone(&self.env));
        let pause = self.options.heartbeat_after;
        let task = async move {
            loop {
                let before = env.now();
                env.sleep(pause).await;
                let late = env.now().since(before).saturating_sub(pause);
                match inner.upgrade() {
                    Some(inner) if inner.run_maintenance(late) => {}
                    _ => return,
                }
            }
        };
        self.env.spawn("redo idle timer", Box::pin(task));
    }

    /// Checks once; the timer fired this much later than it should. Returns whether there will be
    /// something to check again.
    fn run_maintenance(self: &Arc<Inner>, late: Duration) -> bool {
        let now = self.now();
        let mut settled = Vec::new();
        let look = self.with(|state| {
            state.stood_still(late);
            state.check_media(&self.options, now);
            state.acknowledge(&self.options, now, &mut settled);
            state.look(&self.sizes, &self.options, now)
        });
        self.settle(settled);
        match look {
            Look::Idle => return false,
            Look::Busy | Look::Heartbeat => self.lead_for_others(),
        }
        true
    }
}

impl State {
    fn look(&mut self, sizes: &crate::writer::queue::Sizes, options: &Options, now: u64) -> Look {
        let pending = self.media.iter().any(|m| m.is_fed() && !m.outstanding.is_empty());
        if self.poisoned.is_some() {
            self.idle_timer = false;
            return Look::Idle;
        }
        // A log whose committers are delayed, or about to append what they reserved, is not idle: a
        // heartbeat would take their room.
        let is_idle = self.is_quiet() && self.paused == 0 && self.reserved.blocks == 0;
        if !is_idle || pending || self.has_failing() {
            return Look::Busy;
        }
        if self.last_was_heartbeat || self.closing || self.last_launch == 0 {
            self.idle_timer = false;
            return Look::Idle;
        }
        let idle = Duration::from_nanos(now.saturating_sub(self.last_ack));
        if idle < options.heartbeat_after {
            return Look::Busy;
        }
        match self.flag_unit(sizes, HEARTBEAT) {
            Some(_) => Look::Heartbeat,
            // The group is full and none is free: the next commit will say so.
            None => {
                self.idle_timer = false;
                Look::Idle
            }
        }
    }

    /// Whether commits wait for `medium` alone, and would not if it had failed.
    fn is_held_up_by(&self, medium: usize) -> bool {
        let (active, at) = (self.active(), &self.media[medium]);
        let others = active & !(1 << medium);
        let is_auto = self.control.quorum == Quorum::Auto;
        let enough = is_auto || others.count_ones() >= self.quorum(active);
        // While the failure of one medium is being recorded, another may be late with blocks that only
        // that one and the rest have: it is waited for.
        if !at.is_active() || others == 0 || !enough || self.has_failing() {
            return false;
        }
        let lacks = |unit: &Tracked| unit.copies & 1 << medium == 0;
        let suffices = |unit: &Tracked| (unit.copies & others).count_ones() >= self.quorum(others);
        // A unit that the others are enough for.
        let unit = self.tracked.get((self.unacked - self.base) as usize);
        if unit.is_some_and(|unit| lacks(unit) && suffices(unit)) {
            return true;
        }
        // The next group, when the control writer waits for a header of it.
        let answered = |number: usize| self.media[number].headers.is_empty();
        let waits_for_group = self.front().is_some_and(|unit| !self.groups[unit.group].prepared);
        let the_others =
            || (0..self.media.len()).all(|number| others & 1 << number == 0 || answered(number));
        if waits_for_group && !answered(medium) && the_others() {
            return true;
        }
        // Room in the ring: a group is not reused while a medium lacks a block of it.
        let oldest = self.tracked.front().filter(|_| self.unacked > self.base);
        oldest.is_some_and(|unit| lacks(unit) && unit.copies & others == others)
            && self.waits_for_blocks_on_their_way()
    }

    /// Whether those who wait for room would have it if all media had all blocks.
    fn waits_for_blocks_on_their_way(&self) -> bool {
        let oldest = self.oldest_unused().filter(|_| !self.line.is_empty());
        oldest.is_some_and(|group| {
            let at = &self.groups[group];
            self.tracked.iter().any(|unit| unit.group == group)
                && self.checkpoint.min(self.pin.unwrap_or(u64::MAX)) >= at.end()
                && !(self.control.archiving && self.archived < at.sequence)
        })
    }

    /// How long commits have waited for `medium` alone while it answered nothing. It counts from when
    /// it was first waited for alone, and not while another medium owes answers too: a stall of all
    /// media together is not the fault of one.
    fn held_up(&mut self, medium: usize, options: &Options, now: u64) -> Duration {
        let owes = |at: &MediumAt| {
            let silent = at.oldest_write().map_or(0, |since| now - now.min(since.max(at.answered)));
            at.is_active() && Duration::from_nanos(silent) >= options.hold_up / 2
        };
        let others = self.media.iter().enumerate().filter(|(number, _)| *number != medium);
        let all_stall = others.map(|(_, at)| at).any(owes);
        let is_held_up = !all_stall && self.is_held_up_by(medium);
        let at = &mut self.media[medium];
        at.held_up_since = is_held_up.then(|| at.held_up_since.unwrap_or(now));
        // Nothing of an earlier time counts, when nobody looked.
        let since = at.held_up_since.zip(at.oldest_write());
        let since = since.map_or(now, |(since, oldest)| since.max(oldest).max(at.answered));
        Duration::from_nanos(now.saturating_sub(since))
    }

    /// The threads were busy elsewhere for this long: the answers of a medium may not have been
    /// handled either, and no medium is given up for that.
    fn stood_still(&mut self, time: Duration) {
        for at in &mut self.media {
            at.held_up_since = at.held_up_since.map(|since| since + time.as_nanos() as u64);
        }
    }

    /// Gives up media that are late: past the timeout, past the exposure limits if the others are
    /// enough, or silent while commits wait for them alone.
    pub fn check_media(&mut self, options: &Options, now: u64) {
        for medium in 0..self.media.len() {
            let active = self.active();
            let at = &self.media[medium];
            // A medium that does not count is never needed.
            let counts = at.is_active();
            if !at.is_fed() || (counts && active.count_ones() < 2) {
                continue;
            }
            let waited = at.oldest_write().map_or(0, |since| now.saturating_sub(since));
            let holds_up = self.held_up(medium, options, now) >= options.hold_up;
            let at = &self.media[medium];
            let others = active & !(1 << medium);
            let enough = !counts || others.count_ones() >= self.quorum(active);
            let fed_from = at.fed_from;
            let acked = (self.unacked - self.base) as usize;
            let lacks = |unit: &&Tracked| unit.copies & 1 << medium == 0;
            let before = fed_from.saturating_sub(self.base) as usize;
            let lacked = self.tracked.iter().take(acked).skip(before).find(lacks);
            let age = lacked.map_or(0, |unit| now.saturating_sub(unit.times.acked));
            let (waited, age) = (Duration::from_nanos(waited), Duration::from_nanos(age));
            let stats = &mut self.media[medium].stats;
            stats.exposure_time_max = stats.exposure_time_max.max(age);
            // A limit of its own comes before those of what it lacks.
            let reason = if waited >= options.write_timeout || holds_up {
                Skip::Silent
            } else if enough && age >= options.exposure_age {
                Skip::Behind
            } else if enough && self.media[medium].exposed > options.exposure_bytes {
                Skip::Exposed
            } else {
                continue;
            };
            // Where commits waited for it: its answer will not count any more.
            self.media[medium].stats.outliers_actual += u64::from(holds_up);
            self.give_up_late(medium, reason, waited.max(age));
        }
    }
}
