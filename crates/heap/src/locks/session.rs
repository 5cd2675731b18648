//! Advisory locks: a session holds them beside the locks of its transactions, as often as it has asked.

use std::collections::HashMap;
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_wait::Session;

use super::{Held, LockError, LockTimeout, Locks, Mode, Owner, Resource};

/// How often a session holds one.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Until it lets go: alone, and with others.
    session: [u64; 2],
    /// Until its transaction ends.
    transaction: [u64; 2],
}

impl Count {
    fn is_none(&self) -> bool {
        self.session == [0; 2] && self.transaction == [0; 2]
    }
}

/// The locks of a session: they are released when this is dropped.
pub struct SessionLocks {
    locks: Arc<Locks>,
    env: SharedEnv,
    session: Session,
    held: Held,
    counts: HashMap<Resource, Count>,
}

impl std::fmt::Debug for SessionLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionLocks({})", self.counts.len())
    }
}

impl SessionLocks {
    pub(crate) fn new(locks: &Arc<Locks>, env: SharedEnv, session: Session, owner: Owner) -> Self {
        let held = Held::new(Arc::clone(locks), owner);
        SessionLocks { locks: Arc::clone(locks), env, session, held, counts: HashMap::new() }
    }

    /// The transaction of the session: those who hold these locks wait for what it waits for.
    pub fn join(&self, transaction: Option<Owner>) {
        self.locks.join(self.held.owner(), transaction);
    }

    /// Locks a number, or a pair of them. `is_shared`: others may too. `in_transaction`: until that ends.
    ///
    /// # Errors
    /// Others have it; a deadlock.
    pub async fn lock(
        &mut self,
        what: (bool, u64),
        (is_shared, in_transaction): (bool, bool),
        timeout: LockTimeout,
    ) -> Result<(), LockError> {
        let resource = Resource::Advisory(what.0, what.1);
        let mode = if is_shared { Mode::Share } else { Mode::Exclusive };
        if !self.held.has(&resource, mode) {
            let wanted = (self.held.owner(), resource, mode);
            self.locks.acquire(&self.env, &self.session, wanted, timeout).await?;
            self.held.add(resource, mode);
        }
        let count = self.counts.entry(resource).or_default();
        let counts = if in_transaction { &mut count.transaction } else { &mut count.session };
        counts[usize::from(is_shared)] += 1;
        Ok(())
    }

    /// Releases one lock of the session; whether it was held. A lock held in both modes is released with the
    /// last.
    pub fn unlock(&mut self, what: (bool, u64), is_shared: bool) -> bool {
        let resource = Resource::Advisory(what.0, what.1);
        let Some(count) = self.counts.get_mut(&resource) else { return false };
        let count = &mut count.session[usize::from(is_shared)];
        let has = *count > 0;
        *count -= u64::from(has);
        self.release_unneeded();
        has
    }

    /// Releases all that the session holds.
    pub fn unlock_all(&mut self) {
        self.counts.values_mut().for_each(|count| count.session = [0; 2]);
        self.release_unneeded();
    }

    /// The transaction has ended.
    pub fn end_transaction(&mut self) {
        self.counts.values_mut().for_each(|count| count.transaction = [0; 2]);
        self.release_unneeded();
        self.join(None);
    }

    fn release_unneeded(&mut self) {
        let Self { counts, held, .. } = self;
        counts.retain(|resource, count| {
            if count.is_none() {
                held.release(*resource);
            }
            !count.is_none()
        });
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.join(None);
    }
}
