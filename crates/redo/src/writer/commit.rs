//! A record on its way to be durable: how it is queued, and how its committer waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::{Event as WaitEvent, Session};

use crate::breakdown::Breakdown;
use crate::error::Error;
use crate::lsn::Lsn;
use crate::on_disk::record::RecordHeader;
use crate::writer::log::{Inner, Log};
use crate::writer::queue::Placed;
use crate::writer::state::State;
use crate::writer::unit::Shared;
use crate::writer::wait::Waiting;

/// The position of a record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The record begins here.
    pub lsn: Lsn,
    /// The record is durable when everything below is.
    pub end: Lsn,
}

/// A durable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The record begins here.
    pub lsn: Lsn,
    /// Everything below is durable.
    pub end: Lsn,
    /// Where the time went.
    pub breakdown: Breakdown,
}

/// A record that was appended, to be waited for with [`Log::wait`]. If this is dropped, the record becomes
/// durable all the same.
#[must_use = "nothing says when it is durable"]
pub struct Queued {
    /// Where it is.
    pub appended: Appended,
    unit: Arc<Shared>,
    asked: u64,
    queued: u64,
    /// How long all slots had been busy by then.
    busy: u64,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queued").field(&self.appended).finish()
    }
}

/// The wait for a record, made by [`Log::wait`].
#[must_use = "nothing happens unless it is polled"]
pub struct Wait<'a> {
    waiting: Waiting<'a>,
    queued: Queued,
    sync: Option<cellar_wait::Wait<'a>>,
}

impl Future for Wait<'_> {
    type Output = Result<Committed, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let times = ready!(Pin::new(&mut this.waiting).poll(context))?;
        let inner = this.waiting.log();
        let now = inner.now();
        if let Some(sync) = this.sync.take() {
            inner.synch.count(sync.end(now));
        }
        let Queued { appended: Appended { lsn, end }, asked, queued, busy, .. } = this.queued;
        let breakdown = times.breakdown(asked, queued, busy, now);
        Poll::Ready(Ok(Committed { lsn, end, breakdown }))
    }
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wait").field(&self.queued.appended).finish()
    }
}

impl Inner {
    /// Makes sure that a record that `place` puts into the log becomes durable, even if nobody waits for
    /// it.
    pub(super) fn queue_with(
        self: &Arc<Self>,
        asked: u64,
        place: impl FnOnce(&mut State) -> Result<Option<Placed>, Error>,
    ) -> Result<Option<Queued>, Error> {
        let queued = self.now();
        let (placed, starts_timer) = self.with(|state| {
            let placed = place(state);
            let timer =
                matches!(placed, Ok(Some(_))) && !std::mem::replace(&mut state.idle_timer, true);
            let busy = state.busy_until(queued);
            (placed.map(|placed| placed.map(|placed| (placed, busy))), timer)
        });
        if starts_timer {
            self.start_idle_timer();
        }
        Ok(placed?.map(|(Placed { lsn, end, unit }, busy)| Queued {
            appended: Appended { lsn, end },
            unit,
            asked,
            queued,
            busy,
        }))
    }

    /// Queues a record if there is room that nobody else waits for, and commits are not being delayed.
    fn try_queue(
        self: &Arc<Self>,
        asked: u64,
        header: RecordHeader,
        body: &Bytes,
    ) -> Result<Option<Queued>, Error> {
        self.queue_with(asked, |state| match Inner::stopped(state) {
            Some(error) => Err(error),
            None if state.pace(self.options.pace_max).is_some() => Ok(None),
            None => Ok(state.append(&self.sizes, header, body, None).ok()),
        })
    }

    /// Queues a record, waiting for room where there is none.
    async fn queue(
        self: &Arc<Self>,
        session: &Session,
        header: RecordHeader,
        body: &Bytes,
    ) -> Result<Queued, Error> {
        let asked = self.now();
        if let Some(queued) = self.try_queue(asked, header, body)? {
            return Ok(queued);
        }
        let append = |state: &mut State, turn| state.append(&self.sizes, header, body, turn);
        let Placed { lsn, end, unit } = self.in_turn(session, append).await?;
        let queued = self.now();
        let busy = self.with(|state| state.busy_until(queued));
        Ok(Queued { appended: Appended { lsn, end }, unit, asked, queued, busy })
    }
}

impl Log {
    /// Appends a record and waits until it is durable. Recovery returns `kind` and `flags` with it. If the
    /// future is dropped, the record may or may not be in the log afterwards. Committers drive each
    /// other's writes: a future that is neither polled nor dropped blocks the others.
    ///
    /// # Errors
    /// [`Error::RecordTooLong`]; [`Error::Stopped`]; [`Error::OutcomeUnknown`] when the log stops
    /// meanwhile.
    #[boxed]
    pub async fn commit(
        &self,
        session: &Session,
        kind: u8,
        flags: u8,
        body: Bytes,
    ) -> Result<Committed, Error> {
        let header = self.header(kind, flags, &body)?;
        let queued = self.0.queue(session, header, &body).await?;
        drop(body);
        self.wait(session, queued).await
    }

    /// Appends a record if that is possible at once; `None` where it would have to wait for room or be
    /// delayed, as [`Log::reserve`] does. It becomes durable as with [`Log::append`], or is waited for
    /// with [`Log::wait`].
    ///
    /// # Errors
    /// [`Error::RecordTooLong`]; [`Error::Stopped`].
    pub fn try_append(&self, kind: u8, flags: u8, body: &Bytes) -> Result<Option<Queued>, Error> {
        let header = self.header(kind, flags, body)?;
        self.0.try_queue(self.0.now(), header, body)
    }

    /// Waits until a record is durable, and writes for other committers when it is its turn: see
    /// [`Log::commit`].
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the log stops meanwhile.
    pub fn wait<'a>(&'a self, session: &'a Session, queued: Queued) -> Wait<'a> {
        let place = [0, queued.appended.end.0, 0];
        let sync = session.begin(WaitEvent::LOG_FILE_SYNC, place, queued.queued);
        let waiting = Waiting::new(&self.0, Arc::clone(&queued.unit));
        Wait { waiting, queued, sync: Some(sync) }
    }

    /// Appends a record and does not wait: it becomes durable with the next one that somebody
    /// waits for, or a few milliseconds later.
    ///
    /// # Errors
    /// [`Error::RecordTooLong`]; [`Error::Stopped`].
    #[boxed]
    pub async fn append(
        &self,
        session: &Session,
        kind: u8,
        flags: u8,
        body: Bytes,
    ) -> Result<Appended, Error> {
        let header = self.header(kind, flags, &body)?;
        let queued = self.0.queue(session, header, &body).await?;
        let (is_full, starts_timer) = self.0.with(|state| {
            // A closed unit is large enough; the rest waits for company.
            let is_full = !state.full.is_empty();
            (is_full, !std::mem::replace(&mut state.idle_timer, true))
        });
        if starts_timer {
            self.0.start_idle_timer();
        }
        if is_full {
            self.0.lead_for_others();
        }
        Ok(queued.appended)
    }

    /// Waits until everything below `lsn` is durable.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the log stops meanwhile; [`Error::BadValue`] when nothing
    /// was appended there yet.
    #[boxed]
    pub async fn wait_durable(&self, session: &Session, lsn: Lsn) -> Result<(), Error> {
        let Some(unit) = self.0.with(|state| state.unit_below(&self.0.sizes, lsn))? else {
            return Ok(());
        };
        let wait = session.begin(WaitEvent::LOG_FILE_SYNC, [0, lsn.0, 0], self.0.now());
        Waiting::new(&self.0, unit).await?;
        wait.end(self.0.now());
        Ok(())
    }
}
