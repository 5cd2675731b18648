//! The handle of an open log.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{EnvExt, SharedEnv};
use cellar_wait::{Event as WaitEvent, Session};
use event_listener::Event;

use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::block::{BLOCK_HEADER, SWITCH, Seed};
use crate::on_disk::record::{RECORD_BYTES_MAX, RECORD_HEADER, RecordHeader};
use crate::options::{Control, Options};
use crate::stats::{MediumReport, Stats};
use crate::writer::ahead::Taken;
use crate::writer::flight::Settled;
use crate::writer::op::{Op, Write};
use crate::writer::queue::Sizes;
use crate::writer::state::{Health, MediumAt, State};
use crate::writer::unit::{Context, Shared, form};
use crate::writer::wait::Waiting;

/// After a committer has waited in vain for others, this many lead at once.
const HASTE: u32 = 64;

/// An open log. Clones are handles of the same log; [`close`](Log::close) shuts it down cleanly, and
/// dropping it amounts to a crash.
#[derive(Clone)]
pub struct Log(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        let group = |place: &usize| (state.groups[*place].sequence, state.groups[*place].prepared);
        f.debug_struct("Log")
            .field("incarnation", &self.0.incarnation)
            .field("checkpoint", &state.checkpoint)
            .field("durable", &state.durable)
            .field("at", &state.at)
            .field("current", &group(&state.current))
            .field("next", &state.next.iter().map(group).collect::<Vec<_>>())
            .field("queued_bytes", &state.queued_bytes)
            .field("line", &state.line)
            .field("in_flight", &state.in_flight())
            .field("tracked", &state.tracked.len())
            .field("forming", &state.forming.is_some())
            .field("formed", &state.formed.len())
            .field("media", &state.media.iter().map(|m| &m.health).collect::<Vec<_>>())
            .field("control_writer", &state.control_writer)
            .field("stopped", &state.poisoned)
            .finish_non_exhaustive()
    }
}

/// What all handles share.
pub(crate) struct Inner {
    pub env: SharedEnv,
    pub control: Arc<dyn Control>,
    pub session: Session,
    pub options: Options,
    pub block_size: u32,
    pub sizes: Sizes,
    pub seed: Seed,
    pub incarnation: u32,
    /// The first block of this incarnation.
    pub start: u64,
    state: Mutex<State>,
    /// There may be room now, or the log has stopped.
    pub room: Event,
    /// The control writer has made something durable, a medium has a header, or the log has stopped.
    pub control_written: Event,
    /// The log is being closed and has no writes outstanding.
    pub quiet: Event,
    /// A finished group is ready to be archived, or the log has stopped.
    pub finished: Event,
    pub synch: Synch,
    /// Nobody can lead now; whoever makes it possible again leads.
    is_busy: AtomicBool,
    pub group_commit: GroupCommit,
}

/// Whether others commit too, so that a committer that lets them go first can write for them.
#[derive(Default)]
pub(crate) struct GroupCommit {
    is_there: AtomicBool,
    /// This many committers do not let others go first, because doing so took long and nobody came.
    in_haste: AtomicU32,
}

impl GroupCommit {
    /// Whether a committer lets the tasks that are ready go before it leads.
    pub fn goes_first(&self) -> bool {
        let fewer = |haste: u32| haste.checked_sub(1);
        self.is_there.load(Ordering::Relaxed)
            && self.in_haste.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    }

    /// Nobody came for a long time.
    pub fn stayed_away(&self) {
        self.in_haste.store(HASTE, Ordering::Relaxed);
    }
}

/// What a leader does next.
struct Work {
    writes: Vec<Write>,
    taken: Option<Taken>,
    starts_timer: bool,
}

/// How often somebody waited for a record to be durable.
#[derive(Default)]
pub(crate) struct Synch {
    writes: AtomicU64,
    nanos: AtomicU64,
}

impl Synch {
    /// Counts one that took so many nanoseconds.
    pub fn count(&self, nanos: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// What recovery hands to the writer.
pub(crate) struct Opening {
    pub env: SharedEnv,
    pub control: Arc<dyn Control>,
    pub session: Session,
    pub options: Options,
    pub seed: Seed,
    pub incarnation: u32,
    pub state: State,
}

impl Inner {
    pub fn new(opening: Opening) -> Arc<Inner> {
        let Opening { env, control, session, options, seed, incarnation, state } = opening;
        let block_size = state.control.block_size;
        Arc::new(Inner {
            sizes: Sizes::new(block_size, &options),
            start: state.at,
            env,
            control,
            session,
            options,
            block_size,
            seed,
            incarnation,
            state: Mutex::new(state),
            room: Event::new(),
            control_written: Event::new(),
            quiet: Event::new(),
            finished: Event::new(),
            synch: Synch::default(),
            is_busy: AtomicBool::new(false),
            group_commit: GroupCommit::default(),
        })
    }

    pub fn now(&self) -> u64 {
        self.env.now().0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Looks at or changes the state, and starts the control writer if there is work for it.
    pub fn with<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let control_writer = !state.control_writer && state.has_control_work();
        state.control_writer |= control_writer;
        let stopped = state.drain_stopped();
        let has_stopped = state.poisoned.is_some();
        let quiet = state.closing && (has_stopped || state.is_quiet());
        let finished =
            state.archiver_waits && (has_stopped || state.closing || state.to_archive().is_some());
        state.archiver_waits &= !finished;
        let has_left = std::mem::take(&mut state.has_left);
        self.is_busy.store(state.is_busy(&self.options), Ordering::Release);
        self.group_commit.is_there.store(state.has_company(), Ordering::Relaxed);
        drop(state);
        if has_left {
            self.control_written.notify(usize::MAX);
        }
        if finished {
            self.finished.notify(usize::MAX);
        }
        if has_stopped {
            self.room.notify(usize::MAX);
            self.control_written.notify(usize::MAX);
            self.settle(stopped);
        }
        if quiet {
            self.quiet.notify(usize::MAX);
        }
        if control_writer {
            let inner = Arc::clone(self);
            self.env.spawn(
                "redo control_writer",
                Box::pin(async move { inner.control_writer().await }),
            );
        }
        result
    }

    /// Tells committers how it went, with no lock held.
    pub fn settle(&self, settled: Settled) {
        for (unit, outcome) in settled {
            unit.settle(outcome);
        }
    }

    /// Forms and submits what is queued, while there are free slots. The writes are added to `ops`; the
    /// caller must make sure that they are polled.
    pub fn lead(self: &Arc<Self>, ops: &mut Vec<Op>) {
        // Whoever queued something has held the lock since: this is no older than that.
        if self.is_busy.load(Ordering::Acquire) {
            return;
        }
        let mut next = self.with(|state| self.next_work(state));
        loop {
            let Work { writes, taken, starts_timer } = next;
            if starts_timer {
                self.start_idle_timer();
            }
            ops.extend(writes.into_iter().map(|write| Op::new(write, &self.env)));
            let Some(mut taken) = taken else { return };
            let context = Context {
                block_size: self.block_size as usize,
                seed: self.seed,
                incarnation: self.incarnation,
                chain: taken.chain,
                durable: taken.durable,
                start: self.start,
            };
            let formed = form(&taken.unit, &context);
            // Freed here: others wait for the lock.
            taken.unit.chunks = Vec::new();
            next = self.with(|state| {
                state.take_formed(taken, formed, self.now());
                self.next_work(state)
            });
            if self.room.total_listeners() > 0 {
                self.room.notify(usize::MAX);
            }
        }
    }

    /// Launches what is formed, and takes what is to be formed.
    fn next_work(&self, state: &mut State) -> Work {
        let (sizes, options, now) = (&self.sizes, &self.options, self.now());
        let writes = state.launch_formed(sizes, options, now);
        let taken = state.take(sizes, options, now);
        let starts_timer = !writes.is_empty() && !std::mem::replace(&mut state.idle_timer, true);
        Work { writes, taken, starts_timer }
    }

    /// Leads for records whose committer does not wait, or cannot lead now.
    pub fn lead_for_others(self: &Arc<Self>) {
        let mut ops = Vec::new();
        self.lead(&mut ops);
        self.hand_over(ops);
    }

    /// Makes somebody else drive the writes in flight.
    pub fn hand_over(self: &Arc<Self>, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        let unit = self.lock().tracked.back().map(|unit| Arc::clone(&unit.shared));
        let ops = match unit {
            Some(unit) => unit.hand(ops),
            None => Err(ops),
        };
        if let Err(ops) = ops {
            self.drive(ops);
        }
    }

    /// Drives writes to their end in a task of their own.
    pub fn drive(self: &Arc<Self>, ops: Vec<Op>) {
        let inner = Arc::clone(self);
        self.env.spawn("redo writes", Box::pin(super::wait::drive(inner, ops)));
    }

    /// The error for a call to a log that has stopped.
    pub fn stopped(state: &State) -> Option<Error> {
        let why = state.poisoned.clone();
        let why = why.or_else(|| state.closing.then(|| "it was closed".into()));
        why.map(|why| Error::Stopped { why })
    }
}

impl Log {
    /// The LSN below which everything is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.0.lock().durable().lsn()
    }

    /// The end of the log: the next record begins here or later.
    pub fn end_lsn(&self) -> Lsn {
        let state = self.0.lock();
        let open = state.open.as_ref().map(|unit| unit.first + unit.blocks(self.0.sizes.payload));
        Abn(open.unwrap_or(state.at)).lsn()
    }

    /// Ends the current group and waits until that is durable. Returns the LSN at which the log
    /// continues.
    ///
    /// # Errors
    /// [`Error::Stopped`]; [`Error::OutcomeUnknown`].
    #[boxed]
    pub async fn switch(&self, session: &Session) -> Result<Lsn, Error> {
        let wait = session.begin(WaitEvent::LOG_FILE_SWITCH_COMPLETION, [0; 3], self.0.now());
        let placed = loop {
            let listener = self.0.room.listen();
            let placed = self.0.with(|state| match Inner::stopped(state) {
                Some(error) => Err(error),
                None => Ok(state.flag_unit(&self.0.sizes, SWITCH)),
            })?;
            match placed {
                Some(placed) => break placed,
                None => listener.await,
            }
        };
        Waiting::new(&self.0, placed.unit).await?;
        wait.end(self.0.now());
        Ok(self.end_lsn())
    }

    /// The statistics since the log was opened.
    pub fn stats(&self) -> Stats {
        let mut stats = self.0.lock().stats.clone();
        let Synch { writes, nanos } = &self.0.synch;
        stats.redo_synch_writes = writes.load(Ordering::Relaxed);
        stats.redo_synch_time = Duration::from_nanos(nanos.load(Ordering::Relaxed));
        stats
    }

    /// The scoreboard: a report on each medium.
    pub fn media(&self) -> Vec<MediumReport> {
        let state = self.0.lock();
        let report = |medium: &crate::writer::state::MediumAt| MediumReport {
            name: medium.name.clone(),
            active: medium.is_active(),
            exposed: medium.exposed,
            outstanding: medium.outstanding.len() + medium.headers.len(),
            error: medium.error.as_ref().map(ToString::to_string),
            stats: medium.stats.clone(),
        };
        state.media.iter().filter(|medium| !medium.name.is_empty()).map(report).collect()
    }

    /// The number of blocks of the ring in use, and the number of all its blocks. From 80 % on commits
    /// are delayed, see [`Options::pace_max`].
    pub fn ring(&self) -> (u64, u64) {
        self.0.lock().ring()
    }

    /// The number of blocks that recovery would read, and the number of blocks of the ring. To be called
    /// at each commit, to decide about a checkpoint.
    pub fn behind(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.durable.saturating_sub(state.checkpoint), state.ring().1)
    }

    /// Why the log has stopped, if it has.
    pub fn stopped(&self) -> Option<Arc<str>> {
        self.0.lock().poisoned.clone()
    }

    /// Whether a write to a medium, or to the control data, may still be under way. After a log has
    /// stopped it must not be opened anew before these have ended: a late write could overwrite what the
    /// new log acknowledges.
    pub fn is_owed(&self) -> bool {
        let state = self.0.lock();
        state.control_writer || !state.media.iter().all(|medium| medium.is_answered())
    }

    /// Stops the log as the end of its program would: queued records are never written, and their
    /// committers learn that the outcome is unknown. Returns when all outstanding writes are answered, so
    /// that the log may be opened anew; returns the failed media that have not answered in time, which
    /// must not return to the log yet.
    ///
    /// # Errors
    /// [`Error::MediumBusy`] for another one that has not answered in time; [`Error::Stopped`] where
    /// control data are still being written.
    #[boxed]
    pub async fn abandon(&self) -> Result<Vec<String>, Error> {
        let inner = &self.0;
        inner.with(|state| state.poison("it was abandoned".into()));
        let until = inner.env.now().plus(inner.options.write_timeout);
        loop {
            let is_late = inner.env.now() >= until;
            let (works, owing) = inner.with(|state| {
                let owes = |m: &&MediumAt| !m.is_answered();
                let is_failed = |m: &MediumAt| matches!(m.health, Health::Failed);
                let owing = state.media.iter().filter(owes);
                (
                    state.control_writer,
                    owing.map(|m| (m.name.clone(), is_failed(m))).collect::<Vec<_>>(),
                )
            });
            if !works && (owing.is_empty() || is_late && owing.iter().all(|(_, failed)| *failed)) {
                return Ok(owing.into_iter().map(|(name, _)| name).collect());
            }
            if is_late {
                let medium = owing.into_iter().find(|(_, failed)| !failed).map(|(name, _)| name);
                let why = "control data are still being written".into();
                let stopped = Error::Stopped { why };
                return Err(medium.map_or(stopped, |medium| Error::MediumBusy { medium }));
            }
            inner.env.sleep(inner.options.heartbeat_after).await;
        }
    }

    pub(super) fn header(&self, kind: u8, flags: u8, body: &Bytes) -> Result<RecordHeader, Error> {
        let bytes = body.len() as u64;
        // There is room for one block in every log.
        if RECORD_HEADER + body.len() > self.0.sizes.payload {
            let max = self.record_bytes_max();
            if bytes > max {
                return Err(Error::RecordTooLong { bytes, max });
            }
        }
        Ok(RecordHeader { length: bytes as u32, kind, flags })
    }

    /// The length limit of a record in this log, in bytes: what fits when all groups but the current one
    /// are free.
    pub fn record_bytes_max(&self) -> u64 {
        let state = self.0.lock();
        let others =
            (0..state.groups.len()).filter(|g| *g != state.current && !state.groups[*g].dropped);
        let blocks: u64 = others.map(|g| state.groups[g].capacity).sum();
        let payload = u64::from(self.0.block_size) - BLOCK_HEADER as u64;
        (blocks * payload).saturating_sub(RECORD_HEADER as u64).min(RECORD_BYTES_MAX as u64)
    }
}

impl State {
    /// The unit that must be durable for all below `lsn` to be; `None` if it is already.
    pub(super) fn unit_below(&self, sizes: &Sizes, lsn: Lsn) -> Result<Option<Arc<Shared>>, Error> {
        let end = lsn.0.div_ceil(crate::lsn::LSN_PER_BLOCK);
        if end <= self.durable {
            return Ok(None);
        }
        if let Some(error) = Inner::stopped(self).filter(|_| self.poisoned.is_some()) {
            return Err(error);
        }
        let tracked = self.tracked.iter().find(|unit| unit.end >= end).map(|unit| &unit.shared);
        let tracked = tracked.or_else(|| {
            self.before_launch().find(|(behind, _)| *behind >= end).map(|(_, shared)| shared)
        });
        let mut queued = self.full.iter().chain(&self.open);
        let queued = queued.find(|u| u.first + u.blocks(sizes.payload) >= end).map(|u| &u.shared);
        match tracked.or(queued) {
            Some(unit) => Ok(Some(Arc::clone(unit))),
            None => {
                let allowed = format!("up to {}", Abn(self.at).lsn().0);
                Err(Error::BadValue { what: "LSN", value: lsn.0, allowed })
            }
        }
    }
}
