//! Pacing and waiting for room in the ring: a committer is delayed a little where the ring is nearly
//! full, and queues where it is full.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::EnvExt;
use cellar_wait::{Event as WaitEvent, Session};

use crate::error::Error;
use crate::writer::log::Inner;
use crate::writer::state::{GroupAt, MustWait, State};

/// The share of the ring from which on commits are delayed.
const PACE_FROM: (u128, u128) = (4, 5);

impl Inner {
    /// Delays a committer where the ring is nearly full.
    async fn pace(self: &Arc<Self>, session: &Session) {
        let max = self.options.pace_max;
        let pace = |state: &mut State| {
            let pace = state.pace(max);
            state.paused += usize::from(pace.is_some());
            pace
        };
        let Some((delay, full)) = self.with(pace) else { return };
        let _pause = Pause(self);
        let before = self.now();
        let wait = session.begin(event_of(full), [0; 3], before);
        self.env.sleep(delay).await;
        let waited = Duration::from_nanos(wait.end(self.now()));
        self.with(|state| {
            state.stats.paced_commits += 1;
            state.stats.paced_time += waited;
        });
    }

    /// Takes room with `take`, which gets the caller's place in line, once there is some: delayed where
    /// the ring is nearly full, and in line where it is full.
    pub async fn in_turn<T>(
        self: &Arc<Self>,
        session: &Session,
        take: impl Fn(&mut State, Option<u64>) -> Result<T, MustWait> + Send + Sync,
    ) -> Result<T, Error> {
        self.pace(session).await;
        let mut turn = Turn { inner: self, number: None };
        let mut wait: Option<(MustWait, cellar_wait::Wait<'_>)> = None;
        loop {
            // Room may be made between the look and the wait: listen first, but not at first.
            let listener = turn.number.map(|_| self.room.listen());
            let placed = self.with(|state| match Inner::stopped(state) {
                Some(error) => Err(error),
                None => Ok(take(state, turn.number)),
            });
            let full = match placed {
                Err(error) => return Err(error),
                Ok(Ok(placed)) => {
                    if let Some((_, wait)) = wait {
                        wait.end(self.now());
                    }
                    return Ok(placed);
                }
                Ok(Err(full)) => full,
            };
            if wait.as_ref().is_none_or(|(before, _)| *before != full) {
                let now = self.now();
                if let Some((_, wait)) = wait.take() {
                    wait.end(now);
                }
                wait = Some((full, session.begin(event_of(full), [0; 3], now)));
            }
            match listener {
                Some(listener) => listener.await,
                None => turn.number = Some(self.with(State::stand_in_line)),
            }
        }
    }
}

fn event_of(full: MustWait) -> WaitEvent {
    match full {
        MustWait::Buffer => WaitEvent::LOG_BUFFER_SPACE,
        MustWait::Checkpoint => WaitEvent::LOG_FILE_SWITCH_CHECKPOINT_INCOMPLETE,
        MustWait::Archive => WaitEvent::LOG_FILE_SWITCH_ARCHIVING_NEEDED,
    }
}

/// A committer that is delayed, until it is dropped.
struct Pause<'a>(&'a Arc<Inner>);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.with(|state| state.paused -= 1);
    }
}

/// A committer's place in the line for room; it leaves when it goes.
struct Turn<'a> {
    inner: &'a Arc<Inner>,
    number: Option<u64>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.inner.with(|state| state.line.retain(|other| *other != number));
        self.inner.room.notify(usize::MAX);
    }
}

impl State {
    /// Blocks of the ring in use, and all its blocks. The written part of the current group always
    /// counts: it becomes free only after a switch.
    pub fn ring(&self) -> (u64, u64) {
        let current = &self.groups[self.current];
        let mut used = self.at.saturating_sub(current.first).min(current.capacity);
        for (place, group) in self.groups.iter().enumerate() {
            let behind = place != self.current && !self.next.contains(&place) && !group.dropped;
            if behind && group.sequence > 0 && self.owed(group).is_some() {
                used += group.capacity;
            }
        }
        let alive = self.groups.iter().filter(|group| !group.dropped);
        (used, alive.map(|group| group.capacity).sum())
    }

    /// Who needs a group that was written.
    fn owed(&self, group: &GroupAt) -> Option<MustWait> {
        if self.checkpoint < group.end() {
            return Some(MustWait::Checkpoint);
        }
        let owed = self.control.archiving && self.archived < group.sequence;
        owed.then_some(MustWait::Archive)
    }

    /// How long a committer is delayed, and for whom. The delay grows with the square of the use above 80
    /// %: hardly noticeable at first, and the whole of `max` where nothing is left.
    pub fn pace(&self, max: Duration) -> Option<(Duration, MustWait)> {
        if max.is_zero() || self.poisoned.is_some() {
            return None;
        }
        let (used, all) = self.ring();
        let (used, all) = (u128::from(used), u128::from(all));
        let (from, of) = PACE_FROM;
        let over = (used * of).checked_sub(all * from).filter(|over| *over > 0)?;
        let whole = all * (of - from);
        let delay = max.as_nanos() * over * over / (whole * whole);
        let oldest = self.groups.iter().filter(|group| group.sequence > 0 && !group.dropped);
        let oldest = oldest.min_by_key(|group| group.sequence)?;
        let full = self.owed(oldest).unwrap_or(MustWait::Checkpoint);
        Some((Duration::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX)), full))
    }

    fn stand_in_line(&mut self) -> u64 {
        let number = self.next_in_line;
        self.next_in_line += 1;
        self.line.push_back(number);
        self.stats.redo_buffer_allocation_retries += 1;
        number
    }
}
