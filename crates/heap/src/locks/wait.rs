//! The wait for a lock: for how long, and how it may end.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{EnvExt, SharedEnv};
use cellar_wait::{Event, Session};
use futures_util::future::{Either, select};

use super::{LockOutcome, Locks, Mode, Owner, Resource};

/// How long somebody waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTimeout {
    /// Not at all: NOWAIT, SKIP LOCKED.
    None,
    /// At most so long.
    Until(Duration),
    /// As long as it takes.
    Forever,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Others have it.
    #[error("{resource} is locked by transaction {}", holders.first().copied().unwrap_or_default())]
    Busy {
        /// What is locked.
        resource: Resource,
        /// Who holds it, or waits for it.
        holders: Vec<Owner>,
    },
    /// The wait timed out.
    #[error("{resource} was locked for longer than {timeout:?}")]
    TimedOut {
        /// What is locked.
        resource: Resource,
        /// How long the wait was.
        timeout: Duration,
    },
    /// The holder waits, directly or through others, for the one that asks.
    #[error("deadlock: {resource} is held by transaction {holder}, which waits for this one")]
    Deadlock {
        /// What is locked.
        resource: Resource,
        /// Who is in the way.
        holder: Owner,
    },
}

/// A place in the line, until it is dropped.
struct Place<'a> {
    locks: &'a Locks,
    owner: Owner,
    resource: Resource,
    /// It was held before, and is until the transaction ends.
    is_held: bool,
    is_left: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.locks.waiting().remove(&self.owner);
        // Whoever gives up the wait does not hold it either.
        let is_granted = !self.is_left && self.locks.leave(self.owner, self.resource);
        if is_granted && !self.is_held {
            self.locks.release(self.owner, self.resource);
        }
    }
}

impl Locks {
    /// Locks something for `owner`, who keeps it until [`Locks::release`].
    pub async fn acquire(
        self: &Arc<Self>,
        env: &SharedEnv,
        session: &Session,
        (owner, resource, mode): (Owner, Resource, Mode),
        timeout: LockTimeout,
    ) -> Result<(), LockError> {
        let (granted, is_held) = match self.ask(owner, resource, mode, timeout != LockTimeout::None)
        {
            LockOutcome::Granted => return Ok(()),
            LockOutcome::Busy(holders) => return Err(LockError::Busy { resource, holders }),
            LockOutcome::Waits { granted, is_held } => (granted, is_held),
        };
        let mut place = Place { locks: self, owner, resource, is_held, is_left: false };
        if let Some(holder) = self.leave_circle(owner, resource) {
            place.is_left = true;
            return Err(LockError::Deadlock { resource, holder });
        }
        let event = match resource {
            Resource::Table(_) => Event::ENQ_TM_CONTENTION,
            Resource::Row(..) | Resource::Key(..) | Resource::Advisory(..) => {
                Event::ENQ_TX_ROW_LOCK
            }
        };
        if let Resource::Row(object, _) | Resource::Key(object, _) = resource {
            self.statistics.count(object, |of| of.row_lock_waits += 1);
        }
        let wait = session.begin(event, parameters(resource, mode), env.now().0);
        let is_granted = match timeout {
            LockTimeout::Until(time) => match select(granted, env.sleep(time)).await {
                Either::Left((granted, _)) => granted.is_ok(),
                Either::Right(_) => self.leave(owner, resource),
            },
            _ => granted.await.is_ok(),
        };
        wait.end(env.now().0);
        place.is_left = true;
        match (is_granted, timeout) {
            (false, LockTimeout::Until(timeout)) => Err(LockError::TimedOut { resource, timeout }),
            _ => Ok(()),
        }
    }
}

/// What a wait shows: the mode, and what is locked.
fn parameters(resource: Resource, mode: Mode) -> [u64; 3] {
    let what = match resource {
        Resource::Table(table) => [u64::from(table), 0],
        Resource::Row(table, id) => {
            [u64::from(table), u64::from(id.page) << 16 | u64::from(id.slot)]
        }
        Resource::Key(index, hash) => [u64::from(index), hash],
        Resource::Advisory(is_pair, number) => [u64::from(is_pair), number],
    };
    [mode as u64, what[0], what[1]]
}
