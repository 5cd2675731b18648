//! The control_writer: writes everything outside the blocks that must be durable, one thing after the
//! other.
//!
//! It is a task that lives while there is work: groups to be written next, media that failed, a
//! checkpoint that moved. In an open log, only it stores control data and writes headers.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Device, Instant};
use cellar_wait::Event as WaitEvent;
use futures_util::future::{Either, select};

use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::HEADER_BYTES;
use crate::on_disk::control::{Clean, ControlData, GroupEntry};
use crate::on_disk::header::{GroupHeader, MediumState};
use crate::writer::log::{Inner, Log};
use crate::writer::op::write_durably;
use crate::writer::skip::Skip;
use crate::writer::state::{GroupAt, Health, State};

/// The changes to be made durable now.
struct Plan {
    control: ControlData,
    /// Media whose failure it records.
    failing: Vec<usize>,
    /// Media that count for the quorum from then on.
    joining: Vec<usize>,
    /// Groups that get headers, by place.
    headers: Vec<usize>,
    /// Groups that the control data does not know any more, by place.
    dropped: Vec<usize>,
}

impl Plan {
    /// The control data as it is stored.
    fn encode(&self) -> Vec<u8> {
        let mut control = self.control.clone();
        let mut place = 0..;
        control.groups.retain(|_| place.next().is_none_or(|g| !self.dropped.contains(&g)));
        control.encode()
    }
}

/// The headers that one medium gets.
struct HeaderWrites {
    medium: usize,
    id: u64,
    writes: Vec<(Arc<dyn Device>, u64, Bytes)>,
}

impl State {
    /// An LSN among block numbers that a switch has skipped is where the log went on.
    fn past_skipped(&self, lsn: Lsn) -> Lsn {
        let abn = lsn.abn().0;
        let skipped = |g: &&GroupAt| g.used.is_some_and(|used| (used..g.end()).contains(&abn));
        self.groups.iter().find(skipped).map_or(lsn, |group| Abn(group.end()).lsn())
    }

    pub fn has_control_work(&self) -> bool {
        self.poisoned.is_none()
            && (self.control_dirty
                || self.to_join() != 0
                || (self.has_failing() && self.may_record_failures()))
    }

    fn plan(&mut self) -> Option<Plan> {
        if !self.has_control_work() {
            self.control_writer = false;
            return None;
        }
        self.control_dirty = false;
        let join = self.to_join();
        let joining: Vec<usize> = (0..self.media.len()).filter(|m| join & 1 << m != 0).collect();
        for medium in &joining {
            self.media[*medium].health = Health::Joining;
            self.control.media[*medium].state = MediumState::Active;
        }
        let mut failing = Vec::new();
        if self.has_failing() && self.may_record_failures() {
            for (number, medium) in self.media.iter().enumerate() {
                if let Health::Failing { since } = medium.health {
                    let state = MediumState::Failed { since: Abn(since) };
                    self.control.media[number].state = state;
                    failing.push(number);
                }
            }
        }
        for (entry, group) in self.control.groups.iter_mut().zip(&self.groups) {
            (entry.sequence, entry.first) = (group.sequence, Abn(group.first));
        }
        // From the oldest group that is still being written; queued records may already have passed
        // through several.
        let oldest = self.tracked.front().map(|unit| unit.group);
        let oldest = oldest.or(self.formed.front().map(|formed| formed.unit.group));
        let oldest = oldest.or(self.full.front().map(|unit| unit.group)).unwrap_or(self.current);
        let oldest = self.groups[oldest].sequence;
        // Headers record which media come and go: control data that does not, because its last write
        // was lost, is recognized as old.
        let in_use = |group: &usize| {
            let group = &self.groups[*group];
            group.sequence >= oldest
                && !group.dropped
                && (!failing.is_empty() || !joining.is_empty() || !group.has_headers)
        };
        let headers = (0..self.groups.len()).filter(in_use).collect();
        let mask = |media: &[usize]| media.iter().fold(0, |mask, medium| mask | 1 << medium);
        (self.recording, self.enlisting) = (mask(&failing), mask(&joining));
        self.control.durable = Abn(self.durable);
        self.control.generation += 1;
        forget_incarnations(&mut self.control);
        let dropped = (0..self.groups.len()).filter(|g| self.groups[*g].dropped).collect();
        Some(Plan { control: self.control.clone(), failing, joining, headers, dropped })
    }

    /// The headers that the media get for a plan, and marks them as on their way.
    fn header_writes(&mut self, plan: &Plan, incarnation: u32, now: u64) -> Vec<HeaderWrites> {
        let mut all = Vec::new();
        for medium in 0..self.media.len() {
            if !self.media[medium].is_fed() || plan.headers.is_empty() {
                continue;
            }
            let mut writes = Vec::new();
            for group in &plan.headers {
                let at = &self.groups[*group];
                let header = header_of(&plan.control, *group, medium, incarnation);
                let bytes = Bytes::copy_from_slice(&header.encode());
                let Some(device) = &at.files[medium] else { continue };
                // While one copy is written the other must be whole.
                let mut order = [0, at.size - HEADER_BYTES as u64];
                if at.bad_second & 1 << medium != 0 {
                    order.reverse();
                }
                let one = |offset| (Arc::clone(device), offset, bytes.clone());
                writes.extend(order.map(one));
            }
            let id = self.next_write;
            self.next_write += 1;
            self.media[medium].headers.insert(id, now);
            all.push(HeaderWrites { medium, id, writes });
        }
        all
    }

    /// Applies a plan that is durable. Returns whether it was the first of this opening.
    fn apply(&mut self, plan: &Plan, incarnation: u32) {
        for medium in &plan.failing {
            self.media[*medium].health = Health::Failed;
        }
        for medium in &plan.joining {
            // It may have failed meanwhile.
            if matches!(self.media[*medium].health, Health::Joining) {
                self.media[*medium].health = Health::Active;
            }
        }
        (self.recording, self.enlisting) = (0, 0);
        for group in &plan.headers {
            // It may have been assigned anew meanwhile: then they say what it was.
            let is_as_planned =
                self.groups[*group].sequence == plan.control.groups[*group].sequence;
            self.groups[*group].has_headers |= is_as_planned;
        }
        if plan.control.confirmed == incarnation {
            for (group, entry) in self.groups.iter_mut().zip(&plan.control.groups) {
                group.prepared |= group.has_headers && entry.sequence == group.sequence;
            }
        } else {
            // Every active medium now knows of this opening: one that does not know of it from here on
            // is stale.
            self.control.confirmed = incarnation;
            // Returning media have all that recovery may need, and now the headers too.
            for (entry, medium) in self.control.media.iter_mut().zip(&self.media) {
                if medium.is_active() {
                    entry.state = MediumState::Active;
                }
            }
            self.control_dirty = true;
        }
        self.stored = plan.control.generation;
        self.checkpoint = plan.control.checkpoint.abn().0;
        self.archived = plan.control.archived;
    }

    /// Whether enough headers have been written to go on.
    fn headers_done(&mut self, writes: &[(usize, u64)], waited: Duration, limit: Duration) -> bool {
        let waits = |state: &State, (medium, id): &(usize, u64)| {
            let at = &state.media[*medium];
            at.is_active() && at.headers.contains_key(id)
        };
        let late: Vec<usize> =
            writes.iter().filter(|w| waits(self, w)).map(|(medium, _)| *medium).collect();
        let active = self.active();
        let have = active.count_ones() - late.len() as u32;
        if waited >= limit && have >= self.quorum(active) {
            late.iter().for_each(|medium| self.give_up_late(*medium, Skip::Header, waited));
            return true;
        }
        late.is_empty()
    }
}

/// What the header of a group says on one medium.
pub(crate) fn header_of(
    control: &ControlData,
    group: usize,
    medium: usize,
    incarnation: u32,
) -> GroupHeader {
    let entry = &control.groups[group];
    let before = control.groups.iter().find(|g| g.sequence + 1 == entry.sequence);
    GroupHeader {
        database: control.database,
        group: entry.number,
        sequence: entry.sequence,
        first: entry.first,
        capacity: entry.capacity,
        block_size: control.block_size,
        size: entry.size,
        incarnation,
        previous_first: before.filter(|b| b.sequence > 0).map_or(Abn(0), |b| b.first),
        medium: medium as u8,
        quorum: control.quorum,
        generation: control.generation,
        media: control.media.iter().map(|medium| medium.state).collect(),
    }
}

/// Drops openings whose blocks neither recovery nor the archiver can still read.
pub(crate) fn forget_incarnations(control: &mut ControlData) {
    let owed = |g: &&GroupEntry| control.archiving && g.sequence > control.archived;
    let owed = control.groups.iter().filter(owed).map(|g| g.first).min();
    let checkpoint = control.checkpoint.abn();
    let oldest = owed.map_or(checkpoint, |first| first.min(checkpoint));
    let needed = control.incarnations.iter().rposition(|i| i.first <= oldest).unwrap_or(0);
    control.incarnations.drain(..needed);
}

impl Inner {
    #[boxed]
    pub async fn control_writer(self: Arc<Inner>) {
        while let Some(plan) = self.with(State::plan) {
            if let Err(error) = self.control.store(plan.encode()).await {
                self.with(|state| {
                    state.control_writer = false;
                    state.poison(format!("control data: {error}").into());
                });
                return;
            }
            let now = self.now();
            let writes = self.with(|state| state.header_writes(&plan, self.incarnation, now));
            self.write_headers(writes, now).await;
            let mut settled = Vec::new();
            self.with(|state| {
                if state.poisoned.is_none() {
                    state.apply(&plan, self.incarnation);
                    state.acknowledge(&self.options, self.now(), &mut settled);
                }
            });
            self.settle(settled);
            self.room.notify(usize::MAX);
            self.control_written.notify(usize::MAX);
            self.lead_for_others();
        }
    }

    /// Writes headers to all media at once, each copy A first; a medium that is late is given up
    /// where the others are enough.
    async fn write_headers(self: &Arc<Self>, all: Vec<HeaderWrites>, since: u64) {
        if all.is_empty() {
            return;
        }
        let ids: Vec<(usize, u64)> = all.iter().map(|w| (w.medium, w.id)).collect();
        for writes in all {
            let task = Box::pin(Arc::clone(self).write_headers_of(writes));
            self.env.spawn("redo headers", task);
        }
        let read_timeout = self.options.exposure_age;
        let limit = Instant(since).plus(read_timeout);
        loop {
            let listener = self.control_written.listen();
            let waited = self.env.now().since(Instant(since));
            let done = |state: &mut State| {
                state.poisoned.is_some() || state.headers_done(&ids, waited, read_timeout)
            };
            if self.with(done) {
                return;
            }
            let look = self.env.now().plus(self.options.heartbeat_after);
            let timer =
                self.env.sleep_until(if waited >= read_timeout { look } else { look.min(limit) });
            if let Either::Right(_) = select(listener, timer).await {
                self.with(|state| state.check_media(&self.options, self.now()));
            }
        }
    }

    async fn write_headers_of(self: Arc<Inner>, headers: HeaderWrites) {
        let HeaderWrites { medium, id, writes } = headers;
        let mut failed = None;
        for (device, offset, bytes) in writes {
            let wait = self.session.begin(WaitEvent::LOG_FILE_SINGLE_WRITE, [0; 3], self.now());
            let (result, _) = write_durably(&*device, &self.env, offset, vec![bytes]).await;
            let now = self.now();
            wait.end(now);
            self.with(|state| state.media[medium].answered = now);
            if let Err(error) = result {
                failed = Some(error);
                break;
            }
        }
        let mut settled = Vec::new();
        self.with(|state| {
            let at = &mut state.media[medium];
            at.headers.remove(&id);
            if at.is_fed() && failed.is_some() {
                at.error = failed;
                state.give_up(medium, Skip::Error);
                state.acknowledge(&self.options, self.now(), &mut settled);
            }
        });
        self.settle(settled);
        self.control_written.notify(usize::MAX);
    }

    /// Waits until control data of at least that generation is durable.
    pub async fn stored(self: &Arc<Self>, generation: u64) -> Result<(), Error> {
        loop {
            let listener = self.control_written.listen();
            let done = self.with(|state| match &state.poisoned {
                Some(why) => Err(Error::Stopped { why: Arc::clone(why) }),
                None => Ok(state.stored >= generation),
            })?;
            if done {
                return Ok(());
            }
            listener.await;
        }
    }

    /// Changes control data and waits until that is durable.
    pub async fn change_control(
        self: &Arc<Self>,
        change: impl FnOnce(&mut State),
    ) -> Result<(), Error> {
        let generation = self.with(|state| {
            change(state);
            state.control_dirty = true;
            state.control.generation + 1
        });
        self.stored(generation).await
    }

    /// Waits until the log may be written to.
    pub async fn opened(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            let listener = self.control_written.listen();
            let ready = self.with(|state| match &state.poisoned {
                Some(why) => Err(Error::Stopped { why: Arc::clone(why) }),
                None => Ok(state.control.confirmed == self.incarnation
                    && !state.control_dirty
                    && state.stored == state.control.generation),
            })?;
            if ready {
                return Ok(());
            }
            listener.await;
        }
    }
}

impl Log {
    /// Moves the start of recovery to `lsn`: everything below is durable elsewhere. Groups below it may
    /// be reused. Returns when that is durable; a checkpoint never moves back.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an LSN that is not durable yet; [`Error::Stopped`].
    #[boxed]
    pub async fn set_checkpoint(&self, lsn: Lsn) -> Result<(), Error> {
        self.0.with(|state| Inner::stopped(state).map_or(Ok(()), Err))?;
        let durable = self.durable_lsn();
        if lsn > durable {
            let allowed = format!("at most {}", durable.0);
            return Err(Error::BadValue { what: "checkpoint", value: lsn.0, allowed });
        }
        let change = |state: &mut State| {
            let lsn = state.checkpoint_for(lsn);
            if lsn.abn().0 >= state.durable {
                state.control.checkpoint_chain = state.durable_crc;
            }
            state.control.checkpoint = state.control.checkpoint.max(lsn);
        };
        self.0.change_control(change).await
    }

    /// Where recovery would begin after [`Log::set_checkpoint`]: past skipped blocks, at most where the
    /// log is durable. For a caller that stores the position elsewhere before the log does.
    pub fn checkpoint_for(&self, lsn: Lsn) -> Lsn {
        self.0.with(|state| state.checkpoint_for(lsn).max(state.control.checkpoint))
    }

    /// The LSN that recovery would begin at.
    pub fn checkpoint(&self) -> Lsn {
        self.0.with(|state| state.control.checkpoint)
    }

    /// Closes the log cleanly: everything is on every active medium, and the control data says where
    /// the log ends.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[boxed]
    pub async fn close(self) -> Result<(), Error> {
        self.0.with(|state| state.closing = true);
        self.0.room.notify(usize::MAX);
        self.0.lead_for_others();
        loop {
            let listener = self.0.quiet.listen();
            let quiet = self.0.with(|state| match &state.poisoned {
                Some(why) => Err(Error::Stopped { why: Arc::clone(why) }),
                None => Ok(state.is_quiet()),
            })?;
            if quiet {
                break;
            }
            listener.await;
        }
        let clean = |state: &mut State| {
            state.control.clean = Some(Clean { end: Abn(state.durable) });
        };
        self.0.change_control(clean).await
    }
}

impl State {
    /// A checkpoint moved past blocks that were never written, at most to where the log is durable.
    fn checkpoint_for(&self, lsn: Lsn) -> Lsn {
        let lsn = self.past_skipped(lsn);
        match lsn.abn().0 >= self.durable {
            true => Abn(self.durable).lsn(),
            false => lsn,
        }
    }
}
